//! One check, from its first run to its end.

use std::sync::Arc;
use std::time::Instant;

use salve_core::check::{self, CheckBrief, breaker};
use salve_core::event::{
    Actor, EffectReport, Event, IncidentEvent, IncidentOutcome, RemedyKind, Subject,
};
use salve_core::id::IncidentId;
use salve_core::incident::{DueEffect, Incident};
use salve_core::playbook::{Diagnosis, Nature};
use salve_core::scrub::Scrubbed;

use super::prove::{ProofState, Prover};
use super::{CheckEnd, CheckNews, CheckTerms, issues};
use crate::heal::cause::{Evidence, FailurePlace};
use crate::heal::failure_log::FailureLog;
use crate::heal::inbox::NewsQueue;
use crate::heal::records::Records;
use crate::heal::remedies::RemedyWay;
use crate::heal::run::{self, CommandPlan, CommandRunEnd, Stopper};
use crate::heal::{
    Case, OpeningTerms, PauseStanding, PauseWatch, Presence, Remark, Resorts, RunBase, RunEnd,
    SeenFailure, SubjectContext, Subjects,
};
use crate::process::Capture;
use crate::store::StoreError;

/// What running a check again is called.
const AGAIN: &str = "run it again";

/// The place of the one check among the subjects of its run.
const AT: usize = 0;

/// One check under care.
pub struct CheckSubject<'r> {
    plan: CommandPlan,
    terms: &'r CheckTerms,
    capture: Arc<Capture>,
    records: &'r mut Records,
    news: NewsQueue<CheckNews>,
    /// The run of the check that is under way.
    running: Option<Stopper>,
    proof: ProofState,
    end: Option<CheckEnd>,
    /// The last incident that is over.
    healed: Option<IncidentId>,
    /// The incident that a person settled, until the check has shown it.
    settled: Option<IncidentId>,
    pause: PauseWatch,
    is_begun: bool,
    is_ending: bool,
}

impl<'r> CheckSubject<'r> {
    /// Makes a check that was not run yet.
    pub fn new(
        plan: CommandPlan,
        terms: &'r CheckTerms,
        capture: Capture,
        records: &'r mut Records,
        base: &RunBase<'_>,
    ) -> Self {
        Self {
            plan,
            terms,
            capture: Arc::new(capture),
            records,
            news: NewsQueue::new(base.inbox.sender()),
            running: None,
            proof: ProofState::default(),
            end: None,
            healed: None,
            settled: None,
            pause: PauseWatch::default(),
            is_begun: false,
            is_ending: false,
        }
    }

    /// Takes the check to its end: green, healed, or a person's.
    pub fn run(&mut self, base: &mut RunBase<'_>) -> Result<CheckEnd, StoreError> {
        let open = issues::open(base, &self.plan.name)?;
        let end = match base.care_for(self)? {
            RunEnd::Stopped(signal) => CheckEnd::Stopped(signal),
            RunEnd::Over => self.end.unwrap_or(CheckEnd::CalledOff),
        };
        issues::settle(base, &self.plan.name, &open, end, self.healed)?;
        Ok(end)
    }

    /// Runs the check, to verify an effect if one is given.
    fn start(&mut self, verifies: Option<DueEffect>, base: &mut RunBase<'_>) {
        if verifies.is_none() {
            let command = self.plan.command.clone();
            base.reporter.remark(&self.plan.name, &Remark::Running { command });
        }
        let news = self.news.sender();
        let then = move |ran| {
            // Nobody is left to tell when the run is over.
            let _ = news.send(CheckNews::Ran { verifies, ran });
        };
        let (errand, capture) = (self.plan.errand(), self.capture.clone());
        self.running = Some(run::start(&base.care, &errand, capture, then));
    }

    /// Takes in how the check came out.
    fn ran(
        &mut self,
        verifies: Option<DueEffect>,
        ran: &CommandRunEnd,
        context: &mut SubjectContext<'_, '_>,
    ) {
        self.running = None;
        if self.is_ending {
            return;
        }
        context.left_behind(AT, ran.left);
        let Some(effect) = verifies else { return self.seen(ran, context) };
        let is_green = ran.is_green();
        if ran.stopped {
            let reason = Scrubbed::literal("the check was stopped");
            context.finish(AT, effect, EffectReport::failed(reason));
        } else if self.proof.is_settled_by(is_green) {
            self.prover(effect, context).settle_doubt(is_green);
        } else if is_green {
            self.prover(effect, context).prove(ran);
        } else {
            self.proof.was_red();
            self.failed(ran, verifies, context);
        }
    }

    /// Takes in how the check came out, outside of any repair.
    fn seen(&mut self, ran: &CommandRunEnd, context: &mut SubjectContext<'_, '_>) {
        match (ran.is_green(), context.incident(AT).is_some()) {
            (true, false) => {
                context.base.reporter.remark(&self.plan.name, &Remark::Green { took: ran.took });
                if let Some(id) = self.settled.take() {
                    // A person settled an incident, and the check is green indeed.
                    context.add(AT, id, Event::Incident(IncidentEvent::SeenGreen {}));
                }
                self.keep_checkpoint(context);
                self.end.get_or_insert(CheckEnd::Green);
            }
            (true, true) => match context.base.by.clone() {
                Some(person) => {
                    let note = Some(Scrubbed::literal(breaker::AGAIN));
                    let resolved = Event::Incident(IncidentEvent::Resolved { note });
                    context.say_as(AT, person, vec![resolved]);
                }
                // Only a person settles an incident; it is left to one.
                None => self.end = Some(CheckEnd::Green),
            },
            (false, has_incident) => {
                self.proof.was_red_unrepaired();
                match has_incident {
                    // An earlier run of Salve saw the failure, and now this one has.
                    true => context.saw(AT, examine(ran, context), ran.took),
                    false => self.failed(ran, None, context),
                }
            }
        }
    }

    fn failed(
        &self,
        ran: &CommandRunEnd,
        verifies: Option<DueEffect>,
        context: &mut SubjectContext<'_, '_>,
    ) {
        let evidence = examine(ran, context);
        let (took, before, waiter) = (ran.took, Vec::new(), None);
        let failure = SeenFailure { evidence, took, before, verifies, waiter };
        context.failed(AT, failure);
    }

    fn prover<'p, 'c, 'a>(
        &'p mut self,
        effect: DueEffect,
        context: &'p mut SubjectContext<'c, 'a>,
    ) -> Prover<'p, 'c, 'a> {
        let (plan, terms, state) = (&self.plan, self.terms, &mut self.proof);
        Prover { plan, terms, state, news: self.news.sender(), effect, context }
    }

    /// Keeps the counters as ones to go back to, now that the check is green.
    fn keep_checkpoint(&mut self, context: &mut SubjectContext<'_, '_>) {
        let at = context.base.writer.now();
        if let Some(complaint) = self.records.checkpoint(at) {
            context.note(AT, &complaint);
        }
    }

    fn stop_running(&self) {
        if let Some(running) = &self.running {
            running.stop();
        }
    }
}

/// Finds out what a failure of a check is.
pub(super) fn examine(ran: &CommandRunEnd, context: &SubjectContext<'_, '_>) -> Evidence {
    let base = &*context.base;
    let mut evidence =
        Evidence::of(&ran.output, Some(&ran.exit), base.rules, &base.writer.scrubber);
    let case = context.cases.get(AT);
    evidence.symptom.tree = case.filter(|case| edits(case)).and_then(Case::tree);
    evidence
}

/// Returns whether the present trial edits files; only then is the same tree no progress.
fn edits(case: &Case) -> bool {
    case.trial().is_some_and(|trial| {
        let changed = trial.measured.is_some_and(|change| change.files != Some(0));
        changed && matches!(trial.remedy.kind, RemedyKind::Agent | RemedyKind::Patch)
    })
}

impl Subjects for CheckSubject<'_> {
    fn names(&self) -> Vec<String> {
        vec![self.plan.name.clone()]
    }

    fn opening(&self, _: usize, base: &RunBase<'_>) -> OpeningTerms {
        let subject: Subject = self.plan.subject(&base.writer.scrubber);
        let policy = self.terms.policy(&base.terms);
        OpeningTerms { subject, policy, left: base.left_of(self.terms.run_limits) }
    }

    fn place(&self, _: usize, base: &RunBase<'_>) -> FailurePlace {
        self.plan.place(base)
    }

    fn command(&self, _: usize) -> Scrubbed {
        self.plan.command.clone()
    }

    fn resorts(&self, _: usize, case: &Case, diagnosis: &Diagnosis, _: &RunBase<'_>) -> Resorts {
        let is_passing = case
            .seen()
            .is_some_and(|seen| seen.symptom.class.categories().job == "transient_runtime");
        let may_be_flaky = match diagnosis.nature {
            Nature::Transient | Nature::Infrastructure | Nature::Code => false,
            Nature::Unknown => is_passing,
        };
        let own = match may_be_flaky && case.reruns() < self.terms.reruns {
            true => vec![RemedyWay::Again],
            false => Vec::new(),
        };
        Resorts { again: AGAIN, own }
    }

    fn brief(&self, _: usize, brief: &CheckBrief) -> String {
        check::brief(brief)
    }

    fn verify(
        &mut self,
        _: usize,
        effect: DueEffect,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let trial = context.cases.get(AT).and_then(Case::trial);
        let is_again = trial.is_some_and(|trial| trial.remedy.kind == RemedyKind::Retry);
        self.proof.begin(is_again);
        self.start(Some(effect), context.base);
        Ok(())
    }

    fn closed(&mut self, _: usize, over: &Incident, context: &mut SubjectContext<'_, '_>) {
        self.healed = Some(over.id());
        self.proof = ProofState::default();
        let salve_core::incident::Phase::Closed(outcome) = over.phase() else { return };
        match outcome {
            IncidentOutcome::Recovered(proof) => {
                self.keep_checkpoint(context);
                self.end = Some(CheckEnd::Healed(proof));
            }
            // What a person settled is shown by the check itself.
            IncidentOutcome::Resolved => {
                self.settled = Some(over.id());
                self.start(None, context.base);
            }
            IncidentOutcome::Unhealed => self.end = Some(CheckEnd::NeedsPerson),
            IncidentOutcome::GivenUp | IncidentOutcome::Aborted => {
                self.end = Some(CheckEnd::CalledOff)
            }
        }
    }

    fn tend(
        &mut self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<Instant>, StoreError> {
        let is_new = !std::mem::replace(&mut self.is_begun, true);
        if is_new && context.incident(AT).is_none() && self.running.is_none() && !self.is_ending {
            self.start(None, context.base);
        }
        if self.end.is_some() {
            return Ok(None);
        }
        Ok(match self.pause.look(AT, context) {
            PauseStanding::None => None,
            PauseStanding::Waits(until) => Some(until),
            PauseStanding::TooLong => {
                self.end = Some(CheckEnd::NeedsPerson);
                None
            }
        })
    }

    fn hear(&mut self, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        match self.news.next() {
            Some(CheckNews::Ran { verifies, ran }) => self.ran(verifies, &ran, context),
            Some(CheckNews::Tried { effect, trials }) if context.is_due(AT, effect) => {
                self.prover(effect, context).tried(&trials);
            }
            Some(CheckNews::Moved { effect, report }) if context.is_due(AT, effect) => {
                if self.prover(effect, context).is_moved(&report) {
                    self.start(Some(effect), context.base);
                }
            }
            // Of an effect that is over.
            Some(CheckNews::Tried { .. } | CheckNews::Moved { .. }) | None => {}
        }
        Ok(())
    }

    fn stop(&mut self, _: &mut SubjectContext<'_, '_>) {
        self.is_ending = true;
        self.stop_running();
    }

    fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    fn is_over(&mut self, cases: &[Case], base: &RunBase<'_>) -> bool {
        match (cases.get(AT).is_some_and(Case::asks), base.presence) {
            (true, Presence::Unattended) => self.end = Some(CheckEnd::NeedsPerson),
            (true, Presence::Attended) => return false,
            (false, _) => {}
        }
        self.end.is_some()
    }

    fn opened(
        &mut self,
        at: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        if let Some(incident) = context.incident(at) {
            self.records.tidy(incident.id(), std::time::SystemTime::now());
        }
        Ok(())
    }

    fn resumed(&mut self, _: usize, _: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        self.proof.was_red_unrepaired();
        Ok(())
    }

    fn restarted_by(&self, _: usize, base: &RunBase<'_>) -> Option<(Actor, &'static str)> {
        Some((base.by.clone()?, breaker::AGAIN))
    }

    fn shows_again(
        &mut self,
        _: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<bool, StoreError> {
        if self.running.is_none() {
            self.start(None, context.base);
        }
        Ok(true)
    }

    fn keep_evidence(&mut self, at: usize, log: FailureLog, context: &mut SubjectContext<'_, '_>) {
        if let Some(complaint) = self.records.keep_evidence(context.base.project.root(), &log) {
            context.note(at, &complaint);
        }
    }

    fn recorded(
        &mut self,
        at: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        self.records.keep_incident(at, context)
    }

    fn called_off(&mut self, _: usize) {
        self.stop_running();
    }

    fn taken_away(&mut self, _: usize) {
        self.end = Some(CheckEnd::CalledOff);
    }

    fn is_held(&self, _: usize, _: &Case) -> bool {
        self.end.is_some()
    }
}
