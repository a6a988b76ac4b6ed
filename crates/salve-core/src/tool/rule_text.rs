//! A rule on what heals failed calls as people write it, and the rule that it makes.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::failure::FailureCategory;
use super::rule::{FixReach, HealRule, RuleCondition, ToolFix, ToolPattern};
use crate::class::Class;

/// One rule of the settings, not checked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleText {
    /// Which tools or commands it is for; `*` matches anything.
    pub tool: Option<String>,
    /// The regular expression that the error's text matches.
    pub r#match: Option<String>,
    /// The class of the failure: network, auth, busy, or one of the fingerprint's.
    pub class: Option<String>,
    /// The command that helps.
    pub run: Option<String>,
    /// The tool that helps.
    pub call: Option<RuleCall>,
    /// Whether the server is started again.
    pub restart: bool,
    pub wait: Option<RuleWait>,
    /// What the command may write to outside of the project.
    pub writes: Vec<String>,
    /// Who all is helped by the command.
    pub shared: FixReach,
}

/// A tool that helps, as a rule names it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleCall {
    /// Its name.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub args: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleWait {
    /// The time that the error names.
    RetryAfter,
}

impl RuleText {
    /// Returns the rule.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn rule(&self) -> Result<HealRule, String> {
        let when = match (&self.r#match, &self.class) {
            (Some(text), None) => RuleCondition::text(text)
                .map_err(|error| format!("match is no regular expression: {error}"))?,
            (None, Some(class)) => condition(class)?,
            (None, None) | (Some(_), Some(_)) => {
                return Err("a rule has either match or class".to_owned());
            }
        };
        Ok(HealRule { tool: self.tool.as_deref().map(ToolPattern::new), when, fix: self.fix()? })
    }

    fn fix(&self) -> Result<ToolFix, String> {
        let mut fixes = Vec::new();
        fixes.extend(self.run.as_ref().map(|command| ToolFix::Run {
            command: command.clone(),
            writes: self.writes.clone(),
            cluster: None,
            reach: self.shared,
        }));
        fixes.extend(self.call.as_ref().map(|call| ToolFix::Call {
            tool: call.tool.clone(),
            arguments: call.args.clone().into_iter().collect(),
        }));
        fixes.extend(self.restart.then_some(ToolFix::Restart));
        fixes.extend(self.wait.map(|RuleWait::RetryAfter| ToolFix::Wait { seconds: 0 }));
        if self.run.is_none() && !self.writes.is_empty() {
            return Err("writes is about run, which is missing".to_owned());
        }
        if self.run.is_none() && self.shared != FixReach::Machine {
            return Err("shared is about run, which is missing".to_owned());
        }
        let (first, others) = (fixes.pop(), fixes.len());
        first
            .filter(|_| others == 0)
            .ok_or_else(|| "a rule has one of run, call, restart and wait".to_owned())
    }
}

fn condition(class: &str) -> Result<RuleCondition, String> {
    let categories = [FailureCategory::Network, FailureCategory::Auth, FailureCategory::Busy];
    if let Some(category) = categories.into_iter().find(|one| one.as_str() == class) {
        return Ok(RuleCondition::Category(category));
    }
    let known = Class::ALL.iter().find(|one| one.as_str() == class);
    known.map(|class| RuleCondition::Class(*class)).ok_or_else(|| format!("no class `{class}`"))
}
