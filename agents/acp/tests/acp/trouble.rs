//! Agents that die, hang, shout, and leave things behind.

use crate::house::{House, kinds, soon};
use std::time::{Duration, Instant};
use triplane_protocol::{AgentEvent, ErrorCode, Stop};

pub(crate) async fn a_call_that_never_ends() {
    let mut house = House::new().await;
    let (result, events) = house.run("never").await;
    assert_eq!(result.stop, Stop::Completed);
    assert!(
        events.iter().any(|event| matches!(event, AgentEvent::ToolCallEnd { error: true, .. })),
        "{}",
        kinds(&events)
    );
}

pub(crate) async fn cancel_while_it_streams() {
    let mut house = House::new().await;
    let run = house.begin("hang").await;
    house.until(|event| matches!(event, AgentEvent::LlmDelta { .. })).await;
    assert!(soon(house.plane.cancel(&house.id)).await.unwrap());
    let (result, _) = house.end(run).await;
    assert_eq!(result.stop, Stop::Aborted);
    assert_eq!(house.run("again").await.0.reply, "you said again ");
}

pub(crate) async fn cancel_while_a_permission_waits() {
    let mut house = House::new().await;
    let run = house.begin("permit").await;
    house.asked().await;
    assert!(soon(house.plane.cancel(&house.id)).await.unwrap());
    let (result, events) = house.end(run).await;
    assert_eq!(result.stop, Stop::Aborted);
    assert!(kinds(&events).contains("permission_resolved"));
    assert_eq!(house.run("again").await.0.stop, Stop::Completed);
}

pub(crate) async fn an_agent_that_does_not_listen_is_ended() {
    let mut house = House::new().await;
    let run = house.begin("deaf").await;
    house.until(|event| matches!(event, AgentEvent::LlmDelta { .. })).await;
    let began = Instant::now();
    soon(house.plane.cancel(&house.id)).await.unwrap();
    assert_eq!(house.end(run).await.0.stop, Stop::Aborted);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(house.run("again").await.0.reply, "you said again ", "another process has taken over");
}

pub(crate) async fn death_is_told_and_the_next_run_goes_on() {
    let mut house = House::new().await;
    let (result, events) = house.run("die").await;
    let error = result.error.expect("a death is an error");
    assert_eq!((result.stop, error.code), (Stop::Error, ErrorCode::Unavailable));
    assert!(error.message.contains("out of cheese") && error.message.len() < 2000, "{}", error.message);
    assert!(kinds(&events).contains("llm_delta"), "what was said before stays said");
    assert_eq!(house.run("history").await.0.reply, "2 prompts, 1 blocks");
}

pub(crate) async fn garbage_is_skipped() {
    let mut house = House::new().await;
    assert_eq!(house.run("garbage").await.0.reply, "still here");
}

pub(crate) async fn errors_are_told() {
    let mut house = House::new().await;
    let (result, _) = house.run("error").await;
    assert!(result.error.is_some_and(|error| error.message.contains("the model said 400")));
    let (result, _) = house.run("login").await;
    let error = result.error.expect("an agent that wants a login cannot run");
    assert!(error.code == ErrorCode::Unauthorized && error.message.contains("log in"), "{error:?}");
    let (result, _) = house.run("silent-error").await;
    assert_eq!((result.stop, result.reply.as_str()), (Stop::Completed, ""), "what an agent hides cannot be told");
}

pub(crate) async fn nothing_is_left_behind() {
    if std::process::Command::new("setsid").arg("true").status().is_err() {
        return println!("skipped: there is no setsid to leave a daemon with");
    }
    let mut house = House::new().await;
    let pid: u32 = house.run("daemon").await.0.reply.parse().unwrap();
    assert!(alive(pid));
    soon(house.plane.shutdown(Duration::ZERO)).await;
    drop(house);
    let gone = async {
        while alive(pid) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(gone).await;
}

fn alive(pid: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}
