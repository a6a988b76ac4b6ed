//! Registers Salve's hooks in the settings of agents that have such.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};

use super::{Client, Places, RegisterError, RegistrationPlan, RegistrationScope, Wish};

/// What of Salve the hooks run.
const HOOK: &str = " hook claude";
/// The events, and the tools that each is for.
const EVENTS: [(&str, &str); 3] = [
    ("PreToolUse", "Bash|mcp__.*"),
    ("PostToolUse", "mcp__.*"),
    ("PostToolUseFailure", "Bash|mcp__.*"),
];

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
    let new = edit(text, wish, &command(&places.program))
        .map_err(|why| RegisterError::Malformed { path: path.clone(), why })?;
    Ok(Some(RegistrationPlan { path, old, new, backups: places.backups.clone() }))
}

/// Returns the command of the hooks, which a shell reads.
fn command(program: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    if program.chars().all(is_plain) {
        format!("{program}{HOOK}")
    } else {
        format!("'{}'{HOOK}", program.replace('\'', r"'\''"))
    }
}

fn edit(text: &str, wish: Wish, command: &str) -> Result<String, String> {
    let body = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(body, &ParseOptions::default()).map_err(|e| e.to_string())?;
    let object = root.object_value().ok_or("expected a JSON object")?;
    match wish {
        Wish::Add => add(&object, command)?,
        Wish::Remove => remove(&object),
    }
    // A file that holds nothing else was made for this.
    let is_bare = object.properties().is_empty() && !body.contains("//");
    Ok(if is_bare && wish == Wish::Remove { String::new() } else { root.to_string() })
}

fn add(object: &CstObject, command: &str) -> Result<(), String> {
    let hooks = object.object_value_or_create("hooks").ok_or("`hooks` is not an object")?;
    for (event, matcher) in EVENTS {
        let list = hooks.array_value_or_create(event);
        let list = list.ok_or_else(|| format!("`{event}` is not a list"))?;
        let is_as_wanted = |own: &CstNode| {
            text_of(own, "matcher").as_deref() == Some(matcher)
                && commands_of(own).iter().all(|run| run.as_deref() == Some(command))
        };
        let own: Vec<CstNode> = list.elements().into_iter().filter(is_ours).collect();
        if own.len() == 1 && own.iter().all(is_as_wanted) {
            continue;
        }
        // An earlier Salve, or one in another place, asked for something else.
        own.into_iter().for_each(|entry| entry.remove());
        list.append(entry(matcher, command));
    }
    Ok(())
}

fn entry(matcher: &str, command: &str) -> CstInputValue {
    let text = |name: &str, value: &str| (name.to_owned(), value.into());
    let hook = CstInputValue::Object(vec![text("type", "command"), text("command", command)]);
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
    let is_salve = |command: &Option<String>| {
        let program = command.as_deref().and_then(|command| command.strip_suffix(HOOK));
        let name = program.and_then(|program| program.trim_matches('\'').rsplit('/').next());
        name == Some("salve")
    };
    let commands = commands_of(entry);
    !commands.is_empty() && commands.iter().all(is_salve)
}

/// Returns what an entry runs.
fn commands_of(entry: &CstNode) -> Vec<Option<String>> {
    let hooks: Option<CstArray> = entry.as_object().and_then(|entry| entry.array_value("hooks"));
    let hooks = hooks.map(|hooks| hooks.elements()).unwrap_or_default();
    hooks.iter().map(|hook| text_of(hook, "command")).collect()
}

/// Returns the text that an object has under a key.
fn text_of(object: &CstNode, key: &str) -> Option<String> {
    object.as_object()?.get(key)?.value()?.as_string_lit()?.decoded_value().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const COMMAND: &str = "salve hook claude";
    const THEIRS: &str = "{\n  // mine\n  \"model\": \"opus\",\n  \"hooks\": {\n    \"PreToolUse\": [\n      \
        {\"matcher\": \"Write\", \"hooks\": [{\"type\": \"command\", \"command\": \"fmt\"}]}\n    ]\n  }\n}\n";

    #[test]
    fn hooks_are_added_once_and_taken_out_again_and_the_users_own_stay() {
        for text in ["", "{}\n", THEIRS] {
            let added = edit(text, Wish::Add, COMMAND).unwrap();
            assert_eq!(added.matches(COMMAND).count(), 3, "{added}");
            assert_eq!(edit(&added, Wish::Add, COMMAND).unwrap(), added, "twice is once");
            let removed = edit(&added, Wish::Remove, COMMAND).unwrap();
            assert!(!removed.contains("salve"), "{removed}");
            assert_eq!(removed.contains("\"fmt\""), text == THEIRS, "{removed}");
            assert_eq!(removed.contains("// mine"), text == THEIRS, "{removed}");
        }
        let value: Value = serde_json::from_str(&edit("", Wish::Add, COMMAND).unwrap()).unwrap();
        assert_eq!(value["hooks"]["PreToolUse"][0]["matcher"], "Bash|mcp__.*");
        assert_eq!(value["hooks"]["PostToolUseFailure"][0]["hooks"][0]["command"], COMMAND);
        assert!(edit("[]", Wish::Add, COMMAND).is_err());
    }

    #[test]
    fn what_an_earlier_salve_registered_is_brought_up_to_date() {
        let early = edit("", Wish::Add, COMMAND).unwrap().replacen("Bash|mcp__.*", "Bash", 1);
        assert_eq!(edit(&early, Wish::Add, COMMAND).unwrap().matches("Bash|mcp__.*").count(), 2);
        let elsewhere = command("/opt/my tools/salve");
        assert_eq!(elsewhere, "'/opt/my tools/salve' hook claude");
        let moved = edit(&early, Wish::Add, &elsewhere).unwrap();
        assert_eq!(moved.matches(HOOK).count(), 3, "{moved}");
        assert!(!moved.contains(COMMAND), "{moved}");
        assert!(!edit(&moved, Wish::Remove, COMMAND).unwrap().contains("salve"), "{moved}");
    }
}
