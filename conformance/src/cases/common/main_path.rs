//! The main path, the same on all three wires: create, list, prompt, a tool, a permission, a cancel, and the history after it.

use crate::{
    case::Wire,
    cases,
    cases::{ALL, ASKING, FOREVER, write},
    client::{Run, front::text_of},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Blame, Outcome, Stop},
};
use serde_json::Value;

cases! {
    "c01-create-is-listed" on ALL [C01] => create_is_listed;
    "c01-prompt-streams-and-ends" on ALL [C01, L16, H13, S22] needs [Script] => prompt_streams_and_ends;
    "c01-events-come-in-the-stated-order" on ALL [C01, L17, H14, S27] needs [Script] => events_in_order;
    "c01-history-holds-both-sides" on ALL [C01, L14, H11, S07] needs [Script, Files] => history_holds_both_sides;
    "c01-tool-changes-a-file" on ALL [C01, L17, H13, S22] needs [Script, Process] => tool_changes_a_file;
    "c01-cancel-ends-a-run" on ALL [C01, L18, H19, S15] needs [Script] => cancel_ends_a_run;
    "c01-cancel-of-nothing-is-false" on ALL [C01, L18, H19, S15] => cancel_of_nothing;
    "c01-second-prompt-follows-the-first" on ALL [C01] needs [Script, Files] => second_prompt;
    "c01-failed-run-is-an-outcome" on ALL [C01, L14, H18, S15] needs [Script] => failed_run;
    "c01-permission-allowed-runs-the-tool" on ASKING [C01, H21, S15] needs [Script, Process] => permission_allowed;
    "c01-permission-denied-runs-nothing" on ASKING [C01, H21, S15] needs [Script, Process] => permission_denied;
    "c01-permission-expires-with-its-run" on ASKING [C01, H19, H14, S15] needs [Script, Process] => permission_expires;
}

async fn create_is_listed(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let first = front.create_session().await?;
    let second = front.create_session().await?;
    expect!(first != second, "two creates gave one id: {first}");
    let listed = front.list().await?;
    for id in [&first, &second] {
        expect!(listed.iter().filter(|listed| *listed == id).count() == 1, "{id} is not listed once: {listed:?}");
    }
    Ok(())
}

async fn prompt_streams_and_ends(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    let run = front.prompt(&session, "hello world").await?;
    expect_eq!(run.reply, "hello world", "the reply");
    expect_eq!(run.stopped, "completed", "the stopped reason");
    let deltas = run.all("llm_delta");
    let mut text = String::new();
    for delta in &deltas {
        text += &delta.data.text("/text")?;
    }
    expect_eq!(text, "hello world", "the deltas, joined");
    expect!(deltas.len() >= 2, "a word a chunk, got {} deltas", deltas.len());
    Ok(())
}

/// A run's types in order, without those that may stand anywhere.
fn fixed(run: &Run) -> Vec<&str> {
    run.shape().into_iter().filter(|kind| !matches!(*kind, "usage" | "settings_changed" | "extension")).collect()
}

async fn events_in_order(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    let run = front.prompt(&session, "hello world").await?;
    let (before, after) =
        if front.wire() == Wire::Ws { (vec![], vec![]) } else { (vec!["status", "user_message"], vec!["status"]) };
    let middle = ["turn_start", "llm_start", "llm_delta", "llm_end", "final"];
    let want: Vec<&str> = before.into_iter().chain(middle).chain(after).collect();
    expect_eq!(fixed(&run), want, "the types of a run's events");
    for event in run.all("turn_start") {
        expect_eq!(event.data.int("/turn")?, 1, "the first turn");
    }
    if front.wire() == Wire::Http {
        let busy: Vec<bool> = run.all("status").iter().map(|event| event.data.flag("/busy")).collect::<Outcome<_>>()?;
        expect_eq!("H14": busy, [true, false], "`status`");
        let said = run.all("user_message");
        expect_eq!("H14": said.len(), 1, "user messages");
        for message in said {
            expect_eq!("H14": message.data.text("/text")?, "hello world", "the user message");
        }
    }
    Ok(())
}

async fn history_holds_both_sides(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.prompt(&session, "hello world").await?;
    let messages = front.messages(&session).await?;
    expect_eq!(
        said(&messages),
        [("user".to_owned(), "hello world".to_owned()), ("assistant".to_owned(), "hello world".to_owned())],
        "the history"
    );
    Ok(())
}

/// Role and text of each message.
fn said(messages: &[Value]) -> Vec<(String, String)> {
    let role = |message: &Value| message.get("role").and_then(Value::as_str).unwrap_or("?").to_owned();
    messages.iter().map(|message| (role(message), text_of(message))).collect()
}

async fn tool_changes_a_file(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve_bypass().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    let run = front.prompt(&session, &write("a.txt", "x")).await?;
    expect_eq!(run.stopped, "completed", "the stopped reason");
    let (starts, ends) = (run.all("tool_call_start"), run.all("tool_call_end"));
    let ([start], [end]) = (starts.as_slice(), ends.as_slice()) else {
        return Err(Stop::broke(format!("one tool call was asked for: {:?}", run.shape())));
    };
    expect_eq!(start.data.text("/name")?, "write", "the tool");
    expect_eq!(start.data.at("/input")?.clone(), serde_json::json!({"path": "a.txt", "content": "x"}), "its input");
    expect_eq!(end.data.flag("/error")?, false, "whether it failed: {}", end.data);
    let call = |data: &Value| data.text("/call_id").or_else(|_| data.text("/callId"));
    expect_eq!(call(&start.data)?, call(&end.data)?, "the call's id");
    expect!(run.all("permission_request").is_empty(), "bypass asks for nothing: {:?}", run.shape());
    expect_eq!(std::fs::read_to_string(ctx.work().join("a.txt")).unwrap_or_default(), "x", "the file");
    expect_eq!(run.all("turn_start").len(), 2, "turns");
    Ok(())
}

async fn cancel_ends_a_run(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.start(&session, FOREVER).await?;
    front.until(&session, "turn_start").await?;
    expect!(front.cancel(&session).await?, "a cancel of a run in flight says that there was nothing");
    let run = front.finish(&session).await?;
    expect_eq!(run.stopped, "aborted", "the stopped reason");
    // It never reaches a later run.
    let next = front.prompt(&session, "after").await?;
    expect_eq!((next.stopped.as_str(), next.reply.as_str()), ("completed", "after"), "the run after a cancelled one");
    expect!(!front.cancel(&session).await?, "a cancel after the run's end says that there was one");
    Ok(())
}

async fn cancel_of_nothing(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    expect!(!front.cancel(&session).await?, "a cancel of an idle session says that there was a run");
    Ok(())
}

async fn second_prompt(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    for text in ["one", "two"] {
        let run = front.prompt(&session, text).await?;
        expect_eq!(run.reply, text, "the reply");
    }
    let texts: Vec<String> = said(&front.messages(&session).await?).into_iter().map(|(_, text)| text).collect();
    expect_eq!(texts, ["one", "one", "two", "two"], "the history");
    Ok(())
}

async fn failed_run(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    let run = front.prompt(&session, "/fail unavailable").await?;
    expect_eq!(run.stopped, "error", "the stopped reason");
    let errors = run.all("error");
    expect_eq!(errors.len(), 1, "`error` events in {:?}", run.shape());
    expect!(
        !errors.iter().any(|error| error.data.text("/message").is_ok_and(|text| text.is_empty())),
        "an error without a message"
    );
    let next = front.prompt(&session, "after").await?;
    expect_eq!(next.reply, "after", "the run after a failed one");
    Ok(())
}

/// The id of a permission request's event.
fn request_id(data: &Value) -> Outcome<String> {
    data.text("/request_id").or_else(|_| data.text("/requestId"))
}

async fn permission_allowed(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.start(&session, &write("a.txt", "x")).await?;
    let request = front.until(&session, "permission_request").await?;
    expect_eq!(request.data.text("/tool")?, "write", "the tool that asks");
    let kinds: Vec<String> =
        request.data.list("/options")?.iter().map(|option| option.text("/kind")).collect::<Outcome<_>>()?;
    for kind in ["allow_once", "allow_always", "reject_once", "reject_always"] {
        expect!(kinds.iter().any(|offered| offered == kind), "`{kind}` is not offered: {kinds:?}");
    }
    expect!(!ctx.work().join("a.txt").exists(), "the tool ran before it was allowed");
    front.answer(&session, &request_id(&request.data)?, true).await?;
    let resolved = front.until(&session, "permission_resolved").await?;
    expect_eq!(resolved.data.text("/outcome")?, "allowed", "the outcome");
    expect_eq!(request_id(&resolved.data)?, request_id(&request.data)?, "whose outcome");
    let run = front.finish(&session).await?;
    expect_eq!(run.stopped, "completed", "the stopped reason");
    expect_eq!(std::fs::read_to_string(ctx.work().join("a.txt")).unwrap_or_default(), "x", "the file");
    Ok(())
}

async fn permission_denied(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.start(&session, &write("a.txt", "x")).await?;
    let request = request_id(&front.until(&session, "permission_request").await?.data)?;
    front.answer(&session, &request, false).await?;
    let resolved = front.until(&session, "permission_resolved").await?;
    expect_eq!(resolved.data.text("/outcome")?, "denied", "the outcome");
    let run = front.finish(&session).await?;
    for end in run.all("tool_call_end") {
        expect!(end.data.flag("/error")?, "a refused call is no failure: {}", end.data);
    }
    expect!(!ctx.work().join("a.txt").exists(), "the tool ran although it was denied");
    Ok(())
}

async fn permission_expires(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut front = on.front().await?;
    let session = front.create_session().await?;
    front.start(&session, &write("a.txt", "x")).await?;
    let request = request_id(&front.until(&session, "permission_request").await?.data)?;
    expect!(front.cancel(&session).await?, "a cancel of a waiting run says that there was nothing");
    let run = front.finish(&session).await?;
    let outcomes: Vec<String> =
        run.all("permission_resolved").iter().map(|event| event.data.text("/outcome")).collect::<Outcome<_>>()?;
    expect_eq!(outcomes, ["expired"], "`permission_resolved` after a cancel");
    expect_eq!(run.stopped, "aborted", "the stopped reason");
    let late = front.answer(&session, &request, true).await;
    expect!(late.is_err(), "an answer to an expired request was taken");
    expect!(!ctx.work().join("a.txt").exists(), "the tool ran although its request expired");
    front.prompt(&session, "after").await.of("C05")?;
    Ok(())
}
