//! `usage.jsonl` and `salve loop stats`: how recoveries came out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::answer::QuestionSettled;
use super::course::Course;
use crate::event::{Authority, IncidentOutcome, ProposalSource};
use crate::gate::Category;
use crate::id::IncidentId;
use crate::scrub::Scrubbed;

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
    /// The loop.
    pub loop_id: String,
    /// Its iteration.
    pub iteration: u32,
    /// The incident.
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
    pub fn of(course: &Course, loop_id: &str) -> Option<Self> {
        let (closed, outcome) = (course.closed?, course.outcome()?);
        let proposal = course.proposal.as_ref();
        let took = closed.duration_since(course.opened).as_millis();
        let answered = course.settled.iter().filter(|(how, _)| *how != QuestionSettled::Superseded);
        let answered: Vec<u64> = answered.map(|(_, took)| *took).collect();
        Some(Self {
            version: VERSION,
            r#type: "recovery",
            timestamp: closed,
            loop_id: loop_id.to_owned(),
            iteration: course.iteration,
            incident: course.id(),
            proposals: course.proposals,
            proposed_by: proposal.map(|proposal| proposal.source),
            category: proposal.map(|proposal| proposal.category),
            commands: course.commands.iter().map(|ran| ran.command.clone()).collect(),
            auto_recoveries: count(autos(course)),
            escalations: escalations(course),
            time_to_resolution_ms: (!answered.is_empty()).then(|| answered.iter().sum()),
            outcome: outcome_word(outcome),
            unattended: recovered(outcome) && course.asked.is_none(),
            duration_ms: u64::try_from(took).unwrap_or(0),
        })
    }
}

/// A loop's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecoveryStatistics {
    /// The version of this shape.
    pub version: u32,
    /// The loop.
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
    pub fn of<'c>(loop_id: &str, courses: impl Iterator<Item = &'c Course>) -> Self {
        let courses: Vec<&Course> = courses.collect();
        let sum = |of: &dyn Fn(&Course) -> u32| courses.iter().map(|course| of(course)).sum();
        let share = |part: u32, of: u32| (of > 0).then(|| f64::from(part) / f64::from(of));
        let auto_recoveries = sum(&|course| count(autos(course)));
        let auto_recovered = sum(&|course| count(autos(course).filter(|ran| ran.helped)));
        let escalations = sum(&escalations);
        let recoveries = count(courses.iter());
        let mut answers: Vec<u64> = courses
            .iter()
            .flat_map(|course| &course.settled)
            .filter(|(how, _)| *how != QuestionSettled::Superseded)
            .map(|(_, took)| *took)
            .collect();
        answers.sort_unstable();
        let mut categories = BTreeMap::new();
        let mut outcomes = BTreeMap::new();
        for course in &courses {
            if let Some(proposal) = &course.proposal {
                *categories.entry(proposal.category).or_default() += 1;
            }
            if let Some(outcome) = course.outcome() {
                *outcomes.entry(outcome_word(outcome)).or_default() += 1;
            }
        }
        Self {
            version: VERSION,
            loop_id: loop_id.to_owned(),
            recoveries,
            proposals: sum(&|course| course.proposals),
            auto_recoveries,
            auto_recovered,
            auto_success_rate: share(auto_recovered, auto_recoveries),
            escalations,
            escalation_frequency: share(escalations, recoveries),
            awaiting_human: courses.iter().any(|course| course.pending().is_some()),
            median_time_to_resolution_ms: answers.get(answers.len() / 2).copied(),
            longest_time_to_resolution_ms: answers.last().copied(),
            categories,
            outcomes,
        }
    }
}

fn autos(course: &Course) -> impl Iterator<Item = &super::course::Ran> {
    course.commands.iter().filter(|ran| ran.on == Authority::Gate)
}

/// Returns how often a person was asked.
fn escalations(course: &Course) -> u32 {
    course.asked.as_ref().map_or(0, |asked| asked.number)
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
