//! What can be done about a failure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::event::{Digest, RemedyKind};
use crate::scrub::Scrubbed;

/// What sort of thing a remembered remedy is; the cheapest to try comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RememberedKind {
    /// A command to run.
    Command,
    /// A patch to apply.
    Patch,
    /// Something to tell an agent.
    Instruction,
}

impl RememberedKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Command, Self::Patch, Self::Instruction];

    /// Returns the name used in JSON and on screen.
    pub const fn as_str(self) -> &'static str {
        match self {
            RememberedKind::Command => "command",
            RememberedKind::Patch => "patch",
            RememberedKind::Instruction => "instruction",
        }
    }
}

impl fmt::Display for RememberedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A kind of remedy that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of remedy `{0}`")]
pub struct UnknownKind(String);

impl FromStr for RememberedKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        found.ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

impl From<RememberedKind> for RemedyKind {
    fn from(kind: RememberedKind) -> Self {
        match kind {
            RememberedKind::Command => RemedyKind::Command,
            RememberedKind::Patch => RemedyKind::Patch,
            RememberedKind::Instruction => RemedyKind::Agent,
        }
    }
}

/// A remembered remedy: what sort of thing it is, and the command, patch or words themselves.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RememberedRemedy {
    /// What sort of thing it is.
    pub kind: RememberedKind,
    /// The command, the patch or the words.
    pub text: Scrubbed,
}

impl RememberedRemedy {
    /// Returns what tells this remedy from all others.
    pub fn digest(&self) -> Digest {
        Digest::of(&[self.kind.as_str().as_bytes(), self.text.as_str().as_bytes()])
    }

    /// Returns a description that stands for this remedy in one line or more of plain text.
    ///
    /// A command is its own description, as the specs write it. Other kinds say what they are, and
    /// so does a command that could be taken for one of them; [`RememberedRemedy::describes`] tells them
    /// apart again.
    pub fn description(&self) -> String {
        let text = self.text.as_str();
        if Self::describes(text) == (self.kind, text) {
            return text.to_owned();
        }
        format!("{}: {text}", self.kind)
    }

    /// Reads a description: the inverse of [`RememberedRemedy::description`].
    ///
    /// Plain text is a command only because the specs write commands so; the gate still decides
    /// whether it may run.
    pub fn describes(description: &str) -> (RememberedKind, &str) {
        for kind in [RememberedKind::Patch, RememberedKind::Instruction, RememberedKind::Command] {
            let text = description.strip_prefix(kind.as_str()).and_then(|d| d.strip_prefix(": "));
            if let Some(text) = text {
                return (kind, text);
            }
        }
        (RememberedKind::Command, description)
    }
}
