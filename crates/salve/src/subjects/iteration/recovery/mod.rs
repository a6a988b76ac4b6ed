//! The recovery of a loop's tests that could not execute.
//!
//! It is a subject of its own: the tests of one loop, which are well when they execute. Whether
//! they pass is the loop's own business. What the loop's tester proposes in `recovery.json` is
//! offered first; without a proposal Salve drafts one.

mod offers;
mod proposal;
mod seen_tests;
mod sought;

use std::time::Instant;

use salve_core::check::proof::Colour;
use salve_core::check::{self, CheckBrief, Results};
use salve_core::event::{
    Digest, Effect, EffectReport, Event, IncidentEvent, IncidentOutcome, ProcessExit, Proposed,
    RecoveryEvent,
};
use salve_core::incident::{DueEffect, Incident, Phase, RemedyFate};
use salve_core::playbook::Diagnosis;
use salve_core::recovery::{self, DraftedFailure, TestsTrouble};
use salve_core::scrub::Scrubbed;

use self::offers::RecoveryOffers;
use self::proposal::ProposalWatch;
use self::seen_tests::{SeenTests, diagnose, examine, is_rerun};
use self::sought::SoughtRecovery;
use crate::config::ChangedManifest;
use crate::heal::cause::{Evidence, FailurePlace};
use crate::heal::failure_log::FailureLog;
use crate::heal::inbox::NewsQueue;
use crate::heal::judging_command::{JudgingCommand, ONLY, PersonClock, PersonWait};
use crate::heal::loop_files::LoopFiles;
use crate::heal::loops::{Recovered, Recovery, Sought};
use crate::heal::records::Records;
use crate::heal::recovery_file::Turn;
use crate::heal::remedies::Offer;
use crate::heal::run::{CommandPlan, CommandRunEnd};
use crate::heal::{
    Case, OpeningTerms, PauseStanding, Remark, Resorts, RunBase, RunEnd, SubjectContext, Subjects,
};
use crate::process::Capture;
use crate::store::StoreError;

/// What running the tests again is called.
const AGAIN: &str = "run it again";

/// How recoveries go, the same for all of a loop.
#[derive(Clone, Debug)]
pub struct RecoveryTerms {
    /// What one incident may spend.
    pub limits: salve_core::event::ResourceLimits,
    /// How often the same failure may come back in the same files.
    pub no_progress_limit: u32,
    /// After how many failures in a row everything is undone.
    pub rollback_after: u32,
    /// What happens in a loop whose run changed what is installed.
    pub changed_manifest: ChangedManifest,
}

/// The tests that are to be recovered, and what that is done with.
pub struct RecoveryTests<'r> {
    /// How they are run; the name is the loop's.
    pub plan: CommandPlan,
    /// How the recovery goes.
    pub terms: &'r RecoveryTerms,
    /// What takes their output.
    pub capture: Capture,
    /// What keeps the records of heals.
    pub records: &'r mut Records,
}

/// The tests of one loop while they are recovered.
pub struct RecoverySubject<'r> {
    terms: &'r RecoveryTerms,
    tests: JudgingCommand<'r>,
    news: NewsQueue<RecoveryNews>,
    sought: SoughtRecovery,
    seen: SeenTests,
    proposal: ProposalWatch,
    person: PersonClock,
    outcome: Option<Recovered>,
}

/// Something that happened to the tests.
#[derive(Debug)]
struct RecoveryNews {
    /// The effect that this run was to verify.
    verifies: Option<DueEffect>,
    /// How the tests came out.
    ran: CommandRunEnd,
}

impl<'r> RecoverySubject<'r> {
    /// Makes a recovery of the tests of the loop that the plan is named after.
    pub fn new(tests: RecoveryTests<'r>, sought: Sought, base: &RunBase<'_>) -> Self {
        let RecoveryTests { plan, terms, capture, records } = tests;
        let Sought { iteration, first, since, began, dir } = sought;
        let files = LoopFiles::new(dir, base.project.root(), &plan.name);
        let (name, changed, complaint) = (plan.name.clone(), Vec::new(), None);
        Self {
            terms,
            news: NewsQueue::new(base.inbox.sender()),
            sought: SoughtRecovery { name, iteration, since, first, files, changed, complaint },
            seen: SeenTests::new(&plan),
            proposal: ProposalWatch::new(Turn { iteration, began }),
            person: PersonClock::default(),
            outcome: None,
            tests: JudgingCommand::new(plan, capture, records),
        }
    }

    /// Takes the tests to where they execute, or to a person.
    ///
    /// Where the project is attended, this waits for as long as a person takes; an earlier run's
    /// question goes on being asked.
    pub fn run(mut self, base: &mut RunBase<'_>) -> Result<Recovery, StoreError> {
        if let Some(clock) = self.sought.files.view(base.writer.store)?.clock() {
            // Where the clock was set back since, cooldowns would last longer by as much.
            base.writer.go_on_from(clock);
        }
        let since = Instant::now();
        let end = base.care_for(&mut self);
        self.sought.tell_loop(base);
        let how = match end? {
            RunEnd::Stopped(signal) => Recovered::Stopped(signal),
            RunEnd::Over => self.outcome.unwrap_or(Recovered::Declined(None)),
        };
        let worked = since.elapsed().saturating_sub(self.person.waited());
        Ok(Recovery { how, worked, seen: self.proposal.stamp })
    }

    /// Runs the tests, to verify an effect if one is given.
    fn start(&mut self, verifies: Option<DueEffect>, base: &mut RunBase<'_>) {
        if !self.seen.has_tests {
            return self.take_testers_word(verifies);
        }
        let news = self.news.sender();
        self.tests.start(verifies, base, move |ran| {
            // Nobody is left to tell when the run is over.
            let _ = news.send(RecoveryNews { verifies, ran });
        });
    }

    /// Takes the tester's word for how the tests come out, where there are none to run.
    fn take_testers_word(&self, verifies: Option<DueEffect>) {
        let lines = self.proposal.found.as_ref().map(|found| found.diagnosis.evidence.join("\n"));
        let (code, output) = match verifies {
            Some(_) => (0, String::new()),
            None => (1, lines.unwrap_or_default()),
        };
        let ran =
            CommandRunEnd { exit: ProcessExit::Code(code), output, ..CommandRunEnd::nothing() };
        // Nobody is left to tell when the run is over.
        let _ = self.news.sender().send(RecoveryNews { verifies, ran });
    }

    /// Begins with the first run: that of the loop, or one of our own.
    fn begin(&mut self, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        self.proposal.read(&self.sought, context)?;
        let Some(first) = self.sought.first.take() else {
            self.start(None, context.base);
            return Ok(());
        };
        if self.proposal.found.is_none() || self.is_well(&first, context) {
            return self.ran(None, first, context);
        }
        // Somebody else worked since: what is to be recovered from has to be seen again.
        self.seen.before = 1;
        self.start(None, context.base);
        Ok(())
    }

    /// Takes in how the tests came out.
    fn ran(
        &mut self,
        verifies: Option<DueEffect>,
        ran: CommandRunEnd,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        if !self.tests.has_ended(&ran, context) {
            return Ok(());
        }
        let is_well = self.is_well(&ran, context);
        match verifies {
            None if context.incident(ONLY).is_some() => {
                self.shown_again(&ran, is_well, context);
                Ok(())
            }
            None => self.saw(&ran, is_well, context),
            Some(effect) if ran.stopped => {
                let reason = Scrubbed::literal("the check was stopped");
                context.finish(ONLY, effect, EffectReport::failed(reason));
                Ok(())
            }
            Some(effect) if is_well => {
                self.seen.prove(effect, context);
                Ok(())
            }
            Some(_) => {
                if is_rerun(context) {
                    self.seen.earlier.push(Colour::Red);
                }
                self.tests.failed(examine(&ran, context.base), &ran, verifies, context);
                Ok(())
            }
        }
    }

    /// Takes in how the tests came out, outside of any repair.
    fn saw(
        &mut self,
        ran: &CommandRunEnd,
        is_well: bool,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        if is_well {
            self.seen.say_nothing_to_recover(&self.proposal, &self.sought, context)?;
            self.tests.is_well(ran, context);
            self.outcome.get_or_insert(match self.seen.ailment {
                TestsTrouble::None => Recovered::Executes(ran.clone()),
                TestsTrouble::Code | TestsTrouble::Unknown | TestsTrouble::Infrastructure => {
                    Recovered::NotInfrastructure(ran.clone())
                }
            });
            return Ok(());
        }
        if self.has_to_look_twice() {
            self.seen.before = 1;
            self.start(None, context.base);
        } else if self.tests.settled.is_some() {
            // The person who settled it knows.
            context.note(ONLY, "a person settled it, and the tests still do not execute");
            self.outcome = Some(Recovered::Declined(self.seen.last.clone()));
        } else {
            self.seen.earlier = vec![Colour::Red; self.seen.before + 1];
            self.tests.failed(examine(ran, context.base), ran, None, context);
        }
        Ok(())
    }

    /// Tells whether the failure has to be seen once more before it is recovered from: only then is
    /// it sure that the tester's command helped.
    fn has_to_look_twice(&self) -> bool {
        let has_tests = self.seen.has_tests && self.tests.settled.is_none();
        self.seen.before == 0 && self.proposal.found.is_some() && has_tests
    }

    /// Takes in how the tests came out when an incident of an earlier run was to go on.
    fn shown_again(
        &mut self,
        ran: &CommandRunEnd,
        is_well: bool,
        context: &mut SubjectContext<'_, '_>,
    ) {
        self.seen.earlier.push(if is_well { Colour::Green } else { Colour::Red });
        context.saw(ONLY, examine(ran, context.base), ran.took);
        let phase = context.incident(ONLY).map(Incident::phase);
        if is_well {
            self.seen.is_well = true;
            if let Some(Phase::Asking { .. }) = phase {
                context.say(ONLY, vec![Event::Incident(IncidentEvent::Superseded {})]);
            }
        } else if self.seen.has_tests {
            self.ask_on(context);
        }
    }

    fn is_well(&mut self, ran: &CommandRunEnd, context: &SubjectContext<'_, '_>) -> bool {
        self.seen.judge(ran, &self.tests.plan, &self.proposal, context)
    }

    /// Drafts a proposal where the tester made none.
    fn draft(
        &mut self,
        evidence: &Evidence,
        context: &mut SubjectContext<'_, '_>,
    ) -> Option<Proposed> {
        let diagnosis = diagnose(evidence, &self.tests.plan, context.base);
        let failure = DraftedFailure {
            at: context.base.writer.now(),
            class: evidence.symptom.class,
            key_line: &evidence.symptom.key_line,
            output: &evidence.output,
            execution: self.seen.execution,
            diagnosis: &diagnosis,
        };
        self.proposal.draft(&failure, &self.sought, context)
    }

    fn find_offers(
        &mut self,
        base: &mut RunBase<'_>,
        case: &Case,
    ) -> Result<Vec<Offer>, StoreError> {
        let Self { terms, sought, seen, proposal, .. } = self;
        RecoveryOffers { terms, sought, seen, proposal }.find(base, case)
    }

    /// Says what an earlier run of Salve asked and nobody has answered.
    fn ask_on(&self, context: &mut SubjectContext<'_, '_>) {
        let asks = context.incident(ONLY).filter(|one| matches!(one.phase(), Phase::Asking { .. }));
        if let Some(incident) = asks.map(Incident::id) {
            context.base.reporter.remark(&self.tests.plan.name, &Remark::Asks { incident });
        }
    }
}

/// Tells whether the tests have to be seen before an incident of an earlier run goes on.
fn is_blind(case: &Case) -> bool {
    let Some(incident) = case.incident().filter(|_| case.seen().is_none()) else { return false };
    match incident.phase() {
        Phase::Choosing | Phase::Asking { .. } => true,
        Phase::Due { what, .. } => matches!(what, Effect::Snapshot | Effect::Apply { .. }),
        Phase::Doing { .. }
        | Phase::CoolingDown { .. }
        | Phase::Ending { .. }
        | Phase::Closed(_) => false,
    }
}

impl Subjects for RecoverySubject<'_> {
    fn names(&self) -> Vec<String> {
        vec![self.tests.plan.name.clone()]
    }

    fn opening(&self, _: usize, base: &RunBase<'_>) -> OpeningTerms {
        let subject = self.tests.plan.subject(&base.writer.scrubber);
        let policy = salve_core::event::IncidentPolicy {
            no_progress_limit: Some(self.terms.no_progress_limit),
            catastrophe_after: Some(self.terms.rollback_after),
            ..base.terms.policy(self.terms.limits)
        };
        OpeningTerms { subject, policy, left: Default::default() }
    }

    fn place(&self, _: usize, base: &RunBase<'_>) -> FailurePlace {
        self.tests.plan.place(base)
    }

    fn command(&self, _: usize) -> Scrubbed {
        self.tests.plan.command.clone()
    }

    fn resorts(&self, _: usize, _: &Case, _: &Diagnosis, _: &RunBase<'_>) -> Resorts {
        Resorts { again: AGAIN, own: Vec::new() }
    }

    fn brief(&self, _: usize, brief: &CheckBrief) -> String {
        check::brief(brief)
    }

    fn results(&self, _: usize, _: &str, _: &RunBase<'_>) -> Results {
        Results::default()
    }

    fn verify(
        &mut self,
        _: usize,
        effect: DueEffect,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        self.start(Some(effect), context.base);
        Ok(())
    }

    fn closed(&mut self, _: usize, over: &Incident, context: &mut SubjectContext<'_, '_>) {
        self.seen.earlier.clear();
        let Phase::Closed(outcome) = over.phase() else { return };
        match outcome {
            IncidentOutcome::Recovered(_) => {
                self.tests.keep_checkpoint(context);
                match &self.seen.last {
                    // An earlier run of Salve saw them execute: they are to show it again.
                    None if self.seen.has_tests => self.start(None, context.base),
                    // Without tests there is nothing to see.
                    None => self.outcome = Some(Recovered::Executes(CommandRunEnd::nothing())),
                    Some(ran) => self.outcome = Some(Recovered::Executes(ran.clone())),
                }
            }
            // What a person settled is shown by the tests themselves.
            IncidentOutcome::Resolved => {
                self.tests.settled = Some(over.id());
                self.start(None, context.base);
            }
            IncidentOutcome::Unhealed => self.outcome = Some(Recovered::NeedsPerson),
            IncidentOutcome::GivenUp | IncidentOutcome::Aborted => {
                self.outcome = Some(Recovered::Declined(self.seen.last.clone()));
            }
        }
    }

    fn tend(
        &mut self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<Instant>, StoreError> {
        if self.tests.is_to_begin(context) {
            self.begin(context)?;
        }
        self.person.count(|| {
            let waits = |one: &Incident| {
                matches!(one.phase(), Phase::Asking { .. }) || one.paused_by().is_some()
            };
            !self.tests.is_running() && context.incident(ONLY).is_some_and(waits)
        });
        self.sought.tell_loop(context.base);
        if self.outcome.is_some() {
            return Ok(None);
        }
        let pause = match self.tests.look_at_pause(context) {
            PauseStanding::None => None,
            PauseStanding::Waits(until) => Some(until),
            PauseStanding::TooLong => {
                self.outcome = Some(Recovered::NeedsPerson);
                return Ok(None);
            }
        };
        let phase = context.incident(ONLY).map(Incident::phase);
        let Some(Phase::Asking { .. }) = phase else { return Ok(pause) };
        let look_at = self.proposal.look_again(&self.sought, context)?;
        Ok([pause, Some(look_at)].into_iter().flatten().min())
    }

    fn hear(&mut self, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        match self.news.next() {
            Some(RecoveryNews { verifies, ran }) => self.ran(verifies, ran, context),
            None => Ok(()),
        }
    }

    fn stop(&mut self, signal: i32, context: &mut SubjectContext<'_, '_>) {
        self.tests.end(signal, context.base);
    }

    fn is_idle(&self) -> bool {
        !self.tests.is_running()
    }

    fn is_over(&mut self, cases: &[Case], base: &RunBase<'_>) -> bool {
        match self.tests.person_wait(cases, base.presence) {
            PersonWait::Away => self.outcome = Some(Recovered::NeedsPerson),
            PersonWait::Here => return false,
            PersonWait::None => {}
        }
        self.outcome.is_some()
    }

    fn has_breakers(&self) -> bool {
        false
    }

    fn offers(
        &mut self,
        _: usize,
        base: &mut RunBase<'_>,
        case: &Case,
    ) -> Result<Option<Vec<Offer>>, StoreError> {
        self.find_offers(base, case).map(Some)
    }

    fn nothing_left(&self, incident: &Incident, base: &RunBase<'_>) -> IncidentEvent {
        let tried = incident.tried();
        let is_denied = !tried.is_empty() && tried.iter().all(|one| one.fate == RemedyFate::Denied);
        if is_denied && base.remedies.policy.denies_unknown() {
            // Whoever has unknown commands denied does not want to be asked about them.
            IncidentEvent::Ended { outcome: IncidentOutcome::Aborted }
        } else {
            IncidentEvent::NothingLeft {}
        }
    }

    fn withdrawn(
        &mut self,
        at: usize,
        digest: Digest,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<&'static str>, StoreError> {
        let is_new = self.proposal.take_in_change(&self.sought, context)?;
        let Some(case) = context.cases.get(at) else { return Ok(None) };
        if !is_new && case.knows(digest) {
            return Ok(None);
        }
        let offers = self.find_offers(context.base, case)?;
        if offers.iter().any(|offer| offer.candidate.remedy.digest == digest) {
            return Ok(None);
        }
        Ok(Some(if self.seen.is_well {
            "the tests execute by now, so it was not run"
        } else {
            "something else is proposed by now, so it was not run"
        }))
    }

    /// Puts on record what is sought, and what is proposed for it.
    fn opened(
        &mut self,
        at: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        self.tests.tidy_records(context);
        self.sought.look_at_manifests(context.base)?;
        let (iteration, changed) = (self.sought.iteration, self.sought.changed.clone());
        let mut events = vec![Event::Recovery(RecoveryEvent::Sought { iteration, changed })];
        let seen = context.cases.get(at).and_then(Case::seen).cloned();
        let proposed = match (&self.proposal.found, seen) {
            (Some(proposal), _) => {
                Some(recovery::proposed(proposal, &context.base.writer.scrubber))
            }
            (None, Some(seen)) => self.draft(&seen, context),
            (None, None) => None,
        };
        let proposed = proposed.map(Box::new);
        events
            .extend(proposed.map(|proposal| Event::Recovery(RecoveryEvent::Proposed { proposal })));
        context.say(at, events);
        Ok(())
    }

    /// Takes up an incident of an earlier run: what it asks goes on being asked, and what was
    /// approved meanwhile is done once the tests have been seen to fail again.
    fn resumed(
        &mut self,
        at: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        self.seen.earlier = vec![Colour::Red];
        self.proposal.recall(&mut self.sought, context)?;
        self.sought.look_at_manifests(context.base)?;
        if !self.seen.has_tests {
            self.ask_on(context);
        }
        if context.cases.get(at).is_some_and(is_blind) {
            self.start(None, context.base);
        }
        Ok(())
    }

    fn shows_again(
        &mut self,
        _: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<bool, StoreError> {
        if !self.tests.is_running() {
            self.start(None, context.base);
        }
        Ok(true)
    }

    fn keep_evidence(&mut self, _: usize, log: FailureLog, context: &mut SubjectContext<'_, '_>) {
        self.tests.keep_evidence(&log, context);
    }

    fn recorded(
        &mut self,
        _: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        self.tests.keep_incident(context)
    }

    fn called_off(&mut self, _: usize) {
        self.tests.stop();
    }

    fn taken_away(&mut self, _: usize) {
        self.outcome = Some(Recovered::Declined(self.seen.last.clone()));
    }

    fn is_held(&self, _: usize, case: &Case) -> bool {
        self.outcome.is_some() || (self.tests.is_running() && is_blind(case))
    }
}
