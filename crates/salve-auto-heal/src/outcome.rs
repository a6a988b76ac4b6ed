//! Whether what a function returned is a failure.

use std::fmt::Display;

use salve_core::tool::failure::{failure_in, may_be_failure};
use serde::Serialize;

/// What a function that heals itself may return.
#[diagnostic::on_unimplemented(
    message = "#[auto_heal] needs a function that returns a result",
    label = "nobody can tell from a `{Self}` whether a call failed",
    note = "return a `Result` whose error can be displayed, or a `String`"
)]
pub trait HealedResult {}

impl<T, E: Display> HealedResult for Result<T, E> {}
impl HealedResult for String {}

/// A look at what a function returned.
///
/// Which of the two traits below answers is chosen by the compiler: the first for answers that can
/// be serialised, else the second, which knows errors only.
#[derive(Debug)]
pub struct Look<'a, T>(&'a T);

impl<'a, T: HealedResult> Look<'a, T> {
    /// Looks at it.
    pub fn at(outcome: &'a T) -> Self {
        Self(outcome)
    }
}

/// Finds failures in errors, and in answers that say that they failed: an MCP result with
/// `isError`, or a text that begins like an error.
pub trait LookAtAnswer {
    /// Returns what the failure says; nothing if there is none.
    fn failure(&self) -> Option<String>;
}

/// Finds failures in errors.
pub trait LookAtError {
    /// Returns what the failure says; nothing if there is none.
    fn failure(&self) -> Option<String>;
}

impl<T: Serialize, E: Display> LookAtAnswer for &Look<'_, Result<T, E>> {
    fn failure(&self) -> Option<String> {
        match self.0 {
            Ok(answer) => in_answer(answer),
            Err(error) => Some(error.to_string()),
        }
    }
}

impl LookAtAnswer for &Look<'_, String> {
    fn failure(&self) -> Option<String> {
        in_answer(self.0)
    }
}

impl<T, E: Display> LookAtError for Look<'_, Result<T, E>> {
    fn failure(&self) -> Option<String> {
        self.0.as_ref().err().map(ToString::to_string)
    }
}

/// Reads an answer as it goes over the wire.
fn in_answer(answer: &impl Serialize) -> Option<String> {
    let answer = serde_json::to_string(answer).ok()?;
    let line = if answer.starts_with('"') {
        format!(r#"{{"result":{{"content":[{{"text":{answer}}}]}}}}"#)
    } else {
        format!(r#"{{"result":{answer}}}"#)
    };
    may_be_failure(line.as_bytes()).then(|| failure_in(line.as_bytes()))?
}
