//! `salve submit FILE`: a job for whichever worker is free.

use std::io::Write as _;
use std::path::PathBuf;

use salve_core::job::RetryTerms;
use uuid::Uuid;

use super::super::dev::locate;
use super::super::{CliError, Exit, Output, foundation};
use super::run::{JobGround, StartChoice, begin, read_job, starter};
use crate::config::JobSettings;
use crate::heal::IncidentWriter;
use crate::store::Store;

/// How often a job may lose its worker before it counts as dead.
const MAX_LOSSES: u32 = 10;

/// Arguments of `salve submit`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Job file: TOML, YAML or JSON (`salve config schema --job` describes it)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Ref to start from [default: the job's, or HEAD]
    #[arg(long, value_name = "REF", conflicts_with = "here")]
    start: Option<String>,
    /// Start from the files as they are, with what is not committed
    #[arg(long)]
    here: bool,
}

/// Makes the job's workspace and puts the job into the queue.
pub(in crate::cli) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let project = locate(out)?;
    let config = super::super::config::in_force(out)?;
    let scrubber = foundation::scrubber(&config)?;
    let file = read_job(&args.file)?;
    let store = Store::open(&project)?;
    let writer = IncidentWriter::new(&store, scrubber.clone());
    let ground = JobGround {
        project: &project,
        store: &store,
        config: &config,
        scrubber: &scrubber,
        writer: &writer,
        by: starter(&scrubber)?,
        run: Uuid::new_v4(),
        claim: None,
    };
    let from = StartChoice { here: args.here, start: args.start.clone() };
    let ready = begin(&from, &file, &ground)?;
    let id = ready.of.id();
    ready.right.give_back();
    store.queue().submit(id, &file.to_json(), retry_terms(&config.settings.job))?;
    if out.json() {
        out.fact(&salve_core::job::job_state(&ready.of))?;
    } else {
        writeln!(out.stdout(), "{}", id.short())?;
        out.remark("  queued; a worker runs it: salve worker");
    }
    Ok(Exit::Well)
}

/// Returns how often a job in the queue is tried, as the settings say.
fn retry_terms(settings: &JobSettings) -> RetryTerms {
    RetryTerms {
        max_tries: settings.queue_max_tries,
        max_losses: MAX_LOSSES,
        backoff_ms: settings.queue_backoff_seconds.saturating_mul(1_000),
    }
}
