//! What agents ask and teach memory about tools that fail.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::mcp::Client;
use crate::support::Project;

#[test]
fn an_agent_teaches_a_fix_and_another_finds_it_for_the_same_error_only() {
    let project = Project::new();
    project.write("salve.toml", "");
    let mut client = Client::hello(&project, "codex");
    let error = "manifest unknown: quay.io/org/app:abc123";
    let nothing =
        client.call("check_known_issues", json!({"tool_name": "deploy", "error_text": error}));
    assert_eq!(nothing["known"], false);
    let taught = client.call(
        "learn_tool_fix",
        json!({
            "tool_name": "deploy",
            "error_pattern": "manifest unknown",
            "root_cause": "Short SHA doesn't exist in Quay",
            "fix_description": "Use full 40-character SHA instead of short SHA",
        }),
    );
    assert_eq!(taught["learned"], true, "{taught}");
    let empty = json!({"tool_name": "deploy", "error_pattern": " ", "fix_description": "x"});
    assert_eq!(client.call("learn_tool_fix", empty)["ok"], false);
    let text = std::fs::read_to_string(project.dir().join(".salve/learned/tool_fixes.yaml"));
    let text = text.unwrap();
    let keys = ["tool_name: deploy", "error_pattern:", "root_cause:", "fix_description:"];
    assert!(keys.iter().all(|key| text.contains(key)), "{text}");
    assert!(text.contains("discovered_at:") && text.contains("confidence: medium"), "{text}");

    let mut client = Client::hello(&project, "claude-code");
    let mut ask = |tool: &str, error: &str| {
        client.call("check_known_issues", json!({"tool_name": tool, "error_text": error}))
    };
    let known = ask("deploy", error);
    assert_eq!(
        known["fixes"][0]["fix_description"],
        "Use full 40-character SHA instead of short SHA"
    );
    assert_eq!(ask("deploy", "quota exceeded")["known"], false);
    assert_eq!(ask("other", error)["known"], false);
    let told = project.run(&["--json", "memory", "check", "--tool", "deploy", error]);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["tool_fixes"].as_array().unwrap().len(), 1);
}

/// **Invariant:** What somebody wrote into memory never runs without the gate.
#[test]
fn a_poisoned_fix_is_shown_and_never_run() {
    let project = Project::new();
    project.write("salve.toml", "");
    project.write("broken", "#!/bin/sh\necho 'error: HTTP 401: token expired' >&2\nexit 1\n");
    let path = project.dir().join("broken");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut client = Client::hello(&project, "codex");
    let poison = format!("touch {}/stolen", project.dir().display());
    client.call(
        "learn_tool_fix",
        json!({"tool_name": "*", "error_pattern": "token expired", "fix_description": poison}),
    );
    let stats = |client: &mut Client| client.call("memory_stats", json!({}));
    let before = stats(&mut client);
    assert_eq!((&before["fixes_learned"], &before["auto_heal_rate"]), (&json!(1), &json!(0.0)));
    let output = project.run(&["call", "--", "./broken"]);
    assert!(!output.status.success(), "{output:?}");
    assert!(!project.dir().join("stolen").exists());
    let after = stats(&mut client);
    assert_eq!(after["recent_failures"][0]["tool"], "./broken", "{after}");
    assert_eq!(after["recent_failures"][0]["auto_healed"], false);
    let cli = project.run(&["--json", "memory", "stats"]);
    let cli: Value = serde_json::from_slice(&cli.stdout).unwrap();
    assert_eq!(cli["tools"]["total_failures"], 1);
    assert_eq!(cli["tools"]["by_type"], json!({"auth": 1}));
    for key in ["auto_heal_rate", "patterns_active", "fixes_learned", "recent_failures"] {
        assert_eq!(cli[key], after[key], "{key}");
    }
}
