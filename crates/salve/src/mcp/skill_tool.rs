//! The tool that runs a skill of the project.
//!
//! A skill calls only tools that the user's settings name, and Python in it can only compute. It
//! takes its time on a thread of its own, so that it holds up no other tool. Its tools run behind a
//! `salve skill run` of their own: its keeper holds whatever they start, so that none of it can
//! pass for a person, and all of it ends with whoever serves the tools.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rmcp::model::{Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::team::schema;
use super::tool::tool;
use super::{RepairToolsError, RepairToolsPlace};
use crate::files::{self, FileKind};
use crate::scrub::scrub_value;
use crate::skills::{Skill, SkillRun, parse_skill};

/// How much a skill may report.
const LONGEST: u64 = 64 << 20;

/// The tool's name.
pub(super) const NAME: &str = "skill_run";

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
        if !self.dry_run {
            return self.run_apart(&path, place);
        }
        let inputs: BTreeMap<String, Value> = self.inputs.into_iter().collect();
        let report = SkillRun { skill: &skill, inputs, tools: None }.run();
        let report = serde_json::to_value(report).unwrap_or_default();
        Ok(scrub_value(&place.scrubber, &report))
    }

    /// Runs the skill in a process of its own.
    fn run_apart(&self, path: &Path, place: &RepairToolsPlace) -> Result<Value, RepairToolsError> {
        let wrong = |error: std::io::Error| {
            RepairToolsError::Skill(format!("`{}` cannot be run: {error}", self.file))
        };
        let salve = std::env::current_exe().map_err(wrong)?;
        let mut command = Command::new(salve);
        command.arg("--project").arg(place.project.root()).arg("--json");
        for setting in &place.sources.flags {
            command.arg("--set").arg(setting);
        }
        command.args(["skill", "run", "--for-client"]).arg(path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(wrong)?;
        // It is held until all is said: the child ends when it is closed.
        let mut stdin = child.stdin.take();
        let told = stdin.as_mut().map_or(Ok(()), |stdin| {
            writeln!(stdin, "{}", Value::Object(self.inputs.clone())).and_then(|()| stdin.flush())
        });
        let complaint = child.stderr.take().map(|from| std::thread::spawn(move || read_all(from)));
        let report = child.stdout.take().map(read_all).unwrap_or_default();
        let ended = child.wait().map_err(wrong)?;
        let complaint = complaint.and_then(|thread| thread.join().ok()).unwrap_or_default();
        match serde_json::from_slice::<Value>(&report) {
            Ok(report) if report.is_object() => Ok(scrub_value(&place.scrubber, &report)),
            Ok(_) | Err(_) => {
                told.map_err(wrong)?;
                let said = String::from_utf8_lossy(&complaint);
                let said = said.trim().trim_start_matches("error:").trim();
                let why = if said.is_empty() { ended.to_string() } else { said.to_owned() };
                Err(RepairToolsError::Skill(place.scrubber.scrub(&why).as_str().to_owned()))
            }
        }
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

fn read_all(from: impl std::io::Read) -> Vec<u8> {
    let mut text = Vec::new();
    // What cannot be read was not said.
    let _ = from.take(LONGEST).read_to_end(&mut text);
    text
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
