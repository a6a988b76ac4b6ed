//! One loop, from where it stands to where this run of Salve leaves it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::event::{Entry, Event, LoopEnd, LoopEvent, LoopTurn, RecoveryEnd};
use salve_core::iteration::{Loop, LoopMove, StepsStanding};
use salve_core::scrub::Scrubbed;

use super::recovery::{RecoverySubject, RecoveryTests};
use super::report::report;
use super::trial::LINES;
use super::{LoopDriver, LoopEnding, LoopError, LoopNews};
use crate::heal::inbox::InboxMessage;
use crate::heal::loop_files::{FilesError, LoopFiles};
use crate::heal::loops::{Recovered, Recovery, Sought};
use crate::heal::manifests;
use crate::heal::run::CommandRunEnd;
use crate::heal::{Presence, millis};
use crate::process::{Capture, Outlet, OutputStyle};
use crate::store::{StoreError, Stream};

/// How long to wait at most before the clock is looked at again; it may have been set.
const LOOK: Duration = Duration::from_secs(5);

/// How long a pause in the midst of a loop is waited out where nobody is there.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// A loop under way, and what this run of Salve knows of it besides the journal.
pub(super) struct LoopRun<'d, 'a> {
    pub(super) driver: &'d mut LoopDriver<'a>,
    pub(super) of: Loop,
    pub(super) files: LoopFiles,
    /// How the tests came out last, if they ran in this run of Salve.
    pub(super) ran: Option<CommandRunEnd>,
    /// The signal by which the user wants it to end.
    pub(super) stopping: Option<i32>,
    /// Whether anything was begun in this run of Salve.
    begun: bool,
    /// Since when it has been held by a pause.
    held: Option<Instant>,
}

impl LoopDriver<'_> {
    /// Takes a loop that was started on to its end, or to where it cannot go on by itself.
    pub fn run(&mut self, of: Loop) -> Result<LoopEnding, LoopError> {
        self.base.writer.go_on_from(of.stamps().clock());
        self.folder.make(of.task())?;
        let (dir, root) = (self.folder.dir().to_path_buf(), self.base.project.root());
        // What says what is installed is kept before any role can change it.
        let name = self.base.writer.scrubber.scrub(of.id().as_str());
        manifests::changed(&self.base.writer, root, &name, of.stamps().run_since())?;
        let files = LoopFiles::new(dir, root, of.id().as_str());
        let (ran, stopping, begun, held) = (None, None, false, None);
        LoopRun { driver: self, of, files, ran, stopping, begun, held }.live()
    }
}

impl LoopRun<'_, '_> {
    fn live(&mut self) -> Result<LoopEnding, LoopError> {
        loop {
            self.heed()?;
            self.tell()?;
            if let Some(signal) = self.stopping {
                self.say(LoopTurn::Stopped {})?;
                self.tell()?;
                return Ok(LoopEnding::Stopped(signal));
            }
            let next = self.of.next(self.now());
            if !matches!(next, LoopMove::Hold(_)) {
                self.held = None;
            }
            match next {
                LoopMove::Hold(by) => {
                    if let Some(ending) = self.hold(&by)? {
                        return Ok(ending);
                    }
                }
                LoopMove::Begin(_) => self.begin()?,
                LoopMove::Role { role, attempt } => self.role(&role, attempt)?,
                LoopMove::Tests => self.tests()?,
                LoopMove::Recover => self.recover()?,
                LoopMove::Wait(until) => self.wait(until)?,
                LoopMove::End(why) => self.end(why)?,
                LoopMove::Person(reason) => return Ok(LoopEnding::NeedsPerson(reason)),
                LoopMove::Over => return Ok(self.over()),
            }
        }
    }

    fn over(&self) -> LoopEnding {
        match self.of.standing() {
            StepsStanding::Ended(why) => LoopEnding::Over(why.clone()),
            StepsStanding::Stopped => LoopEnding::CalledOff,
            StepsStanding::Running | StepsStanding::Parked { .. } | StepsStanding::Waits { .. } => {
                LoopEnding::Stopped(0)
            }
        }
    }

    /// Waits in a pause for somebody to let it go on; returns how it ends where nobody is there.
    fn hold(&mut self, by: &Scrubbed) -> Result<Option<LoopEnding>, LoopError> {
        let since = match self.held {
            Some(since) => since,
            None => {
                let now = Instant::now();
                self.held = Some(now);
                let id = self.of.id();
                self.note(&format!(
                    "the loop is paused by {by}\n\
                     write RESUME to .salve/CONTROL.md, or: salve resume --loop {id}"
                ));
                now
            }
        };
        let patience = match (self.driver.base.presence, self.begun) {
            (Presence::Attended, _) => Duration::MAX,
            // What was begun may be about to be resumed.
            (Presence::Unattended, true) => PAUSE,
            (Presence::Unattended, false) => Duration::ZERO,
        };
        let left = patience.saturating_sub(since.elapsed());
        if left.is_zero() {
            let reason = format!("the loop is paused by {by}");
            return Ok(Some(LoopEnding::NeedsPerson(
                self.driver.base.writer.scrubber.scrub(&reason),
            )));
        }
        self.listen(left)?;
        Ok(None)
    }

    /// Returns the time; a clock that was set back or jumped ahead makes no wait longer.
    pub(super) fn now(&self) -> Timestamp {
        self.driver.base.writer.now().max(Timestamp::now())
    }

    /// Writes what happened; what somebody ordered just before is taken in first, as in a replay.
    pub(super) fn say(&mut self, what: LoopTurn) -> Result<(), StoreError> {
        let iteration = self.of.iteration() + u32::from(matches!(what, LoopTurn::Began { .. }));
        let event = Event::Loop(LoopEvent::Turned { id: self.of.id().clone(), iteration, what });
        self.driver.base.writer.note(vec![event])?;
        self.catch_up()
    }

    /// Takes in what the journal says of the loop.
    fn catch_up(&mut self) -> Result<(), StoreError> {
        let stream = Stream::Loop(self.of.id().clone());
        let journal = self.driver.base.writer.store.journal();
        for entry in journal.read(self.of.stamps().last_seq(), &stream, usize::MAX)? {
            // What is refused stands in the journal and changes nothing, as in a replay.
            if self.of.step(&entry).is_ok() {
                self.driver.reporter.entry(&self.of, &entry);
            }
        }
        Ok(())
    }

    pub(super) fn note(&mut self, text: &str) {
        let text = self.driver.base.writer.scrubber.scrub(text);
        self.driver.reporter.note(&text);
    }

    /// Writes how the loop stands, and what happened, to its files.
    pub(super) fn tell(&mut self) -> Result<(), LoopError> {
        let store = self.driver.base.writer.store;
        self.files.refresh(store).map_err(|error| match error {
            FilesError::Store(error) => LoopError::from(error),
            FilesError::Write(error) => error.into(),
        })?;
        match self.files.view(store)?.state() {
            Some(state) => Ok(self.driver.folder.tell(&state)?),
            None => Ok(()),
        }
    }

    /// Takes in what came while nothing was waited for.
    fn heed(&mut self) -> Result<(), StoreError> {
        self.catch_up()?;
        while let Some(message) = self.driver.base.inbox.try_next() {
            if let Some(news) = self.news_of(message) {
                self.take(news)?;
            }
        }
        Ok(())
    }

    /// Takes in what concerns the loop as a whole.
    pub(super) fn take(&mut self, input: LoopNews) -> Result<(), StoreError> {
        match input {
            LoopNews::Stop(signal) => self.stopping = Some(signal),
            LoopNews::Ordered => self.catch_up()?,
            LoopNews::Note(text) => self.note(&text),
            LoopNews::Ran(_) | LoopNews::Agent(_) => {}
        }
        Ok(())
    }

    /// Tells whether what runs now is to be ended.
    pub(super) fn is_called_off(&self) -> bool {
        self.stopping.is_some() || self.of.is_called_off()
    }

    /// Waits for so long, or until somebody wants something.
    fn listen(&mut self, left: Duration) -> Result<(), StoreError> {
        let until = Instant::now() + left.min(LOOK);
        let message = self.driver.base.inbox.wait(Some(until));
        match message.and_then(|message| self.news_of(message)) {
            Some(news) => self.take(news),
            None => Ok(()),
        }
    }

    /// Looks at the settings and begins an iteration.
    fn begin(&mut self) -> Result<(), LoopError> {
        if self.of.iteration() > 0 {
            self.driver.folder.set_aside(self.of.iteration())?;
        }
        let now = self.driver.base.writer.now();
        if let Some(text) = self.driver.live.reload(now)?.said() {
            self.note(&text);
        }
        match (self.driver.planner)(self.driver.live.current()) {
            Ok(plan) => self.driver.plan = plan,
            Err(why) => {
                self.note(&format!("the settings cannot be used, the old ones hold: {why}"))
            }
        }
        (self.driver.take_over)(self.driver.live.current(), &mut self.driver.base)?;
        (self.ran, self.begun) = (None, true);
        let terms = Box::new(self.driver.plan.terms.clone());
        Ok(self.say(LoopTurn::Began { terms })?)
    }

    /// Recovers the tests, which could not execute.
    fn recover(&mut self) -> Result<(), LoopError> {
        if self.ran.is_none() && !self.of.is_recovering() {
            // An earlier run of Salve saw the failure: only the tests can show it.
            return self.tests();
        }
        if !self.of.is_recovering() {
            self.say(LoopTurn::RecoveryBegan {})?;
            self.tell()?;
        }
        if !self.of.is_recovering() {
            // Somebody ordered otherwise.
            return Ok(());
        }
        let sought = Sought {
            iteration: self.of.iteration(),
            first: self.ran.clone(),
            since: self.of.stamps().run_since(),
            began: self.driver.base.writer.on_the_wall(self.of.stamps().began()),
            dir: self.driver.folder.dir().to_path_buf(),
        };
        let driver = &mut *self.driver;
        let plan = driver.plan.tests.command_plan(self.of.id());
        let capture = Capture::new(Arc::new(Outlet::none()), OutputStyle::Plain).with_lines(LINES);
        let (terms, records) = (&driver.plan.recovery, &mut driver.records);
        let tests = RecoveryTests { plan, terms, capture, records };
        let base = &mut driver.base;
        let subject = RecoverySubject::new(tests, sought, base);
        let Recovery { how, worked, .. } = subject.run(base)?;
        self.heed()?;
        self.begun = true;
        let (how, ran) = match how {
            Recovered::Executes(ran) => (RecoveryEnd::Well, Some(ran)),
            Recovered::NotInfrastructure(ran) => (RecoveryEnd::NotInfrastructure, Some(ran)),
            // It was called off with the loop, which goes on with it when it is started again.
            Recovered::Declined(_) if self.of.is_called_off() => return Ok(()),
            Recovered::Declined(ran) => (RecoveryEnd::Rejected, ran),
            // What is held has nothing to decide; it is said when it is waited for.
            Recovered::NeedsPerson if self.of.paused_by().is_some() => return Ok(()),
            Recovered::NeedsPerson => (RecoveryEnd::NeedsPerson, None),
            Recovered::Stopped(signal) => {
                self.stopping = Some(signal);
                return Ok(());
            }
        };
        if let Some(ran) = ran.filter(|ran| self.ran.as_ref() != Some(ran)) {
            let tree = self.tree();
            self.tested(ran, tree)?;
        }
        Ok(self.say(LoopTurn::RecoveryEnded { how, took_ms: millis(worked) })?)
    }

    /// Waits until then, or until somebody wants something.
    fn wait(&mut self, until: Timestamp) -> Result<(), StoreError> {
        self.listen(Duration::try_from(until.duration_since(self.now())).unwrap_or_default())
    }

    fn end(&mut self, why: LoopEnd) -> Result<(), LoopError> {
        self.driver.folder.set_aside(self.of.iteration())?;
        self.driver.folder.keep_report(&report(&self.of, &why))?;
        Ok(self.say(LoopTurn::Ended { why })?)
    }

    /// Waits for the next thing that arrives.
    pub(super) fn hear(&mut self) -> LoopNews {
        loop {
            let message = self.driver.base.inbox.wait(None);
            if let Some(news) = message.and_then(|message| self.news_of(message)) {
                return news;
            }
        }
    }

    /// Returns what a message means to the loop, if it means anything.
    fn news_of(&self, message: InboxMessage) -> Option<LoopNews> {
        let is_order = |entry: &Entry| {
            let about_loops = matches!(entry.event, Event::Loop(LoopEvent::Turned { .. }));
            about_loops && entry.by.process().is_none()
        };
        match message {
            InboxMessage::Woken => self.driver.news.next(),
            InboxMessage::Journal(entries) => {
                entries.iter().any(is_order).then_some(LoopNews::Ordered)
            }
            InboxMessage::Note { text, .. } => Some(LoopNews::Note(text)),
            InboxMessage::Stop(signal) => Some(LoopNews::Stop(signal)),
            // What comes late of a recovery that is over.
            InboxMessage::Done { .. }
            | InboxMessage::Agent { .. }
            | InboxMessage::Diagnosed { .. }
            | InboxMessage::Pause(_) => None,
        }
    }
}
