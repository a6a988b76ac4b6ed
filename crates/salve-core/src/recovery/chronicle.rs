//! All recoveries of one loop, told from the journal.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::answer::RecoveryAnswer;
use super::course::Course;
use super::log::LogLine;
use super::usage::{RecoveryStatistics, RecoveryUsage};
use crate::event::{
    Authority, ConfigEvent, Entry, Event, IncidentEvent, LoopEvent, RecoveryEvent, SubjectKind,
};
use crate::id::IncidentId;

/// All that happened in a loop's recoveries.
///
/// The journal's entries go in, in their order; what a loop's files say comes out.
#[derive(Clone, Debug, Default)]
pub struct Chronicle {
    loop_id: String,
    courses: BTreeMap<IncidentId, Course>,
    order: Vec<IncidentId>,
    lines: Vec<LogLine>,
    clock: Option<Timestamp>,
    last: u64,
}

/// What ran unattended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Autos {
    /// How many commands.
    pub count: u64,
    /// When the last one was started, except in the incident that is asked for.
    pub last: Option<Timestamp>,
}

impl Chronicle {
    /// Begins the chronicle of a loop.
    pub fn new(loop_id: &str) -> Self {
        Self { loop_id: loop_id.to_owned(), ..Self::default() }
    }

    /// Returns the loop.
    pub fn loop_id(&self) -> &str {
        &self.loop_id
    }

    /// Returns the number of the last entry that was taken in.
    pub fn last_seq(&self) -> u64 {
        self.last
    }

    /// Returns whether an entry opens one of this loop's incidents.
    pub fn is_begun_by(&self, entry: &Entry) -> bool {
        matches!(&entry.event, Event::Incident(IncidentEvent::Opened { subject, .. })
            if subject.kind == SubjectKind::Iteration && subject.name == *self.loop_id)
    }

    /// Takes the next entry of the journal in; those of other loops change nothing.
    pub fn take(&mut self, entry: &Entry) {
        if entry.seq <= self.last {
            return;
        }
        self.last = entry.seq;
        let lines = match (entry.incident, &entry.event) {
            (Some(id), Event::Incident(IncidentEvent::Opened { .. })) => {
                if let Some(course) = Course::begin(entry).filter(|_| self.is_begun_by(entry)) {
                    self.clock = self.clock.max(Some(entry.at));
                    self.courses.insert(id, course);
                    self.order.push(id);
                }
                Vec::new()
            }
            (Some(id), _) => match self.courses.get_mut(&id) {
                Some(course) => {
                    self.clock = self.clock.max(Some(entry.at));
                    course.take(entry)
                }
                None => Vec::new(),
            },
            (None, event) => self.beside(event, entry).into_iter().collect(),
        };
        let named = lines.into_iter();
        self.lines.extend(named.map(|line| LogLine { loop_id: self.loop_id.clone(), ..line }));
    }

    /// Returns what belongs to no incident and is of this loop.
    fn beside(&self, event: &Event, entry: &Entry) -> Option<LogLine> {
        let line =
            |event| LogLine { event, timestamp: entry.at, seq: entry.seq, ..LogLine::default() };
        match event {
            Event::Recovery(RecoveryEvent::Refused { name, iteration, reason })
                if *name == *self.loop_id =>
            {
                let (iteration, reason) = (Some(*iteration), Some(reason.clone()));
                Some(LogLine { iteration, reason, ..line("recovery_refused") })
            }
            Event::Loop(LoopEvent::Turned { id, iteration, what })
                if id.as_str() == self.loop_id =>
            {
                let (timestamp, seq) = (entry.at, entry.seq);
                let iteration = Some(*iteration).filter(|number| *number > 0);
                super::turns::line(what).map(|line| LogLine { timestamp, seq, iteration, ..line })
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

    /// Returns the latest time that any of its recoveries has seen: time goes on from there, even
    /// where a clock was set back since.
    pub fn clock(&self) -> Option<Timestamp> {
        self.clock
    }

    /// Returns what people answered in this iteration and the one before, the oldest first.
    pub fn answers(&self, iteration: u32) -> impl Iterator<Item = &RecoveryAnswer> {
        let is_fresh = move |course: &&Course| {
            (1..=iteration).contains(&course.iteration) && course.iteration + 1 >= iteration
        };
        self.courses().filter(is_fresh).flat_map(|course| &course.answers)
    }

    /// Returns the lines of `events.jsonl`, the oldest first.
    pub fn lines(&self) -> &[LogLine] {
        &self.lines
    }

    /// Returns the recoveries, the oldest first.
    pub fn courses(&self) -> impl DoubleEndedIterator<Item = &Course> {
        self.order.iter().filter_map(|id| self.courses.get(id))
    }

    /// Returns the recovery in which a person was asked last.
    pub fn escalated(&self) -> Option<&Course> {
        let asked = self.courses().filter(|course| course.asked.is_some());
        asked.max_by_key(|course| course.asked.as_ref().map(|asked| asked.at))
    }

    /// Returns the recovery that waits for a person, if one does.
    pub fn awaiting(&self) -> Option<&Course> {
        self.courses().rev().find(|course| course.pending().is_some())
    }

    /// Returns what ran unattended after the entry of number `since`.
    ///
    /// A proposal's fallback belongs to the same recovery, so the commands of `within` do not count
    /// for how long ago the last one was; they do count for how many there were.
    pub fn autos(&self, since: u64, within: Option<IncidentId>) -> Autos {
        let mut autos = Autos::default();
        for course in self.courses() {
            let unattended = course.commands.iter().filter(|ran| ran.on == Authority::Gate);
            for ran in unattended.filter(|ran| ran.seq > since) {
                autos.count += 1;
                if Some(course.id()) != within {
                    autos.last = autos.last.max(Some(ran.at));
                }
            }
        }
        autos
    }

    /// Returns the lines of `usage.jsonl`: one for each recovery that is over.
    pub fn usage(&self) -> Vec<RecoveryUsage> {
        self.courses().filter_map(|course| RecoveryUsage::of(course, &self.loop_id)).collect()
    }

    /// Returns the loop's figures.
    pub fn stats(&self) -> RecoveryStatistics {
        RecoveryStatistics::of(&self.loop_id, self.courses())
    }
}

#[cfg(test)]
mod tests;
