//! What people do every day, with the real tools: `cargo xtask trials`.
//!
//! Not part of `check`: the tools come from npm and PyPI and change with every release. What is
//! learnt here stands as a story with a small server of its own in the ordinary suite.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::steps::{StepError, cargo, root, run};

/// Builds Salve, installs the tools below `target/`, and tells the trials whose names have all
/// `words`.
pub(crate) fn walk_trials(words: &[&str]) -> Result<(), StepError> {
    run(cargo("build --package salve"))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    let mut trials = Command::new("python3");
    trials.args(["-B", "run.py"]).current_dir(root().join("xtask/trials"));
    trials.arg(target.join("trials")).args(words);
    run(trials.env("SALVE", target.join("debug/salve")))
}
