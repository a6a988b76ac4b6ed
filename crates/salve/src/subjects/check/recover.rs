//! Recovers a loop's tests that could not execute.
//!
//! The same care as for a check, with another aim: the tests have to execute. Whether they pass is
//! the loop's own business.

use std::sync::Arc;
use std::time::Instant;

use salve_core::recovery::Ailment;

use super::checkup::Checkup;
use super::quest::Quest;
use super::{CheckPlan, Clinic, Ending};
use crate::heal::loops::{Recovered, Recovery, Sought};
use crate::heal::run::Ran;
use crate::process::Capture;
use crate::store::StoreError;

impl Clinic<'_> {
    /// Takes a loop's tests to where they execute, or to a person.
    ///
    /// The plan's name is the loop's id. Where the project is attended, this waits for as long as
    /// a person takes; an earlier run's question goes on being asked.
    pub fn recover(
        &mut self,
        plan: CheckPlan,
        capture: Arc<Capture>,
        sought: Sought,
    ) -> Result<Recovery, StoreError> {
        let root = self.project.root().to_path_buf();
        let mut quest = Quest::new(sought, &root, &plan.name);
        if let Some(clock) = quest.files.chronicle(self.desk.store)?.clock() {
            // Where the clock was set back since, cooldowns would last longer by as much.
            self.desk.go_on_from(clock);
        }
        let since = Instant::now();
        let mut checkup = Checkup::new(self, plan, capture);
        checkup.quest = Some(Box::new(quest));
        let ending = checkup.live();
        let left = checkup.leave();
        checkup.tell_loop();
        let quest = checkup.quest.take();
        let ending = ending?;
        left?;
        let waited = quest.as_ref().map(|quest| quest.waited).unwrap_or_default();
        let worked = since.elapsed().saturating_sub(waited);
        let seen = quest.as_ref().map(|quest| quest.stamp).unwrap_or_default();
        Ok(Recovery { how: recovered(ending, quest), worked, seen })
    }
}

/// Returns what an ending means to the loop.
fn recovered(ending: Ending, quest: Option<Box<Quest>>) -> Recovered {
    let ailment = quest.as_ref().map_or(Ailment::None, |quest| quest.ailment);
    let last = quest.and_then(|quest| quest.last);
    match (ending, last) {
        // Without tests there is nothing to see.
        (Ending::Healed(_), None) => Recovered::Executes(Ran::nothing()),
        (Ending::Healed(_), Some(ran)) => Recovered::Executes(ran),
        (Ending::Green, Some(ran)) => match ailment {
            Ailment::None => Recovered::Executes(ran),
            Ailment::Code | Ailment::Unknown | Ailment::Infrastructure => {
                Recovered::NotInfrastructure(ran)
            }
        },
        (Ending::Green, None) => Recovered::Declined(None),
        (Ending::CalledOff, last) => Recovered::Declined(last),
        (Ending::NeedsPerson, _) => Recovered::NeedsPerson,
        (Ending::Stopped(signal), _) => Recovered::Stopped(signal),
    }
}
