//! Jobs and loops: how they stand, their steps, attempts and checkpoints.

use jiff::Timestamp;
use salve_core::event::{LoopId, LoopStep, Process};
use salve_core::iteration::{Loop, LoopStateFile};
use salve_core::job::{FailedAttempt, Job, JobState, job_state};
use salve_core::view::LoopView;
use schemars::JsonSchema;
use serde::Serialize;

use super::{JsonObject, ProjectReader, ViewError, WorkCard, WorkStanding};
use crate::process;
use crate::reading::{known_loops, loop_view};
use crate::subjects::job::{JobFolder, jobs_like, known};

/// How many jobs one page shows.
const JOBS: usize = 20;

/// How many jobs and loops are shown at a glance.
const MOST_CARDS: usize = 6;

/// How many of a loop's last lines are shown.
const LOOP_LINES: usize = 12;

/// Jobs and loops as they are shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct WorkView {
    /// The runs of jobs, the latest first.
    pub(in crate::web) jobs: Vec<JobRow>,
    /// The loops, by name.
    pub(in crate::web) loops: Vec<LoopRow>,
}

/// One run of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct JobRow {
    #[schemars(with = "JsonObject")]
    pub(in crate::web) state: JobState,
    pub(in crate::web) steps: Vec<JobStepRow>,
    /// How the attempts at the present step failed.
    pub(in crate::web) failed: Vec<FailedAttemptRow>,
    /// Whether some salve drives it now.
    pub(in crate::web) is_driven: bool,
    /// Where its files lie.
    pub(in crate::web) files: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct JobStepRow {
    pub(in crate::web) id: String,
    pub(in crate::web) standing: StepStanding,
    /// How often it is tried at most.
    pub(in crate::web) attempts: u32,
    /// The hash of the tree that it left, where it is done.
    pub(in crate::web) checkpoint: Option<String>,
}

/// How a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::web) enum StepStanding {
    /// It is done and verified, and its checkpoint is kept.
    Done,
    /// It is due or at work.
    Due,
    /// Others come first.
    Waits,
}

/// How one attempt at a step failed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct FailedAttemptRow {
    pub(in crate::web) attempt: u32,
    pub(in crate::web) class: String,
    /// What was done about it.
    pub(in crate::web) strategy: String,
    pub(in crate::web) summary: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct LoopRow {
    #[schemars(with = "String")]
    pub(in crate::web) id: LoopId,
    #[schemars(with = "Option<JsonObject>")]
    pub(in crate::web) state: Option<LoopStateFile>,
    /// What each iteration does, in this order.
    pub(in crate::web) steps: Vec<String>,
    /// What happened last, the latest first.
    pub(in crate::web) lines: Vec<LoopLine>,
    /// Whether some salve drives it now.
    pub(in crate::web) is_driven: bool,
}

/// One line of a loop's log.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct LoopLine {
    #[schemars(with = "String")]
    pub(in crate::web) at: Timestamp,
    pub(in crate::web) event: String,
    pub(in crate::web) iteration: Option<u32>,
    pub(in crate::web) role: Option<String>,
}

/// Reads how jobs and loops stand.
#[derive(Debug)]
pub(in crate::web) struct WorkReader<'r> {
    reader: &'r mut ProjectReader,
}

impl<'r> WorkReader<'r> {
    pub(super) fn new(reader: &'r mut ProjectReader) -> Self {
        Self { reader }
    }

    /// Returns the jobs and loops of the project.
    pub(in crate::web) fn view(&mut self) -> Result<WorkView, ViewError> {
        let scrubber = self.reader.scrubber().clone();
        let is_driven = |driver: Option<&Process>| {
            driver.is_some_and(|driver| !process::is_gone(driver, &scrubber))
        };
        let project = self.reader.project().clone();
        let Some(store) = self.reader.store()? else {
            return Ok(WorkView { jobs: Vec::new(), loops: Vec::new() });
        };
        let jobs = known(store)?.into_iter().rev().take(JOBS).map(|job| {
            let files = JobFolder::of(&project, job.id()).dir().display().to_string();
            JobRow::of(&job, is_driven(job.stamps().driver()), files)
        });
        let jobs = jobs.collect();
        let mut loops = Vec::new();
        for of in known_loops(store.journal())? {
            let view = loop_view(store.journal(), of.id().as_str())?;
            loops.push(LoopRow::of(&of, &view, is_driven(of.stamps().driver())));
        }
        Ok(WorkView { jobs, loops })
    }

    /// Returns the jobs and loops that are under way, or were lately; what waits for a person first.
    pub(in crate::web) fn cards(&mut self) -> Result<Vec<WorkCard>, ViewError> {
        let (scrubber, now) = (self.reader.scrubber().clone(), Timestamp::now());
        let Some(store) = self.reader.store()? else { return Ok(Vec::new()) };
        let is_driven = |driver: Option<&Process>| {
            driver.is_some_and(|driver| !process::is_gone(driver, &scrubber))
        };
        let jobs = known(store)?;
        let loops = known_loops(store.journal())?;
        let of_job = |job: &Job| WorkCard::of_job(job, is_driven(job.stamps().driver()));
        let of_loop = |of: &Loop| WorkCard::of_loop(of, is_driven(of.stamps().driver()));
        let mut cards: Vec<WorkCard> =
            jobs.iter().map(of_job).chain(loops.iter().map(of_loop)).collect();
        cards.retain(|card| card.is_shown(now));
        let rank = |card: &WorkCard| {
            let (waits, is_over) = (card.standing == WorkStanding::Waits, card.standing.is_over());
            (!waits, is_over, std::cmp::Reverse(card.since))
        };
        cards.sort_by_key(rank);
        cards.truncate(MOST_CARDS);
        Ok(cards)
    }

    /// Returns the run of a job whose id begins with `given`.
    pub(in crate::web) fn job(&mut self, given: &str) -> Result<Option<Job>, ViewError> {
        let Some(store) = self.reader.store()? else { return Ok(None) };
        let mut found = jobs_like(store, given.trim())?;
        Ok(found.pop().filter(|_| found.is_empty()))
    }

    /// Returns a loop of the project by its name.
    pub(in crate::web) fn loop_named(&mut self, name: &str) -> Result<Option<Loop>, ViewError> {
        let Some(store) = self.reader.store()? else { return Ok(None) };
        Ok(known_loops(store.journal())?.into_iter().find(|of| of.id().as_str() == name))
    }
}

impl JobRow {
    pub(super) fn of(job: &Job, is_driven: bool, files: String) -> Self {
        let state = job_state(job);
        let step = |(number, terms): (usize, &salve_core::event::JobStepTerms)| JobStepRow {
            id: terms.id.to_string(),
            standing: match (number < state.steps_done, state.step_index == Some(number)) {
                (true, _) => StepStanding::Done,
                (false, true) => StepStanding::Due,
                (false, false) => StepStanding::Waits,
            },
            attempts: terms.attempts,
            checkpoint: job.checkpoints().get(number).map(|kept| kept.tree.to_string()),
        };
        let steps = job.terms().steps.iter().enumerate().map(step).collect();
        let failed = job.failures().iter().map(FailedAttemptRow::of).collect();
        Self { state, steps, failed, is_driven, files }
    }
}

impl FailedAttemptRow {
    fn of(failed: &FailedAttempt) -> Self {
        Self {
            attempt: failed.attempt,
            class: failed.failure.class.to_string(),
            strategy: failed.strategy.as_str().to_owned(),
            summary: failed.failure.summary.head(500).to_string(),
        }
    }
}

impl LoopRow {
    fn of(of: &Loop, view: &LoopView, is_driven: bool) -> Self {
        let line = |line: &salve_core::recovery::LogLine| LoopLine {
            at: line.timestamp,
            event: line.event.replace('_', " "),
            iteration: line.iteration,
            role: line.role.as_ref().map(ToString::to_string),
        };
        Self {
            id: of.id().clone(),
            state: view.state(),
            steps: of.terms().steps.iter().map(loop_step_word).collect(),
            lines: view.log().iter().rev().take(LOOP_LINES).map(line).collect(),
            is_driven,
        }
    }
}

fn loop_step_word(step: &LoopStep) -> String {
    match step {
        LoopStep::Role(name) => name.to_string(),
        LoopStep::Tests => "tests".to_owned(),
        LoopStep::Recovery => "recovery".to_owned(),
    }
}
