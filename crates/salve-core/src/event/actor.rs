//! Who says that something happened.

use serde::{Deserialize, Serialize};

use crate::scrub::Scrubbed;

/// The source of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Actor {
    /// A process of Salve itself.
    Salve(Process),
    /// A person, by name; the only one who may approve, refill and order.
    Person {
        /// The name: a login, an address, whatever the project knows people by.
        name: Scrubbed,
    },
    /// Somebody who may have been a person: their word bears no seal that holds now, being older
    /// than seals or sealed with a key that was given up. It is history and allows nothing.
    Unproven {
        /// The name that stands in the entry.
        name: Scrubbed,
    },
    /// Somebody who wrote a person's word into the journal without being let in; nobody believes it.
    Forged {
        /// The name that stands in the entry.
        name: Scrubbed,
    },
    /// An agent, by name; it may report, never decide.
    Agent {
        /// The name it gave itself.
        name: Scrubbed,
    },
}

/// One process, told apart from any other that ever had its pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// When the system says it started, in the system's own unit.
    pub started: u64,
    /// The host it runs on.
    pub host: Scrubbed,
}

impl Actor {
    /// Returns the person's name, unless this is no person or the name says nothing.
    pub fn person(&self) -> Option<&Scrubbed> {
        match self {
            Actor::Person { name } if !name.as_str().trim().is_empty() => Some(name),
            Actor::Person { .. }
            | Actor::Unproven { .. }
            | Actor::Forged { .. }
            | Actor::Salve(_)
            | Actor::Agent { .. } => None,
        }
    }

    /// Returns the name under which a person speaks, or spoke before words were sealed.
    ///
    /// It is for telling what happened. What a word allows is asked of [`Actor::person`].
    pub fn person_in_history(&self) -> Option<&Scrubbed> {
        match self {
            Actor::Unproven { name } if !name.as_str().trim().is_empty() => Some(name),
            Actor::Unproven { .. }
            | Actor::Person { .. }
            | Actor::Forged { .. }
            | Actor::Salve(_)
            | Actor::Agent { .. } => self.person(),
        }
    }

    /// Returns the process if this is Salve itself.
    pub fn process(&self) -> Option<&Process> {
        match self {
            Actor::Salve(process) => Some(process),
            Actor::Person { .. }
            | Actor::Unproven { .. }
            | Actor::Forged { .. }
            | Actor::Agent { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_person_allows_and_only_a_forged_word_is_not_even_history() {
        let name = Scrubbed::literal("ada");
        for (actor, allows, is_history) in [
            (Actor::Person { name: name.clone() }, true, true),
            (Actor::Unproven { name: name.clone() }, false, true),
            (Actor::Forged { name: name.clone() }, false, false),
            (Actor::Agent { name }, false, false),
        ] {
            assert_eq!(actor.person().is_some(), allows, "{actor:?}");
            assert_eq!(actor.person_in_history().is_some(), is_history, "{actor:?}");
            assert_eq!(actor.process(), None);
        }
    }
}
