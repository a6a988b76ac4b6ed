//! Which failures were seen in which trees, and whether anything moves.

use crate::event::{Digest, Symptom};
use crate::id::Signature;

/// Every failure of one incident with the tree it happened in.
///
/// No progress is the same failure in the same tree, seen again anywhere in the history: going
/// from A to B and back to A is no progress either. A tree that could not be hashed is unlike any
/// other, so it never counts as a repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    seen: Vec<(Signature, Option<Digest>)>,
    repeats: u32,
}

impl History {
    /// Takes in a failure.
    pub(super) fn see(&mut self, symptom: &Symptom) {
        let pair = (symptom.signature, symptom.tree);
        if symptom.tree.is_some() && self.seen.contains(&pair) {
            self.repeats = self.repeats.saturating_add(1);
        }
        self.seen.push(pair);
    }

    /// Counts repetitions afresh, for a workspace that was rebuilt; what was seen stays known.
    pub(super) fn forgive(&mut self) {
        self.repeats = 0;
    }

    /// Returns how often a failure came back in a tree it had been seen in.
    pub fn repeats(&self) -> u32 {
        self.repeats
    }

    /// Tells whether a failure was seen, in whatever tree.
    pub fn has_seen(&self, signature: Signature) -> bool {
        self.seen.iter().any(|(seen, _)| *seen == signature)
    }

    /// Returns how many failures were seen.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Tells whether nothing was seen yet.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::event::Acted;
    use crate::scrub::Scrubbed;

    #[track_caller]
    fn check(seen: &[(u64, Option<&str>)], repeats: u32) {
        let mut history = History::default();
        for &(signature, tree) in seen {
            history.see(&Symptom {
                signature: Signature(signature),
                class: Class::Unknown,
                key_line: Scrubbed::literal(""),
                exit: None,
                tree: tree.map(|tree| Digest::of(&[tree.as_bytes()])),
                acted: Acted::No,
            });
        }
        assert_eq!(history.repeats(), repeats, "{seen:?}");
    }

    #[test]
    fn the_same_failure_in_the_same_tree_is_no_progress() {
        check(&[(1, Some("a"))], 0);
        check(&[(1, Some("a")), (1, Some("a"))], 1);
        check(&[(1, Some("a")), (1, Some("b"))], 0);
        check(&[(1, Some("a")), (2, Some("a"))], 0);
        check(&[(1, Some("a")), (1, Some("a")), (1, Some("a"))], 2);
    }

    #[test]
    fn there_and_back_is_no_progress() {
        check(&[(1, Some("a")), (2, Some("b")), (1, Some("a"))], 1);
        check(&[(1, Some("a")), (2, Some("b")), (1, Some("a")), (2, Some("b"))], 2);
    }

    #[test]
    fn an_unknown_tree_is_unlike_any_other() {
        check(&[(1, None), (1, None), (1, None)], 0);
    }
}
