//! Walks the promises of `docs/security.md` and attacks each of them.
//!
//! The document is the table: every row names the tests that try to break its promise, most of them
//! against the real binary. A promise whose test is gone is a failure like one that does not hold.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::steps::{StepError, cargo, root};

/// The shortest name that is taken for a test's; shorter words in the document are commands.
const SHORTEST: usize = 20;

/// How long all attacks together may take, the build included.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Runs the tests of every promise and prints which hold, and how many.
pub(crate) fn walk(out: &mut dyn Write) -> Result<(), StepError> {
    let path = root().join("docs/security.md");
    let text = fs::read_to_string(&path).map_err(|error| StepError::Missing(path, error))?;
    let promises = promises(&text);
    let names: Vec<&str> = promises.iter().flat_map(|promise| promise.tests.clone()).collect();
    let mut command = cargo("test -p salve -p salve-core --lib --test it --no-fail-fast --");
    command.args(&names).stdout(Stdio::piped());
    let line = "cargo test".to_owned();
    let said = run_bounded(command).map_err(|error| StepError::Start(line, error))?;
    let told = results(&said);
    let mut held = 0;
    for promise in &promises {
        let holds = promise.tests.iter().all(|test| told.get(*test) == Some(&true));
        held += usize::from(holds);
        let mark = if holds { "held  " } else { "BROKEN" };
        // A closed pipe changes nothing about the outcome.
        let _ = writeln!(out, "{mark}  {}", promise.words);
        for test in &promise.tests {
            let how = match told.get(*test) {
                Some(true) => "withstood",
                Some(false) => "BROKEN",
                None => "THERE IS NO SUCH TEST",
            };
            let _ = writeln!(out, "          {test}: {how}");
        }
    }
    let _ = writeln!(out, "{held} of {} promises held, {} tests", promises.len(), told.len());
    if held == promises.len() { Ok(()) } else { Err(StepError::Failed("attack".to_owned())) }
}

/// Runs a command and returns what it said; one that takes too long is ended with all it started, and
/// what it has not told by then counts as broken.
fn run_bounded(mut command: Command) -> io::Result<String> {
    let mut child = command.process_group(0).spawn()?;
    let group = format!("-{}", child.id());
    let (done, ended) = mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if ended.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            // It may end in this very moment.
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        }
    });
    let mut said = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut said)?;
    }
    child.wait()?;
    drop(done);
    // It has nothing to say.
    let _ = watch.join();
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// A promise of the document, and the tests that try to break it.
#[derive(Debug, PartialEq, Eq)]
struct Promise<'t> {
    words: &'t str,
    tests: Vec<&'t str>,
}

/// Returns every line of the document that names tests.
fn promises(text: &str) -> Vec<Promise<'_>> {
    let of_line = |line| {
        let tests = tests_in(line);
        let words = str::trim_start_matches(line, "| ").split(" |").next().unwrap_or_default();
        (!tests.is_empty()).then_some(Promise { words, tests })
    };
    text.lines().filter_map(of_line).collect()
}

/// Returns the names of tests in a line: long ones in backquotes.
fn tests_in(line: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_test = |word: &&str| word.len() >= SHORTEST && word.chars().all(is_part);
    line.split('`').skip(1).step_by(2).filter(is_test).collect()
}

/// Returns which tests passed, by their bare names.
fn results(output: &str) -> BTreeMap<String, bool> {
    let of_line = |line: &str| {
        let (path, how) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let name = path.rsplit("::").next()?.trim();
        Some((name.to_owned(), how.trim() == "ok"))
    };
    output.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_a_line_that_names_tests() {
        let text = "| promise | held by | test |\n|---|---|---|\n\
                    | Nothing `.git` | mounts | `what_is_sealed_is_not_changed`, `and_this_is_another_test` |\n\
                    Not held: `salve dev`.\n";
        let tests = vec!["what_is_sealed_is_not_changed", "and_this_is_another_test"];
        assert_eq!(promises(text), [Promise { words: "Nothing `.git`", tests }]);
    }

    #[test]
    fn tests_are_known_by_their_bare_names() {
        let told = results("test a::b::one ... ok\ntest two ... FAILED\nrunning 2 tests\n");
        let want = [("one".to_owned(), true), ("two".to_owned(), false)];
        assert_eq!(told, BTreeMap::from(want));
    }
}
