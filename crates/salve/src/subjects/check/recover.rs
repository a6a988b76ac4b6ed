//! Recovers a loop's tests that could not execute.
//!
//! The same care as for a check, with another aim: the tests have to execute. Whether they pass is
//! the loop's own business.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use salve_core::recovery::Ailment;

use super::checkup::Checkup;
use super::quest::Quest;
use super::{CheckPlan, Clinic, Ending, Ran};
use crate::process::Capture;
use crate::store::StoreError;

/// What a loop wants recovered.
#[derive(Clone, Debug)]
pub struct Sought {
    /// The iteration of the loop, from 1.
    pub iteration: u32,
    /// How the tests came out just now, if they ran.
    pub first: Option<Ran>,
    /// The journal's last entry before this run of the loop began; its limits count from there.
    pub since: u64,
    /// When this iteration began; a proposal from before is not this one's.
    pub began: Timestamp,
    /// Where the loop's files are, `recovery.json` among them.
    pub dir: PathBuf,
}

/// What became of tests that could not execute.
#[derive(Clone, Debug)]
pub enum Recovered {
    /// They execute; this is how they came out.
    Executes(Ran),
    /// There is nothing to recover from: the code has to change, or recovery is switched off.
    NotInfrastructure(Ran),
    /// A person declined, or it was called off: the loop goes on without.
    Declined(Option<Ran>),
    /// A person has to decide, and nobody waits here.
    NeedsPerson,
    /// The user wanted it to end, by this signal.
    Stopped(i32),
}

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
        Ok(Recovered::of(ending, quest))
    }
}

impl Recovered {
    fn of(ending: Ending, quest: Option<Box<Quest>>) -> Self {
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
}
