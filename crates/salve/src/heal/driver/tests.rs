//! The driver with a scripted subject in memory, killed between any two entries.

mod races;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::check::CheckBrief;
use salve_core::event::{
    EffectReport, Entry, Event, IncidentEvent, IncidentOutcome, OnFailure, Process, ProcessExit,
    Proof, RepairMode, Repeat, ResourceLimits, Subject, SubjectKind,
};
use salve_core::fingerprint::FingerprintRules;
use salve_core::incident::{DueEffect, Incident, Phase};
use salve_core::memory::{RememberedFailure, RememberedKind, RememberedRemedy};
use salve_core::playbook::Diagnosis;
use salve_core::scrub::{ScrubKey, Scrubbed, Scrubber};
use uuid::Uuid;

use super::Case;
use crate::config::{Config, PlaybookAuto, Sources};
use crate::heal::cause::{Evidence, FailurePlace};
use crate::heal::inbox::Inbox;
use crate::heal::remedies::{Remedies, RemedyWay};
use crate::heal::{
    IncidentWriter, OpeningTerms, Presence, Remark, RepairTerms, Reporter, Resorts, RunBase,
    RunEnd, RunIntent, SeenFailure, SubjectContext, Subjects,
};
use crate::process::Supervisor;
use crate::project::Project;
use crate::sandbox::Sandbox;
use crate::store::{Store, StoreError, Stream};

/// What the known patch does to the one file.
const PATCH: &str =
    "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-bad\n+good\n";

/// What the subject says when it fails.
pub(super) const WORDS: &str = "Error: the scripted subject is not well\n";

/// A subject that is well when `a.txt` says so.
struct Scripted {
    root: std::path::PathBuf,
    /// The effects that it was asked to verify, in this life.
    verified: Vec<u32>,
    outcome: Option<IncidentOutcome>,
    was_taken_away: bool,
    is_over: bool,
}

impl Scripted {
    fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            verified: Vec::new(),
            outcome: None,
            was_taken_away: false,
            is_over: false,
        }
    }

    fn is_well(&self) -> bool {
        std::fs::read_to_string(self.root.join("a.txt")).is_ok_and(|text| text == "good\n")
    }

    fn fail(&self, verifies: Option<DueEffect>, context: &mut SubjectContext<'_, '_>) {
        let base = &*context.base;
        let exit = ProcessExit::Code(1);
        let evidence = Evidence::of(WORDS, Some(&exit), base.rules, &base.writer.scrubber);
        let (took, before, waiter) = (Duration::ZERO, Vec::new(), None);
        context.failed(0, SeenFailure { evidence, took, before, verifies, waiter });
    }
}

impl Subjects for Scripted {
    fn names(&self) -> Vec<String> {
        vec!["scripted".into()]
    }

    fn opening(&self, _: usize, base: &RunBase<'_>) -> OpeningTerms {
        let (kind, name) = (SubjectKind::Check, Scrubbed::literal("scripted"));
        let limits = ResourceLimits { attempts: Some(4), ..ResourceLimits::default() };
        OpeningTerms {
            subject: Subject { kind, name, repeat: Repeat::Safe },
            policy: base.terms.policy(limits),
            left: ResourceLimits::default(),
        }
    }

    fn place(&self, _: usize, base: &RunBase<'_>) -> FailurePlace {
        FailurePlace::new(&self.root, &self.root, &[], &[], &base.remedies.sandbox)
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
        self.verified.push(effect.effect);
        if self.is_well() {
            let report = EffectReport::Verified { proof: Proof::Proven, symptom: None };
            context.finish(at, effect, report);
        } else {
            self.fail(Some(effect), context);
        }
        Ok(())
    }

    fn taken_away(&mut self, _: usize) {
        (self.was_taken_away, self.is_over) = (true, true);
    }

    fn closed(&mut self, _: usize, over: &Incident, _: &mut SubjectContext<'_, '_>) {
        let Phase::Closed(outcome) = over.phase() else { return };
        (self.outcome, self.is_over) = (Some(outcome), true);
    }

    fn tend(
        &mut self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<Instant>, StoreError> {
        if context.incident(0).is_none() && !self.is_over {
            if self.is_well() { self.is_over = true } else { self.fail(None, context) }
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
        self.is_over || cases.iter().any(Case::asks)
    }
}

/// Dies when it is shown an entry too many.
struct Mortal {
    left: Rc<Cell<u32>>,
}

impl Reporter for Mortal {
    fn entry(&mut self, _: &str, _: &Incident, _: &Entry) {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.expect("killed"));
    }

    fn remark(&mut self, _: &str, _: &Remark) {}
}

fn scrubber() -> Scrubber {
    Scrubber::new(ScrubKey::new([1; 32]))
}

fn terms(config: &Config) -> RepairTerms {
    RepairTerms {
        person: Scrubbed::literal("ada"),
        mode: RepairMode::Legacy,
        engage: Duration::ZERO,
        write: Duration::ZERO,
        max_files: 8,
        max_lines: 300,
        on_failure: OnFailure::Undo,
        breakers: config.settings.heal.breakers.clone(),
        tiers: config.settings.heal.tiers.clone(),
        broadcast: Duration::ZERO,
        kept: Duration::from_secs(86_400),
    }
}

/// Cares for the subject as `me` until it is over, or until the entry on which it is killed.
fn live(
    project: &Project,
    config: &Config,
    me: Option<Process>,
    entries: u32,
) -> (Scripted, Result<RunEnd, ()>) {
    let mut subject = Scripted::new(project.root());
    let end = care(project, config, Life { me, entries }, &mut subject);
    (subject, end)
}

/// As whom a driver lives, and for how many entries.
pub(super) struct Life {
    pub(super) me: Option<Process>,
    pub(super) entries: u32,
}

/// Cares for subjects until they are over, or until the entry on which the driver is killed.
pub(super) fn care(
    project: &Project,
    config: &Config,
    life: Life,
    subjects: &mut dyn Subjects,
) -> Result<RunEnd, ()> {
    care_on(&Store::open(project).unwrap(), project, config, life, subjects)
}

/// Cares for subjects on a store, until they are over or the driver is killed.
fn care_on(
    store: &Store,
    project: &Project,
    config: &Config,
    Life { me, entries }: Life,
    subjects: &mut dyn Subjects,
) -> Result<RunEnd, ()> {
    let mut writer = IncidentWriter::new(store, scrubber());
    writer.me = me.unwrap_or(writer.me);
    let mut reporter = Mortal { left: Rc::new(Cell::new(entries)) };
    let policy = Cow::Borrowed(&config.policy);
    let sandbox = Sandbox::new(&config.settings.recovery.sandbox);
    let root = project.root().to_path_buf();
    let mut base = RunBase {
        project: project.clone(),
        writer,
        care: Supervisor::start(Uuid::new_v4()).unwrap(),
        rules: FingerprintRules::built_in(),
        remedies: Remedies::new(root, policy, PlaybookAuto::Safe, sandbox, None),
        terms: terms(config),
        agents: None,
        inbox: Inbox::default(),
        reporter: &mut reporter,
        presence: Presence::Unattended,
        by: None,
        spent: Default::default(),
        orphans: 0,
        intent: RunIntent::Heal,
    };
    let ran = catch_unwind(AssertUnwindSafe(|| base.care_for(subjects)));
    ran.map(Result::unwrap).map_err(drop)
}

/// Teaches the project's memory a patch against the failure.
fn teach(project: &Project) {
    let store = Store::open(project).unwrap();
    let found =
        Evidence::of(WORDS, Some(&ProcessExit::Code(1)), FingerprintRules::built_in(), &scrubber());
    let failure = RememberedFailure::new(&found.fingerprint, &scrubber());
    let remedy = RememberedRemedy { kind: RememberedKind::Patch, text: Scrubbed::literal(PATCH) };
    let by = Scrubbed::literal("ada");
    store.memory().teach(&failure, &remedy, Timestamp::now(), &by).unwrap();
}

pub(super) fn prepared() -> (tempfile::TempDir, Project, Config) {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("a.txt"), "bad\n").unwrap();
    let project = Project::at(home.path()).unwrap();
    teach(&project);
    (home, project, crate::config::load(&Sources::default()).unwrap())
}

/// Checks that every effect in the journal was asked for once, and returns the incidents.
pub(super) fn journal(project: &Project) -> Vec<Incident> {
    let store = Store::open(project).unwrap();
    let opened = store.journal().read(0, &Stream::Incidents, usize::MAX).unwrap();
    let ids: Vec<_> = opened.iter().filter_map(|entry| entry.incident).collect();
    let mut incidents = Vec::new();
    for id in ids {
        let entries = store.journal().read(0, &Stream::Incident(id), usize::MAX).unwrap();
        let mut asked: BTreeMap<u32, usize> = BTreeMap::new();
        for entry in &entries {
            if let Event::Incident(IncidentEvent::Requested { effect, .. }) = entry.event {
                *asked.entry(effect).or_default() += 1;
            }
        }
        assert!(asked.values().all(|times| *times == 1), "{asked:?}");
        incidents.push(Incident::replay(&entries).unwrap());
    }
    incidents
}

#[test]
fn what_memory_knows_heals_and_is_written_to_its_file() {
    let (home, project, config) = prepared();
    let (subject, end) = live(&project, &config, None, u32::MAX);
    assert_eq!(end, Ok(RunEnd::Over));
    assert_eq!(subject.outcome, Some(IncidentOutcome::Recovered(Proof::Proven)));
    assert_eq!(subject.verified.len(), 1, "the patch was tried first");
    assert_eq!(journal(&project).len(), 1);
    let file = home.path().join(".salve/learned/healing-patterns.json");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("\"result\": \"success\""), "{text}");
}

#[test]
fn a_driver_goes_on_wherever_it_was_killed() {
    let dead = Process { pid: u32::MAX - 1, started: 1, host: host() };
    let mut asked = 0;
    for killed_at in 0.. {
        let (home, project, config) = prepared();
        let (_, first) = live(&project, &config, Some(dead.clone()), killed_at);
        if first.is_ok() {
            assert!(killed_at > 10, "it was killed at every entry: {killed_at}");
            break;
        }
        let (_, end) = live(&project, &config, None, u32::MAX);
        assert_eq!(end, Ok(RunEnd::Over), "killed at entry {killed_at}");
        let text = std::fs::read_to_string(home.path().join("a.txt")).unwrap();
        let healed = Phase::Closed(IncidentOutcome::Recovered(Proof::Proven));
        match journal(&project).iter().map(Incident::phase).collect::<Vec<_>>().as_slice() {
            [phase] if *phase == healed => assert_eq!(text, "good\n", "at entry {killed_at}"),
            // The patch may have been applied, or the layer in which it was tried went with the run: it is
            // not tried again unasked.
            [Phase::Asking { .. }] => {
                assert_eq!(text, "bad\n", "at entry {killed_at}");
                asked += 1;
            }
            phases => panic!("killed at entry {killed_at}: {phases:?}"),
        }
    }
    assert!(asked <= 6, "only between the patch's layer and its way into the tree: {asked}");
}

/// Returns this host as processes name it.
fn host() -> Scrubbed {
    crate::process::this(&scrubber()).host
}
