//! Who looks whether what must never happen in a fleet has happened.

use std::collections::HashSet;

use uuid::Uuid;

use super::server::{SimRecord, Writer};
use super::worker::PendingWrite;
use crate::job::QueueState;

/// What must hold in every fleet, whatever is lost, late or killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FleetInvariant {
    /// Each claim is the only one of its number.
    OneClaim,
    /// Nobody gets a job whose lease, by the servers' time, has not run out.
    NotRobbed,
    /// Whoever lost a job changes nothing of it.
    Fenced,
    /// A step that is committed is not committed again, in order and for ever.
    StepOnce,
    /// What is said to be written was written, and stays.
    Acknowledged,
    /// Every job comes to an end once nothing disturbs it.
    Ends,
}

impl FleetInvariant {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::OneClaim,
        Self::NotRobbed,
        Self::Fenced,
        Self::StepOnce,
        Self::Acknowledged,
        Self::Ends,
    ];
}

/// A fleet in which an invariant did not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, after {at_ms} ms: {invariant:?}: {what}")]
pub struct BrokenFleet {
    /// The seed; the same seed fails again in the same way.
    pub seed: u64,
    /// When, in simulated milliseconds.
    pub at_ms: i64,
    /// What did not hold.
    pub invariant: FleetInvariant,
    /// What happened.
    pub what: String,
}

/// What the judge says.
pub(super) type Verdict = Result<(), (FleetInvariant, String)>;

/// Whoever sees all.
#[derive(Debug, Default)]
pub(super) struct FleetJudge {
    /// Whose claim of each job is the last one.
    holders: Vec<Option<Writer>>,
    /// The writes that were made.
    made: HashSet<Uuid>,
    /// The steps of jobs whose commit was acknowledged, with what they left.
    committed: Vec<(usize, usize, u64)>,
    /// The jobs whose submission was acknowledged.
    pub(super) submitted: Vec<usize>,
}

fn broken(invariant: FleetInvariant, what: String) -> Verdict {
    Err((invariant, what))
}

impl FleetJudge {
    pub(super) fn new(jobs: usize) -> Self {
        Self { holders: vec![None; jobs], ..Self::default() }
    }

    /// Looks at a write that counts from now on.
    pub(super) fn on_write(
        &mut self,
        write: &PendingWrite,
        before: Option<&SimRecord>,
        now: i64,
    ) -> Verdict {
        let (intent, after) = (&write.intent, &write.record);
        self.made.insert(write.mark);
        let Some(before) = before else { return Ok(()) };
        if !after.steps.starts_with(&before.steps) {
            let what = format!("{:?} became {:?} by {intent:?}", before.steps, after.steps);
            return broken(FleetInvariant::StepOnce, what);
        }
        let (job, was, is) = (intent.job, &before.job, &after.job);
        if intent.is_claim {
            if is.epoch != was.epoch + 1 && is.state == QueueState::Claimed {
                let what = format!("epoch {} after {}", is.epoch, was.epoch);
                return broken(FleetInvariant::OneClaim, what);
            }
            if was.free_at_ms.is_none_or(|at| at > now) {
                let what = format!("claimed at {now} what is free at {:?}", was.free_at_ms);
                return broken(FleetInvariant::NotRobbed, what);
            }
            self.holders[job] = Some(intent.by);
        } else if let Some(epoch) = intent.epoch {
            let holds = was.is_held_by(epoch) && self.holders[job] == Some(intent.by);
            if !holds {
                let what = format!("{intent:?} of {:?} at epoch {}", was.state, was.epoch);
                return broken(FleetInvariant::Fenced, what);
            }
        }
        Ok(())
    }

    /// Takes in that somebody believes that a write counts.
    pub(super) fn on_believed(&mut self, write: &PendingWrite) -> Verdict {
        let intent = &write.intent;
        if !self.made.contains(&write.mark) {
            return broken(FleetInvariant::Acknowledged, format!("{intent:?} was not written"));
        }
        if let Some((step, content)) = intent.step {
            self.committed.push((intent.job, step, content));
        }
        Ok(())
    }

    /// Looks at all jobs at the end.
    pub(super) fn at_the_end(
        &self,
        steps: usize,
        found: &dyn Fn(usize) -> Option<SimRecord>,
        has_letter: &dyn Fn(usize) -> bool,
    ) -> Verdict {
        for &job in &self.submitted {
            let Some(record) = found(job) else {
                return broken(FleetInvariant::Acknowledged, format!("job {job} is gone"));
            };
            let is_ended = match record.job.state {
                QueueState::Queued | QueueState::Claimed => false,
                QueueState::Waiting | QueueState::Withdrawn => true,
                QueueState::Done => record.steps.len() == steps,
                QueueState::Dead => has_letter(job),
            };
            if !is_ended {
                return broken(FleetInvariant::Ends, format!("job {job} is {record:?}"));
            }
        }
        for &(job, step, content) in &self.committed {
            let kept = found(job).and_then(|record| record.steps.get(step).copied());
            if kept != Some(content) {
                let what = format!("step {step} of job {job} left {content}, kept is {kept:?}");
                return broken(FleetInvariant::Acknowledged, what);
            }
        }
        Ok(())
    }
}
