//! A step that failed, as a subject of incidents.
//!
//! What memory and the playbook know is tried first, then the job's own resorts: running the step
//! again in its workspace, and setting the workspace back to its checkpoints first. Whether a remedy
//! helped is shown by a further attempt at the step, which Salve verifies like the first. When nothing
//! is left the job ends as core's controller says: it fails, may be queued again, or a person decides.

use std::time::{Duration, Instant};

use salve_core::check::{self, CheckBrief};
use salve_core::class::Class;
use salve_core::event::{
    Actor, Amounts, AtALoss, AttemptEnd, EffectReport, Entry, Event, HealStrategy, IncidentEvent,
    IncidentPolicy, JobTurn, Judgement, Proof, RemedyKind, Repeat, Resource, ResourceLimits,
    Subject, SubjectKind,
};
use salve_core::incident::{DueEffect, Incident};
use salve_core::job::JobMove;
use salve_core::playbook::Diagnosis;
use salve_core::scrub::Scrubbed;
use salve_core::steps::StepsStanding;

use super::attempt::{AttemptResult, DueAttempt, FailedTry};
use super::course::{JobCourse, now_of};
use super::{JobError, JobNews};
use crate::heal::cause::FailurePlace;
use crate::heal::failure_log::FailureLog;
use crate::heal::manifests;
use crate::heal::remedies::{Offer, RemedyWay};
use crate::heal::{
    Case, OpeningTerms, PauseStanding, PauseWatch, Presence, Resorts, RunBase, RunEnd, SeenFailure,
    SubjectContext, Subjects, VerifiedFinding,
};
use crate::store::StoreError;

/// The place of the one step among the subjects of its care.
const AT: usize = 0;

/// What running a step again is called.
const AGAIN: &str = "run the step again";

/// One step of a job while it is healed.
struct StepSubject<'s, 'd, 'a> {
    course: &'s mut JobCourse<'d, 'a>,
    step: usize,
    /// The failed attempt with which it begins.
    failed: Option<Box<FailedTry>>,
    /// What becomes of an incident of it when nothing is left to try.
    at_a_loss: AtALoss,
    pause: PauseWatch,
    /// What kept the job from going on.
    trouble: Option<JobError>,
    is_begun: bool,
    is_over: bool,
    /// Whether its incident is still open, for the next care of it.
    is_left_open: bool,
}

impl JobCourse<'_, '_> {
    /// Heals a step: from this failed attempt on, or where an earlier care of it left off.
    pub(super) fn heal(
        &mut self,
        base: &mut RunBase<'_>,
        step: usize,
        failed: Option<Box<FailedTry>>,
    ) -> Result<(), JobError> {
        let at_a_loss = failed.as_ref().map_or(AtALoss::Close, |failed| at_a_loss(failed));
        let mut subject = StepSubject {
            course: self,
            step,
            failed,
            at_a_loss,
            pause: PauseWatch::default(),
            trouble: None,
            is_begun: false,
            is_over: false,
            is_left_open: false,
        };
        let end = base.care_for(&mut subject);
        let (trouble, is_left_open) = (subject.trouble.take(), subject.is_left_open);
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        if let RunEnd::Stopped(signal) = end? {
            self.stopping = Some(signal);
        }
        self.has_looked = !is_left_open;
        self.catch_up(base)
    }
}

impl StepSubject<'_, '_, '_> {
    /// Ends the care when something of the job failed.
    fn guard<T>(&mut self, result: Result<T, JobError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.trouble = Some(error);
                self.is_over = true;
                None
            }
        }
    }

    /// Tells whether the step has left its checkpoint.
    fn is_done(&self) -> bool {
        self.step < self.course.of.checkpoints().len()
    }

    fn seen(&self, failed: FailedTry, verifies: Option<DueEffect>) -> SeenFailure {
        let FailedTry { evidence, ended, spent } = failed;
        let took = Duration::from_millis(spent.wall_ms);
        SeenFailure {
            evidence,
            took,
            before: vec![self.course.event(ended)],
            verifies,
            waiter: None,
        }
    }

    /// Tries the step again, if the job is still where that can be done.
    fn try_again(&mut self, effect: DueEffect, context: &mut SubjectContext<'_, '_>) {
        let JobMove::Attempt { step, attempt, strategy } =
            self.course.of.next(now_of(context.base))
        else {
            // Somebody ordered otherwise: what follows is the job's business.
            self.is_over = true;
            return;
        };
        let due = DueAttempt { step, attempt, strategy };
        let result = self.course.attempt(context.base, due);
        match self.guard(result) {
            Some(AttemptResult::Done { spent }) => {
                self.charge(effect, spent, context);
                let (proof, why) = self.proof(context);
                context.judged(AT, effect, VerifiedFinding::new(proof, why));
            }
            Some(AttemptResult::Failed(failed)) => {
                self.charge(effect, failed.spent, context);
                let seen = self.seen(*failed, Some(effect));
                context.failed(AT, seen);
            }
            // It goes on with this attempt later.
            Some(AttemptResult::NotDone) | None => self.is_over = true,
        }
    }

    fn charge(&self, effect: DueEffect, spent: Amounts, context: &mut SubjectContext<'_, '_>) {
        let charged = IncidentEvent::Charged { effect: effect.effect, spent };
        context.say(AT, vec![Event::Incident(charged)]);
    }

    /// Says what it proves that the step is done after this remedy.
    fn proof(&self, context: &SubjectContext<'_, '_>) -> (Proof, &'static str) {
        let trial = context.cases.get(AT).and_then(Case::trial);
        let is_reset = trial.is_none_or(|trial| is_own_resort(trial.remedy.kind));
        let class = context.cases.get(AT).and_then(Case::seen).map(|seen| seen.symptom.class);
        let may_pass = class.is_none_or(Class::may_pass);
        match (is_reset, may_pass) {
            (true, _) => (Proof::Transient, "the step is done after another attempt"),
            (false, true) => (Proof::Transient, "the failure may have passed by itself"),
            (false, false) => {
                (Proof::Proven, "the failure could not pass by itself, and the step is done")
            }
        }
    }

    /// Leaves an open question to a person, where nobody waits here for the answer.
    fn leave_question(&mut self, context: &mut SubjectContext<'_, '_>) {
        let waits = matches!(self.course.of.standing(), StepsStanding::Waits { .. });
        let asks = context.cases.get(AT).is_some_and(Case::asks);
        if !asks || !(waits || context.base.presence == Presence::Unattended) {
            return;
        }
        self.is_over = true;
        let Some(incident) = context.incident(AT).filter(|_| !waits) else { return };
        let id = incident.id().short();
        let text = match incident.trial() {
            Some(trial) => format!(
                "may it be remedied by `{}`? salve approve {id}, or salve reject {id}",
                trial.remedy.text
            ),
            None => format!("nothing is left to try: salve show {id}"),
        };
        let reason = context.base.writer.scrubber.scrub(&text);
        let said = self.course.say(context.base, JobTurn::Asked { reason });
        self.guard(said);
    }
}

/// Tells whether a remedy is one of the job's own resorts.
fn is_own_resort(kind: RemedyKind) -> bool {
    match kind {
        RemedyKind::Retry | RemedyKind::SoftReset | RemedyKind::HardReset => true,
        RemedyKind::Command | RemedyKind::Patch | RemedyKind::Agent => false,
    }
}

impl Subjects for StepSubject<'_, '_, '_> {
    fn names(&self) -> Vec<String> {
        let id = self.course.parts.spec.steps.get(self.step).map(|step| step.id.clone());
        vec![id.unwrap_or_default()]
    }

    fn opening(&self, _: usize, base: &RunBase<'_>) -> OpeningTerms {
        let of = &self.course.of;
        let terms = of.terms().steps.get(self.step);
        let id = terms.map(|step| step.id.as_str()).unwrap_or_default();
        let tried = u64::try_from(of.failures().len()).unwrap_or(u64::MAX).saturating_add(1);
        let attempts = terms.map_or(0, |step| u64::from(step.attempts).saturating_sub(tried));
        let policy = IncidentPolicy {
            at_a_loss: self.at_a_loss,
            ..base
                .terms
                .policy(ResourceLimits { attempts: Some(attempts), ..ResourceLimits::default() })
        };
        let left = ResourceLimits {
            attempts: None,
            tokens: of.steps().left(Resource::Tokens),
            money_micros: of.steps().left(Resource::MoneyMicros),
            wall_ms: of.steps().left(Resource::WallMs),
            resets: Some(u64::from(of.terms().resets.saturating_sub(of.resets()))),
        };
        let name = base.writer.scrubber.scrub(&format!("{}/{id}", of.id().short()));
        let subject = Subject { kind: SubjectKind::Step, name, repeat: Repeat::Safe };
        OpeningTerms { subject, policy, left }
    }

    fn place(&self, _: usize, base: &RunBase<'_>) -> FailurePlace {
        let spec = self.course.parts.spec.steps.get(self.step);
        let argv = spec.and_then(|spec| {
            let verify = || spec.verify.command.as_ref().map(|line| line.argv());
            spec.work.argv().or_else(verify)
        });
        let (dir, argv) = (self.course.parts.workspace.dir(), argv.unwrap_or_default());
        FailurePlace::new(base.project.root(), &dir, &argv, &[], &base.remedies.sandbox)
    }

    fn command(&self, _: usize) -> Scrubbed {
        let of = &self.course.of;
        of.step_id(self.step).cloned().unwrap_or_default()
    }

    fn resorts(&self, _: usize, _: &Case, _: &Diagnosis, _: &RunBase<'_>) -> Resorts {
        let of = &self.course.of;
        let own = match of.strategy() {
            // A replay that failed has settled how the job ends.
            _ if of.ending().is_some() => Vec::new(),
            HealStrategy::SoftReset => vec![RemedyWay::SoftReset],
            HealStrategy::HardReset => vec![RemedyWay::HardReset],
            HealStrategy::None | HealStrategy::QueueRetry | HealStrategy::OperatorRequest => {
                Vec::new()
            }
        };
        Resorts { again: AGAIN, own }
    }

    /// What an agent changed of what is installed, and how, runs without asking in no step.
    fn second_thought(
        &mut self,
        _: usize,
        offer: &Offer,
        base: &RunBase<'_>,
    ) -> Result<Option<Judgement>, StoreError> {
        match &offer.what {
            RemedyWay::Known { .. } | RemedyWay::Playbook(_) => {}
            RemedyWay::Again
            | RemedyWay::SoftReset
            | RemedyWay::HardReset
            | RemedyWay::Patch(_)
            | RemedyWay::Agent
            | RemedyWay::Instruction(_)
            | RemedyWay::BySubject => return Ok(None),
        }
        let changed = self.course.changed_manifests(base)?;
        Ok(manifests::judgement_on(&changed, "job", &base.writer.scrubber))
    }

    fn brief(&self, _: usize, brief: &CheckBrief) -> String {
        check::brief(brief)
    }

    fn verify(
        &mut self,
        at: usize,
        effect: DueEffect,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        if self.is_done() {
            // An earlier run of Salve saw it, and was killed before it could say so.
            let why = "the step is done and its checkpoint is kept";
            context.judged(at, effect, VerifiedFinding::new(Proof::Transient, why));
            return Ok(());
        }
        let trial = context.cases.get(at).and_then(Case::trial);
        let remedy = trial.filter(|trial| !is_own_resort(trial.remedy.kind));
        if let Some(remedy) = remedy.map(|trial| trial.remedy.text.clone()) {
            let said = self.course.say(context.base, JobTurn::Remedied { remedy });
            self.guard(said);
        }
        if !self.is_over {
            self.try_again(effect, context);
        }
        Ok(())
    }

    fn closed(&mut self, _: usize, _: &Incident, _: &mut SubjectContext<'_, '_>) {
        self.is_over = true;
    }

    fn tend(
        &mut self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<Instant>, StoreError> {
        if !std::mem::replace(&mut self.is_begun, true) {
            match (self.failed.take(), context.incident(AT)) {
                (Some(failed), _) => {
                    let seen = self.seen(*failed, None);
                    context.failed(AT, seen);
                    return Ok(None);
                }
                // Nothing was left open; the job goes on by itself.
                (None, None) => self.is_over = true,
                (None, Some(_)) => {}
            }
        }
        self.leave_question(context);
        if self.is_over {
            return Ok(None);
        }
        Ok(match self.pause.look(AT, context) {
            PauseStanding::None => None,
            PauseStanding::Waits(until) => Some(until),
            PauseStanding::TooLong => {
                let reason = Scrubbed::literal("healing is paused");
                let said = self.course.say(context.base, JobTurn::Asked { reason });
                self.guard(said);
                self.is_over = true;
                None
            }
        })
    }

    fn hear(&mut self, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        if let Some(news) = self.course.parts.news.next() {
            let taken = self.course.take(context.base, news);
            self.guard(taken);
        }
        Ok(())
    }

    fn heard(
        &mut self,
        entries: &[Entry],
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        if !entries.iter().any(|entry| matches!(entry.event, Event::Job(_))) {
            return Ok(());
        }
        let taken = self.course.take(context.base, JobNews::Journal);
        self.guard(taken);
        let of = &self.course.of;
        let is_ordered = of.recovery().is_some_and(|request| !request.honored);
        // What somebody orders is done by the job, which comes back to the incident.
        self.is_over |=
            is_ordered || self.course.is_called_off() || of.steps().paused_by().is_some();
        Ok(())
    }

    fn stop(&mut self, _: i32, _: &mut SubjectContext<'_, '_>) {
        self.is_over = true;
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn is_over(&mut self, cases: &[Case], _: &RunBase<'_>) -> bool {
        self.is_left_open = cases.get(AT).is_some_and(|case| case.incident().is_some());
        self.is_over
    }

    fn has_breakers(&self) -> bool {
        false
    }

    /// Returns no remedy where a rule or a permission forbids the step: only a person lifts that.
    fn offers(
        &mut self,
        _: usize,
        _: &mut RunBase<'_>,
        _: &Case,
    ) -> Result<Option<Vec<Offer>>, StoreError> {
        let is_forbidden = self.course.of.strategy() == HealStrategy::OperatorRequest;
        Ok(is_forbidden.then(Vec::new))
    }

    fn opened(&mut self, _: usize, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        let taken = self.course.catch_up(context.base);
        self.guard(taken);
        Ok(())
    }

    fn skipped(&mut self, _: usize) {
        self.is_over = true;
    }

    fn recorded(
        &mut self,
        _: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let taken = self.course.catch_up(context.base);
        self.guard(taken);
        Ok(())
    }

    /// Returns who had the job go on while something was asked: they settle the question.
    fn restarted_by(&self, _: usize, base: &RunBase<'_>) -> Option<(Actor, &'static str)> {
        let ordered = self.course.of.recovery().map(|request| request.by.clone());
        let by = ordered.map(|name| Actor::Person { name }).or_else(|| base.by.clone());
        Some((by?, "the job was told to go on"))
    }

    fn keep_evidence(&mut self, at: usize, log: FailureLog, context: &mut SubjectContext<'_, '_>) {
        let home = context.base.project.home().to_path_buf();
        if let Some(complaint) = self.course.parts.records.keep_evidence(&home, &log) {
            context.note(at, &complaint);
        }
    }

    fn set_back(&mut self, _: usize, context: &mut SubjectContext<'_, '_>) -> EffectReport {
        let Some(pending) = self.course.of.pending() else { return EffectReport::Done };
        let reset = self.course.reset(context.base, pending);
        self.guard(reset);
        match self.course.of.ending() {
            None if self.trouble.is_none() => EffectReport::Done,
            Some(_) | None => {
                EffectReport::failed(Scrubbed::literal("the checkpoints could not be replayed"))
            }
        }
    }

    fn taken_away(&mut self, _: usize) {
        self.is_over = true;
    }

    fn is_held(&self, _: usize, _: &Case) -> bool {
        self.is_over
    }
}

/// Returns what becomes of the incident of a failed attempt when nothing is left to try: only what a
/// rule or a permission forbids is a person's to settle, the rest is the job's.
fn at_a_loss(failed: &FailedTry) -> AtALoss {
    match &failed.ended {
        JobTurn::StepEnded {
            end: AttemptEnd::Failed { strategy: HealStrategy::OperatorRequest, .. },
            ..
        } => AtALoss::Ask,
        _ => AtALoss::Close,
    }
}
