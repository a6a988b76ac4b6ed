//! opencode's `run --format json`.
//!
//! Facts this rests on (1.18): every line is an event with its `part`. Each step of the model ends with
//! `step_finish`, which tells the step's tokens and, where opencode knows the model's price, its cost;
//! `"reason":"stop"` ends the run. `input` leaves out what came from the cache. An `error` line is the
//! end: opencode has tried again by then, and exits with 1. That it tries again stands only in its log, which
//! `--print-logs` sends to stderr; requests for titles (`small=true`) are not the work.

use serde_json::Value;

use super::{AgentStream, AgentVerdict, Sign, TokenUsage, Trouble, micros, number, short, text};

/// Returns what a line means; nothing if it is of an unknown type.
pub(super) fn read(stream: &mut AgentStream, value: &Value) -> Option<Vec<Sign>> {
    let part = value.get("part").unwrap_or(&Value::Null);
    Some(match text(value, "type")? {
        "step_start" => match stream.writing.replace("session".to_owned()) {
            None => vec![Sign::Session { id: short(text(value, "sessionID").unwrap_or_default()) }],
            Some(_) => Vec::new(),
        },
        "text" => stream.say(text(part, "text").unwrap_or_default()),
        "tool_use" => vec![Sign::Used { tool: short(text(part, "tool").unwrap_or("a tool")) }],
        "step_finish" => step_finish(stream, part),
        "reasoning" => Vec::new(),
        "error" => error(value),
        _ => return None,
    })
}

fn step_finish(stream: &mut AgentStream, part: &Value) -> Vec<Sign> {
    if let (Some(id), Some(tokens)) = (text(part, "messageID"), part.get("tokens")) {
        let cache = tokens.get("cache").unwrap_or(&Value::Null);
        let usage = TokenUsage {
            input: number(tokens, "input").saturating_add(number(cache, "write")),
            cached: number(cache, "read"),
            output: number(tokens, "output").saturating_add(number(tokens, "reasoning")),
            money_micros: micros(part, "cost"),
        };
        stream.charge_message(id, usage);
    }
    match text(part, "reason") {
        Some("stop") => {
            let text = stream.last_said.clone();
            vec![Sign::Result { verdict: AgentVerdict::Finished, text }]
        }
        _ => Vec::new(),
    }
}

/// Returns what a line of the log means, if it is about a request of the work that was refused.
pub(super) fn complaint(line: &str) -> Option<Sign> {
    if !line.contains("message=\"stream error\"") || line.contains("small=true") {
        return None;
    }
    let said = line.split_once("error.error=\"")?.1;
    let said = said.strip_suffix('"').unwrap_or(said);
    let said = said.strip_prefix("AI_APICallError: ").unwrap_or(said);
    let kind = Trouble::of(said);
    let text = format!("{}, and it is tried again", said.trim_end_matches('.'));
    Some(Sign::Retry { kind, text: short(&text), pause: None })
}

fn error(value: &Value) -> Vec<Sign> {
    let data = value.pointer("/error/data").unwrap_or(&Value::Null);
    let name = value.pointer("/error/name").and_then(Value::as_str).unwrap_or("an error");
    let said = text(data, "message").unwrap_or(name);
    let kind = Trouble::of(&format!("{name} {} {said}", number(data, "statusCode")));
    let trouble = Sign::Trouble { kind, text: short(said) };
    vec![trouble, Sign::Result { verdict: AgentVerdict::Failed, text: short(said) }]
}
