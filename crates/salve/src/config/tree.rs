//! Settings as written: a tree of values, each knowing where it was written.
//!
//! TOML, JSON, the environment and flags all become this tree; layers are merged as trees, so
//! that a merged value still knows its own file, line and column.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A line and a column, both counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    pub line: u32,
    pub column: u32,
}

/// Which of the files a value was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The file shipped inside the program.
    Default,
    /// The user's own file.
    User,
    /// The project's file.
    Project,
}

/// The text of a settings file, kept to tell places in it.
#[derive(PartialEq, Eq)]
pub struct SettingsText {
    layer: Layer,
    name: String,
    text: String,
    lines: Vec<usize>,
}

impl SettingsText {
    /// Takes the text of the file that people know as `name`.
    pub fn new(layer: Layer, name: &str, text: &str) -> Arc<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        let ends = memchr::memchr_iter(b'\n', text.as_bytes()).map(|end| end + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        Arc::new(Self { layer, name: name.to_owned(), text, lines })
    }

    /// Returns the text, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn place(&self, offset: usize) -> TextPosition {
        let line = self.lines.partition_point(|&start| start <= offset).max(1);
        let before = self.text.get(self.lines[line - 1]..offset).unwrap_or_default();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        TextPosition { line: count(line), column: count(before.chars().count() + 1) }
    }
}

impl fmt::Debug for SettingsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueOrigin {
    /// In a file, at this byte.
    File(Arc<SettingsText>, usize),
    /// In an environment variable of this name.
    Variable(Arc<str>),
    /// On the command line, by this flag.
    Flag(Arc<str>),
    /// Nowhere: the stricter rule that holds while a change waits for a person.
    Held,
}

impl ValueOrigin {
    /// Returns the word for the layer, as `salve config show` prints it.
    pub fn layer(&self) -> &'static str {
        match self {
            ValueOrigin::File(file, _) => match file.layer {
                Layer::Default => "default",
                Layer::User => "user",
                Layer::Project => "project",
            },
            ValueOrigin::Variable(_) => "env",
            ValueOrigin::Flag(_) => "flag",
            ValueOrigin::Held => "held",
        }
    }

    /// Returns the name of the file, variable or flag.
    pub fn name(&self) -> &str {
        match self {
            ValueOrigin::File(file, _) => &file.name,
            ValueOrigin::Variable(name) | ValueOrigin::Flag(name) => name,
            ValueOrigin::Held => "until `salve config accept`",
        }
    }

    /// Returns the place in the file, if it is a file.
    pub fn place(&self) -> Option<TextPosition> {
        match self {
            ValueOrigin::File(file, offset) => Some(file.place(*offset)),
            ValueOrigin::Variable(_) | ValueOrigin::Flag(_) | ValueOrigin::Held => None,
        }
    }
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self.place() {
            Some(TextPosition { line, column }) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingNode {
    pub value: Value,
    /// Where it was written.
    pub origin: ValueOrigin,
}

/// What TOML and JSON have in common.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    Text(String),
    List(Vec<SettingNode>),
    /// Values by name.
    Table(SettingsTable),
    /// Something that no setting takes, such as a date or `null`, by its name.
    Other(&'static str),
}

/// Values by name.
pub type SettingsTable = BTreeMap<String, SettingEntry>;

/// A value under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingEntry {
    /// Where the name was written.
    pub key: ValueOrigin,
    /// The value.
    pub node: SettingNode,
}

impl Value {
    /// Returns the kind of value in words, with its article.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "true or false",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a fraction",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
            Value::Other(kind) => kind,
        }
    }

    /// Returns the value as JSON, without its origins.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Bool(b) => (*b).into(),
            Value::Integer(i) => (*i).into(),
            Value::Float(x) => (*x).into(),
            Value::Text(text) => text.clone().into(),
            Value::List(items) => items.iter().map(|node| node.value.to_json()).collect(),
            Value::Table(table) => {
                let pairs = table.iter().map(|(k, entry)| (k.clone(), entry.node.value.to_json()));
                serde_json::Value::Object(pairs.collect())
            }
            Value::Other(_) => serde_json::Value::Null,
        }
    }

    /// Returns JSON as a value, everything in it written at `origin`.
    pub fn from_json(json: &serde_json::Value, origin: &ValueOrigin) -> Self {
        let node =
            |json| SettingNode { value: Self::from_json(json, origin), origin: origin.clone() };
        match json {
            serde_json::Value::Null => Value::Other("null"),
            serde_json::Value::Bool(b) => Value::Bool(*b),
            serde_json::Value::Number(n) => match n.as_i64() {
                Some(i) => Value::Integer(i),
                None => Value::Float(n.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Value::Text(text.clone()),
            serde_json::Value::Array(items) => Value::List(items.iter().map(node).collect()),
            serde_json::Value::Object(map) => {
                let entry = |json| SettingEntry { key: origin.clone(), node: node(json) };
                Value::Table(map.iter().map(|(k, json)| (k.clone(), entry(json))).collect())
            }
        }
    }
}

impl SettingNode {
    /// Makes an empty table.
    pub fn empty(origin: ValueOrigin) -> Self {
        Self { value: Value::Table(SettingsTable::new()), origin }
    }

    /// Returns what stands at a dotted path; a list's items go by their number.
    pub fn get(&self, path: &str) -> Option<&SettingNode> {
        path.split('.').filter(|part| !part.is_empty()).try_fold(self, |node, part| {
            match &node.value {
                Value::Table(table) => table.get(part).map(|entry| &entry.node),
                Value::List(items) => items.get(part.parse::<usize>().ok()?),
                Value::Bool(_) | Value::Integer(_) | Value::Float(_) => None,
                Value::Text(_) | Value::Other(_) => None,
            }
        })
    }

    /// Puts `node` at a dotted path, making the tables on the way.
    pub fn set(&mut self, path: &str, node: SettingNode) {
        let (first, rest) = match path.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (path, None),
        };
        if !matches!(self.value, Value::Table(_)) {
            self.value = Value::Table(SettingsTable::new());
        }
        let Value::Table(table) = &mut self.value else { return };
        let origin = node.origin.clone();
        match rest {
            None => {
                table.insert(first.to_owned(), SettingEntry { key: origin, node });
            }
            Some(rest) => table
                .entry(first.to_owned())
                .or_insert_with(|| SettingEntry {
                    key: origin.clone(),
                    node: SettingNode::empty(origin),
                })
                .node
                .set(rest, node),
        }
    }

    /// Takes away what stands at a dotted path.
    pub fn remove(&mut self, path: &str) {
        let Value::Table(table) = &mut self.value else { return };
        match path.split_once('.') {
            None => drop(table.remove(path)),
            Some((first, rest)) => {
                if let Some(entry) = table.get_mut(first) {
                    entry.node.remove(rest);
                }
            }
        }
    }

    /// Lays `over` on top: tables are merged name by name, everything else is replaced.
    pub fn overlay(&mut self, over: SettingNode) {
        match (&mut self.value, over.value) {
            (Value::Table(below), Value::Table(above)) => {
                for (name, entry) in above {
                    match below.get_mut(&name) {
                        Some(known) => {
                            known.key = entry.key;
                            known.node.overlay(entry.node);
                        }
                        None => drop(below.insert(name, entry)),
                    }
                }
            }
            (below, above) => *below = above,
        }
        self.origin = over.origin;
    }
}
