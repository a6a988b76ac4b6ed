//! How large a repair is, and whether that needs a person.

use crate::event::{Change, IncidentPolicy};

/// Returns the larger of what was measured and what was reported.
///
/// What was not measured stays unknown whatever was reported: an agent is not believed about
/// itself, and what is missing is not zero.
pub fn larger(measured: Change, reported: Change) -> Change {
    let larger = |measured: Option<u32>, reported: Option<u32>| {
        measured.map(|measured| measured.max(reported.unwrap_or(measured)))
    };
    Change {
        files: larger(measured.files, reported.files),
        lines: larger(measured.lines, reported.lines),
    }
}

/// Tells whether a change may stay without a person: its size is known and within the limits.
pub fn is_small(change: Change, policy: &IncidentPolicy) -> bool {
    change.files.is_some_and(|files| files <= policy.max_files)
        && change.lines.is_some_and(|lines| lines <= policy.max_lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incident::testing::policy;

    fn change(files: impl Into<Option<u32>>, lines: impl Into<Option<u32>>) -> Change {
        Change { files: files.into(), lines: lines.into() }
    }

    #[track_caller]
    fn check(measured: Change, reported: Change, small: bool) {
        let policy = policy();
        assert_eq!((policy.max_files, policy.max_lines), (8, 300));
        let change = larger(measured, reported);
        assert_eq!(is_small(change, &policy), small, "{measured:?} {reported:?} gave {change:?}");
    }

    #[test]
    fn the_larger_of_measured_and_reported_counts() {
        check(change(8, 300), change(1, 1), true);
        check(change(9, 1), change(1, 1), false);
        check(change(1, 301), change(1, 1), false);
        check(change(1, 1), change(20, 500), false);
        check(change(1, 1), change(8, 301), false);
        check(change(0, 0), change(None, None), true);
    }

    #[test]
    fn what_was_not_measured_is_not_zero() {
        check(change(None, None), change(0, 0), false);
        check(change(None, 1), change(1, 1), false);
        check(change(1, None), change(1, 1), false);
    }
}
