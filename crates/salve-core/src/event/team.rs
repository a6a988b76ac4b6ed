//! The nouns of what a team says: fixes, and what settles an issue.

use serde::{Deserialize, Serialize};

use crate::id::IncidentId;
use crate::scrub::Scrubbed;

/// What sort of fix is proposed, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FixKind {
    /// A command to run.
    Command,
    /// A patch to apply.
    Patch,
    /// What an agent is to do.
    Instruction,
}

impl FixKind {
    /// All kinds, the cheapest first.
    pub const ALL: [Self; 3] = [Self::Command, Self::Patch, Self::Instruction];

    /// Returns the kind's name as used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Patch => "patch",
            Self::Instruction => "instruction",
        }
    }
}

/// Something that is proposed to be tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// What sort of thing it is.
    pub kind: FixKind,
    /// Exactly what was proposed: there was no secret in it.
    pub text: Scrubbed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum IssueSettled {
    /// The check that shows it is green.
    Green {
        check: Scrubbed,
        /// The incident that made it so, if it was red.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        incident: Option<IncidentId>,
    },
    /// A person says so.
    Said {
        /// How.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Scrubbed>,
    },
}
