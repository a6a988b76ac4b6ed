//! What is under care, and what was seen of it.

use serde::{Deserialize, Serialize};

use super::Digest;
use crate::class::Class;
use crate::id::Signature;
use crate::scrub::Scrubbed;

/// What kind of thing is under care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// A dev server process.
    Server,
    /// Tests, types, lint or build.
    Check,
    /// One call of a tool.
    Tool,
    /// One step of an agent job.
    Step,
    /// One turn of an agent loop.
    Iteration,
}

impl SubjectKind {
    /// Returns the word of the journal, of JSON and of figures.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Check => "check",
            Self::Tool => "tool",
            Self::Step => "step",
            Self::Iteration => "iteration",
        }
    }

    /// Tells whether a change can be shown to help in a private layer, while the subject still fails
    /// where the user works.
    ///
    /// A check runs there; a server, and whatever else lives in the workspace, has to have the change
    /// in it.
    pub fn shows_in_layer(self) -> bool {
        match self {
            Self::Check => true,
            Self::Server | Self::Tool | Self::Step | Self::Iteration => false,
        }
    }

    /// Returns the word for people, who think of the loop rather than of its iteration.
    pub fn for_people(self) -> &'static str {
        match self {
            Self::Iteration => "loop",
            Self::Server | Self::Check | Self::Tool | Self::Step => self.as_str(),
        }
    }
}

/// Whether doing something a second time is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// Declared idempotent.
    Safe,
    /// It may act twice, so it is not repeated blindly.
    Unsafe,
}

/// What is under care.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    pub kind: SubjectKind,
    /// Its name within the project.
    pub name: Scrubbed,
    /// Whether running it again is harmless.
    pub repeat: Repeat,
}

impl Subject {
    /// Tells whether running it again could do a second time what it may have done.
    pub fn must_not_repeat(&self, symptom: &Symptom) -> bool {
        self.repeat == Repeat::Unsafe && symptom.acted == Acted::Maybe
    }
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProcessExit {
    /// With this code.
    Code(i32),
    Signal(i32),
    /// It outlived its limit.
    TimedOut,
    /// It was up and gave no sign of life.
    Hung,
}

impl ProcessExit {
    /// Returns the code with which whoever ran the process for somebody ends, as a shell does.
    pub fn passed_on(&self) -> u8 {
        let code = match self {
            Self::Code(code) => *code,
            Self::Signal(signal) => 128 + signal,
            Self::TimedOut | Self::Hung => 1,
        };
        u8::try_from(code).unwrap_or(1)
    }
}

/// Whether what failed may have acted on the world before it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acted {
    /// Certainly not.
    No,
    /// Possibly.
    Maybe,
}

/// One observed failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Symptom {
    /// The failure's identity.
    pub signature: Signature,
    /// The failure's kind.
    pub class: Class,
    /// The line that names it.
    pub key_line: Scrubbed,
    /// How the process ended, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ProcessExit>,
    /// The hash of the tree it happened in, if it could be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Digest>,
    /// Whether it may have acted.
    pub acted: Acted,
}
