//! Whether a similar failure is the same kind of failure about the same things.

use std::collections::BTreeSet;

use crate::class::Class;

/// What one of two failures is, as far as agreeing needs it.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The failure's class.
    pub class: Class,
    /// Its identity, if an anchor named it: `port.in_use("3000")`.
    pub identity: Option<&'a str>,
    /// Its normalised text.
    pub normalized: &'a str,
}

/// Whether what cured one failure may be tried on another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NearAgreement {
    /// Class and everything that identifies are equal.
    Agrees,
    /// They are of different classes.
    ClassDiffers,
    /// Neither class is known, which is no agreement.
    ClassUnknown,
    /// What identifies differs: these are on one side only.
    IdentityDiffers(Vec<String>),
}

/// Says whether the remedies of `known` may be tried on `asked`.
///
/// Two named failures agree only when their identities are equal. Where no anchor knows either,
/// the texts must have the same quoted names, error codes, file names and numbers.
pub fn agree(asked: Side<'_>, known: Side<'_>) -> NearAgreement {
    if asked.class != known.class {
        return NearAgreement::ClassDiffers;
    }
    if asked.class == Class::Unknown {
        return NearAgreement::ClassUnknown;
    }
    let (a, b) = match (asked.identity, known.identity) {
        (Some(a), Some(b)) => (BTreeSet::from([a]), BTreeSet::from([b])),
        (None, None) => (marks(asked.normalized), marks(known.normalized)),
        // Known by name on one side and not on the other: those are not the same failure.
        (Some(name), None) | (None, Some(name)) => (BTreeSet::from([name]), BTreeSet::new()),
    };
    let differing: Vec<String> = a.symmetric_difference(&b).map(ToString::to_string).collect();
    if differing.is_empty() {
        NearAgreement::Agrees
    } else {
        NearAgreement::IdentityDiffers(differing)
    }
}

/// Returns the parts of a normalised text that say which failure it is.
fn marks(text: &str) -> BTreeSet<&str> {
    let mut marks = BTreeSet::new();
    let mut rest = text;
    while let Some(start) = rest.find(['\'', '"', '`']) {
        let (before, quoted) = rest.split_at(start);
        plain_marks(before, &mut marks);
        let quote = quoted.get(..1).unwrap_or_default();
        let inner = quoted.get(1..).unwrap_or_default();
        match inner.find(quote).filter(|&end| !inner.get(..end).unwrap_or("\n").contains('\n')) {
            Some(end) => {
                marks.extend(inner.get(..end).filter(|name| !name.is_empty()));
                rest = inner.get(end + 1..).unwrap_or_default();
            }
            // An apostrophe, not a quotation.
            None => rest = inner,
        }
    }
    plain_marks(rest, &mut marks);
    marks
}

fn plain_marks<'a>(text: &'a str, marks: &mut BTreeSet<&'a str>) {
    let words = text.split(|c: char| c.is_whitespace() || "(){}[],;:=".contains(c));
    let trimmed = words.map(|word| word.trim_matches(['.', '!', '?']));
    marks.extend(trimmed.filter(|word| !word.starts_with('<') && identifies(word)));
}

/// Returns whether a word is an error code, a number or a file name rather than prose.
fn identifies(word: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| word.bytes().any(|byte| kind(&byte));
    let shouted = word.len() >= 4 && !has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    let file = word.rsplit_once('.').is_some_and(|(name, kind)| {
        !name.is_empty()
            && (1..=5).contains(&kind.len())
            && kind.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    has(u8::is_ascii_digit) || shouted || file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(class: Class, text: &str) -> Side<'_> {
        Side { class, identity: None, normalized: text }
    }

    #[track_caller]
    fn check(a: &str, b: &str, differing: &[&str]) {
        let want = match differing {
            [] => NearAgreement::Agrees,
            _ => {
                NearAgreement::IdentityDiffers(differing.iter().map(ToString::to_string).collect())
            }
        };
        let class = Class::BuildError;
        assert_eq!(agree(side(class, a), side(class, b)), want, "{a:?} against {b:?}");
        assert_eq!(agree(side(class, b), side(class, a)), want, "{b:?} against {a:?}");
    }

    #[test]
    fn prose_may_differ() {
        check("cannot open the file 'a.txt'", "could not open file 'a.txt'", &[]);
        check("it doesn't link", "it does not link", &[]);
        check("build failed in <NUM>", "the build failed after <NUM>", &[]);
    }

    #[test]
    fn names_codes_files_and_numbers_may_not() {
        check("cannot open 'a'", "cannot open 'b'", &["a", "b"]);
        check("error TS2322 found", "error TS2345 found", &["TS2322", "TS2345"]);
        check("port 3000 taken", "port 4000 taken", &["3000", "4000"]);
        check("npm ERESOLVE", "npm failed", &["ERESOLVE"]);
        check("bad token in main.rs", "bad token in lib.rs", &["lib.rs", "main.rs"]);
    }

    #[test]
    fn class_comes_first_and_unknown_is_no_class() {
        use Class::{Network, Tls, Unknown};
        let text = "same text";
        assert_eq!(agree(side(Network, text), side(Tls, text)), NearAgreement::ClassDiffers);
        assert_eq!(agree(side(Unknown, text), side(Unknown, text)), NearAgreement::ClassUnknown);
    }

    /// **Invariant:** A near match only proposes: class and identity must agree.
    #[test]
    fn named_failures_agree_by_identity_alone() {
        let named = |identity| Side { class: Class::PortConflict, identity, normalized: "x" };
        let (three, four) = (Some("port.in_use(\"3000\")"), Some("port.in_use(\"4000\")"));
        assert_eq!(agree(named(three), named(three)), NearAgreement::Agrees);
        assert_ne!(agree(named(three), named(four)), NearAgreement::Agrees);
        assert_ne!(agree(named(three), named(None)), NearAgreement::Agrees);
    }
}
