//! `salve heal` killed at every entry of its journal, with all that watches it, and run again.

use std::process::Child;

use salve_core::event::{Entry, Event, IncidentEvent, IncidentOutcome};
use salve_core::incident::{Incident, Phase};

use crate::heal::Ward;
use crate::support::{has_process, is_alive, wait_for};

/// An agent that takes a moment, says who it is, and mends.
const AGENT: &str = "sleep 0.3; printf 5 > sum.txt; echo done >> ../done";

/// Returns how many entries the journal has.
fn written(ward: &Ward) -> usize {
    let path = ward.project.dir().join(".salve/events.jsonl");
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

/// Kills the keeper and its worker at once.
pub(crate) fn kill(salve: &mut Child) {
    let signal = |name: &str, pid: u32| {
        let _ = std::process::Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    };
    signal("STOP", salve.id());
    let children = format!("/proc/{0}/task/{0}/children", salve.id());
    let children = std::fs::read_to_string(&children).unwrap_or_default();
    let workers: Vec<u32> =
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    workers.iter().for_each(|worker| signal("KILL", *worker));
    signal("KILL", salve.id());
    salve.wait().unwrap();
    wait_for("the worker's end", || !workers.iter().any(|worker| is_alive(*worker)));
}

/// Returns how each incident stands.
fn phases(ward: &Ward) -> Vec<Phase> {
    let project = salve::project::Project::at(&ward.project.dir()).unwrap();
    let store = salve::store::Store::open(&project).unwrap();
    let entries: Vec<Entry> =
        store.journal().read(0, &salve::store::Stream::Project, usize::MAX).unwrap();
    let opened = entries
        .iter()
        .filter(|entry| matches!(entry.event, Event::Incident(IncidentEvent::Opened { .. })));
    let ids: Vec<_> = opened.filter_map(|entry| entry.incident).collect();
    let of = |id| entries.iter().filter(move |entry| entry.incident == Some(id));
    ids.into_iter().map(|id| Incident::replay(of(id)).unwrap().phase()).collect()
}

/// **Invariant:** A heal goes on rightly wherever Salve was killed, and no agent of it outlives it.
#[test]
fn a_heal_goes_on_wherever_salve_was_killed() {
    // A whole heal writes some twenty entries; whatever stands in the journal, the next run ends
    // it rightly.
    for entries in (1..=22).step_by(3) {
        let ward = Ward::new().agent(AGENT);
        let mut salve = ward.command(&[]).spawn().unwrap();
        wait_for("the entries", || {
            written(&ward) >= entries || salve.try_wait().unwrap().is_some()
        });
        kill(&mut salve);
        ward.heal(&[]).expect(0, &[]);
        assert_eq!(ward.read("sum.txt"), "5", "killed after {entries} entries");
        ward.assert_users_work_is_intact();
        let agent = ward.project.dir().join("../agent.sh").canonicalize().unwrap();
        let is_left = has_process(&agent.to_string_lossy());
        assert!(!is_left, "an agent of a killed run outlived it");
        for phase in phases(&ward) {
            let good = matches!(
                phase,
                Phase::Closed(
                    IncidentOutcome::Recovered(_)
                        | IncidentOutcome::Resolved
                        | IncidentOutcome::Aborted
                )
            );
            assert!(good, "killed after {entries} entries: {phase:?}");
        }
    }
}

#[test]
fn what_an_agent_had_done_when_salve_was_killed_goes_with_its_layer_and_is_done_again() {
    let ward = Ward::new()
        .agent("printf 5 > sum.txt; [ -e ../done ] && exit; touch ../done; exec sleep 1000");
    let mut salve = ward.command(&[]).spawn().unwrap();
    wait_for("the agent", || ward.project.dir().join("../done").exists());
    kill(&mut salve);
    assert_eq!(ward.read("sum.txt"), "4", "it never was in the tree");
    let proven = "proven: the state before the repair still fails the same way";
    ward.heal(&[]).expect(0, &["healed", proven]);
    assert_eq!(ward.read("sum.txt"), "5");
    ward.assert_users_work_is_intact();
    let memory = ward.salve(&["--json", "memory", "list"]);
    assert!(memory.contains("\"proven\":1"), "it is credited as any other: {memory}");
    // So the next one is healed without an agent.
    ward.project.write("sum.txt", "4");
    ward.project.write("../agent.sh", "exit 9");
    ward.heal(&[]).expect(0, &["known patch", proven]);
}

/// **Invariant:** An approved command that a kill cut short is asked about, and a yes runs it again.
#[test]
fn a_yes_runs_again_what_a_kill_cut_short() {
    let ward = Ward::new();
    let cure = "echo once >> ran; while ! test -e ../go; do sleep 0.05; done; touch cured";
    let failure = b"Error: boom in module x\n";
    let learned = ward.project.run_with_input(&["memory", "learn", "--command", cure], failure);
    assert!(learned.status.success(), "{learned:?}");
    ward.project
        .write("cured.sh", "test -e cured || { echo 'Error: boom in module x'; exit 1; }\n");
    let check = ["--", "sh", "cured.sh"];
    ward.heal(&check).expect(3, &["salve approve"]);
    assert!(ward.salve(&["approve"]).contains("said yes"));
    let mut salve = ward.command(&check).spawn().unwrap();
    wait_for("the command", || ward.project.dir().join("ran").exists());
    kill(&mut salve);
    ward.project.write("../go", "");
    ward.project.write("mine.txt", "typed since\n");
    ward.heal(&check).expect(3, &["salve approve", "touch cured"]);
    assert!(!ward.project.dir().join("cured").exists(), "nobody said yes yet");
    assert!(ward.salve(&["approve"]).contains("said yes"));
    ward.heal(&check).expect(0, &["healed"]);
    // Nobody knows any more what the first one left and what the user wrote.
    assert_eq!(ward.read("ran"), "once\nonce\n");
    assert_eq!(ward.read("mine.txt"), "typed since\n");
}
