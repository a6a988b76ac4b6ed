//! What may happen: the typed, versioned events of the journal.
//!
//! An [`Event`] is one fact, a [`Draft`] is a fact about to be written, an [`Entry`] is a fact in
//! the journal. Events are stored as a kind, a version and JSON data. A reader that is older than
//! the writer keeps what it does not know as [`Event::Other`] and passes it on unchanged; a known
//! kind with malformed data is an error, never a guess.
//!
//! **Invariant:** free text enters an event only as [`Scrubbed`](crate::scrub::Scrubbed).

mod actor;
mod changed;
mod code;
mod digest;
mod entry;
mod groups;
mod incident;
mod job;
mod kinds;
mod notified;
mod page_failure;
mod recovery;
mod rule;
mod run_variable;
mod seal;
mod subject;
mod team;
mod terms;
mod turn;
mod words;

pub use crate::class::FailureClass;
pub use actor::{Actor, Process};
pub use changed::ChangedFile;
pub use code::{DecodeError, Encoded, Foreign};
pub use digest::{BadDigest, Digest};
pub use entry::{Draft, Entry};
pub use groups::{
    ConfigEvent, LoopEvent, MemoryEvent, NoteEvent, RecoveryEvent, RuleEvent, ServerEvent,
    SessionEvent, TeamEvent,
};
pub use incident::IncidentEvent;
pub use job::{
    AttemptEnd, Checkpoint, HealStrategy, JobEvent, JobOrder, JobStepTerms, JobTerms, JobTurn,
    ResetCause, ResetEnd, StepFailure, StepTimer,
};
pub use kinds::Event;
pub use notified::{Channel, Delivery, Notified};
pub use page_failure::{PageFailure, PageFailureWay};
pub use recovery::{Attempted, ProposalSource, Proposed, SeenFile};
pub use rule::RuleKey;
pub use run_variable::{RunVariable, variables_in_force};
pub use seal::Seal;
pub use subject::{Acted, ProcessExit, Repeat, Subject, SubjectKind, Symptom};
pub use team::{Fix, FixKind, IssueSettled};
pub use terms::{
    Amounts, AtALoss, IncidentPolicy, OnFailure, RepairMode, Resource, ResourceLimits, dollars,
};
pub use turn::{
    BadLoopId, LoopEnd, LoopId, LoopStep, LoopTerms, LoopTurn, Promise, RecoveryEnd, RoleEnd,
    TestsSeen, TestsVerdict,
};
pub use words::{
    AgentMark, Authority, Breaker, Change, Effect, EffectReport, EffectStage, IncidentOutcome,
    Judgement, PersonOrder, PersonQuestion, Proof, Remedy, RemedyKind, RemedyOrigin, RemedyVerdict,
    Scope, ServerOrder, Undo,
};

#[cfg(test)]
mod tests;
