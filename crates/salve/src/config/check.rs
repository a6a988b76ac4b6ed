//! Checks a tree against the schema and says where it differs.

use serde_json::Value as Json;

use super::parse::MOST_PROBLEMS;
use super::problem::{ConfigProblem, nearest, shown};
use super::tree::{SettingNode, Value, ValueOrigin};

/// Returns what is wrong with `node`, which stands at `path`, by `schema`.
pub(super) fn check(schema: &Json, node: &SettingNode, path: &str) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    walk(schema, node, path, &mut problems);
    problems.truncate(MOST_PROBLEMS);
    problems.sort_by_key(|problem| problem.origin.as_ref().and_then(ValueOrigin::place));
    problems
}

fn walk(schema: &Json, node: &SettingNode, path: &str, problems: &mut Vec<ConfigProblem>) {
    // A hostile file may have a million mistakes; nobody reads more than the first few.
    if problems.len() >= MOST_PROBLEMS {
        return;
    }
    if !fits(schema, &node.value) {
        let message = format!("expected {}, found {}", expected(schema), node.value.kind());
        problems.push(ConfigProblem::at(&node.origin, path, message));
        return;
    }
    match &node.value {
        Value::Table(_) => walk_table(schema, node, path, problems),
        Value::List(items) => {
            for (number, item) in items.iter().enumerate() {
                walk(&schema["items"], item, &join(path, &number.to_string()), problems);
            }
        }
        Value::Integer(number) => {
            let low = schema.get("minimum").and_then(Json::as_i64).unwrap_or(i64::MIN);
            let high = schema.get("maximum").and_then(Json::as_i64).unwrap_or(i64::MAX);
            if !(low..=high).contains(number) {
                let message = format!("expected {}", expected(schema));
                problems.push(ConfigProblem::at(&node.origin, path, message));
            }
        }
        Value::Text(text) => check_text(schema, text, &node.origin, path, problems),
        Value::Bool(_) | Value::Float(_) | Value::Other(_) => {}
    }
}

fn walk_table(schema: &Json, node: &SettingNode, path: &str, problems: &mut Vec<ConfigProblem>) {
    let Value::Table(table) = &node.value else { return };
    let known = schema.get("properties").and_then(Json::as_object);
    for (name, entry) in table {
        let under = join(path, name);
        if let Some(property) = known.and_then(|known| known.get(name)) {
            walk(property, &entry.node, &under, problems);
        } else if let Some(any @ Json::Object(_)) = schema.get("additionalProperties") {
            walk(any, &entry.node, &under, problems);
        } else {
            let names = known.into_iter().flatten().map(|(name, _)| name.as_str());
            let message = unknown(name, path, names);
            problems.push(ConfigProblem::at(&entry.key, "", message));
        }
        if problems.len() >= MOST_PROBLEMS {
            return;
        }
    }
    for name in schema.get("required").and_then(Json::as_array).into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if !table.contains_key(name) {
            let message = format!("`{name}` is missing");
            problems.push(ConfigProblem::at(&node.origin, path, message));
        }
    }
}

/// Returns the words for a key that does not exist, with the one that was probably meant.
fn unknown<'a>(name: &str, path: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let what = match path {
        "" => format!("unknown key `{}`", shown(name)),
        path => format!("unknown key `{}` in `{path}`", shown(name)),
    };
    // A key in the wrong section is as common as a misspelt one.
    let elsewhere = || {
        let mut keys = super::schema::keys();
        keys.find(|key| key.name.rsplit('.').next() == Some(name)).map(|key| key.name)
    };
    match nearest(name, names.clone()) {
        Some(near) => format!("{what}; did you mean `{near}`?"),
        None => match elsewhere() {
            Some(key) => format!("{what}; did you mean `{key}`?"),
            None => format!("{what}; known here: {}", names.collect::<Vec<_>>().join(", ")),
        },
    }
}

fn check_text(
    schema: &Json,
    text: &str,
    origin: &ValueOrigin,
    path: &str,
    problems: &mut Vec<ConfigProblem>,
) {
    let Some(choices) = schema.get("enum").and_then(Json::as_array) else { return };
    let choices = || choices.iter().filter_map(Json::as_str);
    if !choices().any(|choice| choice == text) {
        let mut message = format!("expected {}", expected(schema));
        if let Some(near) = nearest(text, choices()) {
            message.push_str(&format!("; did you mean `{near}`?"));
        }
        problems.push(ConfigProblem::at(origin, path, message));
    }
}

fn fits(schema: &Json, value: &Value) -> bool {
    match schema.get("type") {
        Some(Json::Array(kinds)) => {
            kinds.iter().filter_map(Json::as_str).any(|kind| is_of(kind, value))
        }
        Some(_) | None => is_of(kind(schema), value),
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match (kind, value) {
        ("boolean", Value::Bool(_)) | ("integer", Value::Integer(_)) => true,
        ("string", Value::Text(_)) | ("array", Value::List(_)) => true,
        ("object", Value::Table(_)) | ("number", Value::Integer(_) | Value::Float(_)) => true,
        (_, _) => false,
    }
}

/// Returns the type that a part of the schema asks for.
pub(super) fn kind(schema: &Json) -> &str {
    schema.get("type").and_then(Json::as_str).unwrap_or_default()
}

/// Returns whether a part of the schema takes text or a list of it.
pub(super) fn takes_list(schema: &Json) -> bool {
    schema.get("type").is_some_and(Json::is_array)
}

/// Returns in words what a part of the schema asks for.
pub(super) fn expected(schema: &Json) -> String {
    let bound = |name| schema.get(name).and_then(Json::as_i64);
    match kind(schema) {
        "boolean" => "true or false".into(),
        "integer" => match (bound("minimum"), bound("maximum")) {
            (Some(low), Some(high)) if low == high => format!("the integer {low}"),
            (Some(low), Some(high)) => format!("an integer from {low} to {high}"),
            (Some(low), None) => format!("an integer of at least {low}"),
            (None, _) => "an integer".into(),
        },
        "number" => "a number".into(),
        "array" => format!("a list of {}", expected(&schema["items"])),
        "object" => "a table".into(),
        "" if takes_list(schema) => "text or a list of text".into(),
        _ => match schema.get("enum").and_then(Json::as_array) {
            Some(choices) if choices.len() > 8 => {
                format!("one of the {} words in the schema", choices.len())
            }
            Some(choices) => {
                let names = choices.iter().map(|choice| format!("{choice}"));
                format!("one of {}", names.collect::<Vec<_>>().join(", "))
            }
            None => "text".into(),
        },
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { shown(name) } else { format!("{path}.{}", shown(name)) }
}
