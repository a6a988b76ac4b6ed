//! The recovery of a loop's tests that could not execute.
//!
//! It is a subject of its own: the tests of one loop, which are well when they execute. Whether
//! they pass is the loop's own business. What the loop's tester proposes in `recovery.json` is
//! offered first; without a proposal Salve drafts one.

mod offers;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salve_core::check::proof::{self, Before, Colour, OldVerifier, Touched};
use salve_core::check::{self, CheckBrief, Counts, Results};
use salve_core::event::{
    Digest, Effect, EffectReport, Event, Exit, IncidentEvent, IncidentOutcome, Proof,
    ProposalSource, Proposed, RecoveryEvent, RemedyKind, RemedyOrigin,
};
use salve_core::gate::{RecoveryProposal, Which};
use salve_core::id::IncidentId;
use salve_core::incident::{DueEffect, Incident, Phase, RemedyFate};
use salve_core::playbook::{Diagnosis, Nature};
use salve_core::recovery::{self, DraftedFailure, Execution, TestsTrouble};
use salve_core::scrub::Scrubbed;

use crate::config::ChangedManifest;
use crate::heal::cause::{self, Evidence, FailurePlace};
use crate::heal::failure_log::FailureLog;
use crate::heal::files::with_causes;
use crate::heal::inbox::NewsQueue;
use crate::heal::loop_files::LoopFiles;
use crate::heal::loops::{Recovered, Recovery, Sought};
use crate::heal::manifests;
use crate::heal::records::Records;
use crate::heal::recovery_file::{self, FoundProposal, ProposalStamp, Turn};
use crate::heal::remedies::Offer;
use crate::heal::run::{self, CommandPlan, CommandRunEnd, Stopper};
use crate::heal::{
    Case, OpeningTerms, PauseStanding, PauseWatch, Presence, Remark, Resorts, RunBase, RunEnd,
    SeenFailure, SubjectContext, Subjects, VerifiedFinding,
};
use crate::process::Capture;
use crate::store::StoreError;

/// How often it is looked whether something else is proposed while a person is asked.
const LOOK: Duration = Duration::from_millis(200);

/// What running the tests again is called.
const AGAIN: &str = "run it again";

/// The place of the tests among the subjects of their run.
const AT: usize = 0;

/// How recoveries go, the same for all of a loop.
#[derive(Clone, Debug)]
pub struct RecoveryTerms {
    /// What one incident may spend.
    pub limits: salve_core::event::Limits,
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
    plan: CommandPlan,
    terms: &'r RecoveryTerms,
    capture: Arc<Capture>,
    records: &'r mut Records,
    news: NewsQueue<RecoveryNews>,
    /// The run of the tests that is under way.
    running: Option<Stopper>,
    outcome: Option<Recovered>,
    sought: SoughtRecovery,
    seen: SeenTests,
    proposal: ProposalWatch,
    pause: PauseWatch,
    /// The incident that a person settled, until the tests have shown it.
    settled: Option<IncidentId>,
    /// Since when a person is waited for and nothing else, if so.
    waits_since: Option<Instant>,
    /// How long a person was waited for.
    waited: Duration,
    /// Why something could not be kept, so that it is said once.
    complaint: Option<String>,
    is_begun: bool,
    is_ending: bool,
}

/// Something that happened to the tests.
#[derive(Debug)]
struct RecoveryNews {
    /// The effect that this run was to verify.
    verifies: Option<DueEffect>,
    /// How the tests came out.
    ran: CommandRunEnd,
}

/// What the loop wants recovered.
struct SoughtRecovery {
    /// The iteration of the loop.
    iteration: u32,
    /// The journal's entry at which the loop's run began.
    since: u64,
    /// How the loop saw the tests come out.
    first: Option<CommandRunEnd>,
    /// The loop's files.
    files: LoopFiles,
    /// What said what is installed and changed in this run of the loop.
    changed: Vec<Scrubbed>,
}

/// What was seen of the tests.
struct SeenTests {
    /// How the tests came out last.
    last: Option<CommandRunEnd>,
    /// What ails them.
    ailment: TestsTrouble,
    execution: Execution,
    /// How often they were seen to fail before this care of them.
    before: usize,
    /// How the unrepaired state came out, each time that it ran.
    earlier: Vec<Colour>,
    /// Whether they were found to execute while somebody was asked about them.
    is_well: bool,
}

/// The tester's proposal, and when its file was read.
struct ProposalWatch {
    found: Option<Box<RecoveryProposal>>,
    turn: Turn,
    stamp: ProposalStamp,
    look_at: Instant,
}

impl<'r> RecoverySubject<'r> {
    /// Makes a recovery of the tests of the loop that the plan is named after.
    pub fn new(tests: RecoveryTests<'r>, sought: Sought, base: &RunBase<'_>) -> Self {
        let RecoveryTests { plan, terms, capture, records } = tests;
        let Sought { iteration, first, since, began, dir } = sought;
        let files = LoopFiles::new(dir, base.project.root(), &plan.name);
        let seen = SeenTests {
            last: None,
            ailment: TestsTrouble::None,
            execution: Execution::All,
            before: 0,
            earlier: Vec::new(),
            is_well: false,
        };
        let turn = Turn { iteration, began };
        let proposal = ProposalWatch {
            found: None,
            turn,
            stamp: ProposalStamp::default(),
            look_at: Instant::now(),
        };
        Self {
            plan,
            terms,
            capture: Arc::new(capture),
            records,
            news: NewsQueue::new(base.inbox.sender()),
            running: None,
            outcome: None,
            sought: SoughtRecovery { iteration, since, first, files, changed: Vec::new() },
            seen,
            proposal,
            pause: PauseWatch::default(),
            settled: None,
            waits_since: None,
            waited: Duration::ZERO,
            complaint: None,
            is_begun: false,
            is_ending: false,
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
        self.tell_loop(base);
        let how = match end? {
            RunEnd::Stopped(signal) => Recovered::Stopped(signal),
            RunEnd::Over => self.outcome.unwrap_or(Recovered::Declined(None)),
        };
        let worked = since.elapsed().saturating_sub(self.waited);
        Ok(Recovery { how, worked, seen: self.proposal.stamp })
    }

    /// Runs the tests, to verify an effect if one is given.
    fn start(&mut self, verifies: Option<DueEffect>, base: &mut RunBase<'_>) {
        if self.has_no_tests() {
            return self.take_testers_word(verifies);
        }
        if verifies.is_none() {
            let command = self.plan.command.clone();
            base.reporter.remark(&self.plan.name, &Remark::Running { command });
        }
        let news = self.news.sender();
        let then = move |ran| {
            // Nobody is left to tell when the run is over.
            let _ = news.send(RecoveryNews { verifies, ran });
        };
        let (errand, capture) = (self.plan.errand(), self.capture.clone());
        self.running = Some(run::start(&base.care, &errand, capture, then));
    }

    /// Tells whether there is nothing to run by which Salve could see for itself.
    fn has_no_tests(&self) -> bool {
        self.plan.argv.is_empty()
    }

    /// Takes the tester's word for how the tests come out, where there are none to run.
    fn take_testers_word(&self, verifies: Option<DueEffect>) {
        let lines = self.proposal.found.as_ref().map(|found| found.diagnosis.evidence.join("\n"));
        let (code, output) = match verifies {
            Some(_) => (0, String::new()),
            None => (1, lines.unwrap_or_default()),
        };
        let ran = CommandRunEnd { exit: Exit::Code(code), output, ..CommandRunEnd::nothing() };
        // Nobody is left to tell when the run is over.
        let _ = self.news.sender().send(RecoveryNews { verifies, ran });
    }

    /// Begins with the first run: that of the loop, or one of our own.
    fn begin(&mut self, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        self.read_proposal(context)?;
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
        self.running = None;
        if self.is_ending {
            return Ok(());
        }
        context.left_behind(AT, ran.left);
        let is_well = self.is_well(&ran, context);
        match verifies {
            None if context.incident(AT).is_some() => {
                self.shown_again(&ran, is_well, context);
                Ok(())
            }
            None => self.saw(&ran, is_well, context),
            Some(effect) if ran.stopped => {
                let reason = Scrubbed::literal("the check was stopped");
                context.finish(AT, effect, EffectReport::failed(reason));
                Ok(())
            }
            Some(effect) if is_well => {
                self.prove(effect, context);
                Ok(())
            }
            Some(_) => {
                if is_rerun(context) {
                    self.seen.earlier.push(Colour::Red);
                }
                self.failed(&ran, verifies, context);
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
            if ran.is_green() {
                context.base.reporter.remark(&self.plan.name, &Remark::Green { took: ran.took });
            }
            self.say_nothing_to_recover(context)?;
            if let Some(id) = self.settled.take() {
                context.add(AT, id, Event::Incident(IncidentEvent::SeenGreen {}));
            }
            self.keep_checkpoint(context);
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
        } else if self.settled.is_some() {
            // The person who settled it knows.
            context.note(AT, "a person settled it, and the tests still do not execute");
            self.outcome = Some(Recovered::Declined(self.seen.last.clone()));
        } else {
            self.seen.earlier = vec![Colour::Red; self.seen.before + 1];
            self.failed(ran, None, context);
        }
        Ok(())
    }

    /// Tells whether the failure has to be seen once more before it is recovered from: only then is
    /// it sure that the tester's command helped.
    fn has_to_look_twice(&self) -> bool {
        let has_tests = !self.has_no_tests() && self.settled.is_none();
        self.seen.before == 0 && self.proposal.found.is_some() && has_tests
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

    /// Takes in how the tests came out when an incident of an earlier run was to go on.
    fn shown_again(
        &mut self,
        ran: &CommandRunEnd,
        is_well: bool,
        context: &mut SubjectContext<'_, '_>,
    ) {
        self.seen.earlier.push(if is_well { Colour::Green } else { Colour::Red });
        context.saw(AT, examine(ran, context), ran.took);
        let phase = context.incident(AT).map(Incident::phase);
        if is_well {
            self.seen.is_well = true;
            if let Some(Phase::Asking { .. }) = phase {
                context.say(AT, vec![Event::Incident(IncidentEvent::Superseded {})]);
            }
        } else if !self.has_no_tests() {
            self.ask_on(context);
        }
    }

    /// Tells whether a run came out as it should: the tests executed, or it is not for us.
    fn is_well(&mut self, ran: &CommandRunEnd, context: &SubjectContext<'_, '_>) -> bool {
        let (ailment, execution) = self.ailment(ran, context);
        let is_tried = context.incident(AT).is_some();
        let is_off = !context.base.remedies.policy.is_enabled() && !is_tried;
        self.seen.last = Some(ran.clone());
        (self.seen.ailment, self.seen.execution) = (ailment, execution);
        match ailment {
            TestsTrouble::None | TestsTrouble::Code => !ran.stopped,
            TestsTrouble::Infrastructure | TestsTrouble::Unknown if is_off => true,
            TestsTrouble::Infrastructure => false,
            // Only the tester claims that it is the infrastructure; what was begun goes on.
            TestsTrouble::Unknown => !(is_tried || self.proposal.found.is_some()),
        }
    }

    /// Finds out what ails tests that came out so.
    fn ailment(
        &self,
        ran: &CommandRunEnd,
        context: &SubjectContext<'_, '_>,
    ) -> (TestsTrouble, Execution) {
        match (self.has_no_tests(), ran.is_green(), self.proposal.found.is_some()) {
            (true, true, _) => return (TestsTrouble::None, Execution::All),
            (true, false, true) => return (TestsTrouble::Infrastructure, Execution::Nothing),
            (true, false, false) => return (TestsTrouble::Unknown, Execution::Nothing),
            (false, _, _) => {}
        }
        let evidence = examine(ran, context);
        let results = check::read(&ran.output).relative_to(&self.plan.dir.to_string_lossy());
        let class = evidence.symptom.class;
        let execution = recovery::executed(&results, class, &ran.exit);
        let nature = match execution {
            Execution::All => Nature::Unknown,
            Execution::InVain | Execution::Partly | Execution::Nothing => {
                self.diagnosis(&evidence, context.base).nature
            }
        };
        (recovery::ailment(execution, nature, class, results.tool), execution)
    }

    fn diagnosis(&self, evidence: &Evidence, base: &RunBase<'_>) -> Diagnosis {
        cause::diagnose(evidence, &self.plan.place(base), &base.writer.scrubber)
    }

    /// Says what it proves that the tests execute.
    fn prove(&self, effect: DueEffect, context: &mut SubjectContext<'_, '_>) {
        if self.has_no_tests() {
            let why = "there are no tests to run, so nothing is proven";
            return context.judged(AT, effect, VerifiedFinding::new(Proof::Transient, why));
        }
        let trial = context.cases.get(AT).and_then(Case::trial);
        let is_prescribed = trial.is_some_and(|trial| {
            trial.remedy.origin == RemedyOrigin::Playbook && trial.remedy.kind != RemedyKind::Retry
        });
        let changed = trial.and_then(|trial| trial.measured).and_then(|change| change.files);
        // What judges a loop's tests is the loop; here they only have to execute.
        let touched = match trial.map(|trial| trial.remedy.kind) {
            None | Some(RemedyKind::Retry) => Touched::Nothing,
            Some(_) if changed == Some(0) => Touched::Nothing,
            Some(_) => Touched::Outside,
        };
        let mut earlier = self.seen.earlier.clone();
        if is_rerun(context) {
            earlier.push(Colour::Green);
        }
        if is_prescribed {
            // The cause was seen in the project's own state, so it would have failed again.
            earlier.push(Colour::Red);
        }
        let judged = proof::judge(&proof::Evidence {
            now: Colour::Green,
            confirmed: None,
            touched,
            earlier: &earlier,
            before: Before::Off,
            old_verifier: OldVerifier::Untouched,
            weakenings: 0,
            counts_before: Counts::default(),
            counts_after: Counts::default(),
        });
        let why = judged.ground.to_string();
        context.judged(AT, effect, VerifiedFinding::new(judged.proof, &why));
    }

    /// Reads the tester's proposal, and says why what is there is none.
    fn read_proposal(&mut self, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        let path = self.sought.files.proposal();
        let (stamp, found) = recovery_file::read(&path, self.proposal.turn);
        self.proposal.stamp = stamp;
        match found {
            FoundProposal::Proposal(proposal) => self.proposal.found = Some(proposal),
            FoundProposal::Nothing => {}
            FoundProposal::Refused(refused) => self.refuse(&with_causes(&refused), context)?,
        }
        Ok(())
    }

    /// Puts on record that a proposal is not taken up.
    fn refuse(&self, reason: &str, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        let writer = &context.base.writer;
        let (name, reason) =
            (writer.scrubber.scrub(&self.plan.name), writer.scrubber.scrub(reason));
        let iteration = self.sought.iteration;
        context.note(AT, reason.as_str());
        let refused = RecoveryEvent::Refused { name, iteration, reason };
        context.base.writer.note(vec![Event::Recovery(refused)]).map(drop)
    }

    /// Says what was proposed in vain where there is nothing to recover from.
    fn say_nothing_to_recover(
        &self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let why = match self.seen.ailment {
            TestsTrouble::None => "the tests execute, so nothing is recovered",
            TestsTrouble::Code => "the code has to change, so nothing is recovered",
            TestsTrouble::Unknown | TestsTrouble::Infrastructure => "recovery is switched off",
        };
        let is_red = self.seen.last.as_ref().is_some_and(|ran| !ran.is_green());
        if self.proposal.found.is_some() && is_red {
            self.refuse(&format!("recovery.json is not taken up: {why}"), context)?;
        }
        Ok(())
    }

    /// Drafts a proposal where the tester made none.
    fn draft(
        &mut self,
        evidence: &Evidence,
        context: &mut SubjectContext<'_, '_>,
    ) -> Option<Proposed> {
        let diagnosis = self.diagnosis(evidence, context.base);
        let failure = DraftedFailure {
            at: context.base.writer.now(),
            class: evidence.symptom.class,
            key_line: &evidence.symptom.key_line,
            output: &evidence.output,
            execution: self.seen.execution,
            diagnosis: &diagnosis,
        };
        let draft = recovery::draft(&failure, &context.base.writer.scrubber)?;
        let written = self.sought.files.write_draft(&draft);
        self.proposal.stamp = recovery_file::stamp(&self.sought.files.proposal());
        if let Err(error) = written {
            let text = format!("recovery.json could not be written: {}", with_causes(&error));
            context.note(AT, &text);
        }
        Some(draft)
    }

    /// Looks whether something else is proposed by now, and asks anew then; tells whether it is.
    fn is_proposed_anew(
        &mut self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<bool, StoreError> {
        if recovery_file::stamp(&self.sought.files.proposal()) == self.proposal.stamp {
            return Ok(false);
        }
        let before = self.proposal.found.clone();
        self.read_proposal(context)?;
        let Some(proposal) = self.proposal.found.clone() else { return Ok(false) };
        if before.is_some_and(|old| wants_the_same(&old, &proposal)) {
            return Ok(false);
        }
        context.has_other_remedies(AT);
        let proposed = recovery::proposed(&proposal, &context.base.writer.scrubber);
        self.ask_anew(Box::new(proposed), context);
        Ok(true)
    }

    /// Puts on record what is proposed by now; what was asked about is then asked anew.
    fn ask_anew(&self, proposal: Box<Proposed>, context: &mut SubjectContext<'_, '_>) {
        let mut events = vec![Event::Recovery(RecoveryEvent::Proposed { proposal })];
        let phase = context.incident(AT).map(Incident::phase);
        if let Some(Phase::Asking { .. }) = phase {
            context.note(AT, "something else is proposed by now: it is asked anew");
            events.push(Event::Incident(IncidentEvent::Superseded {}));
        }
        context.say(AT, events);
    }

    /// Takes up the proposal of an incident that goes on: as its file has it, or the journal.
    ///
    /// Returns what is proposed now, if that is something else than what the journal knows of.
    fn recall_proposal(
        &mut self,
        context: &SubjectContext<'_, '_>,
    ) -> Result<Option<Box<Proposed>>, StoreError> {
        let Some(id) = context.incident(AT).map(Incident::id) else { return Ok(None) };
        let path = self.sought.files.proposal();
        let (stamp, found) = recovery_file::read(&path, self.proposal.turn);
        self.proposal.stamp = stamp;
        let view = self.sought.files.view(context.base.writer.store)?;
        let kept = view.recovery(id).and_then(|recovery| recovery.proposals().next_back());
        match found {
            FoundProposal::Proposal(proposal) => {
                let now = recovery::proposed(&proposal, &context.base.writer.scrubber);
                let is_known = kept.is_some_and(|kept| kept.wants_the_same(&now));
                self.proposal.found = Some(proposal);
                Ok((!is_known).then(|| Box::new(now)))
            }
            // What became of the file since does not take back what was proposed.
            FoundProposal::Nothing | FoundProposal::Refused(_) => {
                let kept = kept
                    .filter(|kept| kept.source == ProposalSource::Tester)
                    .map(recovery::to_json);
                let kept = kept.and_then(|kept| RecoveryProposal::read(&kept).ok());
                self.proposal.found = kept.map(Box::new);
                Ok(None)
            }
        }
    }

    /// Finds out what of what says what is installed changed in this run of the loop.
    fn look_at_manifests(&mut self, base: &RunBase<'_>) -> Result<(), StoreError> {
        let name = base.writer.scrubber.scrub(&self.plan.name);
        let (root, since): (&Path, u64) = (base.project.root(), self.sought.since);
        self.sought.changed = manifests::changed(&base.writer, root, &name, since)?;
        Ok(())
    }

    /// Says what an earlier run of Salve asked and nobody has answered.
    fn ask_on(&self, context: &mut SubjectContext<'_, '_>) {
        let asks = context.incident(AT).filter(|one| matches!(one.phase(), Phase::Asking { .. }));
        if let Some(incident) = asks.map(Incident::id) {
            context.base.reporter.remark(&self.plan.name, &Remark::Asks { incident });
        }
    }

    /// Keeps the counters as ones to go back to, now that the tests execute.
    fn keep_checkpoint(&mut self, context: &mut SubjectContext<'_, '_>) {
        let at = context.base.writer.now();
        if let Some(complaint) = self.records.checkpoint(at) {
            context.note(AT, &complaint);
        }
    }

    /// Writes what the journal says into the loop's files.
    fn tell_loop(&mut self, base: &mut RunBase<'_>) {
        if let Err(error) = self.sought.files.refresh(base.writer.store) {
            let complaint = with_causes(&error);
            if self.complaint.as_ref() != Some(&complaint) {
                let text = format!("the loop's files could not be written: {complaint}");
                base.note(&self.plan.name, &text);
                self.complaint = Some(complaint);
            }
        }
    }

    /// Counts the time in which a person is waited for and nothing else.
    fn count_waiting(&mut self, context: &SubjectContext<'_, '_>) {
        if let Some(since) = self.waits_since.take() {
            self.waited += since.elapsed();
        }
        let waits = context.incident(AT).filter(|_| self.running.is_none()).is_some_and(|one| {
            matches!(one.phase(), Phase::Asking { .. }) || one.paused_by().is_some()
        });
        self.waits_since = waits.then(Instant::now);
    }

    fn stop_running(&self) {
        if let Some(running) = &self.running {
            running.stop();
        }
    }
}

/// Finds out what a failure of the tests is.
fn examine(ran: &CommandRunEnd, context: &SubjectContext<'_, '_>) -> Evidence {
    let base = &*context.base;
    Evidence::of(&ran.output, Some(&ran.exit), base.rules, &base.writer.scrubber)
}

/// Tells whether the tests were only run again.
fn is_rerun(context: &SubjectContext<'_, '_>) -> bool {
    let trial = context.cases.get(AT).and_then(Case::trial);
    trial.is_some_and(|trial| trial.remedy.kind == RemedyKind::Retry)
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

/// Tells whether two proposals want the very same done.
fn wants_the_same(one: &RecoveryProposal, other: &RecoveryProposal) -> bool {
    let request = |proposal: &RecoveryProposal, which| proposal.request(which).ok().cloned();
    let same = |which| request(one, which) == request(other, which);
    same(Which::Recovery) && same(Which::Fallback)
}

impl Subjects for RecoverySubject<'_> {
    fn names(&self) -> Vec<String> {
        vec![self.plan.name.clone()]
    }

    fn opening(&self, _: usize, base: &RunBase<'_>) -> OpeningTerms {
        let subject = self.plan.subject(&base.writer.scrubber);
        let policy = salve_core::event::IncidentPolicy {
            no_progress_limit: Some(self.terms.no_progress_limit),
            catastrophe_after: Some(self.terms.rollback_after),
            ..base.terms.policy(self.terms.limits)
        };
        OpeningTerms { subject, policy, left: Default::default() }
    }

    fn place(&self, _: usize, base: &RunBase<'_>) -> FailurePlace {
        self.plan.place(base)
    }

    fn command(&self, _: usize) -> Scrubbed {
        self.plan.command.clone()
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
                self.keep_checkpoint(context);
                match &self.seen.last {
                    // An earlier run of Salve saw them execute: they are to show it again.
                    None if !self.has_no_tests() => self.start(None, context.base),
                    // Without tests there is nothing to see.
                    None => self.outcome = Some(Recovered::Executes(CommandRunEnd::nothing())),
                    Some(ran) => self.outcome = Some(Recovered::Executes(ran.clone())),
                }
            }
            // What a person settled is shown by the tests themselves.
            IncidentOutcome::Resolved => {
                self.settled = Some(over.id());
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
        let is_new = !std::mem::replace(&mut self.is_begun, true);
        if is_new && context.incident(AT).is_none() && !self.is_ending {
            self.begin(context)?;
        }
        self.count_waiting(context);
        self.tell_loop(context.base);
        if self.outcome.is_some() {
            return Ok(None);
        }
        let pause = match self.pause.look(AT, context) {
            PauseStanding::None => None,
            PauseStanding::Waits(until) => Some(until),
            PauseStanding::TooLong => {
                self.outcome = Some(Recovered::NeedsPerson);
                return Ok(None);
            }
        };
        let phase = context.incident(AT).map(Incident::phase);
        let Some(Phase::Asking { .. }) = phase else { return Ok(pause) };
        if Instant::now() >= self.proposal.look_at {
            self.proposal.look_at = Instant::now() + LOOK;
            self.is_proposed_anew(context)?;
        }
        Ok([pause, Some(self.proposal.look_at)].into_iter().flatten().min())
    }

    fn hear(&mut self, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        match self.news.next() {
            Some(RecoveryNews { verifies, ran }) => self.ran(verifies, ran, context),
            None => Ok(()),
        }
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
            (true, Presence::Unattended) => self.outcome = Some(Recovered::NeedsPerson),
            (true, Presence::Attended) => return false,
            (false, _) => {}
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
        match is_denied && base.remedies.policy.denies_unknown() {
            // Whoever has unknown commands denied does not want to be asked about them.
            true => IncidentEvent::Ended { outcome: IncidentOutcome::Aborted },
            false => IncidentEvent::NothingLeft {},
        }
    }

    fn withdrawn(
        &mut self,
        at: usize,
        digest: Digest,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<&'static str>, StoreError> {
        let is_new = self.is_proposed_anew(context)?;
        let Some(case) = context.cases.get(at) else { return Ok(None) };
        if !is_new && case.knows(digest) {
            return Ok(None);
        }
        let offers = self.find_offers(context.base, case)?;
        if offers.iter().any(|offer| offer.candidate.remedy.digest == digest) {
            return Ok(None);
        }
        Ok(Some(match self.seen.is_well {
            true => "the tests execute by now, so it was not run",
            false => "something else is proposed by now, so it was not run",
        }))
    }

    /// Puts on record what is sought, and what is proposed for it.
    fn opened(
        &mut self,
        at: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        if let Some(incident) = context.incident(at) {
            self.records.tidy(incident.id(), std::time::SystemTime::now());
        }
        self.look_at_manifests(context.base)?;
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
        if let Some(proposal) = self.recall_proposal(context)? {
            self.ask_anew(proposal, context);
        }
        self.look_at_manifests(context.base)?;
        if self.has_no_tests() {
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
        self.outcome = Some(Recovered::Declined(self.seen.last.clone()));
    }

    fn is_held(&self, _: usize, case: &Case) -> bool {
        self.outcome.is_some() || (self.running.is_some() && is_blind(case))
    }
}
