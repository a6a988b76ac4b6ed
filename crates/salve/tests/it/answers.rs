//! Only people answer: whatever an agent, a check or a hand in the journal tries.

use std::process::{Command, Stdio};

use rusqlite::Connection;

use crate::config::agent_edits;
use crate::heal::Ward;
use crate::mcp::Client;

const SALVE: &str = env!("CARGO_BIN_EXE_salve");

/// Returns a project whose red check waits for a person's word about a command.
fn waiting() -> Ward {
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
    ];
    if has_namespaces() {
        ways.extend([
            ("covered", "unshare -rm sh -c 'mount -t tmpfs none /proc; \"$@\"' sh \"$@\""),
            ("own pids", "unshare -rmpf --mount-proc \"$@\""),
            (
                "doors hidden",
                "unshare -rm sh -c 'mount -t tmpfs none \"$XDG_DATA_HOME/salve/doors\"; \"$@\"' sh \
                 \"$@\"",
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
    drop(client);
    let mut elsewhere = Client::hello_of_another(&ward.project, "bot");
    elsewhere.request("tools/list", serde_json::json!({}));
    assert!(ward.salve(&["approve"]).contains("said yes"), "the agent's tools are no terminal");
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
