//! The spec's phases with what is said about them.

use serde::Serialize;

use super::question::ask;
use crate::agent::known_title;
use crate::event::{
    AgentMark, Change, EffectReport, Event, IncidentEvent, IncidentOutcome, ProcessExit,
    RemedyKind, RepairMode, Resource, SubjectKind, Symptom,
};
use crate::incident::{RepairPhase, phase_names};
use crate::scrub::Scrubbed;
use crate::view::{AgentWork, IncidentView};

/// A phase and what is said about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// The spec's name of the phase.
    pub phase: RepairPhase,
    /// What is said, with all values filled in.
    pub message: String,
}

/// Returns the phases that an event which was just taken in brought about.
pub(crate) fn notices(view: &IncidentView, event: &Event, attempt: u32) -> Vec<Notice> {
    let names = phase_names(view.incident(), event);
    let say =
        |&phase: &RepairPhase| Notice { phase, message: message(view, event, attempt, phase) };
    names.iter().map(say).collect()
}

fn message(view: &IncidentView, event: &Event, attempt: u32, phase: RepairPhase) -> String {
    use RepairPhase as P;
    let policy = view.incident().policy();
    match phase {
        P::CrashDetected | P::LegacyCrashDetected => crashed(view),
        P::LockAcquired => "Repair session started".into(),
        P::RepairStarted => started(view),
        P::Waiting => waiting(view, attempt),
        P::AwaitingAgent => match (&policy.listener, &policy.starts) {
            (None, Some(agent)) => format!("Waiting for {} to begin", agent_title(agent)),
            (Some(_), _) | (None, None) => {
                format!("Waiting {} for an agent to take up the repair", seconds(policy.engage_ms))
            }
        },
        P::AgentStarted => format!("{} engaged — reading crash details", agent(view, attempt)),
        P::AgentReadingLog => format!("{} is reading the crash log", agent(view, attempt)),
        P::AgentApplyingFix => format!("{} is editing source files", agent(view, attempt)),
        P::AgentWroteFiles => "File writes complete — waiting for watchers to settle...".into(),
        P::ReadyToRestart => ready(view, attempt),
        P::Restarting => {
            format!("{} {attempt}/{}{}", words(view).again, view.max_attempts(), words(view).dots)
        }
        P::HealthCheck => "Probing the server".into(),
        P::VerifyingFix => "The server answers — watching that it stays up".into(),
        P::Recovered => recovered(view, attempt),
        P::Failed => {
            format!("{}: {}", words(view).failed, failure(event, view.incident().symptom()))
        }
        P::Exhausted => exhausted(view, event),
        P::Cooldown => format!("Entering {} cooldown period...", period(policy.cooldown_ms)),
        P::FailedRequiresHuman => needs_human(view),
        P::Aborted => aborted(view, event),
    }
}

fn started(view: &IncidentView) -> String {
    let policy = view.incident().policy();
    match (view.subject().kind, policy.listener.as_ref().or(policy.starts.as_ref())) {
        (SubjectKind::Server, Some(agent)) => {
            format!("Repair session started — waiting for {}", agent_title(agent))
        }
        (SubjectKind::Server, None) => "Repair session started — waiting for an agent".into(),
        (
            SubjectKind::Check | SubjectKind::Tool | SubjectKind::Step | SubjectKind::Iteration,
            _,
        ) => "Repair session started".into(),
    }
}

fn crashed(view: &IncidentView) -> String {
    let (symptom, what) = (view.incident().symptom(), what(view));
    match &symptom.exit {
        Some(exit) => format!("{what} {} ({})", words(view).crashed, exit_text(exit)),
        None if view.subject().kind == SubjectKind::Server => {
            format!("{what} runs and is ill: {}", symptom.key_line)
        }
        None => format!("{what} failed: {}", symptom.key_line),
    }
}

/// What is said of one kind of subject.
struct NoticeWords {
    crashed: &'static str,
    again: &'static str,
    dots: &'static str,
    failed: &'static str,
    recovered: &'static str,
    repaired: &'static str,
}

fn words(view: &IncidentView) -> NoticeWords {
    match view.subject().kind {
        SubjectKind::Server => NoticeWords {
            crashed: "crashed",
            again: "Restart attempt",
            dots: "...",
            failed: "Restart failed",
            recovered: "recovered!",
            repaired: "recovered after agent repair!",
        },
        // Nothing failed: somebody reported something of a check that is green.
        SubjectKind::Check if view.incident().symptom().exit == Some(ProcessExit::Code(0)) => {
            NoticeWords {
                crashed: "is green, and something was reported of it",
                again: "Running it again, attempt",
                dots: "",
                failed: "Not shown and mended yet",
                recovered: "is green",
                repaired: "is green, and what was reported is mended",
            }
        }
        SubjectKind::Check | SubjectKind::Tool | SubjectKind::Step | SubjectKind::Iteration => {
            NoticeWords {
                crashed: "is red",
                again: "Running it again, attempt",
                dots: "",
                failed: "Still red",
                recovered: "is green",
                repaired: "is green after agent repair",
            }
        }
    }
}

/// Returns what is under care, at the beginning of a sentence.
fn what(view: &IncidentView) -> String {
    let subject = view.subject();
    match subject.kind {
        SubjectKind::Server => "Dev server".into(),
        SubjectKind::Check | SubjectKind::Iteration => format!("`{}`", subject.name),
        SubjectKind::Tool => format!("Tool {}", subject.name),
        SubjectKind::Step => format!("Step {}", subject.name),
    }
}

/// Returns how a process ended, in a few words.
pub fn exit_text(exit: &ProcessExit) -> String {
    match exit {
        ProcessExit::Code(code) => format!("exit {code}"),
        ProcessExit::Signal(signal) => format!("signal {}", signal_name(*signal)),
        ProcessExit::TimedOut => "timed out".into(),
        ProcessExit::Hung => "hung".into(),
    }
}

/// Returns a signal's name, as in `SIGKILL`, or its number.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        other => return other.to_string(),
    };
    name.to_owned()
}

/// Returns what people call an agent, from the name it gave itself.
pub fn agent_title(name: &Scrubbed) -> String {
    let name = name.as_str().trim();
    match (name, known_title(name)) {
        ("", _) => "An agent".into(),
        (_, Some(title)) => title.into(),
        // An editor whose agent Salve does not start.
        _ if name.to_ascii_lowercase().starts_with("cursor") => "Cursor".into(),
        (other, None) => other.to_owned(),
    }
}

fn agent(view: &IncidentView, attempt: u32) -> String {
    let name = view.work(attempt).and_then(|work| work.agent.as_ref());
    name.map_or_else(|| "An agent".into(), agent_title)
}

fn waiting(view: &IncidentView, attempt: u32) -> String {
    let wait = seconds(view.wait_ms());
    format!("Waiting {wait} before restart attempt {attempt}/{}", view.max_attempts())
}

fn ready(view: &IncidentView, attempt: u32) -> String {
    let wait = seconds(view.incident().policy().quiet_ms);
    let work = view.work(attempt);
    let mark = work.and_then(|work| work.mark);
    match (work.is_some_and(|work| work.overdue), mark) {
        (true, _) if work.is_some_and(|work| work.was_started) => {
            format!("{} changed nothing — restarting in {wait} as it is", agent(view, attempt))
        }
        (true, None) => format!("No agent activity — restarting in {wait} without a repair"),
        (true, Some(_)) => {
            format!("{} did not finish in time — restarting in {wait}", agent(view, attempt))
        }
        (false, None) if !work.is_some_and(AgentWork::changed) => format!("Restarting in {wait}"),
        (false, _) => {
            let measured = work.and_then(|work| work.measured).map(size);
            let measured = measured.map_or_else(String::new, |size| format!(" ({size} changed)"));
            format!("Restarting in {wait}, once watchers have settled{measured}")
        }
    }
}

fn recovered(view: &IncidentView, attempt: u32) -> String {
    if view.iteration() > 0 {
        return format!("The tests of loop {} execute again", view.subject().name);
    }
    let wrote = view
        .work(attempt)
        .is_some_and(|work| work.mark == Some(AgentMark::WroteFiles) || work.changed());
    let by_agent = view.incident().trial().is_none_or(|trial| match trial.remedy.kind {
        RemedyKind::Agent | RemedyKind::Retry => true,
        RemedyKind::Command | RemedyKind::Patch | RemedyKind::SoftReset | RemedyKind::HardReset => {
            false
        }
    });
    let how = match (view.mode(), wrote && by_agent) {
        (RepairMode::Agent, true) => words(view).repaired,
        (RepairMode::Agent, false) | (RepairMode::Legacy, _) => words(view).recovered,
    };
    format!("{} {how}", what(view))
}

fn failure(event: &Event, last: &Symptom) -> String {
    let symptom = match event {
        Event::Incident(IncidentEvent::Sickened { symptom }) => symptom,
        Event::Incident(IncidentEvent::Finished {
            report: EffectReport::Verified { symptom: Some(symptom), .. },
            ..
        }) => symptom,
        _ => last,
    };
    match (symptom.key_line.as_str().trim(), &symptom.exit) {
        ("", Some(exit)) => exit_text(exit),
        ("", None) => "no reason was given".into(),
        (line, _) => line.to_owned(),
    }
}

fn exhausted(view: &IncidentView, event: &Event) -> String {
    match event {
        Event::Incident(IncidentEvent::Exhausted { resource: Resource::Attempts }) => {
            format!("All {} repair attempts failed.", view.max_attempts())
        }
        Event::Incident(IncidentEvent::Exhausted { resource }) => {
            format!("{} used up.", resource_text(*resource))
        }
        _ => "The repair's budget is used up.".into(),
    }
}

/// Returns what ran out, in words.
pub(super) fn resource_text(resource: Resource) -> &'static str {
    match resource {
        Resource::Attempts => "All repair attempts are",
        Resource::Tokens => "The repair's tokens are",
        Resource::MoneyMicros => "The repair's money is",
        Resource::WallMs => "The repair's time is",
        Resource::Resets => "The repair's resets are",
    }
}

fn needs_human(view: &IncidentView) -> String {
    match ask(view) {
        Some(ask) => ask.why,
        None => "Nothing further is known to try.".into(),
    }
}

fn aborted(view: &IncidentView, event: &Event) -> String {
    match event {
        Event::Incident(IncidentEvent::Ended { outcome: IncidentOutcome::GivenUp }) => {
            "A person declined what was left.".into()
        }
        _ if view.ended_by_itself() => {
            "The server ended by itself before it was proven well: it is not called healed.".into()
        }
        _ => "Repair skipped or called off.".into(),
    }
}

/// Returns the size of a change in words.
pub(super) fn size(change: Change) -> String {
    let part = |n: Option<u32>, one: &str, many: &str| match n {
        Some(1) => format!("1 {one}"),
        Some(n) => format!("{n} {many}"),
        None => format!("an unknown number of {many}"),
    };
    let files = part(change.files, "file", "files");
    format!("{files}, {}", part(change.lines, "line", "lines"))
}

/// Returns a time in seconds, as short as it can be said.
fn seconds(ms: u64) -> String {
    match (ms / 1000, ms % 1000 / 100) {
        (whole, 0) => format!("{whole} s"),
        (whole, tenths) => format!("{whole}.{tenths} s"),
    }
}

/// Returns a time as an adjective.
fn period(ms: u64) -> String {
    match ms / 1000 {
        s if s > 0 && s % 60 == 0 => format!("{}-minute", s / 60),
        0 => format!("{ms}-millisecond"),
        s => format!("{s}-second"),
    }
}
