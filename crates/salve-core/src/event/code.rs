//! How events are stored: their kinds, their versions, and JSON there and back.

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Error as _, MapAccess};
use serde_json::Value;

use super::{
    ConfigEvent, Effect, Event, IncidentEvent, JobEvent, JobTurn, LoopEvent, LoopTurn, MemoryEvent,
    NoteEvent, RecoveryEvent, RuleEvent, ServerEvent, SessionEvent, TeamEvent,
};

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
    pub data: Value,
}

/// Why stored data is not an event.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The kind is known and its data is not of its shape.
    #[error("malformed `{kind}` event, version {version}")]
    Malformed {
        kind: String,
        version: u32,
        /// What is wrong with the data.
        #[source]
        source: serde_json::Error,
    },
    /// Versions start at 1.
    #[error("`{kind}` event with version 0")]
    NoVersion { kind: String },
}

/// Declares every kind once, in its group: variant, name, version, and whether it must survive
/// power loss.
macro_rules! kinds {
    ($($group:ident($events:ident) {
        $($variant:ident $name:literal $version:literal $durable:literal;)*
    })*) => {
        $(
            impl From<$events> for Event {
                fn from(event: $events) -> Self {
                    Event::$group(event)
                }
            }
        )*

        impl Event {
            /// The names of all kinds this Salve knows.
            pub const KINDS: &[&str] = &[$($($name),*),*];

            /// Returns the kind's name as used in JSON.
            pub fn kind(&self) -> &str {
                match self {
                    $($(Event::$group($events::$variant { .. }) => $name,)*)*
                    Event::Other(foreign) => &foreign.kind,
                }
            }

            /// Returns the version of the event's data.
            pub fn version(&self) -> u32 {
                match self {
                    $($(Event::$group($events::$variant { .. }) => $version,)*)*
                    Event::Other(foreign) => foreign.version,
                }
            }

            /// Returns the version in which this Salve writes `kind`, if it knows it.
            fn known_version(kind: &str) -> Option<u32> {
                match kind {
                    $($($name => Some($version),)*)*
                    _ => None,
                }
            }

            /// Returns the event as `{"kind", "data"}`, unless a newer Salve wrote it.
            fn tagged(&self) -> Option<Value> {
                match self {
                    // Every variant serialises by derive: there is no failing path.
                    $(Event::$group(event) => serde_json::to_value(event).ok(),)*
                    Event::Other(_) => None,
                }
            }

            /// Reads an event of a known kind from `{"kind", "data"}`.
            fn of_tagged(kind: &str, tagged: Value) -> Result<Self, serde_json::Error> {
                match kind {
                    $($($name)|* => Ok(Event::$group(serde_json::from_value(tagged)?)),)*
                    _ => Err(serde_json::Error::custom("no known kind")),
                }
            }

            /// Reads an event of a known kind from its parts.
            fn of_parts(kind: &str, parts: TaggedText<'_>) -> Result<Self, serde_json::Error> {
                let parts = MapAccessDeserializer::new(parts);
                match kind {
                    $($($name)|* => Ok(Event::$group($events::deserialize(parts)?)),)*
                    _ => Err(serde_json::Error::custom("no known kind")),
                }
            }

            /// Tells whether the entry must survive power loss, not only the end of the process.
            ///
            /// True for what a person decided, for how things came out, and for the intention to
            /// apply a remedy.
            pub fn is_durable(&self) -> bool {
                match self {
                    // A remedy is not applied again blindly, whatever happens to the power.
                    Event::Incident(IncidentEvent::Requested {
                        what: Effect::Apply { .. } | Effect::TakeOver, ..
                    })
                    | Event::Other(_) => true,
                    Event::Loop(LoopEvent::Turned {
                        what: LoopTurn::Started { .. } | LoopTurn::Ended { .. },
                        ..
                    }) => true,
                    Event::Job(JobEvent::Advanced {
                        what: JobTurn::Started { .. } | JobTurn::Ended { .. },
                        ..
                    }) => true,
                    $($(Event::$group($events::$variant { .. }) => $durable,)*)*
                }
            }
        }
    };
}

kinds! {
    Incident(IncidentEvent) {
        Opened "opened" 1 false;
        Claimed "claimed" 1 false;
        Released "released" 1 false;
        Sickened "sickened" 1 false;
        Diagnosed "diagnosed" 1 false;
        Judged "judged" 1 false;
        NothingLeft "nothing_left" 1 false;
        Requested "requested" 1 false;
        Progressed "progressed" 1 false;
        Finished "finished" 2 false;
        Marked "marked" 1 false;
        AgentLaunched "agent_launched" 1 false;
        LayerLaid "layer_laid" 1 false;
        FilesChanged "files_changed" 1 false;
        EnvironmentSet "environment_set" 1 false;
        Charged "charged" 1 false;
        Refilled "refilled" 1 true;
        Exhausted "exhausted" 1 true;
        CooledDown "cooled_down" 1 false;
        Tripped "tripped" 1 true;
        Approved "approved" 1 true;
        Rejected "rejected" 1 true;
        Resolved "resolved" 1 true;
        Superseded "superseded" 1 true;
        TriedAgain "tried_again" 1 false;
        CameBack "came_back" 1 true;
        Ordered "ordered" 1 true;
        ProofExplained "proof_explained" 1 false;
        SeenGreen "seen_green" 1 false;
        CountersRestored "counters_restored" 1 false;
        Ended "ended" 1 true;
    }
    Config(ConfigEvent) {
        Changed "config_changed" 1 false;
        Rejected "config_rejected" 1 false;
        Pending "config_pending" 1 true;
        Accepted "config_accepted" 1 true;
        Guarded "config_guarded" 1 true;
        Released "config_released" 1 false;
    }
    Memory(MemoryEvent) {
        Learned "learned" 1 true;
        Forgotten "forgotten" 1 true;
        Rekeyed "rekeyed" 1 true;
        ToolFailed "tool_failed" 1 false;
    }
    Server(ServerEvent) {
        Started "server_started" 1 false;
        Up "server_up" 1 false;
        Stopped "server_stopped" 1 false;
        Ordered "server_ordered" 1 false;
        PageFailed "page_failed" 1 false;
    }
    Session(SessionEvent) {
        Attached "agent_attached" 1 false;
        Detached "agent_detached" 1 false;
    }
    Team(TeamEvent) {
        IssueReported "issue_reported" 1 true;
        IssueSettled "issue_settled" 1 true;
        FixWanted "fix_wanted" 1 false;
        FixProposed "fix_proposed" 1 false;
    }
    Loop(LoopEvent) {
        Turned "loop" 1 false;
        Attached "loop_attached" 1 false;
        Detached "loop_detached" 1 false;
        ManifestsSeen "manifests_seen" 1 false;
    }
    Job(JobEvent) {
        Advanced "job" 1 false;
    }
    Recovery(RecoveryEvent) {
        Sought "recovery_sought" 1 false;
        Proposed "recovery_proposed" 1 true;
        Refused "recovery_refused" 1 false;
    }
    Rule(RuleEvent) {
        Accepted "rule_accepted" 1 true;
        Withdrawn "rule_withdrawn" 1 true;
    }
    Note(NoteEvent) {
        StoreSalvaged "store_salvaged" 1 true;
        Notified "notified" 1 false;
        Noted "noted" 1 false;
    }
}

/// `{"kind", "data"}` of an event whose data is the text of its JSON.
///
/// Building the data's tree first, and then the event from it, takes several times as long, and
/// whoever shows a long history reads a million of them.
struct TaggedText<'t> {
    kind: &'t str,
    data: &'t str,
    next: TaggedMember,
}

/// Which member is read next.
enum TaggedMember {
    Kind,
    Data,
    None,
}

impl<'t> MapAccess<'t> for TaggedText<'t> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'t>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        let name = match self.next {
            TaggedMember::Kind => "kind",
            TaggedMember::Data => "data",
            TaggedMember::None => return Ok(None),
        };
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        match self.next {
            TaggedMember::Kind => {
                self.next = TaggedMember::Data;
                seed.deserialize(BorrowedStrDeserializer::new(self.kind))
            }
            TaggedMember::Data => {
                self.next = TaggedMember::None;
                let mut text = serde_json::Deserializer::from_str(self.data);
                let value = seed.deserialize(&mut text)?;
                text.end()?;
                Ok(value)
            }
            TaggedMember::None => Err(Self::Error::custom("no member is left")),
        }
    }
}

impl Event {
    /// Reads a stored event from the text of its data, if that is as this Salve writes it.
    ///
    /// What of anything else becomes an event, and why not, is said by [`Event::decode`].
    pub fn of_text(kind: &str, version: u32, data: &str) -> Option<Self> {
        let is_known = Self::known_version(kind).is_some_and(|known| version <= known);
        let parts = TaggedText { kind, data, next: TaggedMember::Kind };
        if is_known && version > 0 { Self::of_parts(kind, parts).ok() } else { None }
    }

    /// Returns the event in the shape in which it is stored.
    pub fn encode(&self) -> Encoded {
        let data = match self {
            Event::Other(foreign) => foreign.data.clone(),
            known => known
                .tagged()
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
        Self::of_tagged(&kind, tagged).map_err(|source| DecodeError::Malformed {
            kind,
            version,
            source,
        })
    }
}
