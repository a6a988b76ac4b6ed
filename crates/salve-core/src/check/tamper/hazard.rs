//! Things in a file of tests that keep tests from running or from failing.

use std::ops::Range;

use super::text::{Language, SourceText, calls, near, starts_name};

/// What a passage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Hazard {
    /// It skips tests as they run.
    Skip,
    /// It never runs.
    Dead,
    /// It swallows failures.
    Swallow,
    /// It replaces what would be tested.
    Mock,
    /// It ends the run, with success.
    Exit,
    /// It changes which tests the runner sees or what it makes of them.
    Hook,
    /// It runs tests again until they pass.
    Retry,
}

impl Hazard {
    /// Returns what to tell a person.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Hazard::Skip => "tests are skipped",
            Hazard::Dead => "code never runs",
            Hazard::Swallow => "failures are swallowed",
            Hazard::Mock => "what is tested is replaced",
            Hazard::Exit => "the run is ended early",
            Hazard::Hook => "the runner is tampered with",
            Hazard::Retry => "tests are run until they pass",
        }
    }
}

/// A passage and what it does.
type HazardWord = (&'static str, Hazard);

const PYTHON: &[HazardWord] = &[
    ("pytest.skip(", Hazard::Skip),
    ("pytest.xfail(", Hazard::Skip),
    ("pytest.importorskip(", Hazard::Skip),
    ("self.skipTest(", Hazard::Skip),
    ("raise unittest.SkipTest", Hazard::Skip),
    ("raise SkipTest", Hazard::Skip),
    ("pytestmark", Hazard::Skip),
    ("collect_ignore", Hazard::Skip),
    ("__test__", Hazard::Skip),
    ("contextlib.suppress(", Hazard::Swallow),
    ("suppress(", Hazard::Swallow),
    ("mock.patch", Hazard::Mock),
    ("@patch(", Hazard::Mock),
    ("monkeypatch.setattr(", Hazard::Mock),
    ("mocker.patch", Hazard::Mock),
    ("MagicMock(", Hazard::Mock),
    ("sys.modules[", Hazard::Mock),
    ("os._exit(", Hazard::Exit),
    ("sys.exit(", Hazard::Exit),
    ("pytest.exit(", Hazard::Exit),
    ("def pytest_", Hazard::Hook),
    ("exitstatus", Hazard::Hook),
    ("items[:]", Hazard::Hook),
    ("items.clear(", Hazard::Hook),
    ("items.remove(", Hazard::Hook),
    ("unittest.TestCase.assert", Hazard::Hook),
    ("TestCase.run", Hazard::Hook),
    ("builtins.", Hazard::Hook),
    ("pytest.mark.flaky", Hazard::Retry),
    ("reruns", Hazard::Retry),
];

const SCRIPT: &[HazardWord] = &[
    ("this.skip(", Hazard::Skip),
    ("t.skip(", Hazard::Skip),
    ("ctx.skip(", Hazard::Skip),
    ("context.skip(", Hazard::Skip),
    ("jest.mock(", Hazard::Mock),
    ("vi.mock(", Hazard::Mock),
    ("jest.doMock(", Hazard::Mock),
    ("vi.doMock(", Hazard::Mock),
    ("jest.spyOn(", Hazard::Mock),
    ("vi.spyOn(", Hazard::Mock),
    ("sinon.stub(", Hazard::Mock),
    ("mock.module(", Hazard::Mock),
    ("process.exit(", Hazard::Exit),
    ("process.exitCode", Hazard::Exit),
    ("expect.extend(", Hazard::Hook),
    ("global.expect", Hazard::Hook),
    ("globalThis.expect", Hazard::Hook),
    ("global.it", Hazard::Hook),
    ("globalThis.it", Hazard::Hook),
    ("global.test", Hazard::Hook),
    ("globalThis.test", Hazard::Hook),
    ("assert.equal =", Hazard::Hook),
    ("assert.strictEqual =", Hazard::Hook),
    ("jest.retryTimes(", Hazard::Retry),
    ("this.retries(", Hazard::Retry),
    ("if (false)", Hazard::Dead),
    ("if(false)", Hazard::Dead),
    ("if (0)", Hazard::Dead),
    ("if (!true)", Hazard::Dead),
    ("while (false)", Hazard::Dead),
    ("false &&", Hazard::Dead),
];

const RUST: &[HazardWord] = &[
    ("catch_unwind(", Hazard::Swallow),
    ("process::exit(", Hazard::Exit),
    ("if false", Hazard::Dead),
    ("while false", Hazard::Dead),
    ("cfg!(any())", Hazard::Dead),
    ("#![cfg(", Hazard::Skip),
    ("macro_rules! assert", Hazard::Hook),
    ("panic::set_hook(", Hazard::Hook),
];

const GO: &[HazardWord] = &[
    ("t.Skip(", Hazard::Skip),
    ("t.Skipf(", Hazard::Skip),
    ("t.SkipNow(", Hazard::Skip),
    ("recover()", Hazard::Swallow),
    ("os.Exit(", Hazard::Exit),
    ("func TestMain(", Hazard::Hook),
    ("if false", Hazard::Dead),
];

/// Returns the words of each hazard.
fn words(language: Language) -> &'static [HazardWord] {
    match language {
        Language::Python => PYTHON,
        Language::Script => SCRIPT,
        Language::Rust => RUST,
        Language::Go => GO,
    }
}

/// Returns every hazard of a file and where it stands.
pub(super) fn hazards(source: &SourceText<'_>) -> Vec<(Hazard, usize)> {
    let mut found = Vec::new();
    for (word, hazard) in words(source.language) {
        let odd = word.starts_with(|c: char| !c.is_alphanumeric() && c != '_');
        let hits = memchr::memmem::find_iter(source.bare.as_bytes(), word.as_bytes());
        let own = hits.filter(|at| odd || starts_name(&source.bare, *at));
        found.extend(own.map(|at| (*hazard, at)));
    }
    match source.language {
        Language::Python => python(source, &mut found),
        Language::Script => {
            let tries = calls(&source.bare, "catch").take(2_000).filter(|at| swallows(source, *at));
            found.extend(tries.map(|at| (Hazard::Swallow, at)));
        }
        Language::Go => {
            // A condition on the build is written as a comment.
            let tags = ["//go:build ", "// +build "];
            let tag = tags.iter().find_map(|tag| source.text.find(tag));
            found.extend(tag.map(|at| (Hazard::Skip, at)));
        }
        Language::Rust => {}
    }
    found.sort_unstable_by_key(|(_, at)| *at);
    found
}

/// Finds conditions that never hold, and handlers that do nothing about a failure.
fn python(source: &SourceText<'_>, found: &mut Vec<(Hazard, usize)>) {
    let mut at = 0;
    let mut handler: Option<(usize, usize)> = None;
    for line in source.bare.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let code = line.trim();
        if code.is_empty() {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        if let Some((opened, place)) = handler {
            if indent <= opened {
                found.push((Hazard::Swallow, place));
                handler = None;
            } else if ["raise", "assert", "fail("].iter().any(|word| code.contains(word)) {
                handler = None;
            }
        }
        if code.starts_with("except") && code.contains(':') {
            let alone = !code.ends_with(':');
            if alone {
                if !code.contains("raise") {
                    found.push((Hazard::Swallow, start))
                }
            } else {
                handler = Some((indent, start))
            }
        } else if super::cases::is_dead(code) {
            found.push((Hazard::Dead, start));
        }
    }
    found.extend(handler.map(|(_, place)| (Hazard::Swallow, place)));
}

/// Tells whether a `catch` does nothing that would fail the test.
fn swallows(source: &SourceText<'_>, at: usize) -> bool {
    let Some(open) = near(&source.bare, at, 200).find('{').map(|n| at + n) else { return false };
    let body = source.bare.get(open..source.closing(open)).unwrap_or_default();
    let body = near(body, 0, 2_000);
    let acts = ["throw", "expect", "assert", "fail", "done(", "reject("];
    !acts.iter().any(|word| body.contains(word))
}

/// Returns the places where a test ends before it has asserted anything further.
pub(super) fn early_returns(
    source: &SourceText<'_>,
    span: &Range<usize>,
    last_assertion: usize,
) -> usize {
    let start = span.start;
    let Some(bare) = source.bare.get(span.clone()) else { return 0 };
    let floor = match source.language {
        Language::Python => return python_returns(bare, start, last_assertion),
        // The test is a function among the arguments.
        Language::Script => 1,
        Language::Rust | Language::Go => 0,
    };
    let mut depth = 0_usize;
    let mut count = 0;
    for (n, byte) in bare.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b'r' if depth == floor && bare[n..].starts_with("return") && starts_name(bare, n) => {
                let rest = near(bare, n + 6, 400);
                let ends = rest.find([';', '\n']).unwrap_or(rest.len());
                let word = rest.starts_with([';', ' ', '\n', '}']) || rest.is_empty();
                if word && start + n + 6 + ends < last_assertion {
                    count += 1;
                }
            }
            _ => {}
        }
    }
    count
}

fn python_returns(bare: &str, start: usize, last_assertion: usize) -> usize {
    let lines = || bare.split_inclusive('\n').filter(|line| !line.trim().is_empty());
    let indent = |line: &str| line.len() - line.trim_start().len();
    let Some(own) = lines().next().map(indent) else { return 0 };
    let mut at = start;
    let mut count = 0;
    for line in bare.split_inclusive('\n') {
        let code = line.trim();
        let returns = code == "return" || code.starts_with("return ") || code.starts_with("raise ");
        if returns && indent(line) == own && at + line.len() < last_assertion {
            count += 1;
        }
        at += line.len();
    }
    count
}
