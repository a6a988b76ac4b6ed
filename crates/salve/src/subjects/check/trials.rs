//! The runs that a proof needs: the state before the repair, and the repaired state under the
//! verifier as it was.
//!
//! Each runs in a directory of its own beside the real tree, only what had failed where that can
//! be told apart, and on threads that cannot write to the real tree.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use salve_core::check::{self, Results};

use super::{CheckPlan, Ran, run};
use crate::heal::files::with_causes;
use crate::process::{Capture, Care, Look, Outlet};
use crate::project::Project;
use crate::workspace::{Moment, Name, Shadow, Snapshot, Workspace, WorkspaceError};

/// The least time that a run beside the real tree is given.
const LEAST: Duration = Duration::from_secs(60);

/// What is to be tried.
pub(super) struct Question {
    pub(super) project: Project,
    pub(super) care: Care,
    pub(super) plan: CheckPlan,
    /// The state before the repair.
    pub(super) before: Name,
    /// What had failed, with paths from where the check runs.
    pub(super) results: Results,
    /// How long the check took when it was green.
    pub(super) took: Duration,
    /// The files of the verifier that the repair touched.
    pub(super) verifier: Vec<String>,
}

/// What came of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trial {
    /// It ran; its output is told as if it had run in the real tree.
    Ran(Ran),
    /// It could not, for this reason.
    NotRun(String),
}

/// What came of all runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trials {
    /// The state before the repair.
    pub before: Trial,
    /// The repaired state under the verifier as it was, if the repair touched that.
    pub old_verifier: Option<Trial>,
}

impl Question {
    /// Runs what there is to run, side by side.
    pub(super) fn answer(&self) -> Trials {
        std::thread::scope(|scope| {
            let old = (!self.verifier.is_empty()).then(|| {
                let run = || self.try_old_verifier().unwrap_or_else(not_run);
                std::thread::Builder::new().name("old verifier".into()).spawn_scoped(scope, run)
            });
            let run = || self.try_before().unwrap_or_else(not_run);
            let before = std::thread::Builder::new().name("before".into()).spawn_scoped(scope, run);
            Trials { before: join(before), old_verifier: old.map(join) }
        })
    }

    fn try_before(&self) -> Result<Trial, WorkspaceError> {
        let workspace = Workspace::open(&self.project)?;
        let Some(before) = workspace.load(self.before)? else { return Ok(gone()) };
        let shadow = workspace.shadow(&before)?;
        // The real tree is out of reach from here on, for this thread and all it starts.
        shadow.confine();
        let narrowed = self.narrowed().map(|words| self.run_in(&shadow, words));
        let told = narrowed.filter(|ran| check::read(&ran.output).counts.ran() > Some(0));
        Ok(Trial::Ran(told.unwrap_or_else(|| self.run_in(&shadow, self.plan.argv.clone()))))
    }

    fn try_old_verifier(&self) -> Result<Trial, WorkspaceError> {
        let workspace = Workspace::open(&self.project)?;
        let Some(before) = workspace.load(self.before)? else { return Ok(gone()) };
        let after: Option<Snapshot> = workspace.load(self.before.at(Moment::After))?;
        let Some(after) = after else { return Ok(gone()) };
        let shadow = workspace.shadow(&after)?;
        workspace.overlay(&shadow, &before, &self.verifier)?;
        shadow.confine();
        Ok(Trial::Ran(self.run_in(&shadow, self.plan.argv.clone())))
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

    fn run_in(&self, shadow: &Shadow, argv: Vec<OsString>) -> Ran {
        let mut env = self.plan.env.clone();
        env.extend(shadow.env().iter().cloned());
        let plan = CheckPlan {
            argv: argv.iter().map(|word| shadow.word(word)).collect(),
            dir: shadow.path(&self.plan.dir),
            env,
            limit: self.plan.limit.min(self.took.saturating_mul(5).max(LEAST)),
            ..self.plan.clone()
        };
        let capture = Capture::new(Arc::new(Outlet::none()), Look::Plain).with_lines(2_000);
        let ran = run::wait(&self.care, &plan, Arc::new(capture));
        Ran { output: shadow.told(&ran.output), ..ran }
    }
}

fn join(thread: std::io::Result<std::thread::ScopedJoinHandle<'_, Trial>>) -> Trial {
    match thread.map(std::thread::ScopedJoinHandle::join) {
        Ok(Ok(trial)) => trial,
        Ok(Err(_)) => Trial::NotRun("its thread failed".into()),
        Err(error) => Trial::NotRun(error.to_string()),
    }
}

fn not_run(error: WorkspaceError) -> Trial {
    Trial::NotRun(with_causes(&error))
}

fn gone() -> Trial {
    Trial::NotRun("the state before the repair is not kept any more".into())
}

/// Returns what a package's script runs, if the words name one.
fn script(dir: &Path, words: &[String]) -> Option<String> {
    let plain: Vec<&str> = words.iter().map(String::as_str).collect();
    let name = match plain[..] {
        ["npm" | "pnpm" | "yarn" | "bun", "test" | "t", ..] => "test",
        ["npm" | "pnpm" | "yarn" | "bun", "run", name, ..] => name,
        ["yarn" | "pnpm", name, ..] => name,
        _ => return None,
    };
    let text = std::fs::read_to_string(dir.join("package.json")).ok()?;
    let manifest: serde_json::Value = serde_json::from_str(&text).ok()?;
    manifest.get("scripts")?.get(name)?.as_str().map(str::to_owned)
}
