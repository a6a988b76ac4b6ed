//! The tools for servers: what they are called, what they take, and how that is read.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use salve_core::event::Change;
use serde::Deserialize;
use serde_json::{Value, json};

use super::repair_tools::AgentReport;
use super::{debug_tools, memory_tools, skill_tool, team};

/// A call of one of the tools.
#[derive(Clone, Debug)]
pub(super) enum RepairToolCall {
    /// `canvas_get_repair_task`.
    Task(Option<String>),
    /// `canvas_mark_repair_step`.
    Mark(AgentReport),
    /// `canvas_get_repair_status`.
    Status(Option<String>),
    /// `canvas_get_errors`.
    Errors(Option<String>),
    /// One of the team's.
    Team(team::TeamToolCall),
    /// One of memory's.
    Memory(memory_tools::MemoryToolCall),
    /// One of those that look into a tool which fails.
    Debug(debug_tools::DebugToolCall),
    /// `skill_run`.
    Skill(skill_tool::SkillToolCall),
}

/// Why a call cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadCall {
    /// There is no such tool.
    #[error("there is no tool of this name; the tools are {}", names().join(", "))]
    NoTool,
    /// The arguments are not what the tool takes.
    #[error("wrong arguments: {0}")]
    Arguments(String),
}

const NAMES: [&str; 4] = [
    "canvas_get_repair_task",
    "canvas_mark_repair_step",
    "canvas_get_repair_status",
    "canvas_get_errors",
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerOnly {
    server: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    repair_id: String,
    phase: String,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    files_changed: Option<u32>,
    #[serde(default)]
    lines_changed: Option<u32>,
    #[serde(default)]
    attempt: Option<u32>,
    #[serde(default, rename = "server")]
    _server: Option<String>,
}

/// Reads a call.
pub(super) fn parse(name: &str, arguments: Option<JsonObject>) -> Result<RepairToolCall, BadCall> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    let bad = |error: serde_json::Error| BadCall::Arguments(error.to_string());
    let server = |arguments| {
        serde_json::from_value(arguments).map(|only: ServerOnly| only.server).map_err(bad)
    };
    match name {
        "canvas_get_repair_task" => server(arguments).map(RepairToolCall::Task),
        "canvas_get_repair_status" => server(arguments).map(RepairToolCall::Status),
        "canvas_get_errors" => server(arguments).map(RepairToolCall::Errors),
        "canvas_mark_repair_step" => {
            let step: Step = serde_json::from_value(arguments).map_err(bad)?;
            let change = Change { files: step.files_changed, lines: step.lines_changed };
            let Step { repair_id, phase, message, attempt, .. } = step;
            Ok(RepairToolCall::Mark(AgentReport { repair_id, phase, attempt, change, message }))
        }
        skill_tool::NAME => {
            serde_json::from_value(arguments).map(RepairToolCall::Skill).map_err(bad)
        }
        name if debug_tools::NAMES.contains(&name) => debug_tools::parse(name, arguments)
            .map_err(bad)?
            .map(RepairToolCall::Debug)
            .ok_or(BadCall::NoTool),
        name if memory_tools::NAMES.contains(&name) => memory_tools::parse(name, arguments)
            .map_err(bad)?
            .map(RepairToolCall::Memory)
            .ok_or(BadCall::NoTool),
        _ => team::parse(name, arguments)
            .map_err(bad)?
            .map(RepairToolCall::Team)
            .ok_or(BadCall::NoTool),
    }
}

/// Returns the names of all tools.
fn names() -> Vec<String> {
    tools().into_iter().map(|tool| tool.name.into_owned()).collect()
}

/// Returns the tools as clients are told of them.
pub(super) fn tools() -> Vec<Tool> {
    let mut tools = of_servers();
    tools.extend(team::tools());
    tools.extend(memory_tools::tools());
    tools.extend(debug_tools::tools());
    tools.extend(skill_tool::tools());
    tools
}

fn of_servers() -> Vec<Tool> {
    vec![
        tool(
            NAMES[0],
            "Returns the repair that waits for you after a dev server crashed: crash log, \
             instructions, safety limits. Calling it says that you take the repair up. \
             `pending: false` means there is nothing to do, and says why.",
            server_schema(),
            ToolAnnotations::new().read_only(false),
        ),
        tool(
            NAMES[1],
            "Reports your progress on a repair: agent_reading_log, agent_applying_fix, then \
             agent_wrote_files (with filesChanged and linesChanged) when all fixes are written. \
             Salve then restarts the server and verifies it.",
            step_schema(),
            ToolAnnotations::new().read_only(false),
        ),
        tool(
            NAMES[2],
            "Returns how repairs stand: active and recent ones with phase, attempt, what was \
             tried, what a person is asked, and the servers under care.",
            server_schema(),
            ToolAnnotations::new().read_only(true),
        ),
        tool(
            NAMES[3],
            "Returns the errors there are to see: crashes of dev servers with repairId and \
             logPath, open ones first, and errors of pages in the browser.",
            server_schema(),
            ToolAnnotations::new().read_only(true),
        ),
    ]
}

/// Returns a tool that destroys nothing.
pub(super) fn tool(
    name: &'static str,
    description: &'static str,
    schema: Value,
    hints: ToolAnnotations,
) -> Tool {
    let schema = match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let hints = hints.destructive(false).open_world(false);
    Tool::new(name, description, schema).with_annotations(hints)
}

fn server_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "server": {
                "type": "string",
                "description": "Name of one server, where there are several",
            },
        },
    })
}

fn step_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "repairId": {
                "type": "string",
                "description": "repairId from canvas_get_repair_task",
            },
            "phase": {
                "type": "string",
                "enum": ["agent_reading_log", "agent_applying_fix", "agent_wrote_files"],
                "description": "How far you are",
            },
            "message": {
                "type": "string",
                "description": "What you found or changed, in a sentence",
            },
            "filesChanged": {
                "type": "integer",
                "minimum": 0,
                "description": "Files you changed; with agent_wrote_files",
            },
            "linesChanged": {
                "type": "integer",
                "minimum": 0,
                "description": "Lines you added and removed; with agent_wrote_files",
            },
            "attempt": {
                "type": "integer",
                "minimum": 1,
                "description": "The task's attempt; a report for one that is over is refused",
            },
            "server": {
                "type": "string",
                "description": "Name of the server, where there are several",
            },
        },
        "required": ["repairId", "phase"],
    })
}
