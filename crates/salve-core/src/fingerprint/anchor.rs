//! A known failure: a row of the anchor table, ready to be tried on a line.

use super::flat::{Flat, flatten};
use super::hole::trim_end;
use super::lexer::mask;
use super::shape::{Budget, Shape};
use super::table::row::{AnchorError, AnchorRow, RowPatterns, class_weight};
use crate::class::Class;

/// A compiled row.
#[derive(Debug)]
pub(crate) struct Anchor {
    pub(crate) id: String,
    pub(crate) class: Class,
    pub(crate) error_type: String,
    pub(crate) identify: Vec<String>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) near: Vec<Shape>,
    pub(crate) require: Vec<String>,
    pub(crate) any: Vec<String>,
    pub(crate) weight: u8,
    pub(crate) frame: bool,
}

impl Anchor {
    /// Compiles a row.
    pub(crate) fn compile(row: AnchorRow) -> Result<Self, AnchorError> {
        let RowPatterns { shapes, near } = row.patterns()?;
        Ok(Self {
            class: row.class,
            error_type: row.error_type.unwrap_or_else(|| row.id.clone()),
            id: row.id,
            identify: row.identify,
            shapes: shapes.into_iter().map(Shape::from).collect(),
            near: near.into_iter().map(Shape::from).collect(),
            require: row.require,
            any: row.any,
            weight: row.weight.unwrap_or_else(|| class_weight(row.class)),
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
        flat: &Flat,
        budget: &Budget,
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

    /// Returns whether the row asks for words elsewhere in the output.
    pub(crate) fn asks(&self) -> bool {
        !self.require.is_empty() || !self.any.is_empty()
    }

    /// Returns whether the whole output has the words that the row asks for.
    pub(crate) fn fits(&self, whole: &str) -> bool {
        let has = |word: &String| memchr::memmem::find(whole.as_bytes(), word.as_bytes()).is_some();
        self.require.iter().all(has) && (self.any.is_empty() || self.any.iter().any(has))
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
