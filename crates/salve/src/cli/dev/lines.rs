//! What `salve dev` says: one line for each turn of an incident.

use anstyle::{AnsiColor, Style};
use salve_core::event::{
    Effect, Entry, Event, Exit, Mark, Mode, Proof, RemedyKind, Report, Verdict,
};
use salve_core::incident::{Incident, Phase, phase_names};

use crate::subjects::server::{crash_log_name, exit_words};

/// How far the lines below the first one of a notice are set in.
const INDENT: usize = 19;

/// How grave a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grade {
    /// Something goes on.
    News,
    /// All is well.
    Good,
    /// A person is needed.
    Grave,
}

/// One line of Salve's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) grade: Grade,
    pub(super) verb: &'static str,
    pub(super) text: String,
}

impl Line {
    pub(super) fn new(grade: Grade, verb: &'static str, text: impl Into<String>) -> Self {
        Self { grade, verb, text: text.into() }
    }

    /// Returns the line as it is shown, with colours if they are wanted.
    pub(super) fn show(&self, coloured: bool) -> String {
        let (sign, colour) = match self.grade {
            Grade::News => ("▲", AnsiColor::Yellow),
            Grade::Good => ("●", AnsiColor::Green),
            Grade::Grave => ("■", AnsiColor::Red),
        };
        let style = match coloured {
            true => Style::new().bold().fg_color(Some(colour.into())),
            false => Style::new(),
        };
        format!("{style}{sign} salve{style:#}  {:<9} {}", self.verb, self.text)
    }
}

/// Returns what to say about an entry that an incident took in.
pub(super) fn lines(incident: &Incident, entry: &Entry) -> Vec<Line> {
    let id = format!("heal-{}", incident.id().short());
    let symptom = incident.symptom();
    let mut lines = Vec::new();
    let mut news = |verb, text: String| lines.push(Line::new(Grade::News, verb, text));
    match &entry.event {
        Event::Opened { symptom, .. } => {
            let how = exit_words(symptom.exit.as_ref());
            let key = symptom.key_line.as_str();
            let dash = if key.is_empty() { "" } else { " · " };
            news("crashed", format!("Dev server crashed ({how}){dash}{key}  {id}"));
        }
        Event::Claimed { .. } if incident.policy().mode == Mode::Agent => {
            let log = crash_log_name(incident.id());
            news("repair", format!("Repair session started — waiting for Claude Code ({log})"));
        }
        Event::AgentLaunched { agent, process, .. } => {
            news("agent", format!("started {agent} (pid {})", process.pid));
        }
        Event::Marked { mark, .. } => match mark {
            Mark::Started => news("agent", "Claude Code engaged — reading crash details".into()),
            Mark::ReadingLog => news("agent", "reads the crash log".into()),
            Mark::ApplyingFix => news("agent", "edits files".into()),
            Mark::WroteFiles => {
                news("agent", "File writes complete — waiting for watchers to settle...".into())
            }
        },
        Event::Finished { report: Report::NoAgent, .. } => {
            news("agent", "No agent activity; restarting anyway".into());
        }
        Event::Requested { what: Effect::Verify, .. } => {
            let most = incident.policy().limits.attempts.unwrap_or_default();
            news("restart", format!("Restart attempt {}/{most}...", incident.attempt()));
        }
        Event::Finished { report: Report::Verified { proof: Proof::Failed, symptom }, .. } => {
            let failed = symptom.as_deref();
            let how = exit_words(failed.and_then(|symptom| symptom.exit.as_ref()));
            let key = failed.map(|symptom| symptom.key_line.as_str()).unwrap_or_default();
            news("failed", format!("Restart failed: {how} {key}"));
        }
        Event::Sickened { symptom } => {
            let how = exit_words(symptom.exit.as_ref());
            news("relapsed", format!("crashed again ({how}) {}  {id}", symptom.key_line));
        }
        other => lines.extend(of_remedy(incident, other, &id)),
    }
    let named = phase_names(incident, &entry.event);
    lines.extend(named.iter().filter_map(|name| of_phase(incident, name, &id)));
    if let (Event::Exhausted { .. }, Mode::Legacy) = (&entry.event, incident.policy().mode) {
        let how = exit_words(symptom.exit.as_ref());
        let text = format!("{how} · {}\n{}", symptom.key_line, next(incident, &id));
        lines.push(Line::new(Grade::Grave, "needs you", text));
    }
    lines
}

/// Returns what to say about the cause of a failure and about what is to be done.
fn of_remedy(incident: &Incident, event: &Event, id: &str) -> Option<Line> {
    let news = |verb, text| Some(Line::new(Grade::News, verb, text));
    match event {
        Event::Diagnosed { rule, findings, .. } => {
            let found = findings.iter().map(|finding| format!(" · {}", finding.what));
            news("diagnosed", format!("{rule}{}", found.collect::<String>()))
        }
        Event::Judged { remedy, judgement } if judgement.verdict == Verdict::Ask => {
            let next = below(incident, &format!("salve approve {}", incident.id().short()));
            let text = format!("`{}` may not run without your word  {id}\n{next}", remedy.text);
            Some(Line::new(Grade::Grave, "needs you", text))
        }
        Event::Judged { remedy, judgement } if remedy.kind == RemedyKind::Command => {
            news("chosen", format!("{} ({})", remedy.text, judgement.rule))
        }
        Event::Finished { report: Report::Failed { reason }, .. } => {
            news("failed", reason.to_string())
        }
        _ => None,
    }
}

/// Returns what to say about a phase, where the entry itself does not say it.
fn of_phase(incident: &Incident, name: &str, id: &str) -> Option<Line> {
    let most = incident.policy().limits.attempts.unwrap_or_default();
    Some(match name {
        "recovered" => {
            let how = match incident.trial().map(|trial| trial.remedy.kind) {
                Some(RemedyKind::Agent) => "Dev server recovered after agent repair!",
                Some(_) | None => "Dev server recovered",
            };
            Line::new(Grade::Good, "healed", format!("{how}  {id}"))
        }
        "exhausted" => {
            let text = format!("All {most} repair attempts failed.  {id}");
            Line::new(Grade::Grave, "exhausted", text)
        }
        "cooldown" => {
            let minutes = incident.policy().cooldown_ms.div_ceil(60_000);
            let text = format!("Entering {minutes}-minute cooldown period...");
            Line::new(Grade::Grave, "cooldown", text)
        }
        "failed_requires_human" => Line::new(Grade::Grave, "needs you", plea(incident, id)),
        "aborted" => {
            let text = format!("not repaired: a repair or its cooldown goes on  {id}");
            Line::new(Grade::Grave, "skipped", text)
        }
        _ => return None,
    })
}

/// Returns what a person is told when Salve cannot go on.
fn plea(incident: &Incident, id: &str) -> String {
    let symptom = incident.symptom();
    let what = match incident.phase() {
        Phase::Asking { question: salve_core::event::Question::Exhausted(_), .. } => {
            "All repair attempts exhausted. Manual intervention required."
        }
        Phase::Choosing
        | Phase::Due { .. }
        | Phase::Doing { .. }
        | Phase::Asking { .. }
        | Phase::CoolingDown { .. }
        | Phase::Ending { .. }
        | Phase::Closed(_) => "Manual intervention required.",
    };
    let how = match &symptom.exit {
        Some(exit @ (Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut | Exit::Hung)) => {
            exit_words(Some(exit))
        }
        None => exit_words(None),
    };
    format!("{what} {how} · {}  {id}\n{}", symptom.key_line, next(incident, id))
}

/// Returns what was found out and what can be done next, as something to paste.
fn next(incident: &Incident, _id: &str) -> String {
    let log = crash_log_name(incident.id());
    let short = incident.id().short();
    below(incident, &format!("see {log} and: salve events --incident {short}"))
}

/// Returns what was found out and a last word, each on a line of its own below the first.
fn below(incident: &Incident, last: &str) -> String {
    let found = incident.findings().iter();
    let found = found.flat_map(|finding| [finding.what.as_str(), finding.next.as_str()]);
    let indent = " ".repeat(INDENT);
    let lines: Vec<String> = found.chain([last]).map(|line| format!("{indent}{line}")).collect();
    lines.join("\n")
}
