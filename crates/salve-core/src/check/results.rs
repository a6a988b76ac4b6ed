//! What a check's output says.

use std::collections::BTreeSet;
use std::fmt;

/// The most failed cases that are kept.
pub(super) const MOST_CASES: usize = 500;

/// The most places that are kept.
pub(super) const MOST_PLACES: usize = 200;

/// A tool whose output is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CheckTool {
    Pytest,
    /// Python's own unittest.
    Unittest,
    Jest,
    Vitest,
    Mocha,
    /// Node's own test runner.
    NodeTest,
    CargoTest,
    /// `cargo nextest`.
    Nextest,
    GoTest,
    /// The TypeScript compiler.
    Tsc,
    Mypy,
    Pyright,
    Eslint,
    Biome,
    Ruff,
    /// `cargo build`, `cargo check` and clippy.
    Rustc,
    /// `go build` and `go vet`.
    GoBuild,
    /// A C compiler, or another that writes like one.
    Cc,
    /// A bundler: Vite, webpack, esbuild, Rollup.
    Bundler,
}

/// What sort of check a tool makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sort {
    /// It runs tests.
    Test,
    /// It checks types.
    Types,
    /// It looks for bad style.
    Lint,
    Build,
}

impl CheckTool {
    /// Returns the name for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            CheckTool::Pytest => "pytest",
            CheckTool::Unittest => "unittest",
            CheckTool::Jest => "jest",
            CheckTool::Vitest => "vitest",
            CheckTool::Mocha => "mocha",
            CheckTool::NodeTest => "node --test",
            CheckTool::CargoTest => "cargo test",
            CheckTool::Nextest => "cargo nextest",
            CheckTool::GoTest => "go test",
            CheckTool::Tsc => "tsc",
            CheckTool::Mypy => "mypy",
            CheckTool::Pyright => "pyright",
            CheckTool::Eslint => "eslint",
            CheckTool::Biome => "biome",
            CheckTool::Ruff => "ruff",
            CheckTool::Rustc => "rustc",
            CheckTool::GoBuild => "go build",
            CheckTool::Cc => "cc",
            CheckTool::Bundler => "bundler",
        }
    }

    /// Returns what sort of check the tool makes.
    pub const fn sort(self) -> Sort {
        match self {
            CheckTool::Pytest
            | CheckTool::Unittest
            | CheckTool::Jest
            | CheckTool::Vitest
            | CheckTool::Mocha
            | CheckTool::NodeTest
            | CheckTool::CargoTest
            | CheckTool::Nextest
            | CheckTool::GoTest => Sort::Test,
            CheckTool::Tsc | CheckTool::Mypy | CheckTool::Pyright => Sort::Types,
            CheckTool::Eslint | CheckTool::Biome | CheckTool::Ruff => Sort::Lint,
            CheckTool::Rustc | CheckTool::GoBuild | CheckTool::Cc | CheckTool::Bundler => {
                Sort::Build
            }
        }
    }
}

impl fmt::Display for CheckTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something that failed: a test, a file of tests that could not be loaded, or a finding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FailedCase {
    /// The file, as the tool writes it.
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The test's name as the tool writes it, the file where all of it failed, or the finding.
    pub name: String,
}

impl FailedCase {
    /// Tells whether all of a file failed rather than one test in it.
    pub fn is_whole_file(&self) -> bool {
        self.file.as_ref() == Some(&self.name)
    }
}

/// A line of a file that an error names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorPlace {
    /// The file, as the tool writes it.
    pub file: String,
    /// The line, if one is named.
    pub line: Option<u32>,
}

/// How many tests ran how; what the output does not say is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestCounts {
    /// Tests that passed.
    pub passed: Option<u32>,
    /// Tests that failed.
    pub failed: Option<u32>,
    /// Tests that were left out, expected to fail or yet to be written.
    pub skipped: Option<u32>,
    /// Errors beside tests, or findings of a tool that runs no tests.
    pub errors: Option<u32>,
    /// All tests, those left out included.
    pub total: Option<u32>,
}

impl TestCounts {
    /// Returns how many tests ran, if the output says; those left out do not count.
    pub fn ran(&self) -> Option<u32> {
        let skipped = self.skipped.unwrap_or(0);
        let counted = self.passed.map(|passed| passed.saturating_add(self.failed.unwrap_or(0)));
        self.total.map(|total| total.saturating_sub(skipped)).or(counted)
    }

    /// Adds what another run of tests counted.
    pub(super) fn add(&mut self, other: &Self) {
        let both = |mine: &mut Option<u32>, other: Option<u32>| {
            if let Some(other) = other {
                *mine = Some(mine.unwrap_or(0).saturating_add(other));
            }
        };
        both(&mut self.passed, other.passed);
        both(&mut self.failed, other.failed);
        both(&mut self.skipped, other.skipped);
        both(&mut self.errors, other.errors);
        both(&mut self.total, other.total);
    }
}

/// What a check's output says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// The tool that wrote it; where several did, the one that failed.
    pub tool: Option<CheckTool>,
    /// What failed, in the output's order, each once.
    pub failed: Vec<FailedCase>,
    pub counts: TestCounts,
    /// The project's files that errors name, in the output's order, each line once.
    pub places: Vec<ErrorPlace>,
    /// Whether more failed than is kept.
    pub cut: bool,
}

impl Results {
    /// Returns the files that failed or that errors name, each once.
    pub fn files(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let failed = self.failed.iter().filter_map(|case| case.file.as_deref());
        let named = failed.chain(self.places.iter().map(|place| place.file.as_str()));
        named.filter(|file| seen.insert(*file)).collect()
    }

    /// Writes files below `root` as seen from there, so that two trees' results can be compared.
    pub fn relative_to(mut self, root: &str) -> Self {
        let root = root.trim_end_matches(['/', '\\']);
        let cut = |text: &mut String| {
            let rest = text.strip_prefix(root).filter(|_| !root.is_empty());
            if let Some(rest) = rest.and_then(|rest| rest.strip_prefix(['/', '\\'])) {
                *text = rest.to_owned();
            }
        };
        for case in &mut self.failed {
            cut(&mut case.name);
            case.file.as_mut().map(cut);
        }
        self.places.iter_mut().for_each(|place| cut(&mut place.file));
        self
    }

    /// Returns what failed now and not `before`, by file and name; lines move with every edit.
    pub fn new_since<'a>(&'a self, before: &Results) -> Vec<&'a FailedCase> {
        let known: BTreeSet<_> =
            before.failed.iter().map(|case| (&case.file, &case.name)).collect();
        self.failed.iter().filter(|case| !known.contains(&(&case.file, &case.name))).collect()
    }

    /// Tells whether any of what failed `before` is among what failed now.
    pub fn shares_a_failure_with(&self, before: &Results) -> bool {
        self.new_since(before).len() < self.failed.len()
    }
}
