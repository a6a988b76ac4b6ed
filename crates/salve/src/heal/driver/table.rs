//! The incidents of one run: what is written to them, and what follows from it.

use std::collections::VecDeque;
use std::time::Instant;

use salve_core::event::{
    Actor, EffectReport, Event, IncidentEvent, PersonOrder, Proof, RemedyKind,
};
use salve_core::id::IncidentId;
use salve_core::incident::{DueEffect, Incident, IncidentMove};
use uuid::Uuid;

use super::agents::{AgentRunner, AgentStep};
use super::aside::FollowUp;
use super::case::Case;
use super::due_effect::DueEffectRun;
use super::offers::Chooser;
use super::{breakers, diagnosis, lessons, team};
use crate::heal::agents::only_listener;
use crate::heal::failure_log::FailureLog;
use crate::heal::run_base::RunBase;
use crate::heal::run_environment::{EnvironmentChange, how_to_keep};
use crate::heal::subject::{
    AgentManner, SeenFailure, SubjectContext, SubjectFact, SubjectNews, Subjects,
};
use crate::heal::{IncidentOpening, WriterError, Wrote};
use crate::store::StoreError;

/// The incidents of all subjects of one run, by the subjects' places.
pub(super) struct IncidentTable<'d, 'a> {
    pub(super) base: &'d mut RunBase<'a>,
    pub(super) subjects: &'d mut dyn Subjects,
    pub(super) cases: Vec<Case>,
    facts: VecDeque<SubjectNews>,
    /// Whether everything ends, so that nothing new is begun.
    pub(super) is_ending: bool,
    /// Who paused healing at this terminal.
    pub(super) paused: Option<Actor>,
}

/// What came of choosing a remedy.
enum Chosen {
    /// The journal has it.
    Said,
    /// It has to wait, until then at most.
    Later(Option<Instant>),
}

impl<'d, 'a> IncidentTable<'d, 'a> {
    /// Returns a table without incidents.
    pub(super) fn new(base: &'d mut RunBase<'a>, subjects: &'d mut dyn Subjects) -> Self {
        let cases = subjects.names().into_iter().map(Case::new).collect();
        let (facts, is_ending, paused) = (VecDeque::new(), false, None);
        Self { base, subjects, cases, facts, is_ending, paused }
    }

    /// Returns the subjects, and what they may use meanwhile.
    pub(super) fn split(&mut self) -> (&mut dyn Subjects, SubjectContext<'_, 'a>) {
        let context =
            SubjectContext { base: self.base, cases: &self.cases, facts: &mut self.facts };
        (self.subjects, context)
    }

    /// Acts on what the subjects told, in its order; tells whether there was anything.
    pub(super) fn settle(&mut self) -> Result<bool, StoreError> {
        let mut any = false;
        while let Some(SubjectNews { at, fact }) = self.facts.pop_front() {
            any = true;
            match fact {
                SubjectFact::Failed(failure) => self.failed(at, *failure)?,
                SubjectFact::Saw(evidence, took) => self.cases[at].saw(*evidence, took),
                SubjectFact::Finished(effect, report) => self.finish(at, effect, report)?,
                SubjectFact::Said(by, events) => self.say_as(at, &by, events).map(drop)?,
                SubjectFact::Happened(events) => self.insist(at, &events)?,
                SubjectFact::Added(incident, event) => {
                    self.base.writer.add(incident, event)?;
                    self.cases[at].catch_up(self.base)?;
                }
                SubjectFact::Orphans(count) => {
                    breakers::count_orphans(self.base, &mut self.cases[at], count)?;
                }
                SubjectFact::OtherRemedies => self.cases[at].work.cures.clear(),
                SubjectFact::Settled(by, note) => self.settle_questions(at, &by, &note)?,
                SubjectFact::Due(effect) => self.due(at, effect).run()?,
            }
        }
        Ok(any)
    }

    /// Does what the incident wants done, and returns when to look again.
    pub(super) fn advance(&mut self, at: usize) -> Result<Option<Instant>, StoreError> {
        loop {
            let case = &self.cases[at];
            let Some(incident) = case.incident().filter(|_| !self.subjects.is_held(at, case))
            else {
                return Ok(None);
            };
            let now = self.base.writer.now();
            match incident.next(&self.base.writer.me, now) {
                IncidentMove::Over => {
                    self.closed(at);
                    return Ok(None);
                }
                IncidentMove::NotMine => {
                    self.subjects.taken_away(at);
                    return Ok(None);
                }
                IncidentMove::Wait { until, .. } => {
                    return Ok(until.map(|until| self.base.writer.instant(until)));
                }
                IncidentMove::Choose => match self.choose(at)? {
                    Chosen::Said => {}
                    Chosen::Later(until) => return Ok(until),
                },
                IncidentMove::Write(event) => {
                    let back = self.base.remedies.taken_back(incident, case.cure());
                    self.say(at, vec![back.unwrap_or(event)])?;
                }
            }
            if !self.facts.is_empty() {
                // An effect is due, or the subject told something: that comes first.
                self.settle()?;
            }
        }
    }

    /// Lets an incident that is over go.
    fn closed(&mut self, at: usize) {
        let waiters = std::mem::take(&mut self.cases[at].work.waiters);
        let Some(over) = self.cases[at].close() else { return };
        self.base.spent = self.base.spent.plus(over.ledger().spent());
        let (subjects, mut context) = self.split();
        subjects.closed(at, &over, &mut context);
        if !waiters.is_empty() {
            subjects.outcome_known(&waiters, &over, &mut context);
        }
    }

    /// Chooses a remedy and puts it to the gate, once it is known what there is to choose from.
    fn choose(&mut self, at: usize) -> Result<Chosen, StoreError> {
        if self.cases[at].seen().is_none() {
            // An earlier run of Salve saw the failure.
            let (subjects, mut context) = self.split();
            if subjects.shows_again(at, &mut context)? {
                return Ok(Chosen::Later(None));
            }
            let recalled = self.cases[at].work.tried.clone();
            let case = &mut self.cases[at];
            case.work.seen = recalled.or_else(|| case.work.first.clone());
        }
        if !self.is_diagnosed(at) {
            // What comes of the look wakes us.
            return Ok(Chosen::Later(None));
        }
        let case = &mut self.cases[at];
        diagnosis::tell(self.base, case)?;
        lessons::read_files(self.base, case.name());
        let Some(incident) = case.incident().cloned() else { return Ok(Chosen::Later(None)) };
        if self.subjects.agent_manner() == AgentManner::AtOnce && self.subjects.has_breakers() {
            let (subjects, base) = (&mut *self.subjects, &mut *self.base);
            let until = team::await_proposals(base, case, |base, case| {
                Chooser { base, case, subjects, at }.has_cheap(&incident)
            })?;
            if let Some(until) = until {
                return Ok(Chosen::Later(Some(self.base.writer.instant(until))));
            }
        }
        let event = self.chooser(at).choose(&incident)?;
        if is_agents_turn(&event) && self.has_other_agent(at) {
            // The other agent's end wakes us.
            return Ok(Chosen::Later(None));
        }
        self.say(at, vec![event])?;
        Ok(Chosen::Said)
    }

    fn is_diagnosed(&mut self, at: usize) -> bool {
        let (subjects, base) = (&*self.subjects, &*self.base);
        diagnosis::is_known(base, &mut self.cases[at], || subjects.place(at, base))
    }

    pub(super) fn chooser(&mut self, at: usize) -> Chooser<'_, 'a> {
        Chooser { base: self.base, case: &mut self.cases[at], subjects: self.subjects, at }
    }

    pub(super) fn agent_runner(&mut self, at: usize) -> AgentRunner<'_, 'a> {
        AgentRunner { base: self.base, case: &mut self.cases[at], subjects: self.subjects, at }
    }

    /// Returns whether one of our agents works for another subject: a second one would edit the
    /// same files, and neither's edits could be told apart.
    fn has_other_agent(&self, at: usize) -> bool {
        let mut others = self.cases.iter().enumerate().filter(|(other, _)| *other != at);
        others.any(|(_, case)| case.work.agents.running().is_some())
    }

    /// Does what is due about a subject's agent, and returns when to look again.
    pub(super) fn tend_agent(&mut self, at: usize) -> Result<Option<Instant>, StoreError> {
        let others = self.has_other_agent(at);
        match self.agent_runner(at).tend(others)? {
            AgentStep::Wait(until) => Ok(until),
            AgentStep::Finish(effect, report) => {
                self.finish(at, effect, report)?;
                Ok(Some(Instant::now()))
            }
        }
    }

    /// Takes in that a subject failed.
    pub(super) fn failed(&mut self, at: usize, failure: SeenFailure) -> Result<(), StoreError> {
        if let Some(effect) = failure.verifies {
            return self.did_not_help(at, effect, failure);
        }
        match self.follow_up(at, &failure) {
            FollowUp::Opens => self.open_or_skip(at, failure),
            FollowUp::OpensBeside => {
                self.cases[at].set_aside();
                self.open_or_skip(at, failure)
            }
            FollowUp::Relapses => self.relapsed(at, failure),
            FollowUp::Joins { of, waiter } => self.join(at, of, waiter, failure),
            FollowUp::Queues => {
                self.cases[at].queued.push_back(failure);
                Ok(())
            }
            FollowUp::Skipped => self.skip(at, IncidentId(Uuid::new_v4()), failure),
        }
    }

    /// Takes in that the present remedy did not help.
    fn did_not_help(
        &mut self,
        at: usize,
        effect: DueEffect,
        failure: SeenFailure,
    ) -> Result<(), StoreError> {
        let SeenFailure { evidence, took, before, .. } = failure;
        let symptom = Box::new(evidence.symptom.clone());
        let case = &mut self.cases[at];
        if !case.leads_to_another_failure(evidence.symptom.signature) {
            lessons::did_not_help(self.base, case)?;
        }
        let tried = case.work.tried.as_ref().map(|tried| tried.symptom.signature);
        if tried.is_none_or(|tried| tried == evidence.symptom.signature) {
            // Another failure in its place means that the variables got past the first.
            case.drop_variables();
        }
        case.did_not_help();
        case.saw(evidence, took);
        self.keep_evidence(at);
        if self.subjects.has_breakers() {
            let (subjects, case) = (&*self.subjects, &mut self.cases[at]);
            let results = |output: &str, base: &RunBase<'_>| subjects.results(at, output, base);
            breakers::stop_if_worse(self.base, case, results)?;
        }
        self.cases[at].work.effect = None;
        let report = EffectReport::Verified { proof: Proof::Failed, symptom: Some(symptom) };
        let finished = IncidentEvent::Finished { effect: effect.effect, report };
        self.insist(at, &[before, vec![Event::Incident(finished)]].concat())?;
        self.recorded(at)
    }

    /// Takes in that a failure came back which seemed healed.
    fn relapsed(&mut self, at: usize, failure: SeenFailure) -> Result<(), StoreError> {
        let SeenFailure { evidence, took, before, waiter, .. } = failure;
        let symptom = Box::new(evidence.symptom.clone());
        let case = &mut self.cases[at];
        case.did_not_help();
        case.saw(evidence, took);
        case.work.waiters.extend(waiter);
        self.keep_evidence(at);
        let sickened = Event::Incident(IncidentEvent::Sickened { symptom });
        self.insist(at, &[before, vec![sickened]].concat())
    }

    fn open_or_skip(&mut self, at: usize, failure: SeenFailure) -> Result<(), StoreError> {
        let id = IncidentId(Uuid::new_v4());
        if self.subjects.may_repair(at, id, self.base) {
            self.open(at, id, failure)
        } else {
            self.skip(at, id, failure)
        }
    }

    /// Opens an incident.
    fn open(&mut self, at: usize, id: IncidentId, failure: SeenFailure) -> Result<(), StoreError> {
        let opening = self.opening(at, &failure);
        let opened = self.base.writer.open(id, opening, failure.before);
        let Some((incident, entries)) = self.begun(at, opened)? else { return Ok(()) };
        let case = &mut self.cases[at];
        for entry in &entries {
            self.base.reporter.entry(case.name(), &incident, entry);
        }
        case.begin(incident);
        case.opened.push(self.base.writer.now());
        case.work.waiters.extend(failure.waiter);
        case.saw(failure.evidence, failure.took);
        self.keep_evidence(at);
        if let Some(person) = self.paused.clone() {
            let order = Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Pause });
            self.say_as(at, &person, vec![order])?;
        }
        let (subjects, mut context) = self.split();
        subjects.opened(at, &mut context)?;
        if self.subjects.has_breakers() {
            breakers::halt_if_systemic(self.base, &mut self.cases[at])?;
            breakers::halt_if_many(self.base, &mut self.cases[at])?;
        }
        breakers::count_orphans(self.base, &mut self.cases[at], 0)?;
        self.settle()?;
        self.recorded(at)
    }

    /// Puts a failure on record that is not repaired: a repair goes on, or it is a time to wait.
    fn skip(&mut self, at: usize, id: IncidentId, failure: SeenFailure) -> Result<(), StoreError> {
        let opening = self.opening(at, &failure);
        let skipped = self.base.writer.call_off(id, opening, failure.before.clone());
        let Some((incident, entries)) = self.begun(at, skipped)? else { return Ok(()) };
        for entry in &entries {
            self.base.reporter.entry(self.cases[at].name(), &incident, entry);
        }
        self.subjects.skipped(at);
        if let Some(waiter) = failure.waiter {
            let (subjects, mut context) = self.split();
            subjects.outcome_known(&[waiter], &incident, &mut context);
        }
        let log = self.evidence_log(at, &incident, &failure);
        let (subjects, mut context) = self.split();
        subjects.keep_evidence(at, log, &mut context);
        Ok(())
    }

    fn opening(&self, at: usize, failure: &SeenFailure) -> IncidentOpening {
        let terms = self.subjects.opening(at, self.base);
        let symptom = failure.evidence.symptom.clone();
        let (writer, starts) = (&self.base.writer, self.base.agents.as_ref());
        let mut policy = terms.policy;
        if self.subjects.agent_manner() == AgentManner::ListenersFirst {
            policy.starts = starts.map(|agents| writer.scrubber.scrub(&agents.plan.name));
            policy.listener = only_listener(writer.store, &writer.scrubber);
        }
        IncidentOpening { subject: terms.subject, policy, left: terms.left, symptom }
    }

    /// Returns an incident that begins, or says why it cannot.
    fn begun<T>(
        &mut self,
        at: usize,
        opened: Result<T, WriterError>,
    ) -> Result<Option<T>, StoreError> {
        match opened {
            Ok(begun) => Ok(Some(begun)),
            Err(WriterError::Store(error)) => Err(error),
            Err(WriterError::NotOpened(error)) => {
                self.base.note(self.cases[at].name(), &error.to_string());
                self.subjects.taken_away(at);
                Ok(None)
            }
        }
    }

    /// Keeps what the last failure left behind, for people and agents.
    pub(super) fn keep_evidence(&mut self, at: usize) {
        let case = &self.cases[at];
        let (Some(incident), Some(seen)) = (case.incident(), case.seen()) else { return };
        let (evidence, took) = (seen.clone(), case.work.took);
        let (before, verifies, waiter) = (Vec::new(), None, None);
        let failure = SeenFailure { evidence, took, before, verifies, waiter };
        let log = self.evidence_log(at, incident, &failure);
        let (subjects, mut context) = self.split();
        subjects.keep_evidence(at, log, &mut context);
    }

    fn evidence_log(&self, at: usize, incident: &Incident, failure: &SeenFailure) -> FailureLog {
        let findings = self.cases[at].diagnosis().map(|found| found.findings.clone());
        FailureLog {
            incident: incident.id(),
            number: incident.ledger().spent().attempts.saturating_add(1),
            at: self.base.writer.now(),
            kind: incident.subject().kind,
            name: incident.subject().name.clone(),
            command: self.subjects.command(at),
            took: failure.took,
            symptom: failure.evidence.symptom.clone(),
            findings: findings.unwrap_or_default(),
            evidence: failure.evidence.output.clone(),
        }
    }

    /// Writes to the incident; does nothing if others were faster.
    pub(super) fn say(&mut self, at: usize, events: Vec<Event>) -> Result<(), StoreError> {
        let by = self.base.writer.salve();
        self.say_as(at, &by, events).map(drop)
    }

    /// Writes what somebody said about the incident; the effect that follows is due.
    pub(super) fn say_as(
        &mut self,
        at: usize,
        by: &Actor,
        events: Vec<Event>,
    ) -> Result<Wrote, StoreError> {
        let wrote = self.cases[at].write(self.base, by, events)?;
        if let Wrote::Done(Some(effect)) = wrote {
            // What was told before is acted on after it: the journal already has this.
            self.facts.push_front(SubjectNews { at, fact: SubjectFact::Due(effect) });
        }
        Ok(wrote)
    }

    /// Writes what happened, however often others write meanwhile.
    ///
    /// The remedy that follows is written along with it where it can be chosen at once: every
    /// write is a wait, and a server that crashed is down for as long.
    fn insist(&mut self, at: usize, events: &[Event]) -> Result<(), StoreError> {
        let by = self.base.writer.salve();
        loop {
            let mut all = events.to_vec();
            all.extend(self.foresee(at, events)?);
            match self.say_as(at, &by, all)? {
                Wrote::Done(_) => return Ok(()),
                Wrote::Overtaken => {}
            }
        }
    }

    /// Returns the choice that comes after `events`, if one does and it needs no look at the cause.
    fn foresee(&mut self, at: usize, events: &[Event]) -> Result<Option<Event>, StoreError> {
        let Some(incident) = self.cases[at].incident() else { return Ok(None) };
        if self.is_ending || self.subjects.agent_manner() == AgentManner::AtOnce {
            return Ok(None);
        }
        let Some(ahead) = self.base.writer.will_choose(incident, events) else { return Ok(None) };
        if !self.is_diagnosed(at) || !diagnosis::is_told(&self.cases[at]) {
            return Ok(None);
        }
        lessons::read_files(self.base, self.cases[at].name());
        let event = self.chooser(at).choose(&ahead)?;
        Ok(Some(event).filter(|event| !(is_agents_turn(event) && self.has_other_agent(at))))
    }

    /// Returns the work on an effect that is due, or that comes back.
    pub(super) fn due(&mut self, at: usize, effect: DueEffect) -> DueEffectRun<'_, 'd, 'a> {
        DueEffectRun { table: self, at, effect }
    }

    /// Tells what an effect reports, however often others write meanwhile.
    pub(super) fn finish(
        &mut self,
        at: usize,
        effect: DueEffect,
        report: EffectReport,
    ) -> Result<(), StoreError> {
        let case = &mut self.cases[at];
        case.work.effect = None;
        if let EffectReport::Failed { .. } | EffectReport::TimedOut = report {
            case.drop_variables();
            case.did_not_help();
        }
        let proof = match &report {
            EffectReport::Verified { proof, .. } => Some(*proof),
            EffectReport::Done
            | EffectReport::NoAgent
            | EffectReport::Measured(_)
            | EffectReport::Conflict { .. }
            | EffectReport::Failed { .. }
            | EffectReport::TimedOut => None,
        };
        let finished = IncidentEvent::Finished { effect: effect.effect, report };
        self.insist(at, &[Event::Incident(finished)])?;
        self.keep_environment(at, proof);
        self.recorded(at)
    }

    /// Has the subject keep what the journal tells by now.
    fn recorded(&mut self, at: usize) -> Result<(), StoreError> {
        let (subjects, mut context) = self.split();
        subjects.recorded(at, &mut context)
    }

    /// Has the subject keep the variables that were found to help, and says how to make them stay.
    fn keep_environment(&mut self, at: usize, proof: Option<Proof>) {
        let case = &self.cases[at];
        let variables = &case.work.environment;
        if let (Some(Proof::Proven | Proof::Transient | Proof::Flaky), false) =
            (proof, variables.is_empty())
        {
            self.subjects.set_variables(at, EnvironmentChange::Keep(variables));
            if proof == Some(Proof::Proven) {
                self.base.note(case.name(), &how_to_keep(variables));
            }
        }
    }
}

/// Returns whether what was chosen is an agent's turn.
fn is_agents_turn(chosen: &Event) -> bool {
    let Event::Incident(IncidentEvent::Judged { remedy, .. }) = chosen else { return false };
    remedy.kind == RemedyKind::Agent
}
