//! One run of a job, from where it stands to where this run of Salve leaves it.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::event::{JobEvent, JobTurn, LoopEnd};
use salve_core::job::{Job, JobEnding, JobMove};
use salve_core::scrub::Scrubbed;
use salve_core::steps::StepsStanding;

use super::{JobDriver, JobError, JobInput, JobOutcome};
use crate::heal::Presence;
use crate::store::Stream;

/// How long to wait at most before the clock is looked at again; it may have been set.
const LOOK: Duration = Duration::from_secs(5);

/// How long a pause in the midst of a job is waited out where nobody is there.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// A job under way, and what this run of Salve knows of it besides the journal.
pub(super) struct JobCourse<'d, 'a> {
    pub(super) driver: &'d mut JobDriver<'a>,
    pub(super) of: Job,
    /// The signal by which the user wants it to end.
    pub(super) stopping: Option<i32>,
    /// Whether anything was begun in this run of Salve.
    pub(super) begun: bool,
    /// Since when it has been held by a pause.
    held: Option<Instant>,
}

impl JobDriver<'_> {
    /// Takes a job that was started on to its end, or to where it cannot go on by itself.
    pub fn run(&mut self, of: Job) -> Result<JobOutcome, JobError> {
        self.writer.go_on_from(of.clock());
        let (stopping, begun, held) = (None, false, None);
        JobCourse { driver: self, of, stopping, begun, held }.live()
    }
}

impl JobCourse<'_, '_> {
    fn live(&mut self) -> Result<JobOutcome, JobError> {
        loop {
            self.heed()?;
            self.driver.folder.tell(&self.of)?;
            if let Some(signal) = self.stopping {
                self.say(JobTurn::Stopped {})?;
                self.driver.folder.tell(&self.of)?;
                return Ok(JobOutcome::Stopped(signal));
            }
            let next = self.of.next(self.now());
            if !matches!(next, JobMove::Hold(_)) {
                self.held = None;
            }
            match next {
                JobMove::Attempt { step, attempt, strategy } => {
                    self.honor()?;
                    self.attempt(step, attempt, strategy)?;
                }
                JobMove::Reset(pending) => {
                    self.reset(pending)?;
                    self.honor()?;
                }
                JobMove::Wait(until) => self.wait(until)?,
                JobMove::Hold(by) => {
                    if let Some(outcome) = self.hold(&by)? {
                        return Ok(outcome);
                    }
                }
                JobMove::End(ending) => self.end(ending)?,
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

    /// Acknowledges what a person ordered about a step: it is being done.
    fn honor(&mut self) -> Result<(), JobError> {
        match self.of.recovery().filter(|request| !request.honored).map(|request| request.seq) {
            Some(order) => self.say(JobTurn::Honored { order }),
            None => Ok(()),
        }
    }

    fn end(&mut self, JobEnding { why, retryable }: JobEnding) -> Result<(), JobError> {
        if why == LoopEnd::Completed {
            let store = &self.driver.workspace;
            let last = store.tree_before(self.of.checkpoints().len())?;
            let diff = store.diff(&store.tree_before(0)?, &last)?;
            self.driver.folder.keep_result(&diff)?;
        }
        self.say(JobTurn::Ended { why, retryable })
    }

    /// Waits in a pause for somebody to let it go on; returns how it ends where nobody is there.
    fn hold(&mut self, by: &Scrubbed) -> Result<Option<JobOutcome>, JobError> {
        let since = match self.held {
            Some(since) => since,
            None => {
                let id = self.of.id().short();
                let text = format!("the job is paused by {by}\nsalve control {id} resume");
                self.note(&text);
                *self.held.insert(Instant::now())
            }
        };
        let patience = match (self.driver.presence, self.begun) {
            (Presence::Attended, _) => Duration::MAX,
            // What was begun may be about to be resumed.
            (Presence::Unattended, true) => PAUSE,
            (Presence::Unattended, false) => Duration::ZERO,
        };
        let left = patience.saturating_sub(since.elapsed());
        if left.is_zero() {
            let reason = self.driver.writer.scrubber.scrub(&format!("the job is paused by {by}"));
            return Ok(Some(JobOutcome::NeedsPerson(reason)));
        }
        self.listen(left)?;
        Ok(None)
    }

    /// Returns the time; a clock that was set back or jumped ahead makes no wait longer.
    pub(super) fn now(&self) -> Timestamp {
        self.driver.writer.now().max(Timestamp::now())
    }

    /// Writes what happened; what somebody ordered just before is taken in first, as in a replay.
    pub(super) fn say(&mut self, what: JobTurn) -> Result<(), JobError> {
        let event = JobEvent::Advanced { id: self.of.id(), what };
        self.driver.writer.note(vec![event.into()])?;
        self.catch_up()
    }

    /// Takes in what the journal says of the job.
    fn catch_up(&mut self) -> Result<(), JobError> {
        let journal = self.driver.writer.store.journal();
        for entry in journal.read(self.of.last_seq(), &Stream::Jobs, usize::MAX)? {
            // What is refused stands in the journal and changes nothing, as in a replay.
            if self.of.step(&entry).is_ok() {
                self.driver.folder.log(&self.of, &entry)?;
                self.driver.face.entry(&self.of, &entry);
            }
        }
        Ok(())
    }

    pub(super) fn note(&mut self, text: &str) {
        let text = self.driver.writer.scrubber.scrub(text);
        self.driver.face.note(&text);
    }

    /// Takes in what came while nothing was waited for.
    fn heed(&mut self) -> Result<(), JobError> {
        self.catch_up()?;
        while let Ok(input) = self.driver.inbox.1.try_recv() {
            self.take(input)?;
        }
        Ok(())
    }

    /// Takes in what concerns the job as a whole.
    pub(super) fn take(&mut self, input: JobInput) -> Result<(), JobError> {
        match input {
            JobInput::Stop(signal) => self.stopping = Some(signal),
            JobInput::News => self.catch_up()?,
            JobInput::Warned(timer, left) => {
                let step = self.of.at_step().and_then(|step| u32::try_from(step).ok());
                let left_ms = crate::heal::millis(left);
                if let Some(step) = step.filter(|_| self.of.is_at_work()) {
                    self.say(JobTurn::Warned { step, timer, left_ms })?;
                }
            }
            JobInput::Ended(_) | JobInput::Agent(_) => {}
        }
        Ok(())
    }

    /// Tells whether what runs now is to be ended.
    pub(super) fn is_called_off(&self) -> bool {
        self.stopping.is_some() || self.of.is_called_off()
    }

    /// Waits for the next thing that arrives.
    pub(super) fn hear(&mut self) -> JobInput {
        // We hold a way in ourselves, so there is always one.
        self.driver.inbox.1.recv().unwrap_or(JobInput::Stop(0))
    }

    /// Waits for so long, or until somebody wants something.
    fn listen(&mut self, left: Duration) -> Result<(), JobError> {
        match self.driver.inbox.1.recv_timeout(left.min(LOOK)) {
            Ok(input) => self.take(input)?,
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody could ever tell us anything again.
            Err(RecvTimeoutError::Disconnected) => self.stopping = Some(0),
        }
        Ok(())
    }

    fn wait(&mut self, until: Timestamp) -> Result<(), JobError> {
        self.listen(Duration::try_from(until.duration_since(self.now())).unwrap_or_default())
    }
}
