//! `salve pause`, `resume` and `abort`: orders to an incident or to a loop.

use std::io::Write as _;
use std::process::ExitCode;

use salve_core::event::{Actor, LoopId, PersonOrder};
use salve_core::repair;
use serde::Serialize;

use super::{By, refuse_agents, say, speaker};
use crate::cli::job::fleet::FleetArgs;
use crate::cli::{CliError, Exit, Output, events, job, project};
use crate::heal::loops;
use crate::heal::people::PersonWord;
use crate::process;
use crate::reading::known_loops;
use crate::store::{Journal, Store};

/// Which incident or loop is ordered, and by whom.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Steer {
    /// The incident's id; its first digits will do, with or without `heal-`
    #[arg(required_unless_present = "of")]
    id: Option<String>,
    /// The loop's id, instead of an incident's
    #[arg(long = "loop", value_name = "ID", conflicts_with = "id")]
    of: Option<LoopId>,
    #[command(flatten)]
    by: By,
}

impl Steer {
    /// Returns the id that is named, if it is not a loop's.
    pub(in crate::cli) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

/// Arguments of `salve resume`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ResumeArgs {
    #[command(flatten)]
    pub(in crate::cli) to: Steer,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// Goes on with a run of a job, here or in a fleet, if one is meant.
pub(in crate::cli) fn resume_job(
    args: &ResumeArgs,
    out: &Output,
) -> Result<Option<ExitCode>, CliError> {
    let fleet = &args.fleet;
    if !fleet.is_named()
        && let Some(run) = job::run::meant(args.to.id(), out)?
    {
        return job::run::resume(&run, out).map(Some);
    }
    let Some(id) = args.to.id() else { return Ok(None) };
    let here = Store::open_existing(&project::locate(out)?)?;
    let is_incident = || here.is_some_and(|store| events::find(store.journal(), id).is_ok());
    if !fleet.is_named() && is_incident() {
        return Ok(None);
    }
    Ok(job::list::resume_in_fleet(id, fleet, out)?.map(ExitCode::from))
}

/// What a loop was told, for `--json`.
#[derive(Debug, Serialize)]
struct Steered<'s> {
    version: u32,
    loop_id: &'s str,
    by: &'s str,
    said: &'s str,
    seq: u64,
}

/// Gives an order to an incident or to a loop.
pub(in crate::cli) fn steer(
    args: &Steer,
    order: PersonOrder,
    out: &Output,
) -> Result<Exit, CliError> {
    if let Some(id) = &args.of {
        return steer_loop(id, order, &args.by, out);
    }
    let id = args.id.as_deref().unwrap_or_default();
    let find = |journal: &dyn Journal| events::find(journal, id);
    say(find, &args.by, out, PersonWord::Order(order))
}

/// Gives an order to a loop, and to what it is recovering from.
fn steer_loop(id: &LoopId, order: PersonOrder, by: &By, out: &Output) -> Result<Exit, CliError> {
    refuse_agents("steer a loop")?;
    let store = project::open_store(out)?;
    let scrubber = project::scrubber();
    let by = Actor::Person { name: speaker(by.name.as_deref(), &store, &scrubber) };
    let known = known_loops(store.journal())?;
    let of = known.iter().find(|of| of.id() == id).ok_or_else(|| {
        CliError::failed(format!("there is no loop `{id}`")).hint("list them: salve loop status")
    })?;
    let Some(seq) = loops::order_loop(&store, of, order, &by, &scrubber)? else {
        return Err(CliError::failed(format!("the loop `{id}` does not take this"))
            .hint(format!("salve loop status {id}")));
    };
    let said = match order {
        PersonOrder::Pause => "paused",
        PersonOrder::Resume => "resumed",
        PersonOrder::Abort => "stopped",
        PersonOrder::Skip => "left a role of",
        PersonOrder::Escalate => "wants to be asked about",
        PersonOrder::Retry => "tries again",
    };
    let by = repair::who(&by);
    if out.json() {
        out.fact(&Steered { version: 1, loop_id: id.as_str(), by: &by, said, seq })?;
        return Ok(Exit::Well);
    }
    writeln!(out.fitted(), "loop {id}  {} {said} it", events::visible(&by))?;
    if of.stamps().driver().is_none_or(|driver| process::is_gone(driver, &scrubber)) {
        out.remark(format_args!("  nobody runs it now; go on with: salve loop run --id {id}"));
    }
    Ok(Exit::Well)
}
