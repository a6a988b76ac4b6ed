use jiff::Timestamp;
use serde_json::{Value, json};

use super::task::RepairScene;
use super::*;
use crate::event::{
    Actor, AgentMark, Change, Effect, EffectReport, EffectStage, Entry, Event, IncidentEvent,
    IncidentPolicy, PageFailure, PageFailureWay, PersonOrder, ProcessExit, Proof, RemedyKind,
    RemedyVerdict, RepairMode, ResourceLimits, ServerEvent, Symptom,
};
use crate::incident::testing::{TestIncident, agent, id, person, policy, process, symptom, time};
use crate::scrub::Scrubbed;
use crate::view::IncidentView;

fn agent_policy() -> IncidentPolicy {
    IncidentPolicy { mode: RepairMode::Agent, ..policy() }
}

/// Opens an incident of a server that ended with exit code 1.
fn crash(policy: IncidentPolicy) -> TestIncident {
    let symptom = Symptom { exit: Some(ProcessExit::Code(1)), ..symptom(1, "tree") };
    TestIncident::with(policy, symptom, crate::event::Repeat::Safe)
}

/// Opens an incident and lets it wait for an agent.
fn awaiting(policy: IncidentPolicy) -> TestIncident {
    let mut story = crash(policy);
    await_agent(&mut story);
    story
}

fn await_agent(story: &mut TestIncident) {
    story.judge(RemedyKind::Agent, "agent", RemedyVerdict::Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    let run = story.run().unwrap();
    assert!(matches!(run.what, Effect::Apply { .. }), "{run:?}");
}

fn say(story: &mut TestIncident, mark: AgentMark, reported: Change) {
    let attempt = story.incident.attempt();
    let message = Some(Scrubbed::literal("fixed the import"));
    story
        .by(agent(), Event::Incident(IncidentEvent::Marked { attempt, mark, reported, message }))
        .unwrap();
}

/// Lets the agent's change be measured and the server fail again.
fn fail(story: &mut TestIncident) {
    let small = Change { files: Some(1), lines: Some(3) };
    story.finish(Effect::Measure, EffectReport::Measured(small));
    let again = Symptom { exit: Some(ProcessExit::Signal(9)), ..symptom(2, "other") };
    let report = EffectReport::Verified { proof: Proof::Failed, symptom: Some(Box::new(again)) };
    story.finish(Effect::Verify, report);
}

fn size(files: u32, lines: u32) -> Change {
    Change { files: Some(files), lines: Some(lines) }
}

fn answer(entries: &[Entry], scene: &RepairScene<'_>) -> Value {
    serde_json::to_value(task(&[IncidentView::of(entries.to_vec()).unwrap()], scene)).unwrap()
}

fn up() -> Vec<Server> {
    let entry = |seq, event| Entry {
        seq,
        at: time(seq),
        by: Actor::Salve(process(1)),
        incident: None,
        event,
        seal: None,
    };
    let server = Scrubbed::literal("web");
    let command = Scrubbed::literal("npm run dev");
    let run = Scrubbed::literal("run");
    let url = Some(Scrubbed::literal("http://localhost:5173/"));
    servers(&[
        entry(
            1,
            Event::Server(ServerEvent::Started {
                server: server.clone(),
                process: process(7),
                command,
                run,
            }),
        ),
        entry(2, Event::Server(ServerEvent::Up { server: server.clone(), url })),
        entry(3, Event::Server(ServerEvent::Stopped { server, exit: ProcessExit::Code(1) })),
    ])
}

#[test]
fn a_pending_task_has_every_field_of_the_spec() {
    let story = awaiting(agent_policy());
    let servers = up();
    let got = answer(&story.journal, &RepairScene { servers: &servers, ..RepairScene::default() });
    let log = ".dev-crash.00000000.log";
    let want = json!({
        "pending": true,
        "repairId": id().to_string(),
        "crashLogPath": log,
        "exitCode": 1,
        "attempt": 1,
        "maxAttempts": 3,
        "phase": "awaiting_agent",
        "healthUrl": "http://localhost:5173/",
        "instructions": [
            format!("1. Read the crash log file: {log}"),
            "2. Identify the root cause from the error output",
            "3. Apply a minimal fix to the source code",
            "4. Call canvas_mark_repair_step with phase=\"agent_wrote_files\" when done",
        ],
        "safetyLimits": {
            "maxFiles": 8, "maxLinesChanged": 300, "noTerminalInjection": true, "safeMode": true,
        },
    });
    for (field, value) in want.as_object().unwrap() {
        assert_eq!(&got[field], value, "{field}");
    }
    let phases: Vec<_> = got["lastEvents"].as_array().unwrap().iter().collect();
    let names: Vec<_> = phases.iter().map(|event| event["phase"].as_str().unwrap()).collect();
    assert_eq!(names, ["crash_detected", "repair_started", "awaiting_agent"]);
    assert_eq!(phases[0]["message"], "Dev server crashed (exit 1)");
    assert_eq!(phases[0]["timestamp"], "1970-01-01T00:00:00Z");
}

#[test]
fn a_server_without_a_known_address_has_a_null_health_url() {
    let got = answer(&awaiting(agent_policy()).journal, &RepairScene::default());
    assert_eq!(got.get("healthUrl"), Some(&Value::Null));
}

/// Compares what is said when nothing waits for an agent.
#[track_caller]
fn not_pending(story: &TestIncident, scene: &RepairScene<'_>, message: &str, next: &str) {
    let got = answer(&story.journal, scene);
    assert_eq!(got["pending"], false, "{got}");
    assert!(got["message"].as_str().unwrap().contains(message), "{message}: {got}");
    assert!(got["nextStep"].as_str().unwrap().contains(next), "{next}: {got}");
}

#[test]
fn when_nothing_waits_the_answer_says_why_and_what_to_do() {
    let here = RepairScene::default();
    assert_eq!(serde_json::to_value(task(&[], &here)).unwrap()["pending"], false);
    not_pending(&crash(agent_policy()), &here, "being prepared", "again in a second");
    let legacy = crash(policy());
    not_pending(&legacy, &here, "off here", "AGENT_REPAIR=1");

    let mut busy = crash(agent_policy());
    busy.judge(RemedyKind::Retry, "again", RemedyVerdict::Allow);
    not_pending(&busy, &here, "itself", "canvas_get_repair_status");

    let mut wrote = awaiting(agent_policy());
    say(&mut wrote, AgentMark::WroteFiles, size(1, 3));
    not_pending(&wrote, &here, "being verified", "canvas_get_repair_status");

    let mut asks = crash(agent_policy());
    asks.judge(RemedyKind::Command, "rm -rf dist", RemedyVerdict::Ask);
    not_pending(&asks, &here, "`rm -rf dist`", "salve show 00000000");

    let mut over = crash(agent_policy());
    over.by(person("ada"), Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Abort }))
        .unwrap();
    not_pending(&over, &here, "called off", "Nothing");

    let story = awaiting(agent_policy());
    let deserted = [id()];
    let left = RepairScene { deserted: &deserted, ..here };
    not_pending(&story, &left, "No `salve dev` runs", "start `salve dev`");
    let other = RepairScene { server: Some("api"), ..here };
    not_pending(&story, &other, "no server called `api`", "leave `server` out");
    let servers = up();
    let other = RepairScene { server: Some("api"), servers: &servers, ..here };
    not_pending(&story, &other, "no server called `api`", "web");
    let named = RepairScene { server: Some("web"), ..here };
    assert_eq!(answer(&story.journal, &named)["pending"], true);
}

#[test]
fn of_several_repairs_the_one_nobody_took_up_comes_first() {
    let mut taken = awaiting(agent_policy());
    say(&mut taken, AgentMark::Started, Change::default());
    let free = awaiting(agent_policy());
    let views = [
        IncidentView::of(taken.journal.clone()).unwrap(),
        IncidentView::of(free.journal.clone()).unwrap(),
    ];
    let WaitingTask::Repair(task) = task(&views, &RepairScene::default()) else { panic!() };
    assert_eq!((task.taken_by, task.also_pending.len()), (None, 1));
}

#[test]
fn taking_up_a_task_is_said_once_per_attempt() {
    let mut story = awaiting(agent_policy());
    let engage = |story: &TestIncident| IncidentView::of(story.journal.clone()).unwrap().engage();
    let event = engage(&story).unwrap();
    assert!(
        matches!(
            event,
            Event::Incident(IncidentEvent::Marked { attempt: 1, mark: AgentMark::Started, .. })
        ),
        "{event:?}"
    );
    story.by(agent(), event).unwrap();
    assert_eq!(engage(&story), None);
    say(&mut story, AgentMark::WroteFiles, size(1, 3));
    fail(&mut story);
    assert_eq!(engage(&story), None, "nothing waits yet");
    await_agent(&mut story);
    let event = engage(&story).unwrap();
    assert!(
        matches!(event, Event::Incident(IncidentEvent::Marked { attempt: 2, .. })),
        "{event:?}"
    );
}

/// Judges a report and compares the phase that is taken or the refusal's text.
#[track_caller]
fn report(story: &TestIncident, phase: &str, attempt: Option<u32>, want: Result<&str, &str>) {
    let view = IncidentView::of(story.journal.clone()).unwrap();
    let reported = Reported { phase, attempt, change: Change::default(), message: None };
    let got = mark(&view, reported).map(|step| step.phase).map_err(|refusal| {
        assert!(!refusal.advice().is_empty());
        refusal.to_string()
    });
    match (got, want) {
        (Ok(got), Ok(want)) => assert_eq!(got, want),
        (Err(got), Err(want)) => assert!(got.contains(want), "{got}"),
        (got, want) => panic!("{phase}: {got:?} instead of {want:?}"),
    }
}

#[test]
fn reports_go_forward_and_not_back() {
    let mut story = awaiting(agent_policy());
    report(&story, "agent_reading_log", None, Ok("agent_reading_log"));
    report(&story, "agent_wrote_files", Some(1), Ok("agent_wrote_files"));
    report(&story, "agent_started", None, Err("not a phase that an agent reports"));
    report(&story, "recovered", None, Err("not a phase that an agent reports"));
    report(&story, "agent_reading_log", Some(2), Err("has not begun"));
    say(&mut story, AgentMark::ApplyingFix, Change::default());
    report(&story, "agent_reading_log", None, Err("already at `agent_applying_fix`"));
    report(&story, "agent_applying_fix", None, Ok("agent_applying_fix"));
    say(&mut story, AgentMark::WroteFiles, size(1, 3));
    report(&story, "agent_wrote_files", None, Err("already at `agent_wrote_files`"));
    fail(&mut story);
    report(&story, "agent_wrote_files", Some(1), Err("attempt 1 is over"));
    await_agent(&mut story);
    report(&story, "agent_wrote_files", Some(1), Err("attempt 1 is over"));
    report(&story, "agent_wrote_files", Some(2), Ok("agent_wrote_files"));
    story.by(person("ada"), Event::Incident(IncidentEvent::Resolved { note: None })).unwrap();
    story.run_until_waiting();
}

#[test]
fn what_a_restart_waits_for_is_known_as_a_number_and_said_in_words() {
    for (backoff_ms, said) in [(0, "Waiting 0 s"), (2500, "Waiting 2.5 s")] {
        let mut story = crash(IncidentPolicy { mode: RepairMode::Legacy, backoff_ms, ..policy() });
        story.judge(RemedyKind::Retry, "restart", RemedyVerdict::Allow);
        let view = IncidentView::of(story.journal.clone()).unwrap();
        assert_eq!((view.phase().as_str(), view.wait_ms()), ("waiting", backoff_ms));
        let (_, notice) = view.notices().next_back().unwrap();
        assert_eq!(
            notice.message,
            format!("{said} before restart attempt 1/{}", view.max_attempts())
        );
    }
}

#[test]
fn a_report_that_nobody_waits_for_is_refused() {
    let early = crash(agent_policy());
    report(&early, "agent_wrote_files", None, Ok("agent_wrote_files"));
    report(&crash(policy()), "agent_wrote_files", None, Err("agents are off"));
    let mut busy = crash(agent_policy());
    busy.judge(RemedyKind::Retry, "again", RemedyVerdict::Allow);
    report(&busy, "agent_wrote_files", None, Err("no agent is waited for"));
    let mut late = awaiting(agent_policy());
    let effect = 2;
    late.salve(Event::Incident(IncidentEvent::Finished { effect, report: EffectReport::NoAgent }))
        .unwrap();
    report(&late, "agent_wrote_files", Some(1), Err("no agent is waited for"));
    late.by(person("ada"), Event::Incident(IncidentEvent::Resolved { note: None })).unwrap();
    report(&late, "agent_wrote_files", None, Err("is over: a person settled it"));
}

#[test]
fn what_a_taken_report_leads_to_is_said() {
    let story = awaiting(agent_policy());
    let view = IncidentView::of(story.journal.clone()).unwrap();
    let next = |change| {
        let phase = "agent_wrote_files";
        mark(&view, Reported { phase, attempt: None, change, message: None }).unwrap().next_step
    };
    let usual = "Server will restart automatically after a brief quiet period.";
    assert_eq!(next(size(1, 3)), usual);
    assert_eq!(next(Change::default()), usual);
    assert!(next(size(20, 500)).contains("a person will be asked"));
}

/// Returns every notice of a story as `phase: message`.
fn told(story: &TestIncident) -> Vec<String> {
    let view = IncidentView::of(story.journal.clone()).unwrap();
    view.notices().map(|(_, notice)| format!("{}: {}", notice.phase, notice.message)).collect()
}

#[test]
fn the_notices_of_an_agents_repair_have_the_specs_words() {
    let listener = Some(Scrubbed::literal("claude-code"));
    let mut story = awaiting(IncidentPolicy { listener, ..agent_policy() });
    for mark in
        [AgentMark::Started, AgentMark::ReadingLog, AgentMark::ApplyingFix, AgentMark::WroteFiles]
    {
        say(&mut story, mark, size(1, 3));
    }
    story.finish(Effect::Measure, EffectReport::Measured(size(1, 3)));
    let run = story.run().unwrap();
    for stage in [EffectStage::HealthCheck, EffectStage::VerifyingFix] {
        story
            .salve(Event::Incident(IncidentEvent::Progressed { effect: run.effect, stage }))
            .unwrap();
    }
    let report = EffectReport::Verified { proof: Proof::Proven, symptom: None };
    story.salve(Event::Incident(IncidentEvent::Finished { effect: run.effect, report })).unwrap();
    let want = [
        "crash_detected: Dev server crashed (exit 1)",
        "repair_started: Repair session started — waiting for Claude Code",
        "awaiting_agent: Waiting 30 s for an agent to take up the repair",
        "agent_started: coder engaged — reading crash details",
        "agent_reading_log: coder is reading the crash log",
        "agent_applying_fix: coder is editing source files",
        "agent_wrote_files: File writes complete — waiting for watchers to settle...",
        "ready_to_restart: Restarting in 2 s, once watchers have settled (1 file, 3 lines changed)",
        "restarting: Restart attempt 1/3...",
        "health-check: Probing the server",
        "verifying_fix: The server answers — watching that it stays up",
        "recovered: Dev server recovered after agent repair!",
    ];
    assert_eq!(told(&story), want);
}

#[test]
fn the_agent_that_is_waited_for_is_named_where_it_is_known() {
    let starts = Some(Scrubbed::literal("codex"));
    for (policy, want) in [
        (IncidentPolicy { starts, ..agent_policy() }, "waiting for Codex"),
        (agent_policy(), "waiting for an agent"),
    ] {
        let said = told(&awaiting(policy));
        assert_eq!(said[1], format!("repair_started: Repair session started — {want}"));
        let waits = if want.ends_with("Codex") {
            "Waiting for Codex to begin"
        } else {
            "Waiting 30 s for an agent to take up the repair"
        };
        assert_eq!(said[2], format!("awaiting_agent: {waits}"));
    }
}

#[test]
fn the_notices_of_a_hopeless_repair_have_the_specs_words() {
    let mut story = crash(agent_policy());
    for attempt in 1..=3 {
        await_agent(&mut story);
        let run = story.run().unwrap();
        assert_eq!(run.what, Effect::Measure, "the wait for an agent is over");
        let report = EffectReport::Measured(size(0, 0));
        story
            .salve(Event::Incident(IncidentEvent::Finished { effect: run.effect, report }))
            .unwrap();
        let again = Symptom { exit: Some(ProcessExit::Code(1)), ..symptom(attempt, "tree") };
        let report =
            EffectReport::Verified { proof: Proof::Failed, symptom: Some(Box::new(again)) };
        story.finish(Effect::Verify, report);
    }
    story.run();
    let told = told(&story);
    assert!(told.contains(
        &"ready_to_restart: No agent activity — restarting in 2 s without a repair".into()
    ));
    let want = [
        "restarting: Restart attempt 3/3...",
        "failed: Restart failed: it broke",
        "exhausted: All 3 repair attempts failed.",
        "cooldown: Entering 10-minute cooldown period...",
        "failed_requires_human: All repair attempts exhausted. Manual intervention required.",
    ];
    assert_eq!(told[told.len() - 5..], want);
    let view = IncidentView::of(story.journal.clone()).unwrap();
    assert!(view.lines().iter().all(|line| line.attempt <= 3));
    assert_eq!((view.attempt(), view.max_attempts()), (3, 3));
}

#[test]
fn a_change_that_is_too_large_is_a_persons_matter_with_both_sizes_told() {
    let mut story = awaiting(agent_policy());
    say(&mut story, AgentMark::WroteFiles, size(20, 500));
    story.finish(Effect::Measure, EffectReport::Measured(size(1, 1)));
    let told = told(&story);
    let last = told.last().unwrap();
    assert!(last.starts_with("failed_requires_human: Safety threshold"), "{last}");
    assert!(last.contains("20 files, 500 lines; at most 8 files and 300 lines"), "{last}");
    let views = [IncidentView::of(story.journal.clone()).unwrap()];
    let state = status(&views, &RepairScene::default()).active_repairs.remove(0);
    assert_eq!(state.state, RepairStanding::NeedsHuman);
    assert_eq!(state.agent[0].reported, size(20, 500).into());
    assert_eq!(state.agent[0].measured, size(1, 1).into());
    assert_eq!(state.question.unwrap().number, 1);
}

#[test]
fn the_status_has_active_and_recent_repairs_and_the_servers() {
    let story = awaiting(agent_policy());
    let servers = up();
    let scene = RepairScene { servers: &servers, ..RepairScene::default() };
    let views = [IncidentView::of(story.journal.clone()).unwrap()];
    let got = serde_json::to_value(status(&views, &scene)).unwrap();
    assert_eq!(got["active"], true);
    assert_eq!(got["phase"], "awaiting_agent");
    assert_eq!(got["activeRepairs"][0]["state"], "awaiting_agent");
    assert_eq!(got["servers"][0]["state"], "stopped");
    assert_eq!(got["servers"][0]["exit"], "exit 1");
    let deserted = [id()];
    let left = RepairScene { deserted: &deserted, ..scene };
    assert_eq!(status(&views, &left).active_repairs[0].state, RepairStanding::Deserted);
    let other = RepairScene { server: Some("api"), ..scene };
    let none = status(&views, &other);
    assert!(none.active_repairs.is_empty() && none.servers.is_empty() && !none.active);

    let mut over = story.clone();
    over.by(person("ada"), Event::Incident(IncidentEvent::Resolved { note: None })).unwrap();
    over.by(
        Actor::Salve(process(1)),
        Event::Incident(IncidentEvent::Finished { effect: 2, report: EffectReport::Done }),
    )
    .unwrap();
    let views = [IncidentView::of(over.journal.clone()).unwrap()];
    let got = status(&views, &scene);
    assert_eq!((got.active, got.recent_repairs[0].state), (false, RepairStanding::Resolved));
}

#[test]
fn errors_are_open_crashes_first_with_the_way_to_the_repair() {
    let story = awaiting(agent_policy());
    let mut over = crash(agent_policy());
    over.by(person("ada"), Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Abort }))
        .unwrap();
    let views = [
        IncidentView::of(over.journal.clone()).unwrap(),
        IncidentView::of(story.journal.clone()).unwrap(),
    ];
    let got = serde_json::to_value(errors(&views, &[], &RepairScene::default())).unwrap();
    assert_eq!(got["open"], 1);
    assert_eq!(got["browserErrors"], json!([]));
    let first = &got["errors"][0];
    assert_eq!(first["type"], "crash");
    assert_eq!(first["resolved"], false);
    assert_eq!(first["severity"], "error");
    assert_eq!(first["repairId"], id().to_string());
    assert_eq!(first["logPath"], ".dev-crash.00000000.log");
    assert_eq!(first["message"], "Dev server crashed (exit 1): it broke");
    assert!(first["hint"].as_str().unwrap().contains("canvas_get_repair_task"));
    assert_eq!(got["errors"][1]["resolved"], true);
}

#[test]
fn what_pages_report_is_told_once_however_often_until_the_server_is_started_again() {
    let text = crate::scrub::Scrubbed::literal;
    let report = |server, message, place| {
        Event::Server(ServerEvent::PageFailed(PageFailure {
            server: text(server),
            way: PageFailureWay::Uncaught,
            message: text(message),
            place: Some(text(place)),
            page: text("/cart"),
        }))
    };
    let at = |second| Timestamp::from_second(second).unwrap();
    let by = || Actor::Salve(process(1));
    let entries: Vec<Entry> = [
        (10, report("web", "x is not defined", "/src/a.js:3:9")),
        (20, report("web", "x is not defined", "/src/a.js:3:9")),
        (30, report("web", "x is not defined", "/src/b.js:1:1")),
        (40, report("api", "y is null", "/src/c.js:1:1")),
    ]
    .into_iter()
    .zip(1..)
    .map(|((second, event), seq)| Entry {
        seq,
        at: at(second),
        by: by(),
        incident: None,
        event,
        seal: None,
    })
    .collect();
    let told = |scene: &RepairScene<'_>| -> Vec<(String, usize)> {
        let errors = browser_errors(&entries, scene);
        errors.into_iter().map(|error| (error.place.unwrap(), error.count)).collect()
    };
    let row = |place: &str, count| (place.to_owned(), count);
    let all = [row("/src/c.js:1:1", 1), row("/src/b.js:1:1", 1), row("/src/a.js:3:9", 2)];
    assert_eq!(told(&RepairScene::default()), all);
    let only = RepairScene { server: Some("web"), ..RepairScene::default() };
    assert_eq!(told(&only), all[1..]);
    let started = Event::Server(ServerEvent::Started {
        server: text("web"),
        process: process(2),
        command: text("npm run dev"),
        run: text("run"),
    });
    let start = Entry { seq: 9, at: at(25), by: by(), incident: None, event: started, seal: None };
    let servers = servers([&start]);
    let scene = RepairScene { servers: &servers, ..RepairScene::default() };
    assert_eq!(told(&scene), all[..2], "what an earlier start showed may be mended");
}

#[test]
fn what_was_ignored_is_told_as_such_and_brings_about_no_phase() {
    let mut story = awaiting(agent_policy());
    let event = Event::Incident(IncidentEvent::Approved {
        question: 1,
        digest: crate::event::Digest::of(&[b"x"]),
        note: None,
    });
    story.by(agent(), event).unwrap_err();
    let view = IncidentView::of(story.journal.clone()).unwrap();
    let line = view.lines().last().unwrap();
    assert!(line.ignored.is_some() && line.notices.is_empty());
    assert_eq!(view.phase().as_str(), "awaiting_agent");
}

#[test]
fn a_refill_adds_to_the_attempts_there_may_be() {
    let limits = ResourceLimits { attempts: Some(1), ..ResourceLimits::default() };
    let mut story = crash(IncidentPolicy { limits, ..agent_policy() });
    assert_eq!(IncidentView::of(story.journal.clone()).unwrap().max_attempts(), 1);
    let granted = crate::event::Amounts { attempts: 2, ..Default::default() };
    story.by(person("ada"), Event::Incident(IncidentEvent::Refilled { granted })).unwrap();
    assert_eq!(IncidentView::of(story.journal.clone()).unwrap().max_attempts(), 3);
}

#[test]
fn agents_are_called_by_their_names() {
    for (name, title) in [
        ("claude-code", "Claude Code"),
        ("codex-mcp-client", "Codex"),
        ("gemini-cli-mcp-client", "Gemini CLI"),
        ("my bot", "my bot"),
        (" ", "An agent"),
    ] {
        assert_eq!(agent_title(&Scrubbed::literal(name)), title);
    }
}

#[test]
fn the_whole_story_tells_who_did_what_and_what_was_ignored() {
    let mut story = awaiting(agent_policy());
    say(&mut story, AgentMark::WroteFiles, size(1, 3));
    story.finish(Effect::Measure, EffectReport::Measured(size(2, 4)));
    story.by(agent(), Event::Incident(IncidentEvent::Resolved { note: None })).unwrap_err();
    story
        .by(person("ada"), Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Pause }))
        .unwrap();
    let whole = IncidentStory::of(
        &IncidentView::of(story.journal.clone()).unwrap(),
        &RepairScene::default(),
    );
    let told: Vec<_> = whole.timeline.iter().map(|at| format!("{} {}", at.by, at.text)).collect();
    let want = [
        "salve web failed (exit 1): it broke",
        "salve took it up",
        "salve chose `agent`: allowed (because)",
        "salve is keeping the files safe",
        "salve done",
        "salve is applying the remedy",
        "coder says it has finished, reporting 1 file, 3 lines: fixed the import",
        "salve is measuring what changed",
        "salve measured 2 files, 4 lines",
        "coder settled it",
        "ada paused it",
    ];
    assert_eq!(told, want);
    let ignored: Vec<_> = whole.timeline.iter().filter(|at| at.ignored.is_some()).collect();
    assert_eq!(ignored.len(), 1);
    assert_eq!(ignored[0].ignored.as_deref(), Some("only a named person may say this"));
}

#[test]
fn an_agent_that_salve_starts_is_told_what_failed_before() {
    let mut story = awaiting(agent_policy());
    say(&mut story, AgentMark::WroteFiles, size(1, 3));
    fail(&mut story);
    await_agent(&mut story);
    story
        .salve(Event::Incident(IncidentEvent::Finished {
            effect: 6,
            report: EffectReport::NoAgent,
        }))
        .unwrap();
    story.finish(Effect::Measure, EffectReport::Measured(size(0, 0)));
    let again = EffectReport::Verified {
        proof: Proof::Failed,
        symptom: Some(Box::new(Symptom { exit: Some(ProcessExit::Code(1)), ..symptom(1, "tree") })),
    };
    story.finish(Effect::Verify, again);
    await_agent(&mut story);
    let view = IncidentView::of(story.journal.clone()).unwrap();
    let told = earlier(&view).map(|one| (one.attempt, one.what.to_string()));
    let idle = "nothing was changed, the server was only restarted";
    let want = [(1, "fixed the import"), (2, idle)].map(|(attempt, what)| (attempt, what.into()));
    assert_eq!(told.collect::<Vec<_>>(), want);
}

#[test]
fn edits_without_a_word_are_an_agents_repair_too() {
    for (files, want) in
        [(2, "Dev server recovered after agent repair!"), (0, "Dev server recovered!")]
    {
        let mut story = awaiting(agent_policy());
        let launched = Event::Incident(IncidentEvent::AgentLaunched {
            effect: 2,
            process: process(7),
            agent: Scrubbed::literal("codex"),
            model: None,
            limit_ms: 1_000,
        });
        story.salve(launched).unwrap();
        story
            .salve(Event::Incident(IncidentEvent::Finished {
                effect: 2,
                report: EffectReport::Done,
            }))
            .unwrap();
        story.finish(Effect::Measure, EffectReport::Measured(size(files, files)));
        let well = EffectReport::Verified { proof: Proof::Proven, symptom: None };
        story.finish(Effect::Verify, well);
        let view = IncidentView::of(story.journal.clone()).unwrap();
        let (_, last) = view.notices().next_back().unwrap();
        assert_eq!((last.phase.as_str(), last.message.as_str()), ("recovered", want));
        assert_eq!(view.work(1).unwrap().agent, Some(Scrubbed::literal("codex")));
    }
}
