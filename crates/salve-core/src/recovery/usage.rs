//! `usage.jsonl` and `salve loop stats`: how recoveries came out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::event::{Authority, IncidentOutcome, ProposalSource};
use crate::gate::Category;
use crate::id::IncidentId;
use crate::scrub::Scrubbed;
use crate::view::{IncidentView, QuestionSettled, RemedyTried};

/// The version of both shapes.
const VERSION: u32 = 1;

/// One recovery that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecoveryUsage {
    /// The version of this shape.
    pub version: u32,
    /// What the line is about.
    pub r#type: &'static str,
    /// When it was over.
    pub timestamp: Timestamp,
    pub loop_id: String,
    pub iteration: u32,
    pub incident: IncidentId,
    /// How often something was proposed.
    pub proposals: u32,
    /// Who proposed last, if anybody did.
    pub proposed_by: Option<ProposalSource>,
    /// What kind of infrastructure was broken.
    pub category: Option<Category>,
    /// The commands that were run.
    pub commands: Vec<Scrubbed>,
    /// How many of them ran unattended.
    pub auto_recoveries: u32,
    /// How often a person was asked.
    pub escalations: u32,
    /// How long a person's answers took together.
    pub time_to_resolution_ms: Option<u64>,
    /// How it came out: `recovered`, `resolved`, `rejected`, `unhealed` or `aborted`.
    pub outcome: &'static str,
    /// Whether it recovered without a person.
    pub unattended: bool,
    /// How long it took.
    pub duration_ms: u64,
}

impl RecoveryUsage {
    /// Returns the line of a recovery, once it is over.
    pub fn of(view: &IncidentView, loop_id: &str) -> Option<Self> {
        let (closed, outcome) = (view.closed_at()?, view.outcome()?);
        let proposal = view.proposals().next_back();
        let took = closed.duration_since(view.opened_at()).as_millis();
        let answered: Vec<u64> = answer_times(view).collect();
        Some(Self {
            version: VERSION,
            r#type: "recovery",
            timestamp: closed,
            loop_id: loop_id.to_owned(),
            iteration: view.iteration(),
            incident: view.id(),
            proposals: count(view.proposals()),
            proposed_by: proposal.map(|proposal| proposal.source),
            category: proposal.map(|proposal| proposal.category),
            commands: applied(view).map(|remedy| remedy.text.clone()).collect(),
            auto_recoveries: count(unattended(view)),
            escalations: count(view.questions().iter()),
            time_to_resolution_ms: (!answered.is_empty()).then(|| answered.iter().sum()),
            outcome: outcome_word(outcome),
            unattended: recovered(outcome) && view.questions().is_empty(),
            duration_ms: u64::try_from(took).unwrap_or(0),
        })
    }
}

/// A loop's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecoveryStatistics {
    /// The version of this shape.
    pub version: u32,
    pub loop_id: String,
    /// How often the tests could not execute.
    pub recoveries: u32,
    /// How often something was proposed.
    pub proposals: u32,
    /// Commands that ran unattended.
    pub auto_recoveries: u32,
    /// Those of them after which the tests executed.
    pub auto_recovered: u32,
    /// Their share, if any ran.
    pub auto_success_rate: Option<f64>,
    /// How often a person was asked.
    pub escalations: u32,
    /// Questions for each recovery, if there was any.
    pub escalation_frequency: Option<f64>,
    /// Whether a person is waited for now.
    pub awaiting_human: bool,
    /// How long the median answer of a person took.
    pub median_time_to_resolution_ms: Option<u64>,
    /// How long the slowest answer took.
    pub longest_time_to_resolution_ms: Option<u64>,
    /// What kinds of infrastructure were broken, and how often.
    pub categories: BTreeMap<Category, u32>,
    /// How recoveries came out, and how often.
    pub outcomes: BTreeMap<&'static str, u32>,
}

impl RecoveryStatistics {
    /// Counts over recoveries.
    pub fn of(loop_id: &str, views: &[IncidentView]) -> Self {
        let sum = |of: &dyn Fn(&IncidentView) -> u32| views.iter().map(of).sum();
        let share = |part: u32, of: u32| (of > 0).then(|| f64::from(part) / f64::from(of));
        let auto_recoveries = sum(&|view| count(unattended(view)));
        let helped = |view: &IncidentView| count(unattended(view).filter(|one| one.has_helped()));
        let auto_recovered = sum(&helped);
        let escalations = sum(&|view| count(view.questions().iter()));
        let recoveries = count(views.iter());
        let mut answers: Vec<u64> = views.iter().flat_map(answer_times).collect();
        answers.sort_unstable();
        let mut categories = BTreeMap::new();
        let mut outcomes = BTreeMap::new();
        for view in views {
            if let Some(proposal) = view.proposals().next_back() {
                *categories.entry(proposal.category).or_default() += 1;
            }
            if let Some(outcome) = view.outcome() {
                *outcomes.entry(outcome_word(outcome)).or_default() += 1;
            }
        }
        Self {
            version: VERSION,
            loop_id: loop_id.to_owned(),
            recoveries,
            proposals: sum(&|view| count(view.proposals())),
            auto_recoveries,
            auto_recovered,
            auto_success_rate: share(auto_recovered, auto_recoveries),
            escalations,
            escalation_frequency: share(escalations, recoveries),
            awaiting_human: views.iter().any(|view| view.open_question().is_some()),
            median_time_to_resolution_ms: answers.get(answers.len() / 2).copied(),
            longest_time_to_resolution_ms: answers.last().copied(),
            categories,
            outcomes,
        }
    }
}

/// Returns the remedies that were run.
fn applied(view: &IncidentView) -> impl Iterator<Item = &RemedyTried> {
    view.remedies().iter().filter(|remedy| remedy.applied.is_some())
}

/// Returns the remedies that were run without a person's word.
fn unattended(view: &IncidentView) -> impl Iterator<Item = &RemedyTried> {
    let by_gate = |remedy: &&RemedyTried| {
        remedy.applied.as_ref().is_some_and(|applied| applied.on == Authority::Gate)
    };
    view.remedies().iter().filter(by_gate)
}

/// Returns how long each answer of a person took.
fn answer_times(view: &IncidentView) -> impl Iterator<Item = u64> {
    let settled = view.questions().iter().filter_map(|asked| asked.settled);
    settled.filter(|one| one.how != QuestionSettled::Superseded).map(|one| one.took_ms)
}

fn count(items: impl Iterator) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

fn recovered(outcome: IncidentOutcome) -> bool {
    matches!(outcome, IncidentOutcome::Recovered(_))
}

fn outcome_word(outcome: IncidentOutcome) -> &'static str {
    match outcome {
        IncidentOutcome::Recovered(_) => "recovered",
        IncidentOutcome::Resolved => "resolved",
        IncidentOutcome::GivenUp => "rejected",
        IncidentOutcome::Unhealed => "unhealed",
        IncidentOutcome::Aborted => "aborted",
    }
}
