//! What is said of a subject beside its incidents.

use std::time::Duration;

use salve_core::repair;

use super::lines::{self, Grade, TerminalLine};
use crate::heal::Remark;

/// Returns the line for a remark that says all by itself; nothing of one that is not shown, or
/// that the reporter has to look into.
pub(super) fn plain_line(subject: &str, remark: &Remark) -> Option<TerminalLine> {
    let news = |verb, text: String| Some(TerminalLine::new(Grade::News, verb, text));
    match remark {
        Remark::Started { command } => news("watching", format!("`{command}`")),
        Remark::Well { url: Some(url), after, status } => Some(lines::up(url, *after, *status)),
        Remark::TriedAgain { command, why } => news("again", format!("`{command}`: {why}")),
        Remark::StillFails { line, missing } => Some(lines::still(line, missing.as_deref())),
        Remark::Ended { exit } => {
            Some(TerminalLine::new(Grade::Good, "ended", repair::exit_text(exit)))
        }
        Remark::Stopped => news("stopped", "ended on request".to_owned()),
        Remark::Moved { text, .. } => news("port", text.to_string()),
        Remark::Running { command } => news("checking", format!("`{command}`")),
        Remark::Green { took } => Some(green_line(subject, *took)),
        Remark::Watches { once } => Some(watching_line(once.as_deref())),
        Remark::Note(text) => news("note", text.to_string()),
        // Quiet when healthy: there is nothing to tell about where it answers.
        Remark::Well { url: None, .. }
        | Remark::Verified { .. }
        | Remark::Judged { .. }
        | Remark::Asks { .. }
        | Remark::LeftToPerson { .. } => None,
    }
}

/// Returns what is said of a check that is green.
fn green_line(check: &str, took: Duration) -> TerminalLine {
    TerminalLine::new(Grade::Good, "green", format!("`{check}` in {:.1} s", took.as_secs_f64()))
}

/// Returns what is said of a check that watches, and which command would end.
fn watching_line(once: Option<&str>) -> TerminalLine {
    let instead = match once {
        Some(once) => format!("`{once}` does not"),
        None => "name a command that ends by itself".to_owned(),
    };
    let text = format!("this watches for edits, so it was ended; {instead}");
    TerminalLine::new(Grade::Grave, "watches", text)
}
