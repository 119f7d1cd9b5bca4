//! Whether a conversation fits its model, and how it is made smaller for a summary.
//! Invariant: what is left begins with what a user said, and every call in it has its result.

use std::sync::Arc;
use triplane_protocol::{Message, MessageId, Part, Role, ir::KnownPart};

/// Bytes of a token, about.
const TOKEN_BYTES: u64 = 4;

/// The part of a context that may be full before it is compacted, in percent: the reply wants room too.
const FULL_PERCENT: u64 = 85;

/// Results that are no longer than this are left in.
const SHORT_RESULT: usize = 400;

/// Steps of [`lighter`] that are worth trying.
pub(super) const STEPS: u32 = 7;

/// Whether the next request would nearly fill a context of `limit` tokens: by what the provider counted for the last reply, and an
/// estimate of what came since.
pub(super) fn is_nearly_full(history: &[Arc<Message>], limit: u64) -> bool {
    let counted = history.iter().rposition(|message| message.usage.is_some_and(|usage| usage.input > 0));
    let Some(at) = counted else { return false };
    let usage = history.get(at).and_then(|message| message.usage).unwrap_or_default();
    let since: u64 = history.get(at + 1..).unwrap_or_default().iter().map(|message| tokens(message)).sum();
    usage.input + usage.output + since > limit / 100 * FULL_PERCENT
}

fn tokens(message: &Message) -> u64 {
    message.parts.iter().map(bytes).sum::<u64>() / TOKEN_BYTES
}

fn bytes(part: &Part) -> u64 {
    match part {
        Part::Known(KnownPart::Result { output, .. }) => output.iter().map(bytes).sum(),
        part => part.as_text().map_or(0, |text| text.len() as u64),
    }
}

/// The history with less in it: first without the output of tools, then without its older part, ever more of it.
pub(super) fn lighter(history: &[Arc<Message>], step: u32) -> Vec<Arc<Message>> {
    let mut all: Vec<Arc<Message>> = match step {
        0 => return history.to_vec(),
        _ => history.iter().map(without_output).collect(),
    };
    if step == 1 {
        return all;
    }
    // The last message is the question for a summary; it stays.
    let keep = (all.len() >> (step - 1)).max(1);
    let mut from = all.len() - keep;
    while all.get(from).is_some_and(|message| message.role != Role::User) {
        from += 1;
    }
    let rest = all.split_off(from.min(all.len() - 1));
    let note = Message::text(MessageId::from("left-out"), Role::User, "[older messages were left out]", 0);
    std::iter::once(Arc::new(note)).chain(rest).collect()
}

fn without_output(message: &Arc<Message>) -> Arc<Message> {
    if message.role != Role::Tool {
        return Arc::clone(message);
    }
    let mut lean = (**message).clone();
    for part in &mut lean.parts {
        if let Part::Known(KnownPart::Result { output, .. }) = part
            && output.iter().map(bytes).sum::<u64>() > SHORT_RESULT as u64
        {
            *output = vec![Part::text("[left out]")];
        }
    }
    Arc::new(lean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use triplane_protocol::{CallId, Usage};

    fn said(role: Role, text: &str) -> Arc<Message> {
        Arc::new(Message::text(MessageId::from("m"), role, text, 1))
    }

    fn result(text: &str) -> Arc<Message> {
        let part = Part::result(CallId::from("c"), vec![Part::text(text)], false);
        Arc::new(Message::of(MessageId::from("m"), Role::Tool, vec![part], 1))
    }

    #[test]
    fn what_was_counted_and_what_came_since_fill_a_context() {
        let mut reply = Message::text(MessageId::from("m"), Role::Assistant, "x", 1);
        reply.usage = Some(Usage { input: 700, output: 100, ..Usage::default() });
        let history = [said(Role::User, "go"), Arc::new(reply), result(&"y".repeat(240))];
        assert!(!is_nearly_full(&history[..2], 1000) && is_nearly_full(&history[..2], 900));
        assert!(is_nearly_full(&history, 1000), "the result has about 60 tokens");
        assert!(!is_nearly_full(&history[..1], 1), "nothing was counted yet");
    }

    #[test]
    fn a_lighter_history_loses_output_first_and_then_what_is_old() {
        let long = "z".repeat(SHORT_RESULT + 1);
        let mut history = Vec::new();
        for n in 0..8 {
            history.extend([said(Role::User, &format!("q{n}")), said(Role::Assistant, "a"), result(&long)]);
        }
        history.push(said(Role::User, "sum up"));
        let all_bytes = |history: &[Arc<Message>]| history.iter().map(|m| tokens(m)).sum::<u64>();
        let mut before = u64::MAX;
        for step in 0..STEPS {
            let light = lighter(&history, step);
            assert_eq!(light.first().unwrap().role, Role::User, "{step}");
            assert_eq!(light.last().unwrap().plain_text(), "sum up", "{step}");
            assert!(all_bytes(&light) <= before.saturating_add(8), "{step}");
            before = all_bytes(&light);
        }
        assert_eq!(lighter(&history, 1).len(), history.len());
        assert_eq!(lighter(&history, STEPS - 1).len(), 2);
    }
}
