//! What the commands of jobs need of a fleet: how it is reached, and the jobs in it.

use super::super::{CliError, Output};
use crate::config::Config;
use crate::project::Project;
use crate::store::{Fleet, FleetTerms, Store};
use crate::subjects::job::{FleetJobError, JobInFleet, fleet_jobs};

/// Which fleet is meant.
#[derive(Clone, Debug, Default, clap::Args)]
pub(in crate::cli) struct FleetArgs {
    /// Address of the fleet's server [default: fleet.url, else this machine's own queue]
    #[arg(long, value_name = "URL", global = true)]
    fleet: Option<String>,
}

impl FleetArgs {
    /// Tells whether a fleet was named on the command line.
    pub(in crate::cli) fn is_named(&self) -> bool {
        self.fleet.is_some()
    }

    /// Returns how the fleet is reached, if one is meant.
    pub(in crate::cli) fn terms(&self, config: &Config) -> Result<Option<FleetTerms>, CliError> {
        let mut settings = config.settings.fleet.clone();
        if self.fleet.is_some() {
            settings.url.clone_from(&self.fleet);
        }
        settings.terms().map_err(|error| CliError::usage("`fleet.name` is wrong").because(error))
    }

    /// Opens the project's store with the queue of the fleet, if one is meant.
    pub(super) fn store(
        &self,
        config: &Config,
        project: &Project,
    ) -> Result<Option<Store>, CliError> {
        let terms = self.terms(config)?;
        Ok(terms.map(|terms| Store::open_in_fleet(project, &terms)).transpose()?)
    }

    /// Opens the project's store in the fleet, if one is meant by the settings in force.
    pub(in crate::cli) fn open(&self, out: &Output) -> Result<Option<Store>, CliError> {
        if cfg!(not(feature = "fleet")) && self.fleet.is_none() {
            return Ok(None);
        }
        let config = super::super::config::in_force(out)?;
        if self.terms(&config)?.is_none() {
            return Ok(None);
        }
        self.store(&config, &super::super::project::locate(out)?)
    }
}

/// Returns the fleet of a store that was opened in one.
pub(in crate::cli) fn fleet_of(store: &Store) -> Result<&dyn Fleet, CliError> {
    store.fleet().ok_or_else(|| CliError::failed("this salve does not reach a fleet"))
}

/// Returns the job of a fleet that is meant by some of its id's digits.
pub(in crate::cli) fn find_in_fleet(
    store: &Store,
    digits: &str,
) -> Result<Option<JobInFleet>, CliError> {
    let mut found = fleet_jobs(store, digits)?;
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(CliError::usage(format!("`{digits}` is the beginning of several runs"))
            .hint("say more of its id: salve jobs")),
    }
}

/// Returns the job of a fleet that is meant, or an error that says where the others are.
pub(super) fn wanted_in_fleet(store: &Store, digits: &str) -> Result<JobInFleet, CliError> {
    find_in_fleet(store, digits)?.ok_or_else(|| {
        CliError::usage(format!("there is no run `{digits}` in the fleet"))
            .hint("`salve jobs` lists all")
    })
}

impl From<FleetJobError> for CliError {
    fn from(error: FleetJobError) -> Self {
        match error {
            FleetJobError::Store(error) => error.into(),
            FleetJobError::Workspace(error) => {
                let advice = error.advice();
                Self::usage("the job's workspace cannot be made").because(error).hint(advice)
            }
            error @ FleetJobError::NotPushed(_) => {
                Self::usage("workers cannot fetch what the job starts from")
                    .because(error)
                    .hint("push it first, or send the files: salve submit FILE --bundle")
            }
            error => Self::failed("the job of the fleet cannot be used").because(error),
        }
    }
}
