//! Where a command's words go: facts to stdout, remarks and errors to stderr.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::Global;
use super::error::CliError;

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

    /// Returns a locked stdout that drops colours where they are not wanted.
    pub fn stdout(&self) -> impl Write {
        anstream::stdout().lock()
    }

    /// Prints `fact` as one line of JSON.
    pub fn fact(&self, fact: &impl Serialize) -> Result<(), CliError> {
        let mut out = self.stdout();
        serde_json::to_writer(&mut out, fact).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        Ok(())
    }

    /// Tells the user something in passing, unless they asked for quiet.
    pub fn remark(&self, text: impl Display) {
        if !self.global.quiet {
            // A remark that nobody can read is not worth failing for.
            let _ = writeln!(anstream::stderr().lock(), "{text}");
        }
    }

    /// Prints an error with its causes and what to do.
    pub fn error(&self, error: &CliError) {
        if error.is_broken_pipe() {
            return;
        }
        let mut err = anstream::stderr().lock();
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

/// Says how many of something there are: `1 failure`, `2 failures`.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        let failures = [0, 1, 2].map(|number| counted(number, "failure", "failures"));
        assert_eq!(failures, ["0 failures", "1 failure", "2 failures"]);
    }
}
