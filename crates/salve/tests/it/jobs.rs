//! `salve run`: jobs that heal, reset and resume.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use sha2::Digest as _;

use crate::heal::{Visit, git};
use crate::support::{Project, is_alive, wait_for};

/// A project whose jobs are run.
pub(crate) struct Works {
    pub(crate) project: Project,
}

impl Works {
    pub(crate) fn new() -> Self {
        let project = Project::new();
        project.write("a.txt", "one\n");
        project.write(".gitignore", "cache/\n");
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            git(&project, args);
        }
        project.write("draft.txt", "the user's own\n");
        Self { project }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.project.command(args);
        command.stdin(Stdio::null()).env("SALVE_USER", "ada");
        // Where steps leave signs that are no part of their work.
        command.env("OUT", self.out());
        command
    }

    /// Returns the directory around the project.
    pub(crate) fn out(&self) -> PathBuf {
        self.project.dir().join("..").canonicalize().unwrap()
    }

    /// Returns the workspace of the only run.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.workspace_of(&self.run().0)
    }

    /// Returns the workspace of a run, which lies outside of the project.
    pub(crate) fn workspace_of(&self, run: &str) -> PathBuf {
        let base = self.project.home().join(".local/state/salve/jobs");
        let all = fs::read_dir(base).unwrap().map(|entry| entry.unwrap().path());
        let is_its = |around: &PathBuf| {
            fs::read_to_string(around.join("job")).is_ok_and(|job| job.ends_with(run))
        };
        let around: Vec<PathBuf> = all.filter(is_its).collect();
        assert_eq!(around.len(), 1, "{around:?}");
        around[0].join(format!("project-{run}"))
    }

    pub(crate) fn salve(&self, args: &[&str]) -> Visit {
        Visit::of(&self.command(args).output().unwrap())
    }

    /// Starts something that goes on.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Returns the directories of all runs, oldest first.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let jobs = self.project.dir().join(".salve/jobs");
        let entries = fs::read_dir(jobs).into_iter().flatten().flatten();
        let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        runs.sort();
        runs
    }

    /// Returns the only run: its id and its directory.
    pub(crate) fn run(&self) -> (String, PathBuf) {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        let id = runs[0].file_name().unwrap().to_string_lossy().into_owned();
        (id, runs[0].clone())
    }

    /// Returns what a file of the only run says, or nothing.
    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.run().1.join(name)).unwrap_or_default()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.file(name)).unwrap_or_default()
    }

    /// Returns the names of the events in the run's own log.
    pub(crate) fn events(&self) -> Vec<String> {
        let log = self.file("events.jsonl");
        let name = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            event["event"].as_str().unwrap().to_owned()
        };
        log.lines().map(name).collect()
    }

    /// Returns how often a step wrote its line outside of the workspace.
    pub(crate) fn traces(&self) -> Vec<String> {
        let text = fs::read_to_string(self.project.dir().join("../trace")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns a command that leaves a trace outside of the workspace.
    pub(crate) fn trace(&self, word: &str) -> String {
        let trace = self.project.dir().canonicalize().unwrap().join("../trace");
        format!("echo {word} >> '{}'", trace.display())
    }
}

#[test]
fn steps_run_in_a_workspace_of_their_own_and_leave_checkpoints_and_a_patch() {
    let works = Works::new();
    let visit = works.salve(&[
        "run",
        "--step",
        "echo two >> a.txt && git log -1 --format=%s",
        "--step",
        "mkdir -p cache && echo x > cache/x && cp a.txt b.txt",
        "--step",
        "true",
    ]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(visit.said.contains("first") && visit.said.contains("completed"), "{}", visit.said);
    let read = |name: &str| fs::read_to_string(works.project.dir().join(name)).unwrap_or_default();
    assert_eq!((read("a.txt").as_str(), read("b.txt").as_str()), ("one\n", ""), "untouched");
    assert!(works.file("artifacts/patches/steps/step-0000.patch").contains("+two"));
    assert_eq!(works.file("artifacts/patches/steps/step-0002.patch"), "", "an empty diff");
    let state = works.json("state/steps/step-0001.json");
    assert_eq!(
        (&state["stepId"], &state["stepIndex"], &state["attempt"]),
        (&"step-2".into(), &1.into(), &1.into())
    );
    assert_eq!(state["changedFiles"][0]["path"], "b.txt", "{state}");
    let patch = works.file("artifacts/patches/steps/step-0001.patch");
    let hash = sha2::Sha256::digest(patch.as_bytes());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(state["diffHash"], hash, "{state}");
    for field in [&state["finishedAt"], &state["changedFiles"][0]["checksum"]] {
        assert!(field.is_string(), "{state}");
    }
    assert_eq!(works.json("state.json")["status"], "completed");
    let (id, dir) = works.run();
    git(
        &works.project,
        &["apply", "--check", &dir.join("artifacts/result.patch").to_string_lossy()],
    );
    let store = dir.join("store.git").to_string_lossy().into_owned();
    git(&works.project, &["fetch", "-q", &store, "result:taken"]);
    let listed = works.salve(&["jobs"]).said;
    assert!(listed.contains(&id) && listed.contains("completed") && listed.contains("3/3"));
    // What people read counts from 1: while the job runs, and afterwards.
    let shown = works.salve(&["show", &id]).said;
    for number in 1..=3 {
        let (running, over) =
            (format!("{number}/3 step-{number}"), format!(" {number}  done   step-{number}"));
        assert!(visit.said.contains(&running), "{running}: {}", visit.said);
        assert!(shown.contains(&over), "{over}: {shown}");
    }
}

#[test]
fn what_is_not_committed_comes_along_only_with_here() {
    let works = Works::new();
    assert_eq!(works.salve(&["run", "--", "test", "-f", "draft.txt"]).code, Some(1));
    let works = Works::new();
    let visit = works.salve(&["run", "--here", "--", "test", "-f", "draft.txt"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
}

#[test]
fn job_files_are_read_in_three_languages_and_their_mistakes_are_told() {
    let works = Works::new();
    works.project.write(
        "job.toml",
        "[job]\nobjective = \"x\"\n[[steps]]\nid = \"one\"\ncommand = \"true\"\n",
    );
    works
        .project
        .write("job.yaml", "job: {objective: x}\nsteps:\n  - id: one\n    command: 'true'\n");
    works.project.write("job.json", r#"{"steps": [{"id": "one", "command": ["true"]}]}"#);
    for name in ["job.toml", "job.yaml", "job.json"] {
        assert_eq!(works.salve(&["run", name]).code, Some(0), "{name}");
    }
    for (text, word) in [
        ("[[steps]]\nid = \"one\"\n", "one of `command`, `instruction` and `skill`"),
        ("[[steps]]\ncommand = \"true\"\nlimits = { attempts = 0 }\n", "at least 1"),
        ("[[steps]]\ncommnd = \"true\"\n", "commnd"),
        ("steps = []\n", "at least one step"),
        (
            "[[steps]]\nid = \"a\"\ncommand = \"true\"\n[[steps]]\nid = \"a\"\ncommand = \"true\"\n",
            "two steps",
        ),
    ] {
        works.project.write("bad.toml", text);
        let visit = works.salve(&["run", "bad.toml"]);
        assert_eq!(visit.code, Some(2), "{text}: {}", visit.said);
        assert!(visit.said.contains(word), "{text}: {}", visit.said);
    }
    assert_eq!(works.runs().len(), 3, "nothing is left of what is wrong");
    let schema = works.salve(&["config", "schema", "--job"]);
    assert!(schema.said.contains("wall_seconds"), "{}", schema.said);
}

#[test]
fn a_failure_that_may_pass_is_tried_again_then_in_a_fresh_workspace_then_given_up() {
    let works = Works::new();
    let step = format!(
        "{}; echo same >> left.txt; sort -u left.txt -o left.txt; exit 3",
        works.trace("x")
    );
    let visit = works.salve(&["run", "--", "sh", "-c", &step]);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    assert_eq!(works.traces().len(), 3);
    let names = works.events();
    assert_eq!(
        names,
        [
            "task.started",
            "task.step.attempt.started",
            "task.step.attempt.failed",
            "task.self_heal.triggered",
            "task.step.attempt.started",
            "task.step.attempt.failed",
            "task.self_heal.triggered",
            "task.self_heal.escalated",
            "task.resume.from_step",
            "task.step.attempt.started",
            "task.step.attempt.failed",
            "task.self_heal.triggered",
            "task.self_heal.escalated",
            "task.self_heal.exhausted",
            "task.failed",
        ]
    );
    let second = works.json("state/self_heal/attempt-0000-0002.json");
    assert_eq!(second["failureClass"], "stuck_no_progress", "{second}");
    assert_eq!(second["strategy"], "hard_reset");
    assert_eq!(second["changedFiles"][0], "left.txt");
    assert_eq!(second["retryContext"].as_array().map(Vec::len), Some(1), "{second}");
    for field in ["startedAt", "finishedAt", "diffHash", "signature", "summary"] {
        assert!(second[field].is_string(), "{field}: {second}");
    }
    assert_eq!(works.json("state.json")["retryable"], true);
}

#[test]
fn what_cannot_pass_fails_at_once() {
    let works = Works::new();
    let step =
        format!("{}; echo 'CONFLICT (content): Merge conflict in a.txt'; exit 1", works.trace("x"));
    let visit = works.salve(&["run", "--", "sh", "-c", &step]);
    assert_eq!((visit.code, works.traces().len()), (Some(1), 1), "{}", visit.said);
    assert!(visit.said.contains("the files are at fault"), "{}", visit.said);
    let record = works.json("state/self_heal/attempt-0000-0001.json");
    assert_eq!(record["failureClass"], "deterministic_repo", "{record}");
    // A rule of the user's own says otherwise.
    let works = Works::new();
    works.project.write("job.toml", "[job]\nfailure_rules = [{ contains = \"merge conflict\", class = \"deterministic_policy\" }]\n\
        [[steps]]\nid = \"merge\"\ncommand = \"echo 'Merge conflict'; exit 1\"\n");
    let visit = works.salve(&["run", "job.toml"]);
    assert_eq!(visit.code, Some(3), "{}", visit.said);
}

#[test]
fn silence_is_ended_by_its_timer_and_work_is_not() {
    let works = Works::new();
    let visit = works.salve(&["run", "--idle", "1", "--attempts", "1", "--", "sleep", "600"]);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    assert!(visit.said.contains("no sign of work"), "{}", visit.said);
    assert!(works.events().contains(&"task.step.timeout.warning".to_owned()));
    let works = Works::new();
    let busy = "end=$(($(date +%s)+3)); while [ $(date +%s) -lt $end ]; do :; done";
    let visit = works.salve(&["run", "--idle", "1", "--", "sh", "-c", busy]);
    assert_eq!(visit.code, Some(0), "silent but working: {}", visit.said);
    let works = Works::new();
    let loud = "while :; do echo x; sleep 0.1; done";
    let visit = works.salve(&["run", "--wall", "2", "--attempts", "1", "--", "sh", "-c", loud]);
    assert!(visit.said.contains("longer than it may"), "{}", visit.said);
}

#[test]
fn a_step_ends_with_its_process_and_takes_its_daemons_along() {
    let works = Works::new();
    let pid = works.project.dir().canonicalize().unwrap().join("../pid");
    let step =
        format!("setsid sh -c 'echo $$ > {}; sleep 600' & sleep 0.3; echo done", pid.display());
    let visit = works.salve(&["run", "--wall", "60", "--", "sh", "-c", &step]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    let pid: u32 = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    wait_for("the daemon's end", || !is_alive(pid));
}

#[test]
fn whoever_is_killed_leaves_a_job_that_is_gone_on_with_and_no_done_step_runs_again() {
    let works = Works::new();
    let first = works.trace("first");
    let second = format!(
        "{}; echo half >> a.txt; test -e $OUT/go || sleep 600; echo whole >> a.txt",
        works.trace("second")
    );
    let mut child =
        works.start(&["run", "--step", &format!("{first}; echo 1 >> a.txt"), "--step", &second]);
    wait_for("the second step", || works.traces() == ["first", "second"]);
    assert!(works.salve(&["jobs"]).said.contains("running"));
    kill(&works, &mut child);
    works.project.write("../go", "");
    let (id, _) = works.run();
    assert!(works.salve(&["jobs"]).said.contains("interrupted"));
    let shown = works.salve(&["show", &id]).said;
    assert!(shown.contains(&format!("go on with it: salve resume {id}")), "{shown}");
    let visit = works.salve(&["resume", &id]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert_eq!(works.traces(), ["first", "second", "second"]);
    let left = fs::read_to_string(works.workspace().join("a.txt")).unwrap();
    assert_eq!(left, "one\n1\nhalf\nwhole\n", "what was half done is undone first");
}

/// Kills a run of Salve, keeper and worker, as suddenly as it can be.
pub(crate) fn kill(works: &Works, child: &mut Child) {
    let lock = fs::read_to_string(works.run().1.join("run.lock")).unwrap_or_default();
    let lock: Value = serde_json::from_str(&lock).unwrap_or_default();
    let worker = lock["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    for pid in worker.into_iter().chain(i32::try_from(child.id()).ok()) {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    child.wait().unwrap();
    // A process that is killed is there for a moment still.
    wait_for("the worker's end", || {
        worker.and_then(|pid| u32::try_from(pid).ok()).is_none_or(|pid| !is_alive(pid))
    });
}

#[test]
fn wherever_salve_is_killed_the_workspace_ends_as_if_it_had_not_been() {
    let steps = [
        "echo 1 >> a.txt",
        "echo 2 >> a.txt; mkdir -p d; echo x > d/new",
        "rm d/new; echo 3 >> a.txt",
    ];
    let args: Vec<&str> = steps.iter().flat_map(|step| ["--step", *step]).collect();
    for entries in 1..=7 {
        let works = Works::new();
        let mut child = works.start(&[&["run"][..], &args].concat());
        let journal = works.project.dir().join(".salve/events.jsonl");
        let count = || fs::read_to_string(&journal).unwrap_or_default().lines().count();
        wait_for("the journal", || count() >= entries || child.try_wait().unwrap().is_some());
        kill(&works, &mut child);
        let (id, _) = works.run();
        if works.json("state.json")["status"] != "completed" {
            let visit = works.salve(&["resume", &id]);
            let is_done = visit.code == Some(2) && visit.said.contains("is done");
            assert!(visit.code == Some(0) || is_done, "after {entries}: {}", visit.said);
        }
        let left = fs::read_to_string(works.workspace().join("a.txt")).unwrap();
        assert_eq!(left, "one\n1\n2\n3\n", "after {entries}");
        assert!(!works.workspace().join("d/new").exists());
        let names = works.events();
        let done = names.iter().filter(|name| *name == "task.step.attempt.finished").count();
        assert_eq!(done, 3, "after {entries}: {names:?}");
        let ended = names.iter().filter(|name| *name == "task.finished").count();
        assert_eq!(ended, 1, "after {entries}: {names:?}");
        assert_eq!(works.json("state.json")["status"], "completed", "after {entries}");
    }
}

/// **Invariant:** A workspace is set back only once every checkpoint agrees.
#[test]
fn an_altered_or_missing_patch_stops_a_reset_and_is_named() {
    for harm in ["altered", "missing"] {
        let works = Works::new();
        let visit = works.salve(&["run", "--step", "echo 1 >> a.txt", "--step", "exit 126"]);
        assert_eq!(visit.code, Some(3), "{}", visit.said);
        let (id, dir) = works.run();
        let patch = dir.join("artifacts/patches/steps/step-0000.patch");
        match harm {
            "altered" => fs::write(&patch, "something else").unwrap(),
            _ => fs::remove_file(&patch).unwrap(),
        }
        assert_eq!(works.salve(&["control", &id, "hard_reset_step"]).code, Some(0));
        fs::write(works.workspace().join("mine"), "kept").unwrap();
        let visit = works.salve(&["resume", &id]);
        assert_eq!(visit.code, Some(1), "{}", visit.said);
        assert!(visit.said.contains("step-0000.patch"), "{}", visit.said);
        assert!(works.events().contains(&"task.self_heal.exhausted".to_owned()));
        assert!(works.workspace().join("mine").exists(), "the old workspace is kept");
    }
}

#[test]
fn people_steer_a_job_that_runs_and_one_that_does_not() {
    let works = Works::new();
    let gate = works.project.dir().canonicalize().unwrap().join("../open");
    let wait =
        format!("{}; while ! test -e '{}'; do sleep 0.05; done", works.trace("x"), gate.display());
    let mut run =
        works.command(&["run", "--step", "echo 1 >> a.txt", "--step", &wait, "--step", "true"]);
    let child = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the second step", || works.traces().len() == 1);
    let (id, dir) = works.run();
    let wrong = works.salve(&["control", &id, "resume_from_step", "nowhere"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.said.contains("1 step-1, 2 step-2, 3 step-3"), "{}", wrong.said);
    assert_eq!(works.salve(&["control", &id, "resume_from_step", "0"]).code, Some(2), "none is 0");
    assert_eq!(works.salve(&["control", &id, "resume_from_step", "3"]).code, Some(1), "not done");
    assert_eq!(works.salve(&["control", &id, "retry_step"]).code, Some(0));
    wait_for("another attempt", || works.traces().len() == 2);
    let recovery = works.json("state.json")["liveControl"]["recovery"].clone();
    for (field, want) in [
        ("action", "retry_step"),
        ("stepId", "step-2"),
        ("strategy", "soft_reset"),
        ("requestedBy", "ada"),
    ] {
        assert_eq!(recovery[field], want, "{recovery}");
    }
    assert!(recovery["updatedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{recovery}");
    // Backwards, on a branch of its own.
    assert_eq!(works.salve(&["control", &id, "resume_from_step", "step-1"]).code, Some(0));
    wait_for("the branch", || works.traces().len() == 3);
    assert_eq!(works.json("state.json")["branch"], 2);
    assert!(dir.join("artifacts/branches/0001/step-0000.patch").exists());
    assert_eq!(works.salve(&["control", &id, "cancel"]).code, Some(0));
    let said = Visit::of(&child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(1), "{}", said.said);
    assert!(said.said.contains(&format!("salve resume {id}")), "{}", said.said);
    assert_eq!(works.json("state.json")["status"], "stopped");
    fs::write(&gate, "").unwrap();
    assert_eq!(works.salve(&["resume", &id]).code, Some(0));
    assert_eq!(fs::read_to_string(works.workspace().join("a.txt")).unwrap(), "one\n1\n");
    let names = works.events();
    for name in [
        "task.control.recovery.requested",
        "task.control.recovery.honored",
        "task.resume.from_step",
    ] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
}

#[test]
fn an_agents_step_is_verified_and_told_what_failed_in_a_prompt_of_its_own() {
    let works = Works::new();
    let told = works.project.dir().canonicalize().unwrap().join("../told");
    works.project.write("../agent.sh", format!(
        "cat > '{}'-$(ls '{}'-* 2>/dev/null | wc -l)\n[ -e plan.md ] && echo good > good.md; echo x > plan.md\n",
        told.display(), told.display()));
    let agent = works.project.dir().canonicalize().unwrap().join("../agent.sh");
    works.project.write("job.toml", format!(
        "[job]\nobjective = \"Add search\"\n[[steps]]\nid = \"plan\"\ninstruction = \"Write the plan.\"\n\
         runtime = \"sh '{}'\"\nverify = {{ command = \"test -f good.md\", files = [\"plan.md\"], max_files = 8 }}\n",
        agent.display()));
    let visit = works.salve(&["run", "job.toml"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    let read = |n: u32| fs::read_to_string(format!("{}-{n}", told.display())).unwrap_or_default();
    assert!(read(0).contains("Add search") && read(0).contains("Write the plan."));
    assert!(!read(0).contains("failed"), "{}", read(0));
    for words in [
        "# Objective",
        "# Step 1 of 1: plan",
        "- what failed: ",
        "- failure signature: ",
        "- last command: `test -f good.md`",
        "- files that it changed:\n  - plan.md",
        "- approaches that failed:",
        "Do not repeat an unchanged remedy",
    ] {
        assert!(read(1).contains(words), "{words}: {}", read(1));
    }
    assert_eq!(works.json("state/self_heal/attempt-0000-0001.json")["strategy"], "soft_reset");
    assert!(works.file("artifacts/result.patch").contains("good.md"));
}

/// **Invariant:** Only a person steers a job.
#[test]
fn json_tells_the_specs_events_and_an_agent_cannot_steer() {
    let works = Works::new();
    let output = works.command(&["--json", "run", "--", "echo", "hello"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["task.step.attempt.started", "task.step.attempt.finished", "task.finished"]);
    let (id, _) = works.run();
    let refused = works.command(&["control", &id, "retry_step"]).env("SALVE_AGENT", "bot").output();
    assert_eq!(refused.unwrap().status.code(), Some(3));
}

#[test]
fn the_figures_go_out_by_statsd_and_a_host_that_is_gone_costs_nothing() {
    let works = Works::new();
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(crate::support::LONG)).unwrap();
    let address = format!("telemetry.statsd={}", server.local_addr().unwrap());
    let step = "test -e $OUT/second || { touch $OUT/second; exit 1; }";
    let visit = works.salve(&["--set", &address, "run", "--", "sh", "-c", step]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    let mut got = Vec::new();
    while !got.iter().any(|line: &String| line.contains("recovered_total")) {
        let mut bytes = [0; 1500];
        let read = server.recv(&mut bytes).unwrap();
        got.push(String::from_utf8_lossy(&bytes[..read]).into_owned());
    }
    let attempts = "moonmind.spec_workflow.self_heal.task.self_heal.attempts_total:1|c\
                    |#class:transient_runtime,strategy:soft_reset";
    assert!(got.iter().any(|line| line == attempts), "{got:?}");
    let text = works.salve(&["metrics"]).said;
    let line = "moonmind_spec_workflow_self_heal_task_self_heal_recovered_total\
                {class=\"transient_runtime\",strategy=\"soft_reset\"} 1";
    assert!(text.contains(line), "{text}");
    let gone = "telemetry.statsd=no-such-host.invalid:8125";
    assert_eq!(works.salve(&["--set", gone, "run", "--", "true"]).code, Some(0));
}

/// **Invariant:** Nothing below the project leads to a job's workspace, so no tool takes the job's
/// files for the user's.
#[test]
fn what_a_job_works_on_lies_outside_of_the_project_and_finds_the_projects_packages() {
    let works = Works::new();
    works.project.write("package.json", "{\"name\":\"shop\"}");
    works.project.write(".gitignore", "node_modules/\n");
    works.project.write("node_modules/dep/index.js", "module.exports = 'dep'\n");
    works.project.write("marker.test.js", "x");
    for args in [&["add", "-A"][..], &["commit", "-qm", "package"]] {
        git(&works.project, args);
    }
    // Looked for as Node does: in every directory above.
    let look = "d=$PWD; while [ \"$d\" != / ]; do [ -e \"$d/node_modules/dep\" ] && exit 0; \
                d=$(dirname \"$d\"); done; exit 1";
    let visit = works.salve(&["run", "--step", look, "--step", "echo 1 >> a.txt; exit 126"]);
    assert_eq!(visit.code, Some(3), "{}", visit.said);
    let mut find = Command::new("find");
    let found = find.arg("-L").arg(works.project.dir()).args(["-name", "marker.test.js"]);
    let found = String::from_utf8(found.output().unwrap().stdout).unwrap();
    assert_eq!(found.lines().count(), 1, "{found}");
    let (id, _) = works.run();
    let shown = works.salve(&["show", &id]).said;
    assert!(shown.contains(&works.workspace().to_string_lossy().into_owned()), "{shown}");
    // Whoever needs room clears it away; what was done is in the checkpoints.
    fs::remove_dir_all(works.project.home().join(".local/state")).unwrap();
    assert_eq!(works.salve(&["control", &id, "retry_step"]).code, Some(0));
    assert_eq!(works.salve(&["resume", &id]).code, Some(3));
    let left = fs::read_to_string(works.workspace().join("a.txt")).unwrap();
    assert_eq!(left, "one\n1\n", "made again as it was before the step");
    assert!(works.workspace().join("marker.test.js").exists());
}

/// The command that a job prints gives its result to the user, wherever it is typed.
#[test]
fn the_result_is_taken_over_by_the_command_that_is_printed() {
    let bare = || {
        let works = Works::new();
        fs::remove_dir_all(works.project.dir().join(".git")).unwrap();
        works
    };
    let below = || {
        let works = Works::new();
        works.project.write("apps/my web/salve.toml", "");
        git(&works.project, &["add", "-A"]);
        git(&works.project, &["commit", "-qm", "web"]);
        works
    };
    let unborn = || {
        let works = bare();
        git(&works.project, &["init", "-q"]);
        works
    };
    let changed = Works::new();
    changed.project.write("a.txt", "one\nmine\n");
    let deeper = Works::new();
    deeper.project.write("deep/er/x", "x");
    for (works, dir, more, ways) in [
        (Works::new(), "", None, 2),
        (changed, "", Some("--here"), 2),
        (below(), "apps/my web", None, 2),
        (deeper, "deep/er", None, 2),
        (bare(), "", None, 1),
        (unborn(), "", None, 2),
    ] {
        take_over(&works, dir, more, ways);
    }
    let visit = Works::new().salve(&["run", "--", "true"]);
    assert!(visit.said.contains("nothing to take over"), "{}", visit.said);
}

/// Runs a job that adds a line to a file at the top, and takes that over in all ways that are told.
fn take_over(works: &Works, dir: &str, more: Option<&str>, ways: usize) {
    let at = works.project.dir().join(dir);
    let salve = |args: &[&str]| Visit::of(&works.command(args).current_dir(&at).output().unwrap());
    let step = "echo two >> \"$(git rev-parse --show-toplevel 2>/dev/null || pwd)/a.txt\"";
    let visit = salve(&[&["run"][..], more.as_slice(), &["--step", step]].concat());
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    let a = works.project.dir().join("a.txt");
    let before = fs::read_to_string(&a).unwrap();
    let command = |line: &str| -> Option<Vec<String>> {
        let words = line.split_once(": salve ")?.1.replace("NAME", "taken");
        Some(words.split(' ').map(str::to_owned).collect())
    };
    let commands: Vec<Vec<String>> = visit.said.lines().filter_map(command).collect();
    assert_eq!(commands.len(), ways, "{}", visit.said);
    for words in &commands {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let took = salve(&words);
        assert_eq!(took.code, Some(0), "{words:?}: {}", took.said);
        // Whoever takes it over twice is told, and nothing is changed.
        assert_eq!(salve(&words).code, Some(if words.len() == 3 { 1 } else { 0 }));
    }
    assert_eq!(fs::read_to_string(&a).unwrap(), format!("{before}two\n"), "{}", visit.said);
    if ways > 1 {
        let staged = git(&works.project, &["diff", "--cached", "--name-only"]);
        assert_eq!(staged, "", "the index is the user's");
        let taken = git(&works.project, &["show", "taken:a.txt"]);
        assert_eq!(taken, format!("{before}two\n"));
    }
}

#[test]
fn the_files_of_a_run_are_removed_wherever_they_are() {
    let works = Works::new();
    let gate = works.out().join("open");
    let wait =
        format!("{}; while ! test -e '{}'; do sleep 0.05; done", works.trace("x"), gate.display());
    let mut child = works.start(&["run", "--step", &wait]);
    wait_for("the step", || works.traces().len() == 1);
    let (id, dir) = works.run();
    let workspace = works.workspace();
    assert_eq!(works.salve(&["jobs", "remove", &id]).code, Some(1), "it is being run");
    assert!(workspace.exists() && dir.exists());
    fs::write(&gate, "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let refused = works.command(&["jobs", "remove", &id]).env("SALVE_AGENT", "bot").output();
    assert_eq!(refused.unwrap().status.code(), Some(3));
    let visit = works.salve(&["jobs", "remove", &id]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(!workspace.parent().unwrap().exists() && !dir.exists());
    let refs = git(&works.project, &["for-each-ref", "refs/salve/jobs"]);
    assert_eq!(refs, "", "nothing of it is left in the repository");
    assert!(works.salve(&["jobs"]).said.contains("removed"));
    let visit = works.salve(&["resume", &id]);
    assert!(visit.code == Some(2) && visit.said.contains("were removed"), "{}", visit.said);
}
