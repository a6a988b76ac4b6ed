//! An agent proposes a command; the gate answers, and runs nothing.

use std::process::Output;

use serde_json::{Value, json};

use crate::support::Project;

fn proposal(command: &str) -> Value {
    json!({
        "version": 1,
        "timestamp": "2026-03-01T10:00:00Z",
        "category": "dependency",
        "severity": "blocking",
        "diagnosis": {
            "error_pattern": "Cannot find module",
            "root_cause": "the packages were never installed",
            "evidence": ["out.log:7: Cannot find module 'left-pad'"]
        },
        "recovery": {
            "command": command,
            "expected_outcome": "the tests start",
            "confidence": "high"
        },
        "fallback": { "command": "npm ci", "confidence": "low" }
    })
}

fn project() -> Project {
    let project = Project::new();
    project.write(
        "salve.toml",
        "[recovery]\nauto_approve = [\"npm ci\"]\nrequire_human = [\"git push\"]\n\
         on_unknown = \"deny\"\n",
    );
    project.write("web/package.json", "{}");
    project
}

fn answer(output: &Output) -> (Value, i32) {
    let value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (value, output.status.code().unwrap())
}

#[test]
fn a_command_is_judged_by_the_projects_settings() {
    let project = project();
    for (command, dir, decision, rule, code) in [
        ("npm ci", ".", "auto", "auto_approve[0]", 0),
        (" npm ci\n", "web", "auto", "auto_approve[0]", 0),
        ("cd web && git push", ".", "human", "require_human[0]", 3),
        ("npm test", ".", "deny", "on_unknown", 1),
        ("npm ci", "..", "deny", "working_dir", 1),
        ("npm ci", "absent", "deny", "working_dir", 1),
        ("", ".", "deny", "proposal", 1),
    ] {
        let args = [
            "gate",
            "--config",
            "salve.toml",
            "--json",
            "--command",
            command,
            "--working-dir",
            dir,
        ];
        let (value, exit) = answer(&project.run(&args));
        assert_eq!(value["version"], 1);
        assert_eq!(value["decision"], decision, "{command} in {dir}: {value}");
        assert_eq!(value["rule"], rule, "{command} in {dir}: {value}");
        assert!(value["reason"].is_string());
        assert_eq!(exit, code, "{command} in {dir}");
        let runs = if decision == "auto" { json!("npm ci") } else { Value::Null };
        assert_eq!(value["command"], runs, "{command} in {dir}");
    }
}

#[test]
fn a_proposal_file_must_be_a_file() {
    let project = project();
    project.write("good.json", proposal("npm ci").to_string());
    project.write("unknown.json", proposal("npm test").to_string());
    project.write("broken.json", &proposal("npm ci").to_string()[1..]);
    project.write("huge.json", " ".repeat(1 << 20));
    let dir = project.dir();
    std::os::unix::fs::symlink("good.json", dir.join("link.json")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("pipe.json"), rustix::fs::Mode::RWXU).unwrap();
    for (file, decision, rule) in [
        ("good.json", "auto", "auto_approve[0]"),
        ("unknown.json", "deny", "on_unknown"),
        ("broken.json", "deny", "proposal"),
        ("huge.json", "deny", "proposal"),
        ("link.json", "deny", "proposal"),
        ("pipe.json", "deny", "proposal"),
        ("/dev/zero", "deny", "proposal"),
        ("absent.json", "deny", "proposal"),
        ("web", "deny", "proposal"),
    ] {
        let args = ["gate", "--config", "salve.toml", "--proposal", file, "--json"];
        let (value, _) = answer(&project.run(&args));
        assert_eq!(value["decision"], decision, "{file}: {value}");
        assert_eq!(value["rule"], rule, "{file}: {value}");
    }
    let args =
        ["gate", "--config", "salve.toml", "--proposal", "unknown.json", "--fallback", "--json"];
    assert_eq!(answer(&project.run(&args)).0["decision"], "auto");
}

#[test]
fn counters_and_broken_settings_never_widen() {
    let project = project();
    project.write("spent.json", r#"{"auto_recoveries_this_run": 3}"#);
    project.write("odd.json", r#"{"auto_recoveries_this_run": "0"}"#);
    project.write("bad.toml", "[recovery]\nauto_approve = [\"npm ci\", \"\"]\n");
    project.write("bad.json", r#"{"auto_approve": ["npm ci"], "on_unknown": "run"}"#);
    for (config, state, decision, rule) in [
        ("salve.toml", Some("spent.json"), "human", "max_auto_recoveries_per_run"),
        ("salve.toml", Some("odd.json"), "deny", "state"),
        ("salve.toml", Some("absent.json"), "deny", "state"),
        ("bad.toml", None, "deny", "config"),
        ("bad.json", None, "deny", "config"),
    ] {
        let mut args = vec!["gate", "--config", config, "--command", "npm ci", "--json"];
        args.extend(state.into_iter().flat_map(|file| ["--state", file]));
        let (value, _) = answer(&project.run(&args));
        assert_eq!(value["decision"], decision, "{config} {state:?}: {value}");
        assert_eq!(value["rule"], rule, "{config} {state:?}: {value}");
    }
    for args in [
        &["gate"][..],
        &["gate", "--config", "salve.toml"],
        &["gate", "--config", "absent.toml", "--command", "npm ci"],
        &["gate", "--config", "salve.toml", "--command", "a", "--proposal", "b"],
        &["gate", "--config", "bad.toml", "--explain"],
    ] {
        let output = project.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn every_line_has_its_answer() {
    let project = project();
    let case = |id: &str, command: &str| {
        json!({
            "id": id, "repo": project.dir(), "config": {"auto_approve": ["npm ci"]},
            "proposal": proposal(command)
        })
        .to_string()
    };
    let mut input = Vec::new();
    for line in [
        case("a", "npm ci").into_bytes(),
        b"{\"id\": \"b\", ".to_vec(),
        b"\xff\xfe".to_vec(),
        b"".to_vec(),
        format!("{{\"id\": \"c\", \"x\": \"{}\"}}", "y".repeat(5 << 20)).into_bytes(),
        b"{\"id\": \"d\", \"x\": \"\xff\"}".to_vec(),
        case("e", "npm test").into_bytes(),
    ] {
        input.extend(line);
        input.push(b'\n');
    }
    let output = project.run_with_input(&["gate", "--jsonl"], &input);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let got: Vec<(Value, Value)> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|value| (value["id"].clone(), value["decision"].clone()))
        .collect();
    let want = [
        (json!("a"), "auto"),
        (json!("b"), "deny"),
        (json!(null), "deny"),
        (json!("c"), "deny"),
        (json!("d"), "deny"),
        (json!("e"), "human"),
    ];
    assert_eq!(got, want.map(|(id, decision)| (id, json!(decision))));
}

#[test]
fn a_secret_never_comes_back() {
    let project = project();
    let secret = "walnut-tree-9";
    let command = format!("psql postgres://app:{secret}@db/app -c 'select 1'");
    project.write("policy.json", json!({"auto_approve": [command]}).to_string());
    project.write("proposal.json", proposal(&command).to_string());
    for extra in [&["--json"][..], &[]] {
        for what in [&["--proposal", "proposal.json"][..], &["--explain"]] {
            let args = [&["gate", "--config", "policy.json"], what, extra].concat();
            let output = project.run(&args);
            let shown = format!("{output:?}");
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    let args = ["gate", "--config", "policy.json", "--proposal", "proposal.json", "--json"];
    assert_eq!(answer(&project.run(&args)).0["rule"], "secret");
}

#[test]
fn rules_that_cannot_work_are_explained() {
    let project = project();
    let sound = project.run(&["gate", "--config", "salve.toml", "--explain"]);
    assert_eq!(sound.status.code(), Some(0), "{sound:?}");
    project.write(
        "policy.json",
        r#"{"auto_approve": ["git push"], "require_human": ["git push", "*"], "on_unknown": "allow"}"#,
    );
    let output = project.run(&["gate", "--config", "policy.json", "--explain", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds: Vec<_> = value["findings"].as_array().unwrap().iter().map(|f| &f["kind"]).collect();
    assert_eq!(kinds, ["unreachable", "unreachable"], "{value}");
}

#[test]
fn without_a_file_the_settings_in_force_decide() {
    let project = Project::new();
    project.write("salve.toml", "recovery.auto_approve = [\"npm ci\"]\n");
    assert_eq!(project.run(&["gate", "--command", "npm ci"]).status.code(), Some(0));
    assert_eq!(project.run(&["gate", "--command", "npm install"]).status.code(), Some(3));
    let off = ["gate", "--command", "npm ci", "--set", "recovery.enabled=false"];
    assert_eq!(project.run(&off).status.code(), Some(1));
    project.write("salve.toml", "recovery.auto_approve = [\" npm ci\"]\n");
    assert_eq!(project.run(&["gate", "--command", "npm ci"]).status.code(), Some(2));
}

#[test]
fn the_value_of_a_secret_variable_is_a_visible_secret() {
    let project = Project::new();
    project.write("salve.toml", "recovery.auto_approve = [\"deploy q8Zr2LmX91vTk\"]\n");
    let mut command = project.command(&["gate", "--command", "deploy q8Zr2LmX91vTk", "--json"]);
    let output = command.env("DEPLOY_TOKEN", "q8Zr2LmX91vTk").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("q8Zr2LmX91vTk"));
}
