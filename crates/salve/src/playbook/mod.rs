//! Looks at the project for the playbook, and does what it prescribes.
//!
//! **Invariants:** what is moved or deleted is inside the project and not tracked by git; a lock is
//! removed and a process ended only if the proof still holds at that moment; a command writes
//! nothing outside the project and its tools' caches where the kernel can see to that.

mod apply;
mod aside;
mod look;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;

use salve_core::playbook::{Diagnosis, ObservedFailure, Playbook};
use salve_core::scrub::Scrubber;
use uuid::Uuid;

use crate::sandbox::Sandbox;

pub use apply::{Applied, ApplyError, apply};
pub use aside::give_back;
pub use look::{expected_port, look};

/// The variable that stands beside a `CI` that Salve itself sets.
pub const SETS_CI: &str = "SALVE_SETS_CI";

/// The subject that failed, and where.
#[derive(Clone, Copy, Debug)]
pub struct FailedSubject<'a> {
    /// The project's root, absolute.
    pub root: &'a Path,
    /// The directory the subject runs in, absolute.
    pub dir: &'a Path,
    /// Its command, as the user wrote it.
    pub command: &'a str,
    /// What its environment has beside our own.
    pub env: &'a [(OsString, OsString)],
    /// This run of Salve.
    pub run: Option<Uuid>,
    /// What keeps commands within bounds.
    pub sandbox: &'a Sandbox,
}

impl FailedSubject<'_> {
    /// Returns a variable of the subject's environment.
    fn variable(&self, name: &str) -> Option<OsString> {
        let own =
            self.env.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        own.or_else(|| std::env::var_os(name))
    }
}

/// Looks at what a subject that still runs tells about; see [`Playbook::ails`].
pub fn ails(ask: &FailedSubject<'_>, seen: &ObservedFailure<'_>, scrubber: &Scrubber) -> Diagnosis {
    let facts = look(ask, seen);
    Playbook::built_in().ails(seen, &facts, scrubber)
}

/// Looks at what the failure speaks of and returns what to make of it.
pub fn diagnose(
    ask: &FailedSubject<'_>,
    seen: &ObservedFailure<'_>,
    scrubber: &Scrubber,
) -> Diagnosis {
    let facts = look(ask, seen);
    Playbook::built_in().diagnose(seen, &facts, scrubber)
}
