//! Lists the invariants that stand beside the code and the tests that hold them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::steps::{StepError, root};

/// How an invariant begins in a doc comment.
const MARK: &str = "**Invariant:**";

/// Prints every invariant with its file and, where it stands at a test, the test's name.
pub(crate) fn list(out: &mut dyn Write) -> Result<(), StepError> {
    let crates = root().join("crates");
    let mut files = Vec::new();
    sources(&crates, &mut files).map_err(|error| StepError::Missing(crates.clone(), error))?;
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|e| StepError::Missing(file.clone(), e))?;
        let place = file.strip_prefix(&crates).unwrap_or(&file).display();
        for (line, invariant) in invariants_in(&text) {
            // A closed pipe changes nothing about the outcome.
            let _ = writeln!(out, "{invariant}\n    {place}:{line}");
        }
    }
    Ok(())
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns each invariant of a file with the number of its first line.
fn invariants_in(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |(n, line): (usize, &&str)| comment(line)?.strip_prefix(MARK).map(|_| n);
    let firsts = lines.iter().enumerate().filter_map(begins);
    firsts.map(|first| (first + 1, invariant_from(&lines[first..]))).collect()
}

/// Returns the text of the comment that `lines` begin with, and the test below it.
fn invariant_from(lines: &[&str]) -> String {
    let words = lines.iter().map_while(|line| comment(line).filter(|text| !text.is_empty()));
    let text = words.collect::<Vec<_>>().join(" ");
    let text = text.trim_start_matches(MARK).trim().to_owned();
    let below = lines.iter().skip_while(|line| comment(line).is_some());
    let mut item = below.skip_while(|line| line.trim_start().starts_with("#["));
    let name = item.next().and_then(|line| line.trim_start().strip_prefix("fn "));
    match name.and_then(|name| name.split('(').next()) {
        Some(test) => format!("{text} [{test}]"),
        None => text,
    }
}

/// Returns what a doc comment says, if the line is one.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invariant_is_told_with_its_test() {
        let text = "//! Top.\n//!\n//! **Invariant:** one\n//! two.\n\n/// **Invariant:** Three.\n\
                    #[test]\nfn it_holds() {}\n";
        let found = invariants_in(text);
        assert_eq!(found, [(3, "one two.".into()), (6, "Three. [it_holds]".into())]);
    }
}
