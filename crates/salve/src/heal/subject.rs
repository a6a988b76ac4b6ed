//! What the driver asks of the things it cares for, and what they tell it.
//!
//! A kind of subject implements [`Subjects`] for all of its subjects in one run; each is known by
//! its place, counted from 0. The driver owns their incidents: a subject never writes to one, it
//! tells through its [`SubjectContext`] what happened, and the driver acts on that once the call
//! has returned. So a subject needs no journal, no gate and no memory of its own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use salve_core::check::{self, CheckBrief, Results};
use salve_core::event::{
    Actor, Digest, EffectReport, Entry, Event, IncidentEvent, IncidentPolicy, Judgement, Proof,
    ResourceLimits, Subject,
};
use salve_core::id::IncidentId;
use salve_core::incident::{DueEffect, Incident};
use salve_core::playbook::Diagnosis;
use salve_core::scrub::Scrubbed;

use super::cause::{Evidence, FailurePlace};
use super::driver::Case;
use super::failure_log::FailureLog;
use super::remedies::{Offer, RemedyWay};
use super::reporter::Remark;
use super::run_base::RunBase;
use super::run_environment::EnvironmentChange;
use crate::store::StoreError;

/// One kind of things under care, as the driver sees them.
pub trait Subjects {
    /// Returns what they are called, in their order.
    fn names(&self) -> Vec<String>;

    /// Returns the terms under which an incident of a subject is opened now.
    fn opening(&self, at: usize, base: &RunBase<'_>) -> OpeningTerms;

    /// Returns where a subject's remedies run and causes are looked for.
    fn place(&self, at: usize, base: &RunBase<'_>) -> FailurePlace;

    /// Returns what runs, for people.
    fn command(&self, at: usize) -> Scrubbed;

    /// Returns Salve's own resorts that make sense besides an agent's turn, and what running the
    /// subject again is called.
    fn resorts(&self, at: usize, case: &Case, diagnosis: &Diagnosis, base: &RunBase<'_>)
    -> Resorts;

    /// Tells whether only running a subject again may help it now.
    fn may_run_again(&self, _: usize, _: &Case, _: &RunBase<'_>) -> bool {
        true
    }

    /// Returns the task of an agent that is to repair a subject.
    fn brief(&self, at: usize, brief: &CheckBrief) -> String;

    /// Has a subject show whether the remedy helped; the answer comes through the context, at once
    /// or later.
    fn verify(
        &mut self,
        at: usize,
        effect: DueEffect,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError>;

    /// Has a subject show in the agent's private layer whether the change helps, and that it still
    /// fails without; [`EffectReport::Done`] is told where the change may be brought into the tree.
    fn verify_in_layer(
        &mut self,
        at: usize,
        effect: DueEffect,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        context.finish(at, effect, EffectReport::Done);
        Ok(())
    }

    /// Takes in that an incident is over.
    fn closed(&mut self, at: usize, over: &Incident, context: &mut SubjectContext<'_, '_>);

    /// Does what is due by itself, and returns when to look again.
    fn tend(&mut self, context: &mut SubjectContext<'_, '_>)
    -> Result<Option<Instant>, StoreError>;

    /// Takes one piece of news out of the subjects' own queue.
    fn hear(&mut self, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError>;

    /// Ends what runs, because the user wants everything to end, by this signal.
    fn stop(&mut self, signal: i32, context: &mut SubjectContext<'_, '_>);

    /// Tells whether nothing of the subjects runs.
    fn is_idle(&self) -> bool;

    /// Tells whether there is nothing left to care for.
    fn is_over(&mut self, cases: &[Case], base: &RunBase<'_>) -> bool;

    /// Returns how agents are called for these subjects.
    fn agent_manner(&self) -> AgentManner {
        AgentManner::AtOnce
    }

    /// Tells whether the breakers that look at earlier incidents and new failures hold for them.
    fn has_breakers(&self) -> bool {
        true
    }

    /// Returns what a subject's output says, with paths from where it runs.
    fn results(&self, at: usize, output: &str, base: &RunBase<'_>) -> Results {
        check::read(output).relative_to(&self.place(at, base).dir.to_string_lossy())
    }

    /// Returns all remedies, in the order in which they are to be tried, where the driver's own
    /// way of finding them does not hold.
    fn offers(
        &mut self,
        _: usize,
        _: &mut RunBase<'_>,
        _: &Case,
    ) -> Result<Option<Vec<Offer>>, StoreError> {
        Ok(None)
    }

    /// Returns why an offer that is allowed needs a person all the same, if it does.
    fn second_thought(
        &mut self,
        _: usize,
        _: &Offer,
        _: &RunBase<'_>,
    ) -> Result<Option<Judgement>, StoreError> {
        Ok(None)
    }

    /// Returns what follows when nothing is left to try.
    fn nothing_left(&self, _: &Incident, _: &RunBase<'_>) -> IncidentEvent {
        IncidentEvent::NothingLeft {}
    }

    /// Returns why a remedy that is about to be applied must not be any more, if so.
    fn withdrawn(
        &mut self,
        _: usize,
        _: Digest,
        _: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<&'static str>, StoreError> {
        Ok(None)
    }

    /// Carries out a remedy that only the subject can ([`RemedyWay::BySubject`]); what came of it
    /// is told through the context, at once or later.
    fn apply(
        &mut self,
        at: usize,
        effect: DueEffect,
        _: Digest,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let reason = Scrubbed::literal("this kind of subject has no remedies of its own");
        context.finish(at, effect, EffectReport::failed(reason));
        Ok(())
    }

    /// Tells whether a failure may be repaired now; otherwise it is only put on record.
    fn may_repair(&mut self, _: usize, _: IncidentId, _: &mut RunBase<'_>) -> bool {
        true
    }

    /// Takes in that an incident was opened.
    fn opened(&mut self, _: usize, _: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Tells whether a subject may have several incidents, one for each failure.
    ///
    /// Where it may, another failure is another incident, with attempts and a budget of its own,
    /// while an earlier one waits for a person, cools down or is watched for a relapse. A check or
    /// a loop's tests run once for one incident, so theirs takes in whatever they show.
    fn has_many_incidents(&self) -> bool {
        false
    }

    /// Tells whether a failure of one subject and the same failure of another have one cause, so
    /// that whoever waits for one may wait for the other's incident.
    fn shares_causes(&self) -> bool {
        false
    }

    /// Takes in that a failure joined an open incident, of the same subject or another one.
    fn joined(&mut self, _: usize, _: FailureWaiter, _: &Incident) {}

    /// Takes in how the incident came out that these waited for.
    fn outcome_known(&mut self, _: &[FailureWaiter], _: &Incident, _: &mut SubjectContext<'_, '_>) {
    }

    /// Takes in that a failure was put on record and is not repaired.
    fn skipped(&mut self, _: usize) {}

    /// Takes in that an incident of an earlier run of Salve is ours now.
    fn resumed(&mut self, _: usize, _: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns who started a subject again by hand, and what that says about an open question.
    fn restarted_by(&self, _: usize, _: &RunBase<'_>) -> Option<(Actor, &'static str)> {
        None
    }

    /// Tells whether only the subject itself can show a failure that an earlier run of Salve saw,
    /// and has it do so.
    fn shows_again(
        &mut self,
        _: usize,
        _: &mut SubjectContext<'_, '_>,
    ) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Keeps what a failure left behind, for people and agents.
    fn keep_evidence(&mut self, _: usize, _: FailureLog, _: &mut SubjectContext<'_, '_>) {}

    /// Takes in that the journal has more about an incident.
    fn recorded(&mut self, _: usize, _: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Tells whether the subjects can be given variables for the rest of a run.
    fn takes_variables(&self) -> bool {
        false
    }

    /// Takes in what becomes of the variables that a remedy sets for a subject; they hold from its
    /// next start on.
    fn set_variables(&mut self, _: usize, _: EnvironmentChange<'_>) {}

    /// Tells whether a subject is to be run again before anything else is tried, because it was
    /// well a moment ago and nothing has changed since.
    fn runs_again_first(&self, _: usize, _: &Case) -> bool {
        false
    }

    /// Lets go of what was held for an incident.
    fn release(&mut self, _: usize, _: &mut SubjectContext<'_, '_>) -> EffectReport {
        EffectReport::Done
    }

    /// Sets a subject back to the last state in which it was known to be well.
    fn set_back(&mut self, _: usize, _: &mut SubjectContext<'_, '_>) -> EffectReport {
        EffectReport::failed(Scrubbed::literal("there is nothing to set it back to"))
    }

    /// Takes in that somebody wants what runs for an incident to end.
    fn called_off(&mut self, _: usize) {}

    /// Takes in that an incident is another process's now.
    fn taken_away(&mut self, _: usize) {}

    /// Tells whether an incident is not to go on for now.
    fn is_held(&self, _: usize, _: &Case) -> bool {
        false
    }

    /// Takes in what others wrote to the journal that is no part of an incident of ours.
    fn heard(&mut self, _: &[Entry], _: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The terms under which an incident is opened.
#[derive(Clone, Debug)]
pub struct OpeningTerms {
    /// What is under care.
    pub subject: Subject,
    /// The terms of the incident itself.
    pub policy: IncidentPolicy,
    /// What is left above the incident: to the run, or to the job it is a part of.
    pub left: ResourceLimits,
}

/// Salve's own resorts.
#[derive(Clone, Debug)]
pub struct Resorts {
    /// What running the subject again is called.
    pub again: &'static str,
    /// The resorts, besides an agent's turn.
    pub own: Vec<RemedyWay>,
}

/// How agents are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentManner {
    /// Whoever listens may take up the repair; one of our own is started where nobody does. A turn
    /// that changes nothing is followed by another look at the subject.
    ListenersFirst,
    /// One of our own is started at once. A turn that changes nothing has failed.
    AtOnce,
}

/// A failure that a subject saw.
#[derive(Clone, Debug)]
pub struct SeenFailure {
    /// What it left behind.
    pub evidence: Evidence,
    /// How long what failed had run.
    pub took: Duration,
    /// What the journal is told with it, outside of the incident.
    pub before: Vec<Event>,
    /// The effect that it answers, if it does.
    pub verifies: Option<DueEffect>,
    /// Who waits for what becomes of it, if somebody does: the failure then joins an open incident
    /// of the same signature, or has its turn after the one that is worked on.
    pub waiter: Option<FailureWaiter>,
}

/// Somebody who waits for what becomes of a failure, by a number that the subject knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FailureWaiter(pub u64);

/// What was found when a remedy was verified.
#[derive(Clone, Copy, Debug)]
pub struct VerifiedFinding<'w> {
    pub proof: Proof,
    pub why: &'w str,
    /// Whether the change was found needless and is undone.
    pub is_taken_back: bool,
}

impl<'w> VerifiedFinding<'w> {
    /// Returns what was found where the change stays as it is.
    pub fn new(proof: Proof, why: &'w str) -> Self {
        Self { proof, why, is_taken_back: false }
    }
}

/// Something that a subject tells the driver.
#[derive(Debug)]
pub(super) enum SubjectFact {
    Failed(Box<SeenFailure>),
    /// It showed what an earlier run of Salve saw.
    Saw(Box<Evidence>, Duration),
    /// An effect came to its end.
    Finished(DueEffect, EffectReport),
    /// Somebody said something, which counts unless others were faster.
    Said(Actor, Vec<Event>),
    /// Something happened, which counts however often others write meanwhile.
    Happened(Vec<Event>),
    /// Something holds whatever becomes of the incident of that id.
    Added(IncidentId, Event),
    /// Processes were left behind.
    Orphans(usize),
    /// What was found out about remedies holds no longer.
    OtherRemedies,
    /// The subject is well, so a person's questions about it are settled.
    Settled(Actor, Scrubbed),
    /// An effect that the journal asks for is to run.
    Due(DueEffect),
}

/// A fact and whose it is.
#[derive(Debug)]
pub(super) struct SubjectNews {
    pub(super) at: usize,
    pub(super) fact: SubjectFact,
}

/// What a subject may look at and use while the driver asks it something.
pub struct SubjectContext<'c, 'a> {
    /// What the run stands on.
    pub base: &'c mut RunBase<'a>,
    /// The incidents of the run, by the subjects' places.
    pub cases: &'c [Case],
    pub(super) facts: &'c mut VecDeque<SubjectNews>,
}

impl SubjectContext<'_, '_> {
    /// Returns a subject's incident, if it has one.
    pub fn incident(&self, at: usize) -> Option<&Incident> {
        self.cases.get(at).and_then(Case::incident)
    }

    /// Tells whether an effect of a subject still runs.
    pub fn is_due(&self, at: usize, effect: DueEffect) -> bool {
        self.cases.get(at).is_some_and(|case| case.effect() == Some(effect))
    }

    /// Tells a person something about a subject.
    pub fn note(&mut self, at: usize, text: &str) {
        if let Some(case) = self.cases.get(at) {
            self.base.note(case.name(), text);
        }
    }

    /// Tells that a subject failed.
    pub fn failed(&mut self, at: usize, failure: SeenFailure) {
        self.tell(at, SubjectFact::Failed(Box::new(failure)));
    }

    /// Tells what a subject showed when an incident of an earlier run was to go on.
    pub fn saw(&mut self, at: usize, evidence: Evidence, took: Duration) {
        self.tell(at, SubjectFact::Saw(Box::new(evidence), took));
    }

    /// Says what was found when a remedy was verified, and why, and reports it.
    pub fn judged(&mut self, at: usize, effect: DueEffect, judged: VerifiedFinding<'_>) {
        let Some(case) = self.cases.get(at) else { return };
        let VerifiedFinding { proof, why, is_taken_back: taken_back } = judged;
        let scrubber = &self.base.writer.scrubber;
        let why = scrubber.scrub(why);
        let told = if taken_back {
            scrubber.scrub(&format!("{why}\nthe change was not needed, and is undone"))
        } else {
            why.clone()
        };
        self.base.reporter.remark(case.name(), &Remark::Judged { proof, why: told });
        if let Some(id) = case.incident().map(Incident::id) {
            self.add(at, id, IncidentEvent::ProofExplained { why, taken_back }.into());
        }
        self.finish(at, effect, EffectReport::Verified { proof, symptom: None });
    }

    /// Tells what an effect reports.
    pub fn finish(&mut self, at: usize, effect: DueEffect, report: EffectReport) {
        self.tell(at, SubjectFact::Finished(effect, report));
    }

    /// Writes to a subject's incident, unless others write first.
    pub fn say(&mut self, at: usize, events: Vec<Event>) {
        let by = self.base.writer.salve();
        self.say_as(at, by, events);
    }

    /// Writes what somebody said about a subject's incident, unless others write first.
    pub fn say_as(&mut self, at: usize, by: Actor, events: Vec<Event>) {
        self.tell(at, SubjectFact::Said(by, events));
    }

    /// Writes what happened to a subject's incident, however often others write meanwhile.
    pub fn happened(&mut self, at: usize, events: Vec<Event>) {
        self.tell(at, SubjectFact::Happened(events));
    }

    /// Adds to an incident what holds whatever becomes of it.
    pub fn add(&mut self, at: usize, incident: IncidentId, event: Event) {
        self.tell(at, SubjectFact::Added(incident, event));
    }

    /// Tells how many processes a subject left behind.
    pub fn left_behind(&mut self, at: usize, count: usize) {
        self.tell(at, SubjectFact::Orphans(count));
    }

    /// Tells that other remedies are offered by now.
    pub fn has_other_remedies(&mut self, at: usize) {
        self.tell(at, SubjectFact::OtherRemedies);
    }

    /// Settles every incident of a subject that waits for a person or cools down, because the
    /// subject is well without it; `by` had it started.
    pub fn settled(&mut self, at: usize, by: Actor, note: Scrubbed) {
        self.tell(at, SubjectFact::Settled(by, note));
    }

    fn tell(&mut self, at: usize, fact: SubjectFact) {
        self.facts.push_back(SubjectNews { at, fact });
    }
}
