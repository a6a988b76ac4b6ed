//! Remembers on which files a check was green, for the next run of Salve.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::check::GreenRun;
use salve_core::event::Digest;

use crate::atomic;
use crate::files::{FileKind, make_directories, read_text};
use crate::heal::run::CommandPlan;
use crate::heal::spawn_thread;
use crate::project::Project;
use crate::workspace::Workspace;

/// How long the look at the files is waited for once the check was red.
const PATIENCE_RED: Duration = Duration::from_secs(2);

/// How long it is waited for at least once the check was green: then nobody needs it yet, so it is
/// a tenth of what the check took itself.
const PATIENCE_GREEN: Duration = Duration::from_millis(150);

/// How long the look may have taken for another one to be worth its while.
const QUICK: Duration = Duration::from_millis(100);

/// What is remembered of one check.
#[derive(Debug)]
pub(super) struct GreenMemory {
    project: Project,
    file: PathBuf,
    /// The look at the files that the present run began with.
    looking: Option<Receiver<SeenTree>>,
}

/// The files as a look found them.
#[derive(Clone, Copy, Debug)]
struct SeenTree {
    tree: Digest,
    took: Duration,
}

impl GreenMemory {
    /// Returns the memory of a check.
    pub(super) fn of(project: &Project, plan: &CommandPlan) -> Self {
        let (dir, command) = (plan.dir.to_string_lossy(), plan.command.as_str());
        let key = Digest::of(&[plan.name.as_bytes(), command.as_bytes(), dir.as_bytes()]);
        let name: String = key.to_string().chars().take(16).collect();
        let file = project.state_dir().join("green").join(format!("{name}.json"));
        Self { project: project.clone(), file, looking: None }
    }

    /// Looks at the files while the check begins to run.
    pub(super) fn begin(&mut self) {
        let (tell, told) = mpsc::channel();
        let project = self.project.clone();
        self.looking = Some(told);
        spawn_thread("tree", move || {
            if let Some(seen) = look(&project) {
                // A check that was faster has stopped listening.
                let _ = tell.send(seen);
            }
        });
    }

    /// Takes in that the check was green, outside of any repair.
    pub(super) fn was_green(&mut self, took: Duration) {
        let Some(before) = self.seen((took / 10).clamp(PATIENCE_GREEN, PATIENCE_RED)) else {
            return;
        };
        let after = (before.took < QUICK).then(|| look(&self.project)).flatten();
        let trees = [Some(before), after].into_iter().flatten().map(|seen| seen.tree).collect();
        let green = GreenRun::new(Timestamp::now(), trees);
        // Without it the next red run is taken as it is.
        let _ = self.file.parent().map(make_directories);
        let _ = atomic::write(&self.file, green.to_text());
    }

    /// Returns how long ago the check was green on the files on which it was red now.
    pub(super) fn green_ago(&mut self) -> Option<Duration> {
        let green = GreenRun::parse(&read_text(&self.file, FileKind::Note).ok()?)?;
        green.ago_on(self.seen(PATIENCE_RED)?.tree, Timestamp::now())
    }

    fn seen(&mut self, patience: Duration) -> Option<SeenTree> {
        self.looking.take()?.recv_timeout(patience).ok()
    }
}

fn look(project: &Project) -> Option<SeenTree> {
    let since = Instant::now();
    let tree = Workspace::open(project).ok()?.tree().ok()?;
    Some(SeenTree { tree, took: since.elapsed() })
}
