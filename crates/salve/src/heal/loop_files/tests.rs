//! What others wrote stays, and nothing is written twice.

use std::fs;

use serde_json::json;

use super::*;

#[test]
fn lines_that_are_missing_are_added_and_what_others_wrote_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let line = |seq: u64| json!({"event": "recovery_proposed", "seq": seq});
    fs::write(&path, "{\"event\":\"theirs\"}\nno json at all").unwrap();
    add_lines(&path, &[line(1)], &["seq", "event"]).unwrap();
    add_lines(&path, &[line(1), line(2)], &["seq", "event"]).unwrap();
    add_lines(&path, &[line(1), line(2)], &["seq", "event"]).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["{\"event\":\"theirs\"}", "no json at all"]);
    let ours: Vec<Value> =
        lines[2..].iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ours, [line(1), line(2)]);
}

#[test]
fn a_state_that_is_no_object_is_started_over_and_a_link_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    fs::write(&path, "[1]").unwrap();
    assert!(read_object(&path).is_empty());
    let other = dir.path().join("other.json");
    fs::write(&other, "{\"a\": 1}").unwrap();
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert!(read_object(&path).is_empty());
    write_if_new(&path, "{}\n").unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap(), "{\"a\": 1}");
}
