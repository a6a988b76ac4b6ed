//! Settings that may change while Salve runs.
//!
//! A change is taken over as a whole or refused as a whole, at a moment the owner chooses, and is
//! journalled. One that widens what runs unattended, made while an agent was running, waits for a
//! person; the stricter of old and new holds meanwhile. All that is known about this is in the
//! journal, so every Salve of the project goes by the same rules and a restart changes nothing.
//!
//! **Invariant:** what holds is never wider than what held when the agent started, until a person
//! has accepted exactly what is in the files.

use std::fmt;

use jiff::Timestamp;
use salve_core::event::{Actor, ConfigEvent, Digest, Draft, Event, Process};
use salve_core::scrub::{Scrubbed, Scrubber};
use salve_core::widen::{Ruling, SettingsStanding};

use super::load::{Config, LoadError, Sources, finish, load};
use super::problem::ConfigProblem;
use super::rules;
use crate::process;
use crate::store::{Appended, Journal, StoreError, Stream, StreamPosition};

/// How many entries are read at once.
const BATCH: usize = 256;

/// Settings, and their standing in the journal.
#[derive(Debug)]
pub struct LiveSettings<'s> {
    journal: &'s dyn Journal,
    sources: Sources,
    scrubber: Scrubber,
    process: Process,
    standing: SettingsStanding,
    current: Config,
    /// Guards whose agents have ended; they are let go once the files can be judged.
    ended: Vec<u64>,
    /// Why the files were last refused, so that it is journalled once.
    refused: Option<String>,
    /// What new settings must fit besides.
    demand: Demand<'s>,
}

/// Says what is wrong with settings.
type Wrong<'s> = dyn Fn(&Config) -> Vec<ConfigProblem> + 's;

/// What settings must fit beside being right by themselves.
#[derive(Default)]
struct Demand<'s>(Option<Box<Wrong<'s>>>);

impl fmt::Debug for Demand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "some" } else { "none" })
    }
}

/// What became of the settings in the files.
#[derive(Debug)]
pub enum Reload {
    /// Nothing is different.
    Unchanged,
    /// They hold now.
    Changed(Vec<Scrubbed>),
    /// They wait for a person.
    Waiting {
        /// The hash of what waits.
        digest: Digest,
        /// What accepting it would change.
        changes: Vec<Scrubbed>,
    },
    /// They are wrong; what held before holds still.
    Rejected(LoadError),
}

impl Reload {
    /// Returns what a person should know, if anything.
    pub fn said(&self) -> Option<String> {
        match self {
            Reload::Unchanged => None,
            Reload::Changed(changes) => {
                let changes: Vec<&str> = changes.iter().map(Scrubbed::as_str).collect();
                Some(format!("the settings changed: {}", changes.join("; ")))
            }
            Reload::Waiting { digest, .. } => {
                let digest: String = digest.to_string().chars().take(12).collect();
                Some(format!(
                    "changed settings wait for you, and the stricter ones hold until then\n\
                     salve config accept {digest}"
                ))
            }
            Reload::Rejected(error) => Some(format!(
                "the settings were refused, and the loop goes on with those before: {error}\n\
                 salve config check"
            )),
        }
    }
}

/// Why settings could not be brought into force.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// They are wrong, and there are no earlier ones.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The journal could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The person accepts something else than what waits.
    #[error("what waits is {waiting}, not what was accepted")]
    NotThat {
        /// The hash of what waits.
        waiting: Digest,
    },
    /// There is nothing to accept.
    #[error("no change of the settings waits for a person")]
    NothingWaits,
}

impl<'s> LiveSettings<'s> {
    /// Loads the settings and takes their standing from the journal.
    ///
    /// What a Salve that was killed left behind is taken over: the changes its agent made are
    /// judged before the rules are let go.
    pub fn open(
        journal: &'s dyn Journal,
        sources: Sources,
        scrubber: Scrubber,
        at: Timestamp,
    ) -> Result<Self, LiveError> {
        let (process, standing) = (process::this(&scrubber), SettingsStanding::default());
        let current = load(&sources)?;
        let (ended, refused, demand) = (Vec::new(), None, Demand::default());
        let mut live =
            Self { journal, sources, scrubber, process, standing, current, ended, refused, demand };
        live.catch_up()?;
        let gone = |guard: &Process| process::is_gone(guard, &live.scrubber);
        let guards = live.standing.guards().iter().filter(|(_, guard)| gone(&guard.process));
        live.ended = guards.map(|(&number, _)| number).collect();
        match live.reload(at)? {
            Reload::Rejected(error) => Err(error.into()),
            Reload::Unchanged | Reload::Changed(_) | Reload::Waiting { .. } => Ok(live),
        }
    }

    /// Refuses from now on, as a whole, settings with which `wrong` finds something wrong: what is
    /// under way could not go on with them.
    pub fn demand(&mut self, wrong: impl Fn(&Config) -> Vec<ConfigProblem> + 's) {
        self.demand = Demand(Some(Box::new(wrong)));
    }

    /// Loads the files, if what is under way can go on with them.
    fn load(&self) -> Result<Config, LoadError> {
        let new = load(&self.sources)?;
        let wrong = self.demand.0.as_ref().map(|wrong| wrong(&new)).unwrap_or_default();
        if wrong.is_empty() { Ok(new) } else { Err(LoadError::Invalid(wrong)) }
    }

    /// Returns the settings in force.
    pub fn current(&self) -> &Config {
        &self.current
    }

    /// Looks at the files again; call it where a change can do no harm.
    pub fn reload(&mut self, at: Timestamp) -> Result<Reload, StoreError> {
        loop {
            self.catch_up()?;
            let new = match self.load() {
                Ok(new) => new,
                Err(error) => return self.reject(error, at),
            };
            let done = match self.standing.rule(&rules::rules(&new.files, &self.scrubber)) {
                Ruling::Apply => self.apply(new, at)?,
                Ruling::Wait(strict) => {
                    let mut files = new.files.clone();
                    rules::tighten_to(&mut files, &strict, &self.scrubber);
                    match finish(files, new.content, &self.sources) {
                        Ok(held) => self.wait(new, held, at)?,
                        Err(error) => return self.reject(error, at),
                    }
                }
            };
            // Where another process wrote something in between, look again.
            if let Some(done) = done
                && self.release(at)?
            {
                self.refused = None;
                return Ok(done);
            }
        }
    }

    /// Holds the rules because an agent is about to start; returns the number of the guard.
    pub fn agent_starts(&mut self, at: Timestamp) -> Result<u64, StoreError> {
        loop {
            self.reload(at)?;
            let rules = rules::rules(&self.current.files, &self.scrubber);
            if let Some(number) = self.append(Event::Config(ConfigEvent::Guarded { rules }), at)? {
                return Ok(number);
            }
        }
    }

    /// Lets the rules go because the agent of this guard has ended, with all its processes.
    ///
    /// What it left in the files is judged first; files that are wrong cannot be judged, so then
    /// the rules are held until they are right again.
    pub fn agent_ended(&mut self, guard: u64, at: Timestamp) -> Result<Reload, StoreError> {
        self.ended.push(guard);
        self.reload(at)
    }

    /// Lets go of the guards whose agents have ended; tells whether nobody came in between.
    fn release(&mut self, at: Timestamp) -> Result<bool, StoreError> {
        while let Some(&guard) = self.ended.last() {
            if self.append(Event::Config(ConfigEvent::Released { guard }), at)?.is_none() {
                return Ok(false);
            }
            self.ended.pop();
        }
        Ok(true)
    }

    /// Accepts what waits, if it is exactly this, in the name of a person.
    pub fn accept(
        &mut self,
        digest: Digest,
        person: Scrubbed,
        at: Timestamp,
    ) -> Result<Reload, LiveError> {
        loop {
            match self.reload(at)? {
                Reload::Waiting { digest: waiting, .. } if waiting == digest => {}
                Reload::Waiting { digest: waiting, .. } => {
                    return Err(LiveError::NotThat { waiting });
                }
                Reload::Rejected(error) => return Err(error.into()),
                Reload::Unchanged | Reload::Changed(_) => return Err(LiveError::NothingWaits),
            }
            let by = Actor::Person { name: person.clone() };
            let event = Event::Config(ConfigEvent::Accepted { digest });
            if self.append_by(by, event, at)?.is_some() {
                return Ok(self.reload(at)?);
            }
        }
    }

    fn apply(&mut self, new: Config, at: Timestamp) -> Result<Option<Reload>, StoreError> {
        let changes = self.changes(&self.current, &new);
        let known = self.standing.applied() == Some(new.content);
        let settled = self.standing.waiting().is_none() && (known || changes.is_empty());
        if !settled {
            let (digest, changes) = (new.content, changes.clone());
            let event = Event::Config(ConfigEvent::Changed { digest, changes });
            if self.append(event, at)?.is_none() {
                return Ok(None);
            }
        }
        self.current = new;
        Ok(Some(if changes.is_empty() { Reload::Unchanged } else { Reload::Changed(changes) }))
    }

    fn wait(
        &mut self,
        new: Config,
        held: Config,
        at: Timestamp,
    ) -> Result<Option<Reload>, StoreError> {
        let (digest, changes) = (new.content, self.changes(&held, &new));
        if self.standing.waiting().is_none_or(|waiting| waiting.digest != digest) {
            let rules = rules::rules(&new.files, &self.scrubber);
            // What is stricter needs nobody's word: it holds from now on.
            let stricter = rules::changes(&self.current.files, &held.files);
            let stricter = stricter.iter().map(|line| format!("holds now: {line}"));
            let stricter = stricter.map(|line| self.scrubber.scrub(&line));
            let changes = changes.iter().cloned().chain(stricter).collect();
            let event = Event::Config(ConfigEvent::Pending { digest, changes, rules });
            if self.append(event, at)?.is_none() {
                return Ok(None);
            }
        }
        self.current = held;
        Ok(Some(Reload::Waiting { digest, changes }))
    }

    fn reject(&mut self, error: LoadError, at: Timestamp) -> Result<Reload, StoreError> {
        let reason = error.to_string();
        if self.refused.as_ref() != Some(&reason) {
            let event =
                Event::Config(ConfigEvent::Rejected { reason: self.scrubber.scrub(&reason) });
            let by = Actor::Salve(self.process.clone());
            self.journal.append(Draft { at, by, incident: None, event })?;
            self.refused = Some(reason);
        }
        Ok(Reload::Rejected(error))
    }

    fn changes(&self, old: &Config, new: &Config) -> Vec<Scrubbed> {
        changes(old, new, &self.scrubber)
    }

    fn append(&mut self, event: Event, at: Timestamp) -> Result<Option<u64>, StoreError> {
        self.append_by(Actor::Salve(self.process.clone()), event, at)
    }

    /// Writes one entry, unless another about the settings has come in meanwhile.
    fn append_by(
        &mut self,
        by: Actor,
        event: Event,
        at: Timestamp,
    ) -> Result<Option<u64>, StoreError> {
        let draft = Draft { at, by, incident: None, event };
        let after = self.standing.seen();
        let unless = StreamPosition { stream: Stream::Settings, after };
        match self.journal.append_after(&unless, vec![draft])? {
            Appended::Refused(_) => Ok(None),
            Appended::Written(entries) => {
                entries.iter().for_each(|entry| self.standing.take(entry));
                Ok(entries.last().map(|entry| entry.seq))
            }
        }
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        catch_up(&mut self.standing, self.journal)
    }
}

/// Returns the settings in force, without writing anything, and whether a change waits.
pub fn in_force(
    journal: &dyn Journal,
    sources: &Sources,
    scrubber: &Scrubber,
) -> Result<(Config, Option<Digest>), LiveError> {
    let mut standing = SettingsStanding::default();
    catch_up(&mut standing, journal)?;
    let config = load(sources)?;
    match standing.rule(&rules::rules(&config.files, scrubber)) {
        Ruling::Apply => Ok((config, None)),
        Ruling::Wait(strict) => {
            let (mut files, content) = (config.files, config.content);
            rules::tighten_to(&mut files, &strict, scrubber);
            Ok((finish(files, content, sources)?, Some(content)))
        }
    }
}

/// Returns what is different in settings, one line for each, without secrets.
pub fn changes(old: &Config, new: &Config, scrubber: &Scrubber) -> Vec<Scrubbed> {
    rules::changes(&old.files, &new.files).iter().map(|line| scrubber.scrub(line)).collect()
}

fn catch_up(standing: &mut SettingsStanding, journal: &dyn Journal) -> Result<(), StoreError> {
    loop {
        let entries = journal.read(standing.seen(), &Stream::Settings, BATCH)?;
        entries.iter().for_each(|entry| standing.take(entry));
        if entries.len() < BATCH {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
