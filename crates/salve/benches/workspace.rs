//! How long snapshots and measurements of a large tree take, beside `git status` in the same run.
//!
//! `cargo xtask bench workspace`

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints and may stop")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use salve::project::Project;
use salve::workspace::{Name, Workspace};
use salve_core::id::IncidentId;
use uuid::Uuid;

const DIRS: usize = 1_000;
const FILES_IN_DIR: usize = 50;
const ROUNDS: usize = 5;

/// What a snapshot may take once there has been one.
const AGAIN_WITHIN: Duration = Duration::from_millis(1_500);

fn main() {
    // The runner of tests only wants to see that it starts.
    if std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fill(&root);
    let project = Project::at(&root).unwrap();
    let name = |n: u32| Name::before(IncidentId(Uuid::from_u128(1)), n);

    println!("{} files in {DIRS} directories, median of {ROUNDS}", DIRS * FILES_IN_DIR);
    let (_, first) = timed(|| Workspace::open(&project).unwrap().snapshot(name(1)).unwrap());
    println!("{:<44}{first:>10.2?}", "first snapshot");

    let mut status = Vec::new();
    let (mut again, mut kept, mut measured) = (Vec::new(), Vec::new(), Vec::new());
    let mut shadowed = Duration::ZERO;
    for round in 0..ROUNDS {
        status.push(timed(|| git(&root, &["status", "--porcelain"])).1);
        // A process of its own would know as little as a workspace that was reopened.
        let (workspace, opened) = timed(|| Workspace::open(&project).unwrap());
        let (_, took) = timed(|| workspace.snapshot(name(2)).unwrap());
        again.push(opened + took);
        let (before, took) = timed(|| workspace.snapshot(name(3)).unwrap());
        kept.push(took);
        for n in 0..20 {
            fs::write(root.join(format!("d{n}/f{n}.txt")), format!("edited in {round}\n")).unwrap();
        }
        let (found, took) = timed(|| workspace.measure(&before).unwrap());
        assert_eq!(found.files.len(), 20);
        measured.push(took);
        if round == 0 {
            shadowed = timed(|| drop(workspace.shadow(&before).unwrap())).1;
        }
    }
    let again = median(again);
    for (what, took) in [
        ("git status", median(status)),
        ("snapshot by another process", again),
        ("snapshot by the same process", median(kept)),
        ("measuring 20 edited files", median(measured)),
        ("one shadow, laid out and removed", shadowed),
    ] {
        println!("{what:<44}{took:>10.2?}");
    }
    assert!(again < AGAIN_WITHIN, "a snapshot after the first takes {again:?}");
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Makes a repository in which everything is committed.
fn fill(root: &Path) {
    for d in 0..DIRS {
        let dir = root.join(format!("d{d}"));
        fs::create_dir(&dir).unwrap();
        for f in 0..FILES_IN_DIR {
            let text = format!("line {d} {f}\n").repeat(60 + f);
            fs::write(dir.join(format!("f{f}.txt")), text).unwrap();
        }
    }
    git(root, &["init", "--quiet"]);
    git(root, &["add", "--all"]);
    let identity = ["-c", "user.name=Kim", "-c", "user.email=kim@example.com"];
    git(root, &[&identity[..], &["commit", "--quiet", "--message=start"]].concat());
}

fn git(root: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(root).args(args).stdout(Stdio::null());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    assert!(command.status().unwrap().success());
}
