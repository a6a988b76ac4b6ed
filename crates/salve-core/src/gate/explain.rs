//! Rules that cannot do what their author may expect.

use crate::scrub::{Scrubbed, Scrubber};

use super::GateRule;
use super::pattern::ApprovalPattern;
use super::policy::{GatePolicy, OnUnknown};

/// What is the matter with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// The rule can never decide anything.
    Unreachable,
    /// Two rules say different things about one command.
    Conflict,
    /// The rule says only what another one says too.
    Shadowed,
    /// The rule does something that is easily overlooked.
    Notice,
}

impl FindingKind {
    /// Returns the name used in output.
    pub const fn name(self) -> &'static str {
        match self {
            FindingKind::Unreachable => "unreachable",
            FindingKind::Conflict => "conflict",
            FindingKind::Shadowed => "shadowed",
            FindingKind::Notice => "notice",
        }
    }
}

/// One remark about a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFinding {
    /// What is the matter.
    pub kind: FindingKind,
    /// The rule it is about.
    pub rule: GateRule,
    /// The other rule involved, if there is one.
    pub other: Option<GateRule>,
    /// The remark in words.
    pub message: Scrubbed,
}

/// Returns everything in `policy` that its author may not expect, in the order of the settings.
pub fn findings(policy: &GatePolicy, scrubber: &Scrubber) -> Vec<PolicyFinding> {
    let mut report = PolicyReview { policy, scrubber, found: Vec::new() };
    report.switches();
    for place in 0..policy.auto_approve.len() {
        report.auto_approve(place);
    }
    for place in 0..policy.require_human.len() {
        report.require_human(place);
    }
    report.on_unknown();
    report.found
}

struct PolicyReview<'a> {
    policy: &'a GatePolicy,
    scrubber: &'a Scrubber,
    found: Vec<PolicyFinding>,
}

impl PolicyReview<'_> {
    fn add(&mut self, kind: FindingKind, rule: GateRule, other: Option<GateRule>, message: &str) {
        self.found.push(PolicyFinding { kind, rule, other, message: self.scrubber.scrub(message) });
    }

    fn switches(&mut self) {
        use FindingKind as K;
        if !self.policy.enabled {
            self.add(
                K::Notice,
                GateRule::Enabled,
                None,
                "recovery is off: every command is denied",
            );
        }
        if self.policy.max_auto_recoveries_per_run == 0 {
            let message = "the limit is 0: nothing ever runs without a person";
            self.add(K::Notice, GateRule::MaxAutoRecoveries, None, message);
        }
    }

    fn auto_approve(&mut self, place: usize) {
        use FindingKind as K;
        let policy = self.policy;
        let entry = policy.auto_approve[place].as_str();
        let rule = GateRule::AutoApprove(place);
        let same = |other: &String| other == entry;
        if let Some(first) = policy.auto_approve[..place].iter().position(same) {
            let message = format!("`{entry}` is listed twice");
            self.add(K::Shadowed, rule, Some(GateRule::AutoApprove(first)), &message);
        }
        if super::secret::shows(entry, self.scrubber) {
            // Not even a part of it is repeated.
            let message = "it seems to show a secret, so a person is always asked";
            self.add(K::Unreachable, rule, None, message);
            return;
        }
        if super::shell::read(entry).and_then(|reading| reading.confirm()).is_err() {
            let message = format!("`{entry}` is approved, but cannot be read as a plain command");
            self.add(K::Notice, rule, None, &message);
        }
        if entry.contains('*') {
            let message = format!("`*` in `{entry}` is a plain star: approval knows no patterns");
            self.add(K::Notice, rule, None, &message);
        }
        for (i, pattern) in policy.require_human.iter().enumerate() {
            let other = Some(GateRule::RequireHuman(i));
            if pattern.is_literal() && pattern.text() == entry {
                let message = format!("`{entry}` also needs a person, which wins: never approved");
                self.add(K::Unreachable, rule, other, &message);
            } else if pattern.text() != "*" && catches(pattern, entry) {
                let text = pattern.text();
                let message = format!("`{entry}` runs unattended although `{text}` needs a person");
                self.add(K::Conflict, rule, other, &message);
            }
        }
    }

    fn require_human(&mut self, place: usize) {
        let policy = self.policy;
        let pattern = &policy.require_human[place];
        // An entry that takes an approval back does something no wider pattern does.
        let takes_back = |entry: &String| pattern.is_literal() && entry == pattern.text();
        if policy.auto_approve.iter().any(takes_back) {
            return;
        }
        let covers = |(i, other): (usize, &ApprovalPattern)| {
            let first = i < place || !pattern.covers(other);
            (i != place && first && other.covers(pattern)).then_some(i)
        };
        let wider = policy.require_human.iter().enumerate().find_map(covers);
        if let Some(wider) = wider {
            let (own, other) = (pattern.text(), policy.require_human[wider].text());
            let message = format!("`{own}` is covered by `{other}`");
            let other = Some(GateRule::RequireHuman(wider));
            self.add(FindingKind::Shadowed, GateRule::RequireHuman(place), other, &message);
        }
    }

    fn on_unknown(&mut self) {
        use FindingKind as K;
        let policy = self.policy;
        let all = policy.require_human.iter().position(|p| p.text().bytes().all(|b| b == b'*'));
        match (all, policy.on_unknown) {
            (Some(place), OnUnknown::Deny | OnUnknown::Allow) => {
                let name = policy.on_unknown.name();
                let message = format!("`*` matches every command: \"{name}\" is never asked");
                self.add(
                    K::Unreachable,
                    GateRule::OnUnknown,
                    Some(GateRule::RequireHuman(place)),
                    &message,
                );
            }
            (None, OnUnknown::Allow) => {
                let message = "\"allow\" runs whatever no pattern stops, unattended";
                self.add(K::Notice, GateRule::OnUnknown, None, message);
            }
            (_, OnUnknown::Escalate) | (None, OnUnknown::Deny) => {}
        }
    }
}

fn catches(pattern: &ApprovalPattern, entry: &str) -> bool {
    pattern.matches(entry)
        || super::shell::read(entry).is_ok_and(|reading| reading.could_match(pattern))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::scrub::ScrubKey;

    #[track_caller]
    fn check(section: Value, want: &[(&str, &str, &str)]) {
        let policy = GatePolicy::read(&section).unwrap();
        let got = findings(&policy, &Scrubber::new(ScrubKey::new([1; 32])));
        let shown: Vec<_> = got
            .iter()
            .map(|f| {
                let other = f.other.map(|rule| rule.to_string()).unwrap_or_default();
                (f.kind.name(), f.rule.to_string(), other)
            })
            .collect();
        let shown: Vec<_> = shown.iter().map(|(a, b, c)| (*a, b.as_str(), c.as_str())).collect();
        assert_eq!(shown, want, "{section}");
    }

    #[test]
    fn the_defaults_and_a_sound_policy_are_unremarkable() {
        check(json!({}), &[]);
        check(json!({"auto_approve": ["npm ci", "bun install"]}), &[]);
        check(json!({"auto_approve": ["npm ci"], "require_human": ["git push", "rm *"]}), &[]);
    }

    #[test]
    fn rules_that_cannot_work_are_named() {
        check(
            json!({"auto_approve": ["git push", "npm ci", "npm ci"], "require_human": ["git push"]}),
            &[
                ("unreachable", "auto_approve[0]", "require_human[0]"),
                ("shadowed", "auto_approve[2]", "auto_approve[1]"),
            ],
        );
        check(
            json!({"auto_approve": ["rm -rf a && npm ci"], "require_human": ["*sudo*", "rm -rf *"]}),
            &[("conflict", "auto_approve[0]", "require_human[1]")],
        );
        check(json!({"auto_approve": ["npm *"]}), &[("notice", "auto_approve[0]", "")]);
        check(
            json!({"require_human": ["git push", "git *", "git *", "curl *"]}),
            &[
                ("shadowed", "require_human[0]", "require_human[1]"),
                ("shadowed", "require_human[2]", "require_human[1]"),
            ],
        );
        check(json!({"on_unknown": "deny"}), &[("unreachable", "on_unknown", "require_human[0]")]);
        check(json!({"on_unknown": "allow", "require_human": []}), &[("notice", "on_unknown", "")]);
        check(
            json!({"enabled": false, "max_auto_recoveries_per_run": 0}),
            &[("notice", "enabled", ""), ("notice", "max_auto_recoveries_per_run", "")],
        );
    }
}
