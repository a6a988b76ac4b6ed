//! Whoever is killed in whatever state: the job goes on, each step is done once, and the workspace is
//! that of an undisturbed run.

use std::fs;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::jobs::Works;
use crate::support::{is_alive, processes, wait_for};

/// Whom a kill hits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Worker,
    Keeper,
    Agent,
    WorkerAndAgent,
    Everybody,
}

/// A state in which something is killed: what the job's steps do, and how one knows that it is there.
struct KilledIn {
    name: &'static str,
    /// What the agent of the second step does before `$1` lets it go on.
    agent: &'static str,
    verify: &'static str,
    /// The state is there when this file exists beside the project.
    sign: &'static str,
    victims: &'static [Victim],
}

/// What an agent does while it waits in a state: it says where it is, and goes on when it may.
const HOLD: &str =
    "hold() { touch \"$out/$1\"; while ! test -e \"$out/open\"; do sleep 0.02; done; }";

const STATES: [KilledIn; 5] = [
    KilledIn {
        name: "an agent works",
        agent: "echo half > made.txt; hold at",
        verify: "",
        sign: "at",
        victims: &[
            Victim::Worker,
            Victim::Keeper,
            Victim::Agent,
            Victim::WorkerAndAgent,
            Victim::Everybody,
        ],
    },
    KilledIn {
        name: "what it did is verified",
        agent: "true",
        verify: ", verify = { command = \"sh OUT/verify.sh\" }",
        sign: "verifies",
        victims: &[Victim::Worker, Victim::Keeper, Victim::Everybody],
    },
    KilledIn {
        name: "it is reviewed",
        agent: "true",
        verify: ", verify = { reviewer = { runtime = \"sh OUT/review.sh\" } }",
        sign: "reviews",
        victims: &[Victim::Worker, Victim::Everybody],
    },
    KilledIn {
        name: "it is tried again after a failure",
        agent: "if test -e \"$out/once\"; then hold again; else touch \"$out/once\"; echo junk > junk; exit 1; fi",
        verify: "",
        sign: "again",
        victims: &[Victim::Worker, Victim::Agent, Victim::Everybody],
    },
    KilledIn {
        name: "it is tried again after a hard reset",
        agent: "n=$(cat \"$out/n\" 2>/dev/null || echo 0); echo $((n + 1)) > \"$out/n\"\n\
                if test $n -ge 2; then hold fresh; else echo junk > junk; exit 1; fi",
        verify: "",
        sign: "fresh",
        victims: &[Victim::Worker, Victim::Agent, Victim::Everybody],
    },
];

/// Makes a project whose job stops in a state until it may go on.
fn works(state: &KilledIn) -> Works {
    let works = Works::new();
    let out = works.project.dir().canonicalize().unwrap().join("..");
    let out = out.canonicalize().unwrap();
    let head = format!("out='{}'\n{HOLD}\n", out.display());
    let agent =
        format!("{head}cat > /dev/null\n{}\nrm -f junk\necho whole > made.txt\n", state.agent);
    works.project.write("../agent.sh", agent);
    works.project.write("../verify.sh", format!("{head}hold verifies; test -e made.txt\n"));
    let approve = "sed -n 's/.*`\\(approved [0-9a-f]*\\)`.*/\\1/p'";
    let review = format!("{head}told=$(cat); hold reviews; echo \"$told\" | {approve}\n");
    works.project.write("../review.sh", review);
    works.project.write(
        "job.yaml",
        format!(
            "steps:\n  - {{ id: first, command: 'echo 1 >> a.txt' }}\n  \
             - {{ id: second, instruction: 'Do it.', runtime: 'sh {out}/agent.sh', \
             limits: {{ attempts: 9 }}{} }}\n  - {{ id: third, command: 'echo 3 >> a.txt' }}\n",
            state.verify.replace(" = ", ": ").replace("OUT", &out.to_string_lossy()),
            out = out.display()
        ),
    );
    works
}

fn end(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended just now.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Kills whom it hits, and waits until nothing of the run works on.
fn strike(works: &Works, state: &KilledIn, victim: Victim, child: &mut Child) {
    let lock: Value = serde_json::from_str(&works.file("run.lock")).unwrap();
    let worker = lock["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    // By its directory: in a namespace of its own it has another number.
    let workspace = works.workspace().canonicalize().unwrap();
    let agent = processes(|line, place| {
        let is_there = fs::read_link(place.join("cwd")).is_ok_and(|dir| dir == workspace);
        line.starts_with("sh\0") && is_there
    });
    assert!(!agent.is_empty(), "nobody works: {}", state.name);
    let victims: Vec<u32> = match victim {
        Victim::Worker => worker.into_iter().collect(),
        Victim::Keeper => vec![child.id()],
        Victim::Agent => agent,
        Victim::WorkerAndAgent => worker.into_iter().chain(agent).collect(),
        Victim::Everybody => [child.id()].into_iter().chain(worker).chain(agent).collect(),
    };
    victims.into_iter().for_each(end);
    if victim == Victim::Agent {
        return;
    }
    child.wait().unwrap();
    wait_for("the worker's end", || worker.is_none_or(|pid| !is_alive(pid)));
}

/// **Invariant:** A kill in any state costs no work that was done and repeats none of it.
#[test]
fn whoever_is_killed_in_any_state_leaves_a_job_that_ends_as_undisturbed() {
    for state in &STATES {
        for victim in state.victims {
            let works = works(state);
            let about = format!("{victim:?} killed while {}", state.name);
            let out = works.project.dir().join("..").canonicalize().unwrap();
            let mut child = works.start(&["run", "job.yaml"]);
            wait_for(&about, || {
                assert!(
                    child.try_wait().unwrap().is_none(),
                    "{about}: {}",
                    works.file("state.json")
                );
                out.join(state.sign).exists()
            });
            strike(&works, state, *victim, &mut child);
            fs::write(out.join("open"), "").unwrap();
            let (id, _) = works.run();
            let code = match victim {
                Victim::Agent => child.wait().unwrap().code(),
                _ => works.salve(&["resume", &id]).code,
            };
            assert_eq!(code, Some(0), "{about}: {}", works.file("events.jsonl"));
            let read = |name: &str| fs::read_to_string(works.workspace().join(name));
            assert_eq!(read("a.txt").unwrap(), "one\n1\n3\n", "{about}");
            assert_eq!(read("made.txt").unwrap(), "whole\n", "{about}");
            assert!(read("junk").is_err(), "{about}");
            let finished =
                works.events().iter().filter(|name| *name == "task.step.attempt.finished").count();
            assert_eq!(finished, 3, "{about}");
            let open = works.salve(&["incidents", "--state", "open"]).said;
            assert!(!open.contains("second"), "{about}: {open}");
        }
    }
}

/// **Invariant:** One job is run by one Salve at a time.
#[test]
fn a_second_salve_does_not_run_a_job_that_is_being_run() {
    let works = works(&STATES[0]);
    let out = works.project.dir().join("..").canonicalize().unwrap();
    let mut child = works.start(&["run", "job.yaml"]);
    wait_for("the agent", || out.join("at").exists());
    let (id, _) = works.run();
    let visit = works.salve(&["resume", &id]);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    assert!(visit.said.contains("is being run"), "{}", visit.said);
    fs::write(out.join("open"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_to_string(works.workspace().join("a.txt")).unwrap(), "one\n1\n3\n");
}
