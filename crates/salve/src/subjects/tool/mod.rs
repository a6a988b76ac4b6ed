//! Tool calls: a call that failed is a subject, and the call itself shows whether a remedy helped.
//!
//! Failed calls come to a [`CallDesk`]. Whoever serves it ([`ToolCalls`]) groups them by what they
//! failed of, so that fifty calls with one expired token are one incident with fifty callers, and
//! makes each call again once the remedy is in place. Nobody serves a desk to which no call comes:
//! what works costs no store and no thread. [`ToolRepair`] mends the source of a tool, as a person
//! approved.

mod cause;
mod desk;
mod offers;
mod tool_calls;
mod tool_repair;

pub use desk::{CallAnswer, CallDesk, FailingCall, ServerFixes, ToolCaller};
pub use tool_calls::{FAILED_OTHERWISE, ToolCalls};
pub use tool_repair::{ToolRepair, ToolRepairEnd, ToolRepairTerms, ToolRepairWay};
