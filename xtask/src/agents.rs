//! Real coding agents against a scripted model: `cargo xtask agents`.
//!
//! Not part of `check`: the programs are some 800 MB from npm, change with every release, and need Node
//! and Python. What is learnt here stands as a story with a scripted agent in the ordinary suite.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::steps::{StepError, cargo, root, run};

/// Builds Salve, installs the agents below `target/`, and tells the stories whose names have all `words`.
pub(crate) fn tell_stories(words: &[&str]) -> Result<(), StepError> {
    run(cargo("build --package salve"))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    let mut stories = Command::new("python3");
    stories.args(["-B", "run.py"]).current_dir(root().join("xtask/agents"));
    stories.arg(target.join("agents")).args(words);
    run(stories.env("SALVE", target.join("debug/salve")))
}
