//! What every command that heals stands on: the scrubber, the care for processes, the outlet, the
//! shelf of remedies.

use std::borrow::Cow;
use std::sync::Arc;

use salve_core::earned::Terms;
use salve_core::gate::Policy;
use salve_core::scrub::Scrubber;
use uuid::Uuid;

use super::{CliError, Output};
use crate::config::Config;
use crate::dirs;
use crate::heal::shelf::Shelf;
use crate::process::{Care, Outlet};
use crate::project::Project;
use crate::sandbox::Sandbox;

/// Returns the scrubber that the settings ask for.
pub(super) fn scrubber(config: &Config) -> Result<Scrubber, CliError> {
    crate::scrub::scrubber_with(&config.settings.scrub)
        .map_err(|error| CliError::usage("a scrub pattern is invalid").because(error))
}

/// Starts to care for the processes of a run.
pub(super) fn care(run: Uuid) -> Result<Care, CliError> {
    Care::start(run).map_err(|error| CliError::failed("cannot care for processes").because(error))
}

/// Returns where the output of subjects goes; with `--json`, stdout is kept free for facts.
pub(super) fn outlet(out: &Output) -> Arc<Outlet> {
    let side = || rustix::stdio::stderr().try_clone_to_owned().ok();
    Arc::new(if out.json() { Outlet::new(side(), side()) } else { Outlet::standard() })
}

/// Returns the shelf that remedies are taken from.
pub(super) fn shelf<'c>(project: &Project, config: &'c Config) -> Shelf<'c> {
    shelf_with(project, config, Cow::Borrowed(&config.policy))
}

/// Returns the shelf under settings that need not outlive it.
pub(super) fn shelf_of_own(project: &Project, config: &Config) -> Shelf<'static> {
    shelf_with(project, config, Cow::Owned(config.policy.clone()))
}

fn shelf_with<'p>(project: &Project, config: &Config, policy: Cow<'p, Policy>) -> Shelf<'p> {
    let (root, auto) = (project.root().to_path_buf(), config.settings.playbook.auto);
    let user = dirs::data().filter(|_| config.settings.memory.user);
    let sandbox = Sandbox::new(&config.settings.recovery.sandbox);
    let mut shelf = Shelf::new(root, policy, auto, sandbox, user);
    shelf.terms = Terms::from(&config.settings.earned);
    shelf
}
