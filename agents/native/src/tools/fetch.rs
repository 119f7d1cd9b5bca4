//! `fetch`: a page of the web as text.
//! Invariants: every address that a name leads to is looked at before anything is sent, for each hop of a redirect too, and what was
//! looked at is what is connected to; bounded in size and in time. No proxy is used, for it would look names up itself.

use super::{
    Builtin, CANCELLED, Desk, Outcome, Prepared,
    html::{self, clean},
    text::{clip, title},
};
use reqwest::{
    Client, Response, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{ACCEPT, CONTENT_TYPE, LOCATION},
    redirect::Policy,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use triplane_core::session::ToolKind;
use triplane_protocol::CallId;

/// For all of it.
const TIME: Duration = Duration::from_secs(30);
/// Bytes of a page that are read.
const PAGE_BYTES: usize = 4 << 20;
/// Bytes of text that the model is told.
const TEXT_BYTES: usize = 64 << 10;
/// Redirects that are followed.
const HOPS: usize = 5;
/// The longest address.
const URL_BYTES: usize = 4096;

/// Input of `fetch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fetch {
    /// The address, with `http://` or `https://`.
    url: String,
}

impl Builtin for Fetch {
    const NAME: &'static str = "fetch";
    const DESCRIPTION: &'static str = "Gets a page of the web and answers it as text. The person is asked first.";

    fn prepare(self, desk: &Desk, _call: &CallId) -> Result<Prepared, String> {
        if self.url.len() > URL_BYTES {
            return Err(format!("url: must have at most {URL_BYTES} bytes"));
        }
        let url = Url::parse(&self.url)
            .map_err(|err| format!("url: {err}; it must be whole, as https://example.org/page"))?;
        let allowed: Allowed = if desk.config.fetch_private { |_| true } else { is_public };
        check(&url, allowed).map_err(|why| format!("url: {why}"))?;
        let cancel = desk.cancel.clone();
        Ok(Prepared {
            kind: ToolKind::Fetch,
            title: title("fetch", url.as_str()),
            subject: url.to_string(),
            outside: false,
            changes: None,
            hold: None,
            work: Box::pin(async move {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => Outcome::failed(CANCELLED),
                    got = tokio::time::timeout(TIME, get(url, allowed)) => match got {
                        Ok(got) => Outcome::of(got),
                        Err(_) => Outcome::failed(format!("no answer within {} s", TIME.as_secs())),
                    },
                }
            }),
        })
    }
}

/// Which addresses may be connected to.
type Allowed = fn(IpAddr) -> bool;

/// Whether an address is one of the open Internet.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && b & 0xC0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && b & 0xFE == 18);
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let s = ip.segments();
    let tail = || {
        let [.., a, b] = s;
        let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match s {
        // Those that stand for an IPv4 address: mapped, compatible, and translated.
        [0, 0, 0, 0, 0, 0xFFFF | 0, ..] | [0x64, 0xFF9B, 0, 0, 0, 0, ..] => is_public_v4(tail()),
        [0x2002, a, b, ..] => {
            let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Only 2000::/3 is handed out; of that, not documentation and Teredo.
        [0x2001, 0xDB8 | 0, ..] => false,
        [first, ..] => first & 0xE000 == 0x2000,
    }
}

/// What can be told from the address alone.
fn check(url: &Url, allowed: Allowed) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{}:` is not fetched, only http and https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not have a user name or a password in it".to_owned());
    }
    let host = url.host_str().ok_or("has no host")?;
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) if !allowed(ip) => Err(refused(host)),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn refused(host: &str) -> String {
    format!(
        "{host} is an address of this machine or of a private network; those are only fetched when the settings allow it"
    )
}

/// Looks names up, and refuses those that lead where they must not.
struct Lookup(Allowed);

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if found.iter().any(|address| !allowed(address.ip())) {
                return Err(refused(name.as_str()).into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

async fn get(mut url: Url, allowed: Allowed) -> Result<String, String> {
    let client = tokio::task::spawn_blocking(move || client(allowed)).await.map_err(|err| err.to_string())??;
    for _ in 0..=HOPS {
        let response =
            client.get(url.clone()).header(ACCEPT, "text/html, text/plain, application/json, */*;q=0.5").send();
        let response = response.await.map_err(|err| why(&err))?;
        let to = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
        let Some(to) = to else { return text(response).await };
        let to = to.to_str().map_err(|_| "a redirect to an address that is not text".to_owned())?;
        url = url.join(to).map_err(|err| format!("a redirect to a bad address: {err}"))?;
        check(&url, allowed).map_err(|why| format!("a redirect that is not followed: {why}"))?;
    }
    Err(format!("more than {HOPS} redirects"))
}

fn client(allowed: Allowed) -> Result<Client, String> {
    // An error means that there is one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder().no_proxy().redirect(Policy::none()).dns_resolver(Arc::new(Lookup(allowed)));
    let builder = builder.user_agent(concat!("triplane/", env!("CARGO_PKG_VERSION")));
    builder.build().map_err(|err| format!("no TLS here: {err}"))
}

/// An error with its causes: the outermost alone says little.
fn why(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut at: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(cause) = at {
        text.push_str(&format!(": {cause}"));
        at = cause.source();
    }
    text
}

async fn text(mut response: Response) -> Result<String, String> {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or("text/plain").to_ascii_lowercase();
    let mut bytes = Vec::new();
    let mut more = false;
    while let Some(chunk) = response.chunk().await.map_err(|err| why(&err))? {
        let room = PAGE_BYTES - bytes.len();
        bytes.extend_from_slice(chunk.get(..chunk.len().min(room)).unwrap_or_default());
        if chunk.len() > room {
            more = true;
            break;
        }
    }
    if bytes.contains(&0) {
        return Err(format!("{status}: not text ({kind}, {} bytes)", bytes.len()));
    }
    let page = String::from_utf8_lossy(&bytes);
    let whole = if kind.contains("html") { html::to_text(&page) } else { clean(&page) };
    let kept = clip(&whole, TEXT_BYTES);
    let mut told = kept.to_owned();
    let cut = whole.len() - kept.len();
    if cut > 0 || more {
        let beyond = if more { " and what lies behind the first 4 MiB" } else { "" };
        told.push_str(&format!("\n[… {cut} bytes{beyond} cut …]"));
    }
    if told.trim().is_empty() {
        told = "(the page has no text)".to_owned();
    }
    if status.is_success() { Ok(told) } else { Err(format!("{status}\n{told}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn only_the_open_internet_is_public() {
        for ip in ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"] {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "198.19.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "203.0.113.1",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
            "2002:a00:1::",
            "2001:db8::1",
            "2001::1",
            "fec0::1",
            "100::1",
        ] {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn addresses_that_are_not_fetched_say_why() {
        for (url, said) in [
            ("file:///etc/passwd", "only http and https"),
            ("http://u:p@example.org/", "password"),
            ("http://127.0.0.1/", "private network"),
            ("http://[::1]:80/", "private network"),
            ("http://0x7f.1/", "private network"),
            ("http://2130706433/", "private network"),
        ] {
            let error = check(&Url::parse(url).unwrap(), is_public).unwrap_err();
            assert!(error.contains(said), "{url}: {error}");
        }
        check(&Url::parse("https://example.org/").unwrap(), is_public).unwrap();
    }

    /// Answers each connection with what `answer` makes of the path.
    async fn server(answer: fn(&str) -> String) -> u16 {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut bytes = vec![0; 4096];
                let read = socket.read(&mut bytes).await.unwrap();
                let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default();
                let _ = socket.write_all(answer(path).as_bytes()).await;
            }
        });
        port
    }

    fn page(head: &str, body: &str) -> String {
        format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn a_page_is_text_a_hop_is_checked_and_a_large_one_is_cut() {
        let port = server(|path| match path {
            "/page" => {
                page("200 OK\r\ncontent-type: text/html", "<title>T</title><p>a &amp; b<script>no</script></p><p>c")
            }
            "/hop" => page("302 Found\r\nlocation: /page", ""),
            "/away" => page("302 Found\r\nlocation: http://127.0.0.2/", ""),
            "/loop" => page("302 Found\r\nlocation: /loop", ""),
            "/large" => page("200 OK", &"x".repeat(PAGE_BYTES + 10)),
            "/data" => page("200 OK", "a\0b"),
            _ => page("404 Not Found", "gone"),
        })
        .await;
        let only: Allowed = |ip| ip == IpAddr::V4(Ipv4Addr::LOCALHOST);
        let get = |path: &str| get(Url::parse(&format!("http://127.0.0.1:{port}{path}")).unwrap(), only);
        assert_eq!(get("/page").await.unwrap(), "T\na & b\nc");
        assert_eq!(get("/hop").await.unwrap(), "T\na & b\nc");
        assert!(get("/away").await.unwrap_err().contains("a redirect that is not followed: 127.0.0.2"));
        assert!(get("/loop").await.unwrap_err().contains("redirects"));
        let large = get("/large").await.unwrap();
        assert!(large.len() < TEXT_BYTES + 100 && large.ends_with("behind the first 4 MiB cut …]"), "{}", large.len());
        assert!(get("/data").await.unwrap_err().contains("not text"));
        assert_eq!(get("/other").await.unwrap_err(), "404 Not Found\ngone");
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_refused() {
        let error = get(Url::parse("http://localhost:1/").unwrap(), is_public).await.unwrap_err();
        assert!(error.contains("localhost is an address of this machine"), "{error}");
    }
}
