//! The parts of a manifest that judge, among those that say what the project needs.

use serde_json::{Map, Value};

/// What of `package.json` judges.
const PACKAGE: [&str; 14] = [
    "scripts",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "nyc",
    "c8",
    "eslintConfig",
    "eslintIgnore",
    "prettier",
    "stylelint",
    "lint-staged",
    "xo",
    "tap",
];

/// What of `pyproject.toml` judges, below `tool`.
const PYPROJECT: [&str; 16] = [
    "pytest",
    "ruff",
    "mypy",
    "pyright",
    "basedpyright",
    "coverage",
    "pylint",
    "flake8",
    "tox",
    "nox",
    "poe",
    "hatch",
    "black",
    "isort",
    "ty",
    "taskipy",
];

/// What of `Cargo.toml` judges; of the tables of targets only some keys do.
const CARGO: [&str; 2] = ["lints", "test"];
const TARGET: [&str; 3] = ["test", "doctest", "harness"];

/// What judges in a manifest before and after, as text with a setting on each line, and the
/// manifest as it is now with what judged before.
pub(super) struct Sections {
    pub(super) before: String,
    pub(super) after: String,
    pub(super) merged: String,
}

/// Compares two versions of a manifest; nothing if one cannot be read.
pub(super) fn sections(path: &str, before: &str, after: &str) -> Option<Sections> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let json = name == "package.json";
    let read = |text: &str| -> Option<Value> {
        if json { serde_json::from_str(text).ok() } else { toml::from_str::<Value>(text).ok() }
    };
    let (before, after) = (read(before)?, read(after)?);
    let judging = |value: &Value| -> Map<String, Value> {
        match name {
            "package.json" => chosen(value, &PACKAGE),
            "pyproject.toml" => chosen(value.get("tool").unwrap_or(&Value::Null), &PYPROJECT),
            _ => cargo(value),
        }
    };
    let (was, is) = (judging(&before), judging(&after));
    let mut merged = after.clone();
    match name {
        "package.json" => put(&mut merged, &was, &PACKAGE),
        "pyproject.toml" => match merged.get_mut("tool") {
            Some(tool) => put(tool, &was, &PYPROJECT),
            None if was.is_empty() => {}
            None => {
                let root = merged.as_object_mut()?;
                root.insert("tool".into(), Value::Object(was.clone()));
            }
        },
        _ => put_cargo(&mut merged, &before),
    }
    let text = |value: &Map<String, Value>| serde_json::to_string_pretty(value).unwrap_or_default();
    let merged = if json {
        serde_json::to_string_pretty(&merged).ok()?
    } else {
        toml::to_string(&merged).ok()?
    };
    Some(Sections { before: text(&was), after: text(&is), merged })
}

fn chosen(value: &Value, keys: &[&str]) -> Map<String, Value> {
    let mut map = Map::new();
    for key in keys {
        if let Some(value) = value.get(*key) {
            map.insert((*key).to_owned(), value.clone());
        }
    }
    map
}

fn cargo(value: &Value) -> Map<String, Value> {
    let mut map = chosen(value, &CARGO);
    if let Some(lints) = value.pointer("/workspace/lints") {
        map.insert("workspace.lints".to_owned(), lints.clone());
    }
    if let Some(lib) = value.get("lib") {
        let lib = chosen(lib, &TARGET);
        if !lib.is_empty() {
            map.insert("lib".to_owned(), Value::Object(lib));
        }
    }
    map
}

/// Makes the given keys of `value` what they were.
fn put(value: &mut Value, was: &Map<String, Value>, keys: &[&str]) {
    let Some(map) = value.as_object_mut() else { return };
    for key in keys {
        match was.get(*key) {
            Some(old) => map.insert((*key).to_owned(), old.clone()),
            None => map.remove(*key),
        };
    }
}

fn put_cargo(merged: &mut Value, before: &Value) {
    put(merged, &chosen(before, &CARGO), &CARGO);
    for (table, keys) in [("lib", &TARGET[..]), ("workspace", &["lints"][..])] {
        let was = before.get(table).map(|table| chosen(table, keys)).unwrap_or_default();
        match merged.get_mut(table) {
            Some(table) => put(table, &was, keys),
            None if was.is_empty() => {}
            None => {
                if let Some(root) = merged.as_object_mut() {
                    root.insert(table.to_owned(), Value::Object(was));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_judges_goes_back_and_what_is_needed_stays() {
        let before = r#"{"scripts":{"test":"jest"},"dependencies":{"a":"1"}}"#;
        let after =
            r#"{"scripts":{"test":"echo ok"},"jest":{"bail":1},"dependencies":{"a":"1","b":"2"}}"#;
        let found = sections("web/package.json", before, after).unwrap();
        let merged: Value = serde_json::from_str(&found.merged).unwrap();
        assert_eq!(merged["scripts"]["test"], "jest");
        assert_eq!(merged["dependencies"]["b"], "2");
        assert_eq!(merged.get("jest"), None);
        assert_ne!(found.before, found.after);

        let before = "[package]\nname = \"x\"\n[lints.rust]\nunused = \"deny\"\n";
        let after = "[package]\nname = \"x\"\n[dependencies]\na = \"1\"\n[lib]\ntest = false\n";
        let found = sections("Cargo.toml", before, after).unwrap();
        let merged: toml::Table = toml::from_str(&found.merged).unwrap();
        assert!(merged.contains_key("dependencies") && merged.contains_key("lints"));
        assert!(!found.merged.contains("test = false") && found.merged.contains("unused"));

        let before = "[project]\nname = \"x\"\n[tool.pytest.ini_options]\naddopts = \"-q\"\n";
        let after = "[project]\nname = \"x\"\ndependencies = [\"a\"]\n";
        let found = sections("pyproject.toml", before, after).unwrap();
        assert!(found.merged.contains("addopts") && found.merged.contains("dependencies"));

        let same = sections("package.json", "{\"version\":\"1\"}", "{\"version\":\"2\"}").unwrap();
        assert_eq!(same.before, same.after);
        assert!(sections("package.json", "{", "{}").is_none());
    }
}
