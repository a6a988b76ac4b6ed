//! Files that somebody planted: what Salve reads neither hangs nor floods it, and what it writes
//! goes nowhere but into its own directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::fs::{CWD, Mode};

use crate::heal::{Ward, git};
use crate::support::{LONG, Project, dev};

/// Less than what is needed to hold what never ends, and far more than Salve needs.
const MEMORY_KIB: u64 = 6 << 20;

/// Runs a command that must end by itself, within bounds of time and memory.
#[track_caller]
fn within_bounds(salve: &Command) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", &LONG.as_secs().to_string(), "sh", "-c"]);
    command.arg(format!("ulimit -v {MEMORY_KIB}; exec \"$@\"")).arg("sh");
    command.arg(salve.get_program()).args(salve.get_args());
    command.current_dir(salve.get_current_dir().unwrap()).env_clear();
    command.envs(salve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let code = output.status.code();
    assert!(!matches!(code, None | Some(124 | 134 | 137)), "{salve:?}: {output:?}");
    output
}

type Plant = fn(&Path);

const ENDLESS: [Plant; 3] = [
    |path| symlink("/dev/zero", path).unwrap(),
    |path| rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap(),
    |path| symlink(path.file_name().unwrap(), path).unwrap(),
];

/// **Invariant:** What never ends or never begins stops no command.
#[test]
fn a_file_that_never_ends_or_never_begins_stops_nobody() {
    let rows: [(&str, &[&str]); 10] = [
        (".mcp.json", &["doctor"]),
        ("Procfile", &["dev"]),
        ("package.json", &["init", "--dry-run"]),
        ("package.json", &["dev", "--", "sh", "-c", "echo \"Cannot find module 'x'\"; exit 1"]),
        ("pyproject.toml", &["dev", "--", "sh", "-c", "echo \"No module named 'x'\"; exit 1"]),
        (".dev-repair.lock", &["dev", "--", "sh", "-c", "exit 1"]),
        ("salve.toml", &["status"]),
        (".salve/CONTROL.md", &["heal", "--", "true"]),
        (".salve/learned/tool_fixes.yaml", &["memory", "list"]),
        (".salve/events.state", &["events", "note", "a"]),
    ];
    for (name, args) in rows {
        for (kind, plant) in ENDLESS.iter().enumerate() {
            let project = Project::new();
            project.write(".git/HEAD", "ref: refs/heads/main\n");
            let first = project.run(&["events", "note", "first"]);
            assert!(first.status.success(), "{first:?}");
            let path = project.dir().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _none = fs::remove_file(&path);
            plant(&path);
            let mut command = dev(&project, &[]);
            command = {
                let mut salve = project.command(args);
                salve.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
                salve.env("REPAIR_MAX_ATTEMPTS", "1");
                salve
            };
            let output = within_bounds(&command);
            let what = format!("{name} as kind {kind}: {output:?}");
            assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "silent: {what}");
        }
    }
}

/// Returns every file and directory below `dir` with what it holds.
fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(content(&path)),
            path => found.push((path.clone(), fs::read(path).unwrap())),
        }
    }
    found.sort();
    found
}

#[test]
fn nothing_is_written_through_a_planted_name() {
    let server: &[&str] = &["dev", "--", "sh", "-c", "echo hello; sleep 0.1; exit 0"];
    let check: &[&str] = &["heal", "--", "sh", "-c", "echo 'Error: no'; exit 1"];
    let rows: [(&str, &[&str]); 11] = [
        ("salve.db-wal", &["events", "note", "b"]),
        ("salve.db-shm", &["events", "note", "b"]),
        ("run/dev.lock", server),
        ("logs/dev.log", server),
        ("heal.lock", check),
        ("decisions.log", check),
        ("control.lock", check),
        ("learned.lock", &["memory", "list"]),
        ("salve.lock", &["events", "note", "b"]),
        ("salve.db", &["events", "note", "b"]),
        ("events.jsonl", &["events", "note", "b"]),
    ];
    let links: [fn(&Path, &Path); 2] =
        [|to, at| symlink(to, at).unwrap(), |to, at| fs::hard_link(to, at).unwrap()];
    for (name, args) in rows {
        for (kind, link) in links.iter().enumerate() {
            let project = Project::new();
            project.write("salve.toml", "version = 1\n");
            assert!(project.run(&["events", "note", "a"]).status.success());
            let outside = project.home().join("mine");
            fs::create_dir(&outside).unwrap();
            let precious = outside.join("precious");
            let path = project.dir().join(".salve").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            // The very file, so that it would do as what it stands for.
            let text = fs::read(&path).unwrap_or_else(|_| b"mine".to_vec());
            fs::write(&precious, text).unwrap();
            let _none = fs::remove_file(&path);
            link(&precious, &path);
            let before = content(&outside);
            let output = within_bounds(&project.command(args));
            assert_eq!(content(&outside), before, "{name} as kind {kind}: {output:?}");
        }
    }
}

#[test]
fn nothing_is_written_into_a_planted_directory() {
    let server: &[&str] = &["dev", "--", "sh", "-c", "echo hello; exit 0"];
    let check: &[&str] = &["heal", "--", "sh", "-c", "echo 'Error: no'; exit 1"];
    for (name, args) in [
        ("run", server),
        ("logs", server),
        ("healing-attempts", check),
        ("learned", &["memory", "check"] as &[&str]),
    ] {
        let project = Project::new();
        project.write("salve.toml", "version = 1\n");
        assert!(project.run(&["events", "note", "a"]).status.success());
        let outside = project.home().join("mine");
        fs::create_dir(&outside).unwrap();
        let path = project.dir().join(".salve").join(name);
        let _none = fs::remove_dir_all(&path);
        symlink(&outside, &path).unwrap();
        let output = within_bounds(&project.command(args));
        assert_eq!(content(&outside), [], "{name}: {output:?}");
    }
}

/// **Invariant:** Nothing is removed or moved that a planted link or note leads to.
#[test]
fn nothing_is_removed_through_a_planted_directory() {
    let check: &[&str] = &["heal", "--", "sh", "-c", "echo 'Error: no'; exit 1"];
    let job: &[&str] = &["run", "--step", "true"];
    for (name, args) in [("aside", check), ("copies", check), ("kept", check), ("jobs", job)] {
        let project = Project::new();
        project.write("salve.toml", "version = 1\n");
        assert!(project.run(&["events", "note", "a"]).status.success());
        let outside = project.home().join("mine");
        for dir in ["a", "b", "c", "d", "e", "f", "g.done"] {
            fs::create_dir_all(outside.join(dir)).unwrap();
            fs::write(outside.join(dir).join("precious"), "mine").unwrap();
            fs::write(outside.join(format!("{dir}.lock")), "").unwrap();
            let lock = r#"{"version":1,"pid":4194303,"started":1,"host":"vm"}"#;
            fs::write(outside.join(dir).join("run.lock"), lock).unwrap();
        }
        let path = project.dir().join(".salve").join(name);
        let _none = fs::remove_dir_all(&path);
        symlink(&outside, &path).unwrap();
        let before = content(&outside);
        let output = within_bounds(&project.command(args));
        assert_eq!(content(&outside), before, "{name}: {output:?}");
    }
}

#[test]
fn another_users_directory_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a directory away");
        return;
    }
    let project = Project::new();
    project.write("salve.toml", "");
    project.write(".salve/note", "theirs");
    std::os::unix::fs::chown(project.dir().join(".salve"), Some(12_345), None).unwrap();
    let output = project.run(&["events", "note", "a"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("another user's"), "{output:?}");
    assert_eq!(fs::read_dir(project.dir().join(".salve")).unwrap().count(), 1);
}

/// **Invariant:** A file that claims more than the disk holds is not copied to prove a repair.
#[test]
fn a_file_that_claims_more_than_the_disk_holds_is_not_copied() {
    let ward = crate::heal::Ward::new();
    let big = fs::File::create(ward.project.dir().join("big.bin")).unwrap();
    big.set_len(4 << 40).unwrap();
    ward.project
        .write("salve.toml", "[recovery]\nauto_approve = [\"touch cured\"]\nrequire_human = []\n");
    ward.project
        .write("cured.sh", "test -e cured || { echo 'Error: boom in module x'; exit 1; }\n");
    let failure = b"Error: boom in module x\n";
    let learned =
        ward.project.run_with_input(&["memory", "learn", "--command", "touch cured"], failure);
    assert!(learned.status.success(), "{learned:?}");
    ward.heal(&["--", "sh", "cured.sh"]).expect(0, &["healed"]);
    assert_eq!(big.metadata().unwrap().len(), 4 << 40);
}

/// **Invariant:** A store, or a copy of it, that claims more than any holds fills no disk and keeps
/// nobody busy.
#[test]
fn a_store_or_copy_that_claims_a_terabyte_is_not_read_whole() {
    let claims = |path: &Path, begin: &[u8]| {
        fs::write(path, begin).unwrap();
        fs::File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap();
    };
    let line = format!("{{\"{}\n", "x".repeat(60));
    let junk = |path: &Path| fs::write(path, line.repeat(2_000_000)).unwrap();
    for (name, want) in [("store", "mended"), ("copy", "1 GiB"), ("junk", "never wrote")] {
        let project = Project::new();
        project.write(".git/HEAD", "ref: refs/heads/main\n");
        assert!(project.run(&["events", "note", "first"]).status.success());
        let [store, copy] =
            ["salve.db", "events.jsonl"].map(|file| project.dir().join(".salve").join(file));
        if name == "store" {
            claims(&store, b"nothing that is known");
        } else {
            for end in ["", "-wal", "-shm"] {
                let _none = fs::remove_file(project.dir().join(format!(".salve/salve.db{end}")));
            }
            if name == "copy" { claims(&copy, b"{\"seq\":1}\n") } else { junk(&copy) }
        }
        let output = within_bounds(&project.command(&["events", "note", "second"]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(want), "{name}: {output:?}");
    }
}

/// **Invariant:** A pipe in the place of one of git's files is told of, and nobody waits for it.
#[test]
fn a_pipe_in_the_place_of_gits_files_keeps_no_command_waiting() {
    for name in ["HEAD", "commondir"] {
        let project = Project::new();
        git(&project, &["init", "-q"]);
        let path = project.dir().join(".git").join(name);
        let _none = fs::remove_file(&path);
        ENDLESS[1](&path);
        let output = within_bounds(&project.command(&["heal", "--", "sh", "-c", "exit 1"]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(name) && said.contains("git would wait"), "{name}: {output:?}");
        assert!(fs::remove_file(&path).is_ok());
    }
}

/// **Invariant:** What somebody adds to the store's own schema neither runs nor keeps anybody busy.
#[test]
fn views_and_triggers_in_the_store_do_nothing() {
    let view = "alter table T rename to T_kept; create view T as with recursive c(x) as \
                (select 1 union all select x + 1 from c) select T_kept.* from T_kept, c";
    let trigger = "create trigger t_T after insert on T begin delete from T; end";
    for plant in [view, trigger] {
        let project = Project::new();
        project.write(".git/HEAD", "ref: refs/heads/main\n");
        assert!(project.run(&["events", "note", "first"]).status.success());
        let db = rusqlite::Connection::open(project.dir().join(".salve/salve.db")).unwrap();
        let list =
            "select name from sqlite_master where type = 'table' and name not like 'sqlite%'";
        let mut listed = db.prepare(list).unwrap();
        let tables: Vec<String> =
            listed.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        drop(listed);
        for table in &tables {
            // Some of the engine's own take none.
            let _ = db.execute_batch(&plant.replace('T', table));
        }
        db.close().unwrap();
        within_bounds(&project.command(&["status"]));
        within_bounds(&project.command(&["events", "note", "second"]));
        within_bounds(&project.command(&["heal", "--", "true"]));
        let told = within_bounds(&project.command(&["events"]));
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        if plant == trigger {
            assert!(told.contains("first") && told.contains("second"), "{told}");
        }
    }
}

/// Returns a project that knows a patch for its red check, and the files in which it knows that.
fn knowing() -> Ward {
    let ward = Ward::new();
    let patch = "--- a/sum.txt\n+++ b/sum.txt\n@@ -1 +1 @@\n-4\n\\ No newline at end of file\n+5\n\
                 \\ No newline at end of file\n";
    ward.project.write("../fix.patch", patch);
    let learn = ["memory", "learn", "--patch", "../fix.patch"];
    let failure = b"AssertionError: expected 5, found 4\n";
    assert!(ward.project.run_with_input(&learn, failure).status.success());
    ward
}

/// **Invariant:** A journal or memory that came with a repository is believed by nobody, whether it was
/// there at first or was checked out over one's own.
#[test]
fn a_store_that_came_with_the_repository_is_put_aside() {
    let theirs = knowing();
    theirs.heal(&[]).expect(0, &["known patch of sum.txt (memory.patch)"]);
    git(&theirs.project, &["checkout", "-q", "sum.txt"]);
    let brought = [".salve/salve.db", ".salve/events.jsonl", ".salve/events.state"];
    git(&theirs.project, &[&["add", "-f"][..], &brought].concat());
    git(&theirs.project, &["commit", "-qm", "brought"]);
    let from = theirs.project.dir().display().to_string();
    for when in ["at first", "later"] {
        let ours = Ward::new();
        if when == "later" {
            ours.salve(&["events", "note", "mine"]);
        }
        git(&ours.project, &["fetch", "-q", &from]);
        git(&ours.project, &["checkout", "-qf", "FETCH_HEAD"]);
        let aside = ours.project.dir().join(".salve/brought-1");
        let told = "3 files of .salve came with the repository";
        ours.heal(&[]).expect(3, &[told, "brought-1", "needs you"]);
        assert_eq!(ours.read("sum.txt"), "4", "{when}");
        assert!(aside.join("salve.db").exists() && aside.join("events.jsonl").exists(), "{when}");
        assert!(!ours.salve(&["memory", "list"]).contains("patch:"), "{when}");
        assert!(!ours.salve(&["incidents"]).contains("proven"), "{when}");
        // What is one's own from then on is believed, whatever git says of its name.
        ours.salve(&["events", "note", "kept"]);
        let told = ours.salve(&["events"]);
        assert!(told.contains("kept") && !told.contains("came with"), "{when}: {told}");
        assert!(!ours.project.dir().join(".salve/brought-2").exists(), "{when}");
    }
}

/// **Invariant:** A whole directory of Salve's that is a submodule is refused.
#[test]
fn a_submodule_in_the_place_of_salves_directory_is_refused() {
    let theirs = knowing();
    let state = theirs.project.dir().join(".salve").display().to_string();
    let in_state = |args: &[&str]| git(&theirs.project, &[&["-C", &state][..], args].concat());
    in_state(&["init", "-q"]);
    in_state(&["add", "-f", "salve.db"]);
    in_state(&["commit", "-qm", "x"]);
    let ours = Ward::new();
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "-f", &state];
    git(&ours.project, &[&add[..], &[".salve"]].concat());
    let told = ours.salve(&["memory", "list"]);
    assert!(told.contains("is a submodule of the repository"), "{told}");
}

/// **Invariant:** A patch that came with the repository is asked about in whatever way it came, and
/// when it is no longer there.
#[test]
fn a_patch_that_the_repository_brought_in_another_way_is_asked_about_too() {
    let theirs = knowing();
    theirs.salve(&["memory", "list"]);
    let learned = theirs.project.dir().join(".salve/learned").display().to_string();
    let in_learned = |args: &[&str]| git(&theirs.project, &[&["-C", &learned][..], args].concat());
    in_learned(&["init", "-q"]);
    in_learned(&["add", "-f", "healing-patterns.json"]);
    in_learned(&["commit", "-qm", "x"]);
    let asks = "`known patch of sum.txt` may not run without a person's word";
    let ours = Ward::new();
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "-f", &learned];
    git(&ours.project, &[&add[..], &[".salve/learned"]].concat());
    ours.heal(&[]).expect(3, &[asks]);
    let ours = Ward::new();
    let file = ".salve/learned/healing-patterns.json";
    ours.project.write(file, theirs.read(file));
    git(&ours.project, &["add", "-f", file]);
    ours.heal(&[]).expect(3, &[asks]);
    // Salve has it in memory by now, and would write the file itself.
    git(&ours.project, &["rm", "-qf", file]);
    ours.heal(&[]).expect(3, &["needs you"]);
    assert_eq!(ours.read("sum.txt"), "4");
    ours.salve(&["approve"]);
    ours.heal(&[]).expect(0, &["known patch of sum.txt", "healed"]);
}

/// **Invariant:** A link in a sealed place brings no change there, whether an agent makes it or changes
/// what it leads to.
#[test]
fn a_link_in_a_sealed_place_brings_no_change_there() {
    let ward = Ward::new().agent(
        "cat > /dev/null; mkdir conf; echo evil > conf/tasks.json\n\
         rm -r .vscode; ln -s conf .vscode; echo evil > shared/settings.json; printf 5 > sum.txt\n",
    );
    ward.project.write(".vscode/tasks.json", "{}");
    ward.project.write("shared/settings.json", "{}");
    symlink("shared", ward.project.dir().join(".claude")).unwrap();
    git(&ward.project, &["add", "-A"]);
    git(&ward.project, &["commit", "-qm", "links"]);
    ward.heal(&[]).expect(0, &["also wanted to change", "shared/settings.json", "healed"]);
    assert_eq!(ward.read(".vscode/tasks.json"), "{}");
    assert_eq!(ward.read(".claude/settings.json"), "{}");
    assert_eq!(ward.read("sum.txt"), "5");
}

/// **Invariant:** No change leads a sealed place elsewhere by a link in the middle of its way, nor makes
/// anything behind one, nor changes where git finds programs.
#[test]
fn a_link_in_the_middle_of_a_sealed_way_brings_no_change_there() {
    let ward = Ward::new().agent(
        "cat > /dev/null; mkdir -p evil/c; echo evil > evil/c/settings.json; rm a; ln -s evil a\n\
         echo evil > conf/tasks.json; echo evil > tools/hooks/pre-commit\n\
         mkdir -p fake/objects fake/refs; echo ref: refs/heads/x > fake/HEAD; echo evil > fake/config\n\
         touch fake/objects/x fake/refs/x; printf 5 > sum.txt\n",
    );
    ward.project.write("b/c/settings.json", "{}");
    ward.project.write("conf/words", "");
    ward.project.write("tools/hooks/pre-commit", "# old\n");
    for (link, target) in [("a", "b"), (".claude", "a/c"), (".vscode", "conf")] {
        symlink(target, ward.project.dir().join(link)).unwrap();
    }
    git(&ward.project, &["config", "core.hooksPath", "tools/hooks"]);
    git(&ward.project, &["add", "-A"]);
    git(&ward.project, &["commit", "-qnm", "links"]);
    ward.heal(&[]).expect(0, &["also wanted to change", "healed"]);
    assert_eq!(ward.read(".claude/settings.json"), "{}");
    assert_eq!(ward.read("tools/hooks/pre-commit"), "# old\n");
    for path in ["conf/tasks.json", "fake/HEAD", "fake/config"] {
        assert!(!ward.project.dir().join(path).exists(), "{path}");
    }
    assert_eq!(ward.read("sum.txt"), "5");
}
