//! `state.json`: how a loop stands, for people and programs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Loop, StepsStanding};
use crate::event::{Amounts, LoopEnd, LoopId, ResourceLimits, TestsVerdict};
use crate::id::IncidentId;
use crate::scrub::Scrubbed;
use crate::view::IncidentView;

/// The version of the file's shape.
const VERSION: u32 = 1;

/// What a loop does, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It goes on.
    Running,
    /// A person has to decide or do something.
    AwaitingHuman,
    /// It waits until a role can work again.
    Parked,
    /// The task is done, and the tests are green.
    Completed,
    /// Nothing changed any more.
    Stuck,
    LimitReached,
    /// The user stopped it.
    Stopped,
    /// It could not go on.
    Failed,
}

impl Status {
    /// Returns the word.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::AwaitingHuman => "awaiting_human",
            Status::Parked => "parked",
            Status::Completed => "completed",
            Status::Stuck => "stuck",
            Status::LimitReached => "limit_reached",
            Status::Stopped => "stopped",
            Status::Failed => "failed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopStateFile {
    /// The version of its shape.
    pub version: u32,
    pub loop_id: LoopId,
    /// What it does.
    pub status: Status,
    /// The last iteration that began.
    pub iteration: u32,
    /// The role whose turn it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Scrubbed>,
    /// Since when it stands so.
    pub since: Timestamp,
    /// Who paused it, if somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<Scrubbed>,
    /// Why, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Scrubbed>,
    /// When it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes_at: Option<Timestamp>,
    /// The recovery that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<IncidentId>,
    /// What the last run of the tests showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestsVerdict>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Scrubbed>,
    /// How many iterations left everything as the last one did.
    pub unchanged: u32,
    /// What this run of the loop has cost; attempts are iterations.
    pub spent: Amounts,
    /// What it may cost.
    pub limits: ResourceLimits,
}

/// Returns the file of a loop, with the recovery that is under way, if one is.
pub(crate) fn state(of: &Loop, recovery: Option<&IncidentView>) -> LoopStateFile {
    let (mut status, mut reason, mut resumes_at) = (Status::Running, None, None);
    match of.standing() {
        StepsStanding::Running => {}
        StepsStanding::Parked { until, reason: why } => {
            (status, reason, resumes_at) = (Status::Parked, Some(why.clone()), Some(*until));
        }
        StepsStanding::Waits { reason: why } => {
            (status, reason) = (Status::AwaitingHuman, Some(why.clone()));
        }
        StepsStanding::Stopped => status = Status::Stopped,
        StepsStanding::Ended(why) => {
            (status, reason) = match why {
                LoopEnd::Completed => (Status::Completed, None),
                LoopEnd::Limit(_) => (Status::LimitReached, None),
                LoopEnd::Stuck => (Status::Stuck, None),
                LoopEnd::Failed { reason } => (Status::Failed, Some(reason.clone())),
            };
        }
    }
    let asks = recovery.is_some_and(|recovery| recovery.open_question().is_some());
    if asks && status == Status::Running {
        status = Status::AwaitingHuman;
    }
    let is_idle = status == Status::Running && !of.is_at_work();
    if of.paused_by().is_some() && is_idle {
        // What runs comes to its end; then somebody has to let it go on.
        (status, reason) = (Status::AwaitingHuman, Some(Scrubbed::literal("it is paused")));
    }
    let tests = of.tests().or(of.earlier_tests());
    let iterations = u64::from(of.steps.position.passes());
    LoopStateFile {
        version: VERSION,
        loop_id: of.id.clone(),
        status,
        iteration: of.iteration(),
        role: of.role().cloned(),
        since: of.stamps().since(),
        paused_by: of.paused_by().cloned(),
        reason,
        resumes_at,
        incident: recovery.map(IncidentView::id),
        tests: tests.map(|tests| tests.verdict),
        failed: tests.map(|tests| tests.failed.clone()).unwrap_or_default(),
        unchanged: of.unchanged(),
        spent: Amounts { attempts: iterations, ..of.spent() },
        limits: of.terms.limits,
    }
}
