//! Makes the typed settings from a merged tree that fits the schema.

use std::sync::Arc;

use salve_core::fingerprint::{FingerprintRules, RowError, Rows};
use salve_core::gate::{
    self, FindingKind, GatePolicy, InvalidPolicy, PolicyError, PolicyFinding, RawPolicy,
};
use salve_core::notify::{NTFY_MARK, PublicAddress, QuietHours};
use salve_core::scrub::{ScrubKey, Scrubber};
use serde::Deserialize;

use super::parse::MOST_PROBLEMS;
use super::problem::ConfigProblem;
use super::settings::Settings;
use super::tree::{SettingEntry, SettingNode, Value};
use crate::webhook_secret::{BadSecret, Secret};

/// The most pairs of rules that are compared; more would take too long.
const MOST_PAIRS: usize = 10_000;

/// Settings that are right, and what was built to find that out.
#[derive(Debug)]
pub(super) struct Valid {
    pub(super) settings: Settings,
    /// What the gate goes by.
    pub(super) policy: GatePolicy,
    /// The user's own fingerprint rules with the built-in ones, if there are any.
    pub(super) fingerprints: Option<Arc<FingerprintRules>>,
}

/// Returns the typed settings, or everything that is wrong with them.
pub(super) fn settings(tree: &SettingNode) -> Result<Valid, Vec<ConfigProblem>> {
    let settings = match Settings::deserialize(tree.value.to_json()) {
        Ok(settings) => settings,
        Err(error) => {
            let message = error.to_string();
            return Err(vec![ConfigProblem { origin: None, key: None, message }]);
        }
    };
    let mut problems = addresses(tree);
    problems.extend(notices(&settings, tree));
    problems.extend(patterns(&settings, tree));
    problems.extend(super::valid_servers::problems(&settings, tree));
    problems.extend(super::valid_checks::problems(&settings, tree));
    problems.extend(super::valid_loops::problems(&settings, tree));
    problems.extend(super::valid_tools::problems(&settings, tree));
    problems.extend(writable_dirs(&settings, tree));
    let policy = policy(&settings, tree);
    let fingerprints = fingerprints(&settings, tree);
    match (policy, fingerprints) {
        (Ok(policy), Ok(fingerprints)) if problems.is_empty() => {
            Ok(Valid { settings, policy, fingerprints })
        }
        (policy, fingerprints) => {
            problems.extend(policy.err().into_iter().flatten());
            problems.extend(fingerprints.err().into_iter().flatten());
            Err(problems)
        }
    }
}

/// Checks the recovery section by the gate's own rules.
fn policy(settings: &Settings, tree: &SettingNode) -> Result<GatePolicy, Vec<ConfigProblem>> {
    GatePolicy::new(&RawPolicy::from(&settings.recovery)).map_err(|InvalidPolicy(errors)| {
        let problem = |error: PolicyError| rule_problem(tree, &error.field, error.problem);
        errors.into_iter().map(problem).take(MOST_PROBLEMS).collect()
    })
}

/// Returns the gate's remarks on rules that cannot match or that contradict each other.
///
/// What stands in the defaults is not the user's business.
pub(super) fn remarks(
    policy: &GatePolicy,
    tree: &SettingNode,
    scrubber: &Scrubber,
) -> Vec<ConfigProblem> {
    let entries = |key| match tree.get(key).map(|node| &node.value) {
        Some(Value::List(items)) => items.len(),
        Some(_) | None => 0,
    };
    let (approve, human) = (entries("recovery.auto_approve"), entries("recovery.require_human"));
    if approve.max(human).saturating_mul(human) > MOST_PAIRS {
        return vec![rule_problem(tree, "require_human", "too many rules to compare them")];
    }
    let meant = |finding: &PolicyFinding| match finding.kind {
        FindingKind::Unreachable | FindingKind::Conflict | FindingKind::Shadowed => true,
        FindingKind::Notice => false,
    };
    let found = gate::findings(policy, scrubber);
    let remarks = found
        .iter()
        .filter(|finding| meant(finding))
        .map(|finding| rule_problem(tree, &finding.rule.to_string(), finding.message.as_str()));
    let theirs = |problem: &ConfigProblem| {
        problem.origin.as_ref().is_none_or(|origin| origin.layer() != "default")
    };
    remarks.filter(theirs).collect()
}

/// Returns a problem with one of the gate's rules, such as `auto_approve[3]`, at its place.
fn rule_problem(tree: &SettingNode, rule: &str, message: &str) -> ConfigProblem {
    let key = format!("recovery.{}", rule.replace('[', ".").replace(']', ""));
    let origin = tree.get(&key).map(|node| node.origin.clone());
    ConfigProblem { origin, key: Some(key), message: message.to_owned() }
}

/// Returns what is wrong with the directories that commands and agents may write to.
fn writable_dirs(settings: &Settings, tree: &SettingNode) -> Vec<ConfigProblem> {
    let caches = settings.recovery.sandbox.caches.iter().enumerate();
    let state_dirs = settings.agent.state_dirs.iter().enumerate();
    let listed = caches.map(|(at, dir)| (format!("recovery.sandbox.caches.{at}"), dir));
    let listed = listed.chain(state_dirs.map(|(at, dir)| (format!("agent.state_dirs.{at}"), dir)));
    let wrong = listed.filter(|(_, dir)| {
        let below_home = dir.strip_prefix("~/").is_some_and(|rest| !rest.trim().is_empty());
        let absolute = dir.len() > 1 && dir.starts_with('/');
        !below_home && !absolute || dir.split('/').any(|part| part == "..")
    });
    let problem = |(key, _): (String, &String)| {
        let origin = tree.get(&key).map(|node| node.origin.clone());
        let message = "expected a directory, absolute or below `~/`, without `..`".to_owned();
        ConfigProblem { origin, key: Some(key), message }
    };
    wrong.map(problem).take(MOST_PROBLEMS).collect()
}

/// Returns what is wrong with the webhooks' addresses.
fn addresses(tree: &SettingNode) -> Vec<ConfigProblem> {
    let Some(SettingNode { value: Value::Table(hooks), .. }) = tree.get("webhooks") else {
        return Vec::new();
    };
    let problem = |(name, entry): (&String, &SettingEntry)| {
        let message = match (&entry.node.value, name.starts_with("on_")) {
            (Value::Text(address), true) if is_address(address) => return None,
            (_, true) => "expected an address that begins with https:// or http://".to_owned(),
            (Value::List(secrets), false) => {
                let wrong = |node: &SettingNode| match &node.value {
                    Value::Text(text) => text.parse::<Secret>().err(),
                    Value::Bool(_) | Value::Integer(_) | Value::Float(_) => Some(BadSecret),
                    Value::List(_) | Value::Table(_) | Value::Other(_) => Some(BadSecret),
                };
                secrets.iter().find_map(wrong)?.to_string()
            }
            (_, false) => return None,
        };
        Some(ConfigProblem::at(&entry.node.origin, &format!("webhooks.{name}"), message))
    };
    hooks.iter().filter_map(problem).collect()
}

/// Returns what is wrong with the hours of notices and the page's address.
fn notices(settings: &Settings, tree: &SettingNode) -> Vec<ConfigProblem> {
    let problem = |key: &str, message: String| {
        let origin = tree.get(key).map(|node| node.origin.clone());
        ConfigProblem { origin, key: Some(key.to_owned()), message }
    };
    let hours = settings.notify.quiet_hours.as_deref().map(str::parse::<QuietHours>);
    let url = settings.page.url.as_deref().map(str::parse::<PublicAddress>);
    let hours =
        hours.and_then(Result::err).map(|bad| problem("notify.quiet_hours", bad.to_string()));
    let url = url.and_then(Result::err).map(|bad| problem("page.url", bad.to_string()));
    hours.into_iter().chain(url).collect()
}

fn is_address(text: &str) -> bool {
    let text = text.strip_prefix(NTFY_MARK).unwrap_or(text);
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    !host.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Returns what is wrong with the user's own patterns of secrets.
fn patterns(settings: &Settings, tree: &SettingNode) -> Vec<ConfigProblem> {
    let wrong = settings.scrub.patterns.iter().enumerate().filter_map(|(number, own)| {
        let scrubber = Scrubber::new(ScrubKey::new([0; 32]));
        let error = scrubber.with_patterns([(&*own.kind, &*own.regex)]).err()?;
        let key = format!("scrub.patterns.{number}");
        let origin = tree.get(&key).map(|node| node.origin.clone());
        Some(ConfigProblem { origin, key: Some(key), message: error.to_string() })
    });
    wrong.take(MOST_PROBLEMS).collect()
}

/// Builds the user's own fingerprint rules, if there are any, and checks their examples.
fn fingerprints(
    settings: &Settings,
    tree: &SettingNode,
) -> Result<Option<Arc<FingerprintRules>>, Vec<ConfigProblem>> {
    let own = &settings.fingerprint;
    if own.anchors.is_empty() && own.classes.is_empty() {
        return Ok(None);
    }
    let rows = Rows { anchors: own.anchors.clone(), classes: own.classes.clone() };
    let problem = |error: &RowError| {
        let place = match error {
            RowError::Anchor { id, .. } => {
                let number = own.anchors.iter().position(|row| row.id == *id);
                number.map(|number| format!("fingerprint.anchors.{number}"))
            }
            RowError::Class { name, .. } => {
                let number = own.classes.iter().position(|row| row.name == *name);
                number.map(|number| format!("fingerprint.classes.{number}"))
            }
        };
        let key = place.unwrap_or_else(|| "fingerprint".to_owned());
        let origin = tree.get(&key).map(|node| node.origin.clone());
        ConfigProblem { origin, key: Some(key), message: error.to_string() }
    };
    match FingerprintRules::with_user(&rows) {
        Ok(rules) => Ok(Some(Arc::new(rules))),
        Err(errors) => Err(errors.iter().map(problem).collect()),
    }
}
