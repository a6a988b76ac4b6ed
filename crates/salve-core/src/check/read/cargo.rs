//! `cargo test` and `cargo nextest`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::results::{CheckTool, ErrorPlace, MOST_CASES, TestCounts};
use super::{ReadResults, ToolReader, number, pairs, place};

/// Reads what Rust's test runners write.
#[derive(Default)]
pub(super) struct Cargo {
    found: ReadResults,
    /// The names of the failed tests.
    failed: Vec<String>,
    known: BTreeSet<String>,
    /// The list of failures has begun.
    listing: bool,
    /// Where a test panicked first, by the name of its thread, which is the test's.
    panics: BTreeMap<String, ErrorPlace>,
}

impl ToolReader for Cargo {
    fn line(&mut self, line: &str, line_number: usize) {
        if let Some(counts) = line.strip_prefix("test result: ").and_then(totals) {
            self.listing = false;
            self.found.saw(CheckTool::CargoTest, line_number);
            self.found.counts.add(&counts);
        } else if line == "failures:" {
            self.listing = true;
        } else if let Some(name) = line.strip_prefix("    ").filter(|_| self.listing) {
            if !name.starts_with(' ') {
                self.fail(name);
            }
        } else if let Some(name) = outcome(line) {
            self.fail(name);
        } else if line.starts_with("---- ") {
            // What a failed test printed may look like anything.
            self.listing = false;
        } else if is_start(line) {
            self.found.saw(CheckTool::CargoTest, line_number);
        } else {
            self.nextest(line.trim_start(), line_number);
        }
        if let Some((name, place)) = panic(line.trim_start()) {
            self.panics.entry(name.to_owned()).or_insert(place);
        }
    }

    fn finish(mut self: Box<Self>) -> Option<ReadResults> {
        for name in &self.failed {
            let place = self.panics.get(name);
            let line = place.and_then(|place| place.line);
            self.found.fail(place.map(|place| place.file.as_str()), line, name);
        }
        self.found.answer()
    }
}

impl Cargo {
    fn fail(&mut self, name: &str) {
        if self.failed.len() <= MOST_CASES && self.known.insert(name.to_owned()) {
            self.failed.push(name.to_owned());
        }
    }

    /// Reads `FAIL [   0.017s] (4/5) demo::it whole` and the summary.
    fn nextest(&mut self, line: &str, line_number: usize) {
        if let Some(rest) = line.strip_prefix("Summary [") {
            if let Some(counts) = rest.split_once("] ").and_then(|(_, text)| nextest_totals(text)) {
                self.found.saw(CheckTool::Nextest, line_number);
                self.found.counts.add(&counts);
            }
            return;
        }
        let bad = ["FAIL [", "SIGABRT [", "SIGSEGV [", "TIMEOUT [", "ABORT ["];
        let Some(rest) = bad.iter().find_map(|start| line.strip_prefix(start)) else { return };
        let Some((time, rest)) = rest.split_once(']') else { return };
        if !time.trim_end().ends_with('s') {
            return;
        }
        let rest = rest.trim_start();
        let rest = match rest.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
            Some((_, rest)) => rest.trim_start(),
            None => rest,
        };
        if let Some((_binary, name)) = rest.split_once(' ') {
            self.fail(name.trim());
        }
    }
}

/// Reads `test tests::adds ... FAILED`.
fn outcome(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(name.strip_suffix(" - should panic").unwrap_or(name))
}

/// Reads `running 3 tests`.
fn is_start(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(number);
    count.is_some_and(|(_, rest)| matches!(rest, " tests" | " test"))
}

/// Reads `thread 'tests::adds' (9472) panicked at src/lib.rs:11:17:`.
fn panic(line: &str) -> Option<(&str, ErrorPlace)> {
    let (name, rest) = line.strip_prefix("thread '")?.split_once('\'')?;
    let (_, at) = rest.split_once("panicked at ")?;
    Some((name, place::token(at)?))
}

/// Reads `FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.20s`.
fn totals(text: &str) -> Option<TestCounts> {
    let (_, rest) = text.split_once(". ")?;
    let mut counts = TestCounts::default();
    for part in rest.split("; ") {
        let Some((value, word)) = number(part) else { continue };
        match word {
            " passed" => counts.passed = Some(value),
            " failed" => counts.failed = Some(value),
            " ignored" => counts.skipped = Some(value),
            _ => {}
        }
    }
    let sum = [counts.passed?, counts.failed?, counts.skipped?];
    counts.total = Some(sum.into_iter().fold(0, u32::saturating_add));
    Some(counts)
}

/// Reads `5 tests run: 2 passed, 3 failed, 1 skipped`, where a run may have been cut short: `4/5`.
fn nextest_totals(text: &str) -> Option<TestCounts> {
    let (_, list) = text.split_once(" run: ")?;
    let mut counts =
        TestCounts { passed: Some(0), failed: Some(0), skipped: Some(0), ..TestCounts::default() };
    for (value, word) in pairs(list, ", ")? {
        let word = word.split(' ').next().unwrap_or(word);
        let count = match word {
            "passed" => &mut counts.passed,
            "failed" | "timed" => &mut counts.failed,
            "skipped" => &mut counts.skipped,
            _ => continue,
        };
        *count = count.map(|count| count.saturating_add(value));
    }
    let sum = [counts.passed, counts.failed, counts.skipped].into_iter().flatten();
    counts.total = Some(sum.fold(0, u32::saturating_add));
    Some(counts)
}
