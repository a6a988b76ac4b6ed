//! A message whose members stay as they were written, but for the few that have to change.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::envelope::MessageId;
use super::raw;

/// A message, member by member, in its own order.
#[derive(Clone, Debug)]
pub(super) struct RoutedMessage(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for RoutedMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RoutedMessage;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RoutedMessage, A::Error> {
                let mut members: Vec<(String, Box<RawValue>)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, _>()? {
                    // Of two, programs take the one or the other, and some take no heed of case.
                    if members.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
                        return Err(serde::de::Error::custom("a member stands there twice"));
                    }
                    members.push((name, value));
                }
                Ok(RoutedMessage(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl RoutedMessage {
    /// Reads a line; nothing if it is no object, or one that can be read in two ways.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// Returns a member as it is written.
    pub(super) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }

    /// Returns its id, if it has one that is not null.
    pub(super) fn id(&self) -> Option<MessageId> {
        let id = self.get("id")?.get();
        (id != "null").then(|| MessageId::from_json(id))
    }

    pub(super) fn method(&self) -> Option<String> {
        serde_json::from_str(self.get("method")?.get()).ok()
    }

    fn params(&self) -> Option<RoutedMessage> {
        serde_json::from_str(self.get("params")?.get()).ok()
    }

    /// Returns a text among its parameters; `/ref/name` is the member `name` of the member `ref`.
    pub(super) fn param(&self, pointer: &str) -> Option<String> {
        serde_json::from_str(&self.raw_param(pointer)?).ok()
    }

    /// Returns a parameter as it is written.
    pub(super) fn raw_param(&self, pointer: &str) -> Option<String> {
        let mut message = self.params()?;
        let mut parts = pointer.trim_start_matches('/').split('/').peekable();
        while let Some(part) = parts.next() {
            let value = message.get(part)?.get().to_owned();
            if parts.peek().is_none() {
                return Some(value);
            }
            message = serde_json::from_str(&value).ok()?;
        }
        None
    }

    /// Gives a member another value, as JSON.
    pub(super) fn set(&mut self, name: &str, json: &str) {
        let Ok(value) = RawValue::from_string(json.to_owned()) else { return };
        match self.0.iter_mut().find(|(own, _)| own == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Gives a parameter another text.
    pub(super) fn set_param(&mut self, pointer: &str, text: &str) {
        let value = raw(&Value::String(text.to_owned()));
        let parts: Vec<&str> = pointer.trim_start_matches('/').split('/').collect();
        self.set_within("params", &parts, value.get());
    }

    /// Gives a parameter another value, as JSON.
    pub(super) fn set_raw_param(&mut self, name: &str, json: &str) {
        self.set_within("params", &[name], json);
    }

    fn set_within(&mut self, member: &str, path: &[&str], json: &str) {
        let inner = self.get(member).map_or("{}", RawValue::get).to_owned();
        let Ok(mut inner) = serde_json::from_str::<RoutedMessage>(&inner) else { return };
        match path {
            [] => return,
            [last] => inner.set(last, json),
            [first, rest @ ..] => inner.set_within(first, rest, json),
        }
        let text = inner.text();
        self.set(member, &text);
    }

    fn text(&self) -> String {
        let members = self.0.iter().map(|(name, value)| {
            format!("{}:{}", raw(&Value::String(name.clone())).get(), value.get())
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    /// Returns it as a line.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = self.text().into_bytes();
        line.push(b'\n');
        line
    }
}
