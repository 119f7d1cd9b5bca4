//! Background tasks: their list, their end, and how their results get to the agent. Clauses: H23, H24, C05.

use crate::support::{Bed, soon};
use triplane_core::PlaneError;
use triplane_protocol::{
    AgentEvent, TaskId,
    event::{CloseReason, Origin, TaskState},
};

fn handed_over(event: &AgentEvent) -> Option<&str> {
    match event {
        AgentEvent::UserMessage { origin: Origin::Task, text, .. } => Some(text),
        _ => None,
    }
}

#[tokio::test]
async fn h24_a_task_that_ends_while_the_session_is_idle_starts_a_turn() {
    let bed = Bed::new();
    let id = bed.create().await;
    let mut reader = bed.reader(&id).await;
    bed.run(&id, "task built").await;
    reader.until_idle().await;
    let tasks = bed.plane.tasks(&id).unwrap();
    assert_eq!((tasks.len(), tasks[0].state, tasks[0].title.as_str()), (1, TaskState::Running, "built"));
    bed.open_gate();
    let told = reader.until(|event| handed_over(event).is_some()).await.pop().unwrap();
    assert!(handed_over(&told.event).unwrap().contains("(built) is done: built"), "{told:?}");
    reader.until_idle().await;
    let tasks = bed.plane.tasks(&id).unwrap();
    assert_eq!((tasks[0].state, tasks[0].output.text().as_str()), (TaskState::Done, "working"));
    assert!(tasks[0].ended.is_some());
    assert_eq!(bed.texts(&id).await.len(), 4);
}

#[tokio::test]
async fn h24_what_ends_during_a_run_is_handed_over_after_it_and_together() {
    let bed = Bed::new();
    let id = bed.create().await;
    bed.run(&id, "task one\ntask two").await;
    let mut reader = bed.reader(&id).await;
    let run = bed.start(&id, "wait").await;
    bed.agent.gate.add_permits(2);
    reader.to("task_end").await;
    reader.to("task_end").await;
    assert!(bed.plane.get(&id).await.unwrap().row.busy);
    soon(bed.plane.cancel(&id)).await.unwrap();
    soon(run.finished()).await.unwrap();
    let told = reader.until(|event| handed_over(event).is_some()).await.pop().unwrap();
    let text = handed_over(&told.event).unwrap();
    assert!(text.contains("(one) is done") && text.contains("(two) is done"), "{text}");
    reader.until_idle().await;
}

#[tokio::test]
async fn h23_a_stopped_task_is_told_and_starts_nothing() {
    let bed = Bed::new();
    let id = bed.create().await;
    bed.run(&id, "task long").await;
    let mut reader = bed.reader(&id).await;
    let task = bed.plane.tasks(&id).unwrap()[0].id.clone();
    soon(bed.plane.stop_task(&id, &task)).await.unwrap();
    let end = reader.to("task_end").await;
    assert!(matches!(end.event, AgentEvent::TaskEnd { state: TaskState::Stopped, .. }), "{end:?}");
    assert!(!bed.plane.get(&id).await.unwrap().row.busy);
    for unknown in [task, TaskId::from("none")] {
        let error = soon(bed.plane.stop_task(&id, &unknown)).await.unwrap_err();
        assert!(matches!(error, PlaneError::NotFound { .. }), "{error}");
    }
}

#[tokio::test]
async fn c05_tasks_have_a_bound() {
    let bed = Bed::with(|config| config.limits.tasks = 2);
    let id = bed.create().await;
    let result = bed.run(&id, "task one\ntask two\ntask three").await;
    assert_eq!(result.stop, triplane_protocol::Stop::Error);
    assert_eq!(bed.plane.tasks(&id).unwrap().len(), 2);
}

#[tokio::test]
async fn a_detach_stops_tasks_and_tells_of_each() {
    let bed = Bed::new();
    let id = bed.create().await;
    bed.run(&id, "task one").await;
    let mut reader = bed.reader(&id).await;
    soon(bed.plane.detach(&id, CloseReason::Explicit)).await.unwrap();
    let read = reader.until(|event| event.kind() == "session_closed").await;
    assert_eq!(crate::support::kinds(&read), ["task_end", "session_closed"]);
}
