//! The proxy before the protocol's own conformance suite and real servers: `cargo xtask conformance`.
//!
//! Not part of `check`: it needs the registries of npm and PyPI, and what it finds is found in
//! `tests/it` too, against a fixture without a framework.

use std::process::Command;

use crate::steps::{StepError, cargo, python, root, run, target};

/// Builds Salve, installs the suite and the frameworks, and runs all of it.
pub(crate) fn conformance() -> Result<(), StepError> {
    run(cargo("build --package salve"))?;
    let (dir, target) = (root().join("xtask/mcp"), target());
    run(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(&dir))?;
    let mut tests = Command::new(dir.join("node_modules/node/bin/node"));
    tests.arg("run.mjs").current_dir(&dir).env("SALVE", target.join("debug/salve"));
    if let Some(python) = python("mcp-python", &["fastmcp"]) {
        tests.env("PYTHON", python);
    }
    run(tests)
}
