//! Which changes of settings widen what may run unattended.
//!
//! An agent must not loosen the rules it works under. So a change made while an agent was running
//! is compared with the rules that held when it started: what is stricter takes effect at once,
//! what is wider waits for a person, and until then the stricter of both holds, rule by rule
//! ([`strictest`]). Who waits and what was accepted is read from the journal ([`SettingsStanding`]).
//!
//! Values are compared as the scrubber leaves them, because that is how the journal keeps them.
//!
//! **Invariant:** [`strictest`] is never wider than either side.

mod standing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::scrub::Scrubbed;

pub use standing::{AgentAtWork, Ruling, SettingsStanding, Waiting};

/// What makes a setting stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearing {
    /// It has no bearing on what runs unattended.
    None,
    /// Being off.
    Off,
    /// Being on.
    On,
    /// A smaller number.
    Lower,
    /// A larger number.
    Higher,
    /// Fewer entries.
    Fewer,
    /// More entries.
    More,
    /// An earlier word of these.
    Earlier(&'static [&'static str]),
    /// Not being set; two values cannot be compared.
    Unset,
}

/// Every setting and its bearing, sorted by name.
pub const BEARINGS: &[(&str, Bearing)] = &[
    ("agent.autostart", Bearing::Off),
    ("agent.command", Bearing::Unset),
    ("agent.engage_timeout_ms", Bearing::Lower),
    ("agent.idle_limit_ms", Bearing::Lower),
    ("agent.max_cents", Bearing::Lower),
    ("agent.max_tokens", Bearing::Lower),
    ("agent.model", Bearing::Unset),
    ("agent.on_failure", Bearing::Earlier(&["undo", "keep"])),
    ("agent.prices", Bearing::Fewer),
    ("agent.repair", Bearing::Off),
    ("agent.runtime", Bearing::Unset),
    ("agent.state_dirs", Bearing::Fewer),
    ("agent.wall_limit_ms", Bearing::Lower),
    ("agent.write_timeout_ms", Bearing::Lower),
    ("auto_heal.clusters", Bearing::Fewer),
    ("auto_heal.enabled", Bearing::Off),
    ("auto_heal.fix_timeout_ms", Bearing::Lower),
    ("auto_heal.max_retries", Bearing::Lower),
    ("auto_heal.rules", Bearing::Fewer),
    ("auto_heal.vpn_script", Bearing::Unset),
    ("checks", Bearing::Fewer),
    ("debug.roots", Bearing::Fewer),
    ("earned.after", Bearing::Higher),
    ("earned.days", Bearing::Lower),
    ("fingerprint.anchors", Bearing::None),
    ("fingerprint.classes", Bearing::None),
    ("fleet.answer_hours", Bearing::Lower),
    ("fleet.credentials", Bearing::Unset),
    ("fleet.monitor", Bearing::Unset),
    ("fleet.name", Bearing::None),
    ("fleet.people", Bearing::Fewer),
    ("fleet.replicas", Bearing::None),
    ("fleet.storage_mb", Bearing::None),
    ("fleet.tls", Bearing::On),
    ("fleet.tls_ca", Bearing::Unset),
    ("fleet.url", Bearing::Unset),
    ("heal.attempt_days", Bearing::None),
    ("heal.breakers.file_changes", Bearing::Lower),
    ("heal.breakers.many_failures", Bearing::Lower),
    ("heal.breakers.orphans", Bearing::Lower),
    ("heal.breakers.same_error", Bearing::Lower),
    ("heal.broadcast_ms", Bearing::Lower),
    ("heal.max_attempts", Bearing::Lower),
    ("heal.max_tokens", Bearing::Lower),
    ("heal.no_progress_limit", Bearing::Lower),
    ("heal.proof", Bearing::On),
    ("heal.reruns", Bearing::None),
    ("heal.rollback_after", Bearing::Lower),
    ("heal.run_max_cents", Bearing::Lower),
    ("heal.run_max_tokens", Bearing::Lower),
    ("heal.tiers.context.context_kb", Bearing::Lower),
    ("heal.tiers.context.max_tokens", Bearing::Lower),
    ("heal.tiers.context.models", Bearing::Fewer),
    ("heal.tiers.context.strategy", Bearing::Unset),
    ("heal.tiers.deep.context_kb", Bearing::Lower),
    ("heal.tiers.deep.max_tokens", Bearing::Lower),
    ("heal.tiers.deep.models", Bearing::Fewer),
    ("heal.tiers.deep.strategy", Bearing::Unset),
    ("heal.tiers.simple.context_kb", Bearing::Lower),
    ("heal.tiers.simple.max_tokens", Bearing::Lower),
    ("heal.tiers.simple.models", Bearing::Fewer),
    ("heal.tiers.simple.strategy", Bearing::Unset),
    ("heal.timeout_ms", Bearing::Lower),
    ("job.failure_rules", Bearing::Fewer),
    ("job.job_self_heal_max_resets", Bearing::Lower),
    ("job.max_parks", Bearing::Lower),
    ("job.queue_backoff_seconds", Bearing::Higher),
    ("job.queue_lease_seconds", Bearing::None),
    ("job.queue_max_tries", Bearing::Lower),
    ("job.step_idle_timeout_seconds", Bearing::Lower),
    ("job.step_max_attempts", Bearing::Lower),
    ("job.step_no_progress_limit", Bearing::Lower),
    ("job.step_timeout_seconds", Bearing::Lower),
    ("loop.max_cents", Bearing::Lower),
    ("loop.max_iterations", Bearing::Lower),
    ("loop.max_parks", Bearing::Lower),
    ("loop.max_tokens", Bearing::Lower),
    ("loop.max_wall_ms", Bearing::Lower),
    ("loop.order", Bearing::Fewer),
    ("loop.park_ms", Bearing::None),
    ("loop.promise", Bearing::None),
    ("loop.retries", Bearing::Lower),
    ("loop.roles", Bearing::Fewer),
    ("loop.stuck_after", Bearing::Lower),
    ("loop.tests", Bearing::Unset),
    ("loop.tests_timeout_ms", Bearing::Lower),
    ("loop.weakened_tests", Bearing::Earlier(&["refuse", "allow"])),
    ("memory.fleet", Bearing::Earlier(&["off", "mine", "team"])),
    ("memory.patches", Bearing::Earlier(&["project", "user", "fleet"])),
    ("memory.user", Bearing::None),
    ("notify.desktop", Bearing::None),
    ("notify.desktop_moments", Bearing::None),
    ("notify.quiet_hours", Bearing::None),
    ("page.url", Bearing::Unset),
    ("playbook.auto", Bearing::Earlier(&["none", "safe"])),
    ("prevention.block", Bearing::None),
    ("prevention.enabled", Bearing::None),
    ("proxy.finish_ms", Bearing::None),
    ("proxy.hang_timeout_ms", Bearing::None),
    ("proxy.hold_ms", Bearing::None),
    ("proxy.longest_restart_delay_ms", Bearing::None),
    ("proxy.restart_delay_ms", Bearing::None),
    ("proxy.settled_ms", Bearing::None),
    ("recovery.auto_approve", Bearing::Fewer),
    ("recovery.changed_manifest", Bearing::Earlier(&["ask", "allow"])),
    ("recovery.cooldown_seconds", Bearing::Higher),
    ("recovery.enabled", Bearing::Off),
    ("recovery.max_auto_recoveries_per_run", Bearing::Lower),
    ("recovery.on_unknown", Bearing::Earlier(&["deny", "escalate", "allow"])),
    ("recovery.require_human", Bearing::More),
    ("recovery.sandbox.caches", Bearing::Fewer),
    ("recovery.sandbox.env", Bearing::Fewer),
    ("recovery.sandbox.mode", Bearing::Earlier(&["require", "off"])),
    ("recovery.sandbox.network", Bearing::Earlier(&["none", "web", "any"])),
    ("recovery.sandbox.offline", Bearing::More),
    ("recovery.sandbox.online", Bearing::Fewer),
    ("recovery.sandbox.sockets", Bearing::Fewer),
    ("recovery.sandbox.web", Bearing::Fewer),
    ("repair.base_delay_ms", Bearing::None),
    ("repair.cooldown_ms", Bearing::Higher),
    ("repair.health_retries", Bearing::None),
    ("repair.health_retry_delay_ms", Bearing::None),
    ("repair.health_timeout_ms", Bearing::None),
    ("repair.max_attempts", Bearing::Lower),
    ("repair.max_files", Bearing::Lower),
    ("repair.max_loc", Bearing::Lower),
    ("repair.quiet_period_ms", Bearing::None),
    ("scrub.patterns", Bearing::None),
    ("server.crash_log_days", Bearing::None),
    ("server.flap_window_ms", Bearing::Higher),
    ("server.health.body", Bearing::Unset),
    ("server.health.path", Bearing::Unset),
    ("server.health.soak_ms", Bearing::Higher),
    ("server.health.status", Bearing::Unset),
    ("server.liveness", Bearing::On),
    ("server.liveness_grace_ms", Bearing::Lower),
    ("server.liveness_interval_ms", Bearing::Lower),
    ("server.log_files", Bearing::None),
    ("server.log_kb", Bearing::None),
    ("server.log_lines", Bearing::None),
    ("server.pty", Bearing::None),
    ("server.startup_timeout_ms", Bearing::Lower),
    ("server.stop_grace_ms", Bearing::None),
    ("server.url", Bearing::Unset),
    ("servers", Bearing::Fewer),
    ("skills.commands", Bearing::Fewer),
    ("skills.servers", Bearing::Fewer),
    ("specialists", Bearing::Fewer),
    ("telemetry.prefix", Bearing::None),
    ("telemetry.statsd", Bearing::Unset),
    ("tools", Bearing::Fewer),
    ("version", Bearing::None),
    ("webhooks.allow_private", Bearing::Off),
    ("webhooks.on_config_change", Bearing::Unset),
    ("webhooks.on_escalation", Bearing::Unset),
    ("webhooks.on_exhausted", Bearing::Unset),
    ("webhooks.on_recovered", Bearing::Unset),
    ("webhooks.secrets", Bearing::None),
];

/// Returns the bearing of the setting of this name, if there is one.
pub fn bearing(name: &str) -> Option<Bearing> {
    BEARINGS.iter().find(|(known, _)| *known == name).map(|(_, bearing)| *bearing)
}

/// The value of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleValue {
    /// It is not set.
    Unset,
    /// On or off.
    Flag(bool),
    Number(u64),
    Word(Scrubbed),
    /// Entries; their order does not matter.
    List(Vec<Scrubbed>),
}

/// The rules on what may run unattended, by the name of the setting.
///
/// A name that is not there was unknown to the Salve that wrote them, and is not compared.
pub type UnattendedRules = BTreeMap<String, RuleValue>;

/// One rule that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// The setting's name.
    pub name: &'a str,
    /// What it was.
    pub old: &'a RuleValue,
    /// What it is to be.
    pub new: &'a RuleValue,
    /// Whether the new value allows something that the old one does not.
    pub wider: bool,
}

/// Returns the rules that differ between two sets.
pub fn compare<'a>(
    old: &'a UnattendedRules,
    new: &'a UnattendedRules,
) -> impl Iterator<Item = Difference<'a>> {
    pairs(old, new).filter_map(|(name, bearing, old, new)| {
        let wider = is_wider(bearing, old, new);
        let differs = wider || is_wider(bearing, new, old);
        differs.then_some(Difference { name, old, new, wider })
    })
}

/// Returns whether `new` allows anything that `old` does not.
pub fn widens(old: &UnattendedRules, new: &UnattendedRules) -> bool {
    compare(old, new).any(|difference| difference.wider)
}

/// Returns the stricter of both, rule by rule: what it allows, both allow.
pub fn strictest(old: &UnattendedRules, new: &UnattendedRules) -> UnattendedRules {
    let mut rules = new.clone();
    for (name, bearing, old, new) in pairs(old, new) {
        rules.insert(name.to_owned(), stricter(bearing, old, new));
    }
    rules
}

/// Returns the rules that both sets have.
fn pairs<'a>(
    old: &'a UnattendedRules,
    new: &'a UnattendedRules,
) -> impl Iterator<Item = (&'static str, Bearing, &'a RuleValue, &'a RuleValue)> {
    let both = |name: &str| Some((old.get(name)?, new.get(name)?));
    BEARINGS
        .iter()
        .filter_map(move |&(name, bearing)| both(name).map(|(old, new)| (name, bearing, old, new)))
}

fn is_wider(bearing: Bearing, old: &RuleValue, new: &RuleValue) -> bool {
    match (bearing, old, new) {
        (Bearing::None, _, _) => false,
        (Bearing::Off, RuleValue::Flag(old), RuleValue::Flag(new)) => *new && !*old,
        (Bearing::On, RuleValue::Flag(old), RuleValue::Flag(new)) => *old && !*new,
        (Bearing::Lower, RuleValue::Number(old), RuleValue::Number(new)) => new > old,
        (Bearing::Higher, RuleValue::Number(old), RuleValue::Number(new)) => new < old,
        (Bearing::Fewer, RuleValue::List(old), RuleValue::List(new)) => !is_subset(new, old),
        (Bearing::More, RuleValue::List(old), RuleValue::List(new)) => !is_subset(old, new),
        (Bearing::Earlier(order), RuleValue::Word(old), RuleValue::Word(new)) => {
            match (rank(order, old), rank(order, new)) {
                (Some(old), Some(new)) => new > old,
                (None, _) | (_, None) => old != new,
            }
        }
        (Bearing::Unset, old, new) => *new != RuleValue::Unset && new != old,
        // A value of another kind than the setting has: nothing is known about it.
        (_, old, new) => old != new,
    }
}

fn stricter(bearing: Bearing, old: &RuleValue, new: &RuleValue) -> RuleValue {
    match (bearing, old, new) {
        (Bearing::None, _, new) => new.clone(),
        (Bearing::Off, RuleValue::Flag(old), RuleValue::Flag(new)) => RuleValue::Flag(*old && *new),
        (Bearing::On, RuleValue::Flag(old), RuleValue::Flag(new)) => RuleValue::Flag(*old || *new),
        (Bearing::Lower, RuleValue::Number(old), RuleValue::Number(new)) => {
            RuleValue::Number(*old.min(new))
        }
        (Bearing::Higher, RuleValue::Number(old), RuleValue::Number(new)) => {
            RuleValue::Number(*old.max(new))
        }
        (Bearing::Fewer, RuleValue::List(old), RuleValue::List(new)) => {
            RuleValue::List(new.iter().filter(|entry| old.contains(entry)).cloned().collect())
        }
        (Bearing::More, RuleValue::List(old), RuleValue::List(new)) => {
            let lost = old.iter().filter(|entry| !new.contains(entry));
            RuleValue::List(new.iter().chain(lost).cloned().collect())
        }
        (Bearing::Earlier(order), RuleValue::Word(old), RuleValue::Word(new)) => {
            let earlier = rank(order, old) <= rank(order, new);
            RuleValue::Word(if earlier { old.clone() } else { new.clone() })
        }
        (_, old, new) if old == new => new.clone(),
        (_, _, _) => RuleValue::Unset,
    }
}

fn rank(order: &[&str], word: &Scrubbed) -> Option<usize> {
    order.iter().position(|known| *known == word.as_str())
}

fn is_subset(part: &[Scrubbed], whole: &[Scrubbed]) -> bool {
    part.iter().all(|entry| whole.contains(entry))
}
