//! What is asked of the gate: one command, where, and for how long at most.

/// The longest command the gate looks at, in bytes.
pub const MAX_COMMAND: usize = 32 * 1024;

/// The longest path of a working directory, in bytes.
pub(super) const MAX_WORKING_DIR: usize = 4096;

/// The longest time a recovery command may ask for, in seconds.
pub const MAX_TIMEOUT_SECONDS: u64 = 3600;

/// The time a recovery command gets when it does not say, in seconds.
pub const DEFAULT_TIMEOUT_SECONDS: u64 = 120;

/// White space that is trimmed at the ends of a command; nothing else is ever normalised.
pub(crate) const OUTER: [char; 4] = [' ', '\t', '\n', '\r'];

/// One command that somebody wants to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    command: String,
    working_dir: String,
    timeout_seconds: u64,
}

/// Why something cannot be asked of the gate at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// There is no command.
    #[error("the command is empty")]
    EmptyCommand,
    /// A NUL byte would end the text early for some readers.
    #[error("the {0} holds a NUL character")]
    Nul(&'static str),
    /// The text is longer than the gate looks at.
    #[error("the {0} is longer than {1} bytes")]
    TooLong(&'static str, usize),
    /// An empty path names no directory.
    #[error("the working directory is empty; `.` is the repository root")]
    EmptyWorkingDir,
    /// The time-out is no sensible number of seconds.
    #[error("a time-out is 1 to {MAX_TIMEOUT_SECONDS} seconds")]
    Timeout,
}

impl Request {
    /// Makes a request, trimming ASCII white space at the ends of `command` and nothing else.
    ///
    /// # Errors
    ///
    /// Returns [`BadRequest`] when a part is empty, too long, out of range or holds a NUL.
    pub fn new(command: &str, working_dir: &str, timeout_seconds: u64) -> Result<Self, BadRequest> {
        let bounded = |name, text: &str, max| {
            if text.contains('\0') {
                return Err(BadRequest::Nul(name));
            }
            if text.len() > max { Err(BadRequest::TooLong(name, max)) } else { Ok(()) }
        };
        bounded("command", command, MAX_COMMAND)?;
        bounded("working directory", working_dir, MAX_WORKING_DIR)?;
        let command = command.trim_matches(OUTER);
        // What is only invisible characters is no command either.
        if command.trim().is_empty() {
            return Err(BadRequest::EmptyCommand);
        }
        if working_dir.is_empty() {
            return Err(BadRequest::EmptyWorkingDir);
        }
        if !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout_seconds) {
            return Err(BadRequest::Timeout);
        }
        Ok(Self {
            command: command.to_owned(),
            working_dir: working_dir.to_owned(),
            timeout_seconds,
        })
    }

    /// Returns the command without outer white space.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Returns the directory as it was asked for, not yet resolved.
    pub fn working_dir(&self) -> &str {
        &self.working_dir
    }

    /// Returns how long the command may take.
    pub fn timeout_seconds(&self) -> u64 {
        self.timeout_seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ascii_white_space_at_the_ends_is_trimmed() {
        for (command, want) in [
            ("npm ci", "npm ci"),
            ("\n\t npm ci\r\n ", "npm ci"),
            ("npm  ci", "npm  ci"),
            ("\u{a0}npm ci", "\u{a0}npm ci"),
            ("npm ci\u{b}", "npm ci\u{b}"),
            ("\u{200b}npm ci", "\u{200b}npm ci"),
        ] {
            assert_eq!(Request::new(command, ".", 1).unwrap().command(), want, "{command:?}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_named() {
        let long = "x".repeat(MAX_COMMAND + 1);
        for (command, dir, seconds, want) in [
            ("", ".", 1, BadRequest::EmptyCommand),
            (" \t\r\n", ".", 1, BadRequest::EmptyCommand),
            ("\u{a0}\u{3000}", ".", 1, BadRequest::EmptyCommand),
            ("a\0b", ".", 1, BadRequest::Nul("command")),
            ("a", "x\0", 1, BadRequest::Nul("working directory")),
            (&long, ".", 1, BadRequest::TooLong("command", MAX_COMMAND)),
            ("a", &long, 1, BadRequest::TooLong("working directory", MAX_WORKING_DIR)),
            ("a", "", 1, BadRequest::EmptyWorkingDir),
            ("a", ".", 0, BadRequest::Timeout),
            ("a", ".", MAX_TIMEOUT_SECONDS + 1, BadRequest::Timeout),
        ] {
            assert_eq!(Request::new(command, dir, seconds), Err(want), "{dir} {seconds}");
        }
    }
}
