//! A job in a queue: who may take it, who holds it, and what becomes of it afterwards.
//!
//! A [`QueuedJob`] is what an engine keeps of one job. The engine loads it, asks what follows, and
//! writes it back, all in one step that no other can come between. Time comes in as the engine's own:
//! no worker's clock has a say.
//!
//! **Invariants:** each claim of a job has a higher epoch than all before it, and only the last one
//! counts. A job is held by one worker at most. A job that keeps failing, or keeps losing its workers,
//! ends in the list of the dead.

use serde::{Deserialize, Serialize};

use super::{Job, JobEnding};
use crate::event::LoopEnd;
use crate::id::JobId;
use crate::scrub::Scrubbed;
use crate::steps::StepsStanding;

/// The longest back-off before a job is tried again.
const LONGEST_BACKOFF_MS: u64 = 24 * 3_600_000;

/// What a queue keeps of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedJob {
    pub job: JobId,
    /// What a worker needs to know to run it.
    pub payload: String,
    /// How it stands.
    pub state: QueueState,
    /// The number of its last claim; 0 before the first.
    pub epoch: u64,
    /// Who claimed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Scrubbed>,
    /// How often it failed for a reason that may pass.
    pub tries: u32,
    /// How often its worker was lost.
    pub losses: u32,
    /// How often it is tried.
    pub terms: RetryTerms,
    /// Why it stands so, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Scrubbed>,
    /// When it may be claimed, in milliseconds of the engine's clock; never, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_at_ms: Option<i64>,
}

/// How a job in a queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// It waits for a worker.
    Queued,
    /// A worker has it.
    Claimed,
    /// A person has to do something first.
    Waiting,
    /// All its steps are done.
    Done,
    /// It failed, and nobody tries it again before a person says so.
    Dead,
    /// A person called it off.
    Withdrawn,
}

impl QueueState {
    /// Returns the word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Claimed => "claimed",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// How often a job is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryTerms {
    /// How often it may fail for a reason that may pass, before it counts as dead.
    pub max_tries: u32,
    /// How often it may lose its worker, before it counts as dead.
    pub max_losses: u32,
    /// How long to wait after its first failure; the wait doubles with each.
    pub backoff_ms: u64,
}

/// What came of asking for a job that was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimGrant {
    /// It is the worker's, under this epoch.
    Granted(u64),
    /// It lost its workers too often, and is dead.
    Dead,
}

/// What a worker does that was woken for a job. A wake-up is no right to it: it may come twice, too
/// early or too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeUpMove {
    /// The job is free: try to claim it.
    Claim,
    /// It is not free yet: be woken again in so many milliseconds.
    After(u64),
    /// Nobody need be woken for it any more.
    Forget,
}

/// What an engine finds of a job whose last write it never heard of again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnheardWrite {
    /// It was written.
    Written,
    /// It was not, or not yet: the same write may be tried again, and one of the two counts.
    Open,
    /// Somebody else wrote first.
    Lost,
}

/// Judges a write of which nobody knows whether it arrived, by what is found now.
///
/// Each write bears a mark of its own and counts only at the revision that its writer knew, so it
/// cannot count twice however often it is sent.
pub fn judge_unheard(sent: &SentWrite, found: &SentWrite) -> UnheardWrite {
    if found.mark == sent.mark {
        UnheardWrite::Written
    } else if found.revision == sent.revision {
        UnheardWrite::Open
    } else {
        UnheardWrite::Lost
    }
}

/// A write as it was sent, or the last one as it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentWrite {
    /// What no other write bears.
    pub mark: uuid::Uuid,
    /// The revision that it was to replace; of one that is found, its own.
    pub revision: u64,
}

/// How a worker lets go of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimEnd {
    /// All its steps are done.
    Done,
    /// It failed for a reason that may pass.
    Retry(Scrubbed),
    /// It failed for good.
    Dead(Scrubbed),
    /// A person has to do something first.
    Waiting(Scrubbed),
    /// It can go on by itself after so many milliseconds.
    Later(u64),
    /// The worker ends; another may have it at once.
    Back,
    /// Whoever worked on it was killed.
    Lost,
    /// A person called it off.
    Withdrawn,
}

/// How the process that worked on a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkEnd {
    /// By itself.
    Ended,
    /// Because it was told to.
    Stopped,
    Killed,
}

impl QueuedJob {
    /// Returns a job that was just submitted.
    pub fn submitted(job: JobId, payload: String, terms: RetryTerms, now_ms: i64) -> Self {
        Self {
            job,
            payload,
            state: QueueState::Queued,
            epoch: 0,
            worker: None,
            tries: 0,
            losses: 0,
            terms,
            reason: None,
            free_at_ms: Some(now_ms),
        }
    }

    /// Gives the job, which is free, to a worker for `lease_ms`.
    pub fn claim(&mut self, worker: Scrubbed, lease_ms: u64, now_ms: i64) -> ClaimGrant {
        if self.state == QueueState::Claimed && !self.survives_loss() {
            return ClaimGrant::Dead;
        }
        self.state = QueueState::Claimed;
        self.epoch = self.epoch.saturating_add(1);
        self.worker = Some(worker);
        self.free_at_ms = Some(later(now_ms, lease_ms));
        ClaimGrant::Granted(self.epoch)
    }

    /// Returns what a worker does that was woken for the job.
    pub fn on_wake_up(&self, now_ms: i64) -> WakeUpMove {
        match (self.state, self.free_at_ms) {
            (QueueState::Queued | QueueState::Claimed, Some(at)) if at <= now_ms => {
                WakeUpMove::Claim
            }
            (QueueState::Queued | QueueState::Claimed, Some(at)) => {
                WakeUpMove::After(u64::try_from(at.saturating_sub(now_ms)).unwrap_or(0))
            }
            (
                QueueState::Queued
                | QueueState::Claimed
                | QueueState::Waiting
                | QueueState::Done
                | QueueState::Dead
                | QueueState::Withdrawn,
                _,
            ) => WakeUpMove::Forget,
        }
    }

    /// Tells whether somebody has to be woken for the job sooner or later.
    pub fn needs_waking(&self) -> bool {
        self.free_at_ms.is_some()
    }

    /// Tells whether the claim of this epoch is the one that counts.
    pub fn is_held_by(&self, epoch: u64) -> bool {
        self.state == QueueState::Claimed && self.epoch == epoch
    }

    /// Lets the one who holds it have it for another `lease_ms`.
    pub fn extend_lease(&mut self, lease_ms: u64, now_ms: i64) {
        self.free_at_ms = Some(later(now_ms, lease_ms));
    }

    /// Takes in how the one who held it let go of it.
    pub fn finish(&mut self, end: ClaimEnd, now_ms: i64) {
        let (state, reason, free_at_ms) = match end {
            ClaimEnd::Done => (QueueState::Done, None, None),
            ClaimEnd::Dead(reason) => (QueueState::Dead, Some(reason), None),
            ClaimEnd::Waiting(reason) => (QueueState::Waiting, Some(reason), None),
            ClaimEnd::Withdrawn => (QueueState::Withdrawn, None, None),
            ClaimEnd::Back => (QueueState::Queued, None, Some(now_ms)),
            ClaimEnd::Later(ms) => (QueueState::Queued, None, Some(later(now_ms, ms))),
            ClaimEnd::Retry(reason) => {
                self.tries = self.tries.saturating_add(1);
                if self.tries < self.terms.max_tries {
                    let at = later(now_ms, self.backoff_ms());
                    (QueueState::Queued, Some(reason), Some(at))
                } else {
                    (QueueState::Dead, Some(reason), None)
                }
            }
            ClaimEnd::Lost => {
                if self.survives_loss() {
                    (QueueState::Queued, None, Some(now_ms))
                } else {
                    return;
                }
            }
        };
        (self.state, self.reason, self.free_at_ms) = (state, reason, free_at_ms);
    }

    /// Counts a worker that was lost; tells whether the job may have another.
    fn survives_loss(&mut self) -> bool {
        self.losses = self.losses.saturating_add(1);
        if self.losses < self.terms.max_losses {
            return true;
        }
        self.state = QueueState::Dead;
        self.reason = Some(Scrubbed::literal("its workers were killed again and again"));
        self.free_at_ms = None;
        false
    }

    /// Lets it be tried afresh, on a person's word, which no wait outlasts; one that is held, or that
    /// any worker may have by now, stays as it is.
    pub fn requeue(&mut self, now_ms: i64) -> bool {
        match self.state {
            QueueState::Claimed => false,
            QueueState::Queued if self.free_at_ms.is_some_and(|at| at <= now_ms) => false,
            QueueState::Queued
            | QueueState::Waiting
            | QueueState::Done
            | QueueState::Dead
            | QueueState::Withdrawn => {
                (self.state, self.tries, self.losses) = (QueueState::Queued, 0, 0);
                (self.reason, self.free_at_ms) = (None, Some(now_ms));
                true
            }
        }
    }

    /// Calls it off where no worker has it.
    pub fn withdraw(&mut self) -> bool {
        match self.state {
            QueueState::Queued | QueueState::Waiting => {
                (self.state, self.free_at_ms) = (QueueState::Withdrawn, None);
                true
            }
            QueueState::Claimed | QueueState::Done | QueueState::Dead | QueueState::Withdrawn => {
                false
            }
        }
    }

    fn backoff_ms(&self) -> u64 {
        let doublings = self.tries.saturating_sub(1).min(32);
        self.terms.backoff_ms.saturating_mul(1 << doublings).min(LONGEST_BACKOFF_MS)
    }
}

fn later(now_ms: i64, ms: u64) -> i64 {
    now_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Returns how a worker lets go of a job that stands so.
pub fn claim_end(of: &Job, how: WorkEnd, now: jiff::Timestamp) -> ClaimEnd {
    let failed = |reason: &Scrubbed| match of.ending() {
        Some(JobEnding { retryable: true, .. }) => ClaimEnd::Retry(reason.clone()),
        Some(_) | None => ClaimEnd::Dead(reason.clone()),
    };
    match (of.standing(), how) {
        (StepsStanding::Ended(LoopEnd::Completed), _) => ClaimEnd::Done,
        // However it ended: a person's word outlasts the worker.
        _ if of.is_cancelled() => ClaimEnd::Withdrawn,
        (StepsStanding::Ended(LoopEnd::Failed { reason }), _) => failed(reason),
        (StepsStanding::Ended(LoopEnd::Limit(_) | LoopEnd::Stuck), _) => {
            ClaimEnd::Dead(Scrubbed::literal("a limit of the job was reached"))
        }
        (StepsStanding::Waits { reason }, _) => ClaimEnd::Waiting(reason.clone()),
        (_, WorkEnd::Killed) => ClaimEnd::Lost,
        (_, WorkEnd::Stopped) => ClaimEnd::Back,
        (StepsStanding::Parked { until, .. }, WorkEnd::Ended) => {
            let left = until.duration_since(now).as_millis();
            ClaimEnd::Later(u64::try_from(left).unwrap_or(0))
        }
        (StepsStanding::Stopped, WorkEnd::Ended) => ClaimEnd::Withdrawn,
        (StepsStanding::Running, WorkEnd::Ended) => match of.steps().paused_by() {
            Some(_) => ClaimEnd::Waiting(Scrubbed::literal("the job is paused")),
            // It was ordered just as the work on it ended.
            None if of.is_ordered() => ClaimEnd::Back,
            // Something kept it from being run at all.
            None => ClaimEnd::Retry(Scrubbed::literal("the job could not be run")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> QueuedJob {
        let terms = RetryTerms { max_tries: 3, max_losses: 2, backoff_ms: 100 };
        QueuedJob::submitted(JobId(uuid::Uuid::from_u128(1)), String::new(), terms, 0)
    }

    fn why() -> Scrubbed {
        Scrubbed::literal("no luck")
    }

    #[test]
    fn each_claim_fences_the_one_before() {
        let mut of = job();
        assert_eq!(of.claim(why(), 10, 0), ClaimGrant::Granted(1));
        assert_eq!((of.free_at_ms, of.is_held_by(1)), (Some(10), true));
        of.extend_lease(10, 8);
        assert_eq!(of.free_at_ms, Some(18));
        assert_eq!(of.claim(why(), 10, 18), ClaimGrant::Granted(2));
        assert_eq!((of.is_held_by(1), of.is_held_by(2), of.losses), (false, true, 1));
        assert_eq!(of.claim(why(), 10, 40), ClaimGrant::Dead, "it kills its workers");
        assert_eq!((of.state, of.free_at_ms), (QueueState::Dead, None));
    }

    #[test]
    fn what_may_pass_is_tried_again_ever_later_and_then_is_dead() {
        let mut of = job();
        let mut due = Vec::new();
        for _ in 0..3 {
            of.claim(why(), 10, 0);
            of.finish(ClaimEnd::Retry(why()), 1_000);
            due.push(of.free_at_ms);
        }
        assert_eq!(due, [Some(1_100), Some(1_200), None]);
        assert_eq!((of.state, of.reason.clone()), (QueueState::Dead, Some(why())));
        assert!(of.requeue(2_000) && !of.requeue(2_000));
        assert_eq!((of.tries, of.free_at_ms), (0, Some(2_000)));
    }

    #[test]
    fn a_persons_word_ends_the_wait_of_one_that_is_queued() {
        for end in [ClaimEnd::Retry(why()), ClaimEnd::Later(1_000)] {
            let mut of = job();
            of.claim(why(), 10, 0);
            of.finish(end, 0);
            assert!(of.free_at_ms > Some(50) && of.requeue(50), "{of:?}");
            assert_eq!((of.state, of.tries, of.free_at_ms), (QueueState::Queued, 0, Some(50)));
            assert!(!of.requeue(50), "any worker may have it by now");
        }
    }

    #[test]
    fn whoever_is_woken_claims_what_is_free_waits_or_forgets() {
        let mut of = job();
        assert_eq!(of.on_wake_up(-5), WakeUpMove::After(5));
        assert_eq!(of.on_wake_up(0), WakeUpMove::Claim);
        of.claim(why(), 10, 0);
        assert_eq!(
            (of.on_wake_up(4), of.on_wake_up(10)),
            (WakeUpMove::After(6), WakeUpMove::Claim)
        );
        assert!(of.needs_waking());
        for end in [ClaimEnd::Done, ClaimEnd::Dead(why()), ClaimEnd::Waiting(why())] {
            let mut of = of.clone();
            of.finish(end, 5);
            assert_eq!((of.on_wake_up(i64::MAX), of.needs_waking()), (WakeUpMove::Forget, false));
        }
    }

    /// **Invariant:** A write that was not heard of again is taken for written only if it was, and is
    /// tried again only where it cannot count twice.
    #[test]
    fn a_write_that_was_not_heard_of_again_is_judged_by_its_mark_and_revision() {
        let write = |mark, revision| SentWrite { mark: uuid::Uuid::from_u128(mark), revision };
        let sent = write(7, 3);
        for (found, want) in [
            (write(7, 4), UnheardWrite::Written),
            (write(1, 3), UnheardWrite::Open),
            (write(2, 4), UnheardWrite::Lost),
            (write(2, 9), UnheardWrite::Lost),
        ] {
            assert_eq!(judge_unheard(&sent, &found), want, "{found:?}");
        }
    }

    #[test]
    fn a_job_is_let_go_of_in_every_way() {
        use QueueState as Q;
        for (end, state, free) in [
            (ClaimEnd::Done, Q::Done, None),
            (ClaimEnd::Dead(why()), Q::Dead, None),
            (ClaimEnd::Waiting(why()), Q::Waiting, None),
            (ClaimEnd::Withdrawn, Q::Withdrawn, None),
            (ClaimEnd::Back, Q::Queued, Some(5)),
            (ClaimEnd::Later(7), Q::Queued, Some(12)),
            (ClaimEnd::Lost, Q::Queued, Some(5)),
        ] {
            let mut of = job();
            of.claim(why(), 10, 0);
            assert!(!of.withdraw(), "whoever has it calls it off");
            of.finish(end.clone(), 5);
            assert_eq!((of.state, of.free_at_ms), (state, free), "{end:?}");
            assert!(!of.is_held_by(1), "{end:?}");
        }
    }
}
