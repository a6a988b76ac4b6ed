//! What Salve says while it heals: the spec's words for each phase, with what a person needs beside them.

use std::io::IsTerminal;
use std::time::Duration;

use super::fit::fit;
use super::plea::{AnswerWay, given_up, plea};
use anstyle::{AnsiColor, Style};
use jiff::SignedDuration;
use salve_core::event::{
    Effect, EffectReport, Event, IncidentEvent, PersonOrder, ProcessExit, RemedyKind,
    RemedyVerdict, SubjectKind, Undo,
};
use salve_core::hidden_char::revealed;
use salve_core::id::IncidentId;
use salve_core::incident::RepairPhase;
use salve_core::repair::{self, Notice, agent_title, evidence_path};
use salve_core::scrub::Scrubbed;
use salve_core::view::{IncidentView, IncidentViewLine};

/// The column at which the text of a line begins.
const TEXT_COLUMN: usize = 19;
/// Who waits for less than this has nothing to tell about it.
const SHORTEST_WAIT_TOLD: u64 = 100;

/// The verb for a failure that gets no repair of its own.
pub(in crate::cli) const SKIPPED: &str = "skipped";

/// Whether what is written has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Colours {
    Shown,
    Plain,
}

impl Colours {
    /// Returns whether a stream shows colours, and the user wants them.
    pub(in crate::cli) fn on(stream: &impl IsTerminal) -> Self {
        let are_wanted = std::env::var_os("NO_COLOR").is_none();
        if stream.is_terminal() && are_wanted { Self::Shown } else { Self::Plain }
    }
}

/// How grave a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Grade {
    /// Something goes on.
    News,
    /// All is well.
    Good,
    /// A person is needed.
    Grave,
}

/// One line of Salve's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct TerminalLine {
    pub(in crate::cli) grade: Grade,
    pub(in crate::cli) verb: &'static str,
    pub(in crate::cli) text: String,
}

impl TerminalLine {
    pub(in crate::cli) fn new(grade: Grade, verb: &'static str, text: impl Into<String>) -> Self {
        // Most of it is what a failing program wrote, or a repository's settings.
        let text = revealed(&text.into()).into_owned();
        Self { grade, verb, text }
    }

    /// Returns the line with its text broken to fit a window, if there is one.
    #[must_use]
    pub(in crate::cli) fn fitted(self, window: Option<usize>) -> Self {
        let text = match window {
            Some(width) => fit(&self.text, width.saturating_sub(TEXT_COLUMN)),
            None => self.text,
        };
        Self { text, ..self }
    }

    /// Returns the line as it is shown.
    pub(in crate::cli) fn show(&self, colours: Colours) -> String {
        let (sign, colour) = match self.grade {
            Grade::News => ("▲", AnsiColor::Yellow),
            Grade::Good => ("●", AnsiColor::Green),
            Grade::Grave => ("■", AnsiColor::Red),
        };
        let style = if colours == Colours::Shown {
            Style::new().bold().fg_color(Some(colour.into()))
        } else {
            Style::new()
        };
        let text = self.text.replace('\n', &format!("\n{:TEXT_COLUMN$}", ""));
        let line = format!("{style}{sign} salve{style:#}  {:<9} {text}", self.verb);
        line.trim_end().to_owned()
    }
}

/// Returns what to say about the entry that a view heard last; `checked` is what verification saw.
pub(in crate::cli) fn lines(
    view: &IncidentView,
    checked: Option<&str>,
    answers: AnswerWay,
) -> Vec<TerminalLine> {
    let Some(last) = view.lines().last() else { return Vec::new() };
    let mut lines: Vec<TerminalLine> = Vec::new();
    lines.extend(diagnosed(view, &last.entry.event));
    lines.extend(of_event(view, &last.entry.event));
    lines.extend(last.notices.iter().filter_map(|notice| of_phase(view, notice, checked, answers)));
    lines
}

/// Returns what was found out, once something is done about it; what a person has to do about it
/// is said where they are asked.
fn diagnosed(view: &IncidentView, event: &Event) -> Option<TerminalLine> {
    let Event::Incident(IncidentEvent::Judged { judgement, .. }) = event else { return None };
    let is_told = |line: &&IncidentViewLine| {
        matches!(&line.entry.event, Event::Incident(IncidentEvent::Judged { .. }))
    };
    let earlier: Vec<&IncidentViewLine> = view.lines().iter().rev().skip(1).collect();
    let new = earlier.iter().copied().take_while(|line| !is_told(line));
    let found = new
        .into_iter()
        .map(|line| &line.entry.event)
        .find(|event| matches!(event, Event::Incident(IncidentEvent::Diagnosed { .. })))?;
    // The same words twice tell nothing new.
    let is_again =
        earlier.iter().skip_while(|line| !is_told(line)).any(|line| line.entry.event == *found);
    let Event::Incident(IncidentEvent::Diagnosed { rule, findings, .. }) = found else {
        return None;
    };
    let found = findings.iter().map(|finding| format!(" · {}", finding.what));
    let text = format!("{rule}{}", found.collect::<String>());
    let is_asked = judgement.verdict == RemedyVerdict::Ask;
    (!is_again && !is_asked).then(|| TerminalLine::new(Grade::News, "diagnosed", text))
}

/// Returns what to say about what is found out and done between the phases.
fn of_event(view: &IncidentView, event: &Event) -> Option<TerminalLine> {
    let news = |verb, text| Some(TerminalLine::new(Grade::News, verb, text));
    match event {
        Event::Incident(IncidentEvent::AgentLaunched { agent, process, .. }) => {
            let title = agent_title(agent);
            news("agent", format!("started {title} (pid {})\nsalve logs --agent -f", process.pid))
        }
        Event::Incident(IncidentEvent::Judged { remedy, judgement })
            if judgement.verdict == RemedyVerdict::Deny =>
        {
            news("denied", format!("`{}`: {}", remedy.text, judgement.reason))
        }
        Event::Incident(IncidentEvent::Requested { what: Effect::Apply { .. }, .. }) => {
            repairing(view)
        }
        Event::Incident(IncidentEvent::Requested { what: Effect::VerifyInLayer, .. }) => {
            news("checking", "the change in its private layer, then without it".into())
        }
        Event::Incident(IncidentEvent::Requested { what: Effect::TakeOver, .. }) => {
            let measured = view.incident().trial().and_then(|trial| trial.measured);
            let is_any = measured.is_none_or(|measured| measured.files != Some(0));
            is_any.then(|| TerminalLine::new(Grade::News, "bringing", "the change into your files"))
        }
        Event::Incident(IncidentEvent::Finished {
            report: EffectReport::Failed { reason, .. },
            ..
        }) => news("failed", reason.to_string()),
        Event::Incident(IncidentEvent::Ordered { order }) => ordered(view, *order),
        _ => None,
    }
}

/// Returns where a server answers; a page that is not there is said to be none, and so is an answer
/// of a server that speaks something else.
pub(in crate::cli) fn up(url: &Scrubbed, after: Duration, status: Option<u16>) -> TerminalLine {
    let answers = match status {
        Some(status @ 400..) => format!("{url} answers {status}"),
        Some(_) => format!("{url} answers"),
        None => {
            let at = url.as_str().trim_start_matches("http://").trim_end_matches('/');
            format!("{at} takes connections")
        }
    };
    let text = format!("{answers}, {:.1} s after the start", after.as_secs_f64());
    TerminalLine::new(Grade::Good, "up", text)
}

/// Returns that a server which was started again fails as before, and what it waits for.
pub(in crate::cli) fn still(line: &Scrubbed, missing: Option<&str>) -> TerminalLine {
    let missing = missing.map(|what| format!("\nwaits for {what}")).unwrap_or_default();
    TerminalLine::new(Grade::Grave, "still", format!("fails as before: {line}{missing}"))
}

/// Returns what an incident asks, if it does.
pub(in crate::cli) fn asks(view: &IncidentView, answers: AnswerWay) -> Option<TerminalLine> {
    let why = repair::ask(view)?.why;
    Some(TerminalLine::new(Grade::Grave, "needs you", plea(view, &why, answers)))
}

/// Returns what to say about an order that holds healing or lets it go on.
fn ordered(view: &IncidentView, order: PersonOrder) -> Option<TerminalLine> {
    let by = view.lines().last().map(|line| repair::who(&line.entry.by))?;
    let id = view.id().short();
    let go_on = "write RESUME to .salve/CONTROL.md";
    match order {
        PersonOrder::Pause => {
            let text = format!("by {by}\n{go_on}, or salve resume heal-{id}");
            Some(TerminalLine::new(Grade::Grave, "paused", text))
        }
        PersonOrder::Resume => Some(TerminalLine::new(Grade::News, "resumed", format!("by {by}"))),
        PersonOrder::Skip => Some(TerminalLine::new(Grade::News, "skipped", format!("by {by}"))),
        PersonOrder::Retry | PersonOrder::Abort | PersonOrder::Escalate => None,
    }
}

/// Returns what is being done, where it is more than running the server again.
fn repairing(view: &IncidentView) -> Option<TerminalLine> {
    let trial = view.incident().trial()?;
    if matches!(trial.remedy.kind, RemedyKind::Retry | RemedyKind::Agent) {
        return None;
    }
    let judged = view.lines().iter().rev().find_map(|line| match &line.entry.event {
        Event::Incident(IncidentEvent::Judged { judgement, .. }) => Some(judgement),
        _ => None,
    });
    let why = judged.map(|judged| format!(" ({})", judged.rule)).unwrap_or_default();
    Some(TerminalLine::new(Grade::News, "repairing", format!("{}{why}", trial.remedy.text)))
}

/// Returns what to say about a phase; some are only for programs.
fn of_phase(
    view: &IncidentView,
    notice: &Notice,
    checked: Option<&str>,
    answers: AnswerWay,
) -> Option<TerminalLine> {
    use RepairPhase as P;
    let id = format!("heal-{}", view.id().short());
    let message = &notice.message;
    let key = view.incident().symptom().key_line.as_str();
    let news = |verb, text: String| Some(TerminalLine::new(Grade::News, verb, text));
    match notice.phase {
        P::CrashDetected | P::LegacyCrashDetected => {
            let key = if message.contains(key) { String::new() } else { format!(" · {key}") };
            news(fallen(view), format!("{message}{key}\n{id}"))
        }
        P::RepairStarted if !is_server(view) => None,
        P::RepairStarted => {
            news("repair", format!("{message}, {}", evidence_path(view.subject().kind, view.id())))
        }
        P::Waiting if view.wait_ms() < SHORTEST_WAIT_TOLD => None,
        P::Waiting => news("waiting", message.clone()),
        // Nobody else is waited for: an agent is started.
        P::AwaitingAgent if !is_server(view) => None,
        P::AwaitingAgent
        | P::AgentStarted
        | P::AgentReadingLog
        | P::AgentApplyingFix
        | P::AgentWroteFiles => news("agent", message.clone()),
        P::ReadyToRestart if !is_server(view) => None,
        P::ReadyToRestart => news("settling", message.clone()),
        P::Restarting if is_server(view) => news("restart", message.clone()),
        P::Restarting => news("checking", message.clone()),
        P::Failed if is_server(view) => news("failed", message.clone()),
        P::Failed => news("red", message.clone()),
        P::Recovered => Some(healed(view, message, checked)),
        P::Exhausted => {
            let next = if notice_follows(view) {
                String::new()
            } else {
                format!("\n{}", given_up(view, answers))
            };
            Some(TerminalLine::new(Grade::Grave, "exhausted", format!("{message}{next}")))
        }
        P::Cooldown => Some(TerminalLine::new(Grade::Grave, "cooldown", message.clone())),
        P::FailedRequiresHuman => {
            Some(TerminalLine::new(Grade::Grave, "needs you", plea(view, message, answers)))
        }
        P::Aborted if view.ended_by_itself() => {
            news("ended", format!("{message}\nsalve show {id}"))
        }
        P::Aborted => {
            let text = format!("{message} {key}\nsalve show {id}");
            Some(TerminalLine::new(Grade::Grave, SKIPPED, text))
        }
        // Only for programs.
        P::LockAcquired | P::HealthCheck | P::VerifyingFix => None,
    }
}

/// Returns what is said of a failure that belongs to a repair which is under way.
pub(in crate::cli) fn skipped_beside(busy: IncidentId) -> TerminalLine {
    let text = format!("it is being repaired already\nheal-{}", busy.short());
    TerminalLine::new(Grade::News, SKIPPED, text)
}

/// Returns what to say of a repair that was proven to have helped.
fn healed(view: &IncidentView, message: &str, checked: Option<&str>) -> TerminalLine {
    let id = format!("heal-{}", view.id().short());
    if let Some(why) = came_back(view) {
        let checked = checked.map(|checked| format!(": {checked}")).unwrap_or_default();
        return TerminalLine::new(
            Grade::Good,
            "well",
            format!("again, since {why}{checked}\n{id}"),
        );
    }
    let took = seconds(view.incident().clock().duration_since(view.opened_at()));
    let checked = checked.map(|checked| format!(" · {checked}")).unwrap_or_default();
    let undo = view.incident().trial().map(|trial| trial.remedy.undo);
    let id = match undo {
        Some(Undo::Snapshot) => format!("undo: salve undo {id}"),
        Some(Undo::Nothing) | None => id,
    };
    if checked.starts_with(" · flaky") {
        // What passes and fails by turns is not healed, and why was said before.
        return TerminalLine::new(Grade::News, "flaky", format!("{message} this time\n{id}"));
    }
    TerminalLine::new(Grade::Good, "healed", format!("{message} in {took}{checked}\n{id}"))
}

/// Returns why a server is well again that Salve had given up.
fn came_back(view: &IncidentView) -> Option<&Scrubbed> {
    view.lines().iter().rev().find_map(|line| match &line.entry.event {
        Event::Incident(IncidentEvent::CameBack { why }) => Some(why),
        _ => None,
    })
}

/// Returns whether it is a server that is spoken of.
pub(super) fn is_server(view: &IncidentView) -> bool {
    view.subject().kind == SubjectKind::Server
}

/// Returns the verb for the beginning of an incident.
fn fallen(view: &IncidentView) -> &'static str {
    match view.subject().kind {
        SubjectKind::Server if view.incident().symptom().exit.is_none() => "ill",
        SubjectKind::Server => "crashed",
        SubjectKind::Check if view.incident().symptom().exit == Some(ProcessExit::Code(0)) => {
            "reported"
        }
        SubjectKind::Check | SubjectKind::Iteration => "red",
        SubjectKind::Tool | SubjectKind::Step => "failed",
    }
}

/// Returns whether the last entry brought about more than one phase.
fn notice_follows(view: &IncidentView) -> bool {
    view.lines().last().is_some_and(|line| line.notices.len() > 1)
}

/// Returns a time in seconds.
fn seconds(time: SignedDuration) -> String {
    format!("{:.1} s", time.as_secs_f64().max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_the_window() {
        let text = "All 3 repair attempts failed. ReferenceError: total is not defined in app.js";
        for width in [80, 60] {
            let line = TerminalLine::new(Grade::Grave, "exhausted", text);
            let shown = line.fitted(Some(width)).show(Colours::Plain);
            assert!(shown.lines().count() > 1, "{shown}");
            for line in shown.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            assert!(shown.lines().skip(1).all(|line| line.starts_with("                   ")));
        }
    }

    #[test]
    fn nothing_in_a_line_is_obeyed_by_a_terminal_or_turns_its_direction() {
        let line = TerminalLine::new(Grade::News, "checking", "`a\u{1b}[2J\u{202e}b`");
        assert_eq!(line.show(Colours::Plain), "▲ salve  checking  `a\\u{1b}[2J\\u{202e}b`");
    }

    #[test]
    fn a_line_has_its_columns_and_its_colour() {
        let line = TerminalLine::new(Grade::Grave, "needs you", "first\nsecond");
        assert_eq!(
            line.show(Colours::Plain),
            "■ salve  needs you first\n                   second"
        );
        assert!(line.show(Colours::Shown).starts_with("\u{1b}[1m\u{1b}[31m■ salve\u{1b}[0m"));
        assert_eq!(
            TerminalLine::new(Grade::News, "stopped", "").show(Colours::Plain),
            "▲ salve  stopped"
        );
    }
}
