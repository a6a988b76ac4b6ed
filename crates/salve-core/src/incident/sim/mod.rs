//! Simulated lives of incidents, to find what no row of a table would.
//!
//! One seed is one life. Several processes of Salve share a journal, which alone survives them.
//! They are killed between any two events: before and after an entry is written, before and after
//! an effect acts; the power fails, and entries that were not durable are lost. Results come late, twice or never; people and agents speak out of turn, about
//! questions long answered; time leaps. After each entry and each effect the judge looks whether
//! every [`Invariant`] holds; at the end the chaos stops, and the incident has to end or to wait
//! for someone named.
//!
//! [`SimulatedFault`]s are machines broken on purpose: a simulator that cannot catch them proves nothing.

mod fault;
mod judge;
mod luck;
pub mod parts;
mod people;
pub(crate) mod rng;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeMap;
use std::ops::Range;

pub use fault::SimulatedFault;
pub use judge::{Broken, Invariant};

use world::World;

/// Where in its work a process may be killed, besides while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Instant {
    /// It knows what to do and has not written it.
    BeforeWriting,
    /// It has written what it is about to do and has not begun.
    AfterWriting,
    /// It knows that its entry counts and has not begun.
    BeforeActing,
    /// It has acted and has not told anyone.
    AfterActing,
}

/// What a number of lives went through; an empty column means that something was not tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lives lived.
    pub seeds: u64,
    /// Entries written.
    pub entries: u64,
    /// Entries that were refused.
    pub refused: u64,
    /// Entries lost to power failures.
    pub lost: u64,
    /// Effects run.
    pub effects: u64,
    /// Processes killed.
    pub kills: u64,
    /// Processes killed at each instant of their own work.
    pub killed_at: BTreeMap<Instant, u64>,
    /// Incidents taken over from a process that was gone.
    pub takeovers: u64,
    /// How lives ended: by outcome, or by the question they wait with.
    pub ends: BTreeMap<String, u64>,
}

/// A life in which an invariant did not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, after entry {entry}")]
pub struct BrokenLife {
    /// The seed; the same seed fails again in the same way.
    pub seed: u64,
    /// The number of the last entry.
    pub entry: u64,
    /// What did not hold.
    #[source]
    pub broken: Broken,
}

/// Lives one life per seed and returns what they went through.
///
/// # Errors
///
/// When an invariant does not hold.
pub fn run(seeds: Range<u64>) -> Result<Summary, BrokenLife> {
    live_all(seeds, None)
}

/// Lives with a machine that is broken on purpose.
///
/// # Errors
///
/// When the fault is caught, which is what it is for.
pub fn run_with(fault: SimulatedFault, seeds: Range<u64>) -> Result<Summary, BrokenLife> {
    live_all(seeds, Some(fault))
}

fn live_all(seeds: Range<u64>, fault: Option<SimulatedFault>) -> Result<Summary, BrokenLife> {
    let mut summary = Summary::default();
    for seed in seeds {
        let mut world = World::new(seed, fault);
        let lived = world.live();
        let entry = world.entries();
        lived.map_err(|broken| BrokenLife { seed, entry, broken })?;
        world.add_to(&mut summary);
    }
    Ok(summary)
}
