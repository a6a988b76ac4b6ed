//! One check, from its first run to its end.

use std::time::Instant;

use salve_core::check::{self, CheckBrief, breaker, watching};
use salve_core::event::{
    Actor, AtALoss, EffectReport, Event, IncidentEvent, IncidentOutcome, ProcessExit, RemedyKind,
    Subject,
};
use salve_core::id::IncidentId;
use salve_core::incident::{DueEffect, Incident, Phase, Told};
use salve_core::playbook::{Diagnosis, Nature};
use salve_core::scrub::Scrubbed;

use super::green_memory::GreenMemory;
use super::in_layer::LayerVerdict;
use super::issues::ReportedIssues;
use super::prove::{ProofState, Prover};
use super::{CheckEnd, CheckNews, CheckTerms, ShownInLayer, trials};
use crate::heal::cause::{Evidence, FailurePlace};
use crate::heal::failure_log::FailureLog;
use crate::heal::inbox::NewsQueue;
use crate::heal::judging_command::{JudgingCommand, ONLY, PersonWait};
use crate::heal::records::Records;
use crate::heal::remedies::RemedyWay;
use crate::heal::run::{CommandPlan, CommandRunEnd};
use crate::heal::run_environment::{EnvironmentChange, RunEnvironment};
use crate::heal::{
    Case, OpeningTerms, PauseStanding, Remark, Resorts, RunBase, RunEnd, SubjectContext, Subjects,
};
use crate::process::Capture;
use crate::store::StoreError;

/// What running a check again is called.
const AGAIN: &str = "run it again";

/// What is said of a red check whose input was not kept.
const TOO_LARGE: &str =
    "it is red and read more than 1 MiB, which is not kept: it is not run again, and not healed";

/// How often an agent may try to show and mend what was reported of a green check.
const ISSUE_ATTEMPTS: u64 = 2;

/// How often a check is only run again because what failed may pass.
const SAME_AGAIN: u32 = 3;

/// One check under care.
pub struct CheckSubject<'r> {
    check: JudgingCommand<'r>,
    terms: &'r CheckTerms,
    news: NewsQueue<CheckNews>,
    proof: ProofState,
    green: GreenMemory,
    environment: RunEnvironment,
    /// Whether it was green a moment ago on the files on which it is red now.
    was_just_green: bool,
    /// Whether it came out in this run of Salve.
    came_out: bool,
    end: Option<CheckEnd>,
    /// What was reported of it.
    reported: ReportedIssues,
    /// The last incident that is over.
    healed: Option<IncidentId>,
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
        let (green, environment) =
            (GreenMemory::of(&base.project, &plan), RunEnvironment::new(&plan.env));
        Self {
            check: JudgingCommand::new(plan, capture, records),
            terms,
            green,
            environment,
            was_just_green: false,
            came_out: false,
            reported: ReportedIssues::default(),
            news: NewsQueue::new(base.inbox.sender()),
            proof: ProofState::default(),
            end: None,
            healed: None,
        }
    }

    /// Takes the check to its end: green, healed, or a person's.
    pub fn run(&mut self, base: &mut RunBase<'_>) -> Result<CheckEnd, StoreError> {
        self.reported = ReportedIssues::read(base, &self.check.plan.name)?;
        let end = match base.care_for(self)? {
            RunEnd::Stopped(signal) => CheckEnd::Stopped(signal),
            RunEnd::Over => self.end.unwrap_or(CheckEnd::CalledOff),
        };
        self.reported.settle(base, &self.check.plan.name, end, self.healed)?;
        Ok(end)
    }

    /// Runs the check, to verify an effect if one is given.
    fn start(&mut self, verifies: Option<DueEffect>, base: &mut RunBase<'_>) {
        if verifies.is_none() {
            self.green.begin();
        }
        let news = self.news.sender();
        self.check.start(verifies, base, move |ran| {
            // Nobody is left to tell when the run is over.
            let _ = news.send(CheckNews::Ran { verifies, ran });
        });
    }

    /// Takes in how the check came out.
    fn ran(
        &mut self,
        verifies: Option<DueEffect>,
        ran: &CommandRunEnd,
        context: &mut SubjectContext<'_, '_>,
    ) {
        self.came_out = true;
        if !self.check.has_ended(ran, context) {
            return;
        }
        if ran.timed_out {
            context.note(ONLY, &self.check.plan.outlived());
        }
        let Some(effect) = verifies else { return self.seen(ran, context) };
        let is_green = ran.is_green();
        if ran.stopped {
            let reason = Scrubbed::literal("the check was stopped");
            context.finish(ONLY, effect, EffectReport::failed(reason));
        } else if self.proof.is_settled_by(is_green) {
            self.prover(effect, context).settle_doubt(is_green);
        } else if is_green {
            self.prover(effect, context).prove(ran);
        } else {
            self.proof.was_red();
            self.failed(ran, verifies, context);
        }
    }

    /// Tells whether a person is asked since an earlier run, and nobody knows how the check is now: an
    /// agent that runs it does not settle what a person is asked, and is told all the same.
    fn is_unseen(&self, context: &SubjectContext<'_, '_>) -> bool {
        let phase = context.incident(ONLY).map(Incident::phase);
        let asks = matches!(phase, Some(Phase::Asking { told: Told::Yes, .. }));
        asks && context.base.by.is_none() && !self.came_out
    }

    /// Takes in how the check came out, outside of any repair.
    fn seen(&mut self, ran: &CommandRunEnd, context: &mut SubjectContext<'_, '_>) {
        if ran.watches {
            return self.tell_watching(context);
        }
        match (ran.is_green(), context.incident(ONLY).is_some()) {
            (true, false) => {
                self.check.is_well(ran, context);
                self.green.was_green(ran.took);
                if let Some(evidence) = self.reported.take_up(context.base, &self.check.plan.name) {
                    self.proof = ProofState::of_reported();
                    return self.check.failed(evidence, ran, None, context);
                }
                self.end.get_or_insert(CheckEnd::Green);
            }
            (true, true) => match context.base.by.clone() {
                Some(person) => {
                    let note = Some(Scrubbed::literal(breaker::AGAIN));
                    let resolved = Event::Incident(IncidentEvent::Resolved { note });
                    context.say_as(ONLY, person, vec![resolved]);
                }
                // Only a person settles an incident; it is left to one.
                None => self.end = Some(CheckEnd::Green),
            },
            (false, _) if !self.check.plan.can_repeat() => {
                context.note(ONLY, TOO_LARGE);
                self.end = Some(CheckEnd::NeedsPerson);
            }
            (false, has_incident) => {
                if !has_incident && let Some(ago) = self.green.green_ago() {
                    self.was_just_green = true;
                    self.proof.was_green_unrepaired();
                    let ago = ago.as_secs();
                    let text = format!("it was green {ago} s ago on the same files: once more");
                    context.note(ONLY, &text);
                }
                self.proof.was_red_unrepaired();
                if has_incident {
                    // An earlier run of Salve saw the failure, and now this one has.
                    context.saw(ONLY, examine(ran, context), ran.took)
                } else {
                    self.failed(ran, None, context)
                }
            }
        }
    }

    /// Tells that the command watches: it is no check, and there is nothing to heal.
    fn tell_watching(&mut self, context: &mut SubjectContext<'_, '_>) {
        let plan = &self.check.plan;
        let words: Vec<String> =
            plan.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let script = trials::script(&plan.dir, &words);
        let once = watching::ending_form(plan.command.as_str(), script.as_deref());
        context.base.reporter.remark(&plan.name, &Remark::Watches { once });
        self.end = Some(CheckEnd::Watches);
    }

    /// Takes in what the check showed in an agent's layer.
    fn shown_in_layer(
        &mut self,
        effect: DueEffect,
        shown: &ShownInLayer,
        context: &mut SubjectContext<'_, '_>,
    ) {
        match self.prover(effect, context).judge_in_layer(shown) {
            LayerVerdict::Told => {}
            LayerVerdict::Red(ran) => {
                self.proof.was_red();
                self.failed(ran, Some(effect), context);
            }
        }
    }

    fn failed(
        &self,
        ran: &CommandRunEnd,
        verifies: Option<DueEffect>,
        context: &mut SubjectContext<'_, '_>,
    ) {
        self.check.failed(examine(ran, context), ran, verifies, context);
    }

    fn prover<'p, 'c, 'a>(
        &'p mut self,
        effect: DueEffect,
        context: &'p mut SubjectContext<'c, 'a>,
    ) -> Prover<'p, 'c, 'a> {
        let (plan, terms, state) = (&self.check.plan, self.terms, &mut self.proof);
        Prover { plan, terms, state, news: self.news.sender(), effect, context }
    }
}

/// Finds out what a failure of a check is.
pub(super) fn examine(ran: &CommandRunEnd, context: &SubjectContext<'_, '_>) -> Evidence {
    let base = &*context.base;
    let mut evidence =
        Evidence::of(&ran.output, Some(&ran.exit), base.rules, &base.writer.scrubber);
    let case = context.cases.get(ONLY);
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

/// Returns whether the check was ended because it took too long: it would again.
fn outlived_its_limit(case: &Case) -> bool {
    case.seen().is_some_and(|seen| seen.judged_as == ProcessExit::TimedOut)
}

impl Subjects for CheckSubject<'_> {
    fn names(&self) -> Vec<String> {
        vec![self.check.plan.name.clone()]
    }

    fn opening(&self, _: usize, base: &RunBase<'_>) -> OpeningTerms {
        let subject: Subject = self.check.plan.subject(&base.writer.scrubber);
        let mut policy = self.terms.policy(&base.terms);
        if self.reported.is_worked_on() {
            // The check is green: nobody has to wait for what was reported.
            policy.at_a_loss = AtALoss::Close;
            policy.limits.attempts = policy.limits.attempts.map(|most| most.min(ISSUE_ATTEMPTS));
        }
        OpeningTerms { subject, policy, left: base.left_of(self.terms.run_limits) }
    }

    fn place(&self, _: usize, base: &RunBase<'_>) -> FailurePlace {
        self.check.plan.place(base)
    }

    fn command(&self, _: usize) -> Scrubbed {
        self.check.plan.command.clone()
    }

    fn resorts(&self, _: usize, case: &Case, diagnosis: &Diagnosis, _: &RunBase<'_>) -> Resorts {
        let is_passing = case.seen().is_some_and(|seen| seen.symptom.class.may_pass());
        let may_be_flaky = match diagnosis.nature {
            Nature::Transient | Nature::Infrastructure | Nature::Code => false,
            Nature::Unknown => is_passing,
        };
        let is_tried = case.reruns() < self.terms.reruns && !outlived_its_limit(case);
        let own = if may_be_flaky && is_tried { vec![RemedyWay::Again] } else { Vec::new() };
        Resorts { again: AGAIN, own }
    }

    fn may_run_again(&self, _: usize, case: &Case, _: &RunBase<'_>) -> bool {
        // The same failure without any change is no news the fourth time.
        let is_news = case.reruns() < self.terms.reruns.max(SAME_AGAIN);
        !self.reported.is_worked_on() && is_news && !outlived_its_limit(case)
    }

    fn runs_again_first(&self, _: usize, case: &Case) -> bool {
        self.was_just_green && case.reruns() == 0 && !outlived_its_limit(case)
    }

    fn takes_variables(&self) -> bool {
        true
    }

    fn set_variables(&mut self, _: usize, change: EnvironmentChange<'_>) {
        self.check.plan.env = self.environment.change(change);
    }

    fn brief(&self, _: usize, brief: &CheckBrief) -> String {
        if self.reported.is_worked_on() {
            return check::issue_brief(brief);
        }
        check::brief(brief)
    }

    fn verify(
        &mut self,
        _: usize,
        effect: DueEffect,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let trial = context.cases.get(ONLY).and_then(Case::trial);
        let is_again = trial.is_some_and(|trial| trial.remedy.kind == RemedyKind::Retry);
        self.proof.begin(is_again);
        self.start(Some(effect), context.base);
        Ok(())
    }

    fn verify_in_layer(
        &mut self,
        _: usize,
        effect: DueEffect,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        self.prover(effect, context).show_in_layer();
        Ok(())
    }

    fn closed(&mut self, _: usize, over: &Incident, context: &mut SubjectContext<'_, '_>) {
        self.healed = Some(over.id());
        self.proof = ProofState::default();
        self.was_just_green = false;
        let salve_core::incident::Phase::Closed(outcome) = over.phase() else { return };
        match outcome {
            IncidentOutcome::Recovered(proof) => {
                self.check.keep_checkpoint(context);
                self.end = Some(CheckEnd::Healed(proof));
            }
            // What a person settled is shown by the check itself.
            IncidentOutcome::Resolved => {
                self.check.settled = Some(over.id());
                self.start(None, context.base);
            }
            IncidentOutcome::Unhealed if self.reported.is_worked_on() => {
                self.end = Some(CheckEnd::Green);
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
        let is_due = self.check.is_to_begin(context) || self.is_unseen(context);
        if is_due && !self.check.is_running() {
            self.start(None, context.base);
        }
        if self.end.is_some() {
            return Ok(None);
        }
        Ok(match self.check.look_at_pause(context) {
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
            Some(CheckNews::Tried { effect, trials }) if context.is_due(ONLY, effect) => {
                self.prover(effect, context).tried(&trials);
            }
            Some(CheckNews::ShownInLayer { effect, shown }) if context.is_due(ONLY, effect) => {
                self.shown_in_layer(effect, &shown, context);
            }
            Some(CheckNews::Moved { effect, report }) if context.is_due(ONLY, effect) => {
                if self.prover(effect, context).is_moved(&report) {
                    self.start(Some(effect), context.base);
                }
            }
            // Of an effect that is over.
            Some(
                CheckNews::Tried { .. } | CheckNews::ShownInLayer { .. } | CheckNews::Moved { .. },
            )
            | None => {}
        }
        Ok(())
    }

    fn stop(&mut self, signal: i32, context: &mut SubjectContext<'_, '_>) {
        self.check.end(signal, context.base);
    }

    fn is_idle(&self) -> bool {
        !self.check.is_running()
    }

    fn is_over(&mut self, cases: &[Case], base: &RunBase<'_>) -> bool {
        match self.check.person_wait(cases, base.presence) {
            PersonWait::Here if cases.get(ONLY).is_some_and(decides) => return false,
            // A red check returns, as the bare command does: another try is another run of it.
            PersonWait::Here | PersonWait::Away => {
                self.end.get_or_insert(CheckEnd::NeedsPerson);
            }
            PersonWait::None => {}
        }
        self.end.is_some()
    }

    fn opened(&mut self, _: usize, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        self.check.tidy_records(context);
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
        if !self.check.is_running() {
            self.start(None, context.base);
        }
        Ok(true)
    }

    fn keep_evidence(&mut self, _: usize, log: FailureLog, context: &mut SubjectContext<'_, '_>) {
        self.check.keep_evidence(&log, context);
    }

    fn recorded(
        &mut self,
        _: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        self.check.keep_incident(context)
    }

    fn called_off(&mut self, _: usize) {
        self.check.stop();
    }

    fn taken_away(&mut self, _: usize) {
        self.end = Some(CheckEnd::CalledOff);
    }

    fn is_held(&self, _: usize, _: &Case) -> bool {
        self.end.is_some()
    }
}

/// Tells whether a person's yes has something done that is ready.
fn decides(case: &Case) -> bool {
    let phase = case.incident().map(Incident::phase);
    matches!(phase, Some(Phase::Asking { question, .. }) if question.is_decision())
}
