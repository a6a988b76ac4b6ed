//! What an earned approval is for.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Digest;
use crate::id::Signature;
use crate::memory::SignatureAliases;
use crate::scrub::Scrubbed;

/// What the names of earned rules begin with.
const EARNED: &str = "earned.";

/// The one failure and the one command, with its directory and time-out, that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleKey {
    /// The failure.
    pub signature: Signature,
    /// The hash of exactly what runs, see [`Digest::of_command`].
    pub remedy: Digest,
}

impl RuleKey {
    /// Returns eight hex digits by which people name the rule.
    pub fn short(&self) -> String {
        let hash = Digest::of(&[b"rule", &self.signature.0.to_be_bytes(), &self.remedy.0]);
        hash.to_string().chars().take(8).collect()
    }

    /// Returns the key in force where the failure has another signature by now.
    #[must_use]
    pub fn under(self, aliases: &SignatureAliases) -> Self {
        Self { signature: aliases.resolve(self.signature), ..self }
    }

    /// Returns whether a judgement's rule is one that a command earned.
    pub fn is_earned(rule: &Scrubbed) -> bool {
        rule.as_str().starts_with(EARNED)
    }

    /// Returns whether a judgement's rule is this one.
    pub fn is_rule(&self, rule: &Scrubbed) -> bool {
        rule.as_str() == self.to_string()
    }
}

impl fmt::Display for RuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{EARNED}{}", self.short())
    }
}
