//! What is on disk: transcripts, spools, blobs, locks.

/// When an acknowledged change is safe. Clause: C12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Synced to the disk; one group commit covers all that wait.
    #[default]
    Fsync,
    /// Written to the system; a power cut may take the last moments.
    Flush,
}
