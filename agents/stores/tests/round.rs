//! What goes into a store comes out of it again, in every format and over two of them, but for what was reported as lost.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot look has failed"
)]

mod common;

use common::{Bed, schema};
use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};
use triplane_protocol::{
    CallId, Message, MessageId, Part, Role, Session, SessionId, Usage,
    ir::{Extra, KnownPart},
};
use triplane_stores::Kind;

/// What a format holds, told a second time.
#[derive(Clone, Copy)]
struct Holds {
    signed: Signed,
    images: bool,
    result_images: bool,
    errors: bool,
    usage: bool,
    reasoning: bool,
    cost: bool,
    models: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Signed {
    Only,
    Kept,
    Dropped,
}

const ALL: Holds = Holds {
    signed: Signed::Kept,
    images: true,
    result_images: true,
    errors: true,
    usage: true,
    reasoning: true,
    cost: true,
    models: true,
};

fn holds(kind: Kind) -> Option<Holds> {
    Some(match kind {
        Kind::Claude => Holds { signed: Signed::Only, reasoning: false, cost: false, ..ALL },
        Kind::Codex => Holds { signed: Signed::Dropped, errors: false, cost: false, ..ALL },
        Kind::Opencode => Holds { result_images: false, ..ALL },
        Kind::Gemini | Kind::Qwen => Holds { signed: Signed::Dropped, result_images: false, cost: false, ..ALL },
        Kind::Kimi => {
            Holds { signed: Signed::Dropped, result_images: false, reasoning: false, cost: false, models: false, ..ALL }
        }
        Kind::Cline => Holds { reasoning: false, ..ALL },
        Kind::Copilot => {
            Holds { signed: Signed::Dropped, images: false, result_images: false, usage: false, models: false, ..ALL }
        }
        Kind::Cursor | Kind::Devin => return None,
    })
}

fn text() -> impl Strategy<Value = String> {
    "[a-zé][a-zA-Z0-9 \"\\\\\u{1f600}\n]{0,12}[a-z]"
}

fn image() -> Part {
    Part::Known(KnownPart::Image {
        mime: "image/png".into(),
        data: Some("iVBORw0KGgo=".into()),
        uri: None,
        extra: Extra::new(),
    })
}

type Step = (Option<(String, Option<String>)>, String, Vec<(String, String, bool, bool)>, Option<(u64, u64, u64)>);

fn step() -> impl Strategy<Value = Step> {
    let calls = vec(("[a-z_]{1,8}", text(), any::<bool>(), any::<bool>()), 0..3);
    (
        option::of((text(), option::of("[A-Za-z0-9]{4,8}"))),
        text(),
        calls,
        option::of((1..1000_u64, 1..1000_u64, 0..2_u64)),
    )
}

/// Prompts, each with the steps of its answer.
fn session() -> impl Strategy<Value = Session> {
    let turns = vec((text(), any::<bool>(), vec(step(), 1..3)), 1..4);
    (turns, option::of(text())).prop_map(|(turns, title)| {
        let (mut messages, mut at, mut calls) = (Vec::new(), 1_790_000_000_000_i64, 0);
        let mut push = |role, parts, usage: Option<Usage>| {
            at += 1234;
            let mut message = Message::of(MessageId::from(format!("x{at}").as_str()), role, parts, at);
            if role == Role::Assistant {
                message.model = Some("anthropic/fake-1".into());
                message.usage = usage;
            }
            messages.push(message);
        };
        for (prompt, pictured, steps) in turns {
            let mut parts = vec![Part::text(prompt)];
            parts.extend(pictured.then(image));
            push(Role::User, parts, None);
            let last = steps.len() - 1;
            for (number, (thought, said, mut asked, usage)) in steps.into_iter().enumerate() {
                // An answer goes on only behind a tool's result; formats without bounds of messages rely on it.
                if number < last && asked.is_empty() {
                    asked.push(("look".into(), "found".into(), false, false));
                }
                let mut parts: Vec<Part> =
                    thought.into_iter().map(|(text, signature)| Part::thinking(text, signature)).collect();
                parts.push(Part::text(said));
                let mut results = Vec::new();
                for (name, output, error, pictured) in asked {
                    calls += 1;
                    let id = CallId::from(format!("c{calls}").as_str());
                    parts.push(Part::call(id.clone(), name, json!({"x": output, "n": calls})));
                    let mut out = vec![Part::text(output)];
                    out.extend(pictured.then(image));
                    results.push(Part::result(id, out, error));
                }
                let usage = usage.map(|(input, output, deep)| Usage {
                    input: input + 10,
                    output: output + 10,
                    cached: input / 2,
                    reasoning: deep * 5,
                    cost: (deep > 0).then_some(0.25),
                });
                push(Role::Assistant, parts, usage);
                if !results.is_empty() {
                    push(Role::Tool, results, None);
                }
            }
        }
        Session {
            version: 1,
            id: SessionId::parse("source").unwrap(),
            agent: "native".into(),
            cwd: "/tmp/some where/pröject".into(),
            title: title.map(|title| title.replace('\n', " ")),
            model: Some("anthropic/fake-1".into()),
            effort: None,
            mode: None,
            created: 1_789_999_999_000,
            updated: 1_790_000_100_000,
            parent: None,
            usage: None,
            messages,
            extra: Extra::new(),
        }
    })
}

/// Role, time, pieces, usage and model of neighbours that became one.
type Merged = (Role, i64, Vec<Value>, Option<Usage>, Value);

/// What is to come out: neighbours of one role are one, and only what the format holds is there.
fn normal(session: &Session, holds: Holds) -> Vec<Value> {
    let mut merged: Vec<Merged> = Vec::new();
    for message in &session.messages {
        let parts: Vec<Value> = message.parts.iter().filter_map(|part| piece(part, holds)).collect();
        let usage = message.usage.filter(|_| holds.usage).map(|usage| Usage {
            reasoning: if holds.reasoning { usage.reasoning } else { 0 },
            cost: usage.cost.filter(|_| holds.cost),
            ..usage
        });
        let model = json!(message.model.as_ref().filter(|_| holds.models));
        match merged.last_mut().filter(|last| last.0 == message.role) {
            Some(last) => {
                last.2.extend(parts);
                last.3 = match (last.3, usage) {
                    (Some(mut sum), Some(usage)) => {
                        sum += usage;
                        Some(sum)
                    }
                    (one, other) => one.or(other),
                };
            }
            // Where results stand with their calls they have those's time.
            None => merged.push((
                message.role,
                if message.role == Role::Tool { 0 } else { message.at },
                parts,
                usage,
                model,
            )),
        }
    }
    merged.into_iter().map(|(role, at, parts, usage, model)| json!([role, at, parts, usage, model])).collect()
}

fn piece(part: &Part, holds: Holds) -> Option<Value> {
    match part {
        Part::Known(KnownPart::Thinking { text, signature, .. }) => match (holds.signed, signature) {
            (Signed::Only, None) => None,
            (Signed::Dropped, _) => Some(json!(["thinking", text, null])),
            (Signed::Only | Signed::Kept, signature) => Some(json!(["thinking", text, signature])),
        },
        Part::Known(KnownPart::Image { .. }) if !holds.images => None,
        Part::Known(KnownPart::Result { id, output, error, .. }) => {
            let keep = |part: &&Part| holds.result_images || part.as_text().is_some();
            Some(json!(["result", id, output.iter().filter(keep).collect::<Vec<_>>(), *error && holds.errors]))
        }
        other => Some(json!(other)),
    }
}

fn both(a: Holds, b: Holds) -> Holds {
    let signed = match (a.signed, b.signed) {
        // What one drops the other one wants.
        (Signed::Only, other) | (other, Signed::Only) if other != Signed::Dropped => Signed::Only,
        (Signed::Kept, Signed::Kept) => Signed::Kept,
        _ => Signed::Dropped,
    };
    Holds {
        signed,
        images: a.images && b.images,
        result_images: a.result_images && b.result_images,
        errors: a.errors && b.errors,
        usage: a.usage && b.usage,
        reasoning: a.reasoning && b.reasoning,
        cost: a.cost && b.cost,
        models: a.models && b.models,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_format_gives_back_what_it_holds(session in session()) {
        let bed = Bed::new();
        for kind in Kind::all() {
            let Some(holds) = holds(kind) else { continue };
            let (saved, back) = bed.round(kind, &session);
            prop_assert_eq!(normal(&back, holds), normal(&session, holds), "{}", kind.id());
            prop_assert_eq!(&back.cwd, &session.cwd);
            // These two know no other time of creation than that of their first record, and say so.
            let created = if matches!(kind, Kind::Claude | Kind::Qwen) { session.messages[0].at } else { session.created };
            prop_assert_eq!(back.created, created, "{}", kind.id());
            if let Some(title) = &session.title {
                prop_assert_eq!(back.title.as_ref(), Some(title), "{}", kind.id());
            }
            let whole = normal(&session, ALL) == normal(&session, holds);
            prop_assert!(whole || !saved.lost.is_empty(), "{} loses something and says nothing", kind.id());
        }
    }

    #[test]
    fn two_formats_give_back_what_both_hold(session in session(), a in 0..8_usize, b in 0..8_usize) {
        let kinds: Vec<Kind> = Kind::all().filter(|kind| holds(*kind).is_some()).collect();
        let (a, b) = (kinds[a], kinds[b]);
        // Reasoning that neither needs nor drops its signature goes through both.
        prop_assume!(!matches!((a, b), (Kind::Claude, _) | (_, Kind::Claude)));
        let bed = Bed::new();
        let (_, first) = bed.round(a, &session);
        let (_, second) = bed.round(b, &first);
        let (_, third) = bed.round(a, &second);
        let common = both(holds(a).unwrap(), holds(b).unwrap());
        prop_assert_eq!(normal(&third, common), normal(&session, common), "{} and {}", a.id(), b.id());
    }
}

#[test]
fn the_schema_of_the_test_is_a_database() {
    schema(&tempfile::tempdir().unwrap().path().join("opencode.db"));
}
