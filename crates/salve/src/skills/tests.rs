//! Tests of skills: what they may compute, what is found in them, and how they run.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The tools spec's example, as it stands.
const SPEC: &str = include_str!("../../tests/specs/deploy.skill.yaml");

/// The spec's second example, whose computation is only hinted at.
const SKETCH: &str = r#"
steps:
  - id: main_step
    tool: external_tool
    on_error: continue  # Required!

  - id: detect_failure
    condition: "main_step and '❌' in str(main_step)"
    compute: |
      # Detect failure type
      ...

  - id: fix_and_retry
    condition: "failure_info"
    # Apply fix and retry
"#;

fn names(values: Value) -> BTreeMap<String, Value> {
    values.as_object().cloned().unwrap_or_default().into_iter().collect()
}

fn states(report: &SkillReport) -> Vec<(&str, StepState)> {
    report.steps.iter().map(|step| (step.id.as_str(), step.state)).collect()
}

#[test]
fn python_computes_and_nothing_else() {
    let python = Python::find().unwrap();
    let known = names(json!({"a": {"x": [1, 2]}, "none": null}));
    let holds = |code: &str| python.condition(code, &known);
    assert_eq!(holds("a.get('x') and len(a['x']) == 2"), Ok(true));
    assert_eq!(holds(" none "), Ok(false));
    let value = python.compute("import re\nresult = re.findall('[0-9]', str(a))", &known);
    assert_eq!(value, Ok(json!(["1", "2"])));
    assert_eq!(python.compute("x = 1", &known), Ok(Value::Null));
    let error = holds("missing").unwrap_err().to_string();
    assert!(error.starts_with("NameError"), "{error}");
}

/// **Invariant:** Python in a skill reads and writes no file, reaches no network and starts nothing.
#[test]
fn python_reaches_nothing_outside_of_itself() {
    let python = Python::find().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x");
    let path = file.display();
    for code in [
        "open('/etc/passwd').read()".to_owned(),
        format!("open('{path}', 'w').write('x')"),
        "__import__('socket').socket()".to_owned(),
        "__import__('subprocess').run(['true'])".to_owned(),
        format!("__import__('os').system('touch {path}')"),
        "__import__('os').fork()".to_owned(),
        "__import__('os').kill(1, 0)".to_owned(),
        "__import__('os').listdir('/')".to_owned(),
    ] {
        let code = format!("result = {code}");
        let got = python.compute(&code, &BTreeMap::new());
        // A shell that could not be started has an exit code and no error.
        let is_refused = got.is_err() || got.as_ref().is_ok_and(|value| value.as_i64() != Some(0));
        assert!(is_refused, "{code}: {got:?}");
    }
    assert!(!file.exists());
}

#[test]
fn pythons_memory_is_limited_and_its_failure_is_told() {
    let python = Python::find().unwrap();
    let error = python.compute("result = len('x' * (1 << 31))", &BTreeMap::new()).unwrap_err();
    let is_told = matches!(&error, PythonError::Raised(said) if said.starts_with("MemoryError"));
    assert!(is_told || error == PythonError::Ended, "{error}");
    let error = python.compute("raise SystemExit(3)", &BTreeMap::new()).unwrap_err();
    assert_eq!(error, PythonError::Raised("SystemExit: 3".into()));
}

#[test]
fn pythons_time_is_limited_also_where_it_catches_everything() {
    let python = Python::find().unwrap().within(std::time::Duration::from_secs(1));
    for code in [
        "while True: pass",
        "while True:\n try:\n  while True: pass\n except BaseException: pass",
        "import re\nresult = re.match('(a+)+$', 'a' * 64 + 'b')",
    ] {
        let begun = std::time::Instant::now();
        let got = python.compute(code, &BTreeMap::new());
        let is_told = matches!(&got, Err(PythonError::Ended | PythonError::TooLong(_)));
        assert!(is_told, "{code}: {got:?}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{code}");
    }
}

#[test]
fn the_specs_examples_are_skills_that_heal_themselves() {
    let skill = parse_skill(SPEC).unwrap();
    assert_eq!(check_skill(&skill), []);
    assert!(skill.heals_itself());
    let inputs = names(json!({"namespace": "ns"}));
    let report = SkillRun { skill: &skill, inputs, tools: None }.run();
    assert_eq!(report.steps[0].inputs, *json!({"namespace": "ns"}).as_object().unwrap());
    let sketch = parse_skill(SKETCH).unwrap();
    let report = SkillRun { skill: &sketch, inputs: BTreeMap::new(), tools: None }.run();
    assert!(report.ok, "{report:?}");
    assert_eq!(
        states(&report),
        [
            ("main_step", StepState::WouldRun),
            ("detect_failure", StepState::Skipped),
            ("fix_and_retry", StepState::Skipped),
        ]
    );
}

#[test]
fn what_is_wrong_with_a_skill_is_named_with_its_line() {
    let rows = [
        ("- id: a\n  tool: t\n  condition: nobody", 2, "names `nobody`"),
        ("- id: a\n  tool: t\n  condition: b\n- id: b\n  tool: u", 2, "comes later"),
        ("- id: a\n  tool: t\n- id: b\n  compute: result = 1\n  condition: a", 2, "no `on_error`"),
        (
            "- id: a\n  tool: t\n- id: b\n  compute: x\n  condition: \"'❌' in a\"",
            4,
            "never reached",
        ),
        ("- id: a\n  tool: t\n  condition: 'False'", 2, "never reached"),
        ("- id: a\n  tool: t\n  args: {x: '{{ oops'}", 2, "template of `a` is wrong"),
        ("- id: a\n  tool: t\n- id: a\n  tool: t", 4, "is called `a`, too"),
        ("- id: a", 2, "does nothing"),
        ("- id: a\n  tool: t\n  compute: x", 2, "both `tool` and `compute`"),
        ("- id: a\n  tool: t", 2, "- id: detect_failure"),
    ];
    for (steps, line, says) in rows {
        let found = check_skill(&parse_skill(&format!("steps:\n{steps}\n")).unwrap());
        let is_there = |f: &SkillFinding| f.line == line && f.text.contains(says);
        assert!(found.iter().any(is_there), "{steps}: {found:?}");
    }
    let fine = "steps:\n- id: a\n  compute: result = 1\n- id: b\n  compute: result = 2\n  \
                condition: any(x > 0 for x in [a]) and 'c' in str(a).lower()\n";
    assert_eq!(check_skill(&parse_skill(fine).unwrap()), []);
    for (text, line) in [
        ("steps:\n- id: a\n  tol: t\n", 3),
        ("steps:\n- id: [\n", 3),
        ("steps:\n- id: a\n  on_error: maybe\n", 3),
        ("name: x\n", 1),
    ] {
        let error = parse_skill(text).unwrap_err();
        assert!(error.line.abs_diff(line) <= 1, "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_skill_or_is_refused(text in "(steps:\n- id: [a-z]{1,3}\n  (condition|tool|compute|args): )?.{0,60}") {
        let _ = check_skill_text(&text);
    }
}
