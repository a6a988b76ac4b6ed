//! The options of test runners that do not change which tests a name stands for.

use super::super::results::CheckTool;

/// What is known about a runner's command line.
#[derive(Debug)]
pub(super) struct Options {
    /// The runner.
    pub(super) tool: CheckTool,
    /// Options that stand alone.
    flags: &'static [&'static str],
    /// Options whose value is the next word, or follows an equal sign.
    values: &'static [&'static str],
}

impl Options {
    /// Returns a command line without its operands, or nothing if a word is not understood.
    pub(super) fn without_operands(&self, args: &[&str]) -> Option<Vec<String>> {
        let operands = self.operands(args)?;
        let kept = args.iter().enumerate().filter(|(at, _)| !operands.contains(at));
        Some(kept.map(|(_, word)| (*word).to_owned()).collect())
    }

    /// Returns which words are operands, or nothing if a word is not understood.
    pub(super) fn operands(&self, args: &[&str]) -> Option<Vec<usize>> {
        let mut operands = Vec::new();
        let mut words = args.iter().enumerate();
        while let Some((at, word)) = words.next() {
            if !word.starts_with('-') {
                operands.push(at);
            } else if self.values.contains(word) {
                words.next()?;
            } else if let Some((name, _)) = word.split_once('=') {
                if !self.values.contains(&name) && !self.flags.contains(word) {
                    return None;
                }
            } else if !self.flags.contains(word) {
                return None;
            }
        }
        Some(operands)
    }
}

pub(super) const PYTEST: Options = Options {
    tool: CheckTool::Pytest,
    flags: &[
        "-v",
        "-vv",
        "-vvv",
        "-q",
        "-qq",
        "-x",
        "-s",
        "-l",
        "-ra",
        "-rA",
        "-rf",
        "-rfE",
        "-vs",
        "-sv",
        "-xvs",
        "-xq",
        "-qx",
        "-xv",
        "-vx",
        "-sq",
        "-qs",
        "--verbose",
        "--quiet",
        "--exitfirst",
        "--showlocals",
        "--strict-markers",
        "--strict-config",
        "--strict",
        "--no-header",
        "--disable-warnings",
        "--full-trace",
        "--disable-pytest-warnings",
        "--failed-first",
        "--ff",
    ],
    values: &[
        "-k",
        "-m",
        "-n",
        "-c",
        "-o",
        "-W",
        "-r",
        "--tb",
        "--maxfail",
        "--durations",
        "--timeout",
        "--numprocesses",
        "--dist",
        "--color",
        "--capture",
        "--rootdir",
        "--junitxml",
        "--import-mode",
        "--log-level",
        "--override-ini",
        "--config-file",
    ],
};

pub(super) const UNITTEST: Options = Options {
    tool: CheckTool::Unittest,
    flags: &[
        "-v",
        "-q",
        "-f",
        "-b",
        "-c",
        "--verbose",
        "--quiet",
        "--failfast",
        "--buffer",
        "--locals",
    ],
    values: &[],
};

pub(super) const JEST: Options = Options {
    tool: CheckTool::Jest,
    flags: &[
        "--ci",
        "--runInBand",
        "-i",
        "--silent",
        "--verbose",
        "--no-cache",
        "--forceExit",
        "--detectOpenHandles",
        "--bail",
        "-b",
        "--colors",
        "--color",
        "--no-color",
        "--watchAll=false",
        "--watch=false",
        "--no-watchman",
        "--runTestsByPath",
        "--passWithNoTests",
    ],
    values: &["-c", "--config", "--maxWorkers", "-w", "--testTimeout", "--rootDir", "--env"],
};

pub(super) const VITEST: Options = Options {
    tool: CheckTool::Vitest,
    flags: &[
        "--run",
        "--silent",
        "--no-color",
        "--color",
        "--passWithNoTests",
        "--watch=false",
        "--no-watch",
        "--globals",
        "--dom",
        "--no-file-parallelism",
        "--allowOnly=false",
    ],
    values: &[
        "-c",
        "--config",
        "--reporter",
        "--project",
        "--environment",
        "--pool",
        "--bail",
        "--mode",
        "--testTimeout",
        "--maxWorkers",
    ],
};

pub(super) const MOCHA: Options = Options {
    tool: CheckTool::Mocha,
    flags: &[
        "--recursive",
        "--exit",
        "--bail",
        "-b",
        "--colors",
        "--color",
        "-c",
        "--no-color",
        "--no-colors",
        "--check-leaks",
        "--full-trace",
        "--forbid-only",
        "--forbid-pending",
        "--parallel",
        "-p",
    ],
    values: &[
        "-r",
        "--require",
        "--import",
        "--timeout",
        "-t",
        "--reporter",
        "-R",
        "--ui",
        "-u",
        "--slow",
        "-s",
        "--config",
        "--extension",
        "--ext",
        "--file",
        "--spec",
        "--jobs",
        "-j",
        "--ignore",
    ],
};

pub(super) const NODE: Options = Options {
    tool: CheckTool::NodeTest,
    flags: &[
        "--test",
        "--enable-source-maps",
        "--no-warnings",
        "--test-force-exit",
        "--experimental-strip-types",
        "--experimental-vm-modules",
        "--no-deprecation",
        "--trace-warnings",
        "--test-only",
    ],
    values: &[
        "--import",
        "--require",
        "-r",
        "--loader",
        "--experimental-loader",
        "--test-reporter",
        "--test-reporter-destination",
        "--test-timeout",
        "--test-concurrency",
        "--conditions",
        "-C",
    ],
};

/// Everything before `--` is cargo's own business, so nothing of it has to be understood.
pub(super) const CARGO: Options = Options { tool: CheckTool::CargoTest, flags: &[], values: &[] };

pub(super) const NEXTEST: Options = Options {
    tool: CheckTool::Nextest,
    flags: &[
        "--workspace",
        "--all",
        "--all-targets",
        "--all-features",
        "--no-default-features",
        "--release",
        "-r",
        "--lib",
        "--bins",
        "--tests",
        "--locked",
        "--frozen",
        "--offline",
        "--no-fail-fast",
        "--fail-fast",
        "--no-capture",
        "--hide-progress-bar",
        "-v",
    ],
    values: &[
        "-p",
        "--package",
        "--exclude",
        "-F",
        "--features",
        "--test",
        "--bin",
        "--profile",
        "-P",
        "--cargo-profile",
        "--target",
        "--target-dir",
        "--manifest-path",
        "-j",
        "--test-threads",
        "--retries",
        "--color",
        "--status-level",
        "--final-status-level",
        "--failure-output",
    ],
};

/// A test's name is given before all packages and options, so nothing has to be understood.
pub(super) const GO: Options = Options { tool: CheckTool::GoTest, flags: &[], values: &[] };
