//! Skills: YAML steps that call tools, with conditions and computations in Python.
//!
//! A skill that has no healing of its own runs its tools behind Salve's healing; one whose steps
//! already look at a failure and call the tool again is left to do so, so that nothing is healed
//! twice.

mod check;
mod file;
mod python;
mod run;
mod tool_caller;

pub use check::{FindingSeverity, SkillFinding, check_skill};
pub use file::{
    OnStepError, Skill, SkillError, SkillInput, SkillStep, check_skill_text, parse_skill,
};
pub use python::{Python, PythonCode, PythonError};
pub use run::{SkillReport, SkillRun, StepState, StepTrace};
pub use tool_caller::{CallHealer, SkillTools, ToolCallError};

#[cfg(test)]
mod tests;
