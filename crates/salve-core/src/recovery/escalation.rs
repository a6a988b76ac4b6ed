//! `escalation.json`: what a person has to decide about a loop, and how to answer.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::draft::to_json;
use crate::event::{Attempted, Authority, Digest, PersonQuestion, Proposed};
use crate::id::IncidentId;
use crate::playbook::quoted;
use crate::scrub::Scrubbed;
use crate::view::{AppliedRemedy, AskedQuestion, Fulfilment, IncidentView, QuestionSettled};

/// The version of the file's shape.
const VERSION: u32 = 1;

/// A question to a person, as the recovery format has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Escalation {
    /// The version of this shape.
    pub version: u32,
    /// When it was asked.
    pub timestamp: Timestamp,
    pub loop_id: String,
    pub iteration: u32,
    /// What sort of answer is needed.
    pub r#type: &'static str,
    /// How it stands: `pending`, `approved`, `rejected`, `resolved` or `superseded`.
    pub status: &'static str,
    /// What became of what was approved: `not_run`, `running`, `succeeded`, `failed` or
    /// `interrupted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<&'static str>,
    /// What was proposed, if anything was.
    pub recovery_proposal: Option<Value>,
    /// Why a person is needed.
    pub reason: Scrubbed,
    /// What was found out, and what a person can do about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// How to answer.
    pub actions: Actions,
    pub incident: IncidentId,
    /// The question's number within it.
    pub question: u32,
    /// The hash of exactly what is asked about: command, directory and time-out.
    pub digest: Digest,
}

/// How to answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Actions {
    /// Runs the command that is asked about.
    pub approve: String,
    /// Goes on without it.
    pub reject: String,
    /// Says that it was settled by hand.
    pub resolve: String,
    /// Does the same by hand.
    pub manual: String,
}

impl Escalation {
    /// Returns the last question of a recovery, in the project at `root`.
    pub fn of(view: &IncidentView, loop_id: &str, root: &str) -> Option<Self> {
        let asked = view.questions().last()?;
        let proposal = view.proposals().next_back();
        let findings = view.incident().findings().iter();
        Some(Self {
            version: VERSION,
            timestamp: asked.at,
            loop_id: loop_id.to_owned(),
            iteration: view.iteration(),
            r#type: match asked.question {
                PersonQuestion::Remedy => "recovery_approval_required",
                PersonQuestion::ChangeTooLarge
                | PersonQuestion::Conflict
                | PersonQuestion::Exhausted(_)
                | PersonQuestion::NothingLeft
                | PersonQuestion::NoProgress
                | PersonQuestion::RollBackFailed
                | PersonQuestion::SnapshotFailed
                | PersonQuestion::Masked
                | PersonQuestion::Flaky
                | PersonQuestion::MayHaveActed
                | PersonQuestion::Tripped(_)
                | PersonQuestion::Ordered => "recovery_failed",
            },
            status: asked.settled.map_or("pending", |settled| settled.how.as_str()),
            execution: execution(view, asked).map(Fulfilment::as_str),
            recovery_proposal: proposal.map(to_json),
            reason: asked.reason.clone(),
            findings: findings.map(|one| format!("{} {}", one.what, one.next)).collect(),
            actions: Actions {
                approve: format!("salve approve-recovery --loop {loop_id}"),
                reject: format!("salve reject-recovery --loop {loop_id}"),
                resolve: format!(
                    "salve resolve-recovery --loop {loop_id} --note \"fixed by hand\""
                ),
                manual: manual(proposal, asked, root),
            },
            incident: view.id(),
            question: asked.number,
            digest: asked.digest,
        })
    }
}

/// Returns what a person would type to do what is asked about.
fn manual(proposal: Option<&Proposed>, asked: &AskedQuestion, root: &str) -> String {
    let offered = proposal.into_iter().flat_map(|one| [Some(&one.recovery), one.fallback.as_ref()]);
    let offered: Vec<&Attempted> = offered.flatten().collect();
    let meant = asked.command.as_ref().and_then(|command| {
        offered.iter().find(|one| one.command == *command).map(|one| (&one.command, Some(*one)))
    });
    let meant = meant.or(asked.command.as_ref().map(|command| (command, None)));
    let (command, of) = match meant {
        Some(meant) => meant,
        None => match offered.first() {
            Some(first) => (&first.command, Some(*first)),
            None => return format!("cd {}", quoted(root)),
        },
    };
    let dir = of.map_or(".", |one| one.working_dir.as_str());
    let dir = match dir {
        "." => root.to_owned(),
        below => format!("{}/{below}", root.trim_end_matches('/')),
    };
    format!("cd {} && {command}", quoted(&dir))
}

/// Returns what became of what a person approved, if the question was about that and they did.
fn execution(view: &IncidentView, asked: &AskedQuestion) -> Option<Fulfilment> {
    let settled = asked.settled.filter(|settled| settled.how == QuestionSettled::Approved)?;
    if asked.question != PersonQuestion::Remedy {
        return None;
    }
    let on = Authority::Approval(settled.seq);
    let mut applied = view.remedies().iter().filter_map(|remedy| remedy.applied.as_ref());
    Some(applied.find(|one| one.on == on).map_or(Fulfilment::NotRun, AppliedRemedy::fulfilment))
}
