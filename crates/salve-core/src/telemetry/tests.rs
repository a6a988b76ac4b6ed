//! Figures and spans of one incident and one job, from their first entry to their last.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::*;
use crate::event::{
    Actor, Amounts, AttemptEnd, Checkpoint, Digest, Effect, EffectReport, Entry, Event,
    HealStrategy, IncidentEvent, IncidentOutcome, JobEvent, JobStepTerms, JobTerms, JobTurn,
    LoopEnd, Process, Proof, Repeat, ResourceLimits, SubjectKind,
};
use crate::id::JobId;
use crate::incident::testing::{id, policy, subject, symptom};
use crate::scrub::Scrubbed;

/// Gives events their places in a journal, a second between each two.
fn journal(events: Vec<Event>) -> Vec<Entry> {
    let by = || {
        let host = Scrubbed::literal("box");
        Actor::Salve(Process { pid: 7, started: 1, host })
    };
    let entry = |(at, event): (usize, Event)| {
        let seq = at as u64 + 1;
        let incident = matches!(event, Event::Incident(_)).then(id);
        let at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seq as i64);
        Entry { seq, at, by: by(), incident, event, seal: None }
    };
    events.into_iter().enumerate().map(entry).collect()
}

fn incident() -> Vec<Entry> {
    let opened = IncidentEvent::Opened {
        subject: subject(SubjectKind::Check, Repeat::Safe),
        policy: Box::new(policy()),
        symptom: Box::new(symptom(1, "tree")),
    };
    let requested = IncidentEvent::Requested { effect: 1, what: Effect::Verify };
    let report = EffectReport::Verified { proof: Proof::Proven, symptom: None };
    let finished = IncidentEvent::Finished { effect: 1, report };
    let ended = IncidentEvent::Ended { outcome: IncidentOutcome::Recovered(Proof::Proven) };
    journal([opened, requested, finished, ended].map(Event::Incident).to_vec())
}

fn job() -> Vec<Entry> {
    let digest = Digest::of(&[b"x"]);
    let step = JobStepTerms { id: Scrubbed::literal("build"), attempts: 3, no_progress: 2 };
    let terms = Box::new(JobTerms {
        objective: Scrubbed::literal("add search"),
        spec: digest,
        steps: vec![step],
        resets: 1,
        parks: 1,
        limits: ResourceLimits::default(),
    });
    let checkpoint = Checkpoint { patch: digest, state: digest, tree: digest };
    let turns = [
        JobTurn::Started { terms },
        JobTurn::StepBegan { step: 0, attempt: 1, strategy: HealStrategy::None },
        JobTurn::StepEnded {
            step: 0,
            attempt: 1,
            end: AttemptEnd::Done { checkpoint },
            spent: Amounts { wall_ms: 1_000, ..Amounts::default() },
        },
        JobTurn::Ended { why: LoopEnd::Completed, retryable: false },
    ];
    let id = JobId(uuid::Uuid::from_u128(7));
    journal(turns.map(|what| JobEvent::Advanced { id, what }.into()).to_vec())
}

fn spans(entries: &[Entry]) -> Vec<Span> {
    let mut fold = SpanFold::default();
    entries.iter().flat_map(|entry| fold.take(entry)).collect()
}

#[test]
fn every_incident_is_counted_by_subject_class_and_outcome() {
    let mut fold = MetricsFold::default();
    let entries = incident();
    let lines: Vec<String> =
        entries.iter().flat_map(|entry| fold.take(entry)).map(|m| statsd_line("p", &m)).collect();
    let class = symptom(1, "tree").class;
    assert_eq!(
        lines,
        [
            format!("p.incident.opened_total:1|c|#subject:check,class:{}", class.as_str()),
            "p.incident.ended_total:1|c|#subject:check,outcome:recovered".to_owned(),
            "p.incident.duration_seconds:3000|ms|#subject:check,outcome:recovered".to_owned(),
        ]
    );
}

#[test]
fn what_was_done_lies_within_what_it_was_done_for() {
    for (entries, names) in [(incident(), ["verify", "incident"]), (job(), ["step attempt", "job"])]
    {
        let all = spans(&entries);
        assert_eq!(all.iter().map(|span| span.name).collect::<Vec<_>>(), names);
        let (inner, outer) = (&all[0], &all[1]);
        assert_eq!((inner.parent, outer.parent), (Some(outer.id), None));
        assert_eq!(inner.trace, outer.trace);
        assert!(outer.from <= inner.from && inner.to <= outer.to);
        assert_eq!((inner.status, outer.status), (SpanStatus::Well, SpanStatus::Well));
        assert_eq!(spans(&entries), all, "told twice, it is the same");
    }
}

#[test]
fn bodies_are_what_a_collector_takes() {
    let (mut figures, mut fold) = (MetricsFold::default(), SpanFold::default());
    let mut batch = OtlpBatch::since(Timestamp::UNIX_EPOCH);
    assert!(batch.is_empty());
    for entry in job() {
        batch.add(figures.take(&entry), fold.take(&entry));
    }
    let of = OtlpResource {
        service: "salve".to_owned(),
        version: "1".to_owned(),
        prefix: "p".to_owned(),
    };
    assert!(batch.metrics_body(&of, Timestamp::UNIX_EPOCH).is_some_and(|body| {
        let metric = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
        let point = &metric["histogram"]["dataPoints"][0];
        metric["name"] == "p.task.step.duration_seconds"
            && metric["histogram"]["aggregationTemporality"] == 1
            && point["count"] == "1"
            && point["bucketCounts"].as_array().map(Vec::len)
                == point["explicitBounds"].as_array().map(|bounds| bounds.len() + 1)
    }));
    let body = batch.traces_body(&of).unwrap_or(Value::Null);
    let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"], "00000000000000000000000000000007");
    assert_eq!(span["spanId"].as_str().map(str::len), Some(16));
    assert_eq!(span["startTimeUnixNano"], "2000000000");
    assert_eq!(span["status"]["code"], 1);
}
