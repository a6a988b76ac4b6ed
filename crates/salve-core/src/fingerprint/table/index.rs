//! What finds the rows of the anchor table in a text.

use std::collections::HashSet;

use super::grams::{Common, GramWords, Grams};
use super::pattern::{MIN_LITERAL, Pattern};
use super::vocabulary::WORDS;

/// How much of a shape's longest literal makes a line a candidate.
const FRAGMENT: usize = 20;

/// Finds candidate lines, and the shapes that may match them.
#[derive(Debug)]
pub(crate) struct RowIndex {
    /// Finds the lines that may name a failure: the vocabulary first, then a part of each shape
    /// that has no word of the vocabulary in it.
    pub(crate) words: GramWords,
    /// Finds the shapes that may match such a line.
    pub(crate) grams: Grams,
}

impl RowIndex {
    /// Indexes more shapes, before the others; their rows are numbered from `first` on.
    pub(crate) fn with(&self, first: u32, rows: &[Vec<Pattern>], common: &Common) -> Self {
        let shapes = (first..).zip(rows).flat_map(|(row, patterns)| {
            (0..).zip(patterns).map(move |(shape, pattern)| ((row, shape), pattern))
        });
        Self {
            words: self.words.with(&fragments(rows), common),
            grams: self.grams.with(shapes, common),
        }
    }
}

/// Collects what is needed besides the vocabulary to find a line of every shape.
fn fragments(rows: &[Vec<Pattern>]) -> Vec<String> {
    // Raw lines may have other quotes, so a word with one in it promises nothing.
    let sure = WORDS.iter().map(|(word, _)| *word).filter(|word| !word.contains('\''));
    let sure: Vec<&str> = sure.collect();
    let mut seen = HashSet::new();
    let mut fragments = Vec::new();
    for pattern in rows.iter().flatten() {
        let lower: Vec<String> = pattern.literals().map(str::to_ascii_lowercase).collect();
        if lower.iter().any(|literal| sure.iter().any(|word| literal.contains(word))) {
            continue;
        }
        let fragment = fragment(&lower);
        if seen.insert(fragment.clone()) {
            fragments.push(fragment);
        }
    }
    fragments
}

/// Returns the part of a shape's literals that makes a line a candidate: the end of the longest
/// stretch without quotes, which raw lines may have in other kinds.
fn fragment(literals: &[String]) -> String {
    let stretches = literals.iter().flat_map(|literal| literal.split('\''));
    let longest = stretches.max_by_key(|stretch| stretch.trim().len()).unwrap_or_default().trim();
    let whole = literals.iter().max_by_key(|literal| literal.len()).map_or("", |l| l.as_str());
    let part = if longest.len() >= MIN_LITERAL { longest } else { whole };
    let start = part.len().saturating_sub(FRAGMENT);
    let start = (start..part.len()).find(|at| part.is_char_boundary(*at)).unwrap_or(0);
    part[start..].to_owned()
}
