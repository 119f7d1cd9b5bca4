//! Requests that are sent without waiting: those of one session start in the order in which they came, and nothing that could
//! answer a run waits for it. Clauses: S12, S13, S15, S22.

use super::{create, prompt};
use crate::{
    cases,
    cases::{FOREVER, STDIO},
    ctx::Ctx,
    expect_eq,
    json::Json,
    verdict::Outcome,
};
use serde_json::{Value, json};

cases! {
    "s12-attach-and-prompt-in-one-go" on STDIO [S12, S15, S22] needs [Script] => in_one_go;
    "s15-nothing-waits-for-a-run" on STDIO [S15] needs [Script] => nothing_waits;
    "s15-a-batch-of-attach-and-prompt" on STDIO [S15, C02] needs [Script] => batch;
}

async fn in_one_go(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    for round in 0..20 {
        let calls = [
            ("sessions.detach", json!({"id": id})),
            ("sessions.attach", json!({"id": id})),
            ("sessions.subscribe", json!({"id": id})),
            ("sessions.prompt", prompt(&id, &format!("round {round}"))),
        ];
        let mut sent = Vec::new();
        for (method, params) in calls {
            sent.push(rpc.send(method, params).await?);
        }
        for call in sent {
            rpc.reply(call).await?.ok()?;
        }
        // The subscription stood before the run began.
        rpc.notified("session.event", "a run", |params| params.to_string().contains("runStarted")).await?;
        rpc.notified("session.event", "its end", |params| params.to_string().contains("runFinished")).await?;
    }
    let whole = rpc.call("sessions.get", json!({"id": id})).await?;
    expect_eq!(whole.list("/messages")?.len(), 40, "messages of 20 rounds");
    Ok(())
}

async fn nothing_waits(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let run = rpc.send("sessions.prompt", prompt(&id, FOREVER)).await?;
    let second = rpc.send("sessions.prompt", prompt(&id, "x")).await?;
    let read = rpc.send("sessions.get", json!({"id": id})).await?;
    let watch = rpc.send("sessions.subscribe", json!({"id": id})).await?;
    rpc.reply(second).await?.fails("busy")?;
    rpc.reply(read).await?.ok()?;
    rpc.reply(watch).await?.ok()?;
    expect_eq!(rpc.call("sessions.cancel", json!({"id": id})).await?, json!({"cancelled": true}), "the cancel");
    expect_eq!(rpc.reply(run).await?.ok()?.text("/stopReason")?, "aborted", "the run");
    Ok(())
}

async fn batch(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let id = create(&mut rpc, ctx).await?;
    let one =
        |at: &str, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": at, "method": method, "params": params});
    let batch = json!([
        one("a", "sessions.detach", json!({"id": id})),
        one("b", "sessions.attach", json!({"id": id})),
        one("c", "sessions.prompt", prompt(&id, "x")),
    ]);
    rpc.raw(&batch.to_string()).await?;
    let frame = rpc.next().await?;
    expect_eq!(frame.json.text("/2/result/reply")?, "x", "the third answer of {}", frame);
    Ok(())
}
