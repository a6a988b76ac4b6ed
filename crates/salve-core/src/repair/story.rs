//! An incident's whole story, for people and for whoever reads the resource.

use jiff::Timestamp;
use serde::Serialize;

use super::notice::{resource_text, size};
use super::task::RepairScene;
use super::{Notice, RepairState, VERSION, agent_title, exit_text};
use crate::event::{
    Actor, AgentMark, Amounts, ChangedFile, Effect, EffectReport, EffectStage, Encoded, Event,
    IncidentEvent, IncidentOutcome, NoteEvent, PersonOrder, Proof, ProposalSource, Proposed,
    RecoveryEvent, RemedyVerdict, ResourceLimits, Scope, SubjectKind, Symptom, TeamEvent,
};
use crate::playbook::{PlaybookFinding, SetVariable};
use crate::scrub::Scrubbed;
use crate::view::{IncidentView, IncidentViewLine};

/// An incident's whole story.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IncidentStory {
    /// The version of this shape.
    pub version: u32,
    /// What kind of thing is under care.
    pub subject: SubjectKind,
    /// How it stands.
    pub repair: RepairState,
    /// What may be spent.
    pub limits: ResourceLimits,
    /// What has been spent.
    pub spent: Amounts,
    /// All that happened, in its order.
    pub timeline: Vec<TimelineEntry>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// The entry's number in the journal.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Who says so.
    pub by: String,
    /// The attempt it belongs to, from 1.
    pub attempt: u32,
    /// What happened, in words.
    pub text: String,
    /// The spec's phases it brought about.
    pub phases: Vec<Notice>,
    /// Why it changed nothing, if it did not.
    pub ignored: Option<String>,
    /// The kind of event.
    pub event: String,
    /// The event's data.
    pub data: serde_json::Value,
}

impl IncidentStory {
    /// Tells the whole story.
    pub fn of(view: &IncidentView, scene: &RepairScene<'_>) -> Self {
        let incident = view.incident();
        Self {
            version: VERSION,
            subject: view.subject().kind,
            repair: RepairState::of(view, scene),
            limits: incident.policy().limits,
            spent: incident.ledger().spent(),
            timeline: view.lines().iter().map(TimelineEntry::of).collect(),
        }
    }
}

impl TimelineEntry {
    fn of(line: &IncidentViewLine) -> Self {
        let IncidentViewLine { entry, attempt, notices, ignored } = line;
        let Encoded { kind, data, .. } = entry.event.encode();
        Self {
            seq: entry.seq,
            at: entry.at,
            by: who(&entry.by),
            attempt: *attempt,
            text: words(&entry.event),
            phases: notices.clone(),
            ignored: ignored.map(|why| why.to_string()),
            event: kind,
            data,
        }
    }
}

/// Returns who speaks, for people.
pub fn who(actor: &Actor) -> String {
    match actor {
        Actor::Salve(_) => "salve".into(),
        Actor::Person { name } => name.to_string(),
        Actor::Unproven { name } => format!("{name} (no seal that holds)"),
        Actor::Forged { name } => format!("somebody who is not {name} (forged)"),
        Actor::Agent { name } => agent_title(name),
    }
}

/// Returns what an event says, in words.
pub(super) fn words(event: &Event) -> String {
    match event {
        Event::Incident(IncidentEvent::Opened { subject, symptom, .. }) => {
            format!("{} {}", subject.name, failure(symptom))
        }
        Event::Incident(IncidentEvent::Claimed { instead_of: None }) => "took it up".into(),
        Event::Incident(IncidentEvent::Claimed { instead_of: Some(gone) }) => {
            format!("took it over from process {}, which is gone", gone.pid)
        }
        Event::Incident(IncidentEvent::Released {}) => "let go of it".into(),
        Event::Incident(IncidentEvent::Sickened { symptom }) => format!("it {}", failure(symptom)),
        Event::Incident(IncidentEvent::Judged { remedy, judgement }) => {
            let verdict = match judgement.verdict {
                RemedyVerdict::Allow => "allowed",
                RemedyVerdict::Ask => "a person is asked",
                RemedyVerdict::Deny => "denied",
            };
            format!("chose `{}`: {verdict} ({})", remedy.text, judgement.reason)
        }
        Event::Incident(IncidentEvent::Diagnosed { rule, findings, .. }) => {
            diagnosed(rule, findings)
        }
        Event::Incident(IncidentEvent::NothingLeft {}) => "knows nothing further to try".into(),
        Event::Incident(IncidentEvent::Superseded {}) => {
            "asks again: something else is proposed by now".into()
        }
        Event::Recovery(RecoveryEvent::Sought { iteration, changed }) => {
            sought(*iteration, changed)
        }
        Event::Recovery(RecoveryEvent::Proposed { proposal }) => proposed(proposal),
        Event::Incident(IncidentEvent::Requested { what, .. }) => doing(*what).into(),
        Event::Incident(IncidentEvent::Progressed { stage: EffectStage::HealthCheck, .. }) => {
            "is probing it".into()
        }
        Event::Incident(IncidentEvent::Progressed { stage: EffectStage::VerifyingFix, .. }) => {
            "is watching that it stays up".into()
        }
        Event::Incident(IncidentEvent::Finished { report, .. }) => reported(report),
        Event::Incident(IncidentEvent::Marked { .. }) => marked(event),
        Event::Incident(IncidentEvent::AgentLaunched { agent, .. }) => {
            format!("started {}", agent_title(agent))
        }
        Event::Incident(IncidentEvent::LayerLaid { .. }) => {
            "laid a private layer over the files".into()
        }
        Event::Incident(IncidentEvent::FilesChanged { files, more, .. }) => changed(files, *more),
        Event::Incident(IncidentEvent::EnvironmentSet { variables, .. }) => {
            let named: Vec<String> =
                variables.iter().map(|one| SetVariable::from(one).text()).collect();
            format!("set for the rest of this run: {}; nothing was written", named.join(", "))
        }
        other => of_people_and_ends(other),
    }
}

fn sought(iteration: u32, changed: &[Scrubbed]) -> String {
    let named: Vec<_> = changed.iter().map(Scrubbed::as_str).collect();
    let named = named.join(", ");
    let more = if named.is_empty() { named } else { format!("; changed in this run: {named}") };
    format!("the tests of iteration {iteration} could not execute{more}")
}

fn proposed(Proposed { source, root_cause, recovery, .. }: &Proposed) -> String {
    let who = match source {
        ProposalSource::Tester => "the tester",
        ProposalSource::Salve => "salve",
    };
    format!("{who} proposes `{}`: {root_cause}", recovery.command)
}

fn diagnosed(rule: &Scrubbed, findings: &[PlaybookFinding]) -> String {
    let told = findings.iter().map(|PlaybookFinding { what, next }| format!(": {what} {next}"));
    format!("recognised {rule}{}", told.collect::<String>())
}

fn changed(files: &[ChangedFile], more: u32) -> String {
    let named: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("found changed: {}{more}", named.join(", "))
}

fn marked(event: &Event) -> String {
    let Event::Incident(IncidentEvent::Marked { mark, reported, message, .. }) = event else {
        return String::new();
    };
    let text = match mark {
        AgentMark::Started => "took up the repair",
        AgentMark::ReadingLog => "is reading the crash log",
        AgentMark::ApplyingFix => "is editing files",
        AgentMark::WroteFiles => "says it has finished",
    };
    let change = if reported.is_unknown() {
        String::new()
    } else {
        format!(", reporting {}", size(*reported))
    };
    noted(&format!("{text}{change}"), message.as_ref())
}

fn noted(what: &str, note: Option<&Scrubbed>) -> String {
    note.map_or_else(|| what.to_owned(), |note| format!("{what}: {note}"))
}

/// Returns what the rest of the events says, in words.
fn of_people_and_ends(event: &Event) -> String {
    match event {
        Event::Incident(IncidentEvent::Charged { spent, .. }) => {
            format!("it took {} so far", cost(*spent))
        }
        Event::Incident(IncidentEvent::Refilled { granted }) => {
            format!("granted {} more attempts", granted.attempts)
        }
        Event::Incident(IncidentEvent::Exhausted { resource }) => {
            format!("{} used up", resource_text(*resource))
        }
        Event::Incident(IncidentEvent::CooledDown {}) => "the cooldown is over".into(),
        Event::Incident(IncidentEvent::Tripped { breaker }) => {
            super::question::tripped(*breaker).into()
        }
        Event::Incident(IncidentEvent::Approved { question, note, .. }) => {
            noted(&format!("said yes to question {question}"), note.as_ref())
        }
        Event::Incident(IncidentEvent::Rejected { question, note, .. }) => {
            noted(&format!("said no to question {question}"), note.as_ref())
        }
        Event::Incident(IncidentEvent::Resolved { note }) => noted("settled it", note.as_ref()),
        Event::Incident(IncidentEvent::TriedAgain { why }) => format!("started it again: {why}"),
        Event::Incident(IncidentEvent::CameBack { why }) => format!("it is well again: {why}"),
        Event::Incident(IncidentEvent::Ordered { order }) => ordered(*order).into(),
        Event::Incident(IncidentEvent::Ended { outcome }) => ended(*outcome).into(),
        Event::Incident(IncidentEvent::ProofExplained { why, taken_back: false }) => {
            format!("proof: {why}")
        }
        Event::Incident(IncidentEvent::ProofExplained { why, taken_back: true }) => {
            format!("proof: {why}\nthe change was not needed, and is undone")
        }
        Event::Incident(IncidentEvent::SeenGreen {}) => {
            "the check was green when it was run again".into()
        }
        Event::Incident(IncidentEvent::CountersRestored { restored }) => {
            format!("the counters are back where they were: {restored}")
        }
        Event::Note(NoteEvent::Noted { text }) => text.to_string(),
        Event::Team(TeamEvent::FixWanted { note, .. }) => {
            noted("asks everybody for proposals", note.as_ref())
        }
        Event::Team(TeamEvent::FixProposed { fix, why, .. }) => {
            noted(&crate::team::proposed(fix), why.as_ref())
        }
        other => other.kind().replace('_', " "),
    }
}

/// Returns what something cost, in words.
pub(super) fn cost(spent: Amounts) -> String {
    let Amounts { wall_ms, .. } = spent;
    let mut parts: Vec<String> = spent.cost_in_words().into_iter().collect();
    if wall_ms > 0 || parts.is_empty() {
        parts.push(format!("{:.1} s", wall_ms as f64 / 1e3));
    }
    parts.join(", ")
}

pub(super) fn ordered(order: PersonOrder) -> &'static str {
    match order {
        PersonOrder::Pause => "paused it",
        PersonOrder::Resume => "let it go on",
        PersonOrder::Skip => "left the remedy out",
        PersonOrder::Retry => "wants it tried again",
        PersonOrder::Abort => "called it off",
        PersonOrder::Escalate => "wants to be asked",
    }
}

fn failure(symptom: &Symptom) -> String {
    let how = symptom.exit.as_ref().map_or_else(String::new, |e| format!(" ({})", exit_text(e)));
    format!("failed{how}: {}", symptom.key_line)
}

fn doing(what: Effect) -> &'static str {
    match what {
        Effect::Snapshot => "is keeping the files safe",
        Effect::Apply { .. } => "is applying the remedy",
        Effect::Measure => "is measuring what changed",
        Effect::VerifyInLayer => "is running it in the private layer, and without the change",
        Effect::TakeOver => "is taking the change over",
        Effect::Verify => "is running it again",
        Effect::RollBack(Scope::Attempt) => "is undoing this attempt",
        Effect::RollBack(Scope::Incident) => "is undoing everything",
        Effect::Ask => "is telling a person",
        Effect::Record => "is recording how it came out",
        Effect::Release => "is letting go",
    }
}

fn reported(report: &EffectReport) -> String {
    match report {
        EffectReport::Done => "done".into(),
        EffectReport::Failed { reason, .. } => format!("could not: {reason}"),
        EffectReport::Conflict { paths } => {
            let paths: Vec<&str> = paths.iter().map(Scrubbed::as_str).collect();
            format!("nothing was taken over: {} was edited in the same place", paths.join(", "))
        }
        EffectReport::TimedOut => "took too long and was stopped".into(),
        EffectReport::NoAgent => "no agent changed anything".into(),
        EffectReport::Measured(change) => format!("measured {}", size(*change)),
        EffectReport::Verified { proof, symptom } => {
            let found = match proof {
                Proof::Proven => "it is well, and the remedy did it",
                Proof::Transient => "it is well; nothing shows that the remedy did it",
                Proof::Flaky => "it is well and unwell by turns",
                Proof::Masked => "it only looks well: what judges it was weakened",
                Proof::Failed => "it is still unwell",
            };
            noted(found, symptom.as_ref().map(|symptom| &symptom.key_line))
        }
    }
}

/// Returns how an incident ended, in words.
pub fn ended(outcome: IncidentOutcome) -> &'static str {
    match outcome {
        IncidentOutcome::Recovered(Proof::Proven) => "recovered, proven",
        IncidentOutcome::Recovered(Proof::Transient) => {
            "recovered; nothing shows that a remedy did it"
        }
        IncidentOutcome::Recovered(Proof::Flaky | Proof::Masked | Proof::Failed) => {
            "recovered, unsurely"
        }
        IncidentOutcome::Resolved => "settled by a person",
        IncidentOutcome::GivenUp => "given up by a person",
        IncidentOutcome::Unhealed => "unhealed: nothing further was known to try",
        IncidentOutcome::Aborted => "called off",
    }
}
