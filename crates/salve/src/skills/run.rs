//! Runs a skill, and tells of each step what went in, what came out, and why it ran or not.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use serde_json::{Map, Value};

use super::file::{OnStepError, Skill, SkillStep};
use super::python::{Python, PythonError};
use super::tool_caller::SkillTools;

/// How long a step may take that has no limit of its own.
const STEP_LIMIT: Duration = Duration::from_secs(300);
/// How much a template may do.
const FUEL: u64 = 100_000;
/// What a failed step's value begins with, so that conditions can tell it.
const FAILED: &str = "❌";

/// A skill that is being run.
#[derive(Debug)]
pub struct SkillRun<'a> {
    pub skill: &'a Skill,
    pub inputs: BTreeMap<String, Value>,
    /// What calls tools; without it nothing is called, and it is only told what would be.
    pub tools: Option<&'a mut SkillTools>,
}

/// What came of a skill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SkillReport {
    /// Whether it went through to its end.
    pub ok: bool,
    /// The values of all steps that ran, by their names and outputs.
    pub outputs: BTreeMap<String, Value>,
    /// What happened, step by step.
    pub steps: Vec<StepTrace>,
}

/// What happened at one step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepTrace {
    /// The step's name.
    pub id: String,
    /// Its line in the file.
    pub line: u64,
    /// How it came out.
    pub state: StepState,
    /// Why it ran or not.
    pub why: String,
    /// What the tool was called with.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
    /// Its value, or its error.
    pub result: Value,
    /// How long it took.
    pub milliseconds: u64,
}

/// How a step came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    Worked,
    Failed,
    /// It did not run.
    Skipped,
    /// It would have been called.
    WouldRun,
}

impl StepState {
    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Worked => "worked",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::WouldRun => "would run",
        }
    }
}

/// What a step did.
struct StepEffect {
    inputs: Map<String, Value>,
    state: StepState,
    result: Value,
}

impl SkillRun<'_> {
    /// Runs the steps, one after the other.
    pub fn run(mut self) -> SkillReport {
        let mut names: BTreeMap<String, Value> = BTreeMap::new();
        for step in &self.skill.steps {
            names.insert(step.id.clone(), Value::Null);
            names.extend(step.output.clone().map(|output| (output, Value::Null)));
        }
        names.extend(
            self.skill.inputs.iter().map(|input| (input.name.clone(), input.default.clone())),
        );
        names.append(&mut self.inputs);
        let mut report = SkillReport { ok: true, outputs: BTreeMap::new(), steps: Vec::new() };
        for step in &self.skill.steps {
            let begun = Instant::now();
            let trace = self.step(step, &names);
            let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let trace = StepTrace { milliseconds, ..trace };
            let has_failed = trace.state == StepState::Failed;
            if trace.state != StepState::Skipped {
                for name in std::iter::once(&step.id).chain(&step.output) {
                    names.insert(name.clone(), trace.result.clone());
                    report.outputs.insert(name.clone(), trace.result.clone());
                }
            }
            report.steps.push(trace);
            if has_failed && step.on_error != Some(OnStepError::Continue) {
                report.ok = false;
                break;
            }
        }
        report
    }

    fn step(&mut self, step: &SkillStep, names: &BTreeMap<String, Value>) -> StepTrace {
        let trace = |state: StepState, why: String, result: Value| StepTrace {
            id: step.id.clone(),
            line: step.line,
            state,
            why,
            inputs: Map::new(),
            result,
            milliseconds: 0,
        };
        let why = match &step.condition {
            None => "it has no condition".to_owned(),
            Some(condition) => {
                match Python::find().and_then(|python| python.condition(condition, names)) {
                    Ok(true) => format!("`{}` holds", condition.trim()),
                    Ok(false) => {
                        let why = format!("`{}` does not hold", condition.trim());
                        return trace(StepState::Skipped, why, Value::Null);
                    }
                    Err(PythonError::Raised(error)) if error.starts_with("NameError") => {
                        let why = format!("`{}` cannot hold: {error}", condition.trim());
                        return trace(StepState::Skipped, why, Value::Null);
                    }
                    Err(error) => {
                        let why = format!("`{}` could not be judged", condition.trim());
                        return trace(StepState::Failed, why, failed(&error.to_string()));
                    }
                }
            }
        };
        let StepEffect { inputs, state, result } = self.act(step, names);
        StepTrace { inputs, ..trace(state, why, result) }
    }

    fn act(&mut self, step: &SkillStep, names: &BTreeMap<String, Value>) -> StepEffect {
        let nothing = |state, result| StepEffect { inputs: Map::new(), state, result };
        if let Some(code) = &step.compute {
            let value = Python::find().and_then(|python| python.compute(code, names));
            return match value {
                Ok(value) => nothing(StepState::Worked, value),
                Err(error) => nothing(StepState::Failed, failed(&error.to_string())),
            };
        }
        let Some(tool) = &step.tool else { return nothing(StepState::Worked, Value::Null) };
        let inputs = match render_all(&step.args, names) {
            Ok(inputs) => inputs,
            Err(error) => return nothing(StepState::Failed, failed(&error)),
        };
        let Some(tools) = &mut self.tools else {
            return StepEffect { inputs, state: StepState::WouldRun, result: Value::Null };
        };
        let (state, result) = match tools.call(tool, &inputs, step.timeout.unwrap_or(STEP_LIMIT)) {
            Ok(value) => (StepState::Worked, value),
            Err(error) => (StepState::Failed, failed(&error.to_string())),
        };
        StepEffect { inputs, state, result }
    }
}

fn failed(error: &str) -> Value {
    let text = if error.contains(FAILED) { error.to_owned() } else { format!("{FAILED} {error}") };
    Value::String(text)
}

fn render_all(
    args: &Map<String, Value>,
    names: &BTreeMap<String, Value>,
) -> Result<Map<String, Value>, String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    let names = minijinja::Value::from(minijinja::value::Serde(names));
    let render = |(name, value): (&String, &Value)| {
        let value = render(&environment, value, &names)
            .map_err(|error| format!("the argument `{name}` cannot be made: {error}"))?;
        Ok((name.clone(), value))
    };
    args.iter().map(render).collect()
}

/// Fills in a value; a text that is one expression keeps the expression's type.
fn render(
    environment: &Environment<'_>,
    value: &Value,
    names: &minijinja::Value,
) -> Result<Value, minijinja::Error> {
    match value {
        Value::String(text) => {
            let inner = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
            match inner.filter(|inner| !inner.contains("{{") && !inner.contains("}}")) {
                Some(expression) => {
                    let value = environment.compile_expression(expression.trim())?.eval(names)?;
                    if value.is_undefined() {
                        return Err(minijinja::ErrorKind::UndefinedError.into());
                    }
                    Ok(serde_json::to_value(value).unwrap_or_default())
                }
                None => environment.render_str(text, names).map(Value::String),
            }
        }
        Value::Array(values) => {
            values.iter().map(|value| render(environment, value, names)).collect()
        }
        Value::Object(values) => {
            let one = |(name, value): (&String, &Value)| {
                Ok((name.clone(), render(environment, value, names)?))
            };
            values.iter().map(one).collect::<Result<Map<_, _>, _>>().map(Value::Object)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
    }
}
