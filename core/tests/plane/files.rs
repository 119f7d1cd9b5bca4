//! Files put back: undo, rewind, restore. Clauses: H22, S21, C16.

use crate::support::{Bed, soon};
use std::{fs, os::unix::fs::symlink};
use triplane_core::{
    PlaneError,
    plane::{ClearWhen, Restored, Rewind},
};
use triplane_protocol::{MessageId, SessionId, event::CloseReason};

fn read(bed: &Bed, name: &str) -> Option<String> {
    fs::read_to_string(bed.file(name)).ok()
}

fn names(bed: &Bed, restored: &Restored) -> (Vec<String>, Vec<String>) {
    let short = |path: &str| path.strip_prefix(&format!("{}/", bed.cwd().display())).unwrap_or(path).to_owned();
    (
        restored.restored.iter().map(|path| short(path)).collect(),
        restored.skipped.iter().map(|skipped| short(&skipped.path)).collect(),
    )
}

async fn message(bed: &Bed, id: &SessionId, at: usize) -> MessageId {
    bed.plane.messages(id).await.unwrap()[at].id.clone()
}

#[tokio::test]
async fn h22_undo_takes_the_prompt_its_answer_and_its_changes_back() {
    let bed = Bed::new();
    let id = bed.create().await;
    fs::write(bed.file("old"), "as it was").unwrap();
    fs::write(bed.file("gone"), "to be removed").unwrap();
    bed.run(&id, "hello").await;
    let prompt = "write old changed\nwrite old changed twice\nwrite new made\nremove gone";
    bed.run(&id, prompt).await;
    assert_eq!(read(&bed, "old").unwrap(), "changed twice");
    let undone = soon(bed.plane.undo(&id)).await.unwrap();
    assert_eq!(undone.prompt, prompt);
    let expected = ["gone", "new", "old"].map(str::to_owned).to_vec();
    assert_eq!(names(&bed, &undone.files), (expected, vec![]));
    assert_eq!((read(&bed, "old").as_deref(), read(&bed, "new")), (Some("as it was"), None));
    assert_eq!(read(&bed, "gone").as_deref(), Some("to be removed"));
    assert_eq!(bed.texts(&id).await, ["hello", "hello"]);
    // It stays undone, and what was before it can be undone too.
    let bed = bed.restart().await;
    soon(bed.plane.attach(&bed.hold, &id)).await.unwrap();
    assert_eq!(soon(bed.plane.undo(&id)).await.unwrap().prompt, "hello");
    assert!(matches!(soon(bed.plane.undo(&id)).await, Err(PlaneError::Invalid(_))));
}

#[tokio::test]
async fn h22_what_somebody_else_changed_since_is_told_and_left() {
    let bed = Bed::new();
    let id = bed.create().await;
    fs::write(bed.file("ours"), "before").unwrap();
    fs::write(bed.file("theirs"), "before").unwrap();
    bed.run(&id, "write ours after\nwrite theirs after\nwrite made after").await;
    fs::write(bed.file("theirs"), "by hand").unwrap();
    fs::write(bed.file("made"), "by hand").unwrap();
    let undone = soon(bed.plane.undo(&id)).await.unwrap();
    assert_eq!(names(&bed, &undone.files), (vec!["ours".into()], vec!["made".into(), "theirs".into()]));
    let all = ["ours", "theirs", "made"].map(|name| read(&bed, name).unwrap());
    assert_eq!(all, ["before", "by hand", "by hand"]);
}

/// Also when ours came after theirs, in a later run or in the same one: what was theirs is nowhere else.
#[tokio::test]
async fn h22_a_change_of_somebody_else_between_two_of_ours_is_not_thrown_away() {
    let bed = Bed::new();
    let id = bed.create().await;
    fs::write(bed.file("a"), "first").unwrap();
    bed.run(&id, "write a one").await;
    fs::write(bed.file("a"), "by hand").unwrap();
    bed.run(&id, "write a two").await;
    let restored = soon(bed.plane.restore(&id, None, None, false)).await.unwrap();
    assert_eq!(names(&bed, &restored), (vec![], vec!["a".into()]));
    fs::write(bed.file("b"), "first").unwrap();
    let mut reader = bed.reader(&id).await;
    let run = bed.start(&id, "write b one\nwritten\ngate\nwrite b two").await;
    reader.to("llm_delta").await;
    fs::write(bed.file("b"), "by hand").unwrap();
    bed.open_gate();
    soon(run.finished()).await.unwrap();
    let undone = soon(bed.plane.undo(&id)).await.unwrap();
    assert_eq!(names(&bed, &undone.files), (vec![], vec!["b".into()]));
    assert_eq!(read(&bed, "b").as_deref(), Some("two"));
}

#[tokio::test]
async fn s21_files_as_of_any_message_all_or_some_or_only_told() {
    let bed = Bed::new();
    let id = bed.create().await;
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        bed.run(&id, &format!("write {name} {n}\nwrite shared {n}")).await;
    }
    let second = message(&bed, &id, 3).await;
    let dry = soon(bed.plane.restore(&id, Some(second.clone()), None, true)).await.unwrap();
    assert_eq!(names(&bed, &dry).0, ["c", "shared"]);
    assert_eq!(read(&bed, "shared").as_deref(), Some("2"));
    let some = Some(vec!["shared".to_owned()]);
    soon(bed.plane.restore(&id, Some(second), some, false)).await.unwrap();
    assert_eq!((read(&bed, "shared").as_deref(), read(&bed, "c").as_deref()), (Some("1"), Some("2")));
    // A stored session works the same, and the history stays what it was.
    soon(bed.plane.detach(&id, CloseReason::Explicit)).await.unwrap();
    let all = soon(bed.plane.restore(&id, None, None, false)).await.unwrap();
    assert_eq!(names(&bed, &all), (vec!["a".into(), "b".into(), "c".into()], vec!["shared".into()]));
    assert_eq!(bed.texts(&id).await.len(), 6);
    let unknown = Some(MessageId::from("nowhere"));
    let error = soon(bed.plane.restore(&id, unknown, None, false)).await.unwrap_err();
    assert!(matches!(error, PlaneError::InvalidParams(_)), "{error}");
}

#[tokio::test]
async fn s21_a_rewind_goes_back_with_its_files_and_detaches() {
    let bed = Bed::new();
    let id = bed.create().await;
    bed.run(&id, "write a one").await;
    bed.run(&id, "write a two").await;
    let to = Some(message(&bed, &id, 1).await);
    let dry = soon(bed.plane.rewind(&id, Rewind { to: to.clone(), files: true, dry: true })).await.unwrap();
    assert_eq!((dry.removed, dry.prompt.as_deref()), (2, Some("write a two")));
    assert!(bed.plane.is_live(&id) && bed.texts(&id).await.len() == 4);
    let done = soon(bed.plane.rewind(&id, Rewind { to, files: true, dry: false })).await.unwrap();
    assert_eq!(dry, done);
    assert!(!bed.plane.is_live(&id));
    assert_eq!((read(&bed, "a").as_deref(), bed.texts(&id).await.len()), (Some("one"), 2));
}

#[tokio::test]
async fn c16_nothing_outside_is_touched_and_no_link_is_followed() {
    let bed = Bed::new();
    let id = bed.create().await;
    let outside = bed.temp.path().canonicalize().unwrap().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("file"), "theirs").unwrap();
    fs::create_dir(bed.file("dir")).unwrap();
    fs::write(bed.file("plain"), "before").unwrap();
    bed.run(&id, &format!("write {}/file ours\nwrite dir/file ours\nwrite plain ours", outside.display())).await;
    // The directory becomes a link to the outside, the file a link to a file there.
    fs::remove_dir_all(bed.file("dir")).unwrap();
    symlink(&outside, bed.file("dir")).unwrap();
    fs::remove_file(bed.file("plain")).unwrap();
    symlink(outside.join("file"), bed.file("plain")).unwrap();
    let undone = soon(bed.plane.undo(&id)).await.unwrap();
    assert_eq!((undone.files.restored.len(), undone.files.skipped.len()), (0, 3), "{:?}", undone.files);
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "ours");
    assert!(fs::symlink_metadata(bed.file("plain")).unwrap().is_symlink());
}

#[tokio::test]
async fn s21_a_directory_that_is_gone_is_made_again() {
    let bed = Bed::new();
    let id = bed.create().await;
    fs::create_dir_all(bed.file("x/y")).unwrap();
    fs::write(bed.file("x/y/z"), "before").unwrap();
    bed.run(&id, "remove x/y/z").await;
    fs::remove_dir_all(bed.file("x")).unwrap();
    soon(bed.plane.undo(&id)).await.unwrap();
    assert_eq!(read(&bed, "x/y/z").as_deref(), Some("before"));
}

#[tokio::test]
async fn h22_undo_waits_for_no_run_and_goes_past_no_boundary() {
    let bed = Bed::new();
    let id = bed.create().await;
    assert!(matches!(soon(bed.plane.undo(&id)).await, Err(PlaneError::Invalid(_))));
    let run = bed.start(&id, "gate").await;
    assert!(matches!(soon(bed.plane.undo(&id)).await, Err(PlaneError::Busy(_))));
    bed.open_gate();
    soon(run.finished()).await.unwrap();
    soon(bed.plane.clear(&id, ClearWhen::Now)).await.unwrap();
    assert!(matches!(soon(bed.plane.undo(&id)).await, Err(PlaneError::Invalid(_))));
}
