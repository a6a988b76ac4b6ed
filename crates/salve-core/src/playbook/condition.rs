//! What can be true of the state: the words that rules are written in.

use serde::Deserialize;

use super::catch::{CatchKind, Caught};
use super::facts::{
    Agreement, Disk, LivingProcess, LockfileState, Manifest, NodeProject, PackageState, PathKind,
    PathState, PortState, ProjectFacts, PythonProject, UnfitScript, Venv,
};

/// How young a lock may be, in seconds, and still be somebody's who is not seen.
const YOUNG: u64 = 5;

/// Directories that tools fill and fill again, by how their path ends.
const CACHES: &[&str] = &[
    ".next",
    ".nuxt",
    ".output",
    ".svelte-kit",
    ".astro",
    ".angular",
    ".turbo",
    ".parcel-cache",
    ".cache",
    ".vite",
    ".docusaurus",
    ".webpack",
    ".expo",
    ".rpt2_cache",
    "__pycache__",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "incremental",
];

/// Declares every condition once: variant, name in the rules, what it means, and how it is told.
macro_rules! conditions {
    ($($variant:ident $name:literal $doc:literal $holds:expr;)*) => {
        /// Something that may be true of the project's state or of a thing the failure names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
        pub enum Condition {
            $(#[doc = $doc] #[serde(rename = $name)] $variant),*
        }

        impl Condition {
            /// Every condition.
            pub const ALL: &[Condition] = &[$(Condition::$variant),*];

            /// Returns the name used in the rules.
            pub const fn name(self) -> &'static str {
                match self { $(Condition::$variant => $name),* }
            }

            /// Returns how it is told.
            fn teller(self) -> fn(&View<'_>) -> bool {
                match self { $(Condition::$variant => $holds),* }
            }
        }
    };
}

conditions! {
    Node "node" "The subject belongs to a Node project." |v| v.node(|_| true);
    ManagerCertain "node.manager" "It is certain which package manager the project uses." |v| v.node(|n| n.manager.is_some());
    NodeReady "node.ready" "It is a Node project whose package manager is certain and on the `PATH`." |v| v.node(|n| n.manager.is_some() && n.manager_found);
    Lockfile "node.lockfile" "There is a lockfile." |v| v.node(|n| n.lockfile().is_some());
    LockConflicted "node.lock_conflicted" "A merge left its markers in the lockfile." |v| v.node(|n| matches!(n.lockfile_state, LockfileState::Conflicted { .. }));
    LockBroken "node.lock_broken" "The lockfile is there and does not parse." |v| v.node(|n| matches!(n.lockfile_state, LockfileState::Broken { .. }));
    LockAgrees "node.lock_agrees" "The lockfile does not contradict the manifest, as far as can be told." |v| v.node(|n| n.agreement != Agreement::Differs);
    ModulesMissing "node.modules_missing" "Packages are declared or locked, and there is no `node_modules` with any in it." |v| v.node(|n| !n.has_modules && n.wants_packages());
    ModulesStale "node.stale" "Installed versions are not the locked ones." |v| v.node(|n| !n.stale.is_empty());
    ModulesIncomplete "node.incomplete" "A declared package is not installed." |v| v.node(|n| !n.absent.is_empty());
    ModulesDamaged "node.damaged" "A declared package that is installed is plainly damaged." |v| v.node(|n| !n.damaged.is_empty());
    ModulesUnparsable "node.unparsable" "A file of a package that the project's configuration loads does not parse." |v| v.node(|n| !n.unparsable.is_empty());
    BuildScript "node.build" "There is a script that builds." |v| v.node(|n| n.build_script().is_some());
    GenerateScript "node.generate" "There is a script that generates code." |v| v.node(|n| n.generate_script().is_some());
    ScriptKnown "node.script" "The script named is in the manifest." |v| v.node(|n| v.is(CatchKind::Script, |name| n.scripts.contains_key(name)));
    ViteCache "node.vite_cache" "Vite's cache of prepared packages is there." |v| v.node(|n| n.has_vite_cache);
    PackageDeclared "package.declared" "The package named is in the manifest." |v| v.package(|p| p.declared.is_some());
    PackageLocked "package.locked" "The package named is in the lockfile." |v| v.package(|p| p.locked.is_some());
    PackageInstalled "package.installed" "The package named is in `node_modules`." |v| v.package(|p| p.installed.is_some());
    PackageDamaged "package.damaged" "The package's files are plainly damaged." |v| v.package(|p| p.damaged);
    PackagePart "package.part" "An installed package asks for exactly this one as an optional part." |v| v.package(|p| p.part_of.is_some());
    PackageBuild "package.build" "The package named is one of this workspace that has a script to build it." |v| v.package(|p| p.workspace.is_some() && p.build.is_some());
    PackageWorkspace "package.workspace" "The package named is one of this workspace." |v| v.package(|p| p.workspace.is_some());
    ProgramProvided "program.provided" "The program named comes with a declared or locked package." |v| v.node(|n| v.is(CatchKind::Program, |name| n.provides(name)));
    ProgramLinked "program.linked" "The program named is in `node_modules/.bin`." |v| v.node(|n| v.is(CatchKind::Program, |name| n.linked_bins.contains(name)));
    ProgramFound "program.found" "The program named is on the `PATH`." |v| v.is(CatchKind::Program, |name| v.facts.programs.get(name) == Some(&true));
    ProgramVenv "program.venv" "The program named is a path into the virtual environment." |v| v.is(CatchKind::Program, |p| v.facts.paths.get(p).is_some_and(|path| v.in_venv(path)));
    ProgramInVenv "program.in_venv" "The program named is in the virtual environment." |v| v.is(CatchKind::Program, |name| v.facts.venv_programs.contains(name));
    ProgramDeclared "program.declared" "The program named has the name of a declared Python distribution." |v| v.python(|p| v.is(CatchKind::Program, |name| p.declared.contains(&super::know::normal(name))));
    PathInside "path.inside" "The path named is in the project." |v| v.at(|p| p.inside.is_some());
    PathMissing "path.missing" "Nothing is at the path named." |v| v.at(|p| p.kind == PathKind::Missing);
    PathParentMissing "path.parent_missing" "Nothing is at the path named, and the directory that it would be in is missing too." |v| v.at(is_without_directory);
    PathTracked "path.tracked" "Git tracks the path named." |v| v.at(|p| p.tracked);
    PathDerived "path.derived" "Git ignores the path named and tracks nothing there." |v| v.at(is_derived);
    PathModules "path.modules" "The path named is in `node_modules`." |v| v.at(|p| p.inside.as_deref().is_some_and(|path| parts(path).any(|part| part == "node_modules")));
    PathVenv "path.venv" "The path named is in the virtual environment." |v| v.at(|p| v.in_venv(p));
    PathCache "path.cache" "The path named is in a derived cache of a tool." |v| v.at(|p| is_derived(p) && p.inside.as_deref().and_then(cache).is_some());
    PathNotExecutable "path.not_executable" "The path named is a file of this user's inside the project that nobody may run." |v| v.at(|p| v.is_own(p) && p.inside.is_some() && matches!(p.kind, PathKind::File(_)) && p.mode & 0o111 == 0);
    ScriptWindowsLines "script.windows_lines" "The path named is a script whose first line ends as on Windows." |v| v.at(|p| p.unfit == Some(UnfitScript::WindowsLines));
    ScriptInterpreterMissing "script.interpreter_missing" "The path named is a script, and the program that runs it is not there." |v| v.at(|p| matches!(p.unfit, Some(UnfitScript::NoInterpreter(_))));
    PathOwn "path.own" "The path named, or the nearest directory above it, belongs to this user." |v| v.at(|p| v.is_own(p));
    PathNearInside "path.near_inside" "The path named, or the nearest that exists above it, is inside the project and not its root." |v| v.at(|p| p.inside.is_some() && !p.nearest.starts_with('/'));
    GitSubmodule "git.submodule" "The failure names a submodule of git that has not been fetched." |v| !v.facts.submodules.is_empty();
    GitDeleted "git.deleted" "The failure names a file that git tracks and that is gone from the working tree." |v| !v.facts.deleted.is_empty();
    HeapRoom "heap.room" "Node's heap was full, and the machine has room for a larger one." |v| v.facts.heap.as_ref().is_some_and(|heap| heap.larger().is_some());
    HeapFixed "heap.fixed" "The command itself says how large Node's heap may be." |v| v.facts.heap.as_ref().is_some_and(|heap| heap.is_fixed);
    CiSet "ci.set" "`CI` is set for the subject by Salve alone." |v| v.facts.sets_ci;
    NodeProduction "node.production" "`NODE_ENV` is `production` for the subject." |v| v.facts.node_env.as_deref() == Some("production");
    NodeNotProduction "node.not_production" "`NODE_ENV` is set for the subject to something else than `production`." |v| v.facts.node_env.as_deref().is_some_and(|name| name != "production");
    DiskFull "disk.full" "The file system in question is full." |v| v.facts.disk.as_ref().is_some_and(Disk::is_full);
    DiskNamed "disk.named" "The failure names a path on the file system in question." |v| v.facts.disk.as_ref().is_some_and(|disk| disk.named);
    LockStale "lock.stale" "The lock or pid file named is proven to be left behind." |v| v.at(is_stale);
    LockReused "lock.reused" "The process id in the lock or pid file named is another program's by now." |v| v.at(|p| p.hold.other.is_some());
    LockOrphan "lock.orphan" "An orphan of this project holds it." |v| v.at(|p| !p.hold.holders.is_empty() && p.hold.holders.iter().all(LivingProcess::is_orphan));
    LockYoung "lock.young" "It is so young that its owner may not be seen yet." |v| v.at(|p| p.kind != PathKind::Missing && p.hold.holders.is_empty() && !p.hold.busy && p.hold.age < YOUNG);
    LockHeld "lock.held" "A living process holds it." |v| v.at(|p| !p.hold.holders.is_empty() || p.hold.busy);
    PidGone "pid.gone" "The process named is gone." |v| v.pid().is_some_and(|pid| !v.facts.processes.contains_key(&pid));
    PidOrphan "pid.orphan" "The process named is an orphan of this project." |v| v.pid().and_then(|pid| v.facts.processes.get(&pid)).is_some_and(LivingProcess::is_orphan);
    PortFree "port.free" "Nobody holds the port." |v| v.port_state() == Some(&PortState::Free);
    PortOrphan "port.orphan" "An orphan of this project holds the port." |v| v.holder().is_some_and(LivingProcess::is_orphan);
    PortOwn "port.own" "A process of this project that someone looks after holds the port." |v| v.holder().is_some_and(|h| h.inside && !h.is_orphan());
    PortKnown "port.known" "Somebody holds the port." |v| v.port_state().is_some_and(|state| *state != PortState::Free);
    PortPrivileged "port.privileged" "The port is one that needs a privilege." |v| v.port().is_some_and(|port| port < 1024);
    Python "python" "The subject belongs to a Python project." |v| v.python(|_| true);
    PythonSources "python.sources" "A file says what to install." |v| v.python(|p| !p.sources.is_empty());
    PythonManagerFound "python.manager_found" "The manager that installs is there." |v| v.python(|p| p.manager_found);
    PythonFits "python.fits" "There is an interpreter as the project wants it." |v| v.python(|p| p.interpreter.is_some() && p.interpreter_fits);
    PythonDrift "python.drift" "A distribution is installed in another version than is asked for." |v| v.python(|p| !p.drift.is_empty());
    PythonDamaged "python.damaged" "Files of an installed distribution are not those that were installed." |v| v.python(|p| !p.damaged.is_empty());
    SqliteLocal "sqlite.local" "The project has one SQLite database of its own, which git does not track." |v| v.facts.sqlite.is_some();
    VenvMissing "venv.missing" "The virtual environment that the command wants is not there." |v| v.venv(|e| !e.exists);
    VenvBroken "venv.broken" "The virtual environment is broken." |v| v.venv(|e| e.exists && e.broken.is_some());
    VenvSound "venv.sound" "The virtual environment is there and works." |v| v.venv(|e| e.exists && e.broken.is_none());
    VenvDerived "venv.derived" "The virtual environment can be made again: git does not track it." |v| v.venv(|e| e.derived);
    VenvUsed "venv.used" "The command used the virtual environment." |v| v.venv(|e| e.used);
    ImportDeclared "import.declared" "A declared distribution has the module named." |v| v.python(|p| v.is(CatchKind::Import, |module| p.declares(module)));
    ImportRequired "import.required" "A distribution that an installed one requires has the module named." |v| v.python(|p| v.is(CatchKind::Import, |module| p.requires(module)));
    ImportInstalled "import.installed" "The virtual environment has the module named." |v| v.is(CatchKind::Import, |module| v.facts.in_venv.contains(module));
    Bytecode "python.bytecode" "There are compiled Python files in the project." |v| !v.facts.bytecode.is_empty();
    EnvExample "env.example" "An example of the environment file names the variable." |v| v.is(CatchKind::Variable, |name| v.facts.example_variables.contains(name));
    EnvWanted "env.wanted" "The example or the code wants the variable named, and nothing sets it." |v| v.is(CatchKind::Variable, |name| v.facts.wanted_variables.contains(name));
    EnvUnset "env.unset" "The example or the code names variables that nothing sets." |v| !v.facts.unset_variables.is_empty();
    EnvMissing "env.missing" "There is no `.env`, but an example of one." |v| !v.facts.has_env_file && v.facts.example_file.is_some();
    Cargo "cargo" "The subject belongs to a Cargo project." |v| v.has(Manifest::Cargo);
    Go "go" "The subject belongs to a Go module." |v| v.has(Manifest::Go);
    Django "django" "The subject belongs to a Django project." |v| v.has(Manifest::Django);
    Alembic "alembic" "The project's database is migrated by Alembic." |v| v.has(Manifest::Alembic);
    Rails "rails" "The subject belongs to a Rails project." |v| v.has(Manifest::Rails);
    Prisma "prisma" "The project has a Prisma schema." |v| v.has(Manifest::Prisma);
    BundleInside "bundle.inside" "Gems are installed below the project, as its lockfile says." |v| v.has(Manifest::BundleInside);
    Composer "composer" "The project has a Composer lockfile." |v| v.has(Manifest::ComposerLock);
    ComposeService "compose.service" "A compose file has a service on the port named." |v| v.port().is_some_and(|port| v.facts.compose.as_ref().is_some_and(|file| file.services.contains_key(&port)));
}

impl Condition {
    /// Returns the condition of that name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|condition| condition.name() == name)
    }

    /// Returns whether it holds of what was caught, given the facts.
    pub(super) fn holds(self, caught: &Caught, facts: &ProjectFacts) -> bool {
        self.teller()(&View { caught, facts })
    }
}

/// What was caught, in the light of the facts.
pub(super) struct View<'a> {
    pub(super) caught: &'a Caught,
    pub(super) facts: &'a ProjectFacts,
}

impl<'a> View<'a> {
    /// Returns the port in question: the one the text names, else the one the subject would use.
    pub(super) fn port(&self) -> Option<u16> {
        let named = self.caught.get(CatchKind::Port).and_then(|port| port.parse().ok());
        let host = self.caught.get(CatchKind::Host).and_then(|host| host.rsplit_once(':'));
        named.or(host.and_then(|(_, port)| port.parse().ok())).or(self.facts.expected_port)
    }

    /// Returns the process id in question.
    pub(super) fn pid(&self) -> Option<u32> {
        self.caught.get(CatchKind::Pid).and_then(|pid| pid.parse().ok())
    }

    /// Returns the state of the path in question.
    pub(super) fn path(&self) -> Option<&'a PathState> {
        let path = self.caught.get(CatchKind::Path).or(self.caught.get(CatchKind::Program));
        path.and_then(|path| self.facts.paths.get(path))
    }

    fn is(&self, kind: CatchKind, check: impl Fn(&str) -> bool) -> bool {
        self.caught.get(kind).is_some_and(check)
    }

    fn node(&self, check: impl Fn(&NodeProject) -> bool) -> bool {
        self.facts.node.as_ref().is_some_and(check)
    }

    fn package(&self, check: impl Fn(&PackageState) -> bool) -> bool {
        let name = self.caught.get(CatchKind::Package);
        name.and_then(|name| self.facts.packages.get(name)).is_some_and(check)
    }

    fn at(&self, check: impl Fn(&PathState) -> bool) -> bool {
        self.path().is_some_and(check)
    }

    fn python(&self, check: impl Fn(&PythonProject) -> bool) -> bool {
        self.facts.python.as_ref().is_some_and(check)
    }

    fn venv(&self, check: impl Fn(&Venv) -> bool) -> bool {
        self.python(|python| python.venv.as_ref().is_some_and(&check))
    }

    fn is_own(&self, path: &PathState) -> bool {
        path.owner == self.facts.user.name
    }

    fn in_venv(&self, path: &PathState) -> bool {
        let inside = path.inside.as_deref();
        self.venv(|venv| inside.is_some_and(|path| is_below(path, &venv.path)))
    }

    fn has(&self, manifest: Manifest) -> bool {
        self.facts.manifests.contains(&manifest)
    }

    fn port_state(&self) -> Option<&'a PortState> {
        self.port().and_then(|port| self.facts.ports.get(&port))
    }

    fn holder(&self) -> Option<&'a LivingProcess> {
        match self.port_state()? {
            PortState::Held(holder) => Some(holder),
            PortState::Free | PortState::Hidden { .. } => None,
        }
    }
}

/// Returns whether git ignores it and tracks nothing there.
fn is_derived(path: &PathState) -> bool {
    path.inside.is_some() && path.ignored && !path.tracked
}

/// Returns whether the directory is missing that a missing path would be in.
fn is_without_directory(path: &PathState) -> bool {
    let parent = path.inside.as_deref().and_then(|path| path.rsplit_once('/'));
    path.kind == PathKind::Missing && parent.is_some_and(|(parent, _)| path.nearest != parent)
}

/// Returns whether a lock or pid file is proven to be left behind.
fn is_stale(path: &PathState) -> bool {
    let hold = &path.hold;
    path.inside.is_some()
        && matches!(path.kind, PathKind::File(_) | PathKind::Other)
        && !path.tracked
        && hold.holders.is_empty()
        && !hold.busy
        // Whoever wrote its id into it is known to be gone; of others that takes a while to tell.
        && (hold.pid.is_some() || hold.age >= YOUNG)
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/')
}

fn is_below(path: &str, dir: &str) -> bool {
    path == dir || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the cache that a path is in: the path up to the outermost directory that is one.
pub(super) fn cache(path: &str) -> Option<&str> {
    let mut end = 0;
    for part in path.split('/') {
        let start = end;
        end = start + part.len();
        if CACHES.contains(&part) {
            return Some(&path[..end]);
        }
        end += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_has_a_name_of_its_own() {
        for &condition in Condition::ALL {
            assert_eq!(Condition::parse(condition.name()), Some(condition));
        }
    }

    #[test]
    fn a_cache_is_cleared_from_its_outermost_directory() {
        assert_eq!(cache("apps/web/.next/server/x.js"), Some("apps/web/.next"));
        assert_eq!(cache("node_modules/.vite/deps/a.js"), Some("node_modules/.vite"));
        assert_eq!(cache("src/next/a.js"), None);
    }
}
