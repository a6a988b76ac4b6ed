//! Several failures of one subject, and several subjects with one failure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use salve_core::check::CheckBrief;
use salve_core::event::{
    Breaker, EffectReport, Event, IncidentEvent, IncidentOutcome, PersonQuestion, ProcessExit,
    Proof, Repeat, ResourceLimits, Subject, SubjectKind,
};
use salve_core::incident::{DueEffect, Incident, Phase};
use salve_core::playbook::Diagnosis;
use salve_core::scrub::Scrubbed;

use super::super::tests::{Life, WORDS, care, journal, prepared};
use super::super::{Case, RunEnd};
use crate::config::Config;
use crate::heal::cause::{Evidence, FailurePlace};
use crate::heal::remedies::RemedyWay;
use crate::heal::{
    FailureWaiter, OpeningTerms, Resorts, RunBase, SeenFailure, SubjectContext, Subjects,
};
use crate::project::Project;
use crate::store::{Store, StoreError, Stream};

/// A failure that has nothing to do with the file.
const OTHER: &str = "TypeError: undefined is not a function\n";

/// A failure that comes up when nothing is worked on, or while something is.
struct ScriptedFailure {
    at: usize,
    words: &'static str,
    waiter: Option<FailureWaiter>,
    is_meanwhile: bool,
}

impl ScriptedFailure {
    /// Returns a failure that comes up once nothing is worked on.
    fn after(words: &'static str) -> Self {
        Self { at: 0, words, waiter: None, is_meanwhile: false }
    }

    /// Returns a failure for which somebody waits, whatever is worked on.
    fn awaited(at: usize, words: &'static str, waiter: u64) -> Self {
        Self { at, words, waiter: Some(FailureWaiter(waiter)), is_meanwhile: true }
    }
}

/// Subjects that fail by a script and are well whenever they are run again.
struct ManyFailing {
    names: usize,
    script: VecDeque<ScriptedFailure>,
    /// Who was told which outcome.
    told: Vec<(FailureWaiter, IncidentOutcome)>,
    joined: usize,
}

impl ManyFailing {
    fn new(names: usize, script: Vec<ScriptedFailure>) -> Self {
        Self { names, script: script.into(), told: Vec::new(), joined: 0 }
    }

    fn live(&mut self, project: &Project, config: &Config) {
        let end = care(project, config, Life { me: None, entries: u32::MAX }, self);
        assert_eq!(end, Ok(RunEnd::Over));
    }
}

impl Subjects for ManyFailing {
    fn names(&self) -> Vec<String> {
        (0..self.names).map(|at| format!("scripted-{at}")).collect()
    }

    fn opening(&self, at: usize, base: &RunBase<'_>) -> OpeningTerms {
        let name = base.writer.scrubber.scrub(&format!("scripted-{at}"));
        let mut policy =
            base.terms.policy(ResourceLimits { attempts: Some(4), ..ResourceLimits::default() });
        policy.watch_ms = 600_000 * u64::from(self.told.is_empty() && self.joined == 0);
        let subject = Subject { kind: SubjectKind::Server, name, repeat: Repeat::Safe };
        OpeningTerms { subject, policy, left: ResourceLimits::default() }
    }

    fn place(&self, _: usize, base: &RunBase<'_>) -> FailurePlace {
        let root = base.project.root();
        FailurePlace::new(root, root, &[], &[], &base.remedies.sandbox)
    }

    fn command(&self, _: usize) -> Scrubbed {
        Scrubbed::literal("scripted")
    }

    fn resorts(&self, _: usize, _: &Case, _: &Diagnosis, _: &RunBase<'_>) -> Resorts {
        Resorts { again: "again", own: vec![RemedyWay::Again] }
    }

    fn brief(&self, _: usize, _: &CheckBrief) -> String {
        String::new()
    }

    fn verify(
        &mut self,
        at: usize,
        effect: DueEffect,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let report = EffectReport::Verified { proof: Proof::Proven, symptom: None };
        context.finish(at, effect, report);
        Ok(())
    }

    fn closed(&mut self, _: usize, _: &Incident, _: &mut SubjectContext<'_, '_>) {}

    fn tend(
        &mut self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<Instant>, StoreError> {
        while let Some(next) = self.script.front() {
            let works = |phase| !matches!(phase, Phase::Ending { .. } | Phase::Asking { .. });
            if !next.is_meanwhile
                && context.incident(next.at).map(Incident::phase).is_some_and(works)
            {
                break;
            }
            let Some(ScriptedFailure { at, words, waiter, is_meanwhile }) = self.script.pop_front()
            else {
                break;
            };
            let base = &*context.base;
            let exit = ProcessExit::Code(1);
            let evidence = Evidence::of(words, Some(&exit), base.rules, &base.writer.scrubber);
            let (took, before, verifies) = (Duration::ZERO, Vec::new(), None);
            context.failed(at, SeenFailure { evidence, took, before, verifies, waiter });
            if !is_meanwhile {
                break;
            }
        }
        Ok(None)
    }

    fn hear(&mut self, _: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn stop(&mut self, _: i32, _: &mut SubjectContext<'_, '_>) {}

    fn is_idle(&self) -> bool {
        true
    }

    fn is_over(&mut self, cases: &[Case], _: &RunBase<'_>) -> bool {
        let rests = |case: &Case| {
            let phase = case.incident().map(Incident::phase);
            matches!(phase, None | Some(Phase::Ending { .. } | Phase::Asking { .. }))
        };
        self.script.is_empty() && cases.iter().all(rests)
    }

    fn has_many_incidents(&self) -> bool {
        true
    }

    fn shares_causes(&self) -> bool {
        true
    }

    fn joined(&mut self, _: usize, _: FailureWaiter, _: &Incident) {
        self.joined += 1;
    }

    fn outcome_known(
        &mut self,
        waiters: &[FailureWaiter],
        over: &Incident,
        _: &mut SubjectContext<'_, '_>,
    ) {
        let Phase::Closed(outcome) = over.phase() else { panic!("{over:?}") };
        self.told.extend(waiters.iter().map(|waiter| (*waiter, outcome)));
    }
}

fn kinds(project: &Project, incident: &Incident, wanted: impl Fn(&IncidentEvent) -> bool) -> usize {
    let store = Store::open(project).unwrap();
    let entries = store.journal().read(0, &Stream::Incident(incident.id()), usize::MAX).unwrap();
    let is_wanted = |event: &Event| matches!(event, Event::Incident(event) if wanted(event));
    entries.iter().filter(|entry| is_wanted(&entry.event)).count()
}

/// **Invariant:** What healed one failure is never undone because another one came up.
#[test]
fn another_failure_is_another_incident_and_undoes_nothing() {
    let (home, project, config) = prepared();
    let script = vec![ScriptedFailure::after(WORDS), ScriptedFailure::after(OTHER)];
    ManyFailing::new(1, script).live(&project, &config);
    let incidents = journal(&project);
    let [first, second] = incidents.as_slice() else { panic!("{incidents:?}") };
    let healed = |one: &Incident| {
        matches!(one.phase(), Phase::Ending { outcome: IncidentOutcome::Recovered(_), .. })
    };
    assert!(healed(first) && healed(second), "{incidents:?}");
    assert_eq!((first.attempt(), second.attempt()), (1, 1), "each has attempts of its own");
    assert_eq!(std::fs::read_to_string(home.path().join("a.txt")).unwrap(), "good\n");
}

#[test]
fn a_failure_that_comes_back_is_the_incidents_own_though_another_came_between() {
    let (home, project, config) = prepared();
    let script = [WORDS, OTHER, WORDS].map(ScriptedFailure::after);
    ManyFailing::new(1, script.into()).live(&project, &config);
    let incidents = journal(&project);
    let [first, second] = incidents.as_slice() else { panic!("{incidents:?}") };
    let relapses =
        |one| kinds(&project, one, |event| matches!(event, IncidentEvent::Sickened { .. }));
    assert_eq!((relapses(first), relapses(second)), (1, 0));
    assert_eq!(first.attempt(), 2, "{first:?}");
    let text = std::fs::read_to_string(home.path().join("a.txt")).unwrap();
    assert_eq!(text, "bad\n", "what did not hold is undone");
}

#[test]
fn fifty_failures_of_one_cause_are_one_incident_with_fifty_waiters() {
    let (_home, project, config) = prepared();
    let script = (0..50).map(|one| ScriptedFailure::awaited(usize::from(one % 2 == 1), WORDS, one));
    let mut subjects = ManyFailing::new(2, script.collect());
    subjects.joined = 1; // There is no watch for a relapse.
    subjects.live(&project, &config);
    assert_eq!(journal(&project).len(), 1);
    assert_eq!(subjects.joined, 1 + 49);
    let healed = IncidentOutcome::Recovered(Proof::Proven);
    let mut told = subjects.told.clone();
    told.sort_by_key(|(waiter, _)| waiter.0);
    let want: Vec<_> = (0..50).map(|one| (FailureWaiter(one), healed)).collect();
    assert_eq!(told, want);
}

#[test]
fn a_failure_that_somebody_waits_for_has_its_turn_after_the_one_that_is_worked_on() {
    let (_home, project, config) = prepared();
    let script = [(WORDS, 1), (OTHER, 2), (OTHER, 3), (WORDS, 4)];
    let script = script.map(|(words, waiter)| ScriptedFailure::awaited(0, words, waiter));
    let mut subjects = ManyFailing::new(1, script.into());
    subjects.joined = 1;
    subjects.live(&project, &config);
    assert_eq!(journal(&project).len(), 2);
    let mut told: Vec<u64> = subjects.told.iter().map(|(waiter, _)| waiter.0).collect();
    told.sort_unstable();
    assert_eq!(told, [1, 2, 3, 4]);
}

#[test]
fn many_different_failures_within_minutes_are_a_persons() {
    let (_home, project, mut config) = prepared();
    config.settings.heal.breakers.many_failures = 3;
    let script = [WORDS, OTHER, "ReferenceError: port is not defined\n"];
    let script = script.map(ScriptedFailure::after);
    ManyFailing::new(1, script.into()).live(&project, &config);
    let phases: Vec<Phase> = journal(&project).iter().map(Incident::phase).collect();
    let stopped = PersonQuestion::Tripped(Breaker::ManyFailures);
    match phases.as_slice() {
        [Phase::Ending { .. }, Phase::Ending { .. }, Phase::Asking { question, .. }] => {
            assert_eq!(*question, stopped);
        }
        phases => panic!("{phases:?}"),
    }
}
