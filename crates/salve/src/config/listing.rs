//! Every setting with its value and where that comes from, for whoever shows them.

use salve_core::scrub::Scrubber;
use serde::Serialize;
use serde_json::Value as Json;

use super::tree::{SettingNode, TextPosition};
use super::{Config, keys};

/// One setting, its value without secrets, and where it was written.
#[derive(Clone, Debug, Serialize)]
pub struct SettingRow {
    /// The setting's name.
    pub key: &'static str,
    /// Its value; nothing where it is not set.
    pub value: Option<Json>,
    /// The layer that it comes from.
    pub from: Option<&'static str>,
    /// The file, variable or flag; nothing for a default.
    pub source: Option<String>,
    /// The line in the file.
    pub line: Option<u32>,
    /// The column in the line.
    pub column: Option<u32>,
}

impl SettingRow {
    fn of(key: &'static str, node: Option<&SettingNode>, scrubber: &Scrubber) -> Self {
        let place: Option<TextPosition> = node.and_then(|node| node.origin.place());
        let default = node.is_some_and(|node| node.origin.layer() == "default");
        Self {
            key,
            value: node.map(|node| without_secrets(node.value.to_json(), scrubber)),
            from: node.map(|node| node.origin.layer()),
            source: node.filter(|_| !default).map(|node| node.origin.name().to_owned()),
            line: place.filter(|_| !default).map(|place| place.line),
            column: place.filter(|_| !default).map(|place| place.column),
        }
    }

    /// Returns the value as it would be written, if there is one.
    pub fn as_toml(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        Some(match toml::Value::try_from(value) {
            Ok(value) => value.to_string(),
            Err(_) => value.to_string(),
        })
    }

    /// Says where the value comes from.
    pub fn origin(&self) -> String {
        match (self.from, &self.source, self.line) {
            (None, _, _) => "not set".to_owned(),
            (Some(layer), None, _) => layer.to_owned(),
            (Some(layer), Some(source), None) => format!("{layer} {source}"),
            (Some(layer), Some(source), Some(line)) => format!("{layer} {source}:{line}"),
        }
    }
}

/// Returns every setting, in the order of the schema.
pub fn setting_rows(config: &Config, scrubber: &Scrubber) -> Vec<SettingRow> {
    keys().map(|key| SettingRow::of(key.name, config.tree.get(key.name), scrubber)).collect()
}

/// Returns a value with a mark in the place of each secret, such as the token in an address.
fn without_secrets(value: Json, scrubber: &Scrubber) -> Json {
    match value {
        Json::String(text) => scrubber.scrub(&text).into_string().into(),
        Json::Array(items) => {
            items.into_iter().map(|item| without_secrets(item, scrubber)).collect()
        }
        Json::Object(map) => {
            let pairs = map.into_iter().map(|(key, value)| (key, without_secrets(value, scrubber)));
            Json::Object(pairs.collect())
        }
        value @ (Json::Null | Json::Bool(_) | Json::Number(_)) => value,
    }
}
