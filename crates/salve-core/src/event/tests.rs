//! Every kind there and back, and what becomes of strange data.

use serde_json::json;

use super::*;
use crate::class::Class;
use crate::gate::{Category, Confidence, Severity};
use crate::id::{IssueId, JobId, Signature};
use crate::playbook::{Nature, PlaybookFinding};
use crate::scrub::Scrubbed;
use crate::widen::{RuleValue, UnattendedRules};

fn text(text: &'static str) -> Scrubbed {
    Scrubbed::literal(text)
}

fn symptom() -> Box<Symptom> {
    Box::new(Symptom {
        signature: Signature(7),
        class: Class::PortConflict,
        key_line: text("listen EADDRINUSE: address already in use :::3000"),
        exit: Some(ProcessExit::Code(1)),
        tree: Some(Digest::of(&[b"tree"])),
        acted: Acted::No,
    })
}

fn remedy() -> Box<Remedy> {
    Box::new(Remedy {
        kind: RemedyKind::Command,
        origin: RemedyOrigin::Playbook,
        text: text("npm ci"),
        digest: Digest::of_command("npm ci", ".", 300_000),
        undo: Undo::Snapshot,
        repeat: Repeat::Unsafe,
    })
}

fn policy() -> Box<IncidentPolicy> {
    Box::new(IncidentPolicy {
        person: text("ada"),
        mode: RepairMode::Legacy,
        listener: None,
        starts: None,
        limits: ResourceLimits { attempts: Some(3), ..ResourceLimits::default() },
        backoff_ms: 2_000,
        engage_ms: 30_000,
        write_ms: 120_000,
        quiet_ms: 2_000,
        watch_ms: 0,
        cooldown_ms: 600_000,
        max_files: 8,
        max_lines: 300,
        no_progress_limit: Some(2),
        catastrophe_after: None,
        on_failure: OnFailure::Undo,
        at_a_loss: AtALoss::Ask,
    })
}

fn launched(process: Process) -> Event {
    let (agent, model) = (text("claude"), Some(text("haiku")));
    Event::Incident(IncidentEvent::AgentLaunched {
        effect: 2,
        process,
        agent,
        model,
        limit_ms: 600_000,
    })
}

fn changed_file() -> ChangedFile {
    ChangedFile { path: text("src/a.rs"), lines: Some(3) }
}

/// One event of every kind up to the servers'.
#[expect(clippy::too_many_lines, reason = "a table: one row for each case")]
fn one_of_each() -> Vec<Event> {
    let digest = Digest::of(&[b"x"]);
    let terms = [
        RuleValue::Flag(true),
        RuleValue::Number(3),
        RuleValue::List(vec![text("npm ci")]),
        RuleValue::Unset,
    ];
    let rules: UnattendedRules =
        ["a", "b", "c", "d"].map(str::to_owned).into_iter().zip(terms).collect();
    let process = Process { pid: 4, started: 99, host: text("box") };
    let subject = Subject { kind: SubjectKind::Server, name: text("web"), repeat: Repeat::Safe };
    let judgement = Judgement {
        verdict: RemedyVerdict::Ask,
        rule: text("on_unknown"),
        reason: text("not listed"),
    };
    let findings = vec![PlaybookFinding { what: text("port 80 is taken"), next: text("kill 7") }];
    let change = Change { files: Some(1), lines: None };
    let report = EffectReport::Verified { proof: Proof::Failed, symptom: Some(symptom()) };
    vec![
        Event::Incident(IncidentEvent::Opened { subject, policy: policy(), symptom: symptom() }),
        Event::Incident(IncidentEvent::Claimed { instead_of: Some(process.clone()) }),
        Event::Incident(IncidentEvent::Released {}),
        Event::Incident(IncidentEvent::Sickened { symptom: symptom() }),
        Event::Incident(IncidentEvent::Diagnosed {
            nature: Nature::Code,
            rule: text("code.syntax"),
            findings,
        }),
        Event::Incident(IncidentEvent::Judged { remedy: remedy(), judgement }),
        Event::Incident(IncidentEvent::NothingLeft {}),
        Event::Incident(IncidentEvent::Requested {
            effect: 2,
            what: Effect::RollBack(Scope::Incident),
        }),
        Event::Incident(IncidentEvent::Progressed { effect: 2, stage: EffectStage::HealthCheck }),
        Event::Incident(IncidentEvent::Finished { effect: 2, report }),
        Event::Incident(IncidentEvent::Marked {
            attempt: 1,
            mark: AgentMark::WroteFiles,
            reported: change,
            message: None,
        }),
        launched(process.clone()),
        Event::Incident(IncidentEvent::LayerLaid { effect: 2 }),
        Event::Incident(IncidentEvent::FilesChanged {
            effect: 2,
            files: vec![changed_file()],
            more: 0,
        }),
        Event::Incident(IncidentEvent::EnvironmentSet {
            effect: 2,
            variables: vec![RunVariable { name: text("CI"), value: text("1") }],
        }),
        Event::Incident(IncidentEvent::Charged {
            effect: 2,
            spent: Amounts { tokens: 5, ..Amounts::default() },
        }),
        Event::Incident(IncidentEvent::Refilled {
            granted: Amounts { attempts: 2, ..Amounts::default() },
        }),
        Event::Incident(IncidentEvent::Exhausted { resource: Resource::MoneyMicros }),
        Event::Incident(IncidentEvent::CooledDown {}),
        Event::Incident(IncidentEvent::Tripped { breaker: Breaker::NewErrors }),
        Event::Incident(IncidentEvent::Approved { question: 1, digest, note: Some(text("go")) }),
        Event::Incident(IncidentEvent::Rejected { question: 1, digest, note: None }),
        Event::Incident(IncidentEvent::Resolved { note: None }),
        Event::Incident(IncidentEvent::Superseded {}),
        Event::Incident(IncidentEvent::TriedAgain { why: text("app.py changed") }),
        Event::Incident(IncidentEvent::CameBack { why: text("app.py changed") }),
        Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Escalate }),
        Event::Incident(IncidentEvent::ProofExplained {
            why: text("red before"),
            taken_back: true,
        }),
        Event::Incident(IncidentEvent::SeenGreen {}),
        Event::Incident(IncidentEvent::CountersRestored { restored: text("those of 12:00") }),
        Event::Incident(IncidentEvent::Ended {
            outcome: IncidentOutcome::Recovered(Proof::Transient),
        }),
        Event::Config(ConfigEvent::Changed {
            digest,
            changes: vec![text("recovery.cooldown_seconds: 60 -> 5")],
        }),
        Event::Config(ConfigEvent::Rejected { reason: text("salve.toml:3:1: unknown key") }),
        Event::Config(ConfigEvent::Pending { digest, changes: vec![], rules: rules.clone() }),
        Event::Config(ConfigEvent::Accepted { digest }),
        Event::Config(ConfigEvent::Guarded { rules }),
        Event::Config(ConfigEvent::Released { guard: 3 }),
        Event::Memory(MemoryEvent::Learned {
            signature: Signature(7),
            remedy: digest,
            proof: Proof::Proven,
        }),
        Event::Memory(MemoryEvent::Forgotten { signature: Signature(7) }),
        Event::Memory(MemoryEvent::Rekeyed { from: Signature(7), to: Signature(8) }),
        Event::Memory(MemoryEvent::ToolFailed {
            tool: text("hbctl get orders"),
            error: text("HTTP 401: token expired"),
            context: Some(text(r#"{"namespace":"eph-1"}"#)),
            resolution: Some(text("ran `hbctl login`")),
            healed: true,
        }),
        Event::Note(NoteEvent::StoreSalvaged { kept: 12, aside: text("salve.db.damaged") }),
        Event::Server(ServerEvent::Started {
            server: text("web"),
            process: process.clone(),
            command: text("npm run dev"),
            run: text("0b6cd1a5"),
        }),
    ]
}

/// One event of every kind that follows.
fn the_rest() -> Vec<Event> {
    let issue = IssueId(uuid::Uuid::from_u128(9));
    let process = Process { pid: 4, started: 99, host: text("box") };
    vec![
        Event::Server(ServerEvent::Up {
            server: text("web"),
            url: Some(text("http://localhost:5173/")),
        }),
        Event::Server(ServerEvent::Stopped { server: text("web"), exit: ProcessExit::Signal(9) }),
        Event::Server(ServerEvent::Ordered { server: text("web"), order: ServerOrder::Restart }),
        Event::Session(SessionEvent::Attached { process: process.clone() }),
        Event::Session(SessionEvent::Detached { process }),
        Event::Team(TeamEvent::IssueReported {
            issue,
            text: text("login is broken"),
            check: Some(text("test")),
            files: vec![text("src/login.ts")],
            auto_fix: true,
        }),
        Event::Team(TeamEvent::IssueSettled {
            issue,
            how: IssueSettled::Green { check: text("test"), incident: None },
        }),
        Event::Team(TeamEvent::FixWanted { issue: Some(issue), note: None }),
        Event::Team(TeamEvent::FixProposed {
            issue: None,
            fix: Fix { kind: FixKind::Instruction, text: text("look at the cache first") },
            why: Some(text("it was stale before")),
        }),
        Event::Loop(LoopEvent::Turned {
            id: "v1".parse().unwrap(),
            iteration: 2,
            what: LoopTurn::RecoveryBegan {},
        }),
        Event::Loop(LoopEvent::Attached { id: "v1".parse().unwrap() }),
        Event::Loop(LoopEvent::Detached { id: "v1".parse().unwrap() }),
        Event::Loop(LoopEvent::ManifestsSeen {
            name: text("shop"),
            files: vec![SeenFile { path: text("go.mod"), digest: Digest::of(&[b"x"]) }],
        }),
        Event::Recovery(RecoveryEvent::Sought {
            iteration: 6,
            changed: vec![text("package.json")],
        }),
        Event::Recovery(RecoveryEvent::Proposed { proposal: proposed() }),
        Event::Recovery(RecoveryEvent::Refused {
            name: text("shop"),
            iteration: 6,
            reason: text("a FIFO"),
        }),
        Event::Note(NoteEvent::Notified(Notified {
            entry: 7,
            via: Channel::Webhook,
            state: Delivery::Undelivered { reason: text("503") },
        })),
        page_failed(),
        Event::Rule(RuleEvent::Accepted(rule())),
        Event::Rule(RuleEvent::Withdrawn(rule())),
        Event::Note(NoteEvent::Noted { text: text("hello") }),
    ]
}

fn page_failed() -> Event {
    Event::Server(ServerEvent::PageFailed(PageFailure {
        server: text("web"),
        way: PageFailureWay::Uncaught,
        message: text("x is not defined"),
        place: Some(text("/src/cart.js:12:7")),
        page: text("/cart"),
    }))
}

fn proposed() -> Box<Proposed> {
    let attempted = |command, confidence| Attempted {
        command: text(command),
        working_dir: text("."),
        timeout_seconds: 300,
        confidence,
    };
    Box::new(Proposed {
        source: ProposalSource::Tester,
        timestamp: jiff::Timestamp::UNIX_EPOCH,
        category: Category::Dependency,
        severity: Severity::Blocking,
        error_pattern: text("Cannot find module"),
        root_cause: text("a package is missing"),
        evidence: vec![text("test-output.txt:3: Cannot find module 'a'")],
        recovery: attempted("npm ci", Some(Confidence::High)),
        expected_outcome: text("the tests start"),
        fallback: Some(attempted("npm ci --force", None)),
    })
}

fn rule() -> RuleKey {
    RuleKey { signature: Signature(7), remedy: Digest::of(&[b"x"]) }
}

#[test]
fn every_kind_comes_back_as_it_was() {
    let id = JobId(uuid::Uuid::from_u128(8));
    let job = JobEvent::Advanced { id, what: JobTurn::Honored { order: 3 } };
    let events = [one_of_each(), the_rest(), vec![job.into()]].concat();
    let mut kinds: Vec<&str> = events.iter().map(Event::kind).collect();
    kinds.sort_unstable();
    let mut known = Event::KINDS.to_vec();
    known.sort_unstable();
    assert_eq!(kinds, known);
    for event in events {
        let encoded = event.encode();
        let changed = matches!(event, Event::Incident(IncidentEvent::Finished { .. }));
        assert_eq!(encoded.version, 1 + u32::from(changed));
        let text = encoded.data.to_string();
        assert_eq!(Event::of_text(&encoded.kind, encoded.version, &text).as_ref(), Some(&event));
        assert_eq!(Event::decode(encoded).unwrap(), event);
    }
}

#[test]
fn text_that_salve_does_not_write_is_left_to_the_slower_way() {
    for (kind, version, data) in [
        ("noted", 0, r#"{"text":"a"}"#),
        ("noted", 2, r#"{"text":"a"}"#),
        ("teleported", 1, "{}"),
        ("noted", 1, r#"{"text":"a"} {}"#),
        ("noted", 1, r#"{"text":"a"},"data":{"text":"b"}"#),
        ("noted", 1, r#"{"text":"a","text":"b"}"#),
        ("noted", 1, r#"{"text":"a""#),
        ("noted", 1, ""),
        ("noted", 1, "null"),
    ] {
        assert_eq!(Event::of_text(kind, version, data), None, "{kind} {version} {data}");
    }
    let spaced = Event::of_text("noted", 1, " { \"text\" : \"a\" } ");
    assert_eq!(spaced, Some(Event::Note(NoteEvent::Noted { text: text("a") })));
}

#[test]
fn stored_data_is_plain_and_stays_so() {
    let apply = Effect::Apply { remedy: Digest([0xab; 32]), on: Authority::Approval(9) };
    let encoded = Event::Incident(IncidentEvent::Requested { effect: 3, what: apply }).encode();
    assert_eq!(encoded.kind, "requested");
    let hex = "ab".repeat(32);
    let want = json!({"effect": 3, "what": {"apply": {"remedy": hex, "on": {"approval": 9}}}});
    assert_eq!(encoded.data, want);
    assert_eq!(Event::Incident(IncidentEvent::Released {}).encode().data, json!({}));
}

#[test]
fn what_a_newer_salve_wrote_is_kept_and_passed_on() {
    let data = json!({"level": [1, {"deep": null}]});
    for (kind, version) in [("teleported", 1), ("noted", 2)] {
        let encoded = Encoded { kind: kind.into(), version, data: data.clone() };
        let event = Event::decode(encoded.clone()).unwrap();
        assert_eq!((event.kind(), event.version()), (kind, version));
        assert_eq!(event.encode(), encoded);
    }
}

#[test]
fn malformed_data_of_a_known_kind_is_an_error() {
    for (kind, data) in [
        ("noted", json!({})),
        ("noted", json!({"text": 5})),
        ("noted", json!({"text": "a", "more": "b"})),
        ("noted", json!(null)),
        ("released", json!([])),
        ("approved", json!({"question": 1, "digest": "abcd"})),
        ("refilled", json!({"granted": {"attempts": -1}})),
        ("refilled", json!({"granted": {"money_micros": 0.5}})),
        ("ended", json!({"outcome": "won"})),
    ] {
        let encoded = Encoded { kind: kind.into(), version: 1, data: data.clone() };
        assert_eq!(Event::of_text(kind, 1, &data.to_string()), None, "{kind} {data}");
        let err = Event::decode(encoded).expect_err(&data.to_string());
        assert!(matches!(err, DecodeError::Malformed { .. }), "{kind} {data}: {err}");
    }
    let zero = Encoded { kind: "noted".into(), version: 0, data: json!({"text": "a"}) };
    assert!(matches!(Event::decode(zero), Err(DecodeError::NoVersion { .. })));
}

#[test]
fn decisions_and_outcomes_are_durable() {
    let digest = Digest::of(&[]);
    let request = |what| Event::Incident(IncidentEvent::Requested { effect: 1, what });
    assert!(
        Event::Incident(IncidentEvent::Approved { question: 1, digest, note: None }).is_durable()
    );
    assert!(
        Event::Incident(IncidentEvent::Ended { outcome: IncidentOutcome::GivenUp }).is_durable()
    );
    let apply = Effect::Apply { remedy: digest, on: Authority::Gate };
    assert!(request(apply).is_durable());
    assert!(!request(Effect::Verify).is_durable(), "a restart must not wait for the disk");
    assert!(!Event::Note(NoteEvent::Noted { text: text("") }).is_durable());
    let turn =
        |what| Event::Loop(LoopEvent::Turned { id: "v1".parse().unwrap(), iteration: 1, what });
    assert!(turn(LoopTurn::Ended { why: LoopEnd::Stuck }).is_durable());
    assert!(!turn(LoopTurn::RecoveryBegan {}).is_durable());
}

#[test]
fn a_digest_tells_command_directory_and_time_out_apart() {
    let all = [
        Digest::of_command("npm ci", ".", 1),
        Digest::of_command("npm ci", ".", 2),
        Digest::of_command("npm ci", "a", 1),
        Digest::of_command("npm ci ", ".", 1),
        Digest::of_command("npm c", "i.", 1),
    ];
    for (n, digest) in all.iter().enumerate() {
        assert_eq!(digest.to_string().parse(), Ok(*digest));
        assert!(!all[..n].contains(digest), "{n}");
    }
    let good = all[0].to_string();
    for bad in [good[1..].to_owned(), good.to_uppercase(), good.replace(&good[..1], "g")] {
        assert_eq!(bad.parse::<Digest>(), Err(BadDigest), "{bad}");
    }
}

#[test]
fn only_a_named_person_is_a_person() {
    let person = |name| Actor::Person { name: text(name) };
    assert!(person("ada").person().is_some());
    assert!(person("  ").person().is_none());
    assert!(Actor::Agent { name: text("ada") }.person().is_none());
}
