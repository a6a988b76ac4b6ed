//! Rules on a command: run it, ask a person, or deny it.
//!
//! [`decide`] is the only way to an [`Approval`], and every path through it that is not plainly
//! allowed ends in a question or a refusal. In order:
//!
//! 1. `enabled: false` and a working directory outside the repository deny, whatever the lists say.
//! 2. A `require_human` entry without `*` that equals the command, and a visible secret, ask.
//! 3. An `auto_approve` entry that equals the command byte for byte approves.
//! 4. A `require_human` pattern asks: on the whole text, on any command that the shell parser finds in
//!    it, and on a text that cannot be read.
//! 5. `on_unknown` decides the rest; `allow` approves only what can be read to the end, and of which it
//!    is known what it starts.
//!
//! What 3 or 5 approve still asks when the run's limit is reached or the cooldown is not over.
//!
//! **Invariants:** an approval carries the approved entry's own text; a malformed proposal, state
//! or policy never reaches [`decide`], because its types cannot be made from one.

mod explain;
mod pattern;
mod policy;
mod proposal;
mod request;
mod secret;
mod shell;
mod state;
pub mod strict;

use std::fmt;

use crate::scrub::Scrubber;

pub use explain::{FindingKind, PolicyFinding, findings};
pub use pattern::ApprovalPattern;
pub use policy::{GatePolicy, InvalidPolicy, MAX_RULES, OnUnknown, PolicyError, RawPolicy};
pub use proposal::{
    BadProposal, Category, Confidence, MAX_PROPOSAL, ProposalDiagnosis, RecoveryProposal, Severity,
    Which,
};
pub use request::{BadRequest, DEFAULT_TIMEOUT_SECONDS, MAX_COMMAND, MAX_TIMEOUT_SECONDS, Request};
pub use state::{BadState, GateCounters};

/// The setting or check that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateRule {
    /// The policy itself is invalid.
    Config,
    /// The master switch.
    Enabled,
    /// The proposal is malformed.
    Proposal,
    /// The counters are malformed.
    State,
    /// The directory is not a place to run commands in.
    WorkingDir,
    /// A secret can be seen in the command.
    Secret,
    /// An `auto_approve` entry, by its place in the list.
    AutoApprove(usize),
    /// A `require_human` entry, by its place in the list.
    RequireHuman(usize),
    /// The run has had its share of unattended commands.
    MaxAutoRecoveries,
    /// The last unattended command was too recent.
    Cooldown,
    /// Nothing knows the command.
    OnUnknown,
    /// The command cannot be read to the end.
    Unreadable,
}

impl fmt::Display for GateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateRule::Config => f.write_str("config"),
            GateRule::Enabled => f.write_str("enabled"),
            GateRule::Proposal => f.write_str("proposal"),
            GateRule::State => f.write_str("state"),
            GateRule::WorkingDir => f.write_str("working_dir"),
            GateRule::Secret => f.write_str("secret"),
            GateRule::AutoApprove(place) => write!(f, "auto_approve[{place}]"),
            GateRule::RequireHuman(place) => write!(f, "require_human[{place}]"),
            GateRule::MaxAutoRecoveries => f.write_str("max_auto_recoveries_per_run"),
            GateRule::Cooldown => f.write_str("cooldown_seconds"),
            GateRule::OnUnknown => f.write_str("on_unknown"),
            GateRule::Unreadable => f.write_str("unreadable"),
        }
    }
}

/// Leave to run one command; only [`decide`] gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    command: String,
    rule: GateRule,
    timeout_seconds: u64,
}

impl Approval {
    /// Returns the text to run: the approved entry's own, where an entry approved it.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Returns the rule that approved it.
    pub fn rule(&self) -> GateRule {
        self.rule
    }

    /// Returns how long the command may take.
    pub fn timeout_seconds(&self) -> u64 {
        self.timeout_seconds
    }
}

/// The gate's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateVerdict {
    /// It may run unattended.
    Auto(Approval),
    /// A person has to decide.
    Human {
        /// What asks.
        rule: GateRule,
        /// Why, without any part of the command.
        reason: String,
    },
    /// It must not run.
    Deny {
        /// What denies.
        rule: GateRule,
        /// Why, without any part of the command.
        reason: String,
    },
}

impl GateVerdict {
    /// Makes a refusal.
    pub fn deny(rule: GateRule, reason: impl Into<String>) -> Self {
        GateVerdict::Deny { rule, reason: reason.into() }
    }

    fn human(rule: GateRule, reason: impl Into<String>) -> Self {
        GateVerdict::Human { rule, reason: reason.into() }
    }

    /// Returns the answer in one word: `auto`, `human` or `deny`.
    pub fn decision(&self) -> &'static str {
        match self {
            GateVerdict::Auto(_) => "auto",
            GateVerdict::Human { .. } => "human",
            GateVerdict::Deny { .. } => "deny",
        }
    }

    /// Returns the rule that decided.
    pub fn rule(&self) -> GateRule {
        match self {
            GateVerdict::Auto(approval) => approval.rule,
            GateVerdict::Human { rule, .. } | GateVerdict::Deny { rule, .. } => *rule,
        }
    }

    /// Returns why, in words; never any part of the command.
    pub fn reason(&self) -> &str {
        match self {
            GateVerdict::Auto(approval) => match approval.rule {
                GateRule::AutoApprove(_) => "the command equals an approved one",
                _ => "no rule knows the command, and `on_unknown` is \"allow\"",
            },
            GateVerdict::Human { reason, .. } | GateVerdict::Deny { reason, .. } => reason,
        }
    }
}

/// Where the command would run, as the file system says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandPlace {
    /// A directory at or below the repository's root and not in `.git`, held open.
    Inside,
    /// Anything else, and why.
    Refused(String),
}

/// Everything a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct GateCase<'a> {
    /// What may run unattended.
    pub policy: &'a GatePolicy,
    /// What is asked for.
    pub request: &'a Request,
    /// Where its working directory leads.
    pub place: &'a CommandPlace,
    /// What has run unattended so far.
    pub state: &'a GateCounters,
}

/// Decides whether a command may run.
pub fn decide(case: GateCase<'_>, scrubber: &Scrubber) -> GateVerdict {
    let GateCase { policy, request, place, state } = case;
    let command = request.command();
    if !policy.enabled {
        return GateVerdict::deny(GateRule::Enabled, "recovery is switched off");
    }
    if let CommandPlace::Refused(why) = place {
        return GateVerdict::deny(GateRule::WorkingDir, why);
    }
    let equals = |p: &ApprovalPattern| p.is_literal() && p.text() == command;
    if let Some(place) = policy.require_human.iter().position(equals) {
        return GateVerdict::human(
            GateRule::RequireHuman(place),
            "the command equals one that needs a person",
        );
    }
    if secret::shows(command, scrubber) {
        return GateVerdict::human(
            GateRule::Secret,
            "the command shows a secret; name an environment variable instead",
        );
    }
    let approve = |rule, text: &str| {
        limits(policy, state).unwrap_or_else(|| {
            GateVerdict::Auto(Approval {
                command: text.to_owned(),
                rule,
                timeout_seconds: request.timeout_seconds(),
            })
        })
    };
    if let Some(place) = policy.auto_approve.iter().position(|entry| entry == command) {
        return approve(GateRule::AutoApprove(place), &policy.auto_approve[place]);
    }
    if let Some(verdict) = asks(policy, command) {
        return verdict;
    }
    match policy.on_unknown {
        OnUnknown::Escalate => GateVerdict::human(GateRule::OnUnknown, "no rule knows the command"),
        OnUnknown::Deny => GateVerdict::deny(
            GateRule::OnUnknown,
            "no rule knows the command, and `on_unknown` is \"deny\"",
        ),
        OnUnknown::Allow => approve(GateRule::OnUnknown, command),
    }
}

/// Returns the words of every simple command that a text would run; nothing if the text cannot be
/// read to the end.
pub fn simple_commands(text: &str) -> Option<Vec<Vec<String>>> {
    shell::read(text).ok().map(|reading| reading.simple_commands())
}

/// Returns the question that the patterns, or the shape of the command itself, put to a person.
fn asks(policy: &GatePolicy, command: &str) -> Option<GateVerdict> {
    let first = |test: &dyn Fn(&ApprovalPattern) -> bool| {
        policy.require_human.iter().position(test).map(GateRule::RequireHuman)
    };
    if let Some(rule) = first(&|pattern| pattern.matches(command)) {
        return Some(GateVerdict::human(rule, "the command matches a pattern that needs a person"));
    }
    let allows = policy.on_unknown == OnUnknown::Allow;
    if policy.require_human.is_empty() && !allows {
        return None;
    }
    let unclear = |shell::Unclear(why)| {
        GateVerdict::human(
            GateRule::Unreadable,
            format!("the command cannot be read to the end: {why}"),
        )
    };
    let reading = match shell::read(command) {
        Ok(reading) => reading,
        Err(why) => return Some(unclear(why)),
    };
    if let Some(rule) = first(&|pattern| reading.could_match(pattern)) {
        let reason = "a part of the command matches a pattern that needs a person";
        return Some(GateVerdict::human(rule, reason));
    }
    let doubt = || reading.doubt.or_else(|| reading.strangeness());
    if let Some(why) = allows.then(doubt).flatten() {
        let reason = format!("more may run than is seen: {why}");
        return Some(GateVerdict::human(GateRule::Unreadable, reason));
    }
    // The second opinion is dear, so it is asked only where nothing else asks already.
    reading.confirm().err().map(unclear)
}

/// Returns the question that the limits put to a person, if they do.
fn limits(policy: &GatePolicy, state: &GateCounters) -> Option<GateVerdict> {
    if state.auto_recoveries_this_run >= policy.max_auto_recoveries_per_run {
        return Some(GateVerdict::human(
            GateRule::MaxAutoRecoveries,
            format!(
                "{} of {} unattended commands of this run are used up",
                state.auto_recoveries_this_run, policy.max_auto_recoveries_per_run
            ),
        ));
    }
    let wait = policy.cooldown_seconds;
    let over = match state.seconds_since_last_auto {
        _ if wait == 0 => true,
        // Whoever counts in whole seconds may have rounded up, so as many are not enough.
        Some(seconds) => seconds > wait as f64,
        // One has run and nobody knows when.
        None => state.auto_recoveries_this_run == 0,
    };
    (!over).then(|| {
        GateVerdict::human(
            GateRule::Cooldown,
            format!("not more than {wait} s have passed since the last"),
        )
    })
}

/// Judges an untrusted proposal by an untrusted policy and never panics: for fuzzing.
///
/// The directory is taken as given, and nothing but the gate's answer comes back.
pub fn fuzz(policy: &str, proposal: &str, scrubber: &Scrubber) -> GateVerdict {
    let policy = match strict::parse(policy).map(|section| GatePolicy::read(&section)) {
        Ok(Ok(policy)) => policy,
        Ok(Err(error)) => return GateVerdict::deny(GateRule::Config, error.to_string()),
        Err(error) => return GateVerdict::deny(GateRule::Config, error.to_string()),
    };
    let request = RecoveryProposal::parse(proposal)
        .and_then(|proposal| proposal.request(Which::Recovery).cloned())
        .map_err(|error| GateVerdict::deny(GateRule::Proposal, error.to_string()));
    match request {
        Err(verdict) => verdict,
        Ok(request) => {
            let state = GateCounters::default();
            let place = CommandPlace::Inside;
            let case =
                GateCase { policy: &policy, request: &request, place: &place, state: &state };
            decide(case, scrubber)
        }
    }
}

#[cfg(test)]
mod tests;
