//! `recovery.json`: an agent's diagnosis and the commands it proposes.
//!
//! A proposal is data from a stranger. Every field of the format is checked, extra fields are
//! ignored, and nothing in it can change the policy: it only yields [`Request`]s.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::request::{BadRequest, DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS, Request};
use super::strict::{self, NotStrict};

/// The largest proposal that is read, in bytes.
pub const MAX_PROPOSAL: usize = 256 * 1024;

/// The format's version.
const VERSION: u64 = 1;

/// The longest explanatory text, in bytes.
const MAX_TEXT: usize = 16 * 1024;

/// How many lines of evidence are read.
const MAX_EVIDENCE: usize = 256;

/// Makes an enum whose variants have fixed names in a proposal.
macro_rules! names {
    ($(#[$doc:meta])* $kind:ident { $($(#[$item:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $kind { $($(#[$item])* $variant,)+ }

        impl $kind {
            const NAMES: &'static [&'static str] = &[$($name),+];

            /// Returns the name used in files and on screen.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$variant => $name),+ }
            }

            pub(crate) fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some($kind::$variant),)+ _ => None }
            }
        }
    };
}

names! {
    /// What kind of infrastructure is broken.
    Category {
        /// Packages and their versions.
        Dependency = "dependency",
        /// Settings files.
        Config = "config",
        /// The machine and its tools.
        Environment = "environment",
        /// Rights on files or services.
        Permissions = "permissions",
        /// Connections.
        Network = "network",
    }
}

names! {
    /// How bad it is.
    Severity {
        /// Tests cannot run.
        Blocking = "blocking",
        /// Tests run in part.
        Degraded = "degraded",
    }
}

names! {
    /// How sure the agent says it is; never a reason to run anything.
    Confidence {
        /// This very pattern was seen before.
        High = "high",
        /// Similar patterns were seen before.
        Medium = "medium",
        /// A best guess.
        Low = "low",
    }
}

names! {
    /// Which command of a proposal is meant.
    Which {
        /// The command proposed first.
        Recovery = "recovery",
        /// The alternative if the first one fails.
        Fallback = "fallback",
    }
}

impl Which {
    /// Reads the name of a command.
    ///
    /// # Errors
    ///
    /// Returns [`BadProposal`] for any other name.
    pub fn read(value: &Value) -> Result<Self, BadProposal> {
        let bad = || BadProposal::NotOneOf { field: "which".into(), names: Self::NAMES };
        value.as_str().and_then(Self::from_name).ok_or_else(bad)
    }
}

/// What the agent found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalDiagnosis {
    /// The pattern that matched the failure.
    pub error_pattern: String,
    /// The cause in words.
    pub root_cause: String,
    /// Where it shows, as `file:line` references.
    pub evidence: Vec<String>,
}

/// A checked proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryProposal {
    /// When the diagnosis was made.
    pub timestamp: Timestamp,
    /// What kind of infrastructure is broken.
    pub category: Category,
    /// How bad it is.
    pub severity: Severity,
    /// What the agent found out.
    pub diagnosis: ProposalDiagnosis,
    /// What success looks like.
    pub expected_outcome: String,
    /// How sure the agent says it is of the first command.
    pub confidence: Confidence,
    /// How sure the agent says it is of the alternative, if it says.
    pub fallback_confidence: Option<Confidence>,
    recovery: Request,
    fallback: Option<Request>,
}

/// Why a proposal is no proposal.
#[derive(Debug, thiserror::Error)]
pub enum BadProposal {
    /// The file is larger than any honest proposal.
    #[error("the proposal is larger than {MAX_PROPOSAL} bytes")]
    TooLarge,
    /// The text cannot be read in one way only.
    #[error("the proposal is {0}")]
    Json(#[from] NotStrict),
    /// A required field is not there.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A field holds another type.
    #[error("`{field}` should be {expected}")]
    Type {
        /// The field's path.
        field: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A field holds an unknown name.
    #[error("`{field}` should be one of: {}", names.join(", "))]
    NotOneOf {
        /// The field's path.
        field: String,
        /// The names that are known.
        names: &'static [&'static str],
    },
    /// A command, directory or time-out cannot be asked for.
    #[error("`{step}`: {source}")]
    Request {
        /// `recovery` or `fallback`.
        step: &'static str,
        /// What is wrong with it.
        #[source]
        source: BadRequest,
    },
    /// The fallback was meant, but there is none.
    #[error("the proposal has no fallback")]
    NoFallback,
}

impl RecoveryProposal {
    /// Reads the text of a `recovery.json`.
    ///
    /// # Errors
    ///
    /// Returns the first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, BadProposal> {
        if text.len() > MAX_PROPOSAL {
            return Err(BadProposal::TooLarge);
        }
        Self::read(&strict::parse(text)?)
    }

    /// Reads a proposal that is part of a larger document.
    ///
    /// The document must have been read by [`strict::parse`], which finds repeated keys.
    ///
    /// # Errors
    ///
    /// Returns the first thing that is wrong with it.
    pub fn read(value: &Value) -> Result<Self, BadProposal> {
        let top = Fields::of(value, "proposal", "")?;
        if top.value("version")?.as_u64() != Some(VERSION) {
            return Err(top.wrong("version", "the number 1; no other version is known"));
        }
        let timestamp = top
            .text("timestamp")?
            .parse()
            .map_err(|_| top.wrong("timestamp", "a time like 2026-01-23T05:36:33Z"))?;
        let diagnosis = Fields::of(top.value("diagnosis")?, "diagnosis", "diagnosis.")?;
        let error_pattern = diagnosis.text("error_pattern")?;
        if !is_regex(error_pattern) {
            return Err(diagnosis.wrong("error_pattern", "a regular expression"));
        }
        let recovery = Fields::of(top.value("recovery")?, "recovery", "recovery.")?;
        let first = recovery.request("recovery", None)?;
        let (fallback, fallback_confidence) = match top.get("fallback") {
            None => (None, None),
            Some(value) => {
                let fields = Fields::of(value, "fallback", "fallback.")?;
                let sure = fields
                    .get("confidence")
                    .map(|_| fields.one_of("confidence", Confidence::NAMES, Confidence::from_name));
                (Some(fields.request("fallback", Some(&first))?), sure.transpose()?)
            }
        };
        Ok(Self {
            timestamp,
            category: top.one_of("category", Category::NAMES, Category::from_name)?,
            severity: top.one_of("severity", Severity::NAMES, Severity::from_name)?,
            diagnosis: ProposalDiagnosis {
                error_pattern: error_pattern.to_owned(),
                root_cause: diagnosis.text("root_cause")?.to_owned(),
                evidence: diagnosis.evidence()?,
            },
            expected_outcome: recovery.text("expected_outcome")?.to_owned(),
            confidence: recovery.one_of("confidence", Confidence::NAMES, Confidence::from_name)?,
            fallback_confidence,
            recovery: first,
            fallback,
        })
    }

    /// Returns what is proposed first.
    pub fn recovery(&self) -> &Request {
        &self.recovery
    }

    /// Returns what is to be judged.
    ///
    /// # Errors
    ///
    /// Returns [`BadProposal::NoFallback`] when the fallback is meant and there is none.
    pub fn request(&self, which: Which) -> Result<&Request, BadProposal> {
        match which {
            Which::Recovery => Ok(&self.recovery),
            Which::Fallback => self.fallback.as_ref().ok_or(BadProposal::NoFallback),
        }
    }
}

/// One object of a proposal and how its fields are called.
struct Fields<'a> {
    map: &'a Map<String, Value>,
    prefix: &'static str,
}

impl<'a> Fields<'a> {
    fn of(value: &'a Value, name: &'static str, prefix: &'static str) -> Result<Self, BadProposal> {
        let wrong = || BadProposal::Type { field: name.into(), expected: "an object" };
        Ok(Self { map: value.as_object().ok_or_else(wrong)?, prefix })
    }

    fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    fn wrong(&self, key: &str, expected: &'static str) -> BadProposal {
        BadProposal::Type { field: self.path(key), expected }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key)
    }

    fn value(&self, key: &str) -> Result<&'a Value, BadProposal> {
        self.get(key).ok_or_else(|| BadProposal::Missing(self.path(key)))
    }

    /// Returns a required text that says something.
    fn text(&self, key: &str) -> Result<&'a str, BadProposal> {
        let text = self.value(key)?.as_str().ok_or_else(|| self.wrong(key, "a text"))?;
        if text.trim().is_empty() || text.contains('\0') || text.len() > MAX_TEXT {
            return Err(self.wrong(key, "a text of 1 to 16384 bytes without NUL"));
        }
        Ok(text)
    }

    fn one_of<T>(
        &self,
        key: &str,
        names: &'static [&'static str],
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, BadProposal> {
        let bad = || BadProposal::NotOneOf { field: self.path(key), names };
        self.value(key)?.as_str().and_then(read).ok_or_else(bad)
    }

    fn evidence(&self) -> Result<Vec<String>, BadProposal> {
        let wrong = || self.wrong("evidence", "a list of 1 to 256 `file:line` references");
        let list = self.value("evidence")?.as_array().ok_or_else(wrong)?;
        if list.is_empty() || list.len() > MAX_EVIDENCE {
            return Err(wrong());
        }
        let reference = |item: &Value| {
            let text = item.as_str()?;
            let fits = text.len() <= MAX_TEXT && !text.contains('\0') && names_a_line(text);
            fits.then(|| text.to_owned())
        };
        list.iter().map(|item| reference(item).ok_or_else(wrong)).collect()
    }

    /// Returns the command with its directory and time-out, the latter two from `first` if need be.
    fn request(&self, step: &'static str, first: Option<&Request>) -> Result<Request, BadProposal> {
        let command = self.value("command")?;
        let command = command.as_str().ok_or_else(|| self.wrong("command", "a text"))?;
        let working_dir = match self.get("working_dir") {
            None => first.map_or(".", Request::working_dir),
            Some(value) => value.as_str().ok_or_else(|| self.wrong("working_dir", "a text"))?,
        };
        let timeout = match self.get("timeout_seconds") {
            None => first.map_or(DEFAULT_TIMEOUT_SECONDS, Request::timeout_seconds),
            Some(value) => value
                .as_u64()
                .filter(|seconds| (1..=MAX_TIMEOUT_SECONDS).contains(seconds))
                .ok_or_else(|| self.wrong("timeout_seconds", "a whole number from 1 to 3600"))?,
        };
        Request::new(command, working_dir, timeout)
            .map_err(|source| BadProposal::Request { step, source })
    }
}

/// Returns whether `text` is a regular expression of any usual dialect.
///
/// Agents write what their own language reads: what looks around or back is taken for a group.
fn is_regex(text: &str) -> bool {
    let is = |text: &str| regex_automata::util::syntax::parse(text).is_ok();
    let mut plain = text.to_owned();
    for looks in ["(?=", "(?!", "(?<=", "(?<!", "(?>"] {
        plain = plain.replace(looks, "(?:");
    }
    for back in 1..=9 {
        plain = plain.replace(&format!("\\{back}"), "(?:)");
    }
    is(text) || is(&plain)
}

/// Returns whether `text` has a name followed by a colon and a line number.
fn names_a_line(text: &str) -> bool {
    let bytes = text.as_bytes();
    let colon = |i: usize| i > 0 && bytes[i] == b':';
    (1..bytes.len()).any(|i| colon(i) && bytes.get(i + 1).is_some_and(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests;
