//! Python's own unittest.

use super::super::results::{CheckTool, TestCounts};
use super::{ReadResults, ToolReader, number, place};

/// Reads what unittest writes.
#[derive(Default)]
pub(super) struct Unittest {
    found: ReadResults,
    /// The last line was a rule of equal signs, which stands above every failure.
    ruled: bool,
    /// The failure in question, until its traceback tells the file.
    pending: Option<String>,
    ran: Option<u32>,
}

impl ToolReader for Unittest {
    fn line(&mut self, line: &str, line_number: usize) {
        let ruled = line.len() >= 70 && line.bytes().all(|byte| byte == b'=');
        let head = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: "));
        if let Some(id) = head.filter(|_| self.ruled).and_then(test_id) {
            self.give_up();
            self.pending = Some(id);
        } else if let Some(rest) = line.strip_prefix("Ran ") {
            self.ran = number(rest)
                .filter(|(_, rest)| rest.starts_with(" test") && rest.contains(" in "))
                .map(|(ran, _)| ran);
        } else if self.ran.is_some() && (line.starts_with("OK") || line.starts_with("FAILED (")) {
            self.give_up();
            self.found.saw(CheckTool::Unittest, line_number);
            let counts = totals(line, self.ran.take().unwrap_or(0));
            self.found.counts.add(&counts);
        }
        // The first frame in the project's own files is the test, the deepest one the cause.
        if self.pending.is_some()
            && let Some(place) = place::places(line).next()
            && let Some(id) = self.pending.take()
        {
            self.found.fail(Some(&place.file), place.line, &id);
        }
        self.ruled = ruled;
    }

    fn finish(mut self: Box<Self>) -> Option<ReadResults> {
        self.give_up();
        self.found.answer()
    }
}

impl Unittest {
    /// Keeps a failure whose traceback named no file.
    fn give_up(&mut self) {
        if let Some(id) = self.pending.take() {
            self.found.fail(None, None, &id);
        }
    }
}

/// Returns the dotted name in `test_a (pkg.mod.Class.test_a)`, of any version of Python.
fn test_id(text: &str) -> Option<String> {
    let (method, rest) = text.split_once(" (")?;
    let (owner, _) = rest.split_once(')')?;
    let full = owner.strip_prefix("__main__.").unwrap_or(owner);
    let ends = full == method || full.strip_suffix(method).is_some_and(|rest| rest.ends_with('.'));
    Some(if ends || owner == "__main__" { full.to_owned() } else { format!("{full}.{method}") })
}

/// Reads `FAILED (failures=3, errors=1, skipped=1)`.
fn totals(line: &str, ran: u32) -> TestCounts {
    let inner = line.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let (mut failed, mut skipped, mut errors) = (0_u32, 0_u32, 0_u32);
    for part in inner.map_or("", |(inner, _)| inner).split(", ") {
        let Some((word, value)) = part.split_once('=') else { continue };
        let Ok(value) = value.parse::<u32>() else { continue };
        match word {
            "failures" => failed = value,
            "errors" => errors = value,
            "skipped" | "expected failures" => skipped = skipped.saturating_add(value),
            _ => {}
        }
    }
    let passed = ran.saturating_sub(failed).saturating_sub(errors).saturating_sub(skipped);
    TestCounts {
        passed: Some(passed),
        failed: Some(failed),
        skipped: Some(skipped),
        errors: Some(errors),
        total: Some(ran),
    }
}
