//! The end of what a server wrote, line by line, with the lines that tell of failures marked.

use std::collections::BTreeSet;
use std::fs;

use schemars::JsonSchema;
use serde::Serialize;

use super::files::tail_of;
use super::{ProjectReader, TextTail, ViewError};
use crate::web::ansi;

/// Which lines of which log are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::web) struct LogQuery {
    /// The server; the first that has a log if none is named.
    pub(in crate::web) server: Option<String>,
    /// Only lines that hold this text, whatever its case.
    pub(in crate::web) text: String,
    /// Which lines are left out.
    pub(in crate::web) lines: LogLines,
}

/// Which lines of a log are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::web) enum LogLines {
    /// All of them.
    #[default]
    All,
    /// Those that tell of a failure, with the trace that follows.
    Failures,
}

/// A log as it is shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct LogView {
    /// All servers that have a log.
    pub(in crate::web) servers: Vec<String>,
    /// The server whose log this is.
    pub(in crate::web) server: Option<String>,
    /// The file, from the project's root.
    pub(in crate::web) path: String,
    /// Whether earlier lines are left out because there are too many.
    pub(in crate::web) is_cut: bool,
    /// The lines that are wanted.
    pub(in crate::web) lines: Vec<LogViewLine>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::web) struct LogViewLine {
    /// How many bytes of the file lie before it; it stays the same while the log grows.
    pub(in crate::web) offset: u64,
    /// The line as it was written, colours included.
    pub(in crate::web) text: String,
    pub(in crate::web) is_failure: bool,
}

/// Reads the logs of servers.
#[derive(Debug)]
pub(in crate::web) struct LogReader<'r> {
    reader: &'r mut ProjectReader,
}

impl<'r> LogReader<'r> {
    pub(super) fn new(reader: &'r mut ProjectReader) -> Self {
        Self { reader }
    }

    /// Returns the lines of a log that are wanted.
    pub(in crate::web) fn view(&mut self, query: &LogQuery) -> Result<LogView, ViewError> {
        let servers = self.logged_servers()?;
        let server = match &query.server {
            Some(name) => servers.iter().find(|known| *known == name).cloned(),
            None => servers.first().cloned(),
        };
        let tail = match &server {
            Some(name) => self.of_server(name)?,
            None => None,
        };
        let Some(tail) = tail else {
            let (path, lines) = (String::new(), Vec::new());
            return Ok(LogView { servers, server, path, is_cut: false, lines });
        };
        let mut offset = tail.first_offset;
        let mut is_trace = false;
        let mut lines = Vec::new();
        let wanted = query.text.to_lowercase();
        for text in tail.lines {
            let plain = ansi::plain(&text).to_lowercase();
            let begins = tells_of_failure(&plain);
            is_trace = begins || (is_trace && continues_trace(&plain));
            let fits = wanted.is_empty() || plain.contains(&wanted);
            let length = text.len() as u64 + 1;
            if fits && (is_trace || query.lines == LogLines::All) {
                lines.push(LogViewLine { offset, text, is_failure: begins });
            }
            offset += length;
        }
        Ok(LogView { servers, server, path: tail.path, is_cut: tail.is_cut, lines })
    }

    /// Returns the end of a server's log, if there is one.
    pub(in crate::web) fn of_server(&self, server: &str) -> Result<Option<TextTail>, ViewError> {
        let path = self.reader.project().log(server);
        let shown = path.strip_prefix(self.reader.project().root()).unwrap_or(&path);
        tail_of(self.reader.scrubber(), &path, shown.display().to_string())
    }

    /// Returns the servers that have a log: those of the journal and of the logs' directory.
    fn logged_servers(&mut self) -> Result<Vec<String>, ViewError> {
        let known: BTreeSet<String> =
            self.reader.servers().list()?.into_iter().map(|server| server.server).collect();
        let mut logged = BTreeSet::new();
        let dir = self.reader.project().log("any").parent().map(ToOwned::to_owned);
        for entry in dir.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            logged.extend(name.strip_suffix(".log").map(str::to_owned));
        }
        let is_plain = |name: &String| !name.contains(['/', '\\']) && !name.starts_with('.');
        let logged = logged.into_iter().filter(|name| is_plain(name) || known.contains(name));
        Ok(logged.collect())
    }
}

/// Tells whether a line, in lower case and without colours, speaks of a failure.
fn tells_of_failure(line: &str) -> bool {
    const WORDS: [&str; 13] = [
        "error",
        "exception",
        "panicked at",
        "fatal",
        "failed",
        "failure",
        "traceback",
        "cannot find",
        "eaddrinuse",
        "econnrefused",
        "unhandled",
        "segmentation fault",
        "out of memory",
    ];
    const HARMLESS: [&str; 6] =
        ["0 error", "no error", "0 failed", "0 failures", "without error", "errors: 0"];
    WORDS.iter().any(|word| line.contains(word)) && !HARMLESS.iter().any(|word| line.contains(word))
}

/// Tells whether a line belongs to the trace of the failure before it.
fn continues_trace(line: &str) -> bool {
    line.starts_with([' ', '\t']) && !line.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_from_reports_that_there_are_none() {
        for (line, want) in [
            ("error: cannot find module 'left-pad'", true),
            ("listen eaddrinuse: address already in use :::5173", true),
            ("thread 'main' panicked at src/main.rs:3:5", true),
            ("found 0 errors. watching for file changes.", false),
            ("12 passed, 0 failed", false),
            ("ready in 312 ms", false),
        ] {
            assert_eq!(tells_of_failure(line), want, "{line}");
        }
        assert!(continues_trace("    at object.<anonymous> (app.js:1:7)"));
        assert!(!continues_trace("ready"));
    }
}
