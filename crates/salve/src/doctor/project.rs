//! The project: directory, disk, store and config.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statvfs};

use super::{Finding, machine};

/// Free space below which writing becomes a gamble.
const LOW_DISK: u64 = 512 << 20;

/// Runs the project's checks.
pub(super) fn examine(project: Option<&Path>) -> Vec<Finding> {
    let mut findings = vec![machine::shell(), user_data()];
    let Some(root) = project else {
        let mend = "run it inside a project, or name one with --project";
        findings.push(Finding::warn("project", "not inside a project", mend));
        return findings;
    };
    findings.extend([directory(root), disk(root)]);
    findings
}

/// Checks where the user's own memory lives, or would live.
fn user_data() -> Finding {
    let Some(dir) = data_home() else {
        let mend = "set HOME or XDG_DATA_HOME";
        return Finding::warn("user data", "no home directory is known", mend);
    };
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok("user data", dir.display().to_string()),
        Err(error) => Finding::warn(
            "user data",
            format!("{} cannot be written: {error}", existing.display()),
            format!("make it yours: chown -R \"$USER\" {}", existing.display()),
        ),
    }
}

/// Returns the directory of the user's own data.
fn data_home() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    base.map(|base| base.join("salve"))
}

fn directory(root: &Path) -> Finding {
    match access(root, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok("project", root.display().to_string()),
        Err(error) => Finding::fail(
            "project",
            format!("{} cannot be written: {error}", root.display()),
            format!("make it yours: chown -R \"$USER\" {}", root.display()),
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
