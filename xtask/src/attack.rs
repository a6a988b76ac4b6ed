//! Walks the promises of `docs/security.md` and attacks each of them.
//!
//! The document is the table: every row names the tests that try to break its promise, most of them
//! against the real binary. A promise whose test is gone is a failure like one that does not hold; one
//! whose test says that this machine does not let it try (`skipped: …`) is told and counts as neither.

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
    let mut command =
        cargo("test -p salve -p salve-core --all-features --lib --test it --no-fail-fast --");
    command.args(&names).arg("--show-output").stdout(Stdio::piped());
    let line = "cargo test".to_owned();
    let said = run_bounded(command).map_err(|error| StepError::Start(line, error))?;
    let told = results(&said);
    let (mut held, mut untried) = (0, 0);
    for promise in &promises {
        let ends = || promise.tests.iter().map(|test| told.get(*test).copied());
        let is_broken = ends().any(|end| matches!(end, None | Some(AttackEnd::Broken)));
        let is_untried = !is_broken && ends().any(|end| end == Some(AttackEnd::NotTried));
        held += usize::from(!is_broken && !is_untried);
        untried += usize::from(is_untried);
        let mark = match (is_broken, is_untried) {
            (true, _) => "BROKEN",
            (false, true) => "?     ",
            (false, false) => "held  ",
        };
        // A closed pipe changes nothing about the outcome.
        let _ = writeln!(out, "{mark}  {}", promise.words);
        for test in &promise.tests {
            let how = match told.get(*test) {
                Some(AttackEnd::Withstood) => "withstood",
                Some(AttackEnd::NotTried) => "not tried on this machine",
                Some(AttackEnd::Broken) => "BROKEN",
                None => "THERE IS NO SUCH TEST",
            };
            let _ = writeln!(out, "          {test}: {how}");
        }
    }
    let (all, tests) = (promises.len(), told.len());
    let _ = writeln!(out, "{held} of {all} promises held, {untried} not tried here, {tests} tests");
    if held + untried == all { Ok(()) } else { Err(StepError::Failed("attack".to_owned())) }
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

/// What came of a test; of several that have one name, the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AttackEnd {
    Withstood,
    /// The machine does not let it try.
    NotTried,
    Broken,
}

/// Returns what came of each test, by their bare names.
fn results(output: &str) -> BTreeMap<String, AttackEnd> {
    let mut ends = BTreeMap::new();
    let bare = |path: &str| path.rsplit("::").next().unwrap_or(path).trim().to_owned();
    let mut speaker = None;
    for line in output.lines() {
        let told = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        let speaks = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        let (name, end) = match (told, speaks) {
            (Some((path, "ok")), _) => (bare(path), AttackEnd::Withstood),
            (Some((path, _)), _) => (bare(path), AttackEnd::Broken),
            (None, Some(path)) => {
                speaker = Some(bare(path));
                continue;
            }
            (None, None) => match speaker.clone().filter(|_| line.starts_with("skipped: ")) {
                Some(name) => (name, AttackEnd::NotTried),
                None => continue,
            },
        };
        let worst = ends.entry(name).or_insert(end);
        *worst = end.max(*worst);
    }
    ends
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
        let told = results(
            "test a::b::one ... ok\ntest two ... FAILED\nrunning 2 tests\ntest a::three ... ok\n\
             test b::three ... FAILED\ntest c::three ... ok\ntest four ... ok\n\nsuccesses:\n\n\
             ---- a::one stdout ----\na word\n---- four stdout ----\nskipped: not root\n\nfailures:\n",
        );
        use AttackEnd::{Broken, NotTried, Withstood};
        let want = [("one", Withstood), ("two", Broken), ("three", Broken), ("four", NotTried)];
        assert_eq!(told, want.map(|(name, end)| (name.to_owned(), end)).into());
    }
}
