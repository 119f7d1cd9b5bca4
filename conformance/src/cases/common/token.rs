//! The token: where it comes from, and where it never goes. Clause: C08.

use crate::{
    case::Wire,
    cases,
    cases::{TCP, tool},
    ctx::{Ctx, On},
    expect, expect_eq,
    verdict::{Outcome, Stop},
};
use serde_json::json;

cases! {
    "c08-flag-before-environment-before-chance" on TCP [C08] needs [Process] => sources;
    "c08-random-tokens-are-long-and-differ" on TCP [C08] needs [Process] => random;
    "c08-empty-is-not-no-token" on TCP [C08] needs [Process] => empty;
    "c08-never-in-the-log" on TCP [C08] needs [Process, Script] => never_logged;
    "c08-never-in-a-childs-environment" on TCP [C08] needs [Process, Script] => never_inherited;
    "c08-never-on-disk" on TCP [C08] needs [Process, Script] => never_on_disk;
}

fn token(on: &On, wire: Wire) -> Outcome<String> {
    if wire == Wire::Ws { Ok(on.ws_addr()?.token) } else { Ok(on.http()?.token) }
}

/// Flags of a start.
type Flags<'a> = &'a [&'a str];
/// Variables of a start.
type Variables<'a> = &'a [(&'a str, &'a str)];

async fn sources(ctx: &mut Ctx) -> Outcome {
    let wire = ctx.wire;
    let rows: &[(Flags, Variables, &str)] = &[
        (&["--token", "flag-token-0123456789"], &[("TRIPLANE_TOKEN", "env-token-0123456789")], "flag-token-0123456789"),
        (
            &[],
            &[("TRIPLANE_TOKEN", "env-token-0123456789"), ("LARIK_SERVER_TOKEN", "old-token-0123456789")],
            "env-token-0123456789",
        ),
        (&[], &[("LARIK_SERVER_TOKEN", "old-token-0123456789")], "old-token-0123456789"),
    ];
    for (args, env, want) in rows {
        let launch =
            env.iter().fold(ctx.launch().args(args.iter().copied()), |launch, (name, value)| launch.env(name, value));
        let on = ctx.start(&launch).await?;
        expect_eq!(token(&on, wire)?, *want, "the token of {args:?} {env:?}");
        // It is the one that is asked for, too.
        on.front_opens(wire).await?;
    }
    Ok(())
}

async fn random(ctx: &mut Ctx) -> Outcome {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let on = ctx.serve().await?;
        let token = token(&on, ctx.wire)?;
        // 256 bits are 43 characters of base64, or 64 of hexadecimal.
        expect!(token.len() >= 43 && token.is_ascii(), "a token of {} characters", token.len());
        expect!(!seen.contains(&token), "the same token twice");
        seen.push(token);
    }
    Ok(())
}

async fn empty(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().env("TRIPLANE_TOKEN", "").env("LARIK_SERVER_TOKEN", "");
    match ctx.try_start(&launch).await? {
        Err(failed) => {
            expect!(failed.status.is_some_and(|status| !status.success()), "an empty token: {:?}", failed.status)
        }
        Ok(server) => {
            let token = server
                .ready_line(ctx.wire)?
                .get("token")
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default()
                .to_owned();
            expect!(token.len() >= 43, "an empty variable gives a token of {} characters", token.len());
        }
    }
    Ok(())
}

const SECRET: &str = "s3cret-0123456789-abcdefghijklmnop";

async fn never_logged(ctx: &mut Ctx) -> Outcome {
    let wire = ctx.wire;
    let launch = ctx.launch().env("RUST_LOG", "trace").env("TRIPLANE_TOKEN", SECRET);
    let mut on = ctx.start(&launch).await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.prompt(&session, "hello").await?;
    let http = if wire == Wire::Ws { on.ws_addr()?.http() } else { on.http()? };
    let texts = [
        format!("GET /v1/sessions/{session}/events?token={SECRET} HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        format!(
            "GET /v1/nope?token={SECRET} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {SECRET}\r\n\r\n",
            http.addr
        ),
        format!(
            "GET /?token={SECRET} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            http.addr
        ),
    ];
    for text in texts {
        if let Ok(response) = http.raw(text.as_bytes()).await {
            expect!(!String::from_utf8_lossy(&response.body).contains(SECRET), "the token is in an answer: {response}");
        }
    }
    on.server()?.signal(rustix::process::Signal::TERM);
    on.server()?.exited(ctx.options.deadline * 2).await?;
    let log = on.server()?.stderr();
    let line = log.lines().find(|line| line.contains(SECRET));
    expect!(line.is_none(), "the token is in the log: {}", line.unwrap_or_default());
    Ok(())
}

async fn never_inherited(ctx: &mut Ctx) -> Outcome {
    let launch =
        ctx.launch().args(["--mode", "bypass"]).env("TRIPLANE_TOKEN", SECRET).env("LARIK_SERVER_TOKEN", SECRET);
    let mut on = ctx.start(&launch).await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    let run = front
        .prompt(&session, &tool("bash", &json!({"command": "env; tr '\\0' '\\n' < /proc/$PPID/cmdline; echo ran"})))
        .await?;
    let told = format!("{:?}", run.events);
    expect!(told.contains("ran"), "the command did not run: {told}");
    expect!(!told.contains(SECRET), "a child is given the token");
    Ok(())
}

async fn never_on_disk(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().env("TRIPLANE_TOKEN", SECRET);
    let mut on = ctx.start(&launch).await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.prompt(&session, "hello").await?;
    on.server()?.kill().await?;
    let mut dirs = vec![ctx.work(), ctx.home()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).map_err(Stop::harness)?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap_or_default();
            let found = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
            expect!(!found, "the token is in {}", path.display());
        }
    }
    Ok(())
}
