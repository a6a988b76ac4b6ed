//! What `canvas_get_repair_task` answers.

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::earlier::earlier;
use super::status::{PhaseEvent, last_events};
use super::{Server, VERSION, ask, crash_log_name, crash_log_uri, incident_uri};
use crate::agent::Earlier;
use crate::class::Class;
use crate::event::{
    AgentMark, Effect, Event, IncidentEvent, IncidentOutcome, ProcessExit, RemedyKind, RepairMode,
    SubjectKind,
};
use crate::id::{IncidentId, Signature};
use crate::incident::{Incident, Phase, RemedyFate, RepairPhase};
use crate::playbook::PlaybookFinding;
use crate::view::IncidentView;

/// What an agent can do about an incident at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStanding {
    /// It is waited for.
    Awaited,
    /// Salve is choosing a remedy or keeping the files safe; an agent may be wanted next.
    Preparing,
    /// Salve is at work itself.
    Busy,
    /// A person has to decide.
    Person,
    /// Nothing is tried for a while.
    CoolingDown,
    /// It is over, or all but.
    Over(IncidentOutcome),
    /// Repairs by agents are off.
    Off,
}

/// Returns what an agent can do about an incident.
pub fn standing(incident: &Incident) -> TaskStanding {
    let by_agent = incident.trial().is_some_and(|trial| trial.remedy.kind == RemedyKind::Agent);
    match incident.phase() {
        Phase::Ending { outcome, .. } | Phase::Closed(outcome) => TaskStanding::Over(outcome),
        _ if incident.policy().mode == RepairMode::Legacy => TaskStanding::Off,
        Phase::Choosing => TaskStanding::Preparing,
        Phase::Doing { what: Effect::Apply { .. }, .. } if by_agent => TaskStanding::Awaited,
        Phase::Due { what, .. } | Phase::Doing { what, .. } => match what {
            Effect::Snapshot | Effect::Apply { .. } if by_agent => TaskStanding::Preparing,
            Effect::Snapshot
            | Effect::Apply { .. }
            | Effect::Measure
            | Effect::VerifyInLayer
            | Effect::TakeOver
            | Effect::Verify
            | Effect::RollBack(_)
            | Effect::Ask
            | Effect::Record
            | Effect::Release => TaskStanding::Busy,
        },
        Phase::Asking { .. } => TaskStanding::Person,
        Phase::CoolingDown { .. } => TaskStanding::CoolingDown,
    }
}

/// What is known beside the incidents.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairScene<'a> {
    /// The servers under care.
    pub servers: &'a [Server],
    /// The incidents whose owner is gone, so that nobody acts on them.
    pub deserted: &'a [IncidentId],
    /// The server that was asked about, if one was named.
    pub server: Option<&'a str>,
}

impl RepairScene<'_> {
    /// Tells whether a view is about what was asked for.
    pub(super) fn wants(&self, view: &IncidentView) -> bool {
        let subject = view.subject();
        subject.kind == SubjectKind::Server
            && self.server.is_none_or(|server| subject.name == *server)
    }

    /// Returns where a server answers, if that is known.
    pub(super) fn url(&self, name: &str) -> Option<&str> {
        self.servers.iter().find(|server| server.server == name)?.url.as_deref()
    }
}

/// What there is to do for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingTask {
    Repair(Box<RepairTask>),
    Nothing(NoTask),
}

impl Serialize for WaitingTask {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            WaitingTask::Repair(task) => task.serialize(to),
            WaitingTask::Nothing(nothing) => nothing.serialize(to),
        }
    }
}

/// A repair that waits for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairTask {
    /// Always true.
    pub pending: bool,
    /// The incident.
    pub repair_id: IncidentId,
    /// The crash log's file, in the project's root.
    pub crash_log_path: String,
    /// The exit code, if the server ended with one.
    pub exit_code: Option<i32>,
    /// The present attempt, from 1.
    pub attempt: u32,
    /// How many attempts there may be.
    pub max_attempts: u32,
    /// The last phase.
    pub phase: RepairPhase,
    /// Where the server's health is asked for, if that is known.
    pub health_url: Option<String>,
    /// The last phases.
    pub last_events: Vec<PhaseEvent>,
    /// What to do, step by step.
    pub instructions: Vec<String>,
    /// What may be done without a person.
    pub safety_limits: SafetyLimits,
    /// The version of this shape.
    pub version: u32,
    /// The server's name.
    pub server: String,
    /// How the server ended, if it did.
    pub exit: Option<String>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// The kind of failure.
    pub class: Class,
    /// The failure's identity.
    pub signature: Signature,
    /// The line that names the failure.
    pub key_line: String,
    /// What Salve found out about the failure, and what it would advise a person.
    pub findings: Vec<PlaybookFinding>,
    /// What was tried before and did not help.
    pub tried: Vec<String>,
    /// What each earlier attempt did and what was seen afterwards.
    pub earlier: Vec<String>,
    /// The agent that has taken it up already, if one has.
    pub taken_by: Option<String>,
    /// When waiting for the agent ends.
    pub deadline: Option<Timestamp>,
    /// Other repairs that wait for an agent.
    pub also_pending: Vec<IncidentId>,
    /// The resources that hold the crash log and the whole story.
    pub resources: Vec<String>,
    /// Further advice.
    pub notes: Vec<String>,
}

/// What an agent may do without a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SafetyLimits {
    /// The most files it may change.
    pub max_files: u32,
    /// The most lines it may change.
    pub max_lines_changed: u32,
    /// Nothing is typed into terminals.
    pub no_terminal_injection: bool,
    /// The change is measured, and undone if it does not help.
    pub safe_mode: bool,
}

/// That nothing waits for an agent, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoTask {
    /// Always false.
    pub pending: bool,
    /// The version of this shape.
    pub version: u32,
    /// How things stand.
    pub message: String,
    /// What to do.
    pub next_step: String,
    /// The incident that is spoken of, if any.
    pub repair_id: Option<IncidentId>,
    pub server: Option<String>,
    /// Its last phase.
    pub phase: Option<RepairPhase>,
}

impl NoTask {
    /// Says that nothing waits, and what to do.
    pub fn new(message: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self {
            pending: false,
            version: VERSION,
            message: message.into(),
            next_step: next_step.into(),
            repair_id: None,
            server: None,
            phase: None,
        }
    }

    fn about(self, view: &IncidentView) -> Self {
        let server = Some(view.subject().name.to_string());
        Self { repair_id: Some(view.id()), server, phase: Some(view.phase()), ..self }
    }
}

/// Returns the repair that waits for an agent, the one nobody took up and the oldest first.
pub fn task(views: &[IncidentView], scene: &RepairScene<'_>) -> WaitingTask {
    let mut waiting: Vec<_> = views
        .iter()
        .filter(|view| scene.wants(view) && !scene.deserted.contains(&view.id()))
        .filter(|view| standing(view.incident()) == TaskStanding::Awaited)
        .collect();
    waiting.sort_by_key(|view| (taken_by(view).is_some(), view.opened_at()));
    match waiting.split_first() {
        Some((view, others)) => {
            let mut task = repair(view, scene);
            task.also_pending = others.iter().map(|view| view.id()).collect();
            WaitingTask::Repair(Box::new(task))
        }
        None => WaitingTask::Nothing(nothing(views, scene)),
    }
}

/// Returns who has taken up the present attempt.
fn taken_by(view: &IncidentView) -> Option<String> {
    let work = view.work(view.attempt()).filter(|work| work.mark.is_some())?;
    work.agent.as_ref().map(ToString::to_string)
}

fn repair(view: &IncidentView, scene: &RepairScene<'_>) -> RepairTask {
    let incident = view.incident();
    let (policy, symptom) = (incident.policy(), incident.symptom());
    let crash_log_path = crash_log_name(view.id());
    let instructions = vec![
        format!("1. Read the crash log file: {crash_log_path}"),
        "2. Identify the root cause from the error output".into(),
        "3. Apply a minimal fix to the source code".into(),
        "4. Call canvas_mark_repair_step with phase=\"agent_wrote_files\" when done".into(),
    ];
    let notes = vec![
        "Salve restarts the server itself and measures the change; do not restart it.".into(),
        "A change above the limits, or one that weakens what judges it, goes to a person.".into(),
    ];
    let (exit_code, signal) = exit_numbers(symptom.exit.as_ref());
    RepairTask {
        pending: true,
        repair_id: view.id(),
        crash_log_path,
        exit_code,
        attempt: view.attempt(),
        max_attempts: view.max_attempts(),
        phase: view.phase(),
        health_url: scene.url(view.subject().name.as_str()).map(str::to_owned),
        last_events: last_events(view),
        instructions,
        safety_limits: SafetyLimits {
            max_files: policy.max_files,
            max_lines_changed: policy.max_lines,
            no_terminal_injection: true,
            safe_mode: true,
        },
        version: VERSION,
        server: view.subject().name.to_string(),
        exit: symptom.exit.as_ref().map(super::exit_text),
        signal,
        class: symptom.class,
        signature: symptom.signature,
        key_line: symptom.key_line.to_string(),
        findings: incident.findings().to_vec(),
        tried: tried(view),
        earlier: earlier(view)
            .map(|Earlier { attempt, what, seen }| format!("attempt {attempt}: {what} → {seen}"))
            .collect(),
        taken_by: taken_by(view),
        deadline: incident.agent_deadline(),
        also_pending: Vec::new(),
        resources: vec![crash_log_uri(view.id()), incident_uri(view.id())],
        notes,
    }
}

/// Returns the exit code and the signal, whichever there is.
pub(super) fn exit_numbers(exit: Option<&ProcessExit>) -> (Option<i32>, Option<i32>) {
    match exit {
        Some(ProcessExit::Code(code)) => (Some(*code), None),
        Some(ProcessExit::Signal(signal)) => (None, Some(*signal)),
        Some(ProcessExit::TimedOut | ProcessExit::Hung) | None => (None, None),
    }
}

/// Returns what was tried and how it fared, in words.
pub(super) fn tried(view: &IncidentView) -> Vec<String> {
    let text = |digest| {
        view.lines().iter().find_map(|line| match &line.entry.event {
            Event::Incident(IncidentEvent::Judged { remedy, .. }) if remedy.digest == digest => {
                Some(&remedy.text)
            }
            _ => None,
        })
    };
    let told = view.incident().tried().iter().filter_map(|tried| {
        let fate = match tried.fate {
            RemedyFate::Failed => "did not help",
            RemedyFate::CutShort => "was cut short before it had ended",
            RemedyFate::Denied => "is not allowed",
            RemedyFate::Declined => "was declined",
        };
        Some(format!("{} {fate}", text(tried.digest)?))
    });
    told.collect()
}

/// Says why nothing waits for an agent.
fn nothing(views: &[IncidentView], scene: &RepairScene<'_>) -> NoTask {
    let mut about: Vec<_> = views.iter().filter(|view| scene.wants(view)).collect();
    about.sort_by_key(|view| {
        let over = matches!(standing(view.incident()), TaskStanding::Over(_));
        (!over, view.opened_at())
    });
    let Some(view) = about.last() else {
        return match scene.server {
            Some(server) if scene.servers.iter().all(|known| known.server != server) => {
                unknown_server(server, scene)
            }
            _ => NoTask::new("No repair is pending.", "Nothing to do."),
        };
    };
    if scene.deserted.contains(&view.id())
        && !matches!(standing(view.incident()), TaskStanding::Over(_))
    {
        let next = "Ask the user to start `salve dev` again; it takes the repair up.";
        return NoTask::new("No `salve dev` runs here any more.", next).about(view);
    }
    why_not(view).about(view)
}

fn unknown_server(server: &str, scene: &RepairScene<'_>) -> NoTask {
    let known: Vec<_> = scene.servers.iter().map(|server| server.server.as_str()).collect();
    let next = match known.as_slice() {
        [] => "No server has been started here yet; leave `server` out.".to_owned(),
        known => format!("The servers are: {}.", known.join(", ")),
    };
    NoTask::new(format!("There is no server called `{server}`."), next)
}

fn why_not(view: &IncidentView) -> NoTask {
    let later = "Call canvas_get_repair_status to follow it, and this again if it needs you.";
    match standing(view.incident()) {
        TaskStanding::Awaited | TaskStanding::Preparing => {
            NoTask::new("A repair is being prepared.", "Call this again in a second.")
        }
        TaskStanding::Busy => match view.work(view.attempt()).and_then(|work| work.mark) {
            Some(AgentMark::WroteFiles) => {
                NoTask::new("The fix was written and is being verified.", later)
            }
            Some(AgentMark::Started | AgentMark::ReadingLog | AgentMark::ApplyingFix) | None => {
                NoTask::new("Salve is trying to heal the server itself.", later)
            }
        },
        TaskStanding::Person => {
            let why = ask(view).map_or_else(String::new, |ask| ask.why);
            let next = format!(
                "A person has to decide: ask the user to run `salve show {}`. Agents cannot answer.",
                view.id().short()
            );
            NoTask::new(why, next)
        }
        TaskStanding::CoolingDown => {
            let next = "Nothing is tried until the cooldown is over; the user may start the server \
                        by hand.";
            NoTask::new("All attempts are used up.", next)
        }
        TaskStanding::Over(outcome) => NoTask::new(over_text(outcome), "Nothing to do."),
        TaskStanding::Off => {
            let next = "Nothing to do. The user can let agents repair with AGENT_REPAIR=1 or \
                        `repair = true` under [agent] in salve.toml.";
            NoTask::new("Repairs by agents are off here; Salve restarts the server itself.", next)
        }
    }
}

/// Returns how a repair ended, in words.
pub(super) fn over_text(outcome: IncidentOutcome) -> &'static str {
    match outcome {
        IncidentOutcome::Recovered(_) => "No repair is pending: the last one recovered the server.",
        IncidentOutcome::Resolved => "No repair is pending: a person settled the last one.",
        IncidentOutcome::GivenUp => "No repair is pending: a person gave the last one up.",
        IncidentOutcome::Unhealed => {
            "No repair is pending: the last one knew nothing further to try."
        }
        IncidentOutcome::Aborted => "No repair is pending: the last one was skipped or called off.",
    }
}
