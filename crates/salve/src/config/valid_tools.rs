//! Checks the rules on tool calls, and makes the table that is gone by.

use salve_core::tool::rule::{FixReach, HealRule, HealTable, ToolPattern, ToolTerms};
use salve_core::tool::rule_text::{RuleCall, RuleText, RuleWait};
use salve_core::tool::session::ToolHints;

use super::problem::ConfigProblem;
use super::settings::Settings;
use super::tools::{HealRuleEntry, SharedFix};
use super::tree::{SettingNode, Value};

const KEY: &str = "auto_heal.rules";

/// Returns what is wrong with the rules.
pub(super) fn problems(settings: &Settings, tree: &SettingNode) -> Vec<ConfigProblem> {
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
            timeout_ms: entry.timeout_ms,
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
    let call = entry
        .call
        .as_ref()
        .map(|call| RuleCall { tool: call.tool.clone(), args: call.args.clone() });
    RuleText {
        tool: entry.tool.clone(),
        r#match: entry.r#match.clone(),
        class: entry.class.clone(),
        run: entry.run.clone(),
        call,
        restart: entry.restart,
        wait: entry.wait.map(|super::tools::WaitFor::RetryAfter| RuleWait::RetryAfter),
        writes: entry.writes.clone(),
        shared: match entry.shared {
            SharedFix::Machine => FixReach::Machine,
            SharedFix::Fleet => FixReach::Fleet,
        },
    }
    .rule()
}
