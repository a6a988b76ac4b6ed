//! What a checkup tells: the journal, and those who watch.

use salve_core::event::{Actor, Event, IncidentEvent, Report};
use salve_core::incident::{Incident, Run as Effecting};

use super::Remark;
use super::checkup::Checkup;
use crate::heal::Wrote;
use crate::store::StoreError;

impl Checkup<'_, '_> {
    /// Writes to the incident and runs the effect that follows; does nothing if others were faster.
    pub(super) fn say(&mut self, events: Vec<Event>) -> Result<(), StoreError> {
        let by = self.clinic.desk.salve();
        self.say_as(&by, events).map(drop)
    }

    pub(super) fn say_as(&mut self, by: &Actor, events: Vec<Event>) -> Result<Wrote, StoreError> {
        let Some(incident) = &mut self.incident else { return Ok(Wrote::Done(None)) };
        let (face, name) = (&mut *self.clinic.face, &self.plan.name);
        let mut show = |incident: &Incident, entry: &_| face.entry(name, incident, entry);
        let wrote = self.clinic.desk.write(incident, by, events, &mut show)?;
        if let Wrote::Done(Some(run)) = wrote {
            self.run(run)?;
        }
        Ok(wrote)
    }

    /// Tells what an effect reports, however often others write meanwhile.
    pub(super) fn finish(&mut self, effect: Effecting, report: Report) -> Result<(), StoreError> {
        self.case.effect = None;
        if let Report::Failed { .. } | Report::TimedOut = report {
            self.in_vain();
        }
        let by = self.clinic.desk.salve();
        loop {
            let event = Event::Incident(IncidentEvent::Finished {
                effect: effect.effect,
                report: report.clone(),
            });
            match self.say_as(&by, vec![event])? {
                Wrote::Done(_) => return self.keep_records(),
                Wrote::Overtaken => {}
            }
        }
    }

    pub(super) fn remark(&mut self, remark: &Remark) {
        self.clinic.face.remark(&self.plan.name, remark);
    }

    pub(super) fn note(&mut self, text: &str) {
        let text = self.clinic.desk.scrubber.scrub(text);
        self.remark(&Remark::Note(text));
    }
}
