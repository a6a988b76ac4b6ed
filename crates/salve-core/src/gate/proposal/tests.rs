//! A proposal is taken whole or not at all.

use serde_json::json;

use super::*;

fn good() -> Value {
    json!({
        "version": 1,
        "timestamp": "2026-03-01T10:00:00Z",
        "category": "dependency",
        "severity": "blocking",
        "diagnosis": {
            "error_pattern": "Cannot find module",
            "root_cause": "the lockfile names a package that is not installed",
            "evidence": ["out.log:12: Cannot find module 'left-pad'"]
        },
        "recovery": {
            "command": " npm ci\n",
            "working_dir": "web",
            "timeout_seconds": 300,
            "expected_outcome": "the tests start",
            "confidence": "high"
        },
        "fallback": { "command": "npm ci --force", "confidence": "low" }
    })
}

/// Returns the good proposal with the value at `path` replaced, or removed.
fn with(path: &str, value: Option<Value>) -> Value {
    let mut proposal = good();
    let (parents, last) = path.rsplit_once('.').map_or((None, path), |(p, l)| (Some(p), l));
    let mut at = &mut proposal;
    for step in parents.into_iter().flat_map(|p| p.split('.')) {
        at = at.get_mut(step).unwrap();
    }
    let map = at.as_object_mut().unwrap();
    match value {
        Some(value) => map.insert(last.into(), value),
        None => map.remove(last),
    };
    proposal
}

#[track_caller]
fn refused(path: &str, value: Option<Value>) {
    let shown = format!("{path} = {value:?}");
    let error = RecoveryProposal::read(&with(path, value)).expect_err(&shown).to_string();
    let part = path.rsplit('.').next().unwrap();
    let says = error.contains(part) || error.contains("command") || error.contains("directory");
    assert!(says, "{shown}: {error}");
}

#[test]
fn the_fallback_inherits_directory_and_time_out() {
    let proposal = RecoveryProposal::read(&good()).unwrap();
    assert_eq!(
        proposal.request(Which::Recovery).unwrap(),
        &Request::new("npm ci", "web", 300).unwrap()
    );
    assert_eq!(
        proposal.request(Which::Fallback).unwrap(),
        &Request::new("npm ci --force", "web", 300).unwrap()
    );
}

#[test]
fn what_is_optional_has_the_specs_defaults() {
    let mut bare = with("recovery.working_dir", None);
    let recovery = bare["recovery"].as_object_mut().unwrap();
    recovery.remove("timeout_seconds");
    bare.as_object_mut().unwrap().remove("fallback");
    let proposal = RecoveryProposal::read(&bare).unwrap();
    assert_eq!(
        proposal.request(Which::Recovery).unwrap(),
        &Request::new("npm ci", ".", 120).unwrap()
    );
    assert!(matches!(proposal.request(Which::Fallback), Err(BadProposal::NoFallback)));
}

#[test]
fn a_fallback_needs_no_more_than_a_command() {
    let proposal = RecoveryProposal::read(&with("fallback.confidence", None)).unwrap();
    assert_eq!(
        proposal.request(Which::Fallback).unwrap(),
        &Request::new("npm ci --force", "web", 300).unwrap()
    );
}

#[test]
fn a_pattern_may_be_of_any_dialect() {
    for pattern in [
        "Host version .* does not match",
        "Cannot find module (?!lodash)",
        "(?<=Error: ).+",
        r"(a|b)x\1",
        r"\(?=x",
        "(?<pkg>[a-z]+)@\\d+",
    ] {
        let proposal = with("diagnosis.error_pattern", Some(json!(pattern)));
        assert!(RecoveryProposal::read(&proposal).is_ok(), "{pattern}");
    }
}

#[test]
fn the_longest_time_out_is_an_hour() {
    for (seconds, fits) in [(1, true), (3600, true), (3601, false), (86_400, false)] {
        let proposal = with("recovery.timeout_seconds", Some(json!(seconds)));
        assert_eq!(RecoveryProposal::read(&proposal).is_ok(), fits, "{seconds}");
    }
}

#[test]
fn every_required_field_is_required() {
    for path in [
        "version",
        "timestamp",
        "category",
        "severity",
        "diagnosis",
        "diagnosis.error_pattern",
        "diagnosis.root_cause",
        "diagnosis.evidence",
        "recovery",
        "recovery.command",
        "recovery.expected_outcome",
        "recovery.confidence",
        "fallback.command",
    ] {
        refused(path, None);
        for wrong in [json!(null), json!(7), json!(true), json!([]), json!({}), json!("")] {
            refused(path, Some(wrong));
        }
    }
}

#[test]
fn what_is_optional_is_still_checked() {
    for (path, wrong) in [
        ("recovery.working_dir", json!(null)),
        ("recovery.working_dir", json!(1)),
        ("recovery.working_dir", json!(["."])),
        ("recovery.working_dir", json!("")),
        ("recovery.working_dir", json!("a\0b")),
        ("recovery.timeout_seconds", json!(null)),
        ("recovery.timeout_seconds", json!("120")),
        ("recovery.timeout_seconds", json!(0)),
        ("recovery.timeout_seconds", json!(-1)),
        ("recovery.timeout_seconds", json!(1.5)),
        ("recovery.timeout_seconds", json!(120.0)),
        ("recovery.timeout_seconds", json!(3601)),
        ("recovery.timeout_seconds", json!(1e300)),
        ("fallback", json!(null)),
        ("fallback", json!("npm ci")),
        ("fallback.confidence", json!(null)),
        ("fallback.confidence", json!("certain")),
        ("fallback.working_dir", json!(3)),
        ("fallback.timeout_seconds", json!(0)),
    ] {
        refused(path, Some(wrong));
    }
}

#[test]
fn unknown_names_and_odd_values_are_refused() {
    for (path, wrong) in [
        ("version", json!(2)),
        ("version", json!(0)),
        ("version", json!(1.0)),
        ("version", json!("1")),
        ("timestamp", json!("yesterday")),
        ("timestamp", json!("2026-13-01T10:00:00Z")),
        ("timestamp", json!(1_700_000_000)),
        ("category", json!("Dependency")),
        ("category", json!("code")),
        ("severity", json!("critical")),
        ("recovery.confidence", json!("certain")),
        ("recovery.confidence", json!(0.9)),
        ("recovery.command", json!(["npm", "ci"])),
        ("recovery.command", json!(" \t")),
        ("recovery.command", json!("npm\0ci")),
        ("recovery.command", json!("x".repeat(100_000))),
        ("diagnosis.evidence", json!("out.log:12")),
        ("diagnosis.evidence", json!([7])),
        ("diagnosis.evidence", json!(["somewhere"])),
        ("diagnosis.evidence", json!([":12"])),
        ("diagnosis.evidence", json!(vec!["a:1"; 257])),
        ("diagnosis.error_pattern", json!("x".repeat(20_000))),
        ("diagnosis.error_pattern", json!("Cannot find (module")),
        ("diagnosis.error_pattern", json!("Cannot find (?=module")),
    ] {
        refused(path, Some(wrong));
    }
}

/// **Invariant:** Fields of a proposal never change the policy.
#[test]
fn extra_fields_change_nothing() {
    let plain = RecoveryProposal::read(&good()).unwrap();
    for path in ["enabled", "auto_approve", "recovery.approved", "recovery.on_unknown"] {
        for value in [json!(true), json!(["npm ci"]), json!({"deep": [1]}), json!(null)] {
            assert_eq!(RecoveryProposal::read(&with(path, Some(value))).unwrap(), plain, "{path}");
        }
    }
}

#[test]
fn the_text_is_bounded_and_read_strictly() {
    let text = good().to_string();
    assert_eq!(RecoveryProposal::parse(&text).unwrap(), RecoveryProposal::read(&good()).unwrap());
    for bad in [
        text[..text.len() - 1].to_owned(),
        text.replacen('{', r#"{"version":1,"#, 1),
        text.replacen(r#""recovery":{"#, r#""recovery":{"command":"curl x|sh","#, 1),
        format!("{text}{text}"),
        format!("{}{text}", " ".repeat(MAX_PROPOSAL)),
        format!("[{text}]"),
        "null".to_owned(),
    ] {
        assert!(RecoveryProposal::parse(&bad).is_err(), "{}", &bad[..bad.len().min(80)]);
    }
}
