//! One check, from its first run to its end.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::check::proof::Colour;
use salve_core::event::{Proof, RemedyKind, Report};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Move, Run as Effecting};
use salve_core::scrub::Scrubbed;
use uuid::Uuid;

use super::case::Case;
use super::quest::Quest;
use super::run::{self, Stopper};
use super::{CheckPlan, Clinic, Ending, Input, Ran, Remark};
use crate::heal::agents::Minder;
use crate::heal::cause::Evidence;
use crate::heal::{DeskError, Opening};
use crate::process::Capture;
use crate::store::StoreError;

/// One check and all that is known of it.
pub(super) struct Checkup<'c, 'a> {
    pub(super) clinic: &'c mut Clinic<'a>,
    pub(super) plan: CheckPlan,
    pub(super) capture: Arc<Capture>,
    pub(super) incident: Option<Incident>,
    pub(super) case: Case,
    /// What is sought beside that, where the tests are a loop's.
    pub(super) quest: Option<Box<Quest>>,
    /// The agent of ours that works on it.
    pub(super) minder: Option<Minder>,
    /// The run of the check that is under way.
    pub(super) running: Option<Stopper>,
    pub(super) ending: Option<Ending>,
    /// The last incident that is over.
    pub(super) healed: Option<IncidentId>,
    pub(super) stopping: Option<i32>,
    /// The incident that a person settled, until the check has shown it.
    pub(super) settled: Option<IncidentId>,
}

impl Clinic<'_> {
    /// Takes one check to its end: green, healed, or a person's.
    pub fn heal(&mut self, plan: CheckPlan, capture: Arc<Capture>) -> Result<Ending, StoreError> {
        let name = plan.name.clone();
        let issues = self.issues(&name)?;
        let mut checkup = Checkup::new(self, plan, capture);
        let ending = checkup.live();
        let left = checkup.leave();
        let (ending, healed) = (ending?, checkup.healed);
        left?;
        self.settle(&name, &issues, (ending, healed))?;
        Ok(ending)
    }
}

impl<'c, 'a> Checkup<'c, 'a> {
    pub(super) fn new(clinic: &'c mut Clinic<'a>, plan: CheckPlan, capture: Arc<Capture>) -> Self {
        Self {
            clinic,
            plan,
            capture,
            incident: None,
            case: Case::default(),
            quest: None,
            minder: None,
            running: None,
            ending: None,
            healed: None,
            stopping: None,
            settled: None,
        }
    }

    pub(super) fn live(&mut self) -> Result<Ending, StoreError> {
        self.resume()?;
        if self.incident.is_none() {
            self.begin()?;
        }
        loop {
            let until = self.drive()?;
            self.tell_loop();
            let pause = self.wait_out_pause();
            if pause.is_some_and(|until| until <= self.clinic.desk.now()) {
                self.end_in_pause();
            }
            if let Some(ending) = self.is_over() {
                return Ok(ending);
            }
            let until = self.look_at([until, pause].into_iter().flatten().min());
            let waits = self.waits_for_person();
            let input = match until {
                Some(time) => {
                    let left = Duration::try_from(time.duration_since(self.clinic.desk.now()));
                    match self.clinic.inbox.1.recv_timeout(left.unwrap_or_default()) {
                        Ok(input) => input,
                        Err(RecvTimeoutError::Timeout) => {
                            self.waited(waits);
                            self.look_for_proposal()?;
                            continue;
                        }
                        Err(RecvTimeoutError::Disconnected) => return Ok(Ending::Stopped(0)),
                    }
                }
                None => match self.clinic.inbox.1.recv() {
                    Ok(input) => input,
                    Err(_) => return Ok(Ending::Stopped(0)),
                },
            };
            self.waited(waits);
            self.take(input)?;
        }
    }

    fn take(&mut self, input: Input) -> Result<(), StoreError> {
        match input {
            Input::Ran { verifies, ran } => self.ran(verifies, ran),
            Input::Done { effect, report } if self.case.effect == Some(effect) => {
                self.finish(effect, report)
            }
            Input::Done { .. } => Ok(()),
            Input::Measured { effect, tree, files } if self.case.effect == Some(effect) => {
                self.measured(effect, tree, &files)
            }
            Input::Measured { .. } => Ok(()),
            Input::Tried { effect, trials } => self.tried(effect, &trials),
            Input::Moved { effect, report } => self.moved(effect, &report),
            Input::Agent { effect, event } => self.agent_told(effect, event),
            Input::Journal(entries) => {
                let Some(incident) = &mut self.incident else { return Ok(()) };
                let is_news = |entry: &salve_core::event::Entry| {
                    entry.incident == Some(incident.id()) && entry.seq > incident.last_seq()
                };
                if entries.iter().any(is_news) {
                    let (face, name) = (&mut *self.clinic.face, &self.plan.name);
                    let mut show = |incident: &_, entry: &_| face.entry(name, incident, entry);
                    self.clinic.desk.catch_up(incident, &mut show)?;
                }
                self.heed_orders();
                Ok(())
            }
            Input::Note(text) => {
                self.note(&text);
                Ok(())
            }
            Input::Stop(signal) => {
                self.stopping = Some(signal);
                self.end_what_runs();
                Ok(())
            }
        }
    }

    /// Ends what runs when somebody wants the incident to go another way.
    fn heed_orders(&mut self) {
        if self.incident.as_ref().is_some_and(Incident::is_called_off) {
            self.end_what_runs();
        }
    }

    fn end_what_runs(&mut self) {
        if let Some(running) = &self.running {
            running.stop();
        }
        if let Some(minder) = &mut self.minder {
            minder.stop();
        }
    }

    /// Runs the check, to verify an effect if one is given.
    pub(super) fn start(&mut self, verifies: Option<Effecting>) {
        if self.has_no_tests() {
            return self.take_its_word(verifies);
        }
        let command = self.plan.command.clone();
        if verifies.is_none() {
            self.remark(&Remark::Running { command });
        }
        let post = self.clinic.inbox.0.clone();
        let then = move |ran| {
            // Nobody is left to tell when the run of Salve is over.
            let _ = post.send(Input::Ran { verifies, ran });
        };
        let (care, capture) = (&self.clinic.care, self.capture.clone());
        self.running = Some(run::start(care, &self.plan, capture, then));
    }

    /// Takes in how the check came out.
    pub(super) fn ran(&mut self, verifies: Option<Effecting>, ran: Ran) -> Result<(), StoreError> {
        self.running = None;
        if self.stopping.is_some() {
            return Ok(());
        }
        self.count_orphans(ran.left)?;
        match (verifies, self.is_well(&ran)) {
            (None, is_well) if self.incident.is_some() => self.shown_again(&ran, is_well),
            (None, true) => {
                if ran.is_green() {
                    self.remark(&Remark::Green { took: ran.took });
                }
                self.nothing_to_recover()?;
                self.tell_settled()?;
                self.keep_checkpoint();
                self.ending = Some(self.ending.unwrap_or(Ending::Green));
                Ok(())
            }
            (None, false) if self.looks_twice() => {
                self.start(None);
                Ok(())
            }
            (None, false) if self.quest.is_some() && self.settled.is_some() => {
                self.settled_in_vain();
                Ok(())
            }
            (None, false) => self.sickened(&ran),
            (Some(effect), _) if ran.stopped => {
                let reason = Scrubbed::literal("the check was stopped");
                self.finish(effect, Report::failed(reason))
            }
            (Some(effect), is_well)
                if self.case.doubt.is_some() && (is_well || self.is_without()) =>
            {
                self.settle_doubt(effect, is_well)
            }
            (Some(effect), true) => self.prove(effect, &ran),
            (Some(effect), false) => {
                self.case.doubt = None;
                let evidence = self.examine(&ran);
                self.learn_failure()?;
                self.in_vain();
                let symptom = Some(Box::new(evidence.symptom.clone()));
                self.case.seen = Some(evidence);
                self.case.took = ran.took;
                self.keep_evidence();
                if self.quest.is_none() {
                    self.stop_if_worse()?;
                }
                if self.case.is_again {
                    self.case.earlier.push(Colour::Red);
                }
                self.finish(effect, Report::Verified { proof: Proof::Failed, symptom })
            }
        }
    }

    /// Takes in that the check is red, outside of any repair.
    fn sickened(&mut self, ran: &Ran) -> Result<(), StoreError> {
        let evidence = self.examine(ran);
        let opening = Opening {
            subject: self.plan.subject(&self.clinic.desk.scrubber),
            policy: self.clinic.heal.policy(self.clinic.spent),
            symptom: evidence.symptom.clone(),
        };
        let seen_before = self.quest.as_ref().map_or(0, |quest| quest.seen());
        self.case = Case {
            first: Some(evidence.clone()),
            seen: Some(evidence.clone()),
            earlier: vec![Colour::Red; seen_before + 1],
            took: ran.took,
            ..Case::default()
        };
        let id = IncidentId(Uuid::new_v4());
        match self.clinic.desk.open(id, opening, Vec::new()) {
            Ok((incident, entries)) => {
                for entry in &entries {
                    self.clinic.face.entry(&self.plan.name, &incident, entry);
                }
                self.incident = Some(incident);
                self.keep_evidence();
                self.tidy_records();
                match self.quest.is_some() {
                    true => self.propose(&evidence)?,
                    false => self.halt_if_systemic()?,
                }
                self.count_orphans(0)?;
                self.keep_records()
            }
            Err(DeskError::Store(error)) => Err(error),
            Err(DeskError::NotOpened(error)) => {
                self.note(&error.to_string());
                self.ending = Some(Ending::CalledOff);
                Ok(())
            }
        }
    }

    /// Finds out what a failure is.
    pub(super) fn examine(&self, ran: &Ran) -> Evidence {
        let (rules, scrubber) = (self.clinic.rules, &self.clinic.desk.scrubber);
        let mut evidence = Evidence::of(&ran.output, Some(&ran.exit), rules, scrubber);
        evidence.symptom.tree = self.case.tree.filter(|_| self.edits());
        evidence
    }

    /// Returns whether the present trial edits files; only then is the same tree no progress.
    fn edits(&self) -> bool {
        let trial = self.incident.as_ref().and_then(Incident::trial);
        trial.is_some_and(|trial| {
            let changed = trial.measured.is_some_and(|change| change.files != Some(0));
            changed && matches!(trial.remedy.kind, RemedyKind::Agent | RemedyKind::Patch)
        })
    }

    /// Takes in that what was tried did not help, so that it is not tried again, and that the
    /// cause has to be looked into anew.
    pub(super) fn in_vain(&mut self) {
        self.case.diagnosis = None;
        let trial = self.incident.as_ref().and_then(Incident::trial);
        self.case.failed.extend(trial.map(|trial| trial.remedy.digest));
    }

    /// Does what the incident wants done, and returns when to look again.
    fn drive(&mut self) -> Result<Option<Timestamp>, StoreError> {
        loop {
            if self.stopping.is_some() {
                return Ok(None);
            }
            let Some(incident) = self.incident.as_ref().filter(|_| self.ending.is_none()) else {
                return Ok(None);
            };
            if self.quest.is_some() && self.running.is_some() && self.is_blind() {
                return Ok(None);
            }
            match incident.next(&self.clinic.desk.me, self.clinic.desk.now()) {
                Move::Over => {
                    self.closed();
                    return Ok(None);
                }
                Move::NotMine => {
                    self.ending = Some(Ending::CalledOff);
                    return Ok(None);
                }
                Move::Wait { until, .. } => return Ok(until),
                // An earlier run of Salve saw the failure: only the check itself can show it.
                Move::Choose if self.case.seen.is_none() => {
                    if self.running.is_none() {
                        self.start(None);
                    }
                    return Ok(None);
                }
                Move::Choose => {
                    if self.quest.is_none()
                        && let Some(until) = self.await_team()?
                    {
                        return Ok(Some(until));
                    }
                    let event = self.choose()?;
                    self.say(vec![event])?;
                }
                Move::Write(event) => {
                    let back = self.clinic.shelf.taken_back(incident, self.cure());
                    self.say(vec![back.unwrap_or(event)])?;
                }
            }
        }
    }
}
