//! Vitest.

use super::super::results::{CheckTool, TestCounts};
use super::{ReadResults, ToolReader, number, pairs};

/// Reads what Vitest writes.
#[derive(Default)]
pub(super) struct Vitest {
    found: ReadResults,
}

impl ToolReader for Vitest {
    fn line(&mut self, line: &str, number: usize) {
        let bare = line.trim();
        if let Some(rest) = bare.strip_prefix("FAIL ") {
            if let Some((file, name)) = case(rest.trim_start()) {
                self.found.fail(Some(file), None, name);
            }
        } else if let Some(counts) =
            bare.strip_prefix("Tests ").and_then(|text| totals(text.trim()))
        {
            self.found.saw(CheckTool::Vitest, number);
            self.found.counts.add(&counts);
        } else if bare.strip_prefix("Test Files ").is_some_and(|text| totals(text.trim()).is_some())
        {
            self.found.saw(CheckTool::Vitest, number);
        } else if bare.starts_with("No test files found, exiting with code") {
            self.found.saw(CheckTool::Vitest, number);
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

/// Reads `src/a.test.ts > sum > adds` and `src/a.test.ts [ src/a.test.ts ]`, with a project or not.
fn case(rest: &str) -> Option<(&str, &str)> {
    let rest = match rest.strip_prefix('|') {
        Some(project) => project.split_once('|')?.1.trim_start(),
        None => rest,
    };
    if let Some((file, name)) = rest.split_once(" > ") {
        return (file.contains('.') && !file.contains(' ')).then_some((file, name));
    }
    let (file, again) = rest.split_once(" [ ")?;
    (again.strip_suffix(" ]") == Some(file)).then_some((file, file))
}

/// Reads `2 failed | 1 passed | 1 skipped (4)`.
fn totals(text: &str) -> Option<TestCounts> {
    let (text, total) = text.strip_suffix(')')?.rsplit_once(" (")?;
    let (total, "") = number(total)? else { return None };
    let mut counts = TestCounts {
        passed: Some(0),
        failed: Some(0),
        skipped: Some(0),
        total: Some(total),
        ..TestCounts::default()
    };
    for (value, word) in pairs(text, " | ")? {
        match word {
            "failed" => counts.failed = Some(value),
            "passed" => counts.passed = Some(value),
            "skipped" | "todo" | "expected fail" => {
                counts.skipped = counts.skipped.map(|skipped| skipped.saturating_add(value));
            }
            _ => return None,
        }
    }
    Some(counts)
}
