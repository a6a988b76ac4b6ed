//! One thing that happened, by what it is about.

use super::{
    ConfigEvent, Foreign, IncidentEvent, JobEvent, LoopEvent, MemoryEvent, NoteEvent,
    RecoveryEvent, RuleEvent, ServerEvent, SessionEvent, TeamEvent,
};

/// One thing that happened.
///
/// Each group is one enum, so that a machine matches the group it lives by completely. The groups
/// exist in code only: the journal knows kinds by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An incident went on.
    Incident(IncidentEvent),
    /// The settings changed, or wait.
    Config(ConfigEvent),
    /// Memory learned or forgot.
    Memory(MemoryEvent),
    /// A dev server came or went.
    Server(ServerEvent),
    /// A session of somebody's agent came or went.
    Session(SessionEvent),
    /// Somebody reported or proposed something.
    Team(TeamEvent),
    /// A loop went on.
    Loop(LoopEvent),
    /// A job went on.
    Job(JobEvent),
    /// A loop's tests are to execute again.
    Recovery(RecoveryEvent),
    /// A person decided about an earned approval.
    Rule(RuleEvent),
    /// Something is on record for people.
    Note(NoteEvent),
    /// Something a newer Salve wrote; kept and passed on as it is.
    Other(Foreign),
}
