//! Whether somebody outside was told of an entry.

use serde::{Deserialize, Serialize};

use crate::scrub::Scrubbed;

/// A way to tell somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// An HTTP POST to an address of the settings.
    Webhook,
    /// A notice on this machine's desktop.
    Desktop,
}

/// How far telling has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Delivery {
    /// It is about to be told; written before it is.
    Due,
    /// It was taken.
    Delivered,
    /// It was not taken so far; the next run of Salve tries again.
    Undelivered {
        /// Why not.
        reason: Scrubbed,
    },
    /// It was not taken, and trying again would not help.
    Dropped {
        /// Why not.
        reason: Scrubbed,
    },
}

/// That somebody outside is to be told of an entry, was told, or could not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notified {
    /// The number of the entry.
    pub entry: u64,
    /// How it is told.
    pub via: Channel,
    /// How far that has come.
    pub state: Delivery,
}
