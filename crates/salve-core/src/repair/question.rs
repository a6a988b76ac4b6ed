//! What a person is asked about an incident, in words.

use jiff::Timestamp;
use serde::Serialize;

use super::notice::{resource_text, size};
use crate::event::{
    Breaker, Digest, EffectReport, Event, IncidentEvent, PersonQuestion, Proposed, RemedyKind,
    Resource, RuleKey, SubjectKind,
};
use crate::incident::{Phase, larger};
use crate::scrub::Scrubbed;
use crate::view::{IncidentView, RemedyTried};

/// A question to a person, and what an answer is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    /// The question's number within the incident, from 1.
    pub number: u32,
    /// What is asked.
    pub question: PersonQuestion,
    /// Why a person is needed.
    pub why: String,
    /// What a yes means.
    pub yes: Option<String>,
    /// What a no means.
    pub no: String,
    /// The hash of exactly what is asked about.
    pub digest: Digest,
    /// Who is asked.
    pub person: String,
}

/// Returns what a person is asked now, if anything.
pub fn ask(view: &IncidentView) -> Option<OpenQuestion> {
    let incident = view.incident();
    let (number, question, digest) = match incident.phase() {
        Phase::Asking { number, question, digest, .. } => (number, question, digest),
        Phase::Choosing
        | Phase::Due { .. }
        | Phase::Doing { .. }
        | Phase::CoolingDown { .. }
        | Phase::Ending { .. }
        | Phase::Closed(_) => return None,
    };
    let person = incident.policy().person.to_string();
    let (why, yes, no) = words(view, question);
    Some(OpenQuestion { number, question, why, yes, no: no.into(), digest, person })
}

/// Says that what judges was weakened.
const MASKED: &str = "It only looked well because the tests or settings that judge it were weakened; nothing of that stays.";
/// Says that a repair does not hold.
const FLAKY: &str = "It sometimes passes and sometimes fails, with or without the change; nothing of the change stays.";

/// Returns why a person is asked, what a yes means, and what a no.
fn words(view: &IncidentView, question: PersonQuestion) -> (String, Option<String>, &'static str) {
    const CLOSE: &str = "the repair is given up";
    let again = || Some("it is tried again".to_owned());
    match question {
        PersonQuestion::Remedy => {
            let remedy = view.incident().trial().map(|trial| trial.remedy.text.as_str());
            let remedy = remedy.unwrap_or("the remedy");
            let mut why = format!("`{remedy}` may not run without a person's word.");
            let tried = view.remedies().last().filter(|one| RuleKey::is_earned(&one.rule));
            if let Some(tried) = tried {
                why = format!("{why} {}.", tried.reason);
            }
            (
                why,
                Some(format!("`{remedy}` runs once, then the result is verified")),
                "it is left out",
            )
        }
        PersonQuestion::ChangeTooLarge => {
            let yes = match view.subject().kind {
                SubjectKind::Server => "the change stays and the server is restarted",
                SubjectKind::Check
                | SubjectKind::Tool
                | SubjectKind::Step
                | SubjectKind::Iteration => "the change stays and it is run again",
            };
            (too_large(view), Some(yes.to_owned()), "the change is undone")
        }
        PersonQuestion::Conflict => conflict(view),
        PersonQuestion::Exhausted(resource) => {
            (exhausted(view.subject().kind, resource), None, CLOSE)
        }
        PersonQuestion::NothingLeft => (nothing_left(view), again(), CLOSE),
        PersonQuestion::NoProgress => {
            ("The same failure keeps coming back.".into(), again(), CLOSE)
        }
        PersonQuestion::RollBackFailed => {
            ("Salve could not undo a change that did not help.".into(), again(), CLOSE)
        }
        PersonQuestion::SnapshotFailed => (
            "Salve could not keep a copy of the files before a change.".into(),
            Some("Salve tries again to keep a copy".into()),
            CLOSE,
        ),
        PersonQuestion::Masked => (MASKED.into(), again(), CLOSE),
        PersonQuestion::Flaky => (FLAKY.into(), again(), CLOSE),
        PersonQuestion::MayHaveActed => (
            "It may have acted before it failed; doing it again could do harm.".into(),
            Some("it is done again".into()),
            CLOSE,
        ),
        PersonQuestion::Tripped(breaker) => (tripped(breaker).into(), again(), CLOSE),
        PersonQuestion::Ordered => ("A person wanted to be asked.".into(), again(), CLOSE),
    }
}

/// Returns that nothing is left, and why what was tried last could not even be done.
fn nothing_left(view: &IncidentView) -> String {
    let recent = view.lines().iter().rev().map(|line| &line.entry.event);
    let mut tried =
        recent.take_while(|event| !matches!(event, Event::Incident(IncidentEvent::Judged { .. })));
    let why = tried.find_map(|event| match event {
        Event::Incident(IncidentEvent::Finished {
            report: EffectReport::Failed { reason, .. },
            ..
        }) => Some(reason),
        _ => None,
    });
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("Nothing further is known to try{why}.")
}

fn too_large(view: &IncidentView) -> String {
    let policy = view.incident().policy();
    let work = view.work(view.attempt());
    let measured = work.and_then(|work| work.measured).unwrap_or_default();
    let reported = work.map(|work| work.reported).unwrap_or_default();
    let larger = larger(measured, reported);
    format!(
        "Safety threshold: the repair changed {}; at most {} files and {} lines may stay \
         without a person.",
        size(larger),
        policy.max_files,
        policy.max_lines
    )
}

/// Returns the question about files that the agent and somebody else edited in the same place.
fn conflict(view: &IncidentView) -> (String, Option<String>, &'static str) {
    let paths: Vec<&str> = view.conflicts().iter().map(Scrubbed::as_str).collect();
    let trial = view.incident().trial();
    let is_agents = trial.is_none_or(|trial| trial.remedy.kind == RemedyKind::Agent);
    let who = if is_agents { "The agent" } else { "The patch" };
    let why = format!(
        "{who} changed the same lines of {} that were edited meanwhile, so nothing of its \
         change was brought in; it is kept.",
        paths.join(", ")
    );
    let yes = "that change is brought in, if its lines are free by then";
    (why, Some(yes.into()), "that change is left out; yours stays")
}

/// Returns what ran out; only of a server it is said in the spec's words, whose toast it is.
fn exhausted(kind: SubjectKind, resource: Resource) -> String {
    match (kind, resource) {
        (SubjectKind::Server, Resource::Attempts) => {
            "All repair attempts exhausted. Manual intervention required.".into()
        }
        _ => format!("{} used up.", resource_text(resource)),
    }
}

/// Returns why a breaker stopped healing.
pub(super) fn tripped(breaker: Breaker) -> &'static str {
    match breaker {
        Breaker::SameError => "The same failure came up in several incidents.",
        Breaker::FileChurn => "One file was changed again and again.",
        Breaker::NewErrors => "Healing caused new failures; Salve undid what it had changed.",
        Breaker::Orphans => "Processes were left behind.",
        Breaker::ManyFailures => "It failed in many different ways within a few minutes.",
    }
}

/// A question to a person with everything that is needed to answer it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionDetail {
    /// The question, and what an answer is bound to.
    pub ask: OpenQuestion,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// The remedy that it is about, if it is about one.
    pub remedy: Option<RemedyTried>,
    /// The proposal behind that remedy, if somebody made one.
    pub proposal: Option<Box<Proposed>>,
}

/// Returns what a person is asked now, with everything that is needed to answer it.
pub fn question_detail(view: &IncidentView) -> Option<QuestionDetail> {
    let ask = ask(view)?;
    let asked_at = view.open_question().map_or(view.incident().clock(), |asked| asked.at);
    let trial = view.incident().trial().map(|trial| trial.remedy.digest);
    let remedy = view.remedies().iter().rev().find(|tried| Some(tried.digest) == trial).cloned();
    let is_behind = |proposal: &&Proposed| {
        let commands = [Some(&proposal.recovery), proposal.fallback.as_ref()];
        let text = remedy.as_ref().map(|remedy| &remedy.text);
        commands.into_iter().flatten().any(|one| Some(&one.command) == text)
    };
    let proposal = view.proposals().next_back().filter(is_behind);
    let proposal = proposal.map(|proposal| Box::new(proposal.clone()));
    Some(QuestionDetail { ask, asked_at, remedy, proposal })
}
