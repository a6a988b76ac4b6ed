//! What heals failed tool calls, whoever made them: a client behind the proxy, or `salve call`.
//!
//! What fits a failure is decided in core; here it is done, once for all who wait for it
//! (`Flight` of salve-auto-heal, so that tools that heal themselves take part), and what came of it
//! is kept. `prevention` reads the patterns that calls are watched for; `debug` tells where a tool is
//! written and what is known about its error.

mod debug;
mod means;
mod prevention;
mod source;

pub use debug::{DebugQuestion, DiagnosisSource, ToolDebug};
pub use means::{FixError, HealMeans, HealTime, Healed};
pub use prevention::entry_of;
