//! What a history is after clears, forks, resumes, compactions, damage and restarts. Clauses: L07–L11, H11, H12, H22, S08–S11, C15,
//! FAULTS PC-11.

use crate::support::{Bed, kinds, soon};
use std::{fs, sync::Arc};
use triplane_core::{
    PlaneError,
    plane::{ClearWhen, Created, Import, Written},
};
use triplane_protocol::{Message, SessionId, Stop, event::CloseReason};

#[tokio::test]
async fn l07_a_clear_leaves_the_bytes_alone_until_the_next_prompt() {
    let bed = Bed::new();
    let id = bed.create().await;
    bed.run(&id, "one").await;
    let before = fs::read(bed.transcript(&id)).unwrap();
    soon(bed.plane.clear(&id, ClearWhen::NextAppend)).await.unwrap();
    assert_eq!(fs::read(bed.transcript(&id)).unwrap(), before);
    assert_eq!(bed.run(&id, "history").await.reply, "history");
    assert!(fs::read(bed.transcript(&id)).unwrap().starts_with(&before));
    // A resume sees what the live session saw.
    let (_, forked) = soon(bed.plane.resume_fork(&bed.hold, id.as_str(), None)).await.unwrap();
    assert_eq!(bed.run(&forked.session.row.id, "history").await.reply, "history|history|history");
}

#[tokio::test]
async fn h22_a_clear_is_written_at_once_and_shown_where_it_happened() {
    let bed = Bed::new();
    let id = bed.create().await;
    bed.run(&id, "one").await;
    let before = fs::metadata(bed.transcript(&id)).unwrap().len();
    soon(bed.plane.clear(&id, ClearWhen::Now)).await.unwrap();
    assert!(fs::metadata(bed.transcript(&id)).unwrap().len() > before);
    let bed = bed.restart().await;
    soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    assert_eq!(bed.run(&id, "history").await.reply, "history");
    assert_eq!(bed.texts(&id).await, ["one", "one", "", "history", "history"]);
}

#[tokio::test]
async fn l09_l10_a_resume_forks_what_was_answered_and_leaves_the_original_alone() {
    let bed = Bed::new();
    let id = bed.create().await;
    bed.run(&id, "one").await;
    // A prompt that was never answered.
    let run = bed.start(&id, "wait").await;
    soon(bed.plane.cancel(&id)).await.unwrap();
    soon(run.finished()).await.unwrap();
    assert_eq!(bed.texts(&id).await, ["one", "one", "wait"]);
    let before = fs::read(bed.transcript(&id)).unwrap();
    let (resumed, forked) = soon(bed.plane.resume_fork(&bed.hold, "latest", Some("ide".into()))).await.unwrap();
    let fork = forked.session.row.id.clone();
    assert!(resumed == id && fork != id);
    assert_eq!(forked.message_count, 2);
    let appended = fs::read(bed.transcript(&fork)).unwrap();
    bed.run(&fork, "two").await;
    assert!(fs::read(bed.transcript(&fork)).unwrap().starts_with(&appended));
    let bed = bed.restart().await;
    let (resumed, again) = soon(bed.plane.resume_fork(&bed.hold, "latest", None)).await.unwrap();
    assert_eq!((resumed, again.message_count), (fork.clone(), 4));
    assert_eq!(bed.run(&again.session.row.id, "history").await.reply, "one|one|two|two|history");
    assert_eq!(fs::read(bed.transcript(&id)).unwrap(), before, "the original is never changed");
    let exported = soon(bed.plane.export(&fork, None)).await.unwrap();
    assert_eq!(exported.parent, Some(id));
}

#[tokio::test]
async fn l08_l11_what_cannot_be_resolved_or_read_is_said_so() {
    let bed = Bed::new();
    let resume = async |text: &str| bed.plane.resume_fork(&bed.hold, text, None).await.unwrap_err();
    assert!(matches!(resume("latest").await, PlaneError::NotFound { .. }));
    assert!(matches!(resume("../x").await, PlaneError::InvalidParams(_)));
    assert!(matches!(resume("").await, PlaneError::InvalidParams(_)));
    let (a, b) = (bed.create().await, bed.create().await);
    assert!(matches!(resume(&a.as_str()[..4]).await, PlaneError::Ambiguous(_)));
    fs::remove_file(bed.transcript(&b)).unwrap();
    assert!(matches!(resume(b.as_str()).await, PlaneError::NotFound { .. }));
    let (resumed, _) = soon(bed.plane.resume_fork(&bed.hold, &a.as_str()[..30], None)).await.unwrap();
    assert_eq!(resumed, a);
}

#[tokio::test]
async fn h12_a_fork_branches_before_a_prompt_or_keeps_everything() {
    let bed = Bed::new();
    let id = bed.create().await;
    bed.run(&id, "one").await;
    bed.run(&id, "two").await;
    let before = fs::read(bed.transcript(&id)).unwrap();
    let all = soon(bed.plane.fork(&bed.hold, &id, None)).await.unwrap();
    assert_eq!((all.message_count, all.prompt), (4, None));
    let part = soon(bed.plane.fork(&bed.hold, &id, Some(2))).await.unwrap();
    assert_eq!((part.message_count, part.prompt.as_deref()), (2, Some("two")));
    assert!(part.session.row.live);
    assert_eq!(bed.run(&part.session.row.id, "history").await.reply, "one|one|history");
    let first = soon(bed.plane.fork(&bed.hold, &id, Some(0))).await.unwrap();
    assert_eq!(first.message_count, 0);
    for at in [1, 4, 99] {
        let error = soon(bed.plane.fork(&bed.hold, &id, Some(at))).await.unwrap_err();
        assert!(matches!(error, PlaneError::InvalidParams(_)), "{at}: {error}");
    }
    assert_eq!(fs::read(bed.transcript(&id)).unwrap(), before);
    let run = bed.start(&id, "gate").await;
    assert!(matches!(soon(bed.plane.fork(&bed.hold, &id, None)).await, Err(PlaneError::Busy(_))));
    bed.open_gate();
    soon(run.finished()).await.unwrap();
    // A stored session forks without being loaded.
    soon(bed.plane.detach(&id, CloseReason::Explicit)).await.unwrap();
    soon(bed.plane.fork(&bed.hold, &id, Some(2))).await.unwrap();
    assert!(!bed.plane.is_live(&id));
}

async fn pages(bed: &Bed, id: &SessionId, limit: Option<usize>) -> Vec<Vec<String>> {
    let (mut before, mut pages) = (None, Vec::new());
    loop {
        let page = soon(bed.plane.history(id, None, limit, before.as_ref())).await.unwrap();
        let texts = |message: &Arc<Message>| message.plain_text();
        pages.push(page.messages.iter().map(texts).collect());
        match page.before {
            Some(id) => before = Some(id),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn s11_history_comes_in_pages_newest_first_bounded_by_count_and_by_bytes() {
    let bed = Bed::with(|config| {
        config.limits.history_limit = 3;
        config.limits.history_bytes = 2000;
    });
    let id = bed.create().await;
    assert_eq!(pages(&bed, &id, None).await, [[""; 0]]);
    for text in ["a", "b"] {
        bed.run(&id, text).await;
    }
    let long = format!("repeat 1\n{}", "x".repeat(1800));
    bed.run(&id, &long).await;
    let answer = "x".repeat(1800);
    assert_eq!(pages(&bed, &id, None).await, [vec![&*answer], vec![&*long], vec!["a", "b", "b"], vec!["a"]]);
    assert_eq!(pages(&bed, &id, Some(1)).await.len(), 6);
    assert_eq!(pages(&bed, &id, Some(500)).await.len(), 4, "no more than the limit, whoever asks");
    let error = soon(bed.plane.history(&id, None, None, Some(&"nowhere".into()))).await.unwrap_err();
    assert!(matches!(error, PlaneError::InvalidParams(_)), "{error}");
}

/// A transcript as another life, another version or a crash may have left it.
fn plant(bed: &Bed, name: &str, lines: &[&str]) -> SessionId {
    let id = SessionId::parse(name).unwrap();
    let cwd = bed.cwd().display();
    let header = format!(
        r#"{{"type":"session","v":1,"id":"{name}","agent":"test","cwd":"{cwd}","created":5,"later":{{"x":1}}}}"#
    );
    fs::write(bed.transcript(&id), format!("{header}\n{}", lines.join("\n"))).unwrap();
    id
}

const PROMPT: &str = r#"{"type":"message","id":"u","role":"user","parts":[{"type":"text","text":"go"}],"at":6}"#;

#[tokio::test]
async fn pc11_a_run_that_was_cut_off_is_closed_at_load() {
    let bed = Bed::new();
    let call = r#"{"type":"message","id":"a","role":"assistant","parts":[{"type":"call","id":"c1","name":"bash","input":{}}],"at":7}"#;
    let id = plant(&bed, "cut", &[r#"{"type":"run","id":"r","state":"started"}"#, PROMPT, call, r#"{"type":"mess"#]);
    let before = fs::read(bed.transcript(&id)).unwrap();
    let detail = soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    assert!(!detail.row.busy && detail.permissions.is_empty());
    assert_eq!(detail.row.updated, 7, "C13: loading is not a write");
    let torn = r#"{"type":"mess"#.len();
    assert_eq!(fs::read(bed.transcript(&id)).unwrap(), before[..before.len() - torn]);
    // The model sees the call answered: user, call, result, prompt.
    assert_eq!(bed.run(&id, "history").await.reply, "go|||history");
    let text = fs::read_to_string(bed.transcript(&id)).unwrap();
    assert!(text.contains(r#"{"type":"run","id":"r","state":"ended","stop":"aborted"}"#), "{text}");
    assert_eq!(text.matches(r#""state":"started""#).count(), text.matches(r#""state":"ended""#).count());
}

#[tokio::test]
async fn c15_what_is_not_known_survives_and_what_is_damaged_costs_its_line() {
    let bed = Bed::new();
    let strange = r#"{"type":"hologram","depth":3}"#;
    let extra =
        r#"{"type":"message","id":"a","role":"assistant","parts":[{"type":"smell","of":"rain"}],"at":7,"mood":"good"}"#;
    let set = r#"{"type":"set","title":"t","taste":"sweet"}"#;
    let id = plant(&bed, "odd", &[PROMPT, strange, "{ damaged", set, extra, ""]);
    soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    bed.run(&id, "next").await;
    let text = fs::read_to_string(bed.transcript(&id)).unwrap();
    assert!(text.contains(strange) && text.contains("{ damaged"), "nothing is rewritten: {text}");
    let forked = soon(bed.plane.fork(&bed.hold, &id, None)).await.unwrap();
    let fork = fs::read_to_string(bed.transcript(&forked.session.row.id)).unwrap();
    for kept in
        [strange, r#""mood":"good""#, r#"{"type":"smell","of":"rain"}"#, r#""taste":"sweet""#, r#""later":{"x":1}"#]
    {
        assert!(fork.contains(kept), "{kept} is not in {fork}");
    }
    let exported = soon(bed.plane.export(&id, None)).await.unwrap();
    let whole = serde_json::to_string(&exported).unwrap();
    assert!(whole.contains(r#""later":{"x":1}"#) && whole.contains(r#""mood":"good""#), "{whole}");
    let Written { id: copy, .. } = soon(bed.plane.import("test", exported, Import::default())).await.unwrap();
    let copied = serde_json::to_string(&soon(bed.plane.export(&copy, None)).await.unwrap()).unwrap();
    assert!(copied.contains(r#""taste":"sweet""#), "{copied}");
    assert!(copied.contains(r#""later":{"x":1}"#) && copied.contains(r#"{"type":"smell","of":"rain"}"#), "{copied}");
}

#[tokio::test]
async fn s09_s28_an_import_has_its_own_id_or_a_free_one() {
    let bed = Bed::new();
    let id = bed.create().await;
    bed.run(&id, "one").await;
    let session = soon(bed.plane.export(&id, Some("test"))).await.unwrap();
    let chosen = Import { id: Some(SessionId::parse("mine").unwrap()), title: Some("t".into()), ..Import::default() };
    let Written { id: copy, agent, .. } =
        soon(bed.plane.import("test", session.clone(), chosen.clone())).await.unwrap();
    assert_eq!((copy.as_str(), agent.as_str()), ("mine", "test"));
    assert!(!bed.plane.is_live(&copy));
    assert_eq!(bed.plane.get(&copy).await.unwrap().row.title.as_deref(), Some("t"));
    assert_eq!(bed.texts(&copy).await, bed.texts(&id).await);
    let error = soon(bed.plane.import("test", session.clone(), chosen)).await.unwrap_err();
    assert!(matches!(error, PlaneError::Invalid(_)), "{error}");
    let error = soon(bed.plane.import("nobody", session, Import::default())).await.unwrap_err();
    assert!(matches!(error, PlaneError::UnknownAgent(_)), "{error}");
    let Written { id: copy, .. } = soon(bed.plane.convert(&id, "test", None)).await.unwrap();
    assert_eq!(bed.texts(&copy).await, ["one", "one"]);
}

#[tokio::test]
async fn h22_a_compaction_puts_a_summary_in_the_models_place_and_keeps_the_rest_for_people() {
    let bed = Bed::new();
    let id = bed.create().await;
    bed.run(&id, "one").await;
    soon(bed.plane.compact(&id)).await.unwrap();
    assert_eq!(bed.run(&id, "history").await.reply, "summary of 2|history");
    assert_eq!(bed.texts(&id).await.len(), 5);
    let bed = bed.restart().await;
    soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    assert_eq!(bed.run(&id, "history").await.reply, "summary of 2|history|summary of 2|history|history");
    // A run like any other: it is busy, and it can be cancelled.
    bed.run(&id, "slow summary").await;
    let mut reader = bed.reader(&id).await;
    let compaction = bed.plane.compact(&id);
    let cancel = async {
        reader.to("status").await;
        assert!(matches!(bed.plane.clear(&id, ClearWhen::Now).await, Err(PlaneError::Busy(_))));
        assert!(bed.plane.cancel(&id).await.unwrap());
    };
    let (compacted, ()) = soon(async { tokio::join!(compaction, cancel) }).await;
    assert!(matches!(compacted, Err(PlaneError::Cancelled)), "{compacted:?}");
    assert_eq!(bed.run(&id, "next").await.reply, "next");
}

#[tokio::test]
async fn a_run_whose_context_is_refused_goes_on_with_a_smaller_one() {
    let bed = Bed::new();
    let id = bed.create().await;
    bed.run(&id, "one").await;
    let mut reader = bed.reader(&id).await;
    let result = bed.run(&id, "fits 2\nhistory").await;
    assert_eq!((result.stop, result.reply.as_str()), (Stop::Completed, "summary of 2|fits 2\nhistory"));
    let told = kinds(&reader.until_idle().await);
    assert_eq!(told, ["status", "user_message", "compaction", "final", "status"]);
    assert_eq!(bed.texts(&id).await, ["one", "one", "fits 2\nhistory", "", "summary of 2|fits 2\nhistory"]);
    // The same after a load, and in a fork.
    let seen = "summary of 2|fits 2\nhistory|summary of 2|fits 2\nhistory|history";
    let bed = bed.restart().await;
    let fork = soon(bed.plane.resume_fork(&bed.hold, id.as_str(), None)).await.unwrap().1.session.row.id;
    soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    assert_eq!(bed.run(&id, "history").await.reply, seen);
    assert_eq!(bed.run(&fork, "history").await.reply, seen);
    // An undo takes the prompt back with its boundary.
    let undone = soon(bed.plane.undo(&fork)).await.unwrap();
    assert_eq!(undone.prompt, "history");
    assert_eq!(soon(bed.plane.undo(&fork)).await.unwrap().prompt, "fits 2\nhistory");
    assert_eq!(bed.texts(&fork).await, ["one", "one"]);
    // What cannot get smaller is an error, once.
    let result = bed.run(&fork, "fits 1\nx").await;
    assert_eq!((result.stop, result.error.unwrap().code), (Stop::Error, triplane_protocol::ErrorCode::TooLarge));
}

#[tokio::test]
async fn an_agent_asks_for_a_smaller_context_before_a_turn_and_keeps_its_count() {
    let bed = Bed::with(|config| config.limits.max_turns = 3);
    let id = bed.create().await;
    bed.run(&id, "one").await;
    let mut reader = bed.reader(&id).await;
    let result = bed.run(&id, "nearly 2\nturns").await;
    assert_eq!((result.stop, result.reply.as_str(), result.turns), (Stop::Completed, "2", 2));
    let told = kinds(&reader.until_idle().await);
    assert_eq!(told, ["status", "user_message", "turn_start", "compaction", "final", "status"]);
    // Two messages stay, the summary and the prompt; asking on and on ends with the turns.
    let result = bed.run(&id, "nearly 1\nturns").await;
    assert_eq!((result.stop, result.turns), (Stop::MaxTurns, 3));
}

#[tokio::test]
async fn what_create_was_given_is_what_the_first_prompt_writes() {
    let bed = Bed::new();
    let settings = triplane_protocol::event::SettingsPatch {
        model: Some("test/two".into()),
        title: Some("a title".into()),
        ..Default::default()
    };
    let created = Created { settings, label: Some("l".into()), source: Some("s".into()), ..Created::default() };
    let id = soon(bed.plane.create(&bed.hold, created)).await.unwrap().row.id;
    assert_eq!(bed.run(&id, "model").await.reply, "test/two");
    let bed = bed.restart().await;
    let row = soon(bed.plane.attach(&bed.hold, &id)).await.unwrap().row;
    assert_eq!((row.title.as_deref(), row.model.as_deref()), (Some("a title"), Some("test/two")));
    let bad = triplane_protocol::event::SettingsPatch { model: Some("other/x".into()), ..Default::default() };
    let created =
        Created { settings: bad, fallbacks: vec!["nor/this".into(), "test/three".into()], ..Created::default() };
    let fallen = soon(bed.plane.create(&bed.hold, created)).await.unwrap().row;
    assert_eq!(fallen.model.as_deref(), Some("test/three"));
}
