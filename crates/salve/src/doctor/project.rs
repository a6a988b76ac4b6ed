//! The project: directory, disk, store and config.

use std::path::Path;

use rustix::fs::{Access, access, statvfs};

use super::{Finding, machine, notices, registrations};
use crate::config::{self, Config, LoadError, Sources};
use crate::dirs;
use crate::project::Project;
use crate::register::Places;
use crate::store::Store;

/// Free space below which writing becomes a gamble.
const LOW_DISK: u64 = 512 << 20;

/// Runs the project's checks.
pub(super) fn examine(project: Option<&Project>) -> Vec<Finding> {
    let loaded = config::load(&Sources::of_process(project, &[]));
    let mut findings = vec![machine::shell(), user_data()];
    if let Ok(config) = &loaded {
        findings.extend(notices::examine(&config.settings));
    }
    findings.push(settings(loaded));
    let Some(project) = project else {
        let mend = "run it inside a project, or name one with --project DIR";
        findings.push(Finding::warn("project", "not inside a project", mend));
        return findings;
    };
    findings.extend([directory(project.root()), disk(project.root()), store(project)]);
    findings.push(registrations::examine(&Places::here(project.root())));
    findings
}

fn settings(loaded: Result<Config, LoadError>) -> Finding {
    match loaded {
        Err(error) => Finding::fail("config", error.to_string(), error.advice()),
        Ok(config) => match config.warnings().as_slice() {
            [] => Finding::ok("config", "valid"),
            warnings => {
                let list: Vec<String> = warnings.iter().map(ToString::to_string).collect();
                Finding::warn("config", list.join("; "), "`salve config check` lists them")
            }
        },
    }
}

/// Opens the store if there is one; a doctor leaves nothing behind.
fn store(project: &Project) -> Finding {
    match project.has_state_dir() {
        Err(error) => return Finding::fail("store", error.to_string(), error.advice()),
        Ok(false) => return Finding::ok("store", "none yet; made when first needed"),
        Ok(true) => {}
    }
    let examined = Store::open_existing(project).and_then(|store| match store {
        Some(store) => {
            let events = store.journal().last_seq()?;
            drop(store);
            Ok((events, Store::examine(project)?))
        }
        None => Ok((0, None)),
    });
    match examined {
        Ok((events, None)) => Finding::ok("store", format!("healthy, {events} events")),
        Ok((_, Some(mended))) => {
            Finding::warn("store", mended.to_string(), "look at what was kept, then remove it")
        }
        Err(error) => Finding::fail("store", error.to_string(), error.advice()),
    }
}

/// Checks where the user's own memory lives, or would live.
fn user_data() -> Finding {
    let Some(dir) = dirs::data() else {
        let mend = "set HOME or XDG_DATA_HOME";
        return Finding::warn("user data", "no home directory is known", mend);
    };
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok("user data", dir.display().to_string()),
        Err(error) => Finding::warn(
            "user data",
            format!("{} cannot be written: {error}", existing.display()),
            look_at(existing),
        ),
    }
}

/// Says how to see who owns a directory; whoever owns it decides whether that should change.
fn look_at(dir: &Path) -> String {
    format!("see who owns it and may write there: ls -ld '{}'", dir.display())
}

fn directory(root: &Path) -> Finding {
    match access(root, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok("project", root.display().to_string()),
        Err(error) => Finding::fail(
            "project",
            format!("{} cannot be written: {error}", root.display()),
            look_at(root),
        ),
    }
}

fn disk(root: &Path) -> Finding {
    match statvfs(root) {
        Err(error) => {
            let mend = "check that the file system is mounted and healthy";
            Finding::warn("disk", format!("cannot be measured: {error}"), mend)
        }
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let detail = format!("{:.1} GiB free", free as f64 / f64::from(1 << 30));
            if free < LOW_DISK {
                Finding::warn("disk", detail, "free some space, or move the project")
            } else {
                Finding::ok("disk", detail)
            }
        }
    }
}
