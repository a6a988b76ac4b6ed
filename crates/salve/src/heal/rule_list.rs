//! Every rule with its origin and its record, for whoever shows them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use salve_core::earned::{Came, EarnedRule, EarningTerms, Lost, RuleStanding};
use salve_core::scrub::Scrubber;
use serde::Serialize;

use crate::config::tree::{SettingNode, Value};
use crate::config::{Config, PlaybookAuto};

/// What a rule does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleState {
    /// What fits it runs.
    Allows,
    /// What fits it waits for a person.
    Asks,
    /// A person could accept it.
    Proposed,
    /// It has not been proven often enough.
    Gathering,
    /// Its time is over.
    Expired,
    /// It was taken back.
    Withdrawn,
}

#[derive(Clone, Debug, Serialize)]
pub struct RuleListRow {
    /// The rule's name.
    pub rule: String,
    /// What it does now.
    pub state: RuleState,
    /// What it is about.
    pub text: String,
    /// Where it is written, or who accepted it.
    pub origin: String,
    /// How an earned rule did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<RuleRecord>,
}

/// The record of an earned rule.
#[derive(Clone, Debug, Serialize)]
pub struct RuleRecord {
    /// The failure that it is for.
    pub signature: String,
    /// How often a person approved the command.
    pub approvals: usize,
    /// How often it was proven to help.
    pub proven: usize,
    /// The times that it ran.
    pub uses: Vec<RuleUse>,
    /// Until when it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why it holds no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// One use of an earned rule.
#[derive(Clone, Debug, Serialize)]
pub struct RuleUse {
    pub incident: String,
    /// When it had come out.
    pub at: Timestamp,
    /// How it came out.
    pub came: &'static str,
}

/// Returns the rules that stand in the settings.
pub fn written_rules(config: &Config, scrubber: &Scrubber) -> Vec<RuleListRow> {
    let entries = |key: &str, state: RuleState| {
        let list = match config.tree.get(&format!("recovery.{key}")).map(|node| &node.value) {
            Some(Value::List(items)) => items.as_slice(),
            Some(_) | None => &[],
        };
        let row = move |(place, node): (usize, &SettingNode)| RuleListRow {
            rule: format!("{key}[{place}]"),
            state,
            text: match &node.value {
                Value::Text(text) => scrubber.scrub(text).to_string(),
                other => scrubber.scrub(&other.to_json().to_string()).to_string(),
            },
            origin: origin(Some(node)),
            record: None,
        };
        list.iter().enumerate().map(row).collect::<Vec<_>>()
    };
    let mut rows = entries("auto_approve", RuleState::Allows);
    rows.extend(entries("require_human", RuleState::Asks));
    let (state, text) = match config.settings.playbook.auto {
        PlaybookAuto::Safe => (RuleState::Allows, "shipped remedies that are safe"),
        PlaybookAuto::None => (RuleState::Asks, "every shipped remedy"),
    };
    rows.push(RuleListRow {
        rule: "playbook.auto".to_owned(),
        state,
        text: text.to_owned(),
        origin: origin(config.tree.get("playbook.auto")),
        record: None,
    });
    rows
}

fn origin(node: Option<&SettingNode>) -> String {
    match node.map(|node| &node.origin) {
        None => "not set".to_owned(),
        Some(origin) if origin.layer() == "default" => "default".to_owned(),
        Some(origin) => match origin.place() {
            Some(place) => format!("{}:{}", origin.name(), place.line),
            None => format!("{} {}", origin.layer(), origin.name()),
        },
    }
}

impl RuleListRow {
    /// Returns an earned rule as it is shown.
    pub fn of_earned(rule: &EarnedRule, terms: EarningTerms, now: Timestamp) -> Self {
        let standing = rule.standing(terms, now);
        let (state, until) = match standing {
            RuleStanding::Allowed { until } => (RuleState::Allows, Some(until)),
            RuleStanding::Proposed => (RuleState::Proposed, None),
            RuleStanding::Gathering => (RuleState::Gathering, None),
            RuleStanding::Expired => (RuleState::Expired, None),
            RuleStanding::Lost => (RuleState::Withdrawn, None),
        };
        let origin = match (&rule.accepted, &rule.accepted_before_seals, rule.approvals.last()) {
            (Some(word), ..) => format!("accepted by {}, {}", word.by, day(word.at)),
            (None, Some(word), _) => {
                format!("accepted by {} before words were sealed; accept it once more", word.by)
            }
            (None, None, Some(word)) => format!("approved by {}, {}", word.by, day(word.at)),
            (None, None, None) => String::new(),
        };
        let lost = rule.lost.as_ref().map(|lost| match lost {
            Lost::Use(one) => format!("{} in heal-{}", came(one.came), one.incident.short()),
            Lost::Withdrawn(word) => format!("withdrawn by {}", word.by),
        });
        let uses = rule.uses.iter().map(|one| RuleUse {
            incident: one.incident.to_string(),
            at: one.at,
            came: came(one.came),
        });
        let proven = rule.uses.iter().filter(|one| one.came == Came::Proven).count();
        let record = RuleRecord {
            signature: rule.key.signature.to_string(),
            approvals: rule.approvals.len(),
            proven,
            uses: uses.collect(),
            until,
            lost,
        };
        let text = rule.command.to_string();
        Self { rule: rule.key.to_string(), state, text, origin, record: Some(record) }
    }
}

/// Returns the word for how a use came out.
pub fn came(came: Came) -> &'static str {
    match came {
        Came::Proven => "proven",
        Came::Unproven => "unproven",
        Came::Failed => "failed",
    }
}

/// Returns the day of a time, here.
pub fn day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string()
}
