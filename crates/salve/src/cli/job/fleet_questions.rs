//! The questions with which jobs of a fleet wait, as the command line shows them.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;

use super::super::events::visible;
use super::super::{CliError, Output};
use super::fleet::FleetArgs;
use crate::store::Store;
use crate::subjects::job::{FleetQuestion, questions_in_fleet};

/// One question, with everything that is needed to answer it.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct FleetQuestionLine {
    version: u32,
    /// The incident that asks.
    id: String,
    /// The run that waits.
    run: String,
    /// The step that failed.
    subject: String,
    /// The worker that asks.
    worker: String,
    asked_at: Option<Timestamp>,
    /// Until when it can be answered.
    expires_at: Option<Timestamp>,
    why: String,
    /// The exact command, if it is about one.
    command: Option<String>,
    /// Where it would run, below the job's project.
    directory: Option<String>,
    timeout_seconds: Option<u64>,
    /// The gate's rule that asks, and why.
    rule: Option<String>,
    reason: Option<String>,
    /// What was seen.
    evidence: String,
    yes: Option<String>,
    no: String,
    /// The hash of exactly what is asked about.
    digest: String,
}

impl FleetQuestionLine {
    /// Returns a question as it is shown.
    pub(in crate::cli) fn of(question: &FleetQuestion) -> Self {
        let (detail, open) = (question.detail(), &question.open);
        let remedy = detail.as_ref().and_then(|detail| detail.remedy.as_ref());
        let (directory, timeout_seconds) = question.command_terms().unzip();
        let command = remedy.filter(|_| directory.is_some()).map(|one| one.text.to_string());
        let incident = question.view.incident();
        Self {
            version: 1,
            id: question.binding.incident.short(),
            run: question.binding.job.short(),
            subject: incident.subject().name.to_string(),
            worker: question.worker.to_string(),
            asked_at: detail.as_ref().map(|detail| detail.asked_at),
            expires_at: Timestamp::from_millisecond(question.binding.expires_ms).ok(),
            why: open.why.clone(),
            command,
            directory,
            timeout_seconds,
            rule: remedy.map(|one| one.rule.to_string()),
            reason: remedy.map(|one| one.reason.to_string()),
            evidence: incident.symptom().key_line.head(300).to_string(),
            yes: open.yes.clone(),
            no: open.no.clone(),
            digest: open.digest.to_string(),
        }
    }

    /// Returns all questions of a fleet, if one is meant by the settings; one that cannot be reached
    /// is said so, and asks nothing that could be shown.
    pub(in crate::cli) fn of_fleet(args: &FleetArgs, out: &Output) -> Vec<Self> {
        let read = || -> Result<Vec<Self>, CliError> {
            let Some(store) = args.open(out)? else { return Ok(Vec::new()) };
            Self::all(&store)
        };
        read().unwrap_or_else(|error| {
            let why = std::error::Error::source(&error).map(|why| format!(": {why}"));
            out.remark(format_args!("the fleet is not shown: {error}{}", why.unwrap_or_default()));
            Vec::new()
        })
    }

    /// Returns all questions of a fleet.
    pub(in crate::cli) fn all(store: &Store) -> Result<Vec<Self>, CliError> {
        Ok(questions_in_fleet(store)?.iter().map(Self::of).collect())
    }

    /// Returns it in one line, with how it is answered.
    pub(in crate::cli) fn in_words(&self) -> String {
        let Self { id, run, worker, why, .. } = self;
        let (worker, why) = (visible(worker), visible(why));
        format!("{id}  run {run} on {worker}: {why}  salve approve {id}, or salve reject {id}")
    }

    /// Returns all of it, one line each.
    pub(in crate::cli) fn in_full(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            // Writing to a text does not fail.
            let _ = writeln!(text, "  {name:<10} {}", visible(value));
        };
        line("asks", &self.why);
        if let (Some(command), Some(dir), Some(seconds)) =
            (&self.command, &self.directory, self.timeout_seconds)
        {
            line("command", command);
            let dir = if dir == "." { "the project's directory" } else { dir };
            line("runs in", &format!("{dir}, at most {seconds} s"));
        }
        if let (Some(rule), Some(reason)) = (&self.rule, &self.reason) {
            line("rule", &format!("{rule}: {reason}"));
        }
        line("seen", &self.evidence);
        line("asked by", &self.worker);
        if let Some(until) = self.expires_at {
            line("until", &until.strftime("%Y-%m-%d %H:%M UTC").to_string());
        }
        if let Some(yes) = &self.yes {
            line("yes", &format!("{yes}: salve approve {}", self.id));
        }
        line("no", &format!("{}: salve reject {}", self.no, self.id));
        text
    }
}
