//! The cures that rules name, as steps in this very project.

use std::time::Duration;

use serde::Deserialize;

use super::action::{Action, ActionStep, Edits, Right};
use super::catch::CatchKind;
use super::condition::{View, cache};
use super::facts::{
    Agreement, LivingProcess, LockfileState, NodeProject, PortState, PythonManager, PythonProject,
};
use super::fill::{self, Values};
use super::manager::NodeManager;
use super::rule::{Gate, RuleRow, RuleTouch};
use super::set_variable::SetVariable;

/// How long installing and building may take.
const LONG: Duration = Duration::from_secs(600);

/// How long anything else may take.
const SHORT: Duration = Duration::from_secs(180);

/// A cure, as rules name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Cure {
    /// Runs the subject again and changes nothing.
    #[serde(rename = "restart")]
    Restart,
    /// Installs Node packages: exactly the locked ones where the lockfile allows.
    #[serde(rename = "node.install")]
    Install,
    /// Installs Node packages where the lockfile cannot be followed to the letter after all, and
    /// leaves it is.
    #[serde(rename = "node.install_loose")]
    InstallLoose,
    /// Brings the lockfile into agreement with the manifest, then installs.
    #[serde(rename = "node.relock")]
    Relock,
    /// Builds the native parts of a package again.
    #[serde(rename = "node.rebuild")]
    Rebuild,
    /// Adds the part of an installed package that its platform needs.
    #[serde(rename = "node.add_part")]
    AddPart,
    /// Builds the project.
    #[serde(rename = "node.build")]
    Build,
    /// Builds the package of this workspace that is named.
    #[serde(rename = "package.build")]
    BuildPackage,
    /// Runs the script that generates code.
    #[serde(rename = "node.generate")]
    Generate,
    /// Runs the rule's command as a program of an installed package.
    #[serde(rename = "node.exec")]
    Exec,
    /// Runs the rule's command.
    #[serde(rename = "command")]
    Command,
    /// Deletes the cache that the path named is in.
    #[serde(rename = "cache.clear")]
    ClearCache,
    /// Deletes the derived directories that the rule lists.
    #[serde(rename = "clear")]
    Clear,
    /// Deletes the project's compiled Python files.
    #[serde(rename = "python.clear_bytecode")]
    ClearBytecode,
    /// Removes the lock or pid file named.
    #[serde(rename = "lock.remove")]
    Unlock,
    /// Ends whoever holds the port or lock named.
    #[serde(rename = "holder.end")]
    EndHolder,
    /// Recreates the virtual environment and installs what the project declares.
    #[serde(rename = "venv.create")]
    VenvCreate,
    /// Installs what the project declares into the virtual environment.
    #[serde(rename = "venv.install")]
    VenvInstall,
    /// Installs the damaged distributions of the virtual environment again, in the same versions.
    #[serde(rename = "venv.reinstall")]
    VenvReinstall,
    /// Copies the project's own SQLite database aside and runs the rule's command, which brings it
    /// up to date.
    #[serde(rename = "sqlite.migrate")]
    SqliteMigrate,
    /// Sets the rule's variables for the rest of the run; nothing is written.
    #[serde(rename = "environment")]
    Environment,
    /// Has the subject use the virtual environment for the rest of the run.
    #[serde(rename = "venv.use")]
    VenvUse,
}

/// What a cure is made from.
pub(super) struct CureGround<'a> {
    pub(super) row: &'a RuleRow,
    pub(super) view: View<'a>,
    pub(super) values: &'a Values,
}

impl Cure {
    /// Returns whether it needs a command of the rule's own.
    pub(super) fn needs_command(self) -> bool {
        matches!(self, Cure::Command | Cure::Exec | Cure::SqliteMigrate)
    }

    /// Returns the steps; nothing if the facts do not tell enough.
    pub(super) fn action(self, ground: &CureGround<'_>) -> Option<Action> {
        let node = ground.view.facts.node.as_ref();
        let python = ground.view.facts.python.as_ref();
        let steps = match self {
            Cure::Restart => Vec::new(),
            Cure::Install => install(node?)?,
            Cure::InstallLoose => install_loose(node?)?,
            Cure::Relock => relock(node?)?,
            Cure::Rebuild => vec![rebuild(node?, ground)?],
            Cure::AddPart => vec![add_part(node?, ground)?],
            Cure::Build => build(node?)?,
            Cure::BuildPackage => vec![build_package(node?, ground)?],
            Cure::Generate => {
                let node = node?;
                vec![script(node, node.generate_script()?)?]
            }
            Cure::Exec => {
                let node = node?;
                let mut argv = node.manager?.words().exec.clone();
                argv.extend(command(ground));
                vec![run(argv, &node.dir, SHORT)]
            }
            Cure::Command => vec![own_command(ground)],
            Cure::ClearCache => {
                let path = ground.view.path()?.inside.as_deref()?;
                vec![ActionStep::Clear { path: cache(path)?.to_owned() }]
            }
            Cure::Clear => {
                let paths = ground.row.clear.iter();
                paths
                    .map(|path| ActionStep::Clear { path: below(&ground.view.facts.dir, path) })
                    .collect()
            }
            Cure::ClearBytecode => {
                let paths = ground.view.facts.bytecode.iter();
                paths.map(|path| ActionStep::Clear { path: path.clone() }).collect()
            }
            Cure::Unlock => {
                let state = ground.view.path()?;
                vec![ActionStep::Unlock { path: state.inside.clone()?, hold: state.hold.clone() }]
            }
            Cure::EndHolder => vec![end(ground)?],
            Cure::VenvCreate => used(&ground.view.facts.root, python?, venv_create(python?)?),
            Cure::VenvInstall => used(&ground.view.facts.root, python?, venv_install(python?)?),
            Cure::VenvReinstall => vec![venv_reinstall(python?)?],
            Cure::SqliteMigrate => {
                let path = ground.view.facts.sqlite.clone()?;
                let dir = python.map_or(&ground.view.facts.dir, |python| &python.dir);
                vec![ActionStep::CopyAside { path }, run(command(ground), dir, LONG)]
            }
            Cure::Environment => vec![environment(ground)],
            Cure::VenvUse => vec![venv_use(&ground.view.facts.root, python?)?],
        };
        Some(Action { steps })
    }
}

fn run(argv: Vec<String>, dir: &str, limit: Duration) -> ActionStep {
    ActionStep::Run { argv, dir: dir.to_owned(), limit, edits: Edits::Derived }
}

fn below(dir: &str, path: &str) -> String {
    if dir.is_empty() { path.to_owned() } else { format!("{dir}/{path}") }
}

fn words<const N: usize>(argv: [&str; N]) -> Vec<String> {
    argv.map(str::to_owned).to_vec()
}

/// Fills the rule's own command in.
fn command(ground: &CureGround<'_>) -> Vec<String> {
    ground.row.command.iter().map(|word| fill::fill(word, ground.values)).collect()
}

/// Runs the rule's own command where the subject runs.
fn own_command(ground: &CureGround<'_>) -> ActionStep {
    let edits = match ground.row.touches {
        RuleTouch::Derived => Edits::Derived,
        RuleTouch::Lockfile => Edits::Lockfile(ground.row.lockfile.clone()),
        RuleTouch::Anything => Edits::Anything,
    };
    let (argv, dir) = (command(ground), ground.view.facts.dir.clone());
    ActionStep::Run { argv, dir, limit: LONG, edits }
}

/// Returns the manager, unless the lockfile cannot be read: some managers would write another one
/// then, with other versions.
fn readable(node: &NodeProject) -> Option<NodeManager> {
    node.manager.filter(|_| node.lockfile_state == LockfileState::Readable)
}

/// Installs exactly what is locked where lockfile and manifest agree; otherwise what is locked and
/// what the lockfile lacks, without writing it if the manager can.
fn install(node: &NodeProject) -> Option<Vec<ActionStep>> {
    let words = readable(node)?.words();
    let Some(lockfile) = node.lockfile() else {
        return Some(vec![run(words.unlocked.clone(), &node.top, LONG)]);
    };
    if node.agreement == Agreement::Differs {
        let edits = if words.loose_writes {
            Edits::Lockfile(below(&node.top, lockfile))
        } else {
            Edits::Derived
        };
        let (argv, dir) = (words.loose.clone(), node.top.clone());
        return Some(vec![ActionStep::Run { argv, dir, limit: LONG, edits }]);
    }
    Some(fresh(node, words.exact.clone()))
}

/// Installs what is locked and what the lockfile lacks, where the manager leaves it unwritten.
fn install_loose(node: &NodeProject) -> Option<Vec<ActionStep>> {
    let words = readable(node)?.words();
    let fits = node.lockfile().is_some() && node.agreement != Agreement::Differs;
    (fits && !words.loose_writes).then(|| fresh(node, words.loose.clone()))
}

/// Installs from scratch, keeping the old packages until it has worked.
fn fresh(node: &NodeProject, argv: Vec<String>) -> Vec<ActionStep> {
    let mut steps = Vec::new();
    if node.has_place {
        steps.push(ActionStep::SetAside { path: below(&node.top, "node_modules") });
    }
    steps.push(run(argv, &node.top, LONG));
    steps
}

fn relock(node: &NodeProject) -> Option<Vec<ActionStep>> {
    let words = readable(node)?.words();
    let lockfile = node.lockfile()?;
    let mut steps = vec![ActionStep::Run {
        argv: words.relock.clone(),
        dir: node.top.clone(),
        limit: LONG,
        edits: Edits::Lockfile(below(&node.top, lockfile)),
    }];
    steps.extend(fresh(node, words.exact.clone()));
    Some(steps)
}

fn rebuild(node: &NodeProject, ground: &CureGround<'_>) -> Option<ActionStep> {
    let manager = node.manager?.words();
    let mut argv = manager.rebuild.clone();
    let takes_names = argv.last().is_some_and(|word| word == "rebuild");
    argv.extend(
        ground.view.caught.get(CatchKind::Package).filter(|_| takes_names).map(str::to_owned),
    );
    Some(run(argv, &node.top, LONG))
}

fn add_part(node: &NodeProject, ground: &CureGround<'_>) -> Option<ActionStep> {
    let name = ground.view.caught.get(CatchKind::Package)?;
    let (_, version) = ground.view.facts.packages.get(name)?.part_of.as_ref()?;
    let mut argv = node.manager?.words().add.clone();
    if argv.is_empty() {
        return None;
    }
    argv.push(format!("{name}@{version}"));
    Some(run(argv, &node.top, LONG))
}

fn script(node: &NodeProject, name: &str) -> Option<ActionStep> {
    let mut argv = node.manager?.words().run.clone();
    argv.push(name.to_owned());
    Some(run(argv, &node.dir, LONG))
}

/// Builds, after installing what the build needs and clearing the records that would make it do
/// nothing.
fn build(node: &NodeProject) -> Option<Vec<ActionStep>> {
    let mut steps =
        if node.has_modules || node.declared.is_empty() { Vec::new() } else { install(node)? };
    steps.extend(node.build_records.iter().map(|path| ActionStep::Clear { path: path.clone() }));
    steps.push(script(node, node.build_script()?)?);
    Some(steps)
}

fn build_package(node: &NodeProject, ground: &CureGround<'_>) -> Option<ActionStep> {
    let name = ground.view.caught.get(CatchKind::Package)?;
    let state = ground.view.facts.packages.get(name)?;
    let mut argv = node.manager?.words().run.clone();
    argv.push(state.build.clone()?);
    Some(run(argv, state.workspace.as_deref()?, LONG))
}

/// Fills the rule's variables in.
fn environment(ground: &CureGround<'_>) -> ActionStep {
    let variable = |(name, value): (&String, &String)| {
        SetVariable::new(name, &fill::fill(value, ground.values))
    };
    ActionStep::Environment { variables: ground.row.env.iter().map(variable).collect() }
}

/// Has the subject find the programs of the environment first, as activating it would.
fn venv_use(root: &str, python: &PythonProject) -> Option<ActionStep> {
    let venv = format!("{root}/{}", python.venv.as_ref()?.path);
    let path = SetVariable::new("PATH", &format!("{venv}/bin:$PATH"));
    let variables = vec![path, SetVariable::new("VIRTUAL_ENV", &venv)];
    Some(ActionStep::Environment { variables })
}

/// Adds that the subject uses the environment that is made or filled, where it does not yet.
fn used(root: &str, python: &PythonProject, mut steps: Vec<ActionStep>) -> Vec<ActionStep> {
    let is_used = python.venv.as_ref().is_none_or(|venv| venv.used);
    steps.extend(venv_use(root, python).filter(|_| !is_used));
    steps
}

/// Ends the holder's family; who holds it is looked up in the order lock, process, port.
fn end(ground: &CureGround<'_>) -> Option<ActionStep> {
    let view = &ground.view;
    let locked = view.path().and_then(|path| path.hold.holders.first());
    let pid = view.pid();
    let named = pid.and_then(|pid| view.facts.processes.get(&pid));
    let (holder, port): (&LivingProcess, Option<u16>) = match locked.or(named) {
        Some(holder) => (holder, None),
        None => {
            let port = view.port()?;
            match view.facts.ports.get(&port)? {
                PortState::Held(holder) => (holder, Some(port)),
                PortState::Free | PortState::Hidden { .. } => return None,
            }
        }
    };
    let right = match ground.row.gate {
        Gate::Safe => Right::Orphan,
        Gate::Ask => Right::Consent,
    };
    let (family, holder) = (holder.family.clone(), holder.process.clone());
    Some(ActionStep::End { holder, family, port, right })
}

/// Recreates the environment, keeping the old one until it has worked.
fn venv_create(python: &PythonProject) -> Option<Vec<ActionStep>> {
    let venv = python.venv.as_ref()?;
    let mut steps = Vec::new();
    if venv.exists {
        steps.push(ActionStep::SetAside { path: venv.path.clone() });
    }
    if python.manager == PythonManager::Pip {
        let (interpreter, _) = python.interpreter.as_ref()?;
        let argv = words([interpreter, "-m", "venv", &venv.path]);
        steps.push(run(argv, "", SHORT));
    }
    steps.extend(venv_install(python)?);
    Some(steps)
}

/// Installs damaged distributions again: only their own files, in the version that is there.
fn venv_reinstall(python: &PythonProject) -> Option<ActionStep> {
    let (first, _) = python.damaged.first()?;
    // A pip that is damaged itself cannot mend anything.
    let is_pip = |(name, _): &(String, String)| name == "pip";
    let mut argv = match python.manager {
        PythonManager::Uv => {
            let mut argv = uv_sync(python);
            argv.extend(words(["--reinstall-package", first]));
            argv
        }
        PythonManager::Pip if !python.damaged.iter().any(is_pip) => {
            let mut argv = words([&python.command(), "-m", "pip", "install", "--no-input"]);
            argv.extend(words(["--disable-pip-version-check", "--force-reinstall", "--no-deps"]));
            argv.extend(python.damaged.iter().map(|(name, version)| format!("{name}=={version}")));
            argv
        }
        PythonManager::Pip | PythonManager::Poetry | PythonManager::Pipenv => return None,
    };
    if python.manager == PythonManager::Uv {
        let others = python.damaged.iter().skip(1);
        argv.extend(others.flat_map(|(name, _)| words(["--reinstall-package", name])));
    }
    Some(run(argv, &python.dir, LONG))
}

/// Installs what the lockfile says into the environment, and leaves what else is in it: extras,
/// groups and members that somebody chose are not known here.
fn uv_sync(python: &PythonProject) -> Vec<String> {
    let mut argv = words([python.manager.program(), "sync", "--frozen", "--inexact"]);
    argv.extend(python.is_workspace.then(|| "--all-packages".to_owned()));
    argv
}

/// Installs what the project declares, by whoever the project says.
fn venv_install(python: &PythonProject) -> Option<Vec<ActionStep>> {
    let venv = python.venv.as_ref()?;
    let (program, dir) = (python.manager.program(), &python.dir);
    let argv = match python.manager {
        PythonManager::Uv => uv_sync(python),
        PythonManager::Poetry => words([program, "install", "--no-interaction", "--no-ansi"]),
        PythonManager::Pipenv => words([program, "sync", "--dev"]),
        PythonManager::Pip => {
            let mut argv = words([
                &format!("{}{}/bin/python", python.up(), venv.path),
                "-m",
                "pip",
                "install",
                "--no-input",
                "--disable-pip-version-check",
            ]);
            for source in &python.sources {
                match source.as_str() {
                    "pyproject.toml" | "setup.py" => argv.extend(words(["-e", "."])),
                    file => argv.extend(words(["-r", file])),
                }
            }
            argv
        }
    };
    (!python.sources.is_empty()).then(|| vec![run(argv, dir, LONG)])
}

#[cfg(test)]
mod tests {
    use super::super::facts::Venv;
    use super::*;

    /// **Invariant:** what somebody put into an environment of uv besides what the lockfile's own
    /// project needs is not removed by a remedy.
    #[test]
    fn what_else_is_in_an_environment_of_uv_stays() {
        let venv = Some(Venv { path: ".venv".into(), exists: true, ..Venv::default() });
        let damaged = vec![("starlette".to_owned(), "0.46.0".to_owned())];
        let alone = PythonProject {
            manager: PythonManager::Uv,
            sources: vec!["uv.lock".to_owned()],
            venv,
            damaged,
            ..PythonProject::default()
        };
        let argv = |step: &ActionStep| match step {
            ActionStep::Run { argv, .. } => argv.join(" "),
            other => panic!("{other:?}"),
        };
        let install = |python: &PythonProject| argv(&venv_install(python).unwrap()[0]);
        assert_eq!(install(&alone), "uv sync --frozen --inexact");
        let workspace = PythonProject { is_workspace: true, ..alone };
        assert_eq!(install(&workspace), "uv sync --frozen --inexact --all-packages");
        let again = "uv sync --frozen --inexact --all-packages --reinstall-package starlette";
        assert_eq!(argv(&venv_reinstall(&workspace).unwrap()), again);
    }
}
