//! Submodules: what fetching them has to write where no command may write.
//!
//! `git submodule update --init` first copies where each submodule comes from into git's settings,
//! which are sealed, and then fetches. Copying runs no program and reaches no network, so Salve has
//! git do that part outside of the sandbox, and the command finds it done.

use std::path::Path;
use std::process::Stdio;

use crate::process::quiet_git;

/// Options whose value is the next word.
const WITH_VALUE: [&str; 5] = ["--depth", "--reference", "--jobs", "-j", "--filter"];

/// Has git take submodules into its settings, if `command` would begin with that.
pub(super) fn prepare(command: &str, root: &Path) {
    for paths in command.split(['&', '|', ';', '\n']).filter_map(wanted) {
        // Where it fails, the command fails by the same and says so itself.
        let mut git = quiet_git(root);
        git.args(["submodule", "--quiet", "init", "--"]).args(paths);
        let _ = git.stdin(Stdio::null()).output();
    }
}

/// Returns the submodules that a plain command would take into git's settings; none are all.
fn wanted(part: &str) -> Option<Vec<&str>> {
    // What the shell would change is not what stands here.
    if part.contains(['$', '`', '\'', '"', '\\', '*', '?', '[', '{', '(', '<', '>', '~', '#']) {
        return None;
    }
    let mut words = part.split_whitespace().peekable();
    if words.next() != Some("git") {
        return None;
    }
    while words.next_if_eq(&"-c").is_some() {
        words.next();
    }
    if words.next() != Some("submodule") {
        return None;
    }
    while words.next_if(|word| ["-q", "--quiet"].contains(word)).is_some() {}
    let mut is_wanted = match words.next() {
        Some("init") => true,
        Some("update") => false,
        Some(_) | None => return None,
    };
    let mut paths = Vec::new();
    let mut is_path = false;
    while let Some(word) = words.next() {
        match word {
            path if is_path || !path.starts_with('-') => paths.push(path),
            "--" => is_path = true,
            "--init" => is_wanted = true,
            option if WITH_VALUE.contains(&option) => drop(words.next()),
            _ => {}
        }
    }
    is_wanted.then_some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_submodules_into_the_settings_is_prepared() {
        let none: &[&str] = &[];
        for (part, want) in [
            ("git submodule update --init", Some(none)),
            (" git submodule update --init --recursive ", Some(none)),
            ("git -c protocol.version=2 submodule -q init vendor/a", Some(&["vendor/a"])),
            ("git submodule update --init --depth 1 -- vendor/a vendor/b", {
                Some(&["vendor/a", "vendor/b"])
            }),
            ("git submodule update", None),
            ("git submodule foreach git submodule update --init", None),
            ("echo git submodule update --init", None),
            ("git submodule update --init \"$DIR\"", None),
            ("git -C elsewhere submodule update --init", None),
        ] {
            assert_eq!(wanted(part).as_deref(), want, "{part}");
        }
    }
}
