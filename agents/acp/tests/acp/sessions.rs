//! The agent's own session behind one of ours.

use crate::house::{House, mode, soon};
use triplane_core::{plane::Created, session::input::ClearWhen};
use triplane_protocol::{
    event::SettingsPatch,
    ir::{KnownPart, Mode, Part},
};

pub(crate) async fn a_conversation_goes_on_after_a_restart() {
    let mut house = House::new().await;
    assert_eq!(house.run("history").await.0.reply, "1 prompts, 1 blocks");
    assert_eq!(house.run("history").await.0.reply, "2 prompts, 1 blocks");
    house.restart().await;
    let (result, events) = house.run("history").await;
    assert_eq!(result.reply, "3 prompts, 1 blocks", "the agent's own session was loaded");
    let deltas = events.iter().filter(|event| event.kind() == "llm_delta").count();
    assert_eq!(deltas, 1, "a replay is history, also where it goes on after the answer");
}

pub(crate) async fn an_agent_that_forgets_is_told() {
    let mut house = House::with(&[("PUPPET_FORGETS", "1")], SettingsPatch::default()).await;
    house.run("the word is swordfish").await;
    house.restart().await;
    assert_eq!(house.run("history").await.0.reply, "1 prompts, 2 blocks", "a new session, with the history in front");
}

pub(crate) async fn an_undo_is_told_anew() {
    let mut house = House::new().await;
    house.run("one").await;
    house.run("two").await;
    soon(house.plane.undo(&house.id)).await.unwrap();
    assert_eq!(house.run("history").await.0.reply, "1 prompts, 2 blocks", "the agent's session knows too much");
    soon(house.plane.clear(&house.id, ClearWhen::Now)).await.unwrap();
    assert_eq!(house.run("history").await.0.reply, "1 prompts, 1 blocks", "nothing is left to be told");
}

pub(crate) async fn models_and_modes_are_set() {
    let settings = SettingsPatch { model: Some("puppet/large".into()), ..mode(Mode::Plan) };
    let mut house = House::with(&[], settings).await;
    house.run("hello").await;
    assert!(house.work(".puppet-large").exists() && house.work(".puppet-plan").exists());
    let change = SettingsPatch { model: Some("puppet/none-such".into()), ..mode(Mode::Default) };
    soon(house.plane.set(&house.id, change)).await.unwrap();
    let (result, _) = house.run("hello").await;
    let error = result.error.expect("an agent that lacks the model says so");
    assert!(error.message.contains("none-such"), "{}", error.message);
}

pub(crate) async fn sessions_share_a_process() {
    let mut house = House::new().await;
    house.run("hello").await;
    let other = soon(house.plane.create(&house.hold, Created::default())).await.unwrap().row.id;
    let prompt = triplane_core::plane::Prompt::text("hello", triplane_core::plane::WhenBusy::Refuse);
    soon(soon(house.plane.prompt(&other, prompt)).await.unwrap().finished()).await.unwrap();
    let kept = std::fs::read_to_string(house.work(".puppet-sessions")).unwrap();
    let ids: Vec<String> =
        kept.lines().map(|line| serde_json::from_str::<(String, Vec<String>)>(line).unwrap().0).collect();
    let pids: std::collections::BTreeSet<&str> = ids.iter().filter_map(|id| id.split('-').nth(1)).collect();
    let sessions: std::collections::BTreeSet<&String> = ids.iter().collect();
    assert_eq!((pids.len(), sessions.len()), (1, 2), "{ids:?}");
    let images = triplane_core::plane::Prompt {
        parts: vec![
            Part::Known(KnownPart::Image {
                mime: "image/png".into(),
                data: Some("aGk=".into()),
                uri: None,
                extra: Default::default(),
            }),
            Part::text("kinds"),
        ],
        ..triplane_core::plane::Prompt::text("", triplane_core::plane::WhenBusy::Refuse)
    };
    let run = soon(house.plane.prompt(&house.id, images)).await.unwrap();
    assert_eq!(house.end(run).await.0.reply, "image,text");
}
