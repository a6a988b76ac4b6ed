//! Where an incident meets the journal.
//!
//! Whoever heals a subject asks [`Incident::next`], writes the entry through
//! [`IncidentWriter::write`], and runs an effect only if that returned it. Every entry that an
//! incident takes in, our own and others', is handed to whoever shows them.
//!
//! **Invariant:** an effect is returned only once its entry is in the journal, and only to the
//! process that wrote it.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{
    Actor, Authority, Digest, Draft, Entry, Event, IncidentEvent, IncidentOutcome, IncidentPolicy,
    MemoryEvent, PersonOrder, Process, Proof, ResourceLimits, Subject, SubjectKind, Symptom,
};
use salve_core::fingerprint::Fingerprint;
use salve_core::id::IncidentId;
use salve_core::incident::{DueEffect, Ignored, Incident, IncidentMove, NotOpened, Phase};
use salve_core::memory::{self, RememberedFailure, RememberedKind, RememberedRemedy};
use salve_core::scrub::{Scrubbed, Scrubber};

use super::control;
use crate::process;
use crate::store::{Appended, Store, StoreError, Stream, StreamPosition};

/// Writes incidents to a project's journal, as this very process.
#[derive(Debug)]
pub struct IncidentWriter<'s> {
    /// The project's store.
    pub store: &'s Store,
    /// Which process this is.
    pub me: Process,
    /// What takes secrets out of what is written.
    pub scrubber: Scrubber,
    began: Cell<(Timestamp, Instant)>,
}

/// Why an incident could not be worked on.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// The journal could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal's entries make no incident.
    #[error(transparent)]
    NotOpened(#[from] NotOpened),
}

/// What came of writing an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrote {
    /// It stands in the journal; the effect, if any, has to run now.
    Done(Option<DueEffect>),
    /// Others were faster: their entries were taken in, and nothing was written.
    Overtaken,
}

impl<'s> IncidentWriter<'s> {
    /// Returns a writer for a project's store.
    pub fn new(store: &'s Store, scrubber: Scrubber) -> Self {
        let me = process::this(&scrubber);
        Self { store, me, scrubber, began: Cell::new((Timestamp::now(), Instant::now())) }
    }

    /// Returns the time, which never runs backwards here.
    pub fn now(&self) -> Timestamp {
        let (wall, start) = self.began.get();
        let passed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
        wall.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// Makes time go on from `known` where the clock was set back since.
    ///
    /// Otherwise a wait that began before would last longer by as much.
    pub fn go_on_from(&self, known: Timestamp) {
        if known > self.now() {
            self.began.set((known, Instant::now()));
        }
    }

    /// Returns when it will be `time` here.
    pub fn instant(&self, time: Timestamp) -> Instant {
        let left = Duration::try_from(time.duration_since(self.now()));
        Instant::now() + left.unwrap_or_default()
    }

    /// Returns what the clock on the wall showed at a moment of ours: less, where it was set back
    /// since.
    pub fn on_the_wall(&self, at: Timestamp) -> Timestamp {
        let ahead = self.now().duration_since(Timestamp::now()).max(SignedDuration::ZERO);
        // What is read off two clocks one after the other differs a little.
        if ahead < SignedDuration::from_secs(1) {
            at
        } else {
            at.saturating_sub(ahead).unwrap_or(at)
        }
    }

    /// Returns a draft of `event`, said by this process.
    pub fn draft(&self, incident: Option<IncidentId>, event: Event) -> Draft {
        Draft { at: self.now(), by: Actor::Salve(self.me.clone()), incident, event }
    }

    /// Writes what is no part of an incident.
    pub fn note(&self, events: Vec<Event>) -> Result<Vec<Entry>, StoreError> {
        let drafts = events.into_iter().map(|event| self.draft(None, event)).collect();
        self.store.journal().append_all(drafts)
    }

    /// Opens an incident and takes it; `before` is written first and belongs to none.
    pub fn open(
        &self,
        id: IncidentId,
        opening: IncidentOpening,
        before: Vec<Event>,
    ) -> Result<(Incident, Vec<Entry>), WriterError> {
        self.begin(
            id,
            opening,
            before,
            Event::Incident(IncidentEvent::Claimed { instead_of: None }),
        )
    }

    /// Puts an incident on record that nobody will work on.
    pub fn call_off(
        &self,
        id: IncidentId,
        opening: IncidentOpening,
        before: Vec<Event>,
    ) -> Result<(Incident, Vec<Entry>), WriterError> {
        self.begin(
            id,
            opening,
            before,
            Event::Incident(IncidentEvent::Ended { outcome: IncidentOutcome::Aborted }),
        )
    }

    fn begin(
        &self,
        id: IncidentId,
        IncidentOpening { subject, mut policy, left, symptom }: IncidentOpening,
        before: Vec<Event>,
        then: Event,
    ) -> Result<(Incident, Vec<Entry>), WriterError> {
        policy.limits = within(policy.limits, left);
        let opened = Event::Incident(IncidentEvent::Opened {
            subject,
            policy: Box::new(policy),
            symptom: Box::new(symptom),
        });
        let mut drafts: Vec<Draft> =
            before.into_iter().map(|event| self.draft(None, event)).collect();
        let pause = match &then {
            Event::Incident(IncidentEvent::Claimed { .. }) => control::pause(self.store)?,
            // Nobody will work on it.
            _ => None,
        };
        drafts.extend([opened, then].map(|event| self.draft(Some(id), event)));
        drafts.extend(pause.map(|by| Draft {
            by,
            ..self.draft(
                Some(id),
                Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Pause }),
            )
        }));
        let entries = self.store.journal().append_all(drafts)?;
        let own: Vec<Entry> =
            entries.into_iter().filter(|entry| entry.incident == Some(id)).collect();
        Ok((Incident::replay(&own)?, own))
    }

    /// Writes an incident's next entries as `by`, unless others wrote meanwhile.
    ///
    /// Of several entries at most the last may bring about an effect. What the incident has us
    /// write next without any choice is written along with them, since every write is a wait.
    /// `show` sees every entry that changed something, with the incident as it was right after it.
    pub fn write(
        &self,
        incident: &mut Incident,
        by: &Actor,
        events: Vec<Event>,
        show: &mut dyn FnMut(&Incident, &Entry),
    ) -> Result<Wrote, StoreError> {
        let id = incident.id();
        let at = self.now().max(incident.clock());
        let draft = |event| Draft { at, by: by.clone(), incident: Some(id), event };
        let mut drafts: Vec<Draft> = events.into_iter().map(draft).collect();
        drafts.extend(self.follows(incident, &drafts));
        self.append(incident, drafts, show)
    }

    fn append(
        &self,
        incident: &mut Incident,
        drafts: Vec<Draft>,
        show: &mut dyn FnMut(&Incident, &Entry),
    ) -> Result<Wrote, StoreError> {
        let unless =
            StreamPosition { stream: Stream::Incident(incident.id()), after: incident.last_seq() };
        match self.store.journal().append_after(&unless, drafts)? {
            Appended::Written(entries) => {
                if entries.first().is_some_and(|first| first.seq <= incident.last_seq()) {
                    // What the incident stands on is gone: nothing would be taken in any more.
                    return Err(StoreError::Forgot { path: self.store.project().database() });
                }
                Ok(Wrote::Done(take_in(incident, &entries, show)))
            }
            Appended::Refused(_) => {
                self.catch_up(incident, show)?;
                Ok(Wrote::Overtaken)
            }
        }
    }

    /// Returns what the incident has us write once these drafts stand in the journal.
    fn follows(&self, incident: &Incident, drafts: &[Draft]) -> Option<Draft> {
        if drafts
            .iter()
            .any(|draft| matches!(draft.event, Event::Incident(IncidentEvent::Claimed { .. })))
        {
            // Whoever takes it over looks first at what was due: this may be another machine.
            return None;
        }
        let ahead = ahead(incident, drafts)?;
        match ahead.next(&self.me, self.now()) {
            IncidentMove::Write(event) => Some(self.draft(Some(ahead.id()), event)),
            IncidentMove::Choose
            | IncidentMove::Wait { .. }
            | IncidentMove::NotMine
            | IncidentMove::Over => None,
        }
    }

    /// Returns the incident as it will be when `events` have been written, if a remedy is to be
    /// chosen then.
    pub fn will_choose(&self, incident: &Incident, events: &[Event]) -> Option<Incident> {
        let draft = |event: &Event| self.draft(Some(incident.id()), event.clone());
        let drafts: Vec<Draft> = events.iter().map(draft).collect();
        let ahead = ahead(incident, &drafts)?;
        (ahead.next(&self.me, self.now()) == IncidentMove::Choose).then_some(ahead)
    }

    /// Returns all entries of an incident.
    pub fn entries(&self, incident: IncidentId) -> Result<Vec<Entry>, StoreError> {
        self.store.journal().read(0, &Stream::Incident(incident), usize::MAX)
    }

    /// Returns whether a remedy may run on this word: a rule's, or a person's whose seal holds.
    pub fn is_authorised(&self, on: Authority) -> Result<bool, StoreError> {
        let Authority::Approval(seq) = on else { return Ok(true) };
        let entry = self.store.journal().entry(seq)?;
        Ok(entry.is_some_and(|entry| entry.by.person().is_some()))
    }

    /// Adds to an incident what holds whoever else writes meanwhile, even if it is over.
    pub fn add(&self, incident: IncidentId, event: Event) -> Result<(), StoreError> {
        self.store.journal().append(self.draft(Some(incident), event)).map(drop)
    }

    /// Returns who this process is in the journal.
    pub fn salve(&self) -> Actor {
        Actor::Salve(self.me.clone())
    }

    /// Takes in what others wrote.
    pub fn catch_up(
        &self,
        incident: &mut Incident,
        show: &mut dyn FnMut(&Incident, &Entry),
    ) -> Result<(), StoreError> {
        let filter = Stream::Incident(incident.id());
        let entries = self.store.journal().read(incident.last_seq(), &filter, usize::MAX)?;
        // Others' entries are theirs to act on.
        let _theirs = take_in(incident, &entries, show);
        Ok(())
    }

    /// Tells memory how a remedy did against a failure: the project's, and the user's own if given.
    pub fn learn(
        &self,
        incident: IncidentId,
        lesson: &Lesson<'_>,
        root: &Path,
        others: &[Store],
    ) -> Result<(), StoreError> {
        let failure = RememberedFailure::new(lesson.fingerprint, &self.scrubber);
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        let outcome = memory::RemedyTrial {
            at: self.now(),
            by: Scrubbed::literal("salve"),
            incident: Some(incident),
            project: self.scrubber.scrub(&name),
            proof: lesson.proof,
        };
        let known = RememberedRemedy { kind: lesson.kind, text: lesson.text.clone() };
        let memory = self.store.memory();
        if memory.recall(failure.signature)?.is_some() {
            // What is known already was seen again.
            memory.see(&failure, outcome.at)?;
        }
        memory.learn(&failure, &known, &outcome)?;
        for other in others {
            other.memory().learn(&failure, &known, &outcome)?;
        }
        let signature = failure.signature;
        let learned = Event::Memory(MemoryEvent::Learned {
            signature,
            remedy: lesson.digest,
            proof: lesson.proof,
        });
        self.note(vec![learned]).map(drop)
    }

    /// Returns the incidents of a subject that are not over, oldest first.
    pub fn unfinished(&self, subject: &Subject) -> Result<Vec<Incident>, StoreError> {
        unfinished(self.store, subject)
    }
}

/// Returns the incidents of a subject that are not over, oldest first.
pub fn unfinished(store: &Store, subject: &Subject) -> Result<Vec<Incident>, StoreError> {
    let journal = store.journal();
    let openings = journal.tail(&Stream::Incidents, LOOKED_BACK)?;
    let mut open = Vec::new();
    for opening in openings {
        let Event::Incident(IncidentEvent::Opened { subject: of, .. }) = &opening.event else {
            continue;
        };
        let Some(id) = opening.incident.filter(|_| of == subject) else { continue };
        let entries = journal.read(0, &Stream::Incident(id), usize::MAX)?;
        match Incident::replay(&entries) {
            Ok(incident) if !matches!(incident.phase(), Phase::Closed(_)) => open.push(incident),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(open)
}

/// Returns the subjects of one kind whose incident a process left that is gone, newest first.
pub fn left_behind(
    store: &Store,
    kind: SubjectKind,
    scrubber: &Scrubber,
) -> Result<Vec<Subject>, StoreError> {
    let journal = store.journal();
    let mut left: Vec<Subject> = Vec::new();
    for opening in journal.tail(&Stream::Incidents, LOOKED_BACK)?.into_iter().rev() {
        let (Event::Incident(IncidentEvent::Opened { subject, .. }), Some(id)) =
            (&opening.event, opening.incident)
        else {
            continue;
        };
        if subject.kind != kind || left.contains(subject) {
            continue;
        }
        let entries = journal.read(0, &Stream::Incident(id), usize::MAX)?;
        let is_left = |incident: &Incident| {
            !matches!(incident.phase(), Phase::Closed(_) | Phase::Asking { .. })
                && incident.owner().is_none_or(|owner| process::is_gone(owner, scrubber))
        };
        if Incident::replay(&entries).is_ok_and(|incident| is_left(&incident)) {
            left.push(subject.clone());
        }
    }
    Ok(left)
}

/// Returns the incident as it will be when these drafts stand in the journal.
fn ahead(incident: &Incident, drafts: &[Draft]) -> Option<Incident> {
    let mut ahead = incident.clone();
    for draft in drafts {
        let entry = draft.clone().at_seq(ahead.last_seq().saturating_add(1));
        match ahead.step(&entry) {
            // What is only on record with it changes nothing.
            Ok(None) | Err(Ignored::NoNews) => {}
            // What runs, or was refused, is to be seen first.
            Ok(Some(_)) | Err(_) => return None,
        }
    }
    Some(ahead)
}

/// Takes entries in and returns the effect that has to run now, if any.
fn take_in(
    incident: &mut Incident,
    entries: &[Entry],
    show: &mut dyn FnMut(&Incident, &Entry),
) -> Option<DueEffect> {
    let mut run = None;
    for entry in entries {
        // What is refused stands in the journal and changes nothing, as in a replay.
        if let Ok(due) = incident.step(entry) {
            run = due.or(run);
            show(incident, entry);
        }
    }
    run
}

/// How many incidents back one looks for those that are not over.
const LOOKED_BACK: usize = 200;

/// How a remedy did against a failure.
#[derive(Clone, Debug)]
pub struct Lesson<'f> {
    /// The failure.
    pub fingerprint: &'f Fingerprint,
    /// What sort of thing the remedy is.
    pub kind: RememberedKind,
    /// The remedy, as memory keeps it.
    pub text: Scrubbed,
    /// Its hash in the journal.
    pub digest: Digest,
    /// What verification found.
    pub proof: Proof,
}

/// What an incident begins with.
#[derive(Clone, Debug)]
pub struct IncidentOpening {
    /// What is under care.
    pub subject: Subject,
    /// The terms.
    pub policy: IncidentPolicy,
    /// What is left above the incident: to the run, or to the job it is a part of.
    pub left: ResourceLimits,
    /// What was seen.
    pub symptom: Symptom,
}

/// Returns what one incident may spend of what is left above it.
fn within(own: ResourceLimits, left: ResourceLimits) -> ResourceLimits {
    let least = |own: Option<u64>, left: Option<u64>| [own, left].into_iter().flatten().min();
    ResourceLimits {
        attempts: least(own.attempts, left.attempts),
        tokens: least(own.tokens, left.tokens),
        money_micros: least(own.money_micros, left.money_micros),
        wall_ms: least(own.wall_ms, left.wall_ms),
        resets: least(own.resets, left.resets),
    }
}

#[cfg(test)]
mod tests {
    use salve_core::class::Class;
    use salve_core::event::{
        Acted, AtALoss, Effect, EffectReport, OnFailure, ProcessExit, RepairMode, Repeat,
        ServerEvent, SubjectKind,
    };
    use salve_core::id::Signature;
    use salve_core::scrub::ScrubKey;

    use super::*;
    use crate::heal::remedies::{self, Offer};
    use crate::project::Project;

    #[test]
    fn an_incident_gets_what_is_left_above_it_and_never_more_than_its_own() {
        let limits =
            |tokens: u64| ResourceLimits { tokens: Some(tokens), ..ResourceLimits::default() };
        assert_eq!(within(limits(50), limits(500)).tokens, Some(50));
        assert_eq!(within(limits(50), limits(20)).tokens, Some(20));
        assert_eq!(within(limits(50), limits(0)).tokens, Some(0));
        assert_eq!(within(limits(50), ResourceLimits::default()).tokens, Some(50));
        assert_eq!(within(ResourceLimits::default(), limits(4)).tokens, Some(4));
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_wait_longer() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&Project::at(home.path()).unwrap()).unwrap();
        let writer = IncidentWriter::new(&store, Scrubber::new(ScrubKey::new([1; 32])));
        let day = SignedDuration::from_hours(24);
        let tomorrow = Timestamp::now() + day;
        writer.go_on_from(tomorrow);
        let now = writer.now();
        assert!(now >= tomorrow, "it goes on where the journal stopped");
        assert!(now < tomorrow + day, "{now}");
        writer.go_on_from(tomorrow - day);
        assert!(writer.now() >= now, "it never runs backwards");
    }

    /// Opens an incident of a server that may be tried three times.
    fn opened(writer: &IncidentWriter<'_>) -> Incident {
        let limits = ResourceLimits { attempts: Some(3), ..ResourceLimits::default() };
        let policy = IncidentPolicy {
            person: Scrubbed::literal("ada"),
            mode: RepairMode::Legacy,
            listener: None,
            starts: None,
            limits,
            backoff_ms: 0,
            engage_ms: 0,
            write_ms: 0,
            quiet_ms: 0,
            watch_ms: 0,
            cooldown_ms: 0,
            max_files: 8,
            max_lines: 300,
            no_progress_limit: None,
            catastrophe_after: None,
            on_failure: OnFailure::Undo,
            at_a_loss: AtALoss::Ask,
        };
        let (kind, repeat) = (SubjectKind::Server, Repeat::Safe);
        let subject = Subject { kind, name: Scrubbed::literal("web"), repeat };
        let opening = IncidentOpening {
            subject,
            policy,
            left: ResourceLimits::default(),
            symptom: symptom(),
        };
        writer.open(IncidentId(uuid::Uuid::from_u128(7)), opening, Vec::new()).unwrap().0
    }

    fn symptom() -> Symptom {
        Symptom {
            signature: Signature(1),
            class: Class::Unknown,
            key_line: Scrubbed::literal("no luck"),
            exit: Some(ProcessExit::Code(1)),
            tree: None,
            acted: Acted::No,
        }
    }

    fn judged() -> Event {
        let Offer { candidate, judgement, .. } =
            remedies::resort(remedies::RemedyWay::Again, "restart");
        Event::Incident(IncidentEvent::Judged { remedy: Box::new(candidate.remedy), judgement })
    }

    #[test]
    fn a_crash_and_the_restart_that_follows_are_one_write() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&Project::at(home.path()).unwrap()).unwrap();
        let writer = IncidentWriter::new(&store, Scrubber::new(ScrubKey::new([1; 32])));
        let mut incident = opened(&writer);
        let me = writer.salve();
        let first = writer.write(&mut incident, &me, vec![judged()], &mut |_, _| {}).unwrap();
        let Wrote::Done(Some(DueEffect { effect: 1, what: Effect::Verify })) = first else {
            panic!("{first:?}")
        };
        let failed =
            EffectReport::Verified { proof: Proof::Failed, symptom: Some(Box::new(symptom())) };
        let stopped = Event::Server(ServerEvent::Stopped {
            server: Scrubbed::literal("web"),
            exit: ProcessExit::Code(1),
        });
        let crash =
            [stopped, Event::Incident(IncidentEvent::Finished { effect: 1, report: failed })];
        assert!(writer.will_choose(&incident, &[]).is_none(), "it is being verified");
        assert!(writer.will_choose(&incident, &crash).is_some());
        assert!(matches!(incident.phase(), Phase::Doing { .. }), "nothing has happened yet");
        let before = store.journal().last_seq().unwrap();
        let all = [&crash[..], &[judged()]].concat();
        let second = writer.write(&mut incident, &me, all, &mut |_, _| {}).unwrap();
        assert_eq!(second, Wrote::Done(Some(DueEffect { effect: 2, what: Effect::Verify })));
        assert_eq!(store.journal().last_seq().unwrap(), before + 4);
    }
}
