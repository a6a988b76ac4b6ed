//! How long it takes to start a command in a private layer over a large tree, beside a copy.
//!
//! `cargo xtask bench layer`

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints and may stop")]

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use salve::project::Project;
use salve::workspace::{
    LayerCommand, LayerLaunch, LayerMeans, LayerSight, Name, Workspace, enter_layer,
};
use salve_core::id::IncidentId;
use uuid::Uuid;

const DIRS: usize = 1_000;
const FILES_IN_DIR: usize = 50;
const ROUNDS: usize = 21;

/// What starting may take.
const WITHIN: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    // This very program becomes the parts of a layer, as `salve` does.
    if let Some(code) = enter_layer(std::env::args_os().skip(1)) {
        return code;
    }
    // The runner of tests only wants to see that it starts.
    if std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        return ExitCode::SUCCESS;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for n in 0..DIRS {
        fs::create_dir_all(root.join(format!("d{n}"))).unwrap();
        for m in 0..FILES_IN_DIR {
            fs::write(root.join(format!("d{n}/f{m}.txt")), format!("{n} {m}\n")).unwrap();
        }
    }
    let project = Project::at(&root).unwrap();
    let workspace = Workspace::open(&project).unwrap();
    let before = workspace.snapshot(Name::before(IncidentId(Uuid::from_u128(1)), 1)).unwrap();
    println!("{} files in {DIRS} directories, median of {ROUNDS}", DIRS * FILES_IN_DIR);
    let (means, took) = timed(LayerMeans::here);
    println!("{:<44}{took:>10.2?}", "finding out how, once in a process");
    let mut started = Vec::new();
    for _ in 0..ROUNDS {
        let (layer, made) = timed(|| workspace.private_layer_by(&before, means).unwrap());
        let ((), ran) = timed(|| run(&layer, &root));
        started.push(made + ran);
        assert_eq!(layer.kind(), "overlay");
    }
    started.sort();
    let median = started[ROUNDS / 2];
    println!("{:<44}{median:>10.2?}", "layer made, command started and ended");
    let (change, took) = timed(|| {
        let layer = workspace.private_layer_by(&before, means).unwrap();
        run(&layer, &root);
        workspace.layer_change(&before, &layer).unwrap()
    });
    assert_eq!(change.measured.files.len(), 1);
    println!("{:<44}{took:>10.2?}", "the same, and its change measured");
    let (_, took) = timed(|| workspace.private_layer_by(&before, &LayerMeans::Copy).unwrap());
    println!("{:<44}{took:>10.2?}", "a copy made instead");
    if median <= WITHIN {
        return ExitCode::SUCCESS;
    }
    println!("starting took longer than {WITHIN:?}");
    ExitCode::FAILURE
}

fn run(layer: &salve::workspace::PrivateLayer, root: &Path) {
    let argv = ["/bin/sh", "-c", "echo x >> d1/f1.txt"].map(OsString::from).to_vec();
    let command = LayerCommand {
        argv,
        dir: root.to_path_buf(),
        writable: Vec::new(),
        sight: LayerSight::Agent,
    };
    let LayerLaunch { argv, dir, env } = layer.launch(&command).unwrap();
    let mut started = Command::new(&argv[0]);
    started.args(&argv[1..]).envs(env).current_dir(dir).stdin(Stdio::null());
    assert!(started.status().unwrap().success());
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let made = work();
    (made, begun.elapsed())
}
