//! The rules on what runs unattended, taken from settings and put back into them.

use salve_core::scrub::Scrubber;
use salve_core::widen::{BEARINGS, Bearing, RuleValue, UnattendedRules};

use super::schema::keys;
use super::tree::{SettingNode, Value, ValueOrigin};

/// How the scrubber's marks begin.
const MARK: &str = "[secret:";

/// Returns the rules in a tree, scrubbed as the journal keeps them.
pub(super) fn rules(tree: &SettingNode, scrubber: &Scrubber) -> UnattendedRules {
    let bearing = BEARINGS.iter().filter(|(_, bearing)| *bearing != Bearing::None);
    bearing.map(|(name, _)| ((*name).to_owned(), term(tree.get(name), scrubber))).collect()
}

fn term(node: Option<&SettingNode>, scrubber: &Scrubber) -> RuleValue {
    match node.map(|node| &node.value) {
        Some(Value::Bool(flag)) => RuleValue::Flag(*flag),
        Some(Value::Integer(number)) => RuleValue::Number(number.unsigned_abs()),
        Some(Value::Text(text)) => RuleValue::Word(scrubber.scrub(text)),
        Some(Value::List(items)) => {
            RuleValue::List(items.iter().map(|item| scrubber.scrub(&plain(&item.value))).collect())
        }
        Some(Value::Table(table)) => {
            let pair = |(name, value): (&String, &Value)| pair(name, value);
            let entries = table.iter().map(|(name, entry)| pair((name, &entry.node.value)));
            RuleValue::List(entries.map(|text| scrubber.scrub(&text)).collect())
        }
        Some(Value::Float(_) | Value::Other(_)) | None => RuleValue::Unset,
    }
}

fn pair(name: &str, value: &Value) -> String {
    format!("{name} = {}", plain(value))
}

fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => value.to_json().to_string(),
        Value::List(_) | Value::Table(_) | Value::Other(_) => value.to_json().to_string(),
    }
}

/// Makes the settings in `tree` as strict as `strict`, which came from comparing them.
pub(super) fn tighten_to(tree: &mut SettingNode, strict: &UnattendedRules, scrubber: &Scrubber) {
    for (name, wanted) in strict {
        let found = tree.get(name);
        if term(found, scrubber) == *wanted {
            continue;
        }
        match (wanted, found.map(|node| node.value.clone())) {
            (RuleValue::Unset, _) => tree.remove(name),
            (RuleValue::List(entries), Some(Value::Table(mut table))) => {
                table.retain(|name, entry| {
                    entries.contains(&scrubber.scrub(&pair(name, &entry.node.value)))
                });
                tree.set(name, held(Value::Table(table)));
            }
            (RuleValue::List(entries), found) => {
                let mut items = match found {
                    Some(Value::List(items)) => items,
                    Some(_) | None => Vec::new(),
                };
                items.retain(|item| entries.contains(&scrubber.scrub(&plain(&item.value))));
                let present: Vec<_> = items.iter().map(|item| plain(&item.value)).collect();
                let present: Vec<_> = present.iter().map(|text| scrubber.scrub(text)).collect();
                let lost = entries.iter().filter(|entry| !present.contains(entry));
                // What the journal keeps of an entry with a secret in it matches nothing any
                // more; the only entry that surely covers it is the one that covers everything.
                items.extend(lost.map(|entry| {
                    if entry.as_str().contains(MARK) {
                        held(Value::Text("*".into()))
                    } else {
                        held(Value::Text(entry.as_str().to_owned()))
                    }
                }));
                tree.set(name, held(Value::List(items)));
            }
            (RuleValue::Flag(flag), _) => tree.set(name, held(Value::Bool(*flag))),
            (RuleValue::Number(number), _) => {
                let number = i64::try_from(*number).unwrap_or(i64::MAX);
                tree.set(name, held(Value::Integer(number)));
            }
            (RuleValue::Word(word), _) => {
                tree.set(name, held(Value::Text(word.as_str().to_owned())));
            }
        }
    }
}

fn held(value: Value) -> SettingNode {
    SettingNode { value, origin: ValueOrigin::Held }
}

/// Returns what differs between two trees, one line for each setting or entry.
pub(super) fn changes(old: &SettingNode, new: &SettingNode) -> Vec<String> {
    let mut lines = Vec::new();
    for key in keys() {
        let value = |tree: &SettingNode| tree.get(key.name).map(|node| node.value.to_json());
        let (old, new) = (value(old), value(new));
        if old == new {
            continue;
        }
        match (&old, &new) {
            (Some(serde_json::Value::Array(old)), Some(serde_json::Value::Array(new))) => {
                let added = new.iter().filter(|entry| !old.contains(entry));
                let removed = old.iter().filter(|entry| !new.contains(entry));
                let before = lines.len();
                lines.extend(removed.map(|entry| format!("{}: removed {entry}", key.name)));
                lines.extend(added.map(|entry| format!("{}: added {entry}", key.name)));
                if lines.len() == before {
                    lines.push(format!("{}: in another order", key.name));
                }
            }
            (_, _) => {
                let shown = |value: &Option<serde_json::Value>| match value {
                    Some(value) => value.to_string(),
                    None => "not set".to_owned(),
                };
                lines.push(format!("{}: {} → {}", key.name, shown(&old), shown(&new)));
            }
        }
    }
    lines
}
