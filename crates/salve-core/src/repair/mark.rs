//! What `canvas_mark_repair_step` takes.

use super::{TaskStanding, standing};
use crate::event::{AgentMark, Change, Event, IncidentEvent, IncidentOutcome};
use crate::id::IncidentId;
use crate::incident::{RepairPhase, is_small};
use crate::scrub::Scrubbed;
use crate::view::IncidentView;

/// What an agent reports.
#[derive(Clone, Debug)]
pub struct Reported<'a> {
    /// The phase's name, as given.
    pub phase: &'a str,
    /// The attempt it speaks of; without one, the present.
    pub attempt: Option<u32>,
    /// What it says it changed.
    pub change: Change,
    /// What it says about it.
    pub message: Option<Scrubbed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenReport {
    /// What to write to the journal.
    pub event: Event,
    /// The phase's name.
    pub phase: &'static str,
    /// What the agent does next.
    pub next_step: String,
}

/// Why a report is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportRefusal {
    /// There is no such phase, or it is not the agent's to report.
    #[error("`{0}` is not a phase that an agent reports")]
    UnknownPhase(String),
    /// The repair is over.
    #[error("repair {0} is over: {1}")]
    Over(IncidentId, &'static str),
    #[error("attempt {said} is over; the repair is at attempt {now}")]
    AttemptOver {
        /// The attempt that was spoken of.
        said: u32,
        /// The present one.
        now: u32,
    },
    /// The attempt has not begun.
    #[error("attempt {said} has not begun; the repair is at attempt {now}")]
    AttemptAhead {
        /// The attempt that was spoken of.
        said: u32,
        /// The present one.
        now: u32,
    },
    /// The agent was further already.
    #[error("`{said}` is out of order: this attempt is already at `{at}`")]
    OutOfOrder {
        /// What was reported.
        said: &'static str,
        /// What was reported before.
        at: &'static str,
    },
    /// Repairs by agents are off.
    #[error("repairs by agents are off for this server")]
    Off,
    /// No agent is waited for.
    #[error("no agent is waited for: the repair is at `{0}`")]
    NotAwaited(RepairPhase),
}

impl ReportRefusal {
    /// Returns what the agent can do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::UnknownPhase(said) if said == "agent_started" => {
                "Calling canvas_get_repair_task says so by itself.".into()
            }
            Self::UnknownPhase(_) => format!("The phases are {}.", names().join(", ")),
            Self::Over(..) => {
                "There is nothing left to report. canvas_get_repair_status tells how it ended."
                    .into()
            }
            Self::AttemptOver { .. } | Self::AttemptAhead { .. } => {
                "Call canvas_get_repair_task for the present attempt and its crash log.".into()
            }
            Self::OutOfOrder { at, .. } => match *at {
                "agent_wrote_files" => {
                    "The report is complete; canvas_get_repair_status tells how \
                                        the restart went."
                        .into()
                }
                at => format!("Report `{at}` again, or go on to `agent_wrote_files`."),
            },
            Self::Off => {
                "Nothing to do: Salve restarts the server itself. The user can let agents \
                          repair with AGENT_REPAIR=1."
                    .into()
            }
            Self::NotAwaited(_) => {
                "canvas_get_repair_status tells how it stands; canvas_get_repair_task whether you \
                 are needed."
                    .into()
            }
        }
    }
}

/// The phases an agent reports, in their order.
const PHASES: [(AgentMark, &str); 3] = [
    (AgentMark::ReadingLog, "agent_reading_log"),
    (AgentMark::ApplyingFix, "agent_applying_fix"),
    (AgentMark::WroteFiles, "agent_wrote_files"),
];

fn names() -> Vec<&'static str> {
    PHASES.iter().map(|(_, name)| *name).collect()
}

fn name(mark: AgentMark) -> &'static str {
    match mark {
        AgentMark::Started => "agent_started",
        AgentMark::ReadingLog => "agent_reading_log",
        AgentMark::ApplyingFix => "agent_applying_fix",
        AgentMark::WroteFiles => "agent_wrote_files",
    }
}

impl IncidentView {
    /// Returns what says that an agent took up the present attempt, unless one has before.
    pub fn engage(&self) -> Option<Event> {
        let attempt = self.incident().attempt();
        let engaged = self.work(attempt).is_some_and(|work| work.mark.is_some());
        (!engaged && standing(self.incident()) == TaskStanding::Awaited).then(|| {
            Event::Incident(IncidentEvent::Marked {
                attempt,
                mark: AgentMark::Started,
                reported: Change::default(),
                message: None,
            })
        })
    }
}

/// Judges what an agent reports about a repair.
///
/// # Errors
///
/// When it does not fit how the repair stands; then nothing is to be written.
pub fn mark(view: &IncidentView, reported: Reported<'_>) -> Result<TakenReport, ReportRefusal> {
    let Reported { phase, attempt, change, message } = reported;
    let (mark, phase) = *PHASES
        .iter()
        .find(|(_, name)| *name == phase)
        .ok_or_else(|| ReportRefusal::UnknownPhase(phase.chars().take(60).collect()))?;
    let stands = standing(view.incident());
    if let TaskStanding::Over(outcome) = stands {
        return Err(ReportRefusal::Over(view.id(), ended(outcome)));
    }
    let now = view.incident().attempt();
    match attempt {
        Some(said) if said < now => return Err(ReportRefusal::AttemptOver { said, now }),
        Some(said) if said > now => return Err(ReportRefusal::AttemptAhead { said, now }),
        Some(_) | None => {}
    }
    if let Some(at) = view.work(now).and_then(|work| work.mark)
        && (at == AgentMark::WroteFiles || at as u8 > mark as u8)
    {
        return Err(ReportRefusal::OutOfOrder { said: phase, at: name(at) });
    }
    match stands {
        TaskStanding::Awaited | TaskStanding::Preparing => {}
        TaskStanding::Off => return Err(ReportRefusal::Off),
        TaskStanding::Busy
        | TaskStanding::Person
        | TaskStanding::CoolingDown
        | TaskStanding::Over(_) => {
            return Err(ReportRefusal::NotAwaited(view.phase()));
        }
    }
    let next_step = next_step(view, mark, change);
    let event =
        Event::Incident(IncidentEvent::Marked { attempt: now, mark, reported: change, message });
    Ok(TakenReport { event, phase, next_step })
}

fn ended(outcome: IncidentOutcome) -> &'static str {
    match outcome {
        IncidentOutcome::Recovered(_) => "the server recovered",
        IncidentOutcome::Resolved => "a person settled it",
        IncidentOutcome::GivenUp => "a person gave it up",
        IncidentOutcome::Unhealed => "nothing further was known to try",
        IncidentOutcome::Aborted => "it was skipped or called off",
    }
}

fn next_step(view: &IncidentView, mark: AgentMark, change: Change) -> String {
    let policy = view.incident().policy();
    match mark {
        AgentMark::Started | AgentMark::ReadingLog => {
            "Identify the root cause; report phase=\"agent_applying_fix\" when you begin to edit."
                .into()
        }
        AgentMark::ApplyingFix => {
            "Apply a minimal fix, then report phase=\"agent_wrote_files\" with \
                              filesChanged and linesChanged."
                .into()
        }
        // Missing counts are measured; only what is said to be too large is known to be.
        AgentMark::WroteFiles if !is_small(with_zeros(change), policy) => format!(
            "The change is above the safety limits ({} files, {} lines): a person will be asked \
             before the server restarts.",
            policy.max_files, policy.max_lines
        ),
        AgentMark::WroteFiles => {
            "Server will restart automatically after a brief quiet period.".into()
        }
    }
}

fn with_zeros(change: Change) -> Change {
    Change { files: change.files.or(Some(0)), lines: change.lines.or(Some(0)) }
}
