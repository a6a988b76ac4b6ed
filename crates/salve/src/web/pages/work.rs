//! Jobs and loops: steps, attempts, checkpoints, roles and iterations, and orders to them.

use maud::{Markup, html};
use salve_core::iteration::Status;
use salve_core::job::JobStatus;

use super::fleet;
use super::parts::{ago, clock, cost, counted, nothing};
use crate::web::views::{FleetView, JobRow, JobStepRow, LoopRow, StepStanding, WorkView};
use crate::web::visible::visible;

/// Returns the section.
pub(super) fn page(view: &WorkView, of_fleet: Option<&FleetView>) -> Markup {
    html! {
        h1 { "Jobs and loops" }
        section aria-labelledby="jobs" {
            h2 #jobs { "Jobs" }
            @if view.jobs.is_empty() { (nothing("No job has been run here yet.", Some("salve run JOB.toml"))) }
            div.stack { @for job in &view.jobs { (job_card(job)) } }
        }
        @if let Some(view) = of_fleet { (fleet::sections(view)) }
        section aria-labelledby="loops" {
            h2 #loops { "Loops" }
            @if view.loops.is_empty() { (nothing("No loop has been run here yet.", Some("salve loop run --task \"…\""))) }
            div.stack { @for row in &view.loops { (loop_card(row)) } }
        }
    }
}

pub(super) fn job_badge(status: JobStatus) -> Markup {
    let (word, class) = match status {
        JobStatus::Running => ("running", "busy"),
        JobStatus::Paused => ("paused", "warn"),
        JobStatus::Parked => ("parked", "warn"),
        JobStatus::AwaitingHuman => ("needs you", "bad"),
        JobStatus::Stopped => ("stopped", "warn"),
        JobStatus::Completed => ("completed", "good"),
        JobStatus::Failed => ("failed", "bad"),
    };
    html! { span class={ "badge " (class) } { (word) } }
}

fn job_card(job: &JobRow) -> Markup {
    let state = &job.state;
    let id = state.run_id.to_string();
    let path = format!("/api/task-runs/{id}/control");
    let order = |action: &str, label: &str| {
        html! {
            button type="button" data-post=(path) data-body={ "{\"action\":\"" (action) "\"}" } { (label) }
        }
    };
    html! {
        article.card data-item id={ "job-" (id) } {
            header {
                (job_badge(state.status))
                b { (visible(state.objective.as_str())) }
                code { (state.run_id.short()) }
                span.dim { (ago(state.since)) }
            }
            @if let Some(reason) = &state.reason { p.why { (visible(reason.as_str())) } }
            p.dim {
                (state.steps_done) " of " (state.steps) " steps done · branch " (state.branch)
                @if state.resets > 0 { " · set back " (counted(u64::from(state.resets), "time", "times")) }
                @if let Some(cost) = cost(state.spent) { " · " (cost) }
                @if let Some(at) = state.resumes_at { " · goes on at " (clock(at)) }
            }
            (step_list(job, &path))
            p.actions {
                @match state.status {
                    JobStatus::Running | JobStatus::Parked => { (order("pause", "Pause")) (order("retry_step", "Retry the step")) (order("hard_reset_step", "Hard reset")) (order("cancel", "Cancel")) }
                    JobStatus::Paused => { (order("resume", "Resume")) (order("cancel", "Cancel")) }
                    JobStatus::AwaitingHuman | JobStatus::Failed | JobStatus::Stopped => { (order("retry_step", "Retry the step")) (order("hard_reset_step", "Hard reset")) }
                    JobStatus::Completed => {}
                }
            }
            @if !job.is_driven && state.status != JobStatus::Completed {
                p.dim { "No salve runs it now; go on with " code { "salve resume " (state.run_id.short()) } }
            }
            @if state.status == JobStatus::Completed {
                p.dim { "Take its result over with " code { "salve jobs take " (state.run_id.short()) } }
            }
            p.dim { code { (visible(&job.files)) } }
        }
    }
}

/// Returns the steps of a job, how the present one failed, and what was ordered; orders go to `path`.
pub(super) fn step_list(job: &JobRow, path: &str) -> Markup {
    let state = &job.state;
    html! {
        ol.steps { @for (number, step) in job.steps.iter().enumerate() { (step_item(path, number, step, state.status)) } }
        @if !job.failed.is_empty() {
            p { "Attempts at this step that failed:" }
            ul { @for failed in &job.failed {
                li { "attempt " (failed.attempt) ": " (failed.class) " · " code { (failed.strategy) } " · " (visible(&failed.summary)) }
            } }
        }
        @if let Some(recovery) = &state.live_control.recovery {
            p.dim { "Ordered: " (recovery.action) " by " (visible(recovery.requested_by.as_str())) @if recovery.honored { ", done" } @else { ", waits" } }
        }
    }
}

fn step_item(path: &str, number: usize, step: &JobStepRow, status: JobStatus) -> Markup {
    let (word, class) = match step.standing {
        StepStanding::Done => ("done", "good"),
        StepStanding::Due if status == JobStatus::Completed => ("done", "good"),
        StepStanding::Due => ("due", "busy"),
        StepStanding::Waits => ("waits", "dim"),
    };
    html! {
        li {
            span class={ "badge " (class) } { (word) } " " b { (visible(&step.id)) }
            span.dim { " at most " (counted(u64::from(step.attempts), "attempt", "attempts")) @if let Some(tree) = &step.checkpoint { " · checkpoint " code { (tree.chars().take(12).collect::<String>()) } } }
            @if step.checkpoint.is_some() {
                " " button.small type="button" data-post=(path)
                    data-body={ "{\"action\":\"resume_from_step\",\"stepIndex\":" (number) "}" }
                    data-confirm={ "Set the workspace back to before step " (number + 1) " and go on from there?" } { "Resume from here" }
            }
        }
    }
}

fn loop_badge(status: Status) -> Markup {
    let class = match status {
        Status::Running => "busy",
        Status::AwaitingHuman | Status::Failed => "bad",
        Status::Parked | Status::Stuck | Status::LimitReached | Status::Stopped => "warn",
        Status::Completed => "good",
    };
    html! { span class={ "badge " (class) } { (status.as_str().replace('_', " ")) } }
}

fn loop_card(row: &LoopRow) -> Markup {
    let order = |order: &str, label: &str| {
        html! {
            button type="button" data-post={ "/api/loops/" (row.id) "/order" } data-body={ "{\"order\":\"" (order) "\"}" } { (label) }
        }
    };
    html! {
        article.card data-item id={ "loop-" (row.id) } {
            header {
                @if let Some(state) = &row.state { (loop_badge(state.status)) }
                b { (row.id) }
                @if let Some(state) = &row.state { span.dim { "iteration " (state.iteration) " · " (ago(state.since)) } }
            }
            @if let Some(state) = &row.state {
                @if let Some(reason) = &state.reason { p.why { (visible(reason.as_str())) } }
                p { "Each iteration: " @for (at, step) in row.steps.iter().enumerate() {
                    @if at > 0 { " → " }
                    span class=[state.role.as_ref().is_some_and(|role| role.as_str() == step).then_some("current-step")] { (visible(step)) }
                } }
                p.dim {
                    @if let Some(cost) = cost(state.spent) { (cost) " · " }
                    @if let Some(tests) = &state.tests { "tests: " (format!("{tests:?}").to_lowercase()) " · " }
                    (state.unchanged) " iterations without a change"
                    @if let Some(by) = &state.paused_by { " · paused by " (visible(by.as_str())) }
                }
                @if let Some(incident) = state.incident { p { a href={ "/incidents/" (incident.short()) } { "heal-" (incident.short()) } } }
                p.actions {
                    @match state.status {
                        Status::Running | Status::Parked | Status::AwaitingHuman => {
                            @if state.paused_by.is_some() { (order("resume", "Resume")) } @else { (order("pause", "Pause")) }
                            (order("retry", "Try again")) (order("skip", "Skip the role")) (order("stop", "Stop"))
                        }
                        Status::Completed | Status::Stuck | Status::LimitReached | Status::Stopped | Status::Failed => {}
                    }
                }
                @if !row.is_driven && matches!(state.status, Status::Running | Status::Parked | Status::Stopped) {
                    p.dim { "Nobody runs it now; go on with " code { "salve loop run --id " (row.id) } }
                }
            }
            details { summary { "What happened last" }
                ol.timeline { @for line in &row.lines {
                    li { time { (clock(line.at)) } span.by { @if let Some(number) = line.iteration { "iteration " (number) } } span { (line.event) @if let Some(role) = &line.role { " · " (visible(role)) } } }
                } }
            }
        }
    }
}
