//! `salve loop status`: how loops stand.

use std::collections::BTreeSet;
use std::io::Write as _;

use salve_core::event::{Entry, Event, LoopId, TestsVerdict};
use salve_core::iteration::{Loop, Now, State, state};

use super::super::project::locate;
use super::super::{CliError, Exit, Output};
use crate::store::{Filter, Store, StoreError};

/// Arguments of `salve loop status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Loop [default: all]
    #[arg(value_name = "ID")]
    id: Option<LoopId>,
}

/// Returns all loops of the project, in the order of their names.
pub(super) fn known(store: &Store) -> Result<Vec<Loop>, StoreError> {
    let entries = store.journal().read(0, &Filter::default().kind("loop"), usize::MAX)?;
    let name = |entry: &Entry| match &entry.event {
        Event::Loop { id, .. } => Some(id.clone()),
        _ => None,
    };
    let ids: BTreeSet<LoopId> = entries.iter().filter_map(name).collect();
    Ok(ids.iter().filter_map(|id| Loop::replay(id, &entries).ok()).collect())
}

/// Shows how loops stand.
pub(super) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let store = Store::open_existing(&locate(out)?)?;
    let known = store.as_ref().map(known).transpose()?.unwrap_or_default();
    let wanted = |of: &&Loop| args.id.as_ref().is_none_or(|id| of.id() == id);
    let shown: Vec<&Loop> = known.iter().filter(wanted).collect();
    if let (Some(id), []) = (&args.id, shown.as_slice()) {
        return Err(CliError::failed(format!("there is no loop `{id}`"))
            .hint("list them: salve loop status"));
    }
    if shown.is_empty() && !out.json() {
        out.remark("no loop yet; start one: salve loop run --task \"…\"");
    }
    for of in shown {
        let state = state(of, &Now::NoRecovery);
        match out.json() {
            true => out.fact(&state)?,
            false => writeln!(out.stdout(), "{}", line(&state))?,
        }
    }
    Ok(Exit::Well)
}

fn line(state: &State) -> String {
    let tests = match state.tests {
        Some(TestsVerdict::Green) => " · tests green",
        Some(TestsVerdict::Red) => " · tests red",
        Some(TestsVerdict::NotExecuted) => " · tests could not execute",
        None => "",
    };
    let role = state.role.as_ref().map(|role| format!(" · {role}")).unwrap_or_default();
    let until = state.resumes_at.map(|at| format!(" until {at}")).unwrap_or_default();
    let why = state.reason.as_ref().map(|why| format!("\n    {why}")).unwrap_or_default();
    let (id, status, iteration) = (&state.loop_id, state.status.as_str(), state.iteration);
    format!("{id:<20} {status}{until} · iteration {iteration}{role}{tests}{why}")
}
