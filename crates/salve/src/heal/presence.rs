//! Whether anybody can be asked right now.

/// Whether somebody is at the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Somebody may answer: it is worth waiting.
    Attended,
    /// Nobody is there.
    Unattended,
}
