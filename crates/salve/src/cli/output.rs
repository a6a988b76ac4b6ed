//! Where a command's words go: facts to stdout, remarks and errors to stderr.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use salve_core::hidden_char::{revealed, revealed_json};
use serde::Serialize;

use super::Global;
use super::error::CliError;
use super::hanging::{hang, window_of};

/// How the user wants to be told things.
#[derive(Debug)]
pub struct Output {
    global: Global,
}

impl Output {
    /// Makes the output for one run of the program.
    pub fn new(global: &Global) -> Self {
        Self { global: global.clone() }
    }

    /// Returns the options every command takes.
    pub fn global(&self) -> &Global {
        &self.global
    }

    /// Returns whether facts are wanted as JSON.
    pub fn json(&self) -> bool {
        self.global.json
    }

    /// Returns a locked stdout for what people read: it drops colours where they are not wanted, and
    /// shows what cannot be seen by its number.
    pub fn stdout(&self) -> impl Write {
        RevealingWriter::new(self.exact())
    }

    /// Returns a locked stdout for lists and stories: as [`Self::stdout`], and fitted to the window.
    pub fn fitted(&self) -> impl Write {
        RevealingWriter::new(self.exact()).fitted_to(window_of(io::stdout()))
    }

    /// Returns a locked stdout for what is taken as it is: scripts, schemas, lines of JSON.
    pub fn exact(&self) -> impl Write {
        anstream::stdout().lock()
    }

    /// Prints `fact` as one line of JSON.
    pub fn fact(&self, fact: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string(fact).map_err(io::Error::from)?;
        writeln!(self.exact(), "{}", revealed_json(&text))?;
        Ok(())
    }

    /// Tells the user something in passing, unless they asked for quiet.
    pub fn remark(&self, text: impl Display) {
        if !self.global.quiet {
            // A remark that nobody can read is not worth failing for.
            let _ = writeln!(stderr(), "{text}");
        }
    }

    /// Prints an error with its causes and what to do.
    pub fn error(&self, error: &CliError) {
        if error.is_broken_pipe() {
            return;
        }
        let mut err = stderr();
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let _ = writeln!(err, "{red}error:{red:#} {error}");
        let mut cause = error.source();
        while let Some(source) = cause {
            let _ = writeln!(err, "  because: {source}");
            cause = source.source();
        }
        if let Some(hint) = error.hint_text() {
            let green = Style::new().bold().fg_color(Some(AnsiColor::Green.into()));
            let _ = writeln!(err, "  {green}try:{green:#} {hint}");
        }
    }
}

/// Returns a locked stderr for what people read.
fn stderr() -> impl Write {
    RevealingWriter::new(anstream::stderr().lock()).fitted_to(window_of(io::stderr()))
}

/// The styles that Salve gives its words, as the numbers of a terminal's sequence.
const STYLES: [&str; 13] =
    ["", "0", "1", "2", "31", "32", "33", "34", "35", "36", "37", "39", "90"];

/// Shows by their numbers what a reader would not see, line by line, but for Salve's own styles.
struct RevealingWriter<W: Write> {
    to: W,
    line: Vec<u8>,
    /// How wide the window is to which lines are fitted.
    window: Option<usize>,
}

impl<W: Write> RevealingWriter<W> {
    fn new(to: W) -> Self {
        Self { to, line: Vec::new(), window: None }
    }

    fn fitted_to(mut self, window: Option<usize>) -> Self {
        self.window = window;
        self
    }

    fn pass_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let mut shown = String::with_capacity(text.len());
        let mut rest = &*text;
        while let Some((plain, tail)) = rest.split_once("\u{1b}[") {
            let style = tail.split_once('m').filter(|(numbers, _)| STYLES.contains(numbers));
            shown.push_str(&revealed(plain));
            rest = match style {
                Some((numbers, after)) => {
                    shown.extend(["\u{1b}[", numbers, "m"]);
                    after
                }
                None => {
                    shown.push_str(&revealed("\u{1b}["));
                    tail
                }
            };
        }
        shown.push_str(&revealed(rest));
        if let Some(width) = self.window {
            let lines: Vec<String> = shown.split('\n').map(|line| hang(line, width)).collect();
            shown = lines.join("\n");
        }
        self.to.write_all(shown.as_bytes())
    }
}

impl<W: Write> Write for RevealingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        if whole > 0 {
            self.line.extend_from_slice(&bytes[..whole]);
            self.pass_line()?;
        }
        self.line.extend_from_slice(&bytes[whole..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_line()?;
        self.to.flush()
    }
}

impl<W: Write> Drop for RevealingWriter<W> {
    fn drop(&mut self) {
        // Whoever read it has gone.
        let _ = self.pass_line();
    }
}

/// Says how many of something there are: `1 failure`, `2 failures`.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_salves_own_styles_reach_a_terminal() {
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let mut shown = Vec::new();
        let mut to = RevealingWriter::new(&mut shown);
        write!(to, "{red}error:{red:#} a\u{1b}[2J\u{202e}").unwrap();
        write!(to, "\u{1b}[8mb\u{1b}]52;c;\u{7}\nc\u{9b}").unwrap();
        drop(to);
        let want = format!(
            "{red}error:{red:#} a\\u{{1b}}[2J\\u{{202e}}\\u{{1b}}[8mb\\u{{1b}}]52;c;\\u{{7}}\nc\\u{{9b}}"
        );
        assert_eq!(String::from_utf8(shown).unwrap(), want);
    }

    #[test]
    fn one_is_not_many() {
        let failures = [0, 1, 2].map(|number| counted(number, "failure", "failures"));
        assert_eq!(failures, ["0 failures", "1 failure", "2 failures"]);
    }
}
