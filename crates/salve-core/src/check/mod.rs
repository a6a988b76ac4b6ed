//! Checks: what their output says, and whether a repair of one is a repair.
//!
//! A check is a command that is green or red: tests, types, lint, build. Nothing here runs one.
//! [`read`] tells from its output what failed, and [`narrow`] how to run only that again;
//! [`proof`] weighs whether a check that turned green was repaired, and [`tamper`] finds out
//! whether what judges it was weakened. [`attempt`] and [`decisions`] tell what is kept of a heal,
//! from the journal.

pub mod attempt;
pub mod breaker;
mod brief;
pub mod decisions;
mod green;
mod narrow;
pub mod proof;
mod read;
mod results;
pub mod state;
pub mod tamper;
pub mod watching;

pub(crate) use brief::with_sections;
pub use brief::{CheckBrief, SourceExcerpt, brief, issue_brief};
pub use green::GreenRun;
pub use narrow::{narrow, narrow_script};
pub use read::read;
pub use results::{CheckTool, ErrorPlace, FailedCase, Results, Sort, TestCounts};
