//! Simulated fleets: thousands of workers and one queue between them, to find what no table of
//! answers would.
//!
//! One seed is one fleet. Its servers keep records, wake-ups and dead letters as those of a fleet do;
//! all that a worker decides is decided by the code that a worker runs ([`crate::job`]). Requests and
//! answers are lost, come late and come twice. Workers are killed and replaced, and suspended, with
//! or without the process that runs the job, until long after their claims ran out. Servers are lost
//! for a while. After each write that counts the judge looks whether every [`FleetInvariant`] holds;
//! at the end the chaos stops, and every job has to come to its end.
//!
//! [`FleetSimFault`]s are fleets broken on purpose: a simulator that cannot catch them proves nothing.

mod course;
mod judge;
mod line;
mod server;
#[cfg(test)]
mod tests;
mod worker;
mod world;

use std::collections::BTreeMap;
use std::ops::Range;

pub use judge::{BrokenFleet, FleetInvariant};

use world::FleetWorld;

/// How large a simulated fleet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetSimPlan {
    /// How many workers there are.
    pub workers: usize,
    /// How many processes submit jobs and requeue them.
    pub submitters: usize,
    /// How many jobs are submitted.
    pub jobs: usize,
    /// How many steps a job has.
    pub steps: usize,
    /// How long the chaos lasts, in simulated milliseconds.
    pub chaos_ms: i64,
    /// How many workers are killed in a second, and how many are suspended.
    pub blows: u64,
}

impl FleetSimPlan {
    /// A few workers who get in one another's way all the time.
    pub const SMALL: Self =
        Self { workers: 40, submitters: 4, jobs: 120, steps: 3, chaos_ms: 60_000, blows: 4 };

    /// Ten thousand workers.
    pub const LARGE: Self = Self {
        workers: 10_000,
        submitters: 100,
        jobs: 30_000,
        steps: 3,
        chaos_ms: 60_000,
        blows: 100,
    };
}

/// A way in which a fleet can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FleetSimFault {
    /// A worker does not look whether its claim still counts.
    IgnoresEpochs,
    /// The servers replace a record whatever its revision is.
    WritesBlindly,
    /// A write of which nothing was heard is taken for written.
    TrustsSilence,
    /// A worker judges leases by its own clock, which is wrong.
    TrustsItsClock,
    /// Nobody makes up for what others left undone.
    LeavesUndone,
    /// The servers forget what they acknowledged when one is lost.
    Forgets,
}

impl FleetSimFault {
    /// Every fault, with the invariants of which it must break one.
    pub const ALL: &[(Self, &[FleetInvariant])] = &[
        (Self::IgnoresEpochs, &[FleetInvariant::Fenced, FleetInvariant::StepOnce]),
        (
            Self::WritesBlindly,
            &[FleetInvariant::Fenced, FleetInvariant::StepOnce, FleetInvariant::OneClaim],
        ),
        (Self::TrustsSilence, &[FleetInvariant::Acknowledged]),
        (Self::TrustsItsClock, &[FleetInvariant::NotRobbed]),
        (Self::LeavesUndone, &[FleetInvariant::Ends]),
        (
            Self::Forgets,
            &[FleetInvariant::Acknowledged, FleetInvariant::StepOnce, FleetInvariant::Fenced],
        ),
    ];
}

/// What a number of fleets went through; a figure of zero means that something was not tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetSimSummary {
    /// Fleets simulated.
    pub seeds: u64,
    /// Events that happened.
    pub events: u64,
    /// Jobs that were acknowledged.
    pub jobs: u64,
    /// Claims that counted.
    pub claims: u64,
    /// Claims of a job whose worker was lost.
    pub takeovers: u64,
    /// Steps that were committed.
    pub steps: u64,
    /// Writes of an old claim that were not made, or were refused.
    pub fenced: u64,
    /// Writes at a revision that was not the last any more.
    pub refused: u64,
    /// Writes of which nothing was heard.
    pub unheard: u64,
    /// Those of them that turned out to count.
    pub found_written: u64,
    /// Workers killed.
    pub kills: u64,
    /// Workers suspended.
    pub suspensions: u64,
    /// Times that servers were lost.
    pub outages: u64,
    /// Messages lost, and messages that came twice.
    pub lost: u64,
    pub doubled: u64,
    /// Jobs for which the reconciler made up.
    pub reconciled: u64,
    /// How jobs ended.
    pub ends: BTreeMap<&'static str, u64>,
}

/// Simulates one fleet per seed and returns what they went through.
///
/// # Errors
///
/// When an invariant does not hold.
pub fn run(plan: FleetSimPlan, seeds: Range<u64>) -> Result<FleetSimSummary, BrokenFleet> {
    simulate(plan, seeds, None)
}

/// Simulates fleets that are broken on purpose.
///
/// # Errors
///
/// When the fault is caught, which is what it is for.
pub fn run_with(
    fault: FleetSimFault,
    plan: FleetSimPlan,
    seeds: Range<u64>,
) -> Result<FleetSimSummary, BrokenFleet> {
    simulate(plan, seeds, Some(fault))
}

fn simulate(
    plan: FleetSimPlan,
    seeds: Range<u64>,
    fault: Option<FleetSimFault>,
) -> Result<FleetSimSummary, BrokenFleet> {
    let mut summary = FleetSimSummary::default();
    for seed in seeds {
        let mut world = FleetWorld::new(plan, seed, fault);
        let lived = world.live();
        let at_ms = world.line.now;
        lived.map_err(|(invariant, what)| BrokenFleet { seed, at_ms, invariant, what })?;
        world.add_to(&mut summary);
    }
    Ok(summary)
}
