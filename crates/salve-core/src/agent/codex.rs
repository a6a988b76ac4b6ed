//! Codex's `exec --json`.
//!
//! Facts this rests on: a run is one thread of turns; `turn.completed` carries the thread's token
//! totals, where `input_tokens` includes the cached ones; money is never told. An `error` line that
//! begins with "Reconnecting... 1/5" is a retry that may go well in the end; for how long it waits it does not
//! say. Other `error` items are warnings, about its own settings say; `turn.failed` is the end. There is no line for the result:
//! it is the last `agent_message`.

use serde_json::Value;

use super::{AgentStream, AgentVerdict, Sign, TokenUsage, Trouble, number, short, text};

/// Returns what a line means; nothing if it is of an unknown type.
pub(super) fn read(stream: &mut AgentStream, value: &Value) -> Option<Vec<Sign>> {
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
        "error" => Some(vec![error(text(value, "message").unwrap_or("an error"))]),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemMoment {
    Started,
    Completed,
}

fn item(stream: &mut AgentStream, value: &Value, moment: ItemMoment) -> Vec<Sign> {
    let Some(item) = value.get("item") else { return Vec::new() };
    let kind = text(item, "type").unwrap_or_default();
    match (kind, moment) {
        ("agent_message", ItemMoment::Completed) => {
            stream.say(text(item, "text").unwrap_or_default())
        }
        ("error", ItemMoment::Completed) => {
            let said = text(item, "message").unwrap_or_default();
            // A warning that nothing is known of keeps nobody from working.
            if Trouble::of(said) == Trouble::Other { Vec::new() } else { vec![error(said)] }
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

/// Returns what an error means that need not be the end.
fn error(said: &str) -> Sign {
    let Some(rest) = said.strip_prefix("Reconnecting... ") else { return trouble(said) };
    let (count, why) = rest.split_once(' ').unwrap_or((rest, ""));
    let why = why.trim_start_matches('(').trim_end_matches(')');
    let why = why.split(", url: ").next().unwrap_or(why);
    let why = if why.is_empty() { "the connection was lost" } else { why };
    let text = match count.split_once('/') {
        Some((attempt, most)) => format!("{why}, attempt {attempt} of {most}"),
        None => why.to_owned(),
    };
    Sign::Retry { kind: Trouble::of(why), text: short(&text), pause: None }
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
