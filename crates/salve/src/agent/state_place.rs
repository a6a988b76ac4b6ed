//! Where an agent keeps what is its own: logins, sessions, settings.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Where an agent keeps what is its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatePlace {
    /// The variable that says where, if one does.
    #[serde(default)]
    pub variable: Option<String>,
    /// The path below what the variable says.
    #[serde(default)]
    pub below: Option<String>,
    /// Where it is without the variable; `~/` is the home directory.
    pub usual: Vec<String>,
}

impl StatePlace {
    /// Returns the paths, by variables that are looked up with `variable`.
    pub(super) fn paths(&self, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
        let set = self.variable.as_ref().and_then(|name| variable(name)).map(PathBuf::from);
        if let Some(place) = set.filter(|place| place.is_absolute()) {
            return vec![self.below.as_ref().map_or(place.clone(), |below| place.join(below))];
        }
        let home = variable("HOME").map(PathBuf::from);
        let expand = |path: &String| match path.strip_prefix("~/") {
            Some(rest) => Some(home.as_ref()?.join(rest)),
            None => Some(Path::new(path).to_path_buf()),
        };
        self.usual.iter().filter_map(expand).filter(|path| path.is_absolute()).collect()
    }
}

/// Makes a place that is not there yet, as the agent itself would: it can be let into a layer only if it
/// is there.
pub(super) fn make_place(path: &Path) {
    if path.exists() {
        return;
    }
    // Where it cannot be made, the agent says so itself.
    let _ = match path.extension() {
        Some(end) if end == "json" => fs::write(path, "{}\n"),
        Some(_) | None => fs::create_dir_all(path),
    };
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::*;

    #[track_caller]
    fn check(runtime: &str, variables: &[(&str, &str)], want: &[&str]) {
        let profile = Profile::shipped(runtime).unwrap();
        let look = |name: &str| {
            let set = variables.iter().find(|(known, _)| *known == name);
            set.map(|(_, value)| OsString::from(value))
        };
        let paths: Vec<PathBuf> = profile.state.iter().flat_map(|one| one.paths(look)).collect();
        assert_eq!(paths, want.iter().map(PathBuf::from).collect::<Vec<_>>(), "{runtime}");
    }

    #[test]
    fn what_is_not_there_is_made_as_the_agent_would_make_it() {
        let home = tempfile::tempdir().unwrap();
        let (dir, file) = (home.path().join("a/.claude"), home.path().join(".claude.json"));
        [&dir, &file].into_iter().for_each(|path| make_place(path));
        assert!(dir.is_dir());
        assert_eq!(fs::read_to_string(&file).unwrap(), "{}\n");
        fs::write(&file, "mine").unwrap();
        make_place(&file);
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    }

    #[test]
    fn each_agent_has_its_own_places_and_its_own_variable_for_them() {
        let home = ("HOME", "/home/ada");
        check("claude", &[home], &["/home/ada/.claude", "/home/ada/.claude.json"]);
        check("claude", &[home, ("CLAUDE_CONFIG_DIR", "/c")], &["/c"]);
        check("codex", &[home], &["/home/ada/.codex"]);
        check("codex", &[home, ("CODEX_HOME", "/x")], &["/x"]);
        check("gemini", &[home], &["/home/ada/.gemini"]);
        check("gemini", &[home, ("GEMINI_CLI_HOME", "/g")], &["/g/.gemini"]);
        let opencode = [".local/share", ".config", ".local/state", ".cache"];
        let opencode = opencode.map(|dir| format!("/home/ada/{dir}/opencode"));
        check("opencode", &[home], &opencode.each_ref().map(String::as_str));
        check("codex", &[], &[]);
    }
}
