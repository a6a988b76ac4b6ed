//! What `canvas_get_repair_status` answers.

use jiff::Timestamp;
use serde::Serialize;

use super::task::{RepairScene, exit_numbers, tried};
use super::{
    CooldownNotice, LAST_EVENTS, OpenQuestion, Server, TaskStanding, VERSION, ask, evidence_path,
    standing,
};
use crate::class::Class;
use crate::event::{Change, Event, IncidentEvent, IncidentOutcome, Proof, RepairMode};
use crate::id::{IncidentId, Signature};
use crate::incident::{Phase, RepairPhase};
use crate::playbook::PlaybookFinding;
use crate::view::{AgentWork, IncidentView};

/// How many repairs that are over are told of.
const RECENT: usize = 5;

/// One of the last phases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseEvent {
    /// The spec's name of the phase.
    pub phase: RepairPhase,
    /// When it began.
    pub timestamp: Timestamp,
    /// The attempt it belongs to, from 1.
    pub attempt: u32,
    /// What is said about it.
    pub message: String,
    /// What the agent said about it, if it is an agent's phase.
    pub said: Option<String>,
}

/// Returns the last phases of a view, in their order.
pub(super) fn last_events(view: &IncidentView) -> Vec<PhaseEvent> {
    let mut events: Vec<_> = view
        .notices()
        .rev()
        .take(LAST_EVENTS)
        .map(|(line, notice)| PhaseEvent {
            phase: notice.phase,
            timestamp: line.entry.at,
            attempt: line.attempt,
            message: notice.message.clone(),
            said: match &line.entry.event {
                Event::Incident(IncidentEvent::Marked { message, .. }) => {
                    message.as_ref().map(ToString::to_string)
                }
                _ => None,
            },
        })
        .collect();
    events.reverse();
    events
}

/// How all repairs stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairStatus {
    /// The version of this shape.
    pub version: u32,
    /// Whether a repair is under way.
    pub active: bool,
    /// The repair under way that was heard of last, else the last one there was.
    pub repair_id: Option<IncidentId>,
    /// Its last phase.
    pub phase: Option<RepairPhase>,
    /// Its attempt, from 1.
    pub attempt: Option<u32>,
    /// How many attempts it may have.
    pub max_attempts: Option<u32>,
    /// The repairs that are not over, the newest first.
    pub active_repairs: Vec<RepairState>,
    /// The last repairs that are over, the newest first.
    pub recent_repairs: Vec<RepairState>,
    /// The servers under care.
    pub servers: Vec<Server>,
}

/// How one repair stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairStanding {
    /// Salve is at it.
    Healing,
    /// An agent is waited for, or at work.
    AwaitingAgent,
    /// A person has to decide.
    NeedsHuman,
    /// Nothing is tried for a while.
    Cooldown,
    /// Nobody acts on it, because the `salve dev` that did is gone.
    Deserted,
    /// The server is well again.
    Recovered,
    /// A person settled it.
    Resolved,
    /// A person declined what was left.
    GivenUp,
    /// Nothing further was known to try.
    Unhealed,
    /// It was skipped or called off.
    Aborted,
}

impl RepairStanding {
    /// Returns how a repair that came out so stands.
    pub fn of_outcome(outcome: IncidentOutcome) -> Self {
        match outcome {
            IncidentOutcome::Recovered(_) => Self::Recovered,
            IncidentOutcome::Resolved => Self::Resolved,
            IncidentOutcome::GivenUp => Self::GivenUp,
            IncidentOutcome::Unhealed => Self::Unhealed,
            IncidentOutcome::Aborted => Self::Aborted,
        }
    }

    /// Tells whether it is over.
    pub fn is_over(self) -> bool {
        match self {
            Self::Healing
            | Self::AwaitingAgent
            | Self::NeedsHuman
            | Self::Cooldown
            | Self::Deserted => false,
            Self::Recovered | Self::Resolved | Self::GivenUp | Self::Unhealed | Self::Aborted => {
                true
            }
        }
    }
}

/// How one repair stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairState {
    /// The incident.
    pub repair_id: IncidentId,
    /// The server's name.
    pub server: String,
    /// Who repairs.
    pub mode: RepairMode,
    /// How it stands.
    pub state: RepairStanding,
    /// What verification found, if it recovered.
    pub proof: Option<Proof>,
    /// The last phase.
    pub phase: RepairPhase,
    /// What was said about it.
    pub message: String,
    /// The present attempt, from 1.
    pub attempt: u32,
    /// How many attempts there may be.
    pub max_attempts: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub updated_at: Timestamp,
    /// When the cooldown is over, if there is one.
    pub cooldown_until: Option<Timestamp>,
    /// Why nothing is tried for a while, and what ends that.
    pub cooldown: Option<CooldownNotice>,
    /// The exit code, if the server ended with one.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// The kind of failure.
    pub class: Class,
    /// The failure's identity.
    pub signature: Signature,
    /// The line that names the failure.
    pub key_line: String,
    /// The crash log's file, in the project's root.
    pub crash_log_path: String,
    /// What was found out about the failure, and what a person can do.
    pub findings: Vec<PlaybookFinding>,
    /// What was tried and did not help.
    pub tried: Vec<String>,
    /// What agents did, attempt by attempt.
    pub agent: Vec<AgentPart>,
    /// What a person is asked.
    pub question: Option<OpenQuestion>,
    /// The last phases.
    pub last_events: Vec<PhaseEvent>,
}

/// What an agent did in one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentPart {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The agent's name, if one took part.
    pub name: Option<String>,
    /// What it said it changed.
    pub reported: Size,
    /// What was found changed.
    pub measured: Size,
    /// Whether waiting for it ended without its having finished.
    pub overdue: bool,
}

/// How much was changed; null is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// Files touched.
    pub files_changed: Option<u32>,
    /// Lines added and removed.
    pub lines_changed: Option<u32>,
}

impl From<Change> for Size {
    fn from(change: Change) -> Self {
        Self { files_changed: change.files, lines_changed: change.lines }
    }
}

/// Returns how repairs stand.
pub fn status(views: &[IncidentView], scene: &RepairScene<'_>) -> RepairStatus {
    let mut views: Vec<_> = views.iter().filter(|view| scene.wants(view)).collect();
    views.sort_by_key(|view| std::cmp::Reverse((view.opened_at(), view.incident().last_seq())));
    let is_over = |view: &&IncidentView| matches!(standing(view.incident()), TaskStanding::Over(_));
    let (over, active): (Vec<&IncidentView>, Vec<&IncidentView>) =
        views.into_iter().partition(is_over);
    let chief = active.first().or(over.first());
    let servers = scene
        .servers
        .iter()
        .filter(|server| scene.server.is_none_or(|wanted| server.server == wanted));
    RepairStatus {
        version: VERSION,
        active: !active.is_empty(),
        repair_id: chief.map(|view| view.id()),
        phase: chief.map(|view| view.phase()),
        attempt: chief.map(|view| view.attempt()),
        max_attempts: chief.map(|view| view.max_attempts()),
        active_repairs: active.iter().map(|view| RepairState::of(view, scene)).collect(),
        recent_repairs: over.iter().take(RECENT).map(|view| RepairState::of(view, scene)).collect(),
        servers: servers.cloned().collect(),
    }
}

impl RepairState {
    /// Returns how one repair stands.
    pub fn of(view: &IncidentView, scene: &RepairScene<'_>) -> Self {
        let incident = view.incident();
        let symptom = incident.symptom();
        let (exit_code, signal) = exit_numbers(symptom.exit.as_ref());
        let proof = match standing(incident) {
            TaskStanding::Over(IncidentOutcome::Recovered(proof)) => Some(proof),
            TaskStanding::Over(_)
            | TaskStanding::Awaited
            | TaskStanding::Preparing
            | TaskStanding::Busy
            | TaskStanding::Person
            | TaskStanding::CoolingDown
            | TaskStanding::Off => None,
        };
        let message = view.notices().next_back().map(|(_, notice)| notice.message.clone());
        let cooldown = CooldownNotice::of(incident);
        let part = |work: &AgentWork| AgentPart {
            attempt: work.attempt,
            name: work.agent.as_ref().map(ToString::to_string),
            reported: work.reported.into(),
            measured: work.measured.unwrap_or_default().into(),
            overdue: work.overdue,
        };
        Self {
            repair_id: view.id(),
            server: view.subject().name.to_string(),
            mode: view.mode(),
            state: state(view, scene),
            proof,
            phase: view.phase(),
            message: message.unwrap_or_default(),
            attempt: view.attempt(),
            max_attempts: view.max_attempts(),
            started_at: view.opened_at(),
            updated_at: incident.clock(),
            cooldown_until: cooldown.as_ref().map(|cooldown| cooldown.until),
            cooldown,
            exit_code,
            signal,
            class: symptom.class,
            signature: symptom.signature,
            key_line: symptom.key_line.to_string(),
            crash_log_path: evidence_path(view.subject().kind, view.id()),
            findings: incident.findings().to_vec(),
            tried: tried(view),
            agent: view.works().iter().map(part).collect(),
            question: ask(view),
            last_events: last_events(view),
        }
    }
}

fn state(view: &IncidentView, scene: &RepairScene<'_>) -> RepairStanding {
    match standing(view.incident()) {
        TaskStanding::Over(outcome) => RepairStanding::of_outcome(outcome),
        TaskStanding::Person => RepairStanding::NeedsHuman,
        _ if matches!(view.incident().phase(), Phase::Asking { .. }) => RepairStanding::NeedsHuman,
        _ if matches!(view.incident().phase(), Phase::CoolingDown { .. }) => {
            RepairStanding::Cooldown
        }
        _ if scene.deserted.contains(&view.id()) => RepairStanding::Deserted,
        TaskStanding::CoolingDown => RepairStanding::Cooldown,
        TaskStanding::Awaited => RepairStanding::AwaitingAgent,
        TaskStanding::Preparing | TaskStanding::Busy | TaskStanding::Off => RepairStanding::Healing,
    }
}
