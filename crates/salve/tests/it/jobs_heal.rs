//! Steps of jobs as subjects of incidents: what memory knows serves them, and one incident tells how a
//! step was healed.

use std::fs;

use serde_json::Value;

use crate::jobs::{Works, kill};
use crate::support::wait_for;

/// A failure that cannot pass by itself.
const FAILURE: &str = "Error: Cannot find module 'left-pad'";

/// Returns a project whose memory knows a cure of [`FAILURE`].
fn works(settings: &str) -> Works {
    let works = Works::new();
    works.project.write("salve.toml", settings);
    let taught = works.salve(&["memory", "learn", "--command", "touch cured", FAILURE]);
    assert_eq!(taught.code, Some(0), "{}", taught.said);
    works
}

/// Returns a step that fails until it is cured, and leaves a trace of each attempt.
fn step(works: &Works) -> String {
    format!("{}; test -e cured || {{ echo \"{FAILURE}\" >&2; exit 1; }}", works.trace("x"))
}

/// Returns the journal's entries of a kind.
fn entries(works: &Works, kind: &str) -> Vec<Value> {
    let journal = fs::read_to_string(works.project.dir().join(".salve/events.jsonl")).unwrap();
    let all = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|entry| entry["event"] == kind).collect()
}

#[test]
fn what_memory_knows_heals_a_step_that_could_not_pass() {
    let works = works("[recovery]\nauto_approve = [\"touch cured\"]\nrequire_human = []\n");
    let visit = works.salve(&["run", "--step", "echo 1 >> a.txt", "--step", &step(&works)]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(visit.said.contains("touch cured"), "{}", visit.said);
    assert_eq!(works.traces().len(), 2, "one failed attempt and one that verified the cure");
    assert!(works.events().contains(&"task.self_heal.remedied".to_owned()), "{:?}", works.events());
    let opened = entries(&works, "opened");
    assert_eq!(opened.len(), 1, "{opened:?}");
    let (id, _) = works.run();
    assert_eq!(opened[0]["data"]["subject"]["name"], format!("{id}/step-2"), "{opened:?}");
    let limits = &opened[0]["data"]["policy"]["limits"];
    assert_eq!((&limits["attempts"], &limits["resets"]), (&2.into(), &1.into()), "{limits}");
    let listed = works.salve(&["incidents", "--state", "recovered"]);
    assert!(listed.said.contains("step-2"), "{}", listed.said);
    // The cure belongs to the step, and the user's own files are untouched.
    assert!(
        works.workspace().join("cured").exists() && !works.project.dir().join("cured").exists()
    );
    assert!(works.file("artifacts/patches/steps/step-0001.patch").contains("cured"));
}

/// **Invariant:** What a step changed of what is installed, and how, runs unattended in no later step.
#[test]
fn what_a_step_planted_into_the_manifests_is_asked_about_in_a_job() {
    for planted in ["echo '{}' > package.json", "echo evil > hook.sh", "echo x > .npmrc"] {
        let works = works("[recovery]\nauto_approve = [\"touch cured\"]\nrequire_human = []\n");
        works.project.write("hook.sh", "true");
        works.project.write("package.json", r#"{"scripts": {"prepare": "sh hook.sh"}}"#);
        for args in [&["add", "-A"][..], &["commit", "-qm", "package"]] {
            crate::heal::git(&works.project, args);
        }
        let visit = works.salve(&["run", "--step", planted, "--step", &step(&works)]);
        assert_eq!(visit.code, Some(3), "{planted}: {}", visit.said);
        let told = works.salve(&["events", "--json"]).said;
        assert!(told.contains("changed in this run of the job"), "{planted}: {told}");
        assert!(!works.workspace().join("cured").exists(), "{planted}");
    }
}

#[test]
fn a_remedy_that_nobody_allowed_waits_for_a_person_and_the_job_goes_on_with_it() {
    let works = works("");
    let visit = works.salve(&["run", "--", "sh", "-c", &step(&works)]);
    assert_eq!(visit.code, Some(3), "{}", visit.said);
    assert!(visit.said.contains("touch cured") && visit.said.contains("salve approve"));
    assert_eq!(works.json("state.json")["status"], "awaiting_human");
    let id = entries(&works, "opened")[0]["incident"].as_str().unwrap().to_owned();
    let approved = works.salve(&["approve", &id]);
    assert_eq!(approved.code, Some(0), "{}", approved.said);
    let (run, _) = works.run();
    let visit = works.salve(&["resume", &run]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert_eq!(works.traces().len(), 2, "nothing ran between the question and the cure");
    assert_eq!(entries(&works, "opened").len(), 1, "one failure, one incident");
}

#[test]
fn whoever_is_killed_while_a_step_is_healed_leaves_one_incident_that_is_closed_later() {
    let works = Works::new();
    let gate = works.project.dir().canonicalize().unwrap().join("../open");
    // It fails once, then waits, then is done.
    let step = format!(
        "{}; test -e '{gate}'.1 || {{ touch '{gate}'.1; exit 7; }}; \
         test -e '{gate}' || {{ touch '{gate}'.2; sleep 600; }}; echo 1 >> a.txt",
        works.trace("x"),
        gate = gate.display()
    );
    let mut child = works.start(&["run", "--step", &step, "--step", "true"]);
    wait_for("the second attempt", || gate.with_extension("2").exists());
    kill(&works, &mut child);
    fs::write(&gate, "").unwrap();
    let (run, _) = works.run();
    let visit = works.salve(&["resume", &run]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert_eq!(fs::read_to_string(works.workspace().join("a.txt")).unwrap(), "one\n1\n");
    assert_eq!(entries(&works, "opened").len(), 1);
    let open = works.salve(&["incidents", "--state", "open"]);
    assert!(!open.said.contains("step-1"), "{}", open.said);
    assert!(works.salve(&["incidents", "--state", "recovered"]).said.contains("step-1"));
}

/// **Invariant:** A step is not done while its tests were weakened.
#[test]
fn an_agent_that_weakens_the_tests_has_failed_its_step() {
    let works = Works::new();
    let test = "test('adds', () => {\n  expect(add(1, 2)).toBe(3);\n});\n";
    works.project.write("add.test.js", test);
    for args in [&["add", "-A"][..], &["commit", "-qm", "tests"]] {
        crate::heal::git(&works.project, args);
    }
    // The first attempt skips the test, the second one puts it back and does the work.
    let agent = works.project.dir().canonicalize().unwrap().join("../agent.sh");
    works.project.write(
        "../agent.sh",
        "cat > /dev/null\nif grep -q skip add.test.js; then git checkout -q add.test.js; echo x > done.txt\n\
         else sed -i 's/^test(/test.skip(/' add.test.js; fi\n",
    );
    works.project.write(
        "job.toml",
        format!(
            "[[steps]]\nid = \"fix\"\ninstruction = \"Make it pass.\"\nruntime = \"sh '{}'\"\n\
         verify = {{ command = \"true\" }}\n",
            agent.display()
        ),
    );
    let visit = works.salve(&["run", "job.toml"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(
        visit.said.contains("weakened") && visit.said.contains("add.test.js"),
        "{}",
        visit.said
    );
    let patch = works.file("artifacts/result.patch");
    assert!(patch.contains("done.txt") && !patch.contains("skip"), "{patch}");
}

#[test]
fn a_step_that_a_hard_reset_healed_leaves_an_incident_that_recovered() {
    let works = Works::new();
    // It fails twice in the same way; what the first attempts left would fail it for ever.
    let step = format!(
        "{}; test -e junk && {{ echo 'nobody knows what this junk is' >&2; exit 3; }}; \
         test $(wc -l < $OUT/trace) -gt 2 || {{ echo x > junk; exit 3; }}",
        works.trace("x")
    );
    let visit = works.salve(&["run", "--attempts", "6", "--", "sh", "-c", &step]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(visit.said.contains("in a fresh workspace"), "{}", visit.said);
    let listed = works.salve(&["--json", "incidents", "step"]).said;
    assert!(listed.contains("\"recovered\"") && !listed.contains("unhealed"), "{listed}");
    assert!(!listed.contains("\"open\""), "{listed}");
}
