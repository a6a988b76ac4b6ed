//! Puts Salve into the text of a settings file, or takes it out.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::{ARGUMENTS, NAME, Wish};

/// How a client's file is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientFileShape {
    /// JSON, maybe with comments: the name of the object of servers, and whether each says its
    /// type.
    Json { list: &'static str, typed: bool },
    /// TOML with a table of servers.
    Toml,
    /// opencode's JSON, in which the program and its arguments are one list.
    Opencode,
}

/// The table of servers in Codex's file.
pub(super) const TOML_LIST: &str = "mcp_servers";

/// Returns the text with the wish fulfilled, or what is wrong with it.
pub(super) fn edit(
    shape: ClientFileShape,
    text: &str,
    wish: Wish,
    program: &str,
) -> Result<String, String> {
    match shape {
        ClientFileShape::Json { list, typed } => {
            edit_json(text, list, typed_entry(typed, program), wish)
        }
        ClientFileShape::Opencode => edit_json(text, "mcp", opencode_entry(program), wish),
        ClientFileShape::Toml => edit_toml(text, wish, program),
    }
}

/// Returns the program that is started for Salve, if Salve is registered in the text.
pub(super) fn program_of(shape: ClientFileShape, text: &str) -> Result<Option<String>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let list = match shape {
        ClientFileShape::Json { list, .. } => list,
        ClientFileShape::Opencode => "mcp",
        ClientFileShape::Toml => {
            let document: DocumentMut = text.parse().map_err(|error| toml_mistake(text, &error))?;
            let entry = document.get(TOML_LIST).and_then(|servers| servers.get(NAME));
            let command = entry.and_then(|entry| entry.get("command")?.as_str());
            return Ok(command.map(str::to_owned));
        }
    };
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = CstRootNode::parse(body, &ParseOptions::default()).map_err(|e| e.to_string())?;
    let servers = root.object_value().and_then(|object| object.object_value(list));
    let Some(entry) = servers.and_then(|servers| servers.object_value(NAME)) else {
        return Ok(None);
    };
    // opencode has the program and its arguments in one list.
    let command = match entry.array_value("command") {
        Some(words) => words.elements().into_iter().next(),
        None => entry.get("command").and_then(|property| property.value()),
    };
    Ok(command.and_then(|word| word.as_string_lit()?.decoded_value().ok()))
}

fn opencode_entry(program: &str) -> CstInputValue {
    let words = [program].into_iter().chain(ARGUMENTS).map(Into::into).collect();
    CstInputValue::Object(vec![
        ("type".to_owned(), "local".into()),
        ("command".to_owned(), CstInputValue::Array(words)),
        ("enabled".to_owned(), true.into()),
    ])
}

fn typed_entry(typed: bool, program: &str) -> CstInputValue {
    let args = CstInputValue::Array(ARGUMENTS.iter().map(|arg| (*arg).into()).collect());
    let rest = [("command".to_owned(), program.into()), ("args".to_owned(), args)];
    let kind = typed.then(|| ("type".to_owned(), "stdio".into()));
    CstInputValue::Object(kind.into_iter().chain(rest).collect())
}

fn edit_json(text: &str, list: &str, entry: CstInputValue, wish: Wish) -> Result<String, String> {
    if text.trim().is_empty() {
        return Ok(match wish {
            Wish::Add => fresh(list, entry),
            Wish::Remove => text.to_owned(),
        });
    }
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let root = CstRootNode::parse(body, &ParseOptions::default()).map_err(|e| e.to_string())?;
    let object = root.object_value().ok_or("expected a JSON object")?;
    let once = |object: &CstObject, name: &str| {
        let named = |known: &Option<String>| known.as_deref() == Some(name);
        let names = object.properties().into_iter().map(|property| property.decoded_name());
        match names.filter(named).count() {
            0 | 1 => Ok(()),
            _ => Err(format!("`{name}` stands there twice")),
        }
    };
    once(&object, list)?;
    match (object.get(list), wish) {
        (Some(found), wish) => {
            let servers = found.object_value().ok_or(format!("`{list}` is not an object"))?;
            once(&servers, NAME)?;
            match (servers.get(NAME), wish) {
                (Some(_), Wish::Add) | (None, Wish::Remove) => return Ok(text.to_owned()),
                (None, Wish::Add) => drop(servers.append(NAME, entry)),
                (Some(salve), Wish::Remove) => {
                    salve.remove();
                    if servers.properties().is_empty() {
                        found.remove();
                    }
                    // A file that holds nothing else is one that was made for this.
                    if object.properties().is_empty() && !body.contains("//") {
                        return Ok(String::new());
                    }
                }
            }
        }
        (None, Wish::Add) => drop(object.append(list, named(entry))),
        (None, Wish::Remove) => return Ok(text.to_owned()),
    }
    Ok(format!("{mark}{root}"))
}

/// Returns an object with this entry alone.
fn named(entry: CstInputValue) -> CstInputValue {
    CstInputValue::Object(vec![(NAME.to_owned(), entry)])
}

/// Returns a new file.
fn fresh(list: &str, entry: CstInputValue) -> String {
    let Ok(root) = CstRootNode::parse("{}\n", &ParseOptions::default()) else {
        return String::new();
    };
    root.object_value_or_set().append(list, named(entry));
    root.to_string()
}

fn edit_toml(text: &str, wish: Wish, program: &str) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| toml_mistake(text, &error))?;
    let servers = match document.get(TOML_LIST) {
        Some(item) if item.is_table_like() => Some(item),
        Some(_) => return Err(format!("`{TOML_LIST}` is not a table")),
        None => None,
    };
    let present = servers.is_some_and(|servers| servers.get(NAME).is_some());
    match (present, wish) {
        (true, Wish::Add) | (false, Wish::Remove) => return Ok(text.to_owned()),
        (true, Wish::Remove) => {
            if let Some(servers) = document.get_mut(TOML_LIST).and_then(Item::as_table_like_mut) {
                servers.remove(NAME);
            }
            let is_empty =
                document.get(TOML_LIST).and_then(Item::as_table_like).is_some_and(|t| t.is_empty());
            if is_empty {
                document.remove(TOML_LIST);
            }
        }
        (false, Wish::Add) => add_toml(&mut document, program),
    }
    Ok(document.to_string())
}

/// Says what is wrong with a file, and in which line.
pub(super) fn toml_mistake(text: &str, error: &toml_edit::TomlError) -> String {
    let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
    format!("line {}: {}", before.matches('\n').count() + 1, error.message())
}

fn add_toml(document: &mut DocumentMut, program: &str) {
    let args: Array = ARGUMENTS.into_iter().collect();
    let is_empty = document.as_table().is_empty();
    let mut entry = Table::new();
    entry.insert("command", value(program));
    entry.insert("args", value(args));
    entry.decor_mut().set_prefix(if is_empty { "" } else { "\n" });
    let servers = document.entry(TOML_LIST).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    match servers {
        Item::Table(servers) => drop(servers.insert(NAME, Item::Table(entry))),
        other => {
            if let Some(servers) = other.as_table_like_mut() {
                servers.insert(NAME, value(entry.into_inline_table()));
            }
        }
    }
}
