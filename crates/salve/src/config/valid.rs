//! Makes the typed settings from a merged tree that fits the schema.

use std::sync::Arc;

use salve_core::fingerprint::{Rows, RuleError, Rules};
use serde::Deserialize;

use super::problem::Problem;
use super::settings::Settings;
use super::tree::{Entry, Node, Value};

/// Settings that are right, and what was built to find that out.
#[derive(Debug)]
pub(super) struct Valid {
    pub(super) settings: Settings,
    /// The user's own fingerprint rules with the built-in ones, if there are any.
    pub(super) fingerprints: Option<Arc<Rules>>,
    pub(super) warnings: Vec<Problem>,
}

/// Returns the typed settings, or everything that is wrong with them.
pub(super) fn settings(tree: &Node) -> Result<Valid, Vec<Problem>> {
    let settings = match Settings::deserialize(tree.value.to_json()) {
        Ok(settings) => settings,
        Err(error) => {
            let message = error.to_string();
            return Err(vec![Problem { origin: None, key: None, message }]);
        }
    };
    let mut problems = addresses(tree);
    let fingerprints = match fingerprints(&settings, tree) {
        Ok(rules) => rules,
        Err(found) => {
            problems.extend(found);
            None
        }
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Valid { settings, fingerprints, warnings: Vec::new() })
}

/// Returns what is wrong with the webhooks' addresses.
fn addresses(tree: &Node) -> Vec<Problem> {
    let Some(Node { value: Value::Table(hooks), .. }) = tree.get("webhooks") else {
        return Vec::new();
    };
    let wrong = hooks.iter().filter(|(_, entry)| match &entry.node.value {
        Value::Text(address) => !is_address(address),
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => true,
        Value::List(_) | Value::Table(_) | Value::Other(_) => true,
    });
    let problem = |(name, entry): (&String, &Entry)| {
        let message = "expected an address that begins with https:// or http://";
        Problem::at(&entry.node.origin, &format!("webhooks.{name}"), message)
    };
    wrong.map(problem).collect()
}

fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    !host.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Builds the user's own fingerprint rules, if there are any, and checks their examples.
fn fingerprints(settings: &Settings, tree: &Node) -> Result<Option<Arc<Rules>>, Vec<Problem>> {
    let own = &settings.fingerprint;
    if own.anchors.is_empty() && own.classes.is_empty() {
        return Ok(None);
    }
    let rows = Rows { anchors: own.anchors.clone(), classes: own.classes.clone() };
    let problem = |error: &RuleError| {
        let place = match error {
            RuleError::Anchor { id, .. } => {
                let number = own.anchors.iter().position(|row| row.id == *id);
                number.map(|number| format!("fingerprint.anchors.{number}"))
            }
            RuleError::Class { name, .. } => {
                let number = own.classes.iter().position(|row| row.name == *name);
                number.map(|number| format!("fingerprint.classes.{number}"))
            }
            RuleError::Table { .. } | RuleError::Automaton(_) => None,
        };
        let key = place.unwrap_or_else(|| "fingerprint".to_owned());
        let origin = tree.get(&key).map(|node| node.origin.clone());
        Problem { origin, key: Some(key), message: error.to_string() }
    };
    match Rules::with_user(&rows) {
        Ok(rules) => Ok(Some(Arc::new(rules))),
        Err(errors) => Err(errors.iter().map(problem).collect()),
    }
}
