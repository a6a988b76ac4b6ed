//! `salve run`, `salve submit`, `salve worker`, `salve workers`, `salve jobs`, `salve control`: jobs that
//! heal, reset and resume.

mod answer_desk;
pub(super) mod control;
pub(super) mod fleet;
pub(super) mod fleet_questions;
mod fleet_worker;
mod lines;
pub(super) mod list;
pub(super) mod metrics;
mod progress;
mod result_ways;
pub(super) mod run;
pub(super) mod submit;
pub(super) mod worker;
pub(super) mod workers;

use salve_core::job::Job;

use super::CliError;
use crate::store::Store;
use crate::subjects::job::jobs_like;

/// Returns the run of a job that is meant by some of its id's digits.
pub(super) fn find(store: &Store, digits: &str) -> Result<Option<Job>, CliError> {
    let mut found = jobs_like(store, digits)?;
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(CliError::usage(format!("`{digits}` is the beginning of several runs"))
            .hint("say more of its id: salve jobs")),
    }
}

/// Returns the run of a job, or an error that says where the others are.
pub(super) fn wanted(store: &Store, digits: &str) -> Result<Job, CliError> {
    find(store, digits)?.ok_or_else(|| {
        CliError::usage(format!("there is no run `{digits}`")).hint("`salve jobs` lists all")
    })
}
