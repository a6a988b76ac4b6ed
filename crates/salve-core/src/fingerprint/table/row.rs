//! The rows of both tables as they are written in TOML.

use serde::{Deserialize, Serialize};

use super::pattern::{LetterCase, Pattern, ShapeError};
use crate::class::Class;

/// One row of the anchor table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnchorRow {
    /// The stable name of the failure; it is part of the signature.
    pub id: String,
    /// The kind of the failure.
    pub class: Class,
    /// What a person calls it; the id if absent.
    pub error_type: Option<String>,
    /// The lines that name it; one has to match.
    pub shapes: Vec<String>,
    /// The holes that tell one such failure from another, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identify: Vec<String>,
    /// Shapes that add holes from the lines around.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<String>,
    /// Literals that must all occur somewhere in the output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<String>,
    /// Literals of which one must occur somewhere in the output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any: Vec<String>,
    /// How surely the line names the failure, where that does not follow from its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u8>,
    /// Whether ASCII case does not matter.
    #[serde(default)]
    pub fold: bool,
    /// Whether the top in-project frame joins the identity.
    #[serde(default)]
    pub frame: bool,
    /// Texts this row must recognise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Example>,
    /// Texts this row must not match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counter: Vec<String>,
}

/// Returns how surely a line names the failure if its row does not say so: the more one class of
/// failures brings about others, the more. A full disk breaks builds and tests; a failed test breaks
/// nothing else. On one line the row with more literal text wins.
pub(crate) fn class_weight(class: Class) -> u8 {
    match class {
        Class::RateLimit
        | Class::DiskFull
        | Class::Oom
        | Class::LockHeld
        | Class::Auth
        | Class::Permission
        | Class::ResourceLimit
        | Class::Hang
        | Class::MissingTool
        | Class::VersionMismatch => 60,
        Class::PortConflict
        | Class::DependencyConflict
        | Class::DependencyMissing
        | Class::Environment
        | Class::Tls
        | Class::ConfigError
        | Class::Timeout => 58,
        Class::Network | Class::DbError | Class::SyntaxError => 56,
        Class::ImportError
        | Class::BuildError
        | Class::RuntimeError
        | Class::TestFailure
        | Class::LintError
        | Class::Unknown => 54,
        Class::TypeError => 50,
    }
}

/// A text that a row must recognise, and the identifying values in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The output, of one line or several.
    pub text: String,
    /// The values of the identifying holes.
    #[serde(default)]
    pub holes: Vec<String>,
}

/// Why an anchor cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnchorError {
    /// A shape does not compile.
    #[error("shape `{shape}`: {source}")]
    Shape {
        /// The shape as written.
        shape: String,
        /// What is wrong with it.
        source: ShapeError,
    },
    /// The row has no shape.
    #[error("it has no shapes")]
    NoShapes,
    /// `identify` names a hole that no shape has.
    #[error("`identify` names `{0}`, which is a hole of no shape")]
    UnknownHole(String),
    /// An example is not recognised.
    #[error("its example `{text}` gives {got}, not {want}")]
    Example {
        /// The example.
        text: String,
        /// What it should give.
        want: String,
        /// What it gives.
        got: String,
    },
    /// A counter-example is recognised.
    #[error("it matches its counter-example `{0}`")]
    Counter(String),
}

/// The parsed shapes of a row.
#[derive(Debug)]
pub(crate) struct RowPatterns {
    /// Those of the line that names the failure.
    pub(crate) shapes: Vec<Pattern>,
    /// Those of the lines around it.
    pub(crate) near: Vec<Pattern>,
}

/// A way to parse a shape.
type Parse = fn(&str, LetterCase) -> Result<Pattern, ShapeError>;

impl AnchorRow {
    /// Parses the row's shapes and checks that they have every hole that identifies.
    pub(crate) fn patterns(&self) -> Result<RowPatterns, AnchorError> {
        if self.shapes.is_empty() {
            return Err(AnchorError::NoShapes);
        }
        let case = if self.fold { LetterCase::Any } else { LetterCase::Exact };
        let parse = |sources: &[String], parse: Parse| -> Result<Vec<Pattern>, AnchorError> {
            let pattern = |source: &String| {
                parse(source, case)
                    .map_err(|error| AnchorError::Shape { shape: source.clone(), source: error })
            };
            sources.iter().map(pattern).collect()
        };
        let shapes = parse(&self.shapes, Pattern::anchored)?;
        let near = parse(&self.near, Pattern::parse)?;
        for name in &self.identify {
            if !shapes.iter().chain(&near).flat_map(Pattern::holes).any(|hole| hole == name) {
                return Err(AnchorError::UnknownHole(name.clone()));
            }
        }
        Ok(RowPatterns { shapes, near })
    }
}

/// One row of the class table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassRow {
    /// What the row is called in messages.
    pub name: String,
    /// The class it gives.
    pub class: Class,
    /// Words of which one must occur.
    pub any: Vec<String>,
    /// Words of which one must occur, too.
    #[serde(default)]
    pub also: Vec<String>,
    /// Words of which none may occur.
    #[serde(default)]
    pub never: Vec<String>,
    /// Lines that must get this row's class.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Lines to which this row must not apply.
    #[serde(default)]
    pub counter: Vec<String>,
}

/// Why a class rule cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    /// It names no words.
    #[error("`any` is empty, or one of its words is")]
    NoWords,
    /// An example gets another class.
    #[error("its example `{text}` is classified as {got}")]
    Example {
        /// The example.
        text: String,
        /// What it is classified as.
        got: Class,
    },
    /// The row applies to a counter-example.
    #[error("it applies to its counter-example `{0}`")]
    Counter(String),
}
