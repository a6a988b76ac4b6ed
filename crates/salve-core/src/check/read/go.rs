//! `go test`.

use super::super::results::{CheckTool, ErrorPlace, MOST_CASES};
use super::{ReadResults, ToolReader, place};

/// Reads what `go test` writes.
#[derive(Default)]
pub(super) struct Go {
    found: ReadResults,
    /// The tests of the present package that failed.
    failed: Vec<GoFailure>,
    passed: u32,
    failures: u32,
    skipped: u32,
    /// Packages that could not be built or set up.
    broken: u32,
    /// The last place named, which a verbose run writes before the test's result.
    before: Option<ErrorPlace>,
}

#[derive(Debug)]
struct GoFailure {
    name: String,
    place: Option<ErrorPlace>,
}

impl ToolReader for Go {
    fn line(&mut self, line: &str, number: usize) {
        let bare = line.trim_start();
        let result = bare.strip_prefix("--- ").and_then(|rest| rest.split_once(": "));
        if let Some((word, rest)) = result {
            self.take_result(word, rest);
        } else if bare.starts_with("=== RUN ") {
            self.before = None;
        } else if let Some(rest) = line.strip_prefix("FAIL\t") {
            self.found.saw(CheckTool::GoTest, number);
            self.package(rest);
        } else if line.starts_with("ok  \t") || line.starts_with("?   \t") {
            self.found.saw(CheckTool::GoTest, number);
        } else if line.starts_with("    ") {
            self.place(bare);
        }
    }

    fn finish(mut self: Box<Self>) -> Option<ReadResults> {
        self.flush();
        let counts = &mut self.found.counts;
        (counts.failed, counts.errors) = (Some(self.failures), Some(self.broken));
        // Passing tests are named only in a verbose run.
        if self.passed > 0 || self.skipped > 0 {
            (counts.passed, counts.skipped) = (Some(self.passed), Some(self.skipped));
            let all = self.passed.saturating_add(self.failures).saturating_add(self.skipped);
            counts.total = Some(all);
        }
        self.found.answer()
    }
}

impl Go {
    /// Takes in `FAIL: TestTable/one (0.00s)`.
    fn take_result(&mut self, word: &str, rest: &str) {
        let Some((name, _time)) = rest.rsplit_once(" (") else { return };
        match word {
            "PASS" => self.passed = self.passed.saturating_add(1),
            "SKIP" => self.skipped = self.skipped.saturating_add(1),
            "FAIL" => {
                self.failures = self.failures.saturating_add(1);
                let parent = |failure: &mut GoFailure| {
                    name.strip_prefix(failure.name.as_str()).is_some_and(|r| r.starts_with('/'))
                };
                // A test fails with what is in it, which comes next.
                self.failed.pop_if(|failure| parent(failure));
                let place = self.before.take();
                if self.failed.len() <= MOST_CASES {
                    self.failed.push(GoFailure { name: name.to_owned(), place });
                }
            }
            _ => {}
        }
    }

    /// Takes in `a_test.go:3: got 2`, which stands below the failure, or before it if verbose.
    fn place(&mut self, bare: &str) {
        let Some(place) = bare.split_once(": ").and_then(|(at, _)| place::token(at)) else {
            return;
        };
        match self.failed.last_mut().filter(|failure| failure.place.is_none()) {
            Some(failure) => failure.place = Some(place),
            None => self.before = Some(place),
        }
    }

    /// Takes in what follows `FAIL` and names a package.
    fn package(&mut self, rest: &str) {
        self.flush();
        for end in [" [build failed]", " [setup failed]"] {
            if let Some(package) = rest.strip_suffix(end) {
                self.broken = self.broken.saturating_add(1);
                self.found.fail(Some(package), None, package);
            }
        }
    }

    fn flush(&mut self) {
        for GoFailure { name, place } in self.failed.drain(..) {
            let line = place.as_ref().and_then(|place| place.line);
            self.found.fail(place.as_ref().map(|place| place.file.as_str()), line, &name);
        }
    }
}
