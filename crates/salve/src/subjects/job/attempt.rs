//! One attempt at a step: it is done by a command or an agent, verified by Salve, and leaves either a
//! checkpoint or a failure that the controller decides about.

use std::sync::Arc;

use jiff::Timestamp;
use salve_core::event::{
    Amounts, AttemptEnd, HealStrategy, JobTurn, ProcessExit, StepFailure, StepTimer,
};
use salve_core::job::{
    AttemptOutcome, AttemptRecord, FailedAttempt, StepPrompt, class_of, step_prompt,
};
use salve_core::scrub::Scrubbed;

use super::command::{self, StepCommandRun};
use super::course::{JobCourse, now_of};
use super::files::StepRecord;
use super::valid::{StepSpec, StepWork};
use super::verify::StepVerified;
use super::{AttemptShown, JobError, JobNews, digest};
use crate::heal::cause::Evidence;
use crate::heal::layers::sealed_words;
use crate::heal::{RunBase, millis};
use crate::process::{Capture, OutputStyle};
use crate::store::ClaimStanding;
use crate::workspace::{SeenTree, StepDiff};

/// How many of the last lines of output are kept.
const LINES: usize = 2_000;

/// The most changed files that the journal names.
const MOST_FILES: usize = 20;

/// What working on a step came to, before it is verified.
pub(super) enum StepWorked {
    /// It claims to be done.
    Claimed,
    Failed {
        /// In what way.
        outcome: Option<StepTimer>,
        /// How its process ended.
        exit: ProcessExit,
        /// What it printed.
        output: String,
    },
    /// It cannot be worked on for now, or not before a person did something, or was stopped.
    Not(AttemptEnd),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DueAttempt {
    /// The step's number, from 0.
    pub(super) step: usize,
    /// Which attempt at it this is, from 1.
    pub(super) attempt: u32,
    /// What was done about the attempt before.
    pub(super) strategy: HealStrategy,
}

/// What came of an attempt.
pub(super) enum AttemptResult {
    /// The step is done, and the journal knows.
    Done {
        /// What the attempt cost.
        spent: Amounts,
    },
    /// It did not begin, was stopped, or waits; the journal knows.
    NotDone,
    /// It failed; the journal is told along with the step's incident.
    Failed(Box<FailedTry>),
}

/// A failed attempt of which the journal does not know yet.
pub(super) struct FailedTry {
    /// What it left behind.
    pub(super) evidence: Evidence,
    /// What is written about it.
    pub(super) ended: JobTurn,
    /// What it cost.
    pub(super) spent: Amounts,
}

/// What working on a step came to, and what it cost.
pub(super) struct WorkResult {
    pub(super) worked: StepWorked,
    pub(super) spent: Amounts,
}

/// How an attempt ended, what a failure left behind, and what it cost with its verification.
struct JudgedAttempt {
    end: AttemptEnd,
    evidence: Option<Evidence>,
    spent: Amounts,
}

impl JudgedAttempt {
    /// Returns an attempt that left no evidence of a failure.
    fn of(end: AttemptEnd, spent: Amounts) -> Self {
        Self { end, evidence: None, spent }
    }
}

/// How an attempt failed, as far as that is known without its output.
struct AttemptFailure {
    timer: Option<StepTimer>,
    exit: Option<ProcessExit>,
    kind: Option<AttemptOutcome>,
    /// The last command that was run, if it was one that failed.
    command: Option<String>,
    spent: Amounts,
}

/// What an attempt left in the workspace.
pub(super) struct WorkspaceLeft {
    pub(super) tree: String,
    pub(super) diff: StepDiff,
    /// Directories of which no checkpoint can keep the files.
    pub(super) unborn: Vec<String>,
}

/// Writes what is known of an attempt's end into its record.
fn tell_end(record: &mut AttemptRecord, end: &AttemptEnd) {
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

impl JobCourse<'_, '_> {
    /// Tries a step.
    pub(super) fn attempt(
        &mut self,
        base: &mut RunBase<'_>,
        due: DueAttempt,
    ) -> Result<AttemptResult, JobError> {
        let DueAttempt { step, attempt, strategy } = due;
        let Some(spec) = self.parts.spec.steps.get(step).cloned() else {
            return Ok(AttemptResult::NotDone);
        };
        let number = u32::try_from(step).unwrap_or(u32::MAX);
        let mut record = AttemptRecord::begun(&self.of, attempt, now_of(base));
        let prompt = self.prompt(&spec);
        self.say(base, JobTurn::StepBegan { step: number, attempt, strategy })?;
        self.parts.folder.keep_attempt(&record)?;
        self.parts.folder.tell(&self.of)?;
        if !self.of.is_at_work() {
            // Somebody ordered otherwise.
            return Ok(AttemptResult::NotDone);
        }
        self.begun = true;
        self.parts.face.attempt(&self.of, &AttemptShown { step, attempt, wall: spec.wall });
        self.parts.workspace.mend_repository()?;
        let work = match (&spec.work, spec.work.argv()) {
            (StepWork::Agent { agent, .. }, _) => {
                let work = self.run_agent(base, &spec, &prompt, agent)?;
                let workspace = &self.parts.workspace;
                // It would reach the user's files with the job's result, and decide what the steps
                // that follow run.
                let sealed =
                    if workspace.is_gone() { None } else { Some(workspace.put_sealed_back(step)?) };
                if let Some(text) = sealed.and_then(|paths| sealed_words(&paths)) {
                    self.note(base, &text);
                }
                work
            }
            (StepWork::Command(_) | StepWork::Skill(_), argv) => {
                self.run_command(base, &spec, argv.unwrap_or_default())?
            }
        };
        let JudgedAttempt { end, evidence, spent } = self.judge(base, &spec, due, work)?;
        record.finished_at = Some(now_of(base));
        record.spent = spent;
        tell_end(&mut record, &end);
        self.parts.folder.keep_attempt(&record)?;
        let is_done = matches!(end, AttemptEnd::Done { .. });
        let ended = JobTurn::StepEnded { step: number, attempt, end, spent };
        if let Some(evidence) = evidence {
            return Ok(AttemptResult::Failed(Box::new(FailedTry { evidence, ended, spent })));
        }
        self.say(base, ended)?;
        Ok(if is_done { AttemptResult::Done { spent } } else { AttemptResult::NotDone })
    }

    fn prompt(&self, spec: &StepSpec) -> String {
        let StepWork::Agent { instruction, .. } = &spec.work else { return String::new() };
        let verification = spec.verify.in_words();
        let verification = verification.as_deref();
        step_prompt(&self.of, &StepPrompt { instruction, verification })
    }

    /// Runs a command and waits for its end.
    pub(super) fn command(
        &mut self,
        base: &mut RunBase<'_>,
        argv: Vec<std::ffi::OsString>,
        spec: &StepSpec,
    ) -> Result<command::CommandEnded, JobError> {
        let step = self.of.at_step().unwrap_or_default();
        let env = self.environment(spec).into_iter();
        let run = StepCommandRun {
            argv,
            dir: self.parts.workspace.dir(),
            env: env.map(|(name, value)| (name.into(), value.into())).collect(),
            wall: spec.wall,
            idle: spec.idle,
        };
        let capture =
            Capture::new(Arc::clone(&self.parts.outlet), OutputStyle::Plain).with_lines(LINES);
        let news = self.parts.news.sender();
        let stopper = command::start(&base.care, run, Arc::new(capture), news);
        loop {
            match self.hear(base) {
                JobNews::Ended(ended) => {
                    let output = base.writer.scrubber.scrub(&ended.output);
                    let attempt = u32::try_from(self.of.failures().len() + 1).unwrap_or(u32::MAX);
                    self.parts.folder.keep_output(step, attempt, &output)?;
                    return Ok(*ended);
                }
                other => self.take(base, other)?,
            }
            if self.is_called_off() {
                stopper.stop();
            }
        }
    }

    fn run_command(
        &mut self,
        base: &mut RunBase<'_>,
        spec: &StepSpec,
        argv: Vec<std::ffi::OsString>,
    ) -> Result<WorkResult, JobError> {
        let ended = self.command(base, argv, spec)?;
        let spent = Amounts { wall_ms: millis(ended.took), ..Amounts::default() };
        let worked = if ended.stopped || self.is_called_off() {
            StepWorked::Not(AttemptEnd::Stopped)
        } else if ended.exit == ProcessExit::Code(0) {
            StepWorked::Claimed
        } else {
            StepWorked::Failed { outcome: ended.timer, exit: ended.exit, output: ended.output }
        };
        Ok(WorkResult { worked, spent })
    }

    /// Verifies what was claimed, and says how the attempt ended.
    fn judge(
        &mut self,
        base: &mut RunBase<'_>,
        spec: &StepSpec,
        due: DueAttempt,
        work: WorkResult,
    ) -> Result<JudgedAttempt, JobError> {
        let WorkResult { worked, spent } = work;
        let worked =
            if self.parts.workspace.is_gone() { self.remake(due.step, worked)? } else { worked };
        match worked {
            StepWorked::Not(end) => Ok(JudgedAttempt::of(end, spent)),
            StepWorked::Failed { outcome, exit, output } => {
                let left = self.left(due.step)?;
                let kind = spec.work.is_by_agent().then_some(AttemptOutcome::AgentFailed);
                let command = spec.work.line();
                let (timer, exit) = (outcome, Some(exit));
                let how = AttemptFailure { timer, exit, kind, command, spent };
                Ok(self.failed(base, &output, how, &left))
            }
            StepWorked::Claimed => self.judge_claim(base, spec, due, spent),
        }
    }

    /// Verifies a step that claims to be done.
    fn judge_claim(
        &mut self,
        base: &mut RunBase<'_>,
        spec: &StepSpec,
        due: DueAttempt,
        mut spent: Amounts,
    ) -> Result<JudgedAttempt, JobError> {
        let left = self.left(due.step)?;
        let verified = self.verify(base, spec, &left, &mut spent)?;
        if spec.verify.command.is_some() || spec.reviewer.is_some() {
            // What the verification itself left is not the step's.
            self.parts.workspace.check_out_if_changed(&left.tree)?;
        }
        if self.is_called_off() {
            return Ok(JudgedAttempt::of(AttemptEnd::Stopped, spent));
        }
        match verified {
            StepVerified::Met => Ok(JudgedAttempt::of(self.done(base, spec, due, &left)?, spent)),
            StepVerified::Not(end) => Ok(JudgedAttempt::of(end, spent)),
            StepVerified::Unmet(unmet) => {
                let kind = spec.work.is_by_agent().then_some(AttemptOutcome::Unverified);
                let (timer, exit, command) = (unmet.timer, unmet.exit, unmet.command);
                let how = AttemptFailure { timer, exit, kind, command, spent };
                Ok(self.failed(base, &unmet.output, how, &left))
            }
        }
    }

    /// Makes a workspace that the attempt deleted again as it was before the step, which has failed,
    /// whatever it claims.
    fn remake(&self, step: usize, worked: StepWorked) -> Result<StepWorked, JobError> {
        self.parts.workspace.remake(step)?;
        let said = "Error: the step deleted its workspace";
        Ok(match worked {
            StepWorked::Not(_) => worked,
            StepWorked::Claimed => {
                let (outcome, exit) = (None, ProcessExit::Code(0));
                StepWorked::Failed { outcome, exit, output: said.to_owned() }
            }
            StepWorked::Failed { outcome, exit, output } => {
                StepWorked::Failed { outcome, exit, output: format!("{output}\n{said}") }
            }
        })
    }

    /// Returns what a step's processes find in their environment.
    pub(super) fn environment(&self, spec: &StepSpec) -> Vec<(String, String)> {
        // Were the workspace's own repository damaged, git would find the user's above it.
        let above = self.parts.workspace.ceiling().to_string_lossy().into_owned();
        let env = [
            ("SALVE_JOB", self.of.id().short()),
            ("SALVE_STEP", spec.id.clone()),
            ("GIT_CEILING_DIRECTORIES", above),
        ];
        env.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// Looks at what the attempt left in the workspace.
    fn left(&self, step: usize) -> Result<WorkspaceLeft, JobError> {
        let store = &self.parts.workspace;
        let (before, SeenTree { tree, unborn }) = (store.tree_before(step)?, store.look()?);
        let diff = store.diff(&before, &tree)?;
        Ok(WorkspaceLeft { tree, diff, unborn })
    }

    /// Keeps the checkpoint of a step that is done.
    fn done(
        &mut self,
        base: &RunBase<'_>,
        spec: &StepSpec,
        due: DueAttempt,
        left: &WorkspaceLeft,
    ) -> Result<AttemptEnd, JobError> {
        let parts = &self.parts;
        let step = due.step;
        let record = StepRecord {
            version: 1,
            step_id: spec.id.clone(),
            step_index: step,
            attempt: due.attempt,
            diff_hash: digest(&left.diff.patch).to_string(),
            changed_files: left.diff.files.clone(),
            finished_at: Timestamp::now(),
        };
        let checkpoint = parts.folder.keep_checkpoint(&record, &left.diff, &left.tree)?;
        if let Some(claim) = parts.claim {
            let artifacts = parts.folder.artifacts(step);
            match base.writer.store.queue().checkpoint(claim, &artifacts)? {
                ClaimStanding::Held => {}
                ClaimStanding::Fenced => return Err(JobError::Fenced),
            }
        }
        parts.workspace.keep(step, &left.tree, &format!("step {}: {}", step + 1, spec.id))?;
        Ok(AttemptEnd::Done { checkpoint })
    }

    /// Says how an attempt failed, and what the controller does about it.
    fn failed(
        &self,
        base: &RunBase<'_>,
        output: &str,
        how: AttemptFailure,
        left: &WorkspaceLeft,
    ) -> JudgedAttempt {
        let AttemptFailure { timer, exit, kind, command, spent } = how;
        let scrubber = &base.writer.scrubber;
        let mut evidence = Evidence::of(output, exit.as_ref(), base.rules, scrubber);
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
        evidence.symptom.key_line = summary.clone();
        evidence.symptom.tree = Some(digest(left.tree.as_bytes()));
        let changed = left.diff.files.iter().take(MOST_FILES);
        let mut failure = StepFailure {
            class: class_of(outcome, evidence.output.as_str(), &self.parts.spec.rules),
            signature: evidence.symptom.signature,
            summary,
            command: command.map(|line| scrubber.scrub(&line)),
            exit,
            timer,
            tree: evidence.symptom.tree,
            diff: Some(digest(&left.diff.patch)),
            changed: changed.map(|file| scrubber.scrub(&file.path)).collect(),
        };
        let (class, strategy) = self.of.decide(&failure);
        failure.class = class;
        let end = AttemptEnd::Failed { failure: Box::new(failure), strategy };
        JudgedAttempt { end, evidence: Some(evidence), spent }
    }
}
