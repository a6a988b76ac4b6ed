//! Jobs and loops: how they stand, and orders to them.

use axum::extract::Path;
use axum::response::Response;
use salve_core::event::{Actor, JobOrder, PersonOrder};
use salve_core::job::{Job, job_state};
use schemars::JsonSchema;
use serde::Deserialize;

use super::request::{PersonRequest, ProjectView};
use super::{Decided, json, parse, written};
use crate::heal::loops;
use crate::process;
use crate::subjects::job::{JobOrderError, order_job};
use crate::web::decide::WrittenDecision;
use crate::web::problem::HttpProblem;
use crate::web::views::{ProjectReader, ViewError};

pub(super) async fn work(
    ProjectView { project, headers, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    json(&headers, &project.ask(|reader| reader.work().view()).await??)
}

/// What a run of a job is ordered to do.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::web) struct ControlRequest {
    /// The order.
    action: JobControlWord,
    /// The step to go on from, by its id; only with `resume_from_step`.
    #[serde(default)]
    step_id: Option<String>,
    /// The same by its number, from 0.
    #[serde(default)]
    step_index: Option<u32>,
}

/// What a run of a job can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum JobControlWord {
    /// Begin nothing new.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Stop at once.
    Cancel,
    /// Try the present step again, with its counters at zero.
    RetryStep,
    /// Set the workspace back to the last checkpoint and try the step again.
    HardResetStep,
    /// Set the workspace back to before a step and go on from there.
    ResumeFromStep,
}

impl ControlRequest {
    pub(super) fn order(&self, of: &Job) -> Result<JobOrder, HttpProblem> {
        let names_step = self.step_id.is_some() || self.step_index.is_some();
        if names_step && self.action != JobControlWord::ResumeFromStep {
            return Err(HttpProblem::bad_request("only resume_from_step names a step"));
        }
        Ok(match self.action {
            JobControlWord::Pause => JobOrder::Pause,
            JobControlWord::Resume => JobOrder::Resume,
            JobControlWord::Cancel => JobOrder::Cancel,
            JobControlWord::RetryStep => JobOrder::RetryStep,
            JobControlWord::HardResetStep => JobOrder::HardResetStep,
            JobControlWord::ResumeFromStep => {
                let steps = &of.terms().steps;
                let is_named = |id: &str| steps.iter().position(|step| step.id.as_str() == id);
                let by_index = || usize::try_from(self.step_index?).ok();
                let step = match &self.step_id {
                    Some(id) => is_named(id),
                    None => by_index().filter(|at| *at < steps.len()),
                };
                let missing = || {
                    let steps = steps.iter().enumerate();
                    let known: Vec<String> =
                        steps.map(|(at, step)| format!("{at} {}", step.id)).collect();
                    let known = known.join(", ");
                    HttpProblem::bad_request(format!(
                        "resume_from_step needs a known stepId or stepIndex: {known}"
                    ))
                };
                let step = step.and_then(|at| u32::try_from(at).ok()).ok_or_else(missing)?;
                JobOrder::ResumeFromStep { step }
            }
        })
    }
}

pub(super) async fn control(
    Path(run): Path<String>,
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let request: ControlRequest = parse(&body)?;
    let order = move |reader: &mut ProjectReader| -> Result<_, HttpProblem> {
        let missing = || HttpProblem::missing("there is no such run").next("GET /api/work");
        let of = reader.work().job(&run)?.ok_or_else(missing)?;
        let order = request.order(&of)?;
        let store = reader.store().map_err(ViewError::from)?.ok_or_else(missing)?;
        order_job(store, &of, order, person).map_err(|error| match error {
            JobOrderError::Store(error) => ViewError::from(error).into(),
            error @ JobOrderError::NotTaken { .. } => HttpProblem::conflict(error.to_string()),
        })?;
        Ok(job_state(&reader.work().job(&of.id().to_string())?.ok_or_else(missing)?))
    };
    written(&project.ask(order).await??)
}

/// An order to a loop.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct LoopOrderRequest {
    /// The order.
    order: LoopOrderWord,
}

/// What a loop can be told.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LoopOrderWord {
    /// Start nothing new until resumed.
    Pause,
    /// Go on.
    Resume,
    /// Try the present role again.
    Retry,
    /// Leave the present role out.
    Skip,
    /// Stop.
    Stop,
}

pub(super) async fn order_loop(
    Path(name): Path<String>,
    PersonRequest { person, project, body }: PersonRequest,
) -> Result<Response, HttpProblem> {
    let by = Actor::Person { name: person };
    let LoopOrderRequest { order } = parse(&body)?;
    let (order, said) = match order {
        LoopOrderWord::Pause => (PersonOrder::Pause, "Paused: nothing new is begun."),
        LoopOrderWord::Resume => (PersonOrder::Resume, "It goes on."),
        LoopOrderWord::Retry => (PersonOrder::Retry, "The role is tried again."),
        LoopOrderWord::Skip => (PersonOrder::Skip, "The role is left out."),
        LoopOrderWord::Stop => (PersonOrder::Abort, "Stopped."),
    };
    let give = move |reader: &mut ProjectReader| -> Result<Decided, HttpProblem> {
        let missing = || HttpProblem::missing("there is no such loop").next("GET /api/work");
        let of = reader.work().loop_named(&name)?.ok_or_else(missing)?;
        let scrubber = reader.scrubber().clone();
        let driver = of.stamps().driver();
        let is_heard = driver.is_some_and(|driver| !process::is_gone(driver, &scrubber));
        let store = reader.store().map_err(ViewError::from)?.ok_or_else(missing)?;
        let taken =
            loops::order_loop(store, &of, order, &by, &scrubber).map_err(ViewError::from)?;
        let refused = || HttpProblem::conflict("the loop does not take this now");
        Ok(Decided::about(WrittenDecision { seq: taken.ok_or_else(refused)?, is_heard }, said))
    };
    written(&project.ask(give).await??)
}
