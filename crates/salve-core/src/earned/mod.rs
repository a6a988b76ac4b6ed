//! Approvals that were earned: what people allowed again and again, and it helped.
//!
//! [`Earned`] reads the journal. Each time a person lets a command run, that is kept as a narrow
//! [`EarnedRule`]: for this failure, exactly this command in its directory with its time-out. When it
//! has been proven to help often enough, Salve proposes to let it run unattended; a person accepts
//! that once, for a time. One use that failed or was not proven takes it all back.
//!
//! **Invariants:** a rule is for nothing that no person approved in these very bytes for this very
//! failure; it allows nothing before a person accepted it by a sealed word, after any use that was
//! not proven, or after its time.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::event::{
    Authority, Effect, EffectReport, Entry, Event, IncidentEvent, IncidentOutcome, MemoryEvent,
    PersonQuestion, Proof, RemedyKind, RuleEvent, RuleKey,
};
use crate::id::IncidentId;
use crate::incident::{Incident, Phase};
use crate::memory::SignatureAliases;
use crate::scrub::Scrubbed;

/// How an approval is earned, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarningTerms {
    /// How often it must have been proven to help, one time after the other; 0 is never.
    pub after: u32,
    /// How many days an accepted rule holds.
    pub days: u32,
}

impl EarningTerms {
    fn until(&self, from: Timestamp) -> Timestamp {
        let days = SignedDuration::from_hours(i64::from(self.days).saturating_mul(24));
        from.saturating_add(days).unwrap_or(Timestamp::MAX)
    }
}

/// A person's word about a command or a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalWord {
    /// Who.
    pub by: Scrubbed,
    /// When.
    pub at: Timestamp,
    /// The incident, where it was about one.
    pub incident: Option<IncidentId>,
}

/// On whose word a command ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// A person's, that once.
    Person,
    /// The earned rule's.
    Rule,
    /// That of another rule.
    Another,
}

/// How a use came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It was proven to help.
    Proven,
    /// The subject is well, or the matter is over, and nothing proves that this did it.
    Unproven,
    /// It did not help.
    Failed,
}

/// One time that the command ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    pub incident: IncidentId,
    /// When it had come out.
    pub at: Timestamp,
    /// On whose word it ran.
    pub on: On,
    /// How it came out.
    pub came: Came,
}

/// Why a rule that was accepted holds no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// A use did not come out as proven.
    Use(Use),
    /// A person withdrew it.
    Withdrawn(ApprovalWord),
}

/// A command that people approved for a failure, and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarnedRule {
    /// What it is for.
    pub key: RuleKey,
    /// The command, for people.
    pub command: Scrubbed,
    /// The times that a person approved it.
    pub approvals: Vec<ApprovalWord>,
    /// The times that it ran and came out.
    pub uses: Vec<Use>,
    /// The person's word that it may run unattended, if that was not lost since.
    pub accepted: Option<ApprovalWord>,
    /// The word that it may run unattended, where that was said before words were sealed: it has to
    /// be said once more.
    pub accepted_before_seals: Option<ApprovalWord>,
    /// Why an accepted rule holds no more.
    pub lost: Option<Lost>,
    /// How many of the uses are no evidence any more.
    spent: usize,
}

/// How a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleStanding {
    /// It has not been proven often enough.
    Gathering,
    /// It could be accepted.
    Proposed,
    /// It allows the command.
    Allowed {
        /// Until when.
        until: Timestamp,
    },
    /// It was accepted and its time is over, or its record is too old.
    Expired,
    /// It was accepted, and lost that.
    Lost,
}

impl EarnedRule {
    /// Returns how often it was proven to help since anything spoke against it.
    pub fn streak(&self) -> u32 {
        let evidence = self.uses.iter().skip(self.spent).filter(|one| match one.on {
            On::Person | On::Rule => one.came == Came::Proven,
            // What another rule allowed says nothing about what a person would.
            On::Another => false,
        });
        u32::try_from(evidence.count()).unwrap_or(u32::MAX)
    }

    /// Returns the word that would let it run unattended if it had been sealed.
    pub fn word_before_seals(&self) -> Option<&ApprovalWord> {
        self.accepted_before_seals.as_ref().filter(|_| self.accepted.is_none())
    }

    /// Returns how it stands.
    pub fn standing(&self, terms: EarningTerms, now: Timestamp) -> RuleStanding {
        let is_proven = terms.after > 0 && self.streak() >= terms.after;
        let is_fresh = |at: Timestamp| now < terms.until(at);
        let last = self.uses.last().map(|last| last.at);
        match &self.accepted {
            Some(accepted) if is_proven && is_fresh(accepted.at) => {
                RuleStanding::Allowed { until: terms.until(accepted.at) }
            }
            _ if is_proven && last.is_some_and(is_fresh) => RuleStanding::Proposed,
            Some(_) => RuleStanding::Expired,
            None if is_proven => RuleStanding::Expired,
            None if self.lost.is_some() => RuleStanding::Lost,
            None => RuleStanding::Gathering,
        }
    }

    fn came_out(&mut self, one: Use) {
        let is_proven = one.came == Came::Proven;
        self.uses.push(one.clone());
        if !is_proven {
            self.lose(Lost::Use(one));
        }
    }

    fn lose(&mut self, why: Lost) {
        self.spent = self.uses.len();
        self.accepted_before_seals = None;
        if self.accepted.take().is_some() {
            self.lost = Some(why);
        }
    }
}

/// Everything that was earned, read from the journal.
#[derive(Clone, Debug, Default)]
pub struct Earned {
    rules: BTreeMap<RuleKey, EarnedRule>,
    cases: BTreeMap<IncidentId, EarningIncident>,
    /// Which failures have another signature by now than when they happened.
    aliases: SignatureAliases,
}

/// An incident under way.
#[derive(Clone, Debug)]
struct EarningIncident {
    incident: Incident,
    /// The rule by which the gate judged the present remedy.
    rule: Option<Scrubbed>,
    /// The command that ran and has not come out yet.
    running: Option<(RuleKey, On)>,
}

impl Earned {
    /// Reads entries, in their order.
    pub fn of<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Self {
        let entries: Vec<&Entry> = entries.into_iter().collect();
        let mut earned = Self::under_names_of(entries.iter().copied());
        entries.into_iter().for_each(|entry| earned.take(entry));
        earned
    }

    /// Begins with the names that failures have by all these entries.
    ///
    /// What is one failure by now was one all the time: so its uses count in their order.
    pub fn under_names_of<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Self {
        let mut earned = Self::default();
        for entry in entries {
            if let Event::Memory(MemoryEvent::Rekeyed { from, to }) = entry.event {
                earned.aliases.add(from, to);
            }
        }
        earned
    }

    /// Returns every rule.
    pub fn rules(&self) -> impl Iterator<Item = &EarnedRule> {
        self.rules.values()
    }

    /// Returns the rule for a failure and a command.
    pub fn rule(&self, key: RuleKey) -> Option<&EarnedRule> {
        self.rules.get(&key)
    }

    /// Returns whether the command of a key may run unattended.
    pub fn allows(&self, key: RuleKey, terms: EarningTerms, now: Timestamp) -> bool {
        let standing = self.rule(key).map(|rule| rule.standing(terms, now));
        matches!(standing, Some(RuleStanding::Allowed { .. }))
    }

    /// Takes an entry in.
    pub fn take(&mut self, entry: &Entry) {
        let said =
            |by: &Scrubbed| ApprovalWord { by: by.clone(), at: entry.at, incident: entry.incident };
        match (&entry.event, entry.by.person_in_history()) {
            (Event::Rule(RuleEvent::Accepted(key)), Some(person)) => {
                let key = key.under(&self.aliases);
                let Some(rule) = self.rules.get_mut(&key) else { return };
                if entry.by.person().is_some() {
                    (rule.accepted, rule.lost) = (Some(said(person)), None);
                    rule.accepted_before_seals = None;
                } else {
                    rule.accepted_before_seals = Some(said(person));
                }
            }
            (Event::Rule(RuleEvent::Withdrawn(key)), Some(person)) => {
                let key = key.under(&self.aliases);
                if let Some(rule) = self.rules.get_mut(&key) {
                    rule.lose(Lost::Withdrawn(said(person)));
                }
            }
            _ => self.follow(entry),
        }
    }

    /// Follows an incident; what it does not take in says nothing.
    fn follow(&mut self, entry: &Entry) {
        let Some(id) = entry.incident else { return };
        if let Event::Incident(IncidentEvent::Opened { .. }) = &entry.event
            && !self.cases.contains_key(&id)
            && let Ok(incident) = Incident::replay([entry])
        {
            self.cases.insert(id, EarningIncident { incident, rule: None, running: None });
            return;
        }
        let Some(case) = self.cases.get_mut(&id) else { return };
        let in_force = |key: RuleKey| key.under(&self.aliases);
        let asked = case.asked().map(|(key, command)| (in_force(key), command));
        if case.incident.step(entry).is_err() {
            return;
        }
        match (&entry.event, entry.by.person_in_history()) {
            (Event::Incident(IncidentEvent::Approved { .. }), Some(person)) => {
                if let Some((key, command)) = asked {
                    let word =
                        ApprovalWord { by: person.clone(), at: entry.at, incident: Some(id) };
                    let rule =
                        self.rules.entry(key).or_insert_with(|| EarnedRule::new(key, command));
                    rule.approvals.push(word);
                }
            }
            (Event::Incident(IncidentEvent::Judged { judgement, .. }), _) => {
                case.rule = Some(judgement.rule.clone())
            }
            (
                Event::Incident(IncidentEvent::Requested {
                    what: Effect::Apply { on, .. }, ..
                }),
                _,
            ) => case.begin(*on),
            _ => {}
        }
        if let Some((key, one)) = case.came_out(entry)
            && let Some(rule) = self.rules.get_mut(&in_force(key))
        {
            rule.came_out(one);
        }
        if matches!(case.incident.phase(), Phase::Closed(_)) {
            self.cases.remove(&id);
        }
    }
}

impl EarnedRule {
    fn new(key: RuleKey, command: Scrubbed) -> Self {
        let (approvals, uses) = (Vec::new(), Vec::new());
        let (accepted, accepted_before_seals) = (None, None);
        Self {
            key,
            command,
            approvals,
            uses,
            accepted,
            accepted_before_seals,
            lost: None,
            spent: 0,
        }
    }
}

impl EarningIncident {
    /// Returns the command that a person is asked about, if one is.
    fn asked(&self) -> Option<(RuleKey, Scrubbed)> {
        match self.incident.phase() {
            Phase::Asking { question: PersonQuestion::Remedy, .. } => self.command(),
            Phase::Asking { .. }
            | Phase::Choosing
            | Phase::Due { .. }
            | Phase::Doing { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => None,
        }
    }

    /// Returns the command in question, if it is one.
    fn command(&self) -> Option<(RuleKey, Scrubbed)> {
        let trial = self.incident.trial()?;
        let key = RuleKey { signature: trial.signature, remedy: trial.remedy.digest };
        match trial.remedy.kind {
            RemedyKind::Command => Some((key, trial.remedy.text.clone())),
            RemedyKind::Retry
            | RemedyKind::Patch
            | RemedyKind::Agent
            | RemedyKind::SoftReset
            | RemedyKind::HardReset => None,
        }
    }

    fn begin(&mut self, on: Authority) {
        self.running = self.command().map(|(key, _)| {
            let on = match on {
                Authority::Approval(_) => On::Person,
                Authority::Gate if self.rule.as_ref().is_some_and(|rule| key.is_rule(rule)) => {
                    On::Rule
                }
                Authority::Gate => On::Another,
            };
            (key, on)
        });
    }

    /// Returns how the command that ran came out, once it has.
    fn came_out(&mut self, entry: &Entry) -> Option<(RuleKey, Use)> {
        let (key, on) = self.running?;
        let came = match &entry.event {
            Event::Incident(IncidentEvent::Finished {
                report: EffectReport::Failed { .. } | EffectReport::TimedOut,
                ..
            })
            | Event::Incident(IncidentEvent::Finished {
                report:
                    EffectReport::Verified {
                        proof: Proof::Failed | Proof::Masked | Proof::Flaky, ..
                    },
                ..
            })
            | Event::Incident(IncidentEvent::Sickened { .. })
            | Event::Incident(IncidentEvent::Judged { .. }) => Came::Failed,
            Event::Incident(IncidentEvent::Ended { outcome }) => self.ended(key, *outcome),
            _ => return None,
        };
        self.running = None;
        Some((key, Use { incident: self.incident.id(), at: entry.at, on, came }))
    }

    fn ended(&self, key: RuleKey, outcome: IncidentOutcome) -> Came {
        let credited = self
            .incident
            .credit()
            .is_some_and(|(remedy, signature)| RuleKey { signature, remedy: remedy.digest } == key);
        match outcome {
            IncidentOutcome::Recovered(Proof::Proven) if credited => Came::Proven,
            IncidentOutcome::Recovered(_)
            | IncidentOutcome::Resolved
            | IncidentOutcome::GivenUp
            | IncidentOutcome::Unhealed
            | IncidentOutcome::Aborted => Came::Unproven,
        }
    }
}
