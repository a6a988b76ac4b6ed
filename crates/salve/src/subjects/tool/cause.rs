//! What several calls failed of, and all who wait for it to be fixed.

use std::collections::VecDeque;

use salve_core::event::Digest;
use salve_core::id::Signature;
use salve_core::incident::DueEffect;
use salve_core::tool::failure::FailedCall;
use salve_core::tool::rule::ToolFix;

use super::desk::FailingCall;
use crate::heal::remedies::Offer;

/// What makes two failures one: what was said, and what helps against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CauseKey {
    pub(super) signature: Signature,
    /// The causes of the fixes that fit; two tools may say the same and need different logins.
    pub(super) fixes: Vec<String>,
}

/// A call with what it was found to have failed of.
pub(super) struct JudgedCall {
    pub(super) failing: FailingCall,
    pub(super) call: FailedCall,
}

/// A call that is made again to show whether a remedy helped.
pub(super) struct CallTrial {
    pub(super) at: usize,
    pub(super) effect: DueEffect,
    pub(super) call: JudgedCall,
}

/// A fix that was offered to the incident.
#[derive(Clone, Debug)]
pub(super) struct OfferedFix {
    pub(super) digest: Digest,
    pub(super) fix: ToolFix,
}

/// One cause and the calls that failed of it.
pub(super) struct FailureCause {
    pub(super) key: CauseKey,
    /// The tool of the first call.
    pub(super) tool: String,
    pub(super) waiting: VecDeque<JudgedCall>,
    pub(super) fixes: Vec<OfferedFix>,
    /// What memory knows besides.
    pub(super) known: Vec<Offer>,
    /// What is done now, in words.
    pub(super) doing: Option<String>,
    /// What was done and did not help, in words.
    pub(super) in_vain: Vec<String>,
}

impl FailureCause {
    /// Returns a fix by the hash of its remedy.
    pub(super) fn fix(&self, digest: Digest) -> Option<&ToolFix> {
        self.fixes.iter().find(|offered| offered.digest == digest).map(|offered| &offered.fix)
    }

    /// Notes why a fix could not be carried out, and returns that with its name.
    pub(super) fn failed(&mut self, digest: Digest, why: String) -> String {
        let name = self.fix(digest).map(ToolFix::name).unwrap_or_default();
        let why = if why.contains(&name) { why } else { format!("{name}: {why}") };
        self.in_vain.push(why.clone());
        why
    }

    /// Returns what whoever waits is told when nothing is left to do.
    pub(super) fn in_vain(&self) -> String {
        match self.in_vain.as_slice() {
            [] => "Salve could not heal this call: a person has to look.".to_owned(),
            tried => format!(
                "Salve tried to heal this call: {}. A person has to look.",
                tried.join("; ")
            ),
        }
    }
}
