//! A process of a simulated fleet: what it waits for, and what it knows.

use super::server::{KeptRecord, SimRecord, SimWakeUp, WriteIntent, Writer};
use crate::job::{ClaimEnd, ClaimGrant, RecordWrite, WriteAnswer};
use uuid::Uuid;

/// Which of the two processes of a worker something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// The one that claims, prolongs and lets go.
    Keeper,
    /// The one that runs the steps.
    Runner,
}

/// What is asked of the servers.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// To be woken for a job.
    Pull {
        until: i64,
    },
    Read(usize),
    Write(Box<PendingWrite>),
    /// To wake somebody for a job.
    Wake(usize),
    /// To write a dead letter.
    Bury(usize),
    PutOff(SimWakeUp, u64),
    Settle(SimWakeUp),
}

/// What the servers answer.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Woken(SimWakeUp),
    Found(Option<Box<KeptRecord>>),
    Written(WriteAnswer),
}

/// A change of a record, made again while others are faster.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Prolong {
        asked_at: i64,
    },
    /// A step left this.
    Commit {
        step: usize,
        content: u64,
    },
    Finish(ClaimEnd),
    Requeue(usize),
    Submit(usize),
}

/// What a write is for.
#[derive(Clone, Debug)]
pub(super) enum WritePurpose {
    Claim { wake_up: SimWakeUp, grant: ClaimGrant },
    Change(Change),
}

/// A write of which nothing was heard yet.
#[derive(Clone, Debug)]
pub(super) struct PendingWrite {
    pub(super) write: RecordWrite,
    pub(super) mark: Uuid,
    pub(super) revision: u64,
    pub(super) record: SimRecord,
    pub(super) intent: WriteIntent,
    pub(super) purpose: WritePurpose,
}

/// What a process waits for.
#[derive(Clone, Debug)]
pub(super) enum Doing {
    /// Nothing: it is not there, or has nothing to do.
    Idle,
    /// The time.
    Resting,
    /// A wake-up.
    Pulling,
    /// The record of the job that it was woken for.
    Woken(SimWakeUp),
    /// The record that it wants to change.
    Reading(Change),
    /// The answer to a write.
    Writing(Box<PendingWrite>),
    /// The time to look what became of a write.
    Pausing(Box<PendingWrite>),
    /// What became of a write.
    Looking(Box<PendingWrite>),
    /// The end of a step.
    Working,
}

/// One of the two processes of a worker.
#[derive(Debug)]
pub(super) struct LaneState {
    pub(super) doing: Doing,
    /// What it waits for has this number; what comes for an earlier one is too late.
    pub(super) ticket: u64,
}

impl LaneState {
    fn new() -> Self {
        Self { doing: Doing::Idle, ticket: 0 }
    }
}

/// A job that a worker has, as far as it knows.
#[derive(Clone, Debug)]
pub(super) struct HeldJob {
    pub(super) job: usize,
    pub(super) epoch: u64,
    /// When the claim was last known to count.
    pub(super) held_at: i64,
    pub(super) wake_up: SimWakeUp,
    /// How many steps are committed.
    pub(super) steps: usize,
    /// How it ended, once it has.
    pub(super) end: Option<ClaimEnd>,
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientRunning {
    Yes,
    /// Nothing reaches it; the process that runs the steps may go on.
    Suspended {
        with_runner: bool,
    },
    Killed,
}

/// A process that works, or submits jobs.
#[derive(Debug)]
pub(super) struct SimClient {
    pub(super) me: Writer,
    pub(super) running: ClientRunning,
    pub(super) keeper: LaneState,
    pub(super) runner: LaneState,
    pub(super) held: Option<HeldJob>,
    /// How far its estimate of the servers' time is behind.
    pub(super) lag: i64,
    /// How wrong its own clock is.
    pub(super) skew: i64,
    /// The jobs that it still submits; none for a worker.
    pub(super) to_submit: Vec<usize>,
    pub(super) is_submitter: bool,
}

impl SimClient {
    pub(super) fn new(client: usize, to_submit: Option<Vec<usize>>) -> Self {
        Self {
            me: Writer { client, life: 0 },
            running: ClientRunning::Killed,
            keeper: LaneState::new(),
            runner: LaneState::new(),
            held: None,
            lag: 0,
            skew: 0,
            is_submitter: to_submit.is_some(),
            to_submit: to_submit.unwrap_or_default(),
        }
    }

    pub(super) fn lane(&mut self, lane: Lane) -> &mut LaneState {
        match lane {
            Lane::Keeper => &mut self.keeper,
            Lane::Runner => &mut self.runner,
        }
    }

    /// Has what comes for a lane so far come too late.
    pub(super) fn interrupt(&mut self, lane: Lane) {
        let lane = self.lane(lane);
        lane.ticket += 1;
        lane.doing = Doing::Idle;
    }

    /// Tells whether something that comes for a lane has to wait.
    pub(super) fn is_asleep(&self, lane: Lane) -> bool {
        match self.running {
            ClientRunning::Yes | ClientRunning::Killed => false,
            ClientRunning::Suspended { with_runner } => with_runner || lane == Lane::Keeper,
        }
    }

    /// Returns the servers' time as it believes it to be.
    pub(super) fn believed(&self, now: i64) -> i64 {
        now - self.lag + self.skew
    }

    /// Returns the job that a change is about.
    pub(super) fn job_of(&self, change: &Change) -> Option<usize> {
        match change {
            Change::Requeue(job) | Change::Submit(job) => Some(*job),
            Change::Prolong { .. } | Change::Commit { .. } | Change::Finish(_) => {
                self.held.as_ref().map(|held| held.job)
            }
        }
    }

    /// Ends the process that runs the steps.
    pub(super) fn stop_running(&mut self, end: ClaimEnd) {
        self.interrupt(Lane::Runner);
        if let Some(held) = &mut self.held {
            held.end.get_or_insert(end);
        }
    }

    /// Forgets all that a killed process forgets.
    pub(super) fn die(&mut self) {
        self.running = ClientRunning::Killed;
        self.interrupt(Lane::Keeper);
        self.interrupt(Lane::Runner);
        self.held = None;
    }
}
