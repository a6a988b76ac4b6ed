//! What a message says in the headers of its request besides, where a server is reached by HTTP.
//!
//! Since 2026-07-28 the protocol wants a request's method, what it is about, and the arguments that
//! a tool names with `x-mcp-header` in headers too, and a server refuses a request whose headers and
//! body do not agree. A client that speaks over a pipe sends none, so the bridge reads them from the
//! message.

use std::collections::{BTreeSet, HashMap};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

/// By which member of its parameters a request says what it is about.
const NAMED_BY: [(&str, &str); 3] =
    [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")];
/// The name under which a request of the newer protocol says its version.
const VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
/// What stands before and after a value that is written in base 64.
const WRAPPED: [&str; 2] = ["=?base64?", "?="];
/// By which word a tool's schema names the header of an argument.
const ANNOTATION: &str = "x-mcp-header";
/// With what the header of an argument begins.
const ARGUMENT: &str = "mcp-param-";
/// Signs that a header's name may have besides letters and digits.
const TOKEN_SIGNS: &str = "!#$%&'*+-.^_`|~";

/// One header of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    pub name: String,
    pub value: String,
}

/// Which arguments of which tools are told in headers.
#[derive(Clone, Debug, Default)]
pub struct ArgumentHeaders {
    tools: HashMap<String, Vec<ArgumentHeader>>,
}

/// An argument that is told in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ArgumentHeader {
    /// Where it is, by the names of the objects around it.
    path: Vec<String>,
    name: String,
}

/// Returns which version of the protocol a message says it is of; only newer ones say so.
pub fn version_of(message: &Value) -> Option<&str> {
    message.pointer(VERSION).and_then(Value::as_str)
}

/// Returns the headers that any request has which is made of this message.
pub fn headers_of(message: &Value) -> Vec<MessageHeader> {
    let Some(method) = message.get("method").and_then(Value::as_str) else { return Vec::new() };
    let member = NAMED_BY.iter().find(|(named, _)| *named == method).map(|(_, member)| *member);
    let about = member.and_then(|member| message.get("params")?.get(member)?.as_str());
    let header = |name: &str, value: &str| MessageHeader {
        name: name.to_owned(),
        value: header_value(value),
    };
    let method = Some(header("mcp-method", method));
    method.into_iter().chain(about.map(|about| header("mcp-name", about))).collect()
}

/// Returns a text as a header can hold it.
fn header_value(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text == text.trim();
    let [before, after] = WRAPPED;
    let looks_wrapped = text.starts_with(before) && text.ends_with(after);
    if is_plain && !looks_wrapped {
        return text.to_owned();
    }
    format!("{before}{}{after}", BASE64_STANDARD.encode(text))
}

impl ArgumentHeaders {
    /// Takes in an answer to `tools/list`.
    pub fn listed(&mut self, answer: &Value) {
        let tools = answer.pointer("/result/tools").and_then(Value::as_array);
        for tool in tools.into_iter().flatten() {
            let Some(name) = tool.get("name").and_then(Value::as_str) else { continue };
            let mut found = Vec::new();
            let schema = tool.get("inputSchema");
            let is_sound = schema.is_none_or(|schema| find(schema, &mut Vec::new(), &mut found));
            let mut seen = BTreeSet::new();
            let is_sound =
                is_sound && found.iter().all(|one| seen.insert(one.name.to_ascii_lowercase()));
            if found.is_empty() || !is_sound {
                self.tools.remove(name);
            } else {
                self.tools.insert(name.to_owned(), found);
            }
        }
    }

    /// Returns the headers of a call besides those of any message.
    pub fn of_call(&self, message: &Value) -> Vec<MessageHeader> {
        if message.get("method").and_then(Value::as_str) != Some("tools/call") {
            return Vec::new();
        }
        let tool = message.pointer("/params/name").and_then(Value::as_str);
        let told = tool.and_then(|tool| self.tools.get(tool));
        let arguments = message.pointer("/params/arguments").unwrap_or(&Value::Null);
        let header = |told: &ArgumentHeader| {
            let value = told.path.iter().try_fold(arguments, |value, name| value.get(name))?;
            let value = header_value(&written(value)?);
            Some(MessageHeader { name: format!("{ARGUMENT}{}", told.name), value })
        };
        told.into_iter().flatten().filter_map(header).collect()
    }
}

/// Returns an argument as a header tells it; one that is no single value is told in none.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::Bool(is_true) => Some(is_true.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Finds the arguments below a schema that are told in headers; tells whether all of that is sound.
/// A tool whose schema is not has no such headers, as the protocol says.
fn find(schema: &Value, path: &mut Vec<String>, found: &mut Vec<ArgumentHeader>) -> bool {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    for (name, property) in properties {
        path.push(name.clone());
        let is_sound = match property.get(ANNOTATION) {
            None => true,
            Some(Value::String(token)) if is_token(token) && is_single(property) => {
                found.push(ArgumentHeader { path: path.clone(), name: token.clone() });
                true
            }
            Some(_) => false,
        };
        let is_sound = is_sound && find(property, path, found);
        path.pop();
        if !is_sound {
            return false;
        }
    }
    true
}

fn is_single(property: &Value) -> bool {
    let kind = property.get("type").and_then(Value::as_str);
    matches!(kind, Some("string" | "integer" | "boolean"))
}

fn is_token(text: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || TOKEN_SIGNS.contains(c);
    !text.is_empty() && text.chars().all(is_sign)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(headers: &[MessageHeader]) -> Vec<(&str, &str)> {
        headers.iter().map(|header| (&*header.name, &*header.value)).collect()
    }

    #[test]
    fn a_message_tells_its_method_and_what_it_is_about() {
        for (message, want) in [
            (
                json!({"method": "tools/call", "params": {"name": "look", "uri": "no"}}),
                &[("mcp-method", "tools/call"), ("mcp-name", "look")][..],
            ),
            (
                json!({"method": "resources/read", "params": {"uri": "file:///a b"}}),
                &[("mcp-method", "resources/read"), ("mcp-name", "file:///a b")],
            ),
            (
                json!({"method": "prompts/get", "params": {"name": "grüß"}}),
                &[("mcp-method", "prompts/get"), ("mcp-name", "=?base64?Z3LDvMOf?=")],
            ),
            (json!({"method": "x/y", "params": {"name": "n"}}), &[("mcp-method", "x/y")]),
            (json!({"id": 1, "result": {}}), &[]),
        ] {
            assert_eq!(told(&headers_of(&message)), want, "{message}");
        }
        assert_eq!(header_value(" a"), "=?base64?IGE=?=");
        assert_eq!(header_value("=?base64?x?="), "=?base64?PT9iYXNlNjQ/eD89?=");
    }

    #[test]
    fn arguments_are_told_in_headers_as_their_tool_says() {
        let mut headers = ArgumentHeaders::default();
        let region = json!({"type": "string", "x-mcp-header": "Region"});
        let schema = json!({"properties": {
            "region": region,
            "deep": {"type": "object", "properties": {"dry": {"type": "boolean", "x-mcp-header": "Dry"}}},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "plain": {"type": "string"},
        }});
        let twice =
            json!({"properties": {"a": region, "b": {"type": "string", "x-mcp-header": "REGION"}}});
        let wrong =
            json!({"properties": {"a": {"type": "number", "x-mcp-header": "A"}, "b": region}});
        headers.listed(&json!({"result": {"tools": [
            {"name": "deploy", "inputSchema": schema},
            {"name": "twice", "inputSchema": twice},
            {"name": "wrong", "inputSchema": wrong},
        ]}}));
        let call = |tool: &str, arguments: Value| json!({"method": "tools/call", "params": {"name": tool, "arguments": arguments}});
        let asked = call(
            "deploy",
            json!({"region": "Zürich", "deep": {"dry": true}, "count": 7, "plain": "x"}),
        );
        let mut got = headers.of_call(&asked);
        got.sort_by(|a, b| a.name.cmp(&b.name));
        let want = [
            ("mcp-param-Count", "7"),
            ("mcp-param-Dry", "true"),
            ("mcp-param-Region", "=?base64?WsO8cmljaA==?="),
        ];
        assert_eq!(told(&got), want);
        for asked in [
            call("deploy", json!({"region": null, "count": [1]})),
            call("twice", json!({"a": "x"})),
            call("wrong", json!({"b": "x"})),
            call("other", json!({"region": "x"})),
            json!({"method": "x/y", "params": {"name": "deploy", "arguments": {"region": "x"}}}),
        ] {
            assert_eq!(headers.of_call(&asked), [], "{asked}");
        }
        headers.listed(&json!({"result": {"tools": [{"name": "deploy", "inputSchema": {}}]}}));
        assert_eq!(
            headers.of_call(&call("deploy", json!({"region": "x"}))),
            [],
            "it says so no more"
        );
    }
}
