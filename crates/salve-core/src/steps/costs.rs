//! What a list of steps has cost, and what is left to it.

use super::{EntryTaken, NotTaken};
use crate::event::{Amounts, Resource, ResourceLimits};

/// The costs of one run of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepCosts {
    /// What was spent in this run, the step at work excepted.
    pub(super) booked: Amounts,
    /// What the step at work has cost until now.
    pub(super) at_work: Option<Amounts>,
}

impl StepCosts {
    /// Takes in what the step at work has cost; the larger of two such statements counts.
    pub(crate) fn charge(&mut self, spent: Amounts) -> EntryTaken {
        let known = self.at_work.as_mut().ok_or(NotTaken::Unexpected)?;
        *known = known.max(spent);
        Ok(())
    }

    /// Adds time that no step at work was charged with.
    pub(crate) fn spend_time(&mut self, wall_ms: u64) {
        self.booked = self.booked.plus(Amounts { wall_ms, ..Amounts::default() });
    }

    /// Books what the step at work has cost.
    pub(super) fn settle(&mut self) {
        if let Some(spent) = self.at_work.take() {
            self.booked = self.booked.plus(spent);
        }
    }

    /// Returns all that was spent.
    pub(super) fn spent(&self) -> Amounts {
        self.at_work.map_or(self.booked, |spent| self.booked.plus(spent))
    }

    /// Returns how much of a resource is left; nothing where there is no limit.
    pub(super) fn left(&self, resource: Resource, limits: &ResourceLimits) -> Option<u64> {
        let spent = self.spent().get(resource);
        limits.get(resource).map(|limit| limit.saturating_sub(spent))
    }

    /// Returns what is used up, passes excepted.
    pub(super) fn used_up(&self, limits: &ResourceLimits) -> Option<Resource> {
        let counted = [Resource::Tokens, Resource::MoneyMicros, Resource::WallMs];
        counted.into_iter().find(|resource| self.left(*resource, limits) == Some(0))
    }
}
