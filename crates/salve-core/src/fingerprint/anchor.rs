//! The anchor table: known failures as data, each with the shapes of the line that names it.

use serde::Deserialize;

use super::flat::{Flat, flatten};
use super::hole::trim_end;
use super::lexer::mask;
use super::shape::{Budget, Shape, ShapeError};
use crate::class::Class;

/// One row of the table as it is written in TOML.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
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
    #[serde(default)]
    pub identify: Vec<String>,
    /// Shapes that add holes from the lines around.
    #[serde(default)]
    pub near: Vec<String>,
    /// Literals that must all occur somewhere in the output.
    #[serde(default)]
    pub require: Vec<String>,
    /// How surely the line names the failure.
    #[serde(default = "default_weight")]
    pub weight: u8,
    /// Whether ASCII case does not matter.
    #[serde(default)]
    pub fold: bool,
    /// Whether the top in-project frame joins the identity.
    #[serde(default)]
    pub frame: bool,
    /// Texts this row must recognise.
    #[serde(default)]
    pub examples: Vec<Example>,
    /// Texts this row must not match.
    #[serde(default)]
    pub counter: Vec<String>,
}

fn default_weight() -> u8 {
    50
}

/// A text that a row must recognise, and the identifying values in it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The output, of one line or several.
    pub text: String,
    /// The values of the identifying holes.
    #[serde(default)]
    pub holes: Vec<String>,
}

/// A file of rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnchorFile {
    #[serde(default)]
    pub(crate) anchor: Vec<AnchorRow>,
}

/// Why a row cannot be used.
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

/// A way to compile a shape.
type Make = fn(&str, bool) -> Result<Shape, ShapeError>;

/// A compiled row.
#[derive(Debug)]
pub(crate) struct Anchor {
    /// Which row of the table it was made from.
    pub(crate) row: usize,
    pub(crate) id: String,
    pub(crate) class: Class,
    pub(crate) error_type: String,
    pub(crate) identify: Vec<String>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) near: Vec<Shape>,
    pub(crate) require: Vec<String>,
    pub(crate) weight: u8,
    pub(crate) frame: bool,
}

impl Anchor {
    /// Compiles row `number`.
    pub(crate) fn compile(row: &AnchorRow, number: usize) -> Result<Self, AnchorError> {
        if row.shapes.is_empty() {
            return Err(AnchorError::NoShapes);
        }
        let compile = |sources: &[String], make: Make| -> Result<Vec<Shape>, AnchorError> {
            let shape = |source: &String| {
                make(source, row.fold)
                    .map_err(|error| AnchorError::Shape { shape: source.clone(), source: error })
            };
            sources.iter().map(shape).collect()
        };
        let shapes = compile(&row.shapes, Shape::anchored)?;
        let near = compile(&row.near, Shape::compile)?;
        for name in &row.identify {
            if !shapes.iter().chain(&near).flat_map(Shape::holes).any(|hole| hole == name) {
                return Err(AnchorError::UnknownHole(name.clone()));
            }
        }
        Ok(Self {
            row: number,
            id: row.id.clone(),
            class: row.class,
            error_type: row.error_type.clone().unwrap_or_else(|| row.id.clone()),
            identify: row.identify.clone(),
            shapes,
            near,
            require: row.require.clone(),
            weight: row.weight,
            frame: row.frame,
        })
    }

    /// Tries shape `index` on the flat line; `around` gives the flat lines near it, in the order
    /// in which they are searched, and is asked only when the row needs them.
    ///
    /// Returns the identifying values; a hole that the shape in use lacks is left empty.
    pub(crate) fn catch(
        &self,
        index: usize,
        (flat, budget): (&Flat, &Budget),
        around: impl FnOnce() -> Vec<Flat>,
    ) -> Option<Vec<String>> {
        let caught = self.shapes.get(index)?.find(flat, budget)?;
        let mut values = vec![None; self.identify.len()];
        self.keep(&caught, &mut values);
        if !self.near.is_empty() {
            let lines = around();
            for shape in &self.near {
                if let Some(caught) = lines.iter().find_map(|line| shape.find(line, budget)) {
                    self.keep(&caught, &mut values);
                }
            }
        }
        let own = |name: &str| self.shapes.iter().flat_map(Shape::holes).any(|hole| hole == name);
        let all = self.identify.iter().zip(values);
        all.map(|(name, value)| value.or_else(|| own(name).then(String::new))).collect()
    }

    /// Keeps the first value caught for each identifying hole.
    fn keep(&self, caught: &[super::shape::Catch<'_, '_>], values: &mut [Option<String>]) {
        for (name, kind, text) in caught {
            for (want, slot) in self.identify.iter().zip(values.iter_mut()) {
                if want == name && slot.is_none() {
                    *slot = Some(kind.value(text));
                }
            }
        }
    }
}

/// Returns whether an identifying value is the one an example promises.
///
/// A row's author writes what the line says; what varies in it is masked before it identifies.
pub(crate) fn agrees(got: &str, want: &str) -> bool {
    got == want || got == trim_end(&mask(&flatten(want)))
}

/// Writes an identity: `id`, or `id("a","b")`.
pub(crate) fn identity(id: &str, values: &[String]) -> String {
    if values.is_empty() {
        return id.to_owned();
    }
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("{id}({})", quoted.join(","))
}
