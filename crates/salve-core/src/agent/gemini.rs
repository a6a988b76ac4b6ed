//! Gemini CLI's `stream-json`.
//!
//! Facts this rests on: tokens are told once, in the `stats` of the `result` line, also when it
//! failed; `total_tokens` includes thoughts and cached input. What the model says comes in pieces
//! (`"delta":true`). Money is never told. An `error` line is a warning; a failed run ends with a
//! `result` line of `"status":"error"`, or with none at all. What it waits for stands on stderr: "Attempt 1
//! failed with status 529. Retrying with backoff..." or, over two lines, "Attempt 1 failed: …" and "…
//! Retrying after 9241ms...".

use std::time::Duration;

use serde_json::Value;

use super::{
    AgentStream, AgentVerdict, LONGEST_TEXT, Sign, TokenUsage, Trouble, number, short, text,
};

/// Returns what a line means; nothing if it is of an unknown type.
pub(super) fn read(stream: &mut AgentStream, value: &Value) -> Option<Vec<Sign>> {
    match text(value, "type")? {
        "init" => {
            let id = short(text(value, "session_id").unwrap_or_default());
            Some(vec![Sign::Session { id }])
        }
        "message" => match text(value, "role") {
            Some("assistant") => Some(stream.say(text(value, "content").unwrap_or_default())),
            _ => Some(Vec::new()),
        },
        "tool_use" => {
            let tool = short(text(value, "tool_name").unwrap_or("a tool"));
            Some(vec![Sign::Used { tool }])
        }
        "tool_result" => Some(Vec::new()),
        "error" => Some(vec![trouble(text(value, "message").unwrap_or("an error"))]),
        "result" => Some(result(stream, value)),
        _ => None,
    }
}

fn result(stream: &mut AgentStream, value: &Value) -> Vec<Sign> {
    if let Some(stats) = value.get("stats") {
        stream.charge_total(tokens(stats));
    }
    if text(value, "status") == Some("success") {
        let text = stream.last_said.clone();
        return vec![Sign::Result { verdict: AgentVerdict::Finished, text }];
    }
    let said = value.pointer("/error/message").and_then(Value::as_str).unwrap_or("it failed");
    // When a limit ends stands in the second line.
    let said = &said.lines().collect::<Vec<_>>().join(" ");
    let kind = value.pointer("/error/type").and_then(Value::as_str).unwrap_or_default();
    let tell = format!("{kind} {said}");
    let trouble = Sign::Trouble { kind: Trouble::of(&tell), text: short(said) };
    vec![trouble, Sign::Result { verdict: AgentVerdict::Failed, text: short(said) }]
}

/// Returns what a line on stderr means, if it is about a request that is sent again.
pub(super) fn complaint(stream: &mut AgentStream, line: &str) -> Option<Sign> {
    if line.starts_with("Attempt ") && line.contains(" failed") {
        stream.complaint = line.to_owned();
    } else if stream.complaint.len() > LONGEST_TEXT {
        stream.complaint.clear();
    } else if !stream.complaint.is_empty() {
        stream.complaint.push(' ');
        stream.complaint.push_str(line);
    }
    let (said, how) = stream.complaint.split_once("Retrying ")?;
    let (attempt, why) = said.trim_start_matches("Attempt ").split_once(" failed")?;
    let why =
        why.trim_start_matches([':', ' ']).trim_start_matches("with ").trim_end_matches(['.', ' ']);
    let ms = how.strip_prefix("after ").and_then(|how| how.split("ms").next()?.parse().ok());
    let pause = ms.map(Duration::from_millis);
    let kind = Trouble::of(why);
    let mut text = format!("{why}, attempt {attempt}");
    if let Some(pause) = pause {
        text.push_str(&format!(", the next in {:.0} s", pause.as_secs_f64()));
    }
    stream.complaint.clear();
    Some(Sign::Retry { kind, text: short(&text), pause })
}

fn trouble(said: &str) -> Sign {
    Sign::Trouble { kind: Trouble::of(said), text: short(said) }
}

fn tokens(stats: &Value) -> TokenUsage {
    let cached = number(stats, "cached");
    let input = number(stats, "input_tokens");
    TokenUsage {
        input: input.saturating_sub(cached),
        cached,
        // What is neither read nor an answer is thought.
        output: number(stats, "total_tokens")
            .saturating_sub(input)
            .max(number(stats, "output_tokens")),
        money_micros: 0,
    }
}
