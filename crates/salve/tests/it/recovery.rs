//! Tests of a loop that cannot execute are recovered, or a person is asked and waited for.
//!
//! The loop here is somebody else's, which Salve serves by `salve loop attach`; the loop that Salve
//! runs itself calls the same service.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::heal::{Visit, git};
use crate::heal_killed::kill;
use crate::support::{Project, wait_for};

/// Tests that can start when `started` is there, and then fail or pass as `result` says.
const TESTS: &str = "[ -f started ] || { echo 'cannot start the service: the cache is stale'; \
                     exit 1; }; cat result 2>/dev/null && exit 1; echo ok";

/// A project with somebody's loop in `loop/`.
pub(crate) struct Site {
    pub(crate) project: Project,
}

/// A `salve loop attach` under way.
pub(crate) struct Service(pub(crate) Child);

impl Drop for Service {
    fn drop(&mut self) {
        if self.0.try_wait().unwrap().is_none() {
            kill(&mut self.0);
        }
    }
}

impl Site {
    pub(crate) fn new(recovery: &str) -> Self {
        let project = Project::new();
        project.write("tests.sh", TESTS);
        project.write(".gitignore", "loop/\nstarted\nran\nresult\n");
        project.write("salve.toml", format!("version = 1\n[recovery]\n{recovery}\n"));
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            git(&project, args);
        }
        std::fs::create_dir_all(project.dir().join("loop")).unwrap();
        Self { project }
    }

    pub(crate) fn proposal(command: &str) -> Value {
        json!({
            "version": 1,
            "timestamp": jiff::Timestamp::now(),
            "category": "dependency",
            "severity": "blocking",
            "diagnosis": {
                "error_pattern": "cannot start the service",
                "root_cause": "the cache is stale",
                "evidence": ["test-output.txt:1: cannot start the service"]
            },
            "recovery": {
                "command": command, "timeout_seconds": 60,
                "expected_outcome": "the tests start", "confidence": "high"
            }
        })
    }

    pub(crate) fn propose(&self, proposal: &Value) {
        self.project.write("loop/.next", proposal.to_string());
        let dir = self.project.dir().join("loop");
        std::fs::rename(dir.join(".next"), dir.join("recovery.json")).unwrap();
    }

    pub(crate) fn attach(&self, args: &[&str], tests: &[&str]) -> Command {
        let fixed = ["loop", "attach", "loop", "--loop", "shop"];
        let mut all: Vec<&str> = fixed.into_iter().chain(args.iter().copied()).collect();
        if !tests.is_empty() {
            all.push("--");
            all.extend(tests);
        }
        let mut command = self.project.command(&all);
        command.stdin(Stdio::null()).env("SALVE_USER", "ada");
        command
    }

    /// Serves one proposal to its end.
    pub(crate) fn once(&self, args: &[&str]) -> Visit {
        let args = [&["--once"], args].concat();
        Visit::of(&self.attach(&args, &["sh", "tests.sh"]).output().unwrap())
    }

    /// Serves until the test is over.
    pub(crate) fn serve(&self, args: &[&str]) -> Service {
        let mut command = self.attach(args, &["sh", "tests.sh"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Service(command.spawn().unwrap())
    }

    pub(crate) fn salve(&self, args: &[&str]) -> Visit {
        let mut command = self.project.command(args);
        Visit::of(&command.env("SALVE_USER", "ada").stdin(Stdio::null()).output().unwrap())
    }

    pub(crate) fn json(&self, file: &str) -> Value {
        let text = std::fs::read_to_string(self.project.dir().join("loop").join(file));
        text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let path = self.project.dir().join("loop/events.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn named(&self) -> Vec<String> {
        let name = |line: &Value| line["event"].as_str().unwrap().to_owned();
        self.events().iter().map(name).collect()
    }

    #[track_caller]
    pub(crate) fn await_human(&self) {
        wait_for("a question", || {
            self.json("state.json")["status"] == "awaiting_human"
                && self.json("escalation.json")["status"] == "pending"
        });
    }

    /// Returns how often the command of `ran` ran.
    pub(crate) fn ran(&self) -> usize {
        let text = std::fs::read_to_string(self.project.dir().join("ran")).unwrap_or_default();
        text.lines().count()
    }
}

pub(crate) const TOUCH: &str = "touch started && echo once >> ran";

fn approves(command: &str) -> String {
    format!("auto_approve = [{command:?}]\ncooldown_seconds = 0")
}

#[test]
fn ac_1_a_proposed_command_in_auto_approve_is_executed() {
    let site = Site::new(&approves(TOUCH));
    site.propose(&Site::proposal(TOUCH));
    let proven = "proven: without the repair it was sure to fail again";
    site.once(&[]).expect(0, &["healed", proven]);
    assert_eq!(site.ran(), 1);
    let events = site.events();
    let executed = events.iter().find(|line| line["event"] == "recovery_executed").unwrap();
    assert_eq!((&executed["command"], &executed["exit_code"]), (&json!(TOUCH), &json!(0)));
    assert!(executed["duration_ms"].is_u64(), "{executed}");
}

#[test]
fn what_is_missing_though_nobody_declared_it_is_recovered_on_the_testers_word() {
    for (command, exit, said, runs) in [("touch other", 3, "needs you", 0), (TOUCH, 0, "healed", 1)]
    {
        let site = Site::new(&approves(TOUCH));
        let missing = "test -e started || { echo \"Error: Cannot find module 'ok'\"; exit 1; }\n";
        site.project.write("tests.sh", missing);
        site.propose(&Site::proposal(command));
        site.once(&["--no-wait"]).expect(exit, &[said]);
        assert_eq!(site.ran(), runs);
        assert_eq!(site.json("escalation.json")["status"] == "pending", runs == 0);
    }
}

#[test]
fn ac_2_tests_that_execute_again_end_the_recovery_even_when_they_fail() {
    let site = Site::new(&approves(TOUCH));
    // They can start, and then an assertion fails: that is the loop's to mend.
    site.project.write("result", "AssertionError: expected 5, found 4\n");
    site.propose(&Site::proposal(TOUCH));
    site.once(&[]);
    assert_eq!(site.named().last().map(String::as_str), Some("recovery_executed"));
    assert!(site.json("escalation.json").is_null(), "nobody was asked");
    assert_eq!(site.ran(), 1);
}

#[test]
fn ac_3_a_failed_recovery_goes_to_its_fallback_and_then_to_a_person() {
    let failing = "echo 'no luck' >&2; exit 7";
    let site = Site::new(&format!("auto_approve = [{failing:?}, {TOUCH:?}]"));
    let mut proposal = Site::proposal(failing);
    proposal["fallback"] = json!({"command": "echo fallback; exit 8", "confidence": "low"});
    site.propose(&proposal);
    site.once(&["--no-wait"]).expect(3, &["needs you"]);
    let events = site.events();
    let failed = events.iter().find(|line| line["event"] == "recovery_failed").unwrap();
    assert_eq!((&failed["exit_code"], &failed["command"]), (&json!(7), &json!(failing)));
    assert!(failed["error"].as_str().unwrap().contains("no luck"), "{failed}");
    assert_eq!(events.last().unwrap()["event"], "recovery_escalated");
    let escalation = site.json("escalation.json");
    assert_eq!(escalation["status"], "pending");
    // The fallback is what is asked about now; no rule knows it.
    assert!(escalation["actions"]["manual"].as_str().unwrap().ends_with("echo fallback; exit 8"));

    // A fallback that the gate allows runs by itself, cooldown or not: it is the same recovery.
    let site = Site::new(&format!("auto_approve = [{failing:?}, {TOUCH:?}]"));
    let mut proposal = Site::proposal(failing);
    proposal["fallback"] = json!({"command": TOUCH, "confidence": "low"});
    site.propose(&proposal);
    site.once(&["--no-wait"]).expect(0, &["healed"]);
    assert_eq!(site.ran(), 1);
}

#[test]
fn ac_4_every_step_is_logged_in_events_jsonl() {
    let site = Site::new(&approves(TOUCH));
    site.propose(&Site::proposal(TOUCH));
    site.once(&[]).expect(0, &[]);
    assert_eq!(site.named(), ["recovery_proposed", "recovery_approved", "recovery_executed"]);
    for line in site.events() {
        assert_eq!((&line["loop_id"], &line["iteration"]), (&json!("shop"), &json!(1)), "{line}");
        assert!(line["timestamp"].is_string() && line["incident"].is_string(), "{line}");
    }
    let approved = &site.events()[1];
    assert_eq!((&approved["source"], &approved["command"]), (&json!("auto"), &json!(TOUCH)));
    site.salve(&["loop", "stats", "shop"]).expect(0, &["1 of 1 helped (100 %)", "dependency 1"]);
    let usage: Value = std::fs::read_to_string(site.project.dir().join("loop/usage.jsonl"))
        .map(|text| serde_json::from_str(text.lines().next().unwrap()).unwrap())
        .unwrap();
    assert_eq!((&usage["outcome"], &usage["unattended"]), (&json!("recovered"), &json!(true)));
}

/// **Invariant:** Limits and cooldown outlive restarts.
#[test]
fn ac_5_the_limit_and_the_cooldown_hold_across_restarts() {
    let limited = format!("{}\nmax_auto_recoveries_per_run = 1", approves(TOUCH));
    for (config, said) in [
        (limited, "1 of 1 unattended commands of this run are used up"),
        (format!("auto_approve = [{TOUCH:?}]"), "not more than 60 s have passed since the last"),
    ] {
        let site = Site::new(&config);
        site.propose(&Site::proposal(TOUCH));
        // Neither is told to end, so the next goes on with the same run of the loop.
        site.once(&[]).expect(0, &["healed"]);
        std::fs::remove_file(site.project.dir().join("started")).unwrap();
        site.propose(&Site::proposal(TOUCH));
        site.once(&["--no-wait"]).expect(3, &["needs you"]);
        assert_eq!(site.ran(), 1, "{said}");
        assert_eq!(site.json("escalation.json")["reason"], said);
    }
}

#[test]
fn ac_6_an_unknown_command_is_escalated_with_all_fields() {
    let site = Site::new("require_human = []");
    site.propose(&Site::proposal(TOUCH));
    site.once(&["--no-wait"]).expect(3, &["needs you"]);
    assert_eq!(site.ran(), 0);
    let escalation = site.json("escalation.json");
    let root = site.project.dir().canonicalize().unwrap();
    for (field, want) in [
        ("loop_id", json!("shop")),
        ("iteration", json!(1)),
        ("type", json!("recovery_approval_required")),
        ("status", json!("pending")),
        ("reason", json!("no rule knows the command")),
    ] {
        assert_eq!(escalation[field], want, "{field}");
    }
    assert_eq!(escalation["recovery_proposal"]["recovery"]["command"], TOUCH);
    assert_eq!(escalation["actions"]["approve"], "salve approve-recovery --loop shop");
    let manual = format!("cd {} && {TOUCH}", root.display());
    assert_eq!(escalation["actions"]["manual"], manual);
    let escalated = json!("recovery_escalated");
    assert_eq!(site.events().last().unwrap()["event"], escalated);
    assert_eq!(site.events().last().unwrap()["awaiting"], "human");
}

#[test]
fn unknown_commands_are_denied_where_the_settings_say_so_and_the_loop_goes_on() {
    let site = Site::new("require_human = []\non_unknown = \"deny\"");
    site.propose(&Site::proposal(TOUCH));
    site.once(&["--no-wait"]).expect(1, &["denied", TOUCH]);
    assert_eq!((site.ran(), site.json("escalation.json")), (0, Value::Null));
    let last = site.events().pop().unwrap();
    assert_eq!((&last["event"], &last["command"]), (&json!("recovery_refused"), &json!(TOUCH)));
    assert!(last["reason"].is_string(), "{last}");
}

/// **Invariant:** A question outlives kills; a changed proposal is asked about again.
#[test]
fn ac_7_the_loop_waits_for_a_person_through_kills_and_restarts() {
    let site = Site::new("");
    site.propose(&Site::proposal(TOUCH));
    let service = site.serve(&["--once"]);
    site.await_human();
    drop(service);
    assert_eq!(site.json("state.json")["status"], "awaiting_human", "it outlives Salve");
    let asked = site.json("escalation.json");

    let mut service = site.serve(&["--once"]);
    site.await_human();
    assert_eq!(site.json("escalation.json")["question"], asked["question"], "one question");
    assert_eq!(site.ran(), 0);
    site.salve(&["approve-recovery", "--loop", "shop"]).expect(0, &["said yes"]);
    assert_eq!(service.0.wait().unwrap().code(), Some(0), "{}", stderr(&mut service.0));
    assert_eq!(site.ran(), 1);
    assert_eq!(site.json("state.json")["status"], "running");
    assert_eq!(site.json("escalation.json")["status"], "approved");
}

#[test]
fn ac_8_all_three_answers_work() {
    for (answer, code, ran, status) in [
        ("approve-recovery", 0, 1, "approved"),
        ("reject-recovery", 1, 0, "rejected"),
        ("resolve-recovery", 0, 0, "resolved"),
    ] {
        let site = Site::new("");
        site.propose(&Site::proposal(TOUCH));
        let mut service = site.serve(&["--once"]);
        site.await_human();
        if answer == "resolve-recovery" {
            site.project.write("started", "");
        }
        site.salve(&[answer, "--loop", "shop", "--note", "so be it"]).expect(0, &[]);
        assert_eq!(service.0.wait().unwrap().code(), Some(code), "{answer}");
        assert_eq!((site.ran(), &site.json("escalation.json")["status"]), (ran, &json!(status)));
        assert_eq!(site.json("state.json")["status"], "running", "{answer}");
        let resolved = site.events().into_iter().find(|line| line["event"] == "recovery_resolved");
        assert_eq!(resolved.unwrap()["by"], "human", "{answer}");
    }
}

#[test]
fn a_proposal_that_changes_while_it_is_asked_about_is_asked_again() {
    let site = Site::new("");
    site.propose(&Site::proposal("echo harmless"));
    let mut service = site.serve(&["--once"]);
    site.await_human();
    let first = site.json("escalation.json");
    let shown = first["question"].to_string();
    site.propose(&Site::proposal(TOUCH));
    wait_for("another question", || {
        let now = site.json("escalation.json");
        now["status"] == "pending" && now["digest"] != first["digest"]
    });
    // Whoever saw the first question does not answer the second by it.
    let id = first["incident"].as_str().unwrap();
    site.salve(&["approve", id, "--question", &shown]).expect(1, &["is open now"]);
    site.salve(&["approve-recovery", "--loop", "shop"]).expect(0, &[]);
    assert_eq!(service.0.wait().unwrap().code(), Some(0));
    assert_eq!(site.ran(), 1);
}

#[test]
fn what_was_approved_runs_at_most_once_wherever_salve_was_killed() {
    let site = Site::new("");
    let slow = "echo once >> ran; touch begun; while [ -f begun ]; do sleep 0.05; done";
    site.propose(&Site::proposal(slow));
    let service = site.serve(&["--once"]);
    site.await_human();
    site.salve(&["approve-recovery", "--loop", "shop"]).expect(0, &[]);
    wait_for("the command", || site.project.dir().join("begun").exists());
    drop(service);
    // The command began and nobody knows how far it came: it is verified, and not run again.
    let again = site.once(&["--no-wait"]);
    again.expect(3, &["needs you"]);
    assert_eq!(site.ran(), 1, "{}", again.said);
    assert_eq!(site.json("state.json")["status"], "awaiting_human");
}

#[test]
fn nothing_is_recovered_from_assertions_or_code() {
    for output in [
        "AssertionError: expected 5, found 4",
        "src/a.ts(3,4): error TS2322: Type 'string' is not assignable to type 'number'.",
        "SyntaxError: missing ) after argument list",
    ] {
        let site = Site::new(&approves(TOUCH));
        site.project.write("tests.sh", format!("cat <<'END'\n{output}\nEND\nexit 1\n"));
        site.propose(&Site::proposal(TOUCH));
        let visit = site.once(&["--no-wait"]);
        visit.expect(1, &["recovery.json is not taken up"]);
        assert_eq!(
            (site.ran(), site.named()),
            (0, vec!["recovery_refused".to_owned()]),
            "{output}"
        );
    }
}

#[test]
fn full_disks_missing_memory_and_permissions_are_a_persons() {
    for (output, reason) in [
        ("Error: EACCES: permission denied, open '/srv/data/app.db'", "permissions"),
        ("Error: ENOSPC: no space left on device, write", "disk is full"),
        (
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
            "memory",
        ),
    ] {
        let site = Site::new(&approves(TOUCH));
        site.project.write("tests.sh", format!("cat <<'END'\n{output}\nEND\nexit 1\n"));
        site.propose(&Site::proposal(TOUCH));
        site.once(&["--no-wait"]).expect(3, &["needs you"]);
        assert_eq!(site.ran(), 0, "{output}");
        let said = site.json("escalation.json")["reason"].to_string();
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn a_manifest_that_changed_in_this_run_is_named_and_asks() {
    let allow = format!("{}\nchanged_manifest = \"allow\"", approves(TOUCH));
    for (config, code) in [(approves(TOUCH), 3), (allow, 0)] {
        let site = Site::new(&config);
        site.project.write("package.json", "{}");
        let service = site.serve(&[]);
        wait_for("the service", || {
            site.salve(&["events", "--json"]).said.contains("manifests_seen")
        });
        drop(service);
        site.project.write("package.json", "{\"dependencies\": {\"evil\": \"*\"}}");
        site.propose(&Site::proposal(TOUCH));
        site.once(&["--no-wait"]).expect(code, &[]);
        if code == 3 {
            let reason = &site.json("escalation.json")["reason"];
            assert_eq!(*reason, "changed in this run of the loop: package.json");
            assert_eq!(site.ran(), 0);
        }
    }
}

/// **Invariant:** Without tests nothing is proven.
#[test]
fn without_tests_nothing_is_called_proven() {
    let site = Site::new(&approves(TOUCH));
    site.propose(&Site::proposal(TOUCH));
    let output = site.attach(&["--once"], &[]).output().unwrap();
    Visit::of(&output).expect(0, &["nothing is proven"]);
    assert_eq!(site.ran(), 1);
    assert!(!site.salve(&["show"]).said.contains("recovered, proven"));
}

#[test]
fn a_directory_outside_is_denied_and_the_one_inside_is_where_it_runs() {
    let site = Site::new(&approves("pwd > where; touch ../started"));
    site.project.write("web/a.txt", "");
    let mut proposal = Site::proposal("pwd > where; touch ../started");
    proposal["recovery"]["working_dir"] = json!("../..");
    site.propose(&proposal);
    site.once(&["--no-wait"]).expect(3, &["needs you"]);
    assert!(site.json("escalation.json")["reason"].as_str().unwrap().contains("outside"));
    site.salve(&["reject-recovery", "--loop", "shop"]).expect(0, &[]);
    site.once(&["--no-wait"]);
    proposal["recovery"]["working_dir"] = json!("web");
    site.propose(&proposal);
    site.once(&["--no-wait"]).expect(0, &["healed"]);
    let there = std::fs::read_to_string(site.project.dir().join("web/where")).unwrap();
    assert!(there.trim_end().ends_with("/web"), "{there}");
}

/// Makes an npm project whose tests use esbuild, and sets another version's program in its place.
fn with_esbuild(project: &Project) {
    let manifest = json!({
        "name": "pinpoint", "private": true, "scripts": {"test": "node --test"},
        "devDependencies": {"esbuild": "0.21.5"}
    });
    project.write("package.json", manifest.to_string());
    project.write(
        "a.test.mjs",
        "import { transformSync } from 'esbuild';\nimport test from 'node:test';\n\
         const { code } = transformSync('let a: number = 1', { loader: 'ts' });\n\
         test('types are stripped', () => { if (code !== 'let a = 1;\\n') throw new Error(code); });\n",
    );
    project.write(".gitignore", "node_modules/\nloop/\n");
    let shell = |script: &str| {
        let mut sh = Command::new("sh");
        sh.args(["-ec", script]).current_dir(project.dir()).stdin(Stdio::null());
        assert!(sh.output().unwrap().status.success(), "{script}");
    };
    shell("npm install --no-audit --no-fund");
    shell("cd ..; npm pack --silent @esbuild/linux-x64@0.27.2");
    shell(
        "part=node_modules/@esbuild/linux-x64; rm -rf $part/*; \
         tar -xzf ../esbuild-linux-x64-0.27.2.tgz -C $part --strip-components=1",
    );
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
        git(project, args);
    }
}

#[test]
fn the_esbuild_mismatch_heals_in_one_iteration_with_no_model_and_the_default_settings() {
    let view = Command::new("npm").args(["view", "@esbuild/linux-x64@0.27.2", "version"]).output();
    let is_here = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    if !is_here || !view.is_ok_and(|view| view.status.success()) {
        return; // There is no npm here that could install anything.
    }
    let project = Project::new();
    with_esbuild(&project);
    let site = Site { project };
    site.propose(&Site::proposal("rm -rf node_modules && bun install"));
    let npm = site.attach(&["--once", "--no-wait"], &["npm", "test"]).output().unwrap();
    let proven = "proven: without the repair it was sure to fail again";
    Visit::of(&npm).expect(0, &["does not match binary version", "healed", proven]);
    assert!(site.json("escalation.json").is_null(), "nobody was asked");
    assert_eq!(site.named(), ["recovery_proposed", "recovery_approved", "recovery_executed"]);
    assert_eq!(git(&site.project, &["status", "--short", "--", "package-lock.json"]), "");
}

#[test]
fn contradicting_packages_ask_with_the_command_that_would_install_them() {
    let site = Site::new("");
    site.project.write("package.json", "{\"name\": \"shop\"}");
    site.project.write("package-lock.json", "{\"lockfileVersion\": 3, \"packages\": {}}");
    let said = "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree";
    site.project.write("tests.sh", format!("cat <<'END'\n{said}\nEND\nexit 1\n"));
    // The tester knows nothing better than what nobody may run.
    site.propose(&Site::proposal("rm -rf / --no-preserve-root"));
    site.once(&["--no-wait"]).expect(3, &["needs you"]);
    let first = site.json("escalation.json");
    assert!(first["actions"]["manual"].as_str().unwrap().contains("rm -rf /"), "{first}");
    let findings = first["findings"].to_string();
    assert!(findings.contains("npm install --legacy-peer-deps"), "{findings}");
}

fn stderr(child: &mut Child) -> String {
    let mut said = String::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = stderr.read_to_string(&mut said);
    }
    said
}
