//! Why agents' questions go unanswered, and what they can do about it.

use salve_core::id::IncidentId;
use salve_core::repair::ReportRefusal;

use crate::store::StoreError;
use crate::team::TeamError;

/// Why a question could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum RepairToolsError {
    /// No repair has this id.
    #[error("no repair has the id `{given}`")]
    Unknown {
        /// What was given.
        given: String,
        /// The repairs that are not over.
        open: Vec<IncidentId>,
    },
    /// The id fits several repairs.
    #[error("several repairs' ids begin with `{0}`")]
    Ambiguous(String),
    /// The report does not fit.
    #[error(transparent)]
    Refused(#[from] ReportRefusal),
    /// What a team says is not taken.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// A fix says nothing.
    #[error("error_pattern and fix_description must not be empty")]
    EmptyFix,
    /// A patch cannot be taken.
    #[error("the patch is not taken: {0}")]
    Patch(String),
    /// A skill cannot be run.
    #[error("the skill cannot be run: {0}")]
    Skill(String),
    /// The settings cannot be read.
    #[error("the settings cannot be read: {0}")]
    Settings(String),
    /// Others kept writing to the incident.
    #[error("the repair keeps changing")]
    Restless,
    /// The journal could not be read or written.
    #[error("the journal cannot be used: {0}")]
    Store(#[from] StoreError),
}

impl RepairToolsError {
    /// Returns what the agent can do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::Unknown { open, .. } if open.is_empty() => {
                "No repair is open; call canvas_get_repair_task.".into()
            }
            Self::Unknown { open, .. } => {
                let ids: Vec<_> = open.iter().map(ToString::to_string).collect();
                format!("The open repairs are: {}.", ids.join(", "))
            }
            Self::Ambiguous(_) => "Give the whole repairId.".into(),
            Self::Refused(refusal) => refusal.advice(),
            Self::Team(error) => error.advice(),
            Self::EmptyFix => "Say which text the error contains, and what fixed it.".into(),
            Self::Patch(_) => {
                "Send a unified diff that fits the files as they are, with paths from the \
                 project's root on; debug_tool says where the source is."
                    .into()
            }
            Self::Skill(_) => "Run `salve skill check FILE` to see what is wrong with it.".into(),
            Self::Settings(_) => "Ask the user to run `salve config check`.".into(),
            Self::Restless => "Call it again.".into(),
            Self::Store(error) => error.advice(),
        }
    }
}
