//! Variables of the environment that a project wants: by its example file and by its code.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::FailedSubject;
use super::git;
use crate::files::{FileKind, read_text};

/// How code in the usual languages reads a variable, and what has to follow its name: after the
/// name alone nothing, else the end of a call without a value to fall back on.
const READS: &[(&str, &str)] = &[
    ("process.env.", ""),
    ("process.env['", "']"),
    ("process.env[\"", "\"]"),
    ("import.meta.env.", ""),
    ("os.environ['", "']"),
    ("os.environ[\"", "\"]"),
    ("os.getenv('", "')"),
    ("os.getenv(\"", "\")"),
    ("env::var(\"", "\")"),
    ("env::var_os(\"", "\")"),
    ("os.Getenv(\"", "\")"),
    ("ENV['", "']"),
    ("ENV[\"", "\"]"),
    ("ENV.fetch('", "')"),
    ("ENV.fetch(\"", "\")"),
];

/// Variables that the system, a tool or a framework sets.
const USUAL: &[&str] = &[
    "NODE_ENV",
    "PATH",
    "HOME",
    "USER",
    "PWD",
    "PORT",
    "HOST",
    "CI",
    "DEBUG",
    "TERM",
    "LANG",
    "TZ",
    "SHELL",
    "MODE",
    "DEV",
    "PROD",
    "SSR",
    "BASE_URL",
    "LOG_LEVEL",
    "NO_COLOR",
    "VIRTUAL_ENV",
];

/// How much code is read.
const FILES: usize = 400;

/// How many names are told.
const TOLD: usize = 8;

/// Endings of code.
const CODE: &[&str] =
    &["js", "mjs", "cjs", "ts", "tsx", "jsx", "vue", "svelte", "py", "rs", "go", "rb"];

/// Returns the names that the example or the code wants and that nothing sets, if the failure
/// speaks of a variable or of an environment file at all.
pub(super) fn unset(
    ask: &FailedSubject<'_>,
    output: &str,
    example: &BTreeSet<String>,
) -> Vec<String> {
    let small = output.to_ascii_lowercase();
    let speaks = ["environ", ".env", "env var", "variable", "not set", "keyerror", "missing"];
    if !speaks.iter().any(|word| small.contains(word)) {
        return Vec::new();
    }
    let mut wanted = example.clone();
    if wanted.is_empty() {
        wanted = in_code(ask.root);
    }
    wanted.retain(|name| !USUAL.contains(&name.as_str()));
    without_set(ask, wanted).into_iter().take(TOLD).collect()
}

/// Returns those of the variables that a failure names which the example or the code wants and
/// nothing sets.
pub(super) fn wanted(
    ask: &FailedSubject<'_>,
    named: &BTreeSet<String>,
    example: &BTreeSet<String>,
) -> BTreeSet<String> {
    let mut open = without_set(ask, named.clone());
    if !open.iter().all(|name| example.contains(name)) {
        let code = in_code(ask.root);
        open.retain(|name| example.contains(name) || code.contains(name));
    }
    open
}

/// Returns the variables that neither the subject's environment nor its `.env` sets.
fn without_set(ask: &FailedSubject<'_>, mut names: BTreeSet<String>) -> BTreeSet<String> {
    let own = read_text(&ask.dir.join(".env"), FileKind::Settings).unwrap_or_default();
    let set: BTreeSet<&str> = own.lines().filter_map(name_of).collect();
    names.retain(|name| {
        let is_empty = || ask.variable(name).is_none_or(|value| value.is_empty());
        !set.contains(name.as_str()) && is_empty()
    });
    names
}

/// Returns the name that a line of an environment file sets.
pub(super) fn name_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let name = line.split_once('=')?.0.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

fn in_code(root: &Path) -> BTreeSet<String> {
    let is_code =
        |path: &String| path.rsplit_once('.').is_some_and(|(_, ending)| CODE.contains(&ending));
    let mut found = BTreeSet::new();
    for path in git::tracked(root).into_iter().filter(is_code).take(FILES) {
        let Ok(text) = read_text(&root.join(path), FileKind::Settings) else { continue };
        found.extend(reads(&text).map(str::to_owned));
    }
    found
}

/// Returns the names of the variables that a text reads.
fn reads(text: &str) -> impl Iterator<Item = &str> {
    READS.iter().flat_map(move |(before, after)| {
        text.match_indices(before).filter_map(move |(at, _)| {
            let rest = &text[at + before.len()..];
            let part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
            let named = rest.starts_with(|c: char| c.is_ascii_uppercase()) && end > 1;
            (named && rest[end..].starts_with(after)).then(|| &rest[..end])
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_s_way_to_read_a_variable_is_known() {
        for line in [
            "const url = process.env.DATABASE_URL;",
            "process.env['DATABASE_URL']",
            "import.meta.env.DATABASE_URL",
            "os.environ[\"DATABASE_URL\"]",
            "os.getenv('DATABASE_URL')",
            "std::env::var(\"DATABASE_URL\")",
            "os.Getenv(\"DATABASE_URL\")",
            "ENV['DATABASE_URL'] ENV.fetch(\"DATABASE_URL\")",
        ] {
            assert_eq!(reads(line).next(), Some("DATABASE_URL"), "{line}");
        }
        // With a value to fall back on it is not missing.
        assert_eq!(reads("os.getenv('DATABASE_URL', 'sqlite://')").next(), None);
    }

    #[test]
    fn a_line_of_an_environment_file_sets_one_name() {
        let rows = [
            ("A=1", Some("A")),
            ("export B_C=2", Some("B_C")),
            ("# C=3", None),
            ("nothing", None),
            (" D = 4", Some("D")),
        ];
        for (line, want) in rows {
            assert_eq!(name_of(line), want, "{line}");
        }
    }
}
