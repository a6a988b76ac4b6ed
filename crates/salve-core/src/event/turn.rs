//! What happens to a loop, and the nouns of it.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Amounts, Digest, PersonOrder, ProcessExit, Resource, ResourceLimits};
use crate::scrub::Scrubbed;

/// The longest name of a loop.
const LONGEST: usize = 64;

/// The name of a loop, which is also that of its directory: a-z, 0-9 and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LoopId(String);

/// A text that is no name of a loop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a loop's name has only a-z, 0-9 and -, begins with a letter or digit, and has at most 64")]
pub struct BadLoopId;

impl LoopId {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Makes a name of any text, such as that of a directory.
    pub fn made_of(text: &str) -> Self {
        let lower = text.to_lowercase();
        let safe = lower.chars().map(|c| match c {
            'a'..='z' | '0'..='9' => c,
            _ => '-',
        });
        let safe: String = safe.collect();
        let words: Vec<&str> = safe.split('-').filter(|word| !word.is_empty()).collect();
        let mut name = words.join("-");
        name.truncate(LONGEST - 8);
        name.parse().unwrap_or_else(|BadLoopId| Self("loop".to_owned()))
    }

    /// Returns the name with a number after it.
    pub fn numbered(&self, number: u32) -> Self {
        let mut name = self.0.clone();
        name.truncate(LONGEST - 11);
        Self(format!("{name}-{number}"))
    }
}

impl fmt::Display for LoopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for LoopId {
    type Err = BadLoopId;

    fn from_str(text: &str) -> Result<Self, BadLoopId> {
        let is_plain = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-');
        let good = !text.is_empty() && !text.starts_with('-') && text.len() <= LONGEST;
        (good && text.chars().all(is_plain)).then(|| Self(text.to_owned())).ok_or(BadLoopId)
    }
}

impl TryFrom<String> for LoopId {
    type Error = BadLoopId;

    fn try_from(text: String) -> Result<Self, BadLoopId> {
        text.parse()
    }
}

impl From<LoopId> for String {
    fn from(id: LoopId) -> Self {
        id.0
    }
}

/// One thing that an iteration does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopStep {
    /// The role of this name does its part.
    Role(Scrubbed),
    /// Salve runs the tests.
    Tests,
    /// Where the tests could not execute, their infrastructure is recovered.
    Recovery,
}

/// The terms under which a loop runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopTerms {
    /// What each iteration does, in this order.
    pub steps: Vec<LoopStep>,
    /// What one run may take; attempts are iterations.
    pub limits: ResourceLimits,
    /// How often a role that did not do its part is asked again.
    pub retries: u32,
    /// How many iterations may leave everything as it was.
    pub stuck_after: u32,
    /// How often in a row it may be parked.
    pub parks: u32,
}

/// How a role's turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RoleEnd {
    /// It did its part.
    Done,
    /// It did not do its part.
    Short {
        /// What is wrong, for the role itself and for people.
        reason: Scrubbed,
    },
    /// It cannot work for now, and can later without anybody doing anything.
    Away {
        /// When to try again.
        until: Timestamp,
        /// Why.
        reason: Scrubbed,
    },
    /// It cannot work until a person has done something.
    Unable {
        /// What a person has to do.
        reason: Scrubbed,
    },
    /// It was told to stop.
    Stopped,
}

/// Whether a role promised that the task is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Promise {
    /// It did not.
    #[default]
    None,
    /// It did.
    Made {
        /// The hash of the tree that it left, if it could be taken.
        tree: Option<Digest>,
    },
    /// It did, and what judges the task was weakened since the loop began.
    Weakened,
}

impl Promise {
    pub fn is_none(&self) -> bool {
        *self == Promise::None
    }
}

/// What a run of the tests showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestsVerdict {
    /// They passed.
    Green,
    /// They ran, and some failed.
    Red,
    /// They could not run.
    NotExecuted,
}

/// One run of the tests, by Salve itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestsSeen {
    /// What it showed.
    pub verdict: TestsVerdict,
    /// How the command ended.
    pub exit: ProcessExit,
    /// The line that names the failure, empty when green.
    pub key_line: Scrubbed,
    /// What failed, by name, at most some.
    pub failed: Vec<Scrubbed>,
    /// How many failed in all, if the output says.
    pub count: Option<u32>,
    /// The hash of what failed, without what varies from run to run.
    pub failing: Digest,
    /// The hash of the tree that was tested, if it could be taken.
    pub tree: Option<Digest>,
    /// How long it took.
    pub took_ms: u64,
}

/// How a recovery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryEnd {
    /// The tests execute.
    Well,
    /// It is no matter of infrastructure: the next iteration's.
    NotInfrastructure,
    /// A person declined it, and the loop goes on.
    Rejected,
    /// A person has to decide.
    NeedsPerson,
}

/// Why a loop is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LoopEnd {
    /// The task was promised to be done, and the tests are green.
    Completed,
    /// A limit was reached.
    Limit(Resource),
    /// Nothing changed any more.
    Stuck,
    /// It could not go on.
    Failed {
        /// Why.
        reason: Scrubbed,
    },
}

/// One thing that happened to a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LoopTurn {
    /// A person started it, or had it go on.
    Started {
        terms: Box<LoopTerms>,
        /// What is to be done.
        task: Scrubbed,
    },
    /// An iteration began.
    Began {
        /// The terms from here on.
        terms: Box<LoopTerms>,
    },
    /// A role is about to do its part.
    RoleBegan {
        role: Scrubbed,
        /// How often it was asked in this iteration, from 1.
        attempt: u32,
    },
    /// What a role's turn has cost so far; the larger of two such statements counts.
    Charged {
        role: Scrubbed,
        /// Its whole cost until now.
        spent: Amounts,
    },
    /// A role's turn is over.
    RoleEnded {
        role: Scrubbed,
        /// How.
        end: RoleEnd,
        /// What it cost in all.
        spent: Amounts,
        /// Whether it promised that the task is done.
        #[serde(default, skip_serializing_if = "Promise::is_none")]
        promise: Promise,
    },
    /// Salve ran the tests.
    TestsRan {
        /// What they showed.
        tests: Box<TestsSeen>,
    },
    /// The infrastructure of the tests is being recovered.
    RecoveryBegan {},
    /// That is over.
    RecoveryEnded {
        /// How it ended.
        how: RecoveryEnd,
        /// How long was worked on it; waiting for a person is no work.
        took_ms: u64,
    },
    /// The user stopped it; it goes on when it is started again.
    Stopped {},
    /// It is over.
    Ended { why: LoopEnd },
    /// A person gave an order.
    Ordered {
        /// Which.
        order: PersonOrder,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_as_a_directory() {
        for (text, good) in [
            ("pinpoint-v1", true),
            ("0", true),
            ("", false),
            ("-x", false),
            ("..", false),
            ("a/b", false),
            ("Ab", false),
            ("a_b", false),
            (&"a".repeat(64), true),
            (&"a".repeat(65), false),
        ] {
            assert_eq!(text.parse::<LoopId>().is_ok(), good, "{text}");
        }
    }

    #[test]
    fn any_text_makes_a_name_and_a_number_goes_with_it() {
        for (text, want) in [
            ("Pinpoint", "pinpoint"),
            ("my app (2)", "my-app-2"),
            ("../..", "loop"),
            ("é", "loop"),
            ("", "loop"),
        ] {
            assert_eq!(LoopId::made_of(text).as_str(), want);
        }
        for length in [1, 63, 64, 200] {
            let name = LoopId::made_of(&"a".repeat(length)).numbered(u32::MAX);
            assert_eq!(name.as_str().parse().as_ref(), Ok(&name));
        }
    }
}
