//! The one sandbox for every command that Salve runs as a remedy.
//!
//! Whoever wants a command run says what, where and for how long ([`SandboxedCommand`]); what it may reach is the
//! settings' business ([`Sandbox`]). The command is started by this very program, which takes all
//! bounds on itself and then becomes the command ([`enter`]): a session and a private directory for
//! temporary files of its own, no new privileges, limits, no files but the first three, a short
//! environment, and rules of the kernel on what it writes to, connects to and signals.
//!
//! What holds it depends on the machine ([`Means`]):
//!
//! | | namespaces and Landlock | Landlock alone |
//! |---|---|---|
//! | writes outside of project, caches, temporary files | refused | refused |
//! | modes, owners, times and attributes of files out there | refused, by read-only mounts | not held |
//! | writes to Salve's settings | refused | found afterwards and undone |
//! | writes to any `.git`, and to where its settings find programs | refused | those that make git run programs are found and undone |
//! | links on the way to sealed places | put back, and what they lead to refused | both put back |
//! | other names of sealed files in the project | refused | put back |
//! | locks of Salve's files | are the command's own | not held |
//! | sockets of other programs that stand as files | covered, unless listed | not held |
//! | caches: what managers run as code elsewhere | in a layer that is thrown away | writable to a manager that is named |
//! | processes of others, their environment and memory | not to be seen | seen |
//! | limits and priorities of others | refused, by the filter of system calls | the same |
//! | writes to `.salve/` | refused | not held |
//! | network `none` | nothing is reachable | the same, by the filter of system calls |
//! | network `web` | TCP to the listed ports only (ABI 4), no UDP (the filter) | the same |
//! | signals to others | refused (ABI 6) | the same |
//!
//! `web` does not hold UDP where there is no filter, and where names can be looked up by nothing
//! else ([`Names`]). Reading is not held.
//!
//! **Invariants:** a command that must be held runs with all that this machine can hold it by, or
//! not at all; where the machine can do nothing, a person is asked first ([`Sandbox::lack`]), and
//! what no person was asked about does not run; the command runs in the directory that was judged, whatever its path leads to later.

mod caches;
mod calls;
mod enter;
mod env;
mod hard_links;
mod held_root;
mod inner;
mod listeners;
mod means;
mod names;
mod plan;
mod ports;
mod rights;
mod seal;
mod sockets;
mod spaces;
mod submodules;
#[cfg(test)]
pub(crate) mod tests;
mod throw;
mod writes;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use salve_core::event::{Authority, ProcessExit};

use caches::{CacheAsk, CachePlaces};
pub(crate) use calls::deny_keys;
pub use enter::enter;
pub(crate) use listeners::sockets_in;
pub use means::{Landlock, Means, Processes, Sockets, Spaces};
pub use names::Names;
use plan::{Hold, SandboxPlan};
pub(crate) use rights::{bound_capabilities, kept_mount_flags, pass_on_mounting};
use seal::SealedPaths;
use sockets::Kinds;
pub(crate) use writes::Writes;

use crate::config::{Network, SandboxMode, SandboxSettings};
use crate::dirs;
use crate::files::{self, FileKind, read_text};
use crate::gate::WorkingDir;
use crate::process::{
    Bounded, Capture, CommandBounds, Outlet, OutputStyle, SpawnError, Spec, Supervisor, Terminal,
    run_bounded,
};

/// The shell that commands are given to.
pub const SHELL: &str = "/bin/sh";

/// The name of the processes that carry out a remedy.
pub(crate) const REMEDY: &str = "remedy";

/// How many processes a command may have at once; the kernel does not count root's.
pub const PROCESSES: usize = 2_048;

/// Why no command runs where a sealed path leads to the whole project.
const EVERYTHING: &str = "a path that no command may change (such as `.claude` or `.git`) is a link \
                          to the project itself, so nothing in it could be kept from a command";

/// How commands are kept within bounds, as the settings say.
#[derive(Clone, Debug)]
pub struct Sandbox {
    settings: Arc<SandboxSettings>,
    means: Option<Means>,
    names: Option<Names>,
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct SandboxedCommand<'a> {
    /// The command as the rules know it.
    pub command: &'a str,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The project's root, absolute: what lies below it may be written to.
    pub root: &'a Path,
    /// Where it runs, held open since it was judged.
    pub dir: &'a WorkingDir,
    /// What its environment has beside what passes of our own.
    pub env: Vec<(OsString, OsString)>,
    /// The name of its processes.
    pub name: String,
    /// How long it may take.
    pub limit: Duration,
    /// On whose word it runs.
    pub on: Authority,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxEnd {
    /// By which code or signal, or that it outlived its limit.
    pub exit: ProcessExit,
    /// How long it ran.
    pub took: Duration,
    /// The last lines it wrote, not scrubbed.
    pub output: String,
    /// What it did that no command may do.
    pub breach: Option<Breach>,
}

/// What no command may do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// It changed what is sealed; the old is back in place.
    #[error("it changed {}, which was put back", .0.join(", "))]
    Wrote(Vec<String>),
    /// It started too many processes and was ended.
    #[error("it started more than {PROCESSES} processes")]
    Crowd,
}

/// Why a command cannot be held on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// There is nothing to hold it by.
    Landlock,
    /// It is to have no network, and that cannot be taken from it.
    Network,
}

impl Lack {
    /// Returns it in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Landlock => {
                "nothing on this machine can keep it within the project (Landlock is not available)"
            }
            Self::Network => "its network cannot be cut off on this machine",
        }
    }
}

/// Why a command was not run.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// It could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// There is no place for its temporary files.
    #[error("cannot make a private directory for temporary files")]
    Temporary(#[source] io::Error),
    /// Nothing can hold it here, and no person has agreed to that.
    #[error("{}", .0.as_str())]
    Unheld(Lack),
    /// Its bounds could not be set, or the program is not there.
    #[error("{0}")]
    Refused(String),
    /// What it changed against the rules could not be put back.
    #[error("cannot put back what it changed")]
    Undo(#[source] io::Error),
}

impl Sandbox {
    /// Returns the sandbox that the settings describe, on this machine.
    pub fn new(settings: &SandboxSettings) -> Self {
        Self { settings: Arc::new(settings.clone()), means: None, names: None }
    }

    /// Returns the sandbox that the settings describe, on a machine with these means.
    #[cfg(test)]
    pub fn with_means(settings: &SandboxSettings, means: Means) -> Self {
        Self { means: Some(means), ..Self::new(settings) }
    }

    /// Says how names are looked up, which is else found out.
    #[cfg(test)]
    #[must_use]
    pub fn with_names(self, names: Names) -> Self {
        Self { names: Some(names), ..self }
    }

    fn means(&self) -> Means {
        self.means.unwrap_or_else(Means::here)
    }

    /// Returns why a command cannot be held as the settings want it, if it cannot: then only a
    /// person may have it run.
    pub fn lack(&self, command: &str) -> Option<Lack> {
        match self.settings.mode {
            SandboxMode::Off => return None,
            SandboxMode::Require => {}
        }
        let Means { landlock, spaces, sockets, processes: _ } = self.means();
        let cut = spaces != Spaces::None || sockets == Sockets::Filtered;
        if landlock == Landlock::None {
            Some(Lack::Landlock)
        } else if self.settings.network(command) == Network::None && !cut {
            Some(Lack::Network)
        } else {
            None
        }
    }

    /// Returns whether commands get the variable of this name.
    pub fn passes(&self, name: &OsStr) -> bool {
        match self.settings.mode {
            SandboxMode::Off => true,
            SandboxMode::Require => env::passes(name, &self.settings.env),
        }
    }

    /// Runs a command until it ends, at most for its limit, and ends whatever it leaves behind.
    ///
    /// # Errors
    ///
    /// When it was not run, or what it did against the rules could not be undone.
    pub fn run(
        &self,
        care: &Supervisor,
        job: &SandboxedCommand<'_>,
    ) -> Result<SandboxEnd, SandboxError> {
        match self.settings.mode {
            SandboxMode::Off => {
                let env = job.env.iter().cloned().chain(env::quiet()).collect();
                run_in(care, job, job.argv.clone(), env)
            }
            SandboxMode::Require => match (job.on, self.lack(job.command)) {
                (Authority::Gate, Some(lack)) => Err(SandboxError::Unheld(lack)),
                (Authority::Gate, None) | (Authority::Approval(_), _) => self.run_held(care, job),
            },
        }
    }

    fn run_held(
        &self,
        care: &Supervisor,
        job: &SandboxedCommand<'_>,
    ) -> Result<SandboxEnd, SandboxError> {
        let private = tempfile::Builder::new().prefix("salve-remedy-").tempdir();
        let private = private.map_err(SandboxError::Temporary)?;
        let means = self.means();
        submodules::prepare(job.command, job.root);
        let own: Vec<PathBuf> = [dirs::cache(), dirs::data()].into_iter().flatten().collect();
        let seal = SealedPaths::new(job, &own, means.spaces).map_err(SandboxError::Temporary)?;
        if seal.is_everything {
            return Err(SandboxError::Refused(EVERYTHING.to_owned()));
        }
        let plan = self.plan(job, &seal, private.path()).map_err(SandboxError::Temporary)?;
        let file = private.path().join("plan");
        let told = serde_json::to_vec(&plan).map_err(io::Error::other);
        told.and_then(|told| fs::write(&file, told)).map_err(SandboxError::Temporary)?;
        let (argv, env) = launcher(file.as_os_str());
        let ran = run_in(care, job, argv, env);
        throw::tidy(&plan.thrown);
        let wrote = seal.check().map_err(SandboxError::Undo)?;
        let mut ran = ran?;
        // The command could write there too, whatever it likes.
        let said = |path: &OsStr| read_text(Path::new(path), FileKind::Note).ok();
        if ran.exit == ProcessExit::Code(i32::from(enter::REFUSED))
            && let Some(why) = said(&plan.refusal)
        {
            return Err(SandboxError::Refused(why));
        }
        if let ProcessExit::Code(code) = ran.exit
            && let Some(told) = said(&plan.signal)
            && told.parse() == Ok(code - inner::SIGNALLED)
        {
            ran.exit = ProcessExit::Signal(code - inner::SIGNALLED);
        }
        if !wrote.is_empty() {
            ran.breach = Some(Breach::Wrote(wrote));
        }
        Ok(ran)
    }

    /// Returns the command with all its bounds.
    fn plan(
        &self,
        job: &SandboxedCommand<'_>,
        seal: &SealedPaths,
        private: &Path,
    ) -> io::Result<SandboxPlan> {
        let Means { landlock, spaces, processes, sockets } = self.means();
        let temporary = private.join("tmp");
        fs::create_dir(&temporary)?;
        // Of what else lies there the command gets nothing to write to.
        let told = private.join("told");
        fs::create_dir(&told)?;
        let mut writes = vec![job.root.to_path_buf(), temporary.clone(), told.clone()];
        let listed = &self.settings.caches;
        let CachePlaces { kept, thrown } =
            caches::places(&CacheAsk { command: job.command, root: job.root, listed, spaces });
        writes.extend(kept);
        let thrown = thrown.into_iter().chain(places_of_locks(job.root, spaces)).collect();
        let thrown = throw::prepare(thrown, private)?;
        let own = [job.root.to_path_buf(), private.to_path_buf()];
        let covered = match spaces {
            Spaces::None => Vec::new(),
            Spaces::Root | Spaces::User => listeners::to_cover(&own, &self.settings.sockets),
        };
        let network = self.settings.network(job.command);
        let kinds = match sockets {
            Sockets::Filtered => {
                let names = || self.names.unwrap_or_else(Names::here);
                Kinds::of(network, job.command, names)
            }
            Sockets::Any => None,
        };
        let by_tcp = kinds.filter(|kinds| *kinds == Kinds::Tcp);
        let servers = by_tcp.and_then(|_| names::servers(private));
        let mut env = env::environment(&job.env, &self.settings.env, temporary.as_os_str());
        env.extend(by_tcp.map(|_| names::by_tcp()));
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        Ok(SandboxPlan {
            argv: job.argv.clone(),
            env,
            hold: if landlock == Landlock::None { Hold::Cannot } else { Hold::Must },
            thrown,
            writes: writes.into_iter().map(PathBuf::into_os_string).collect(),
            pinned: seal.pinned.clone(),
            sealed: seal.by_kernel.clone(),
            reopened: seal.reopened.clone(),
            covered: covered.into_iter().map(PathBuf::into_os_string).collect(),
            calls: sockets,
            spaces,
            processes,
            network,
            ports: if network == Network::Web { ports::web(job.root) } else { Vec::new() },
            sockets: kinds,
            servers: servers.map(|(file, place)| (file.into_os_string(), place.into_os_string())),
            // More than its limit allows is none of its own work any more.
            cpu_seconds: (job.limit.as_secs() + 60).saturating_mul(cores),
            parent: std::process::id(),
            refusal: told.join("refusal").into_os_string(),
            signal: told.join("signal").into_os_string(),
        })
    }
}

/// Returns where Salve's own locks are. Whoever may read a file may lock it, so a command sees a layer
/// over them: what it locks there is locked for itself alone. It is sealed besides.
fn places_of_locks(root: &Path, spaces: Spaces) -> Vec<PathBuf> {
    let places = [Some(root.join(files::STATE_DIR)), dirs::data()].into_iter().flatten();
    let is_own = |place: &PathBuf| place.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    places.filter(|place| spaces != Spaces::None && is_own(place)).collect()
}

/// Runs `argv` in the place of the job's own command.
fn run_in(
    care: &Supervisor,
    job: &SandboxedCommand<'_>,
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
) -> Result<SandboxEnd, SandboxError> {
    // The handle, not the path: whatever stands there by now, this is what was judged.
    let dir = PathBuf::from(format!("/proc/self/fd/{}", job.dir.handle().as_raw_fd()));
    let output = Arc::new(Capture::new(Arc::new(Outlet::none()), OutputStyle::Plain));
    care.work().follow(&output);
    let server = job.name.clone();
    let spec = Spec { argv, dir, env, server, terminal: Terminal::Pipes, output };
    let bounds = CommandBounds { limit: job.limit, processes: PROCESSES };
    let (end, breach) = match run_bounded(care, &spec, bounds)? {
        Bounded::Ended(end) => (end, None),
        Bounded::Crowded(end) => (end, Some(Breach::Crowd)),
    };
    Ok(SandboxEnd { exit: end.exit, took: end.took, output: end.output, breach })
}

/// Returns the words that give a command to the shell.
pub fn shell(command: &str) -> Vec<OsString> {
    [SHELL, "-c", command].map(|word| OsStr::new(word).to_owned()).to_vec()
}

/// Returns the words and variables that start this very program as the one that becomes a command.
#[cfg(not(test))]
fn launcher(what: &OsStr) -> (Vec<OsString>, Vec<(OsString, OsString)>) {
    // By the kernel's own link: the file of this name may be another version by now.
    let words = [OsStr::new("/proc/self/exe"), OsStr::new(enter::WORD), what];
    (words.map(OsStr::to_owned).to_vec(), Vec::new())
}

#[cfg(test)]
use tests::launcher;

/// Returns the directories in which tools keep what they download, as far as they are there.
pub fn cache_places(root: &Path) -> Vec<PathBuf> {
    let ask = CacheAsk { command: "", root, listed: &[], spaces: Spaces::User };
    caches::places(&ask).thrown
}
