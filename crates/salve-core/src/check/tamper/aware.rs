//! Code that behaves otherwise when it is tested.

use super::compare::{Note, short};
use super::config::Diff;
use super::text::{Language, SourceText};

/// Passages by which code learns that it is being tested, or that agree with whatever is expected.
fn words(language: Language) -> &'static [&'static str] {
    match language {
        Language::Python => &[
            "PYTEST_CURRENT_TEST",
            "PYTEST_VERSION",
            "'pytest' in sys.modules",
            "\"pytest\" in sys.modules",
            "'unittest' in sys.modules",
            "\"unittest\" in sys.modules",
            "unittest.TestCase.assert",
            "def pytest_",
            "_pytest.",
        ],
        Language::Script => &[
            "JEST_WORKER_ID",
            "VITEST",
            "NODE_TEST_CONTEXT",
            "import.meta.vitest",
            "NODE_ENV === 'test'",
            "NODE_ENV === \"test\"",
            "NODE_ENV == 'test'",
            "NODE_ENV == \"test\"",
            "typeof jest",
            "typeof describe",
        ],
        Language::Rust => &["cfg!(test)", "#[cfg(not(test))]", "\"NEXTEST\"", "RUST_TEST_THREADS"],
        Language::Go => &["testing.Testing()", "flag.Lookup(\"test.", "\".test\")"],
    }
}

/// Returns the lines by which a file that is not itself a test now knows of tests.
pub(super) fn notes(before: &SourceText<'_>, after: &SourceText<'_>) -> Vec<Note> {
    let diff = Diff::new(&before.said, &after.said);
    let aware = |line: &str| words(after.language).iter().any(|word| line.contains(word));
    let mut notes = Vec::new();
    let mut equality = false;
    for (number, line) in diff.added() {
        let yields = equality && line == "return True";
        equality = line.starts_with("def __eq__(");
        if aware(line) || yields {
            let what = format!("the code knows that it is tested: `{}`", short(line));
            notes.push(Note { line: Some(number), what });
        }
    }
    notes
}
