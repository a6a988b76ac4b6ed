//! What an agent's hooks say: which command would end whom, and what the agent is told.
//!
//! **Invariant:** a hook never allows anything; it only refuses, or says nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::gate::simple_commands;

/// Programs that end processes by their name, whosever they are.
const BY_NAME: [&str; 3] = ["pkill", "killall", "killall5"];
/// Options of `pkill` that narrow it to what the caller started or names by number.
const NARROW: [&str; 6] = ["-P", "--parent", "-g", "--pgroup", "-s", "--session"];

/// Whom a command would end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KillTarget {
    /// All processes of a name.
    Named {
        /// The program that does it.
        program: String,
        words: String,
    },
    /// All processes that the user may end.
    Everyone,
    Process(u32),
    /// One process group.
    Group(u32),
}

/// Returns whom a command line would end, as far as that is written in it.
pub fn kill_targets(command: &str) -> Vec<KillTarget> {
    let commands = simple_commands(command).unwrap_or_default();
    commands.iter().flat_map(|words| targets_of(words)).collect()
}

fn targets_of(words: &[String]) -> Vec<KillTarget> {
    let Some(first) = words.first() else { return Vec::new() };
    let program = first.rsplit('/').next().unwrap_or_default();
    if BY_NAME.contains(&program) {
        let is_narrow = words.iter().any(|word| NARROW.contains(&word.as_str()));
        let words = words.join(" ");
        let named = KillTarget::Named { program: program.to_owned(), words };
        return if is_narrow { Vec::new() } else { vec![named] };
    }
    if program == "kill" { killed_by_number(&words[1..]) } else { Vec::new() }
}

/// Reads the operands of `kill`: after the signal, a negative number is a group and -1 is everyone.
fn killed_by_number(words: &[String]) -> Vec<KillTarget> {
    let mut words = words.iter().map(String::as_str).peekable();
    match words.peek().copied() {
        Some("-l" | "-L" | "--list") => return Vec::new(),
        Some("-s" | "-n" | "--signal") => {
            words.next();
            words.next();
        }
        Some("--") => {}
        Some(option) if option.starts_with('-') => {
            words.next();
        }
        Some(_) | None => {}
    }
    let target = |word: &str| match word.parse::<i64>().ok()? {
        -1 => Some(KillTarget::Everyone),
        pid if pid > 0 => u32::try_from(pid).ok().map(KillTarget::Process),
        group => u32::try_from(-group).ok().map(KillTarget::Group),
    };
    words.filter(|word| *word != "--").filter_map(target).collect()
}

/// What Claude Code tells a hook.
#[derive(Clone, Debug, Deserialize)]
pub struct HookInput {
    pub hook_event_name: String,
    #[serde(default)]
    pub tool_name: String,
    /// Its arguments.
    #[serde(default)]
    pub tool_input: Value,
    /// What it answered, after a call that did not fail.
    #[serde(default)]
    pub tool_response: Value,
    /// What it said, after a call that failed.
    #[serde(default)]
    pub error: Option<String>,
    /// Where the agent works.
    #[serde(default)]
    pub cwd: Option<String>,
}

impl HookInput {
    /// Returns the command of a shell call.
    pub fn command(&self) -> Option<&str> {
        (self.tool_name == "Bash").then(|| self.tool_input.get("command")?.as_str()).flatten()
    }

    /// Returns the name by which rules know what was called: a command, or a tool without the prefix
    /// of its server.
    pub fn called(&self) -> &str {
        let tool = self.tool_name.strip_prefix("mcp__").and_then(|name| name.split_once("__"));
        self.command().unwrap_or(tool.map_or(&self.tool_name, |(_, tool)| tool))
    }

    /// Returns what a failed call said; nothing if it did not fail.
    pub fn failure(&self) -> Option<String> {
        if self.hook_event_name == "PostToolUseFailure" {
            return Some(self.error.clone().unwrap_or_default());
        }
        if self.hook_event_name != "PostToolUse" {
            return None;
        }
        // Servers' tools: the result, or its content alone.
        let result = match &self.tool_response {
            Value::Array(_) => serde_json::json!({ "content": self.tool_response }),
            other => other.clone(),
        };
        let answer = serde_json::json!({ "id": 1, "result": result }).to_string();
        super::failure::failure_in(answer.as_bytes())
    }
}

/// What a hook answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookOutput {
    /// What it says about this event.
    #[serde(rename = "hookSpecificOutput")]
    pub specific: HookWord,
}

/// A hook's word about one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookWord {
    hook_event_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_decision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_decision_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_context: Option<String>,
}

impl HookOutput {
    /// Refuses a call, with a better way.
    pub fn refuse(input: &HookInput, reason: String) -> Self {
        let specific = HookWord {
            hook_event_name: input.hook_event_name.clone(),
            permission_decision: Some("deny"),
            permission_decision_reason: Some(reason),
            additional_context: None,
        };
        Self { specific }
    }

    /// Tells the agent something.
    pub fn tell(input: &HookInput, context: String) -> Self {
        let specific = HookWord {
            hook_event_name: input.hook_event_name.clone(),
            permission_decision: None,
            permission_decision_reason: None,
            additional_context: Some(context),
        };
        Self { specific }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whom_a_command_would_end_is_found_wherever_it_hides() {
        let named = |program: &str, words: &str| KillTarget::Named {
            program: program.into(),
            words: words.into(),
        };
        for (command, want) in [
            ("pkill node", vec![named("pkill", "pkill node")]),
            ("sudo /usr/bin/pkill -f vite; true", vec![named("pkill", "/usr/bin/pkill -f vite")]),
            ("npm test || killall -9 node", vec![named("killall", "killall -9 node")]),
            ("bash -c 'pkill node'", vec![named("pkill", "pkill node")]),
            ("kill -9 123 456", vec![KillTarget::Process(123), KillTarget::Process(456)]),
            ("kill -s TERM 123", vec![KillTarget::Process(123)]),
            ("kill -TERM -- -77", vec![KillTarget::Group(77)]),
            ("kill -9 -1", vec![KillTarget::Everyone]),
            ("kill %1", vec![]),
            ("kill $PID", vec![]),
            ("kill -l", vec![]),
            ("pkill -P 5", vec![]),
            ("echo pkill node", vec![]),
            ("grep killall log.txt", vec![]),
        ] {
            assert_eq!(kill_targets(command), want, "{command}");
        }
    }

    fn input(value: Value) -> HookInput {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn failures_are_read_from_every_event_that_has_one() {
        let bash = input(json!({"hook_event_name": "PostToolUseFailure", "tool_name": "Bash",
            "tool_input": {"command": "oc get pods"}, "error": "Exit code 1\nUnauthorized"}));
        assert_eq!(bash.failure().as_deref(), Some("Exit code 1\nUnauthorized"));
        assert_eq!(bash.called(), "oc get pods");
        let text = json!([{"type": "text", "text": "❌ no route to host"}]);
        let tool =
            input(json!({"hook_event_name": "PostToolUse", "tool_name": "mcp__k8s__get_pods",
            "tool_response": text, "future": 1}));
        assert_eq!(tool.failure().as_deref(), Some("❌ no route to host"));
        assert_eq!(tool.called(), "get_pods");
        let fine = input(json!({"hook_event_name": "PostToolUse", "tool_name": "Bash",
            "tool_input": {"command": "ls"}, "tool_response": {"stdout": "Error.txt", "stderr": ""}}));
        assert_eq!(fine.failure(), None);
    }

    #[test]
    fn a_hook_refuses_or_tells_and_never_allows() {
        let input = input(json!({"hook_event_name": "PreToolUse", "tool_name": "Bash"}));
        let refused = serde_json::to_value(HookOutput::refuse(&input, "no".into())).unwrap();
        assert_eq!(
            refused,
            json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
            "permissionDecision": "deny", "permissionDecisionReason": "no"}})
        );
        let told = serde_json::to_value(HookOutput::tell(&input, "hint".into())).unwrap();
        assert_eq!(told["hookSpecificOutput"]["additionalContext"], "hint");
        assert!(told["hookSpecificOutput"].get("permissionDecision").is_none());
    }
}
