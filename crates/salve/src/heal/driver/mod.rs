//! Takes the subjects of one kind through their incidents.
//!
//! One thread, one inbox. For each subject the driver asks its incident what is next, writes that
//! to the journal, and only then runs the effect that follows: snapshot, remedy, measurement,
//! undoing and recording are its own doing, showing whether it helped is the subject's. What takes
//! time answers by the inbox. What is decided comes from core.
//!
//! `Driver` is the loop around the inbox; the incidents themselves are worked on in `table`.
//!
//! **Invariant:** an effect runs only once its entry is in the journal, and once at most, wherever
//! a process was killed; held by `a_driver_goes_on_wherever_it_was_killed`.

mod agents;
mod aside;
mod breakers;
mod brief;
mod busy;
mod case;
mod context;
mod diagnosis;
mod due_effect;
mod effects;
mod lessons;
mod offers;
mod resume;
mod table;
mod team;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use salve_core::event::{Actor, Entry, Event, IncidentEvent, PersonOrder};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Phase};

pub use case::Case;

use self::aside::NextTurn;
use self::table::IncidentTable;
use super::cause::is_remedy;
use super::inbox::InboxMessage;
use super::reporter::Remark;
use super::run_base::RunBase;
use super::spawn_thread;
use super::subject::Subjects;
use crate::store::StoreError;

/// How long what is under way may take when everything ends.
const LAST_EFFECTS: Duration = Duration::from_secs(15);

/// How often it is looked for remedies that still run when everything ends.
const REMEDY_LOOK: Duration = Duration::from_millis(100);

/// How long a remedy's command may take to end when it is told to.
const REMEDY_GRACE: Duration = Duration::from_secs(2);

/// How a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// There is nothing left to care for.
    Over,
    /// The user wanted it, by this signal.
    Stopped(i32),
}

/// How the user ends it all.
#[derive(Clone, Copy, Debug)]
struct Stopping {
    signal: i32,
    /// Until when what is under way may take.
    deadline: Instant,
}

/// Drives the incidents of one kind of subjects.
struct Driver<'d, 'a> {
    table: IncidentTable<'d, 'a>,
    stopping: Option<Stopping>,
}

impl RunBase<'_> {
    /// Cares for subjects until there is nothing left to care for, or the user wants it to end.
    pub fn care_for(&mut self, subjects: &mut dyn Subjects) -> Result<RunEnd, StoreError> {
        Driver { table: IncidentTable::new(self, subjects), stopping: None }.run()
    }
}

impl Driver<'_, '_> {
    fn run(&mut self) -> Result<RunEnd, StoreError> {
        for at in 0..self.table.cases.len() {
            self.table.resume(at)?;
        }
        let end = self.live();
        let left = self.leave();
        let end = end?;
        left?;
        Ok(end)
    }

    fn live(&mut self) -> Result<RunEnd, StoreError> {
        loop {
            let until = self.tend()?;
            if let Some(end) = self.is_over() {
                return Ok(end);
            }
            if let Some(message) = self.table.base.inbox.wait(until) {
                self.take(message)?;
            }
            self.table.settle()?;
        }
    }

    /// Does what is due for every subject, and returns when to look again.
    fn tend(&mut self) -> Result<Option<Instant>, StoreError> {
        loop {
            let mut due: Vec<Instant> = self.stopping.iter().map(|end| end.deadline).collect();
            // After it, only a subject that tidies up is waited for, and that tells when it has ended.
            due.retain(|deadline| *deadline > Instant::now());
            for at in 0..self.table.cases.len() {
                if !self.table.is_ending {
                    loop {
                        due.extend(self.table.advance(at)?);
                        match self.table.give_turn(at)? {
                            NextTurn::Taken => {}
                            NextTurn::Later(until) => {
                                due.extend(until);
                                break;
                            }
                        }
                    }
                    due.extend(self.table.tend_agent(at)?);
                }
            }
            let (subjects, mut context) = self.table.split();
            due.extend(subjects.tend(&mut context)?);
            if !self.table.settle()? {
                return Ok(due.into_iter().min());
            }
        }
    }

    /// Takes in what arrived.
    fn take(&mut self, message: InboxMessage) -> Result<(), StoreError> {
        match message {
            InboxMessage::Done { incident, effect, report, left } => {
                match self.place_of(incident) {
                    Some(at) => self.table.due(at, effect).done(report, left),
                    None => Ok(()),
                }
            }
            InboxMessage::Agent { incident, effect, event } => {
                let working = |case: &Case| case.work.agents.works_for(incident);
                let Some(at) = self.table.cases.iter().position(working) else { return Ok(()) };
                let is_ending = self.table.is_ending;
                self.table.agent_runner(at).told(effect, event, is_ending)
            }
            InboxMessage::Diagnosed { incident, look, diagnosis } => {
                if let Some(at) = self.place_of(incident)
                    && diagnosis::take_in(&mut self.table.cases[at], look, diagnosis)
                {
                    self.table.keep_evidence(at);
                }
                Ok(())
            }
            InboxMessage::Woken => {
                let (subjects, mut context) = self.table.split();
                subjects.hear(&mut context)
            }
            InboxMessage::Journal(entries) => self.heard(&entries),
            InboxMessage::Note { subject, text } => {
                if let Some(case) = self.table.cases.get(subject) {
                    self.table.base.note(case.name(), &text);
                }
                Ok(())
            }
            InboxMessage::Pause(person) => self.pause(&person),
            InboxMessage::Stop(signal) => {
                self.stop(signal);
                Ok(())
            }
        }
    }

    /// Takes in what others wrote to the journal.
    fn heard(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        let (subjects, mut context) = self.table.split();
        subjects.heard(entries, &mut context)?;
        for (at, case) in self.table.cases.iter_mut().enumerate() {
            let is_news = |entry: &Entry| {
                case.incidents().any(|incident| {
                    entry.incident == Some(incident.id()) && entry.seq > incident.last_seq()
                })
            };
            if entries.iter().any(is_news) {
                case.catch_up(self.table.base)?;
            }
            if case.incident().is_some_and(Incident::is_called_off) {
                self.table.subjects.called_off(at);
            }
        }
        Ok(())
    }

    /// Pauses healing, or lets it go on.
    fn pause(&mut self, person: &Actor) -> Result<(), StoreError> {
        let (order, text) = match self.table.paused.take() {
            Some(_) => (PersonOrder::Resume, "healing goes on"),
            None => {
                self.table.paused = Some(person.clone());
                (PersonOrder::Pause, "healing is paused: what fails is left as it is")
            }
        };
        for at in 0..self.table.cases.len() {
            let ordered = Event::Incident(IncidentEvent::Ordered { order });
            self.table.cases[at].write_aside(self.table.base, person, &ordered, |_| true)?;
            self.table.say_as(at, person, vec![ordered])?;
        }
        if let Some(case) = self.table.cases.first() {
            self.table.base.note(case.name(), text);
        }
        Ok(())
    }

    /// Ends everything, because the user wants it.
    fn stop(&mut self, signal: i32) {
        let deadline = Instant::now() + LAST_EFFECTS;
        self.stopping = Some(Stopping { signal, deadline });
        self.table.is_ending = true;
        if self.table.cases.iter().any(|case| case.work.busy.is_some()) {
            let care = self.table.base.care.clone();
            // A remedy whose command ends puts back what it had moved away.
            spawn_thread("remedies", move || {
                // One that was just being started is known a little later.
                while Instant::now() < deadline {
                    care.wind_up(is_remedy, REMEDY_GRACE);
                    std::thread::sleep(REMEDY_LOOK);
                }
            });
        }
        for case in &mut self.table.cases {
            case.work.agents.stop();
        }
        let (subjects, mut context) = self.table.split();
        subjects.stop(signal, &mut context);
    }

    /// Returns how it ended, if it has and nothing of it is left.
    fn is_over(&mut self) -> Option<RunEnd> {
        let has_agent = self.table.cases.iter().any(|case| case.work.agents.running().is_some());
        if has_agent || !self.table.subjects.is_idle() {
            return None;
        }
        if let Some(Stopping { signal, deadline }) = self.stopping {
            // What a remedy moved away is given back first.
            let is_busy = self.table.cases.iter().any(|case| case.work.busy.is_some());
            let is_late = Instant::now() >= deadline;
            return (!is_busy || is_late).then_some(RunEnd::Stopped(signal));
        }
        let is_over = self.table.subjects.is_over(&self.table.cases, self.table.base);
        is_over.then(|| {
            self.leave_to_person();
            RunEnd::Over
        })
    }

    /// Returns whose incident it is.
    fn place_of(&self, incident: IncidentId) -> Option<usize> {
        self.table
            .cases
            .iter()
            .position(|case| case.incident().is_some_and(|one| one.id() == incident))
    }

    /// Says of every incident that cools down that a person has to act: this run ends, so nobody
    /// is there any more to say so when the time is over.
    fn leave_to_person(&mut self) {
        for case in &self.table.cases {
            let Some(incident) = case.incident() else { continue };
            if matches!(incident.phase(), Phase::CoolingDown { .. }) {
                let remark = Remark::LeftToPerson { incident: incident.id() };
                self.table.base.reporter.remark(case.name(), &remark);
            }
        }
    }

    /// Lets go of what is held, so that others may go on.
    fn leave(&mut self) -> Result<(), StoreError> {
        for at in 0..self.table.cases.len() {
            let by = self.table.base.writer.salve();
            let released = Event::Incident(IncidentEvent::Released {});
            self.table.cases[at].write_aside(self.table.base, &by, &released, |_| true)?;
            let owner = self.table.cases[at].incident().and_then(Incident::owner);
            if owner == Some(&self.table.base.writer.me) {
                self.table.cases[at].write(self.table.base, &by, vec![released])?;
            }
        }
        Ok(())
    }
}
