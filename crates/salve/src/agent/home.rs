//! A home of its own for an agent that takes MCP servers only from its settings file there.
//!
//! Everything in the user's own directory is linked, so that the agent is logged in as ever; only
//! the settings file is a copy with something added. The user's files are not touched.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::CstRootNode;
use serde::Deserialize;
use serde_json::Value;

/// What is different in the agent's home.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Home {
    /// The variable that says where its home is, if not the user's.
    pub variable: String,
    /// Its directory in there.
    pub dir: String,
    /// The settings file in the directory.
    pub file: String,
    /// What is added to the settings: JSON, with places to be filled in.
    pub add: String,
}

impl Home {
    /// Returns where the user's own home is, by variables that are looked up with `variable`.
    pub(super) fn users(&self, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        variable(&self.variable).or_else(|| variable("HOME")).map(PathBuf::from)
    }

    /// Makes the home below `at`, after the user's, with `add` in its settings.
    pub(super) fn make(&self, at: &Path, users: Option<&Path>, add: &str) -> io::Result<()> {
        let dir = at.join(&self.dir);
        fs::create_dir_all(&dir)?;
        let theirs = users.map(|home| home.join(&self.dir));
        let entries = theirs.as_ref().and_then(|dir| fs::read_dir(dir).ok());
        for entry in entries.into_iter().flatten().flatten() {
            if entry.file_name() != self.file.as_str() {
                symlink(entry.path(), dir.join(entry.file_name()))?;
            }
        }
        let text = theirs.and_then(|dir| fs::read_to_string(dir.join(&self.file)).ok());
        let own = text.and_then(|text| parse(&text)).unwrap_or_default();
        let add = serde_json::from_str(add).unwrap_or_default();
        fs::write(dir.join(&self.file), merge(own, add).to_string())
    }
}

/// Reads JSON with comments.
fn parse(text: &str) -> Option<Value> {
    CstRootNode::parse(text, &ParseOptions::default()).ok()?.to_serde_value()
}

/// Returns `own` with what is in `add` and not in it, and `add` where both have something.
fn merge(own: Value, add: Value) -> Value {
    match (own, add) {
        (Value::Object(mut own), Value::Object(add)) => {
            for (name, value) in add {
                let old = own.remove(&name).unwrap_or_default();
                own.insert(name, merge(old, value));
            }
            Value::Object(own)
        }
        (own, Value::Null) => own,
        (_, add) => add,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Home {
        Home {
            variable: "BOT_HOME".into(),
            dir: ".bot".into(),
            file: "settings.json".into(),
            add: String::new(),
        }
    }

    #[test]
    fn what_the_user_has_is_there_and_stays_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let (users, own) = (dir.path().join("user"), dir.path().join("own"));
        fs::create_dir_all(users.join(".bot/history")).unwrap();
        let text = "{ // mine\n \"auth\": \"key\", \"mcpServers\": { \"other\": {} } }";
        fs::write(users.join(".bot/settings.json"), text).unwrap();
        fs::write(users.join(".bot/login"), "secret").unwrap();
        home().make(&own, Some(&users), r#"{"mcpServers":{"salve":{"trust":true}}}"#).unwrap();
        let made = fs::read_to_string(own.join(".bot/settings.json")).unwrap();
        let made: Value = serde_json::from_str(&made).unwrap();
        let want = serde_json::json!({
            "auth": "key", "mcpServers": { "other": {}, "salve": { "trust": true } },
        });
        assert_eq!(made, want);
        assert_eq!(fs::read_to_string(own.join(".bot/login")).unwrap(), "secret");
        assert!(own.join(".bot/history").is_dir());
        assert_eq!(fs::read_to_string(users.join(".bot/settings.json")).unwrap(), text);
    }

    #[test]
    fn without_a_user_there_is_only_what_is_added() {
        let dir = tempfile::tempdir().unwrap();
        for users in [None, Some(Path::new("/nowhere"))] {
            let own = dir.path().join(users.map_or("a", |_| "b"));
            home().make(&own, users, r#"{"a":1}"#).unwrap();
            assert_eq!(fs::read_to_string(own.join(".bot/settings.json")).unwrap(), r#"{"a":1}"#);
        }
        let set = |name: &str| (name == "HOME").then(|| OsString::from("/home/ada"));
        assert_eq!(home().users(set), Some(PathBuf::from("/home/ada")));
    }
}
