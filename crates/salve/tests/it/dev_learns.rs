//! `salve dev` learns from repairs and uses what is known, as `salve heal` does.

use salve_core::event::{Event, IncidentEvent, IncidentOutcome, Proof, RemedyKind};
use salve_core::incident::{Incident, Phase};
use serde_json::{Value, json};

use crate::bench::{BROKEN, Bench, MENDED, wait_until};
use crate::mcp::Client;

/// Mends the server, as an agent's edit does.
const MEND: &str = "printf 'exec sleep 300\\n' > app.sh\n";

/// Where memory is kept for people.
const PATTERNS: &str = ".salve/learned/healing-patterns.json";

/// Returns the patterns that memory's file tells of.
fn patterns(bench: &Bench) -> Vec<Value> {
    let file: Value = serde_json::from_str(&bench.read(PATTERNS)).unwrap();
    file["patterns"].as_array().unwrap().clone()
}

/// Returns the last incident.
fn last(bench: &Bench) -> Incident {
    let id = *bench.incidents().last().unwrap();
    Incident::replay(&bench.entries(id)).unwrap()
}

/// Runs `salve dev` until the server is healed, and ends it.
fn heal(bench: &Bench) {
    let before = bench.incidents().len();
    let mut run = bench.dev(&[]);
    run.until("recovered");
    wait_until("the end", || {
        bench.incidents().len() > before && matches!(last(bench).phase(), Phase::Closed(_))
    });
    run.end();
    assert_eq!(last(bench).phase(), Phase::Closed(IncidentOutcome::Recovered(Proof::Proven)));
    assert_eq!(bench.read("app.sh"), MENDED);
}

#[test]
fn what_an_agent_repaired_heals_the_server_without_one_the_next_time() {
    let bench = Bench::with_own("command", &format!("cat > ../task\necho x >> ../calls\n{MEND}"));
    heal(&bench);
    let id = *bench.incidents().last().unwrap();
    let told = bench.entries(id);
    let changed = told.iter().find_map(|entry| match &entry.event {
        Event::Incident(IncidentEvent::FilesChanged { files, .. }) => Some(files.clone()),
        _ => None,
    });
    let changed = changed.expect("the journal says what files changed");
    assert!(changed.iter().any(|file| file.path == *"app.sh"), "{changed:?}");
    let first = patterns(&bench);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0]["fixes_attempted"][0]["result"], "success", "{first:?}");

    let seen = first[0]["last_seen"].as_str().unwrap();
    wait_until("the clock to go on", || format!("{:.0}", jiff::Timestamp::now()) != *seen);
    bench.project.write("app.sh", BROKEN);
    heal(&bench);
    let trial = last(&bench).trial().unwrap().remedy.kind;
    assert_eq!(trial, RemedyKind::Patch);
    assert_eq!(bench.read("../calls").lines().count(), 1, "no agent was called again");
    let second = patterns(&bench);
    assert_eq!(second[0]["first_seen"], first[0]["first_seen"]);
    assert_ne!(second[0]["last_seen"], first[0]["last_seen"], "it moves");
}

#[test]
fn what_did_not_help_is_learnt_as_that() {
    let worse = "[ -e ../tried ] || printf 'echo TypeError: worse >&2; exit 2\\n' > app.sh\n";
    let script = format!("cat > task\n{worse}[ -e ../tried ] && {MEND}\n: > ../tried");
    let bench = Bench::with_own("command", &script);
    heal(&bench);
    let told = patterns(&bench);
    let results: Vec<_> = told
        .iter()
        .flat_map(|one| one["fixes_attempted"].as_array().unwrap())
        .map(|attempt| attempt["result"].as_str().unwrap().to_owned())
        .collect();
    assert!(results.contains(&"failed".to_owned()), "{told:?}");
    assert!(results.contains(&"success".to_owned()), "{told:?}");
}

#[test]
fn an_agent_that_is_out_of_quota_is_not_called_again() {
    let script =
        "cat > task\necho x >> ../calls\necho 'You have reached your usage limit' >&2\nexit 1";
    let bench = Bench::with_own("command", script);
    let mut run = bench.dev(&[]);
    run.until("failed_requires_human");
    assert_eq!(bench.read("../calls").lines().count(), 1);
    run.end();
}

#[test]
fn a_breaker_stops_a_server_that_was_not_healed_before() {
    let bench = Bench::with_own("command", "cat > task\necho x >> ../calls");
    let settings = bench.read("salve.toml");
    bench.project.write("salve.toml", settings + "\n[heal.breakers]\nsame_error = 1\n");
    let mut run = bench.dev(&[]);
    run.until("failed_requires_human");
    assert!(!bench.project.dir().join("../calls").exists(), "nothing was tried");
    run.end();
}

#[test]
fn what_was_taught_reaches_the_agent_and_so_does_a_specialists_knowledge() {
    let bench = Bench::with_own("command", &format!("cat > task\n{MEND}"));
    let failure = "ReferenceError: total is not defined";
    let words = "define it in app.sh itself";
    let taught = bench.project.run(&["memory", "learn", "--instruction", words, failure]);
    assert!(taught.status.success(), "{taught:?}");
    let settings = bench.read("salve.toml");
    let expert =
        "\n[specialists.expert]\nclasses = [\"runtime_error\"]\nprompt = \"You know shells.\"\n";
    bench.project.write("salve.toml", settings + expert);
    heal(&bench);
    let task = bench.read("task");
    assert!(task.contains(words), "{task}");
    assert!(task.contains("You know shells."), "{task}");
}

#[test]
fn a_file_that_was_pasted_is_read_before_the_next_repair() {
    let bench = Bench::with_own("command", &format!("cat > task\necho x >> ../calls\n{MEND}"));
    heal(&bench);
    let pasted = bench.read(PATTERNS);
    let other = Bench::with_own("command", &format!("echo x >> ../calls\n{MEND}"));
    other.project.write(PATTERNS, pasted);
    heal(&other);
    assert!(!other.project.dir().join("../calls").exists(), "the pasted remedy was used");
}

#[test]
fn a_servers_agent_is_told_to_look_wider_with_every_failed_attempt() {
    // Each turn leaves another failure behind, and only the third mends the server.
    let worse = "printf \"echo TypeError: worse $n >&2; exit 2\\n\" > app.sh";
    let turn = format!(
        "echo x >> ../calls\nn=$(grep -c x ../calls)\ncat > ../task$n\n\
         if [ $n = 3 ]; then {MEND}else {worse}; fi"
    );
    let bench = Bench::with_own("command", &turn);
    heal(&bench);
    let told: Vec<String> = (1..=3).map(|n| bench.read(&format!("../task{n}"))).collect();
    let is_told = |words: &str| -> Vec<bool> { told.iter().map(|t| t.contains(words)).collect() };
    assert_eq!(is_told("Simple fix"), [true, true, false], "{told:?}");
    assert_eq!(is_told("Context-aware fix"), [false, false, true], "{told:?}");
    assert_eq!(last(&bench).attempt(), 3);
}

#[test]
fn what_a_team_proposes_for_a_server_is_tried_before_another_turn_of_an_agent() {
    let turn = "cat > task\necho x >> ../calls\nwhile [ ! -e ../go ]; do sleep 0.05; done";
    let bench = Bench::with_own("command", turn);
    let mut run = bench.dev(&[]);
    wait_until("the agent's turn", || bench.project.dir().join("../calls").exists());
    let id = bench.incidents()[0].to_string();
    let patch = "--- a/app.sh\n+++ b/app.sh\n@@ -1,2 +1 @@\n\
                 -echo 'ReferenceError: total is not defined' >&2\n-exit 1\n+exec sleep 300\n";
    let mut kim = Client::hello_of_another(&bench.project, "kim");
    let fix = json!({ "id": id, "kind": "patch", "text": patch });
    assert_eq!(kim.call("heal_propose_fix", fix)["ok"], true);
    drop(kim);
    bench.project.write("../go", "");
    run.until("recovered");
    run.end();
    assert_eq!(bench.read("app.sh"), MENDED);
    assert_eq!(last(&bench).trial().unwrap().remedy.kind, RemedyKind::Patch);
    assert_eq!(bench.read("../calls").lines().count(), 1, "no agent was called again");
}
