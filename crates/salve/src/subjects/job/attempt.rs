//! One attempt at a step: it is done by a command or an agent, verified by Salve, and leaves either a
//! checkpoint or a failure that the controller decides about.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::agent::Trouble;
use salve_core::event::{
    Amounts, AttemptEnd, Exit, HealStrategy, JobTurn, Resource, StepFailure, StepTimer,
};
use salve_core::iteration::until;
use salve_core::job::{
    AttemptOutcome, AttemptRecord, FailedAttempt, StepPrompt, class_of, step_prompt,
};
use salve_core::scrub::Scrubbed;

use super::command::{self, StepCommandRun};
use super::driver::JobCourse;
use super::files::StepRecord;
use super::spec::{StepSpec, StepWork};
use super::{JobError, JobInput, digest};
use crate::agent::{AgentBounds, AgentEvent, EditReach, End, Ending, Task};
use crate::heal::agents::words;
use crate::heal::cause::Evidence;
use crate::heal::millis;
use crate::heal::running_agent::{NotStarted, release, start_agent};
use crate::process::{Capture, OutputStyle};
use crate::workspace::StepDiff;

/// How many of the last lines of output are kept.
const LINES: usize = 2_000;

/// The most changed files that the journal names.
const MOST_FILES: usize = 20;

/// How long a step is parked where an agent does not say.
const PARK: jiff::SignedDuration = jiff::SignedDuration::from_mins(15);

/// What working on a step came to, before it is verified.
pub(super) enum StepWorked {
    /// It claims to be done.
    Claimed,
    /// It failed.
    Failed {
        /// In what way.
        outcome: Option<StepTimer>,
        /// How its process ended.
        exit: Exit,
        /// What it printed.
        output: String,
    },
    /// It cannot be worked on for now, or not before a person did something, or was stopped.
    Not(AttemptEnd),
}

/// What an attempt left in the workspace.
struct WorkspaceLeft {
    tree: String,
    diff: StepDiff,
}

impl JobCourse<'_, '_> {
    /// Tries a step.
    pub(super) fn attempt(
        &mut self,
        step: usize,
        attempt: u32,
        strategy: HealStrategy,
    ) -> Result<(), JobError> {
        let Some(spec) = self.driver.spec.steps.get(step).cloned() else { return Ok(()) };
        let number = u32::try_from(step).unwrap_or(u32::MAX);
        let mut record = AttemptRecord::begun(&self.of, attempt, self.now());
        let prompt = self.prompt(&spec);
        self.say(JobTurn::StepBegan { step: number, attempt, strategy })?;
        self.driver.folder.keep_attempt(&record)?;
        self.driver.folder.tell(&self.of)?;
        if !self.of.is_at_work() {
            // Somebody ordered otherwise.
            return Ok(());
        }
        self.begun = true;
        let (worked, spent) = match &spec.work {
            StepWork::Command(line) => self.run_command(&spec, line.argv())?,
            StepWork::Agent { runtime, model, .. } => {
                self.run_agent(&spec, &prompt, (runtime.as_deref(), model.as_deref()))?
            }
        };
        let end = self.judge(&spec, (step, attempt), worked)?;
        record.finished_at = Some(self.now());
        record.spent = spent;
        self.tell_end(&mut record, &end);
        self.say(JobTurn::StepEnded { step: number, attempt, end, spent })?;
        self.driver.folder.keep_attempt(&record)?;
        Ok(())
    }

    /// Writes what is known of an attempt's end into its record.
    fn tell_end(&self, record: &mut AttemptRecord, end: &AttemptEnd) {
        match end {
            AttemptEnd::Done { checkpoint } => {
                "succeeded".clone_into(&mut record.outcome);
                record.diff_hash = Some(checkpoint.patch);
            }
            AttemptEnd::Failed { failure, strategy } => record.fail(&FailedAttempt {
                attempt: record.attempt,
                failure: StepFailure::clone(failure),
                strategy: *strategy,
            }),
            AttemptEnd::Away { reason, .. } => {
                "parked".clone_into(&mut record.outcome);
                record.summary = Some(reason.clone());
            }
            AttemptEnd::Unable { reason } => {
                "needs_person".clone_into(&mut record.outcome);
                record.summary = Some(reason.clone());
            }
            AttemptEnd::Stopped => "stopped".clone_into(&mut record.outcome),
        }
    }

    fn prompt(&self, spec: &StepSpec) -> String {
        let StepWork::Agent { instruction, .. } = &spec.work else { return String::new() };
        let verification =
            spec.verify.command.as_ref().map(|line| format!("`{line}` exits with 0"));
        let verification = verification.as_deref();
        step_prompt(&self.of, &StepPrompt { instruction, verification })
    }

    /// Runs a command and waits for its end.
    pub(super) fn command(
        &mut self,
        argv: Vec<std::ffi::OsString>,
        spec: &StepSpec,
    ) -> Result<command::CommandEnded, JobError> {
        let step = self.of.at_step().unwrap_or_default();
        let id = self.of.id().short();
        let env = [("SALVE_JOB", id), ("SALVE_STEP", spec.id.clone())];
        let run = StepCommandRun {
            argv,
            dir: self.driver.workspace.dir(),
            env: env.map(|(name, value)| (name.into(), value.into())).to_vec(),
            wall: spec.wall,
            idle: spec.idle,
        };
        let capture =
            Capture::new(Arc::clone(&self.driver.outlet), OutputStyle::Plain).with_lines(LINES);
        let post = self.driver.inbox.0.clone();
        let stopper = command::start(&self.driver.care, run, Arc::new(capture), post);
        loop {
            match self.hear() {
                JobInput::Ended(ended) => {
                    let output = self.driver.writer.scrubber.scrub(&ended.output);
                    let attempt = u32::try_from(self.of.failures().len() + 1).unwrap_or(u32::MAX);
                    self.driver.folder.keep_output(step, attempt, &output)?;
                    return Ok(*ended);
                }
                other => self.take(other)?,
            }
            if self.is_called_off() {
                stopper.stop();
            }
        }
    }

    fn run_command(
        &mut self,
        spec: &StepSpec,
        argv: Vec<std::ffi::OsString>,
    ) -> Result<(StepWorked, Amounts), JobError> {
        let ended = self.command(argv, spec)?;
        let spent = Amounts { wall_ms: millis(ended.took), ..Amounts::default() };
        let worked = if ended.stopped || self.is_called_off() {
            StepWorked::Not(AttemptEnd::Stopped)
        } else if ended.exit == Exit::Code(0) {
            StepWorked::Claimed
        } else {
            StepWorked::Failed { outcome: ended.timer, exit: ended.exit, output: ended.output }
        };
        Ok((worked, spent))
    }

    /// Has an agent work and waits for its end.
    fn run_agent(
        &mut self,
        spec: &StepSpec,
        prompt: &str,
        (runtime, model): (Option<&str>, Option<&str>),
    ) -> Result<(StepWorked, Amounts), JobError> {
        let plan = match (self.driver.planner)(runtime, model) {
            Ok(plan) => plan,
            Err(text) => return Ok((self.unable(&text), Amounts::default())),
        };
        let id = self.of.id().short();
        let env = [("SALVE_JOB", id), ("SALVE_STEP", spec.id.clone())];
        let left = |resource| self.of.left(resource);
        let wall = left(Resource::WallMs).map_or(Duration::MAX, Duration::from_millis);
        let task = Task {
            agent: plan.name.clone(),
            prompt: prompt.to_owned(),
            dir: self.driver.workspace.dir(),
            mcp: plan.mcp.clone(),
            model: plan.model.clone(),
            env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            reach: EditReach::Loop,
            bounds: AgentBounds {
                wall: spec.wall.min(wall),
                idle: spec.idle,
                tokens: left(Resource::Tokens),
                work: None,
                money_micros: left(Resource::MoneyMicros),
            },
        };
        let driver = &mut *self.driver;
        let post = driver.inbox.0.clone();
        let on = Box::new(move |event| {
            // Nobody is left to tell when the run of Salve is over.
            let _ = post.send(JobInput::Agent(event));
        });
        let now = driver.writer.now();
        let held = (&mut driver.live, &driver.project);
        let call = (&plan.profile, &task, now);
        let mut hired = match start_agent(held, &driver.care, call, &driver.writer.scrubber, on)? {
            Ok(hired) => hired,
            Err(NotStarted { text, .. }) => return Ok((self.unable(&text), Amounts::default())),
        };
        let ending = loop {
            match self.hear() {
                JobInput::Agent(AgentEvent::Ended(ending)) => break ending,
                JobInput::Agent(AgentEvent::Spent(spent)) => {
                    self.say(JobTurn::Charged { spent })?
                }
                other => self.take(other)?,
            }
            if self.is_called_off() {
                hired.stop();
            }
        };
        let left = release(&mut self.driver.live, hired.guard, self.driver.writer.now())?;
        for text in hired.mend_repository(None).into_iter().chain(left) {
            self.note(&text);
        }
        let spent = Amounts { wall_ms: millis(ending.took), ..ending.spent };
        Ok((self.worked(&plan.name, &ending), spent))
    }

    fn unable(&self, text: &str) -> StepWorked {
        let reason = self.driver.writer.scrubber.scrub(text);
        StepWorked::Not(AttemptEnd::Unable { reason })
    }

    /// Says what an agent's end means for its step.
    fn worked(&self, name: &str, ending: &Ending) -> StepWorked {
        let scrubber = &self.driver.writer.scrubber;
        let reason = || scrubber.scrub(&words(&scrubber.scrub(name), ending));
        let output = ending.text.as_str().to_owned();
        let failed = |outcome| {
            let exit = ending.exit.clone();
            StepWorked::Failed { outcome, exit, output: format!("{}\n{output}", reason()) }
        };
        match ending.end {
            End::Stopped => StepWorked::Not(AttemptEnd::Stopped),
            _ if self.is_called_off() => StepWorked::Not(AttemptEnd::Stopped),
            End::Finished | End::NoResult => StepWorked::Claimed,
            End::Failed(Trouble::RateLimit | Trouble::Overloaded) => {
                let until = until(ending.text.as_str(), self.now(), PARK, self.of.parks());
                StepWorked::Not(AttemptEnd::Away { until, reason: reason() })
            }
            End::Failed(Trouble::Auth | Trouble::Billing) => {
                StepWorked::Not(AttemptEnd::Unable { reason: reason() })
            }
            End::TimedOut => failed(Some(StepTimer::Wall)),
            End::Idle => failed(Some(StepTimer::Idle)),
            End::Failed(Trouble::Other) | End::OverBudget(_) => failed(None),
        }
    }

    /// Verifies what was claimed, and says how the attempt ended.
    fn judge(
        &mut self,
        spec: &StepSpec,
        (step, attempt): (usize, u32),
        worked: StepWorked,
    ) -> Result<AttemptEnd, JobError> {
        let is_agent = matches!(spec.work, StepWork::Agent { .. });
        match worked {
            StepWorked::Not(end) => Ok(end),
            StepWorked::Failed { outcome, exit, output } => {
                let left = self.left(step)?;
                self.failed(&output, (outcome, Some(exit)), &left, None)
            }
            StepWorked::Claimed => {
                let left = self.left(step)?;
                let unverified = self.verify(spec, &left.diff)?;
                if self.is_called_off() {
                    return Ok(AttemptEnd::Stopped);
                }
                match unverified {
                    Some(unmet) => {
                        // What the verification itself left is not the step's.
                        self.driver.workspace.check_out_if_changed(&left.tree)?;
                        let kind = is_agent.then_some(AttemptOutcome::Unverified);
                        self.failed(&unmet.output, (unmet.timer, unmet.exit), &left, kind)
                    }
                    None => self.done(spec, (step, attempt), &left),
                }
            }
        }
    }

    /// Looks at what the attempt left in the workspace.
    fn left(&self, step: usize) -> Result<WorkspaceLeft, JobError> {
        let store = &self.driver.workspace;
        let (before, tree) = (store.tree_before(step)?, store.tree()?);
        let diff = store.diff(&before, &tree)?;
        Ok(WorkspaceLeft { tree, diff })
    }

    /// Keeps the checkpoint of a step that is done.
    fn done(
        &mut self,
        spec: &StepSpec,
        (step, attempt): (usize, u32),
        left: &WorkspaceLeft,
    ) -> Result<AttemptEnd, JobError> {
        let driver = &self.driver;
        driver.workspace.check_out_if_changed(&left.tree)?;
        let record = StepRecord {
            version: 1,
            step_id: spec.id.clone(),
            step_index: step,
            attempt,
            diff_hash: digest(&left.diff.patch).to_string(),
            changed_files: left.diff.files.clone(),
            finished_at: Timestamp::now(),
        };
        let checkpoint = driver.folder.keep_checkpoint(&record, &left.diff, &left.tree)?;
        driver.workspace.keep(step, &left.tree, &format!("step {step}: {}", spec.id))?;
        Ok(AttemptEnd::Done { checkpoint })
    }

    /// Says how an attempt failed, and what the controller does about it.
    fn failed(
        &mut self,
        output: &str,
        (timer, exit): (Option<StepTimer>, Option<Exit>),
        left: &WorkspaceLeft,
        kind: Option<AttemptOutcome>,
    ) -> Result<AttemptEnd, JobError> {
        let driver = &self.driver;
        let scrubber = &driver.writer.scrubber;
        let evidence = Evidence::of(output, exit.as_ref(), driver.rules, scrubber);
        let outcome = match (kind, timer) {
            (_, Some(timer)) => AttemptOutcome::TimedOut(timer),
            (Some(kind), None) => kind,
            (None, None) => AttemptOutcome::Failed(evidence.symptom.class),
        };
        let summary = match (timer, evidence.symptom.key_line.as_str()) {
            (Some(StepTimer::Wall), _) => Scrubbed::literal("it took longer than it may"),
            (Some(StepTimer::Idle), _) => Scrubbed::literal("it showed no sign of work"),
            (None, "") => Scrubbed::literal("it failed without a word"),
            (None, _) => evidence.symptom.key_line.clone(),
        };
        let changed = left.diff.files.iter().take(MOST_FILES);
        let mut failure = StepFailure {
            class: class_of(outcome, evidence.output.as_str(), &driver.spec.rules),
            signature: evidence.symptom.signature,
            summary,
            exit,
            timer,
            tree: Some(digest(left.tree.as_bytes())),
            diff: Some(digest(&left.diff.patch)),
            changed: changed.map(|file| scrubber.scrub(&file.path)).collect(),
        };
        let (class, strategy) = self.of.decide(&failure);
        failure.class = class;
        Ok(AttemptEnd::Failed { failure: Box::new(failure), strategy })
    }
}
