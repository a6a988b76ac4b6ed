//! What kind of mistake an error speaks of.

use std::fmt;
use std::sync::LazyLock;

use regex_automata::meta::Regex;

use crate::class::Class;
use crate::tool::failure::{FailedCall, FailureCategory};

/// How much of an error is looked at.
const LOOKED_AT: usize = 2_000;

/// What kind of mistake a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MistakeCategory {
    /// A parameter has a value that does not exist, or the tool has no such parameter.
    IncorrectParameter,
    /// A parameter is written in the wrong way.
    ParameterFormat,
    /// Something has to be done first.
    MissingPrerequisite,
    /// The call comes at the wrong time.
    WorkflowSequence,
    /// Another tool does this.
    WrongToolSelection,
    MissingParameter,
}

impl MistakeCategory {
    /// Every category.
    pub const ALL: [Self; 6] = [
        Self::IncorrectParameter,
        Self::ParameterFormat,
        Self::MissingPrerequisite,
        Self::WorkflowSequence,
        Self::WrongToolSelection,
        Self::MissingParameter,
    ];

    /// Returns its name in files and on screen.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IncorrectParameter => "incorrect_parameter",
            Self::ParameterFormat => "parameter_format",
            Self::MissingPrerequisite => "missing_prerequisite",
            Self::WorkflowSequence => "workflow_sequence",
            Self::WrongToolSelection => "wrong_tool_selection",
            Self::MissingParameter => "missing_parameter",
        }
    }

    /// Reads a name; case does not count, since other tools write it in capitals.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str().eq_ignore_ascii_case(name.trim()))
    }
}

impl fmt::Display for MistakeCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What an error says about the call that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassifiedError {
    /// The kind of mistake.
    pub category: MistakeCategory,
    /// The parameter or tool that the error names, if it names one.
    pub named: Option<String>,
}

/// Returns whether a failure has nothing to do with how the tool was called.
pub fn is_infrastructure(call: &FailedCall) -> bool {
    let by_class = match call.class {
        Class::Environment
        | Class::Permission
        | Class::Auth
        | Class::Network
        | Class::Tls
        | Class::RateLimit
        | Class::PortConflict
        | Class::DiskFull
        | Class::Oom
        | Class::ResourceLimit
        | Class::LockHeld
        | Class::Timeout
        | Class::MissingTool
        | Class::Hang => true,
        Class::ImportError
        | Class::DependencyMissing
        | Class::DependencyConflict
        | Class::VersionMismatch
        | Class::SyntaxError
        | Class::TypeError
        | Class::LintError
        | Class::TestFailure
        | Class::BuildError
        | Class::RuntimeError
        | Class::ConfigError
        | Class::DbError
        | Class::Unknown => false,
    };
    by_class || call.category != FailureCategory::Other
}

/// Returns which mistake an error speaks of, if it speaks of one.
pub fn classify(error: &str) -> Option<ClassifiedError> {
    let end = error.char_indices().nth(LOOKED_AT).map_or(error.len(), |(at, _)| at);
    let error = &error[..end];
    WORDS.iter().find_map(|(category, regex)| {
        let mut caught = regex.create_captures();
        regex.captures(error, &mut caught);
        if !caught.is_match() {
            return None;
        }
        let named = caught.get_group_by_name("name").map(|span| error[span.range()].to_owned());
        Some(ClassifiedError { category: *category, named })
    })
}

/// A name in an error, quoted or not.
const NAME: &str = r#"["'`‘“]?(?P<name>[A-Za-z_](?:[\w.-]{0,62}\w)?)["'`’”]?"#;

static WORDS: LazyLock<Vec<(MistakeCategory, Regex)>> = LazyLock::new(words);

/// The first that fits counts: what names a tool or a parameter stands before what only hints.
#[expect(clippy::expect_used, reason = "constant expressions; tests run every one")]
fn words() -> Vec<(MistakeCategory, Regex)> {
    use MistakeCategory as C;
    let rows = [
        (C::WrongToolSelection, format!(r"\buse (?:the )?(?:tool )?{NAME} (?:tool )?instead\b")),
        (C::WrongToolSelection, format!(r"\bdeprecated\b.{{0,40}}\buse {NAME}")),
        (C::WrongToolSelection, format!(r"\b(?:unknown|no such) tool:? {NAME}")),
        (
            C::MissingParameter,
            format!(
                r"\bmissing (?:\d+ )?(?:a )?(?:required )?(?:positional |keyword-only |named )?(?:arguments?|parameters?|fields?|propert(?:y|ies)|inputs?|options?|values?)(?: for)?:? {NAME}"
            ),
        ),
        (C::MissingParameter, format!(r"\brequired (?:parameter|argument|field|property):? {NAME}")),
        (C::MissingParameter, format!(r"{NAME} is (?:a )?required(?: property| field)?\b")),
        (C::MissingParameter, format!(r"{NAME}\s+field required\b")),
        (C::MissingParameter, format!(r"\barguments are required: {NAME}")),
        (
            C::MissingPrerequisite,
            format!(r"\b(?:run|call|use|execute) {NAME}(?:\(\))? (?:first|before)\b"),
        ),
        (
            C::MissingPrerequisite,
            r"\bnot (?:yet )?(?:initiali[sz]ed|configured|selected|reserved|checked out|cloned|connected to any)\b|\bno (?:active|current|open) \w+|\bmust (?:first|be \w+ first)\b|\bbefore (?:you can|calling|using)\b".to_owned(),
        ),
        (
            C::WorkflowSequence,
            r"\balready (?:exists?|in progress|closed|merged|released|running|started|done|reserved)\b|\bout of order\b|\binvalid state\b|\bcannot \w+ (?:while|until|after|in state)\b|\bnot in (?:the )?(?:right |expected )?state\b".to_owned(),
        ),
        (
            C::IncorrectParameter,
            format!(
                r"\b(?:unexpected|unknown|unrecogni[sz]ed|extra) (?:keyword )?(?:arguments?|parameters?|options?|fields?|propert(?:y|ies)|inputs?):? {NAME}"
            ),
        ),
        (
            C::IncorrectParameter,
            format!(r"{NAME}\s+extra inputs are not permitted|additional properties are not allowed"),
        ),
        (
            C::ParameterFormat,
            r"\binvalid (?:format|date|time|uuid|url|json|syntax|type)\b|\bmust match\b|\b(?:does not|doesn't) match (?:the )?(?:pattern|format|regex)\b|\bnot a valid\b|\bmalformed\b|\b(?:could not|cannot|failed to|unable to) parse\b|\binput should be a valid\b|\bexpected (?:a |an )?\w+,? (?:but )?(?:got|found|received)\b|\bis not of type\b|\binvalid type\b|\bwrong format\b".to_owned(),
        ),
        (
            C::IncorrectParameter,
            r"\bmust be one of\b|\binvalid (?:choice|option|value|argument|parameter|name|id)\b|\bnot found\b|\bdoes not exist\b|\bno such\b|\bmanifest unknown\b|\bunknown \w+|\bcould not find\b|\bout of range\b|\bnot (?:a )?(?:supported|recogni[sz]ed|known)\b|\bno \w+ (?:matches|named|with)\b".to_owned(),
        ),
    ];
    rows.into_iter()
        .map(|(category, text)| {
            let regex = Regex::new(&format!("(?is){text}")).expect("a constant expression");
            (category, regex)
        })
        .collect()
}
