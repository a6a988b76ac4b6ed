//! Claude Code's `stream-json`.
//!
//! Facts this rests on: an answer of the model comes as several `assistant` lines, one per part,
//! each with the usage of the whole answer under the same `message.id`, so usage is counted once
//! per id. `input_tokens` leaves out what came from the cache. The `result` line has the run's
//! totals and `total_cost_usd`; `is_error` is true there even under `"subtype":"success"` when the
//! service refused. Retries are told by `system` lines with `"subtype":"api_retry"`.

use std::time::Duration;

use serde_json::Value;

use super::{AgentStream, AgentVerdict, Sign, TokenUsage, Trouble, micros, number, short, text};

/// Returns what a line means; nothing if it is of an unknown type.
pub(super) fn read(stream: &mut AgentStream, value: &Value) -> Option<Vec<Sign>> {
    match text(value, "type")? {
        "system" => Some(system(value)),
        "assistant" => Some(assistant(stream, value)),
        "result" => Some(result(stream, value)),
        "rate_limit_event" => Some(rate_limit(value)),
        "stream_event" => Some(stream_event(stream, value)),
        "user" | "tool_progress" | "auth_status" | "tool_use_summary" => Some(Vec::new()),
        _ => None,
    }
}

fn system(value: &Value) -> Vec<Sign> {
    match text(value, "subtype") {
        Some("init") => {
            let id = text(value, "session_id").unwrap_or_default();
            vec![Sign::Session { id: short(id) }]
        }
        Some("api_retry") => {
            let said = text(value, "error").unwrap_or("the request is being tried again");
            let status = number(value, "error_status");
            let kind = Trouble::of(&format!("{said} {status}"));
            let ms = value.get("retry_delay_ms").and_then(Value::as_f64).filter(|ms| *ms > 0.0);
            let pause = ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok());
            vec![Sign::Retry { kind, text: short(&retry_text(value, said, pause)), pause }]
        }
        _ => Vec::new(),
    }
}

/// Says what a request waits for, and for how long.
fn retry_text(value: &Value, said: &str, pause: Option<Duration>) -> String {
    let [attempt, most] = ["attempt", "max_retries"].map(|field| number(value, field));
    let mut text = said.replace('_', " ");
    if attempt > 0 {
        text.push_str(&format!(", attempt {attempt}"));
        if most > 0 {
            text.push_str(&format!(" of {most}"));
        }
    }
    if let Some(pause) = pause.filter(|pause| pause.as_secs() > 0) {
        text.push_str(&format!(", the next in {:.0} s", pause.as_secs_f64()));
    }
    text
}

/// Counts what is written while it is: the last word on a message is not heard if the run is ended.
fn stream_event(stream: &mut AgentStream, value: &Value) -> Vec<Sign> {
    let Some(event) = value.get("event") else { return Vec::new() };
    match text(event, "type") {
        Some("message_start") => {
            let message = event.get("message");
            stream.writing = message.and_then(|message| text(message, "id")).map(str::to_owned);
        }
        Some("message_delta") => {
            if let (Some(id), Some(usage)) = (stream.writing.clone(), event.get("usage")) {
                let output = number(usage, "output_tokens");
                stream.charge_message(&id, TokenUsage { output, ..TokenUsage::default() });
            }
        }
        _ => {}
    }
    Vec::new()
}

fn rate_limit(value: &Value) -> Vec<Sign> {
    let status = value.pointer("/rate_limit_info/status").and_then(Value::as_str);
    match status {
        Some("rejected") => {
            let text = "the account's limit is reached".to_owned();
            vec![Sign::Trouble { kind: Trouble::RateLimit, text }]
        }
        _ => Vec::new(),
    }
}

fn trouble(tell: &str, said: &str) -> Sign {
    Sign::Trouble { kind: Trouble::of(tell), text: short(said) }
}

fn assistant(stream: &mut AgentStream, value: &Value) -> Vec<Sign> {
    let mut signs = Vec::new();
    let Some(message) = value.get("message") else { return signs };
    if let (Some(id), Some(usage)) = (text(message, "id"), message.get("usage")) {
        stream.charge_message(id, tokens(usage));
    }
    let mut said = String::new();
    for part in message.get("content").and_then(Value::as_array).into_iter().flatten() {
        match text(part, "type") {
            Some("text") => {
                said = text(part, "text").unwrap_or_default().to_owned();
                signs.extend(stream.say(&said));
            }
            Some("tool_use") => {
                let tool = short(text(part, "name").unwrap_or("a tool"));
                signs.push(Sign::Used { tool });
            }
            _ => {}
        }
    }
    if let Some(error) = text(value, "error") {
        signs.push(trouble(error, if said.is_empty() { error } else { &said }));
    }
    signs
}

fn result(stream: &mut AgentStream, value: &Value) -> Vec<Sign> {
    let mut usage = value.get("usage").map(tokens).unwrap_or_default();
    usage.money_micros = micros(value, "total_cost_usd");
    stream.charge_total(usage);
    let subtype = text(value, "subtype").unwrap_or_default();
    let is_error = value.get("is_error").and_then(Value::as_bool).unwrap_or(subtype != "success");
    let first = value.pointer("/errors/0").and_then(Value::as_str);
    let said = text(value, "result").or(first).unwrap_or(subtype);
    let verdict = if is_error { AgentVerdict::Failed } else { AgentVerdict::Finished };
    let mut signs = Vec::new();
    if is_error {
        signs.push(trouble(said, said));
    }
    signs.push(Sign::Result { verdict, text: short(said) });
    signs
}

fn tokens(usage: &Value) -> TokenUsage {
    TokenUsage {
        input: number(usage, "input_tokens")
            .saturating_add(number(usage, "cache_creation_input_tokens")),
        cached: number(usage, "cache_read_input_tokens"),
        output: number(usage, "output_tokens"),
        money_micros: 0,
    }
}
