//! Somebody else writes in the very moment in which a driver takes over what a dead run left.

use std::cell::RefCell;

use salve_core::event::{Acted, Actor, Digest, Draft, LoopId, Symptom};
use salve_core::id::IncidentId;

use super::*;
use crate::store::{Appended, Engine, Follower, JobQueue, Journal, Memory, StreamPosition};

/// A store in which somebody says a word right before an incident is claimed.
#[derive(Debug)]
struct RacingStore {
    inner: Store,
    word: RefCell<Option<Draft>>,
}

impl Engine for RacingStore {
    fn journal(&self) -> &dyn Journal {
        self
    }

    fn memory(&self) -> &dyn Memory {
        self.inner.memory()
    }

    fn queue(&self) -> &dyn JobQueue {
        self.inner.queue()
    }
}

impl Journal for RacingStore {
    fn append_all(&self, drafts: Vec<Draft>) -> Result<Vec<Entry>, StoreError> {
        self.inner.journal().append_all(drafts)
    }

    fn append_after(
        &self,
        position: &StreamPosition,
        drafts: Vec<Draft>,
    ) -> Result<Appended, StoreError> {
        let claims =
            |draft: &Draft| matches!(draft.event, Event::Incident(IncidentEvent::Claimed { .. }));
        if drafts.iter().any(claims)
            && let Some(word) = self.word.take()
        {
            self.inner.journal().append(word)?;
        }
        self.inner.journal().append_after(position, drafts)
    }

    fn read(&self, after: u64, stream: &Stream, limit: usize) -> Result<Vec<Entry>, StoreError> {
        self.inner.journal().read(after, stream, limit)
    }

    fn read_back(
        &self,
        before: u64,
        stream: &Stream,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.inner.journal().read_back(before, stream, limit)
    }

    fn last_seq(&self) -> Result<u64, StoreError> {
        self.inner.journal().last_seq()
    }

    fn incidents_like(&self, prefix: &str) -> Result<Vec<IncidentId>, StoreError> {
        self.inner.journal().incidents_like(prefix)
    }

    fn loops(&self) -> Result<Vec<LoopId>, StoreError> {
        self.inner.journal().loops()
    }

    fn follow(&self, after: u64, stream: Stream) -> Box<dyn Follower + '_> {
        self.inner.journal().follow(after, stream)
    }
}

const ID: IncidentId = IncidentId(Uuid::from_u128(7));

/// Leaves an incident that asks a person and whose run is dead; returns what an answer is bound to.
fn leave_asking(project: &Project, config: &Config) -> Digest {
    let dead = Process { pid: u32::MAX - 1, started: 1, host: host() };
    let seen =
        Evidence::of(WORDS, Some(&ProcessExit::Code(1)), FingerprintRules::built_in(), &scrubber());
    let (kind, name) = (SubjectKind::Check, Scrubbed::literal("scripted"));
    let opened = IncidentEvent::Opened {
        subject: Subject { kind, name, repeat: Repeat::Safe },
        policy: Box::new(
            terms(config).policy(ResourceLimits { attempts: Some(4), ..ResourceLimits::default() }),
        ),
        symptom: Box::new(Symptom { acted: Acted::No, ..seen.symptom }),
    };
    let claimed = IncidentEvent::Claimed { instead_of: None };
    let store = Store::open(project).unwrap();
    for event in [opened, claimed, IncidentEvent::NothingLeft {}] {
        let by = Actor::Salve(dead.clone());
        let event = Event::Incident(event);
        let draft = Draft { at: Timestamp::now(), by, incident: Some(ID), event };
        store.journal().append(draft).unwrap();
    }
    match journal(project)[0].phase() {
        Phase::Asking { digest, .. } => digest,
        phase => panic!("{phase:?}"),
    }
}

/// Takes the incident over while somebody says a word in the very moment of the claim.
fn taken_over_while(by: Actor, event: IncidentEvent) -> (tempfile::TempDir, Vec<Entry>, Scripted) {
    let (home, project, config) = prepared();
    let digest = leave_asking(&project, &config);
    let event = match event {
        IncidentEvent::Approved { question, note, .. } => {
            IncidentEvent::Approved { question, digest, note }
        }
        other => other,
    };
    let event = Event::Incident(event);
    let word = Draft { at: Timestamp::now(), by, incident: Some(ID), event };
    let inner = Store::open(&project).unwrap();
    let racing = Store::on(&project, RacingStore { inner, word: RefCell::new(Some(word)) });
    let mut subject = Scripted::new(project.root());
    let life = Life { me: None, entries: u32::MAX };
    let end = care_on(&racing, &project, &config, life, &mut subject);
    assert_eq!(end, Ok(RunEnd::Over));
    let store = Store::open(&project).unwrap();
    let told = store.journal().read(0, &Stream::Incident(ID), usize::MAX).unwrap();
    (home, told, subject)
}

fn claims(told: &[Entry]) -> usize {
    let is_claim =
        |entry: &&Entry| matches!(entry.event, Event::Incident(IncidentEvent::Claimed { .. }));
    told.iter().filter(is_claim).count()
}

/// **Invariant:** An answer in the moment of taking over costs neither the answer nor the incident.
#[test]
fn an_answer_in_the_moment_of_taking_over_counts_and_the_incident_is_ours() {
    let ada = Actor::Person { name: Scrubbed::literal("ada") };
    let yes = IncidentEvent::Approved { question: 1, digest: Digest::of(&[b""]), note: None };
    let (home, told, subject) = taken_over_while(ada, yes);
    assert_eq!(subject.outcome, Some(IncidentOutcome::Recovered(Proof::Proven)), "{told:?}");
    assert_eq!(claims(&told), 2, "the dead run's and ours");
    assert_eq!(std::fs::read_to_string(home.path().join("a.txt")).unwrap(), "good\n");
}

/// **Invariant:** Of two that take over at once, one does.
#[test]
fn who_is_faster_takes_over_and_the_other_leaves_it_alone() {
    let dead = Process { pid: u32::MAX - 1, started: 1, host: host() };
    // Of another machine's processes nothing is known, so this one never counts as gone.
    let faster = Process { pid: 1, started: 1, host: Scrubbed::literal("elsewhere") };
    let claim = IncidentEvent::Claimed { instead_of: Some(dead) };
    let (home, told, subject) = taken_over_while(Actor::Salve(faster.clone()), claim);
    assert!(subject.was_taken_away && subject.verified.is_empty());
    let incident = Incident::replay(&told).unwrap();
    assert_eq!((incident.owner(), claims(&told)), (Some(&faster), 2), "{told:?}");
    assert_eq!(std::fs::read_to_string(home.path().join("a.txt")).unwrap(), "bad\n");
}
