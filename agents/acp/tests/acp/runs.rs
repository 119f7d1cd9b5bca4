//! What an agent tells, as events and messages.

use crate::house::{House, kinds, mode, soon};
use triplane_protocol::{AgentEvent, Part, Role, Stop, event::PlanState, ir::Mode};

pub(crate) async fn text_and_thoughts() {
    let mut house = House::new().await;
    let (result, events) = house.run("hello there").await;
    assert_eq!((result.stop, result.reply.as_str(), result.turns), (Stop::Completed, "you said hello there", 1));
    assert_eq!((result.usage.input, result.usage.output), (7, 3));
    assert_eq!(kinds(&events), "turn_start llm_start llm_delta llm_delta llm_end");
    let (_, events) = house.run("think hard").await;
    assert_eq!(kinds(&events), "turn_start llm_start llm_thinking_delta llm_delta llm_end");
    let (result, events) = house.run("echo once").await;
    assert_eq!(
        (result.reply.as_str(), kinds(&events).matches("llm_delta").count()),
        ("once", 1),
        "an echoed prompt is no reply"
    );
    let roles: Vec<Role> = house.messages().await.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User, Role::Assistant]);
}

pub(crate) async fn calls_with_states_that_repeat() {
    let mut house = House::new().await;
    let (result, events) = house.run("states").await;
    assert_eq!((result.stop, result.turns), (Stop::Completed, 2));
    let expected = "turn_start llm_start llm_end tool_call_start tool_call_output tool_call_output tool_call_end extension \
        turn_start llm_start llm_delta llm_end";
    assert_eq!(kinds(&events), expected);
    let pieces: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::ToolCallOutput { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(pieces, ["one\n", "two\n"], "content that is told again is not said again");
    let Some(AgentEvent::ToolCallEnd { output, error: false, .. }) =
        events.iter().find(|event| event.kind() == "tool_call_end")
    else {
        panic!("the call did not end well")
    };
    assert_eq!(output.first().and_then(Part::as_text), Some("one\ntwo\n"));
    let roles: Vec<Role> = house.messages().await.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
}

pub(crate) async fn a_diff_and_a_plan() {
    let mut house = House::new().await;
    let (_, events) = house.run("diff").await;
    let diff = events.iter().find_map(|event| match event {
        AgentEvent::ToolCallEnd { diff, .. } => diff.clone(),
        _ => None,
    });
    let diff = diff.expect("a diff");
    assert!(diff.contains("-old") && diff.contains("+new") && diff.contains("a/a.txt"), "{diff}");
    let (result, events) = house.run("plan").await;
    let Some(AgentEvent::Plan { entries }) = events.iter().find(|event| event.kind() == "plan") else {
        panic!("no plan")
    };
    let states: Vec<PlanState> = entries.iter().map(|entry| entry.state).collect();
    assert_eq!(states, [PlanState::Done, PlanState::Active, PlanState::Pending]);
    assert_eq!((result.stop, result.reply.as_str()), (Stop::Completed, ""), "nothing was said");
}

pub(crate) async fn what_is_not_known_is_passed_on() {
    let mut house = House::new().await;
    let (result, events) = house.run("unknown").await;
    assert_eq!(result.reply, "-32601", "a request that nobody knows is refused as such");
    let names: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Extension { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["acp/_auth/status_update", "acp/x/notify", "acp/never_heard_of"]);
}

pub(crate) async fn updates_after_the_answer() {
    let mut house = House::new().await;
    let (_, events) = house.run("late").await;
    let late =
        events.iter().any(|event| matches!(event, AgentEvent::Extension { name, .. } if name == "acp/usage_update"));
    assert!(late, "{events:?}");
}

pub(crate) async fn permissions_are_asked_with_the_agents_own_options() {
    let mut house = House::new().await;
    for (option, reply) in [("proceed", "proceed"), ("stop", "stop"), ("user", "user")] {
        let run = house.begin("permit").await;
        let request = house.asked().await;
        // Its first id is 0; the call was never begun by the agent.
        assert_eq!((request.tool.as_str(), request.input["command"].as_str()), ("execute", Some("rm x")));
        let ids: Vec<&str> = request.options.iter().map(|option| option.id.as_str()).collect();
        assert_eq!(ids, ["proceed", "project", "user", "stop"]);
        house.answer(&request, option).await;
        let (result, events) = house.end(run).await;
        assert_eq!(result.reply, reply);
        assert!(kinds(&events).contains("tool_call_end"), "{}", kinds(&events));
    }
    // `user` was an `allow_always`: from now on nobody is asked, and the agent is told its own `allow_once`.
    let (result, events) = house.run("permit").await;
    assert_eq!(result.reply, "proceed");
    assert!(!kinds(&events).contains("permission_request"));
    let mut free = House::with(&[], mode(Mode::Bypass)).await;
    assert_eq!(free.run("permit").await.0.reply, "proceed");
}

pub(crate) async fn files_go_through_us() {
    let mut house = House::new().await;
    std::fs::write(house.work("lines"), "1\n2\n3\n").unwrap();
    assert_eq!(house.run("read lines").await.0.reply, "2\n");
    assert!(house.run("read ../outside").await.0.reply.starts_with("refused: path: must be inside"));
    assert_eq!(house.run("write lines changed").await.0.reply, "done");
    assert_eq!(std::fs::read_to_string(house.work("lines")).unwrap(), "changed");
    // What went through us can be taken back.
    soon(house.plane.undo(&house.id)).await.unwrap();
    assert_eq!(std::fs::read_to_string(house.work("lines")).unwrap(), "1\n2\n3\n");
    let mut plan = House::with(&[], mode(Mode::Plan)).await;
    assert!(plan.run("write new x").await.0.reply.starts_with("refused: nothing is changed"));
    assert!(!plan.work("new").exists());
}
