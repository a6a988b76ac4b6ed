//! What may happen: the typed, versioned events of the journal.
//!
//! An [`Event`] is one fact, a [`Draft`] is a fact about to be written, an [`Entry`] is a fact in
//! the journal. Events are stored as a kind, a version and JSON data. A reader that is older than
//! the writer keeps what it does not know as [`Event::Other`] and passes it on unchanged; a known
//! kind with malformed data is an error, never a guess.
//!
//! **Invariant:** free text enters an event only as [`Scrubbed`].

mod actor;
mod digest;
mod terms;
mod words;

pub use actor::{Actor, Process};
pub use digest::{BadDigest, Digest};
pub use terms::{Amounts, Limits, OnFailure, Policy, Resource};
pub use words::{
    Acted, Authority, Change, Effect, Exit, Judgement, Mark, Order, Origin, Outcome, Proof,
    Question, Remedy, RemedyKind, Repeat, Report, Scope, Stage, Subject, SubjectKind, Symptom,
    Undo, Verdict,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{IncidentId, Signature};
use crate::scrub::Scrubbed;

/// A fact about to be written to the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// When it happened, stamped once on entry.
    pub at: Timestamp,
    /// Who says so.
    pub by: Actor,
    /// The incident it belongs to, if any.
    pub incident: Option<IncidentId>,
    /// What happened.
    pub event: Event,
}

/// A fact in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the journal; strictly rising.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Who says so.
    pub by: Actor,
    /// The incident it belongs to, if any.
    pub incident: Option<IncidentId>,
    /// What happened.
    pub event: Event,
}

impl Draft {
    /// Returns the entry this draft becomes at `seq`.
    pub fn at_seq(self, seq: u64) -> Entry {
        let Self { at, by, incident, event } = self;
        Entry { seq, at, by, incident, event }
    }
}

/// One thing that happened.
///
/// The variants up to [`Event::Ended`] are an incident's life; see [`crate::incident`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// An incident began with its first symptom, under these terms.
    Opened {
        /// What is under care.
        subject: Subject,
        /// The terms that hold for the whole incident.
        policy: Box<Policy>,
        /// What was seen.
        symptom: Box<Symptom>,
    },
    /// A process took the incident.
    Claimed {
        /// The owner whose place it takes because that very process is gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instead_of: Option<Process>,
    },
    /// The owner let go of an incident that is not over.
    Released {},
    /// The subject failed (again).
    Sickened {
        /// What was seen.
        symptom: Box<Symptom>,
    },
    /// A remedy was chosen and the gate judged it.
    Judged {
        /// The remedy.
        remedy: Box<Remedy>,
        /// What the gate said.
        judgement: Judgement,
    },
    /// Nothing that fits is left to try.
    NothingLeft {},
    /// An effect is about to run; always written before it does.
    Requested {
        /// The effect's number within the incident, from 1.
        effect: u32,
        /// What is to be done.
        what: Effect,
    },
    /// A running effect reached a stage worth showing.
    Progressed {
        /// The effect.
        effect: u32,
        /// The stage.
        stage: Stage,
    },
    /// An effect came back.
    Finished {
        /// The effect.
        effect: u32,
        /// What it reports.
        report: Report,
    },
    /// An agent told how far its repair is.
    Marked {
        /// The attempt it speaks of, from 1.
        attempt: u32,
        /// How far it is.
        mark: Mark,
        /// What it says it changed.
        #[serde(default, skip_serializing_if = "Change::is_unknown")]
        reported: Change,
        /// What it says about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Scrubbed>,
    },
    /// What an effect has cost so far; the larger of two such statements counts.
    Charged {
        /// The effect.
        effect: u32,
        /// Its whole cost until now.
        spent: Amounts,
    },
    /// A named person granted more.
    Refilled {
        /// What is added to the budget.
        granted: Amounts,
    },
    /// The budget is used up.
    Exhausted {
        /// What ran out.
        resource: Resource,
    },
    /// The cooldown is over.
    CooledDown {},
    /// A person allowed one remedy, or the change in question, once.
    Approved {
        /// The hash of exactly what was shown: command, directory and time-out.
        digest: Digest,
        /// The person's remark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Scrubbed>,
    },
    /// A person declined what was asked.
    Rejected {
        /// The hash of what was shown.
        digest: Digest,
        /// The person's remark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Scrubbed>,
    },
    /// A person says the matter is settled.
    Resolved {
        /// How.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<Scrubbed>,
    },
    /// A person gave an order to the incident.
    Ordered {
        /// The order.
        order: Order,
    },
    /// The incident has its outcome; recording and letting go follow.
    Ended {
        /// How it ended.
        outcome: Outcome,
    },
    /// A changed configuration took effect.
    ConfigChanged {
        /// What changed, one line each.
        changes: Vec<Scrubbed>,
    },
    /// A changed configuration was refused as a whole.
    ConfigRejected {
        /// Why, with file, line and column.
        reason: Scrubbed,
    },
    /// A configuration that widens what runs unattended waits for a person.
    ConfigPending {
        /// The hash of the waiting configuration.
        digest: Digest,
        /// What would change, one line each.
        changes: Vec<Scrubbed>,
    },
    /// A person accepted a waiting configuration.
    ConfigAccepted {
        /// The hash of what was accepted.
        digest: Digest,
    },
    /// Memory took in how a remedy did.
    Learned {
        /// The failure.
        signature: Signature,
        /// The remedy.
        remedy: Digest,
        /// What verification found.
        proof: Proof,
    },
    /// Memory dropped what it knew about a failure.
    Forgotten {
        /// The failure.
        signature: Signature,
    },
    /// A damaged store was set aside and what could be read was kept.
    StoreSalvaged {
        /// Entries kept.
        kept: u64,
        /// The file that holds the damaged store now.
        aside: Scrubbed,
    },
    /// A remark for people.
    Noted {
        /// The remark.
        text: Scrubbed,
    },
    /// Something a newer Salve wrote; kept and passed on as it is.
    #[serde(skip)]
    Other(Foreign),
}

/// An event of a kind or version this Salve does not know.
///
/// Only [`Event::decode`] makes one, so it cannot carry unscrubbed text into the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    kind: String,
    version: u32,
    data: Value,
}

/// An event in the shape in which it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The kind's name.
    pub kind: String,
    /// The version of the data's shape.
    pub version: u32,
    /// The data.
    pub data: Value,
}

/// Why stored data is not an event.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The kind is known and its data is not of its shape.
    #[error("malformed `{kind}` event, version {version}")]
    Malformed {
        /// The kind.
        kind: String,
        /// The version.
        version: u32,
        /// What is wrong with the data.
        #[source]
        source: serde_json::Error,
    },
    /// Versions start at 1.
    #[error("`{kind}` event with version 0")]
    NoVersion {
        /// The kind.
        kind: String,
    },
}

/// Declares every kind once: variant, name, version, and whether it must survive power loss.
macro_rules! kinds {
    ($($variant:ident $name:literal $version:literal $durable:literal;)*) => {
        impl Event {
            /// The names of all kinds this Salve knows.
            pub const KINDS: &[&str] = &[$($name),*];

            /// Returns the kind's name as used in JSON.
            pub fn kind(&self) -> &str {
                match self {
                    $(Event::$variant { .. } => $name,)*
                    Event::Other(foreign) => &foreign.kind,
                }
            }

            /// Returns the version of the event's data.
            pub fn version(&self) -> u32 {
                match self {
                    $(Event::$variant { .. } => $version,)*
                    Event::Other(foreign) => foreign.version,
                }
            }

            /// Returns the version in which this Salve writes `kind`, if it knows it.
            fn known_version(kind: &str) -> Option<u32> {
                match kind {
                    $($name => Some($version),)*
                    _ => None,
                }
            }

            /// Tells whether the entry must survive power loss, not only the end of the process.
            ///
            /// True for what a person decided and for how things came out.
            pub fn is_durable(&self) -> bool {
                match self {
                    // What a person approved runs once, whatever happens to the power.
                    Event::Requested { what: Effect::Apply { on: Authority::Approval(_), .. }, .. }
                    | Event::Other(_) => true,
                    $(Event::$variant { .. } => $durable,)*
                }
            }
        }
    };
}

kinds! {
    Opened "opened" 1 false;
    Claimed "claimed" 1 false;
    Released "released" 1 false;
    Sickened "sickened" 1 false;
    Judged "judged" 1 false;
    NothingLeft "nothing_left" 1 false;
    Requested "requested" 1 false;
    Progressed "progressed" 1 false;
    Finished "finished" 1 false;
    Marked "marked" 1 false;
    Charged "charged" 1 false;
    Refilled "refilled" 1 true;
    Exhausted "exhausted" 1 true;
    CooledDown "cooled_down" 1 false;
    Approved "approved" 1 true;
    Rejected "rejected" 1 true;
    Resolved "resolved" 1 true;
    Ordered "ordered" 1 true;
    Ended "ended" 1 true;
    ConfigChanged "config_changed" 1 false;
    ConfigRejected "config_rejected" 1 false;
    ConfigPending "config_pending" 1 true;
    ConfigAccepted "config_accepted" 1 true;
    Learned "learned" 1 true;
    Forgotten "forgotten" 1 true;
    StoreSalvaged "store_salvaged" 1 true;
    Noted "noted" 1 false;
}

impl Event {
    /// Returns the event in the shape in which it is stored.
    pub fn encode(&self) -> Encoded {
        let data = match self {
            Event::Other(foreign) => foreign.data.clone(),
            // Every variant serialises to `{"kind", "data"}` by derive: there is no failing path.
            known => serde_json::to_value(known)
                .ok()
                .and_then(|mut value| value.get_mut("data").map(Value::take))
                .unwrap_or_default(),
        };
        Encoded { kind: self.kind().to_owned(), version: self.version(), data }
    }

    /// Reads a stored event.
    ///
    /// # Errors
    ///
    /// When the kind and version are known and the data is not of their shape.
    pub fn decode(Encoded { kind, version, data }: Encoded) -> Result<Self, DecodeError> {
        if version == 0 {
            return Err(DecodeError::NoVersion { kind });
        }
        if Self::known_version(&kind).is_none_or(|known| version > known) {
            return Ok(Event::Other(Foreign { kind, version, data }));
        }
        let tagged = serde_json::json!({ "kind": &kind, "data": data });
        serde_json::from_value(tagged).map_err(|source| DecodeError::Malformed {
            kind,
            version,
            source,
        })
    }
}

#[cfg(test)]
mod tests;
