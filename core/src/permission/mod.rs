//! Permissions: what a mode decides, what a rule decides, and what is asked. Clause: DESIGN's four modes; H21.

mod rules;

pub use rules::{Rule, RuleBook, Rules};

use crate::session::{PermissionAsk, ToolKind};
use triplane_protocol::{
    event::{OptionKind, PermissionOption},
    ir::Mode,
};

/// What is to become of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It goes ahead.
    Allow,
    /// It does not; the reason goes to the model.
    Deny(String),
    /// A person decides.
    Ask,
}

/// Decides by the rule that was found, then by the mode. A rule that refuses wins over everything. `rule` is `Err` when the
/// rules could not be read: then nothing that changes anything goes ahead unasked, whatever the mode.
pub fn decide(mode: Mode, ask: &PermissionAsk, rule: Result<Option<bool>, ()>) -> Decision {
    let looks = ask.kind == ToolKind::Read && !ask.outside;
    match (rule, mode) {
        (Ok(Some(false)), _) => Decision::Deny("a saved rule refuses it".into()),
        (Err(()), Mode::Plan | Mode::Default | Mode::AcceptEdits | Mode::Bypass) if !looks => Decision::Ask,
        (_, Mode::Plan) if ask.kind != ToolKind::Read => {
            Decision::Deny("the session is in plan mode: nothing is changed".into())
        }
        // Whoever bypasses the questions still has the sandbox; what leaves it is another matter.
        (Ok(None), Mode::Bypass) if ask.kind == ToolKind::Unconfined => Decision::Ask,
        (Ok(Some(true)), _) | (_, Mode::Bypass) => Decision::Allow,
        _ if looks => Decision::Allow,
        (_, Mode::AcceptEdits) if ask.kind == ToolKind::Edit && !ask.outside => Decision::Allow,
        _ => Decision::Ask,
    }
}

/// The four options of a request whose agent has none of its own; the ids are the kinds.
pub fn standard_options() -> Vec<PermissionOption> {
    [
        (OptionKind::AllowOnce, "allow_once", "Allow"),
        (OptionKind::AllowAlways, "allow_always", "Allow, and calls like it from now on"),
        (OptionKind::RejectOnce, "reject_once", "Refuse"),
        (OptionKind::RejectAlways, "reject_always", "Refuse, and calls like it from now on"),
    ]
    .map(|(kind, id, name)| PermissionOption { id: id.into(), name: name.into(), kind })
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use triplane_protocol::CallId;

    fn ask(kind: ToolKind, outside: bool) -> PermissionAsk {
        PermissionAsk {
            call_id: CallId::from("c"),
            tool: "t".into(),
            kind,
            title: String::new(),
            input: serde_json::Value::Null,
            subject: "s".into(),
            outside,
            options: None,
        }
    }

    /// One letter a decision: a(llow), d(eny), ?(ask); in the order plan, default, accept-edits, bypass.
    fn row(kind: ToolKind, outside: bool, rule: Result<Option<bool>, ()>) -> String {
        let one = |mode: &Mode| match decide(*mode, &ask(kind, outside), rule) {
            Decision::Allow => 'a',
            Decision::Deny(_) => 'd',
            Decision::Ask => '?',
        };
        Mode::ALL.iter().map(one).collect()
    }

    #[test]
    fn the_whole_table() {
        use ToolKind::{Edit, Execute, Fetch, Read, Unconfined};
        let none = Ok(None);
        assert_eq!(row(Read, false, none), "aaaa");
        assert_eq!(row(Read, true, none), "???a");
        assert_eq!(row(Edit, false, none), "d?aa");
        assert_eq!(row(Edit, true, none), "d??a");
        assert_eq!(row(Execute, false, none), "d??a");
        assert_eq!(row(Fetch, false, none), "d??a");
        assert_eq!(row(Unconfined, false, none), "d???");
        assert_eq!(row(Unconfined, false, Ok(Some(true))), "daaa");
        assert_eq!(row(Execute, false, Ok(Some(true))), "daaa");
        assert_eq!(row(Execute, false, Ok(Some(false))), "dddd");
        assert_eq!(row(Read, false, Ok(Some(false))), "dddd");
        assert_eq!(row(Edit, false, Err(())), "????");
        assert_eq!(row(Read, false, Err(())), "aaaa");
    }
}
