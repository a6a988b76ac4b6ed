//! Servers that misbehave and a world that is in the way: a clear word, and a right end.

use std::process::{Command, Output, Stdio};

use crate::support::{Project, dev, wait_until, with_own_mounts};

fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the latest crash log.
fn crash_log(project: &Project) -> String {
    std::fs::read_to_string(project.dir().join(".dev-crash.log")).unwrap_or_default()
}

#[test]
fn what_is_no_program_is_told_and_not_tried_again_and_again() {
    let project = Project::new();
    project.write("notes.txt", "no program");
    let output = run(dev(&project, &["--", "./notes.txt"]));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(said(&output).contains("`./notes.txt` cannot be run"), "{}", said(&output));
}

#[test]
fn binary_output_passes_as_it_is_and_still_makes_evidence() {
    let project = Project::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(64 << 10).collect();
    project.write("bytes", &bytes);
    let script = "cat bytes; echo 'Error: no more bytes' >&2; exit 1";
    let mut command = dev(&project, &["--", "sh", "-c", script]);
    command.env("REPAIR_MAX_ATTEMPTS", "1");
    let output = run(command);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, bytes.repeat(2), "untouched, at each of its two runs");
    assert!(crash_log(&project).contains("Error: no more bytes"));
}

#[test]
fn a_server_that_closes_its_output_is_cared_for_all_the_same() {
    let project = Project::new();
    let script = "exec >&- 2>&-; if [ -e been ]; then exec sleep 1; fi; touch been; exit 4";
    let output = run(dev(&project, &["--", "sh", "-c", script]));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said(&output).contains("Dev server recovered!"), "{}", said(&output));
    assert!(crash_log(&project).contains("exit 4"));
}

#[test]
fn a_server_that_ignores_every_polite_word_is_ended_all_the_same() {
    let project = Project::new();
    let script = "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 0.05; done";
    let mut salve = dev(&project, &["--", "sh", "-c", script]);
    let salve = salve.env("SALVE_SERVER_STOP_GRACE_MS", "50").stdin(Stdio::null());
    let mut salve = salve.stderr(Stdio::null()).spawn().unwrap();
    let pid = || std::fs::read_to_string(project.dir().join("pid")).unwrap_or_default();
    wait_until(|| pid().ends_with('\n'));
    let keeper = salve.id().to_string();
    Command::new("kill").args(["-INT", &keeper]).status().unwrap();
    assert_eq!(salve.wait().unwrap().code(), Some(130));
    assert!(!std::path::Path::new("/proc").join(pid().trim()).exists());
}

#[test]
fn a_server_whose_directory_is_gone_is_told_so() {
    let project = Project::new();
    project.write("app/here", "");
    project
        .write("salve.toml", "[servers.app]\ndir = \"app\"\ncommand = \"rm -r ../app; exit 1\"\n");
    let output = run(dev(&project, &[]));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = said(&output);
    assert!(said.contains("cannot start in") && said.contains("app"), "{said}");
}

#[test]
fn a_crash_log_that_cannot_be_written_is_told_and_the_repair_goes_on() {
    let project = Project::new();
    project.write(".dev-crash.log/in/the/way", "");
    let script = "if [ -e been ]; then exec sleep 1; fi; touch been; exit 7";
    let output = run(dev(&project, &["--", "sh", "-c", script]));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = said(&output);
    assert!(said.contains("cannot write the crash log"), "{said}");
    assert!(said.contains("Dev server recovered!"), "{said}");
}

/// Fills the disk at its first start, and runs at its second.
const FILLS_THE_DISK: &str = "[ -e \"$HOME/been\" ] && exec sleep 1; touch \"$HOME/been\"; cat /dev/zero > filler 2>/dev/null; exit 7";

#[test]
fn a_full_disk_without_room_for_the_crash_log_is_told_and_the_repair_goes_on() {
    let project = Project::new();
    let salve = dev(&project, &["--", "sh", "-c", FILLS_THE_DISK]);
    let script = "mount -t tmpfs -o size=64k none .; cd \"$PWD\"; mkdir .salve; \
                  mount -t tmpfs none .salve; exec \"$@\"";
    let Some(output) = with_own_mounts(&salve, &project.dir(), script) else { return };
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("cannot write the crash log: no space left"), "{said}");
    assert!(said.contains("Dev server recovered!"), "{said}");
}

#[test]
fn a_full_disk_without_room_for_the_journal_is_told_and_nothing_is_left_running() {
    let project = Project::new();
    let salve = dev(&project, &["--", "sh", "-c", FILLS_THE_DISK]);
    let script = "mount -t tmpfs -o size=900k none .; cd \"$PWD\"; \
                  \"$@\" || echo \"ended with $?\" >&2; rm filler; exec \"$@\"";
    let Some(output) = with_own_mounts(&salve, &project.dir(), script) else { return };
    let said = said(&output);
    for part in ["no space left to write", "free some disk space", "ended with 1"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(output.status.code(), Some(0), "it works again where there is room: {said}");
}

#[test]
fn on_a_full_disk_servers_and_checks_run_as_they_would_without_salve() {
    let project = Project::new();
    let command = ["--", "sh", "-c", "echo it ran; exit 7"];
    for salve in [dev(&project, &command), project.command(&[&["heal"][..], &command].concat())] {
        let script = "mount -t tmpfs -o size=64k none .; cd \"$PWD\"; exec \"$@\"";
        let Some(output) = with_own_mounts(&salve, &project.dir(), script) else { return };
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "it ran\n");
        assert!(said(&output).contains("nothing is healed"), "{}", said(&output));
    }
}

/// Two servers; one fails whenever it is told to.
const TWO: &str = r#"
[servers.calm]
command = "exec sleep 300"
[servers.fails]
command = "echo x >> $HOME/starts; while [ ! -e $HOME/go ]; do sleep 0.05; done; rm $HOME/go; exit 7"
"#;

#[test]
fn servers_run_on_when_a_disk_fills_up_and_healing_goes_on_when_there_is_room() {
    let project = Project::new();
    std::fs::create_dir_all(project.home()).unwrap();
    std::fs::write(project.home().join("salve.toml"), TWO).unwrap();
    let mut salve = dev(&project, &[]);
    salve.env("REPAIR_MAX_ATTEMPTS", "100");
    // It ends by itself should something not come to pass.
    let script = "mount -t tmpfs -o size=6m none .; cd \"$PWD\"; cp \"$HOME/salve.toml\" .; \
        until_so() { for i in $(seq 600); do if \"$@\"; then return; fi; sleep 0.1; done; false; }; \
        is_up() { [ -e \"$HOME/starts\" ]; }; \
        is_told() { touch \"$HOME/go\"; grep -q 'nothing can be recorded' \"$HOME/said\"; }; \
        is_over() { grep -q 'healing goes on' \"$HOME/said\"; }; \
        has_more() { [ \"$(wc -l < \"$HOME/starts\")\" -gt \"$before\" ]; }; \
        \"$@\" 2> \"$HOME/said\" & salve=$!; until_so is_up; \
        cat /dev/zero > filler 2> \"$HOME/full\" || true; until_so is_told; \
        before=$(wc -l < \"$HOME/starts\"); sleep 1; kill -0 $salve; \
        rm filler; until_so is_over; until_so has_more; kill -INT $salve; wait $salve";
    let Some(output) = with_own_mounts(&salve, &project.dir(), script) else { return };
    let said = std::fs::read_to_string(project.home().join("said")).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}{}", self::said(&output));
}

#[test]
fn a_lock_that_is_no_lock_is_set_aside_and_one_of_another_host_is_kept() {
    let project = Project::new();
    project.write(".dev-repair.lock", "{ what is this");
    let script = "if [ -e been ]; then exec sleep 1; fi; touch been; exit 7";
    let output = run(dev(&project, &["--", "sh", "-c", script]));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said(&output).contains("the repair lock was unreadable"), "{}", said(&output));
    let aside = std::fs::read_to_string(project.dir().join(".dev-repair.lock.unreadable"));
    assert_eq!(aside.unwrap(), "{ what is this");

    let elsewhere = r#"{"version":1,"pid":1,"started":1,"host":"elsewhere"}"#;
    project.write(".dev-repair.lock", elsewhere);
    std::fs::remove_file(project.dir().join("been")).unwrap();
    let output = run(dev(&project, &["--", "sh", "-c", script]));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(said(&output).contains("process 1 on elsewhere is repairing"), "{}", said(&output));
    let kept = std::fs::read_to_string(project.dir().join(".dev-repair.lock")).unwrap();
    assert_eq!(kept, elsewhere);
}

#[test]
fn of_many_that_start_together_exactly_one_cares_for_the_server() {
    let project = Project::new();
    for round in 0..20 {
        // Each waits until nobody else is going to start.
        let script =
            format!("echo $$ >> owners.{round}; while ! [ -e go.{round} ]; do sleep 0.02; done");
        let mut all: Vec<_> = (0..5)
            .map(|_| {
                let mut salve = dev(&project, &["--", "sh", "-c", &script]);
                salve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                salve.spawn().unwrap()
            })
            .collect();
        let mut refused = 0;
        wait_until(|| {
            all.retain_mut(|salve| match salve.try_wait().unwrap() {
                Some(status) => {
                    assert_eq!(status.code(), Some(1), "it is told who cares for it");
                    refused += 1;
                    false
                }
                None => true,
            });
            refused == 4
        });
        project.write(&format!("go.{round}"), "");
        assert_eq!(all.remove(0).wait().unwrap().code(), Some(0));
        let owners = std::fs::read_to_string(project.dir().join(format!("owners.{round}")));
        assert_eq!(owners.unwrap().lines().count(), 1, "round {round}");
    }
}
