//! The files of what was learned, which people may read, edit and share in git.
//!
//! `.salve/learned/` holds `healing-patterns.json`, `tool_fixes.yaml`, `tool_failures.yaml`,
//! `patterns.yaml` and `usage_patterns.yaml` in the shapes of the specs. They are kept in step with
//! the store both ways: [`Learned::pull`] takes in what a person changed, [`Learned::sync`] writes
//! what the store has. The store remembers what each file said when both were last in step, so it
//! can tell an edit from its own writing and a removal from an addition elsewhere.
//!
//! [`Learned::rekey`] moves what is known along when the tables change that tell failures apart.
//!
//! **Invariants:** a file that cannot be read as its shape is reported with line and reason and is
//! not written until it can; nothing of it is taken in. Keys and comments that a person added stay;
//! where a comment cannot be kept in its place, the old file is kept beside the new one.

mod answer;
mod failures;
mod file;
mod healing;
mod items;
mod rekey;
mod stats;
mod sync;
mod text;
mod yaml;

use std::fmt;
use std::path::PathBuf;

use salve_core::fingerprint::FingerprintRules;
use salve_core::scrub::Scrubber;

use crate::atomic::WriteError;
use crate::store::{Store, StoreError};

pub use answer::{MemoryAnswer, MemoryQuestion, NearMatch, TriedRemedyLine};
pub use failures::FailedCalls;
pub use file::LearnedFile;
pub use items::{
    FixAttempt, FixResult, HealingPattern, LearnedPattern, Sureness, ToolFailure, ToolFixItem,
    UsagePattern, When,
};
pub use stats::{KnownIssues, MemoryHealth};
pub use yaml::check_text;

/// The learned files of one project and the store they are in step with.
#[derive(Clone, Copy, Debug)]
pub struct Learned<'a> {
    store: &'a Store,
    scrubber: &'a Scrubber,
    rules: &'a FingerprintRules,
}

/// A learned file that cannot be read as its shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {reason}", path.display())]
pub struct Malformed {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What is wrong there.
    pub reason: String,
}

/// What keeping in step found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Files that are left alone until a person mends them.
    pub malformed: Vec<Malformed>,
    /// Files in which a person's changes were found and taken in.
    pub taken_in: Vec<LearnedFile>,
    /// Copies of files whose comments could not be kept in place.
    pub kept_aside: Vec<PathBuf>,
}

/// Why the files could not be kept in step.
#[derive(Debug, thiserror::Error)]
pub enum LearnedError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl LearnedError {
    /// Returns what the user can do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::Store(error) => error.advice(),
            Self::Write(error) => error.advice(),
        }
    }
}

impl<'a> Learned<'a> {
    /// Makes the keeper of a project's learned files.
    pub fn new(store: &'a Store, scrubber: &'a Scrubber, rules: &'a FingerprintRules) -> Self {
        Self { store, scrubber, rules }
    }

    /// Returns the store that the files are in step with.
    pub fn store(&self) -> &Store {
        self.store
    }
}

impl fmt::Display for LearnedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
