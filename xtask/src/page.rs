//! The page in a real browser: `cargo xtask page`, and a part of `cargo xtask check`.
//!
//! Chromium, node and what drives it are installed where they can be; a machine that cannot have
//! them skips this, and says so.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{StepError, answers, cargo, root, run, say, target};

/// The names under which Chromium is installed.
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Builds Salve and drives its page.
pub(crate) fn page() -> Result<(), StepError> {
    run(cargo("build --package salve"))?;
    drive()
}

/// Drives the page of the program that was built last.
pub(crate) fn drive() -> Result<(), StepError> {
    let Some(browser) = browser() else {
        say("SKIPPED: there is no Chromium for the page; install it, or name it in CHROMIUM");
        return Ok(());
    };
    let dir = root().join("xtask/page");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund"]).current_dir(&dir);
    if run(npm).is_err() {
        say("SKIPPED: npm cannot install what drives Chromium; the page was not tested");
        return Ok(());
    }
    let mut tests = Command::new("node");
    tests.arg("page.mjs").current_dir(&dir).env("CHROMIUM", browser);
    run(tests.env("SALVE", target().join("debug/salve")))
}

/// Returns Chromium's path, installing it where this user can.
fn browser() -> Option<PathBuf> {
    if let Some(named) = env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    found().or_else(|| {
        let mut apt = Command::new("apt-get");
        apt.arg("--version");
        if may_install() && answers(apt) {
            install_chromium();
        }
        found()
    })
}

/// Installs Chromium from the distribution; whether that worked shows in whether it is found.
fn install_chromium() {
    let install = || {
        let mut install = Command::new("apt-get");
        install.args(["install", "--yes", "--no-install-recommends", "chromium"]);
        run(install.env("DEBIAN_FRONTEND", "noninteractive"))
    };
    // A fresh machine may not know its packages yet.
    if install().is_err() && run(Command::new("apt-get").arg("update")).is_ok() {
        let _missing = install();
    }
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
