//! One entry as one line for people.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use jiff::tz::TimeZone;
use salve_core::event::{Actor, Encoded, Entry};
use salve_core::hidden_char::revealed;
use salve_core::repair::event_text;
use serde_json::Value;

/// The longest text of one field; `--json` shows all of it.
const LONGEST: usize = 160;

/// Returns the entry as one line: number, local time, incident, kind, details, who.
pub(super) fn line(entry: &Entry, zone: &TimeZone) -> String {
    let Encoded { kind, data, .. } = entry.event.encode();
    let dim = Style::new().dimmed();
    let colour = colour(&kind);
    let time = entry.at.to_zoned(zone.clone()).strftime("%m-%d %H:%M:%S").to_string();
    let incident = entry.incident.map_or_else(|| "-".to_owned(), |id| id.short());
    let kind = visible(&kind);
    let seq = entry.seq;
    let mut line = format!(
        "{dim}{seq:>5}{dim:#}  {time}  {dim}{incident:<8}{dim:#}  {colour}{kind:<15}{colour:#}"
    );
    match event_text(&entry.event) {
        Some(text) => {
            line.push(' ');
            line.push_str(&cut(&visible(&text)));
        }
        // What a newer Salve wrote is shown as it is.
        None => details("", &data, &mut line),
    }
    let _ = write!(line, "  {dim}by {}{dim:#}", who(&entry.by));
    line
}

fn who(by: &Actor) -> String {
    match by {
        Actor::Salve(process) => format!("salve {}", process.pid),
        Actor::Person { name } => visible(name.as_str()),
        Actor::Unproven { name } => format!("{} (no seal that holds)", visible(name.as_str())),
        Actor::Forged { name } => format!("FORGED as {}", visible(name.as_str())),
        Actor::Agent { name } => format!("agent {}", visible(name.as_str())),
    }
}

/// Kinds that tell of trouble are red, those that want a person yellow, good news green.
fn colour(kind: &str) -> Style {
    let colour = match kind {
        "opened" | "sickened" | "exhausted" | "config_rejected" | "store_salvaged" => {
            AnsiColor::Red
        }
        "judged" | "nothing_left" | "config_pending" | "rejected" => AnsiColor::Yellow,
        "approved" | "resolved" | "ended" | "learned" | "config_accepted" => AnsiColor::Green,
        _ => AnsiColor::Cyan,
    };
    Style::new().fg_color(Some(colour.into()))
}

/// Adds ` name=value` for each field, nested ones with a dotted name.
fn details(name: &str, value: &Value, line: &mut String) {
    let text = match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let dot = if name.is_empty() { "" } else { "." };
                details(&format!("{name}{dot}{field}"), value, line);
            }
            return;
        }
        Value::Null => return,
        Value::String(text) => visible(text),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<_> = items.iter().filter_map(Value::as_str).map(visible).collect();
            items.join(", ")
        }
        other => visible(&other.to_string()),
    };
    let text = cut(&text);
    line.push(' ');
    match name {
        // The one thing that such events say needs no name.
        "text" | "reason" | "" => {}
        _ => {
            let _ = write!(line, " {}=", visible(name));
        }
    }
    line.push_str(&text);
}

/// Returns a text of bearable length.
fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the text with nothing in it that a terminal would obey.
pub(in crate::cli) fn visible(text: &str) -> String {
    revealed(text).replace('\n', "⏎").replace('\t', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::parse_line;

    #[track_caller]
    fn check(event: &str, data: &str, want: &str) {
        let json = format!(
            r#"{{"seq":7,"at":"2026-01-02T03:04:05Z","by":{{"agent":{{"name":"x"}}}},"incident":"0192f0c1-7d1e-7cc3-8a4e-5f6a7b8c9d0e","event":"{event}","version":1,"data":{data}}}"#
        );
        let line = line(&parse_line(&json).unwrap(), &TimeZone::UTC);
        let plain = anstream::adapter::strip_str(&line).to_string();
        assert_eq!(plain, format!("    7  01-02 03:04:05  0192f0c1  {want}  by agent x"));
    }

    #[test]
    fn every_kind_is_shown_also_an_unknown_one() {
        check("noted", r#"{"text":"hello"}"#, "noted           hello");
        check("released", "{}", "released        let go of it");
        check(
            "server_stopped",
            r#"{"server":"web","exit":{"code":1}}"#,
            "server_stopped  web ended: exit 1",
        );
        check(
            "dreamed",
            r#"{"a":{"b":1},"c":["x","y"],"d":null}"#,
            "dreamed          a.b=1  c=x, y",
        );
        check("dreamed", "[1]", "dreamed         [1]");
    }

    /// **Invariant:** Nothing in an event commands the terminal.
    #[test]
    fn nothing_in_an_event_reaches_the_terminal_as_a_command() {
        check(
            "noted",
            r#"{"text":"a\u001b[2Jb\nc\u202ed"}"#,
            "noted           a\\u{1b}[2Jb⏎c\\u{202e}d",
        );
    }
}
