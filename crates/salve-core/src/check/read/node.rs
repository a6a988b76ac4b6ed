//! Node's own test runner: what it writes as TAP, and what it writes for people.

use super::super::results::{CheckTool, TestCounts};
use super::{ReadResults, ToolReader, place};

/// Reads what `node --test` writes.
#[derive(Default)]
pub(super) struct Node {
    found: ReadResults,
    /// The names of the groups around the present line, one for each indentation.
    groups: Vec<String>,
    /// The failure in question, until its location.
    pending: Option<String>,
    /// The location in the list for people, until the name that follows.
    located: Option<place::Located>,
    listing: bool,
    counts: TestCounts,
}

impl ToolReader for Node {
    fn line(&mut self, line: &str, number: usize) {
        let bare = line.trim_start();
        let depth = (line.len() - bare.len()) / 4;
        if let Some(name) = bare.strip_prefix("# Subtest: ") {
            self.groups.truncate(depth);
            self.groups.push(unescaped(name));
        } else if let Some(rest) = bare.strip_prefix("not ok ") {
            self.pending = tap_name(rest).map(|name| self.full(depth, name));
        } else if let Some(at) = bare.strip_prefix("location: '") {
            self.locate(at.trim_end_matches('\''));
        } else if bare == "failureType: 'subtestsFailed'" {
            // A group fails with what is in it, which was named before.
            let group = self.last_group(depth);
            self.found.failed.pop_if(|case| Some(&case.name) == group.as_ref());
        } else if let Some(rest) = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ ")) {
            self.total(rest, number);
        } else if line == "✖ failing tests:" {
            self.listing = true;
        } else if let Some(at) = line.strip_prefix("test at ").filter(|_| self.listing) {
            self.located = place::Located::of(at);
        } else if let Some(name) = line.strip_prefix("✖ ").filter(|_| self.listing) {
            self.listed(name);
        }
    }

    fn finish(mut self: Box<Self>) -> Option<ReadResults> {
        self.found.counts = self.counts;
        self.found.answer()
    }
}

impl Node {
    /// Returns a name with the groups around it.
    fn full(&self, depth: usize, name: &str) -> String {
        let around = self.groups.iter().take(depth).map(String::as_str);
        around.chain([unescaped(name).as_str()]).collect::<Vec<_>>().join(" > ")
    }

    fn last_group(&self, depth: usize) -> Option<String> {
        Some(self.groups.get(..=depth)?.join(" > "))
    }

    fn locate(&mut self, at: &str) {
        let Some(name) = self.pending.take() else { return };
        match place::Located::of(at) {
            Some(at) => self.found.fail(Some(&at.file), Some(at.line), &whole(&name, &at.file)),
            None => self.found.fail(None, None, &name),
        }
    }

    /// Takes in a failure of the list for people.
    fn listed(&mut self, name: &str) {
        let Some(at) = self.located.take() else { return };
        if name.ends_with("# TODO") || name.ends_with("# SKIP") {
            return;
        }
        let name = match name.rsplit_once(" (") {
            Some((name, time)) if time.ends_with("ms)") => name,
            _ => name,
        };
        self.found.fail(Some(&at.file), Some(at.line), &whole(name, &at.file));
    }

    fn total(&mut self, text: &str, number: usize) {
        let Some((word, value)) = text.split_once(' ') else { return };
        let Ok(value) = value.parse::<u32>() else { return };
        let counts = &mut self.counts;
        let add = |count: &mut Option<u32>| *count = Some(count.unwrap_or(0).saturating_add(value));
        match word {
            "tests" => add(&mut counts.total),
            "pass" => {
                self.found.saw(CheckTool::NodeTest, number);
                add(&mut counts.passed);
            }
            "fail" | "cancelled" => add(&mut counts.failed),
            "skipped" | "todo" => add(&mut counts.skipped),
            _ => {}
        }
    }
}

/// Returns the file itself where it failed as a whole, whichever way it is written.
fn whole(name: &str, file: &str) -> String {
    let same = name == file || name.ends_with(file) && name.starts_with('/');
    if same { file.to_owned() } else { name.to_owned() }
}

/// Returns the name in `3 - adds`, unless the failure is expected.
fn tap_name(rest: &str) -> Option<&str> {
    let (_, name) = rest.split_once(" - ")?;
    let expected = [" # TODO", " # SKIP", " # todo", " # skip"];
    (!expected.iter().any(|mark| name.contains(mark))).then_some(name)
}

fn unescaped(name: &str) -> String {
    name.replace("\\#", "#").replace("\\\\", "\\")
}
