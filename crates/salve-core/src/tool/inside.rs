//! Healing inside of a tool: its settings, and what is next when a call has failed.
//!
//! `salve-auto-heal` acts on this: it runs the tool, tells what came of it, and does what is next.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::failure::FailedCall;
use super::rule::{HealChoice, HealTable, ToolFix, ToolPattern, ToolTerms};
use super::rule_text::RuleText;
use super::session::ToolHints;

/// What the settings say about healing calls, for tools that heal themselves.
#[derive(Clone, Debug)]
pub struct InsideSettings {
    /// Whether failed calls are healed at all.
    pub is_enabled: bool,
    /// How often a call is tried again, where the tool itself does not say.
    pub max_retries: u32,
    /// The Kubernetes settings of each cluster.
    pub clusters: BTreeMap<String, String>,
    /// What heals failed calls.
    pub table: HealTable,
}

/// The settings as they are written; sections that are about other things are none of ours.
#[derive(Default, Deserialize)]
#[serde(default)]
struct InsideText {
    auto_heal: AutoHealText,
    tools: BTreeMap<String, ToolText>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AutoHealText {
    enabled: bool,
    max_retries: u32,
    /// What holds the commands of `salve` holds none of a function's own.
    #[serde(rename = "fix_timeout_ms")]
    _fix_timeout_ms: Option<u64>,
    vpn_script: Option<String>,
    clusters: BTreeMap<String, String>,
    rules: Vec<RuleText>,
}

impl Default for AutoHealText {
    fn default() -> Self {
        Self {
            enabled: true,
            max_retries: 1,
            _fix_timeout_ms: None,
            vpn_script: None,
            clusters: BTreeMap::new(),
            rules: Vec::new(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolText {
    read_only: bool,
    idempotent: bool,
    cluster: Option<String>,
    verify: Option<String>,
}

impl Default for InsideSettings {
    fn default() -> Self {
        Self {
            is_enabled: true,
            max_retries: 1,
            clusters: BTreeMap::new(),
            table: HealTable::default(),
        }
    }
}

impl InsideSettings {
    /// Reads the sections `auto_heal` and `tools` of settings in JSON, as the spec has them, or in
    /// TOML.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read: InsideText = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| error.to_string())?
        } else {
            toml::from_str(text).map_err(|error| error.to_string())?
        };
        let rules = read.auto_heal.rules.iter().map(RuleText::rule);
        let terms = |tool: ToolText| ToolTerms {
            hints: ToolHints { is_read_only: tool.read_only, is_idempotent: tool.idempotent },
            cluster: tool.cluster,
            verify: tool.verify,
            // Whoever calls a function of their own waits for it as they like.
            timeout_ms: None,
        };
        let tools = read.tools.into_iter();
        Ok(Self {
            is_enabled: read.auto_heal.enabled,
            max_retries: read.auto_heal.max_retries,
            clusters: read.auto_heal.clusters,
            table: HealTable {
                rules: rules.collect::<Result<_, _>>()?,
                vpn_script: read.auto_heal.vpn_script,
                tools: tools.map(|(name, tool)| (ToolPattern::new(&name), terms(tool))).collect(),
            },
        })
    }
}

/// What a tool says about itself where it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealedTool {
    pub name: &'static str,
    /// The cluster that it is about, or `auto`.
    pub cluster: &'static str,
    /// How often it is tried again, if it says so.
    pub max_retries: Option<u32>,
    /// What holds for calling it twice.
    pub hints: ToolHints,
}

/// What is next for a call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsideStep {
    /// This is done; if it works the call is made again, else the next step is asked for.
    Fix(ToolFix),
    /// The failure is returned.
    GiveUp {
        /// Why nothing was done although something would help.
        reason: Option<String>,
    },
}

/// One call of a tool that heals itself, from its first failure to its end.
#[derive(Clone, Debug)]
pub struct InsideHealing {
    table: HealTable,
    tool: HealedTool,
    retries_left: u32,
    tried: Vec<String>,
}

impl InsideHealing {
    /// Begins with the first failure of a call.
    pub fn new(settings: &InsideSettings, tool: HealedTool) -> Self {
        let terms = ToolTerms {
            hints: tool.hints,
            cluster: (tool.cluster != "auto").then(|| tool.cluster.to_owned()),
            verify: None,
            timeout_ms: None,
        };
        let mut table = settings.table.clone();
        table.tools.insert(0, (ToolPattern::new(tool.name), terms));
        let allowed = tool.max_retries.unwrap_or(settings.max_retries);
        let retries_left = if settings.is_enabled { allowed } else { 0 };
        Self { table, tool, retries_left, tried: Vec::new() }
    }

    /// Returns what is next for a failure; `has_tool` knows the functions that can help.
    pub fn next(&mut self, call: &FailedCall, has_tool: &dyn Fn(&str) -> bool) -> InsideStep {
        if self.retries_left == 0 {
            return InsideStep::GiveUp { reason: None };
        }
        let reason = match self.table.choose(call, self.tool.hints, has_tool) {
            HealChoice::Fixes(fixes) => {
                let is_new = |fix: &ToolFix| !self.tried.contains(&fix.cause());
                let Some(fix) = fixes.into_iter().find(is_new) else {
                    return InsideStep::GiveUp { reason: None };
                };
                self.tried.push(fix.cause());
                return InsideStep::Fix(fix);
            }
            HealChoice::MayHaveActed { .. } => {
                Some("the call may have taken effect and is not repeated".to_owned())
            }
            HealChoice::Person(why) => Some(why),
            HealChoice::Nothing => None,
        };
        InsideStep::GiveUp { reason }
    }

    /// Notes that the call is made again.
    pub fn called_again(&mut self) {
        self.retries_left = self.retries_left.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;

    const SPEC: &str = r#"{ "auto_heal": { "enabled": true, "max_retries": 1,
        "vpn_script": "~/vpn-connect", "clusters": { "stage": "~/.kube/config.s",
        "prod": "~/.kube/config.p", "ephemeral": "~/.kube/config.e", "konflux": "~/.kube/config.k" } } }"#;

    fn tool(cluster: &'static str, max_retries: Option<u32>) -> HealedTool {
        HealedTool { name: "kube_get", cluster, max_retries, hints: ToolHints::default() }
    }

    /// Returns the causes of the fixes that are tried for one failure, and why it ended.
    fn course(settings: &str, tool: HealedTool, text: &str) -> (Vec<String>, Option<String>) {
        let settings = InsideSettings::parse(settings).unwrap();
        let mut healing = InsideHealing::new(&settings, tool);
        let call = FailedCall::new(tool.name, text, Class::Unknown);
        let mut causes = Vec::new();
        loop {
            match healing.next(&call, &|name| name == "kube_login") {
                InsideStep::Fix(fix) => {
                    causes.push(fix.cause());
                    healing.called_again();
                }
                InsideStep::GiveUp { reason } => return (causes, reason),
            }
        }
    }

    #[test]
    fn the_specs_settings_heal_a_tool_from_inside() {
        let login = |cluster: &str| format!("call kube_login [(\"cluster\", \"{cluster}\")]");
        for (given, text, want) in [
            (tool("auto", None), "connection refused", vec!["vpn ~/vpn-connect".to_owned()]),
            (tool("auto", None), "401 Unauthorized", vec![login("stage")]),
            (tool("konflux", None), "401 Unauthorized", vec![login("konflux")]),
            (tool("prod", None), "prod: 401 Unauthorized", vec![login("prod")]),
            (tool("auto", Some(0)), "401 Unauthorized", Vec::new()),
            (tool("auto", None), "disk full", Vec::new()),
        ] {
            let (causes, reason) = course(SPEC, given, text);
            assert_eq!((causes, reason), (want, None), "{given:?} {text}");
        }
        let off = SPEC.replace("\"enabled\": true", "\"enabled\": false");
        assert_eq!(course(&off, tool("auto", Some(3)), "401 Unauthorized").0, Vec::<String>::new());
    }

    #[test]
    fn what_is_not_safe_is_said_and_not_done() {
        let (causes, reason) = course(SPEC, tool("auto", Some(5)), "request timeout");
        assert!(causes.is_empty() && reason.unwrap().contains("may have taken effect"));
        let (causes, reason) = course(SPEC, tool("auto", Some(5)), "prod: 401 Unauthorized");
        assert!(causes.is_empty() && reason.unwrap().contains("production"));
        let idempotent = ToolHints { is_read_only: false, is_idempotent: true };
        let declared = HealedTool { hints: idempotent, ..tool("auto", Some(5)) };
        assert_eq!(course(SPEC, declared, "request timeout").0, ["vpn ~/vpn-connect"]);
    }

    #[test]
    fn each_fix_is_tried_once_and_the_retries_are_counted() {
        let rules = "[[auto_heal.rules]]\nmatch = \"expired\"\nrun = \"a\"\n[[auto_heal.rules]]\nclass = \"auth\"\nrun = \"b\"\n";
        let both = course(rules, tool("auto", Some(9)), "token expired").0;
        assert_eq!(both[..2], ["run a", "run b"]);
        assert_eq!(both.len(), 3, "the function that logs in comes last, then nothing: {both:?}");
        assert_eq!(course(rules, tool("auto", None), "token expired").0, ["run a"]);
        assert!(InsideSettings::parse("[[auto_heal.rules]]\nrun = \"a\"\n").is_err());
    }
}
