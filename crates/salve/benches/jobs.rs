//! What jobs cost: replaying checkpoints, setting a workspace back, running steps, claiming jobs.
//!
//! `cargo bench -p salve --bench jobs`. Each figure stands beside what it is measured against in the
//! same run.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints and may stop")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use salve::project::Project;
use salve::store::{ClaimStanding, Store};
use salve::workspace::{ReplayStep, StartFrom, StepStore};
use salve_core::id::JobId;
use salve_core::job::{ClaimEnd, RetryTerms};
use salve_core::scrub::Scrubbed;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use uuid::Uuid;

/// How many patches are replayed.
const PATCHES: usize = 1_000;
/// How many files a large repository has.
const FILES: usize = 50_000;
/// How many jobs go through the queue.
const CLAIMS: u32 = 5_000;
/// How many steps a long job has, unless `SALVE_BENCH_STEPS` says otherwise.
const STEPS: usize = 10_000;

fn main() {
    // The runner of tests only wants to see that it starts.
    if std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        return;
    }
    let chosen = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let benches: [(&str, fn()); 5] =
        [("replay", replay), ("reset", reset), ("step", step), ("long", long), ("queue", queue)];
    for (name, bench) in benches {
        if chosen.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            bench();
        }
    }
}

fn git(dir: &Path, args: &[&str]) {
    let settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"];
    let mut command = Command::new("git");
    let status = command.args(settings).args(args).current_dir(dir).stdout(Stdio::null()).status();
    assert!(status.unwrap().success(), "git {args:?}");
}

/// Makes a repository with these files.
fn repository(files: impl Iterator<Item = (String, String)>) -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("project");
    fs::create_dir_all(&dir).unwrap();
    for (path, text) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
        git(&dir, args);
    }
    (home, dir)
}

fn fastest(times: usize, mut run: impl FnMut() -> Duration) -> Duration {
    (0..times).map(|_| run()).min().unwrap()
}

/// Replaying 1,000 small patches, with all checks, beside as many calls of `git apply`.
fn replay() {
    let (home, project) = repository((0..100).map(|n| (format!("f{n}.txt"), "line\n".repeat(40))));
    let job = home.path().join("job");
    let store = StepStore::make(&project, &job, &StartFrom::Ref("HEAD".to_owned())).unwrap();
    let mut before = store.tree().unwrap();
    let mut steps = Vec::new();
    let mut hashes = Vec::new();
    for n in 0..PATCHES {
        let file = store.dir().join(format!("f{}.txt", n % 100));
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{text}step {n}\n")).unwrap();
        let tree = store.tree().unwrap();
        let diff = store.diff(&before, &tree).unwrap();
        let patch = home.path().join(format!("step-{n:04}.patch"));
        fs::write(&patch, &diff.patch).unwrap();
        hashes.push(Sha256::digest(&diff.patch));
        store.keep(n, &tree, "step").unwrap();
        steps.push(ReplayStep { patch, files: diff.files });
        before = tree;
    }
    let ours = fastest(3, || {
        let since = Instant::now();
        for (step, hash) in steps.iter().zip(&hashes) {
            assert_eq!(Sha256::digest(fs::read(&step.patch).unwrap()), *hash);
        }
        let tree = store.replay(&steps).unwrap();
        store.check_out(&tree).unwrap();
        since.elapsed()
    });
    assert_eq!(store.tree().unwrap(), before);
    let bare = {
        let since = Instant::now();
        for step in &steps {
            git(&project, &["apply", "-p1", &step.patch.to_string_lossy()]);
        }
        since.elapsed()
    };
    let share = ours.as_secs_f64() / bare.as_secs_f64();
    println!(
        "replay: {PATCHES} patches with checks {ours:.2?} (limit 1 s); git apply {PATCHES} times \
         {bare:.2?}: {share:.3} of it (limit 0.2)"
    );
}

/// Setting a workspace of 50,000 files back, beside `git read-tree -u --reset`.
fn reset() {
    let name = |n: usize| format!("d{}/e{}/f{n}.txt", n % 50, n / 50 % 40);
    let (home, project) = repository((0..FILES).map(|n| (name(n), format!("file {n}\n"))));
    let job = home.path().join("job");
    let store = StepStore::make(&project, &job, &StartFrom::Ref("HEAD".to_owned())).unwrap();
    let tree = store.tree().unwrap();
    let spoil = |dir: &Path| {
        for n in (0..FILES).step_by(50) {
            fs::write(dir.join(name(n)), "spoilt\n").unwrap();
        }
        for n in (1..FILES).step_by(500) {
            fs::remove_file(dir.join(name(n))).unwrap();
        }
    };
    let (mut ours, mut bare) = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        spoil(&store.dir());
        let since = Instant::now();
        store.check_out(&tree).unwrap();
        ours = ours.min(since.elapsed());
        spoil(&project);
        let since = Instant::now();
        git(&project, &["read-tree", "-u", "--reset", "HEAD"]);
        bare = bare.min(since.elapsed());
    }
    assert_eq!(store.tree().unwrap(), tree);
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!(
        "reset: {FILES} files, 1,100 of them spoilt, {ours:.1?}; git read-tree -u --reset \
         {bare:.1?}: {ratio:.2} times (limit 2)"
    );
}

/// Runs a job of so many steps that do nothing; returns how long it took and its directory.
fn run_job(dir: &Path, steps: usize) -> (Duration, PathBuf) {
    let step = "{ \"command\": [\"true\"] }";
    fs::write(dir.join("job.json"), format!("{{\"steps\": [{}]}}", vec![step; steps].join(", ")))
        .unwrap();
    // What another job left is not this one's.
    let _ = fs::remove_dir_all(dir.join(".salve"));
    let since = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_salve"));
    let command = command.args(["-q", "run", "job.json"]).current_dir(dir);
    let quiet = command.env("SALVE_USER", "bench").stdin(Stdio::null()).stdout(Stdio::null());
    assert!(quiet.stderr(Stdio::null()).status().unwrap().success());
    let took = since.elapsed();
    let run = fs::read_dir(dir.join(".salve/jobs")).unwrap().next().unwrap().unwrap();
    (took, run.path())
}

/// What the controller adds to a step, beside the bare command.
fn step() {
    let (_home, project) = repository((0..100).map(|n| (format!("f{n}.txt"), "x\n".to_owned())));
    let (few, many) = (10, 110);
    let per_step = fastest(3, || {
        let (short, _) = run_job(&project, few);
        let (long, _) = run_job(&project, many);
        long.saturating_sub(short) / u32::try_from(many - few).unwrap()
    });
    let bare = fastest(3, || {
        let since = Instant::now();
        for _ in 0..100 {
            assert!(Command::new("true").status().unwrap().success());
        }
        since.elapsed() / 100
    });
    let added = per_step.saturating_sub(bare);
    println!("step: {per_step:.1?}, the bare command {bare:.1?}: {added:.1?} added (limit 30 ms)");
}

/// Whether the last steps of a long job cost what the first ones did.
fn long() {
    let steps = std::env::var("SALVE_BENCH_STEPS").ok().and_then(|text| text.parse().ok());
    let steps: usize = steps.unwrap_or(STEPS);
    let (_home, project) = repository((0..100).map(|n| (format!("f{n}.txt"), "x\n".to_owned())));
    let (took, run) = run_job(&project, steps);
    let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let times: Vec<jiff::Timestamp> = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["event"] == "task.step.attempt.finished")
        .map(|event| event["at"].as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(times.len(), steps);
    let tenth = steps / 10;
    let between = |from: usize, to: usize| times[to].duration_since(times[from]).as_secs_f64();
    let (first, last) = (between(0, tenth - 1), between(steps - tenth, steps - 1));
    let ratio = last / first;
    println!(
        "long: {steps} steps {took:.1?}; the first tenth {first:.1} s, the last {last:.1} s: \
         {ratio:.2} times"
    );
}

/// How many jobs a second are claimed and finished.
fn queue() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(&Project::at(home.path()).unwrap()).unwrap();
    let terms = RetryTerms { max_tries: 3, max_losses: 10, backoff_ms: 0 };
    for _ in 0..CLAIMS {
        store.queue().submit(JobId(Uuid::now_v7()), "{}", terms).unwrap();
    }
    let worker = Scrubbed::literal("bench");
    let since = Instant::now();
    for _ in 0..CLAIMS {
        let claim = store.queue().claim(&worker, Duration::from_secs(30)).unwrap().unwrap();
        let standing = store.queue().finish(claim.token, ClaimEnd::Done).unwrap();
        assert_eq!(standing, ClaimStanding::Held);
    }
    let rate = f64::from(CLAIMS) / since.elapsed().as_secs_f64();
    println!("queue: {rate:.0} claims and finishes a second (limit 1,000)");
}
