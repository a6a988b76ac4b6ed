//! The state of the world that a decision rests on, as values.
//!
//! Paths are relative to the project's root unless a field says otherwise.

use std::collections::{BTreeMap, BTreeSet};

use super::manager::NodeManager;
use crate::event::Process;

/// What the caller found out about the project and about the things a failure speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectFacts {
    /// The project's root, absolute.
    pub root: String,
    /// Where the subject runs, relative to the root; empty for the root.
    pub dir: String,
    /// The command that failed, as the user wrote it.
    pub command: String,
    /// Who Salve runs as.
    pub user: User,
    /// The Node project the subject belongs to.
    pub node: Option<NodeProject>,
    /// The Python project the subject belongs to.
    pub python: Option<PythonProject>,
    /// Files of other ecosystems that are there, by name: `Cargo.toml`, `go.mod`, `Gemfile`, ….
    pub manifests: BTreeSet<Manifest>,
    /// Compose files and the services in them.
    pub compose: Option<Compose>,
    /// The port that the subject would use, from its command, its environment or its framework.
    pub expected_port: Option<u16>,
    /// Room on the file system of the path that the failure names; where it names none, on the
    /// fullest of those that the subject writes to.
    pub disk: Option<Disk>,
    /// Room for a larger heap of Node, if the failure is about its heap.
    pub heap: Option<HeapRoom>,
    /// Whether the subject has `CI` set by Salve alone.
    pub sets_ci: bool,
    /// What `NODE_ENV` is for the subject, if it is set.
    pub node_env: Option<String>,
    /// What is at the paths the failure names, by the path as it is named there.
    pub paths: BTreeMap<String, PathState>,
    /// Who holds the ports it names.
    pub ports: BTreeMap<u16, PortState>,
    /// The processes it names; absent ones are gone.
    pub processes: BTreeMap<u32, LivingProcess>,
    /// Whether the programs it names are on the `PATH`.
    pub programs: BTreeMap<String, bool>,
    /// The state of the Node packages it names.
    pub packages: BTreeMap<String, PackageState>,
    /// Directories of compiled Python files in the project.
    pub bytecode: Vec<String>,
    /// Python modules it names that the virtual environment has.
    pub in_venv: BTreeSet<String>,
    /// Programs it names that the virtual environment has.
    pub venv_programs: BTreeSet<String>,
    /// Submodules of git that were not fetched and that the failure names.
    pub submodules: Vec<String>,
    /// Files that git tracks, that are gone from the working tree, and that the failure names.
    pub deleted: Vec<String>,
    /// The one SQLite database inside the project that git does not track.
    pub sqlite: Option<String>,
    /// Names that `.env.example` or its like has.
    pub example_variables: BTreeSet<String>,
    /// The example's file name, if there is one.
    pub example_file: Option<String>,
    /// Whether a `.env` is there.
    pub has_env_file: bool,
    /// Variables that the failure names, that the example or the code wants and that nothing sets.
    pub wanted_variables: BTreeSet<String>,
    /// Variables that the example or the code names and that nothing sets.
    pub unset_variables: Vec<String>,
}

/// A user of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, or the number where there is none.
    pub name: String,
    /// The number.
    pub uid: u32,
}

/// The file that makes a directory a project of some ecosystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Manifest {
    /// `Cargo.toml`.
    Cargo,
    CargoLock,
    /// `go.mod`.
    Go,
    GemfileLock,
    /// Gems are installed below the project, as `.bundle/config` says.
    BundleInside,
    /// `composer.json`.
    Composer,
    ComposerLock,
    /// `alembic.ini`.
    Alembic,
    /// `manage.py`.
    Django,
    /// `bin/rails`.
    Rails,
    /// `prisma/schema.prisma`, or where the package says.
    Prisma,
}

/// The services of a compose file, by the port each publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compose {
    pub file: String,
    /// Published port → service.
    pub services: BTreeMap<u16, String>,
}

/// Room on a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// A path on it.
    pub at: String,
    /// Its size in bytes.
    pub size: u64,
    /// What is free for this user, in bytes.
    pub free: u64,
    /// Free inodes.
    pub inodes: u64,
    /// All inodes; none where the file system does not count them.
    pub all_inodes: u64,
    /// Whether the failure names a path on it.
    pub named: bool,
}

impl Disk {
    /// Returns whether there is hardly room for anything more.
    pub fn is_full(&self) -> bool {
        /// What a tool may want at once.
        const LITTLE: u64 = 16 << 20;
        self.free < LITTLE.min(self.size / 20) || (self.all_inodes > 0 && self.inodes == 0)
    }
}

/// Memory for the heap of a Node that ran out of it, in MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapRoom {
    /// How large the heap was when it was full, if the output tells.
    pub had: Option<u64>,
    /// What the machine, and the group that we are in, have to spare.
    pub spare: u64,
    /// Whether the command itself says how large the heap may be, which no variable overrules.
    pub is_fixed: bool,
    /// Whether `NODE_OPTIONS` is set for the subject.
    pub has_options: bool,
}

impl HeapRoom {
    /// Returns how large the heap may be instead: twice what it was, and at most three quarters of
    /// what is to spare; nothing where that would be hardly more than it was.
    pub fn larger(&self) -> Option<u64> {
        /// What Node takes at most by itself on a machine with little memory.
        const USUAL: u64 = 2048;
        /// Sizes are whole multiples of this, so that another look finds the same.
        const GRAIN: u64 = 256;
        let had = self.had.unwrap_or(USUAL);
        let wanted = (had * 2).next_multiple_of(GRAIN).min(self.spare / 4 * 3 / GRAIN * GRAIN);
        (!self.is_fixed && wanted >= had + had / 4).then_some(wanted)
    }
}

/// A Node project: the nearest `package.json` above the subject, and the lockfile that governs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeProject {
    /// Where `package.json` is.
    pub dir: String,
    /// Where installing happens: where the lockfile is, else `dir`.
    pub top: String,
    /// The manager, if it is certain.
    pub manager: Option<NodeManager>,
    /// Whether the manager is on the `PATH`.
    pub manager_found: bool,
    /// The lockfiles at `top`.
    pub lockfiles: Vec<String>,
    /// Whether the lockfile can be read at all.
    pub lockfile_state: LockfileState,
    /// Whether the lockfile says what the manifest says.
    pub agreement: Agreement,
    /// Whether there is a `node_modules` with packages in it.
    pub has_modules: bool,
    /// Whether anything of that name is there: an empty directory, a link to nowhere.
    pub has_place: bool,
    /// Packages whose installed version is not the locked one: name, installed, locked.
    pub stale: Vec<(String, String, String)>,
    /// Declared packages that are not installed, of those that have to be.
    pub absent: Vec<String>,
    /// Installed packages whose files are plainly damaged, of those declared or named.
    pub damaged: Vec<String>,
    /// Files of packages that the project's configuration loads and that do not parse.
    pub unparsable: Vec<String>,
    /// Declared dependencies of every kind, with their ranges.
    pub declared: BTreeMap<String, String>,
    /// Programs that locked packages bring: program → package.
    pub locked_bins: BTreeMap<String, String>,
    /// Programs linked in `node_modules/.bin`.
    pub linked_bins: BTreeSet<String>,
    pub scripts: BTreeMap<String, String>,
    /// The Node versions the project asks for, as written, and where.
    pub wanted: Option<(String, String)>,
    /// The Node version that is there.
    pub present: Option<String>,
    /// Build records of TypeScript that would make a build do nothing.
    pub build_records: Vec<String>,
    /// Whether Vite's cache of prepared packages is there, in the subject's directory.
    pub has_vite_cache: bool,
}

impl NodeProject {
    /// Returns the lockfile in force, if there is exactly one that fits the manager.
    pub fn lockfile(&self) -> Option<&str> {
        let manager = self.manager?;
        let fits = |file: &&String| manager.words().lockfiles.contains(file);
        self.lockfiles.iter().find(fits).map(String::as_str)
    }
}

/// Whether a lockfile says what its manifest says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agreement {
    /// It does.
    Agrees,
    /// It does not.
    Differs,
    /// It could not be told.
    #[default]
    Unknown,
}

/// Whether a lockfile can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockfileState {
    /// It can, as far as can be told, or there is none.
    #[default]
    Readable,
    /// A merge left its markers in it, the first at this line.
    Conflicted {
        /// The line, counted from one.
        line: usize,
    },
    /// It does not parse.
    Broken {
        /// The line at which reading it ended.
        line: usize,
    },
}

/// What is known of one Node package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageState {
    /// The range in the manifest.
    pub declared: Option<String>,
    /// The version in the lockfile.
    pub locked: Option<String>,
    /// The version in `node_modules`.
    pub installed: Option<String>,
    /// Whether its files are plainly damaged: no readable manifest, or an entry that is missing or
    /// empty.
    pub damaged: bool,
    /// An installed package that asks for this one as an optional part of itself: its name and the
    /// exact version it asks for.
    pub part_of: Option<(String, String)>,
    /// Whether it is a package of this very workspace, and where.
    pub workspace: Option<String>,
    /// The script that builds it, if it is one of this workspace.
    pub build: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonProject {
    /// Where it is.
    pub dir: String,
    /// Who installs.
    pub manager: PythonManager,
    /// Whether that program is on the `PATH`.
    pub manager_found: bool,
    /// Whether it is a workspace, whose members share one environment.
    pub is_workspace: bool,
    /// The files that say what to install, the surest first.
    pub sources: Vec<String>,
    /// Declared distributions, normalised.
    pub declared: BTreeSet<String>,
    /// Distributions that those in the environment require, normalised; looked at only where the
    /// failure names a module.
    pub required: BTreeSet<String>,
    /// The virtual environment that is there or that the command wants.
    pub venv: Option<Venv>,
    /// An interpreter to make an environment with, and its version.
    pub interpreter: Option<(String, String)>,
    /// The Python version the project asks for, and where.
    pub wanted: Option<(String, String)>,
    /// Whether the interpreter is what the project asks for.
    pub interpreter_fits: bool,
    /// Distributions in the environment whose version is not the declared or locked one.
    pub drift: Vec<Drift>,
    /// Distributions in the environment whose files are not those that were installed, of those
    /// that the failure names, each with its version.
    pub damaged: Vec<(String, String)>,
}

/// A distribution whose installed version is not the one that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Its name, normalised.
    pub name: String,
    /// The version that is installed.
    pub present: String,
    /// The version that is asked for.
    pub wanted: String,
}

/// Who installs a Python project's packages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PythonManager {
    /// pip, from requirement files or `pyproject.toml`.
    #[default]
    Pip,
    /// uv, from `uv.lock`.
    Uv,
    /// Poetry, from `poetry.lock`.
    Poetry,
    /// Pipenv, from `Pipfile.lock`.
    Pipenv,
}

impl PythonManager {
    /// Returns the program's name.
    pub const fn program(self) -> &'static str {
        match self {
            PythonManager::Pip => "pip",
            PythonManager::Uv => "uv",
            PythonManager::Poetry => "poetry",
            PythonManager::Pipenv => "pipenv",
        }
    }
}

/// A virtual environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Venv {
    /// Where it is.
    pub path: String,
    /// Whether it is there at all.
    pub exists: bool,
    /// What is wrong with it, if something is.
    pub broken: Option<String>,
    /// Whether git ignores it, or it holds `pyvenv.cfg` and git does not track it.
    pub derived: bool,
    /// Whether the failing command used it.
    pub used: bool,
    /// Whether the project itself was installed in it for editing.
    pub editable: bool,
}

/// What is at a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathState {
    /// The path relative to the root, if it is inside.
    pub inside: Option<String>,
    /// What is there.
    pub kind: PathKind,
    /// Whether git tracks it, or something below it.
    pub tracked: bool,
    /// Whether git ignores it; without git, whether its name is that of derived files.
    pub ignored: bool,
    /// The nearest thing that exists: the path itself or a directory above it.
    pub nearest: String,
    /// Its owner's name.
    pub owner: String,
    /// Its permission bits.
    pub mode: u32,
    /// Who holds it as a lock.
    pub hold: LockHold,
    /// Why the system cannot run it, if it is a script that it cannot.
    pub unfit: Option<UnfitScript>,
}

/// Why the system cannot run a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnfitScript {
    /// Its first line ends as on Windows, and the carriage return counts as part of a name.
    WindowsLines,
    /// The program that its first line names is not there.
    NoInterpreter(String),
}

/// What sort of thing is at a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathKind {
    /// Nothing.
    #[default]
    Missing,
    /// A file of this many bytes.
    File(u64),
    Directory,
    /// Something else.
    Other,
}

/// What is known of a file that serves as a lock or holds a process id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockHold {
    /// When it was last written, in seconds since 1970.
    pub written: u64,
    /// How long ago that was, in seconds.
    pub age: u64,
    /// The process id written in it.
    pub pid: Option<u32>,
    /// Living processes that hold it: by the id in it, by a lock on it, or by having it open.
    pub holders: Vec<LivingProcess>,
    /// The program that has the id written in it by now, if that is plainly not the one that wrote
    /// it.
    pub other: Option<String>,
    /// Whether a program that makes such locks runs in the project, holding it or not.
    pub busy: bool,
}

/// Who holds a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortState {
    /// Nobody.
    Free,
    /// This process.
    Held(LivingProcess),
    /// Somebody this user may not look at.
    Hidden {
        /// The user the socket belongs to.
        owner: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivingProcess {
    pub process: Process,
    /// Its command line.
    pub command: String,
    /// Its working directory, absolute.
    pub cwd: String,
    /// Whether that is the project or inside it.
    pub inside: bool,
    /// Whether it belongs to Salve's own user.
    pub same_user: bool,
    /// Why it may not be taken for an orphan, if there is a reason: a terminal or a parent still
    /// looks after it, it keeps data, or nothing shows that it runs the project's own program.
    pub attended: Option<String>,
    /// The mark that Salve put on it.
    pub mark: SalveMark,
    /// It and its relatives that would have to end with it, the eldest first.
    pub family: Vec<Process>,
}

/// The mark of a Salve run on a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SalveMark {
    #[default]
    None,
    /// Of this run: the server's name.
    Ours(String),
    /// Of another run that is still there: the server's name.
    Living(String),
    /// Of a run that is over: the server's name.
    Dead(String),
}

impl LivingProcess {
    /// Returns whether it is this project's own and nobody looks after it any more.
    pub fn is_orphan(&self) -> bool {
        let forsaken = match &self.mark {
            SalveMark::Dead(_) => true,
            SalveMark::None => self.attended.is_none(),
            SalveMark::Ours(_) | SalveMark::Living(_) => false,
        };
        self.inside && self.same_user && forsaken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_grows_within_what_the_machine_has_to_spare() {
        let larger = |had, spare| HeapRoom { had, spare, ..HeapRoom::default() }.larger();
        assert_eq!(larger(Some(2048), 16_000), Some(4096));
        assert_eq!(larger(None, 16_000), Some(4096));
        assert_eq!(larger(Some(50), 16_000), Some(256));
        // Three quarters of 4 GiB are less than twice as much, and still a good deal more.
        assert_eq!(larger(Some(2048), 4096), Some(3072));
        assert_eq!(larger(Some(2048), 3000), None);
        let fixed = HeapRoom { had: Some(50), spare: 16_000, is_fixed: true, has_options: false };
        assert_eq!(fixed.larger(), None);
    }
}
