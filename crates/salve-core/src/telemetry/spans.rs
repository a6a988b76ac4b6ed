//! Spans: one for each run of a job and each incident, and one for each thing that was done in it.
//!
//! Their numbers follow from what they are about, so that whoever tells a span twice tells the same.

use std::collections::HashMap;

use jiff::Timestamp;

use super::figures::outcome_word;
use crate::event::{
    AttemptEnd, Digest, Effect, EffectReport, Entry, Event, IncidentEvent, IncidentOutcome,
    JobEvent, JobTurn, LoopEnd, Proof, ResetEnd, SubjectKind,
};
use crate::id::{IncidentId, JobId};

/// The number of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(pub [u8; 16]);

/// The number of a span within its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(pub [u8; 8]);

/// Whether what a span tells of went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanStatus {
    /// It did.
    Well,
    /// It did not.
    Failed,
    /// Nobody can tell.
    Unknown,
}

/// Something that took time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub trace: TraceId,
    /// Its own number.
    pub id: SpanId,
    /// The span that it is part of.
    pub parent: Option<SpanId>,
    /// What it is; there are few of these.
    pub name: &'static str,
    /// When it began.
    pub from: Timestamp,
    /// When it ended.
    pub to: Timestamp,
    /// How it went.
    pub status: SpanStatus,
    /// What is known of it; every text is scrubbed.
    pub attributes: Vec<(&'static str, String)>,
}

/// When something began, by which entry.
#[derive(Clone, Copy, Debug)]
struct SpanStart {
    seq: u64,
    at: Timestamp,
}

/// A run of a job that goes on.
#[derive(Clone, Debug)]
struct OpenJob {
    run: SpanStart,
    /// The attempt or the reset at work.
    work: Option<SpanStart>,
    steps: Vec<String>,
}

/// An incident that goes on.
#[derive(Clone, Debug)]
struct OpenIncident {
    began: SpanStart,
    kind: SubjectKind,
    attributes: Vec<(&'static str, String)>,
    effects: HashMap<u32, (SpanStart, &'static str)>,
}

/// Folds entries to spans, each told when it ends.
#[derive(Clone, Debug, Default)]
pub struct SpanFold {
    jobs: HashMap<JobId, OpenJob>,
    incidents: HashMap<IncidentId, OpenIncident>,
}

/// Returns the number of the span that an entry begins.
fn span_id(seq: u64) -> SpanId {
    let hash = Digest::of(&[b"span", &seq.to_be_bytes()]);
    let mut id = [0; 8];
    id.copy_from_slice(&hash.0[..8]);
    SpanId(id)
}

impl SpanFold {
    /// Takes one entry in and returns the spans that it ends.
    pub fn take(&mut self, entry: &Entry) -> Vec<Span> {
        match &entry.event {
            Event::Job(JobEvent::Advanced { id, what }) => {
                self.job(*id, what, entry).into_iter().collect()
            }
            Event::Incident(event) => {
                let id = entry.incident;
                id.and_then(|id| self.incident(id, event, entry)).into_iter().collect()
            }
            Event::Config(_)
            | Event::Memory(_)
            | Event::Server(_)
            | Event::Session(_)
            | Event::Team(_)
            | Event::Loop(_)
            | Event::Recovery(_)
            | Event::Rule(_)
            | Event::Note(_)
            | Event::Other(_) => Vec::new(),
        }
    }

    fn job(&mut self, id: JobId, what: &JobTurn, entry: &Entry) -> Option<Span> {
        let now = SpanStart { seq: entry.seq, at: entry.at };
        if let JobTurn::Started { terms } = what {
            let steps = terms.steps.iter().map(|step| step.id.to_string()).collect();
            self.jobs.insert(id, OpenJob { run: now, work: None, steps });
            return None;
        }
        let open = self.jobs.get_mut(&id)?;
        match what {
            JobTurn::Resumed {} => (open.run, open.work) = (now, None),
            JobTurn::StepBegan { .. } | JobTurn::ResetBegan { .. } => open.work = Some(now),
            JobTurn::Started { .. }
            | JobTurn::Warned { .. }
            | JobTurn::Charged { .. }
            | JobTurn::StepEnded { .. }
            | JobTurn::ResetEnded { .. }
            | JobTurn::Remedied { .. }
            | JobTurn::Asked { .. }
            | JobTurn::Ordered { .. }
            | JobTurn::Honored { .. }
            | JobTurn::Stopped {}
            | JobTurn::Ended { .. } => {}
        }
        let (run, steps) = (open.run, &open.steps);
        let JobSpanEnd { name, status, attributes } = job_end(id, what, steps)?;
        let (begun, parent) = match name {
            JOB => (run, None),
            _ => (open.work.take()?, Some(span_id(run.seq))),
        };
        let (trace, id) = (TraceId(*id.0.as_bytes()), span_id(begun.seq));
        let (from, to) = (begun.at, entry.at.max(begun.at));
        Some(Span { trace, id, parent, name, from, to, status, attributes })
    }

    fn incident(&mut self, id: IncidentId, event: &IncidentEvent, entry: &Entry) -> Option<Span> {
        let now = SpanStart { seq: entry.seq, at: entry.at };
        if let IncidentEvent::Opened { subject, symptom, .. } = event {
            let attributes = vec![
                ("salve.incident", id.short()),
                ("salve.subject", subject.kind.as_str().to_owned()),
                ("salve.name", subject.name.to_string()),
                ("salve.class", symptom.class.as_str().to_owned()),
                ("salve.signature", symptom.signature.to_string()),
            ];
            let (kind, effects) = (subject.kind, HashMap::new());
            self.incidents.insert(id, OpenIncident { began: now, kind, attributes, effects });
            return None;
        }
        let open = self.incidents.get_mut(&id)?;
        let trace = TraceId(*id.0.as_bytes());
        match event {
            IncidentEvent::Requested { effect, what } => {
                open.effects.insert(*effect, (now, effect_word(what)));
                None
            }
            IncidentEvent::Finished { effect, report } => {
                let (begun, name) = open.effects.remove(effect)?;
                let status = match report {
                    EffectReport::Done | EffectReport::Measured(_) => SpanStatus::Well,
                    EffectReport::Failed { .. } | EffectReport::TimedOut => SpanStatus::Failed,
                    EffectReport::Verified { proof, .. } => match proof {
                        Proof::Failed | Proof::Masked => SpanStatus::Failed,
                        Proof::Proven | Proof::Transient | Proof::Flaky => SpanStatus::Well,
                    },
                    EffectReport::NoAgent | EffectReport::Conflict { .. } => SpanStatus::Unknown,
                };
                let parent = Some(span_id(open.began.seq));
                let attributes = vec![("salve.subject", open.kind.as_str().to_owned())];
                let (id, from, to) = (span_id(begun.seq), begun.at, entry.at.max(begun.at));
                Some(Span { trace, id, parent, name, from, to, status, attributes })
            }
            IncidentEvent::Ended { outcome } => {
                let open = self.incidents.remove(&id)?;
                let status = match outcome {
                    IncidentOutcome::Recovered(_) | IncidentOutcome::Resolved => SpanStatus::Well,
                    IncidentOutcome::GivenUp
                    | IncidentOutcome::Unhealed
                    | IncidentOutcome::Aborted => SpanStatus::Failed,
                };
                let outcome = ("salve.outcome", outcome_word(*outcome).to_owned());
                let attributes = open.attributes.into_iter().chain([outcome]).collect();
                let (id, from) = (span_id(open.began.seq), open.began.at);
                let (parent, to) = (None, entry.at.max(from));
                Some(Span { trace, id, parent, name: "incident", from, to, status, attributes })
            }
            // The rest of an incident's life takes no time of its own.
            _ => None,
        }
    }
}

/// What the span of a whole run of a job is called.
const JOB: &str = "job";

/// How a run of a job, or something in it, ended.
struct JobSpanEnd {
    name: &'static str,
    status: SpanStatus,
    attributes: Vec<(&'static str, String)>,
}

/// Returns what ended with an entry of a job, if anything did.
fn job_end(id: JobId, what: &JobTurn, steps: &[String]) -> Option<JobSpanEnd> {
    let step = |step: u32| {
        let id = usize::try_from(step).ok().and_then(|step| steps.get(step));
        ("salve.step", id.cloned().unwrap_or_default())
    };
    let run = |status| {
        let attributes = vec![("salve.job", id.short())];
        Some(JobSpanEnd { name: JOB, status, attributes })
    };
    match what {
        JobTurn::StepEnded { step: number, attempt, end, spent } => {
            let mut attributes = vec![step(*number), ("salve.attempt", attempt.to_string())];
            attributes.push(("salve.tokens", spent.tokens.to_string()));
            let status = attempt_status(end, &mut attributes);
            Some(JobSpanEnd { name: "step attempt", status, attributes })
        }
        JobTurn::ResetEnded { step: number, end } => {
            let status = match end {
                ResetEnd::Done => SpanStatus::Well,
                ResetEnd::Failed { .. } => SpanStatus::Failed,
            };
            let attributes = vec![step(*number)];
            Some(JobSpanEnd { name: "workspace reset", status, attributes })
        }
        JobTurn::Ended { why: LoopEnd::Completed, .. } => run(SpanStatus::Well),
        JobTurn::Ended {
            why: LoopEnd::Failed { .. } | LoopEnd::Limit(_) | LoopEnd::Stuck, ..
        } => run(SpanStatus::Failed),
        JobTurn::Stopped {} => run(SpanStatus::Unknown),
        JobTurn::Started { .. }
        | JobTurn::Resumed {}
        | JobTurn::StepBegan { .. }
        | JobTurn::Warned { .. }
        | JobTurn::Charged { .. }
        | JobTurn::ResetBegan { .. }
        | JobTurn::Remedied { .. }
        | JobTurn::Asked { .. }
        | JobTurn::Ordered { .. }
        | JobTurn::Honored { .. } => None,
    }
}

/// Returns how an attempt went, and tells of it what is bounded.
fn attempt_status(end: &AttemptEnd, attributes: &mut Vec<(&'static str, String)>) -> SpanStatus {
    match end {
        AttemptEnd::Done { .. } => SpanStatus::Well,
        AttemptEnd::Failed { failure, strategy } => {
            attributes.push(("salve.class", failure.class.as_str().to_owned()));
            attributes.push(("salve.strategy", strategy.as_str().to_owned()));
            attributes.push(("salve.signature", failure.signature.to_string()));
            SpanStatus::Failed
        }
        AttemptEnd::Away { .. } | AttemptEnd::Unable { .. } | AttemptEnd::Stopped => {
            SpanStatus::Unknown
        }
    }
}

fn effect_word(what: &Effect) -> &'static str {
    match what {
        Effect::Snapshot => "snapshot",
        Effect::Apply { .. } => "apply remedy",
        Effect::Measure => "measure change",
        Effect::VerifyInLayer => "verify in layer",
        Effect::TakeOver => "take over",
        Effect::Verify => "verify",
        Effect::RollBack(_) => "roll back",
        Effect::Ask => "ask",
        Effect::Record => "record",
        Effect::Release => "release",
    }
}
