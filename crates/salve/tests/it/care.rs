//! Stands in for the process that cares for a server, so that stories can begin mid-repair.

use jiff::Timestamp;
use salve::store::{Store, Stream};
use salve_core::class::Class;
use salve_core::event::{
    Acted, Actor, Digest, Draft, Effect, EffectReport, Entry, Event, IncidentEvent, IncidentPolicy,
    Judgement, Process, ProcessExit, Remedy, RemedyKind, RemedyOrigin, RemedyVerdict, RepairMode,
    Repeat, Subject, SubjectKind, Symptom, Undo,
};
use salve_core::id::{IncidentId, Signature};
use salve_core::incident::{Incident, IncidentMove};
use salve_core::scrub::Scrubbed;
use uuid::Uuid;

use crate::support::{self, Project};

/// A key of a made-up service, in a shape that the scrubber knows.
pub(crate) const SECRET: &str = concat!("ghp_", "a8Kd02LmQx71ZbVt93NcPw64RyHs58Jf", "UeG1");

/// The owner of one incident of a server called `web`.
pub(crate) struct Care {
    pub(crate) store: Store,
    pub(crate) id: IncidentId,
    pub(crate) me: Process,
}

impl Care {
    /// Opens an incident in agent mode and takes it up.
    pub(crate) fn crashed(project: &Project, id: u128) -> Self {
        Self::of(project, id, SubjectKind::Server, "web")
    }

    /// Opens an incident of a subject and takes it up.
    pub(crate) fn of(project: &Project, id: u128, kind: SubjectKind, name: &'static str) -> Self {
        let root = salve::project::Project::at(&project.dir()).unwrap();
        let store = Store::open(&root).unwrap();
        let id = IncidentId(Uuid::from_u128(id));
        // Of another machine's processes nothing is known, so this one never counts as gone.
        let me = Process { pid: 1, started: 1, host: Scrubbed::literal("elsewhere") };
        let care = Self { store, id, me };
        care.write(opening(kind, name));
        care.write(Event::Incident(IncidentEvent::Claimed { instead_of: None }));
        care
    }

    /// Appends an entry of the owner.
    pub(crate) fn write(&self, event: Event) {
        let by = Actor::Salve(self.me.clone());
        let draft = Draft { at: Timestamp::now(), by, incident: Some(self.id), event };
        self.store.journal().append(draft).unwrap();
    }

    /// Appends an entry of the owner that is about no incident.
    pub(crate) fn write_beside(&self, event: Event) {
        let by = Actor::Salve(self.me.clone());
        let draft = Draft { at: Timestamp::now(), by, incident: None, event };
        self.store.journal().append(draft).unwrap();
    }

    /// Returns the incident's entries.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.store.journal().read(0, &Stream::Incident(self.id), usize::MAX).unwrap()
    }

    /// Returns all entries of a kind.
    pub(crate) fn kind(&self, kind: &str) -> Vec<Entry> {
        let all = self.store.journal().read(0, &Stream::Project, usize::MAX).unwrap();
        all.into_iter().filter(|entry| entry.event.kind() == kind).collect()
    }

    /// Returns the incident as it stands.
    pub(crate) fn incident(&self) -> Incident {
        Incident::replay(&self.entries()).unwrap()
    }

    /// Chooses a remedy.
    pub(crate) fn choose(&self, kind: RemedyKind, text: &'static str, verdict: RemedyVerdict) {
        let remedy = Remedy {
            kind,
            origin: RemedyOrigin::Playbook,
            text: Scrubbed::literal(text),
            digest: Digest::of_command(text, ".", 60_000),
            undo: Undo::Snapshot,
            repeat: Repeat::Safe,
        };
        let (rule, reason) = (Scrubbed::literal("rule"), Scrubbed::literal("it is listed"));
        let judgement = Judgement { verdict, rule, reason };
        self.write(Event::Incident(IncidentEvent::Judged { remedy: Box::new(remedy), judgement }));
    }

    /// Lets the incident wait for an agent.
    pub(crate) fn await_agent(&self) {
        self.choose(RemedyKind::Agent, "agent", RemedyVerdict::Allow);
        self.act();
        let effect = self.act();
        assert!(matches!(effect, Effect::Apply { .. }), "{effect:?}");
    }

    /// Requests the effect that is due; all but applying and measuring is done at once.
    pub(crate) fn act(&self) -> Effect {
        let IncidentMove::Write(event) = self.incident().next(&self.me, Timestamp::now()) else {
            panic!("nothing is due: {:?}", self.incident().phase());
        };
        let Event::Incident(IncidentEvent::Requested { effect, what }) = event else {
            panic!("{event:?}")
        };
        self.write(event);
        match what {
            Effect::Apply { .. } | Effect::Measure | Effect::Verify => {}
            Effect::Snapshot
            | Effect::VerifyInLayer
            | Effect::TakeOver
            | Effect::RollBack(_)
            | Effect::Ask
            | Effect::Record
            | Effect::Release => self.write(Event::Incident(IncidentEvent::Finished {
                effect,
                report: EffectReport::Done,
            })),
        }
        what
    }
}

fn opening(kind: SubjectKind, name: &'static str) -> Event {
    let subject = Subject { kind, name: Scrubbed::literal(name), repeat: Repeat::Safe };
    let policy = IncidentPolicy {
        engage_ms: 3_600_000,
        write_ms: 3_600_000,
        ..support::policy(RepairMode::Agent)
    };
    let symptom = Symptom {
        signature: Signature(1),
        class: Class::ImportError,
        key_line: Scrubbed::literal("Cannot find module './app'"),
        exit: Some(ProcessExit::Code(1)),
        tree: None,
        acted: Acted::No,
    };
    Event::Incident(IncidentEvent::Opened {
        subject,
        policy: Box::new(policy),
        symptom: Box::new(symptom),
    })
}
