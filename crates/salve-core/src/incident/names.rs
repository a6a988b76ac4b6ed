//! The names the dev-server spec has for what happens.

use std::fmt;

use serde::Serialize;

use super::{Incident, Phase, Told};
use crate::event::{
    AgentMark, Effect, EffectReport, EffectStage, Event, IncidentEvent, IncidentOutcome, Proof,
    RemedyKind, RepairMode,
};

/// A phase of a repair, as the dev-server spec names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum RepairPhase {
    /// A crash was detected, and an agent may repair.
    #[serde(rename = "crash_detected")]
    CrashDetected,
    /// A crash was detected, in the table of restarts without an agent.
    #[serde(rename = "crash-detected")]
    LegacyCrashDetected,
    #[serde(rename = "lock-acquired")]
    LockAcquired,
    #[serde(rename = "repair_started")]
    RepairStarted,
    #[serde(rename = "waiting")]
    Waiting,
    #[serde(rename = "awaiting_agent")]
    AwaitingAgent,
    #[serde(rename = "agent_started")]
    AgentStarted,
    #[serde(rename = "agent_reading_log")]
    AgentReadingLog,
    #[serde(rename = "agent_applying_fix")]
    AgentApplyingFix,
    #[serde(rename = "agent_wrote_files")]
    AgentWroteFiles,
    #[serde(rename = "ready_to_restart")]
    ReadyToRestart,
    #[serde(rename = "restarting")]
    Restarting,
    #[serde(rename = "health-check")]
    HealthCheck,
    #[serde(rename = "verifying_fix")]
    VerifyingFix,
    #[serde(rename = "recovered")]
    Recovered,
    #[serde(rename = "failed")]
    Failed,
    #[serde(rename = "exhausted")]
    Exhausted,
    #[serde(rename = "cooldown")]
    Cooldown,
    #[serde(rename = "failed_requires_human")]
    FailedRequiresHuman,
    #[serde(rename = "aborted")]
    Aborted,
}

impl RepairPhase {
    /// Returns the spec's name of the phase.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CrashDetected => "crash_detected",
            Self::LegacyCrashDetected => "crash-detected",
            Self::LockAcquired => "lock-acquired",
            Self::RepairStarted => "repair_started",
            Self::Waiting => "waiting",
            Self::AwaitingAgent => "awaiting_agent",
            Self::AgentStarted => "agent_started",
            Self::AgentReadingLog => "agent_reading_log",
            Self::AgentApplyingFix => "agent_applying_fix",
            Self::AgentWroteFiles => "agent_wrote_files",
            Self::ReadyToRestart => "ready_to_restart",
            Self::Restarting => "restarting",
            Self::HealthCheck => "health-check",
            Self::VerifyingFix => "verifying_fix",
            Self::Recovered => "recovered",
            Self::Failed => "failed",
            Self::Exhausted => "exhausted",
            Self::Cooldown => "cooldown",
            Self::FailedRequiresHuman => "failed_requires_human",
            Self::Aborted => "aborted",
        }
    }
}

impl fmt::Display for RepairPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Returns the spec's phases that an event which was taken in brought about, in their order.
///
/// `after` is the incident with the event taken in. Most events bring about none.
pub fn phase_names(after: &Incident, event: &Event) -> &'static [RepairPhase] {
    use RepairMode::{Agent, Legacy};
    use {IncidentEvent as E, RepairPhase as P};
    let Event::Incident(event) = event else { return &[] };
    match (event, after.policy().mode) {
        (E::Opened { .. }, Legacy) => &[P::LegacyCrashDetected],
        (E::Opened { .. }, Agent) => &[P::CrashDetected],
        // Whoever takes an incident over begins no new repair.
        (E::Claimed { .. }, _) if after.repair.effects > 0 => &[],
        (E::Claimed { .. }, Legacy) => &[P::LockAcquired],
        (E::Claimed { .. }, Agent) => &[P::RepairStarted],
        (E::Judged { .. }, Legacy) if waits_to_retry(after) => &[P::Waiting],
        (E::Requested { what: Effect::Apply { .. }, .. }, Agent) if awaits_agent(after) => {
            &[P::AwaitingAgent]
        }
        (E::Marked { mark, .. }, Agent) => match mark {
            AgentMark::Started => &[P::AgentStarted],
            AgentMark::ReadingLog => &[P::AgentReadingLog],
            AgentMark::ApplyingFix => &[P::AgentApplyingFix],
            AgentMark::WroteFiles => &[P::AgentWroteFiles],
        },
        (E::Requested { what: Effect::Verify, .. }, _) => &[P::Restarting],
        (E::Progressed { stage: EffectStage::HealthCheck, .. }, _) => &[P::HealthCheck],
        (E::Progressed { stage: EffectStage::VerifyingFix, .. }, Agent) => &[P::VerifyingFix],
        (E::Sickened { .. }, _) => &[P::Failed],
        (E::Finished { report: EffectReport::Verified { proof: Proof::Failed, .. }, .. }, _) => {
            &[P::Failed]
        }
        // The restart-only table ends here; the cooldown goes on without a name of its own.
        (E::Exhausted { .. }, Legacy) => &[P::Exhausted],
        (E::Exhausted { .. }, Agent) if matches!(after.phase(), Phase::CoolingDown { .. }) => {
            &[P::Exhausted, P::Cooldown]
        }
        (E::Exhausted { .. }, Agent) => &[P::Exhausted, P::FailedRequiresHuman],
        (E::Finished { .. } | E::Judged { .. } | E::Approved { .. }, Agent)
            if is_ready_to_restart(after) =>
        {
            &[P::ReadyToRestart]
        }
        (E::Ended { outcome: IncidentOutcome::Aborted | IncidentOutcome::GivenUp }, _) => {
            &[P::Aborted]
        }
        (E::CooledDown {}, _) => &[P::FailedRequiresHuman],
        _ => came_to(after, event),
    }
}

/// Returns the phase that follows from where the event led rather than from the event.
fn came_to(after: &Incident, event: &IncidentEvent) -> &'static [RepairPhase] {
    use {IncidentEvent as E, RepairPhase as P};
    let leads = matches!(
        event,
        E::Finished { .. }
            | E::Judged { .. }
            | E::NothingLeft { .. }
            | E::Tripped { .. }
            | E::CameBack { .. }
            | E::Ordered { .. }
    );
    match after.phase() {
        Phase::Ending { outcome: IncidentOutcome::Recovered(_), .. } if leads => &[P::Recovered],
        Phase::Ending { outcome: IncidentOutcome::Unhealed, .. } if leads => {
            &[P::FailedRequiresHuman]
        }
        Phase::Asking { told: Told::No, .. } if leads => &[P::FailedRequiresHuman],
        Phase::Choosing
        | Phase::Due { .. }
        | Phase::Doing { .. }
        | Phase::Asking { .. }
        | Phase::CoolingDown { .. }
        | Phase::Ending { .. }
        | Phase::Closed(_) => &[],
    }
}

fn waits_to_retry(after: &Incident) -> bool {
    matches!(after.phase(), Phase::Due { what: Effect::Verify, .. })
}

fn awaits_agent(after: &Incident) -> bool {
    after.trial().is_some_and(|trial| trial.remedy.kind == RemedyKind::Agent)
}

fn is_ready_to_restart(after: &Incident) -> bool {
    matches!(after.phase(), Phase::Due { what: Effect::Verify, .. })
}
