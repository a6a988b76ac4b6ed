//! The built-in tables, as the build script wrote them into the program.
//!
//! Nothing is parsed or built when a process starts. A row is compiled when a line may match it,
//! which in the life of most processes is a few dozen of many.

use std::sync::OnceLock;

use super::anchor::Anchor;
use super::table::classes::{Classes, WordList::*};
use super::table::grams::{Common, GramTable, GramWords, Grams};
use super::table::index::RowIndex;
use super::table::kept::Kept;
use super::table::row::AnchorRow;
use crate::class::Class::*;

// `COUNT`, `ROWS`, `STARTS`, `COMMON`, `INDEX` and `CLASSES`: see `build.rs`.
include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// The rows that were needed so far.
static ANCHORS: [OnceLock<Option<Box<Anchor>>>; COUNT] = [const { OnceLock::new() }; COUNT];

/// Returns the number of the row with this id.
pub(super) fn number_of(id: &str) -> Option<usize> {
    let begins = format!("{{\"id\":\"{id}\",");
    let text = |number: usize| ROWS.get(STARTS[number] as usize..).unwrap_or_default();
    (0..COUNT).find(|number| text(*number).starts_with(&begins))
}

/// Returns a row by its number.
pub(super) fn anchor(number: usize) -> Option<&'static Anchor> {
    let compile = || {
        let text = ROWS.get(STARTS[number] as usize..STARTS[number + 1] as usize)?;
        // The build refused every row that does not compile.
        let row: AnchorRow = serde_json::from_str(text).ok()?;
        Anchor::compile(row).ok().map(Box::new)
    };
    ANCHORS.get(number)?.get_or_init(compile).as_deref()
}
