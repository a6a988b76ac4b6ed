//! `.salve/CONTROL.md`: what a person writes there acts on every healing in the project.
//!
//! The file is looked at a few times a second. Each new word becomes an entry of the journal, for
//! the project and for each incident that is not over; whoever owns one sees it there. Of several
//! Salves the first to see a word takes it, and writes down that it did.
//!
//! **Invariant:** a word by which more may run is not taken from a file that was written while an
//! agent of ours worked: it may be the agent's.

mod record;

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use salve_core::control::{self, Below, Control, ControlWord, News, Said};
use salve_core::event::{Actor, ConfigEvent, Draft, Entry, Event, IncidentEvent, PersonOrder};
use salve_core::repair::who;
use salve_core::scrub::{Scrubbed, Scrubber};

use self::record::ControlRecord;
use super::files::with_causes;
use super::people::after_word;
use super::{loops, spawn_thread};
use crate::atomic::{self, WriteError};
use crate::files::{FileError, FileKind, read_text};
use crate::process;
use crate::project::Project;
use crate::reading::{known_loops, open_incidents};
use crate::store::{Store, StoreError, Stream};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How many new words are taken at once; a person writes one.
const MOST_WORDS: usize = 64;
/// How far two clocks of one system may differ.
const SLACK: SignedDuration = SignedDuration::from_millis(100);
/// How many entries back one looks for orders, guards and incidents.
const LOOKED_BACK: usize = 1_000;

/// Why the file could not be heeded.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The journal could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file is no text, or too large to be one for this.
    #[error("{} is {what}; Salve ignores it", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
}

/// Heeds the file of one project.
#[derive(Debug)]
pub struct ControlFileWatch {
    project: Project,
    person: Scrubbed,
    scrubber: Scrubber,
    seen: Option<ControlFileStamp>,
    told: Vec<String>,
}

/// What tells one state of a file from another.
type ControlFileStamp = Option<(u64, i64, i64, u64)>;

impl ControlFileWatch {
    /// Begins to heed the file in a person's name.
    pub fn new(project: &Project, person: Scrubbed, scrubber: &Scrubber) -> Self {
        let (project, scrubber) = (project.clone(), scrubber.clone());
        Self { project, person, scrubber, seen: None, told: Vec::new() }
    }

    /// Goes on heeding the file for as long as this process lives; `tell` is told what a person
    /// should know.
    pub fn go_on(mut self, tell: impl Fn(String) + Send + 'static) {
        spawn_thread("control", move || {
            let mut store = None;
            loop {
                std::thread::sleep(LOOK);
                if self.seen == Some(stamp(&path(&self.project))) {
                    continue;
                }
                store = store.or_else(|| Store::open(&self.project).ok());
                let Some(store) = &store else { continue };
                self.look(store).into_iter().for_each(&tell);
            }
        });
    }

    /// Takes what is new in the file; returns what a person should know.
    pub fn look(&mut self, store: &Store) -> Vec<String> {
        let stamp = stamp(&path(&self.project));
        if self.seen == Some(stamp) {
            return Vec::new();
        }
        self.seen = Some(stamp);
        let notes = self.take(store).unwrap_or_else(|error| vec![with_causes(&error)]);
        let new: Vec<_> = notes.iter().filter(|note| !self.told.contains(note)).cloned().collect();
        self.told = notes;
        new
    }

    fn take(&mut self, store: &Store) -> Result<Vec<String>, ControlError> {
        let path = path(&self.project);
        let Some((text, meta)) = read(&path)? else {
            return self.take_nothing(store);
        };
        let mut record = ControlRecord::open(&self.project)?;
        let control = control::read(&text);
        let mut notes: Vec<String> = control.unknown.iter().map(ToString::to_string).collect();
        let news = control::news(&record.words, &control);
        if news.said.len() > MOST_WORDS {
            // Each would be an order of the journal, for every incident.
            let what = "a list of more than 64 new words";
            return Err(ControlError::Malformed { path, what });
        }
        let by_agent = may_be_agents(store, changed(&meta), changed(&meta))?;
        let refused = self.heed(store, &news, by_agent, &mut notes)?;
        let lift =
            if news.lifted { Some(self.lift(store, record.written, &mut notes)?) } else { None };
        record.keep(&control, &refused, lift)?;
        self.answer(store, &path, text, &control)?;
        Ok(notes)
    }

    /// Takes in that there is no file.
    fn take_nothing(&mut self, store: &Store) -> Result<Vec<String>, ControlError> {
        let (mut notes, none) = (Vec::new(), Control::default());
        if !self.project.has_state_dir().unwrap_or(false) {
            return Ok(notes);
        }
        let mut record = ControlRecord::open(&self.project)?;
        if control::news(&record.words, &none).lifted
            && self.lift(store, record.written, &mut notes)? == Lift::Refused
        {
            return Ok(notes);
        }
        if !record.words.is_empty() {
            record.keep(&none, &[], None)?;
        }
        Ok(notes)
    }

    /// Goes on because a PAUSE was taken away, unless an agent may have done that.
    fn lift(
        &self,
        store: &Store,
        since: Timestamp,
        notes: &mut Vec<String>,
    ) -> Result<Lift, ControlError> {
        if may_be_agents(store, since, Timestamp::now())? {
            notes.push(
                "PAUSE was taken out of CONTROL.md while an agent worked and still holds: \
                 write RESUME there"
                    .into(),
            );
            return Ok(Lift::Refused);
        }
        self.order(store, PersonOrder::Resume, &self.speaker())?;
        Ok(Lift::Taken)
    }

    /// Takes new words; returns the lines of those that were refused.
    fn heed(
        &self,
        store: &Store,
        news: &News,
        by_agent: bool,
        notes: &mut Vec<String>,
    ) -> Result<Vec<usize>, ControlError> {
        let mut refused = Vec::new();
        for Said { word, line, below } in &news.said {
            let Some(order) = word.order() else { continue };
            if word.widens() && by_agent {
                notes.push(format!(
                    "CONTROL.md:{line}: {word} was written while an agent worked and is not taken: \
                     save the file once more now that it has ended"
                ));
                refused.push(*line);
                continue;
            }
            let by = match (*word, *below, by_agent) {
                (ControlWord::Pause, Below::Own, _) => Actor::Salve(process::this(&self.scrubber)),
                (_, _, true) => Actor::Person {
                    name: Scrubbed::literal("somebody, in CONTROL.md while an agent worked"),
                },
                (_, _, false) => self.speaker(),
            };
            self.order(store, order, &by)?;
        }
        Ok(refused)
    }

    /// Returns who speaks through the file.
    fn speaker(&self) -> Actor {
        Actor::Person { name: self.person.clone() }
    }

    /// Gives an order to the project and to every incident and loop that takes it.
    fn order(&self, store: &Store, order: PersonOrder, by: &Actor) -> Result<(), ControlError> {
        let at = Timestamp::now();
        let draft = |incident| Draft {
            at,
            by: by.clone(),
            incident,
            event: Event::Incident(IncidentEvent::Ordered { order }),
        };
        let mut drafts = vec![draft(None)];
        for view in open_incidents(store.journal(), LOOKED_BACK)?.iter().rev() {
            let draft = draft(Some(view.id()));
            drafts.extend(after_word(view.incident(), &draft).is_ok().then_some(draft));
        }
        let loops = known_loops(store.journal())?;
        drafts.extend(loops.iter().filter_map(|of| loops::ordered(of, order, by)));
        store.journal().append_all(drafts)?;
        Ok(())
    }

    /// Writes how things stand below each STATUS that has no answer.
    fn answer(
        &self,
        store: &Store,
        path: &Path,
        text: String,
        control: &Control,
    ) -> Result<(), ControlError> {
        let asks = |said: &&Said| said.word == ControlWord::Status && said.below == Below::Nothing;
        let lines: Vec<usize> = control.said.iter().filter(asks).map(|said| said.line).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let mut views = open_incidents(store.journal(), LOOKED_BACK)?;
        views.reverse();
        let paused = pause(store)?.map(|by| who(&by));
        let mut status = control::status(&views, paused.as_deref());
        status.extend(known_loops(store.journal())?.iter().filter_map(control::status_of_loop));
        status.insert(0, format!("{:.0}", Timestamp::now()));
        let mut new = text.clone();
        // From the last one up, so that the lines above keep their numbers.
        for line in lines.into_iter().rev() {
            new = control::with_answer(&new, line, &status);
        }
        // What a person wrote meanwhile is not written over.
        if read_text(path, FileKind::Note).is_ok_and(|now| now == text) {
            atomic::write(path, new)?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lift {
    Taken,
    Refused,
}

/// Writes a PAUSE of Salve's own to the file, which then holds all healing in the project.
pub fn write_pause(project: &Project, why: &str) -> Result<(), ControlError> {
    let path = path(project);
    let text = match read(&path) {
        Ok(found) => found.map(|(text, _)| text).unwrap_or_default(),
        // It is not written over.
        Err(error) => return Err(error),
    };
    let news = control::with_pause(&text, why);
    Ok(atomic::write(&path, news)?)
}

/// Returns who paused all healing in the project, if it is paused.
pub fn pause(store: &Store) -> Result<Option<Actor>, StoreError> {
    let told = store.journal().tail(&Stream::Orders, LOOKED_BACK)?;
    for entry in told.into_iter().rev() {
        match entry.event {
            Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Pause }) => {
                return Ok(Some(entry.by));
            }
            Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Resume })
                if entry.by.person_in_history().is_some() =>
            {
                return Ok(None);
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Returns the file's path.
pub fn path(project: &Project) -> PathBuf {
    project.state_dir().join("CONTROL.md")
}

/// Returns whether an agent of ours worked at any moment of a time.
fn may_be_agents(store: &Store, from: Timestamp, to: Timestamp) -> Result<bool, StoreError> {
    let told = store.journal().tail(&Stream::Settings, LOOKED_BACK)?;
    let end_of = |guard: u64| {
        let ended = |entry: &&Entry| entry.event == Event::Config(ConfigEvent::Released { guard });
        told.iter().find(ended).map(|entry| entry.at)
    };
    let guards = told
        .iter()
        .filter(|entry| matches!(entry.event, Event::Config(ConfigEvent::Guarded { .. })));
    Ok(guards.into_iter().any(|guard| {
        // One that died with its Salve may have worked until the next one found out.
        let end = end_of(guard.seq).and_then(|end| end.saturating_add(SLACK).ok());
        let end = end.unwrap_or(Timestamp::MAX);
        let begin = guard.at.saturating_sub(SLACK).unwrap_or(Timestamp::MIN);
        begin <= to && from <= end
    }))
}

/// Returns when a file's content or place last changed; nobody but the system can set that.
fn changed(meta: &Metadata) -> Timestamp {
    let nanos = i32::try_from(meta.ctime_nsec()).unwrap_or(0);
    Timestamp::new(meta.ctime(), nanos).unwrap_or(Timestamp::MAX)
}

fn stamp(path: &Path) -> ControlFileStamp {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.ino(), meta.ctime(), meta.ctime_nsec(), meta.len()))
}

/// Reads the file, if there is one.
fn read(path: &Path) -> Result<Option<(String, Metadata)>, ControlError> {
    let wrong = |source| ControlError::Read { path: path.to_path_buf(), source };
    let malformed = |what| ControlError::Malformed { path: path.to_path_buf(), what };
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error)),
    };
    match read_text(path, FileKind::Note) {
        Ok(text) => Ok(Some((text, meta))),
        Err(FileError::NotRegular(_) | FileError::Outside) => Err(malformed("no ordinary file")),
        Err(FileError::TooLarge(_)) => Err(malformed("too large")),
        Err(FileError::NotText(_)) => Err(malformed("no text")),
        Err(FileError::Io(error)) => Err(wrong(error)),
    }
}
