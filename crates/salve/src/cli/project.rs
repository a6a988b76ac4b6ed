//! What commands need of the project and its files, with errors for people.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use salve_core::event::Actor;
use salve_core::scrub::Scrubber;

use crate::atomic::WriteError;
use crate::config::Config;
use crate::door::{self, DoorError};
use crate::heal::Presence;
use crate::learned::{Learned, LearnedError};
use crate::process::keeper::WorkerVariable;
use crate::process::{self, answerer, keeper};
use crate::project::{Project, ProjectError};
use crate::store::{Store, StoreError};

use super::{CliError, Output};

/// Finds the project the user means.
pub(super) fn locate(out: &Output) -> Result<Project, CliError> {
    Ok(Project::locate(out.global().project.as_deref())?)
}

/// Opens the project's store, making it if there is none.
pub(super) fn open_store(out: &Output) -> Result<Store, CliError> {
    let store = Store::open(&locate(out)?)?;
    tell_mended(&store, out);
    Ok(store)
}

/// Sees to it that what is known holds by the tables in force, in the project and for the user.
///
/// Nothing that is to be done depends on it: what cannot be written now is done by the next run.
pub(super) fn rekey_memory(store: &Store, config: &Config, scrubber: &Scrubber, out: &Output) {
    let user = crate::dirs::data().filter(|_| config.settings.memory.user);
    let user = user.map(Project::of_user);
    let user = user.and_then(|user| Store::open_existing(&user).ok().flatten());
    for store in [Some(store), user.as_ref()].into_iter().flatten() {
        let rekeyed = Learned::new(store, scrubber, config.fingerprint_rules()).rekey();
        tell_rekeyed(rekeyed, out);
    }
}

/// Tells the user what came of moving what is known to other signatures.
pub(super) fn tell_rekeyed(rekeyed: Result<usize, LearnedError>, out: &Output) {
    match rekeyed {
        Ok(0) => {}
        Ok(1) => {
            out.remark("a known failure is recognised by another row now; what was learned stays")
        }
        Ok(count) => out.remark(format_args!(
            "{count} known failures are recognised by other rows now; what was learned stays"
        )),
        // Where nothing can be written, whoever can does it.
        Err(LearnedError::Store(StoreError::ReadOnly { .. } | StoreError::Denied { .. })) => {}
        Err(error) => {
            out.remark(format_args!("memory could not be updated to the tables in force: {error}"));
        }
    }
}

/// Tells the user if the store was found damaged and mended.
pub(super) fn tell_mended(store: &Store, out: &Output) {
    for mended in store.mended() {
        out.remark(mended);
    }
}

/// Returns the name under which the user speaks.
pub(super) fn user_name() -> String {
    let name = ["SALVE_USER", "USER", "LOGNAME"].into_iter().find_map(said);
    name.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

/// Returns who speaks: a person, unless an agent or anything else that Salve started is behind this
/// process.
pub(super) fn speaker(scrubber: &Scrubber) -> Actor {
    if process::is_agents() {
        let name = said(process::AGENT_MARK).unwrap_or_else(|| "unnamed".to_owned());
        return Actor::Agent { name: scrubber.scrub(&name) };
    }
    // What a check, a server or an attached agent does is nobody's word.
    let dir = std::env::current_dir().unwrap_or_default();
    match answerer::judge_own_process(&dir) {
        Ok(()) => Actor::Person { name: scrubber.scrub(&user_name()) },
        Err(_) => Actor::Salve(process::this(scrubber)),
    }
}

/// Refuses unless a person speaks, as every Salve that runs in the project sees it.
pub(super) fn expect_person(project: &Project) -> Result<(), CliError> {
    door::may_speak(project.root()).map_err(|error| StoreError::Word(error).into())
}

/// Returns whether somebody is at the terminal.
pub(super) fn presence() -> Presence {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        Presence::Attended
    } else {
        Presence::Unattended
    }
}

/// Works under a keeper, which is started if there is none.
pub(super) fn kept(
    work: impl FnOnce() -> Result<ExitCode, CliError>,
) -> Result<ExitCode, CliError> {
    kept_telling(None, work)
}

/// Works under a keeper, which is started if there is none and tells its worker something by a
/// variable.
pub(super) fn kept_telling(
    told: Option<WorkerVariable<'_>>,
    work: impl FnOnce() -> Result<ExitCode, CliError>,
) -> Result<ExitCode, CliError> {
    if keeper::is_worker() {
        return work();
    }
    keeper::keep_telling(std::env::args_os().skip(1), told)
        .map_err(|error| CliError::failed("cannot start the worker").because(error))
}

fn said(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.trim().is_empty())
}

/// Returns a scrubber for what the user types.
pub(super) fn scrubber() -> Scrubber {
    crate::scrub::scrubber()
}

impl From<ProjectError> for CliError {
    fn from(error: ProjectError) -> Self {
        let advice = error.advice();
        match error {
            ProjectError::NotFound { .. } | ProjectError::NoDirectory { .. } => {
                Self::usage("there is no project to work in").because(error).hint(advice)
            }
            ProjectError::NotOurs { .. }
            | ProjectError::GitWaits { .. }
            | ProjectError::Make { .. } => {
                Self::failed("cannot use the project's .salve directory")
                    .because(error)
                    .hint(advice)
            }
        }
    }
}

impl From<WriteError> for CliError {
    fn from(error: WriteError) -> Self {
        let advice = error.advice();
        Self::failed("cannot write a file").because(error).hint(advice)
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Project(error) => error.into(),
            StoreError::Word(error @ (DoorError::Refused(_) | DoorError::Silent(_))) => {
                let error = StoreError::Word(error);
                let advice = error.advice();
                Self::needs_person("this is for a person to say").because(error).hint(advice)
            }
            error => {
                let advice = error.advice();
                Self::failed("cannot use the project's store").because(error).hint(advice)
            }
        }
    }
}
