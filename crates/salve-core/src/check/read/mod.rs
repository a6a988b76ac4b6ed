//! Reads what a check prints.
//!
//! Every tool has a reader. All of them see every line; a reader that has seen the marks that only
//! its own tool writes answers at the end, and the others are forgotten. What several tools found
//! in one output is put together.

mod cargo;
mod compile;
mod go;
mod jest;
mod lint;
mod mocha;
mod node;
mod place;
mod pytest;
#[cfg(test)]
mod tests;
mod unittest;
mod vitest;

use std::collections::BTreeSet;

use super::results::{
    CheckTool, ErrorPlace, FailedCase, MOST_CASES, MOST_PLACES, Results, Sort, TestCounts,
};
use crate::fingerprint::clean;

/// How much of an output is read: its end, where tools sum up.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// How much of a line is read.
const LONGEST_LINE: usize = 4 * 1024;

/// Returns what a check's output says.
///
/// Colours, carriage returns and other commands to a terminal do not matter. Where a tool watches
/// and runs again and again, only the last run counts. Nothing is taken from an output that no
/// known tool wrote but the files and lines in it.
pub fn read(output: &str) -> Results {
    let output = clean(tail(output, MOST_BYTES));
    let mut readers = readers();
    let mut loose = ReadResults::default();
    let mut over = false;
    for (number, line) in output.lines().enumerate() {
        let line = head(line, LONGEST_LINE).trim_end();
        if ends_a_run(line) {
            over = true;
        } else if over && begins_a_run(line) {
            (readers, loose, over) = (self::readers(), ReadResults::default(), false);
        }
        for reader in &mut readers {
            reader.line(line, number);
        }
        loose.note(line);
    }
    let found = readers.into_iter().filter_map(|reader| reader.finish()).collect();
    together(found, loose)
}

/// Reads what one tool writes.
trait ToolReader {
    /// Takes in a line.
    fn line(&mut self, line: &str, number: usize);

    /// Returns what was found, if the tool's own marks were seen.
    fn finish(self: Box<Self>) -> Option<ReadResults>;
}

fn readers() -> Vec<Box<dyn ToolReader>> {
    let mut readers: Vec<Box<dyn ToolReader>> = vec![
        Box::new(pytest::Pytest::default()),
        Box::new(unittest::Unittest::default()),
        Box::new(jest::Jest::default()),
        Box::new(vitest::Vitest::default()),
        Box::new(mocha::Mocha::default()),
        Box::new(node::Node::default()),
        Box::new(cargo::Cargo::default()),
        Box::new(go::Go::default()),
        Box::new(compile::Rustc::default()),
        Box::new(lint::Eslint::default()),
        Box::new(lint::Ruff::default()),
        Box::new(lint::Biome::default()),
    ];
    readers.extend(compile::compilers());
    readers
}

/// What one reader found.
#[derive(Debug, Default)]
struct ReadResults {
    tool: Option<CheckTool>,
    /// The last line that only this tool writes.
    last: usize,
    failed: Vec<FailedCase>,
    counts: TestCounts,
    places: Vec<ErrorPlace>,
    cut: bool,
    known: BTreeSet<FailedCase>,
    named: BTreeSet<ErrorPlace>,
}

impl ReadResults {
    /// Says that a line is surely the tool's own.
    fn saw(&mut self, tool: CheckTool, number: usize) {
        (self.tool, self.last) = (Some(tool), number);
    }

    /// Adds what failed, unless it is known.
    fn fail(&mut self, file: Option<&str>, line: Option<u32>, name: &str) {
        if self.failed.len() >= MOST_CASES {
            self.cut = true;
            return;
        }
        let case = FailedCase { file: file.map(str::to_owned), line, name: name.to_owned() };
        if !name.is_empty() && self.known.insert(case.clone()) {
            self.failed.push(case);
        }
    }

    /// Adds the places that a line names.
    fn note(&mut self, line: &str) {
        for place in place::places(line) {
            self.at(&place.file, place.line);
        }
    }

    /// Adds one place, unless it is known.
    fn at(&mut self, file: &str, line: Option<u32>) {
        let place = ErrorPlace { file: file.to_owned(), line };
        if self.places.len() < MOST_PLACES && self.named.insert(place.clone()) {
            self.places.push(place);
        }
    }

    fn answer(self) -> Option<Self> {
        self.tool.is_some().then_some(self)
    }

    /// Tells whether something failed.
    fn is_red(&self) -> bool {
        let some = |count: Option<u32>| count.is_some_and(|count| count > 0);
        !self.failed.is_empty() || some(self.counts.failed) || some(self.counts.errors)
    }
}

/// Puts together what the readers found.
fn together(mut found: Vec<ReadResults>, loose: ReadResults) -> Results {
    // What failed last is what the check is red for; a tool that failed says more than one that
    // did not.
    found.sort_by_key(|found| (found.is_red(), found.last));
    let Some(main) = found.last().and_then(|found| found.tool) else {
        return Results { places: loose.places, ..Results::default() };
    };
    let mut results = Results { tool: Some(main), ..Results::default() };
    let mut places = ReadResults::default();
    for found in found.into_iter().rev() {
        let tests = found.tool.is_some_and(|tool| tool.sort() == Sort::Test);
        if tests || found.tool == Some(main) {
            results.counts.add(&found.counts);
        } else if let Some(errors) = found.counts.errors {
            results.counts.add(&TestCounts { errors: Some(errors), ..TestCounts::default() });
        }
        results.cut |= found.cut || results.failed.len() + found.failed.len() > MOST_CASES;
        results.failed.extend(found.failed);
        results.failed.truncate(MOST_CASES);
        // Compilers and linters say precisely what is wrong where; tests leave traces.
        let named = found.places.iter().chain(loose.places.iter().filter(|_| tests));
        named.for_each(|place| places.at(&place.file, place.line));
    }
    results.places = places.places;
    results
}

/// Tells whether a tool that watches says that this run is over.
fn ends_a_run(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("Watch Usage")
        || line.contains("Watching for file changes")
        || line.starts_with("PASS  Waiting for file changes")
        || line.starts_with("FAIL  Tests failed. Watching for file changes")
}

/// Tells whether a line begins another run of a tool that watches.
fn begins_a_run(line: &str) -> bool {
    let line = line.trim_start();
    ["RERUN ", "FAIL ", "PASS ", "Test Suites:"].iter().any(|start| line.starts_with(start))
        || line.contains("File change detected. Starting incremental compilation")
}

/// Returns the last `max` bytes, whole lines only.
fn tail(text: &str, max: usize) -> &str {
    let Some(mut start) = text.len().checked_sub(max).filter(|start| *start > 0) else {
        return text;
    };
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let rest = &text[start..];
    rest.split_once('\n').map_or(rest, |(_, rest)| rest)
}

/// Returns the first `max` bytes, or a little less so that no character is cut.
fn head(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Splits a number off the front of a text.
fn number(text: &str) -> Option<(u32, &str)> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let value = text[..text.len() - rest.len()].parse().ok()?;
    Some((value, rest))
}

/// Reads `3 failed, 1 skipped` into counts by word, or nothing if a part is no such pair.
fn pairs<'t>(text: &'t str, separator: &str) -> Option<Vec<(u32, &'t str)>> {
    let pair = |part: &'t str| {
        let (value, rest) = number(part.trim())?;
        let word = rest.strip_prefix(' ')?.trim();
        word.starts_with(|c: char| c.is_ascii_alphabetic()).then_some((value, word))
    };
    text.split(separator).map(pair).collect()
}
