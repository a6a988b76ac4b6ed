//! The JSON Schema of the settings: what editors complete by, and what every layer is checked by.
//!
//! Made from the types in [`super::settings`]. Kept to keywords that editors with draft 4 know,
//! without references.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::settings::Settings;

/// The schema, without defaults.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let settings = SchemaSettings::draft07().with(|s| s.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Settings>().to_value();
    simplify(&mut schema, Within::Section);
    schema["title"] = "Salve settings".into();
    schema["properties"]["$schema"] =
        json!({ "type": "string", "description": "Address of this schema, for editors" });
    schema
});

/// Returns the schema that layers are checked by.
pub(super) fn schema() -> &'static Value {
    &SCHEMA
}

/// Returns the schema for editors, with the value each setting has when it is not set.
pub fn with_defaults(defaults: &Value) -> Value {
    let mut schema = SCHEMA.clone();
    add_defaults(&mut schema, defaults);
    schema
}

/// Whether a part of the schema describes a section, which may be left out, or a row of a list,
/// which must be whole.
#[derive(Clone, Copy)]
enum Within {
    Section,
    Row,
}

/// Rewrites what the generator made into the few keywords that every editor knows.
fn simplify(schema: &mut Value, within: Within) {
    let Value::Object(object) = schema else { return };
    object.remove("format");
    object.remove("title");
    if let Within::Section = within {
        object.remove("required");
    }
    if let Some(Value::Array(kinds)) = object.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            object.insert("type".into(), kind);
        }
    }
    take_the_one(object);
    list_choices(object);
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(|property| simplify(property, within));
    }
    if let Some(rest) = object.get_mut("additionalProperties") {
        simplify(rest, within);
    }
    if let Some(items) = object.get_mut("items") {
        simplify(items, Within::Row);
    }
}

/// Puts what may be left out in the place of "this or null".
fn take_the_one(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.remove("anyOf") else { return };
    let not_null = |choice: &Value| choice.get("type").is_none_or(|kind| kind != "null");
    let Some(Value::Object(one)) = choices.into_iter().find(not_null) else { return };
    for (name, value) in one {
        object.entry(name).or_insert(value);
    }
}

/// Turns a choice of documented constants into a plain list of them.
fn list_choices(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.remove("oneOf") else { return };
    let names = choices.iter().filter_map(|choice| choice.get("const").cloned()).collect();
    object.insert("type".into(), "string".into());
    object.insert("enum".into(), Value::Array(names));
    let described = choices.iter().filter_map(|choice| {
        let meaning = choice.get("description")?.as_str()?.trim_end_matches('.');
        Some(format!("{}: {}", choice.get("const")?, meaning.replace('\n', " ")))
    });
    let described = described.collect::<Vec<_>>().join("; ");
    let about = object.get("description").and_then(Value::as_str).unwrap_or_default();
    let about = format!("{}. {described}", about.trim_end_matches('.'));
    object.insert("description".into(), about.into());
}

fn add_defaults(schema: &mut Value, defaults: &Value) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        match defaults.get(name) {
            Some(section @ Value::Object(_)) if property.get("properties").is_some() => {
                add_defaults(property, section);
            }
            Some(value) => property["default"] = value.clone(),
            None => {}
        }
    }
}

/// A setting: its dotted name and its part of the schema.
#[derive(Clone, Copy, Debug)]
pub struct SettingKey {
    /// The dotted name.
    pub name: &'static str,
    /// What its value must look like.
    pub schema: &'static Value,
}

/// Every setting, sorted by name.
static KEYS: LazyLock<Vec<(String, &'static Value)>> = LazyLock::new(|| {
    let mut keys = Vec::new();
    collect(&SCHEMA, "", &mut keys);
    keys
});

fn collect(schema: &'static Value, prefix: &str, keys: &mut Vec<(String, &'static Value)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        match property.get("properties") {
            Some(_) => collect(property, &format!("{path}."), keys),
            None if name == "$schema" => {}
            None => keys.push((path, property)),
        }
    }
}

/// Returns every setting, sorted by section and name.
pub fn keys() -> impl Iterator<Item = SettingKey> {
    KEYS.iter().map(|(name, schema)| SettingKey { name, schema })
}

impl SettingKey {
    /// Returns the environment variables that set it, the one that wins last.
    pub fn variables(self) -> Vec<String> {
        let own = format!("SALVE_{}", self.name.replace('.', "_").to_ascii_uppercase());
        let spec = self.schema.get("x-env").and_then(Value::as_str).map(str::to_owned);
        spec.into_iter().chain([own]).collect()
    }
}
