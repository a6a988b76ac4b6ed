//! Remarks in code that tell a linter, a type checker or a coverage tool to look away.

use std::collections::BTreeMap;

use super::compare::{Note, short};
use super::text::{Language, SourceText};

/// The remarks of each language.
fn remarks(language: Language) -> &'static [&'static str] {
    match language {
        Language::Python => &[
            "type: ignore",
            "noqa",
            "pylint: disable",
            "pyright: ignore",
            "pyright: basic",
            "mypy: ignore-errors",
            "mypy: disable-error-code",
            "pragma: no cover",
            "ty: ignore",
        ],
        Language::Script => &[
            "@ts-ignore",
            "@ts-expect-error",
            "@ts-nocheck",
            "eslint-disable",
            "biome-ignore",
            "istanbul ignore",
            "v8 ignore",
            "c8 ignore",
            "tslint:disable",
            "oxlint-disable",
        ],
        Language::Rust => &["#[allow(", "#![allow(", "#[expect(", "#![expect(", "#[rustfmt::skip"],
        Language::Go => &["nolint", "#nosec", "lint:ignore"],
    }
}

/// One remark: where it stands, and its text.
struct SuppressionRemark<'t> {
    at: usize,
    end: usize,
    text: &'t str,
}

fn found<'t>(source: &'t SourceText<'_>) -> Vec<SuppressionRemark<'t>> {
    let mut all = Vec::new();
    for remark in remarks(source.language) {
        for at in memchr::memmem::find_iter(source.text.as_bytes(), remark.as_bytes()) {
            let span = match source.language {
                Language::Rust => attribute(source, at, remark),
                Language::Python | Language::Script | Language::Go => comment(source, at),
            };
            let Some((start, end)) = span else { continue };
            let line_end = memchr::memchr(b'\n', &source.text.as_bytes()[at..end]);
            let text = &source.text[at..line_end.map_or(end, |n| at + n)];
            all.push(SuppressionRemark {
                at: start,
                end,
                text: text.trim_end_matches("*/").trim(),
            });
        }
    }
    all.sort_by_key(|remark| remark.at);
    all.dedup_by_key(|remark| remark.at);
    all
}

/// Returns the comment around a place, within its line.
fn comment(source: &SourceText<'_>, at: usize) -> Option<(usize, usize)> {
    let said = source.said.as_bytes();
    if *said.get(at)? != b' ' {
        return None;
    }
    let start = said[..at].iter().rposition(|byte| *byte != b' ').map_or(0, |n| n + 1);
    let length = said[at..].iter().position(|byte| *byte != b' ').unwrap_or(said.len() - at);
    Some((start, at + length))
}

fn attribute(source: &SourceText<'_>, at: usize, remark: &str) -> Option<(usize, usize)> {
    let open = at + remark.find('[')?;
    // In a string or a comment it says nothing.
    (source.bare.as_bytes().get(open) == Some(&b'[')).then(|| (at, source.closing(open)))
}

/// Returns the remarks that were added.
fn added<'t>(before: &SourceText<'_>, after: &'t SourceText<'_>) -> Vec<SuppressionRemark<'t>> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for remark in found(before) {
        *known.entry(remark.text.to_owned()).or_default() += 1;
    }
    let fresh = |remark: &SuppressionRemark<'_>| match known
        .get_mut(remark.text)
        .filter(|count| **count > 0)
    {
        Some(count) => {
            *count -= 1;
            false
        }
        None => true,
    };
    let mut all = found(after);
    all.retain({
        let mut fresh = fresh;
        move |remark| fresh(remark)
    });
    all
}

/// Returns what was told to look away.
pub(super) fn notes(before: &SourceText<'_>, after: &SourceText<'_>) -> Vec<Note> {
    let note = |remark: &SuppressionRemark<'_>| Note {
        line: Some(after.line(remark.at)),
        what: format!("a finding is suppressed: `{}`", short(remark.text)),
    };
    added(before, after).iter().map(note).collect()
}

/// Returns a file without the remarks that were added, or nothing if there are none.
pub(super) fn without(before: &SourceText<'_>, after: &SourceText<'_>) -> Option<String> {
    let fresh = added(before, after);
    if fresh.is_empty() {
        return None;
    }
    let mut bytes = after.text.as_bytes().to_vec();
    for remark in fresh {
        for byte in bytes.iter_mut().take(remark.end).skip(remark.at) {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(language: Language, before: &str, after: &str, want: Option<&str>) {
        let (before, after) = (SourceText::new(before, language), SourceText::new(after, language));
        let without = without(&before, &after);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(without.as_deref().map(words).as_deref(), want, "{}", after.text);
        assert!(without.is_none_or(|text| text.len() == after.text.len()), "lines stay in place");
        assert_eq!(notes(&before, &after).is_empty(), want.is_none(), "{}", after.text);
    }

    #[test]
    fn added_remarks_are_found_and_taken_out() {
        use Language::{Go, Python, Rust, Script};
        check(Python, "x = f()\n", "x = f()  # type: ignore\n", Some("x = f()"));
        check(Python, "x = 1  # noqa: F401\n", "x = 1 # noqa: F401\n", None);
        check(Python, "x = 1  # noqa: F401\n", "x = 1  # noqa\n", Some("x = 1"));
        check(Python, "x = 1\n", "x = 'noqa'\n", None);
        check(Script, "a;\n", "// @ts-ignore\na;\n", Some("a;"));
        check(Script, "a;\n", "/* eslint-disable */ a;\n", Some("a;"));
        check(Script, "a;\n", "f('eslint-disable');\n", None);
        check(Rust, "fn f() {}\n", "#[allow(dead_code)]\nfn f() {}\n", Some("fn f() {}"));
        check(Rust, "fn f() {}\n", "// #[allow(dead_code)]\nfn f() {}\n", None);
        check(Go, "x := 1\n", "x := 1 //nolint:errcheck\n", Some("x := 1"));
    }
}
