//! `salve submit FILE`: a job for whichever worker is free.

use std::io::Write as _;
use std::path::PathBuf;

use salve_core::event::{Draft, JobEvent, JobTurn};
use salve_core::id::JobId;
use salve_core::job::{RetryTerms, job_state};
use uuid::Uuid;

use super::super::dev::locate;
use super::super::{CliError, Exit, Output, foundation};
use super::fleet::{FleetArgs, fleet_of};
use super::run::{JobGround, StartChoice, begin, read_job, starter, validated};
use crate::config::JobSettings;
use crate::heal::IncidentWriter;
use crate::store::{FleetJob, Store};
use crate::subjects::job::{
    FleetPayload, FleetStart, JobFile, JobHistory, RemoteStart, StartWay, at_remote, make_bundle,
    submodules,
};
use crate::workspace::StartFrom;

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
    #[command(flatten)]
    fleet: FleetArgs,
    /// Send the files themselves, also where the remote `origin` has the commit
    #[arg(long, conflicts_with = "remote")]
    bundle: bool,
    /// Have workers fetch the commit from the remote `origin`, also where that is a path
    #[arg(long)]
    remote: bool,
    /// Send a project that has submodules, without those
    #[arg(long)]
    without_submodules: bool,
    /// What a worker of the fleet has to offer; may be given several times
    #[arg(long, value_name = "LABEL")]
    needs: Vec<String>,
}

/// Makes the job's workspace and puts the job into the queue.
pub(in crate::cli) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let project = locate(out)?;
    let config = super::super::config::in_force(out)?;
    let scrubber = foundation::scrubber(&config)?;
    let file = read_job(&args.file)?;
    let in_fleet = args.fleet.store(&config, &project)?;
    let is_fleet = in_fleet.is_some();
    if !is_fleet && (args.bundle || args.remote || args.without_submodules) {
        return Err(CliError::usage("only to a fleet do files travel")
            .hint("salve submit FILE --bundle --fleet URL"));
    }
    if !is_fleet && !args.needs.is_empty() {
        return Err(CliError::usage("only a fleet has workers with labels")
            .hint("salve submit FILE --needs LABEL --fleet URL"));
    }
    let store = in_fleet.map_or_else(|| Store::open(&project), Ok)?;
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
    if is_fleet {
        return submit_to_fleet(args, &from, &file, &ground, out);
    }
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

/// Sends a job to the fleet, with the files from which it starts.
fn submit_to_fleet(
    args: &Args,
    from: &StartChoice,
    file: &JobFile,
    ground: &JobGround<'_>,
    out: &Output,
) -> Result<Exit, CliError> {
    let (spec, fleet) = (validated(file, ground)?, fleet_of(ground.store)?);
    let id = JobId(Uuid::now_v7());
    let start = from.of(file);
    look_for_submodules(args, &start, ground)?;
    let payload = match at_remote(ground.project, &start, args.way())? {
        Some(RemoteStart { remote, prefix }) => {
            out.remark(format_args!("  workers fetch {} from {}", &remote.commit, remote.url));
            FleetPayload::new(file.to_json(), FleetStart::Remote(remote), &prefix)
        }
        None => {
            let scratch = tempfile::tempdir().map_err(|error| {
                CliError::failed("there is no place for the files").because(error)
            })?;
            let bundle = make_bundle(ground.project, scratch.path(), &start)?;
            let kept = fleet.keep_file(id, bundle.bytes)?;
            FleetPayload::new(file.to_json(), FleetStart::Bundle(kept), &bundle.prefix)
        }
    };
    let event = JobEvent::Advanced { id, what: JobTurn::Started { terms: Box::new(spec.terms) } };
    let draft = Draft { by: ground.by.clone(), ..ground.writer.draft(None, event.into()) };
    let history = JobHistory { epoch: 0, orders: 0, entries: vec![draft.at_seq(1)] };
    fleet.submit(FleetJob {
        job: id,
        payload: &payload.to_text(),
        terms: retry_terms(&ground.config.settings.job),
        needs: &args.needs,
        artifacts: &[history.artifact()],
    })?;
    if out.json() {
        let of = history.job(id);
        let of = of.ok_or_else(|| CliError::failed("the job was not begun by a person"))?;
        out.fact(&job_state(&of))?;
    } else {
        writeln!(out.stdout(), "{}", id.short())?;
        out.remark("  queued in the fleet; its workers: salve workers");
    }
    Ok(Exit::Well)
}

impl Args {
    /// Returns which way the files of a job travel.
    fn way(&self) -> StartWay {
        match (self.bundle, self.remote) {
            (true, _) => StartWay::Bundle,
            (false, true) => StartWay::Remote,
            (false, false) => StartWay::Usual,
        }
    }
}

/// Refuses a job whose files would not all be there.
fn look_for_submodules(
    args: &Args,
    start: &StartFrom,
    ground: &JobGround<'_>,
) -> Result<(), CliError> {
    let found = submodules(ground.project, start);
    if found.is_empty() || args.without_submodules {
        return Ok(());
    }
    let names = found.join(", ");
    Err(CliError::usage(format!("submodules do not travel with a job: {names}"))
        .hint("salve submit FILE --without-submodules sends the rest"))
}

/// Returns how often a job in the queue is tried, as the settings say.
fn retry_terms(settings: &JobSettings) -> RetryTerms {
    RetryTerms {
        max_tries: settings.queue_max_tries,
        max_losses: MAX_LOSSES,
        backoff_ms: settings.queue_backoff_seconds.saturating_mul(1_000),
    }
}
