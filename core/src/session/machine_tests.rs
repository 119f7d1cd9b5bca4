//! The state machine, driven directly: a script of inputs, and the effects that come of them.

use super::{
    Machine,
    input::{ClearWhen, Closing, Effect, Input, Origin, PromptInput, Reply, Say, Ticket},
};
use crate::{
    agent::{RunError, RunOutcome, Settings},
    plane::{Answer, Choice, TaskInfo, WhenBusy},
    session::TaskOutput,
    store::History,
};
use std::collections::VecDeque;
use triplane_protocol::{
    AgentEvent, CallId, ErrorCode, Message, MessageId, Part, RequestId, Role, RunId, Stop, TaskId, Usage,
    event::{CloseReason, OptionKind, Outcome, PermissionOption, PermissionRequest, SettingsPatch, TaskState},
    ir::Mode,
    record::Record,
};

fn machine() -> Machine {
    let settings = Settings { model: "m".into(), effort: None, mode: Mode::Default };
    Machine::new(History::default(), settings, 2)
}

fn prompt(name: &str, when_busy: WhenBusy) -> PromptInput {
    PromptInput {
        run_id: RunId::from(name),
        message_id: MessageId::from(format!("m-{name}")),
        parts: vec![Part::text(name)],
        origin: Origin::Client,
        when_busy,
        at: 1,
    }
}

fn request(id: &str) -> PermissionRequest {
    let option = |kind, id: &str| PermissionOption { id: id.into(), name: id.into(), kind };
    PermissionRequest {
        request_id: RequestId::from(id),
        call_id: CallId::from("c"),
        tool: "bash".into(),
        title: String::new(),
        input: serde_json::Value::Null,
        options: vec![
            option(OptionKind::AllowOnce, "yes"),
            option(OptionKind::AllowAlways, "ever"),
            option(OptionKind::RejectOnce, "no"),
        ],
    }
}

fn outcome(stop: Stop) -> RunOutcome {
    RunOutcome { stop, reply: "r".into(), usage: Usage::default(), turns: 1, error: None }
}

const USAGE: Usage = Usage { input: 10, output: 1, cached: 0, reasoning: 0, cost: None };

fn failure(code: ErrorCode) -> RunError {
    RunError { code, message: "no".into(), retryable: false }
}

fn overflow(turns: u32, early: bool) -> RunOutcome {
    let outcome = RunOutcome::needs_compaction(USAGE, turns);
    if early { outcome } else { RunOutcome { error: Some(failure(ErrorCode::TooLarge)), ..outcome } }
}

/// `verb args`, one input. Tickets are numbers.
fn input(words: &[&str]) -> Input {
    let ticket = |at: usize| Ticket(words[at].parse().unwrap());
    let run = |at: usize| RunId::from(words[at]);
    match words[0] {
        "prompt" => Input::Prompt(ticket(1), prompt(words[2], WhenBusy::Refuse)),
        "queue" => Input::Prompt(ticket(1), prompt(words[2], WhenBusy::Queue)),
        "withdraw" => Input::Withdraw(ticket(1)),
        "cancel" => Input::Cancel(ticket(1), words.get(2).map(|id| RunId::from(*id))),
        "say" => Input::Agent(run(1), Say::Event(AgentEvent::LlmDelta { text: words[2].into() })),
        "message" => {
            let message = Message::text(MessageId::from(words[2]), Role::Assistant, words[2], 2);
            Input::Agent(run(1), Say::Message(message))
        }
        "ask" => Input::Agent(run(1), Say::Ask { request: request(words[2]), answerable: true }),
        "ask-nobody" => Input::Agent(run(1), Say::Ask { request: request(words[2]), answerable: false }),
        "end" => Input::Agent(run(1), Say::Ended(outcome(Stop::Completed))),
        "aborted" => Input::Agent(run(1), Say::Ended(outcome(Stop::Aborted))),
        // What was said does not fit: as the provider found, and as the agent saw it coming.
        "overflow" => Input::Agent(run(1), Say::Ended(overflow(words[2].parse().unwrap(), false))),
        "nearly-full" => Input::Agent(run(1), Say::Ended(overflow(words[2].parse().unwrap(), true))),
        "squeezed" => Input::Compacted(run(1), Ok(("s".into(), USAGE)), MessageId::from(words[2]), 3),
        "not-squeezed" => Input::Compacted(run(1), Err(failure(ErrorCode::Unavailable)), MessageId::from("b"), 3),
        "turn" => Input::Agent(run(1), Say::Event(AgentEvent::TurnStart { turn: 1, model: "m".into() })),
        "overdue" => Input::Overdue(run(1)),
        "answer" => {
            let choice = match words[3] {
                "allow" => Choice::Kind { allow: true, always: false },
                "deny-always" => Choice::Kind { allow: false, always: true },
                option => Choice::Option(option.into()),
            };
            Input::Answer(ticket(1), RequestId::from(words[2]), Answer { choice, reason: None, by: None })
        }
        "set" => {
            let patch = SettingsPatch { model: Some(words[2].into()), ..SettingsPatch::default() };
            Input::Set(ticket(1), patch)
        }
        "clear" => Input::Clear(ticket(1), MessageId::from("b"), 3, ClearWhen::Now),
        "clear-later" => Input::Clear(ticket(1), MessageId::from("b"), 3, ClearWhen::NextAppend),
        "reserve" => Input::Reserve(ticket(1)),
        "release" => Input::Release(ticket(1), vec![Record::Rewind { to: None }]),
        "compact" => Input::Compact(ticket(1), RunId::from("k")),
        "summary" => Input::Compacted(RunId::from("k"), Ok(("s".into(), Usage::default())), MessageId::from("b"), 3),
        "task" => Input::TaskStarted(TaskInfo {
            id: TaskId::from(words[1]),
            title: "t".into(),
            state: TaskState::Running,
            started: 1,
            ended: None,
            output: TaskOutput::default(),
        }),
        "task-done" => Input::TaskEnded(TaskId::from(words[1]), TaskState::Done, "out".into(), 2),
        "record" => Input::Record(ticket(1), Record::Rewind { to: None }),
        "stop-task" => Input::StopTask(ticket(1), TaskId::from(words[2])),
        "evict" => Input::Close(ticket(1), CloseReason::Idle, Closing::IfIdle),
        "close" => Input::Close(ticket(1), CloseReason::Explicit, Closing::Now),
        "drain" => Input::Close(ticket(1), CloseReason::Shutdown, Closing::AfterRun),
        other => panic!("no input `{other}`"),
    }
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Append { records, .. } => format!("write:{}", records.len()),
        Effect::Publish(AgentEvent::Status { busy, .. }) => if *busy { "+busy" } else { "+idle" }.into(),
        Effect::Publish(AgentEvent::PermissionResolved { outcome, .. }) => match outcome {
            Outcome::Allowed => "+allowed".into(),
            Outcome::Denied => "+denied".into(),
            Outcome::Expired => "+expired".into(),
        },
        Effect::Publish(AgentEvent::TurnStart { turn, .. }) => format!("+turn:{turn}"),
        Effect::Publish(AgentEvent::Error { code, .. }) => format!("+error:{code}"),
        Effect::Publish(event) => format!("+{}", event.kind()),
        Effect::Accepted { ticket, run_id } => {
            format!("accepted:{}:{run_id}", ticket.map_or("-".into(), |t| t.0.to_string()))
        }
        Effect::StartRun { history, .. } => format!("run:{}", history.len()),
        Effect::CancelRun(id) => format!("cancel:{id}"),
        Effect::DropRun(id) => format!("drop:{id}"),
        Effect::Ended { run_id, outcome } if outcome.usage.input > 0 => {
            format!("ended:{run_id}:{:?}:{}:{}", outcome.stop, outcome.turns, outcome.usage.input)
        }
        Effect::Ended { run_id, outcome } => format!("ended:{run_id}:{:?}", outcome.stop),
        Effect::Reply(ticket, Ok(Reply::Done)) => format!("{}=done", ticket.0),
        Effect::Reply(ticket, Ok(Reply::Cancelled(hit))) => {
            format!("{}={}", ticket.0, hit.map_or("-".into(), |stop| format!("{stop:?}")))
        }
        Effect::Reply(ticket, Ok(Reply::Answered(answered))) => format!("{}=answered:{}", ticket.0, answered.allowed),
        Effect::Reply(ticket, Err(error)) => format!("{}!{}", ticket.0, error.code()),
        Effect::Reply(ticket, Ok(Reply::Compacted(before, after))) => {
            format!("{}=compacted:{}", ticket.0, after < before)
        }
        Effect::StartCompact { history, .. } => format!("summarize:{}", history.len()),
        Effect::Refuse(ticket, _) => format!("{}!busy", ticket.0),
        Effect::Verdict { outcome, option, .. } => format!("verdict:{outcome:?}:{}", option.as_deref().unwrap_or("-")),
        Effect::SaveRule { ticket, allow, .. } => format!("{}=rule:{allow}", ticket.0),
        Effect::WantHandover => "handover".into(),
        Effect::StopTask(id) => format!("stop:{id}"),
        Effect::Closed { closers, .. } => format!("closed:{}", closers.len()),
    }
}

/// Runs a script (`;` between inputs; `disk-full` makes writes fail from there on, `disk-ok` mends it) and compares the
/// effects of its last input.
#[track_caller]
fn check(script: &str, expected: &str) -> Machine {
    let mut machine = machine();
    let mut shown = Vec::new();
    let mut broken = false;
    for step in script.split(';') {
        let words: Vec<&str> = step.split_whitespace().collect();
        match words[0] {
            "disk-full" => broken = true,
            "disk-ok" => broken = false,
            _ => {
                shown.clear();
                let mut inputs = VecDeque::from([input(&words)]);
                while let Some(input) = inputs.pop_front() {
                    for effect in machine.step(input) {
                        shown.push(show(&effect));
                        match effect {
                            Effect::Append { then, .. } if broken => {
                                inputs.push_back(Input::StoreFailed(then, "full".into()))
                            }
                            Effect::Append { then, records, .. } => inputs.push_back(Input::Stored(then, records)),
                            Effect::WantHandover => inputs.push_back(Input::Handover(prompt("auto", WhenBusy::Refuse))),
                            Effect::DropRun(id) => {
                                inputs.push_back(Input::Agent(id, Say::Ended(outcome(Stop::Aborted))))
                            }
                            _ => (),
                        }
                    }
                }
            }
        }
    }
    assert_eq!(shown.join(" "), expected, "{script}");
    machine
}

#[test]
fn a_prompt_is_stored_then_told_then_run() {
    check("prompt 1 a", "write:2 +busy +user_message accepted:1:a run:1");
}

#[test]
fn a_run_ends_in_order_and_the_next_prompt_sees_its_history() {
    check("prompt 1 a; message a x; end a", "write:1 +final +idle ended:a:Completed");
    check("prompt 1 a; message a x; end a; prompt 2 b", "write:2 +busy +user_message accepted:2:b run:3");
}

#[test]
fn one_run_at_a_time() {
    check("prompt 1 a; prompt 2 b", "2!busy");
    check("prompt 1 a; queue 2 b; queue 3 c; queue 4 d", "4!overloaded");
    check(
        "prompt 1 a; queue 2 b; end a",
        "write:1 +final +idle ended:a:Completed write:2 +busy +user_message accepted:2:b run:2",
    );
}

#[test]
fn a_waiting_prompt_can_be_withdrawn_and_a_running_one_not() {
    check("prompt 1 a; queue 2 b; withdraw 2", "2!cancelled");
    check("prompt 1 a; withdraw 1", "");
}

#[test]
fn a_cancel_is_answered_at_the_end_and_never_reaches_a_later_run() {
    check("cancel 1", "1=-");
    check("prompt 1 a; cancel 2", "cancel:a");
    check("prompt 1 a; cancel 2; cancel 3", "");
    check("prompt 1 a; cancel 2; cancel 3; aborted a", "write:1 +final +idle ended:a:Aborted 2=Aborted 3=Aborted");
    check("prompt 1 a; end a; prompt 2 b; say a late", "");
    check("prompt 1 a; queue 2 b; end a; cancel 3 a", "3=-");
    check("prompt 1 a; queue 2 b; end a; cancel 3 b", "cancel:b");
    check("prompt 1 a; end a; overdue a", "");
}

#[test]
fn a_run_that_will_not_end_is_given_up() {
    check("prompt 1 a; cancel 2; overdue a", "drop:a write:1 +final +idle ended:a:Aborted 2=Aborted");
}

#[test]
fn the_first_answer_wins() {
    check("prompt 1 a; ask a r", "+permission_request");
    check("prompt 1 a; ask a r; answer 2 r allow", "2=answered:true +allowed verdict:Allowed:yes");
    check("prompt 1 a; ask a r; answer 2 r allow; answer 3 r allow", "3!not_found");
    check("prompt 1 a; ask a r; answer 2 r maybe", "2!invalid_params");
    let machine = check("prompt 1 a; ask a r; answer 2 x allow", "2!not_found");
    assert_eq!(machine.permissions().len(), 1);
}

#[test]
fn always_saves_a_rule_first_and_falls_back_to_once() {
    check("prompt 1 a; ask a r; answer 2 r ever", "2=rule:true +allowed verdict:Allowed:ever");
    check("prompt 1 a; ask a r; answer 2 r deny-always", "2=answered:false +denied verdict:Denied:no");
}

#[test]
fn requests_expire_with_their_run_and_a_late_answer_finds_nothing() {
    let cancelled = "prompt 1 a; ask a r; ask a s; cancel 2";
    check(cancelled, "cancel:a +expired verdict:Expired:- +expired verdict:Expired:-");
    check(&format!("{cancelled}; answer 3 r allow"), "3!not_found");
    check(&format!("{cancelled}; ask a t"), "+permission_request +expired verdict:Expired:-");
}

#[test]
fn a_request_that_nobody_could_answer_is_denied_at_once() {
    check("prompt 1 a; ask-nobody a r", "+permission_request +denied verdict:Denied:-");
}

#[test]
fn finished_tasks_start_a_turn_or_wait_for_the_run() {
    check("task t; task-done t", "+task_end handover write:2 +busy +user_message accepted:-:auto run:1");
    check("task t; prompt 1 a; task-done t", "+task_end");
    check(
        "task t; task u; prompt 1 a; task-done t; task-done u; end a",
        "write:1 +final +idle ended:a:Completed handover write:2 +busy +user_message accepted:-:auto run:2",
    );
    check("task t; task-done t; task-done t", "");
    check("task t; stop-task 1 t", "stop:t 1=done");
    check("stop-task 1 t", "1!not_found");
}

#[test]
fn settings_change_once_stored() {
    let machine = check("set 1 n", "write:1 +settings_changed 1=done");
    assert_eq!(machine.settings.model, "n");
    let machine = check("disk-full; set 1 n", "write:1 1!internal");
    assert_eq!(machine.settings.model, "m");
}

#[test]
fn a_close_cancels_and_a_drain_waits() {
    check("close 1", "+session_closed closed:1");
    check("prompt 1 a; queue 2 b; close 3", "2!closing cancel:a");
    check("prompt 1 a; close 3; aborted a", "write:1 +final +idle ended:a:Aborted +session_closed closed:1");
    check("prompt 1 a; drain 3", "");
    check("prompt 1 a; drain 3; close 4; aborted a", "write:1 +final +idle ended:a:Aborted +session_closed closed:2");
    check("task t; close 1", "stop:t +task_end +session_closed closed:1");
}

#[test]
fn nothing_happens_after_the_close() {
    for late in ["prompt 2 a", "set 2 n"] {
        check(&format!("close 1; {late}"), "2!closing");
    }
    check("close 1; cancel 2", "2=-");
    check("close 1; close 2", "2=done");
    check("task t; close 1; task-done t", "");
}

#[test]
fn a_disk_that_refuses_leaves_memory_as_the_disk_is() {
    let machine = check("disk-full; prompt 1 a", "write:2 1!internal");
    assert!(!machine.busy() && machine.messages().is_empty());
    let machine = check("prompt 1 a; disk-full; message a x", "write:1 +error:internal cancel:a");
    assert_eq!(machine.messages().len(), 1);
    check("prompt 1 a; disk-full; end a", "write:1 +error:internal +final +idle ended:a:Error");
    check("disk-full; prompt 1 a; disk-ok; prompt 2 b", "write:2 +busy +user_message accepted:2:b run:1");
}

#[test]
fn a_clear_is_written_at_once_or_with_the_next_prompt() {
    let machine = check("prompt 1 a; end a; clear 2", "write:1 2=done");
    assert_eq!(machine.history.context().len(), 0);
    let machine = check("prompt 1 a; end a; clear-later 2", "2=done");
    assert_eq!(machine.history.context().len(), 0);
    check("prompt 1 a; end a; clear-later 2; prompt 3 b", "write:3 +busy +user_message accepted:3:b run:1");
    check("prompt 1 a; clear 2", "2!busy");
}

#[test]
fn a_reservation_keeps_runs_out_until_it_is_released() {
    check("reserve 1; prompt 2 a", "2!busy");
    check("reserve 1; queue 2 a; release 3", "write:1 3=done write:2 +busy +user_message accepted:2:a run:1");
    check("reserve 1; reserve 2", "2!busy");
    check("reserve 1; cancel 2", "2=-");
    check("reserve 1; close 2; release 3", "write:1 3=done +session_closed closed:1");
    check("release 1", "1!internal");
}

#[test]
fn a_compaction_makes_the_context_smaller_and_can_be_cancelled() {
    let long = "prompt 1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; end aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    check(&format!("{long}; compact 2"), "+busy summarize:1");
    check(&format!("{long}; compact 2; summary"), "write:1 +compaction +idle 2=compacted:true");
    check(&format!("{long}; compact 2; cancel 3; summary"), "+idle 2!cancelled 3=Aborted");
    check(&format!("{long}; compact 2; prompt 3 b"), "3!busy");
}

#[test]
fn what_waits_for_a_write_goes_out_before_whatever_is_written_next() {
    // Else a reload would see them in another order than memory has them.
    let machine = check("clear-later 1; set 2 n", "write:2 +settings_changed 2=done");
    assert_eq!(machine.history.messages().len(), 1);
    check("clear-later 1; set 2 n; prompt 3 a", "write:2 +busy +user_message accepted:3:a run:1");
    check("clear-later 1; clear 2", "write:2 2=done");
    check("clear-later 1; disk-full; set 2 n; disk-ok; set 3 n", "write:2 +settings_changed 3=done");
}

#[test]
fn who_asks_for_a_run_that_is_over_is_told_at_once() {
    check("prompt 1 a; end a; ask a r", "verdict:Expired:-");
    check("prompt 1 a; end a; prompt 2 b; ask a r", "verdict:Expired:-");
    check("close 1; ask a r", "verdict:Expired:-");
}

#[test]
fn nothing_is_told_or_written_after_the_close() {
    check("close 1; task t", "stop:t");
    check("close 1; record 2", "2!closing");
}

#[test]
fn an_eviction_is_refused_by_whoever_has_something_to_do() {
    check("evict 1", "+session_closed closed:1");
    check("prompt 1 a; evict 2", "2!busy");
    check("task t; evict 2", "2!busy");
    check("reserve 1; evict 2", "2!busy");
}

#[test]
fn results_of_tasks_outlive_a_disk_that_refuses_them() {
    let failed = "task t; disk-full; task-done t";
    check(failed, "+task_end handover write:2");
    let again = "disk-ok; prompt 1 a; end a";
    let told = "write:1 +final +idle ended:a:Completed handover write:2 +busy +user_message accepted:-:auto run:2";
    check(&format!("{failed}; {again}"), told);
}

#[test]
fn a_refused_context_is_summarised_once_and_the_same_prompt_run_again() {
    let full = "prompt 1 a; message a x; end a; prompt 2 b; overflow b 0";
    // What came before the prompt is summarised; the model then sees the summary and the prompt.
    check(full, "summarize:2");
    check(&format!("{full}; squeezed b k"), "write:1 +compaction run:2");
    let machine = check(&format!("{full}; squeezed b k; end b"), "write:1 +final +idle ended:b:Completed:1:20");
    let seen: Vec<String> = machine.history.context().iter().map(|message| message.plain_text()).collect();
    assert_eq!(seen, ["s", "b"]);
    // Once.
    let again = format!("{full}; squeezed b k; overflow b 1");
    check(&again, "write:1 +error:too_large +final +idle ended:b:Error:1:30");
    // The next run may be helped again: the summary and the prompt that was answered are something.
    check(&format!("{again}; prompt 3 c; overflow c 0"), "summarize:2");
}

#[test]
fn what_the_run_said_is_summarised_with_the_rest_and_its_turns_are_counted_on() {
    let full = "prompt 1 a; message a x; nearly-full a 2";
    check(full, "summarize:2");
    check(&format!("{full}; squeezed a k; turn a"), "+turn:3");
    check(&format!("{full}; squeezed a k; end a"), "write:1 +final +idle ended:a:Completed:3:20");
    // It may ask again once it got further.
    check(&format!("{full}; squeezed a k; message a y; nearly-full a 1"), "summarize:3");
    check(
        &format!("{full}; squeezed a k; message a y; nearly-full a 0"),
        "write:1 +error:too_large +final +idle ended:a:Error:2:30",
    );
}

#[test]
fn nothing_to_summarise_is_the_error_that_it_was() {
    check("prompt 1 a; overflow a 0", "write:1 +error:too_large +final +idle ended:a:Error:0:10");
    check(
        "prompt 1 a; message a x; end a; compact 2; summary; prompt 3 b; overflow b 0",
        "write:1 +error:too_large +final +idle ended:b:Error:0:10",
    );
    let full = "prompt 1 a; message a x; end a; prompt 2 b; overflow b 0";
    check(&format!("{full}; not-squeezed b"), "write:1 +error:too_large +final +idle ended:b:Error:0:10");
    check(
        &format!("{full}; disk-full; squeezed b k"),
        "write:1 write:1 +error:internal +final +idle ended:b:Error:0:20",
    );
}

#[test]
fn a_run_that_is_being_summarised_is_cancelled_like_any_other() {
    let full = "prompt 1 a; message a x; end a; prompt 2 b; overflow b 0";
    check(&format!("{full}; prompt 3 c"), "3!busy");
    check(&format!("{full}; cancel 3 b"), "cancel:b");
    check(&format!("{full}; cancel 3 b; squeezed b k"), "write:1 +final +idle ended:b:Aborted:0:10 3=Aborted");
    check(&format!("{full}; cancel 3 b; not-squeezed b"), "write:1 +final +idle ended:b:Aborted:0:10 3=Aborted");
    check(
        "prompt 1 a; message a x; end a; prompt 2 b; cancel 3; overflow b 0",
        "write:1 +error:too_large +final +idle ended:b:Error:0:10 3=Error",
    );
    // The agent has nothing to say of the run meanwhile.
    check(&format!("{full}; end b"), "");
}

#[test]
fn a_cancel_tells_how_the_run_really_ended() {
    check("prompt 1 a; cancel 2; end a", "write:1 +final +idle ended:a:Completed 2=Completed");
}
