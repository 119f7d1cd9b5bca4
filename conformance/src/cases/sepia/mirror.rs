//! The node's feed as a mirror of the live map: whoever folds its markers knows who is live. Clauses: S24–S26.

use super::create;
use crate::{
    cases,
    cases::STDIO,
    client::rpc::{Frame, Rpc},
    ctx::Ctx,
    expect, expect_eq,
    json::Json,
    verdict::{Outcome, Stop},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

cases! {
    "s24-a-hundred-attaches-race-the-subscribe" on STDIO [S24, S25, S26] => racing;
    "s26-markers-mirror-the-live-map" on STDIO [S26, S25, S16, S21] needs [Script] => mirrors;
    "s26-a-read-only-attach-says-nothing" on STDIO [S26, S12, S15] needs [Files] => read_only;
}

/// Who is live, as the markers tell it.
#[derive(Debug, Default)]
struct Mirror {
    live: BTreeSet<String>,
    /// `deleted` was told, and `detached` not yet.
    deleted: BTreeSet<String>,
}

impl Mirror {
    /// Folds one notification. `known`: a session that `live` told may be told as `attached` once more (S24).
    fn fold(&mut self, frame: &Frame, known: &mut BTreeSet<String>) -> Outcome {
        let params = frame.json.at("/params")?;
        let kind = params.text("/type")?;
        if kind == "lagged" {
            return Err(Stop::broke(format!("a reader that reads lagged: {frame}")));
        }
        let id = params.text("/sessionId")?;
        match kind.as_str() {
            "attached" | "created" => {
                let fresh = self.live.insert(id.clone());
                expect!(fresh || known.remove(&id), "`{kind}` of a session that is live: {frame}");
            }
            "detached" => {
                let reason = params.text("/reason")?;
                expect!(self.live.remove(&id), "`detached` of a session that is not live: {frame}");
                expect_eq!(self.deleted.remove(&id), reason == "deleted", "`deleted` came before {}", frame);
            }
            "deleted" => {
                if self.live.contains(&id) {
                    self.deleted.insert(id);
                }
            }
            "sessionEvents" => expect!(self.live.contains(&id), "an event of a session that is not live: {frame}"),
            other => return Err(Stop::broke(format!("a marker that S25 does not name: `{other}` in {frame}"))),
        }
        Ok(())
    }

    /// Folds what the feed tells up to the marker of a session that is made for this alone.
    async fn catch_up(&mut self, rpc: &mut Rpc, ctx: &Ctx, known: &mut BTreeSet<String>) -> Outcome<String> {
        let fence = create(rpc, ctx).await?;
        loop {
            let frame = rpc.notification("node.event").await?;
            self.fold(&frame, known)?;
            if frame.json.pointer("/params/sessionId") == Some(&json!(fence)) {
                return Ok(fence);
            }
        }
    }
}

/// The sessions that the list shows as live.
async fn live(rpc: &mut Rpc) -> Outcome<BTreeSet<String>> {
    let listed = rpc.call("sessions.list", json!({})).await?;
    let live = listed.list("/sessions")?.iter().filter(|row| row.get("live") == Some(&json!(true)));
    live.map(|row| row.text("/id")).collect()
}

async fn racing(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    let mut ids = Vec::new();
    for _ in 0..100 {
        let id = create(&mut rpc, ctx).await?;
        rpc.call("sessions.detach", json!({"id": id})).await?;
        ids.push(id);
    }
    let (mut attaches, mut subscribe) = (Vec::new(), 0);
    for (n, id) in ids.iter().enumerate() {
        if n == 50 {
            subscribe = rpc.send("events.subscribe", json!({})).await?;
        }
        attaches.push(rpc.send("sessions.attach", json!({"id": id})).await?);
    }
    let told: BTreeSet<String> = {
        let result = rpc.reply(subscribe).await?.ok()?;
        let live = result.list("/live")?.iter().filter_map(Value::as_str).map(str::to_owned);
        live.collect()
    };
    for attach in attaches {
        rpc.reply(attach).await?.ok()?;
    }
    let (mut mirror, mut known) = (Mirror { live: told.clone(), ..Mirror::default() }, told);
    mirror.catch_up(&mut rpc, ctx, &mut known).await?;
    expect_eq!(mirror.live, live(&mut rpc).await?, "`live` and the markers, and the live map");
    let mut all: BTreeSet<String> = ids.into_iter().collect();
    expect!(all.is_subset(&mirror.live), "some of 100 attaches were never told");
    for id in all.clone() {
        rpc.send("sessions.detach", json!({"id": id})).await?;
    }
    // Each is told once, and nothing of it afterwards: the fold sees to that.
    while !all.is_empty() {
        let frame = rpc.notification("node.event").await?;
        mirror.fold(&frame, &mut known)?;
        all.retain(|id| mirror.live.contains(id));
    }
    mirror.catch_up(&mut rpc, ctx, &mut known).await?;
    expect_eq!(mirror.live, live(&mut rpc).await?, "the markers and the live map in the end");
    Ok(())
}

async fn mirrors(ctx: &mut Ctx) -> Outcome {
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await?;
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(create(&mut rpc, ctx).await?);
    }
    let (mut mirror, mut known) = (Mirror::default(), BTreeSet::new());
    // The same sequence each time; what it does to six sessions at once is another matter.
    let mut state: u32 = 1;
    let mut pick = |of: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        usize::try_from(state >> 16).unwrap_or_default() % of
    };
    for round in 0..12 {
        let mut calls = Vec::new();
        for _ in 0..20 {
            let id = ids.get(pick(ids.len())).cloned().unwrap_or_default();
            let (method, params) = match pick(if round < 8 { 5 } else { 6 }) {
                0 | 1 => ("sessions.attach", json!({"id": id})),
                2 => ("sessions.detach", json!({"id": id})),
                3 => ("sessions.prompt", super::prompt(&id, "x")),
                4 => ("sessions.rewind", json!({"id": id, "request": {"to": null}})),
                _ => ("sessions.delete", json!({"id": id})),
            };
            calls.push(rpc.send(method, params).await?);
        }
        for call in calls {
            // Many of them must fail; what counts is that the feed agrees with what came of them.
            rpc.reply(call).await?;
        }
        let fence = mirror.catch_up(&mut rpc, ctx, &mut known).await?;
        expect_eq!(mirror.live, live(&mut rpc).await?, "the markers and the live map after round {round}");
        if round >= 8 {
            ids.push(fence);
        }
    }
    expect_eq!(mirror.deleted, BTreeSet::new(), "`deleted` without `detached`");
    Ok(())
}

async fn read_only(ctx: &mut Ctx) -> Outcome {
    let id = "01890000-0000-7000-8000-000000000001";
    let dir = ctx.work().join(".triplane").join("sessions");
    std::fs::create_dir_all(&dir).map_err(Stop::harness)?;
    let header = json!({"type": "session", "v": 1, "id": id, "agent": "elsewhere", "cwd": ctx.work(), "created": 1});
    std::fs::write(dir.join(format!("{id}.jsonl")), format!("{header}\n")).map_err(Stop::harness)?;
    let mut on = ctx.serve().await?;
    let mut rpc = on.stdio()?;
    rpc.call("events.subscribe", json!({})).await?;
    let attached = rpc.call("sessions.attach", json!({"id": id})).await?;
    expect_eq!(
        (attached.flag("/readOnly")?, attached.text("/agentId")?.as_str()),
        (true, "elsewhere"),
        "an attach whose agent is not here"
    );
    expect_eq!("S12": live(&mut rpc).await?, BTreeSet::new(), "who is live after a read-only attach");
    rpc.fails("sessions.prompt", super::prompt(id, "x"), "not_found").await?;
    rpc.call("sessions.get", json!({"id": id})).await?;
    let (mut mirror, mut known) = (Mirror::default(), BTreeSet::new());
    let fence = mirror.catch_up(&mut rpc, ctx, &mut known).await?;
    expect_eq!(mirror.live, BTreeSet::from([fence]), "who was told to be live");
    Ok(())
}
