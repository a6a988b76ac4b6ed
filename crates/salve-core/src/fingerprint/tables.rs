//! The built-in tables as they are written: TOML files in `data`.
//!
//! The build script reads them and carries them over into the program. In the crate only tests
//! do, to check every example and that the program carries what was written.

use serde::Deserialize;

use super::table::grams::{COUNTERS, Common, GramWords, Grams, counter, runs};
use super::table::index::RowIndex;
use super::table::kept::Kept;
use super::table::pattern::Pattern;
use super::table::row::{AnchorRow, ClassRow};
use super::table::vocabulary::WORDS;

/// The built-in anchor tables by name, each a file in `anchors`; their rows are numbered in this order.
pub(crate) const NAMES: &[&str] = &[
    "node",
    "typescript",
    "frontend",
    "python",
    "test",
    "rust",
    "go",
    "java",
    "native",
    "container",
    "git",
    "database",
    "cloud",
    "system",
    "network",
    "other",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnchorFile {
    #[serde(default)]
    pub(crate) anchor: Vec<AnchorRow>,
}

/// A file of class rules.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClassFile {
    #[serde(default)]
    pub(crate) rule: Vec<ClassRow>,
}

/// Counts the runs in all literals of a table.
pub(crate) fn common(rows: &[Vec<Pattern>]) -> Common {
    let mut counters = Box::new([0_u16; COUNTERS]);
    let literals = rows.iter().flatten().flat_map(Pattern::literals);
    for (_, run) in literals.flat_map(|literal| runs(literal.as_bytes())) {
        let counter = &mut counters[counter(run)];
        *counter = counter.saturating_add(1);
    }
    Common(Kept::Made(counters))
}

/// Indexes the shapes of a whole table, row by row.
pub(crate) fn index(rows: &[Vec<Pattern>], common: &Common) -> RowIndex {
    let words: Vec<String> = WORDS.iter().map(|(word, _)| (*word).to_owned()).collect();
    let vocabulary = RowIndex { words: GramWords::new(&words, common), grams: Grams::default() };
    vocabulary.with(0, rows, common)
}
