//! Recovers a loop's tests that could not execute.
//!
//! The same care as for a check, with another aim: the tests have to execute. Whether they pass is
//! the loop's own business.

use std::sync::Arc;

use salve_core::recovery::Ailment;

use super::checkup::Checkup;
use super::quest::Quest;
use super::{CheckPlan, Clinic, Ending};
use crate::heal::loops::{Recovered, Sought};
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
    ) -> Result<Recovered, StoreError> {
        let root = self.project.root().to_path_buf();
        let quest = Quest::new(sought, &root, &plan.name);
        let mut checkup = Checkup::new(self, plan, capture);
        checkup.quest = Some(Box::new(quest));
        let ending = checkup.live();
        let left = checkup.leave();
        checkup.tell_loop();
        let quest = checkup.quest.take();
        let ending = ending?;
        left?;
        Ok(recovered(ending, quest))
    }
}

/// Returns what an ending means to the loop.
fn recovered(ending: Ending, quest: Option<Box<Quest>>) -> Recovered {
    let ailment = quest.as_ref().map_or(Ailment::None, |quest| quest.ailment);
    let last = quest.and_then(|quest| quest.last);
    match (ending, last) {
        (Ending::Healed(_), Some(ran)) => Recovered::Executes(ran),
        (Ending::Green, Some(ran)) => match ailment {
            Ailment::None => Recovered::Executes(ran),
            Ailment::Code | Ailment::Unknown | Ailment::Infrastructure => {
                Recovered::NotInfrastructure(ran)
            }
        },
        (Ending::Green | Ending::Healed(_), None) => Recovered::Declined(None),
        (Ending::CalledOff, last) => Recovered::Declined(last),
        (Ending::NeedsPerson, _) => Recovered::NeedsPerson,
        (Ending::Stopped(signal), _) => Recovered::Stopped(signal),
    }
}
