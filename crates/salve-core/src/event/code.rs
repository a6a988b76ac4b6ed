//! How events are stored: their kinds, their versions, and JSON there and back.

use serde_json::Value;

use super::{Effect, Event, Turn};

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
            /// True for what a person decided, for how things came out, and for the intention to
            /// apply a remedy.
            pub fn is_durable(&self) -> bool {
                match self {
                    // A remedy is not applied again blindly, whatever happens to the power.
                    Event::Requested { what: Effect::Apply { .. }, .. } | Event::Other(_) => true,
                    Event::Loop { what: Turn::Started { .. } | Turn::Ended { .. }, .. } => true,
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
    Diagnosed "diagnosed" 1 false;
    Judged "judged" 1 false;
    NothingLeft "nothing_left" 1 false;
    Requested "requested" 1 false;
    Progressed "progressed" 1 false;
    Finished "finished" 2 false;
    Marked "marked" 1 false;
    AgentLaunched "agent_launched" 1 false;
    FilesChanged "files_changed" 1 false;
    Charged "charged" 1 false;
    Refilled "refilled" 1 true;
    Exhausted "exhausted" 1 true;
    CooledDown "cooled_down" 1 false;
    Tripped "tripped" 1 true;
    Approved "approved" 1 true;
    Rejected "rejected" 1 true;
    Resolved "resolved" 1 true;
    Superseded "superseded" 1 true;
    Ordered "ordered" 1 true;
    Ended "ended" 1 true;
    ConfigChanged "config_changed" 1 false;
    ConfigRejected "config_rejected" 1 false;
    ConfigPending "config_pending" 1 true;
    ConfigAccepted "config_accepted" 1 true;
    ConfigGuarded "config_guarded" 1 true;
    ConfigReleased "config_released" 1 false;
    Learned "learned" 1 true;
    Forgotten "forgotten" 1 true;
    StoreSalvaged "store_salvaged" 1 true;
    ServerStarted "server_started" 1 false;
    ServerUp "server_up" 1 false;
    ServerStopped "server_stopped" 1 false;
    ServerOrdered "server_ordered" 1 false;
    AgentAttached "agent_attached" 1 false;
    AgentDetached "agent_detached" 1 false;
    IssueReported "issue_reported" 1 true;
    IssueSettled "issue_settled" 1 true;
    FixWanted "fix_wanted" 1 false;
    FixProposed "fix_proposed" 1 false;
    Loop "loop" 1 false;
    LoopAttached "loop_attached" 1 false;
    LoopDetached "loop_detached" 1 false;
    ManifestsSeen "manifests_seen" 1 false;
    RecoverySought "recovery_sought" 1 false;
    RecoveryProposed "recovery_proposed" 1 true;
    RecoveryRefused "recovery_refused" 1 false;
    Notified "notified" 1 false;
    RuleAccepted "rule_accepted" 1 true;
    RuleWithdrawn "rule_withdrawn" 1 true;
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
