//! Every bound of the plane, with its reason. A thing without a bound here must not be able to grow.

/// The bounds of one plane.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Events kept in memory for each session; H15 names 4096.
    pub ring_events: usize,
    /// Bytes of encoded events kept in memory for each session, so that large events cannot fill it.
    pub ring_bytes: usize,
    /// Prompts that may wait for the run in flight of one session.
    pub queued_prompts: usize,
    /// Inputs that may wait for a session's task; senders wait when it is full.
    pub session_inputs: usize,
    /// Bytes of one prompt; a stdio line may carry 16 MiB (S01).
    pub prompt_bytes: usize,
    /// Messages of one history page at most; S04 names 500.
    pub history_limit: usize,
    /// Bytes of one history page at most, unless one message alone is larger.
    pub history_bytes: usize,
    /// Live sessions of the whole process.
    pub live_sessions: usize,
    /// Background tasks that may run at once in one session.
    pub tasks: usize,
    /// Round trips to the model in one run.
    pub max_turns: u32,
    /// Bytes of a title or a label.
    pub title_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ring_events: 4096,
            ring_bytes: 8 << 20,
            queued_prompts: 64,
            session_inputs: 64,
            prompt_bytes: 16 << 20,
            history_limit: 500,
            history_bytes: 8 << 20,
            live_sessions: 16_384,
            tasks: 32,
            max_turns: 200,
            title_bytes: 4096,
        }
    }
}
