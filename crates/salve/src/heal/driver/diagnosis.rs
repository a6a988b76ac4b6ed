//! The look into the cause of a failure.
//!
//! Looking at the project takes a while, so it happens on a thread of its own and the answer comes
//! by the inbox; until then nothing is chosen. A failure of which no rule speaks is not looked
//! into, and its remedy does not wait.

use std::sync::atomic::{AtomicU64, Ordering};

use salve_core::event::{Event, IncidentEvent};
use salve_core::playbook::Diagnosis;

use super::case::{Case, Insight};
use crate::heal::cause::{self, FailurePlace};
use crate::heal::inbox::InboxMessage;
use crate::heal::run_base::RunBase;
use crate::heal::spawn_thread;
use crate::store::StoreError;

/// How often causes were looked into by this process.
static LOOKS: AtomicU64 = AtomicU64::new(0);

/// Begins to look into the cause of the present failure, where nobody has; tells whether it is
/// known what it is.
pub(super) fn is_known(
    base: &RunBase<'_>,
    case: &mut Case,
    place: impl FnOnce() -> FailurePlace,
) -> bool {
    if let Insight::None = case.work.insight {
        look_into(base, case, place);
    }
    case.diagnosis().is_some()
}

fn look_into(base: &RunBase<'_>, case: &mut Case, place: impl FnOnce() -> FailurePlace) {
    let told = case.seen().filter(|seen| !seen.output.as_str().trim().is_empty());
    let (Some(evidence), Some(incident)) =
        (told.filter(|seen| cause::may_be_known(seen)).cloned(), case.incident())
    else {
        case.work.insight = Insight::Told(Box::new(Diagnosis::unknown()));
        return;
    };
    let look = LOOKS.fetch_add(1, Ordering::Relaxed);
    let incident = incident.id();
    let (sender, scrubber, place) = (base.inbox.sender(), base.writer.scrubber.clone(), place());
    case.work.insight = Insight::Looking(look);
    spawn_thread("diagnosis", move || {
        let diagnosis = Box::new(cause::diagnose(&evidence, &place, &scrubber));
        // Nobody is left to tell when the run is over.
        let _ = sender.send(InboxMessage::Diagnosed { incident, look, diagnosis });
    });
}

/// Takes in what a look found, unless it is about a failure of the past; tells whether a person
/// should hear of it.
pub(super) fn take_in(case: &mut Case, look: u64, diagnosis: Box<Diagnosis>) -> bool {
    if !matches!(case.work.insight, Insight::Looking(number) if number == look) {
        return false;
    }
    let has_findings = !diagnosis.findings.is_empty();
    case.work.insight = Insight::Found(diagnosis);
    has_findings
}

/// Tells whether the journal has what was found out, so that a remedy may be chosen at once.
pub(super) fn is_told(case: &Case) -> bool {
    matches!(case.work.insight, Insight::Told(_))
}

/// Tells the journal what was found out about the cause.
pub(super) fn tell(base: &mut RunBase<'_>, case: &mut Case) -> Result<(), StoreError> {
    let Insight::Found(found) = &case.work.insight else { return Ok(()) };
    let found = found.clone();
    if let Some(rule) = &found.rule {
        let rule = base.writer.scrubber.scrub(rule);
        let (nature, findings) = (found.nature, found.findings.clone());
        let event = Event::Incident(IncidentEvent::Diagnosed { nature, rule, findings });
        case.write_while_choosing(base, &event)?;
    }
    case.work.insight = Insight::Told(found);
    Ok(())
}
