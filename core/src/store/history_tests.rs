//! A history is written as words: `u1` a user message with id u1, `a2` the assistant's, `c3:x,y` its calls, `r4:x` results,
//! `|clear`, `|compact`, `<u1` a rewind, `<` one to the start, `?n` an unknown line, `{r` and `r}` a run.

use super::*;
use serde_json::json;
use triplane_protocol::{SessionId, Stop, ir::Mode};

fn boundary_record(why: Boundary, summary: Option<String>) -> Record {
    Record::Boundary { why, summary, id: None, at: 2, kept: None, extra: Extra::new() }
}

fn message(id: &str, role: Role, parts: Vec<Part>) -> Record {
    Record::Message(Message::of(id.into(), role, parts, 1))
}

fn fold(script: &str) -> History {
    let mut history = History::default();
    for word in script.split_whitespace() {
        let (id, rest) = word.split_once(':').unwrap_or((word, ""));
        let calls = || rest.split(',').filter(|id| !id.is_empty()).map(CallId::from);
        history.apply(match word.as_bytes()[0] {
            b'u' => message(id, Role::User, vec![Part::text(id)]),
            b'a' => message(id, Role::Assistant, vec![Part::text(id)]),
            b'c' => message(id, Role::Assistant, calls().map(|id| Part::call(id, "t", json!({}))).collect()),
            b'r' => message(id, Role::Tool, calls().map(|id| Part::result(id, vec![], false)).collect()),
            b'|' if word == "|clear" => boundary_record(Boundary::Clear, None),
            b'|' => boundary_record(Boundary::Compact, Some("sum".into())),
            b'<' => Record::Rewind { to: Some(&word[1..]).filter(|id| !id.is_empty()).map(MessageId::from) },
            b'{' => Record::started(word[1..].into()),
            b'}' => Record::ended(word[1..].into(), Stop::Completed),
            b'?' => {
                let raw = RawValue::from_string(format!(r#"{{"type":"new","n":{}}}"#, &word[1..])).unwrap();
                history.apply_unknown(raw);
                continue;
            }
            _ => panic!("{word}"),
        });
    }
    history
}

fn show(messages: &[Arc<Message>]) -> String {
    let word = |message: &Arc<Message>| {
        let mut word = message.id.to_string();
        for part in &message.parts {
            match part {
                Part::Known(KnownPart::Result { id, error: true, .. }) => word += &format!("!{id}"),
                Part::Known(KnownPart::Text { text, .. }) if text == "sum" => word += "=sum",
                Part::Known(_) | Part::Other(_) => {}
            }
        }
        word
    };
    messages.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn check(script: &str, seen: &str, context: &str) {
    let history = fold(script);
    assert_eq!(show(history.messages()), seen, "{script}");
    assert_eq!(show(&history.context()), context, "context of {script}");
    let again = refold(&history);
    assert_eq!(again.messages(), history.messages(), "fork of {script}");
    assert_eq!(show(&again.context()), context, "context of the fork of {script}");
}

fn header() -> Header {
    serde_json::from_value(json!({"v":1,"id":"f","agent":"native","cwd":"/","created":7,"parent":"p","more":1}))
        .unwrap()
}

fn refold(history: &History) -> History {
    let mut again = History::default();
    for line in history.fork_lines(header()) {
        match line {
            Line::Record(record) => again.apply(record),
            Line::Raw(raw) => again.apply_unknown((*raw).to_owned()),
        }
    }
    again
}

#[test]
fn the_projection_is_what_rewinds_and_boundaries_left() {
    check("", "", "");
    check("u1 a2 u3", "u1 a2 u3", "u1 a2 u3");
    check("u1 a2 u3 a4 <a2 u5", "u1 a2 u5", "u1 a2 u5");
    check("u1 a2 < u3", "u3", "u3");
    check("u1 a2 <nowhere", "u1 a2", "u1 a2");
    check("u1 a2 |clear", "u1 a2 boundary-1", "");
    check("u1 |clear u2 |compact u3", "u1 boundary-1 u2 boundary-2 u3", "boundary-2=sum u3");
    check("u1 a2 |clear u3 <a2", "u1 a2", "u1 a2");
    check("u1 |compact <boundary-1 u2", "u1 boundary-1 u2", "boundary-1=sum u2");
}

#[test]
fn a_call_without_a_result_gets_one_for_the_model_only() {
    check("u1 c2:x,y r3:x,y a4", "u1 c2 r3 a4", "u1 c2 r3 a4");
    check("u1 c2:x,y r3:x", "u1 c2 r3", "u1 c2 r3 c2-interrupted!y");
    check("u1 c2:x u3", "u1 c2 u3", "u1 c2 c2-interrupted!x u3");
    check("u1 c2:x r3:x c4:x r5:x", "u1 c2 r3 c4 r5", "u1 c2 r3 c4 r5");
    check("u1 c2:x,y r3:y r4:x a5", "u1 c2 r3 r4 a5", "u1 c2 r3 r4 a5");
}

#[test]
fn a_fork_loses_unanswered_prompts_and_keeps_unknown_lines() {
    let history = fold("?0 u1 a2 ?1 u3 ?2 u4 {r");
    assert_eq!(history.interrupted(), Some(&"r".into()));
    let filtered = history.filtered();
    assert_eq!(show(filtered.messages()), "u1 a2");
    assert_eq!(filtered.interrupted(), None);
    assert_eq!(show(history.messages()), "u1 a2 u3 u4", "the original stays");
    let again = refold(&filtered);
    let places = |history: &History| -> Vec<(usize, String)> {
        history.unknown().iter().map(|line| (line.after, line.raw.get().to_owned())).collect()
    };
    let expected: Vec<_> =
        [(0, 0), (2, 1), (2, 2)].map(|(after, n)| (after, format!(r#"{{"type":"new","n":{n}}}"#))).into();
    assert_eq!(places(&again), expected);
    assert_eq!(again.header(), Some(&header()));
    assert_eq!(show(fold("u1 u2").filtered().messages()), "");
    assert_eq!(show(fold("u1 |clear u2").filtered().messages()), "u1 boundary-1");
    assert_eq!(show(fold("u1 c2:x").filtered().context().as_slice()), "u1 c2 c2-interrupted!x");
    assert_eq!(show(fold("u1 a2 u3 a4").truncated(2).messages()), "u1 a2");
}

#[test]
fn a_run_is_interrupted_until_it_ended() {
    assert_eq!(fold("{r1 u1 }r1").interrupted(), None);
    assert_eq!(fold("{r1 u1 }r1 {r2 u2").interrupted(), Some(&"r2".into()));
}

#[test]
fn settings_are_folded_and_survive_a_fork() {
    let mut history = History::default();
    let set = |history: &mut History, text: serde_json::Value| {
        history.apply(Record::set(serde_json::from_value(text).unwrap()));
    };
    set(&mut history, json!({"model":"script/echo","title":"a"}));
    set(&mut history, json!({"mode":"plan"}));
    set(&mut history, json!({"title":"b"}));
    let expected = SettingsPatch {
        model: Some("script/echo".into()),
        mode: Some(Mode::Plan),
        title: Some("b".into()),
        effort: None,
    };
    assert_eq!(*history.settings(), expected);
    assert_eq!(*refold(&history).settings(), expected);
    set(&mut history, json!({"title":""}));
    assert_eq!(history.settings().title, None);
}

#[test]
fn checkpoints_follow_their_message() {
    let mut history = fold("u1 a2 u3");
    let mut save = |path: &str, before: Option<&str>, after: Option<&str>, message: &str| {
        history.apply(Record::Checkpoint(Checkpoint {
            path: path.into(),
            before: before.map(Into::into),
            after: after.map(Into::into),
            extra: Extra::new(),
            message: message.into(),
        }));
    };
    save("/f", Some("A"), None, "u1");
    save("/f", Some("A"), Some("B"), "u1");
    save("/f", Some("B"), None, "u3");
    save("/f", Some("B"), Some("C"), "u3");
    save("/f", Some("C"), Some("D"), "u3");
    save("/g", None, Some("E"), "u3");
    let shown = |history: &History| -> Vec<String> {
        let text = |hash: &Option<String>| hash.clone().unwrap_or("-".into());
        let one = |c: &Checkpoint| format!("{} {}{} {}", c.message, text(&c.before), text(&c.after), c.path);
        history.checkpoints().iter().map(one).collect()
    };
    assert_eq!(shown(&history), ["u1 AB /f", "u3 BC /f", "u3 CD /f", "u3 -E /g"]);
    assert_eq!(shown(&refold(&history)), shown(&history));
    assert_eq!(shown(&history.filtered()), ["u1 AB /f"]);
    history.apply(Record::Rewind { to: Some("a2".into()) });
    assert_eq!(shown(&history), ["u1 AB /f"]);
}

#[test]
fn usage_counts_what_was_spent_and_time_never_goes_back() {
    let mut history = History::default();
    let mut say = |id: &str, role, at| {
        let usage = Some(Usage { input: 2, output: 1, ..Usage::default() });
        history.apply(Record::Message(Message { usage, ..Message::text(id.into(), role, "x", at) }));
    };
    say("u1", Role::User, 50);
    say("a2", Role::Assistant, 60);
    say("a3", Role::Assistant, 40);
    history.apply(Record::Rewind { to: None });
    assert_eq!((history.usage().input, history.usage().output), (4, 2));
    assert_eq!(history.updated(), 60);
}

#[test]
fn boundaries_with_unknown_members_survive_a_fork() {
    let mut history = History::default();
    let boundary = json!({"type":"message","id":"b","role":"system","at":3,"colour":1,
        "parts":[{"type":"boundary","why":"compact","summary":"sum","more":2}]});
    history.apply(serde_json::from_value(boundary).unwrap());
    assert_eq!(show(&history.context()), "b=sum");
    assert_eq!(refold(&history).messages(), history.messages());
    assert_eq!(SessionId::parse("f").unwrap(), header().id);
}

#[test]
fn what_a_clear_forgot_is_left_out_and_a_compaction_stays() {
    assert_eq!(show(fold("u1 |clear u2").since_clear().messages()), "u2");
    assert_eq!(show(fold("u1 |clear u2 |clear u3").since_clear().messages()), "u3");
    assert_eq!(show(fold("u1 u2").since_clear().messages()), "u1 u2");
    assert_eq!(fold("u1 |clear u2").since_clear().context().len(), fold("u1 |clear u2").context().len());
}
