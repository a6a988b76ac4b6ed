//! What is said about a job: one line for each thing that happens to it.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use salve_core::event::{
    AttemptEnd, Entry, Event, FailureClass, HealStrategy, IncidentEvent, JobEvent, JobOrder,
    JobTurn, LoopEnd, RemedyKind, RemedyVerdict, ResetEnd,
};
use salve_core::incident::Incident;
use salve_core::job::{Job, cause_word, task_events};
use salve_core::repair::who;
use salve_core::scrub::Scrubbed;

use super::super::Output;
use super::super::terminal_reporter::{Colours, Grade, TerminalLine, window_width};
use super::progress::LiveProgress;
use super::result_ways::ResultWays;
use crate::heal::{Remark, Reporter};
use crate::process::Outlet;
use crate::subjects::job::{AttemptShown, JobFace};

/// Tells what happens to a job, to whoever reads.
pub(super) struct JobTeller<'a> {
    pub(super) out: &'a Output,
    pub(super) outlet: Arc<Outlet>,
    /// What a person at a terminal sees of what is at work.
    pub(super) progress: Option<LiveProgress>,
    /// How the user takes over what comes of it.
    pub(super) ways: ResultWays,
    /// Who runs it.
    pub(super) runner: JobRunner,
}

/// Who runs a job, and so who tries it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobRunner {
    Person,
    /// A worker of the queue, which says itself what becomes of a job that failed.
    Worker,
}

impl JobTeller<'_> {
    /// Returns what shows progress, if a person watches.
    pub(super) fn progress(out: &Output, outlet: &Arc<Outlet>) -> Option<LiveProgress> {
        let is_watched = std::io::stderr().is_terminal() && !out.json() && !out.global().quiet;
        is_watched.then(|| LiveProgress::start(Arc::clone(outlet)))
    }

    /// Shows what an entry means to what is at work.
    fn go_on(&self, of: &Job, what: &JobTurn) {
        let Some(progress) = &self.progress else { return };
        match what {
            JobTurn::Charged { .. } => progress.costs(of),
            JobTurn::Warned { timer, left_ms, .. } => {
                progress.warn(*timer, Duration::from_millis(*left_ms));
            }
            JobTurn::StepEnded { .. } | JobTurn::Stopped {} | JobTurn::Ended { .. } => {
                progress.end();
            }
            JobTurn::Started { .. }
            | JobTurn::Resumed {}
            | JobTurn::StepBegan { .. }
            | JobTurn::ResetBegan { .. }
            | JobTurn::ResetEnded { .. }
            | JobTurn::Remedied { .. }
            | JobTurn::Asked { .. }
            | JobTurn::Ordered { .. }
            | JobTurn::Honored { .. } => {}
        }
    }

    fn say(&self, line: &TerminalLine) {
        if self.out.global().quiet && line.grade == Grade::News {
            return;
        }
        self.outlet.say(&line.clone().fitted(window_width()).show(Colours::on(&std::io::stderr())));
    }

    /// Returns what to say when a job is over.
    fn ended(&self, of: &Job, why: &LoopEnd, retryable: bool) -> TerminalLine {
        let id = of.id().short();
        match why {
            LoopEnd::Completed => {
                let steps = match of.terms().steps.len() {
                    1 => "its step is done".to_owned(),
                    steps => format!("all {steps} steps are done"),
                };
                let text = format!("{steps}\n{}", self.ways.in_words(&id));
                TerminalLine::new(Grade::Good, "completed", text)
            }
            LoopEnd::Failed { reason } => {
                let workspace = self.ways.workspace.display();
                let hint = match (self.runner, retryable) {
                    (JobRunner::Worker, true) => String::new(),
                    (JobRunner::Person, true) => {
                        format!("\ntry it again from its last checkpoint: salve resume {id}")
                    }
                    (JobRunner::Person | JobRunner::Worker, false) => {
                        format!(
                            "\nonce it is mended: salve resume {id}\nas it was before the step: \
                             salve control {id} hard_reset_step\nits workspace, as the step left \
                             it: {workspace}"
                        )
                    }
                };
                TerminalLine::new(Grade::Grave, "failed", format!("{}{hint}", reason.head(300)))
            }
            LoopEnd::Limit(_) | LoopEnd::Stuck => {
                TerminalLine::new(Grade::Grave, "limit", format!("salve show {id}"))
            }
        }
    }

    /// Says which job is run, and where its files are.
    pub(super) fn greet(&self, of: &Job) {
        let (id, steps) = (of.id().short(), of.terms().steps.len());
        let text = format!(
            "{id} · {} of {steps} steps done\nits files: .salve/jobs/{id}/",
            of.checkpoints().len()
        );
        if !self.out.json() {
            self.say(&TerminalLine::new(Grade::News, "job", text));
        }
    }
}

impl JobFace for JobTeller<'_> {
    fn entry(&mut self, of: &Job, entry: &Entry) {
        if self.out.json() {
            for event in task_events(of, entry) {
                let mut fact = event.payload;
                fact.insert("version".to_owned(), 1.into());
                fact.insert("seq".to_owned(), entry.seq.into());
                fact.insert("event".to_owned(), event.name.into());
                // Whoever read it has gone; the job goes on.
                let _ = self.out.fact(&fact);
            }
            return;
        }
        let Event::Job(JobEvent::Advanced { what, .. }) = &entry.event else { return };
        self.go_on(of, what);
        if let JobTurn::Ended { why, retryable } = what {
            self.say(&self.ended(of, why, *retryable));
        }
        for line in lines(of, what, &who(&entry.by)) {
            self.say(&line);
        }
    }

    fn attempt(&mut self, of: &Job, begun: &AttemptShown) {
        if let Some(progress) = &self.progress {
            progress.begin(of, begun);
        }
    }

    fn activity(&mut self, text: &Scrubbed) {
        if let Some(progress) = &self.progress {
            progress.said(text.as_str());
        }
    }

    fn note(&mut self, text: &Scrubbed) {
        self.say(&TerminalLine::new(Grade::News, "note", text.to_string()));
    }
}

/// Tells what happens to the incidents of a job's steps, as far as the job's own lines do not.
pub(super) struct StepReporter<'a> {
    pub(super) out: &'a Output,
    pub(super) outlet: Arc<Outlet>,
}

impl StepReporter<'_> {
    fn say(&self, line: &TerminalLine) {
        if self.out.json() || (self.out.global().quiet && line.grade == Grade::News) {
            return;
        }
        self.outlet.say(&line.clone().fitted(window_width()).show(Colours::on(&std::io::stderr())));
    }
}

impl Reporter for StepReporter<'_> {
    fn entry(&mut self, _: &str, _: &Incident, entry: &Entry) {
        let Event::Incident(IncidentEvent::Judged { remedy, judgement }) = &entry.event else {
            return;
        };
        // Resets are told by the attempts that follow them.
        let is_told = matches!(remedy.kind, RemedyKind::SoftReset | RemedyKind::HardReset);
        if !is_told && judgement.verdict == RemedyVerdict::Allow {
            let text = format!("{}\n{}", remedy.text, judgement.reason);
            self.say(&TerminalLine::new(Grade::News, "trying", text));
        }
    }

    fn remark(&mut self, _: &str, remark: &Remark) {
        if let Remark::Note(text) = remark {
            self.say(&TerminalLine::new(Grade::News, "note", text.to_string()));
        }
    }
}

/// Returns what to say about something that happened to a job.
fn lines(of: &Job, what: &JobTurn, by: &str) -> Vec<TerminalLine> {
    let step = |step: u32| {
        let id = usize::try_from(step).ok().and_then(|step| of.step_id(step));
        let id = id.map(ToString::to_string).unwrap_or_default();
        format!("{}/{} {id}", step.saturating_add(1), of.terms().steps.len())
    };
    let news = |verb, text: String| vec![TerminalLine::new(Grade::News, verb, text)];
    match what {
        JobTurn::StepBegan { step: number, attempt, strategy } => {
            let again = match strategy {
                HealStrategy::SoftReset => format!(" · attempt {attempt}, in the same workspace"),
                HealStrategy::HardReset => format!(" · attempt {attempt}, in a fresh workspace"),
                HealStrategy::None | HealStrategy::QueueRetry | HealStrategy::OperatorRequest => {
                    String::new()
                }
            };
            news("step", format!("{}{again}", step(*number)))
        }
        JobTurn::Warned { timer, left_ms, .. } => {
            let text = format!("the {} timer ends it in {} s", timer.as_str(), left_ms / 1_000);
            news("timer", text)
        }
        JobTurn::StepEnded { step: number, end, spent, .. } => {
            attempt_ended(of, &step(*number), end, spent.wall_ms).into_iter().collect()
        }
        JobTurn::ResetBegan { step: number, cause } => {
            let text = format!("to before {}\n{}", step(*number), cause_word(*cause));
            news("set back", text)
        }
        JobTurn::ResetEnded { end: ResetEnd::Failed { reason }, .. } => {
            let text = format!(
                "{reason}\nthe workspace and all files of the job were kept; to run the step in it as \
                 it is: salve control {} retry_step",
                of.id().short()
            );
            vec![TerminalLine::new(Grade::Grave, "replay", text)]
        }
        JobTurn::Asked { reason } => {
            let text = format!("{reason}\nthen go on with: salve resume {}", of.id().short());
            vec![TerminalLine::new(Grade::Grave, "needs you", text)]
        }
        JobTurn::Remedied { remedy } => news("remedied", remedy.to_string()),
        JobTurn::Ordered { order } => news("ordered", ordered(of, *order, by)),
        JobTurn::Stopped {} => {
            news("stopped", format!("go on with: salve resume {}", of.id().short()))
        }
        JobTurn::Started { .. }
        | JobTurn::Resumed {}
        | JobTurn::Charged { .. }
        | JobTurn::ResetEnded { end: ResetEnd::Done, .. }
        | JobTurn::Honored { .. }
        // Whoever knows how its result is taken over tells that.
        | JobTurn::Ended { .. } => Vec::new(),
    }
}

fn ordered(of: &Job, order: JobOrder, by: &str) -> String {
    let text = format!("{} by {by}", order.as_str());
    match order {
        JobOrder::Cancel => format!("{text}\nit can go on with: salve resume {}", of.id().short()),
        JobOrder::Pause
        | JobOrder::Resume
        | JobOrder::RetryStep
        | JobOrder::HardResetStep
        | JobOrder::ResumeFromStep { .. } => text,
    }
}

/// Returns what is done about a failed attempt, and why.
fn next_in_words(class: FailureClass, strategy: HealStrategy) -> &'static str {
    match (strategy, class) {
        (HealStrategy::SoftReset, _) => "it may pass: the step is run again as things are",
        (
            HealStrategy::HardReset,
            FailureClass::DeterministicContract | FailureClass::DeterministicRepo,
        ) => "the attempt before may have left it: the step is run again in a fresh workspace",
        (HealStrategy::HardReset, _) => "no progress: the step is run again in a fresh workspace",
        (HealStrategy::QueueRetry, _) => "no attempt is left",
        (HealStrategy::OperatorRequest, _) => "a rule or a permission forbids it",
        (HealStrategy::None, FailureClass::DeterministicRepo) => {
            "the files are at fault: another attempt alone would not help"
        }
        (
            HealStrategy::None,
            FailureClass::TransientRuntime
            | FailureClass::StuckNoProgress
            | FailureClass::DeterministicContract
            | FailureClass::DeterministicPolicy,
        ) => "another attempt alone would not help",
    }
}

fn attempt_ended(of: &Job, step: &str, end: &AttemptEnd, wall_ms: u64) -> Option<TerminalLine> {
    let id = of.id().short();
    let seconds = format!("{:.1} s", wall_ms as f64 / 1e3);
    Some(match end {
        AttemptEnd::Done { .. } => {
            TerminalLine::new(Grade::Good, "done", format!("{step} · {seconds}"))
        }
        AttemptEnd::Failed { failure, strategy } => {
            let next = next_in_words(failure.class, *strategy);
            let text = format!("{step} · {}\n{next}", failure.summary.head(300));
            let text = match strategy {
                HealStrategy::OperatorRequest => format!(
                    "{text}\nyou decide: salve control {id} retry_step, then salve resume {id}"
                ),
                HealStrategy::None
                | HealStrategy::SoftReset
                | HealStrategy::HardReset
                | HealStrategy::QueueRetry => text,
            };
            TerminalLine::new(Grade::Grave, "failed", text)
        }
        AttemptEnd::Away { until, reason } => {
            TerminalLine::new(Grade::Grave, "parked", format!("until {until} · {reason}"))
        }
        AttemptEnd::Unable { reason } => {
            let text = format!("{reason}\nthen go on with: salve resume {id}");
            TerminalLine::new(Grade::Grave, "needs you", text)
        }
        AttemptEnd::Stopped => return None,
    })
}
