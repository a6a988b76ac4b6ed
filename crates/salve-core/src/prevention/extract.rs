//! Which part of a failed call is the mistake.
//!
//! Where it is not clear nothing is learned: a wrong warning costs more than a missing one.

use serde_json::Value;

use super::category::{ClassifiedError, MistakeCategory, classify};
use super::form::{FormKind, ValueForm};
use super::mistake::{CallArguments, CallMistake, LearnedMistake, is_plain_name};

/// A failed call, as far as a mistake shows in it.
#[derive(Clone, Copy, Debug)]
pub struct FailedArguments<'a> {
    pub tool: &'a str,
    /// What it was called with.
    pub arguments: &'a CallArguments,
    /// What it said.
    pub error: &'a str,
}

/// Whether the same call has worked before in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierSuccess {
    /// It has.
    Yes,
    /// It has not, as far as is known.
    No,
}

/// Returns the mistake that an error alone tells.
pub fn from_error(call: &FailedArguments<'_>, earlier: EarlierSuccess) -> Option<LearnedMistake> {
    let ClassifiedError { category, named } = classify(call.error)?;
    let named = named.filter(|name| is_plain_name(name));
    let mistake = match category {
        MistakeCategory::WrongToolSelection => {
            let instead = named.filter(|name| name != call.tool)?;
            CallMistake::WrongTool { instead }
        }
        MistakeCategory::MissingParameter => {
            let parameter = named?;
            let is_given = call.arguments.get(&parameter).is_some_and(|value| !value.is_null());
            if is_given {
                return None;
            }
            CallMistake::Missing { parameter }
        }
        MistakeCategory::MissingPrerequisite => {
            CallMistake::Unprepared { first: named.filter(|name| name != call.tool)? }
        }
        MistakeCategory::WorkflowSequence => {
            if earlier == EarlierSuccess::No {
                return None;
            }
            CallMistake::Again
        }
        MistakeCategory::IncorrectParameter | MistakeCategory::ParameterFormat => {
            match named.filter(|name| call.arguments.contains_key(name)) {
                Some(parameter) => CallMistake::Unaccepted { parameter },
                None => {
                    let parameter = only_concerned(call, call.arguments.keys())?;
                    let value = call.arguments.get(&parameter)?.clone();
                    CallMistake::Value { parameter, value }
                }
            }
        }
    };
    LearnedMistake::new(call.tool, category, mistake, call.error)
}

/// Returns the mistake that shows in how a failed call was changed before it worked.
pub fn from_change(call: &FailedArguments<'_>, worked: &CallArguments) -> Option<LearnedMistake> {
    let before = call.arguments;
    let is_changed = |name: &&String| before.get(*name) != worked.get(*name);
    let mut changed: Vec<&String> = before.keys().chain(worked.keys()).filter(is_changed).collect();
    changed.sort();
    changed.dedup();
    let parameter = match changed.as_slice() {
        [] => return None,
        [only] => (*only).clone(),
        several => only_concerned(call, several.iter().copied())?,
    };
    let (category, mistake) = match (before.get(&parameter), worked.get(&parameter)) {
        (None, Some(_)) => (MistakeCategory::MissingParameter, CallMistake::Missing { parameter }),
        (Some(_), None) => {
            (MistakeCategory::IncorrectParameter, CallMistake::Unaccepted { parameter })
        }
        (Some(wrong), Some(right)) => of_values(parameter, wrong, right),
        (None, None) => return None,
    };
    LearnedMistake::new(call.tool, category, mistake, call.error)
}

/// Returns the mistake that shows in a tool that was called before the same call worked.
pub fn from_preparation(call: &FailedArguments<'_>, first: &str) -> Option<LearnedMistake> {
    let said = classify(call.error).map(|said| said.category);
    let category = match said {
        Some(MistakeCategory::WorkflowSequence) => MistakeCategory::WorkflowSequence,
        _ => MistakeCategory::MissingPrerequisite,
    };
    let mistake = CallMistake::Unprepared { first: first.to_owned() };
    LearnedMistake::new(call.tool, category, mistake, call.error)
}

fn of_values(parameter: String, wrong: &Value, right: &Value) -> (MistakeCategory, CallMistake) {
    let (written, wanted) = (ValueForm::of(wrong), ValueForm::of(right));
    // Free texts say nothing by their form.
    let is_formal = |form: ValueForm| {
        !matches!(form.kind, FormKind::Text | FormKind::Word | FormKind::Empty | FormKind::Null)
    };
    let differs =
        written.kind != wanted.kind || (wanted.length.is_some() && written.length != wanted.length);
    if differs && is_formal(wanted) {
        let mistake = CallMistake::Form { parameter, written: written.kind, wanted };
        (MistakeCategory::ParameterFormat, mistake)
    } else {
        let mistake = CallMistake::Value { parameter, value: wrong.clone() };
        (MistakeCategory::IncorrectParameter, mistake)
    }
}

/// Returns the one parameter that the error speaks of, by its name or by its value.
fn only_concerned<'a>(
    call: &FailedArguments<'_>,
    parameters: impl Iterator<Item = &'a String>,
) -> Option<String> {
    let concerned = |name: &&String| {
        let by_value = call.arguments.get(*name).and_then(Value::as_str);
        speaks_of(call.error, name)
            || by_value.is_some_and(|value| value.len() >= 3 && speaks_of(call.error, value))
    };
    let mut found = parameters.filter(concerned);
    found.next().filter(|_| found.next().is_none()).cloned()
}

/// Returns whether a text holds a word, and not only as a part of another.
fn speaks_of(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}
