//! What one person teaches is known the next time, in the files, and to whoever it is sent to.

use serde_json::Value;

use crate::support::Project;

const FOO: &str = "Traceback (most recent call last):\n  File \"app.py\", line 3, in <module>\n\
                   ModuleNotFoundError: No module named 'foo'\n";

fn ok(project: &Project, args: &[&str]) -> String {
    let output = project.run(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn check(project: &Project, text: &str) -> Value {
    let output = project.run_with_input(&["memory", "check", "--json"], text.as_bytes());
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn project() -> Project {
    let project = Project::new();
    project.write("salve.toml", "");
    project
}

#[test]
fn a_taught_remedy_is_known_and_a_failed_one_is_skipped() {
    let project = project();
    let before = check(&project, FOO);
    assert_eq!((&before["known"], &before["tried_before"]), (&false.into(), &false.into()));
    assert!(!project.dir().join(".salve").exists(), "asking leaves nothing behind");

    ok(&project, &["memory", "learn", "--failed", "--command", "pip install foo", FOO]);
    ok(&project, &["memory", "learn", "--command", "pip install foo-lib", FOO]);
    let after = check(&project, FOO);
    assert_eq!(after["signature"], before["signature"]);
    assert_eq!(after["tried_before"], true);
    assert_eq!(after["results"][0]["description"], "pip install foo");
    assert_eq!(after["remedies"][0]["remedy"]["text"], "pip install foo-lib");
    assert_eq!(after["failed_approaches"][0]["remedy"]["text"], "pip install foo");

    // A near failure is shown, but its remedies are not for this one.
    let near = check(&project, &FOO.replace("'foo'", "'bar'"));
    assert_eq!(near["known"], false);
    assert_eq!(near["near"][0]["signature"], before["signature"]);
    assert_eq!(near["near"][0]["agrees"], false);
    let journal = ok(&project, &["events", "--json"]);
    assert!(journal.contains("\"learned\""), "{journal}");
}

/// **Invariant:** A secret is not learned, by command or by file.
#[test]
fn a_secret_is_not_learned() {
    let project = project();
    let token = format!("ghp_{}", "Zq3x".repeat(9));
    let command = format!("curl -H 'Authorization: token {token}' x.test");
    let output = project.run(&["memory", "learn", "--command", &command, FOO]);
    assert_eq!(output.status.code(), Some(2));
    ok(&project, &["memory", "learn", "--command", "true", &format!("{FOO} {token}")]);
    for entry in std::fs::read_dir(project.dir().join(".salve/learned")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(&token), "{text}");
    }
    assert!(!ok(&project, &["memory", "export"]).contains(&token));
}

#[test]
fn the_files_follow_the_commands_and_the_commands_follow_the_files() {
    let project = project();
    let teach = ["memory", "learn", "--tool", "deploy", "--pattern", "manifest unknown"];
    ok(&project, &[&teach[..], &["--root-cause", "short SHA", "--fix", "use it all"]].concat());
    let path = ".salve/learned/tool_fixes.yaml";
    let text = std::fs::read_to_string(project.dir().join(path)).unwrap();
    let edited = text.replace("use it all", "Use the full SHA # of 40 digits") + "# mine\n";
    project.write(path, &edited);

    let error = ["memory", "check", "--json", "--tool", "deploy", "Manifest unknown: x"];
    let answer: Value = serde_json::from_str(&ok(&project, &error)).unwrap();
    assert_eq!(answer["tool_fixes"][0]["fix_description"], "Use the full SHA");

    project.write(path, "tool_fixes:\n  - tool_name: [\n");
    let output = project.run(&error);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("tool_fixes.yaml:"), "{said}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["tool_fixes"][0]["fix_description"], "Use the full SHA", "still in force");
    let more = ["memory", "learn", "--tool", "x", "--pattern", "y", "--fix", "z"];
    ok(&project, &more);
    let left = std::fs::read_to_string(project.dir().join(path)).unwrap();
    assert_eq!(left, "tool_fixes:\n  - tool_name: [\n");
    project.write(path, &edited);
    ok(&project, &more);
    let mended = std::fs::read_to_string(project.dir().join(path)).unwrap();
    assert!(mended.contains("# mine") && mended.contains("tool_name: x"), "{mended}");
}

#[test]
fn healing_patterns_in_the_specs_shape_are_used() {
    let project = project();
    project.write(
        ".salve/learned/healing-patterns.json",
        r#"{"patterns": [{"error_signature": "a1b2c3d4e5f6g7h8", "error_type": "import_error",
            "normalized_error": "ModuleNotFoundError: No module named 'foo'",
            "fixes_attempted": [{"description": "pip install foo", "result": "failed"},
                                {"description": "pip install foo-lib", "result": "success"}],
            "successful_fix": "pip install foo-lib",
            "first_seen": "2025-01-15T10:00:00", "last_seen": "2025-01-16T14:30:00"}]}"#,
    );
    let answer = check(&project, FOO);
    assert_eq!(answer["successful_fix"], "pip install foo-lib");
    assert_eq!(answer["failed_approaches"][0]["remedy"]["text"], "pip install foo");
}

#[test]
fn memory_travels_and_arrives_once() {
    let (from, to) = (project(), project());
    ok(&from, &["memory", "learn", "--instruction", "pin it to 2.x", FOO]);
    ok(&from, &["memory", "learn", "--tool", "x", "--pattern", "y", "--fix", "z"]);
    let lines = ok(&from, &["memory", "export"]);
    for args in [&["memory", "import"][..], &["memory", "import", "--user"]] {
        for news in [1, 0] {
            let args = [args, &["--json"]].concat();
            let output = to.run_with_input(&args, lines.as_bytes());
            let fact: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(fact["new_or_changed"], news, "{args:?}");
        }
    }
    assert_eq!(check(&to, FOO)["remedies"][0]["remedy"]["kind"], "instruction");
    let strip = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(strip(&ok(&to, &["memory", "export"])), strip(&lines));

    // The user's own memory serves other projects, even where there is none.
    let signature = check(&to, FOO)["signature"].as_str().unwrap().to_owned();
    assert_eq!(to.run(&["memory", "forget", &signature]).status.code(), Some(3), "not asked");
    let mut agent = to.command(&["memory", "forget", "--yes", &signature]);
    let status = agent.env("SALVE_AGENT", "claude").output().unwrap().status;
    assert_eq!(status.code(), Some(3), "not for an agent to decide");
    ok(&to, &["memory", "forget", "--yes", &signature]);
    assert_eq!(check(&to, FOO)["remedies"][0]["origin"], "user");
    ok(&to, &["memory", "forget", "--yes", "--user", &signature[..6]]);
    assert_eq!(check(&to, FOO)["known"], false);
}

#[test]
fn a_bad_import_says_which_line_and_harms_nothing() {
    let project = project();
    let head = "{\"kind\":\"salve_memory\",\"data\":{\"version\":1}}\n";
    let newer = "{\"kind\":\"salve_memory\",\"data\":{\"version\":2}}\n";
    let deep = format!("{head}{}\n", "[".repeat(100_000));
    let long = format!("{head}\"{}\"\n", "x".repeat(5 << 20));
    let unknown = format!("{head}\n{{\"kind\":\"spell\",\"data\":1}}\n");
    let rows = [
        ("", "no export"),
        ("hello\n", "line 1"),
        (newer, "version 2"),
        (&deep, "line 2"),
        (&long, "line 2"),
        (&unknown, "line 3"),
    ];
    for (text, want) in rows {
        let output = project.run_with_input(&["memory", "import"], text.as_bytes());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(want), "{want}: {said}");
    }
    assert!(ok(&project, &["memory", "list"]).is_empty());
}
