//! What may go wrong around a heal: no room to write, and a check that does not stop talking.

use std::process::Stdio;

use crate::heal::{Visit, Ward};
use crate::support::{wait_for, with_own_mounts};

/// Heals in a script that may mount a small disk; nothing where the system does not let it.
fn with_small_disk(ward: &Ward, script: &str) -> Option<Visit> {
    ward.project.write(".salve/.gitignore", "*\n");
    let salve = ward.command(&[]);
    with_own_mounts(&salve, &ward.project.dir(), script).map(|output| Visit::of(&output))
}

#[test]
fn a_heal_goes_on_where_nothing_can_be_noted_beside_the_journal() {
    let ward = Ward::new().agent("printf 5 > sum.txt");
    let script = "mkdir .salve/healing-attempts; \
                  mount -t tmpfs -o size=4k none .salve/healing-attempts; exec \"$@\"";
    let Some(visit) = with_small_disk(&ward, script) else { return };
    visit.expect(0, &["no space left to write", "healing-attempts", "healed", "proven"]);
    assert_eq!(ward.read("sum.txt"), "5");
    ward.assert_users_work_is_intact();
}

/// **Invariant:** A full disk loses nothing.
#[test]
fn a_full_disk_stops_a_heal_and_the_next_run_ends_it_once_there_is_room() {
    // Another program fills the disk while the agent works.
    let ward = Ward::new().agent(
        "if [ ! -e ../once ]; then touch ../once; while [ ! -e ../full ]; do sleep 0.02; done; fi; \
         printf 5 > sum.txt",
    );
    // Whatever comes first ends the wait: nothing of the script outlives it.
    let script = "mount -t tmpfs -o size=700k none .salve; \
                  (while [ ! -e ../once ] && [ ! -e ../ended ]; do sleep 0.02; done; \
                   head -c 9M /dev/zero > .salve/filler || true; touch ../full) & \
                  \"$@\" || echo \"ended with $?\"; touch ../ended; cat notes.txt draft.txt; \
                  rm .salve/filler; exec \"$@\"";
    let Some(visit) = with_small_disk(&ward, script) else { return };
    let full = ["cannot use the project's store", "free some disk space", "ended with 1"];
    visit.expect(0, &full);
    visit.expect(0, &["the user's own edit", "the user's own file", "healed", "proven"]);
    assert_eq!(ward.read("sum.txt"), "5");
    ward.assert_users_work_is_intact();
}

#[test]
fn a_gigabyte_of_output_takes_no_memory() {
    let ward = Ward::new();
    let talk = "yes 'FAIL src/cart.test.js: expected three items, and found four of them in the cart' \
                | head -c 1000000000; echo; echo 'AssertionError: the last word'; exit 1";
    let mut command = ward.command(&["--", "sh", "-c", talk]);
    let mut salve = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", salve.id());
    let peak = || {
        let workers = std::fs::read_to_string(&children).ok()?;
        let worker = workers.split_whitespace().next()?.to_owned();
        let status = std::fs::read_to_string(format!("/proc/{worker}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let mut most = 0;
    wait_for("the end", || {
        most = most.max(peak().unwrap_or(0));
        salve.try_wait().unwrap().is_some()
    });
    Visit::of(&salve.wait_with_output().unwrap()).expect(3, &["AssertionError: the last word"]);
    assert!((1..100_000).contains(&most), "it held {most} kB");
    let log = std::fs::read_dir(ward.project.dir().join(".salve/healing-attempts")).unwrap();
    let size: u64 = log.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(size < 2_000_000, "{size} bytes were kept");
}
