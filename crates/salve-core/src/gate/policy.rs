//! What may run unattended: the `recovery` section, checked.
//!
//! [`RawPolicy`] is what a person wrote, [`GatePolicy`] is what the gate goes by. There is no way from
//! one to the other around [`GatePolicy::new`], so a section with anything wrong in it approves
//! nothing.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pattern::ApprovalPattern;
use super::request::MAX_COMMAND;

/// How many entries each list may have.
pub const MAX_RULES: usize = 10_000;

/// What to do with a command that no list knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// Ask a person.
    #[default]
    Escalate,
    /// Refuse.
    Deny,
    /// Run it; nothing but `require_human` stands in the way.
    Allow,
}

impl OnUnknown {
    /// Returns the name used in settings.
    pub const fn name(self) -> &'static str {
        match self {
            OnUnknown::Escalate => "escalate",
            OnUnknown::Deny => "deny",
            OnUnknown::Allow => "allow",
        }
    }
}

/// The `recovery` section as written, with the defaults for what is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawPolicy {
    /// Whether recovery commands run at all.
    pub enabled: bool,
    /// Commands that run without asking, byte for byte.
    pub auto_approve: Vec<String>,
    /// Patterns of commands that need a person; `*` matches anything.
    pub require_human: Vec<String>,
    /// How many commands may run without asking in one run.
    pub max_auto_recoveries_per_run: u64,
    /// The least time between two such commands.
    pub cooldown_seconds: u64,
    /// What to do with a command that no list knows.
    pub on_unknown: OnUnknown,
}

impl Default for RawPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            auto_approve: Vec::new(),
            require_human: vec!["*".into()],
            max_auto_recoveries_per_run: 3,
            cooldown_seconds: 60,
            on_unknown: OnUnknown::default(),
        }
    }
}

/// One thing that is wrong with a `recovery` section.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct PolicyError {
    /// The setting, with its place in the list if it is one.
    pub field: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// A `recovery` section that cannot be used; it approves nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPolicy(pub Vec<PolicyError>);

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidPolicy {}

/// A checked policy.
#[derive(Clone, Debug)]
pub struct GatePolicy {
    pub(super) enabled: bool,
    pub(super) auto_approve: Vec<String>,
    pub(super) require_human: Vec<ApprovalPattern>,
    pub(super) max_auto_recoveries_per_run: u64,
    pub(super) cooldown_seconds: u64,
    pub(super) on_unknown: OnUnknown,
}

impl GatePolicy {
    /// Checks `raw`.
    ///
    /// # Errors
    ///
    /// Returns everything that is wrong, not only the first.
    pub fn new(raw: &RawPolicy) -> Result<Self, InvalidPolicy> {
        let mut errors = Vec::new();
        check_list("auto_approve", &raw.auto_approve, &mut errors);
        check_list("require_human", &raw.require_human, &mut errors);
        if !errors.is_empty() {
            return Err(InvalidPolicy(errors));
        }
        Ok(Self {
            enabled: raw.enabled,
            auto_approve: raw.auto_approve.clone(),
            require_human: raw
                .require_human
                .iter()
                .map(|text| ApprovalPattern::new(text))
                .collect(),
            max_auto_recoveries_per_run: raw.max_auto_recoveries_per_run,
            cooldown_seconds: raw.cooldown_seconds,
            on_unknown: raw.on_unknown,
        })
    }

    /// Tells whether anything is recovered from at all.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Returns how many commands may run unattended in one run.
    pub fn max_auto_recoveries(&self) -> u64 {
        self.max_auto_recoveries_per_run
    }

    /// Tells whether a command that no rule knows is denied.
    pub fn denies_unknown(&self) -> bool {
        self.on_unknown == OnUnknown::Deny
    }

    /// Reads and checks a section that was read as JSON or TOML.
    ///
    /// # Errors
    ///
    /// Returns everything that is wrong with it.
    pub fn read(section: &Value) -> Result<Self, InvalidPolicy> {
        Self::new(&RawPolicy::read(section)?)
    }

    /// Returns the same policy with one more command that needs no person.
    #[must_use]
    pub fn also_approving(&self, command: &str) -> Self {
        let mut policy = self.clone();
        policy.auto_approve.push(command.to_owned());
        policy
    }
}

fn check_list(name: &str, list: &[String], errors: &mut Vec<PolicyError>) {
    if list.len() > MAX_RULES {
        errors.push(PolicyError { field: name.into(), problem: "has more than 10000 entries" });
        return;
    }
    for (i, text) in list.iter().enumerate() {
        let problem = if text.trim().is_empty() {
            "is empty"
        } else if text.trim_matches(outer_white_space) != text {
            "has white space at an end; no trimmed command could equal it"
        } else if text.contains('\0') {
            "holds a NUL character"
        } else if text.len() > MAX_COMMAND {
            "is longer than any command the gate looks at"
        } else {
            continue;
        };
        errors.push(PolicyError { field: format!("{name}[{i}]"), problem });
    }
}

fn outer_white_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

impl RawPolicy {
    /// Reads a section that was read as JSON or TOML.
    ///
    /// # Errors
    ///
    /// Returns everything of the wrong type and every unknown key.
    pub fn read(section: &Value) -> Result<Self, InvalidPolicy> {
        let mut raw = Self::default();
        let mut errors = Vec::new();
        let Some(map) = section.as_object() else {
            let problem = "should be a table of settings";
            return Err(InvalidPolicy(vec![PolicyError { field: "recovery".into(), problem }]));
        };
        for (key, value) in map {
            let read = match key.as_str() {
                "enabled" => set(&mut raw.enabled, value.as_bool(), "should be true or false"),
                "auto_approve" => set(&mut raw.auto_approve, texts(value), LIST),
                "require_human" => set(&mut raw.require_human, texts(value), LIST),
                "max_auto_recoveries_per_run" => {
                    set(&mut raw.max_auto_recoveries_per_run, value.as_u64(), COUNT)
                }
                "cooldown_seconds" => set(&mut raw.cooldown_seconds, value.as_u64(), COUNT),
                "on_unknown" => {
                    let known = OnUnknown::deserialize(value).ok().filter(|_| value.is_string());
                    set(&mut raw.on_unknown, known, "should be \"escalate\", \"deny\" or \"allow\"")
                }
                // How a command is held says nothing about whether it may run.
                "sandbox" if value.is_object() => Ok(()),
                // How a loop's recovery goes about it is not the gate's to judge.
                "changed_manifest" => Ok(()),
                _ => Err("is no setting of this section"),
            };
            if let Err(problem) = read {
                errors.push(PolicyError { field: key.clone(), problem });
            }
        }
        if errors.is_empty() { Ok(raw) } else { Err(InvalidPolicy(errors)) }
    }
}

const LIST: &str = "should be a list of texts";
const COUNT: &str = "should be a whole number, zero or more";

fn set<T>(slot: &mut T, value: Option<T>, problem: &'static str) -> Result<(), &'static str> {
    *slot = value.ok_or(problem)?;
    Ok(())
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_section_has_the_specs_defaults() {
        let raw = RawPolicy::read(&json!({})).unwrap();
        assert_eq!(raw, RawPolicy::default());
        assert!(raw.enabled && raw.auto_approve.is_empty());
        assert_eq!(raw.require_human, ["*"]);
        assert_eq!((raw.max_auto_recoveries_per_run, raw.cooldown_seconds), (3, 60));
        assert_eq!(raw.on_unknown, OnUnknown::Escalate);
    }

    #[test]
    fn every_setting_is_read() {
        let section = json!({
            "enabled": false, "auto_approve": ["npm ci"], "require_human": ["git push", "rm *"],
            "max_auto_recoveries_per_run": 0, "cooldown_seconds": 5, "on_unknown": "allow"
        });
        let raw = RawPolicy::read(&section).unwrap();
        assert_eq!(serde_json::to_value(&raw).unwrap(), section);
        assert_eq!(serde_json::from_value::<RawPolicy>(section).unwrap(), raw);
        assert!(GatePolicy::new(&raw).is_ok());
    }

    #[test]
    fn whatever_is_wrong_is_named() {
        for (section, field) in [
            (json!({"enabled": "yes"}), "enabled"),
            (json!({"enabled": null}), "enabled"),
            (json!({"enabled": 1}), "enabled"),
            (json!({"auto_approve": "npm ci"}), "auto_approve"),
            (json!({"auto_approve": null}), "auto_approve"),
            (json!({"auto_approve": ["npm ci", 3]}), "auto_approve"),
            (json!({"auto_approve": {"0": "npm ci"}}), "auto_approve"),
            (json!({"auto_approve": ["npm ci", ""]}), "auto_approve[1]"),
            (json!({"auto_approve": [" npm ci"]}), "auto_approve[0]"),
            (json!({"auto_approve": ["npm ci\n"]}), "auto_approve[0]"),
            (json!({"auto_approve": ["npm ci\u{a0}"]}), "auto_approve[0]"),
            (json!({"auto_approve": ["\u{b}npm ci"]}), "auto_approve[0]"),
            (json!({"auto_approve": ["npm\0ci"]}), "auto_approve[0]"),
            (json!({"auto_approve": ["x".repeat(MAX_COMMAND + 1)]}), "auto_approve[0]"),
            (json!({"require_human": [null]}), "require_human"),
            (json!({"require_human": "*"}), "require_human"),
            (json!({"require_human": [""]}), "require_human[0]"),
            (json!({"require_human": ["git push "]}), "require_human[0]"),
            (json!({"max_auto_recoveries_per_run": -1}), "max_auto_recoveries_per_run"),
            (json!({"max_auto_recoveries_per_run": "3"}), "max_auto_recoveries_per_run"),
            (json!({"cooldown_seconds": 0.5}), "cooldown_seconds"),
            (json!({"cooldown_seconds": null}), "cooldown_seconds"),
            (json!({"on_unknown": "Allow"}), "on_unknown"),
            (json!({"on_unknown": null}), "on_unknown"),
            (json!({"on_unknown": {"allow": null}}), "on_unknown"),
            (json!({"on_unknown": true}), "on_unknown"),
            (json!({"auto_aprove": []}), "auto_aprove"),
            (json!([]), "recovery"),
            (json!(null), "recovery"),
        ] {
            let errors = GatePolicy::read(&section).expect_err(&section.to_string()).0;
            assert_eq!(errors.len(), 1, "{section}");
            assert_eq!(errors[0].field, field, "{section}");
        }
    }
}
