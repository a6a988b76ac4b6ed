//! One mistake in calling a tool: how it is recognised, and what to do instead.
//!
//! Whatever a tool wrote is data. Names that come out of an error are kept only if they are plain
//! identifiers, and values stand in quotes, so that nobody's output becomes an instruction.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::category::MistakeCategory;
use super::form::{FormKind, ValueForm};

/// The longest value that is kept, in bytes of JSON.
const LONGEST_VALUE: usize = 200;
/// The longest name of a tool or a parameter.
const LONGEST_NAME: usize = 64;

/// How a call that is a mistake is recognised before it is made.
#[derive(Clone, Debug, PartialEq)]
pub enum CallMistake {
    /// A parameter has this very value.
    Value { parameter: String, value: Value },
    /// A parameter is written in one way and wanted in another.
    Form {
        parameter: String,
        /// How it is written.
        written: FormKind,
        /// How it is wanted.
        wanted: ValueForm,
    },
    /// A parameter does not match the expression that somebody wrote down for it.
    Invalid {
        parameter: String,
        /// What valid values match.
        valid: String,
    },
    /// A parameter is missing.
    Missing { parameter: String },
    /// The tool has no such parameter.
    Unaccepted { parameter: String },
    /// Another tool has to be called first.
    Unprepared {
        /// That tool.
        first: String,
    },
    /// The same call has worked already.
    Again,
    /// Another tool does this.
    WrongTool {
        /// That tool.
        instead: String,
    },
}

impl CallMistake {
    /// Returns the pattern as `usage_patterns.yaml` has it.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Value { parameter, value } => json!({ "parameter": parameter, "value": value }),
            Self::Form { parameter, written, wanted } => json!({
                "parameter": parameter, "written": written.as_str(), "wanted": wanted.to_string(),
            }),
            Self::Invalid { parameter, valid } => {
                json!({ "parameter": parameter, "validation": { "regex": valid } })
            }
            Self::Missing { parameter } => json!({ "parameter": parameter, "missing": true }),
            Self::Unaccepted { parameter } => json!({ "parameter": parameter, "unknown": true }),
            Self::Unprepared { first } => json!({ "requires": first }),
            Self::Again => json!({ "again": true }),
            Self::WrongTool { instead } => json!({ "instead": instead }),
        }
    }

    /// Reads what a file says; nothing if that is no pattern that a call can be checked by.
    pub fn from_value(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key)?.as_str().map(str::to_owned);
        let says = |key: &str| value.get(key) == Some(&Value::Bool(true));
        if let Some(first) = text("requires") {
            return Some(Self::Unprepared { first });
        }
        if let Some(instead) = text("instead") {
            return Some(Self::WrongTool { instead });
        }
        if says("again") {
            return Some(Self::Again);
        }
        let parameter = text("parameter")?;
        if let Some(valid) = value.pointer("/validation/regex").and_then(Value::as_str) {
            return Some(Self::Invalid { parameter, valid: valid.to_owned() });
        }
        if says("missing") {
            return Some(Self::Missing { parameter });
        }
        if says("unknown") {
            return Some(Self::Unaccepted { parameter });
        }
        if let (Some(written), Some(wanted)) = (text("written"), text("wanted")) {
            let (written, wanted) = (ValueForm::parse(&written)?, ValueForm::parse(&wanted)?);
            return Some(Self::Form { parameter, written: written.kind, wanted });
        }
        value.get("value").map(|value| Self::Value { parameter, value: value.clone() })
    }

    /// Returns what to do instead.
    pub fn advice(&self) -> String {
        match self {
            Self::Value { parameter, value } => {
                format!("Give `{parameter}` another value than {}.", quoted(value))
            }
            Self::Form { parameter, written, wanted } => format!(
                "Write `{parameter}` as {}, not as {}.",
                described(*wanted),
                described(ValueForm { kind: *written, length: None })
            ),
            Self::Invalid { parameter, valid } => {
                format!("`{parameter}` has to match `{valid}`.")
            }
            Self::Missing { parameter } => format!("Give `{parameter}`."),
            Self::Unaccepted { parameter } => {
                format!("Leave out `{parameter}`: the tool has no such parameter.")
            }
            Self::Unprepared { first } => format!("Call `{first}` first."),
            Self::Again => {
                "Do not repeat a call that has worked: it fails the second time.".to_owned()
            }
            Self::WrongTool { instead } => format!("Use `{instead}` instead."),
        }
    }

    /// Returns whether everything in it is short and plain enough to be kept.
    fn is_keepable(&self) -> bool {
        let is_name = |name: &str| is_plain_name(name);
        match self {
            Self::Value { parameter, value } => {
                is_name(parameter) && value.to_string().len() <= LONGEST_VALUE
            }
            Self::Form { parameter, .. }
            | Self::Invalid { parameter, .. }
            | Self::Missing { parameter }
            | Self::Unaccepted { parameter } => is_name(parameter),
            Self::Unprepared { first: tool } | Self::WrongTool { instead: tool } => is_name(tool),
            Self::Again => true,
        }
    }
}

/// Returns whether a text is a plain identifier, which cannot say anything.
pub(super) fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(is_plain)
}

fn quoted(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(80).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

fn described(form: ValueForm) -> String {
    match form {
        ValueForm { kind: FormKind::Hex, length: Some(length) } => {
            format!("{length} hexadecimal digits")
        }
        ValueForm { kind: FormKind::Hex, length: None } => "a shorter one".to_owned(),
        ValueForm { kind, .. } => format!("{} ({})", article(kind), kind.as_str()),
    }
}

fn article(kind: FormKind) -> &'static str {
    match kind {
        FormKind::Null => "nothing",
        FormKind::Boolean => "true or false",
        FormKind::Number => "a number",
        FormKind::List => "a list",
        FormKind::Object => "an object",
        FormKind::Empty => "an empty text",
        FormKind::Digits => "a text of digits",
        FormKind::Hex => "hexadecimal digits",
        FormKind::Uuid => "a UUID",
        FormKind::Date => "a day",
        FormKind::DateTime => "a day with its time",
        FormKind::Url => "an address",
        FormKind::AbsolutePath => "a path from the root",
        FormKind::RelativePath => "a relative path",
        FormKind::Word => "one word",
        FormKind::Text => "a text",
    }
}

/// A mistake of one tool, as it is learned.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedMistake {
    /// Its name: equal mistakes have equal names.
    pub id: String,
    pub tool: String,
    /// The kind of mistake.
    pub category: MistakeCategory,
    /// How it is recognised.
    pub mistake: CallMistake,
    /// What the tool said, on one line; not scrubbed.
    pub error: String,
}

impl LearnedMistake {
    /// Makes a mistake that can be kept; nothing if a part of it is too long or not plain.
    pub fn new(
        tool: &str,
        category: MistakeCategory,
        mistake: CallMistake,
        error: &str,
    ) -> Option<Self> {
        if tool.is_empty() || tool.len() > 200 || !mistake.is_keepable() {
            return None;
        }
        let line = error.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let id = mistake_id(tool, &mistake);
        let error = line.chars().take(200).collect();
        Some(Self { id, tool: tool.to_owned(), category, mistake, error })
    }
}

/// Returns a name that the same mistake of the same tool always has.
fn mistake_id(tool: &str, mistake: &CallMistake) -> String {
    let what = match mistake {
        CallMistake::Value { parameter, .. } => format!("{parameter}-value"),
        CallMistake::Form { parameter, .. } | CallMistake::Invalid { parameter, .. } => {
            format!("{parameter}-form")
        }
        CallMistake::Missing { parameter } => format!("{parameter}-missing"),
        CallMistake::Unaccepted { parameter } => format!("{parameter}-unknown"),
        CallMistake::Unprepared { first } => format!("after-{first}"),
        CallMistake::Again => "again".to_owned(),
        CallMistake::WrongTool { instead } => format!("use-{instead}"),
    };
    let digest = Sha256::digest(format!("{tool}\n{}", mistake.to_value()).as_bytes());
    let short: String = digest.iter().take(3).map(|byte| format!("{byte:02x}")).collect();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let tool: String = tool.chars().take(40).map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("{tool}-{what}-{short}")
}

/// The arguments of a call, by the names of its parameters.
pub type CallArguments = Map<String, Value>;
