//! One loop with its recoveries, and what its files say.

use std::collections::HashMap;

use jiff::Timestamp;

use super::{GivenAnswer, IncidentView};
use crate::event::{
    Authority, ConfigEvent, Entry, Event, IncidentEvent, LoopEvent, LoopId, RecoveryEvent,
    SubjectKind,
};
use crate::id::IncidentId;
use crate::iteration::{Loop, LoopStateFile, state};
use crate::recovery::{LogLine, RecoveryStatistics, RecoveryUsage, recovery_lines, turn_line};

/// One loop, folded from the journal.
///
/// It may be somebody else's loop that Salve only serves; then there is no machine of it, and all
/// that is known are its recoveries.
#[derive(Clone, Debug, Default)]
pub struct LoopView {
    name: String,
    machine: Option<Loop>,
    recoveries: Vec<IncidentView>,
    places: HashMap<IncidentId, usize>,
    log: Vec<LogLine>,
    clock: Option<Timestamp>,
    last_seq: u64,
}

/// What ran unattended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnattendedRuns {
    /// How many commands.
    pub count: u64,
    /// When the last one was started, except in the incident that is asked for.
    pub last: Option<Timestamp>,
}

impl LoopView {
    /// Begins the view of a loop.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Returns the loop's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the loop's id, if its name is one.
    pub fn id(&self) -> Option<LoopId> {
        self.name.parse().ok()
    }

    /// Returns the loop itself, if it is Salve's own and was started.
    pub fn machine(&self) -> Option<&Loop> {
        self.machine.as_ref()
    }

    /// Returns the number of the last entry that was taken in.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Tells whether an entry opens one of this loop's incidents.
    pub fn is_begun_by(&self, entry: &Entry) -> bool {
        matches!(&entry.event, Event::Incident(IncidentEvent::Opened { subject, .. })
            if subject.kind == SubjectKind::Iteration && subject.name == *self.name)
    }

    /// Takes the next entry of the journal in; those of other loops change nothing.
    pub fn hear(&mut self, entry: &Entry) {
        if entry.seq <= self.last_seq {
            return;
        }
        self.last_seq = entry.seq;
        let lines = match entry.incident {
            Some(id) => self.hear_recovery(id, entry),
            None => self.hear_beside(entry).into_iter().collect(),
        };
        let named = lines.into_iter();
        self.log.extend(named.map(|line| LogLine { loop_id: self.name.clone(), ..line }));
    }

    /// Takes in an entry of an incident.
    fn hear_recovery(&mut self, id: IncidentId, entry: &Entry) -> Vec<LogLine> {
        if let Some(view) = self.places.get(&id).and_then(|&at| self.recoveries.get_mut(at)) {
            self.clock = self.clock.max(Some(entry.at));
            view.hear(entry.clone());
            return recovery_lines(view);
        }
        if self.is_begun_by(entry)
            && let Ok(view) = IncidentView::begin(entry.clone())
        {
            self.clock = self.clock.max(Some(entry.at));
            self.places.insert(id, self.recoveries.len());
            self.recoveries.push(view);
        }
        Vec::new()
    }

    /// Takes in what belongs to no incident, and returns its line if it is of this loop.
    fn hear_beside(&mut self, entry: &Entry) -> Option<LogLine> {
        let line =
            |event| LogLine { event, timestamp: entry.at, seq: entry.seq, ..LogLine::default() };
        match &entry.event {
            Event::Recovery(RecoveryEvent::Refused { name, iteration, reason })
                if *name == *self.name =>
            {
                let (iteration, reason) = (Some(*iteration), Some(reason.clone()));
                Some(LogLine { iteration, reason, ..line("recovery_refused") })
            }
            Event::Loop(LoopEvent::Turned { id, iteration, what }) if id.as_str() == self.name => {
                match &mut self.machine {
                    // What is refused stands in the journal and changes nothing.
                    Some(known) => drop(known.step(entry)),
                    None => self.machine = Loop::replay(id, [entry]).ok(),
                }
                let (timestamp, seq) = (entry.at, entry.seq);
                let iteration = Some(*iteration).filter(|number| *number > 0);
                turn_line(what).map(|line| LogLine { timestamp, seq, iteration, ..line })
            }
            Event::Config(ConfigEvent::Changed { changes, .. }) => {
                Some(LogLine { changes: changes.clone(), ..line("config_reloaded") })
            }
            Event::Config(ConfigEvent::Rejected { reason }) => {
                Some(LogLine { reason: Some(reason.clone()), ..line("config_rejected") })
            }
            Event::Config(ConfigEvent::Pending { changes, .. }) => {
                Some(LogLine { changes: changes.clone(), ..line("config_pending") })
            }
            _ => None,
        }
    }

    /// Returns how the loop stands, as `state.json` says it; nothing of somebody else's loop.
    pub fn state(&self) -> Option<LoopStateFile> {
        let open = self.recoveries.iter().rev().find(|view| view.closed_at().is_none());
        self.machine.as_ref().map(|machine| state(machine, open))
    }

    /// Returns the latest time that any of its recoveries has seen: time goes on from there, even
    /// where a clock was set back since.
    pub fn clock(&self) -> Option<Timestamp> {
        self.clock
    }

    /// Returns what people answered in this iteration and the one before, the oldest first.
    pub fn answers(&self, iteration: u32) -> impl Iterator<Item = &GivenAnswer> {
        let is_fresh = move |view: &&IncidentView| {
            (1..=iteration).contains(&view.iteration()) && view.iteration() + 1 >= iteration
        };
        self.recoveries.iter().filter(is_fresh).flat_map(IncidentView::answers)
    }

    /// Returns the lines of `events.jsonl`, the oldest first.
    pub fn log(&self) -> &[LogLine] {
        &self.log
    }

    /// Returns the recoveries, the oldest first.
    pub fn recoveries(&self) -> &[IncidentView] {
        &self.recoveries
    }

    /// Returns the recovery that an incident is.
    pub fn recovery(&self, id: IncidentId) -> Option<&IncidentView> {
        self.places.get(&id).and_then(|&at| self.recoveries.get(at))
    }

    /// Returns the recovery in which a person was asked last.
    pub fn escalated(&self) -> Option<&IncidentView> {
        let asked = |view: &&IncidentView| view.questions().last().map(|asked| asked.at);
        self.recoveries.iter().filter(|view| asked(view).is_some()).max_by_key(asked)
    }

    /// Returns the recovery that waits for a person, if one does.
    pub fn awaiting(&self) -> Option<&IncidentView> {
        self.recoveries.iter().rev().find(|view| view.open_question().is_some())
    }

    /// Returns what ran unattended after the entry of number `since`.
    ///
    /// A proposal's fallback belongs to the same recovery, so the commands of `within` do not count
    /// for how long ago the last one was; they do count for how many there were.
    pub fn unattended_runs(&self, since: u64, within: Option<IncidentId>) -> UnattendedRuns {
        let mut runs = UnattendedRuns::default();
        for view in &self.recoveries {
            let applied = view.remedies().iter().filter_map(|remedy| remedy.applied.as_ref());
            let unattended = applied.filter(|applied| applied.on == Authority::Gate);
            for applied in unattended.filter(|applied| applied.seq > since) {
                runs.count += 1;
                if Some(view.id()) != within {
                    runs.last = runs.last.max(Some(applied.at));
                }
            }
        }
        runs
    }

    /// Returns the lines of `usage.jsonl`: one for each recovery that is over.
    pub fn usage(&self) -> Vec<RecoveryUsage> {
        self.recoveries.iter().filter_map(|view| RecoveryUsage::of(view, &self.name)).collect()
    }

    /// Returns the loop's figures.
    pub fn stats(&self) -> RecoveryStatistics {
        RecoveryStatistics::of(&self.name, &self.recoveries)
    }
}

#[cfg(test)]
mod tests;
