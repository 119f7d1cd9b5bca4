//! Who may come in: Host, then Origin, then the token, on every path. Clauses: C06, H02, H26, H28, L22.

use crate::{
    case::Wire,
    cases,
    cases::{HTTP, TCP, WS},
    client::http::{Request, Response},
    ctx::{Ctx, On},
    expect, expect_eq,
    verdict::{Outcome, Stop},
};
use serde_json::json;

cases! {
    "c06-hosts" on TCP [C06, L22] => hosts;
    "c06-no-host-or-two-is-400" on TCP [C06] => no_host;
    "c06-origins" on TCP [C06, L22, H28] => origins;
    "c06-allowed-origin" on TCP [C06, H28] needs [Process] => allowed_origin;
    "c06-tokens" on TCP [C06, L22, H02] => tokens;
    "c06-host-before-origin-before-token" on TCP [C06, L22] => order;
    "c06-nothing-happens-without-a-token" on HTTP [C06, H02] needs [Process] => nothing_happens;
    "c06-only-http-1-1" on TCP [C06] => only_http_1_1;
    "c06-binds-loopback-only" on TCP [C06] needs [Process] => binds_loopback;
    "h26-allow-remote" on TCP [H26, C06] needs [Process] => allow_remote;
    "h28-preflight" on HTTP [H28] => preflight;
    "h28-answer-carries-the-origin" on HTTP [H28] => carries_origin;
    "l22-token-places" on WS [L22] => token_places;
}

/// A request that a client with the right token would make, without `Host` and without a token.
fn bare(on: &On, wire: Wire) -> Outcome<Request> {
    Ok(match wire {
        Wire::Ws => on.ws_addr()?.upgrade_without_host("/"),
        Wire::Http | Wire::Stdio => Request::new("GET", "/v1/info"),
    })
}

/// The header that carries the token, and the address.
fn keys(on: &On, wire: Wire) -> Outcome<((&'static str, String), String)> {
    Ok(match wire {
        Wire::Ws => {
            let addr = on.ws_addr()?;
            (("x-lich-token", addr.token.clone()), addr.addr.to_string())
        }
        Wire::Http | Wire::Stdio => {
            let http = on.http()?;
            (("Authorization", format!("Bearer {}", http.token)), http.addr.to_string())
        }
    })
}

async fn ask(on: &On, wire: Wire, request: &Request) -> Outcome<Response> {
    match wire {
        Wire::Ws => on.ws_addr()?.shake(request).await,
        Wire::Http | Wire::Stdio => on.http()?.send(request).await,
    }
}

/// The status of a request that is let in.
fn welcome(wire: Wire) -> u16 {
    if wire == Wire::Ws { 101 } else { 200 }
}

async fn hosts(ctx: &mut Ctx) -> Outcome {
    let (on, wire) = (ctx.serve().await?, ctx.wire);
    let ((name, token), addr) = keys(&on, wire)?;
    let port = addr.rsplit(':').next().unwrap_or_default();
    let good = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LOCALHOST:{port}"),
        format!("[::1]:{port}"),
        "127.0.0.1".to_owned(),
        "localhost".to_owned(),
        "[::1]".to_owned(),
        "127.0.0.1:1".to_owned(),
    ];
    for host in good {
        let request = bare(&on, wire)?.header("Host", &host).header(name, &token);
        let response = ask(&on, wire, &request).await?;
        expect_eq!(response.status, welcome(wire), "Host: {host} → {response}");
    }
    let bad = [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.evil.example",
        "evil.example#localhost",
        "localhost@evil.example",
        "[::1].evil.example",
        "evil.example:80",
        "0.0.0.0",
        "127.0.0.1:abc",
        "127.0.0.1:",
        "2130706433",
        "127.1",
        "10.0.0.1",
        "localhost evil.example",
        "",
    ];
    for host in bad {
        let with = bare(&on, wire)?.header("Host", host).header(name, &token);
        let without = bare(&on, wire)?.header("Host", host);
        for request in [with, without] {
            let response = ask(&on, wire, &request).await?;
            let refused = response.status == 403
                || (response.status == 400 && !host.is_ascii() || host.contains(' ') || host.is_empty());
            expect!(refused || host == "127.0.0.1:" && response.status == 400, "Host: {host:?} → {response}, want 403");
        }
    }
    if wire == Wire::Http {
        for path in ["/v1/health", "/v1/nope", "/"] {
            let response = ask(&on, wire, &Request::new("GET", path).header("Host", "evil.example")).await?;
            expect_eq!(response.status, 403, "{path} with a foreign Host: {response}");
        }
    }
    Ok(())
}

async fn no_host(ctx: &mut Ctx) -> Outcome {
    let (on, wire) = (ctx.serve().await?, ctx.wire);
    let ((name, token), addr) = keys(&on, wire)?;
    let none = bare(&on, wire)?.header(name, &token);
    let two = bare(&on, wire)?.header("Host", &addr).header("Host", &addr).header(name, &token);
    for request in [none, two] {
        let response = ask(&on, wire, &request).await?;
        expect_eq!(
            response.status,
            400,
            "{} Host headers → {response}",
            request.headers.iter().filter(|(name, _)| name == "Host").count()
        );
    }
    Ok(())
}

/// Origins that may come in without having been allowed.
const GOOD_ORIGINS: &[&str] = &[
    "http://localhost:5173",
    "http://127.0.0.1",
    "https://localhost",
    "http://[::1]:3000",
    "null",
    "file://",
    "app://ossuary",
];
/// Origins that may not.
const BAD_ORIGINS: &[&str] = &[
    "https://evil.example",
    "http://localhost.evil.example",
    "http://evil.example:80",
    "http://127.0.0.1.evil.example",
    "https://localhost@evil.example",
];

async fn origins(ctx: &mut Ctx) -> Outcome {
    let (on, wire) = (ctx.serve().await?, ctx.wire);
    let ((name, token), addr) = keys(&on, wire)?;
    for (origins, with, without) in [(GOOD_ORIGINS, welcome(wire), 401), (BAD_ORIGINS, 403, 403)] {
        for origin in origins {
            let request = bare(&on, wire)?.header("Host", &addr).header("Origin", origin);
            let response = ask(&on, wire, &request.clone().header(name, &token)).await?;
            expect_eq!(response.status, with, "Origin: {origin} with the token → {response}");
            let response = ask(&on, wire, &request).await?;
            expect_eq!(response.status, without, "Origin: {origin} without a token → {response}");
        }
    }
    Ok(())
}

async fn allowed_origin(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().args(["--allow-origin", "https://app.example"]);
    let (on, wire) = (ctx.start(&launch).await?, ctx.wire);
    let ((name, token), addr) = keys(&on, wire)?;
    let rows = [
        ("https://app.example", welcome(wire)),
        ("http://app.example", 403),
        ("https://app.example:8443", 403),
        ("https://x.app.example", 403),
        ("https://evil.example", 403),
        ("http://localhost:1", welcome(wire)),
    ];
    for (origin, status) in rows {
        let request = bare(&on, wire)?.header("Host", &addr).header("Origin", origin).header(name, &token);
        let response = ask(&on, wire, &request).await?;
        expect_eq!(response.status, status, "Origin: {origin} → {response}");
    }
    Ok(())
}

async fn tokens(ctx: &mut Ctx) -> Outcome {
    let (on, wire) = (ctx.serve().await?, ctx.wire);
    let ((name, token), addr) = keys(&on, wire)?;
    let word = token.trim_start_matches("Bearer ").to_owned();
    let prefix = if wire == Wire::Ws { "" } else { "Bearer " };
    let cut = word.get(..word.len() - 1).unwrap_or_default();
    let swapped: String =
        word.chars().map(|c| if c.is_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }).collect();
    let mut wrong = vec![String::new(), "x".to_owned(), cut.to_owned(), format!("{word}x"), format!("x{word}")];
    if swapped != word {
        wrong.push(swapped);
    }
    let mut bodies = Vec::new();
    for value in wrong {
        let request = bare(&on, wire)?.header("Host", &addr).header(name, &format!("{prefix}{value}"));
        let response = ask(&on, wire, &request).await?;
        expect_eq!(response.status, 401, "a wrong token of {} bytes → {response}", value.len());
        expect!("C08": !String::from_utf8_lossy(&response.body).contains(&word), "the answer holds the token: {response}");
        bodies.push(response.body);
    }
    bodies.dedup();
    expect_eq!(
        bodies.len(),
        1,
        "different answers to wrong tokens: {:?}",
        bodies.iter().map(|body| String::from_utf8_lossy(body)).collect::<Vec<_>>()
    );
    let response = ask(&on, wire, &bare(&on, wire)?.header("Host", &addr)).await?;
    expect_eq!(response.status, 401, "no token → {response}");
    if wire == Wire::Http {
        for value in [format!("Basic {word}"), word.clone(), format!("Bearer{word}")] {
            let response =
                ask(&on, wire, &bare(&on, wire)?.header("Host", &addr).header("Authorization", &value)).await?;
            expect_eq!("H02": response.status, 401, "another scheme → {response}");
        }
        let response = ask(&on, wire, &bare(&on, wire)?.header("Host", &addr).header("x-lich-token", &word)).await?;
        expect_eq!("H02": response.status, 401, "the token in another wire's header → {response}");
        for (method, path) in [("GET", "/v1/info"), ("GET", "/v1/sessions"), ("POST", "/v1/sessions")] {
            let request = Request::new(method, &format!("{path}?token={word}")).header("Host", &addr);
            let response = ask(&on, wire, &request).await?;
            expect_eq!("H02": response.status, 401, "`?token=` outside of events → {response}");
        }
    }
    Ok(())
}

async fn order(ctx: &mut Ctx) -> Outcome {
    let (on, wire) = (ctx.serve().await?, ctx.wire);
    let (_, addr) = keys(&on, wire)?;
    let rows = [
        ("evil.example", Some("https://evil.example"), 403),
        ("evil.example", None, 403),
        (addr.as_str(), Some("https://evil.example"), 403),
        (addr.as_str(), Some("http://localhost"), 401),
    ];
    for (host, origin, status) in rows {
        let mut request = bare(&on, wire)?.header("Host", host);
        if let Some(origin) = origin {
            request = request.header("Origin", origin);
        }
        let response = ask(&on, wire, &request).await?;
        expect_eq!(response.status, status, "Host {host}, Origin {origin:?}, no token → {response}");
    }
    Ok(())
}

async fn nothing_happens(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let http = on.http()?;
    for method in ["POST", "PATCH", "DELETE", "GET", "PUT"] {
        for path in ["/v1/sessions", "/v1/sessions/x", "/v1/sessions/x/prompt", "/v1/nope"] {
            let response = http.send(&http.bare(method, path).json(&json!({}))).await?;
            expect_eq!(response.status, 401, "{method} {path} without a token → {response}");
        }
    }
    let left: Vec<_> =
        std::fs::read_dir(on.server()?.session_dir()).map(|dir| dir.flatten().collect()).unwrap_or_default();
    let made =
        left.iter().filter(|entry| entry.path().extension().is_some_and(|extension| extension == "jsonl")).count();
    expect_eq!(made, 0, "sessions that were made without a token");
    Ok(())
}

async fn only_http_1_1(ctx: &mut Ctx) -> Outcome {
    let (on, wire) = (ctx.serve().await?, ctx.wire);
    let http = if wire == Wire::Ws { on.ws_addr()?.http() } else { on.http()? };
    let mut conn = http.conn().await?;
    conn.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
    let answer = conn.response("GET", "the preface of HTTP/2").await;
    let refused = match &answer {
        Ok(response) => response.status >= 400,
        Err(Stop::Broke { seen, .. }) => seen.contains("the connection ended"),
        Err(Stop::Skip(_) | Stop::Harness(_)) => false,
    };
    expect!(refused, "HTTP/2 with prior knowledge → {answer:?}");
    Ok(())
}

/// Addresses that sockets of the process listen on, as in `/proc/net/tcp` and `tcp6`.
fn listening(port: u16) -> Vec<String> {
    let mut found = Vec::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in std::fs::read_to_string(file).unwrap_or_default().lines().skip(1) {
            let mut fields = line.split_whitespace().skip(1);
            let (Some(local), _, Some("0A")) = (fields.next(), fields.next(), fields.next()) else { continue };
            if let Some((addr, at)) = local.rsplit_once(':')
                && u16::from_str_radix(at, 16) == Ok(port)
            {
                found.push(addr.to_owned());
            }
        }
    }
    found
}

/// 127.0.0.1 and ::1 as `/proc/net` writes them.
const LOOPBACK: &[&str] = &["0100007F", "00000000000000000000000001000000"];

async fn binds_loopback(ctx: &mut Ctx) -> Outcome {
    let (on, wire) = (ctx.serve().await?, ctx.wire);
    let port = if wire == Wire::Ws { on.ws_addr()?.addr.port() } else { on.http()?.addr.port() };
    let found = listening(port);
    expect!(
        !found.is_empty() && found.iter().all(|addr| LOOPBACK.contains(&addr.as_str())),
        "port {port} listens on {found:?}"
    );
    drop(on);
    for host in ["0.0.0.0", "[::]", "192.0.2.1"] {
        let launch = ctx.launch().without_addr();
        let launch = match wire {
            Wire::Ws => launch.args(["--host", host.trim_matches(['[', ']'])]),
            Wire::Http | Wire::Stdio => launch.args(["--addr".to_owned(), format!("{host}:0")]),
        };
        match ctx.try_start(&launch).await? {
            Ok(server) => {
                return Err(Stop::broke(format!("{host} without --allow-remote is taken: {:?}", server.ready)));
            }
            Err(failed) => {
                let code = failed.status.and_then(|status| status.code());
                expect!(code.is_some_and(|code| code != 0), "{host}: no refusal but {:?}", failed.status);
                expect!(
                    !failed.stderr.is_empty() && failed.stdout.is_empty(),
                    "{host}: no text on stderr, or a ready line: {failed:?}"
                );
            }
        }
    }
    Ok(())
}

async fn allow_remote(ctx: &mut Ctx) -> Outcome {
    let wire = ctx.wire;
    let launch = ctx.launch().without_addr().args(["--allow-remote"]);
    let launch =
        if wire == Wire::Ws { launch.args(["--host", "0.0.0.0"]) } else { launch.args(["--addr", "0.0.0.0:0"]) };
    let mut on = ctx.start(&launch).await?;
    let ready = on.server()?.ready.first().cloned().unwrap_or_default();
    let text = ready.to_string();
    let port: u16 = match wire {
        Wire::Ws => ready.get("port").and_then(serde_json::Value::as_u64).and_then(|port| port.try_into().ok()),
        Wire::Http | Wire::Stdio => ready
            .get("url")
            .and_then(serde_json::Value::as_str)
            .and_then(|url| url.rsplit(':').next())
            .and_then(|port| port.trim_end_matches('/').parse().ok()),
    }
    .ok_or_else(|| Stop::Broke { clause: Some("C07"), seen: format!("no port in {text}") })?;
    let token = ready.get("token").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    let http = crate::client::http::Http {
        addr: ([127, 0, 0, 1], port).into(),
        token: token.clone(),
        deadline: ctx.options.deadline,
        book: None,
    };
    let addr = crate::client::ws::WsAddr {
        addr: http.addr,
        path: "/".into(),
        token: token.clone(),
        deadline: ctx.options.deadline,
    };
    let request = if wire == Wire::Ws { addr.upgrade_without_host("/") } else { Request::new("GET", "/v1/info") };
    let request = request.header("Host", "box.example");
    let response = http.conn().await?.upgrade(&request).await?;
    expect_eq!(response.status, 401, "a foreign Host without a token → {response}");
    let (name, value) =
        if wire == Wire::Ws { ("x-lich-token", token) } else { ("Authorization", format!("Bearer {token}")) };
    let response = http.conn().await?.upgrade(&request.header(name, &value)).await?;
    expect_eq!(response.status, welcome(wire), "a foreign Host with the token → {response}");
    Ok(())
}

async fn preflight(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    for (path, methods) in [
        ("/v1/sessions", vec!["GET", "POST"]),
        ("/v1/sessions/x", vec!["GET", "PATCH", "DELETE"]),
        ("/v1/sessions/x/events", vec!["GET"]),
    ] {
        let request = http
            .bare("OPTIONS", path)
            .header("Origin", "http://localhost:5173")
            .header("Access-Control-Request-Method", "POST");
        let response =
            http.send(&request.header("Access-Control-Request-Headers", "authorization,content-type")).await?;
        expect_eq!(response.status, 204, "a preflight → {response}");
        expect_eq!(
            response.header("access-control-allow-origin"),
            Some("http://localhost:5173"),
            "the origin of {}",
            response.to
        );
        let allowed = response.header("access-control-allow-methods").unwrap_or_default().to_ascii_uppercase();
        for method in methods {
            expect!(
                allowed.split(',').any(|one| one.trim() == method),
                "{}: {method} is not in {allowed:?}",
                response.to
            );
        }
        let headers = response.header("access-control-allow-headers").unwrap_or_default().to_ascii_lowercase();
        for name in ["authorization", "content-type", "last-event-id"] {
            expect!(headers.split(',').any(|one| one.trim() == name), "{}: {name} is not in {headers:?}", response.to);
        }
        expect_eq!(response.header("access-control-allow-credentials"), None, "credentials of {}", response.to);
    }
    let request = http
        .bare("OPTIONS", "/v1/sessions")
        .header("Origin", "https://evil.example")
        .header("Access-Control-Request-Method", "POST");
    let response = http.send(&request).await?;
    expect_eq!(response.status, 403, "a foreign preflight → {response}");
    expect_eq!(cors(&response), Vec::<String>::new(), "CORS headers for a foreign Origin");
    Ok(())
}

/// The names of the CORS headers of a response.
fn cors(response: &Response) -> Vec<String> {
    response.headers.iter().map(|(name, _)| name.clone()).filter(|name| name.starts_with("access-control-")).collect()
}

async fn carries_origin(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let http = on.http()?;
    let origin = "http://localhost:5173";
    for request in [
        http.request("GET", "/v1/info"),
        http.request("GET", "/v1/nope"),
        http.request("POST", "/v1/sessions").body("{"),
        http.bare("GET", "/v1/info"),
    ] {
        let response = http.send(&request.header("Origin", origin)).await?;
        expect_eq!(response.header("access-control-allow-origin"), Some(origin), "the origin of {response}");
        let vary = response.header("vary").unwrap_or_default().to_ascii_lowercase();
        expect!(vary.split(',').any(|one| one.trim() == "origin"), "{response}: Vary is {vary:?}");
        expect_eq!(response.header("access-control-allow-credentials"), None, "credentials of {response}");
    }
    for request in [http.request("GET", "/v1/info"), http.request("GET", "/v1/info").header("Origin", "null")] {
        let response = http.send(&request).await?;
        expect!(response.header("access-control-allow-origin") != Some("*"), "{response}: a wildcard");
        expect!(response.header("set-cookie").is_none(), "{response}: a cookie");
    }
    let response = http.send(&http.request("GET", "/v1/info").header("Origin", "https://evil.example")).await?;
    expect_eq!(cors(&response), Vec::<String>::new(), "CORS headers for a foreign Origin: {response}");
    Ok(())
}

async fn token_places(ctx: &mut Ctx) -> Outcome {
    let on = ctx.serve().await?;
    let addr = on.ws_addr()?;
    let token = addr.token.clone();
    let rows = [
        addr.upgrade("/").header("x-lich-token", &token),
        addr.upgrade("/").header("x-triplane-token", &token),
        addr.upgrade("/").header("Authorization", &format!("Bearer {token}")),
        addr.upgrade(&format!("/?token={token}")),
        addr.upgrade(&format!("/any/path?x=1&token={token}")),
    ];
    for request in rows {
        let response = addr.shake(&request).await?;
        expect_eq!(response.status, 101, "{response}");
        expect_eq!(response.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "the accept key");
    }
    let response = addr.shake(&addr.upgrade("/?token=x")).await?;
    expect_eq!(response.status, 401, "a wrong `?token=` → {response}");
    Ok(())
}
