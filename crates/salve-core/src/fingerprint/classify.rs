//! Classifies a line that no anchor knows, by a rule table that is data.

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Deserialize;

use crate::class::Class;

/// The built-in table.
pub(crate) const BUILT_IN: &str = include_str!("../../data/classes.toml");

/// One row of the table as it is written in TOML.
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

/// A file of rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClassFile {
    #[serde(default)]
    pub(crate) rule: Vec<ClassRow>,
}

/// Why a row cannot be used.
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

/// Which list of a row a word is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Any,
    Also,
    Never,
}

/// What one row has seen in a line.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    any: bool,
    also: bool,
    never: bool,
}

/// The compiled table.
#[derive(Debug)]
pub(crate) struct Classes {
    automaton: Option<AhoCorasick>,
    /// Where each word of the automaton stands: row and list.
    words: Vec<(usize, List)>,
    rows: Vec<(Class, bool)>,
}

impl Classes {
    /// Compiles the rows that can be, and reports the others by name.
    pub(crate) fn compile(rows: &[ClassRow]) -> (Self, Vec<(String, ClassError)>) {
        let mut errors = Vec::new();
        let mut patterns = Vec::new();
        let mut words = Vec::new();
        let mut compiled = Vec::new();
        for row in rows {
            if row.any.is_empty()
                || row.any.iter().chain(&row.also).chain(&row.never).any(String::is_empty)
            {
                errors.push((row.name.clone(), ClassError::NoWords));
                continue;
            }
            for (list, texts) in
                [(List::Any, &row.any), (List::Also, &row.also), (List::Never, &row.never)]
            {
                for text in texts {
                    patterns.push(super::flat::flatten_word(text));
                    words.push((compiled.len(), list));
                }
            }
            compiled.push((row.class, row.also.is_empty()));
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(&patterns)
            .ok();
        (Self { automaton, words, rows: compiled }, errors)
    }

    /// Returns the class of a flat line, if any row applies.
    pub(crate) fn classify(&self, flat: &str) -> Option<Class> {
        self.applying(flat).next().map(|row| self.rows[row].0)
    }

    /// Returns the rows that apply to a flat line, first one first.
    fn applying(&self, flat: &str) -> impl Iterator<Item = usize> {
        let mut seen = vec![Seen::default(); self.rows.len()];
        let hits = self.automaton.iter().flat_map(|all| all.find_overlapping_iter(flat));
        for hit in hits.filter(|hit| is_word(flat.as_bytes(), hit.start(), hit.end())) {
            let (row, list) = self.words[hit.pattern().as_usize()];
            match list {
                List::Any => seen[row].any = true,
                List::Also => seen[row].also = true,
                List::Never => seen[row].never = true,
            }
        }
        let free: Vec<bool> = self.rows.iter().map(|(_, free)| *free).collect();
        seen.into_iter().zip(free).enumerate().filter_map(|(row, (seen, free))| {
            (seen.any && (seen.also || free) && !seen.never).then_some(row)
        })
    }

    /// Checks the examples of `rows`, which are the first ones of the table.
    pub(crate) fn check(&self, rows: &[ClassRow]) -> Vec<(String, ClassError)> {
        let mut errors = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            for text in &row.examples {
                let got = self.classify(&super::flat::flatten(text)).unwrap_or(Class::Unknown);
                if got != row.class {
                    errors
                        .push((row.name.clone(), ClassError::Example { text: text.clone(), got }));
                }
            }
            for text in &row.counter {
                if self.applying(&super::flat::flatten(text)).any(|applies| applies == number) {
                    errors.push((row.name.clone(), ClassError::Counter(text.clone())));
                }
            }
        }
        errors
    }
}

/// Returns whether a hit starts where a word does, and, if it ends with a digit, ends with it.
fn is_word(line: &[u8], start: usize, end: usize) -> bool {
    let opens = start == 0
        || !line[start].is_ascii_alphanumeric()
        || !line[start - 1].is_ascii_alphanumeric();
    let number = line[end - 1].is_ascii_digit();
    opens
        && !(number
            && line.get(end).is_some_and(u8::is_ascii_digit)
            && line[start].is_ascii_digit())
}
