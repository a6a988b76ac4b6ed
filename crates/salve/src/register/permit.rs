//! Lets clients use Salve's tools without asking, where their settings can say so.
//!
//! Whether a folder is trusted and a project's servers are approved is never written here: clients keep
//! that for their own questions.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstNode, CstObject, CstRootNode};
use toml_edit::{DocumentMut, Item, value};

use super::edit::{TOML_LIST, toml_mistake};
use super::{Client, NAME, Places, RegisterError, RegistrationPlan, RegistrationScope, Wish};

/// What Claude Code calls all tools of the server.
const TOOLS: &str = "mcp__salve";
/// How Codex is told not to ask.
const APPROVAL: (&str, &str) = ("default_tools_approval_mode", "approve");

/// Returns how a client's settings have to change so that it uses the tools unasked, or asks again; nothing
/// for one that never asks, cannot be told, or has no entry yet. What stands in the server's own entry goes
/// with that.
pub fn plan_permission(
    client: Client,
    scope: RegistrationScope,
    places: &Places,
    wish: Wish,
) -> Result<Option<RegistrationPlan>, RegisterError> {
    let path = match (client, wish) {
        (Client::Claude, _) => claude_settings(scope, places)?,
        (Client::Codex | Client::Gemini, Wish::Add) => client.file(scope, places)?,
        (Client::Codex | Client::Gemini, Wish::Remove)
        | (Client::Cursor | Client::Vscode | Client::Opencode, _) => return Ok(None),
    };
    let path = path.canonicalize().unwrap_or(path);
    let old = super::read(&path)?;
    let text = old.as_deref().unwrap_or_default();
    let new = match client {
        Client::Claude => edit_allowed(text, wish),
        Client::Codex => approve_toml(text),
        Client::Gemini | Client::Cursor | Client::Vscode | Client::Opencode => trust_json(text),
    };
    let new = new.map_err(|why| RegisterError::Malformed { path: path.clone(), why })?;
    let backups = places.backups.clone();
    Ok(Some(RegistrationPlan { path, old, new, backups }).filter(|plan| !plan.is_done()))
}

/// Returns the settings that are the user's own, also in a project.
fn claude_settings(
    scope: RegistrationScope,
    places: &Places,
) -> Result<std::path::PathBuf, RegisterError> {
    Ok(match scope {
        RegistrationScope::Project => places.project.join(".claude/settings.local.json"),
        RegistrationScope::User => places.claude_dir()?.join("settings.json"),
    })
}

fn edit_allowed(text: &str, wish: Wish) -> Result<String, String> {
    if text.trim().is_empty() && wish == Wish::Remove {
        return Ok(text.to_owned());
    }
    let body = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(body, &ParseOptions::default()).map_err(|e| e.to_string())?;
    let object = root.object_value().ok_or("expected a JSON object")?;
    match wish {
        Wish::Add => {
            let rules = object.object_value_or_create("permissions");
            let rules = rules.ok_or("`permissions` is not an object")?;
            let allowed = rules.array_value_or_create("allow").ok_or("`allow` is not a list")?;
            if !allowed.elements().iter().any(names_tools) {
                allowed.append(TOOLS.into());
            }
        }
        Wish::Remove => take_out(&object),
    }
    let is_bare = object.properties().is_empty() && !body.contains("//");
    Ok(if is_bare && wish == Wish::Remove { String::new() } else { root.to_string() })
}

/// Takes the tools out of what is allowed, and what held nothing but them.
fn take_out(object: &CstObject) {
    let Some(rules) = object.object_value("permissions") else { return };
    let Some(allowed) = rules.array_value("allow") else { return };
    let own: Vec<CstNode> = allowed.elements().into_iter().filter(names_tools).collect();
    if own.is_empty() {
        return;
    }
    own.into_iter().for_each(|entry| entry.remove());
    if allowed.elements().is_empty()
        && let Some(property) = rules.get("allow")
    {
        property.remove();
    }
    if rules.properties().is_empty()
        && let Some(property) = object.get("permissions")
    {
        property.remove();
    }
}

fn names_tools(entry: &CstNode) -> bool {
    let text = entry.as_string_lit().and_then(|text| text.decoded_value().ok());
    text.as_deref() == Some(TOOLS)
}

fn trust_json(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Ok(text.to_owned());
    }
    let root = CstRootNode::parse(text, &ParseOptions::default()).map_err(|e| e.to_string())?;
    let entry = root
        .object_value()
        .and_then(|object| object.object_value("mcpServers"))
        .and_then(|servers| servers.object_value(NAME));
    match entry {
        Some(entry) if entry.get("trust").is_none() => {
            entry.append("trust", true.into());
            Ok(root.to_string())
        }
        Some(_) | None => Ok(text.to_owned()),
    }
}

fn approve_toml(text: &str) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| toml_mistake(text, &error))?;
    let entry = document
        .get_mut(TOML_LIST)
        .and_then(Item::as_table_like_mut)
        .and_then(|servers| servers.get_mut(NAME))
        .and_then(Item::as_table_like_mut);
    let (name, mode) = APPROVAL;
    if let Some(entry) = entry.filter(|entry| !entry.contains_key(name)) {
        entry.insert(name, value(mode));
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claude_is_allowed_once_and_all_of_it_goes_again() {
        let theirs = "{\n  // mine\n  \"permissions\": {\n    \"allow\": [\"Bash(ls)\"]\n  }\n}\n";
        for text in ["", "{}\n", theirs] {
            let added = edit_allowed(text, Wish::Add).unwrap();
            assert_eq!(added.matches(TOOLS).count(), 1, "{added}");
            assert_eq!(edit_allowed(&added, Wish::Add).unwrap(), added, "twice is once");
            let removed = edit_allowed(&added, Wish::Remove).unwrap();
            if text == theirs {
                assert!(removed.contains("// mine") && removed.contains("Bash(ls)"), "{removed}");
                assert!(!removed.contains(TOOLS), "{removed}");
            } else {
                assert_eq!(removed, "", "nothing is left behind");
            }
        }
        assert!(edit_allowed("[]", Wish::Add).is_err());
        assert_eq!(edit_allowed(theirs, Wish::Remove).unwrap(), theirs);
    }

    #[test]
    fn what_stands_in_the_entry_itself_is_written_only_where_there_is_one() {
        let json = "{\"mcpServers\": {\"salve\": {\"command\": \"salve\"}}}";
        let trusted = trust_json(json).unwrap();
        assert!(trusted.contains("\"trust\": true"), "{trusted}");
        assert_eq!(trust_json(&trusted).unwrap(), trusted);
        assert_eq!(trust_json("{}").unwrap(), "{}");
        let toml = "[mcp_servers.salve]\ncommand = \"salve\"\n";
        let approved = approve_toml(toml).unwrap();
        assert_eq!(approved, format!("{toml}default_tools_approval_mode = \"approve\"\n"));
        assert_eq!(approve_toml(&approved).unwrap(), approved);
        assert_eq!(approve_toml("model = \"x\"\n").unwrap(), "model = \"x\"\n");
    }
}
