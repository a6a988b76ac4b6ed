//! The rules in force: built-in rows, the user's own, and what finds them in a text.

use std::collections::HashSet;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::anchor::{Anchor, AnchorError, AnchorFile, AnchorRow, agrees, identity};
use super::classify::{self, ClassError, ClassFile, ClassRow, Classes};
use super::grams::{Common, Grams, Words};
use super::shape::{MIN_LITERAL, Shape};
use super::vocabulary::WORDS;

/// How much of a shape's longest literal makes a line a candidate.
const FRAGMENT: usize = 20;

/// The built-in tables, by file name.
const FILES: &[(&str, &str)] = &[
    ("node", include_str!("../../data/anchors/node.toml")),
    ("typescript", include_str!("../../data/anchors/typescript.toml")),
    ("frontend", include_str!("../../data/anchors/frontend.toml")),
    ("python", include_str!("../../data/anchors/python.toml")),
    ("test", include_str!("../../data/anchors/test.toml")),
    ("rust", include_str!("../../data/anchors/rust.toml")),
    ("go", include_str!("../../data/anchors/go.toml")),
    ("java", include_str!("../../data/anchors/java.toml")),
    ("native", include_str!("../../data/anchors/native.toml")),
    ("container", include_str!("../../data/anchors/container.toml")),
    ("git", include_str!("../../data/anchors/git.toml")),
    ("database", include_str!("../../data/anchors/database.toml")),
    ("cloud", include_str!("../../data/anchors/cloud.toml")),
    ("system", include_str!("../../data/anchors/system.toml")),
    ("network", include_str!("../../data/anchors/network.toml")),
    ("other", include_str!("../../data/anchors/other.toml")),
];

/// Why a table or a row of it cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A table is not valid TOML, or a row lacks a field or has an unknown one.
    #[error("table `{table}`: {reason}")]
    Table {
        /// The table's name.
        table: String,
        /// What the parser says.
        reason: String,
    },
    /// An anchor cannot be used.
    #[error("anchor `{id}`: {source}")]
    Anchor {
        /// The row's id.
        id: String,
        /// What is wrong with it.
        source: AnchorError,
    },
    /// A rule of the class table cannot be used.
    #[error("class rule `{name}`: {source}")]
    Class {
        /// The rule's name.
        name: String,
        /// What is wrong with it.
        source: ClassError,
    },
}

/// The rules by which failures are recognised.
#[derive(Debug)]
pub struct Rules {
    pub(crate) anchors: Vec<Anchor>,
    /// Finds the lines that may name a failure: the vocabulary first, then a part of each shape
    /// that has no word of the vocabulary in it.
    pub(crate) words: Words,
    /// Finds the shapes that may match such a line.
    pub(crate) grams: Grams,
    pub(crate) classes: Classes,
}

/// Rows of both tables.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Known failures.
    pub anchors: Vec<AnchorRow>,
    /// How other failures are classified.
    pub classes: Vec<ClassRow>,
}

static BUILT_IN: LazyLock<Rules> = LazyLock::new(|| {
    // A test proves that every built-in row loads, so nothing is lost here.
    Rules::lenient(&parse_files().0).0
});

/// Parses the built-in tables, setting broken ones aside.
fn parse_files() -> (Rows, Vec<RuleError>) {
    let mut rows = Rows::default();
    let mut errors = Vec::new();
    for (table, text) in FILES {
        match parse_anchors(table, text) {
            Ok(more) => rows.anchors.extend(more),
            Err(error) => errors.push(error),
        }
    }
    match parse_classes("classes", classify::BUILT_IN) {
        Ok(more) => rows.classes = more,
        Err(error) => errors.push(error),
    }
    (rows, errors)
}

/// Parses a table of anchors (`[[anchor]]`); errors name `table`.
pub fn parse_anchors(table: &str, text: &str) -> Result<Vec<AnchorRow>, RuleError> {
    let file: Result<AnchorFile, _> = toml::from_str(text);
    file.map(|file| file.anchor).map_err(|error| broken(table, &error))
}

/// Parses a table of class rules (`[[rule]]`); errors name `table`.
pub fn parse_classes(table: &str, text: &str) -> Result<Vec<ClassRow>, RuleError> {
    let file: Result<ClassFile, _> = toml::from_str(text);
    file.map(|file| file.rule).map_err(|error| broken(table, &error))
}

fn broken(table: &str, error: &toml::de::Error) -> RuleError {
    RuleError::Table { table: table.to_owned(), reason: error.to_string() }
}

impl Rules {
    /// Returns the built-in rules.
    pub fn built_in() -> &'static Rules {
        &BUILT_IN
    }

    /// Builds the rules with the user's own rows before the built-in ones.
    ///
    /// # Errors
    /// Names every row that does not compile or breaks the promise of its own examples.
    pub fn with_user(user: &Rows) -> Result<Rules, Vec<RuleError>> {
        let (built_in, _) = parse_files();
        let mut rows = user.clone();
        rows.anchors.extend(built_in.anchors);
        rows.classes.extend(built_in.classes);
        let (rules, mut errors) = Rules::lenient(&rows);
        if errors.is_empty() {
            errors = rules.check_examples(user);
        }
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }

    /// Compiles the rows that can be, and reports the others.
    fn lenient(rows: &Rows) -> (Rules, Vec<RuleError>) {
        let mut errors = Vec::new();
        let mut anchors: Vec<Anchor> = Vec::new();
        for (number, row) in rows.anchors.iter().enumerate() {
            match Anchor::compile(row, number) {
                Ok(anchor) => anchors.push(anchor),
                Err(source) => errors.push(RuleError::Anchor { id: row.id.clone(), source }),
            }
        }
        let (classes, broken) = Classes::compile(&rows.classes);
        errors.extend(broken.into_iter().map(|(name, source)| RuleError::Class { name, source }));
        let mut common = Common::default();
        let literals = anchors.iter().flat_map(|anchor| &anchor.shapes).flat_map(Shape::literals);
        literals.for_each(|literal| common.count(literal));
        let shapes = (0..).zip(&anchors).flat_map(|(number, anchor): (u32, &Anchor)| {
            (0..).zip(&anchor.shapes).map(move |(shape, compiled)| ((number, shape), compiled))
        });
        let grams = Grams::new(shapes, &common);
        let words = Words::new(words(&anchors), &common);
        (Rules { anchors, words, grams, classes }, errors)
    }

    /// Checks the examples of `rows`, which are the first ones of these rules.
    pub fn check_examples(&self, rows: &Rows) -> Vec<RuleError> {
        let mut errors = Vec::new();
        for (number, row) in rows.anchors.iter().enumerate() {
            let mut fail = |source| errors.push(RuleError::Anchor { id: row.id.clone(), source });
            for example in &row.examples {
                let (got, values) = self.winner(&example.text).unwrap_or(("nothing", Vec::new()));
                let holes = example.holes.iter();
                let fits = values.len() == example.holes.len()
                    && values.iter().zip(holes).all(|(got, want)| agrees(got, want));
                if got != row.id || !fits {
                    let want = identity(&row.id, &example.holes);
                    let got = identity(got, &values);
                    fail(AnchorError::Example { text: example.text.clone(), want, got });
                }
            }
            for text in &row.counter {
                if self.row_matches(number, text) {
                    fail(AnchorError::Counter(text.clone()));
                }
            }
        }
        let classes = self.classes.check(&rows.classes).into_iter();
        errors.extend(classes.map(|(name, source)| RuleError::Class { name, source }));
        errors
    }
}

/// Collects the words that make a line a candidate: the vocabulary, then what is needed to find every shape.
fn words(anchors: &[Anchor]) -> Vec<String> {
    let mut words: Vec<String> = WORDS.iter().map(|(word, _)| (*word).to_owned()).collect();
    // Raw lines may have other quotes, so a word with one in it promises nothing.
    let sure = WORDS.iter().map(|(word, _)| *word).filter(|word| !word.contains('\''));
    let sure = AhoCorasick::new(sure).ok();
    let mut seen = HashSet::new();
    for shape in anchors.iter().flat_map(|anchor| &anchor.shapes) {
        let lower: Vec<String> = shape.literals().map(str::to_ascii_lowercase).collect();
        if sure.as_ref().is_some_and(|sure| lower.iter().any(|literal| sure.is_match(literal))) {
            continue;
        }
        let fragment = fragment(&lower);
        if seen.insert(fragment.clone()) {
            words.push(fragment);
        }
    }
    words
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_row_loads_and_keeps_its_promises() {
        let (rows, mut errors) = parse_files();
        let (rules, more) = Rules::lenient(&rows);
        errors.extend(more);
        errors.extend(rules.check_examples(&rows));
        let report: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{} broken rows:\n{}", errors.len(), report.join("\n"));
    }

    #[test]
    fn a_broken_user_row_is_named() {
        let row = |shape: &str, example: &str| {
            let text = format!(
                "[[anchor]]\nid = \"my.own\"\nclass = \"build_error\"\nshapes = [\"{shape}\"]\n\
                 identify = [\"what\"]\nexamples = [{{ text = \"{example}\", holes = [\"x\"] }}]\n"
            );
            Rows { anchors: parse_anchors("salve.toml", &text).unwrap(), classes: Vec::new() }
        };
        let errors =
            Rules::with_user(&row("frobnicator broke on {what:word}", "nope")).unwrap_err();
        assert_eq!(
            errors[0].to_string(),
            "anchor `my.own`: its example `nope` gives nothing, not my.own(\"x\")"
        );
        let errors = Rules::with_user(&row("abc {what", "x")).unwrap_err();
        assert_eq!(
            errors[0].to_string(),
            "anchor `my.own`: shape `abc {what`: `{` is never closed"
        );
        let fine = row("frobnicator broke on {what:word}", "error: frobnicator broke on x");
        let rules = Rules::with_user(&fine).unwrap();
        assert_eq!(rules.recognise("frobnicator broke on y").as_deref(), Some("my.own(\"y\")"));
    }
}
