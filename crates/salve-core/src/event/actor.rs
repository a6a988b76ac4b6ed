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
            Actor::Person { .. } | Actor::Salve(_) | Actor::Agent { .. } => None,
        }
    }

    /// Returns the process if this is Salve itself.
    pub fn process(&self) -> Option<&Process> {
        match self {
            Actor::Salve(process) => Some(process),
            Actor::Person { .. } | Actor::Agent { .. } => None,
        }
    }
}
