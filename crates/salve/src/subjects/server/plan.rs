//! What is to run and how it is cared for, fixed when a run of Salve begins.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use salve_core::event::{IncidentPolicy, Repeat, ResourceLimits, Subject, SubjectKind};
use salve_core::scrub::{Scrubbed, Scrubber};
use salve_core::server::Expect;
use salve_core::watch::{Strictness, WatchTerms};

use crate::heal::{RepairTerms, millis};
use crate::process::Terminal;

/// One server that is to run.
#[derive(Clone, Debug)]
pub struct ServerPlan {
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// What runs, for people.
    pub command: Scrubbed,
    /// Where it runs.
    pub dir: PathBuf,
    /// Variables it gets besides Salve's own.
    pub env: Vec<(OsString, OsString)>,
    /// What it is connected to.
    pub terminal: Terminal,
    /// Where it answers, if the settings say so.
    pub url: Option<String>,
    /// The path that is asked for at an address that the server told itself.
    pub path: Option<String>,
    /// What a good answer is, if the settings say so.
    pub expect: Option<Expect>,
    /// The servers that have to be well before it starts.
    pub depends_on: Vec<String>,
    /// How long it is given to prove itself.
    pub timing: Timing,
}

/// How long one server's things take.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Probes that may come out badly before the server is unwell.
    pub retries: u32,
    /// How long a probe may take.
    pub timeout: Duration,
    /// The pause between two probes.
    pub delay: Duration,
    /// How long a server that looks well has to stay so.
    pub soak: Duration,
    /// How long a server may take until it answers.
    pub startup: Duration,
    /// The pause between two looks at a server that is well.
    pub liveness: Duration,
    /// How long a server that was well may answer badly.
    pub grace: Duration,
    /// How long a server may take to end when asked to.
    pub stop: Duration,
}

/// Whether a run has to stay well for a while before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soak {
    /// It has to: something is to be proven.
    Needed,
    /// The first good answer will do.
    Spared,
}

impl Timing {
    /// Returns how long an answer is waited for that need not come soon: nobody said that it has to,
    /// and the server may only be slow. What it took once, or less than that doubled, it may take
    /// again; of a server that has never answered nobody knows.
    pub fn patience(&self, slowest: Option<Duration>) -> Duration {
        let usual = self.grace.max(self.timeout);
        match slowest {
            Some(slowest) => usual.max(slowest.saturating_mul(2)),
            None => usual.saturating_mul(2),
        }
    }

    /// Returns the terms of one run; a server that crashed before has to outlive that by half, and
    /// only where something is to be proven it has to stay well for a while.
    pub fn terms(
        &self,
        strictness: Strictness,
        soak: Soak,
        crashed_after: Option<Duration>,
    ) -> WatchTerms {
        let ms = millis;
        let probes = self.delay.saturating_mul(self.retries);
        let outlive = crashed_after.unwrap_or_default().mul_f32(1.5).min(self.startup);
        WatchTerms {
            strictness,
            retries: self.retries,
            delay_ms: ms(self.delay),
            soak_ms: match soak {
                Soak::Needed => ms(self.soak),
                Soak::Spared => 0,
            },
            startup_ms: ms(self.startup),
            survive_ms: ms(probes.max(outlive)),
            liveness_ms: ms(self.liveness),
            grace_ms: ms(self.grace),
        }
    }
}

/// How often an agent's repair may lead to the same failure in the same files.
///
/// The attempts that there are by default are used up by then; more of them are not wasted.
const NO_PROGRESS: u32 = 2;

/// What holds for the incidents of all servers of a run.
#[derive(Clone, Copy, Debug)]
pub struct ServerTerms {
    /// What may be spent.
    pub limits: ResourceLimits,
    /// The first wait before a plain restart.
    pub backoff: Duration,
    /// How long edits settle.
    pub quiet: Duration,
    /// How long a healed server is watched for a relapse.
    pub watch: Duration,
    /// How long nothing is tried once the budget is used up.
    pub cooldown: Duration,
}

impl ServerTerms {
    /// Returns the terms under which an incident is opened now.
    pub fn policy(&self, terms: &RepairTerms) -> IncidentPolicy {
        IncidentPolicy {
            backoff_ms: millis(self.backoff),
            quiet_ms: millis(self.quiet),
            watch_ms: millis(self.watch),
            cooldown_ms: millis(self.cooldown),
            no_progress_limit: Some(NO_PROGRESS),
            ..terms.policy(self.limits)
        }
    }
}

impl ServerPlan {
    /// Returns the server as a subject of incidents.
    pub fn subject(&self, scrubber: &Scrubber) -> Subject {
        Subject {
            kind: SubjectKind::Server,
            name: scrubber.scrub(&self.name),
            repeat: Repeat::Safe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_took_once_it_may_take_again() {
        let seconds = Duration::from_secs;
        let timing = Timing {
            retries: 3,
            timeout: seconds(5),
            delay: seconds(1),
            soak: seconds(3),
            startup: seconds(60),
            liveness: seconds(10),
            grace: seconds(30),
            stop: seconds(5),
        };
        let rows = [(None, 60), (Some(1), 30), (Some(15), 30), (Some(40), 80)];
        for (slowest, want) in rows {
            assert_eq!(timing.patience(slowest.map(seconds)), seconds(want), "{slowest:?}");
        }
    }
}
