//! What `--json` prints, held against its schema, for every command.

use std::collections::BTreeMap;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::bench::signal;
use crate::support::{Project, dev, wait_for};

/// The schema, and the errors found so far.
struct JsonSchema {
    whole: Value,
    seen: BTreeMap<String, usize>,
}

impl JsonSchema {
    fn load(project: &Project) -> Self {
        let printed = project.run(&["config", "schema", "--facts"]);
        let whole: Value = serde_json::from_slice(&printed.stdout).unwrap();
        Self { whole, seen: BTreeMap::new() }
    }

    /// Holds every line that a command printed against the definition of its command.
    #[track_caller]
    fn hold(&mut self, command: &str, output: &Output) {
        let name = self.whole["commands"][command].as_str();
        let name = name.unwrap_or_else(|| panic!("`{command}` has no definition")).to_owned();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.is_empty(), "`{command}` printed nothing: {output:?}");
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            let mut faults = Vec::new();
            self.look(&self.whole["definitions"][&name], &value, command, &mut faults);
            assert!(faults.is_empty(), "{faults:#?} in {line}");
            *self.seen.entry(command.to_owned()).or_default() += 1;
        }
    }

    fn look(&self, schema: &Value, value: &Value, place: &str, faults: &mut Vec<String>) {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.trim_start_matches("#/definitions/");
            return self.look(&self.whole["definitions"][name], value, place, faults);
        }
        if let Some(ways) = schema["anyOf"].as_array() {
            return self.look_for_one(ways, value, place, faults);
        }
        let is_other = |key: &str| schema.get(key).is_some_and(|wanted| wanted != value);
        if is_other("const") {
            faults.push(format!("{place}: {value} is not {}", schema["const"]));
        }
        if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
            faults.push(format!("{place}: {value} is none of {}", schema["enum"]));
        }
        let types = match &schema["type"] {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            Value::String(one) => vec![one.as_str()],
            _ => Vec::new(),
        };
        if !types.is_empty() && !types.iter().any(|name| is_of_type(value, name)) {
            faults.push(format!("{place}: {value} is no {types:?}"));
        }
        let items = value.as_array().into_iter().flatten().filter(|_| schema["items"].is_object());
        items.for_each(|item| self.look(&schema["items"], item, place, faults));
        let Some(fields) = value.as_object() else { return };
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name)) {
            faults.push(format!("{place}: `{name}` is missing"));
        }
        for (name, field) in fields {
            match schema["properties"].get(name) {
                Some(known) => self.look(known, field, &format!("{place}.{name}"), faults),
                None if schema["additionalProperties"] == false => {
                    faults.push(format!("{place}: `{name}` is unknown"));
                }
                None => {}
            }
        }
    }

    fn look_for_one(&self, ways: &[Value], value: &Value, place: &str, faults: &mut Vec<String>) {
        let tried = ways.iter().map(|way| {
            let mut found = Vec::new();
            self.look(way, value, place, &mut found);
            found
        });
        faults.extend(tried.min_by_key(Vec::len).unwrap_or_default());
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        other => panic!("the schema has a type `{other}`"),
    }
}

const WEB: &str = r#"
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
"#;

fn project() -> Project {
    let project = Project::new();
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        let who = ["-c", "user.name=kim", "-c", "user.email=kim@example.org"];
        assert!(git.args(who).args(args).current_dir(project.dir()).status().unwrap().success());
    };
    project.write("web.py", WEB);
    project.write(".gitignore", ".salve\n");
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "begin"]);
    project
}

/// Returns the one line of a kind.
fn of_kind(output: &Output, kind: &str) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["kind"] == kind).collect()
}

#[test]
fn every_command_has_a_definition_or_says_that_it_prints_text() {
    let project = Project::new();
    let schema = JsonSchema::load(&project);
    let help = project.run(&["--help"]);
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let (listed, _) = help.split_once("Options:").unwrap();
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let mut names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    names.retain(|name| *name != "help");
    names.sort_unstable();
    let known: Vec<&str> =
        schema.whole["commands"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, known);
}

#[test]
fn what_a_server_prints_fits_and_ends_with_its_result() {
    let project = project();
    let mut schema = JsonSchema::load(&project);
    let mut salve = dev(&project, &["--json", "--", "python3", "web.py"]);
    salve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let salve = salve.spawn().unwrap();
    let is_up = || {
        let told = project.run(&["--json", "ps"]);
        String::from_utf8_lossy(&told.stdout).contains("http://127.0.0.1:")
    };
    wait_for("a server that answers", is_up);
    for (name, args) in
        [("ps", &["ps"][..]), ("status", &["status"]), ("restart", &["restart", "dev"])]
    {
        schema.hold(name, &project.run(&[&["--json"], args].concat()));
    }
    signal("INT", salve.id());
    let output = salve.wait_with_output().unwrap();
    schema.hold("dev", &output);
    // One that says nothing for a moment is up before it is known where it answers.
    let up = of_kind(&output, "up");
    let mut urls = up.iter().filter_map(|line| line["url"].as_str());
    assert!(urls.any(|url| url.starts_with("http://127.0.0.1:")), "{up:?}");
    let result = of_kind(&output, "result");
    assert_eq!((result.len(), &result[0]["exitCode"]), (1, &Value::from(130)));

    let mut broken = dev(&project, &["--json", "--", "sh", "-c", "echo 'Error: no' >&2; exit 1"]);
    let output = broken.stdin(Stdio::null()).output().unwrap();
    schema.hold("dev", &output);
    let result = &of_kind(&output, "result")[0];
    assert_eq!(result["exitCode"], 3);
    let incident = &result["incidents"][0];
    assert_eq!((&incident["keyLine"], &incident["name"]), (&"Error: no".into(), &"dev".into()));
    assert_eq!(incident["signature"].as_str().unwrap().len(), 16);
    assert!(result["durationMs"].as_u64().unwrap() >= incident["durationMs"].as_u64().unwrap());
}

#[test]
fn what_checks_and_their_incidents_print_fits() {
    let project = project();
    let mut schema = JsonSchema::load(&project);
    let green = project.run(&["--json", "heal", "--", "true"]);
    schema.hold("heal", &green);
    let result = &of_kind(&green, "result")[0];
    assert_eq!((&result["exitCode"], &result["green"][0]["name"]), (&0.into(), &"true".into()));
    schema.hold(
        "heal",
        &project.run(&["--json", "heal", "--", "sh", "-c", "echo 'Error: x'; exit 1"]),
    );
    let quiet = project.run(&["-q", "heal", "--", "true"]);
    assert_eq!((&*quiet.stdout, &*quiet.stderr), (&b""[..], &b""[..]));
    for args in [
        &["status"][..],
        &["incidents"],
        &["show"],
        &["events"],
        &["report", "something is off"],
        &["report"],
        &["approve"],
        &["refill", "--attempts", "1"],
    ] {
        schema.hold(args[0], &project.run(&[&["--json"], args].concat()));
    }
}

#[test]
fn what_all_other_commands_print_fits() {
    let project = project();
    let mut schema = JsonSchema::load(&project);
    project.write("job.toml", "[[steps]]\nid = \"a\"\ncommand = \"true\"\n");
    project.write("package.json", r#"{"scripts":{"test":"node --test"}}"#);
    let error = "Error: Cannot find module 'x'";
    for args in [
        &["fingerprint", "web.py"][..],
        &["explain", error],
        &["gate", "--command", "npm ci"],
        &["gate", "--explain"],
        &["memory", "stats"],
        &["memory", "learn", "--command", "npm ci", error],
        &["memory", "list"],
        &["memory", "check", error],
        &["memory", "export"],
        &["patterns", "test", "{}"],
        &["config", "show"],
        &["config", "check"],
        &["config", "accept"],
        &["config", "schema"],
        &["doctor"],
        &["rules"],
        &["notify", "test"],
        &["init", "--dry-run"],
        &["run", "--step", "true", "--step", "false"],
        &["submit", "job.toml"],
        &["jobs"],
    ] {
        schema.hold(args[0], &project.run(&[&["--json"], args].concat()));
    }
    assert!(schema.seen.values().all(|lines| *lines > 0));
}
