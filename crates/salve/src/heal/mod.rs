//! The driver: acts on what core decides, for every subject alike.
//!
//! A run stands on a [`RunBase`]; [`driver`] takes the subjects of one kind ([`Subjects`]) through
//! their incidents. What it needs lies beside it: the [`IncidentWriter`] through which incidents
//! meet the journal, the [`remedies`] that are offered, the look into the [`cause`], what is done
//! with the [`files`], [`agents`], and the one [`inbox`] where everything arrives.

pub mod agents;
pub mod cause;
pub mod control;
mod counters;
pub mod driver;
pub mod earned;
pub mod failure_log;
pub mod files;
pub mod inbox;
pub mod interruption;
pub mod judging_command;
pub mod layers;
pub mod loop_files;
pub mod loops;
pub mod manifests;
pub mod patches;
pub mod pause_watch;
pub mod people;
mod presence;
pub mod proposals;
pub mod records;
pub mod recovery_file;
pub mod remedies;
pub mod reporter;
pub mod right;
pub mod rule_list;
pub mod run;
mod run_base;
pub mod run_environment;
pub mod running_agent;
mod subject;
pub mod verifier;
mod watch_sense;
mod writer;

pub use driver::{Case, RunEnd};
pub use pause_watch::{PauseStanding, PauseWatch};
pub use presence::Presence;
pub use reporter::{Remark, Reporter};
pub use run_base::{RepairTerms, RunBase, RunIntent};
pub use subject::{
    AgentManner, FailureWaiter, OpeningTerms, Resorts, SeenFailure, SubjectContext, Subjects,
    VerifiedFinding,
};
pub use writer::{
    IncidentOpening, IncidentWriter, Lesson, WriterError, Wrote, left_behind, unfinished,
};

use std::time::Duration;

pub(crate) use crate::process::spawn_thread;

/// Returns a time in milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
