//! Any program's output: text, and JSON lines by which it may tell what it costs.
//!
//! | line | meaning |
//! |---|---|
//! | `{"type":"activity","text":"…"}` | it said something |
//! | `{"type":"spent","tokens":1200,"cost_usd":0.01}` | what it has cost until now, in all |
//! | `{"type":"error","text":"…"}` | something went wrong |
//! | `{"type":"result","ok":true,"text":"…"}` | it has finished |
//!
//! Other lines are what it says, also if they happen to be JSON.

use serde_json::Value;

use super::{AgentStream, AgentVerdict, Sign, TokenUsage, Trouble, micros, number, short, text};

/// Returns what a line means.
pub(super) fn read(stream: &mut AgentStream, value: &Value) -> Option<Vec<Sign>> {
    let said = text(value, "text").unwrap_or_default();
    Some(match text(value, "type") {
        Some("activity") => stream.say(said),
        Some("spent") => {
            let usage = TokenUsage {
                input: number(value, "tokens"),
                money_micros: micros(value, "cost_usd"),
                ..TokenUsage::default()
            };
            stream.charge_total(usage);
            Vec::new()
        }
        Some("error") => vec![Sign::Trouble { kind: Trouble::of(said), text: short(said) }],
        Some("result") => {
            let ok = value.get("ok").and_then(Value::as_bool).unwrap_or(false);
            let verdict = if ok { AgentVerdict::Finished } else { AgentVerdict::Failed };
            vec![Sign::Result { verdict, text: short(said) }]
        }
        _ => stream.say(&value.to_string()),
    })
}
