//! `salve metrics`: the figures of all jobs and incidents, as Prometheus reads them.

use std::io::Write as _;

use salve_core::telemetry::prometheus_text;

use super::super::{CliError, Exit, Output, config, project};
use crate::store::{Store, Stream};

/// Arguments of `salve metrics`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {}

/// Prints the figures.
pub(in crate::cli) fn run(_: &Args, out: &Output) -> Result<Exit, CliError> {
    let prefix = config::load(out)?.settings.telemetry.prefix;
    let entries = match Store::open_existing(&project::locate(out)?)? {
        Some(store) => store.journal().read(0, &Stream::Project, usize::MAX)?,
        None => Vec::new(),
    };
    write!(out.exact(), "{}", prometheus_text(&prefix, &entries))?;
    Ok(Exit::Well)
}
