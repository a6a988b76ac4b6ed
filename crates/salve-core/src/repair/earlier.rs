//! What an agent that Salve starts is told, read from the incident's story.

use crate::agent::Earlier;
use crate::event::{AgentMark, EffectReport, Event, IncidentEvent, Proof, SubjectKind};
use crate::scrub::Scrubbed;
use crate::view::IncidentView;

/// Returns what the earlier attempts did and what was seen afterwards.
pub fn earlier(view: &IncidentView) -> impl Iterator<Item = Earlier> {
    (1..view.attempt()).filter_map(|attempt| earlier_one(view, attempt))
}

/// Returns what an earlier attempt did and what was seen afterwards; nothing if nothing was.
fn earlier_one(view: &IncidentView, attempt: u32) -> Option<Earlier> {
    let events = || view.lines().iter().filter(|l| l.attempt == attempt).map(|l| &l.entry.event);
    let seen = events().find_map(|event| match event {
        Event::Incident(IncidentEvent::Finished {
            report: EffectReport::Verified { proof: Proof::Failed, symptom: Some(symptom) },
            ..
        })
        | Event::Incident(IncidentEvent::Sickened { symptom }) => Some(symptom.key_line.clone()),
        _ => None,
    })?;
    let chosen = events().find_map(|event| match event {
        Event::Incident(IncidentEvent::Judged { remedy, .. }) => Some(remedy.text.clone()),
        _ => None,
    });
    let work = view.work(attempt);
    let said = events().find_map(|event| match event {
        Event::Incident(IncidentEvent::Marked { mark: AgentMark::WroteFiles, message, .. }) => {
            message.clone()
        }
        _ => None,
    });
    let idle = work.is_some_and(|work| work.measured.and_then(|change| change.files) == Some(0));
    let what = if idle {
        if view.subject().kind == SubjectKind::Server {
            Scrubbed::literal("nothing was changed, the server was only restarted")
        } else {
            Scrubbed::literal("nothing was changed, it was only run again")
        }
    } else {
        said.or(chosen)?
    };
    Some(Earlier { attempt, what, seen })
}
