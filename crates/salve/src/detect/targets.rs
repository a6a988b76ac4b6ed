//! Servers and checks that a justfile or a Makefile names.

use std::path::Path;

use super::{Detected, read};

/// Files that have targets, with the program that runs them.
const FILES: [(&str, &str); 5] = [
    ("justfile", "just"),
    ("Justfile", "just"),
    (".justfile", "just"),
    ("Makefile", "make"),
    ("makefile", "make"),
];

/// Targets that start a dev server, the most telling first.
const SERVERS: [&str; 4] = ["dev", "serve", "start", "runserver"];

/// Targets that check something, by the check's name.
const CHECKS: [(&str, &[&str]); 4] = [
    ("test", &["test", "tests"]),
    ("types", &["types", "typecheck", "type-check", "mypy"]),
    ("lint", &["lint"]),
    ("build", &["build"]),
];

/// Returns the dev server that a target starts.
pub(super) fn server(dir: &Path) -> Option<Detected> {
    let (program, file, text) = file(dir)?;
    let target = SERVERS.iter().find(|name| has_target(&text, name))?;
    let why = vec![format!("{target} in {file}")];
    let command = format!("{program} {target}");
    Some(Detected { name: "web".to_owned(), command, dir: None, framework: None, why })
}

/// Returns the checks that targets make.
pub(super) fn checks(dir: &Path) -> Vec<Detected> {
    let Some((program, file, text)) = file(dir) else { return Vec::new() };
    let found = CHECKS.iter().filter_map(|(name, targets)| {
        let target = targets.iter().find(|target| has_target(&text, target))?;
        let (command, why) = (format!("{program} {target}"), vec![format!("{target} in {file}")]);
        Some(Detected { name: (*name).to_owned(), command, dir: None, framework: None, why })
    });
    found.collect()
}

fn file(dir: &Path) -> Option<(&'static str, &'static str, String)> {
    FILES.into_iter().find_map(|(file, program)| Some((program, file, read(dir, file)?)))
}

/// Returns whether the text has a rule of that name that needs nothing given to it and does not
/// watch.
fn has_target(text: &str, name: &str) -> bool {
    let mut lines = text.lines();
    let heads = |line: &str| {
        let rest = line.strip_prefix(name).or_else(|| line.strip_prefix('@')?.strip_prefix(name));
        let Some((given, after)) = rest.and_then(|rest| rest.split_once(':')) else { return false };
        // `just` takes what stands before the colon as parameters; one with `=` has a value.
        let needs = given.split_whitespace().any(|one| !one.contains('=') && !one.starts_with('*'));
        (given.is_empty() || given.starts_with(char::is_whitespace))
            && !needs
            && !after.starts_with('=')
    };
    if !lines.any(heads) {
        return false;
    }
    let mut body = lines.take_while(|line| line.starts_with([' ', '\t']) || line.is_empty());
    !body.any(salve_core::check::watching::is_watching)
}
