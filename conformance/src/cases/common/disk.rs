//! What a server leaves on disk: modes of files and directories, and that what was acknowledged is there after a kill.
//! Clauses: C12, C13, C16, L24.

use crate::{
    case::Wire,
    cases,
    cases::{ALL, HTTP, write},
    ctx::Ctx,
    expect, expect_eq,
    verdict::{Outcome, Stop},
};
use std::{
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

cases! {
    "c16-modes-whatever-the-umask" on ALL [C16] needs [Process, Files, Script] => modes;
    "c16-tools-follow-the-umask" on ALL [C16] needs [Process, Files, Script] => tools_follow_the_umask;
    "c16-links-and-pipes-are-no-transcripts" on ALL [C16] needs [Process, Files] => links;
    "c12-a-killed-process-loses-nothing" on ALL [C12] needs [Process, Files, Script] => kill_after_reply;
    "c12-a-created-session-survives-a-kill" on ALL [C12, L05] needs [Process, Files] => kill_after_create;
    "c13-newest-written-first" on ALL [C13, L06, H06] needs [Script] => newest_first;
    "c15-text-from-an-unknown-writer-survives" on HTTP [C15, H11] needs [Process, Files, Script] => unknown_records;
}

/// Everything below a directory, itself included; links are not followed.
fn below(root: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found = vec![root.to_owned()];
    let mut at = 0;
    while let Some(path) = found.get(at).cloned() {
        at += 1;
        if path.is_dir() && !path.is_symlink() {
            for entry in std::fs::read_dir(&path).map_err(Stop::harness)? {
                found.push(entry.map_err(Stop::harness)?.path());
            }
        }
    }
    Ok(found)
}

fn mode(path: &Path) -> Outcome<u32> {
    Ok(std::fs::symlink_metadata(path).map_err(Stop::harness)?.permissions().mode() & 0o7777)
}

async fn modes(ctx: &mut Ctx) -> Outcome {
    for umask in ["000", "022", "077"] {
        let launch = ctx.launch().umask(umask).args(["--mode", "bypass"]);
        let mut on = ctx.start(&launch).await?;
        let mut front = on.front().await?;
        let session = front.create_session().await?;
        front.prompt(&session, "hello").await?;
        front.prompt(&session, &write("a.txt", umask)).await?;
        let mut seen = 0;
        for root in [ctx.work().join(".triplane"), ctx.home().join(".triplane")] {
            if !root.exists() {
                continue;
            }
            for path in below(&root)? {
                let want = if path.is_dir() { 0o700 } else { 0o600 };
                expect_eq!(
                    format!("{:o}", mode(&path)?),
                    format!("{want:o}"),
                    "the mode of {} under umask {umask}",
                    path.display()
                );
                seen += 1;
            }
        }
        expect!(seen >= 4, "{seen} files of the server's own: none to judge");
    }
    Ok(())
}

async fn tools_follow_the_umask(ctx: &mut Ctx) -> Outcome {
    for (umask, want) in [("000", "666"), ("027", "640")] {
        let launch = ctx.launch().umask(umask).args(["--mode", "bypass"]);
        let mut on = ctx.start(&launch).await?;
        let mut front = on.front().await?;
        let session = front.create_session().await?;
        let name = format!("made-{umask}.txt");
        front.prompt(&session, &write(&name, "x")).await?;
        expect_eq!(
            format!("{:o}", mode(&ctx.work().join(&name))?),
            want,
            "the mode of a tool's file under umask {umask}"
        );
    }
    Ok(())
}

async fn links(ctx: &mut Ctx) -> Outcome {
    let dir = ctx.work().join(".triplane").join("sessions");
    std::fs::create_dir_all(&dir).map_err(Stop::harness)?;
    let secret = ctx.scratch("secret.jsonl");
    std::fs::write(&secret, "{\"type\":\"message\",\"role\":\"user\",\"id\":\"m\",\"parts\":[],\"at\":1}\n")
        .map_err(Stop::harness)?;
    let id = |n: u32| format!("01890000-0000-7000-8000-00000000000{n}");
    symlink(&secret, dir.join(format!("{}.jsonl", id(1)))).map_err(Stop::harness)?;
    std::fs::create_dir(dir.join(format!("{}.jsonl", id(2)))).map_err(Stop::harness)?;
    let fifo = dir.join(format!("{}.jsonl", id(3)));
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().map_err(Stop::harness)?;
    expect!(made.success() || cfg!(not(unix)), "mkfifo");
    for name in [".DS_Store", "x.jsonl~", "x.jsonl.tmp", "notes.json"] {
        std::fs::write(dir.join(name), "x").map_err(Stop::harness)?;
    }
    let before = std::fs::metadata(&secret).map_err(Stop::harness)?;
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let real = front.create_session().await?;
    expect_eq!(
        front.list().await?,
        [real],
        "the sessions, with a link, a directory, a pipe and foreign files beside one"
    );
    let after = std::fs::metadata(&secret).map_err(Stop::harness)?;
    expect_eq!((before.len(), before.mode()), (after.len(), after.mode()), "the file that a link led to");
    Ok(())
}

async fn kill_after_reply(ctx: &mut Ctx) -> Outcome {
    let mut texts = Vec::new();
    let mut session = String::new();
    for round in 0..3 {
        let mut on = ctx.serve().await?;
        let mut front = on.front().await?;
        if round == 0 || ctx.wire == Wire::Ws {
            // lich does not go on with a stored session under its own id.
            session = front.create_session().await?;
            texts.clear();
        } else {
            front.watch(&session).await?;
        }
        let text = format!("round {round}");
        front.prompt(&session, &text).await?;
        on.server()?.kill().await?;
        texts.extend([text.clone(), text]);
        let mut on = ctx.serve().await?;
        let listed = on.front().await?.list().await?;
        expect!(listed.contains(&session), "the session is not listed after a kill: {listed:?}");
        on.server()?.kill().await?;
        let mut on = ctx.serve().await?;
        let stored = on.front().await?.messages(&session).await?;
        let stored: Vec<String> = stored.iter().map(crate::client::front::text_of).collect();
        expect_eq!(stored, texts, "the history after a kill");
    }
    Ok(())
}

async fn kill_after_create(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let session = on.front().await?.create_session().await?;
    on.server()?.kill().await?;
    let mut on = ctx.serve().await?;
    let listed = on.front().await?.list().await?;
    expect_eq!(listed, [session], "the sessions after a kill");
    Ok(())
}

async fn newest_first(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let (first, second) = (front.create_session().await?, front.create_session().await?);
    front.prompt(&second, "x").await?;
    front.prompt(&first, "x").await?;
    let listed: Vec<String> = front.list().await?.into_iter().filter(|id| [&first, &second].contains(&id)).collect();
    expect_eq!(listed, [first, second], "the list: last written first");
    Ok(())
}

async fn unknown_records(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.prompt(&session, "before").await?;
    let path = on.server()?.transcript(&session);
    on.server()?.kill().await?;
    let mut text = std::fs::read_to_string(&path).map_err(Stop::harness)?;
    text += "{\"type\":\"from_the_future\",\"x\":1}\nno json at all\n{\"torn\":";
    std::fs::write(&path, &text).map_err(Stop::harness)?;
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    front.watch(&session).await?;
    front.prompt(&session, "after").await?;
    let stored: Vec<String> = front.messages(&session).await?.iter().map(crate::client::front::text_of).collect();
    expect_eq!(stored, ["before", "before", "after", "after"], "the history around bad lines");
    let now = std::fs::read_to_string(&path).map_err(Stop::harness)?;
    expect!(
        now.contains("from_the_future") && now.contains("no json at all"),
        "lines that are not known were dropped: {now}"
    );
    let bad: Vec<&str> = now.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_err()).collect();
    expect_eq!(bad, ["no json at all"], "the lines that are no JSON after an append");
    Ok(())
}
