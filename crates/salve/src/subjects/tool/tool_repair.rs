//! The source of one tool under repair: a person approved a patch, or lets an agent try.
//!
//! The failure is the one that was told; the tool is called only once for each attempt, to show
//! whether that helped. What did not help is undone.
//!
//! **Invariant:** the only remedies are those that a person asked for when the repair began.

use std::time::Instant;

use salve_core::check::{self, CheckBrief};
use salve_core::event::{
    AtALoss, EffectReport, IncidentOutcome, IncidentPolicy, OnFailure, Proof, RepairMode,
    ResourceLimits,
};
use salve_core::incident::{DueEffect, Incident, Phase};
use salve_core::playbook::Diagnosis;
use salve_core::scrub::Scrubbed;

use crate::heal::cause::{Evidence, FailurePlace};
use crate::heal::failure_log::FailureLog;
use crate::heal::inbox::NewsQueue;
use crate::heal::judging_command::{JudgingCommand, ONLY, PersonWait};
use crate::heal::patches;
use crate::heal::records::Records;
use crate::heal::remedies::{self, Offer, RemedyWay};
use crate::heal::run::{CommandPlan, CommandRunEnd};
use crate::heal::{
    Case, OpeningTerms, Resorts, RunBase, RunEnd, SeenFailure, SubjectContext, Subjects,
    VerifiedFinding,
};
use crate::process::Capture;
use crate::store::StoreError;
use crate::workspace::FileChange;

/// What a person lets be tried.
#[derive(Clone, Debug)]
pub enum ToolRepairWay {
    /// Exactly this patch, which changes these files.
    Patch {
        /// The patch.
        text: Vec<u8>,
        /// What it changes.
        files: Vec<FileChange>,
    },
    /// Turns of an agent, within these limits.
    Agent(ResourceLimits),
}

/// What is tried, and for which failure.
#[derive(Clone, Debug)]
pub struct ToolRepairTerms {
    /// What a person lets be tried.
    pub way: ToolRepairWay,
    /// What the tool said.
    pub error: String,
}

/// How the repair of a tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolRepairEnd {
    /// The tool works, and the change stays.
    Works,
    /// It does not, and nothing was changed.
    Fails,
    /// The change is larger than what is kept without a person.
    NeedsPerson,
    /// The user wanted it to end, by this signal.
    Stopped(i32),
}

/// One tool whose source is repaired.
pub struct ToolRepair<'r> {
    call: JudgingCommand<'r>,
    way: ToolRepairWay,
    /// What the tool said.
    error: String,
    news: NewsQueue<RepairedCall>,
    end: Option<ToolRepairEnd>,
}

/// How the tool answered.
struct RepairedCall {
    effect: DueEffect,
    ran: CommandRunEnd,
}

impl<'r> ToolRepair<'r> {
    /// Makes the repair of a tool that `plan` calls.
    pub fn new(
        plan: CommandPlan,
        terms: ToolRepairTerms,
        capture: Capture,
        records: &'r mut Records,
        base: &RunBase<'_>,
    ) -> Self {
        let ToolRepairTerms { way, error } = terms;
        let call = JudgingCommand::new(plan, capture, records);
        Self { call, way, error, news: NewsQueue::new(base.inbox.sender()), end: None }
    }

    /// Takes the repair to its end.
    ///
    /// # Errors
    ///
    /// When the journal cannot be used.
    pub fn run(&mut self, base: &mut RunBase<'_>) -> Result<ToolRepairEnd, StoreError> {
        Ok(match base.care_for(self)? {
            RunEnd::Stopped(signal) => ToolRepairEnd::Stopped(signal),
            RunEnd::Over => self.end.unwrap_or(ToolRepairEnd::Fails),
        })
    }

    /// Takes in how the tool answered.
    fn called(&mut self, answer: &RepairedCall, context: &mut SubjectContext<'_, '_>) {
        let RepairedCall { effect, ran } = answer;
        if !self.call.has_ended(ran, context) {
            return;
        }
        if ran.is_green() {
            let found = VerifiedFinding::new(Proof::Proven, "the tool works with the change");
            context.judged(ONLY, *effect, found);
        } else if ran.stopped {
            let reason = Scrubbed::literal("the call was stopped");
            context.finish(ONLY, *effect, EffectReport::failed(reason));
        } else {
            let evidence = evidence(&ran.output, context);
            self.call.failed(evidence, ran, Some(*effect), context);
        }
    }
}

fn evidence(output: &str, context: &SubjectContext<'_, '_>) -> Evidence {
    let base = &*context.base;
    Evidence::of(output, None, base.rules, &base.writer.scrubber)
}

impl Subjects for ToolRepair<'_> {
    fn names(&self) -> Vec<String> {
        vec![self.call.plan.name.clone()]
    }

    fn opening(&self, _: usize, base: &RunBase<'_>) -> OpeningTerms {
        let subject = self.call.plan.subject(&base.writer.scrubber);
        let one = ResourceLimits { attempts: Some(1), ..ResourceLimits::default() };
        let policy = match &self.way {
            // The person saw how large it is.
            ToolRepairWay::Patch { .. } => IncidentPolicy {
                max_files: u32::MAX,
                max_lines: u32::MAX,
                mode: RepairMode::Legacy,
                ..base.terms.policy(one)
            },
            ToolRepairWay::Agent(limits) => base.terms.policy(*limits),
        };
        let policy =
            IncidentPolicy { at_a_loss: AtALoss::Close, on_failure: OnFailure::Undo, ..policy };
        OpeningTerms { subject, policy, left: ResourceLimits::default() }
    }

    fn place(&self, _: usize, base: &RunBase<'_>) -> FailurePlace {
        self.call.plan.place(base)
    }

    fn command(&self, _: usize) -> Scrubbed {
        self.call.plan.command.clone()
    }

    fn resorts(&self, _: usize, _: &Case, _: &Diagnosis, _: &RunBase<'_>) -> Resorts {
        Resorts { again: "call it again", own: Vec::new() }
    }

    fn brief(&self, _: usize, brief: &CheckBrief) -> String {
        check::brief(brief)
    }

    fn has_breakers(&self) -> bool {
        // A person asked for exactly this.
        false
    }

    fn offers(
        &mut self,
        _: usize,
        base: &mut RunBase<'_>,
        _: &Case,
    ) -> Result<Option<Vec<Offer>>, StoreError> {
        let offer = match &self.way {
            ToolRepairWay::Patch { text, files } => {
                patches::approved(text, files, &base.writer.scrubber)
            }
            ToolRepairWay::Agent(_) => remedies::resort(RemedyWay::Agent, "call it again"),
        };
        Ok(Some(vec![offer]))
    }

    fn verify(
        &mut self,
        _: usize,
        effect: DueEffect,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let news = self.news.sender();
        self.call.start(Some(effect), context.base, move |ran| {
            // Nobody is left to tell when the run is over.
            let _ = news.send(RepairedCall { effect, ran });
        });
        Ok(())
    }

    fn closed(&mut self, _: usize, over: &Incident, _: &mut SubjectContext<'_, '_>) {
        let Phase::Closed(outcome) = over.phase() else { return };
        self.end = Some(match outcome {
            IncidentOutcome::Recovered(Proof::Proven | Proof::Transient | Proof::Flaky)
            | IncidentOutcome::Resolved => ToolRepairEnd::Works,
            IncidentOutcome::Recovered(Proof::Masked | Proof::Failed)
            | IncidentOutcome::Unhealed
            | IncidentOutcome::GivenUp
            | IncidentOutcome::Aborted => ToolRepairEnd::Fails,
        });
    }

    fn tend(
        &mut self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<Instant>, StoreError> {
        if self.call.is_to_begin(context) {
            let evidence = evidence(&self.error, context);
            let (took, before) = (std::time::Duration::ZERO, Vec::new());
            let (verifies, waiter) = (None, None);
            context.failed(ONLY, SeenFailure { evidence, took, before, verifies, waiter });
        }
        Ok(None)
    }

    fn hear(&mut self, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        if let Some(answer) = self.news.next() {
            self.called(&answer, context);
        }
        Ok(())
    }

    fn stop(&mut self, signal: i32, context: &mut SubjectContext<'_, '_>) {
        self.call.end(signal, context.base);
    }

    fn is_idle(&self) -> bool {
        !self.call.is_running()
    }

    fn is_over(&mut self, cases: &[Case], base: &RunBase<'_>) -> bool {
        match self.call.person_wait(cases, base.presence) {
            PersonWait::Away => self.end = Some(ToolRepairEnd::NeedsPerson),
            PersonWait::Here => return false,
            PersonWait::None => {}
        }
        self.end.is_some()
    }

    fn keep_evidence(&mut self, _: usize, log: FailureLog, context: &mut SubjectContext<'_, '_>) {
        self.call.keep_evidence(&log, context);
    }

    fn recorded(
        &mut self,
        _: usize,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        self.call.keep_incident(context)
    }

    fn called_off(&mut self, _: usize) {
        self.call.stop();
    }

    fn taken_away(&mut self, _: usize) {
        self.end = Some(ToolRepairEnd::Fails);
    }
}
