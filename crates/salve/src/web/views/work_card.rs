//! Jobs and loops at a glance: how each stands.

use jiff::{SignedDuration, Timestamp};
use salve_core::event::LoopEnd;
use salve_core::iteration::Loop;
use salve_core::job::{Job, job_state};
use salve_core::scrub::Scrubbed;
use salve_core::steps::StepsStanding;
use schemars::JsonSchema;
use serde::Serialize;

/// How long jobs and loops that are over are shown.
const SHOWN_AFTER_END: SignedDuration = SignedDuration::from_hours(24);

/// A job or a loop at a glance.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct WorkCard {
    pub(in crate::web) kind: WorkKind,
    /// Its id, as commands take it.
    pub(in crate::web) id: String,
    /// What it is for.
    pub(in crate::web) task: String,
    pub(in crate::web) standing: WorkStanding,
    /// How far it is, in words.
    pub(in crate::web) progress: String,
    /// Why it stands so, where that is not plain.
    #[schemars(with = "Option<String>")]
    pub(in crate::web) reason: Option<Scrubbed>,
    #[schemars(with = "String")]
    pub(in crate::web) since: Timestamp,
    /// Whether some salve drives it now.
    pub(in crate::web) is_driven: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::web) enum WorkKind {
    Job,
    Loop,
}

/// How a job or a loop stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::web) enum WorkStanding {
    Running,
    Paused,
    /// It goes on by itself later.
    Parked,
    /// A person has to do something, and no incident asks for it.
    Waits,
    Stopped,
    Completed,
    Failed,
}

impl WorkStanding {
    fn of(standing: &StepsStanding, paused_by: Option<&Scrubbed>) -> Self {
        match standing {
            StepsStanding::Running if paused_by.is_some() => Self::Paused,
            StepsStanding::Running => Self::Running,
            StepsStanding::Parked { .. } => Self::Parked,
            StepsStanding::Waits { .. } => Self::Waits,
            StepsStanding::Stopped => Self::Stopped,
            StepsStanding::Ended(LoopEnd::Completed) => Self::Completed,
            StepsStanding::Ended(LoopEnd::Limit(_) | LoopEnd::Stuck | LoopEnd::Failed { .. }) => {
                Self::Failed
            }
        }
    }

    /// Tells whether nothing more comes of it by itself.
    pub(super) fn is_over(self) -> bool {
        match self {
            Self::Running | Self::Paused | Self::Parked | Self::Waits => false,
            Self::Stopped | Self::Completed | Self::Failed => true,
        }
    }
}

fn reason_of(standing: &StepsStanding) -> Option<Scrubbed> {
    match standing {
        StepsStanding::Parked { reason, .. }
        | StepsStanding::Waits { reason }
        | StepsStanding::Ended(LoopEnd::Failed { reason }) => Some(reason.clone()),
        StepsStanding::Ended(LoopEnd::Stuck) => Some(Scrubbed::literal("nothing changed any more")),
        StepsStanding::Ended(LoopEnd::Limit(_)) => Some(Scrubbed::literal("a limit was reached")),
        StepsStanding::Running
        | StepsStanding::Stopped
        | StepsStanding::Ended(LoopEnd::Completed) => None,
    }
}

impl WorkCard {
    pub(super) fn of_job(job: &Job, is_driven: bool) -> Self {
        let state = job_state(job);
        let at = state.step_id.as_ref().map_or(String::new(), |step| format!(" · at {step}"));
        Self {
            kind: WorkKind::Job,
            id: state.run_id.short(),
            task: state.objective.to_string(),
            standing: WorkStanding::of(job.standing(), job.steps().paused_by()),
            progress: format!("{} of {} steps done{at}", state.steps_done, state.steps),
            reason: reason_of(job.standing()),
            since: state.since,
            is_driven,
        }
    }

    pub(super) fn of_loop(of: &Loop, is_driven: bool) -> Self {
        let role = of.role().map_or(String::new(), |role| format!(" · {role}"));
        Self {
            kind: WorkKind::Loop,
            id: of.id().to_string(),
            task: of.task().to_string(),
            standing: WorkStanding::of(of.standing(), of.paused_by()),
            progress: format!("iteration {}{role}", of.iteration()),
            reason: reason_of(of.standing()),
            since: of.stamps().since(),
            is_driven,
        }
    }

    pub(super) fn is_shown(&self, now: Timestamp) -> bool {
        !self.standing.is_over() || now.duration_since(self.since) < SHOWN_AFTER_END
    }
}
