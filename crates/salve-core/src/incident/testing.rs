//! A small stage on which tests play incidents.

pub(crate) use super::sim::parts::{
    agent, id, judgement, person, policy, process, remedy, subject, symptom, time,
};
use super::{DueEffect, Ignored, Incident, IncidentMove};
use crate::event::{
    Actor, Draft, EffectReport, Entry, Event, IncidentEvent, IncidentPolicy, RemedyKind,
    RemedyVerdict, Repeat, Subject, SubjectKind, Symptom,
};

/// One incident, its journal, and a clock.
#[derive(Clone)]
pub(crate) struct TestIncident {
    pub(crate) incident: Incident,
    pub(crate) journal: Vec<Entry>,
    pub(crate) now: u64,
    pub(crate) me: u32,
}

impl TestIncident {
    /// Opens an incident of a server and claims it as process 1.
    pub(crate) fn new(policy: IncidentPolicy) -> Self {
        Self::with(policy, symptom(1, "tree"), Repeat::Safe)
    }

    pub(crate) fn with(policy: IncidentPolicy, symptom: Symptom, repeat: Repeat) -> Self {
        let mut story = Self::opened(policy, symptom, repeat);
        story.salve(Event::Incident(IncidentEvent::Claimed { instead_of: None })).unwrap();
        story
    }

    /// Opens an incident of a server that nobody claims.
    pub(crate) fn unclaimed(policy: IncidentPolicy) -> Self {
        Self::opened(policy, symptom(1, "tree"), Repeat::Safe)
    }

    /// Opens an incident of a check and claims it.
    pub(crate) fn of_check(policy: IncidentPolicy) -> Self {
        let subject = subject(SubjectKind::Check, Repeat::Safe);
        let mut story = Self::opened_of(policy, symptom(1, "tree"), subject);
        story.salve(Event::Incident(IncidentEvent::Claimed { instead_of: None })).unwrap();
        story
    }

    fn opened(policy: IncidentPolicy, symptom: Symptom, repeat: Repeat) -> Self {
        Self::opened_of(policy, symptom, subject(SubjectKind::Server, repeat))
    }

    fn opened_of(policy: IncidentPolicy, symptom: Symptom, subject: Subject) -> Self {
        let opened = Event::Incident(IncidentEvent::Opened {
            subject,
            policy: Box::new(policy),
            symptom: Box::new(symptom),
        });
        let by = Actor::Salve(process(1));
        let entry = Draft { at: time(0), by, incident: Some(id()), event: opened }.at_seq(1);
        let incident = Incident::replay([&entry]).unwrap();
        Self { incident, journal: vec![entry], now: 0, me: 1 }
    }

    /// Appends an entry and takes it in.
    pub(crate) fn by(&mut self, by: Actor, event: Event) -> Result<Option<DueEffect>, Ignored> {
        let seq = self.journal.len() as u64 + 1;
        let entry = Draft { at: time(self.now), by, incident: Some(id()), event }.at_seq(seq);
        let taken = self.incident.step(&entry);
        self.journal.push(entry);
        taken
    }

    pub(crate) fn salve(&mut self, event: Event) -> Result<Option<DueEffect>, Ignored> {
        self.by(Actor::Salve(process(self.me)), event)
    }

    pub(crate) fn judge(&mut self, kind: RemedyKind, name: &'static str, verdict: RemedyVerdict) {
        let event = Event::Incident(IncidentEvent::Judged {
            remedy: Box::new(remedy(kind, name)),
            judgement: judgement(verdict),
        });
        self.salve(event).unwrap();
    }

    pub(crate) fn next(&self) -> IncidentMove {
        self.incident.next(&process(self.me), time(self.now))
    }

    /// Lets time pass and entries be written until an effect runs or nothing happens by itself.
    pub(crate) fn run(&mut self) -> Option<DueEffect> {
        loop {
            match self.next() {
                IncidentMove::Write(event) => {
                    if let Some(run) = self.salve(event).unwrap() {
                        return Some(run);
                    }
                }
                IncidentMove::Wait { until: Some(until), .. } => {
                    self.now = u64::try_from(until.as_millisecond()).unwrap();
                }
                IncidentMove::Wait { until: None, .. }
                | IncidentMove::Choose
                | IncidentMove::NotMine
                | IncidentMove::Over => {
                    return None;
                }
            }
        }
    }

    /// Runs the next effect and lets it report.
    #[track_caller]
    pub(crate) fn finish(&mut self, what: crate::event::Effect, report: EffectReport) {
        let run = self.run().expect("an effect runs");
        assert_eq!(run.what, what);
        self.salve(Event::Incident(IncidentEvent::Finished { effect: run.effect, report }))
            .unwrap();
    }

    /// Runs the remedy and lets it report.
    #[track_caller]
    pub(crate) fn finish_apply(&mut self, report: EffectReport) {
        let run = self.run().expect("an effect runs");
        assert!(matches!(run.what, crate::event::Effect::Apply { .. }), "{run:?}");
        self.salve(Event::Incident(IncidentEvent::Finished { effect: run.effect, report }))
            .unwrap();
    }

    /// Writes what is to be written now, without letting time pass.
    pub(crate) fn run_until_waiting(&mut self) {
        while let IncidentMove::Write(event) = self.next() {
            self.salve(event).unwrap();
        }
    }
}
