//! What `canvas_get_errors` answers.

use jiff::Timestamp;
use serde::Serialize;

use super::task::Scene;
use super::{TaskStanding, VERSION, crash_log_name, exit_text, standing};
use crate::class::Class;
use crate::event::Mode;
use crate::id::{IncidentId, Signature};
use crate::incident::RepairPhase;
use crate::view::IncidentView;

/// How many errors that are settled are told of.
const RECENT: usize = 5;

/// Every error there is to see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Errors {
    /// The version of this shape.
    pub version: u32,
    /// How many are not settled.
    pub open: usize,
    /// The crashes of servers: those that are not settled first, the newest first.
    pub errors: Vec<CrashError>,
    /// The errors of pages in the browser.
    pub browser_errors: Vec<CrashError>,
}

/// How bad an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The server is down, or was when last looked at.
    Error,
    /// It is settled.
    Info,
}

/// A server's crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CrashError {
    /// Where it comes from.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Whether it is settled.
    pub resolved: bool,
    /// The server's name.
    pub server: String,
    /// The incident.
    pub repair_id: IncidentId,
    /// The crash log's file, in the project's root.
    pub log_path: String,
    /// What happened.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// When it happened.
    pub time: Timestamp,
    /// The line that names the failure.
    pub key_line: String,
    /// The kind of failure.
    pub class: Class,
    /// The failure's identity.
    pub signature: Signature,
    /// The repair's last phase.
    pub phase: RepairPhase,
}

/// Returns the errors that views tell of.
pub fn errors(views: &[IncidentView], scene: &Scene<'_>) -> Errors {
    let mut errors: Vec<_> =
        views.iter().filter(|view| scene.wants(view)).map(CrashError::of).collect();
    errors.sort_by_key(|error| (error.resolved, std::cmp::Reverse(error.time)));
    let open = errors.iter().filter(|error| !error.resolved).count();
    errors.truncate(open + RECENT);
    Errors { version: VERSION, open, errors, browser_errors: Vec::new() }
}

impl CrashError {
    fn of(view: &IncidentView) -> Self {
        let symptom = view.incident().symptom();
        let stands = standing(view.incident());
        let resolved = matches!(stands, TaskStanding::Over(_));
        let log_path = crash_log_name(view.id());
        let how = symptom
            .exit
            .as_ref()
            .map_or_else(String::new, |exit| format!(" ({})", exit_text(exit)));
        let hint = match (resolved, view.mode()) {
            (true, _) => "Settled; nothing to do.".to_owned(),
            (false, Mode::Agent) => {
                format!("Call canvas_get_repair_task; the crash log is {log_path}.")
            }
            (false, Mode::Legacy) => {
                format!("Salve restarts the server itself; the crash log is {log_path}.")
            }
        };
        Self {
            kind: "crash",
            severity: if resolved { Severity::Info } else { Severity::Error },
            resolved,
            server: view.subject().name.to_string(),
            repair_id: view.id(),
            message: format!("Dev server crashed{how}: {}", symptom.key_line),
            log_path,
            hint,
            time: view.opened_at(),
            key_line: symptom.key_line.to_string(),
            class: symptom.class,
            signature: symptom.signature,
            phase: view.phase(),
        }
    }
}
