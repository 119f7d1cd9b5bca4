//! HTTP messages as the hooks see them: heads kept in order and case, bodies whole.

use serde_json::json;

/// A request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The verb.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers in order.
    pub headers: Vec<(String, String)>,
    /// The body, decoded.
    pub body: Vec<u8>,
    /// An answer in the server's stead.
    pub answer: Option<Response>,
}

/// A response.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Headers in order.
    pub headers: Vec<(String, String)>,
    /// The body, decoded.
    pub body: Vec<u8>,
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

fn remove(headers: &mut Vec<(String, String)>, name: &str) {
    headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
}

impl Request {
    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Takes a header out.
    pub fn without(&mut self, name: &str) {
        remove(&mut self.headers, name);
    }

    /// Puts a header in the place of others of its name.
    pub fn set(&mut self, name: &str, value: &str) {
        self.without(name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    /// The path without its query.
    pub fn place(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// Whether the path ends so, and the verb is this one.
    pub fn is(&self, method: &str, end: &str) -> bool {
        self.method == method && self.place().ends_with(end)
    }

    /// The session that the path names.
    pub fn session(&self) -> String {
        self.place().split('/').nth(3).unwrap_or_default().to_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Answers with an error.
    pub fn refuse(&mut self, status: u16, code: &str) {
        self.answer = Some(Response::error(status, code));
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            if !name.eq_ignore_ascii_case("content-length") && !name.eq_ignore_ascii_case("transfer-encoding") {
                text += &format!("{name}: {value}\r\n");
            }
        }
        if !self.body.is_empty() || self.header("content-length").is_some() {
            text += &format!("Content-Length: {}\r\n", self.body.len());
        }
        [text.as_bytes(), b"\r\n", &self.body].concat()
    }
}

impl Response {
    /// An error in the shape of C03.
    pub fn error(status: u16, code: &str) -> Self {
        let body = json!({"error": {"code": code, "message": code}}).to_string().into_bytes();
        Self { status, headers: vec![("content-type".into(), "application/json".into())], body }
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Takes a header out.
    pub fn without(&mut self, name: &str) {
        remove(&mut self.headers, name);
    }

    /// Puts a header in the place of others of its name.
    pub fn set(&mut self, name: &str, value: &str) {
        self.without(name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    /// Changes the body, where it is JSON.
    pub fn edit(&mut self, change: impl FnOnce(&mut serde_json::Value)) {
        if let Ok(mut value) = serde_json::from_slice(&self.body) {
            change(&mut value);
            self.body = value.to_string().into_bytes();
        }
    }

    /// The head alone, the body's length told.
    pub(super) fn encode_head(&self, length: bool) -> Vec<u8> {
        let mut text = format!("HTTP/1.1 {} As It Is\r\n", self.status);
        for (name, value) in &self.headers {
            let of_body = name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding");
            if !(of_body && length) {
                text += &format!("{name}: {value}\r\n");
            }
        }
        if length && self.status != 204 && self.status != 304 {
            text += &format!("content-length: {}\r\n", self.body.len());
        }
        text += "\r\n";
        text.into_bytes()
    }
}

/// A head at the front of a buffer, and its length; `None` while it is not whole.
pub(super) fn request_head(buffer: &[u8]) -> Result<Option<(Request, usize)>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(used) = parsed.parse(buffer)? else { return Ok(None) };
    if parsed.version != Some(1) {
        return Err(httparse::Error::Version);
    }
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let request = Request {
        method: text(parsed.method),
        path: text(parsed.path),
        headers: owned(parsed.headers),
        ..Request::default()
    };
    Ok(Some((request, used)))
}

/// The same of a response.
pub(super) fn response_head(buffer: &[u8]) -> Result<Option<(Response, usize)>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(used) = parsed.parse(buffer)? else { return Ok(None) };
    let response = Response { status: parsed.code.unwrap_or(0), headers: owned(parsed.headers), body: Vec::new() };
    Ok(Some((response, used)))
}

fn owned(headers: &[httparse::Header<'_>]) -> Vec<(String, String)> {
    headers.iter().map(|one| (one.name.to_owned(), String::from_utf8_lossy(one.value).into_owned())).collect()
}

/// A chunk at the front of a buffer, and the bytes that it takes; `None` while it is not whole.
pub(super) fn chunk(buffer: &[u8]) -> Result<Option<(Vec<u8>, usize)>, httparse::InvalidChunkSize> {
    let httparse::Status::Complete((start, length)) = httparse::parse_chunk_size(buffer)? else { return Ok(None) };
    let length = usize::try_from(length).map_err(|_| httparse::InvalidChunkSize)?;
    let Some(end) = start.checked_add(length).filter(|end| buffer.len() >= end + 2) else { return Ok(None) };
    Ok(Some((buffer.get(start..end).unwrap_or_default().to_vec(), end + 2)))
}
