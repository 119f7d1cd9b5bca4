//! `write`: a whole file, new or in the place of the old one.

use super::{
    Builtin, Desk, Outcome, Prepared, change, diff, files,
    path::{self, Place},
    text::title,
};
use schemars::JsonSchema;
use serde::Deserialize;
use triplane_core::session::ToolKind;
use triplane_protocol::CallId;

/// Input of `write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    /// The file; relative paths begin at the session's directory.
    path: String,
    /// All of its new content.
    content: String,
}

impl Builtin for Write {
    const NAME: &'static str = "write";
    const DESCRIPTION: &'static str = "Writes a whole file: makes it, and the directories above it, or replaces what is there. \
        To change a part of a file use `edit`.";

    fn prepare(self, desk: &Desk, _call: &CallId) -> Result<Prepared, String> {
        let place = path::resolve(&desk.cwd, "path", &self.path)?;
        let desk = desk.clone();
        Ok(Prepared {
            kind: ToolKind::Edit,
            title: title("write", &place.shown),
            subject: place.shown.clone(),
            outside: place.outside,
            changes: Some(place.real.clone()),
            hold: None,
            work: Box::pin(async move {
                match write(&desk, place, self.content).await {
                    Ok(outcome) => outcome,
                    Err(text) => Outcome::failed(text),
                }
            }),
        })
    }
}

async fn write(desk: &Desk, place: Place, content: String) -> Result<Outcome, String> {
    // Before the checkpoint, which would read whatever is there.
    change({
        let real = place.real.clone();
        move || files::replaceable(&real)
    })
    .await?;
    let guard = desk.host.before_change(&place.real).await?;
    let outcome = change(move || {
        // For the diff only: what cannot be read as a whole is replaced without one.
        let before = files::whole(&place.real);
        files::replace(&place.real, content.as_bytes())?;
        let (word, diff) = match before {
            Ok(Some(before)) => ("replaced", diff::unified(&place.shown, Some(&before), content.as_bytes())),
            Ok(None) => ("made", diff::unified(&place.shown, None, content.as_bytes())),
            Err(_) => ("replaced", None),
        };
        Ok(Outcome { diff, ..Outcome::ok(format!("{word} {} ({} bytes)", place.shown, content.len())) })
    })
    .await?;
    guard.done().await;
    Ok(outcome)
}
