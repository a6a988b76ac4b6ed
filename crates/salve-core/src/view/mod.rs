//! The read models: one view of an incident and one of a loop, each folded from the journal.
//!
//! Whoever shows an incident or judges one reads an [`IncidentView`]: the command line, the repair
//! tools, notices, the records of checks, the web page. Whoever shows a loop reads a [`LoopView`],
//! which holds the views of the loop's recoveries. What is printed, sent or written to a file is
//! made of a view and never of entries, so a fact is taken from the journal in one place.
//!
//! The machines that *decide* ([`Incident`](crate::incident::Incident),
//! [`Loop`](crate::iteration::Loop)) keep only what decisions need; a view keeps what was said.

mod incident;
mod loops;
mod question;
mod remedy;

pub use incident::{AgentWork, IncidentView, IncidentViewLine};
pub use loops::{LoopView, UnattendedRuns};
pub use question::{AskedQuestion, GivenAnswer, QuestionSettled, SettledQuestion};
pub use remedy::{AppliedEnd, AppliedRemedy, Fulfilment, RemedyResult, RemedyTried};
