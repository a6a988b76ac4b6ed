//! The rules in force: the built-in rows and the user's own.

use super::anchor::{Anchor, agrees, identity};
use super::built_in;
use super::flat::flatten;
use super::table::classes::Classes;
use super::table::index::RowIndex;
use super::table::kept::Kept;
use super::table::pattern::Pattern;
use super::table::row::{AnchorError, AnchorRow, ClassError, ClassRow};
use crate::class::Class;

/// Why a row cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
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

/// A row of the tables that knows a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecognisedRow {
    pub id: String,
    /// The names of its holes and what they caught.
    pub holes: Vec<(String, String)>,
}

/// The rules by which failures are recognised.
#[derive(Debug)]
pub struct FingerprintRules {
    /// Finds the anchors, the built-in ones and the user's own.
    pub(crate) index: Kept<RowIndex>,
    /// The user's own anchors, numbered after the built-in ones.
    own: Vec<Anchor>,
    /// The user's own class rules, which come before the built-in ones.
    own_classes: Option<Classes>,
    /// What tells the user's own rows from others; 0 where there are none.
    own_digest: u64,
    /// A row that weighs what its class gives, whatever it says itself.
    #[cfg(test)]
    plain_row: Option<usize>,
}

/// Rows of both tables.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Known failures.
    pub anchors: Vec<AnchorRow>,
    /// How other failures are classified.
    pub classes: Vec<ClassRow>,
}

static BUILT_IN: FingerprintRules = FingerprintRules {
    index: Kept::Fixed(&built_in::INDEX),
    own: Vec::new(),
    own_classes: None,
    own_digest: 0,
    #[cfg(test)]
    plain_row: None,
};

impl FingerprintRules {
    /// Returns the built-in rules.
    pub fn built_in() -> &'static FingerprintRules {
        &BUILT_IN
    }

    /// Builds the rules with the user's own rows before the built-in ones.
    ///
    /// # Errors
    /// Names every row that does not compile or breaks the promise of its own examples.
    pub fn with_user(user: &Rows) -> Result<FingerprintRules, Vec<RowError>> {
        let mut errors = Vec::new();
        let mut patterns: Vec<Vec<Pattern>> = Vec::new();
        let mut own = Vec::new();
        for row in &user.anchors {
            let both = row.patterns().and_then(|p| Ok((p.shapes, Anchor::compile(row.clone())?)));
            match both {
                Ok((shapes, anchor)) => {
                    patterns.push(shapes);
                    own.push(anchor);
                }
                Err(source) => errors.push(RowError::Anchor { id: row.id.clone(), source }),
            }
        }
        let (classes, broken) = Classes::compile(&user.classes, &built_in::COMMON);
        errors.extend(broken.into_iter().map(|(name, source)| RowError::Class { name, source }));
        if !errors.is_empty() {
            return Err(errors);
        }
        let first = u32::try_from(built_in::COUNT).unwrap_or(u32::MAX);
        let index = built_in::INDEX.with(first, &patterns, &built_in::COMMON);
        let index = Kept::Made(Box::new(index));
        let own_digest = match user {
            Rows { anchors, classes } if anchors.is_empty() && classes.is_empty() => 0,
            rows => super::sign(&format!("{rows:?}")).0,
        };
        let rules = FingerprintRules {
            index,
            own,
            own_classes: Some(classes),
            own_digest,
            #[cfg(test)]
            plain_row: None,
        };
        errors.extend(rules.check_anchors(built_in::COUNT, &user.anchors));
        errors.extend(rules.check_classes(rules.own_classes.as_ref(), &user.classes));
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }

    /// Returns what tells these tables from others: another one may know the same failure by
    /// another signature.
    pub fn tables_digest(&self) -> String {
        format!("{}-{:016x}-{:016x}", super::VERSION, built_in::DIGEST, self.own_digest)
    }

    /// Returns whether the row with this id names the failure on a line by itself; `None` where
    /// there is no such row.
    pub fn row_names_line(&self, id: &str, line: &str) -> Option<bool> {
        let own = self.own.iter().position(|row| row.id == id).map(|at| built_in::COUNT + at);
        let number = own.or_else(|| built_in::number_of(id))?;
        Some(self.row_matches(number, line))
    }

    /// Returns the row that knows a failure by its identity, with the values of its holes.
    ///
    /// A value with a character that only Rust escapes so is left out.
    pub fn recognised_row(&self, identity: &str) -> Option<RecognisedRow> {
        let (id, values) = identity.split_once('(').unwrap_or((identity, ")"));
        let own = self.own.iter().find(|row| row.id == id);
        let row = own.or_else(|| built_in::anchor(built_in::number_of(id)?))?;
        let list = format!("[{}]", values.strip_suffix(')').unwrap_or(values));
        let values: Vec<String> = serde_json::from_str(&list).unwrap_or_default();
        let holes = row.identify.iter().cloned().zip(values).collect();
        Some(RecognisedRow { id: id.to_owned(), holes })
    }

    /// Returns an anchor by its number.
    pub(crate) fn anchor(&self, number: usize) -> Option<&Anchor> {
        match number.checked_sub(built_in::COUNT) {
            Some(number) => self.own.get(number),
            None => built_in::anchor(number),
        }
    }

    /// Returns how surely the line of an anchor names the failure.
    pub(crate) fn weight(&self, number: usize, anchor: &Anchor) -> u8 {
        #[cfg(test)]
        if self.plain_row == Some(number) {
            return super::table::row::class_weight(anchor.class);
        }
        let _ = number;
        anchor.weight
    }

    /// Returns the class of a flat line, if any rule applies.
    pub(crate) fn classify(&self, flat: &str) -> Option<Class> {
        let own = self.own_classes.as_ref().and_then(|own| own.classify(flat));
        own.or_else(|| built_in::CLASSES.classify(flat))
    }

    /// Checks the examples of `rows`, which are numbered from `first` on in these rules.
    fn check_anchors(&self, first: usize, rows: &[AnchorRow]) -> Vec<RowError> {
        let mut errors = Vec::new();
        for (number, row) in (first..).zip(rows) {
            let mut fail = |source| errors.push(RowError::Anchor { id: row.id.clone(), source });
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
        errors
    }

    /// Checks the examples of `rows`, of which `compiled` was made.
    fn check_classes(&self, compiled: Option<&Classes>, rows: &[ClassRow]) -> Vec<RowError> {
        let mut errors = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            let mut fail = |source| errors.push(RowError::Class { name: row.name.clone(), source });
            for text in &row.examples {
                let got = self.classify(&flatten(text)).unwrap_or(Class::Unknown);
                if got != row.class {
                    fail(ClassError::Example { text: text.clone(), got });
                }
            }
            for text in &row.counter {
                let flat = flatten(text);
                let mut applying = compiled.iter().flat_map(|classes| classes.applying(&flat));
                if applying.any(|rule| rule == number) {
                    fail(ClassError::Counter(text.clone()));
                }
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::super::Hints;
    use super::super::table::row::class_weight;
    use super::super::tables::{self, AnchorFile, ClassFile, NAMES};
    use super::*;

    /// Parses the built-in tables, which the program itself does not have as text.
    fn tables() -> Rows {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/data");
        #[expect(clippy::disallowed_methods, reason = "the tables are read as they are written")]
        let read = |path: String| std::fs::read_to_string(path).unwrap();
        let anchors = NAMES.iter().flat_map(|name| {
            let text = read(format!("{data}/anchors/{name}.toml"));
            toml::from_str::<AnchorFile>(&text).unwrap().anchor
        });
        let classes = read(format!("{data}/classes.toml"));
        let classes = toml::from_str::<ClassFile>(&classes).unwrap().rule;
        Rows { anchors: anchors.collect(), classes }
    }

    /// **Invariant:** Every built-in row recognises its own examples and none of its counter-
    /// examples.
    #[test]
    fn every_built_in_row_loads_and_keeps_its_promises() {
        let (rows, rules) = (tables(), FingerprintRules::built_in());
        assert_eq!(rows.anchors.len(), built_in::COUNT);
        for (number, row) in rows.anchors.iter().enumerate() {
            let id = rules.anchor(number).map(|anchor| anchor.id.as_str());
            assert_eq!(id, Some(row.id.as_str()), "row {number}");
        }
        let mut errors = rules.check_anchors(0, &rows.anchors);
        errors.extend(rules.check_classes(Some(&built_in::CLASSES), &rows.classes));
        let report: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{} broken rows:\n{}", errors.len(), report.join("\n"));
    }

    #[test]
    fn a_weight_stands_in_a_row_only_where_its_class_gives_another() {
        for row in tables().anchors {
            assert_ne!(row.weight, Some(class_weight(row.class)), "row `{}`", row.id);
        }
    }

    #[test]
    fn the_row_of_an_identity_is_found_with_its_holes() {
        let rules = FingerprintRules::built_in();
        let row = |identity| rules.recognised_row(identity).map(|row| row.holes);
        let port = ("port".to_owned(), "3000".to_owned());
        assert_eq!(row("port.in_use(\"3000\")"), Some(vec![port]));
        assert_eq!(row("npm.lock_missing"), Some(Vec::new()));
        assert_eq!(row("port.in_use(\"\\u{7f}\")"), Some(Vec::new()));
        assert_eq!(row("no.such_row"), None);
    }

    #[test]
    fn the_program_carries_the_index_of_its_tables() {
        let rows = tables();
        let patterns = rows.anchors.iter().map(|row| row.patterns().unwrap().shapes);
        let patterns: Vec<Vec<Pattern>> = patterns.collect();
        let common = tables::common(&patterns);
        let index = tables::index(&patterns, &common);
        let (classes, errors) = Classes::compile(&rows.classes, &common);
        assert_eq!(errors, []);
        let same = |made: &dyn std::fmt::Debug, carried: &dyn std::fmt::Debug| {
            let made = format!("{made:?}").replace("Made(", "Fixed(");
            assert!(made == format!("{carried:?}"), "{}", &made[..60]);
        };
        same(&common, &built_in::COMMON);
        same(&index, &built_in::INDEX);
        same(&classes, &built_in::CLASSES);
    }

    #[test]
    fn a_broken_user_row_is_named() {
        let row = |shape: &str, example: &str| {
            let text = format!(
                "[[anchor]]\nid = \"my.own\"\nclass = \"build_error\"\nshapes = [\"{shape}\"]\n\
                 identify = [\"what\"]\nexamples = [{{ text = \"{example}\", holes = [\"x\"] }}]\n"
            );
            let anchors = toml::from_str::<AnchorFile>(&text).unwrap().anchor;
            Rows { anchors, classes: Vec::new() }
        };
        let errors = FingerprintRules::with_user(&row("frobnicator broke on {what:word}", "nope"))
            .unwrap_err();
        assert_eq!(
            errors[0].to_string(),
            "anchor `my.own`: its example `nope` gives nothing, not my.own(\"x\")"
        );
        let errors = FingerprintRules::with_user(&row("abc {what", "x")).unwrap_err();
        assert_eq!(
            errors[0].to_string(),
            "anchor `my.own`: shape `abc {what`: `{` is never closed"
        );
        let fine = row("frobnicator broke on {what:word}", "error: frobnicator broke on x");
        let rules = FingerprintRules::with_user(&fine).unwrap();
        let seen = rules.fingerprint("frobnicator broke on y", &Hints::default());
        assert_eq!(seen.identity.as_deref(), Some("my.own(\"y\")"));
    }
}
