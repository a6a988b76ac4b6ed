//! pytest, alone or spread over workers.

use super::super::results::{CheckTool, MOST_CASES, TestCounts};
use super::{ReadResults, ToolReader, pairs};

/// Reads what pytest writes.
#[derive(Default)]
pub(super) struct Pytest {
    found: ReadResults,
    /// The short summary has begun, which names every case exactly.
    summary: bool,
    /// Cases named while they ran, for when the summary is missing.
    running: Vec<String>,
}

impl ToolReader for Pytest {
    fn line(&mut self, line: &str, number: usize) {
        let bare = line.trim_matches('=').trim();
        let ruled = line.starts_with('=');
        match bare {
            "test session starts" if ruled => {
                self.found.saw(CheckTool::Pytest, number);
                self.summary = false;
            }
            "short test summary info" if ruled => {
                self.found.saw(CheckTool::Pytest, number);
                self.summary = true;
            }
            _ => {}
        }
        if let Some(counts) = totals(bare) {
            self.found.saw(CheckTool::Pytest, number);
            self.found.counts.add(&counts);
        } else if self.summary {
            let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "));
            if let Some(id) = rest.map(node_id) {
                self.found.fail(file(id), None, id);
            }
        } else if self.running.len() <= MOST_CASES
            && let Some(id) = verbose(line)
        {
            self.running.push(id.to_owned());
        }
    }

    fn finish(mut self: Box<Self>) -> Option<ReadResults> {
        if self.found.failed.is_empty() {
            for id in &self.running {
                self.found.fail(file(id), None, id);
            }
        }
        self.found.answer()
    }
}

fn file(id: &str) -> Option<&str> {
    let file = id.split("::").next().unwrap_or(id);
    file.ends_with(".py").then_some(file)
}

/// Returns the test's id in what follows `FAILED `: up to the message, brackets included.
fn node_id(text: &str) -> &str {
    let end = match (text.find('['), text.find(" - ")) {
        (Some(open), Some(dash)) if open < dash => {
            text[open..].find("] - ").map(|at| open + at + 1)
        }
        (_, dash) => dash,
    };
    text[..end.unwrap_or(text.len())].trim_end()
}

/// Reads `tests/a.py::b FAILED [ 10%]` and `[gw0] [ 10%] FAILED tests/a.py::b`.
fn verbose(line: &str) -> Option<&str> {
    if line.starts_with("[gw") {
        let (_, id) = line.split_once("] FAILED ").or_else(|| line.split_once("] ERROR "))?;
        return Some(id.trim());
    }
    let (id, rest) = line.rsplit_once(" FAILED").or_else(|| line.rsplit_once(" ERROR"))?;
    let progress = rest.trim();
    let ends = progress.is_empty() || (progress.starts_with('[') && progress.ends_with("%]"));
    (ends && file(id).is_some() && id.contains("::")).then(|| id.trim_end())
}

/// Reads `3 failed, 2 passed in 0.06s`.
fn totals(bare: &str) -> Option<TestCounts> {
    let (pairs_text, time) = bare.rsplit_once(" in ")?;
    let seconds = time.split(['s', ' ']).next()?;
    seconds.parse::<f64>().ok()?;
    if pairs_text == "no tests ran" {
        let none = Some(0);
        return Some(TestCounts {
            passed: none,
            failed: none,
            total: none,
            ..TestCounts::default()
        });
    }
    let mut counts = TestCounts::default();
    let (mut passed, mut failed, mut skipped, mut errors) = (0_u32, 0_u32, 0_u32, 0_u32);
    for (value, word) in pairs(pairs_text, ", ")? {
        let count = match word {
            "passed" | "xpassed" => &mut passed,
            "failed" => &mut failed,
            "skipped" | "xfailed" => &mut skipped,
            "error" | "errors" => &mut errors,
            "warning" | "warnings" | "deselected" | "rerun" | "subtests passed" => continue,
            _ => return None,
        };
        *count = count.saturating_add(value);
    }
    (counts.passed, counts.failed) = (Some(passed), Some(failed));
    (counts.skipped, counts.errors) = (Some(skipped), Some(errors));
    counts.total = Some(passed.saturating_add(failed).saturating_add(skipped));
    Some(counts)
}
