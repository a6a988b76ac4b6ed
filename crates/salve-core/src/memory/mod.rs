//! Remedies that are known for a failure, and how far to trust them.
//!
//! [`Knowledge`] is all that one memory holds about one fingerprint: the remedies tried or taught
//! and what came of each. [`rank`] puts the knowledge of the project's memory and of the user's own
//! together and says what to try, in which order, and what not to try again. [`usage`] is about
//! calls that are likely to fail before they are made, [`tool`] about calls that did.
//!
//! **Invariants:** only a proven heal raises confidence. What has failed and was never proven is
//! not proposed. Text enters only as [`Scrubbed`](crate::scrub::Scrubbed).

mod confidence;
mod edit;
pub mod fleet;
mod knowledge;
mod merge;
mod rank;
mod record;
mod rekey;
mod remedy;
pub mod tool;
pub mod usage;

pub use confidence::Confidence;
pub use edit::{KnowledgeChange, KnowledgeEdit};
pub use knowledge::{Knowledge, RemedyWord, RememberedFailure, TriedRemedy};
pub use merge::merge;
pub use rank::{Choice, Ranked, rank};
pub use record::{Record, RecordStanding, RemedyTrial};
pub use rekey::{Rekeying, SignatureAliases, join, rekeyed};
pub use remedy::{RememberedKind, RememberedRemedy};

#[cfg(test)]
mod tests;
