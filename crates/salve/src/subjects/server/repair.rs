//! One server's incident, from the failure to the outcome.

use std::time::Duration;

use jiff::Timestamp;
use salve_core::event::{
    Event, Exit, IncidentEvent, Mode, Order, Outcome, Proof, RemedyKind, Report, ServerEvent,
    Stage, Symptom,
};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Move, Phase, Run as Effecting, Trial};
use salve_core::scrub::Scrubbed;
use uuid::Uuid;

use super::fleet::Fleet;
use super::life;
use super::{Case, Failing, Remark, Seen, State, lock};
use crate::heal::cause::Evidence;
use crate::heal::{DeskError, Opening};
use crate::store::StoreError;

impl Fleet<'_> {
    /// Takes in that a server failed.
    pub(super) fn sickened(&mut self, at: usize, failing: Failing) -> Result<(), StoreError> {
        let verifies = failing.verifies;
        let evidence = self.examine(at, &failing);
        self.in_vain(at);
        let symptom = Box::new(evidence.found.symptom.clone());
        let server = &mut self.servers[at];
        server.crashed_after = Some(failing.uptime);
        server.case.seen = Some(evidence);
        let stopped = Event::Server(ServerEvent::Stopped {
            server: self.desk.scrubber.scrub(&server.plan.name),
            exit: failing.exit.unwrap_or(Exit::Hung),
        });
        let relapsed = server.incident.as_ref().is_some_and(|incident| {
            matches!(incident.phase(), Phase::Ending { outcome: Outcome::Recovered(_), .. })
        });
        match (verifies, relapsed, &server.incident) {
            (Some(effect), ..) => {
                self.log_crash(at);
                let report = Report::Verified { proof: Proof::Failed, symptom: Some(symptom) };
                self.servers[at].case.running = None;
                self.insist(
                    at,
                    &[
                        stopped,
                        Event::Incident(IncidentEvent::Finished { effect: effect.effect, report }),
                    ],
                )
            }
            (None, true, _) => {
                self.log_crash(at);
                self.insist(at, &[stopped, Event::Incident(IncidentEvent::Sickened { symptom })])
            }
            (None, false, Some(_)) => self.skip(at, *symptom, stopped),
            (None, false, None) => self.open(at, *symptom, stopped),
        }
    }

    /// Finds out what a failure is.
    fn examine(&mut self, at: usize, failing: &Failing) -> Seen {
        let server = &self.servers[at];
        let mut output = match &failing.unstarted {
            Some(why) => why.clone(),
            None => server.capture.tail(),
        };
        if let Some(ailing) = &failing.ailing {
            output.push_str(&life::told(ailing));
        }
        let tree = failing.tree.filter(|_| self.is_telling(at, failing));
        let mut found =
            Evidence::of(&output, failing.exit.as_ref(), self.rules, &self.desk.scrubber);
        found.symptom.tree = tree;
        Seen { found, uptime: failing.uptime, findings: Vec::new() }
    }

    /// Returns whether the files in which a failure came up tell something about progress: those
    /// that an agent did not touch do not.
    fn is_telling(&self, at: usize, failing: &Failing) -> bool {
        let trial = self.servers[at].incident.as_ref().and_then(Incident::trial);
        let changed = trial.and_then(|trial| trial.measured).map(|change| change.files != Some(0));
        failing.verifies.is_none() || changed == Some(true)
    }

    /// Opens an incident, unless somebody else repairs this project right now.
    fn open(&mut self, at: usize, symptom: Symptom, stopped: Event) -> Result<(), StoreError> {
        let id = IncidentId(Uuid::new_v4());
        match lock::take(&self.root, id, &self.desk.me, &self.desk.scrubber) {
            Ok(lock::Taken::Ours) => {}
            Ok(lock::Taken::AfterTheDead(holder)) => {
                let text = format!("removed a stale repair lock of process {}", holder.pid);
                self.note(at, &text);
            }
            Ok(lock::Taken::AfterRubbish(aside)) => {
                let text =
                    format!("the repair lock was unreadable; it is kept as {}", aside.display());
                self.note(at, &text);
            }
            Ok(lock::Taken::Held(holder)) => {
                let text = format!(
                    "process {} on {} is repairing this project (.dev-repair.lock)",
                    holder.pid, holder.host
                );
                self.note(at, &text);
                return self.skip(at, symptom, stopped);
            }
            // The journal keeps two from repairing at once; the file only tells others.
            Err(error) => self.note(at, &format!("cannot write .dev-repair.lock: {error}")),
        }
        let opening = self.opening(at, symptom);
        let opened = self.desk.open(id, opening, vec![stopped]);
        self.begun(at, opened)?;
        self.log_crash(at);
        match self.paused.clone() {
            Some(person) => self.say_as(
                at,
                &person,
                vec![Event::Incident(IncidentEvent::Ordered { order: Order::Pause })],
            ),
            None => Ok(()),
        }
    }

    /// Puts a failure on record that is not repaired: a repair goes on, or it is a time to wait.
    fn skip(&mut self, at: usize, symptom: Symptom, stopped: Event) -> Result<(), StoreError> {
        let id = IncidentId(Uuid::new_v4());
        let opening = self.opening(at, symptom);
        let (incident, entries) = match self.desk.call_off(id, opening, vec![stopped]) {
            Ok(skipped) => skipped,
            Err(DeskError::Store(error)) => return Err(error),
            Err(DeskError::NotOpened(error)) => {
                self.note(at, &error.to_string());
                return Ok(());
            }
        };
        let name = self.servers[at].plan.name.clone();
        for entry in &entries {
            self.face.entry(&name, &incident, entry);
        }
        self.servers[at].skipped = true;
        if let Some(evidence) = self.servers[at].case.seen.clone() {
            self.write_log(at, id, evidence);
        }
        Ok(())
    }

    fn opening(&self, at: usize, symptom: Symptom) -> Opening {
        let subject = self.servers[at].plan.subject(&self.desk.scrubber);
        Opening { subject, policy: self.repair.policy(), symptom }
    }

    fn begun(
        &mut self,
        at: usize,
        opened: Result<(Incident, Vec<salve_core::event::Entry>), DeskError>,
    ) -> Result<(), StoreError> {
        match opened {
            Ok((incident, entries)) => {
                let name = self.servers[at].plan.name.clone();
                for entry in &entries {
                    self.face.entry(&name, &incident, entry);
                }
                self.servers[at].incident = Some(incident);
                Ok(())
            }
            Err(DeskError::Store(error)) => Err(error),
            Err(DeskError::NotOpened(error)) => {
                self.note(at, &error.to_string());
                Ok(())
            }
        }
    }

    /// Does what the incident wants done, and returns when to look again.
    pub(super) fn drive(&mut self, at: usize) -> Result<Option<Timestamp>, StoreError> {
        loop {
            let Some(incident) = &self.servers[at].incident else { return Ok(None) };
            match incident.next(&self.desk.me, self.desk.now()) {
                Move::Over => {
                    self.closed(at);
                    return Ok(None);
                }
                Move::NotMine => return Ok(None),
                Move::Wait { until, .. } => return Ok(until),
                Move::Choose => {
                    let incident = incident.clone();
                    if self.insight(at).is_none() {
                        // What comes of the look wakes us.
                        return Ok(None);
                    }
                    self.tell_insight(at)?;
                    let event = self.choose(at, &incident)?;
                    if self.has_to_queue(at, &event) {
                        // The other agent's end wakes us.
                        return Ok(None);
                    }
                    self.say(at, vec![event])?;
                }
                Move::Write(event) => {
                    let digest = incident.trial().map(|trial| trial.remedy.digest);
                    let mut cures = self.servers[at].case.cures.iter();
                    let cure = cures.find(|cure| Some(cure.digest) == digest);
                    let back = self.shelf.taken_back(incident, cure);
                    self.say(at, vec![back.unwrap_or(event)])?;
                }
            }
        }
    }

    /// Reports that the server is well.
    pub(super) fn verified(&mut self, at: usize, effect: Effecting) -> Result<(), StoreError> {
        let trial = self.servers[at].incident.as_ref().and_then(|incident| incident.trial());
        let unchanged = |trial: &Trial| {
            trial.remedy.kind == RemedyKind::Retry
                || trial.measured.is_some_and(|change| change.files == Some(0))
        };
        // Nothing was changed, so it would have passed by itself.
        let proof = match trial.is_none_or(unchanged) {
            true => Proof::Transient,
            false => Proof::Proven,
        };
        self.finish(at, effect, Report::Verified { proof, symptom: None })
    }

    /// Tells how far the verification is.
    pub(super) fn tell_stage(&mut self, at: usize, stage: Stage) -> Result<(), StoreError> {
        let State::Up(life) = &self.servers[at].state else { return Ok(()) };
        match life.verifies {
            Some(effect) => self.say(
                at,
                vec![Event::Incident(IncidentEvent::Progressed { effect: effect.effect, stage })],
            ),
            None => Ok(()),
        }
    }

    /// Settles an incident that waited for a person, once the server is well without Salve's help.
    pub(super) fn well_by_hand(&mut self, at: usize) -> Result<(), StoreError> {
        let server = &self.servers[at];
        let asking = server.incident.as_ref().is_some_and(|incident| {
            matches!(incident.phase(), Phase::Asking { .. } | Phase::CoolingDown { .. })
        });
        match server.started_by.clone().filter(|_| asking) {
            Some(person) => {
                let note = Some(Scrubbed::literal("started by hand, and well"));
                self.say_as(at, &person, vec![Event::Incident(IncidentEvent::Resolved { note })])
            }
            None => Ok(()),
        }
    }

    /// Lets an incident that is over go.
    fn closed(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.incident = None;
        server.case = Case::default();
    }

    /// Returns whether the incident, if any, leaves starting the server to people.
    pub(super) fn may_start(&self, at: usize) -> bool {
        let phase = self.servers[at].incident.as_ref().map(Incident::phase);
        match phase {
            None | Some(Phase::Asking { .. } | Phase::CoolingDown { .. } | Phase::Closed(_)) => {
                true
            }
            Some(Phase::Ending { .. }) => true,
            Some(Phase::Choosing | Phase::Due { .. } | Phase::Doing { .. }) => false,
        }
    }

    /// Returns whether nothing goes on until a person does something.
    pub(super) fn waits_for_person(&self, at: usize) -> bool {
        let server = &self.servers[at];
        let Some(incident) = &server.incident else { return false };
        match incident.phase() {
            Phase::Asking { told: salve_core::incident::Told::Yes, .. } => true,
            // The restart-only table ends with `exhausted`; nobody is coming.
            Phase::CoolingDown { .. } => self.repair.mode == Mode::Legacy || server.skipped,
            Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::Asking { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => false,
        }
    }

    pub(super) fn note(&mut self, at: usize, text: &str) {
        let text = self.desk.scrubber.scrub(text);
        self.remark(at, &Remark::Note(text));
    }

    pub(super) fn is_effect(&self, at: usize, effect: Effecting) -> bool {
        self.servers[at].case.running == Some(effect)
    }
}

/// How long a repair's record is awaited when everything ends.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(2);
