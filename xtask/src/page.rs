//! The page in a real browser: `cargo xtask page`.
//!
//! Not part of `check`: a browser is some 500 MB that a machine may not have and not every machine
//! can get, and the same routes, fragments and refusals are tested there without one.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{StepError, answers, cargo, root, run};

/// The names under which Chromium is installed.
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Builds Salve and drives its page with Chromium; says so loudly where there is no browser.
pub(crate) fn page() -> Result<(), StepError> {
    let Some(browser) = browser()? else {
        let skipped =
            "SKIPPED: there is no Chromium; install it or name it in CHROMIUM. Nothing was tested.";
        return run(Command::new("echo").arg(skipped));
    };
    run(cargo("build --package salve"))?;
    let dir = root().join("xtask/page");
    run(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(&dir))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    let mut tests = Command::new("node");
    tests.arg("page.mjs").current_dir(&dir).env("CHROMIUM", browser);
    run(tests.env("SALVE", target.join("debug/salve")))
}

/// Returns Chromium's path, installing it where this user can.
fn browser() -> Result<Option<PathBuf>, StepError> {
    if let Some(named) = env::var_os("CHROMIUM") {
        return Ok(Some(named.into()));
    }
    if let Some(found) = found() {
        return Ok(Some(found));
    }
    let mut apt = Command::new("apt-get");
    apt.arg("--version");
    if may_install() && answers(apt) {
        run(Command::new("apt-get").args(["install", "--yes", "chromium"]))?;
    }
    Ok(found())
}

fn found() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let dirs: Vec<PathBuf> = env::split_paths(&path).collect();
    let is_there = |path: &PathBuf| Path::is_file(path);
    dirs.iter().flat_map(|dir| BROWSERS.map(|name| dir.join(name))).find(is_there)
}

/// Tells whether this user may install packages.
fn may_install() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
