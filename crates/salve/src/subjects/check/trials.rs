//! The runs that a proof needs: the state before the repair, the repaired state under the verifier
//! as it was, and the repaired state once more.
//!
//! The first two run in a directory of their own beside the real tree, on threads that cannot write
//! to the real tree; where only what had failed can be told apart, only that runs.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::check::proof::Colour;
use salve_core::check::tamper::{Examined, Previous, VerifierTouch, Weakening};
use salve_core::check::{self, Results};
use salve_core::event::ProcessExit;

use crate::files::{FileKind, read_text};
use crate::heal::files::with_causes;
use crate::heal::run::{self, CommandPlan, CommandRunEnd};
use crate::heal::verifier::{self, ExaminedFile};
use crate::process::{Capture, Outlet, OutputStyle, Supervisor};
use crate::project::Project;
use crate::workspace::{
    FileChange, LayerCommand, LayerSight, Name, PrivateLayer, Shadow, Snapshot, Workspace,
    WorkspaceError,
};

/// The least time that a run beside the real tree is given.
const LEAST: Duration = Duration::from_secs(60);
/// How long a check may take that is run once more as a whole to confirm that it is green.
const CHEAP: Duration = Duration::from_secs(30);
/// How often a check is run once more to confirm that it is green.
const CONFIRMATIONS: u32 = 3;
/// How long a check is run once more and once more.
const CONFIRMING: Duration = Duration::from_secs(3);

/// What is to be tried.
pub(super) struct TrialQuestion {
    pub(super) project: Project,
    pub(super) care: Supervisor,
    pub(super) plan: CommandPlan,
    /// The state before the repair.
    pub(super) before: Name,
    /// The repaired state.
    pub(super) after: Name,
    /// When the repair began, if it was an agent's.
    pub(super) since: Option<Timestamp>,
    /// What had failed, with paths from where the check runs.
    pub(super) results: Results,
    /// How long the check took when it was green.
    pub(super) took: Duration,
    /// What is to be run.
    pub(super) extent: ProofExtent,
    /// Whether the repaired state is run once more.
    pub(super) confirm: Confirm,
}

/// Whether a green run is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirm {
    /// It is, for it may be green by chance.
    Yes,
    /// It is not: the cause was seen in the project's own state, and is gone.
    No,
}

/// What a proof runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofExtent {
    /// The state before the repair, and what follows.
    Full,
    /// Only the repaired state under the verifier as it was, which is never left out.
    Verifier,
    /// The state before the repair under the tests that came with it, and what follows.
    NewTests,
}

/// What came of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialOutcome {
    /// It ran; its output is told as if it had run in the real tree.
    Ran(CommandRunEnd),
    /// It could not, for this reason.
    NotRun(String),
}

/// What came of all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckTrials {
    /// The state before the repair, if it was to be run.
    pub before: Option<TrialOutcome>,
    /// What was not there when the state before the repair was run, in words, if anything was not.
    pub lacking: Option<String>,
    /// The repaired state under the verifier as it was, if the repair touched that.
    pub old_verifier: Option<TrialOutcome>,
    /// The repaired state once more, if nothing else spoke against the repair.
    pub confirmed: Option<Colour>,
    /// The installed packages that the repair edited and that are not put back.
    pub packages: Vec<String>,
    /// How the repair weakened the verifier.
    pub weakenings: Vec<Weakening>,
    /// The files of the verifier that the repair touched, as they would be without that; nothing
    /// where there was no such file.
    pub previous: Vec<KeptVerifierFile>,
}

pub use crate::heal::verifier::KeptVerifierFile;

/// What a check showed before the change was brought into the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownInLayer {
    /// With the change, in the layer.
    pub with: TrialOutcome,
    /// Without it, where the user works, and under the verifier as it was; nothing unless it is green
    /// with the change.
    pub trials: CheckTrials,
}

impl ShownInLayer {
    /// Returns that the check could not be run there, and why.
    fn unseen(why: &str) -> Self {
        Self { with: TrialOutcome::NotRun(why.to_owned()), trials: CheckTrials::default() }
    }
}

/// The run of the state before the repair.
struct TriedBefore {
    outcome: TrialOutcome,
    lacking: Option<String>,
}

impl From<TrialOutcome> for TriedBefore {
    fn from(outcome: TrialOutcome) -> Self {
        Self { outcome, lacking: None }
    }
}

/// Both states of the files.
struct States {
    workspace: Workspace,
    before: Snapshot,
    after: Snapshot,
    /// The files that differ.
    files: Vec<ExaminedFile>,
}

impl TrialQuestion {
    /// Runs what there is to run, one after the other: a check may need something for itself, such
    /// as a port.
    pub(super) fn answer(&self) -> CheckTrials {
        let states = match self.states() {
            Ok(Some(states)) => states,
            Ok(None) => {
                return CheckTrials::none("the state before the repair is not kept any more");
            }
            Err(error) => return CheckTrials::none(&with_causes(&error)),
        };
        let examined = self.examine(&states);
        let previous = previous(&states, &examined);
        let before: Option<TriedBefore> = match self.extent {
            ProofExtent::Full => Some(on_thread("before", || self.try_before(&states))),
            ProofExtent::NewTests => {
                Some(on_thread("new tests", || self.try_new_tests(&states).into()))
            }
            ProofExtent::Verifier => None,
        };
        let lacking = before.as_ref().and_then(|before| before.lacking.clone());
        let before = before.map(|before| before.outcome);
        let edited = |since| states.workspace.edited_packages(&states.before, since);
        let packages = self.since.map(edited).unwrap_or_default();
        let old_verifier = match packages.as_slice() {
            // Every run uses them as they are now.
            [first, ..] => Some(TrialOutcome::NotRun(format!("the installed {first} was edited"))),
            [] => (!examined.touched.is_empty())
                .then(|| on_thread("old verifier", || self.try_old_verifier(&states, &previous))),
        };
        // What is not credited anyway need not be confirmed.
        let speaks = self.confirm == Confirm::Yes
            && matches!(&before, Some(TrialOutcome::Ran(ran)) if !ran.is_green())
            && matches!(
                &old_verifier,
                None | Some(TrialOutcome::Ran(CommandRunEnd { exit: ProcessExit::Code(0), .. }))
            );
        let confirmed = if speaks { self.confirm() } else { None };
        let previous = previous.unwrap_or_default();
        let weakenings = examined.weakenings;
        CheckTrials { before, lacking, old_verifier, confirmed, packages, weakenings, previous }
    }

    /// Runs the check where the change lies, and without the change where the user works.
    ///
    /// Where the layer is gone, which went with the process that had laid it, its state is laid out
    /// beside the tree.
    pub(super) fn answer_in_layer(&self, layer: Option<&PrivateLayer>) -> ShownInLayer {
        let states = match self.states() {
            Ok(Some(states)) => states,
            Ok(None) => return ShownInLayer::unseen("what is in the layer is not kept any more"),
            Err(error) => return ShownInLayer::unseen(&with_causes(&error)),
        };
        let with = match layer {
            Some(layer) => self.run_in_layer(layer),
            None => on_thread("layer", || self.run_laid_out(&states)),
        };
        let is_green = matches!(&with, TrialOutcome::Ran(ran) if ran.is_green());
        if !is_green {
            return ShownInLayer { with, trials: CheckTrials::default() };
        }
        let examined = self.examine(&states);
        let previous = previous(&states, &examined);
        let old_verifier = (!examined.touched.is_empty())
            .then(|| on_thread("old verifier", || self.try_old_verifier(&states, &previous)));
        let without = (self.extent == ProofExtent::Full).then(|| self.run_without());
        let trials = CheckTrials {
            before: without.map(TrialOutcome::Ran),
            old_verifier,
            previous: previous.unwrap_or_default(),
            weakenings: examined.weakenings,
            ..CheckTrials::default()
        };
        ShownInLayer { with, trials }
    }

    /// Runs the check without the change where the user works, as little of it as tells that it is red.
    fn run_without(&self) -> CommandRunEnd {
        let narrowed = self.narrowed().map(|words| self.run_here(words));
        let is_red = |ran: &CommandRunEnd| {
            check::read(&ran.output).counts.ran() > Some(0) && !ran.is_green()
        };
        // Only the whole check shows that it is well without the change.
        let narrowed = narrowed.filter(is_red);
        narrowed.unwrap_or_else(|| self.run_here(self.plan.argv.clone()))
    }

    fn run_in_layer(&self, layer: &PrivateLayer) -> TrialOutcome {
        let (argv, dir) = (self.plan.argv.clone(), self.plan.dir.clone());
        let (writable, sight) = (Vec::new(), LayerSight::Check);
        let launch = match layer.launch(&LayerCommand { argv, dir, writable, sight }) {
            Ok(launch) => launch,
            Err(error) => return TrialOutcome::NotRun(with_causes(&error)),
        };
        let mut env = self.plan.env.clone();
        env.extend(launch.env);
        let plan = CommandPlan { argv: launch.argv, dir: launch.dir, env, ..self.plan.clone() };
        let ran = run::wait(&self.care, &plan.command_run(), unseen());
        TrialOutcome::Ran(CommandRunEnd { output: layer.told(&ran.output), ..ran })
    }

    fn run_laid_out(&self, states: &States) -> TrialOutcome {
        let shadow = match states.workspace.shadow(&states.after) {
            Ok(shadow) => shadow,
            Err(error) => return TrialOutcome::NotRun(with_causes(&error)),
        };
        shadow.confine_writes();
        let ran = self.run_in(&shadow, self.plan.argv.clone());
        match lacking(&shadow).filter(|_| !ran.is_green()) {
            // It may be red for that alone.
            Some(lacking) => TrialOutcome::NotRun(lacking),
            None => TrialOutcome::Ran(ran),
        }
    }

    /// Runs the repaired state again, a few times where that takes no time: what is green and red by
    /// turns may have been green by chance.
    pub(super) fn confirm(&self) -> Option<Colour> {
        let narrowed = self.narrowed();
        let told = |ran: &CommandRunEnd| check::read(&ran.output).counts.ran() > Some(0);
        let since = Instant::now();
        let mut colour = None;
        for _ in 0..CONFIRMATIONS {
            let few = narrowed.clone().map(|words| self.run_here(words)).filter(told);
            let ran = match few {
                Some(ran) => ran,
                None if self.took <= CHEAP => self.run_here(self.plan.argv.clone()),
                None => return colour,
            };
            if ran.is_green() {
                colour = Some(Colour::Green);
            } else if self.is_another(&ran) {
                // What was repaired did not come back; whether the rest is well is seen next.
                colour = Some(Colour::Red);
                continue;
            } else {
                return Some(Colour::Red);
            }
            if since.elapsed() >= CONFIRMING {
                break;
            }
        }
        colour
    }

    /// Returns whether only other tests failed than those that were repaired.
    fn is_another(&self, ran: &CommandRunEnd) -> bool {
        let dir = self.plan.dir.to_string_lossy();
        let seen = check::read(&ran.output).relative_to(&dir);
        let are_named = !seen.failed.is_empty() && !self.results.failed.is_empty();
        are_named && !seen.shares_a_failure_with(&self.results)
    }

    fn run_here(&self, argv: Vec<OsString>) -> CommandRunEnd {
        let plan = CommandPlan { argv, ..self.plan.clone() };
        run::wait(&self.care, &plan.command_run(), unseen())
    }

    fn states(&self) -> Result<Option<States>, WorkspaceError> {
        let workspace = Workspace::open(&self.project)?;
        let (Some(before), Some(after)) =
            (workspace.load(self.before)?, workspace.load(self.after)?)
        else {
            return Ok(None);
        };
        let changed = workspace.compare(&before, &after)?;
        let look = |change: FileChange| {
            let path = change.path;
            let [before, after] = [&before, &after].map(|state| workspace.content(state, &path));
            Ok(ExaminedFile { before: before?, after: after?, path })
        };
        let files: Result<Vec<ExaminedFile>, WorkspaceError> =
            changed.into_iter().map(look).collect();
        let files = files?;
        Ok(Some(States { workspace, before, after, files }))
    }

    /// Finds out what the repair did to the verifier.
    fn examine(&self, states: &States) -> Examined {
        verifier::examine_states(&states.files, &self.plan.argv)
    }

    fn try_before(&self, states: &States) -> TriedBefore {
        let shadow = match states.workspace.shadow(&states.before) {
            Ok(shadow) => shadow,
            Err(error) => return TrialOutcome::NotRun(with_causes(&error)).into(),
        };
        // The real tree is out of reach from here on, for this thread and all it starts.
        shadow.confine_writes();
        let narrowed = self.narrowed().map(|words| self.run_in(&shadow, words));
        let told = narrowed.filter(|ran| check::read(&ran.output).counts.ran() > Some(0));
        let ran = told.unwrap_or_else(|| self.run_in(&shadow, self.plan.argv.clone()));
        let outcome = match shadow.drifted() {
            [] => TrialOutcome::Ran(ran),
            // With what is installed now, that state is another.
            drifted if ran.is_green() => TrialOutcome::NotRun(format!(
                "packages were installed meanwhile in {}",
                drifted.join(", ")
            )),
            _ => TrialOutcome::Ran(ran),
        };
        TriedBefore { outcome, lacking: lacking(&shadow) }
    }

    /// Runs the state before the repair with the tests that came with it.
    fn try_new_tests(&self, states: &States) -> TrialOutcome {
        let words: Vec<String> =
            self.plan.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let is_test = |file: &&ExaminedFile| {
            use check::tamper::VerifierPart as Part;
            matches!(check::tamper::part(&file.path, &words), Some(Part::Tests | Part::Snapshot))
        };
        let tests = states.files.iter().filter(is_test);
        let tests: Vec<KeptVerifierFile> =
            tests.map(|file| (file.path.clone(), file.after.clone())).collect();
        if tests.is_empty() {
            return TrialOutcome::NotRun("no test came with it".to_owned());
        }
        let shadow = match states.workspace.shadow(&states.before) {
            Ok(shadow) => shadow,
            Err(error) => return TrialOutcome::NotRun(with_causes(&error)),
        };
        if let Err(error) = lay(shadow.root(), &tests) {
            return TrialOutcome::NotRun(error.to_string());
        }
        shadow.confine_writes();
        let ran = self.run_in(&shadow, self.plan.argv.clone());
        match lacking(&shadow).filter(|_| !ran.is_green()) {
            // It may be red for that alone.
            Some(lacking) => TrialOutcome::NotRun(lacking),
            None => TrialOutcome::Ran(ran),
        }
    }

    fn try_old_verifier(
        &self,
        states: &States,
        previous: &Result<Vec<KeptVerifierFile>, String>,
    ) -> TrialOutcome {
        let previous = match previous {
            Ok(previous) => previous,
            Err(why) => return TrialOutcome::NotRun(why.clone()),
        };
        let shadow = match states.workspace.shadow(&states.after) {
            Ok(shadow) => shadow,
            Err(error) => return TrialOutcome::NotRun(with_causes(&error)),
        };
        if let Err(error) = lay(shadow.root(), previous) {
            return TrialOutcome::NotRun(error.to_string());
        }
        shadow.confine_writes();
        let ran = self.run_in(&shadow, self.plan.argv.clone());
        match lacking(&shadow).filter(|_| !ran.is_green()) {
            // It may be red for that alone.
            Some(lacking) => TrialOutcome::NotRun(lacking),
            None => TrialOutcome::Ran(ran),
        }
    }

    /// Returns the command for only what had failed, where that is the same check otherwise.
    fn narrowed(&self) -> Option<Vec<OsString>> {
        let words: Option<Vec<String>> =
            self.plan.argv.iter().map(|word| word.to_str().map(str::to_owned)).collect();
        let words = words?;
        let narrowed = check::narrow(&words, &self.results).or_else(|| {
            let script = script(&self.plan.dir, &words)?;
            check::narrow_script(&words, &script, &self.results)
        })?;
        Some(narrowed.into_iter().map(OsString::from).collect())
    }

    fn run_in(&self, shadow: &Shadow, argv: Vec<OsString>) -> CommandRunEnd {
        let mut env = self.plan.env.clone();
        env.extend(shadow.env().iter().cloned());
        let plan = CommandPlan {
            argv: argv.iter().map(|word| shadow.word(word)).collect(),
            dir: shadow.path(&self.plan.dir),
            env,
            limit: self.plan.limit.min(self.took.saturating_mul(5).max(LEAST)),
            ..self.plan.clone()
        };
        let ran = run::wait(&self.care, &plan.command_run(), unseen());
        CommandRunEnd { output: shadow.told(&ran.output), ..ran }
    }
}

/// Says what a state lacks where it was laid out, if it lacks anything.
fn lacking(shadow: &Shadow) -> Option<String> {
    match shadow.lacks() {
        [] => None,
        [one] => Some(format!("the copy beside your files lacks {one}")),
        [first, more @ ..] => {
            Some(format!("the copy beside your files lacks {first}, and {} more", more.len()))
        }
    }
}

/// Returns where the output of a run goes that nobody sees.
fn unseen() -> Arc<Capture> {
    Arc::new(Capture::new(Arc::new(Outlet::none()), OutputStyle::Plain).with_lines(2_000))
}

/// Returns the touched files of the verifier as they would be without the repair.
fn previous(states: &States, examined: &Examined) -> Result<Vec<KeptVerifierFile>, String> {
    let one = |touch: &VerifierTouch| {
        let content = match &touch.previous {
            Previous::AsBefore => {
                let known = states.files.iter().find(|file| file.path == touch.path);
                known.and_then(|file| file.before.clone())
            }
            Previous::Text(text) => Some(text.clone().into_bytes()),
            Previous::Unknown => {
                return Err(format!("it cannot be told what judges in {}", touch.path));
            }
        };
        Ok((touch.path.clone(), content))
    };
    examined.touched.iter().map(one).collect()
}

/// Runs something on a thread that ends with it, and waits.
fn on_thread<T: From<TrialOutcome> + Send>(name: &str, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name(name.to_owned());
        match builder.spawn_scoped(scope, run).map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(trial)) => trial,
            Ok(Err(_)) => TrialOutcome::NotRun("its thread failed".into()).into(),
            Err(error) => TrialOutcome::NotRun(error.to_string()).into(),
        }
    })
}

impl CheckTrials {
    /// Returns that nothing could be looked at, and why; what nobody looked at is not trusted.
    fn none(why: &str) -> Self {
        let unseen = || Some(TrialOutcome::NotRun(why.to_owned()));
        Self { before: unseen(), old_verifier: unseen(), ..Self::default() }
    }
}

/// Writes files below `root` as they are to be; those without content are removed.
pub(super) fn lay(root: &Path, files: &[KeptVerifierFile]) -> std::io::Result<()> {
    for (path, content) in files {
        let path = root.join(path);
        if leads_elsewhere(root, &path) {
            return Err(std::io::Error::other(format!("{} leads elsewhere", path.display())));
        }
        match content {
            Some(content) => {
                std::fs::create_dir_all(path.parent().unwrap_or(root))?;
                std::fs::write(path, content)?;
            }
            None => match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            },
        }
    }
    Ok(())
}

/// Returns whether a path below `root` is, or leads through, a link.
fn leads_elsewhere(root: &Path, path: &Path) -> bool {
    let steps = path.ancestors().take_while(|step| *step != root);
    steps.into_iter().any(|step| step.is_symlink())
}

/// Returns what a package's script runs, if the words name one.
pub(super) fn script(dir: &Path, words: &[String]) -> Option<String> {
    let plain: Vec<&str> = words.iter().map(String::as_str).collect();
    let name = match plain[..] {
        ["npm" | "pnpm" | "yarn" | "bun", "test" | "t", ..] => "test",
        ["npm" | "pnpm" | "yarn" | "bun", "run", name, ..] => name,
        ["yarn" | "pnpm", name, ..] => name,
        _ => return None,
    };
    let text = read_text(&dir.join("package.json"), FileKind::Document).ok()?;
    let manifest: serde_json::Value = serde_json::from_str(&text).ok()?;
    manifest.get("scripts")?.get(name)?.as_str().map(str::to_owned)
}
