//! One run of a job, from where it stands to where this run of Salve leaves it.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::event::{Event, JobEvent, JobTurn, LoopEnd, LoopId};
use salve_core::job::{Job, JobEnding, JobMove};
use salve_core::scrub::Scrubbed;
use salve_core::steps::StepsStanding;

use super::attempt::{AttemptResult, DueAttempt};
use super::{JobDriver, JobError, JobNews, JobOutcome, JobParts};
use crate::config::ChangedManifest;
use crate::heal::inbox::InboxMessage;
use crate::heal::manifests;
use crate::heal::{Presence, RunBase};
use crate::store::{StoreError, Stream};

/// How long to wait at most before the clock is looked at again; it may have been set.
const LOOK: Duration = Duration::from_secs(5);

/// How long a pause in the midst of a job is waited out where nobody is there.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// A job under way, and what this run of Salve knows of it besides the journal.
pub(super) struct JobCourse<'d, 'a> {
    pub(super) parts: &'d mut JobParts<'a>,
    pub(super) of: Job,
    /// The signal by which the user wants it to end.
    pub(super) stopping: Option<i32>,
    /// Whether anything was begun in this run of Salve.
    pub(super) begun: bool,
    /// Since when it has been held by a pause.
    held: Option<Instant>,
    /// Whether it is known that no incident of the step that is due is open.
    pub(super) has_looked: bool,
}

impl JobDriver<'_, '_> {
    /// Takes a job that was started on to its end, or to where it cannot go on by itself.
    pub fn run(&mut self, of: Job) -> Result<JobOutcome, JobError> {
        let Self { base, parts } = self;
        base.writer.go_on_from(of.stamps().clock());
        let known = base.writer.store.journal().read(0, &Stream::Jobs, usize::MAX)?;
        let told = known.iter().filter(|entry| entry.seq <= of.stamps().last_seq());
        parts.folder.bring_up(of.id(), told)?;
        let (stopping, begun, held, has_looked) = (None, false, None, false);
        let mut course = JobCourse { parts, of, stopping, begun, held, has_looked };
        // What says what is installed is kept before any step can change it.
        course.changed_manifests(base)?;
        if let Some(done) = course.of.checkpoints().len().checked_sub(1) {
            // Whoever was killed right after a step was healed left its incident open.
            course.heal(base, done, None)?;
            course.has_looked = false;
        }
        course.live(base)
    }
}

impl JobCourse<'_, '_> {
    /// Returns what says what is installed and changed in this run of the job.
    pub(super) fn changed_manifests(
        &self,
        base: &RunBase<'_>,
    ) -> Result<Vec<Scrubbed>, StoreError> {
        if self.parts.live.current().settings.recovery.changed_manifest == ChangedManifest::Allow {
            return Ok(Vec::new());
        }
        let id = LoopId::made_of(&format!("job-{}", self.of.id()));
        let name = base.writer.scrubber.scrub(id.as_str());
        let since = self.of.stamps().run_since();
        manifests::changed(&base.writer, &self.parts.workspace.dir(), &name, since)
    }

    fn live(&mut self, base: &mut RunBase<'_>) -> Result<JobOutcome, JobError> {
        loop {
            self.heed(base)?;
            self.parts.folder.tell(&self.of)?;
            if let Some(signal) = self.stopping {
                self.say(base, JobTurn::Stopped {})?;
                self.parts.folder.tell(&self.of)?;
                return Ok(JobOutcome::Stopped(signal));
            }
            if self.parts.claim.is_some() && self.of.is_cancelled() {
                // It was called off between the claim and the first word of this run.
                self.say(base, JobTurn::Stopped {})?;
                self.parts.folder.tell(&self.of)?;
                return Ok(JobOutcome::CalledOff);
            }
            let next = self.of.next(now_of(base));
            if !matches!(next, JobMove::Hold(_)) {
                self.held = None;
            }
            match next {
                JobMove::Attempt { step, attempt, strategy } => {
                    self.honor(base)?;
                    self.work_on(base, DueAttempt { step, attempt, strategy })?;
                }
                JobMove::Reset(pending) => {
                    self.reset(base, pending)?;
                    self.honor(base)?;
                }
                JobMove::Wait(_) if self.parts.claim.is_some() => return Ok(JobOutcome::Parked),
                JobMove::Wait(until) => self.wait(base, until)?,
                JobMove::Hold(by) => {
                    if let Some(outcome) = self.hold(base, &by)? {
                        return Ok(outcome);
                    }
                }
                JobMove::End(ending) => self.end(base, ending)?,
                JobMove::Person(reason) => return Ok(JobOutcome::NeedsPerson(reason)),
                JobMove::Over => return Ok(self.over()),
            }
        }
    }

    fn over(&self) -> JobOutcome {
        match self.of.standing() {
            StepsStanding::Ended(why) => JobOutcome::Over(why.clone()),
            StepsStanding::Running
            | StepsStanding::Parked { .. }
            | StepsStanding::Waits { .. }
            | StepsStanding::Stopped => JobOutcome::CalledOff,
        }
    }

    /// Tries a step; where that fails, or an earlier run of Salve saw it fail, it is healed.
    fn work_on(&mut self, base: &mut RunBase<'_>, due: DueAttempt) -> Result<(), JobError> {
        if !std::mem::replace(&mut self.has_looked, true) {
            return self.heal(base, due.step, None);
        }
        match self.attempt(base, due)? {
            AttemptResult::Failed(failed) => self.heal(base, due.step, Some(failed)),
            AttemptResult::Done { .. } | AttemptResult::NotDone => Ok(()),
        }
    }

    /// Acknowledges what a person ordered about a step: it is being done.
    fn honor(&mut self, base: &RunBase<'_>) -> Result<(), JobError> {
        match self.of.recovery().filter(|request| !request.honored).map(|request| request.seq) {
            Some(order) => self.say(base, JobTurn::Honored { order }),
            None => Ok(()),
        }
    }

    fn end(
        &mut self,
        base: &RunBase<'_>,
        JobEnding { why, retryable }: JobEnding,
    ) -> Result<(), JobError> {
        if why == LoopEnd::Completed {
            let store = &self.parts.workspace;
            let last = store.tree_before(self.of.checkpoints().len())?;
            let diff = store.diff(&store.tree_before(0)?, &last)?;
            self.parts.folder.keep_result(&diff)?;
        }
        self.say(base, JobTurn::Ended { why, retryable })
    }

    /// Waits in a pause for somebody to let it go on; returns how it ends where nobody is there.
    fn hold(
        &mut self,
        base: &mut RunBase<'_>,
        by: &Scrubbed,
    ) -> Result<Option<JobOutcome>, JobError> {
        let since = match self.held {
            Some(since) => since,
            None => {
                let id = self.of.id().short();
                let text = format!("the job is paused by {by}\nsalve control {id} resume");
                self.note(base, &text);
                *self.held.insert(Instant::now())
            }
        };
        let patience = match (base.presence, self.begun) {
            (Presence::Attended, _) => Duration::MAX,
            // What was begun may be about to be resumed.
            (Presence::Unattended, true) => PAUSE,
            (Presence::Unattended, false) => Duration::ZERO,
        };
        let left = patience.saturating_sub(since.elapsed());
        if left.is_zero() {
            let reason = base.writer.scrubber.scrub(&format!("the job is paused by {by}"));
            return Ok(Some(JobOutcome::NeedsPerson(reason)));
        }
        self.listen(base, left)?;
        Ok(None)
    }

    /// Writes what happened; what somebody ordered just before is taken in first, as in a replay.
    pub(super) fn say(&mut self, base: &RunBase<'_>, what: JobTurn) -> Result<(), JobError> {
        base.writer.note(vec![self.event(what)])?;
        self.catch_up(base)
    }

    /// Returns what happened to the job as the journal has it.
    pub(super) fn event(&self, what: JobTurn) -> Event {
        JobEvent::Advanced { id: self.of.id(), what }.into()
    }

    /// Takes in what the journal says of the job.
    pub(super) fn catch_up(&mut self, base: &RunBase<'_>) -> Result<(), JobError> {
        let journal = base.writer.store.journal();
        for entry in journal.read(self.of.stamps().last_seq(), &Stream::Jobs, usize::MAX)? {
            // What is refused stands in the journal and changes nothing, as in a replay.
            if self.of.step(&entry).is_ok() {
                self.parts.folder.log(&self.of, &entry)?;
                self.parts.face.entry(&self.of, &entry);
            }
        }
        Ok(())
    }

    pub(super) fn note(&mut self, base: &RunBase<'_>, text: &str) {
        let text = base.writer.scrubber.scrub(text);
        self.parts.face.note(&text);
    }

    /// Takes in what came while nothing was waited for.
    fn heed(&mut self, base: &RunBase<'_>) -> Result<(), JobError> {
        self.catch_up(base)?;
        while let Some(message) = base.inbox.try_next() {
            if let Some(news) = self.news_of(message) {
                self.take(base, news)?;
            }
        }
        Ok(())
    }

    /// Takes in what concerns the job as a whole.
    pub(super) fn take(&mut self, base: &RunBase<'_>, news: JobNews) -> Result<(), JobError> {
        match news {
            JobNews::Stop(signal) => self.stopping = Some(signal),
            JobNews::Journal => self.catch_up(base)?,
            JobNews::Note(text) => self.note(base, &text),
            JobNews::Warned(timer, left) => {
                let step = self.of.at_step().and_then(|step| u32::try_from(step).ok());
                let left_ms = crate::heal::millis(left);
                if let Some(step) = step.filter(|_| self.of.is_at_work()) {
                    self.say(base, JobTurn::Warned { step, timer, left_ms })?;
                }
            }
            JobNews::Ended(_) | JobNews::Agent(_) => {}
        }
        Ok(())
    }

    /// Tells whether what runs now is to be ended.
    pub(super) fn is_called_off(&self) -> bool {
        self.stopping.is_some() || self.of.is_called_off()
    }

    /// Waits for the next thing that arrives.
    pub(super) fn hear(&mut self, base: &mut RunBase<'_>) -> JobNews {
        loop {
            let message = base.inbox.wait(None);
            if let Some(news) = message.and_then(|message| self.news_of(message)) {
                return news;
            }
        }
    }

    /// Returns what a message means to the job, if it means anything.
    fn news_of(&self, message: InboxMessage) -> Option<JobNews> {
        match message {
            InboxMessage::Woken => self.parts.news.next(),
            InboxMessage::Journal(entries) => {
                let is_ours = entries.iter().any(|entry| matches!(entry.event, Event::Job(_)));
                is_ours.then_some(JobNews::Journal)
            }
            InboxMessage::Note { text, .. } => Some(JobNews::Note(text)),
            InboxMessage::Stop(signal) => Some(JobNews::Stop(signal)),
            // What comes late of an incident that is over.
            InboxMessage::Done { .. }
            | InboxMessage::Agent { .. }
            | InboxMessage::Diagnosed { .. }
            | InboxMessage::Pause(_) => None,
        }
    }

    /// Waits for so long, or until somebody wants something.
    fn listen(&mut self, base: &mut RunBase<'_>, left: Duration) -> Result<(), JobError> {
        let message = base.inbox.wait(Some(Instant::now() + left.min(LOOK)));
        match message.and_then(|message| self.news_of(message)) {
            Some(news) => self.take(base, news),
            None => Ok(()),
        }
    }

    fn wait(&mut self, base: &mut RunBase<'_>, until: Timestamp) -> Result<(), JobError> {
        let left = Duration::try_from(until.duration_since(now_of(base))).unwrap_or_default();
        self.listen(base, left)
    }
}

/// Returns the time; a clock that was set back or jumped ahead makes no wait longer.
pub(super) fn now_of(base: &RunBase<'_>) -> Timestamp {
    base.writer.now().max(Timestamp::now())
}
