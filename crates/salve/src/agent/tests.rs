//! Stand-ins that speak each agent's own stream, found in `PATH` under the agent's own name.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use salve_core::agent::known_agents;
use salve_core::scrub::ScrubKey;
use uuid::Uuid;

use super::*;
use crate::process::tests::alone;

/// Long enough for anything that ends by itself on a busy machine.
const AMPLE: Duration = Duration::from_secs(60);

const BOUNDS: AgentBounds =
    AgentBounds { wall: AMPLE, idle: AMPLE, tokens: None, work: None, money_micros: None };

/// A project and a directory of programs that comes first in `PATH`.
struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    /// Puts `script` into the place of `program`.
    fn new(program: &str, script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir(dir.path().join("project")).unwrap();
        fs::write(bin.join(program), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(bin.join(program), Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    fn task(&self, bounds: AgentBounds) -> AgentTask {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.dir.path().join("bin").display());
        AgentTask {
            agent: "stand-in".into(),
            prompt: "mend {model} it".into(),
            dir: self.dir.path().join("project"),
            mcp: Mcp { command: "/opt/salve".into(), args: vec!["mcp".into()] },
            model: None,
            env: vec![("PATH".into(), path)],
            ground: AgentGround::Tree,
            reach: EditReach::Project,
            bounds,
            transcript: None,
        }
    }

    fn start(
        &self,
        profile: &Profile,
        bounds: AgentBounds,
    ) -> (AgentRun, Arc<Mutex<Vec<AgentEvent>>>) {
        let events = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&events);
        let on = Box::new(move |event| log.lock().unwrap().push(event));
        let scrubber = Scrubber::new(ScrubKey::new([1; 32]));
        let agent = start(&care(), profile, &self.task(bounds), &scrubber, on).unwrap();
        (agent, events)
    }

    fn written(&self, file: &str) -> String {
        fs::read_to_string(self.dir.path().join("project").join(file)).unwrap()
    }
}

/// Runs a stand-in for a known agent to its end.
fn run(agent: &str, script: &str, bounds: AgentBounds) -> (Ending, Vec<AgentEvent>, Stage) {
    let stage = Stage::new(agent, script);
    let (agent, events) = stage.start(&Profile::shipped(agent).unwrap(), bounds);
    let ending = agent.wait(AMPLE * 2).unwrap();
    let events = events.lock().unwrap().clone();
    assert_eq!(events.last(), Some(&AgentEvent::Ended(Box::new(ending.clone()))));
    (ending, events, stage)
}

fn care() -> Supervisor {
    Supervisor::start(Uuid::new_v4()).unwrap()
}

fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

const CLAUDE_WORKS: &str = r#"
printf '%s\n' "$@" > args; printf '%s' "$SALVE_AGENT" > mark; cat > stdin
echo '{"type":"system","subtype":"init","session_id":"s1"}'
echo '{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","name":"Edit"}],"usage":{"input_tokens":100,"output_tokens":20}}}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"Fixed.","total_cost_usd":0.25,"usage":{"input_tokens":150,"output_tokens":50}}'
"#;

#[test]
fn claude_gets_its_task_and_is_charged_for_it() {
    let _alone = alone();
    let (ending, events, stage) = run("claude", CLAUDE_WORKS, BOUNDS);
    assert_eq!((ending.end, ending.text.as_str()), (End::Finished, "Fixed."));
    let spent = Amounts { tokens: 200, money_micros: 250_000, ..Amounts::default() };
    assert_eq!((ending.spent, ending.exit), (spent, ProcessExit::Code(0)));
    assert!(events.contains(&AgentEvent::Spent(spent)), "{events:?}");
    assert!(matches!(&events[0], AgentEvent::Activity(Activity::Session(id)) if *id == "s1"));
    let args = stage.written("args");
    assert!(args.starts_with("-p\nmend {model} it\n--output-format\nstream-json\n"), "{args}");
    assert!(
        args.contains(r#"{"mcpServers":{"salve":{"args":["mcp"],"command":"/opt/salve""#),
        "{args}"
    );
    assert!(!args.contains("--model"), "{args}");
    assert_eq!(stage.written("mark"), "stand-in");
    assert_eq!(stage.written("stdin"), "");
}

#[test]
fn one_that_its_service_refuses_is_ended_at_the_first_refusal() {
    let _alone = alone();
    let line = r#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":515.3,"error_status":401,"error":"authentication_failed"}"#;
    let script = format!("echo '{line}'\nsleep 600\n");
    let (ending, events, _) = run("claude", &script, BOUNDS);
    assert_eq!(ending.end, End::Failed(Trouble::Auth), "{ending:?}");
    assert!(ending.took < BOUNDS.wall, "{:?}", ending.took);
    assert!(ending.text.as_str().contains("attempt 1 of 10"), "{ending:?}");
    let told = |event: &AgentEvent| matches!(event, AgentEvent::Activity(Activity::Trouble(..)));
    assert!(!events.iter().any(told), "the ending says it once: {events:?}");
}

#[test]
fn one_that_sleeps_until_its_service_takes_it_again_is_idle_whatever_it_shuffles() {
    let _alone = alone();
    let line =
        r#"{"type":"error","message":"Reconnecting... 1/5 (last status: 429 Too Many Requests)"}"#;
    // It computes, starts processes and writes all the time.
    let script = format!("echo '{line}'\nwhile :; do head -c 9000 /dev/zero > shuffled; done\n");
    let bounds = AgentBounds { idle: Duration::from_millis(600), ..BOUNDS };
    let (ending, events, _) = run("codex", &script, bounds);
    assert_eq!(ending.end, End::Failed(Trouble::RateLimit), "{ending:?}");
    assert!(ending.text.as_str().contains("attempt 1 of 5"), "{ending:?}");
    let told = |event: &&AgentEvent| matches!(event, AgentEvent::Activity(Activity::Trouble(..)));
    assert_eq!(events.iter().filter(told).count(), 1, "{events:?}");
}

#[test]
fn one_that_is_being_answered_is_not_idle() {
    let _alone = alone();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move || {
        let (mut there, _) = listener.accept().unwrap();
        while std::io::Write::write_all(&mut there, b": ping\n").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let service = std::thread::spawn(serve);
    let script = format!(
        "exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; sleep 4; \
         echo \"{{\\\"type\\\":\\\"turn.completed\\\"}}\"'\n"
    );
    let bounds = AgentBounds { idle: Duration::from_secs(2), ..BOUNDS };
    let (ending, ..) = run("codex", &script, bounds);
    assert_eq!(ending.end, End::Finished, "{ending:?}");
    service.join().unwrap();
}

#[test]
fn one_that_says_it_sleeps_longer_than_it_may_be_idle_is_ended_at_once() {
    let _alone = alone();
    let line = r#"{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":3600000,"error_status":429,"error":"rate_limit"}"#;
    let script = format!("echo '{line}'\nsleep 600\n");
    let (ending, ..) = run("claude", &script, BOUNDS);
    assert_eq!(ending.end, End::Failed(Trouble::RateLimit), "{ending:?}");
    assert!(ending.took < BOUNDS.idle, "{:?}", ending.took);
    assert!(ending.text.as_str().contains("the next in 3600 s"), "{ending:?}");
}

#[test]
fn one_that_wakes_up_again_is_not_idle() {
    let _alone = alone();
    let script = r#"
echo 'Attempt 1 failed with status 503. Retrying with backoff... _ApiError' >&2
sleep 0.1
echo '{"type":"init","session_id":"g","model":"m"}'
i=0; while [ $i -lt 14 ]; do sleep 0.2; i=$((i + 1)); done
echo '{"type":"result","status":"success","stats":{}}'
"#;
    let bounds = AgentBounds { idle: Duration::from_secs(2), ..BOUNDS };
    let (ending, events, _) = run("gemini", script, bounds);
    assert_eq!(ending.end, End::Finished, "{ending:?}");
    let told = |event: &AgentEvent| {
        matches!(event, AgentEvent::Activity(Activity::Trouble(Trouble::Overloaded, text))
            if text.as_str() == "status 503, attempt 1")
    };
    assert!(events.iter().any(told), "{events:?}");
}

#[test]
fn codex_and_gemini_get_theirs_in_their_own_way() {
    let _alone = alone();
    let script = r#"
printf '%s\n' "$@" > args
echo '{"type":"thread.started","thread_id":"t"}'
echo '{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":30,"cached_input_tokens":10,"output_tokens":5}}'
"#;
    let (ending, _, stage) = run("codex", script, BOUNDS);
    assert_eq!((ending.end, ending.spent.tokens), (End::Finished, 25));
    let args = stage.written("args");
    assert!(args.contains("mcp_servers.salve.command=\"/opt/salve\"\n"), "{args}");
    assert!(args.contains("mcp_servers.salve.args=[\"mcp\"]\n"), "{args}");
    assert!(args.contains("\nmend {model} it\n"), "{args}");

    let script = r#"
cp "$GEMINI_CLI_HOME/.gemini/settings.json" settings
echo 'Loaded cached credentials.'
echo '{"type":"init","session_id":"g","model":"m"}'
echo '{"type":"result","status":"success","stats":{"total_tokens":70,"input_tokens":50,"output_tokens":10,"cached":20}}'
"#;
    let (ending, _, stage) = run("gemini", script, BOUNDS);
    assert_eq!((ending.end, ending.spent.tokens, ending.unknown), (End::Finished, 50, 1));
    let settings: serde_json::Value = serde_json::from_str(&stage.written("settings")).unwrap();
    assert_eq!(settings["mcpServers"]["salve"]["command"], "/opt/salve");
}

#[test]
fn a_role_of_a_loop_has_no_tools_of_repairs() {
    let stage = Stage::new("none", "");
    for runtime in known_agents().iter().map(|known| known.name.as_str()) {
        let mut task = stage.task(BOUNDS);
        let words = |task: &AgentTask| {
            let filled = Profile::shipped(runtime).unwrap().fill(task, &task.mcp).unwrap();
            let argv = filled.argv.iter().map(|word| word.to_string_lossy().into_owned());
            let env = filled.env.into_iter().map(|(name, value)| format!("{name}={value}"));
            argv.chain(env).collect::<Vec<_>>().join(" ")
        };
        let has_tools = |words: &str| words.contains("/opt/salve") || words.contains("HOME");
        assert!(has_tools(&words(&task)), "{}", words(&task));
        task.reach = EditReach::Loop;
        assert!(!has_tools(&words(&task)), "{}", words(&task));
    }
}

#[test]
fn any_program_takes_its_task_by_stdin_argument_or_file() {
    let _alone = alone();
    for (words, file) in [(&["fixer"][..], "stdin"), (&["fixer", "{prompt_file}"], "file")] {
        let script = "cat > stdin; [ -n \"$1\" ] && cp \"$1\" file; echo '{\"type\":\"spent\",\"tokens\":3}'";
        let stage = Stage::new("fixer", &format!("{script}; exit 0"));
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let (agent, _) = stage.start(&Profile::command(&words).unwrap(), BOUNDS);
        let ending = agent.wait(AMPLE).unwrap();
        assert_eq!((ending.end, ending.spent.tokens), (End::Finished, 3));
        assert_eq!(stage.written(file), "mend {model} it");
    }
}

#[test]
fn an_agent_that_cannot_work_says_why() {
    let _alone = alone();
    let said = "Not logged in · Please run /login";
    let script = format!(
        r#"echo '{{"type":"result","subtype":"success","is_error":true,"result":"{said}"}}'; exit 1"#
    );
    let (ending, ..) = run("claude", &script, BOUNDS);
    assert_eq!((ending.end, ending.text.as_str()), (End::Failed(Trouble::Auth), said));
    assert_eq!(ending.exit, ProcessExit::Code(1));

    let script = "echo 'Please set an Auth method in your settings.json' >&2; exit 41";
    let (ending, ..) = run("gemini", script, BOUNDS);
    assert_eq!(ending.end, End::Failed(Trouble::Auth));
    assert!(ending.text.as_str().starts_with("Please set an Auth method"), "{}", ending.text);

    let script =
        r#"echo '{"type":"turn.failed","error":{"message":"You hit your usage limit"}}'; exit 1"#;
    let (ending, ..) = run("codex", script, BOUNDS);
    assert_eq!(ending.end, End::Failed(Trouble::RateLimit));
}

#[test]
fn an_end_without_a_result_and_garbage_are_no_success() {
    let _alone = alone();
    for runtime in known_agents().iter().map(|known| known.name.as_str()) {
        let script = "echo '{\"type\":\"init\"'; printf 'bad \\377\\000 bytes\\n'; echo '[1]'";
        let (ending, ..) = run(runtime, script, BOUNDS);
        assert_eq!((ending.end, ending.unknown), (End::NoResult, 3), "{runtime:?}");
    }
    let (ending, ..) = run("codex", "kill -SEGV $$", BOUNDS);
    assert_eq!((ending.end, ending.exit), (End::Failed(Trouble::Other), ProcessExit::Signal(11)));
}

#[test]
fn silent_work_is_not_idle_but_silence_is() {
    let _alone = alone();
    let bounds = AgentBounds { idle: Duration::from_millis(800), ..BOUNDS };
    let (ending, ..) = run("claude", "sleep 1000", bounds);
    assert_eq!(ending.end, End::Idle);
    let bounds = AgentBounds { wall: Duration::from_secs(4), ..bounds };
    let (ending, ..) = run("claude", "while :; do :; done", bounds);
    assert_eq!(ending.end, End::TimedOut);
    assert!(ending.took >= bounds.wall, "{:?}", ending.took);
}

#[test]
fn over_its_budget_it_is_ended_with_all_it_started() {
    let _alone = alone();
    let script = r#"
setsid sleep 1000 & echo $! > child
echo '{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":600,"output_tokens":1}}}'
echo '{"type":"assistant","message":{"id":"m2","content":[],"usage":{"input_tokens":600,"output_tokens":1}}}'
wait
"#;
    let bounds = AgentBounds { tokens: Some(1000), ..BOUNDS };
    let (ending, events, stage) = run("claude", script, bounds);
    assert_eq!(ending.end, End::OverBudget(Resource::Tokens));
    assert_eq!(ending.spent.tokens, 1202);
    assert!(events.contains(&AgentEvent::Spent(ending.spent)), "{events:?}");
    assert!(has_ended(stage.written("child").trim().parse().unwrap()));
    let script = r#"echo '{"type":"spent","cost_usd":2}'; exec sleep 1000"#;
    let stage = Stage::new("fixer", script);
    let bounds = AgentBounds { money_micros: Some(1_999_999), ..BOUNDS };
    let (agent, _) = stage.start(&Profile::command(&["fixer".into()]).unwrap(), bounds);
    assert_eq!(agent.wait(AMPLE).unwrap().end, End::OverBudget(Resource::MoneyMicros));
}

#[test]
fn what_an_agent_program_tells_its_model_is_no_work() {
    let _alone = alone();
    // The instructions of the program itself are long, and each answer has several lines.
    let opening = r#"
echo '{"type":"system","subtype":"init","session_id":"s"}'
for part in thinking tool_use; do
echo '{"type":"assistant","message":{"id":"m1","content":[{"type":"'$part'","name":"Edit"}],"usage":{"input_tokens":4,"cache_creation_input_tokens":18000,"output_tokens":90}}}'
done
"#;
    let end = r#"
echo '{"type":"assistant","message":{"id":"m2","content":[],"usage":{"input_tokens":6,"cache_creation_input_tokens":700,"cache_read_input_tokens":18000,"output_tokens":200}}}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"Fixed.","usage":{"input_tokens":10,"cache_creation_input_tokens":18700,"cache_read_input_tokens":18000,"output_tokens":290}}'
"#;
    let bounds = AgentBounds { work: Some(1000), ..BOUNDS };
    let (ending, ..) = run("claude", &format!("{opening}{end}"), bounds);
    assert_eq!((ending.end, ending.spent.tokens), (End::Finished, 19_000), "all of it is charged");
    let (ending, ..) =
        run("claude", &format!("{opening}{end}"), AgentBounds { tokens: Some(15_000), ..bounds });
    assert_eq!(ending.end, End::OverBudget(Resource::Tokens), "what is left in all holds too");
    let more = r#"
echo '{"type":"assistant","message":{"id":"m2","content":[],"usage":{"input_tokens":6,"cache_creation_input_tokens":700,"output_tokens":300}}}'
exec sleep 1000
"#;
    let (ending, ..) = run("claude", &format!("{opening}{more}"), bounds);
    assert_eq!(ending.end, End::OverBudget(Resource::Tokens));
    // What is told only at the end stops nothing.
    let codex =
        r#"echo '{"type":"turn.completed","usage":{"input_tokens":30000,"output_tokens":5}}'"#;
    let (ending, ..) = run("codex", codex, bounds);
    assert_eq!((ending.end, ending.spent.tokens), (End::Finished, 30_005));
}

#[test]
fn a_flood_is_bounded_and_an_endless_line_passed_over() {
    let _alone = alone();
    let script = r#"
yes '{"type":"message","role":"assistant","content":"x"}' | head -n 20000
head -c 9000000 /dev/zero | tr '\0' 'x'; echo
echo '{"type":"result","status":"success"}'
"#;
    let (ending, events, _) = run("gemini", script, BOUNDS);
    assert_eq!((ending.end, ending.unknown), (End::Finished, 1));
    assert!(events.len() < 2000, "{}", events.len());
}

#[test]
fn one_that_was_told_to_stop_ends_though_it_ignores_it() {
    let _alone = alone();
    let script = "trap '' TERM; echo '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}'; while :; do sleep 1; done";
    let stage = Stage::new("claude", script);
    let (agent, _) = stage.start(&Profile::shipped("claude").unwrap(), BOUNDS);
    agent.stop();
    let ending = agent.wait(AMPLE).unwrap();
    assert_eq!(ending.end, End::Stopped);
    assert!(has_ended(agent.process().pid));
}

#[test]
fn a_missing_program_is_told_as_such() {
    let _alone = alone();
    let stage = Stage::new("other", "exit 0");
    let profile = Profile::command(&["no-such-agent".into()]).unwrap();
    let scrubber = Scrubber::new(ScrubKey::new([1; 32]));
    let started = start(&care(), &profile, &stage.task(BOUNDS), &scrubber, Box::new(|_| {}));
    assert!(started.unwrap_err().is_missing());
}
