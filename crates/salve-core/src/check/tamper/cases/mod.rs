//! The tests in a file.

mod brace;
mod python;
mod script;

use std::ops::Range;

use super::text::{Language, SourceText};

pub(super) use python::is_dead;

/// The most tests that are looked at in a file.
const MOST: usize = 5_000;

/// One test, or a group of them.
#[derive(Debug)]
pub(super) struct Test {
    /// Its name, with what it stands in where the language has such.
    pub(super) name: String,
    /// Where it begins, marks included.
    pub(super) start: usize,
    /// Where its body begins and ends.
    pub(super) body: Range<usize>,
    /// What is said about it: decorators, attributes, `.skip`.
    pub(super) marks: Vec<String>,
    /// Whether it is a group of tests.
    pub(super) group: bool,
}

/// Returns the tests of a file that its runner would collect.
pub(super) fn tests(source: &SourceText<'_>) -> Vec<Test> {
    let mut tests = match source.language {
        Language::Python => python::tests(source),
        Language::Script => script::tests(source),
        Language::Rust => brace::rust(source),
        Language::Go => brace::go(source),
    };
    tests.truncate(MOST);
    tests
}
