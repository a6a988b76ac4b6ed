//! Mocha.

use super::super::results::{CheckTool, TestCounts};
use super::{ReadResults, ToolReader, number, place};

/// Reads what Mocha writes.
#[derive(Default)]
pub(super) struct Mocha {
    found: ReadResults,
    /// The list of failures has begun.
    listing: bool,
    /// The titles of the failure in question, group by group, until its colon.
    titles: Option<Vec<String>>,
    /// The failure whose stack has yet to tell the file.
    pending: Option<String>,
}

impl ToolReader for Mocha {
    fn line(&mut self, line: &str, line_number: usize) {
        if let Some((value, rest)) = line.strip_prefix("  ").and_then(number) {
            let counts = match rest {
                " failing" => TestCounts { failed: Some(value), ..TestCounts::default() },
                " pending" => TestCounts { skipped: Some(value), ..TestCounts::default() },
                rest if rest.strip_prefix(" passing (").is_some_and(|t| t.ends_with(')')) => {
                    self.found.saw(CheckTool::Mocha, line_number);
                    TestCounts { passed: Some(value), failed: Some(0), ..TestCounts::default() }
                }
                _ => TestCounts::default(),
            };
            self.listing |= rest == " failing";
            self.found.counts.add(&counts);
        }
        if self.listing {
            self.failure(line);
        }
        if self.pending.is_some()
            && let Some(place) = place::places(line).next()
            && let Some(name) = self.pending.take()
        {
            self.found.fail(Some(&place.file), place.line, &name);
        }
    }

    fn finish(mut self: Box<Self>) -> Option<ReadResults> {
        self.give_up();
        let counts = &mut self.found.counts;
        let sum = [counts.passed, counts.failed, counts.skipped].into_iter().flatten();
        counts.total = Some(sum.fold(0, u32::saturating_add));
        self.found.answer()
    }
}

impl Mocha {
    /// Reads `  2) sum` and, indented below it, `adds:`.
    fn failure(&mut self, line: &str) {
        let heading =
            line.strip_prefix("  ").and_then(number).and_then(|(_, rest)| rest.strip_prefix(") "));
        if let Some(title) = heading {
            self.give_up();
            self.titles = Some(Vec::new());
            self.title(title);
        } else if self.titles.is_some() {
            if line.starts_with("       ") {
                self.title(line.trim_start())
            } else {
                self.titles = None
            }
        }
    }

    fn title(&mut self, text: &str) {
        let Some(titles) = &mut self.titles else { return };
        titles.push(text.strip_suffix(':').unwrap_or(text).to_owned());
        if text.ends_with(':') {
            self.pending = Some(titles.join(" "));
            self.titles = None;
        } else if titles.len() > 32 {
            self.titles = None;
        }
    }

    /// Keeps a failure whose stack named no file.
    fn give_up(&mut self) {
        if let Some(name) = self.pending.take() {
            self.found.fail(None, None, &name);
        }
    }
}
