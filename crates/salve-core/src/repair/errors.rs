//! What `canvas_get_errors` answers.

use jiff::Timestamp;
use serde::Serialize;

use super::task::RepairScene;
use super::{TaskStanding, VERSION, crash_log_name, exit_text, standing};
use crate::class::Class;
use crate::event::{Entry, Event, PageFailure, PageFailureWay, RepairMode, ServerEvent};
use crate::id::{IncidentId, Signature};
use crate::incident::RepairPhase;
use crate::scrub::Scrubbed;
use crate::view::IncidentView;

/// How many errors that are settled are told of.
const RECENT: usize = 5;

/// How many different errors of pages are told of.
const BROWSER: usize = 20;

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
    /// What failed in the browser since the servers were started last, the newest first.
    pub browser_errors: Vec<BrowserError>,
}

/// Something that failed in a page in the browser, however often it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BrowserError {
    /// Where it comes from.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The server whose page it is.
    pub server: String,
    /// How it failed.
    pub way: PageFailureWay,
    /// What the browser said.
    pub message: String,
    /// The script's file, line and column, or the address that was asked for.
    pub place: Option<String>,
    /// The page's own path.
    pub page: String,
    /// When it happened last.
    pub time: Timestamp,
    /// How often it happened.
    pub count: usize,
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

/// Returns the errors that views and the pages' reports tell of.
pub fn errors(views: &[IncidentView], reports: &[Entry], scene: &RepairScene<'_>) -> Errors {
    let mut errors: Vec<_> =
        views.iter().filter(|view| scene.wants(view)).map(CrashError::of).collect();
    errors.sort_by_key(|error| (error.resolved, std::cmp::Reverse(error.time)));
    let open = errors.iter().filter(|error| !error.resolved).count();
    errors.truncate(open + RECENT);
    Errors { version: VERSION, open, errors, browser_errors: browser_errors(reports, scene) }
}

/// Returns what pages reported since their servers were started last; equal reports are one.
pub fn browser_errors(reports: &[Entry], scene: &RepairScene<'_>) -> Vec<BrowserError> {
    let mut found: Vec<BrowserError> = Vec::new();
    for Entry { at, event, .. } in reports.iter().rev() {
        let Event::Server(ServerEvent::PageFailed(failure)) = event else { continue };
        let is_wanted = scene.server.is_none_or(|server| failure.server == *server);
        // What an earlier start of the server showed may be mended by now.
        let started = scene.servers.iter().find(|server| failure.server == *server.server);
        if !is_wanted || started.and_then(|server| server.started).is_some_and(|start| *at < start)
        {
            continue;
        }
        if let Some(known) = found.iter_mut().find(|known| known.is_same(failure)) {
            known.count += 1;
        } else if found.len() < BROWSER {
            found.push(BrowserError::of(failure, *at));
        }
    }
    found
}

impl BrowserError {
    fn of(failure: &PageFailure, time: Timestamp) -> Self {
        Self {
            kind: "browser",
            server: failure.server.to_string(),
            way: failure.way,
            message: failure.message.to_string(),
            place: failure.place.as_ref().map(ToString::to_string),
            page: failure.page.to_string(),
            time,
            count: 1,
        }
    }

    fn is_same(&self, failure: &PageFailure) -> bool {
        self.way == failure.way
            && failure.server == *self.server
            && failure.message == *self.message
            && failure.place.as_ref().map(Scrubbed::as_str) == self.place.as_deref()
    }
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
            (false, RepairMode::Agent) => {
                format!("Call canvas_get_repair_task; the crash log is {log_path}.")
            }
            (false, RepairMode::Legacy) => {
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
