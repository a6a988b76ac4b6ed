//! The lines of a loop's `events.jsonl` about the loop itself.

use super::log::LogLine;
use crate::event::{LoopEnd, LoopTurn, PersonOrder, Promise, RoleEnd, TestsVerdict};
use crate::scrub::Scrubbed;

/// Returns the line about something that happened to a loop, if it is worth one.
pub(crate) fn turn_line(what: &LoopTurn) -> Option<LogLine> {
    let event = |event| LogLine { event, ..LogLine::default() };
    let of = |name, role: &Scrubbed| LogLine { role: Some(role.clone()), ..event(name) };
    let why = |line: LogLine, reason: &Scrubbed| LogLine { reason: Some(reason.clone()), ..line };
    Some(match what {
        LoopTurn::Started { .. } => event("loop_started"),
        LoopTurn::Began { .. } => event("iteration_began"),
        LoopTurn::RoleBegan { role, .. } => of("role_began", role),
        LoopTurn::RoleEnded { role, end, spent, promise } => {
            let line = match end {
                RoleEnd::Done => of("role_ended", role),
                RoleEnd::Short { reason } => why(of("role_fell_short", role), reason),
                RoleEnd::Away { reason, .. } => why(of("loop_parked", role), reason),
                RoleEnd::Unable { reason } => {
                    LogLine { awaiting: Some("human"), ..why(of("loop_waiting", role), reason) }
                }
                RoleEnd::Stopped => of("role_stopped", role),
            };
            let note = match promise {
                Promise::None => None,
                Promise::Made { .. } => Some(Scrubbed::literal("promises that the task is done")),
                Promise::Weakened => Some(Scrubbed::literal(
                    "promises that the task is done, but what judges it was weakened",
                )),
            };
            LogLine { duration_ms: Some(spent.wall_ms), note, ..line }
        }
        LoopTurn::TestsRan { tests } => LogLine {
            result: Some(match tests.verdict {
                TestsVerdict::Green => "green",
                TestsVerdict::Red => "red",
                TestsVerdict::NotExecuted => "not_executed",
            }),
            duration_ms: Some(tests.took_ms),
            ..event("tests_ran")
        },
        LoopTurn::Stopped {} => event("loop_stopped"),
        LoopTurn::Ended { why: end } => {
            let result = match end {
                LoopEnd::Completed => "completed",
                LoopEnd::Limit(_) => "limit_reached",
                LoopEnd::Stuck => "stuck",
                LoopEnd::Failed { .. } => "failed",
            };
            LogLine { result: Some(result), ..event("loop_ended") }
        }
        LoopTurn::Ordered { order } => {
            let event = event(match order {
                PersonOrder::Pause => "loop_paused",
                PersonOrder::Resume => "loop_resumed",
                PersonOrder::Skip => "role_skipped",
                PersonOrder::Abort => "loop_stopped",
                PersonOrder::Escalate => "loop_waiting",
                PersonOrder::Retry => return None,
            });
            LogLine { by: Some("human"), ..event }
        }
        // The recovery's own events tell more.
        LoopTurn::RecoveryBegan {} | LoopTurn::RecoveryEnded { .. } | LoopTurn::Charged { .. } => {
            return None;
        }
    })
}
