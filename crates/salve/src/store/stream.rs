//! The streams of a journal: which entries belong together.
//!
//! A journal is one order of entries; a stream is the part of it that one reader needs. An entry
//! stands in every stream that it is about: a proposal for an incident is the incident's and the
//! team's. Streams are told by what is stored (the incident's id, the kind, the loop's name in the
//! data), so that an engine can find them by an index and a newer Salve's kinds are not lost.

use salve_core::event::{Encoded, Entry, LoopId};
use salve_core::id::IncidentId;
use salve_core::overview::IncidentIndex;
use serde_json::Value;

/// A part of the journal that belongs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Everything: for those who listen to all that happens, and for people who read on.
    Project,
    /// The life of one incident, with all that was said about it.
    Incident(IncidentId),
    /// The openings of all incidents, one entry each.
    Incidents,
    /// What a list of all incidents shows of each: opening, cost, questions, ending.
    IncidentCourses,
    /// The life of one loop: what happened to it and beside it, its incidents apart.
    Loop(LoopId),
    /// Which loops of others Salve serves, or served.
    LoopServices,
    /// The lives of all jobs.
    Jobs,
    /// The settings: what changed, waits, was accepted and is held.
    Settings,
    /// What the team reports, wants and proposes.
    Team,
    /// The servers' processes and what people want of them.
    Servers,
    /// What pages of servers report from the browser.
    PageFailures,
    /// The sessions of agents that listen for repairs.
    Sessions,
    /// What people order the whole project, and no single incident.
    Orders,
    /// What the gate judged and what people approved, in all incidents.
    Approvals,
    /// What people approved, in all incidents: few entries, however many the gate judged.
    ApprovedRemedies,
    /// The rules that people made of what they approved, and which failures changed their names.
    EarnedRules,
    /// Who was told what.
    Notices,
    /// The tool calls that failed.
    ToolFailures,
}

/// How the entries of a stream are recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector<'s> {
    /// Only entries of these kinds; none means any.
    pub(super) kinds: &'static [&'static str],
    /// Which of them.
    pub(super) which: KindSelector<'s>,
}

/// Which entries of the kinds are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KindSelector<'s> {
    /// All of them.
    All,
    /// Those of one incident.
    OfIncident(IncidentId),
    /// Those of no incident.
    OfNoIncident,
    /// Those whose data names this loop, as `id` or as `name`.
    OfLoop(&'s LoopId),
}

/// The kinds whose data names a loop.
pub(super) const LOOP_KINDS: &[&str] =
    &["loop", "loop_attached", "loop_detached", "manifests_seen", "recovery_refused"];

impl Stream {
    /// Returns how the stream's entries are recognised.
    pub(super) fn selector(&self) -> Selector<'_> {
        let all = |kinds| Selector { kinds, which: KindSelector::All };
        match self {
            Stream::Project => all(&[]),
            Stream::Incident(id) => Selector { kinds: &[], which: KindSelector::OfIncident(*id) },
            Stream::Incidents => all(&["opened"]),
            Stream::IncidentCourses => all(&IncidentIndex::KINDS),
            Stream::Loop(id) => Selector { kinds: LOOP_KINDS, which: KindSelector::OfLoop(id) },
            Stream::LoopServices => all(&["loop_attached", "loop_detached"]),
            Stream::Jobs => all(&["job"]),
            Stream::Settings => all(&[
                "config_changed",
                "config_rejected",
                "config_pending",
                "config_accepted",
                "config_guarded",
                "config_released",
            ]),
            Stream::Team => all(&["issue_reported", "issue_settled", "fix_wanted", "fix_proposed"]),
            Stream::Servers => {
                all(&["server_started", "server_up", "server_stopped", "server_ordered"])
            }
            Stream::PageFailures => all(&["page_failed"]),
            Stream::Sessions => all(&["agent_attached", "agent_detached"]),
            Stream::Orders => Selector { kinds: &["ordered"], which: KindSelector::OfNoIncident },
            Stream::Approvals => all(&["judged", "approved"]),
            Stream::ApprovedRemedies => all(&["approved"]),
            Stream::EarnedRules => all(&["rule_accepted", "rule_withdrawn", "rekeyed"]),
            Stream::Notices => all(&["notified"]),
            Stream::ToolFailures => all(&["tool_failed"]),
        }
    }

    /// Tells whether so many entries stand in it that all are best read in their order.
    pub(super) fn is_common(&self) -> bool {
        *self == Stream::IncidentCourses
    }

    /// Returns whether an entry stands in this stream.
    pub fn holds(&self, entry: &Entry) -> bool {
        self.selector().selects(entry.incident, &entry.event.encode())
    }
}

impl Selector<'_> {
    fn selects(&self, incident: Option<IncidentId>, event: &Encoded) -> bool {
        let is_kind = self.kinds.is_empty() || self.kinds.contains(&event.kind.as_str());
        is_kind
            && match &self.which {
                KindSelector::All => true,
                KindSelector::OfIncident(id) => incident == Some(*id),
                KindSelector::OfNoIncident => incident.is_none(),
                KindSelector::OfLoop(id) => loop_named(event) == Some(id.as_str()),
            }
    }
}

/// Returns the name of the loop that an event's data gives.
pub(super) fn loop_named(event: &Encoded) -> Option<&str> {
    let text = |key| event.data.get(key).and_then(Value::as_str);
    text("id").or_else(|| text("name"))
}

#[cfg(test)]
mod tests {
    use salve_core::event::Event;

    use super::*;

    /// Kinds that only an incident's own stream has, and remarks that people read on.
    const ELSEWHERE: &[&str] = &[
        "claimed",
        "released",
        "sickened",
        "diagnosed",
        "nothing_left",
        "requested",
        "progressed",
        "finished",
        "marked",
        "agent_launched",
        "files_changed",
        "environment_set",
        "layer_laid",
        "charged",
        "refilled",
        "exhausted",
        "cooled_down",
        "tried_again",
        "came_back",
        "tripped",
        "rejected",
        "resolved",
        "superseded",
        "ended",
        "proof_explained",
        "seen_green",
        "counters_restored",
        "recovery_sought",
        "recovery_proposed",
        "learned",
        "forgotten",
        "store_salvaged",
        "noted",
    ];

    #[test]
    fn every_kind_stands_in_a_stream_that_somebody_reads() {
        let loops = "a".parse().unwrap();
        let streams = [
            Stream::Incidents,
            Stream::Loop(loops),
            Stream::LoopServices,
            Stream::Jobs,
            Stream::Settings,
            Stream::Team,
            Stream::Servers,
            Stream::PageFailures,
            Stream::Sessions,
            Stream::Orders,
            Stream::Approvals,
            Stream::EarnedRules,
            Stream::Notices,
            Stream::ToolFailures,
        ];
        let named: Vec<&str> =
            streams.iter().flat_map(|stream| stream.selector().kinds.iter().copied()).collect();
        for kind in named.iter().chain(ELSEWHERE) {
            assert!(Event::KINDS.contains(kind), "`{kind}` is no kind");
        }
        for kind in Event::KINDS {
            let places = usize::from(named.contains(kind)) + usize::from(ELSEWHERE.contains(kind));
            assert_eq!(places, 1, "who reads `{kind}`?");
        }
    }
}
