//! What kind of failure a symptom is, and what each spec calls that kind.
//!
//! [`Class`] is Salve's own vocabulary. The five specs use coarser words of their own
//! (a recovery proposal's `category`, a tool failure's `type`, …); [`Class::categories`] is the
//! one table that maps to them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The kind of a failure, as the fingerprint's rules tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A module or name could not be imported.
    ImportError,
    /// A declared dependency is not installed.
    DependencyMissing,
    /// Dependencies contradict one another.
    DependencyConflict,
    /// Two parts have versions that do not go together.
    VersionMismatch,
    /// A program or system library is not installed.
    MissingTool,
    /// Source text does not parse.
    SyntaxError,
    /// Types do not fit.
    TypeError,
    /// A linter or formatter complains.
    LintError,
    /// A test ran and failed.
    TestFailure,
    /// A build step failed for a reason of its own.
    BuildError,
    /// The program failed while running.
    RuntimeError,
    /// A setting is missing or wrong.
    ConfigError,
    /// The machine or a service on it is not as needed.
    Environment,
    /// The file system or the system refused access.
    Permission,
    /// A remote service refused the credentials.
    Auth,
    /// A connection could not be made or broke.
    Network,
    /// A certificate or handshake was refused.
    Tls,
    /// A service asked to slow down, or a quota is used up.
    RateLimit,
    /// A port is taken.
    PortConflict,
    /// A database refused a query or its schema is not as expected.
    DbError,
    /// No space left.
    DiskFull,
    /// No memory left.
    Oom,
    /// Another limit of the system was reached (file watchers, open files, …).
    ResourceLimit,
    /// A lock is held by someone else, or was left behind.
    LockHeld,
    /// Something took longer than it may.
    Timeout,
    /// No sign of life.
    Hang,
    /// None of the above.
    Unknown,
}

/// What kind of failure ended an attempt at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// It may pass by itself.
    TransientRuntime,
    /// The same failure left the same tree again.
    StuckNoProgress,
    /// The step asks for something that cannot be had.
    DeterministicContract,
    /// A rule or a permission forbids it.
    DeterministicPolicy,
    /// The repository itself is in the way.
    DeterministicRepo,
}

impl FailureClass {
    /// Returns the word of the spec.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TransientRuntime => "transient_runtime",
            Self::StuckNoProgress => "stuck_no_progress",
            Self::DeterministicContract => "deterministic_contract",
            Self::DeterministicPolicy => "deterministic_policy",
            Self::DeterministicRepo => "deterministic_repo",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the specs call one class; see [`Class::categories`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Categories {
    /// `category` of a recovery proposal; `None` where recovery must not be proposed.
    pub recovery: Option<&'static str>,
    /// `by_type` of the tool failure statistics.
    pub tool: &'static str,
    /// Failure class of a job step.
    pub job: FailureClass,
    /// Error type of a check's healing pattern.
    pub check: Option<&'static str>,
}

/// Declares every class once: variant, name, and the four specs' words for it.
macro_rules! classes {
    ($($variant:ident $name:literal $recovery:expr, $tool:literal, $job:ident, $check:expr;)*) => {
        impl Class {
            /// Every class, in the order of declaration.
            pub const ALL: &[Class] = &[$(Class::$variant),*];

            /// Returns the name used in JSON, config and on screen.
            pub const fn as_str(self) -> &'static str {
                match self { $(Class::$variant => $name),* }
            }

            /// Returns what the specs call this class.
            pub const fn categories(self) -> Categories {
                match self {
                    $(Class::$variant => Categories {
                        recovery: $recovery, tool: $tool, job: FailureClass::$job, check: $check,
                    }),*
                }
            }

            /// Tells whether such a failure may pass by itself.
            pub fn may_pass(self) -> bool {
                self.categories().job == FailureClass::TransientRuntime
            }
        }
    };
}

classes! {
    ImportError "import_error" Some("dependency"), "unknown", DeterministicRepo, Some("import");
    DependencyMissing "dependency_missing" Some("dependency"), "unknown", DeterministicRepo, Some("import");
    DependencyConflict "dependency_conflict" Some("dependency"), "unknown", DeterministicRepo, None;
    VersionMismatch "version_mismatch" Some("dependency"), "unknown", DeterministicRepo, None;
    MissingTool "missing_tool" Some("environment"), "unknown", DeterministicContract, Some("file-not-found");
    SyntaxError "syntax_error" None, "unknown", DeterministicRepo, Some("syntax");
    TypeError "type_error" None, "unknown", DeterministicRepo, Some("type");
    LintError "lint_error" None, "unknown", DeterministicRepo, None;
    TestFailure "test_failure" None, "unknown", DeterministicRepo, None;
    BuildError "build_error" None, "unknown", DeterministicRepo, None;
    RuntimeError "runtime_error" None, "unknown", DeterministicRepo, Some("attribute");
    ConfigError "config_error" Some("config"), "unknown", DeterministicContract, Some("JSON");
    Environment "environment" Some("environment"), "unknown", DeterministicContract, Some("file-not-found");
    Permission "permission" Some("permissions"), "auth", DeterministicPolicy, Some("permission");
    Auth "auth" Some("permissions"), "auth", DeterministicPolicy, Some("permission");
    Network "network" Some("network"), "network", TransientRuntime, Some("network");
    Tls "tls" Some("network"), "network", DeterministicContract, Some("network");
    RateLimit "rate_limit" Some("network"), "unknown", TransientRuntime, Some("network");
    PortConflict "port_conflict" Some("environment"), "unknown", TransientRuntime, None;
    DbError "db_error" Some("environment"), "unknown", DeterministicContract, None;
    DiskFull "disk_full" Some("environment"), "unknown", DeterministicContract, None;
    Oom "oom" Some("environment"), "unknown", TransientRuntime, None;
    ResourceLimit "resource_limit" Some("environment"), "unknown", TransientRuntime, None;
    LockHeld "lock_held" Some("environment"), "unknown", TransientRuntime, None;
    Timeout "timeout" Some("network"), "network", TransientRuntime, Some("network");
    Hang "hang" Some("environment"), "unknown", StuckNoProgress, None;
    Unknown "unknown" None, "unknown", TransientRuntime, None;
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A class name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown class `{0}`")]
pub struct UnknownClass(pub String);

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(name: &str) -> Result<Self, UnknownClass> {
        let found = Self::ALL.iter().find(|class| class.as_str() == name);
        found.copied().ok_or_else(|| UnknownClass(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_agree_with_serde() {
        for &class in Class::ALL {
            assert_eq!(class.as_str().parse(), Ok(class));
            assert_eq!(serde_json::to_string(&class).unwrap(), format!("\"{class}\""));
        }
        assert_eq!(Class::ALL.len(), 27);
        assert_eq!("portconflict".parse::<Class>(), Err(UnknownClass("portconflict".into())));
    }

    #[test]
    fn categories_are_words_of_the_specs() {
        for &class in Class::ALL {
            let words = class.categories();
            let known = |word: Option<&str>, list: &[&str]| word.is_none_or(|w| list.contains(&w));
            let recovery = ["dependency", "config", "environment", "permissions", "network"];
            assert!(known(words.recovery, &recovery), "{class}");
            assert!(known(Some(words.tool), &["network", "auth", "unknown"]), "{class}");
            let job = serde_json::to_string(&words.job).unwrap();
            assert_eq!(job, format!("\"{}\"", words.job), "{class}");
            let check = [
                "import",
                "syntax",
                "type",
                "file-not-found",
                "permission",
                "network",
                "JSON",
                "attribute",
            ];
            assert!(known(words.check, &check), "{class}");
        }
    }

    #[test]
    fn what_may_pass_is_what_a_job_tries_again() {
        let passing = Class::ALL.iter().filter(|class| class.may_pass());
        let words: Vec<_> = passing.map(|class| class.as_str()).collect();
        let want = "network rate_limit port_conflict oom resource_limit lock_held timeout unknown";
        assert_eq!(words.join(" "), want);
    }

    #[test]
    fn code_bugs_never_get_a_recovery_category() {
        use Class::*;
        for class in [SyntaxError, TypeError, LintError, TestFailure, BuildError, RuntimeError] {
            assert_eq!(class.categories().recovery, None, "{class}");
        }
    }
}
