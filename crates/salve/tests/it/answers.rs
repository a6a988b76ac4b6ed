//! Only people answer: whatever an agent, a check or a hand in the journal tries.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use rusqlite::Connection;

use crate::config::agent_edits;
use crate::heal::Ward;
use crate::mcp::Client;

const SALVE: &str = env!("CARGO_BIN_EXE_salve");

/// Returns a project whose red check waits for a person's word about a command.
pub(crate) fn waiting() -> Ward {
    let ward = Ward::new();
    let fail = b"AssertionError: expected 5, found 4\n";
    let cure = "echo once >> ran; printf 5 > sum.txt";
    let learned = ward.project.run_with_input(&["memory", "learn", "--command", cure], fail);
    assert!(learned.status.success(), "{}", String::from_utf8_lossy(&learned.stderr));
    ward.heal(&[]).expect(3, &["needs you", "salve approve"]);
    ward
}

/// Returns whether this system lets anybody have namespaces of their own.
fn has_namespaces() -> bool {
    let mut unshare = Command::new("unshare");
    unshare.args(["-rm", "true"]).stderr(Stdio::null()).status().is_ok_and(|done| done.success())
}

/// The ways in which a process tries to answer, each a shell command that runs `"$@"`.
fn ways() -> Vec<(&'static str, &'static str)> {
    let mut ways = vec![
        ("plain", "\"$@\""),
        ("washed", "env -i HOME=\"$HOME\" XDG_DATA_HOME=\"$XDG_DATA_HOME\" PATH=\"$PATH\" \"$@\""),
        (
            "lifted",
            "env -i HOME=\"$HOME\" XDG_DATA_HOME=\"$XDG_DATA_HOME\" PATH=\"$PATH\" \
             prlimit --rttime=unlimited: \"$@\"",
        ),
        ("homeless", "env -i PATH=\"$PATH\" \"$@\""),
        ("other program", "cp \"$1\" ./salve2; shift; ./salve2 \"$@\""),
        ("loader", "$(ls /lib64/ld-linux*.so* /lib/ld-linux*.so* 2>/dev/null | head -1) \"$@\""),
        (
            "memory",
            "python3 -c 'import os, sys; f = os.memfd_create(\"x\", 0); \
             os.write(f, open(sys.argv[1], \"rb\").read()); \
             os.execv(\"/proc/self/fd/%d\" % f, sys.argv[1:])' \"$@\"",
        ),
    ];
    if has_namespaces() {
        ways.extend([
            ("covered", "unshare -rm sh -c 'mount -t tmpfs none /proc; \"$@\"' sh \"$@\""),
            ("own pids", "unshare -rmpf --mount-proc \"$@\""),
            (
                "doors hidden",
                "unshare -rm sh -c 'mount -t tmpfs -o mode=700 none \"$XDG_DATA_HOME/salve/doors\"; \
                 \"$@\"' sh \"$@\"",
            ),
            (
                "doors and parents hidden",
                "unshare -rmpf --mount-proc sh -c 'mount -t tmpfs -o mode=700 none \
                 \"$XDG_DATA_HOME/salve/doors\"; \"$@\"' sh \"$@\"",
            ),
            (
                "other doors",
                "mkdir -p ../data2/salve; cp -p \"$XDG_DATA_HOME/salve/seal.keys\" ../data2/salve; \
                 XDG_DATA_HOME=\"$(cd ../data2; pwd)\" unshare -rm \"$@\"",
            ),
        ]);
    }
    ways
}

/// Returns a script that tries every way in the background after a double fork, and waits until all
/// have said what came of it in files beside the project.
fn attempts(words: &str) -> String {
    let mut script = "cat > /dev/null 2>&1 < /dev/null\n".to_owned();
    for (at, (_, way)) in ways().iter().enumerate() {
        script += &format!(
            "cat > ../way{at}.sh <<'END'\nset -- '{SALVE}' {words}\n({way}) > ../t{at} 2>&1\n\
             echo \"code $?\" >> ../t{at}; mv ../t{at} ../told{at}\nEND\n\
             setsid sh -c \"sh ../way{at}.sh &\"\n\
             while ! test -e ../told{at}; do sleep 0.01; done\n"
        );
    }
    script
}

#[track_caller]
fn assert_all_refused(ward: &Ward) {
    for (at, (name, _)) in ways().iter().enumerate() {
        let told = ward.read(&format!("../told{at}"));
        assert!(!told.contains("code 0"), "{name}: {told}");
        std::fs::remove_file(ward.project.dir().join(format!("../told{at}"))).unwrap();
    }
}

/// **Invariant:** Nothing that Salve started answers for a person, however it hides.
#[test]
fn neither_an_agent_nor_a_check_answers_however_it_hides() {
    let ward = waiting().agent(&attempts("approve"));
    ward.project.write("other.sh", "echo 'Error: boom'; exit 1");
    ward.heal(&["--", "sh", "other.sh"]);
    assert_all_refused(&ward);
    std::fs::remove_file(ward.project.dir().join("../agent.sh")).unwrap();
    ward.project.write("other.sh", format!("{}exit 0\n", attempts("approve")));
    ward.heal(&["--", "sh", "other.sh"]).expect(0, &["green"]);
    assert_all_refused(&ward);
    assert!(!ward.salve(&["events", "--kind", "approved"]).contains("approved"));
    assert!(!ward.project.dir().join("ran").exists());
    assert!(ward.salve(&["approve"]).contains("said yes"), "a person can");
    ward.heal(&[]).expect(0, &["healed"]);
    assert_eq!(ward.read("ran"), "once\n");
}

/// **Invariant:** A Salve whose program bears another name is known from a user namespace too, where
/// its program cannot be seen.
#[test]
fn a_salve_under_another_name_is_known_by_those_it_started() {
    if !has_namespaces() {
        println!("skipped: there are no user namespaces here");
        return;
    }
    let ward = waiting();
    let way = ways().into_iter().find(|(name, _)| *name == "other doors").unwrap().1;
    ward.project
        .write("other.sh", format!("set -- '{SALVE}' approve\n({way}) > ../told 2>&1\nexit 0\n"));
    let usual = ward.command(&["--", "sh", "other.sh"]);
    let tool = ward.project.dir().join("../tool");
    std::fs::copy(SALVE, &tool).unwrap();
    let mut salve = Command::new(&tool);
    salve.args(usual.get_args()).current_dir(ward.project.dir()).env_clear();
    salve.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = salve.stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let told = ward.read("../told");
    assert!(told.contains("it was started by Salve"), "{told}");
}

/// A library that makes any program knock at every door in `DOORS` and write what is said there to
/// files in `TOLD`; after a double fork where `TWICE` is set.
const KNOCK: &str = r#"
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
__attribute__((constructor)) static void knock(void) {
    const char *doors = getenv("DOORS"), *told = getenv("TOLD");
    if (!doors || !told) return;
    signal(SIGPIPE, SIG_IGN);  /* who is refused may be so before they have spoken */
    if (getenv("TWICE")) { if (fork()) _exit(0); setsid(); if (fork()) _exit(0); }
    char said[8192] = "";
    size_t all = 0;
    DIR *dir = opendir(doors);
    struct dirent *entry;
    if (!dir || chdir(doors)) _exit(1);
    while ((entry = readdir(dir))) {
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".sock")) continue;
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        strncpy(address.sun_path, entry->d_name, sizeof address.sun_path - 1);
        int door = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(door, (struct sockaddr *)&address, sizeof address)) continue;
        dprintf(door, "{\"version\":1,\"words\":[\"%064d\"]}\n", 7);
        ssize_t got;
        while ((got = read(door, said + all, sizeof said - 1 - all)) > 0) all += got;
        close(door);
    }
    char fresh[4096];
    snprintf(fresh, sizeof fresh, "%s.new", told);
    FILE *file = fopen(fresh, "w");
    fputs(said, file);
    fclose(file);
    rename(fresh, told);
    _exit(0);
}
"#;

/// Makes the library; returns the directory that it is in, itself, and the directory of the doors.
fn knocker(ward: &Ward) -> (PathBuf, PathBuf, PathBuf) {
    ward.project.write("../knock.c", KNOCK);
    let root = ward.project.dir().parent().unwrap().canonicalize().unwrap();
    let library = root.join("knock.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(root.join("knock.c"));
    assert!(compiler.status().unwrap().success());
    let doors = ward.project.home().join("data/salve/doors").canonicalize().unwrap();
    (root, library, doors)
}

/// **Invariant:** The Salve that is asked judges by itself who speaks: one that skips every look of its
/// own is refused like any other, and only for who started it.
#[test]
fn a_salve_that_does_not_judge_itself_is_judged_at_the_door() {
    let ward = waiting();
    let (root, library, doors) = knocker(&ward);
    let (doors, library) = (doors.display(), library.display());
    let knock = |told: &str, twice: &str| {
        format!(
            "{twice} DOORS='{doors}' TOLD='{0}/{told}' LD_PRELOAD='{library}' '{SALVE}' status\n\
             while ! test -e '{0}/{told}'; do sleep 0.01; done\n",
            root.display()
        )
    };
    let wait = "touch ../ready; while ! test -e ../go; do sleep 0.01; done; exit 0\n";
    let script = knock("told-plain", "") + &knock("told-twice", "TWICE=1") + wait;
    ward.project.write("other.sh", script);
    let mut salve = ward.command(&["--", "sh", "other.sh"]).stdout(Stdio::null()).spawn().unwrap();
    crate::support::wait_for("the check", || root.join("ready").exists());
    // The same program with the same words, which a person's shell started, is let in.
    let mut own = Command::new("sh");
    let done = own.args(["-c", &knock("told-person", "")]).current_dir(&root).status().unwrap();
    assert!(done.success());
    ward.project.write("../go", "");
    assert!(salve.wait().unwrap().success());
    for how in ["told-plain", "told-twice"] {
        let told = ward.read(&format!("../{how}"));
        assert!(told.contains("it was started by Salve"), "{how}: {told}");
    }
    let told = ward.read("../told-person");
    assert!(told.contains("\"refused\":null"), "{told}");
}

/// Makes itself a child of whoever gets orphans here, ends that one's keeper, and then says to be what
/// that one keeps: by its words, its environment and its program.
const FORGE: &str = r#"
import os, signal, sys, time
salve, way = sys.argv[1], sys.argv[2]
def status(pid, key):
    return [line.split()[1] for line in open('/proc/%d/status' % pid) if line.startswith(key)][0]
worker = os.getppid()
while os.readlink('/proc/%d/exe' % worker) != salve: worker = int(status(worker, 'PPid'))
keeper = int(status(worker, 'PPid'))
words = open('/proc/%d/cmdline' % worker, 'rb').read().split(b'\0')[:-1]
if os.fork(): sys.exit(0)
os.setsid()
if os.fork(): os._exit(0)
for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(one, signal.SIG_IGN)
while os.getppid() != worker: time.sleep(0.01)
mine = worker
if way == 'keeper': os.kill(keeper, signal.SIGKILL)
else:
    os.kill(keeper, signal.SIGSTOP); os.kill(worker, signal.SIGKILL)
    while os.getppid() == worker: time.sleep(0.01)
    mine = keeper
env = {'SALVE_KEEPER': str(mine), 'LD_PRELOAD': sys.argv[3], 'DOORS': sys.argv[4], 'TOLD': sys.argv[5]}
os.execve(salve, words, env)
"#;

/// **Invariant:** Whoever ends a keeper, or the worker of one, is not taken for what those kept.
#[test]
fn who_forges_its_own_keeper_answers_nothing() {
    for way in ["keeper", "worker"] {
        let ward = waiting();
        let (root, library, doors) = knocker(&ward);
        ward.project.write("../forge.py", FORGE);
        let told = root.join("told");
        let script = format!(
            "touch ../ready; while ! test -e ../begin; do sleep 0.01; done\n\
             python3 ../forge.py '{SALVE}' {way} '{}' '{}' '{}'\nsleep 60\n",
            library.display(),
            doors.display(),
            told.display()
        );
        ward.project.write("other.sh", script);
        let mut salve = ward.command(&["--", "sh", "other.sh"]);
        let mut salve = salve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        crate::support::wait_for("the check", || root.join("ready").exists());
        // Another one of the project, which knows nothing of the first one's processes.
        ward.project.write("serve.sh", "touch ../serves; exec sleep 60\n");
        let mut other = ward.project.command(&["dev", "--", "sh", "serve.sh"]);
        other.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut other = other.spawn().unwrap();
        crate::support::wait_for("the server", || root.join("serves").exists());
        ward.project.write("../begin", "");
        crate::support::wait_for("the answer", || told.exists());
        let said = ward.read("../told");
        for child in [&mut salve, &mut other] {
            // One that was stopped hears no other signal.
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let refused = "it was started by Salve";
        assert!(said.contains(refused) && !said.contains("null"), "{way}: {said}");
    }
}

/// **Invariant:** An agent in its layer sees neither the user's keys nor the doors nor the journal.
#[test]
fn an_agent_in_its_layer_cannot_read_the_key() {
    let look = r#"
for file in seal.keys scrub.key memory.db doors; do
  test -e "$XDG_DATA_HOME/salve/$file" && echo "$file" >> ../seen
done
cat "$XDG_DATA_HOME/salve/seal.keys" > ../stolen 2>&1
(echo x > .salve/salve.db) 2>/dev/null
python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(250, 0, -4, 1) < 0)' && touch ../keyed
python3 -c 'import os, socket; s = socket.socket(socket.AF_UNIX); s.connect(os.environ["HOME"] + "/.ssh/shared")' \
  2> ../refused && touch ../connected
printf 5 > sum.txt
touch ../looked
"#;
    let ward = Ward::new().agent(look);
    let layer = ward.salve(&["doctor"]);
    if !layer.contains("agents work on an overlay") {
        println!("skipped: agents work on a copy here, from which the key can be read: {layer}");
        return;
    }
    std::fs::create_dir(ward.project.home().join(".ssh")).unwrap();
    let shared = std::os::unix::net::UnixListener::bind(ward.project.home().join(".ssh/shared"));
    ward.heal(&[]).expect(0, &["healed"]);
    drop(shared);
    assert!(ward.project.dir().join("../looked").exists(), "the agent worked");
    if cfg!(target_arch = "x86_64") {
        assert!(!ward.project.dir().join("../keyed").exists(), "the kernel's keys");
    }
    assert!(!ward.project.dir().join("../connected").exists(), "{}", ward.read("../refused"));
    let key = std::fs::read(ward.project.home().join("data/salve/seal.keys")).unwrap();
    assert!(!key.is_empty());
    assert!(!ward.project.dir().join("../seen").exists(), "{}", ward.read("../seen"));
    assert!(!ward.read("../stolen").contains("\"keys\""), "{}", ward.read("../stolen"));
    ward.salve(&["events", "--kind", "closed"]);
    assert!(ward.project.dir().join(".salve/salve.db").metadata().unwrap().len() > 1);
}

/// **Invariant:** What waits for a person's word in the settings is not accepted by what Salve
/// started, nor is a repair undone by it.
#[test]
fn neither_settings_are_accepted_nor_repairs_undone_by_what_salve_started() {
    let ward = waiting();
    ward.project.write("salve.toml", "[recovery]\nauto_approve = [\"npm ci\"]\n");
    let wide = "[recovery]\nauto_approve = [\"npm ci\", \"git push\"]\n";
    let digest = agent_edits(&ward.project, wide);
    for words in [format!("config accept {digest}"), "undo".to_owned()] {
        ward.project.write("other.sh", format!("{}exit 0\n", attempts(&words)));
        ward.heal(&["--", "sh", "other.sh"]).expect(0, &["green"]);
        assert_all_refused(&ward);
    }
    assert!(!ward.salve(&["events", "--kind", "config_accepted"]).contains("accepted"));
    assert!(ward.salve(&["config", "accept", &digest]).contains("accepted"), "a person can");
}

/// **Invariant:** A word that stands in the journal without a seal is forged, and runs nothing.
#[test]
fn a_row_that_somebody_wrote_into_the_journal_is_shown_as_forged_and_runs_nothing() {
    let ward = waiting();
    let db = ward.project.dir().join(".salve/salve.db");
    let conn = Connection::open(&db).unwrap();
    let (incident, data): (String, String) = conn
        .query_row(
            "SELECT incident, data FROM entry WHERE kind = 'judged' ORDER BY seq DESC",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let judged: serde_json::Value = serde_json::from_str(&data).unwrap();
    let digest = judged["remedy"]["digest"].as_str().unwrap();
    let by = r#"{"person":{"name":"ada"}}"#;
    let answer = format!(r#"{{"question":1,"digest":"{digest}"}}"#);
    conn.execute(
        "INSERT INTO entry (at, by, incident, kind, version, data) VALUES (?1, ?2, ?3, 'approved', 1, ?4)",
        rusqlite::params![1_800_000_000_000_000_i64, by, incident, answer],
    )
    .unwrap();
    drop(conn);
    let told = ward.salve(&["events", "--kind", "approved"]);
    assert!(told.contains("FORGED as ada"), "{told}");
    ward.heal(&[]).expect(3, &["needs you"]);
    assert!(!ward.project.dir().join("ran").exists());
    let shown = ward.salve(&["show", &incident, "--json"]);
    assert!(shown.contains("(forged)"), "{shown}");
    assert!(ward.salve(&["approve"]).contains("said yes"), "a person can");
    ward.heal(&[]).expect(0, &["healed"]);
}

/// **Invariant:** A terminal inside an attached agent's session is the agent's.
#[test]
fn a_terminal_of_an_attached_agent_is_the_agents() {
    let ward = waiting();
    let mut client = Client::hello(&ward.project, "bot");
    client.request("tools/list", serde_json::json!({}));
    let refused = ward.salve(&["approve"]);
    assert!(refused.contains("belongs to an agent that is attached"), "{refused}");
    if has_namespaces() {
        let mut hidden = Command::new("unshare");
        let salve = ward.project.command(&["approve"]);
        hidden.arg("-r").arg(salve.get_program()).args(salve.get_args());
        hidden.current_dir(ward.project.dir()).env_clear();
        hidden.envs(salve.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let refused = crate::heal::Visit::of(&hidden.output().unwrap()).said;
        assert!(refused.contains("belongs to an agent that is attached"), "{refused}");
    }
    drop(client);
    let refused = ward.salve(&["approve"]);
    assert!(refused.contains("belongs to an agent that is attached"), "it left: {refused}");
    let ward = waiting();
    let mut elsewhere = Client::hello_of_another(&ward.project, "bot");
    elsewhere.request("tools/list", serde_json::json!({}));
    assert!(ward.salve(&["approve"]).contains("said yes"), "the agent's tools are no terminal");
}

/// An agent that has the tools for itself, ends them in a way, and then answers in a terminal.
const LEAVING: &str = r#"
import json, subprocess, sys, time
way, salve = sys.argv[1], sys.argv[2]
tools = subprocess.Popen([salve, 'mcp'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
hello = {'jsonrpc': '2.0', 'id': 1, 'method': 'initialize', 'params': {
    'protocolVersion': '2025-06-18', 'capabilities': {}, 'clientInfo': {'name': 'bot', 'version': '1'}}}
tools.stdin.write(json.dumps(hello).encode() + b'\n')
tools.stdin.flush()
tools.stdout.readline()
if way == 'killed': tools.kill()
else: tools.stdin.close()
tools.wait()
told = subprocess.run(['setsid', '--wait', salve, 'approve'], capture_output=True, text=True)
print(told.stdout + told.stderr)
"#;

/// **Invariant:** An agent is one for as long as it lives, also when it has ended its tools.
#[test]
fn an_agent_that_ended_its_tools_is_still_one() {
    let ward = waiting();
    ward.project.write("../leaving.py", LEAVING);
    for way in ["killed", "closed"] {
        let usual = ward.project.command(&[]);
        let mut agent = Command::new("python3");
        agent.args(["../leaving.py", way, SALVE]).current_dir(ward.project.dir()).env_clear();
        agent.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let said = crate::heal::Visit::of(&agent.output().unwrap()).said;
        assert!(said.contains("belongs to an agent that is attached"), "{way}: {said}");
    }
    assert!(ward.salve(&["approve"]).contains("said yes"), "a person can");
}

/// **Invariant:** A check that starts the tools of an agent makes nobody an agent.
#[test]
fn a_check_that_starts_an_agents_tools_makes_no_person_an_agent() {
    let ward = waiting();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}"#;
    let script = format!("printf '%s\\n' '{hello}' | '{SALVE}' mcp > ../told\nexit 0\n");
    ward.project.write("other.sh", script);
    ward.heal(&["--", "sh", "other.sh"]).expect(0, &["green"]);
    assert!(ward.read("../told").contains("salve"), "{}", ward.read("../told"));
    assert!(ward.salve(&["approve"]).contains("said yes"));
}

/// **Invariant:** A word that went past a Salve which ran is believed by no later one either.
#[test]
fn a_word_that_nobody_announced_is_believed_by_no_later_salve() {
    if !has_namespaces() {
        println!("skipped: there are no user namespaces here");
        return;
    }
    let ward = waiting();
    let script = format!(
        "mkdir -p ../data2/salve; cp -p \"$XDG_DATA_HOME/salve/seal.keys\" ../data2/salve\n\
         XDG_DATA_HOME=\"$(cd ../data2; pwd)\" unshare -rmpf --mount-proc '{SALVE}' approve \
         > ../told 2>&1\nexit 0\n"
    );
    ward.project.write("other.sh", script);
    ward.heal(&["--", "sh", "other.sh"]).expect(0, &["green"]);
    assert!(ward.read("../told").contains("said yes"), "{}", ward.read("../told"));
    ward.heal(&[]).expect(3, &["needs you"]);
    assert!(!ward.project.dir().join("ran").exists());
}

/// **Invariant:** A yes that was used runs nothing again, also where Salve's files are put back.
#[test]
fn a_yes_that_was_used_is_history_where_salves_files_are_put_back() {
    let ward = waiting();
    assert!(ward.salve(&["approve"]).contains("said yes"));
    let copy = |from: &str, to: &str| {
        let done =
            Command::new("cp").args(["-a", from, to]).current_dir(ward.project.dir()).status();
        assert!(done.unwrap().success());
    };
    copy(".salve", "../before");
    let broken = ward.read("sum.txt");
    ward.heal(&[]).expect(0, &["healed"]);
    assert_eq!(ward.read("ran"), "once\n");
    assert!(!ward.salve(&["events", "--kind", "approved"]).contains("no seal"), "it is history");
    std::fs::remove_dir_all(ward.project.dir().join(".salve")).unwrap();
    copy("../before", ".salve");
    ward.project.write("sum.txt", broken);
    ward.heal(&[]).expect(3, &["needs you"]);
    assert_eq!(ward.read("ran"), "once\n");
    let told = ward.salve(&["events", "--kind", "approved"]);
    assert!(told.contains("no seal that holds"), "{told}");
}

/// **Invariant:** What Salve started teaches it nothing that would run, and makes it forget nothing.
#[test]
fn neither_a_check_nor_an_agent_teaches_what_may_run() {
    let ward = waiting();
    let signature = ward.salve(&["memory", "list", "--json"]);
    let signature = signature
        .split('"')
        .find(|word| word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let forget = format!("memory forget --yes {}", signature.unwrap());
    ward.project.write("../export.jsonl", ward.salve(&["memory", "export"]));
    for words in [
        "memory learn --command evil boom",
        "memory learn --failed --command evil boom",
        "memory learn --user --instruction evil boom",
        "memory import ../export.jsonl",
        &forget,
    ] {
        ward.project.write("other.sh", format!("{}exit 0\n", attempts(words)));
        ward.heal(&["--", "sh", "other.sh"]).expect(0, &["green"]);
        assert_all_refused(&ward);
    }
    assert!(!ward.salve(&["memory", "export"]).contains("evil"));
    assert!(!ward.salve(&["memory", "export", "--user"]).contains("evil"));
    assert!(ward.salve(&["memory", "learn", "--command", "good", "boom"]).contains("learned"));
}

#[test]
fn a_new_key_leaves_what_was_said_as_history_that_allows_nothing() {
    let ward = waiting();
    assert!(ward.salve(&["approve"]).contains("said yes"));
    assert!(ward.salve(&["doctor", "--new-key"]).contains("new key"));
    let told = ward.salve(&["events", "--kind", "approved"]);
    assert!(told.contains("no seal that holds"), "{told}");
    ward.heal(&[]);
    assert!(!ward.project.dir().join("ran").exists(), "the old key's yes runs nothing");
}

/// Sends the request in the file `ask` to the page and prints the answer's first line; each way once.
const BY_PAGE: &str = r#"
import ctypes, os, socket, sys, threading, time
mine, closed = threading.Event(), threading.Event()
way, host, port, asked = sys.argv[1], '127.0.0.1', int(sys.argv[2]), open(sys.argv[3], 'rb').read()
if way == 'mapped':
    s = socket.socket(socket.AF_INET6); s.connect(('::ffff:127.0.0.1', port))
else:
    s = socket.create_connection((host, port))
if way == 'hidden':
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
if way == 'orphan' and os.fork(): os._exit(0)
if way == 'orphan': os.setsid()
def held_by_a_thread(): s.sendall(asked); answer()
def answer():
    said = b''
    while True:
        part = s.recv(65536)
        if not part: break
        said += part
    open(sys.argv[3] + '.' + way, 'wb').write(said)
    os._exit(0)
if way == 'thread':
    def alone():
        ctypes.CDLL(None).unshare(0x400)
        mine.set(); closed.wait(); held_by_a_thread()
    threading.Thread(target=alone).start()
    mine.wait(); os.close(s.fileno()); closed.set(); time.sleep(60)
if way == 'leader':
    threading.Thread(target=lambda: (time.sleep(0.2), held_by_a_thread())).start()
    ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)
if way == 'flight':
    # The kernel sends it a moment later, when no process has the connection open.
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    s.send(asked)
    one, other = socket.socketpair()
    socket.send_fds(one, [b'x'], [s.fileno()])
    s.close()
    time.sleep(1)
    s = socket.socket(fileno=socket.recv_fds(other, 1, 1)[1][0])
    answer()
s.sendall(asked)
if way == 'gone': os._exit(0)
said = b''
while True:
    part = s.recv(65536)
    if not part: break
    said += part
open(sys.argv[3] + '.' + way, 'wb').write(said)
"#;

/// **Invariant:** No token of the page decides in the hands of what Salve started.
#[test]
fn what_salve_started_decides_nothing_by_the_page() {
    let ward = waiting();
    let page = crate::web::Page::of(&ward.project);
    let token = crate::web::token(&ward.project, "operator");
    let (id, question) = crate::web::first_question(&page, &token);
    let ask = &question["ask"];
    let yes = serde_json::json!({
        "answer": "approve", "question": ask["number"], "digest": ask["digest"],
    });
    let (path, host, body) = (format!("/api/incidents/{id}/answer"), &page.host, yes.to_string());
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         authorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    ward.project.write("../ask", request);
    ward.project.write("../by_page.py", BY_PAGE);
    let port = host.rsplit(':').next().unwrap();
    let ways = ["plain", "mapped", "hidden", "orphan", "thread", "leader", "flight"];
    let one = |way: &&str| {
        format!(
            "python3 ../by_page.py {way} {port} ../ask\nwhile ! test -e ../ask.{way}; do sleep 0.01; done\n"
        )
    };
    let script: String = ways.iter().map(one).collect();
    ward.project
        .write("other.sh", format!("python3 ../by_page.py gone {port} ../ask\n{script}exit 0\n"));
    ward.heal(&["--", "sh", "other.sh"]).expect(0, &["green"]);
    for way in ways {
        let told = ward.read(&format!("../ask.{way}"));
        assert!(
            told.starts_with("HTTP/1.1 403") && told.contains("may not decide"),
            "{way}: {told}"
        );
    }
    assert!(!ward.salve(&["events", "--kind", "approved"]).contains("approved"));
    let answer = page.post(&path, &token, &yes);
    assert_eq!(answer.status, 200, "a person's process can: {answer:?}");
    ward.heal(&[]).expect(0, &["healed"]);
}

/// **Invariant:** Whoever removes a door keeps nobody's word from being believed for long.
#[test]
fn a_door_that_somebody_removed_is_put_back() {
    let ward = waiting();
    ward.project.write("other.sh", "touch ../ready; while ! test -e ../go; do sleep 0.01; done\n");
    let mut salve = ward.command(&["--", "sh", "other.sh"]).stdout(Stdio::null()).spawn().unwrap();
    crate::support::wait_for("the check", || ward.project.dir().join("../ready").exists());
    let doors = ward.project.home().join("data/salve/doors");
    let sockets = || {
        let all = std::fs::read_dir(&doors).into_iter().flatten().flatten().map(|one| one.path());
        all.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect::<Vec<_>>()
    };
    let before = sockets();
    assert_eq!(before.len(), 1, "{before:?}");
    std::fs::remove_file(&before[0]).unwrap();
    crate::support::wait_for("the door", || sockets() == before);
    assert!(ward.salve(&["approve"]).contains("said yes"));
    ward.project.write("../go", "");
    assert!(salve.wait().unwrap().success());
    assert!(sockets().is_empty(), "it is gone with its Salve");
    let told = ward.salve(&["events", "--kind", "approved"]);
    assert!(told.contains("approved") && !told.contains("FORGED"), "{told}");
}

/// Plants doors, and a pipe in the place of the lock: some behind which somebody listens who never
/// answers, one whose queue is full, one whose listener has ended, and links to the others.
const PLANT: &str = r"
import os, socket, time
kept = []
def door(name, queue):
    s = socket.socket(socket.AF_UNIX); s.bind('PLACE-' + name + '.sock'); s.listen(queue)
    kept.append(s)
door('1-7', 64); door('ME-7', 64); door('2-7', 0)
for _ in range(3):
    s = socket.socket(socket.AF_UNIX); s.setblocking(False); kept.append(s)
    try: s.connect('PLACE-2-7.sock')
    except BlockingIOError: pass
heir, other = os.pipe()
if os.fork() == 0:
    door('3-7', 64)
    if os.fork() == 0: os.write(other, b'x'); time.sleep(60)
    os._exit(0)
os.wait(); os.read(heir, 1)
there = [name for name in os.listdir(os.path.dirname('PLACE')) if name.endswith('.sock')]
for name in there:
    if not name.startswith(os.path.basename('PLACE')): os.symlink(name, 'PLACE-4-7.sock')
os.remove('PLACE.lock'); os.mkfifo('PLACE.lock')
print('there', flush=True)
time.sleep(600)
";

/// **Invariant:** A door that somebody planted keeps nobody from answering.
#[test]
fn a_planted_door_keeps_nobody_waiting() {
    let ward = waiting();
    // The project's name among the doors is that of its lock, which a word that was said leaves.
    ward.salve(&["config", "accept", "0000"]);
    let doors = ward.project.home().join("data/salve/doors");
    let lock = std::fs::read_dir(&doors).unwrap().flatten().map(|entry| entry.path());
    let lock =
        lock.filter(|path| path.extension().is_some_and(|end| end == "lock")).last().unwrap();
    let name = lock.file_stem().unwrap().to_string_lossy().into_owned();
    let plant = PLANT
        .replace("PLACE", &format!("{}/{name}", doors.display()))
        .replace("ME", &std::process::id().to_string());
    // One of another project's Salve, to which a link leads.
    let other = crate::heal::Ward::new();
    other.project.write("other.sh", "touch ../ready; while ! test -e ../go; do sleep 0.01; done\n");
    let mut salve = other.command(&["--", "sh", "other.sh"]);
    salve.env("XDG_DATA_HOME", ward.project.home().join("data")).stdout(Stdio::null());
    let mut salve = salve.spawn().unwrap();
    crate::support::wait_for("the check", || other.project.dir().join("../ready").exists());
    let mut planted =
        Command::new("python3").args(["-c", &plant]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(planted.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    let said = ward.salve(&["approve"]);
    planted.kill().unwrap();
    planted.wait().unwrap();
    other.project.write("../go", "");
    assert!(salve.wait().unwrap().success());
    assert!(said.contains("said yes"), "{said}");
}

/// **Invariant:** What Salve started takes nobody's place at the door by saying nothing there.
#[test]
fn who_may_not_answer_keeps_nobody_else_from_it() {
    let ward = waiting();
    let crowd = "import os, socket, sys, time\nkept = []\ndoors = sys.argv[1]\n\
                 for name in os.listdir(doors):\n    if not name.endswith('.sock'): continue\n    \
                 for _ in range(200):\n        s = socket.socket(socket.AF_UNIX)\n        \
                 s.connect(doors + '/' + name); kept.append(s)\n\
                 open('../ready', 'w').close()\nwhile not os.path.exists('../go'): time.sleep(0.01)\n";
    ward.project.write("../crowd.py", crowd);
    let doors = ward.project.home().join("data/salve/doors").canonicalize().unwrap();
    ward.project.write("other.sh", format!("python3 ../crowd.py '{}'\n", doors.display()));
    let mut salve = ward.command(&["--", "sh", "other.sh"]).stdout(Stdio::null()).spawn().unwrap();
    crate::support::wait_for("the crowd", || ward.project.dir().join("../ready").exists());
    let said = ward.salve(&["approve"]);
    ward.project.write("../go", "");
    assert!(salve.wait().unwrap().success());
    assert!(said.contains("said yes"), "{said}");
}
