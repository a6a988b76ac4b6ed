//! What failed tool calls leave on record, whoever made them.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::Project;
use crate::tools::{call_all, failures, hook, texts};

/// Returns the statistics, after looking that they add up.
#[track_caller]
fn statistics(project: &Project) -> Value {
    let (code, out, err) = texts(&project.run(&["memory", "stats", "--json"]));
    assert_eq!(code, Some(0), "{err}");
    let tools = serde_json::from_str::<Value>(&out).unwrap()["tools"].clone();
    let number = |value: &Value| value.as_u64().unwrap();
    let total = number(&tools["total_failures"]);
    assert_eq!(number(&tools["auto_fixed"]) + number(&tools["manual_required"]), total, "{tools}");
    let sum = |key: &str, field: &dyn Fn(&Value) -> u64| {
        tools[key].as_object().unwrap().values().map(field).sum::<u64>()
    };
    assert_eq!(sum("by_type", &number), total, "{tools}");
    for period in ["daily", "weekly"] {
        assert_eq!(sum(period, &|one| number(&one["total"])), total, "{tools}");
        let fixed = sum(period, &|one| number(&one["auto_fixed"]));
        assert_eq!(fixed, number(&tools["auto_fixed"]), "{tools}");
    }
    tools
}

fn fail_at_once(project: &Project, times: usize) {
    let calls: Vec<_> = (0..times)
        .map(|_| {
            let mut call =
                project.command(&["call", "--", "sh", "-c", "echo no such host; exit 1"]);
            call.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut call in calls {
        assert_eq!(call.wait().unwrap().code(), Some(1));
    }
}

/// **Invariant:** What is counted of tool calls is what the journal has of them: no writer loses
/// another's, and a file that is lost or edited into nonsense costs nothing.
#[test]
fn the_journal_has_every_failed_call_and_the_statistics_follow_it() {
    let project = Project::new();
    project.write("salve.toml", "");
    fail_at_once(&project, 6);
    assert_eq!(statistics(&project)["total_failures"], 6);
    assert_eq!(statistics(&project)["by_type"], json!({"network": 6}));
    let told = project.run(&["events", "--kind", "tool_failed", "--json"]);
    assert_eq!(texts(&told).1.lines().count(), 6);
    let file = project.dir().join(".salve/learned/tool_failures.yaml");
    std::fs::remove_file(&file).unwrap();
    fail_at_once(&project, 1);
    let kept = failures(&project);
    assert_eq!(kept.matches("timestamp:").count(), 7, "{kept}");
    project.write(".salve/learned/tool_failures.yaml", "failures: [\n");
    fail_at_once(&project, 1);
    assert_eq!(failures(&project), "failures: [\n", "nobody's edit is overwritten");
    assert_eq!(statistics(&project)["total_failures"], 8);
    std::fs::remove_file(&file).unwrap();
    fail_at_once(&project, 1);
    assert_eq!(failures(&project).matches("timestamp:").count(), 9);
}

#[test]
fn what_a_tool_was_called_with_is_kept_without_secrets_and_once() {
    let project = Project::new();
    project.write("salve.toml", "");
    let answers = call_all(&project, &[("pay", 10)]);
    let text = answers[0].1["result"]["content"][0]["text"].clone();
    let event = |arguments: Value, error: &str| {
        json!({"hook_event_name": "PostToolUseFailure", "tool_name": "mcp__x__pay",
            "cwd": project.dir(), "tool_input": arguments, "error": error})
    };
    // The agent's own hook hears of it too, with what Salve added to the answer.
    let added = format!("{} Salve did not repeat this call.", text.as_str().unwrap());
    hook(&project, &event(json!({}), &added));
    assert_eq!(statistics(&project)["total_failures"], 1);
    let secret = json!({"namespace": "eph-1", "password": "hunter2hunter2"});
    hook(&project, &event(secret, "no such account"));
    assert_eq!(statistics(&project)["total_failures"], 2);
    let kept = failures(&project);
    assert!(kept.contains("namespace: eph-1") && !kept.contains("hunter2"), "{kept}");
}

#[test]
fn two_sessions_whose_token_expired_log_in_once() {
    let project = Project::new();
    project.write("salve.toml", "");
    project.write("slow", "");
    let calls: Vec<_> = (10..20).map(|id| ("bonfire_get", id)).collect();
    std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..2).map(|_| scope.spawn(|| call_all(&project, &calls))).collect();
        for session in sessions {
            for (_, answer) in session.join().unwrap() {
                assert_eq!(answer["result"]["content"][0]["text"], "pods");
            }
        }
    });
    let log = std::fs::read_to_string(project.dir().join("log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.starts_with("kube_login")).count(), 1, "{log}");
}
