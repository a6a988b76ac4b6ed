//! `salve memory sync`: outcomes to the fleet, and those of others from it.

use super::super::job::fleet::FleetArgs;
use super::super::{CliError, Exit, project};
use super::MemoryCommandContext;
use crate::fleet_memory::{FleetMemory, FleetMemoryError, SyncSummary};

/// Arguments of `salve memory sync`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    fleet: FleetArgs,
}

/// Exchanges what is new.
pub(super) fn run(args: &Args, desk: &MemoryCommandContext<'_>) -> Result<Exit, CliError> {
    let settings = &desk.config.settings;
    let terms = args.fleet.terms(&desk.config)?.ok_or_else(|| {
        CliError::usage("there is no fleet to exchange with").hint("salve memory sync --fleet URL")
    })?;
    let memory = FleetMemory::in_fleet(settings, terms, &project::user_name(), &desk.scrubber);
    let memory = memory.ok_or_else(|| {
        CliError::usage("nothing is exchanged while `memory.fleet` is \"off\"")
            .hint("set memory.fleet = \"mine\" or \"team\"")
    })?;
    let summary = memory.sync()?;
    if desk.out.json() {
        desk.out.fact(&summary)?;
    } else {
        desk.out.remark(in_words(&summary));
    }
    Ok(Exit::Well)
}

fn in_words(summary: &SyncSummary) -> String {
    let SyncSummary { version: _, sent, learned, forgotten, others, unusable } = summary;
    let mut words = format!("sent {sent}, learned {learned} outcomes");
    let more = [
        (forgotten, "failures were forgotten"),
        (others, "messages are of people whose word does not count here"),
        (unusable, "messages cannot be used"),
    ];
    for (count, what) in more.into_iter().filter(|(count, _)| **count > 0) {
        words = format!("{words}; {count} {what}");
    }
    words
}

impl From<FleetMemoryError> for CliError {
    fn from(error: FleetMemoryError) -> Self {
        match error {
            FleetMemoryError::Store(error) => error.into(),
            error @ FleetMemoryError::NoKey => {
                CliError::usage("nobody knows which messages are yours")
                    .because(error)
                    .hint("set fleet.credentials to a file with a key, or memory.fleet = \"team\"")
            }
            error @ FleetMemoryError::NoPlace(_) => {
                CliError::failed("memory could not be exchanged").because(error)
            }
        }
    }
}
