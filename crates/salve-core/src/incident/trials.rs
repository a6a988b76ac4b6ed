//! The remedy in question, and those that were considered before it.

use super::{ConsideredRemedy, RemedyFate, Trial, TrialReach};
use crate::event::{Effect, Remedy, RemedyKind, Repeat, Undo};

/// The remedies of one incident: the one that is tried, and how the others fared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trials {
    pub(super) current: Option<Trial>,
    pub(super) tried: Vec<ConsideredRemedy>,
    /// Whether edits stayed that may be somebody else's as well as a remedy's.
    pub(super) has_left_edits: bool,
}

impl Trials {
    /// Remembers how the remedy in question fared.
    pub(super) fn note(&mut self, fate: RemedyFate) {
        if let Some(trial) = &self.current {
            let (digest, signature) = (trial.remedy.digest, trial.signature);
            self.tried.push(ConsideredRemedy { digest, signature, fate });
        }
    }

    /// Tells whether a remedy may be tried after all that was tried before.
    pub(super) fn may_try(&self, remedy: &Remedy) -> bool {
        let same = |tried: &&ConsideredRemedy| tried.digest == remedy.digest;
        self.tried.iter().filter(same).all(|tried| match tried.fate {
            RemedyFate::Denied | RemedyFate::Declined => false,
            RemedyFate::Failed => remedy.repeat == Repeat::Safe,
            RemedyFate::CutShort => true,
        })
    }

    /// Tells whether only a person may have this remedy run, since a part of it may have run already.
    pub(super) fn needs_word(&self, remedy: &Remedy) -> bool {
        let is_cut = |tried: &ConsideredRemedy| tried.fate == RemedyFate::CutShort;
        let was_cut = self.tried.iter().any(|one| one.digest == remedy.digest && is_cut(one));
        was_cut && remedy.repeat == Repeat::Unsafe
    }

    /// Tells whether the remedy in question was being applied by a process that is gone.
    pub(super) fn is_cut_short(&self) -> bool {
        self.current.as_ref().is_some_and(|trial| trial.reach == TrialReach::Unsure)
    }

    /// Tells whether a person declined the remedy that was considered last.
    pub(super) fn was_declined(&self) -> bool {
        self.tried.last().is_some_and(|tried| tried.fate == RemedyFate::Declined)
    }

    /// Returns the kind of the remedy in question.
    pub(super) fn kind(&self) -> Option<RemedyKind> {
        self.current.as_ref().map(|trial| trial.remedy.kind)
    }

    /// Tells whether the remedy in question may have done something in the workspace.
    pub(super) fn is_touched(&self) -> bool {
        self.current.as_ref().is_some_and(|trial| match trial.reach {
            TrialReach::Applied | TrialReach::Unsure => true,
            TrialReach::Untouched | TrialReach::InLayer => false,
        })
    }

    /// Takes in how far the remedy in question got.
    pub(super) fn set_reach(&mut self, reach: TrialReach) {
        if let Some(trial) = &mut self.current {
            trial.reach = reach;
        }
    }

    /// Tells whether what the remedy in question did lies in a private layer, all of it.
    pub(super) fn is_in_layer(&self) -> bool {
        self.current.as_ref().is_some_and(|trial| trial.reach == TrialReach::InLayer)
    }

    /// Tells whether the remedy in question was chosen and has done nothing yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.current.as_ref().is_some_and(|trial| trial.reach == TrialReach::Untouched)
    }

    /// Tells whether the remedy in question did something that a snapshot gives back.
    pub(super) fn can_be_undone(&self) -> bool {
        let has_snapshot = |trial: &Trial| trial.remedy.undo == Undo::Snapshot;
        self.is_touched() && self.current.as_ref().is_some_and(has_snapshot)
    }

    /// Tells whether what changed while the remedy in question was tried is known to be its work.
    pub(super) fn is_attributable(&self) -> bool {
        self.current.as_ref().is_none_or(Trial::is_attributable)
    }

    /// Tells whether the remedy in question is one that changes files which can be given back.
    pub(super) fn has_change(&self) -> bool {
        self.current.as_ref().is_some_and(|trial| {
            trial.remedy.undo == Undo::Snapshot && trial.remedy.kind != RemedyKind::Retry
        })
    }

    /// Tells whether an effect begins an attempt: applying a remedy does, and so does running the
    /// subject again where that is the remedy.
    pub(super) fn begins_attempt(&self, what: Effect) -> bool {
        match what {
            Effect::Apply { .. } => true,
            Effect::Verify => self.kind() == Some(RemedyKind::Retry),
            Effect::Snapshot
            | Effect::Measure
            | Effect::VerifyInLayer
            | Effect::TakeOver
            | Effect::RollBack(_)
            | Effect::Ask
            | Effect::Record
            | Effect::Release => false,
        }
    }
}
