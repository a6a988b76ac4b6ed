//! The rules in force: built-in rows, the user's own, and the automaton that finds them.

use std::collections::HashMap;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::anchor::{Anchor, AnchorError, AnchorFile, AnchorRow, agrees, identity};
use super::classify::{self, ClassError, ClassFile, ClassRow, Classes};
use super::shape::MIN_LITERAL;
use super::vocabulary::{Says, WORDS};

/// How much of a shape's longest literal the automaton looks for.
const FRAGMENT: usize = 16;

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
    /// The automaton cannot be built.
    #[error("too many rules: {0}")]
    Automaton(String),
}

/// What one pattern of the automaton stands for.
#[derive(Debug, Default)]
pub(crate) struct Pattern {
    /// What the vocabulary says about it.
    pub(crate) says: Option<Says>,
    /// The shapes that rest on it: anchor and shape number.
    pub(crate) shapes: Vec<(u32, u32)>,
}

/// The rules by which failures are recognised.
#[derive(Debug)]
pub struct Rules {
    pub(crate) anchors: Vec<Anchor>,
    pub(crate) automaton: AhoCorasick,
    pub(crate) patterns: Vec<Pattern>,
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
        let (words, patterns) = index(&anchors);
        let automaton = automaton(&words).unwrap_or_else(|error| {
            errors.push(error);
            words_alone()
        });
        (Rules { anchors, automaton, patterns, classes }, errors)
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

/// Returns an automaton of the vocabulary alone, for when there are more rows than one can hold.
fn words_alone() -> AhoCorasick {
    let words = WORDS.iter().map(|(word, _)| *word);
    match AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .build(words)
    {
        Ok(automaton) => automaton,
        Err(_) => unreachable!("a hundred short words always fit"),
    }
}

/// Collects the automaton's words and what each stands for.
fn index(anchors: &[Anchor]) -> (Vec<String>, Vec<Pattern>) {
    let mut words = Vec::new();
    let mut patterns: Vec<Pattern> = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut slot = |word: String, patterns: &mut Vec<Pattern>| {
        *seen.entry(word).or_insert_with_key(|word| {
            words.push(word.clone());
            patterns.push(Pattern::default());
            patterns.len() - 1
        })
    };
    for (word, says) in WORDS {
        let at = slot((*word).to_owned(), &mut patterns);
        patterns[at].says = Some(*says);
    }
    for (number, anchor) in (0..).zip(anchors) {
        for (shape, compiled) in (0..).zip(&anchor.shapes) {
            let at = slot(fragment(compiled.literal()), &mut patterns);
            patterns[at].shapes.push((number, shape));
        }
    }
    (words, patterns)
}

/// Returns the part of a literal that the automaton looks for.
///
/// Raw lines have quotes of other kinds, so a part without any is better if it is long enough.
fn fragment(literal: &str) -> String {
    let longest = |best: &'_ str, next: &'_ str| next.len() > best.len();
    let plain =
        literal.split('\'').fold("", |best, next| if longest(best, next) { next } else { best });
    let part = if plain.trim().len() >= MIN_LITERAL { plain } else { literal };
    let end = (0..=FRAGMENT.min(part.len())).rev().find(|at| part.is_char_boundary(*at));
    part[..end.unwrap_or(0)].to_ascii_lowercase()
}

fn automaton(words: &[String]) -> Result<AhoCorasick, RuleError> {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(words)
        .map_err(|error| RuleError::Automaton(error.to_string()))
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
