//! Agents that `salve dev` starts itself, played by scripts that print what the real ones print.

use salve_core::event::{
    Amounts, EffectReport, Event, IncidentEvent, IncidentOutcome, Proof, Resource,
};
use salve_core::incident::Phase;
use serde_json::json;

use crate::bench::{BROKEN, Bench, MENDED, REPAIRED, is_alive, signal, wait_until};
use crate::mcp::Client;
use crate::support::has_process;

/// Mends the server, as an agent's edit does.
const MEND: &str = "printf 'exec sleep 300\\n' > app.sh\n";

const CLAUDE: &str = r#"
echo '{"type":"system","subtype":"init","session_id":"0b6c","tools":["Read","Edit"],"mcp_servers":[{"name":"salve","status":"connected"}],"model":"claude-sonnet-4-5","permissionMode":"acceptEdits"}'
echo '{"type":"assistant","message":{"id":"msg_01","role":"assistant","content":[{"type":"tool_use","id":"toolu_01","name":"Edit","input":{"file_path":"app.sh"}}],"usage":{"input_tokens":1200,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":80}},"session_id":"0b6c"}'
EDIT
echo '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01","content":"ok"}]},"session_id":"0b6c"}'
echo '{"type":"result","subtype":"success","is_error":false,"duration_ms":5123,"num_turns":3,"result":"Defined `total` before its use.","session_id":"0b6c","total_cost_usd":0.0423,"usage":{"input_tokens":1500,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":120}}'
"#;

const CODEX: &str = r#"
echo '{"type":"thread.started","thread_id":"0199a213"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"item_0","type":"reasoning","text":"**Reading the log**"}}'
EDIT
echo '{"type":"item.completed","item":{"id":"item_1","type":"file_change","changes":[{"path":"app.sh","kind":"update"}],"status":"completed"}}'
echo '{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"Defined total."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1000,"cached_input_tokens":0,"output_tokens":20}}'
"#;

const GEMINI: &str = r#"
echo '{"type":"init","timestamp":"2026-01-01T00:00:00Z","session_id":"g-1","model":"gemini-2.5-pro"}'
echo '{"type":"tool_use","timestamp":"2026-01-01T00:00:01Z","tool_name":"replace","tool_id":"r-1","parameters":{"file_path":"app.sh"}}'
EDIT
echo '{"type":"tool_result","timestamp":"2026-01-01T00:00:02Z","tool_id":"r-1","status":"success"}'
echo '{"type":"result","timestamp":"2026-01-01T00:00:03Z","status":"success","stats":{"total_tokens":900,"input_tokens":700,"output_tokens":200,"cached":0,"duration_ms":3000,"tool_calls":1}}'
"#;

const FIXER: &str = r#"
cat > task
EDIT
echo '{"type":"spent","tokens":40,"cost_usd":0.01}'
"#;

/// Returns what was spent, by tokens and money.
fn spent(bench: &Bench) -> (u64, u64) {
    let Amounts { tokens, money_micros, .. } = bench.incident().ledger().spent();
    (tokens, money_micros)
}

#[test]
fn each_agent_repairs_without_a_word_and_is_charged_for_it() {
    for (runtime, script, cost) in [
        ("claude", CLAUDE, (1620, 42_300)),
        ("codex", CODEX, (1020, 0)),
        ("gemini", GEMINI, (900, 0)),
        ("command", FIXER, (40, 10_000)),
    ] {
        let script = script.replace("EDIT\n", &format!("cat .dev-crash.log > read\n{MEND}"));
        let bench = Bench::with_own(runtime, &script);
        let mut run = bench.dev(&[]);
        run.until("recovered");
        assert_eq!(bench.read("app.sh"), MENDED, "{runtime}");
        assert!(bench.read("read").contains("ReferenceError: total"), "{runtime}");
        wait_until("the end", || matches!(bench.incident().phase(), Phase::Closed(_)));
        let proven = Phase::Closed(IncidentOutcome::Recovered(Proof::Proven));
        assert_eq!(bench.incident().phase(), proven, "{runtime}");
        assert_eq!(spent(&bench), cost, "{runtime}");
        let told = bench.told(bench.incidents()[0]);
        assert_eq!(told.last().unwrap().1, "Dev server recovered after agent repair!");
        // Phases of an agent are told only when it reports them.
        let want: Vec<_> =
            REPAIRED.into_iter().filter(|name| !name.starts_with("agent_")).collect();
        assert_eq!(run.end().1, want, "{runtime}");
        if runtime == "command" {
            let task = bench.read("task");
            assert!(task.contains("ReferenceError: total is not defined"), "{task}");
        }
    }
}

/// Drives `salve mcp` by the registration that Claude Code is given on its command line.
const BY_MCP: &str = r#"
while [ $# -gt 0 ]; do
  case $1 in --mcp-config) config=$2;; esac
  shift
done
program=$(printf %s "$config" | sed 's/.*"command":"\([^"]*\)".*/\1/')
words=$(printf %s "$config" | sed 's/.*"args":\[\([^]]*\)\].*/\1/; s/"//g; s/,/ /g')
pipes=$(mktemp -d)
mkfifo "$pipes/to" "$pipes/from"
"$program" $words < "$pipes/to" > "$pipes/from" &
exec 3> "$pipes/to" 4< "$pipes/from"
rm -r "$pipes"
ask() {
  printf '%s\n' "$2" >&3
  while read -r answer <&4; do
    case $answer in *"\"id\":$1"[,}]*) return;; esac
  done
}
call() { ask "$1" "{\"jsonrpc\":\"2.0\",\"id\":$1,\"method\":\"tools/call\",\"params\":{\"name\":\"$2\",\"arguments\":$3}}"; }
ask 1 '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"claude-code","version":"2"}}}'
printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/initialized"}' >&3
call 2 canvas_get_repair_task '{}'
id=$(printf %s "$answer" | sed 's/.*"repairId":"\([^"]*\)".*/\1/')
call 3 canvas_mark_repair_step "{\"repairId\":\"$id\",\"phase\":\"agent_reading_log\"}"
call 4 canvas_mark_repair_step "{\"repairId\":\"$id\",\"phase\":\"agent_applying_fix\"}"
EDIT
call 5 canvas_mark_repair_step "{\"repairId\":\"$id\",\"phase\":\"agent_wrote_files\",\"filesChanged\":1,\"linesChanged\":3,\"message\":\"Defined total\"}"
"#;

#[test]
fn an_agent_reaches_salve_by_the_registration_it_was_given() {
    let result = CLAUDE.split("EDIT\n").nth(1).unwrap();
    let script = format!("{}{result}", BY_MCP.replace("EDIT\n", MEND));
    let bench = Bench::with_own("claude", &script);
    let mut run = bench.dev(&[]);
    run.until("recovered");
    let (_, phases) = run.end();
    assert_eq!(phases, REPAIRED);
    assert_eq!(spent(&bench), (1620, 42_300), "the last word came after the last mark");
}

#[test]
fn an_agent_that_changes_nothing_is_no_agent_and_the_server_is_restarted() {
    let bench = Bench::with_own("codex", &CODEX.replace("EDIT\n", ""));
    bench.project.write("app.sh", "[ -e been ] && exec sleep 300\n: > been\nexit 1\n");
    bench.project.write(".gitignore", "been\n");
    let mut run = bench.dev(&[]);
    run.until("recovered");
    let told = bench.told(bench.incidents()[0]);
    let ready = &told.iter().find(|(name, _)| *name == "ready_to_restart").unwrap().1;
    assert!(ready.starts_with("Codex changed nothing — restarting in"), "{ready}");
    let started = &told.iter().find(|(name, _)| *name == "repair_started").unwrap().1;
    assert!(started.ends_with("waiting for Codex"), "{started}");
    wait_until("the end", || matches!(bench.incident().phase(), Phase::Closed(_)));
    assert_eq!(
        bench.incident().phase(),
        Phase::Closed(IncidentOutcome::Recovered(Proof::Transient))
    );
}

#[test]
fn code_that_no_agent_changed_is_started_again_once_and_not_with_every_attempt() {
    let bench = Bench::with_own("codex", &CODEX.replace("EDIT\n", ""));
    bench.project.write("app.sh", format!("echo x >> ran\n{BROKEN}"));
    bench.project.write(".gitignore", "ran\n");
    let run = bench.dev(&[("REPAIR_COOLDOWN_MS", "1")]);
    assert_eq!(run.wait().0, Some(3));
    assert_eq!(bench.launched().len(), 2, "it is asked twice at most");
    assert_eq!(bench.read("ran"), "x\nx\n", "the crash, and one more start");
}

#[test]
fn an_agent_whose_service_is_busy_is_called_again_without_using_up_an_attempt() {
    let busy = r#"
if [ ! -e "$HOME/been" ]; then
  : > "$HOME/been"
  echo '{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":500,"error_status":529,"error":"overloaded"}'
  echo '{"type":"result","subtype":"success","is_error":true,"result":"API Error: 529 Overloaded","total_cost_usd":0.01,"usage":{"input_tokens":7,"output_tokens":0}}'
  exit 1
fi
"#;
    let script = format!("{busy}{}", CLAUDE.replace("EDIT\n", MEND));
    let bench = Bench::with_own("claude", &script);
    let mut run = bench.dev(&[]);
    let said = run.until_said("its service is busy");
    assert!(said.contains("called again in 2 s"), "{said}");
    run.until("recovered");
    assert_eq!(bench.launched().len(), 2);
    let Amounts { attempts, tokens, money_micros, .. } = bench.incident().ledger().spent();
    assert_eq!((attempts, tokens, money_micros), (1, 1627, 52_300), "both runs are paid for");
}

#[test]
fn what_did_not_help_is_undone_and_the_next_attempt_knows_of_it() {
    let edit = r#"
echo x >> "$HOME/tries"
printf '%s\n' "$@" > "$HOME/task-$(wc -l < "$HOME/tries")"
cp app.sh "$HOME/found-$(wc -l < "$HOME/tries")"
if [ "$(wc -l < "$HOME/tries")" -eq 1 ]; then
  echo "echo 'TypeError: worse' >&2; exit 2" > app.sh; echo new > added.js
else
  printf 'exec sleep 300\n' > app.sh
fi
"#;
    let bench = Bench::with_own("claude", &CLAUDE.replace("EDIT\n", edit));
    let mut run = bench.dev(&[]);
    run.until("failed");
    run.until("recovered");
    let home = |file: &str| std::fs::read_to_string(bench.project.home().join(file)).unwrap();
    assert_eq!((home("found-1").as_str(), home("found-2").as_str()), (BROKEN, BROKEN));
    assert!(!bench.project.dir().join("added.js").exists());
    let task = home("task-2");
    assert!(task.contains("attempt: 2 of 3"), "{task}");
    assert!(task.contains("- attempt 1: ") && task.contains("TypeError: worse"), "{task}");
    assert_eq!(spent(&bench), (3240, 84_600), "both runs are paid for");
    let id = bench.incidents()[0].to_string();
    drop(run);
    let undone = bench.project.run(&["undo", &id]);
    assert!(undone.status.success(), "{undone:?}");
    assert_eq!(bench.read("app.sh"), BROKEN);
}

#[test]
fn the_same_repair_again_and_again_is_no_progress_and_goes_to_a_person() {
    let edit = "echo \"# the same\" >> app.sh\n";
    let bench = Bench::with_own("command", &format!("cat > /dev/null\n{edit}"));
    let mut run = bench.dev(&[("REPAIR_MAX_ATTEMPTS", "9")]);
    run.until("failed_requires_human");
    assert_eq!(run.phases.iter().filter(|phase| *phase == "failed").count(), 3);
    assert!(!run.phases.iter().any(|phase| phase == "exhausted"), "{:?}", run.phases);
    let told = bench.told(bench.incidents()[0]);
    assert!(told.last().unwrap().1.contains("keeps coming back"), "{told:?}");
    assert_eq!(bench.launched().len(), 3);
    run.end();
}

#[test]
fn what_did_not_help_stays_where_that_is_wanted() {
    let bench = Bench::with_own("codex", &CODEX.replace("EDIT\n", "echo 'exit 2' >> app.sh\n"));
    let run = bench.dev(&[
        ("SALVE_AGENT_ON_FAILURE", "keep"),
        ("REPAIR_MAX_ATTEMPTS", "2"),
        ("REPAIR_COOLDOWN_MS", "1"),
    ]);
    assert_eq!(run.wait().0, Some(3));
    assert_eq!(bench.read("app.sh"), format!("{BROKEN}exit 2\nexit 2\n"));
}

/// An agent that starts a process which leaves its session, and then waits for ever.
const ENDLESS: &str = r#"
echo '{"type":"system","subtype":"init","session_id":"s"}'
setsid sh -c 'echo x >> ../up; while :; do sleep 1; done' "$0" &
while ! [ -s ../up ]; do sleep 0.01; done
echo 'half done' > app.sh
echo x >> ../up
while :; do sleep 1; done
"#;

/// Returns the words by which the endless agent and what it started are known.
fn words_of_agent(bench: &Bench) -> String {
    bench.project.home().join("bin/claude").to_string_lossy().into_owned()
}

/// Waits until the endless agent and what it started are at work; returns the words by which they are known.
fn at_work(bench: &Bench) -> String {
    wait_until("the agent", || bench.read("../up").lines().count() == 2);
    let words = words_of_agent(bench);
    assert!(has_process(&words));
    words
}

/// **Invariant:** An agent ends with Salve, with its incident and with its time.
#[test]
fn an_agent_ends_with_salve_with_the_incident_and_with_its_time() {
    for how in ["ctrl-c", "abort", "time"] {
        let bench = Bench::with_own("claude", ENDLESS);
        let limit = if how == "time" { "1500" } else { "600000" };
        let mut run =
            bench.dev(&[("SALVE_AGENT_WALL_LIMIT_MS", limit), ("REPAIR_MAX_ATTEMPTS", "1")]);
        run.until("awaiting_agent");
        // How far it comes in its time is up to the machine.
        let agent = if how == "time" { words_of_agent(&bench) } else { at_work(&bench) };
        match how {
            "ctrl-c" => assert_eq!(run.end().0, Some(130)),
            "abort" => {
                let id = bench.incidents()[0].to_string();
                assert!(bench.project.run(&["abort", &id]).status.success());
                run.until("aborted");
                assert_eq!(bench.read("app.sh"), BROKEN, "what was unproven is undone");
            }
            _ => {
                run.until("failed");
                wait_until("the way back", || bench.read("app.sh") == BROKEN);
            }
        }
        assert!(!has_process(&agent), "{how}");
    }
}

#[test]
fn a_killed_salve_leaves_no_agent_and_what_it_did_goes_with_it() {
    let bench = Bench::with_own("claude", &ENDLESS.replace("half done", "exit 9"));
    let mut run = bench.dev(&[]);
    run.until("awaiting_agent");
    let agent = at_work(&bench);
    wait_until("its start on record", || bench.launched().len() == 1);
    run.kill();
    bench.stand_in("claude", &CLAUDE.replace("EDIT\n", MEND));
    wait_until("the agent's end", || !has_process(&agent));
    let mut run = bench.dev(&[]);
    run.until("recovered");
    assert_eq!(bench.launched().len(), 2, "once for each attempt, never twice for one");
    assert_eq!(bench.incidents().len(), 1);
}

#[test]
fn the_worker_killed_alone_takes_its_agent_with_it() {
    let bench = Bench::with_own("claude", ENDLESS);
    let mut run = bench.dev(&[]);
    run.until("awaiting_agent");
    let agent = at_work(&bench);
    signal("KILL", run.worker());
    run.wait();
    assert!(!has_process(&agent));
}

#[test]
fn an_agent_that_does_nothing_is_ended_though_it_listens_to_salve() {
    let (until_taken, _) = BY_MCP.split_once("call 3").unwrap();
    let bench = Bench::with_own("claude", &format!("{until_taken}\nsleep 300\n"));
    let mut run = bench.dev(&[("SALVE_AGENT_IDLE_LIMIT_MS", "2000"), ("REPAIR_MAX_ATTEMPTS", "1")]);
    run.until("agent_started");
    run.until_said("showed no sign of life");
    run.until("failed");
}

#[test]
fn an_agent_over_its_budget_is_ended_and_so_is_the_incident() {
    let script = r#"
echo '{"type":"assistant","message":{"id":"m","content":[],"usage":{"input_tokens":900,"output_tokens":200}}}'
while :; do sleep 1; done
"#;
    let bench = Bench::with_own("claude", script);
    let run = bench.dev(&[("SALVE_AGENT_MAX_TOKENS", "1000"), ("REPAIR_COOLDOWN_MS", "1")]);
    let (code, phases) = run.wait();
    assert_eq!(code, Some(3));
    let ends = ["failed", "exhausted", "cooldown", "failed_requires_human"];
    assert!(phases.ends_with(&ends.map(str::to_owned)), "{phases:?}");
    assert_eq!(bench.launched().len(), 1, "there was nothing left for a second");
    assert_eq!(bench.incident().ledger().exhausted(), Some(Resource::Tokens));
}

#[test]
fn an_agent_that_cannot_work_or_is_not_there_says_why_and_the_server_is_restarted() {
    let denied = r#"echo '{"type":"result","subtype":"success","is_error":true,"result":"Not logged in"}'; exit 1"#;
    let bench = Bench::with_own("claude", denied);
    let mut run = bench.dev(&[("REPAIR_MAX_ATTEMPTS", "1"), ("REPAIR_COOLDOWN_MS", "1")]);
    let said = run.until_said("could not work");
    assert!(said.contains("Not logged in") && said.contains("log the agent in"), "{said}");
    run.until("failed_requires_human");
    let reports = bench.kind("finished");
    assert!(reports.iter().any(|entry| {
        matches!(
            entry.event,
            Event::Incident(IncidentEvent::Finished { report: EffectReport::NoAgent, .. })
        )
    }));

    let bench = Bench::with_own("command", "");
    bench.project.write(
        "salve.toml",
        "[agent]\nrepair = true\nautostart = true\nruntime = \"command\"\ncommand = [\"no-such-agent\"]\n",
    );
    let mut run = bench.dev(&[("AGENT_ENGAGE_TIMEOUT_MS", "1"), ("REPAIR_MAX_ATTEMPTS", "1")]);
    let said = run.until_said("no-such-agent");
    assert!(said.contains("not installed"), "{said}");
    run.until("failed");
}

#[test]
fn a_session_that_listens_is_given_the_repair_and_when_it_dies_an_agent_is_started() {
    let bench = Bench::with_own("codex", &CODEX.replace("EDIT\n", MEND));
    // A session attaches once there is a journal.
    assert!(bench.project.run(&["events", "note", "hello"]).status.success());
    let mut client = Client::hello(&bench.project, "claude-code");
    wait_until("a session", || !bench.kind("agent_attached").is_empty());
    let mut run = bench.dev(&[]);
    run.until("awaiting_agent");
    let task = client.call("canvas_get_repair_task", json!({}));
    assert_eq!(task["pending"], true, "{task}");
    run.until("agent_started");
    client.kill();
    run.until("recovered");
    assert_eq!(bench.launched().len(), 1);
}

#[test]
fn a_session_that_listens_and_does_nothing_costs_no_attempt() {
    let bench = Bench::with_own("codex", &CODEX.replace("EDIT\n", MEND));
    assert!(bench.project.run(&["events", "note", "hello"]).status.success());
    let _idle = Client::hello(&bench.project, "claude-code");
    wait_until("a session", || !bench.kind("agent_attached").is_empty());
    let mut run = bench.dev(&[("AGENT_ENGAGE_TIMEOUT_MS", "300")]);
    run.until("recovered");
    assert_eq!(bench.launched().len(), 1);
    assert_eq!(bench.incident().ledger().spent().attempts, 1);
    assert!(!run.phases.contains(&"failed".to_owned()), "{:?}", run.phases);
}

#[test]
fn what_an_agent_does_to_the_settings_is_left_out_and_told() {
    let edit =
        format!("{MEND}printf '[recovery]\\nauto_approve = [\"git push\"]\\n' >> salve.toml\n");
    let bench = Bench::with_own("codex", &CODEX.replace("EDIT\n", &edit));
    let mut run = bench.dev(&[]);
    run.until_said("the agent also wanted to change salve.toml");
    run.until("recovered");
    drop(run);
    assert!(!bench.read("salve.toml").contains("git push"));
}

#[test]
fn agents_work_one_at_a_time_and_the_other_server_waits_for_its_turn() {
    // Its own directory is what an agent shares with whoever is outside of its layer.
    let edit = r#"
own="$HOME/.claude"
echo begin >> "$own/turns"
while [ "$(grep -c begin "$own/turns")" -eq 1 ] && ! [ -e "$own/go" ]; do sleep 0.02; done
case "$*" in *'"one"'*) file=one.sh;; *) file=two.sh;; esac
printf 'exec sleep 300\n' > $file
echo end >> "$own/turns"
"#;
    let bench = Bench::with_own("claude", &CLAUDE.replace("EDIT\n", edit));
    let own = bench.project.home().join(".claude");
    std::fs::create_dir_all(&own).unwrap();
    for name in ["one", "two"] {
        bench.project.write(&format!("{name}.sh"), BROKEN);
    }
    let settings = bench.read("salve.toml");
    bench.project.write(
        "salve.toml",
        format!(
            "{settings}[servers.one]\ncommand = \"sh one.sh\"\n[servers.two]\ncommand = \"sh two.sh\"\n"
        ),
    );
    let mut run = bench.dev_all(&[]);
    run.until("awaiting_agent");
    wait_until("two incidents", || bench.incidents().len() == 2);
    let turns = || std::fs::read_to_string(own.join("turns")).unwrap_or_default();
    wait_until("a first turn", || turns() == "begin\n");
    std::fs::write(own.join("go"), "").unwrap();
    run.until("recovered");
    run.until("recovered");
    assert_eq!(turns(), "begin\nend\nbegin\nend\n");
    assert_eq!(bench.launched().len(), 2, "each had one turn, in its first attempt");
}

#[test]
fn nothing_is_judged_while_the_agent_that_says_it_has_finished_still_runs() {
    let script = format!(
        "{}{}",
        BY_MCP.replace("EDIT\n", MEND),
        "while :; do date >> late.txt; sleep 0.05; done\n"
    );
    let bench = Bench::with_own("claude", &script);
    let mut run = bench.dev(&[]);
    run.until("restarting");
    assert!(!bench.launched().into_iter().any(is_alive));
    run.until("recovered");
    let id = bench.incidents()[0].to_string();
    drop(run);
    assert!(bench.project.run(&["undo", &id]).status.success());
    assert_eq!(bench.read("app.sh"), BROKEN);
    assert!(!bench.project.dir().join("late.txt").exists(), "what came late was measured too");
}

#[test]
fn tokens_without_a_price_are_said_at_the_start_and_priced_by_the_settings() {
    let script = CODEX.replace("EDIT\n", MEND);
    let bench = Bench::with_own("codex", &script);
    let mut run = bench.dev(&[]);
    run.until_said("does not tell what it costs, so max_cents cannot hold");
    run.until("recovered");
    wait_until("the end", || matches!(bench.incident().phase(), Phase::Closed(_)));
    assert_eq!(spent(&bench), (1020, 0));
    run.end();

    let bench = Bench::with_own("codex", &script);
    let prices = "{ codex = { input_cents = 125, output_cents = 1000 } }";
    let mut run = bench.dev(&[("SALVE_AGENT_PRICES", prices)]);
    run.until("recovered");
    wait_until("the end", || matches!(bench.incident().phase(), Phase::Closed(_)));
    assert_eq!(spent(&bench), (1020, 1_450));
    run.end();
}
