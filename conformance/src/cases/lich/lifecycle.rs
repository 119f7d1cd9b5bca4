//! A session's life through this wire and through the process: restarts, `kill -9`, torn and deleted transcripts, the cap on
//! bags, shutdown in the middle of calls. Clauses: L06, L08–L13, C09, C12, C15, C17.

use crate::{
    case::Wire,
    cases,
    cases::{FOREVER, WS, blame},
    client::rpc::{Reply, Rpc, read_reply},
    ctx::{Ctx, On},
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

cases! {
    "l10-latest-after-a-restart-is-the-fork" on WS [L10, L08] needs [Process, Files, Script] => latest_is_the_fork;
    "l09-a-torn-transcript-costs-a-line" on WS [L09, C15] needs [Process, Files, Script] => torn;
    "c15-unknown-records-survive-a-fork" on WS [C15, L09] needs [Process, Files, Script] => unknown_in_a_fork;
    "l11-a-deleted-transcript-is-not-found" on WS [L11] needs [Process, Files, Script] => deleted;
    "l11-deleted-while-it-is-resumed" on WS [L11] needs [Process, Files, Script] => deleted_meanwhile;
    "l12-the-thirty-third-bag" on WS [L12, L06] needs [Process, Files, Script] => thirty_third;
    "l12-an-evicted-session-can-be-resumed" on WS [L12, L09] needs [Process, Script] => evicted_is_resumed;
    "c17-eviction-drops-only-lichs-hold" on WS [C17, L12] needs [Process, Script] => other_holds_stay;
    "l13-shutdown-in-the-middle-of-calls" on WS [L13, C09] needs [Process, Files, Script] => shutdown_in_calls;
    "c12-killed-in-the-middle-of-a-run" on WS [C12, L09, L10] needs [Process, Files, Script] => killed_in_a_run;
    "c09-a-run-in-flight-still-answers" on WS [C09, L14, L16] needs [Process, Script] => run_answers_at_the_end;
}

async fn create(rpc: &mut Rpc) -> Outcome<String> {
    rpc.call("session.create", json!({"source": "conformance"})).await.of("L05")?.text("/session_id")
}

async fn prompt(rpc: &mut Rpc, session: &str, text: &str) -> Outcome<Value> {
    rpc.call("prompt.submit", json!({"session_id": session, "text": text})).await.of("L14")
}

async fn resume(rpc: &mut Rpc, id: &str) -> Outcome<Value> {
    rpc.call("session.resume", json!({"id": id, "source": "conformance"})).await.of("L08")
}

fn bytes(path: &Path) -> Outcome<Vec<u8>> {
    std::fs::read(path).map_err(|err| Stop::broke(format!("{}: {err}", path.display())))
}

/// Names of the transcripts, in order.
fn transcripts(on: &mut On) -> Outcome<Vec<String>> {
    let names = std::fs::read_dir(on.server()?.session_dir()).map_err(Stop::harness)?.flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".jsonl")).collect();
    names.sort();
    Ok(names)
}

async fn latest_is_the_fork(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    prompt(&mut rpc, &id, "one").await?;
    let fork = resume(&mut rpc, &id).await?.text("/session_id")?;
    on.server()?.kill().await?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let path = on.server()?.transcript(&fork);
    let before = bytes(&path)?;
    let latest = resume(&mut rpc, "latest").await?;
    expect_eq!("L08": latest.text("/resumed_id")?, fork, "`latest` after a fork that was never prompted");
    expect_eq!(latest.int("/message_count")?, 2, "its messages");
    let again = latest.text("/session_id")?;
    expect_eq!(prompt(&mut rpc, &again, "two").await?.text("/reply")?, "two", "a prompt of the fork's fork");
    let whole = resume(&mut rpc, &again).await?;
    expect_eq!(whole.int("/message_count")?, 4, "what came before the restart, and after");
    expect!("L09": bytes(&path)? == before, "a resume changed the transcript that it read");
    Ok(())
}

async fn torn(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    for text in ["one", "two"] {
        prompt(&mut rpc, &id, text).await?;
    }
    let path = on.server()?.transcript(&id);
    on.server()?.kill().await?;
    let text = String::from_utf8(bytes(&path)?).map_err(Stop::harness)?;
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(lines.len() / 2, "no json at all \u{0}");
    lines.push(r#"{"type":"message","id":"t","role":"assistant","parts":[{"type":"te"#);
    std::fs::write(&path, lines.join("\n")).map_err(Stop::harness)?;
    let before = bytes(&path)?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let resumed = blame(resume(&mut rpc, &id).await, "L09")?;
    expect_eq!("C15": resumed.int("/message_count")?, 4, "messages around a bad line and before a torn one");
    expect!(bytes(&path)? == before, "a resume repaired the transcript that it only reads");
    let fork = resumed.text("/session_id")?;
    expect_eq!(prompt(&mut rpc, &fork, "three").await?.text("/reply")?, "three", "the fork's next prompt");
    let written = String::from_utf8(bytes(&on.server()?.transcript(&fork))?).map_err(Stop::harness)?;
    let last = written.lines().last().unwrap_or_default();
    expect!(written.ends_with('\n') && serde_json::from_str::<Value>(last).is_ok(), "the fork's end is torn: {last}");
    Ok(())
}

async fn unknown_in_a_fork(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    prompt(&mut rpc, &id, "one").await?;
    let path = on.server()?.transcript(&id);
    on.server()?.kill().await?;
    let strange = r#"{"type":"from_the_future","x":{"y":[1,2.50]},"é":"\u2028"}"#;
    let mut text = String::from_utf8(bytes(&path)?).map_err(Stop::harness)?;
    let message = json!({"type": "message", "role": "assistant", "id": "m-1", "at": 1, "mood": "fine",
        "parts": [{"type": "text", "text": "kept", "weight": 7}, {"type": "hologram", "data": [1]}]});
    text.push_str(&format!("{strange}\n{message}\n"));
    std::fs::write(&path, &text).map_err(Stop::harness)?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let fork = resume(&mut rpc, &id).await?.text("/session_id")?;
    prompt(&mut rpc, &fork, "two").await?;
    expect!(bytes(&path)? == text.as_bytes(), "the transcript that was forked changed");
    let forked = String::from_utf8(bytes(&on.server()?.transcript(&fork))?).map_err(Stop::harness)?;
    let records: Vec<Value> = forked.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let wanted: Value = serde_json::from_str(strange).map_err(Stop::harness)?;
    let same = |record: &&Value| {
        wanted.as_object().is_some_and(|all| all.iter().all(|(name, value)| record.get(name) == Some(value)))
    };
    expect!(records.iter().find(same).is_some(), "a record of an unknown type is not in the fork: {forked}");
    let kept = records.iter().find(|record| record.get("mood").is_some());
    let kept = kept.ok_or_else(|| Stop::broke(format!("a member that is not known is not in the fork: {forked}")))?;
    expect_eq!(kept.get("parts"), message.get("parts"), "parts that are not known");
    Ok(())
}

async fn deleted(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let (gone, stays) = (create(&mut rpc).await?, create(&mut rpc).await?);
    prompt(&mut rpc, &stays, "x").await?;
    prompt(&mut rpc, &gone, "x").await?;
    let path = on.server()?.transcript(&gone);
    std::fs::remove_file(&path).map_err(Stop::harness)?;
    let before = transcripts(&mut on)?;
    let prefix = gone.get(..gone.len() - 1).unwrap_or_default().to_owned();
    for id in [&gone, &prefix] {
        rpc.fails("session.resume", json!({"id": id}), "not_found").await?;
    }
    let latest = rpc.ask("session.resume", json!({"id": "latest"})).await?;
    match latest.result {
        Ok(result) => {
            expect_eq!(result.text("/resumed_id")?, stays, "`latest`, the newest one being deleted");
            expect_eq!(result.int("/message_count")?, 2, "its messages");
        }
        Err(error) => {
            expect_eq!(error.code.as_deref(), Some("not_found"), "`latest`, the newest one being deleted");
            expect_eq!(transcripts(&mut on)?, before, "transcripts after resumes that failed");
        }
    }
    expect!(!path.exists(), "a deleted transcript was made again");
    Ok(())
}

async fn deleted_meanwhile(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let model = create(&mut rpc).await?;
    prompt(&mut rpc, &model, "x").await?;
    let whole = bytes(&on.server()?.transcript(&model))?;
    let mut found = [0, 0];
    for round in 0..40_u64 {
        let id = format!("01890000-0000-7000-8000-{round:012}");
        let path = on.server()?.transcript(&id);
        std::fs::write(&path, String::from_utf8_lossy(&whole).replace(&model, &id)).map_err(Stop::harness)?;
        let sent = rpc.send("session.resume", json!({"id": id})).await?;
        // Somewhere between nothing of it and all of it.
        tokio::time::sleep(Duration::from_micros(round * 50)).await;
        std::fs::remove_file(&path).map_err(Stop::harness)?;
        let reply = rpc.reply(sent).await?;
        match &reply.result {
            Ok(result) => {
                found[0] += 1;
                expect_eq!(
                    result.int("/message_count")?,
                    2,
                    "messages of a transcript deleted meanwhile, round {}",
                    round
                );
            }
            Err(_) => {
                found[1] += 1;
                reply.fails("not_found")?;
            }
        }
    }
    expect!(found != [0, 0], "nothing was asked");
    Ok(())
}

async fn thirty_third(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let busy = create(&mut rpc).await?;
    let running = rpc.send("prompt.submit", json!({"session_id": busy, "text": FOREVER})).await?;
    rpc.notified("event", "of the busy session", |params| params.get("session_id") == Some(&json!(busy))).await?;
    let mut bags = vec![busy.clone()];
    for _ in 0..32 {
        bags.push(create(&mut rpc).await?);
    }
    let [_, first, second, .., last] = bags.as_slice() else { return Err(Stop::harness("33 bags")) };
    for (method, params) in
        [("prompt.submit", json!({"session_id": first, "text": "x"})), ("session.clear", json!({"session_id": first}))]
    {
        rpc.fails(method, params, "not_found").await?;
    }
    let nothing = rpc.call("prompt.abort", json!({"session_id": first})).await?;
    expect_eq!("L18": nothing.flag("/aborted")?, false, "an abort of an evicted session");
    // The next one in age was used least recently now; a use brings it to the front.
    rpc.call("session.clear", json!({"session_id": second})).await?;
    create(&mut rpc).await?;
    for kept in [second, last] {
        prompt(&mut rpc, kept, "x").await?;
    }
    let listed = rpc.call("session.list", json!({})).await?;
    expect_eq!("L06": listed.list("/sessions")?.len(), bags.len() + 1, "sessions in the list, evicted ones too");
    expect!(on.server()?.transcript(first).exists(), "the evicted transcript is gone");
    expect!(rpc.call("prompt.abort", json!({"session_id": busy})).await?.flag("/aborted")?, "the busy bag was evicted");
    expect_eq!(rpc.reply(running).await?.ok()?.text("/stopped_reason")?, "aborted", "the run of the oldest bag");
    Ok(())
}

async fn evicted_is_resumed(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().args(["--max-session-bags", "1"]);
    let on = ctx.start(&launch).await?;
    let mut rpc = on.ws().await?;
    let first = create(&mut rpc).await?;
    prompt(&mut rpc, &first, "one").await?;
    create(&mut rpc).await?;
    rpc.fails("prompt.submit", json!({"session_id": first, "text": "x"}), "not_found").await?;
    let resumed = resume(&mut rpc, &first).await?;
    expect_eq!(resumed.int("/message_count")?, 2, "messages of an evicted session");
    let fork = resumed.text("/session_id")?;
    expect_eq!(prompt(&mut rpc, &fork, "two").await?.text("/reply")?, "two", "the resumed session");
    Ok(())
}

async fn other_holds_stay(ctx: &mut Ctx) -> Outcome {
    let launch = ctx.launch().wires(&[Wire::Ws, Wire::Http]).args(["--max-session-bags", "1"]);
    let mut on = ctx.start(&launch).await?;
    let mut rpc = on.ws().await?;
    let http = on.http()?;
    let shared = create(&mut rpc).await?;
    prompt(&mut rpc, &shared, "one").await?;
    http.post("/v1/sessions", &json!({"resume": shared})).await?.want(200).of("H07")?;
    // A session of larik's own counts nowhere here.
    on.front_on(Wire::Http).await?.create_session().await?;
    create(&mut rpc).await?;
    let detail = http.get(&format!("/v1/sessions/{shared}")).await?.want(200)?;
    expect_eq!(detail.flag("/loaded")?, true, "a session that larik holds, after lich's eviction");
    let reply = blame(prompt(&mut rpc, &shared, "two").await, "C17")?.text("/reply")?;
    expect_eq!(reply, "two", "a session that is live through another wire");
    http.delete(&format!("/v1/sessions/{shared}")).await?.want(204)?;
    rpc.fails("prompt.submit", json!({"session_id": shared, "text": "x"}), "not_found").await?;
    Ok(())
}

/// Everything up to the end of the connection: the answers among it.
async fn answers(rpc: &mut Rpc) -> Outcome<Vec<(i64, Reply)>> {
    rpc.end().await?;
    let frames = rpc.unread();
    let ids = |frame: &crate::client::rpc::Frame| frame.json.get("id").and_then(Value::as_i64);
    Ok(frames.iter().filter_map(|frame| Some((ids(frame)?, read_reply(frame)))).collect())
}

async fn shutdown_in_calls(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    prompt(&mut rpc, &id, "one").await?;
    let mut asked = Vec::new();
    for _ in 0..100 {
        asked.push(rpc.send("session.create", json!({"source": "conformance"})).await?);
        asked.push(rpc.send("session.resume", json!({"id": id})).await?);
    }
    on.server()?.signal(Signal::TERM);
    let answered = answers(&mut rpc).await?;
    let status = on.server()?.exited(Duration::from_secs(9)).await?;
    expect_eq!("C09": status.code(), Some(0), "the exit status: {status}");
    let mut made = vec![id.clone()];
    for (asked, reply) in answered {
        match &reply.result {
            Ok(result) => made.push(result.text("/session_id")?),
            Err(_) => drop(reply.fails("closing").map_err(|stop| match stop {
                Stop::Broke { clause, seen } => Stop::Broke { clause, seen: format!("call {asked}: {seen}") },
                other @ (Stop::Skip(_) | Stop::Harness(_)) => other,
            })?),
        }
    }
    // Every one that was told is stored whole, is let go of, and is no bag of the next process.
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let listed = rpc.call("session.list", json!({})).await?;
    let listed: Vec<String> = listed.list("/sessions")?.iter().map(|row| row.text("/id")).collect::<Outcome<_>>()?;
    for id in &made {
        expect!(listed.contains(id), "{id} was told before the end, and is not listed after it");
    }
    for id in made.iter().rev().take(5) {
        rpc.fails("session.clear", json!({"session_id": id}), "not_found").await?;
        resume(&mut rpc, id).await?;
    }
    expect!(on.server()?.transcript(&id).exists(), "the transcript that was forked is gone");
    Ok(())
}

async fn killed_in_a_run(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let (answered, fresh) = (create(&mut rpc).await?, create(&mut rpc).await?);
    prompt(&mut rpc, &answered, "one").await?;
    let text = "/say begun\n/sleep 60000";
    for id in [&answered, &fresh] {
        rpc.send("prompt.submit", json!({"session_id": id, "text": text})).await?;
        let delta = |params: &Value| {
            params.get("session_id") == Some(&json!(id)) && params.pointer("/event/type") == Some(&json!("llm_delta"))
        };
        rpc.notified("event", "the first delta", delta).await.of("L16")?;
    }
    on.server()?.kill().await?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    for (id, messages) in [(&answered, 2), (&fresh, 0)] {
        let path = on.server()?.transcript(id);
        let before = bytes(&path)?;
        let resumed = resume(&mut rpc, id).await?;
        let count = resumed.int("/message_count")?;
        // What the killed run had said may be kept; the prompt alone, unanswered, may not.
        expect!("L09": count == messages || count == messages + 2, "{count} messages after a kill in mid-run, want {messages}");
        expect!("L09": bytes(&path)? == before, "a resume changed the transcript of a killed run");
        let fork = resumed.text("/session_id")?;
        expect_eq!(prompt(&mut rpc, &fork, "next").await?.text("/reply")?, "next", "the prompt after a kill");
        let again = resume(&mut rpc, &fork).await?;
        expect_eq!("L10": again.int("/message_count")?, count + 2, "messages of the fork, resumed again");
    }
    Ok(())
}

async fn run_answers_at_the_end(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.ws().await?;
    let id = create(&mut rpc).await?;
    let sent =
        rpc.send("prompt.submit", json!({"session_id": id, "text": "/say begun\n/sleep 500\n/say ended"})).await?;
    rpc.notified("event", "of the run", |_| true).await?;
    on.server()?.signal(Signal::TERM);
    let answered = answers(&mut rpc).await?;
    let reply = answered.into_iter().find(|(id, _)| *id == sent).map(|(_, reply)| reply);
    let reply = reply.ok_or_else(|| Stop::broke("the submit was not answered before the socket closed"))?.ok()?;
    expect_eq!(
        (reply.text("/stopped_reason")?.as_str(), reply.text("/reply")?.as_str()),
        ("completed", "begunended"),
        "the result"
    );
    expect_eq!(on.server()?.exited(Duration::from_secs(5)).await?.code(), Some(0), "the exit status");
    Ok(())
}
