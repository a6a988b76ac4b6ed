//! The fleet on the page: its workers, its jobs beside the project's own, and what they ask.

use maud::{Markup, html};
use salve_core::job::JobStatus;

use super::parts::{ago, nothing};
use super::work::{job_badge, step_list};
use crate::web::views::{FleetJobCard, FleetQuestionCard, FleetView, FleetWorkerRow};
use crate::web::visible::visible;

/// Returns the sections of the fleet's jobs and workers.
pub(super) fn sections(view: &FleetView) -> Markup {
    html! {
        section aria-labelledby="fleet" {
            h2 #fleet { "Jobs of the fleet" }
            p.dim { code { (visible(&view.url)) } }
            @if let Some(problem) = &view.problem { p.warn.note { "The fleet is not shown: " (visible(problem)) } }
            @else if view.jobs.is_empty() { (nothing("No job is in the fleet.", Some("salve submit JOB.toml"))) }
            div.stack { @for job in &view.jobs { (job_card(job)) } }
        }
        section aria-labelledby="fleet-workers" {
            h2 #fleet-workers { "Workers" }
            @if view.workers.is_empty() { (nothing("No worker is there.", Some("salve worker --fleet URL"))) }
            ul.notices { @for worker in &view.workers { (worker_line(worker)) } }
        }
    }
}

fn worker_line(worker: &FleetWorkerRow) -> Markup {
    html! {
        li data-item {
            b { (visible(&worker.name)) } " " span.dim { "since " (ago(worker.since)) } " "
            (worker.jobs.len()) " of " (worker.slots) " jobs"
            @for job in &worker.jobs { " " a href={ "#fleet-job-" (job) } { code { (job) } } }
            @if !worker.labels.is_empty() { span.dim { " offers " (visible(&worker.labels.join(", "))) } }
        }
    }
}

fn job_card(job: &FleetJobCard) -> Markup {
    let state = &job.row.state;
    let id = state.run_id.to_string();
    let path = format!("/api/fleet/jobs/{id}/control");
    let order = |action: &str, label: &str| {
        html! {
            button type="button" data-post=(path) data-body={ "{\"action\":\"" (action) "\"}" } { (label) }
        }
    };
    let is_over = matches!(job.queue.as_str(), "withdrawn" | "done");
    html! {
        article.card data-item id={ "fleet-job-" (state.run_id.short()) } {
            header {
                @match job.queue.as_str() {
                    "queued" => { span.badge.warn { "queued" } }
                    "dead" => { span.badge.bad { "failed for good" } }
                    "withdrawn" => { span.badge.warn { "called off" } }
                    _ => { (job_badge(state.status)) }
                }
                b { (visible(state.objective.as_str())) }
                code { (state.run_id.short()) }
                span.dim { (ago(state.since)) }
            }
            p {
                @match (&job.worker, job.held_since) {
                    (Some(worker), Some(since)) => { "runs on " b { (visible(worker)) } " since " (ago(since)) }
                    (Some(worker), None) if job.queue == "claimed" => { "runs on " b { (visible(worker)) } }
                    (Some(worker), None) => { span.dim { "was last on " (visible(worker)) } }
                    (None, _) => { span.dim { "no worker has had it yet" } }
                }
                span.dim {
                    " · claimed " (job.claims) "×"
                    @if job.losses > 0 { " · lost its worker " (job.losses) "×" }
                }
            }
            @if let Some(reason) = &state.reason { p.why { (visible(reason.as_str())) } }
            p.dim { (state.steps_done) " of " (state.steps) " steps done · branch " (state.branch) }
            (step_list(&job.row, &path))
            p.actions {
                @if !is_over {
                    @match state.status {
                        JobStatus::Running | JobStatus::Parked => { (order("pause", "Pause")) (order("retry_step", "Retry the step")) (order("cancel", "Cancel")) }
                        JobStatus::Paused => { (order("resume", "Resume")) (order("cancel", "Cancel")) }
                        JobStatus::AwaitingHuman | JobStatus::Failed | JobStatus::Stopped => { (order("retry_step", "Retry the step")) (order("hard_reset_step", "Hard reset")) }
                        JobStatus::Completed => {}
                    }
                }
            }
            @if state.status == JobStatus::Completed {
                p.dim { "Take its result over with " code { "salve jobs take " (state.run_id.short()) } }
            }
        }
    }
}

/// Returns one question of a job as a card with a form.
pub(super) fn question_card(question: &FleetQuestionCard) -> Markup {
    let short = question.incident.chars().rev().take(12).collect::<Vec<_>>();
    let short: String = short.into_iter().rev().collect();
    html! {
        article.card.question data-item id={ "ask-" (short) "-" (question.number) } {
            header {
                span.badge.bad { "needs you" }
                span.subject { "step " b { (visible(&question.subject)) } }
                span { "run " a href={ "/jobs#fleet-job-" (question.run) } { code { (question.run) } } " on " (visible(&question.worker)) }
                @if let Some(at) = question.asked_at { span.dim { "asked " (ago(at)) } }
            }
            p.why { (visible(&question.why)) }
            @if let Some(command) = &question.command {
                pre.command aria-label="the exact command" { (visible(command)) }
                p.dim {
                    "runs in "
                    @match question.directory.as_deref() {
                        Some(".") | None => "the job's project directory",
                        Some(dir) => code { (visible(dir)) },
                    }
                    @if let Some(seconds) = question.timeout_seconds { ", at most " (seconds) " s" }
                }
            }
            @if let (Some(rule), Some(reason)) = (&question.rule, &question.reason) {
                p { code { (visible(rule)) } ": " (visible(reason)) }
            }
            p.key-line { (visible(&question.evidence)) }
            form data-post={ "/api/fleet/questions/" (question.incident) "/answer" } {
                input type="hidden" name="question" value=(question.number) data-number;
                input type="hidden" name="digest" value=(question.digest);
                label { "Note " input type="text" name="note" maxlength="2000" autocomplete="off"; }
                div.answers {
                    @if let Some(yes) = &question.yes {
                        button.yes type="submit" name="answer" value="approve" data-key="a" { b { "Approve" } span { (visible(yes)) } }
                    }
                    button.no type="submit" name="answer" value="reject" data-key="r" { b { "Reject" } span { (visible(&question.no)) } }
                    button type="submit" name="answer" value="resolve" data-key="s" { b { "Settled" } span { "you took care of it yourself" } }
                }
                p.dim {
                    "Your answer is sealed with your key and judged by the worker."
                    @if let Some(until) = question.expires_at { " It can be given until " (until.strftime("%Y-%m-%d %H:%M UTC").to_string()) "." }
                }
            }
        }
    }
}
