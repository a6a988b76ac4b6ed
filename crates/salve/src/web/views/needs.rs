//! What waits for a person: questions, settings to accept, earned approvals, jobs and loops.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use salve_core::event::PersonQuestion;
use salve_core::id::IncidentId;
use salve_core::repair::QuestionDetail;
use serde::Serialize;

use super::{
    AttemptDiff, FleetQuestionCard, IncidentDetails, ProjectReader, ViewError, WaitingSettings,
    WorkCard, WorkStanding,
};
use crate::heal::rule_list::RuleListRow;

/// How long a count of what waits is good though the journal is silent: settings are in files.
const STALE: Duration = Duration::from_secs(2);

/// Everything that waits for a person.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct PersonNeeds {
    /// The incidents that are not over; some of them ask.
    open: Vec<IncidentDetails>,
    /// What was changed in those that ask about a change.
    diffs: BTreeMap<IncidentId, Vec<AttemptDiff>>,
    /// A change of the settings.
    pub(in crate::web) settings: Option<WaitingSettings>,
    /// Approvals that commands have earned.
    pub(in crate::web) rules: Vec<RuleListRow>,
    /// Jobs and loops that wait for something that no incident asks.
    pub(in crate::web) work: Vec<WorkCard>,
    /// What jobs of the fleet ask.
    pub(in crate::web) fleet: Vec<FleetQuestionCard>,
}

impl PersonNeeds {
    /// Returns the incidents that ask, each with its question.
    pub(in crate::web) fn questions(&self) -> impl Iterator<Item = AskingIncident<'_>> {
        self.open.iter().filter_map(|details| {
            let kept = self.diffs.get(&details.story.repair.repair_id);
            let diffs = kept.map_or(&[][..], Vec::as_slice);
            Some(AskingIncident { question: details.question.as_ref()?, details, diffs })
        })
    }

    /// Returns how much waits.
    pub(in crate::web) fn count(&self) -> usize {
        let others = usize::from(self.settings.is_some()) + self.rules.len() + self.work.len();
        self.questions().count() + others + self.fleet.len()
    }
}

/// An incident that asks a person.
#[derive(Clone, Copy, Debug)]
pub(in crate::web) struct AskingIncident<'n> {
    pub(in crate::web) details: &'n IncidentDetails,
    pub(in crate::web) question: &'n QuestionDetail,
    /// What was changed, where the question is about a change.
    pub(in crate::web) diffs: &'n [AttemptDiff],
}

/// Reads what waits for a person.
#[derive(Debug)]
pub(in crate::web) struct NeedsReader<'r> {
    reader: &'r mut ProjectReader,
}

impl<'r> NeedsReader<'r> {
    pub(super) fn new(reader: &'r mut ProjectReader) -> Self {
        Self { reader }
    }

    /// Returns how much waits for a person; one answer serves everybody who asks meanwhile.
    pub(in crate::web) fn count(&mut self) -> Result<usize, ViewError> {
        // Both only grow, so their sum tells of either.
        let last = self.reader.last_seq()?.wrapping_add(self.reader.fleet_changes());
        if self.reader.waiting_at.is_none_or(|(seq, at)| seq != last || at.elapsed() >= STALE) {
            self.reader.waiting = self.without_diffs()?.count();
            self.reader.waiting_at = Some((last, Instant::now()));
        }
        Ok(self.reader.waiting)
    }

    /// Returns everything that waits for a person.
    pub(in crate::web) fn all(&mut self) -> Result<PersonNeeds, ViewError> {
        let mut needs = self.without_diffs()?;
        for details in &needs.open {
            // What runs before it is allowed has changed nothing yet.
            let is_about_change = details
                .question
                .as_ref()
                .is_some_and(|question| question.ask.question != PersonQuestion::Remedy);
            if is_about_change {
                let id = details.story.repair.repair_id;
                // Snapshots that cannot be read cost the diff, not the question.
                needs.diffs.insert(id, self.reader.incident_files().diffs(id).unwrap_or_default());
            }
        }
        Ok(needs)
    }

    fn without_diffs(&mut self) -> Result<PersonNeeds, ViewError> {
        let open = self.reader.incidents().open()?;
        let (settings, rules) =
            (self.reader.settings().waiting()?, self.reader.settings().proposed_rules()?);
        let mut work = self.reader.work().cards()?;
        work.retain(|card| card.standing == WorkStanding::Waits);
        let fleet = self.reader.fleet().map(|fleet| fleet.questions.clone()).unwrap_or_default();
        Ok(PersonNeeds { open, diffs: BTreeMap::new(), settings, rules, work, fleet })
    }
}
