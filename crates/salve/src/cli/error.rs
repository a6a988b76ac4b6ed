//! How a command ends: documented exit codes, and errors that say what to do.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Well,
    /// What was asked for failed.
    Failed,
    /// The arguments or the configuration are wrong.
    Usage,
    /// A person has to decide.
    NeedsPerson,
    /// Stopped by Ctrl-C.
    Interrupted,
}

impl Exit {
    /// Returns the number the shell sees.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Well => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NeedsPerson => 3,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// What happened, why, and what to do about it.
#[derive(Debug)]
pub struct CliError {
    exit: Exit,
    what: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
    hint: Option<String>,
}

impl CliError {
    /// Makes an error that ends with exit code 1.
    pub fn failed(what: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, what: what.into(), cause: None, hint: None }
    }

    /// Makes an error that ends with exit code 2.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, what: what.into(), cause: None, hint: None }
    }

    /// Makes an error that ends with exit code 3.
    pub fn needs_person(what: impl Into<String>) -> Self {
        Self { exit: Exit::NeedsPerson, what: what.into(), cause: None, hint: None }
    }

    /// Adds the reason.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Adds what the user can do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns how the process should end.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns what the user can do next, if that is known.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns whether the reader of our output went away, which is nobody's fault.
    pub fn is_broken_pipe(&self) -> bool {
        let mut next = self.cause.as_ref().map(|e| &**e as &(dyn Error + 'static));
        while let Some(error) = next {
            if error
                .downcast_ref::<io::Error>()
                .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
            {
                return true;
            }
            next = error.source();
        }
        false
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for CliError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|e| &**e as &(dyn Error + 'static))
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::failed("cannot write the output").because(error)
    }
}
