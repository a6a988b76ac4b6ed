//! Commands and scripts that can no longer fail, or no longer run what they ran.

use super::compare::{Note, short};
use super::config::Diff;

/// Passages that let a command succeed whatever happens, or run less.
const LAX: [(&str, &str); 26] = [
    ("|| true", "cannot fail"),
    ("||true", "cannot fail"),
    ("|| :", "cannot fail"),
    ("|| exit 0", "cannot fail"),
    ("|| echo", "cannot fail"),
    ("; true", "cannot fail"),
    ("; exit 0", "cannot fail"),
    ("exit 0", "succeeds whatever happened"),
    ("set +e", "goes on after a failure"),
    ("--passWithNoTests", "passes without tests"),
    ("--pass-with-no-tests", "passes without tests"),
    ("continue-on-error: true", "may fail unnoticed"),
    ("allow_failure: true", "may fail unnoticed"),
    ("if: false", "never runs"),
    ("--deselect", "leaves tests out"),
    ("--ignore", "leaves tests out"),
    ("-k 'not ", "leaves tests out"),
    ("-k \"not ", "leaves tests out"),
    ("-m 'not ", "leaves tests out"),
    ("-m \"not ", "leaves tests out"),
    ("PathIgnorePatterns", "leaves tests out"),
    ("--exclude", "leaves something out"),
    ("--skip", "leaves something out"),
    ("--no-verify", "leaves checks out"),
    ("--cap-lints", "hides findings"),
    ("--exit-zero", "cannot fail"),
];

/// What checks; the names stand as whole words.
const TOOLS: [&str; 28] = [
    "pytest",
    "unittest",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "cargo test",
    "nextest",
    "go test",
    "tsc",
    "mypy",
    "pyright",
    "eslint",
    "biome",
    "ruff",
    "clippy",
    "go vet",
    "golangci-lint",
    "playwright",
    "npm test",
    "node --test",
    "deno test",
    "bun test",
    "rspec",
    "phpunit",
    "ctest",
    "mvn",
    "gradle",
];

/// Returns how a script does less than before.
pub(super) fn notes(diff: &Diff<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    for (number, line) in diff.added() {
        if let Some((_, says)) = LAX.iter().find(|(word, _)| line.contains(word)) {
            notes.push(Note {
                line: Some(number),
                what: format!("a command {says}: `{}`", short(line)),
            });
        }
    }
    let gone: Vec<_> = TOOLS.iter().filter(|tool| !diff.now(|line| runs(line, tool))).collect();
    let strict = diff.now(is_strict);
    for (number, line) in diff.removed() {
        if let Some(tool) = gone.iter().find(|tool| runs(line, tool)) {
            let what = format!("`{tool}` is no longer run: `{}` is gone", short(line));
            notes.push(Note { line: Some(number), what });
        } else if is_strict(line) && !strict {
            let what = format!("a failure no longer ends the script: `{}` is gone", short(line));
            notes.push(Note { line: Some(number), what });
        }
    }
    notes
}

fn is_strict(line: &str) -> bool {
    line.starts_with("set -e")
        || line.starts_with("set -o errexit")
        || line.starts_with("set -o pipefail")
}

/// Tells whether a line runs a tool, rather than speaking of it.
fn runs(line: &str, tool: &str) -> bool {
    if line.starts_with('#') || line.contains("echo ") && !line.contains("&&") {
        return false;
    }
    let border =
        |c: Option<char>| c.is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')));
    line.match_indices(tool).any(|(at, _)| {
        border(line[..at].chars().next_back()) && border(line[at + tool.len()..].chars().next())
    })
}
