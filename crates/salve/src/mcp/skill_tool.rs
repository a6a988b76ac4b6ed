//! The tool that runs a skill of the project.
//!
//! A skill calls only tools that the user's settings name, and Python in it can only compute. It
//! takes its time on a thread of its own, so that it holds up no other tool.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rmcp::model::{Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::team::schema;
use super::tool::tool;
use super::{RepairToolsError, RepairToolsPlace};
use crate::config::{self, Config};
use crate::files::{self, FileKind};
use crate::scrub::scrub_value;
use crate::skills::{CallHealer, Skill, SkillRun, SkillTools, parse_skill};
use crate::store::Store;

/// The tool's name.
pub(super) const NAME: &str = "skill_run";

/// A call of the tool.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SkillToolCall {
    file: String,
    #[serde(default)]
    inputs: Map<String, Value>,
    #[serde(default)]
    dry_run: bool,
}

impl SkillToolCall {
    /// Runs the skill and returns what happened at each step, without secrets.
    pub(super) fn run(self, place: &RepairToolsPlace) -> Result<Value, RepairToolsError> {
        let wrong = |why: String| RepairToolsError::Skill(why);
        let path = inside(place.project.root(), &self.file).map_err(wrong)?;
        let bytes = files::read_bytes(&path, FileKind::Document)
            .map_err(|error| wrong(format!("`{}` cannot be read: {error}", self.file)))?;
        let skill = parse_skill(&String::from_utf8_lossy(&bytes))
            .map_err(|error| wrong(format!("{}:{}: {}", self.file, error.line, error.reason)))?;
        self.missing_input(&skill)
            .map_or(Ok(()), |name| Err(wrong(format!("the skill needs the input `{name}`"))))?;
        let config = in_force(place)?;
        let salve = std::env::current_exe()
            .map_err(|error| wrong(format!("Salve itself cannot be found: {error}")))?;
        let healer = if skill.heals_itself() { CallHealer::Skill } else { CallHealer::Salve };
        let mut tools = SkillTools::new(place.project.root().to_owned(), salve, healer);
        tools.servers = config.settings.skills.servers;
        tools.commands = config.settings.skills.commands;
        let inputs: BTreeMap<String, Value> = self.inputs.into_iter().collect();
        let tools = (!self.dry_run).then_some(&mut tools);
        let report = SkillRun { skill: &skill, inputs, tools }.run();
        let report = serde_json::to_value(report).unwrap_or_default();
        Ok(scrub_value(&place.scrubber, &report))
    }

    fn missing_input<'s>(&self, skill: &'s Skill) -> Option<&'s str> {
        let is_missing = |name: &str| !self.inputs.contains_key(name);
        let missing = skill
            .inputs
            .iter()
            .find(|input| input.is_required && input.default.is_null() && is_missing(&input.name));
        missing.map(|input| input.name.as_str())
    }
}

/// Returns where a file of the project is; what leads out of the project is none.
fn inside(root: &Path, file: &str) -> Result<PathBuf, String> {
    let path = root.join(file).canonicalize();
    let path = path.map_err(|error| format!("`{file}` cannot be read: {error}"))?;
    let root = root.canonicalize().map_err(|error| error.to_string())?;
    if path.starts_with(&root) {
        Ok(path)
    } else {
        Err(format!("`{file}` is no file of this project"))
    }
}

/// Returns the settings that hold: a change that an agent made waits for a person.
fn in_force(place: &RepairToolsPlace) -> Result<Config, RepairToolsError> {
    let wrong = |error: &dyn std::fmt::Display| RepairToolsError::Settings(error.to_string());
    match Store::open_existing(&place.project)? {
        Some(store) => config::in_force(store.journal(), &place.sources, &place.scrubber)
            .map(|(config, _)| config)
            .map_err(|error| wrong(&error)),
        None => config::load(&place.sources).map_err(|error| wrong(&error)),
    }
}

/// Returns the tool as clients are told of it.
pub(super) fn tools() -> Vec<Tool> {
    let run = json!({
        "file": { "type": "string", "description": "The skill's YAML file, in this project" },
        "inputs": { "type": "object", "description": "The skill's inputs, by name" },
        "dry_run": { "type": "boolean", "description": "Call no tool; say which would be called" },
    });
    // A skill may do whatever the tools of the settings do.
    let hints = ToolAnnotations::new().read_only(false).destructive(true).open_world(true);
    let tool = tool(
        NAME,
        "Runs a skill: steps in YAML that call the tools of the user's settings, with conditions \
         and computations. Returns for each step what went in, what came out, and why it ran or \
         not.",
        schema(run, &["file"]),
        ToolAnnotations::new(),
    );
    vec![tool.with_annotations(hints)]
}
