//! A person, a script and a CI log ask what a failure is.

use crate::support::Project;

const FAILURE: &str = "> shop@1.0.0 dev\n> node server.js\n\nnode:events:497\n      throw er; // Unhandled 'error' event\n      ^\n\n\
    Error: listen EADDRINUSE: address already in use :::3000\n    at Server.setupListenHandle [as _listen2] (node:net:1898:16)\n";

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn a_failure_has_one_signature_wherever_it_is_seen() {
    let project = Project::new();
    let plain =
        json(&project.run_with_input(&["fingerprint", "--json"], FAILURE.as_bytes()).stdout);
    assert_eq!(plain["class"], "port_conflict");
    assert_eq!(plain["version"], 1);
    assert_eq!(plain["key_line"], "Error: listen EADDRINUSE: address already in use :::3000");
    let compose: String =
        FAILURE.lines().map(|line| format!("web-1  | \x1b[31m{line}\x1b[0m\r\n")).collect();
    project.write("ci.log", compose);
    let seen = json(&project.run(&["fingerprint", "--json", "ci.log"]).stdout);
    assert_eq!(seen["signature"], plain["signature"]);
    let keys: Vec<&String> = plain.as_object().unwrap().keys().collect();
    let want =
        ["class", "error_type", "identity", "key_line", "normalized", "signature", "version"];
    assert_eq!(keys, want);
}

#[test]
fn questions_are_answered_line_by_line_past_malformed_ones() {
    let project = Project::new();
    let good = serde_json::json!({"id": 7, "text": FAILURE}).to_string();
    let input = format!(
        "{good}\nnot json\n{{\"id\":\"x\"}}\n\n{{\"id\":\"y\",\"text\":\"\",\"exit_code\":127}}\n"
    );
    let output = project.run_with_input(&["fingerprint", "--jsonl"], input.as_bytes());
    let answers: Vec<_> =
        output.stdout.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(json).collect();
    assert_eq!(answers.len(), 4);
    assert_eq!((&answers[0]["id"], &answers[0]["class"]), (&7.into(), &"port_conflict".into()));
    assert_eq!((&answers[1]["id"], &answers[1]["line"]), (&serde_json::Value::Null, &2.into()));
    assert_eq!(answers[2]["id"], "x");
    assert!(answers[2]["error"].as_str().unwrap().contains("text"));
    assert_eq!((&answers[3]["id"], &answers[3]["class"]), (&"y".into(), &"missing_tool".into()));
    assert_eq!(output.status.code(), Some(1));
}

/// **Invariant:** A secret in a failure is neither shown nor part of the signature.
#[test]
fn a_secret_in_the_failure_is_neither_shown_nor_signed() {
    let project = Project::new();
    let ask = |token: &str| {
        let text = format!("Error: login with {token} was turned away\n");
        json(&project.run_with_input(&["fingerprint", "--json"], text.as_bytes()).stdout)
    };
    let token = |rest: &str| format!("gh{}{rest}", "p_");
    let one = ask(&token("q7Zk1LmX92vTrB4nYc8WdJ0sHf3GpE6uAoKi"));
    let other = ask(&token("Vb5Nx0RtQ3jLw8ZcM1kYh7UgD4sFa2PeTi9O"));
    assert!(one["key_line"].as_str().unwrap().contains("[secret:"), "{one}");
    assert_eq!(one, other);
}

#[test]
fn a_person_gets_words_and_a_missing_file_a_reason() {
    let project = Project::new();
    let output = project.run_with_input(&["fingerprint"], FAILURE.as_bytes());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("port_conflict  EADDRINUSE\n  Error: listen EADDRINUSE"), "{text}");
    let output = project.run(&["fingerprint", "nope.log"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot open nope.log"));
}
