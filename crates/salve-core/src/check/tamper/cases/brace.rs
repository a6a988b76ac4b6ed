//! Tests in Rust and Go, which are functions.

use std::ops::Range;

use super::super::text::{SourceText, near};
use super::{MOST, Test};

/// Returns the tests of a Rust file.
pub(super) fn rust(source: &SourceText<'_>) -> Vec<Test> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = source.bare[at..].find("#[").map(|n| at + n) {
        let start = next;
        let mut marks = Vec::new();
        at = next;
        // All attributes in a row belong to what follows them.
        while source.bare[at..].starts_with("#[") {
            let end = source.closing(at + 1);
            marks.push(source.said.get(at..end).unwrap_or_default().to_owned());
            at = end + blanks(&source.bare[end..]);
        }
        let is_test = marks.iter().any(|mark| makes_test(mark));
        if let Some(test) = is_test.then(|| function(source, at)).flatten()
            && found.len() < MOST
        {
            let (name, body) = test;
            at = body.end;
            let marks = marks.into_iter().filter(|mark| !makes_test(mark)).collect();
            found.push(Test { name, start, body, marks, group: false });
        }
        at = at.max(next + 2).min(source.bare.len());
    }
    found
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// Tells whether an attribute makes a function a test, as in `#[tokio::test(flavor = "…")]`.
fn makes_test(mark: &str) -> bool {
    let inner = mark.trim_start_matches("#[");
    let path = inner.split(['(', ']', ' ']).next().unwrap_or_default();
    let last = path.rsplit("::").next().unwrap_or(path);
    matches!(
        last,
        "test" | "rstest" | "test_case" | "wasm_bindgen_test" | "quickcheck" | "proptest"
    )
}

/// Reads `pub async fn name(…) -> T { … }`.
fn function(source: &SourceText<'_>, at: usize) -> Option<(String, Range<usize>)> {
    let rest = near(&source.bare, at, 2_000);
    let head = &rest[..rest.find(['{', ';'])?];
    let (_, after) = head.rsplit_once("fn ").filter(|(before, _)| {
        before.split_whitespace().all(|word| {
            matches!(word, "pub" | "async" | "const" | "unsafe") || word.starts_with("pub(")
        })
    })?;
    let end = after.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    let open = at + head.len();
    Some((after[..end].to_owned(), open + 1..source.closing(open).saturating_sub(1).max(open + 1)))
}

/// Returns the tests of a Go file.
pub(super) fn go(source: &SourceText<'_>) -> Vec<Test> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in source.bare.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some(rest) = line.strip_prefix("func ") else { continue };
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let name = &rest[..end];
        let kind = ["Test", "Fuzz", "Example"].iter().find_map(|kind| name.strip_prefix(kind));
        let collected =
            name != "TestMain" && kind.is_some_and(|rest| !rest.starts_with(char::is_lowercase));
        let open = near(&source.bare, start, 1_000).find('{').map(|n| start + n);
        if let (true, Some(open)) = (collected && found.len() < MOST, open) {
            let body = open + 1..source.closing(open).saturating_sub(1).max(open + 1);
            let name = name.to_owned();
            found.push(Test { name, start, body, marks: Vec::new(), group: false });
        }
    }
    found
}
