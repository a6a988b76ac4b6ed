//! What passes or attempts left, and whether anything moves.

use crate::event::Digest;

/// What a pass or an attempt left: the tree and what failed in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressMark {
    /// The hash of the tree, if it could be taken.
    pub tree: Option<Digest>,
    /// The hash of what failed.
    pub failing: Digest,
}

/// What each pass of a run left, or each attempt at one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgressMarks {
    pub(super) marks: Vec<ProgressMark>,
}

impl ProgressMarks {
    /// Keeps what a pass or an attempt left.
    pub(crate) fn leave(&mut self, mark: ProgressMark) {
        self.marks.push(mark);
    }

    /// Returns how many of the marks are what the last one is, itself included.
    ///
    /// The same tree with the same failures counts wherever it was seen before: going to and fro
    /// is no progress. What could not be measured is never the same.
    pub(crate) fn unchanged(&self) -> u32 {
        let Some(last) = self.marks.last().filter(|mark| mark.tree.is_some()) else { return 0 };
        let same = self.marks.iter().filter(|mark| *mark == last).count();
        u32::try_from(same).unwrap_or(u32::MAX)
    }

    /// Returns how often a mark would have been left, itself included; see
    /// [`ProgressMarks::unchanged`].
    pub(crate) fn repeats(&self, mark: ProgressMark) -> u32 {
        if mark.tree.is_none() {
            return 0;
        }
        let same = self.marks.iter().filter(|known| **known == mark).count();
        u32::try_from(same).unwrap_or(u32::MAX).saturating_add(1)
    }
}
