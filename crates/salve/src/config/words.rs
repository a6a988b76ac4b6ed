//! Settings written as words: environment variables and `--set` flags.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use serde::Deserialize;

use super::check::{expected, kind, takes_list};
use super::problem::{ConfigProblem, nearest, shown};
use super::schema::{SettingKey, keys};
use super::tree::{SettingNode, Value, ValueOrigin};

/// Variables that Salve reads but that set nothing.
const NOT_SETTINGS: [&str; 12] = [
    "SALVE_PROJECT",
    "SALVE_AGENT",
    "SALVE_USER",
    "SALVE_RUN",
    "SALVE_SERVER",
    "SALVE_KEEPER",
    "SALVE_LOOP",
    "SALVE_LOOP_DIR",
    "SALVE_ROLE",
    "SALVE_ITERATION",
    "SALVE_JOB",
    "SALVE_STEP",
];

/// The environment variables that may be settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Takes those of this process.
    pub fn of_process() -> Self {
        std::env::vars_os().collect()
    }

    /// Returns the settings in it, and warnings about names that look misspelt.
    pub(super) fn layer(
        &self,
        base: SettingNode,
    ) -> Result<(SettingNode, Vec<ConfigProblem>), Vec<ConfigProblem>> {
        let (mut layer, mut problems) = (base, Vec::new());
        for key in keys() {
            for variable in key.variables() {
                // An empty variable counts as none, as everywhere in Unix.
                let value = self.0.get(OsStr::new(&variable)).filter(|value| !value.is_empty());
                let Some(value) = value else { continue };
                let origin = ValueOrigin::Variable(variable.into());
                match value.to_str() {
                    None => problems.push(ConfigProblem::at(&origin, "", "not valid UTF-8")),
                    Some(text) => match read(key, text, origin) {
                        Ok(node) => layer.set(key.name, node),
                        Err(problem) => problems.push(problem),
                    },
                }
            }
        }
        if problems.is_empty() { Ok((layer, self.misspelt_variables())) } else { Err(problems) }
    }

    /// Returns a warning for each name that is nearly a setting's. Other programs may have
    /// variables of such names, so it is not an error.
    fn misspelt_variables(&self) -> Vec<ConfigProblem> {
        let names = self.0.keys().filter_map(|name| name.to_str());
        let ours = names.filter(|name| name.starts_with("SALVE_") && !NOT_SETTINGS.contains(name));
        let ours: Vec<_> = ours.collect();
        if ours.is_empty() {
            return Vec::new();
        }
        let known: Vec<_> = keys().flat_map(SettingKey::variables).collect();
        let warning = |name: &&str| {
            let near = nearest(name, known.iter().map(String::as_str))?;
            let message = format!("this variable sets nothing; did you mean {near}?");
            Some(ConfigProblem::at(&ValueOrigin::Variable(Arc::from(*name)), "", message))
        };
        ours.iter().filter(|name| !known.iter().any(|k| k == **name)).filter_map(warning).collect()
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        let prefixes = ["SALVE_", "REPAIR_", "AGENT_", "STEP_", "JOB_"];
        let ours = |name: &OsStr| {
            prefixes.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
        };
        let pairs = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(pairs.filter(|(name, _)| ours(name)).collect())
    }
}

/// Returns the settings given as `KEY=VALUE` on the command line.
pub(super) fn flags(
    given: &[String],
    base: SettingNode,
) -> Result<SettingNode, Vec<ConfigProblem>> {
    let (mut layer, mut problems) = (base, Vec::new());
    for words in given {
        match flag(words) {
            Ok((key, node)) => layer.set(key.name, node),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(layer) } else { Err(problems) }
}

fn flag(words: &str) -> Result<(SettingKey, SettingNode), ConfigProblem> {
    let origin = ValueOrigin::Flag("--set".into());
    let Some((name, text)) = words.split_once('=') else {
        return Err(ConfigProblem::at(&origin, "", "expected KEY=VALUE"));
    };
    let name = name.trim();
    match keys().find(|key| key.name == name) {
        Some(key) => Ok((key, read(key, text.trim(), origin)?)),
        None => Err(ConfigProblem::at(&origin, "", unknown_key(name))),
    }
}

/// Returns the words for a setting that does not exist, with the one that was probably meant.
pub fn unknown_key(name: &str) -> String {
    match nearest(name, keys().map(|key| key.name)) {
        Some(near) => format!("unknown setting `{}`; did you mean `{near}`?", shown(name)),
        None => format!("unknown setting `{}`", shown(name)),
    }
}

/// Reads one setting's words: plain for text and numbers, as in TOML for lists and tables.
fn read(key: SettingKey, text: &str, origin: ValueOrigin) -> Result<SettingNode, ConfigProblem> {
    let value = match kind(key.schema) {
        "boolean" => match text {
            "1" | "true" => Some(Value::Bool(true)),
            "0" | "false" => Some(Value::Bool(false)),
            _ => None,
        },
        "integer" => text.trim().parse().ok().map(Value::Integer),
        "string" => Some(Value::Text(text.to_owned())),
        _ if takes_list(key.schema) && !text.trim_start().starts_with('[') => {
            Some(Value::Text(text.to_owned()))
        }
        _ => toml::de::ValueDeserializer::parse(text)
            .and_then(serde_json::Value::deserialize)
            .ok()
            .map(|json| Value::from_json(&json, &origin)),
    };
    let wanted = || match kind(key.schema) {
        "boolean" => "expected 1, 0, true or false".to_owned(),
        "array" => format!("expected {} such as [\"one\", \"two\"]", expected(key.schema)),
        "object" => "expected a table such as { name = \"value\" }".to_owned(),
        _ => format!("expected {}", expected(key.schema)),
    };
    let value = value.ok_or_else(|| ConfigProblem::at(&origin, key.name, wanted()))?;
    Ok(SettingNode { value, origin })
}
