//! A job under care: its steps run one after the other in a workspace of their own, each wrapped in
//! the self-heal controller.
//!
//! [`JobDriver::run`] asks core what is next and does it: one thread, one inbox. What takes time (a
//! command, an agent) runs on a thread of its own and answers by the inbox. Everything that happened
//! is in the journal before the next thing begins, so whoever is killed leaves a job that the next
//! run goes on with.
//!
//! A step that failed is a subject of incidents (`step_subject`): the driver of all incidents chooses
//! among what memory and the playbook know and the two resets, and a further attempt at the step
//! verifies what was chosen.

mod attempt;
mod command;
mod control;
mod course;
mod files;
mod fleet;
mod fleet_board;
mod fleet_question;
mod fleet_result;
mod fleet_start;
mod reset;
mod review;
mod spec;
mod step_subject;
mod unbegun;
mod valid;
mod verify;
mod worked;

use std::sync::Arc;
use std::time::Duration;

use salve_core::event::{Digest, Entry, JobEvent, LoopEnd, StepTimer};
use salve_core::id::JobId;
use salve_core::job::Job;
use salve_core::scrub::Scrubbed;
use sha2::Digest as _;

pub use control::{
    JobOrderError, JobOrderTaken, expect_taken, order_job, step_named, steps_in_words, tell_queue,
};
pub use files::{JobFolder, StepRecord};
pub use fleet::{
    FleetJobError, FleetPayload, JobHistory, JobInFleet, LocalRun, RESULT, StartBundle, Untold,
    fleet_jobs, jobs_in_fleet, make_bundle,
};
pub use fleet_board::{FleetBoard, JobOnBoard};
pub use fleet_question::{
    AnswerRefusal, Asker, FleetQuestion, judge_answer, questions_in_fleet, seal_answer,
};
pub use fleet_result::FleetResult;
pub use fleet_start::{FleetStart, GitRemote, RemoteStart, StartWay, at_remote, submodules};
pub use spec::{
    JobFile, JobSection, ReviewerEntry, SpecError, StepEntry, StepLimits, VerifyEntry, job_schema,
};
pub use unbegun::sweep_unbegun;
pub use valid::{JobSpec, NamedAgent, StepReviewer, StepSkill, StepSpec, StepWork};

use crate::agent::AgentEvent;
use crate::config::LiveSettings;
use crate::heal::RunBase;
use crate::heal::agents::AgentPlan;
use crate::heal::inbox::NewsQueue;
use crate::heal::records::Records;
use crate::process::Outlet;
use crate::store::{ClaimToken, Store, StoreError, Stream};
use crate::workspace::{StepStore, WorkspaceError};

/// Something that reached a job.
#[derive(Debug)]
pub enum JobNews {
    /// A step's command came to its end.
    Ended(Box<command::CommandEnded>),
    /// A timer of the attempt at work will run out after so long.
    Warned(StepTimer, Duration),
    /// The agent of the step at work did something.
    Agent(AgentEvent),
    /// Something was written to the journal.
    Journal,
    /// Something that a person should know.
    Note(String),
    /// The user wants it to end, by this signal.
    Stop(i32),
}

/// What is shown of an attempt while it is at work, besides what the job itself knows.
#[derive(Clone, Debug)]
pub struct AttemptShown {
    /// The step's number, from 0.
    pub step: usize,
    /// Which attempt at it this is, from 1.
    pub attempt: u32,
    /// How long it may take.
    pub wall: Duration,
}

/// What is shown to whoever runs a job.
pub trait JobFace {
    /// The job took in an entry.
    fn entry(&mut self, of: &Job, entry: &Entry);
    /// An attempt begins.
    fn attempt(&mut self, of: &Job, begun: &AttemptShown);
    /// The agent at work did something.
    fn activity(&mut self, text: &Scrubbed);
    /// Something that a person should know.
    fn note(&mut self, text: &Scrubbed);
}

/// How a run of a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// The job is over.
    Over(LoopEnd),
    /// A person has to do something first.
    NeedsPerson(Scrubbed),
    /// A person called it off.
    CalledOff,
    /// The user wanted it to end, by this signal.
    Stopped(i32),
    /// It can go on later, and the worker that ran it does something else meanwhile.
    Parked,
}

/// Why a run of a job could not go on.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The journal could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The job's files could not be written.
    #[error(transparent)]
    Write(#[from] crate::atomic::WriteError),
    /// The job's workspace could not be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The claim under which it ran counts no longer.
    #[error("another worker has taken the job over")]
    Fenced,
}

/// Makes the plan of a step's agent, or says what is missing.
pub type AgentPlanner<'a> = dyn Fn(&NamedAgent) -> Result<AgentPlan, String> + 'a;

/// Drives one run of a job.
pub struct JobDriver<'b, 'p> {
    /// What the run stands on; its project is the job's workspace, a copy of the user's.
    pub base: RunBase<'b>,
    /// What belongs to the job alone.
    pub parts: JobParts<'p>,
}

/// What belongs to one run of a job alone.
pub struct JobParts<'a> {
    /// The job's directory.
    pub folder: JobFolder,
    pub workspace: StepStore,
    /// What its steps do.
    pub spec: JobSpec,
    /// The settings, which are held while an agent works.
    pub live: LiveSettings<'a>,
    /// What makes the plan of a step's agent.
    pub planner: &'a AgentPlanner<'a>,
    /// Where the output of commands goes.
    pub outlet: Arc<Outlet>,
    /// What commands and agents tell.
    pub news: NewsQueue<JobNews>,
    /// The claim under which a worker runs the job, if one does.
    pub claim: Option<ClaimToken>,
    /// Where the evidence of failures is kept.
    pub records: Records,
    /// Who is shown what happens.
    pub face: &'a mut dyn JobFace,
}

/// Returns all runs of jobs of a project, oldest first.
pub fn known(store: &Store) -> Result<Vec<Job>, StoreError> {
    let entries = store.journal().read(0, &Stream::Jobs, usize::MAX)?;
    let mut by_id: std::collections::BTreeMap<JobId, Vec<&Entry>> = Default::default();
    for entry in &entries {
        if let salve_core::event::Event::Job(JobEvent::Advanced { id, .. }) = &entry.event {
            by_id.entry(*id).or_default().push(entry);
        }
    }
    Ok(by_id.into_iter().filter_map(|(id, entries)| Job::replay(id, entries)).collect())
}

/// Returns the runs of jobs whose id is, or whose short id begins with, these digits.
pub fn jobs_like(store: &Store, digits: &str) -> Result<Vec<Job>, StoreError> {
    let wanted: String = digits.chars().filter(char::is_ascii_hexdigit).collect();
    let wanted = wanted.to_ascii_lowercase();
    let is_id = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !is_id || wanted.len() < 4 {
        return Ok(Vec::new());
    }
    let is_meant = |job: &Job| {
        let id = job.id();
        id.short().starts_with(&wanted) || id.0.simple().to_string() == wanted
    };
    Ok(known(store)?.into_iter().filter(is_meant).collect())
}

/// Returns the SHA-256 of some bytes.
fn digest(bytes: &[u8]) -> Digest {
    Digest(sha2::Sha256::digest(bytes).into())
}
