//! Registers Salve's hooks in the settings of agents that have such.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};

use super::{Client, Places, RegisterError, RegistrationPlan, RegistrationScope, Wish};

/// What the hooks run.
const COMMAND: &str = "salve hook claude";
/// The events, and the tools that each is for.
const EVENTS: [(&str, &str); 3] =
    [("PreToolUse", "Bash"), ("PostToolUse", "mcp__.*"), ("PostToolUseFailure", "Bash|mcp__.*")];

/// Returns how a client's settings have to change; nothing for a client without hooks.
pub fn plan_hooks(
    client: Client,
    scope: RegistrationScope,
    places: &Places,
    wish: Wish,
) -> Result<Option<RegistrationPlan>, RegisterError> {
    if client != Client::Claude {
        return Ok(None);
    }
    let dir = match scope {
        RegistrationScope::Project => places.project.join(".claude"),
        RegistrationScope::User => places.claude_dir()?,
    };
    let path = dir.join("settings.json");
    let path = path.canonicalize().unwrap_or(path);
    let old = super::read(&path)?;
    let text = old.as_deref().unwrap_or_default();
    if text.trim().is_empty() && wish == Wish::Remove {
        return Ok(None);
    }
    let new =
        edit(text, wish).map_err(|why| RegisterError::Malformed { path: path.clone(), why })?;
    Ok(Some(RegistrationPlan { path, old, new, backups: places.backups.clone() }))
}

fn edit(text: &str, wish: Wish) -> Result<String, String> {
    let body = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(body, &ParseOptions::default()).map_err(|e| e.to_string())?;
    let object = root.object_value().ok_or("expected a JSON object")?;
    match wish {
        Wish::Add => add(&object)?,
        Wish::Remove => remove(&object),
    }
    // A file that holds nothing else was made for this.
    let is_bare = object.properties().is_empty() && !body.contains("//");
    Ok(if is_bare && wish == Wish::Remove { String::new() } else { root.to_string() })
}

fn add(object: &CstObject) -> Result<(), String> {
    let hooks = object.object_value_or_create("hooks").ok_or("`hooks` is not an object")?;
    for (event, matcher) in EVENTS {
        let list = hooks.array_value_or_create(event);
        let list = list.ok_or_else(|| format!("`{event}` is not a list"))?;
        if !list.elements().iter().any(is_ours) {
            list.append(entry(matcher));
        }
    }
    Ok(())
}

fn entry(matcher: &str) -> CstInputValue {
    let text = |name: &str, value: &str| (name.to_owned(), value.into());
    let hook = CstInputValue::Object(vec![text("type", "command"), text("command", COMMAND)]);
    let hooks = ("hooks".to_owned(), CstInputValue::Array(vec![hook]));
    CstInputValue::Object(vec![text("matcher", matcher), hooks])
}

/// Takes out our own entries, and what held nothing but them.
fn remove(object: &CstObject) {
    let Some(hooks) = object.object_value("hooks") else { return };
    for (event, _) in EVENTS {
        let Some(list) = hooks.array_value(event) else { continue };
        list.elements().into_iter().filter(is_ours).for_each(|entry| entry.remove());
        if list.elements().is_empty()
            && let Some(property) = hooks.get(event)
        {
            property.remove();
        }
    }
    if hooks.properties().is_empty()
        && let Some(property) = object.get("hooks")
    {
        property.remove();
    }
}

/// Returns whether an entry runs our hook and no other.
fn is_ours(entry: &CstNode) -> bool {
    let hooks: Option<CstArray> = entry.as_object().and_then(|entry| entry.array_value("hooks"));
    let hooks = hooks.map(|hooks| hooks.elements()).unwrap_or_default();
    let runs_salve = |hook: &CstNode| {
        let command = hook.as_object().and_then(|hook| hook.get("command")?.value());
        let command = command.and_then(|command| command.as_string_lit()?.decoded_value().ok());
        command.as_deref() == Some(COMMAND)
    };
    !hooks.is_empty() && hooks.iter().all(runs_salve)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: &str = "{\n  // mine\n  \"model\": \"opus\",\n  \"hooks\": {\n    \"PreToolUse\": [\n      \
        {\"matcher\": \"Write\", \"hooks\": [{\"type\": \"command\", \"command\": \"fmt\"}]}\n    ]\n  }\n}\n";

    #[test]
    fn hooks_are_added_once_and_taken_out_again_and_the_users_own_stay() {
        for text in ["", "{}\n", THEIRS] {
            let added = edit(text, Wish::Add).unwrap();
            assert_eq!(added.matches(COMMAND).count(), 3, "{added}");
            assert_eq!(edit(&added, Wish::Add).unwrap(), added, "twice is once");
            let removed = edit(&added, Wish::Remove).unwrap();
            assert!(!removed.contains("salve"), "{removed}");
            assert_eq!(removed.contains("\"fmt\""), text == THEIRS, "{removed}");
            assert_eq!(removed.contains("// mine"), text == THEIRS, "{removed}");
        }
        let value: serde_json::Value = serde_json::from_str(&edit("", Wish::Add).unwrap()).unwrap();
        assert_eq!(value["hooks"]["PreToolUse"][0]["matcher"], "Bash");
        assert_eq!(value["hooks"]["PostToolUseFailure"][0]["hooks"][0]["command"], COMMAND);
        assert!(edit("[]", Wish::Add).is_err());
    }
}
