//! A tool that fails: its source is found, a patch is approved by a person, tried, learned, undone.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

use crate::mcp::Client;
use crate::support::Project;

/// A server whose tool cuts the SHA that it is given.
const SERVER: &str = r#"import json, sys
TOOLS = {}
def tool(function):
    TOOLS[function.__name__] = function
    return function

@tool
def bonfire_deploy(tag):
    open('calls', 'a').write(tag + '\n')
    return deploy(tag[:7])

def deploy(tag):
    if len(tag) != 40: raise Exception('manifest unknown: quay.io/org/app:' + tag)
    return 'deployed'

for line in sys.stdin:
    m = json.loads(line)
    if m.get('id') is None: continue
    bad = False
    if m['method'] == 'tools/list':
        result = {'tools': [{'name': name, 'inputSchema': {'type': 'object'}} for name in TOOLS]}
    elif m['method'] == 'tools/call':
        try: text = TOOLS[m['params']['name']](**m['params']['arguments'])
        except Exception as error: text, bad = str(error), True
        result = {'content': [{'type': 'text', 'text': text}], 'isError': bad}
    else: result = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}}, 'serverInfo': {'name': 'x', 'version': '1'}}
    print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': result}), flush=True)
"#;

const ERROR: &str = "manifest unknown: quay.io/org/app:abc123";
const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

fn stage() -> Project {
    let project = Project::new();
    project.write("src/server.py", SERVER);
    project.write("salve.toml", "[skills.servers]\nbonfire = 'python3 src/server.py'\n");
    project
}

/// Returns a patch that changes one line of the tool.
fn patch(new: &str) -> String {
    format!(
        "--- a/src/server.py\n+++ b/src/server.py\n@@ -8,5 +8,5 @@\n def bonfire_deploy(tag):\n     \
         open('calls', 'a').write(tag + '\\n')\n-    return deploy(tag[:7])\n+    return \
         deploy({new})\n \n def deploy(tag):\n"
    )
}

fn source(project: &Project) -> String {
    std::fs::read_to_string(project.dir().join("src/server.py")).unwrap()
}

fn debug(project: &Project) -> Value {
    let output = project.run(&["--json", "debug", "bonfire_deploy", ERROR]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn where_a_tool_is_written_and_what_is_known_about_its_error_is_said() {
    let project = stage();
    let found = debug(&project);
    assert_eq!(found["source_file"], "src/server.py", "{found}");
    assert_eq!(found["source_line"], 7);
    let code = found["source_code"].as_str().unwrap();
    assert!(code.starts_with("@tool\ndef bonfire_deploy") && code.ends_with("(tag[:7])"), "{code}");
    assert_eq!((&found["known"], &found["by"]), (&json!(false), &json!("class")), "{found}");
    assert_eq!(found["proposed_fix"], "No fix is known.");
    let output = project.run(&["--json", "debug", "bonfire_deploy", "the frobnicator is sad"]);
    let unknown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&unknown["known"], &unknown["by"]), (&json!(false), &json!("nobody")), "{unknown}");
    assert_eq!(unknown["diagnosis"], "Nothing is known about this error.");
    assert!(!project.dir().join(".salve").exists(), "looking makes nothing");
    let taught = project.run(&[
        "memory",
        "learn",
        "--tool",
        "bonfire_deploy",
        "--pattern",
        "manifest unknown",
        "--fix",
        "Use full 40-char SHA",
        "--root-cause",
        "Short SHA doesn't exist in Quay",
    ]);
    assert_eq!(taught.status.code(), Some(0), "{taught:?}");
    let found = debug(&project);
    assert_eq!(found["diagnosis"], "Short SHA doesn't exist in Quay", "{found}");
    assert_eq!(found["proposed_fix"], "Use full 40-char SHA");
    assert_eq!(found["by"], "memory");
    // What the error itself says comes before what is only its class.
    let output =
        project.run(&["--json", "debug", "other", "missing required parameter: 'namespace'"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&found["by"], &found["proposed_fix"]),
        (&json!("usage"), &json!("Give `namespace`."))
    );
    let output =
        project.run(&["--json", "debug", "other", "dial tcp 10.0.0.1:443: no route to host"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["by"] != "nobody" && found["source_file"].is_null(), "{found}");
    // Another tool's error is another matter, and a tool that nobody wrote here is not found.
    let output = project.run(&["debug", "nobodys_tool", "HTTP 401: token expired"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("not found below") && !text.contains("Quay"), "{text}");
}

/// Starting a server again changes nothing about what its own code does.
#[test]
fn no_restart_is_proposed_for_a_fault_in_the_tools_own_code() {
    let project = stage();
    for error in [
        "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
        "TypeError: Cannot read properties of undefined (reading 'name')",
        "Traceback (most recent call last):\n  File \"/srv/server.py\", line 12, in add\n    \
         return a + b\nAttributeError: 'NoneType' object has no attribute 'get'",
    ] {
        let output = project.run(&["--json", "debug", "bonfire_deploy", error]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let said = found["diagnosis"].as_str().unwrap();
        assert!(said.contains("failed in its own code"), "{found}");
        assert_eq!(found["proposed_fix"], "Correct what led to it.", "{found}");
    }
}

#[test]
fn a_patch_waits_for_a_person_is_tried_by_the_call_learned_and_undone() {
    let project = stage();
    let mut agent = Client::hello_of_another(&project, "claude-code");
    let asked = json!({"tool_name": "bonfire_deploy", "error_message": ERROR});
    let found = agent.call("debug_tool", asked);
    for key in
        ["tool_name", "source_file", "source_code", "error_message", "diagnosis", "proposed_fix"]
    {
        assert!(found[key].is_string(), "{key}: {found}");
    }
    let propose = |agent: &mut Client, text: &str| {
        agent.call(
            "debug_apply",
            json!({"tool_name": "bonfire_deploy", "error_message": ERROR, "patch": text,
                "why": "the SHA is cut", "arguments": {"tag": SHA}}),
        )
    };
    let sealed = "--- /dev/null\n+++ b/.git/hooks/post-commit\n@@ -0,0 +1 @@\n+touch owned\n";
    let refused = propose(&mut agent, sealed);
    assert_eq!(refused["ok"], false, "{refused}");
    let waits = propose(&mut agent, &patch("tag"));
    assert_eq!(waits["state"], "waits_for_a_person", "{waits}");
    assert_eq!((&waits["files"], &waits["lines"]), (&json!(["src/server.py"]), &json!(2)));
    assert_eq!(source(&project), SERVER, "nothing was changed");
    let id = waits["id"].as_str().unwrap();
    let args = json!({"tag": SHA}).to_string();
    let command = ["debug", "--apply", id, "--args", &args];
    assert!(waits["next_step"].as_str().unwrap().contains(&command[..3].join(" ")), "{waits}");
    // Neither an agent nor somebody who does not say yes applies it.
    let by_agent = project.command(&command).arg("--yes").env("SALVE_AGENT", "1").output().unwrap();
    assert_eq!(by_agent.status.code(), Some(3), "{by_agent:?}");
    assert_eq!(project.run(&command).status.code(), Some(3));
    assert_eq!(source(&project), SERVER);
    let applied = project.run(&[&command[..], &["--yes"]].concat());
    let told = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert_eq!(
        applied.status.code(),
        Some(0),
        "{told}{}",
        String::from_utf8_lossy(&applied.stdout)
    );
    assert!(source(&project).contains("return deploy(tag)\n"), "{}", source(&project));
    let calls = std::fs::read_to_string(project.dir().join("calls")).unwrap();
    assert_eq!(calls, format!("{SHA}\n"), "the tool was called once, to show that it works");
    let fixes = project.dir().join(".salve/learned/tool_fixes.yaml");
    let fixes = std::fs::read_to_string(fixes).unwrap();
    assert!(
        fixes.contains("a patch of src/server.py") && fixes.contains("confidence: high"),
        "{fixes}"
    );
    assert_eq!(debug(&project)["diagnosis"], "the SHA is cut");
    let open = project.run(&["report"]);
    assert!(String::from_utf8_lossy(&open.stdout).contains("nothing is open"), "{open:?}");
    let undone = project.run(&["undo"]);
    assert_eq!(undone.status.code(), Some(0), "{undone:?}");
    assert_eq!(source(&project), SERVER);
}

#[test]
fn a_patch_that_does_not_help_is_undone_and_not_learned() {
    let project = stage();
    project.write("wrong.patch", patch("tag[:8]"));
    let args = json!({"tag": SHA}).to_string();
    let tried = project.run(&[
        "debug",
        "bonfire_deploy",
        ERROR,
        "--patch",
        "wrong.patch",
        "--args",
        &args,
        "--yes",
    ]);
    let told = String::from_utf8_lossy(&tried.stderr).into_owned();
    assert_eq!(tried.status.code(), Some(1), "{told}");
    assert!(told.contains("still fails; the files are as they were"), "{told}");
    assert_eq!(source(&project), SERVER);
    assert_eq!(debug(&project)["known"], false);
    // One that does not fit is refused before anything runs.
    project.write("other.patch", patch("tag").replace("bonfire_deploy(tag)", "bonfire_deploy(x)"));
    let refused =
        project.run(&["debug", "bonfire_deploy", ERROR, "--patch", "other.patch", "--yes"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let calls = std::fs::read_to_string(project.dir().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 1);
}

#[test]
fn an_agent_that_is_named_mends_the_tool_and_its_change_is_kept_if_the_tool_works() {
    let project = stage();
    let args = json!({"tag": SHA}).to_string();
    let mend = "sed -i 's/tag\\[:7\\]/tag/' src/server.py";
    let ran =
        project.run(&["debug", "bonfire_deploy", ERROR, "--agent", mend, "--args", &args, "--yes"]);
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{told}{}", String::from_utf8_lossy(&ran.stdout));
    assert!(source(&project).contains("return deploy(tag)\n"), "{told}");
}

/// **Invariant:** a person's yes is to the patch that they saw.
#[test]
fn a_patch_that_is_exchanged_while_a_person_reads_it_is_not_applied() {
    let project = stage();
    let mut agent = Client::hello_of_another(&project, "claude-code");
    let propose = |agent: &mut Client, text: &str| {
        let proposed = json!({"tool_name": "bonfire_deploy", "error_message": ERROR,
            "patch": text, "arguments": {"tag": SHA}});
        agent.call("debug_apply", proposed)
    };
    let seen = propose(&mut agent, &patch("tag"));
    let later = propose(&mut agent, &patch("tag or open('owned', 'w').name"));
    assert_eq!(seen["id"], later["id"], "the same issue, another patch");
    let run = |proposed: &Value| {
        let step = proposed["next_step"].as_str().unwrap();
        let only = step.split("--only ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
        let id = proposed["id"].as_str().unwrap();
        let args = json!({"tag": SHA}).to_string();
        project.run(&["debug", "--apply", id, "--args", &args, "--only", only, "--yes"])
    };
    let refused = run(&seen);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains("another one than you saw"), "{told}");
    assert_eq!(source(&project), SERVER);
    // In a terminal, the file changes between the question and the yes.
    project.write("fix.patch", patch("tag"));
    let (mut pty, pts) = pty_process::blocking::open().unwrap();
    let args = json!({"tag": SHA}).to_string();
    let command = ["debug", "bonfire_deploy", ERROR, "--patch", "fix.patch", "--args", &args];
    let command = pty_process::blocking::Command::from(project.command(&command));
    let mut salve = command.spawn(pts).unwrap();
    let mut screen = String::new();
    let mut bytes = [0; 4096];
    while !screen.contains("[y/N]") {
        let read = pty.read(&mut bytes).unwrap();
        screen.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    project.write("fix.patch", patch("tag or open('owned', 'w').name"));
    pty.write_all(b"y\n").unwrap();
    while let Ok(read @ 1..) = pty.read(&mut bytes) {
        screen.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    assert_eq!(salve.wait().unwrap().code(), Some(1), "{screen}");
    assert!(screen.contains("another one than you saw"), "{screen}");
    assert_eq!(source(&project), SERVER);
}
