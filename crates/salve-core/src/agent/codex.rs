//! Codex's `exec --json`.
//!
//! Facts this rests on: a run is one thread of turns; `turn.completed` carries the thread's token
//! totals, where `input_tokens` includes the cached ones; money is never told. An `error` line may
//! be a retry that goes well in the end, `turn.failed` is the end. There is no line for the result:
//! it is the last `agent_message`.

use serde_json::Value;

use super::{AgentVerdict, Sign, Stream, TokenUsage, Trouble, number, short, text};

/// Returns what a line means; nothing if it is of an unknown type.
pub(super) fn read(stream: &mut Stream, value: &Value) -> Option<Vec<Sign>> {
    match text(value, "type")? {
        "thread.started" => {
            let id = short(text(value, "thread_id").unwrap_or_default());
            Some(vec![Sign::Session { id }])
        }
        "turn.started" | "item.updated" => Some(Vec::new()),
        "item.started" => Some(item(stream, value, ItemMoment::Started)),
        "item.completed" => Some(item(stream, value, ItemMoment::Completed)),
        "turn.completed" => {
            if let Some(usage) = value.get("usage") {
                stream.charge_total(tokens(usage));
            }
            let text = stream.last_said.clone();
            Some(vec![Sign::Result { verdict: AgentVerdict::Finished, text }])
        }
        "turn.failed" => {
            let said = value.pointer("/error/message").and_then(Value::as_str);
            let said = said.unwrap_or("the turn failed");
            let result = Sign::Result { verdict: AgentVerdict::Failed, text: short(said) };
            Some(vec![trouble(said), result])
        }
        "error" => Some(vec![trouble(text(value, "message").unwrap_or("an error"))]),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemMoment {
    Started,
    Completed,
}

fn item(stream: &mut Stream, value: &Value, moment: ItemMoment) -> Vec<Sign> {
    let Some(item) = value.get("item") else { return Vec::new() };
    let kind = text(item, "type").unwrap_or_default();
    match (kind, moment) {
        ("agent_message", ItemMoment::Completed) => {
            stream.say(text(item, "text").unwrap_or_default())
        }
        ("error", ItemMoment::Completed) => {
            vec![trouble(text(item, "message").unwrap_or("an error"))]
        }
        // A change of files is told only when it is done, the others when they begin.
        ("file_change", ItemMoment::Completed)
        | ("command_execution" | "web_search", ItemMoment::Started) => {
            vec![Sign::Used { tool: kind.to_owned() }]
        }
        ("mcp_tool_call", ItemMoment::Started) => {
            let [server, tool] = ["server", "tool"].map(|field| text(item, field).unwrap_or("?"));
            vec![Sign::Used { tool: short(&format!("{server}.{tool}")) }]
        }
        _ => Vec::new(),
    }
}

fn trouble(said: &str) -> Sign {
    Sign::Trouble { kind: Trouble::of(said), text: short(said) }
}

fn tokens(usage: &Value) -> TokenUsage {
    let cached = number(usage, "cached_input_tokens");
    TokenUsage {
        input: number(usage, "input_tokens").saturating_sub(cached),
        cached,
        // Reasoning is part of the output already.
        output: number(usage, "output_tokens"),
        money_micros: 0,
    }
}
