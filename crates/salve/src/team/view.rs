//! What is open, as agents and people are told.

use jiff::Timestamp;
use salve_core::class::Class;
use salve_core::event::FixKind;
use salve_core::id::{IncidentId, IssueId};
use salve_core::incident::RepairPhase;
use salve_core::repair::{self, evidence_path, who};
use salve_core::scrub::Scrubbed;
use salve_core::team::{About, Issue, Team, TeamProposal};
use salve_core::view::IncidentView;
use serde::Serialize;

use super::is_for_a_team;
use crate::reading::recent_incidents;
use crate::store::{Store, StoreError};

/// How many incidents back one looks.
const RECENT: usize = 50;

/// Everything that is open.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTeamWork {
    /// The version of this shape.
    pub version: u32,
    /// The incidents of checks, newest first.
    pub incidents: Vec<OpenIncident>,
    /// The issues that were reported, oldest first.
    pub issues: Vec<OpenIssue>,
}

/// An incident of a check that is not over.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenIncident {
    pub incident_id: IncidentId,
    pub check: Scrubbed,
    /// What sort of failure it is.
    pub class: Class,
    /// The line that names it.
    pub key_line: Scrubbed,
    /// Where it stands.
    pub phase: RepairPhase,
    /// The attempt, from 1.
    pub attempt: u32,
    /// What a person is asked, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// Where its whole output is, below the project's root.
    pub log_path: String,
    /// Whether proposals were asked for.
    pub proposals_wanted: bool,
    /// What was proposed.
    pub proposals: Vec<OpenProposal>,
}

/// An issue that is not settled.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenIssue {
    pub issue_id: IssueId,
    /// When it was reported.
    pub at: Timestamp,
    /// By whom.
    pub by: String,
    /// What is wrong.
    pub text: Scrubbed,
    /// The check that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Scrubbed>,
    /// The files it is about.
    pub files: Vec<Scrubbed>,
    /// Whether Salve may act on it.
    pub auto_fix: bool,
    /// What Salve does about it.
    pub standing: String,
    /// Whether proposals were asked for.
    pub proposals_wanted: bool,
    /// What was proposed.
    pub proposals: Vec<OpenProposal>,
}

/// Something that was proposed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenProposal {
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub by: String,
    /// What sort of fix it is.
    pub kind: FixKind,
    /// What is to be tried.
    pub text: Scrubbed,
    /// Why it should help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Scrubbed>,
}

/// Returns everything that is open.
pub fn open(store: &Store) -> Result<OpenTeamWork, StoreError> {
    let team = super::read(store)?;
    let issues = team.open().map(|issue| OpenIssue::of(issue, &team)).collect();
    let views = recent_incidents(store.journal(), RECENT)?;
    let incidents = views.iter().filter(|view| is_for_a_team(view.incident()));
    let incidents = incidents.map(|view| OpenIncident::of(view, &team)).collect();
    Ok(OpenTeamWork { version: 1, incidents, issues })
}

impl OpenIncident {
    fn of(view: &IncidentView, team: &Team) -> Self {
        let (id, incident) = (view.id(), view.incident());
        let symptom = incident.symptom();
        Self {
            incident_id: id,
            check: view.subject().name.clone(),
            class: symptom.class,
            key_line: symptom.key_line.clone(),
            phase: view.phase(),
            attempt: view.attempt(),
            asks: repair::ask(view).map(|ask| ask.why),
            log_path: evidence_path(view.subject().kind, id),
            proposals_wanted: is_wanted(team, About::Incident(id)),
            proposals: proposals(team, About::Incident(id)),
        }
    }
}

impl OpenIssue {
    fn of(issue: &Issue, team: &Team) -> Self {
        Self {
            issue_id: issue.id,
            at: issue.at,
            by: who(&issue.by),
            text: issue.text.clone(),
            check: issue.check.clone(),
            files: issue.files.clone(),
            auto_fix: issue.auto_fix,
            standing: standing(issue),
            proposals_wanted: is_wanted(team, About::Issue(issue.id)),
            proposals: proposals(team, About::Issue(issue.id)),
        }
    }
}

/// Says what Salve does about an issue.
fn standing(issue: &Issue) -> String {
    match (&issue.check, issue.auto_fix) {
        (Some(check), true) => format!("`salve heal {check}` heals it"),
        (Some(_), false) => "waits for a person: it was reported without auto-fix".into(),
        (None, _) => "waits for a person: it names no check that would show it".into(),
    }
}

fn is_wanted(team: &Team, about: About) -> bool {
    team.wanted.iter().any(|(_, of)| *of == about)
}

fn proposals(team: &Team, about: About) -> Vec<OpenProposal> {
    let told = |proposal: &TeamProposal| OpenProposal {
        at: proposal.at,
        by: who(&proposal.by),
        kind: proposal.fix.kind,
        text: proposal.fix.text.clone(),
        why: proposal.why.clone(),
    };
    team.about(about).map(told).collect()
}
