//! Jest.

use super::super::results::{CheckTool, TestCounts};
use super::{ReadResults, ToolReader, pairs};

/// Reads what Jest writes.
#[derive(Default)]
pub(super) struct Jest {
    found: ReadResults,
    /// The file of tests in question.
    file: Option<String>,
}

impl ToolReader for Jest {
    fn line(&mut self, line: &str, number: usize) {
        let bare = line.trim_start();
        if let Some(rest) = bare.strip_prefix("FAIL ") {
            self.file = suite(rest).map(str::to_owned);
        } else if bare.starts_with("PASS ") {
            self.file = None;
        } else if let Some(name) = line.strip_prefix("  ● ") {
            self.case(name.trim());
        } else if let Some(counts) = line.strip_prefix("Tests:").and_then(totals) {
            self.found.saw(CheckTool::Jest, number);
            self.found.counts.add(&counts);
        } else if let Some(suites) = line.strip_prefix("Test Suites:") {
            if suites.trim_end().ends_with(" total") {
                self.found.saw(CheckTool::Jest, number);
            }
        } else if line.starts_with("No tests found, exiting with code") {
            self.found.saw(CheckTool::Jest, number);
            let none = Some(0);
            self.found.counts.add(&TestCounts {
                total: none,
                passed: none,
                ..TestCounts::default()
            });
        }
    }

    fn finish(self: Box<Self>) -> Option<ReadResults> {
        self.found.answer()
    }
}

impl Jest {
    /// Takes in a failure's title; what a suite printed has such a title too.
    fn case(&mut self, name: &str) {
        let Some(file) = self.file.clone() else { return };
        match name {
            "Test suite failed to run" => self.found.fail(Some(&file), None, &file),
            "Console" => {}
            name => self.found.fail(Some(&file), None, name),
        }
    }
}

/// Returns the file in what follows `FAIL `: `web src/a.test.js (5.2 s)` names a project first.
fn suite(rest: &str) -> Option<&str> {
    let rest = rest.trim();
    let rest = match rest.rsplit_once(" (") {
        Some((file, time)) if time.ends_with("s)") => file,
        _ => rest,
    };
    let file = rest.rsplit(' ').next().filter(|file| file.contains('.'))?;
    // Vitest writes the test's name behind the file.
    (!rest.contains(" > ")).then_some(file)
}

/// Reads `3 failed, 1 skipped, 2 passed, 6 total`.
fn totals(text: &str) -> Option<TestCounts> {
    let mut counts =
        TestCounts { passed: Some(0), failed: Some(0), skipped: Some(0), ..TestCounts::default() };
    for (value, word) in pairs(text, ", ")? {
        match word {
            "failed" => counts.failed = Some(value),
            "passed" => counts.passed = Some(value),
            "total" => counts.total = Some(value),
            "skipped" | "todo" | "pending" => {
                counts.skipped = counts.skipped.map(|skipped| skipped.saturating_add(value));
            }
            _ => return None,
        }
    }
    counts.total.is_some().then_some(counts)
}
