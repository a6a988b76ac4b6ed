//! One incident, told from its entries.

use std::borrow::Cow;

use jiff::Timestamp;

use super::Notice;
use super::notice::notices;
use crate::event::{
    Actor, AgentMark, Change, Effect, EffectReport, Entry, Event, IncidentEvent, Mode, Resource,
    Subject,
};
use crate::id::IncidentId;
use crate::incident::{Ignored, Incident, NotOpened, RepairPhase};
use crate::scrub::Scrubbed;

/// One incident with all its entries and what each of them brought about.
#[derive(Clone, Debug)]
pub struct Tale<'e> {
    incident: Incident,
    lines: Vec<Line<'e>>,
    works: Vec<Work>,
}

/// One entry and what came of it.
#[derive(Clone, Debug)]
pub struct Line<'e> {
    /// The entry.
    pub entry: Cow<'e, Entry>,
    /// The attempt it belongs to, from 1.
    pub attempt: u32,
    /// The spec's phases it brought about, in their order.
    pub notices: Vec<Notice>,
    /// Why it changed nothing, if it did not.
    pub ignored: Option<Ignored>,
}

/// An agent's part in one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The agent's name, if one took part.
    pub agent: Option<Scrubbed>,
    /// How far it said it is.
    pub mark: Option<AgentMark>,
    /// When it said so.
    pub at: Option<Timestamp>,
    /// What it said it changed.
    pub reported: Change,
    /// What was found changed.
    pub measured: Option<Change>,
    /// Whether waiting for it ended without its having finished.
    pub overdue: bool,
}

impl Work {
    /// Tells whether files were found changed.
    pub fn changed(&self) -> bool {
        self.measured.is_some_and(|change| change.files != Some(0))
    }
}

impl<'e> Tale<'e> {
    /// Tells the incident whose entries these are.
    ///
    /// # Errors
    ///
    /// When they do not begin with its opening.
    pub fn of(entries: &'e [Entry]) -> Result<Self, NotOpened> {
        let (first, rest) = entries.split_first().ok_or(NotOpened::NoOpening)?;
        let mut tale = Self::begin(Cow::Borrowed(first))?;
        for entry in rest {
            tale.hear(Cow::Borrowed(entry));
        }
        Ok(tale)
    }

    /// Begins to tell the incident that an entry opens.
    ///
    /// # Errors
    ///
    /// When it opens none.
    pub fn begin(first: Cow<'e, Entry>) -> Result<Self, NotOpened> {
        let incident = Incident::replay([&*first])?;
        let mut tale = Self { incident, lines: Vec::new(), works: Vec::new() };
        tale.add(first, 1, None);
        Ok(tale)
    }

    /// Goes on with the next entry.
    pub fn hear(&mut self, entry: Cow<'e, Entry>) {
        // What an entry brings about belongs to the attempt that was under way before it.
        let attempt = self.incident.attempt();
        let ignored = self.incident.step(&entry).err();
        self.add(entry, attempt, ignored);
    }

    fn add(&mut self, entry: Cow<'e, Entry>, attempt: u32, ignored: Option<Ignored>) {
        let attempt = attempt.clamp(1, self.max_attempts().max(1));
        let notices = match ignored {
            Some(_) => Vec::new(),
            None => {
                self.learn(&entry, attempt);
                notices(self, &entry.event, attempt)
            }
        };
        self.lines.push(Line { entry, attempt, notices, ignored });
    }

    /// Takes in what an entry says about an agent's part.
    fn learn(&mut self, entry: &Entry, attempt: u32) {
        match &entry.event {
            Event::Incident(IncidentEvent::Marked { attempt, mark, reported, .. }) => {
                let work = self.work_mut(*attempt);
                if let Actor::Agent { name } = &entry.by {
                    work.agent = Some(name.clone());
                }
                work.mark = Some(*mark);
                work.at = Some(entry.at);
                work.reported = Change {
                    files: work.reported.files.max(reported.files),
                    lines: work.reported.lines.max(reported.lines),
                };
            }
            Event::Incident(IncidentEvent::AgentLaunched { agent, .. }) => {
                self.work_mut(attempt).agent = Some(agent.clone());
            }
            Event::Incident(IncidentEvent::Finished { report: EffectReport::NoAgent, .. }) => {
                self.work_mut(attempt).overdue = true;
            }
            Event::Incident(IncidentEvent::Finished {
                report: EffectReport::Measured(change),
                ..
            }) => {
                self.work_mut(attempt).measured = Some(*change);
            }
            _ => {}
        }
    }

    fn work_mut(&mut self, attempt: u32) -> &mut Work {
        let at = match self.works.iter().position(|work| work.attempt == attempt) {
            Some(at) => at,
            None => {
                self.works.push(Work { attempt, ..Work::default() });
                self.works.len() - 1
            }
        };
        &mut self.works[at]
    }

    /// Returns the incident as it stands.
    pub fn incident(&self) -> &Incident {
        &self.incident
    }

    /// Returns the incident's id.
    pub fn id(&self) -> IncidentId {
        self.incident.id()
    }

    /// Returns what is under care.
    pub fn subject(&self) -> &Subject {
        self.incident.subject()
    }

    /// Returns who repairs.
    pub fn mode(&self) -> Mode {
        self.incident.policy().mode
    }

    /// Returns the entries with what each brought about, in their order.
    pub fn lines(&self) -> &[Line<'e>] {
        &self.lines
    }

    /// Returns an agent's part in an attempt, if there was any.
    pub fn work(&self, attempt: u32) -> Option<&Work> {
        self.works.iter().find(|work| work.attempt == attempt)
    }

    /// Returns an agent's part in each attempt that had one.
    pub fn works(&self) -> &[Work] {
        &self.works
    }

    /// Returns when the incident opened.
    pub fn opened_at(&self) -> Timestamp {
        self.lines.first().map_or(self.incident.clock(), |line| line.entry.at)
    }

    /// Tells whether the subject ended of its own accord, as it should, when it was last verified.
    pub fn ended_by_itself(&self) -> bool {
        let mut events = self.lines.iter().rev().map(|line| &line.entry.event);
        let Some(verify) = events.find_map(|event| match event {
            Event::Incident(IncidentEvent::Requested { effect, what: Effect::Verify }) => {
                Some(*effect)
            }
            _ => None,
        }) else {
            return false;
        };
        let ended =
            Event::Incident(IncidentEvent::Finished { effect: verify, report: EffectReport::Done });
        self.lines.iter().rev().any(|line| line.entry.event == ended)
    }

    /// Returns the number of the present attempt, never more than there may be.
    pub fn attempt(&self) -> u32 {
        self.incident.attempt().clamp(1, self.max_attempts().max(1))
    }

    /// Returns how many attempts there may be, refills included.
    pub fn max_attempts(&self) -> u32 {
        let ledger = self.incident.ledger();
        let spent = ledger.spent().attempts;
        let all = spent.saturating_add(ledger.left(Resource::Attempts).unwrap_or(0));
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// Returns every phase so far with the entry that brought it about.
    pub fn notices(&self) -> impl DoubleEndedIterator<Item = (&Line<'e>, &Notice)> {
        self.lines.iter().flat_map(|line| line.notices.iter().map(move |notice| (line, notice)))
    }

    /// Returns the last phase.
    pub fn phase(&self) -> RepairPhase {
        // Opening an incident is a phase itself, so there is always one.
        self.notices().next_back().map_or(RepairPhase::CrashDetected, |(_, notice)| notice.phase)
    }
}
