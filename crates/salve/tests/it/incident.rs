//! Several processes meet at one incident in the real journal, and some of them die of it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::Timestamp;
use salve::project::Project as Root;
use salve::store::{Appended, Store, Stream, StreamPosition};
use salve_core::class::Class;
use salve_core::event::{
    Acted, Actor, Digest, Draft, Effect, EffectReport, Event, IncidentEvent, IncidentOutcome,
    Judgement, Process, Proof, Remedy, RemedyKind, RemedyOrigin, RemedyVerdict, RepairMode, Repeat,
    Subject, SubjectKind, Symptom, Undo,
};
use salve_core::id::{IncidentId, Signature};
use salve_core::incident::{DueEffect, Incident, IncidentMove, OwnerState, Phase};
use salve_core::scrub::Scrubbed;

use crate::support::{self, Project};

/// What the processes have in common besides the journal: the world.
#[derive(Default)]
struct World {
    dead: Mutex<Vec<u32>>,
    ran: Mutex<BTreeMap<u32, (u32, Effect)>>,
}

/// Where a process dies, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dies {
    Never,
    /// Having written what it is about to do.
    BeforeActing(Kind),
    /// Having done it and told nobody.
    AfterActing(Kind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Snapshot,
    Apply,
    Verify,
}

fn process(pid: u32) -> Process {
    Process { pid, started: 1, host: Scrubbed::literal("here") }
}

fn remedy() -> Remedy {
    Remedy {
        kind: RemedyKind::Command,
        origin: RemedyOrigin::Playbook,
        text: Scrubbed::literal("npm ci"),
        digest: Digest::of_command("npm ci", ".", 60_000),
        undo: Undo::Snapshot,
        repeat: Repeat::Unsafe,
    }
}

fn opening() -> Event {
    let subject =
        Subject { kind: SubjectKind::Check, name: Scrubbed::literal("test"), repeat: Repeat::Safe };
    let policy = support::policy(RepairMode::Legacy);
    let symptom = Symptom {
        signature: Signature(1),
        class: Class::DependencyMissing,
        key_line: Scrubbed::literal("Cannot find module"),
        exit: None,
        tree: None,
        acted: Acted::No,
    };
    Event::Incident(IncidentEvent::Opened {
        subject,
        policy: Box::new(policy),
        symptom: Box::new(symptom),
    })
}

/// One process of Salve: it drives the incident until that is over, or until it dies.
struct Salve<'a> {
    store: Store,
    me: Process,
    incident: IncidentId,
    world: &'a World,
    dies: Dies,
}

impl Salve<'_> {
    fn live(&self) {
        loop {
            let entries = self.read();
            let incident = Incident::replay(&entries).unwrap();
            let event = match incident.next(&self.me, Timestamp::UNIX_EPOCH) {
                IncidentMove::Over => return,
                IncidentMove::Write(event) => event,
                IncidentMove::Choose => {
                    let rule = Scrubbed::literal("npm ci");
                    let reason = Scrubbed::literal("listed");
                    let judgement = Judgement { verdict: RemedyVerdict::Allow, rule, reason };
                    Event::Incident(IncidentEvent::Judged { remedy: Box::new(remedy()), judgement })
                }
                IncidentMove::NotMine => match incident.claim(&self.me, self.holder(&incident)) {
                    Ok(claim) => claim,
                    Err(_) => {
                        std::thread::yield_now();
                        continue;
                    }
                },
                wait @ IncidentMove::Wait { .. } => panic!("{wait:?} in {:?}", incident.phase()),
            };
            if let Some(run) = self.write(incident, event)
                && !self.run(run)
            {
                self.world.dead.lock().unwrap().push(self.me.pid);
                return;
            }
        }
    }

    fn read(&self) -> Vec<salve_core::event::Entry> {
        let all = Stream::Incident(self.incident);
        self.store.journal().read(0, &all, usize::MAX).unwrap()
    }

    fn holder(&self, incident: &Incident) -> OwnerState {
        let dead = self.world.dead.lock().unwrap();
        if incident.owner().is_some_and(|owner| dead.contains(&owner.pid)) {
            OwnerState::Gone
        } else {
            OwnerState::Alive
        }
    }

    /// Compares and appends; returns what has to run if the entry was the next one.
    fn write(&self, mut incident: Incident, event: Event) -> Option<DueEffect> {
        let draft = Draft {
            at: Timestamp::UNIX_EPOCH,
            by: Actor::Salve(self.me.clone()),
            incident: Some(self.incident),
            event,
        };
        let unless =
            StreamPosition { stream: Stream::Incident(self.incident), after: incident.last_seq() };
        match self.store.journal().append_after(&unless, vec![draft]).unwrap() {
            Appended::Written(entries) => incident.step(&entries[0]).unwrap(),
            Appended::Refused(_) => None,
        }
    }

    /// Runs an effect and tells its result, unless the process dies of it.
    fn run(&self, run: DueEffect) -> bool {
        let (kind, report) = match run.what {
            Effect::Snapshot => (Some(Kind::Snapshot), EffectReport::Done),
            Effect::Apply { .. } => (Some(Kind::Apply), EffectReport::Done),
            Effect::Verify => {
                (Some(Kind::Verify), EffectReport::Verified { proof: Proof::Proven, symptom: None })
            }
            Effect::Measure
            | Effect::VerifyInLayer
            | Effect::TakeOver
            | Effect::RollBack(_)
            | Effect::Ask
            | Effect::Record
            | Effect::Release => (None, EffectReport::Done),
        };
        if kind.is_some_and(|kind| self.dies == Dies::BeforeActing(kind)) {
            return false;
        }
        let before = self.world.ran.lock().unwrap().insert(run.effect, (self.me.pid, run.what));
        assert_eq!(before, None, "effect {} ran twice", run.effect);
        if kind.is_some_and(|kind| self.dies == Dies::AfterActing(kind)) {
            return false;
        }
        let incident = Incident::replay(&self.read()).unwrap();
        self.write(
            incident,
            Event::Incident(IncidentEvent::Finished { effect: run.effect, report }),
        );
        true
    }
}

/// Lets eight processes loose on one incident and returns how often the remedy ran.
fn heal(seed: u32, fates: [Dies; 8]) -> usize {
    let project = Project::new();
    let root = Root::at(&project.dir()).unwrap();
    let id = IncidentId(uuid::Uuid::from_u128(u128::from(seed) + 1));
    let by = Actor::Salve(process(0));
    let opened = Draft { at: Timestamp::UNIX_EPOCH, by, incident: Some(id), event: opening() };
    Store::open(&root).unwrap().journal().append(opened).unwrap();
    let world = World::default();
    std::thread::scope(|scope| {
        for (pid, dies) in (1..).zip(fates) {
            let (world, root) = (&world, &root);
            scope.spawn(move || {
                let store = Store::open(root).unwrap();
                Salve { store, me: process(pid), incident: id, world, dies }.live();
            });
        }
    });
    let store = Store::open(&root).unwrap();
    let entries = store.journal().read(0, &Stream::Incident(id), usize::MAX).unwrap();
    let incident = Incident::replay(&entries).unwrap();
    assert_eq!(
        incident.phase(),
        Phase::Closed(IncidentOutcome::Recovered(Proof::Proven)),
        "{fates:?}"
    );
    let ran = world.ran.into_inner().unwrap();
    ran.values().filter(|(_, what)| matches!(what, Effect::Apply { .. })).count()
}

#[test]
fn eight_processes_heal_one_incident_once() {
    assert_eq!(heal(1, [Dies::Never; 8]), 1);
}

#[test]
fn whoever_dies_when_the_remedy_runs_once_at_most() {
    use Dies::{AfterActing, BeforeActing, Never};
    for kind in [Kind::Snapshot, Kind::Apply, Kind::Verify] {
        let before = BeforeActing(kind);
        let after = AfterActing(kind);
        let ran = heal(2, [before, after, before, after, before, after, before, Never]);
        match kind {
            // It may have died before acting: then the remedy never ran, and nobody ran it again.
            Kind::Apply => assert!(ran <= 1, "{ran}"),
            Kind::Snapshot | Kind::Verify => assert_eq!(ran, 1, "{kind:?}"),
        }
    }
}
