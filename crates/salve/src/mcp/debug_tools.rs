//! The tools that look into a tool which fails, and propose a patch of its source.
//!
//! **Invariant:** nothing is changed here. A patch is written down, and a person applies it.

use rmcp::model::{Tool, ToolAnnotations};
use salve_core::event::Actor;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::team::schema;
use super::tool::tool;
use super::{RepairTools, RepairToolsError};
use crate::team::{self, RawToolPatch};
use crate::tools::{DebugQuestion, DiagnosisSource, ToolDebug};
use crate::workspace::Workspace;

/// The tools' names.
pub(super) const NAMES: [&str; 2] = ["debug_tool", "debug_apply"];

/// The longest error that is looked at, in characters.
const LONGEST: usize = 3_000;

/// A call of one of these tools.
#[derive(Clone, Debug)]
pub(super) enum DebugToolCall {
    /// `debug_tool`.
    Look(DebugArguments),
    /// `debug_apply`.
    Apply(PatchArguments),
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct DebugArguments {
    tool_name: String,
    error_message: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PatchArguments {
    tool_name: String,
    error_message: String,
    patch: String,
    #[serde(default)]
    why: Option<String>,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// Reads a call, if the tool is one of these.
pub(super) fn parse(
    name: &str,
    arguments: Value,
) -> Result<Option<DebugToolCall>, serde_json::Error> {
    Ok(Some(match name {
        "debug_tool" => DebugToolCall::Look(serde_json::from_value(arguments)?),
        "debug_apply" => DebugToolCall::Apply(serde_json::from_value(arguments)?),
        _ => return Ok(None),
    }))
}

impl RepairTools<'_> {
    /// Answers a call of one of these tools.
    pub(super) fn debug(
        &mut self,
        client: &str,
        call: &DebugToolCall,
    ) -> Result<Value, RepairToolsError> {
        match call {
            DebugToolCall::Look(look) => self.look_into(look),
            DebugToolCall::Apply(patch) => self.propose_patch(client, patch),
        }
    }

    fn look_into(&mut self, look: &DebugArguments) -> Result<Value, RepairToolsError> {
        let error: String = look.error_message.chars().take(LONGEST).collect();
        let config = crate::config::load(&self.place.sources)
            .or_else(|_| crate::config::load(&crate::config::Sources::default()));
        let config = config.map_err(|error| RepairToolsError::Settings(error.to_string()))?;
        let (root, scrubber) = (self.place.project.root().to_owned(), self.scrubber().clone());
        let question = DebugQuestion {
            tool: look.tool_name.trim(),
            error: &error,
            root: &root,
            config: &config,
            scrubber: &scrubber,
        };
        let by_memory = self.with_memory(|learned| question.answer(Some(&learned)))?;
        let found = match by_memory {
            Some(found) => found,
            None => question.answer(None)?,
        };
        let next_step = next_step(&found);
        let mut answer = json!(found);
        answer["next_step"] = next_step.into();
        Ok(answer)
    }

    fn propose_patch(
        &mut self,
        client: &str,
        proposed: &PatchArguments,
    ) -> Result<Value, RepairToolsError> {
        let PatchArguments { tool_name, error_message, patch, why, arguments } = proposed;
        let unfit = |why: String| RepairToolsError::Patch(why);
        let workspace =
            Workspace::open(&self.place.project).map_err(|error| unfit(error.to_string()))?;
        let files =
            workspace.patches().fits(patch.as_bytes()).map_err(|error| unfit(error.to_string()))?;
        let lines: Option<u32> = files.iter().map(|file| file.lines).sum();
        let by = Actor::Agent { name: self.agent_name(client) };
        let scrubber = self.scrubber().clone();
        let error: String = error_message.chars().take(LONGEST).collect();
        let raw =
            RawToolPatch { tool: tool_name.clone(), error, patch: patch.clone(), why: why.clone() };
        let issue = team::propose_tool_patch(self.store.made()?, &by, &raw, &scrubber)?;
        let given = Value::Object(arguments.clone()).to_string();
        let args = if arguments.is_empty() {
            String::new()
        } else {
            format!(" --args '{}'", given.replace('\'', r"'\''"))
        };
        let only: String =
            team::tool_patch_digest(patch.as_bytes()).to_string().chars().take(12).collect();
        let command = format!("salve debug --apply issue-{}{args} --only {only}", issue.short());
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        Ok(json!({
            "ok": true,
            "state": "waits_for_a_person",
            "id": format!("issue-{}", issue.short()),
            "files": paths,
            "lines": lines,
            "next_step": format!(
                "Nothing was changed. Show the user the patch and ask them to run `{command}`: it \
                 applies the patch, calls the tool once, keeps the change only if the tool works, \
                 and remembers what helped."
            ),
        }))
    }
}

fn next_step(found: &ToolDebug) -> &'static str {
    match (found.source_code.is_some(), found.by) {
        (_, DiagnosisSource::Usage) => "Change the call as proposed_fix says, and call it again.",
        (true, _) => {
            "Compare source_code with the error. If the source is wrong, propose a unified diff \
             with debug_apply; the user decides. Teach what helped with learn_tool_fix."
        }
        (false, DiagnosisSource::Nobody) => {
            "The source was not found below the directories of the setting debug.roots; ask the \
             user where the tool is written."
        }
        (false, _) => "Judge the proposed fix before you act on it, and tell the user.",
    }
}

/// Returns these tools as clients are told of them.
pub(super) fn tools() -> Vec<Tool> {
    let text = |what: &str| json!({ "type": "string", "description": what });
    let look = json!({
        "tool_name": text("The tool that failed"),
        "error_message": text("What it said"),
    });
    let apply = json!({
        "tool_name": text("The tool that failed"),
        "error_message": text("What it said"),
        "patch": text("Unified diff with paths from the project's root on, as git apply takes it"),
        "why": text("Why it should help, in a sentence"),
        "arguments": {
            "type": "object",
            "description": "Arguments of the call that shows whether the patch helped",
        },
    });
    vec![
        tool(
            NAMES[0],
            "Looks into a tool that fails: where its source is and what is written there, what is \
             wrong, and what may help, from memory, the error, the settings and the playbook. It \
             says so where nothing is known.",
            schema(look, &["tool_name", "error_message"]),
            ToolAnnotations::new().read_only(true),
        ),
        tool(
            NAMES[1],
            "Proposes a patch of a tool's source. Nothing is changed until the user approves it \
             with the command in next_step.",
            schema(apply, &["tool_name", "error_message", "patch"]),
            ToolAnnotations::new().read_only(false),
        ),
    ]
}
