//! Bodies and queries, bounded in bytes and in time. Nothing is acted on before all of it is here. Clauses: H03, H27, C05.

use crate::config::HttpLimits;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::Body;
use http_body_util::BodyExt;
use percent_encoding::percent_decode;
use std::borrow::Cow;
use triplane_protocol::{ErrorCode, Failure, rest::Pair};

/// Reads a body to its end, whatever its `Content-Type`.
///
/// Errors: `unsupported_media` for a coding; `too_large` as soon as that is known; `timeout`; `invalid_params` when it was cut off.
pub(crate) async fn body<B>(headers: &HeaderMap, body: B, limits: &HttpLimits) -> Result<Bytes, Failure>
where
    B: Body<Data = Bytes> + Unpin,
{
    if let Some(coding) = headers.get(header::CONTENT_ENCODING)
        && !coding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(Failure::new(ErrorCode::UnsupportedMedia, "send the body without a Content-Encoding"));
    }
    let too_large = || Failure::new(ErrorCode::TooLarge, format!("a body has at most {} bytes", limits.body_bytes));
    if usize::try_from(body.size_hint().lower()).is_ok_and(|bytes| bytes > limits.body_bytes) {
        return Err(too_large());
    }
    let read = tokio::time::timeout(limits.body_timeout, collect(body, limits.body_bytes)).await;
    match read {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => Err(too_large()),
        Ok(Err(_)) => Err(Failure::new(ErrorCode::InvalidParams, "the body ended before its length")),
        Err(_) => Err(Failure::new(ErrorCode::Timeout, format!("a body has {:?} to arrive", limits.body_timeout))),
    }
}

/// `None` when it is over `cap`; what is past it is not read.
async fn collect<B>(mut body: B, cap: usize) -> Result<Option<Bytes>, B::Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut first: Option<Bytes> = None;
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let so_far = all.len().max(first.as_ref().map_or(0, Bytes::len));
        if so_far.saturating_add(data.len()) > cap {
            return Ok(None);
        }
        // Most bodies come in one piece, and are handed on without a copy.
        match first.take() {
            None if all.is_empty() => first = Some(data),
            None => all.extend_from_slice(&data),
            Some(piece) => {
                all.extend_from_slice(&piece);
                all.extend_from_slice(&data);
            }
        }
    }
    Ok(Some(first.unwrap_or_else(|| all.freeze())))
}

/// A query's names and values with their escapes undone. Errors: `invalid_params` for bytes that are not UTF-8.
pub(crate) fn query(text: Option<&str>) -> Result<Vec<Pair<'static>>, Failure> {
    let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((Cow::Owned(unescape(name)?), Cow::Owned(unescape(value)?)))
        })
        .collect()
}

fn unescape(text: &str) -> Result<String, Failure> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode(spaced.as_bytes()).decode_utf8().map(Cow::into_owned);
    decoded.map_err(|_| Failure::new(ErrorCode::InvalidParams, "the query is not UTF-8"))
}

/// Headers by name, for rows that read some. Bytes that are no text become a text that no field takes.
pub(crate) fn headers(map: &HeaderMap) -> Vec<Pair<'static>> {
    map.iter()
        .map(|(name, value)| {
            (Cow::Owned(name.as_str().to_owned()), Cow::Owned(String::from_utf8_lossy(value.as_bytes()).into_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let told = |text| {
            let pairs = query(Some(text)).map_err(|failure| failure.message)?;
            Ok::<_, String>(pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>())
        };
        assert_eq!(
            told("a=1&b=x%20y+z&&c&%64=%26"),
            Ok(vec!["a=1".into(), "b=x y z".into(), "c=".into(), "d=&".into()])
        );
        assert_eq!(told("a=%ff"), Err("the query is not UTF-8".into()));
        assert_eq!(told("a=%f"), Ok(vec!["a=%f".into()]));
        assert!(query(None).unwrap().is_empty());
    }
}
