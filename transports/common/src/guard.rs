//! Host and Origin: whether a request may come in at all, before its token is looked at.
//! Pure functions over header values: names are parsed and compared whole, never by prefix or suffix, so that a page that was
//! rebound to a loopback address is told from a client that meant it. Origin never grants anything; the token still decides.
//! Clauses: C06, H26, H28, L22.

use http::{HeaderMap, HeaderName, Uri, header};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};
use triplane_protocol::{ErrorCode, Failure};

/// Why a request is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// No `Host`, or more than one.
    #[error("a request needs exactly one Host header")]
    BadRequest,
    /// The `Host`, or the target's own authority, is not a loopback name.
    #[error("this server answers to loopback names only (localhost, 127.0.0.1, [::1])")]
    ForbiddenHost,
    /// The `Origin` is neither loopback nor allowed.
    #[error("this Origin is not allowed; start the server with --allow-origin to let it in")]
    ForbiddenOrigin,
}

impl GuardError {
    /// The HTTP status.
    pub const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::ForbiddenHost | Self::ForbiddenOrigin => 403,
        }
    }
}

impl From<GuardError> for Failure {
    fn from(err: GuardError) -> Self {
        let code = match err {
            GuardError::BadRequest => ErrorCode::InvalidParams,
            GuardError::ForbiddenHost | GuardError::ForbiddenOrigin => ErrorCode::Forbidden,
        };
        Self::new(code, err.to_string())
    }
}

/// Who may come in.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Lifts the Host check (`--allow-remote`); exactly one Host is still asked for.
    pub allow_remote: bool,
    /// Origins beside loopback (`--allow-origin`).
    pub allow_origins: Vec<WebOrigin>,
}

impl Guard {
    /// Host, then Origin. Returns the http(s) origin that was let in, for CORS; `None` when there is none to answer to.
    pub fn check(&self, headers: &HeaderMap, target: &Uri) -> Result<Option<AllowedOrigin>, GuardError> {
        check_host(&values(headers, &header::HOST), target, self.allow_remote)?;
        check_origin(&values(headers, &header::ORIGIN), &self.allow_origins)
    }
}

fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a [u8]> {
    headers.get_all(name).iter().map(http::HeaderValue::as_bytes).collect()
}

/// Whether the request was meant for a loopback name. An absolute-form target is judged as well: its authority is what other
/// servers would go by. `allow_remote` lifts the names, not the count.
pub fn check_host(hosts: &[&[u8]], target: &Uri, allow_remote: bool) -> Result<(), GuardError> {
    let [host] = hosts else { return Err(GuardError::BadRequest) };
    if allow_remote {
        return Ok(());
    }
    let named = std::str::from_utf8(host).ok().and_then(Authority::parse);
    let aimed = target.authority().map(|authority| Authority::parse(authority.as_str()));
    match (named, aimed) {
        (Some(host), None) if host.is_loopback() => Ok(()),
        (Some(host), Some(Some(target))) if host.is_loopback() && target.is_loopback() => Ok(()),
        _ => Err(GuardError::ForbiddenHost),
    }
}

/// An http(s) origin that was let in: its text, as it came, for `Access-Control-Allow-Origin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedOrigin(String);

impl AllowedOrigin {
    /// As the browser wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether the page that sent this may. No Origin, `null` and schemes other than http(s) pass.
pub fn check_origin(origins: &[&[u8]], allowed: &[WebOrigin]) -> Result<Option<AllowedOrigin>, GuardError> {
    let origin = match origins {
        [] => return Ok(None),
        [origin] => std::str::from_utf8(origin).map_err(|_| GuardError::ForbiddenOrigin)?,
        _ => return Err(GuardError::ForbiddenOrigin),
    };
    if origin == "null" {
        return Ok(None);
    }
    let scheme = origin.split_once(':').map(|(scheme, _)| scheme).filter(|scheme| is_scheme(scheme));
    match scheme {
        None => Err(GuardError::ForbiddenOrigin),
        Some(scheme) if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") => {
            let parsed: WebOrigin = origin.parse().map_err(|_| GuardError::ForbiddenOrigin)?;
            if parsed.host.is_loopback() || allowed.contains(&parsed) {
                Ok(Some(AllowedOrigin(origin.to_owned())))
            } else {
                Err(GuardError::ForbiddenOrigin)
            }
        }
        Some(_) => Ok(None),
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

/// Whether a server that binds `host` (a name or an address, without a port) can be reached from this machine only.
pub fn is_loopback_bind(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.parse::<IpAddr>().map_or_else(|_| bare.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback())
}

/// An http(s) origin: scheme, host and port, compared whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebOrigin {
    secure: bool,
    host: Host,
    port: u16,
}

impl std::str::FromStr for WebOrigin {
    type Err = &'static str;

    /// `scheme://host[:port]`, nothing else; the error is one line for the command line.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "an origin is http://host[:port] or https://host[:port]";
        let (scheme, rest) = text.split_once("://").ok_or(WRONG)?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(WRONG),
        };
        let Authority { host, port } = Authority::parse(rest).ok_or(WRONG)?;
        Ok(Self { secure, host, port: port.unwrap_or(if secure { 443 } else { 80 }) })
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        match &self.host {
            Host::Name(name) => write!(f, "{scheme}://{name}:{}", self.port),
            Host::V4(ip) => write!(f, "{scheme}://{ip}:{}", self.port),
            Host::V6(ip) => write!(f, "{scheme}://[{ip}]:{}", self.port),
        }
    }
}

/// `host[:port]`.
struct Authority {
    host: Host,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
    /// Lower case, without the root's dot.
    Name(String),
}

impl Host {
    /// Mapped IPv4 (`::ffff:127.0.0.1`) is not: no browser writes it, and proxies differ on it.
    fn is_loopback(&self) -> bool {
        match self {
            Self::V4(ip) => ip.is_loopback(),
            Self::V6(ip) => ip.is_loopback(),
            Self::Name(name) => name == "localhost",
        }
    }
}

impl Authority {
    /// `None` for everything that is not exactly a host and, maybe, a port: userinfo, fragments, spaces, unbracketed IPv6.
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (ip, port) = rest.split_once(']')?;
            (Host::V6(ip.parse().ok()?), port)
        } else {
            let end = text.find(':').unwrap_or(text.len());
            let (name, port) = text.split_at(end);
            (parse_name(name)?, port)
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            None => return None,
            // A sign or an empty port would be taken by some and refused by others.
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
        };
        Some(Self { host, port })
    }

    fn is_loopback(&self) -> bool {
        self.host.is_loopback()
    }
}

fn parse_name(text: &str) -> Option<Host> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.is_empty() || !name.bytes().all(plain) {
        return None;
    }
    Some(name.parse().map_or_else(|_| Host::Name(name.to_ascii_lowercase()), Host::V4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Result<(), u16> {
        check_host(&[text.as_bytes()], &Uri::from_static("/"), false).map_err(GuardError::status)
    }

    #[test]
    fn loopback_hosts_pass() {
        for good in [
            "127.0.0.1:4096",
            "127.0.0.1",
            "127.0.0.2:1",
            "localhost",
            "localhost:65535",
            "LOCALHOST:1",
            "LocalHost",
            "localhost.:80",
            "localhost.",
            "[::1]:4096",
            "[::1]",
            "[0:0:0:0:0:0:0:1]",
        ] {
            assert_eq!(host(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn all_other_hosts_are_forbidden() {
        for bad in [
            "",
            " ",
            ".",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.evil.example",
            "evil.example#localhost",
            "localhost#evil.example",
            "localhost@evil.example",
            "evil.example@localhost",
            "user:pw@127.0.0.1",
            "evil.example:80@localhost",
            "[::1].evil.example",
            "[::1]evil",
            "[::1",
            "::1",
            "::1:80",
            "[::ffff:127.0.0.1]",
            "[::]",
            "[::1%25lo]",
            "[127.0.0.1]",
            "0.0.0.0",
            "0",
            "127.1",
            "127.0.0.1:abc",
            "127.0.0.1:",
            "127.0.0.1:+80",
            "127.0.0.1:80:80",
            "127.0.0.1:65536",
            "127.0.0.1:99999999999999999999",
            "127.0.0.01",
            "0177.0.0.1",
            "0x7f.0.0.1",
            "2130706433",
            "localhost..",
            "localhost/",
            "localhost/evil",
            "localhost, evil.example",
            "localhost evil.example",
            "local%68ost",
            "ｌocalhost",
            "sub.localhost",
            "192.168.0.1",
            "http://localhost",
        ] {
            assert_eq!(host(bad), Err(403), "{bad:?}");
        }
        assert_eq!(
            check_host(&[&[0xff, 0xfe]], &Uri::from_static("/"), false),
            Err(GuardError::ForbiddenHost),
            "not UTF-8"
        );
    }

    #[test]
    fn exactly_one_host_is_asked_for_even_of_remote_clients() {
        let target = Uri::from_static("/");
        for remote in [false, true] {
            assert_eq!(check_host(&[], &target, remote), Err(GuardError::BadRequest));
            assert_eq!(check_host(&[b"localhost", b"localhost"], &target, remote), Err(GuardError::BadRequest));
        }
        assert_eq!(check_host(&[b"evil.example"], &target, true), Ok(()));
    }

    #[test]
    fn an_absolute_target_is_judged_too() {
        let check = |host: &str, target: &'static str| check_host(&[host.as_bytes()], &Uri::from_static(target), false);
        assert_eq!(check("localhost", "http://127.0.0.1:1/v1"), Ok(()));
        assert_eq!(check("localhost", "http://evil.example/v1"), Err(GuardError::ForbiddenHost));
        assert_eq!(check("evil.example", "http://localhost/v1"), Err(GuardError::ForbiddenHost));
        assert_eq!(check("localhost", "http://u@localhost/v1"), Err(GuardError::ForbiddenHost));
        assert_eq!(check("localhost", "evil.example:80"), Err(GuardError::ForbiddenHost), "authority form");
    }

    fn origin(text: &str) -> Result<Option<String>, u16> {
        let allowed = ["https://app.example".parse().unwrap(), "http://[2001:db8::1]:8080".parse().unwrap()];
        let checked = check_origin(&[text.as_bytes()], &allowed);
        checked.map(|o| o.map(|o| o.as_str().to_owned())).map_err(GuardError::status)
    }

    #[test]
    fn web_origins_must_be_loopback_or_named() {
        for good in [
            "http://localhost:5173",
            "http://localhost",
            "https://LOCALHOST",
            "HTTP://127.0.0.1:1",
            "http://[::1]:3000",
            "https://app.example",
            "https://app.example:443",
            "https://APP.example",
            "http://[2001:db8::1]:8080",
        ] {
            assert_eq!(origin(good), Ok(Some(good.to_owned())), "{good}");
        }
        for bad in [
            "http://evil.example",
            "https://evil.example",
            "http://app.example",
            "https://app.example:444",
            "https://app.example.evil.example",
            "https://evil-app.example",
            "https://localhost.evil.example",
            "http://localhost@evil.example",
            "http://evil.example#localhost",
            "http://localhost/",
            "http://localhost http://evil.example",
            "http:localhost",
            "http:/localhost",
            "http://",
            "https://[::ffff:127.0.0.1]",
            "",
            "evil.example",
            "//localhost",
            "NULL",
            "1x://y",
        ] {
            assert_eq!(origin(bad), Err(403), "{bad:?}");
        }
    }

    #[test]
    fn other_schemes_and_null_pass_without_a_grant() {
        for app in ["null", "file://", "file:", "app://ossuary", "vscode-webview://1abc", "chrome-extension://abc"] {
            assert_eq!(origin(app), Ok(None), "{app}");
        }
        assert_eq!(check_origin(&[], &[]), Ok(None));
        assert_eq!(check_origin(&[b"null", b"null"], &[]), Err(GuardError::ForbiddenOrigin), "two of them");
        assert_eq!(check_origin(&[&[0xff]], &[]), Err(GuardError::ForbiddenOrigin));
    }

    #[test]
    fn host_is_judged_before_origin() {
        let mut headers = HeaderMap::new();
        headers.append(header::HOST, "evil.example".parse().unwrap());
        headers.append(header::ORIGIN, "http://evil.example".parse().unwrap());
        let guard = Guard::default();
        assert_eq!(guard.check(&headers, &Uri::from_static("/")), Err(GuardError::ForbiddenHost));
        headers.insert(header::HOST, "localhost".parse().unwrap());
        assert_eq!(guard.check(&headers, &Uri::from_static("/")), Err(GuardError::ForbiddenOrigin));
        headers.append(header::HOST, "localhost".parse().unwrap());
        assert_eq!(guard.check(&headers, &Uri::from_static("/")), Err(GuardError::BadRequest));
    }

    #[test]
    fn loopback_binds() {
        for good in ["127.0.0.1", "127.0.0.2", "::1", "[::1]", "localhost", "LOCALHOST"] {
            assert!(is_loopback_bind(good), "{good}");
        }
        for bad in ["0.0.0.0", "::", "", "192.168.0.1", "example.org", "localhost.evil.example", "127.1"] {
            assert!(!is_loopback_bind(bad), "{bad:?}");
        }
    }
}
