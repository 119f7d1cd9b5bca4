//! `edit`: one text of a file replaced by another. The errors teach: they say what the model should do next.

use super::{
    Builtin, Desk, Outcome, Prepared, change, diff, files,
    path::{self, Place},
    text::title,
};
use schemars::JsonSchema;
use serde::Deserialize;
use triplane_core::session::ToolKind;
use triplane_protocol::CallId;

/// Input of `edit`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// The file; relative paths begin at the session's directory.
    path: String,
    /// The text that is to be replaced, exactly as it stands in the file; must occur once unless `all` is set.
    old: String,
    /// What stands in its place.
    new: String,
    /// Whether every occurrence is replaced.
    #[serde(default)]
    all: bool,
}

impl Builtin for Edit {
    const NAME: &'static str = "edit";
    const DESCRIPTION: &'static str = "Replaces a text in a file. `old` must be exactly what stands there, white space \
        included, with enough lines around it to occur once; or set `all`.";

    fn prepare(self, desk: &Desk, _call: &CallId) -> Result<Prepared, String> {
        let place = path::resolve(&desk.cwd, "path", &self.path)?;
        if self.old.is_empty() {
            return Err("old: must not be empty; to make a file use `write`".to_owned());
        }
        if self.old == self.new {
            return Err("new: is the same as `old`, nothing would change".to_owned());
        }
        let desk = desk.clone();
        Ok(Prepared {
            kind: ToolKind::Edit,
            title: title("edit", &place.shown),
            subject: place.shown.clone(),
            outside: place.outside,
            changes: Some(place.real.clone()),
            hold: None,
            work: Box::pin(async move {
                match edit(&desk, place, self).await {
                    Ok(outcome) => outcome,
                    Err(text) => Outcome::failed(text),
                }
            }),
        })
    }
}

/// A file's text before and after.
struct Edited {
    before: String,
    after: String,
    times: usize,
}

async fn edit(desk: &Desk, place: Place, edit: Edit) -> Result<Outcome, String> {
    // First without a checkpoint: an edit that does not fit changes nothing.
    let edited = change({
        let place = place.clone();
        move || replaced(&place, &edit)
    })
    .await?;
    let guard = desk.host.before_change(&place.real).await?;
    let outcome = change(move || {
        if files::whole(&place.real)?.as_deref() != Some(edited.before.as_bytes()) {
            return Err(format!("{} was changed by somebody else just now; read it again", place.shown));
        }
        files::replace(&place.real, edited.after.as_bytes())?;
        let diff = diff::unified(&place.shown, Some(edited.before.as_bytes()), edited.after.as_bytes());
        let times = if edited.times == 1 { String::new() } else { format!(" in {} places", edited.times) };
        Ok(Outcome { diff, ..Outcome::ok(format!("changed {}{times}", place.shown)) })
    })
    .await?;
    guard.done().await;
    Ok(outcome)
}

fn replaced(place: &Place, edit: &Edit) -> Result<Edited, String> {
    let content = files::whole(&place.real)?.ok_or_else(|| format!("{} does not exist; use `write`", place.shown))?;
    let before = String::from_utf8(content).map_err(|_| format!("{} is not UTF-8 text", place.shown))?;
    let times = before.matches(&edit.old).count();
    match times {
        0 => Err(not_found(&before, edit, place)),
        2.. if !edit.all => Err(format!(
            "old: occurs {times} times in {}; add lines around it until it occurs once, or set `all`",
            place.shown
        )),
        _ => Ok(Edited { after: before.replace(&edit.old, &edit.new), before, times }),
    }
}

/// The usual reasons, where one can be seen.
fn not_found(before: &str, edit: &Edit, place: &Place) -> String {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let why = if before.contains("\r\n") && !edit.old.contains('\r') && edit.old.contains('\n') {
        "the file's lines end with \\r\\n"
    } else if squeezed(before).contains(&squeezed(&edit.old)) {
        "it is there with other white space"
    } else {
        "it is not there"
    };
    format!("old: was not found in {}: {why}; read the file and copy the text exactly", place.shown)
}
