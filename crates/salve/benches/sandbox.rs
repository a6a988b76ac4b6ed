//! What the sandbox adds to the start of a command.
//!
//! `sh -c true` is run by the standard library alone, under Salve's care without the sandbox, and
//! in the sandbox with the default settings, by turns in one run; the middle of each counts.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set its stage should stop")]

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use salve::config::{SandboxMode, SandboxSettings};
use salve::gate;
use salve::process::Supervisor;
use salve::sandbox::{self, Means, Sandbox, SandboxedCommand};
use salve_core::event::{Authority, ProcessExit};
use uuid::Uuid;

/// How often each is measured.
const ROUNDS: usize = 101;

fn main() -> ExitCode {
    // The sandbox starts this very program to become the command.
    if let Some(code) = sandbox::enter(std::env::args_os().skip(1)) {
        return code;
    }
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join(".salve")).unwrap();
    std::fs::create_dir_all(root.path().join(".git/hooks")).unwrap();
    let care = Supervisor::start(Uuid::new_v4()).unwrap();
    let defaults = salve::config::defaults().unwrap().value.to_json();
    let held: SandboxSettings =
        serde_json::from_value(defaults["recovery"]["sandbox"].clone()).unwrap();
    let free = SandboxSettings { mode: SandboxMode::Off, ..held.clone() };
    println!("{:?}", Means::here());
    let (held, free) = (Sandbox::new(&held), Sandbox::new(&free));
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[0].push(plain(root.path()));
        times[1].push(cared(&care, &free, root.path()));
        times[2].push(cared(&care, &held, root.path()));
    }
    let [plain, cared, held] = times.map(middle);
    let ratio = |time: Duration| time.as_secs_f64() / plain.as_secs_f64();
    println!("plain spawn                {plain:>9.2?}");
    println!("under care, no sandbox     {cared:>9.2?}  {:.1} times", ratio(cared));
    println!("under care, in the sandbox {held:>9.2?}  {:.1} times", ratio(held));
    ExitCode::SUCCESS
}

fn plain(root: &Path) -> Duration {
    let begun = Instant::now();
    let mut command = Command::new(sandbox::SHELL);
    command.args(["-c", "true"]).current_dir(root).stdin(Stdio::null());
    assert!(command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
    begun.elapsed()
}

fn cared(care: &Supervisor, sandbox: &Sandbox, root: &Path) -> Duration {
    let begun = Instant::now();
    let dir = gate::resolve(root, ".").unwrap();
    let job = SandboxedCommand {
        command: "true",
        argv: sandbox::shell("true"),
        root,
        dir: &dir,
        env: Vec::new(),
        name: "bench".to_owned(),
        limit: Duration::from_secs(60),
        on: Authority::Gate,
    };
    assert_eq!(sandbox.run(care, &job).unwrap().exit, ProcessExit::Code(0));
    begun.elapsed()
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
