//! Recovery of an agent loop's tests: whether they could execute, what is proposed when they could
//! not, and what a loop's files say about it.
//!
//! A recovery is an incident like any other, of the subject kind `iteration` with the loop's id as
//! its name. What is special is its aim: the tests have to *execute*. Whether they then pass is the
//! loop's own business, so failing assertions and bugs in the code are never recovered from.
//!
//! **Invariant:** nothing is recovered from unless no test, or not every file of tests, could run,
//! and the cause is not the code.

mod ailment;
mod draft;
mod escalation;
mod log;
mod manifest;
mod turns;
mod usage;

pub use ailment::{Execution, TestsTrouble, ailment, executed};
pub use draft::{DraftedFailure, draft, proposed, to_json};
pub use escalation::{Actions, Escalation};
pub use log::LogLine;
pub(crate) use log::recovery_lines;
pub use manifest::{install_script_words, is_manifest};
pub(crate) use turns::turn_line;
pub use usage::{RecoveryStatistics, RecoveryUsage};
