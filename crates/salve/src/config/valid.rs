//! Makes the typed settings from a merged tree that fits the schema.

use serde::Deserialize;

use super::problem::Problem;
use super::settings::Settings;
use super::tree::Node;

/// Returns the typed settings and what is odd about them.
pub(super) fn settings(tree: &Node) -> Result<(Settings, Vec<Problem>), Vec<Problem>> {
    let settings = match Settings::deserialize(tree.value.to_json()) {
        Ok(settings) => settings,
        Err(error) => {
            let message = error.to_string();
            return Err(vec![Problem { origin: None, key: None, message }]);
        }
    };
    let problems = addresses(tree);
    if problems.is_empty() { Ok((settings, Vec::new())) } else { Err(problems) }
}

/// Returns what is wrong with the webhooks' addresses.
fn addresses(tree: &Node) -> Vec<Problem> {
    use super::tree::Value;
    let Some(Node { value: Value::Table(hooks), .. }) = tree.get("webhooks") else {
        return Vec::new();
    };
    let wrong = hooks.iter().filter(|(_, entry)| match &entry.node.value {
        Value::Text(address) => !is_address(address),
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => true,
        Value::List(_) | Value::Table(_) | Value::Other(_) => true,
    });
    let problem = |(name, entry): (&String, &super::tree::Entry)| {
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
