//! What is to be checked and how it is healed, fixed when a run of Salve begins.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use salve_core::event::{
    Amounts, AtALoss, Limits, Mode, OnFailure, Policy, Repeat, Subject, SubjectKind,
};
use salve_core::scrub::{Scrubbed, Scrubber};

use crate::config::{Breakers, ChangedManifest, Tiers};

/// One check.
#[derive(Clone, Debug)]
pub struct CheckPlan {
    /// What sort of subject it is: a check, or a turn of a loop.
    pub kind: SubjectKind,
    /// Its name: that in the settings, or its command.
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// What runs, for people.
    pub command: Scrubbed,
    /// Where it runs.
    pub dir: PathBuf,
    /// Variables it gets besides Salve's own.
    pub env: Vec<(OsString, OsString)>,
    /// How long one run may take.
    pub limit: Duration,
}

impl CheckPlan {
    /// Returns the check as a subject of incidents.
    pub fn subject(&self, scrubber: &Scrubber) -> Subject {
        Subject { kind: self.kind, name: scrubber.scrub(&self.name), repeat: Repeat::Safe }
    }
}

/// How healing goes, the same for all checks of a run.
#[derive(Clone, Debug)]
pub struct HealPlan {
    /// Who is asked when a person has to decide.
    pub person: Scrubbed,
    /// Whether an agent repairs.
    pub mode: Mode,
    /// What one incident may spend.
    pub limits: Limits,
    /// What the whole run may spend.
    pub run_limits: Limits,
    /// How often a check that may be flaky is run again first.
    pub reruns: u32,
    /// Whether the state before a heal is run once more.
    pub proof: bool,
    /// How often the same failure may come back in the same files.
    pub no_progress_limit: u32,
    /// After how many failures in a row everything is undone.
    pub rollback_after: u32,
    /// How long an agent may take to begin and to finish.
    pub agent_time: (Duration, Duration),
    /// The most files a repair may change without a person.
    pub max_files: u32,
    /// The most lines a repair may change without a person.
    pub max_lines: u32,
    /// What becomes of a change that did not help.
    pub on_failure: OnFailure,
    /// When healing stops by itself.
    pub breakers: Breakers,
    /// What each attempt by an agent may take.
    pub tiers: Tiers,
    /// How long proposals of attached agents are waited for before an agent is started.
    pub broadcast: Duration,
    /// What happens in a loop whose run changed what is installed.
    pub changed_manifest: ChangedManifest,
    /// How long snapshots and attempts are kept.
    pub kept: Duration,
}

impl HealPlan {
    /// Returns the terms under which an incident is opened when the run has cost `spent` so far.
    pub fn policy(&self, spent: Amounts) -> Policy {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (engage, write) = self.agent_time;
        Policy {
            person: self.person.clone(),
            mode: self.mode,
            limits: within(self.limits, self.run_limits, spent),
            backoff_ms: 0,
            engage_ms: ms(engage),
            write_ms: ms(write),
            quiet_ms: 0,
            watch_ms: 0,
            cooldown_ms: 0,
            max_files: self.max_files,
            max_lines: self.max_lines,
            no_progress_limit: Some(self.no_progress_limit),
            catastrophe_after: Some(self.rollback_after),
            on_failure: self.on_failure,
            at_a_loss: AtALoss::Ask,
        }
    }
}

/// Returns what one incident may spend of what is left to the run.
fn within(one: Limits, run: Limits, spent: Amounts) -> Limits {
    let least = |one: Option<u64>, run: Option<u64>, spent: u64| {
        let left = run.map(|run| run.saturating_sub(spent));
        [one, left].into_iter().flatten().min()
    };
    Limits {
        attempts: one.attempts,
        tokens: least(one.tokens, run.tokens, spent.tokens),
        money_micros: least(one.money_micros, run.money_micros, spent.money_micros),
        wall_ms: least(one.wall_ms, run.wall_ms, spent.wall_ms),
        resets: one.resets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incident_gets_what_is_left_to_the_run_and_never_more_than_its_own() {
        let limits = |tokens: u64| Limits { tokens: Some(tokens), ..Limits::default() };
        let spent = |tokens: u64| Amounts { tokens, ..Amounts::default() };
        assert_eq!(within(limits(50), limits(500), spent(0)).tokens, Some(50));
        assert_eq!(within(limits(50), limits(500), spent(480)).tokens, Some(20));
        assert_eq!(within(limits(50), limits(500), spent(900)).tokens, Some(0));
        assert_eq!(within(limits(50), Limits::default(), spent(900)).tokens, Some(50));
        assert_eq!(within(Limits::default(), limits(5), spent(1)).tokens, Some(4));
    }
}
