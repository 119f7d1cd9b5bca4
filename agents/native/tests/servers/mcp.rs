//! Servers of tools: shared, approved, dying, hanging, lying.

use super::house::{Case, House, Told, fake_mcp, living, mark, results, until_living};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use triplane_native::mcp::{Approvals, Standing, read_project};
use triplane_protocol::{AgentEvent, ir::Mode};

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        vec![$((concat!("mcp::", stringify!($case)), (|| Box::pin($case())) as Case)),*]
    };
}

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    cases![
        h25_sessions_share_one_server,
        a_call_asks_as_a_command_does,
        a_projects_server_is_started_only_when_it_was_approved,
        a_death_fails_the_call_and_the_next_starts_it_again,
        a_server_that_cannot_start_is_told_with_its_reason,
        a_hang_ends_with_its_time_and_a_frozen_server_is_started_anew,
        progress_is_told_and_keeps_a_call_alive,
        a_question_is_a_permission_request_and_its_option_the_answer,
        a_cancel_is_told_to_the_server_and_leaves_it_running,
        results_are_bounded,
        a_hostile_list_does_no_harm,
        a_changed_list_is_followed,
        a_server_sees_no_secret,
        a_server_ends_with_the_plane_even_if_it_does_not_want_to,
    ]
}

fn ok(told: &Told) -> &str {
    assert!(!told.error, "{told:?}");
    &told.text
}

fn failed<'a>(told: &'a Told, part: &str) -> &'a str {
    assert!(told.error && told.text.contains(part), "{told:?}");
    &told.text
}

async fn h25_sessions_share_one_server() {
    let mark = mark();
    let house = House::new(vec![fake_mcp("t", "plain", &mark)], Vec::new());
    let (mut a, mut b) = (house.session(Mode::Bypass).await, house.session_in(&house.dir("other"), Mode::Bypass).await);
    assert_eq!(living(&mark), 0, "nothing is started before it is needed");
    let (one, other) = tokio::join!(a.call("mcp__t__pid", json!({})), b.call("mcp__t__pid", json!({})));
    assert_eq!((ok(&one), living(&mark)), (ok(&other), 1));
    // Side by side: one that waits does not hold up another.
    a.start("/tool mcp__t__hang {}").await;
    assert_eq!(ok(&b.call("mcp__t__echo", json!({"text": "hi"})).await), "hi");
    a.cancel().await;
    a.idle().await;
    drop((a, b));
    house.close().await;
    until_living(&mark, 0).await;
}

async fn a_call_asks_as_a_command_does() {
    let mark = mark();
    let mut server = fake_mcp("t", "plain", &mark);
    server.read_only = vec!["pid".to_owned()];
    let house = House::new(vec![server], Vec::new());
    let mut session = house.session(Mode::Plan).await;
    failed(&session.call("mcp__t__echo", json!({"text": "hi"})).await, "plan mode");
    assert_eq!(living(&mark), 0, "a call that is refused starts nothing");
    ok(&session.call("mcp__t__pid", json!({})).await);
    let mut session = house.session(Mode::Default).await;
    session.start("/tool mcp__t__echo {\"text\":\"hi\"}\n/tool mcp__t__echo {\"text\":\"hi\"}").await;
    let request = session.answer("allow_always").await;
    assert_eq!((request.tool.as_str(), request.title.as_str()), ("mcp__t__echo", "mcp__t__echo {\"text\":\"hi\"}"));
    let told = results(&session.idle().await);
    assert_eq!(told.iter().map(ok).collect::<Vec<_>>(), ["hi", "hi"]);
    let rules = std::fs::read_to_string(house.dir("work/.triplane/permissions.toml")).unwrap();
    assert!(rules.contains("mcp__t__echo"), "{rules}");
}

async fn a_projects_server_is_started_only_when_it_was_approved() {
    let mark = mark();
    let house = House::new(vec![fake_mcp("own", "plain", &mark)], Vec::new());
    let work = house.dir("work");
    let define = |extra: &str| {
        let args = json!([super::fake::MCP, "plain", mark, extra]);
        let server = json!({ "command": "${SERVER_OF_TEST:-x}".replace('x', &super::house::me()), "args": args });
        let file = json!({ "mcpServers": { "p": server, "own": { "command": "evil" } } });
        std::fs::write(work.join(".mcp.json"), file.to_string()).unwrap();
    };
    define("one");
    let (mut here, mut there) =
        (house.session(Mode::Bypass).await, house.session_in(&house.dir("other"), Mode::Bypass).await);
    failed(&here.call("mcp__p__pid", json!({})).await, "triplane mcp approve p");
    assert_eq!(living(&mark), 0);
    let approvals = Approvals::of(&house.dir("home"));
    let named = read_project(&work).0.into_iter().find(|server| server.name == "p").unwrap();
    approvals.add(&work, &named).unwrap();
    ok(&here.call("mcp__p__pid", json!({})).await);
    failed(&there.call("mcp__p__pid", json!({})).await, "there is no MCP server `p`");
    // The owner's server keeps its name.
    ok(&here.call("mcp__own__pid", json!({})).await);
    assert_eq!(living(&mark), 2);
    define("another");
    failed(&here.call("mcp__p__pid", json!({})).await, "was not approved");
    until_living(&mark, 1).await;
    let states = house.hub.states(&work).await;
    let words: Vec<(&str, &str)> = states.iter().map(|state| (state.name.as_str(), state.state.word())).collect();
    assert_eq!(words, [("own", "ready"), ("p", "unapproved")]);
}

async fn a_death_fails_the_call_and_the_next_starts_it_again() {
    let mark = mark();
    let house = House::new(vec![fake_mcp("t", "plain", &mark)], Vec::new());
    let mut session = house.session(Mode::Bypass).await;
    let mut other = house.session(Mode::Bypass).await;
    let before = session.call("mcp__t__pid", json!({})).await;
    other.start("/tool mcp__t__hang {}").await;
    other.until(|event| matches!(event, AgentEvent::ToolCallStart { .. })).await;
    let told = session.call("mcp__t__die", json!({})).await;
    failed(&told, "went away during the call: exit code 7; it said: boom");
    failed(&results(&other.idle().await)[0], "went away during the call");
    let after = session.call("mcp__t__pid", json!({})).await;
    assert_ne!(ok(&before), ok(&after));
    // Each death is followed by a longer wait; a call does not sit it out.
    for _ in 0..2 {
        session.call("mcp__t__die", json!({})).await;
    }
    let began = Instant::now();
    let mut refused = session.call("mcp__t__die", json!({})).await;
    while !refused.text.contains("it is tried again in") {
        assert!(began.elapsed() < Duration::from_secs(20), "{refused:?}");
        refused = session.call("mcp__t__die", json!({})).await;
    }
    assert!(refused.ms < 1000, "{refused:?}");
}

async fn a_server_that_cannot_start_is_told_with_its_reason() {
    let mark = mark();
    let (mut absent, mut mute) = (fake_mcp("absent", "plain", &mark), fake_mcp("mute", "mute", &mark));
    if let triplane_native::mcp::Reach::Stdio { command, .. } = &mut absent.reach {
        *command = "no-such-program-here".to_owned();
    }
    mute.start_timeout = Duration::from_millis(500);
    let mut unset = fake_mcp("unset", "plain", &mark);
    if let triplane_native::mcp::Reach::Stdio { args, .. } = &mut unset.reach {
        args.push("${NO_SUCH_VARIABLE_HERE}".to_owned());
    }
    let house = House::new(vec![absent, mute, unset, fake_mcp("dies", "dies", &mark)], Vec::new());
    let mut session = house.session(Mode::Bypass).await;
    failed(&session.call("mcp__absent__x", json!({})).await, "no-such-program-here cannot be started");
    failed(&session.call("mcp__mute__x", json!({})).await, "it did not answer within 0.5 s of its start");
    failed(&session.call("mcp__dies__x", json!({})).await, "exit code 3; it said: no licence");
    failed(&session.call("mcp__unset__x", json!({})).await, "the variable `NO_SUCH_VARIABLE_HERE` is not set");
    until_living(&mark, 0).await;
    let states = house.hub.states(&house.dir("work")).await;
    assert!(states.iter().all(|state| matches!(state.state, Standing::Failed(_))), "{states:?}");
}

async fn a_hang_ends_with_its_time_and_a_frozen_server_is_started_anew() {
    let mark = mark();
    let (mut plain, mut frozen) = (fake_mcp("plain", "plain", &mark), fake_mcp("frozen", "frozen", &mark));
    plain.call_timeout = Duration::from_millis(500);
    frozen.call_timeout = Duration::from_millis(500);
    let house = House::new(vec![plain, frozen], Vec::new());
    let mut session = house.session(Mode::Bypass).await;
    let before = session.call("mcp__plain__pid", json!({})).await;
    let told = session.call("mcp__plain__hang", json!({})).await;
    assert_eq!(told.text, "MCP server `plain` did not answer within 0.5 s");
    assert_eq!(session.call("mcp__plain__pid", json!({})).await.text, before.text);
    assert_eq!(ok(&session.call("mcp__plain__cancelled", json!({})).await), "1");
    let before = session.call("mcp__frozen__pid", json!({})).await;
    failed(&session.call("mcp__frozen__hang", json!({})).await, "nor a ping; it is started again");
    assert_ne!(ok(&session.call("mcp__frozen__pid", json!({})).await), ok(&before));
    until_living(&mark, 2).await;
}

async fn progress_is_told_and_keeps_a_call_alive() {
    let mut server = fake_mcp("t", "plain", &mark());
    server.call_timeout = Duration::from_millis(900);
    let house = House::new(vec![server], Vec::new());
    let mut session = house.session(Mode::Bypass).await;
    let events = session.run("/tool mcp__t__progress {}").await;
    assert_eq!(ok(&results(&events)[0]), "through");
    let said: Vec<&str> = events
        .iter()
        .filter_map(
            |event| if let AgentEvent::ToolCallOutput { text, .. } = event { Some(text.as_str()) } else { None },
        )
        .collect();
    assert_eq!(said, ["[1/3] on it\n", "[2/3] on it\n", "[3/3] on it\n"]);
}

async fn a_question_is_a_permission_request_and_its_option_the_answer() {
    let mut server = fake_mcp("t", "plain", &mark());
    server.read_only = vec!["ask".to_owned()];
    server.call_timeout = Duration::from_millis(500);
    let house = House::new(vec![server], Vec::new());
    let mut session = house.session(Mode::Default).await;
    session.start("/tool mcp__t__ask {}").await;
    // A person may take longer than a call.
    let waited = session.until(|event| matches!(event, AgentEvent::ToolCallStart { .. })).await;
    assert!(!waited.is_empty());
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let request = session.answer("1").await;
    assert_eq!((request.tool.as_str(), request.title.as_str()), ("mcp__t", "t asks: which color?"));
    let events = session.idle().await;
    let answer: Value = serde_json::from_str(ok(&results(&events)[0])).unwrap();
    assert_eq!(answer, json!({"action": "accept", "content": {"color": "green"}}));
    let told = events
        .iter()
        .find_map(|e| if let AgentEvent::Extension { name, data } = e { Some((name, data)) } else { None });
    let (name, data) = told.unwrap();
    assert_eq!(
        (name.as_str(), &data["answer"], &data["message"]),
        ("mcp_elicitation", &json!("accept"), &json!("which color?"))
    );
    session.start("/tool mcp__t__ask {}").await;
    session.answer("decline").await;
    assert!(results(&session.idle().await)[0].text.contains("decline"));
    // Nobody chose, so nothing is made up.
    let mut session = house.session(Mode::Bypass).await;
    assert!(session.call("mcp__t__ask", json!({})).await.text.contains("decline"));
}

async fn a_cancel_is_told_to_the_server_and_leaves_it_running() {
    let mark = mark();
    let house = House::new(vec![fake_mcp("t", "plain", &mark)], Vec::new());
    let mut session = house.session(Mode::Bypass).await;
    let before = session.call("mcp__t__pid", json!({})).await;
    session.start("/tool mcp__t__hang {}").await;
    session.until(|event| matches!(event, AgentEvent::ToolCallStart { .. })).await;
    let began = Instant::now();
    session.cancel().await;
    assert_eq!(results(&session.idle().await)[0].text, "cancelled");
    assert!(began.elapsed() < Duration::from_secs(2));
    // The cancel may have come before the call was sent; then there was nothing to tell.
    let told = session.call("mcp__t__cancelled", json!({})).await;
    assert!(["0", "1"].contains(&ok(&told)), "{told:?}");
    assert_eq!(session.call("mcp__t__pid", json!({})).await.text, before.text);
}

async fn results_are_bounded() {
    let house = House::new(vec![fake_mcp("t", "plain", &mark())], Vec::new());
    let mut session = house.session(Mode::Bypass).await;
    let huge = session.call("mcp__t__huge", json!({})).await;
    assert!(ok(&huge).len() < 70_000 && huge.text.contains("bytes cut"), "{}", huge.text.len());
    let picture = session.call("mcp__t__picture", json!({})).await;
    assert_eq!((ok(&picture), picture.parts), ("", 2));
    failed(&session.call("mcp__t__fail", json!({})).await, "it is bad");
    failed(
        &session.call("mcp__t__nope", json!({})).await,
        "there is no tool `mcp__t__nope`; the server has mcp__t__echo",
    );
    failed(&session.call("mcp__nope__x", json!({})).await, "there is no MCP server `nope`; there are t");
    failed(&session.call("mcp__t__echo", json!([1])).await, "is not a JSON object");
    // A line without an end is cut off before it fills the memory.
    failed(&session.call("mcp__t__flood", json!({})).await, "went away during the call");
    assert_eq!(ok(&session.call("mcp__t__echo", json!({"text": "again"})).await), "again");
}

async fn a_hostile_list_does_no_harm() {
    let house = House::new(vec![fake_mcp("t", "hostile", &mark())], Vec::new());
    let states = house.hub.check(&house.dir("work")).await;
    let names = &states[0].tools;
    assert!(names.iter().any(|name| name.starts_with("mcp__t__bad__2J____name_")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("large")), "{names:?}");
    let plain =
        |name: &String| name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    assert!(names.iter().all(plain), "{names:?}");
}

async fn a_changed_list_is_followed() {
    let house = House::new(vec![fake_mcp("t", "plain", &mark())], Vec::new());
    let mut session = house.session(Mode::Bypass).await;
    failed(&session.call("mcp__t__extra", json!({})).await, "there is no tool `mcp__t__extra`");
    ok(&session.call("mcp__t__grow", json!({})).await);
    let mut told = session.call("mcp__t__extra", json!({})).await;
    // The new list is on its way.
    while told.error {
        told = session.call("mcp__t__extra", json!({})).await;
    }
    assert_eq!(told.text, "the new one");
}

async fn a_server_sees_no_secret() {
    // Set for this process by nobody but cargo; what is not basic is not handed on.
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    let mut server = fake_mcp("t", "plain", &mark());
    if let triplane_native::mcp::Reach::Stdio { env, .. } = &mut server.reach {
        env.insert("GIVEN".to_owned(), "<${PATH}>".to_owned());
    }
    let house = House::new(vec![server], Vec::new());
    let told = house.session(Mode::Bypass).await.call("mcp__t__env", json!({})).await;
    let text = ok(&told);
    assert!(text.contains("GIVEN=</") && text.contains("PATH=/") && !text.contains("CARGO_"), "{text}");
}

async fn a_server_ends_with_the_plane_even_if_it_does_not_want_to() {
    let mark = mark();
    let house = House::new(vec![fake_mcp("t", "stubborn", &mark)], Vec::new());
    ok(&house.session(Mode::Bypass).await.call("mcp__t__pid", json!({})).await);
    assert_eq!(living(&mark), 1);
    house.close().await;
    until_living(&mark, 0).await;
}
