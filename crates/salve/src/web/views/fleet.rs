//! The fleet beside the project's own work: its jobs, who runs them, and what they ask.

use std::sync::Arc;

use jiff::Timestamp;
use salve_core::job::QueueState;
use schemars::JsonSchema;
use serde::Serialize;

use super::ProjectReader;
use super::work::JobRow;
use crate::store::WorkerSeen;
use crate::subjects::job::{FleetBoard, FleetQuestion, JobOnBoard};

/// How many jobs are shown besides those that wait for a person.
const JOBS: usize = 30;

/// A fleet as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct FleetView {
    /// The addresses of its servers.
    pub(in crate::web) url: String,
    /// Why it cannot be shown, if it cannot.
    pub(in crate::web) problem: Option<String>,
    /// The workers that are there, by name.
    pub(in crate::web) workers: Vec<FleetWorkerRow>,
    /// The jobs, the latest first.
    pub(in crate::web) jobs: Vec<FleetJobCard>,
    /// What they ask, the oldest question first.
    pub(in crate::web) questions: Vec<FleetQuestionCard>,
}

/// A worker of the fleet.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct FleetWorkerRow {
    pub(in crate::web) name: String,
    #[schemars(with = "String")]
    pub(in crate::web) since: Timestamp,
    pub(in crate::web) labels: Vec<String>,
    /// How many jobs it runs at most.
    pub(in crate::web) slots: usize,
    /// The ids of those that it runs.
    pub(in crate::web) jobs: Vec<String>,
}

/// A job of the fleet.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct FleetJobCard {
    /// The job as it shows itself, like one of this machine.
    pub(in crate::web) row: JobRow,
    /// How it stands in the queue.
    pub(in crate::web) queue: String,
    /// The worker that has it, or had it last.
    pub(in crate::web) worker: Option<String>,
    /// Since when that worker has it, if it does.
    #[schemars(with = "Option<String>")]
    pub(in crate::web) held_since: Option<Timestamp>,
    /// How often it was claimed.
    pub(in crate::web) claims: u64,
    /// How often it lost its worker.
    pub(in crate::web) losses: u32,
}

/// A question of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct FleetQuestionCard {
    /// The incident that asks.
    pub(in crate::web) incident: String,
    /// The run that waits.
    pub(in crate::web) run: String,
    /// The step that failed.
    pub(in crate::web) subject: String,
    /// The worker that asks.
    pub(in crate::web) worker: String,
    #[schemars(with = "Option<String>")]
    pub(in crate::web) asked_at: Option<Timestamp>,
    #[schemars(with = "Option<String>")]
    pub(in crate::web) expires_at: Option<Timestamp>,
    /// The question's number within the incident.
    pub(in crate::web) number: u32,
    /// The hash of exactly what is asked about.
    pub(in crate::web) digest: String,
    pub(in crate::web) why: String,
    /// The exact command, if it is about one.
    pub(in crate::web) command: Option<String>,
    pub(in crate::web) directory: Option<String>,
    pub(in crate::web) timeout_seconds: Option<u64>,
    /// The gate's rule that asks, and why.
    pub(in crate::web) rule: Option<String>,
    pub(in crate::web) reason: Option<String>,
    /// What was seen.
    pub(in crate::web) evidence: String,
    pub(in crate::web) yes: Option<String>,
    pub(in crate::web) no: String,
}

impl FleetView {
    /// Returns a fleet of which nothing is known yet.
    pub(in crate::web) fn unknown(url: &str) -> Self {
        let (workers, jobs, questions) = (Vec::new(), Vec::new(), Vec::new());
        Self { url: url.to_owned(), problem: None, workers, jobs, questions }
    }

    /// Returns a fleet that cannot be shown now.
    pub(in crate::web) fn unreached(url: &str, why: &str) -> Self {
        Self { problem: Some(why.to_owned()), ..Self::unknown(url) }
    }

    /// Returns a fleet as it stands.
    pub(in crate::web) fn of(url: &str, board: &FleetBoard, workers: &[WorkerSeen]) -> Self {
        let waits = |one: &&JobOnBoard| one.row.row.state == QueueState::Waiting;
        let mut questions: Vec<FleetQuestionCard> =
            board.jobs().filter_map(|one| one.open_question()).map(FleetQuestionCard::of).collect();
        questions.sort_by_key(|one| one.asked_at);
        let mut shown = 0;
        let jobs = board.jobs().filter(|one| {
            shown += 1;
            shown <= JOBS || waits(one)
        });
        Self {
            jobs: jobs.map(|one| FleetJobCard::of(one, workers)).collect(),
            workers: workers.iter().map(FleetWorkerRow::of).collect(),
            questions,
            ..Self::unknown(url)
        }
    }
}

impl FleetWorkerRow {
    fn of(worker: &WorkerSeen) -> Self {
        Self {
            name: worker.name.to_string(),
            since: worker.since,
            labels: worker.labels.clone(),
            slots: worker.slots,
            jobs: worker.jobs.iter().map(|job| job.job.short()).collect(),
        }
    }
}

impl FleetJobCard {
    fn of(one: &JobOnBoard, workers: &[WorkerSeen]) -> Self {
        let row = &one.row.row;
        let is_held = row.state == QueueState::Claimed;
        let id = one.job.id();
        let held = workers.iter().flat_map(|worker| &worker.jobs).find(|held| held.job == id);
        Self {
            row: JobRow::of(&one.job, is_held, String::new()),
            queue: row.state.as_str().to_owned(),
            worker: row.worker.as_ref().map(ToString::to_string),
            held_since: held.filter(|_| is_held).map(|held| held.since),
            claims: row.epoch,
            losses: row.losses,
        }
    }
}

impl FleetQuestionCard {
    fn of(question: &FleetQuestion) -> Self {
        let (detail, open) = (question.detail(), &question.open);
        let remedy = detail.as_ref().and_then(|detail| detail.remedy.as_ref());
        let (directory, timeout_seconds) = question.command_terms().unzip();
        let incident = question.view.incident();
        Self {
            incident: question.binding.incident.to_string(),
            run: question.binding.job.short(),
            subject: incident.subject().name.to_string(),
            worker: question.worker.to_string(),
            asked_at: detail.as_ref().map(|detail| detail.asked_at),
            expires_at: Timestamp::from_millisecond(question.binding.expires_ms).ok(),
            number: open.number,
            digest: open.digest.to_string(),
            why: open.why.clone(),
            command: remedy.filter(|_| directory.is_some()).map(|one| one.text.to_string()),
            directory,
            timeout_seconds,
            rule: remedy.map(|one| one.rule.to_string()),
            reason: remedy.map(|one| one.reason.to_string()),
            evidence: incident.symptom().key_line.head(300).to_string(),
            // What is shown is not what a yes would allow.
            yes: open.yes.clone().filter(|_| !question.is_mislabelled()),
            no: open.no.clone(),
        }
    }
}

impl ProjectReader {
    /// Returns the fleet of the project, if it has one.
    pub(in crate::web) fn fleet(&self) -> Option<Arc<FleetView>> {
        self.watched.fleet.as_ref().map(|fleet| fleet.seen())
    }

    /// Returns a number that grows with what is seen of the fleet.
    pub(in crate::web) fn fleet_changes(&self) -> u64 {
        self.watched.fleet.as_ref().map_or(0, |fleet| fleet.changes())
    }
}
