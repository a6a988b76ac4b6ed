//! How checks are healed, fixed when a run of Salve begins.

use salve_core::event::{IncidentPolicy, ResourceLimits};

use crate::heal::RepairTerms;

/// What holds for the incidents of all checks of a run.
#[derive(Clone, Debug)]
pub struct CheckTerms {
    /// What one incident may spend.
    pub limits: ResourceLimits,
    /// What the whole run may spend.
    pub run_limits: ResourceLimits,
    /// How often a check that may be flaky is run again first.
    pub reruns: u32,
    /// Whether the state before a heal is run once more.
    pub proof: bool,
    /// How often the same failure may come back in the same files.
    pub no_progress_limit: u32,
    /// After how many failures in a row everything is undone.
    pub rollback_after: u32,
}

impl CheckTerms {
    /// Returns the terms under which an incident is opened.
    pub fn policy(&self, terms: &RepairTerms) -> IncidentPolicy {
        IncidentPolicy {
            no_progress_limit: Some(self.no_progress_limit),
            catastrophe_after: Some(self.rollback_after),
            ..terms.policy(self.limits)
        }
    }
}
