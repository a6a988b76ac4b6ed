//! `salve run`, `salve submit`, `salve worker`, `salve jobs`, `salve control`: jobs that heal, reset and resume.

pub(super) mod control;
mod lines;
pub(super) mod list;
pub(super) mod metrics;
pub(super) mod run;
pub(super) mod submit;
pub(super) mod worker;

use salve_core::job::Job;

use super::CliError;
use crate::store::Store;
use crate::subjects::job::known;

/// Returns the run of a job that is meant by some of its id's digits.
pub(super) fn find(store: &Store, digits: &str) -> Result<Option<Job>, CliError> {
    let wanted: String = digits.chars().filter(char::is_ascii_hexdigit).collect();
    let wanted = wanted.to_ascii_lowercase();
    let is_id = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !is_id || wanted.len() < 4 {
        return Ok(None);
    }
    let is_meant = |job: &Job| {
        let id = job.id();
        id.short().starts_with(&wanted) || id.0.simple().to_string() == wanted
    };
    let mut found: Vec<Job> = known(store)?.into_iter().filter(is_meant).collect();
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
