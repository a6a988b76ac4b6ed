//! What a job of a fleet did, taken over as a branch; and jobs of a fleet that are gone on with.

use crate::heal::git;
use crate::jobs_fleet::{Machine, Sender};

/// Has a worker run what is queued.
fn visit(sender: &Sender, machine: &Machine) {
    let visit = machine.command(&sender.server, &["--until-empty"]).output().unwrap();
    assert_eq!(visit.status.code(), Some(0), "{}", String::from_utf8_lossy(&visit.stderr));
}

fn lines(sender: &Sender, args: &[&str]) -> Vec<String> {
    let output = std::process::Command::new("git")
        .args(args)
        .current_dir(sender.works.project.dir())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_job_of_a_fleet_is_taken_over_as_a_branch_on_the_commit_from_which_it_started() {
    let Some(sender) = Sender::new() else { return };
    let machine = Machine::new();
    let id = sender.submit(&["echo 1 >> a.txt", "echo 2 > b.txt"], &[]);
    visit(&sender, &machine);
    let start = lines(&sender, &["rev-parse", "HEAD"]);
    // The user went on meanwhile.
    sender.works.project.write("later.txt", "later\n");
    git(&sender.works.project, &["add", "later.txt"]);
    git(&sender.works.project, &["commit", "-qm", "later"]);
    let refs = lines(&sender, &["for-each-ref"]);
    let taken = sender.salve(&["jobs", "take", &id, "--branch", "result"]);
    assert_eq!(taken.code, Some(0), "{}", taken.said);
    assert_eq!(lines(&sender, &["rev-parse", "result~2"]), start, "one commit for each step");
    assert_eq!(lines(&sender, &["show", "result:a.txt"]), ["one", "1"]);
    assert_eq!(lines(&sender, &["show", "result:b.txt"]), ["2"]);
    assert_eq!(sender.file("a.txt"), "one\n", "the files stay as they are");
    let after: Vec<String> = lines(&sender, &["for-each-ref"]);
    assert_eq!(after.len(), refs.len() + 1, "nothing but the branch: {after:?}");
    // Of files that were not committed no commit knows.
    sender.works.project.write("a.txt", "changed\n");
    let id = sender.submit(&["echo 3 >> a.txt"], &["--here"]);
    visit(&sender, &machine);
    let none = sender.salve(&["jobs", "take", &id, "--branch", "other"]);
    assert_eq!(none.code, Some(1), "{}", none.said);
    assert!(none.said.contains("no commit here has the files"), "{}", none.said);
    assert_eq!(sender.salve(&["jobs", "take", &id]).code, Some(0));
    assert_eq!(sender.file("a.txt"), "changed\n3\n");
}

#[test]
fn a_job_of_a_fleet_that_waits_or_is_paused_goes_on_with_whoever_is_free() {
    let Some(sender) = Sender::new() else { return };
    let machine = Machine::new();
    let id = sender.submit(&["echo 1 >> a.txt"], &[]);
    assert_eq!(sender.salve(&["control", &id, "pause"]).code, Some(0));
    visit(&sender, &machine);
    assert_eq!(sender.listed(&id), "paused");
    let resumed = sender.salve(&["resume", &id]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.said);
    assert!(resumed.said.contains("a worker goes on with it"), "{}", resumed.said);
    visit(&sender, &machine);
    assert_eq!(sender.listed(&id), "completed");
    let over = sender.salve(&["resume", &id]);
    assert_eq!(over.code, Some(2), "{}", over.said);
    assert!(over.said.contains("is done"), "{}", over.said);
}
