//! The words by which a line shows that it names a failure, repeats one, or is only noise.

/// What a word says about the line it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// The line may name a failure; the number is how surely.
    Up(u8),
    /// The line only repeats that something failed, or sums up.
    Wrapper,
    /// The line is a banner, an epilogue, advice or a stack frame, whatever else it says.
    Noise,
}

use Says::{Noise, Up, Wrapper};

/// Every word, of at least four bytes, looked for without regard to case.
pub(crate) const WORDS: &[(&str, Says)] = &[
    ("error", Up(26)),
    ("errno", Up(24)),
    ("assert", Up(12)),
    ("err!", Up(22)),
    ("exception", Up(26)),
    ("fatal", Up(34)),
    ("panic", Up(34)),
    ("traceback", Up(8)),
    ("caused by", Up(36)),
    ("failed", Up(20)),
    ("failure", Up(18)),
    ("fail:", Up(26)),
    ("cannot", Up(24)),
    ("can't", Up(22)),
    ("could not", Up(24)),
    ("couldn't", Up(22)),
    ("unable to", Up(24)),
    ("not found", Up(24)),
    ("no such", Up(26)),
    ("not exist", Up(24)),
    ("doesn't exist", Up(24)),
    ("not installed", Up(26)),
    ("not recognized", Up(26)),
    ("denied", Up(26)),
    ("forbidden", Up(24)),
    ("unauthorized", Up(24)),
    ("not permitted", Up(26)),
    ("refused", Up(26)),
    ("timed out", Up(26)),
    ("timeout", Up(22)),
    ("deadline", Up(22)),
    ("invalid", Up(22)),
    ("illegal", Up(22)),
    ("unexpected", Up(22)),
    ("unknown", Up(18)),
    ("undefined", Up(20)),
    ("unresolved", Up(22)),
    ("unsupported", Up(22)),
    ("missing", Up(20)),
    ("conflict", Up(20)),
    ("mismatch", Up(22)),
    ("incompatible", Up(24)),
    ("already", Up(18)),
    ("abort", Up(20)),
    ("crash", Up(18)),
    ("killed", Up(26)),
    ("segmentation", Up(36)),
    ("core dumped", Up(30)),
    ("out of memory", Up(36)),
    ("no space left", Up(36)),
    ("exceeded", Up(24)),
    ("too many", Up(24)),
    ("rejected", Up(22)),
    ("✘ ", Up(20)),
    ("✗ ", Up(20)),
    ("✕ ", Up(20)),
    ("● ", Up(20)),
    ("command failed", Wrapper),
    ("exited with code", Wrapper),
    ("exit code", Wrapper),
    ("exit status", Wrapper),
    ("non-zero", Wrapper),
    ("returned a non-zero code", Wrapper),
    ("elifecycle", Wrapper),
    ("lifecycle script", Wrapper),
    ("error during build", Wrapper),
    ("build failed", Wrapper),
    ("failed to compile", Wrapper),
    ("make: ***", Wrapper),
    ("make[", Wrapper),
    ("aborting due to", Wrapper),
    ("could not compile", Wrapper),
    ("previous error", Wrapper),
    ("process completed with exit", Wrapper),
    ("app crashed", Wrapper),
    ("triggeruncaughtexception", Wrapper),
    ("throw er;", Wrapper),
    ("throw err", Wrapper),
    ("unhandled 'error' event", Wrapper),
    ("the above exception was", Noise),
    ("during handling of the above", Noise),
    ("another exception occurred", Noise),
    ("encountered errors while", Wrapper),
    ("subprocess-exited-with-error", Wrapper),
    ("calledprocesserror", Wrapper),
    ("a complete log of this run", Noise),
    ("probably not a problem with npm", Noise),
    ("for more information", Noise),
    ("this error originates from", Noise),
    ("note: ", Noise),
    ("hint: ", Noise),
    ("help: ", Noise),
    ("run with `rust_backtrace", Noise),
    ("to see a list of", Noise),
    ("npm verb", Noise),
    ("0 errors", Noise),
    ("no errors", Noise),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_long_enough_and_lower_case() {
        for (word, _) in WORDS {
            assert!(word.len() >= 4 && *word == word.to_lowercase(), "{word}");
        }
    }
}
