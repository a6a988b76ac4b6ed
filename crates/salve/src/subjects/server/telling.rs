//! What is written to a server's incident.

use salve_core::event::{Actor, Event, IncidentEvent, Report};
use salve_core::incident::{Incident, Run as Effecting};

use super::fleet::Fleet;
use super::playbook::Insight;
use crate::heal::Wrote;
use crate::store::StoreError;

impl Fleet<'_> {
    /// Writes to the incident and runs the effect that follows; does nothing if others were faster.
    pub(super) fn say(&mut self, at: usize, events: Vec<Event>) -> Result<(), StoreError> {
        let by = self.desk.salve();
        self.say_as(at, &by, events)
    }

    /// Writes what somebody said about the incident.
    pub(super) fn say_as(
        &mut self,
        at: usize,
        by: &Actor,
        events: Vec<Event>,
    ) -> Result<(), StoreError> {
        self.put(at, by, events).map(drop)
    }

    /// Tells what an effect reports, however often others write meanwhile.
    pub(super) fn finish(
        &mut self,
        at: usize,
        effect: Effecting,
        report: Report,
    ) -> Result<(), StoreError> {
        self.servers[at].case.running = None;
        if let Report::Failed { .. } | Report::TimedOut = report {
            self.in_vain(at);
        }
        self.insist(
            at,
            &[Event::Incident(IncidentEvent::Finished { effect: effect.effect, report })],
        )
    }

    /// Writes what happened, however often others write meanwhile.
    ///
    /// The remedy that follows is written along with it where it can be chosen at once: every
    /// write is a wait, and a server that crashed is down for as long.
    pub(super) fn insist(&mut self, at: usize, events: &[Event]) -> Result<(), StoreError> {
        let by = self.desk.salve();
        loop {
            let mut all = events.to_vec();
            all.extend(self.foresee(at, events)?);
            match self.put(at, &by, all)? {
                Wrote::Done(_) => return Ok(()),
                Wrote::Overtaken => {}
            }
        }
    }

    /// Returns the choice that comes after `events`, if one does and it needs no look at the cause.
    fn foresee(&mut self, at: usize, events: &[Event]) -> Result<Option<Event>, StoreError> {
        let Some(incident) = &self.servers[at].incident else { return Ok(None) };
        if self.stopping.is_some() {
            return Ok(None);
        }
        let Some(ahead) = self.desk.will_choose(incident, events) else { return Ok(None) };
        self.insight(at);
        if !matches!(self.servers[at].case.insight, Insight::Told(_)) {
            return Ok(None);
        }
        let event = self.choose(at, &ahead)?;
        Ok(Some(event).filter(|event| !self.has_to_queue(at, event)))
    }

    /// Writes to the incident, unless others were faster, and runs the effect that follows.
    fn put(&mut self, at: usize, by: &Actor, events: Vec<Event>) -> Result<Wrote, StoreError> {
        let server = &mut self.servers[at];
        let Some(incident) = &mut server.incident else { return Ok(Wrote::Done(None)) };
        let (face, name) = (&mut self.face, &server.plan.name);
        let mut show = |incident: &Incident, entry: &_| face.entry(name, incident, entry);
        let wrote = self.desk.write(incident, by, events, &mut show)?;
        if let Wrote::Done(Some(run)) = wrote {
            self.run(at, run)?;
        }
        Ok(wrote)
    }
}
