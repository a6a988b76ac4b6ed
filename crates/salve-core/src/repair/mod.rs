//! What the dev-server spec's tools tell about repairs, read from the journal.
//!
//! Everything here is made of [`IncidentView`](crate::view::IncidentView)s: [`task`], [`status`] and
//! [`errors`] turn them into the shapes of the tools `canvas_get_repair_task`,
//! `canvas_get_repair_status` and `canvas_get_errors`, and [`mark`] judges what
//! `canvas_mark_repair_step` reports.
//!
//! **Invariant:** an agent's report is taken only for the attempt it was made in, and only while
//! that attempt may still want it.

mod cooldown;
mod earlier;
mod errors;
mod mark;
mod notice;
mod question;
mod servers;
mod status;
mod story;
mod task;
mod telling;
#[cfg(test)]
mod tests;

pub use cooldown::CooldownNotice;
pub use earlier::earlier;
pub use errors::{BrowserError, CrashError, Errors, Severity, browser_errors, errors};
pub use mark::{ReportRefusal, Reported, TakenReport, mark};
pub(crate) use notice::notices;
pub use notice::{Notice, agent_title, exit_text, signal_name};
pub use question::{OpenQuestion, QuestionDetail, ask, question_detail};
pub use servers::{Server, ServerState, servers};
pub use status::{AgentPart, PhaseEvent, RepairStanding, RepairState, RepairStatus, Size, status};
pub use story::{IncidentStory, TimelineEntry, ended, who};
pub use task::{
    NoTask, RepairScene, RepairTask, SafetyLimits, TaskStanding, WaitingTask, standing, task,
};
pub use telling::event_text;

use crate::event::SubjectKind;
use crate::id::IncidentId;

/// The version of the shapes here; it rises when a field changes its meaning.
pub const VERSION: u32 = 1;

/// How many of the last phases a task and a state carry.
pub const LAST_EVENTS: usize = 10;

/// Returns the name of the file with an incident's crash log, in the project's root.
pub fn crash_log_name(id: IncidentId) -> String {
    format!(".dev-crash.{}.log", id.short())
}

/// Returns the path of the file with what a failure left behind, below the project's root.
pub fn evidence_path(kind: SubjectKind, id: IncidentId) -> String {
    match kind {
        SubjectKind::Server => crash_log_name(id),
        SubjectKind::Check | SubjectKind::Tool | SubjectKind::Step | SubjectKind::Iteration => {
            format!(".salve/healing-attempts/{}.log", id.short())
        }
    }
}

/// Returns the path of the file with what agents of ours said about an incident, below the project's
/// root.
pub fn transcript_path(id: IncidentId) -> String {
    format!(".salve/healing-attempts/{}.agent.log", id.short())
}

/// Returns the address of the resource that holds an incident's crash log.
pub fn crash_log_uri(id: IncidentId) -> String {
    format!("salve://crash-log/{id}")
}

/// Returns the address of the resource that holds an incident's story.
pub fn incident_uri(id: IncidentId) -> String {
    format!("salve://incident/{id}")
}
