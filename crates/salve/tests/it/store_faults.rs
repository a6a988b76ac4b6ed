//! The store is locked, full, read-only or damaged, and `salve` says so and what to do.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use rusqlite::Connection;

use crate::support::Project;

const HOLDER: &str = "SALVE_TEST_HOLDER";

fn project() -> Project {
    let project = Project::new();
    project.write("salve.toml", "");
    project
}

fn note(project: &Project, text: &str) {
    let output = project.run(&["events", "note", text]);
    assert!(output.status.success(), "{output:?}");
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn events(project: &Project) -> usize {
    let output = project.run(&["events", "--json"]);
    assert!(output.status.success(), "{output:?}");
    output.stdout.iter().filter(|byte| **byte == b'\n').count()
}

/// Holds the store for writing until its stdin ends; a process of its own for the test below.
#[test]
#[ignore = "started by another test"]
fn holder() {
    let Some(path) = std::env::var_os(HOLDER) else { return };
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    writeln!(std::io::stdout(), "\nheld").unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn who_holds_the_store_is_named() {
    let project = project();
    note(&project, "a");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "store_faults::holder", "--ignored", "--nocapture"]);
    command.env(HOLDER, project.dir().join(".salve/salve.db"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));
    let output = project.run(&["events", "note", "b"]);
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("by process {}", child.id())), "{stderr}");
    assert!(stderr.contains("try: wait for process"), "{stderr}");
    assert_eq!(events(&project), 1, "reading goes on meanwhile");
    drop(child.stdin.take());
    child.wait().unwrap();
    note(&project, "b");
}

#[test]
fn processes_that_find_the_damage_at_once_mend_it_once_and_lose_nothing() {
    let project = project();
    note(&project, "before");
    let database = project.dir().join(".salve/salve.db");
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[..200].fill(0xa5);
    std::fs::write(&database, &bytes).unwrap();
    let mut children: Vec<_> = (0..6)
        .map(|n| {
            let mut command = project.command(&["events", "note", &format!("after {n}")]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let outputs: Vec<_> =
        children.drain(..).map(|child| child.wait_with_output().unwrap()).collect();
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    let told = outputs.iter().filter(|output| stderr(output).contains("has been mended")).count();
    assert_eq!(told, 1, "who mended it says so");
    assert_eq!(events(&project), 1 + 1 + 6, "the old one, the mending, the new ones");
    let files = std::fs::read_dir(project.dir().join(".salve")).unwrap();
    let names: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let aside: Vec<_> = names.iter().filter(|name| name.contains(".corrupt-")).collect();
    let [aside] = aside.as_slice() else { panic!("{names:?}") };
    assert_eq!(std::fs::read(project.dir().join(".salve").join(aside)).unwrap(), bytes);
}

#[test]
fn each_thing_in_the_stores_place_is_told_with_what_to_do() {
    let newer = "PRAGMA user_version = 99; UPDATE meta SET value = '99' WHERE name = 'schema'";
    type Harm<'a> = &'a dyn Fn(&std::path::Path);
    let harms: [(&str, Harm<'_>, &str); 4] = [
        (
            "newer",
            &|state| {
                Connection::open(state.join("salve.db")).unwrap().execute_batch(newer).unwrap()
            },
            "try: update Salve",
        ),
        (
            "directory",
            &|state| {
                std::fs::remove_file(state.join("salve.db")).unwrap();
                std::fs::create_dir(state.join("salve.db")).unwrap();
            },
            "should be a file but is a directory",
        ),
        (
            "lock is a link",
            &|state| {
                std::fs::remove_file(state.join("salve.lock")).unwrap();
                std::os::unix::fs::symlink("/nowhere", state.join("salve.lock")).unwrap();
            },
            "should be a file but is a symbolic link",
        ),
        (
            "file for the state directory",
            &|state| {
                std::fs::remove_dir_all(state).unwrap();
                std::fs::write(state, "").unwrap();
            },
            "should be a directory of yours but is a file",
        ),
    ];
    for (name, harm, says) in harms {
        let project = project();
        note(&project, "a");
        harm(&project.dir().join(".salve"));
        let output = project.run(&["events", "note", "b"]);
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {stderr}");
        assert!(stderr.contains(says) && stderr.contains("try: "), "{name}: {stderr}");
    }
}

#[test]
fn a_store_without_permission_is_told_and_left_alone() {
    if rustix::process::geteuid().is_root() {
        // Nothing is forbidden to root; the mounts below cover the read-only side.
        return;
    }
    let project = project();
    note(&project, "a");
    let database = project.dir().join(".salve/salve.db");
    let allow =
        |mode| std::fs::set_permissions(&database, PermissionsExt::from_mode(mode)).unwrap();
    allow(0o000);
    let output = project.run(&["events", "note", "b"]);
    assert!(stderr(&output).contains("no permission to open"), "{output:?}");
    allow(0o400);
    let output = project.run(&["events", "note", "b"]);
    assert!(stderr(&output).contains("is read-only"), "{output:?}");
    allow(0o600);
    assert_eq!(events(&project), 1);
}

/// Runs a shell script with the project on a small file system of its own, which only it sees.
///
/// Returns `None` where the system does not let us mount one.
fn on_small_disk(project: &Project, script: &str) -> Option<Output> {
    let flags: &[&str] = if rustix::process::geteuid().is_root() { &["-m"] } else { &["-r", "-m"] };
    let mount = "mount -t tmpfs -o size=400k none \"$PROJECT\" && cd \"$PROJECT\"";
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(flags).args(["sh", "-c", script]).env("PROJECT", project.dir());
        command.env("SALVE", env!("CARGO_BIN_EXE_salve")).env("HOME", project.home());
        command.env("NO_COLOR", "1").env("SALVE_PROJECT", ".").output()
    };
    let possible = unshare(mount).is_ok_and(|output| output.status.success());
    possible.then(|| unshare(&format!("{mount} || exit 99\n{script}")).unwrap())
}

#[test]
fn a_full_disk_is_told_loses_nothing_and_work_goes_on_when_there_is_room() {
    let project = project();
    let script = r#"
        "$SALVE" events note first || exit 10
        dd if=/dev/zero of=filler bs=1k 2>/dev/null
        text=$(head -c 20000 /dev/zero | tr '\0' x)
        written=1
        while error=$("$SALVE" events note "$text" 2>&1 >/dev/null); do written=$((written + 1)); done
        echo "$error" >&2
        [ "$("$SALVE" events --json 2>/dev/null | wc -l)" = "$written" ] || exit 11
        rm filler
        "$SALVE" events note last || exit 12
        [ "$("$SALVE" events --json | wc -l)" = $((written + 1)) ] || exit 13
        [ "$(wc -l < .salve/events.jsonl)" = $((written + 1)) ] || exit 14
    "#;
    let Some(output) = on_small_disk(&project, script) else { return };
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("no space left"), "{stderr}");
    assert!(stderr.contains("try: free some disk space"), "{stderr}");
}

#[test]
fn a_read_only_disk_still_shows_the_events() {
    let project = project();
    let script = r#"
        "$SALVE" events note first >/dev/null || exit 10
        mount -o remount,ro "$PROJECT" || exit 11
        "$SALVE" events --json || exit 12
        "$SALVE" events note second && exit 13
        true
    "#;
    let Some(output) = on_small_disk(&project, script) else { return };
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert!(stderr.contains("is read-only"), "{stderr}");
}
