//! The names the dev-server spec has for what happens.

use super::{Incident, Phase, Told};
use crate::event::{
    Effect, Event, IncidentEvent, Mark, Mode, Outcome, Proof, Question, RemedyKind, Report, Stage,
};

/// Returns the spec's phases that an event which was taken in brought about, in their order.
///
/// `after` is the incident with the event taken in. Most events bring about none.
pub fn phase_names(after: &Incident, event: &Event) -> &'static [&'static str] {
    use Mode::{Agent, Legacy};
    match (event, after.policy.mode) {
        (Event::Incident(IncidentEvent::Opened { .. }), Legacy) => &["crash-detected"],
        (Event::Incident(IncidentEvent::Opened { .. }), Agent) => &["crash_detected"],
        // Whoever takes an incident over begins no new repair.
        (Event::Incident(IncidentEvent::Claimed { .. }), _) if after.effects > 0 => &[],
        (Event::Incident(IncidentEvent::Claimed { .. }), Legacy) => &["lock-acquired"],
        (Event::Incident(IncidentEvent::Claimed { .. }), Agent) => &["repair_started"],
        (Event::Incident(IncidentEvent::Judged { .. }), Legacy) if waits_to_retry(after) => {
            &["waiting"]
        }
        (Event::Incident(IncidentEvent::Requested { what: Effect::Apply { .. }, .. }), Agent)
            if awaits_agent(after) =>
        {
            &["awaiting_agent"]
        }
        (Event::Incident(IncidentEvent::Marked { mark, .. }), Agent) => match mark {
            Mark::Started => &["agent_started"],
            Mark::ReadingLog => &["agent_reading_log"],
            Mark::ApplyingFix => &["agent_applying_fix"],
            Mark::WroteFiles => &["agent_wrote_files"],
        },
        (Event::Incident(IncidentEvent::Requested { what: Effect::Verify, .. }), _) => {
            &["restarting"]
        }
        (Event::Incident(IncidentEvent::Progressed { stage: Stage::HealthCheck, .. }), _) => {
            &["health-check"]
        }
        (Event::Incident(IncidentEvent::Progressed { stage: Stage::VerifyingFix, .. }), Agent) => {
            &["verifying_fix"]
        }
        (Event::Incident(IncidentEvent::Sickened { .. }), _) => &["failed"],
        (
            Event::Incident(IncidentEvent::Finished {
                report: Report::Verified { proof: Proof::Failed, .. },
                ..
            }),
            _,
        ) => &["failed"],
        // The restart-only table ends here; the cooldown goes on without a name of its own.
        (Event::Incident(IncidentEvent::Exhausted { .. }), Legacy) => &["exhausted"],
        (Event::Incident(IncidentEvent::Exhausted { .. }), Agent)
            if matches!(after.phase, Phase::CoolingDown { .. }) =>
        {
            &["exhausted", "cooldown"]
        }
        (Event::Incident(IncidentEvent::Exhausted { .. }), Agent) => {
            &["exhausted", "failed_requires_human"]
        }
        (
            Event::Incident(IncidentEvent::Finished { .. })
            | Event::Incident(IncidentEvent::Judged { .. })
            | Event::Incident(IncidentEvent::Approved { .. }),
            Agent,
        ) if is_ready_to_restart(after) => &["ready_to_restart"],
        (
            Event::Incident(IncidentEvent::Ended { outcome: Outcome::Aborted | Outcome::GivenUp }),
            _,
        ) => &["aborted"],
        (Event::Incident(IncidentEvent::CooledDown {}), _) => &["failed_requires_human"],
        _ => came_to(after, event),
    }
}

/// Returns the phase that follows from where the event led rather than from the event.
fn came_to(after: &Incident, event: &Event) -> &'static [&'static str] {
    let leads = matches!(
        event,
        Event::Incident(IncidentEvent::Finished { .. })
            | Event::Incident(IncidentEvent::NothingLeft { .. })
            | Event::Incident(IncidentEvent::Tripped { .. })
            | Event::Incident(IncidentEvent::Ordered { .. })
    );
    match after.phase {
        Phase::Ending { outcome: Outcome::Recovered(_), .. } if leads => &["recovered"],
        Phase::Ending { outcome: Outcome::Unhealed, .. } if leads => &["failed_requires_human"],
        Phase::Asking { question, told: Told::No, .. } if leads && question != Question::Remedy => {
            &["failed_requires_human"]
        }
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
    matches!(after.phase, Phase::Due { what: Effect::Verify, .. })
}

fn awaits_agent(after: &Incident) -> bool {
    after.trial.as_ref().is_some_and(|trial| trial.remedy.kind == RemedyKind::Agent)
}

fn is_ready_to_restart(after: &Incident) -> bool {
    matches!(after.phase, Phase::Due { what: Effect::Verify, .. })
}
