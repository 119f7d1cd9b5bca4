//! Addresses as people give them, and what a target is made of: `ws://127.0.0.1:4100/?token=…`, `http://localhost:4096`.
//! A token in the query is taken out of it, so that it is shown nowhere.

use super::Target;
use std::net::{SocketAddr, ToSocketAddrs};
use tokio_tungstenite::tungstenite::http::Uri;

/// A lich server. Errors: what is wrong with the address, in one line.
pub fn ws(url: &str, token: Option<String>) -> Result<Target, String> {
    let uri = read(url, "ws")?;
    let (query, found) = split_token(uri.query().unwrap_or_default());
    let path = if query.is_empty() { uri.path().to_owned() } else { format!("{}?{query}", uri.path()) };
    Ok(Target::Ws { addr: resolve(&uri, url)?, path, token: token.or(found).unwrap_or_default() })
}

/// A larik server. Errors: what is wrong with the address, in one line.
pub fn http(url: &str, token: Option<String>) -> Result<Target, String> {
    let uri = read(url, "http")?;
    if !matches!(uri.path(), "" | "/") {
        return Err(format!("{}: the address is that of the server, without a path", uri.path()));
    }
    let (_, found) = split_token(uri.query().unwrap_or_default());
    Ok(Target::Http { addr: resolve(&uri, url)?, token: token.or(found).unwrap_or_default() })
}

fn read(url: &str, scheme: &str) -> Result<Uri, String> {
    let shown = url.split('?').next().unwrap_or(url);
    let uri: Uri = url.parse().map_err(|error| format!("{shown}: no address: {error}"))?;
    match uri.scheme_str() {
        Some(found) if found == scheme => Ok(uri),
        Some("wss" | "https") => Err(format!("{shown}: TLS is not spoken here; put a relay in front of the server")),
        _ => Err(format!("{shown}: must begin with {scheme}://")),
    }
}

/// The query without its token, and the token.
fn split_token(query: &str) -> (String, Option<String>) {
    let (tokens, rest): (Vec<&str>, Vec<&str>) =
        query.split('&').filter(|part| !part.is_empty()).partition(|part| part.starts_with("token="));
    (rest.join("&"), tokens.first().and_then(|part| part.split_once('=')).map(|(_, token)| token.to_owned()))
}

fn resolve(uri: &Uri, url: &str) -> Result<SocketAddr, String> {
    let shown = url.split('?').next().unwrap_or(url);
    let host = uri.host().ok_or_else(|| format!("{shown}: no host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = (host, uri.port_u16().unwrap_or(80)).to_socket_addrs();
    let mut found = found.map_err(|error| format!("{host}: {error}"))?.collect::<Vec<_>>();
    // `localhost` is both; servers of these wires listen on the older one unless told otherwise.
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| format!("{host}: no such host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(target: Result<Target, String>) -> String {
        match target {
            Ok(Target::Ws { addr, path, token }) => format!("{addr} {path} {token}"),
            Ok(Target::Http { addr, token }) => format!("{addr} {token}"),
            Ok(other) => format!("{other:?}"),
            Err(what) => what,
        }
    }

    #[test]
    fn addresses_are_read_and_tokens_taken_out() {
        let rows = [
            (told(ws("ws://127.0.0.1:4100", None)), "127.0.0.1:4100 / "),
            (told(ws("ws://127.0.0.1:4100/a?x=1&token=t&y=2", None)), "127.0.0.1:4100 /a?x=1&y=2 t"),
            (told(ws("ws://localhost:4100/?token=t", Some("u".into()))), "127.0.0.1:4100 / u"),
            (told(http("http://[::1]:4096/", Some("t".into()))), "[::1]:4096 t"),
            (
                told(http("https://h:1", None)),
                "https://h:1: TLS is not spoken here; put a relay in front of the server",
            ),
            (told(http("ws://h:1?token=t", None)), "ws://h:1: must begin with http://"),
            (told(http("http://127.0.0.1:1/v1", None)), "/v1: the address is that of the server, without a path"),
        ];
        for (got, want) in rows {
            assert_eq!(got, want);
        }
    }

    #[test]
    fn a_target_is_shown_without_its_token() {
        let target = ws("ws://127.0.0.1:4100/a?x=1&token=secret", None).unwrap();
        assert_eq!(target.to_string(), "ws://127.0.0.1:4100/a");
    }
}
