//! Checks the rules on tool calls, and makes the table that is gone by.

use salve_core::class::Class;
use salve_core::tool::failure::FailureCategory;
use salve_core::tool::rule::{HealRule, HealTable, RuleCondition, ToolFix, ToolPattern, ToolTerms};
use salve_core::tool::session::ToolHints;

use super::problem::ConfigProblem;
use super::settings::Settings;
use super::tools::HealRuleEntry;
use super::tree::{Node, Value};

const KEY: &str = "auto_heal.rules";

/// Returns what is wrong with the rules.
pub(super) fn problems(settings: &Settings, tree: &Node) -> Vec<ConfigProblem> {
    let nodes = match tree.get(KEY).map(|node| &node.value) {
        Some(Value::List(nodes)) => nodes.as_slice(),
        _ => &[],
    };
    let rules = settings.auto_heal.rules.iter().enumerate();
    let problem = |(at, entry): (usize, &HealRuleEntry)| {
        let message = rule(entry).err()?;
        let origin = nodes.get(at).map(|node| node.origin.clone());
        Some(ConfigProblem { origin, key: Some(KEY.to_owned()), message })
    };
    rules.filter_map(problem).collect()
}

impl Settings {
    /// Returns what heals failed calls.
    pub fn heal_table(&self) -> HealTable {
        let terms = |entry: &super::tools::ToolEntry| ToolTerms {
            hints: ToolHints { is_read_only: entry.read_only, is_idempotent: entry.idempotent },
            cluster: entry.cluster.clone(),
            verify: entry.verify.clone(),
        };
        let tools = self.tools.iter().map(|(name, entry)| (ToolPattern::new(name), terms(entry)));
        HealTable {
            rules: self.auto_heal.rules.iter().filter_map(|entry| rule(entry).ok()).collect(),
            vpn_script: self.auto_heal.vpn_script.clone(),
            tools: tools.collect(),
        }
    }
}

/// Returns a rule, or what is wrong with it.
fn rule(entry: &HealRuleEntry) -> Result<HealRule, String> {
    let when = match (&entry.r#match, &entry.class) {
        (Some(text), None) => RuleCondition::text(text)
            .map_err(|error| format!("match is no regular expression: {error}"))?,
        (None, Some(class)) => condition(class)?,
        (None, None) | (Some(_), Some(_)) => {
            return Err("a rule has either match or class".to_owned());
        }
    };
    Ok(HealRule { tool: entry.tool.as_deref().map(ToolPattern::new), when, fix: fix(entry)? })
}

fn condition(class: &str) -> Result<RuleCondition, String> {
    let categories = [FailureCategory::Network, FailureCategory::Auth, FailureCategory::Busy];
    if let Some(category) = categories.into_iter().find(|one| one.as_str() == class) {
        return Ok(RuleCondition::Category(category));
    }
    let known = Class::ALL.iter().find(|one| one.as_str() == class);
    known.map(|class| RuleCondition::Class(*class)).ok_or_else(|| format!("no class `{class}`"))
}

fn fix(entry: &HealRuleEntry) -> Result<ToolFix, String> {
    let mut fixes = Vec::new();
    fixes.extend(entry.run.as_ref().map(|command| ToolFix::Run {
        command: command.clone(),
        writes: entry.writes.clone(),
        cluster: None,
    }));
    fixes.extend(entry.call.as_ref().map(|call| ToolFix::Call {
        tool: call.tool.clone(),
        arguments: call.args.clone().into_iter().collect(),
    }));
    fixes.extend(entry.restart.then_some(ToolFix::Restart));
    fixes.extend(entry.wait.map(|super::tools::WaitFor::RetryAfter| ToolFix::Wait { seconds: 0 }));
    if entry.run.is_none() && !entry.writes.is_empty() {
        return Err("writes is about run, which is missing".to_owned());
    }
    let (first, others) = (fixes.pop(), fixes.len());
    first
        .filter(|_| others == 0)
        .ok_or_else(|| "a rule has one of run, call, restart and wait".to_owned())
}
