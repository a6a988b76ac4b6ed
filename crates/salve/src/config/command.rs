//! A command in the settings: a line for the shell, or a program and its arguments.

use std::ffi::OsString;
use std::fmt;

use salve_core::playbook::quoted;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A command as it is written in the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// A line that the shell reads.
    Line(String),
    /// A program and its arguments, taken as they are.
    Words(Vec<String>),
    /// A program and its arguments as somebody typed them, which need not be text; no settings hold
    /// them.
    Typed(Vec<OsString>),
}

impl CommandLine {
    /// Returns the program and its arguments.
    pub fn argv(&self) -> Vec<OsString> {
        match self {
            // `exec` leaves no shell between Salve and the server, where the line is one command;
            // shells do this by themselves for the last command, so nothing is added here.
            Self::Line(line) => ["sh", "-c", line].map(OsString::from).to_vec(),
            Self::Words(words) => words.iter().map(OsString::from).collect(),
            Self::Typed(words) => words.clone(),
        }
    }

    /// Returns whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Line(line) => line.trim().is_empty(),
            Self::Words(words) => words.first().is_none_or(|program| program.trim().is_empty()),
            Self::Typed(words) => words.first().is_none_or(|program| program.is_empty()),
        }
    }
}

impl Default for CommandLine {
    fn default() -> Self {
        Self::Words(Vec::new())
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => f.write_str(line),
            // As it can be pasted: a word with a space in it is one word there too.
            Self::Words(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                f.write_str(&words.join(" "))
            }
            Self::Typed(words) => {
                let words = words.iter().map(|word| quoted(&word.to_string_lossy()));
                f.write_str(&words.collect::<Vec<_>>().join(" "))
            }
        }
    }
}

impl Serialize for CommandLine {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Line(line) => line.serialize(to),
            Self::Words(words) => words.serialize(to),
            Self::Typed(words) => to.collect_seq(words.iter().map(|word| word.to_string_lossy())),
        }
    }
}

impl<'de> Deserialize<'de> for CommandLine {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = CommandLine;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a list of text")
            }

            fn visit_str<E: Error>(self, line: &str) -> Result<CommandLine, E> {
                Ok(CommandLine::Line(line.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<CommandLine, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                Ok(CommandLine::Words(words))
            }
        }
        from.deserialize_any(Either)
    }
}

impl JsonSchema for CommandLine {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CommandLine".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "array"], "items": { "type": "string" } })
    }
}
