//! Where the settings stand, read from the journal: who guards them, what waits, what was accepted.

use std::collections::BTreeMap;

use super::{UnattendedRules, strictest, widens};
use crate::event::{Actor, ConfigEvent, Digest, Entry, Event, Process};

/// A running agent, for whose time the rules are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentAtWork {
    /// The Salve that started the agent.
    pub process: Process,
}

/// Settings that wait for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The hash of exactly what waits.
    pub digest: Digest,
    /// The rules that hold once it is accepted.
    pub rules: UnattendedRules,
}

/// Where the settings stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsStanding {
    /// The number of the last entry that was taken in.
    seen: u64,
    /// What is in the files as far as the journal knows.
    applied: Option<Digest>,
    /// The widest rules allowed, while an agent runs or something waits.
    held: Option<UnattendedRules>,
    guards: BTreeMap<u64, AgentAtWork>,
    waiting: Option<Waiting>,
}

/// What becomes of the settings in the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// They hold as they are.
    Apply,
    /// They wait for a person; until then these rules hold.
    Wait(UnattendedRules),
}

impl SettingsStanding {
    /// Takes in the next entry of the journal.
    pub fn take(&mut self, entry: &Entry) {
        self.seen = self.seen.max(entry.seq);
        match (&entry.event, &entry.by) {
            (Event::Config(ConfigEvent::Guarded { rules, .. }), Actor::Salve(process)) => {
                if self.guards.is_empty() && self.waiting.is_none() {
                    self.held = Some(rules.clone());
                }
                self.guards.insert(entry.seq, AgentAtWork { process: process.clone() });
            }
            (Event::Config(ConfigEvent::Released { guard }), Actor::Salve(_)) => {
                self.guards.remove(guard);
            }
            (Event::Config(ConfigEvent::Pending { digest, rules, .. }), Actor::Salve(_)) => {
                self.waiting = Some(Waiting { digest: *digest, rules: rules.clone() });
            }
            (Event::Config(ConfigEvent::Changed { digest, .. }), Actor::Salve(_)) => {
                self.applied = Some(*digest);
                self.waiting = None;
            }
            (Event::Config(ConfigEvent::Accepted { digest }), by) if by.person().is_some() => {
                if self.waiting.as_ref().is_some_and(|waiting| waiting.digest == *digest) {
                    self.held = self.waiting.take().map(|waiting| waiting.rules);
                }
            }
            (_, _) => {}
        }
        if self.guards.is_empty() && self.waiting.is_none() {
            self.held = None;
        }
    }

    /// Returns what becomes of files with these rules.
    pub fn rule(&self, rules: &UnattendedRules) -> Ruling {
        match &self.held {
            Some(held) if widens(held, rules) => Ruling::Wait(strictest(held, rules)),
            Some(_) | None => Ruling::Apply,
        }
    }

    /// Returns the number of the last entry that was taken in.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the hash of the settings that the journal last saw applied.
    pub fn applied(&self) -> Option<Digest> {
        self.applied
    }

    /// Returns what waits for a person.
    pub fn waiting(&self) -> Option<&Waiting> {
        self.waiting.as_ref()
    }

    /// Returns the widest rules allowed now, where they are limited.
    pub fn held(&self) -> Option<&UnattendedRules> {
        self.held.as_ref()
    }

    /// Returns the agents for whose time the rules are held, by the number of their entry.
    pub fn guards(&self) -> &BTreeMap<u64, AgentAtWork> {
        &self.guards
    }
}
