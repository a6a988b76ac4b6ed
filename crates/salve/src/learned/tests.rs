//! Files and store in step: edits in, knowledge out, and nothing of a person's lost.

use std::fs;

use jiff::Timestamp;
use proptest::prelude::*;
use salve_core::class::Class;
use salve_core::event::Proof;
use salve_core::id::Signature;
use salve_core::memory::usage::Warned;
use salve_core::memory::{
    RecordStanding, RemedyTrial, RememberedFailure, RememberedKind, RememberedRemedy,
};
use salve_core::prevention::category::MistakeCategory;
use salve_core::prevention::mistake::{CallMistake, LearnedMistake};
use salve_core::prevention::session::UsageLesson;
use salve_core::scrub::{ScrubKey, Scrubbed};
use serde_json::{Value, json};

use super::text::OldText;
use super::yaml::{Document, parse};
use super::*;
use crate::project::Project;
use crate::store::LearnedItem;

/// A project with its store, and what is needed to keep its files.
struct Bench {
    _dir: tempfile::TempDir,
    store: Store,
    scrubber: Scrubber,
    rules: &'static FingerprintRules,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Project::at(dir.path()).unwrap()).unwrap();
        let scrubber = Scrubber::new(ScrubKey::new([1; 32]));
        Self { _dir: dir, store, scrubber, rules: FingerprintRules::built_in() }
    }

    fn learned(&self) -> Learned<'_> {
        Learned::new(&self.store, &self.scrubber, self.rules)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.store.project().learned().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.store.project().learned()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn sync(&self) -> SyncReport {
        self.learned().sync().unwrap()
    }
}

fn fix(tool: &str, pattern: &str) -> ToolFixItem {
    ToolFixItem {
        tool_name: tool.into(),
        error_pattern: pattern.into(),
        root_cause: "it is so".into(),
        fix_description: "do otherwise".into(),
        discovered_at: Some(When("2026-01-20T10:00:00Z".parse().unwrap())),
        confidence: Sureness::High,
    }
}

#[test]
fn nothing_learned_makes_no_files() {
    let bench = Bench::new();
    assert_eq!(bench.sync(), SyncReport::default());
    assert!(!bench.store.project().learned().exists());
}

#[test]
fn a_taught_fix_is_written_in_the_specs_shape() {
    let bench = Bench::new();
    bench.learned().put_fix(&fix("deploy", "manifest unknown: \"x\" # not a comment")).unwrap();
    assert_eq!(bench.sync(), SyncReport::default());
    let text = bench.read("tool_fixes.yaml");
    let document = parse(LearnedFile::ToolFixes, "x".as_ref(), &text).unwrap();
    let want = json!({
        "tool_name": "deploy",
        "error_pattern": "manifest unknown: \"x\" # not a comment",
        "root_cause": "it is so",
        "fix_description": "do otherwise",
        "discovered_at": "2026-01-20T10:00:00Z",
        "confidence": "high",
    });
    assert_eq!(Value::Object(document.items[0].clone()), want, "{text}");
    assert_eq!(bench.sync(), SyncReport::default(), "what Salve wrote is no edit");
    assert_eq!(bench.read("tool_fixes.yaml"), text);
}

const EDITED: &str = r#"# Our own fixes.
team: platform
tool_fixes:
  # ask Ada about this one
  - tool_name: deploy   # the old one
    error_pattern: "manifest unknown"
    root_cause: >-
      Short SHA
      does not exist
    fix_description: Use the full SHA
    owner: ada
    confidence: high

  - tool_name: pods
    error_pattern: connection refused
    fix_description: Check the VPN
# the end
"#;

#[test]
fn a_persons_edit_is_taken_in_and_its_comments_and_keys_stay() {
    let bench = Bench::new();
    bench.write("tool_fixes.yaml", EDITED);
    let report = bench.sync();
    assert_eq!(
        report,
        SyncReport { taken_in: vec![LearnedFile::ToolFixes], ..SyncReport::default() }
    );
    assert_eq!(bench.read("tool_fixes.yaml"), EDITED, "a good edit is not rewritten");
    let fixes = bench.learned().fixes().unwrap();
    assert_eq!(fixes[0].root_cause, "Short SHA does not exist");

    bench.learned().put_fix(&fix("deploy", "manifest unknown")).unwrap();
    bench.learned().put_fix(&fix("third", "new")).unwrap();
    assert_eq!(bench.sync(), SyncReport::default());
    let text = bench.read("tool_fixes.yaml");
    for kept in ["# Our own fixes.", "team: platform", "# ask Ada", "# the old one", "owner: ada"] {
        assert!(text.contains(kept), "{kept} is gone:\n{text}");
    }
    assert!(
        text.contains("  - tool_name: pods\n    error_pattern: connection refused\n"),
        "{text}"
    );
    assert!(text.contains("# the end"), "{text}");
    let document = parse(LearnedFile::ToolFixes, "x".as_ref(), &text).unwrap();
    let tools: Vec<_> = document.items.iter().map(|item| item["tool_name"].clone()).collect();
    assert_eq!(tools, ["deploy", "pods", "third"]);
    assert_eq!(document.items[0]["root_cause"], "it is so");
}

#[test]
fn a_removed_entry_is_removed_and_one_added_elsewhere_meanwhile_is_not() {
    let bench = Bench::new();
    bench.write("tool_fixes.yaml", EDITED);
    bench.sync();
    // Salve learns something while a person, who has not seen it, takes an entry out.
    bench.learned().put_fix(&fix("third", "new")).unwrap();
    let without: String = EDITED.split_inclusive("\n\n").next().unwrap().into();
    bench.write("tool_fixes.yaml", &without);
    bench.sync();
    let tools: Vec<_> =
        bench.learned().fixes().unwrap().into_iter().map(|fix| fix.tool_name).collect();
    assert_eq!(tools, ["deploy", "third"]);
    assert!(bench.read("tool_fixes.yaml").contains("third"));
}

/// **Invariant:** A malformed edit of a learned file is reported and never overwritten.
#[test]
fn a_malformed_edit_is_reported_and_never_overwritten() {
    let bench = Bench::new();
    bench.learned().put_fix(&fix("deploy", "manifest unknown")).unwrap();
    bench.sync();
    let good = bench.read("tool_fixes.yaml");
    let rows = [
        ("tool_fixes:\n  - tool_name: x\n    error_pattern: [\n", 3..=4),
        ("tool_fixes:\n  - tool_name: x\n    error_pattern: y\n", 2..=3),
        (
            "tool_fixes:\n  - tool_name: x\n    error_pattern: y\n    fix_description: z\n    \
             confidence: enormous\n",
            5..=5,
        ),
        (
            "tool_fixes:\n  - tool_name: x\n    error_pattern: y\n    fix_description: z\n    \
             discovered_at: yesterday\n",
            5..=5,
        ),
        ("tool_fixes: 7\n", 1..=1),
        ("", 1..=1),
    ];
    for (text, lines) in rows {
        bench.write("tool_fixes.yaml", text);
        bench.learned().put_fix(&fix("meanwhile", "learned")).unwrap();
        let report = bench.sync();
        let [malformed] = report.malformed.as_slice() else { panic!("{text:?}: {report:?}") };
        assert!(lines.contains(&malformed.line), "{text:?}: {malformed}");
        assert!(malformed.reason.len() > 4, "{malformed}");
        assert_eq!(bench.read("tool_fixes.yaml"), text, "the edit is as it was");
        assert_eq!(bench.learned().fixes().unwrap()[0].tool_name, "deploy", "still in force");
    }
    bench.write("tool_fixes.yaml", &good);
    assert_eq!(bench.sync().malformed, []);
    assert!(bench.read("tool_fixes.yaml").contains("meanwhile"));
}

#[test]
fn what_is_no_text_is_reported_and_the_other_files_go_on() {
    let bench = Bench::new();
    bench.learned().put_fix(&fix("deploy", "manifest unknown")).unwrap();
    fs::create_dir_all(bench.path("patterns.yaml")).unwrap();
    fs::write(bench.path("usage_patterns.yaml"), b"ok: 1\nbad: \xff\n").unwrap();
    let report = bench.sync();
    let said: Vec<_> = report.malformed.iter().map(|bad| (bad.line, bad.reason.as_str())).collect();
    assert_eq!(said, [(1, "not a file"), (2, "not UTF-8 text")]);
    assert!(bench.read("tool_fixes.yaml").contains("deploy"));
}

/// **Invariant:** Of what several processes learn at once, nothing is lost.
#[test]
fn concurrent_writers_lose_nothing() {
    let bench = Bench::new();
    let at: Timestamp = "2026-01-20T10:00:00Z".parse().unwrap();
    let mistake = CallMistake::Missing { parameter: "tag".into() };
    let category = MistakeCategory::MissingParameter;
    let mistake = LearnedMistake::new("deploy", category, mistake, "tag is required").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (project, scrubber) = (bench.store.project().clone(), &bench.scrubber);
            let (rules, mistake) = (bench.rules, &mistake);
            scope.spawn(move || {
                let store = Store::open(&project).unwrap();
                let learned = Learned::new(&store, scrubber, rules);
                for number in 0..5 {
                    learned.put_fix(&fix(&format!("t{writer}"), &format!("e{number}"))).unwrap();
                    let observed = UsageLesson::Observed(mistake.clone());
                    let (id, warned) = (mistake.id.clone(), Warned::Prevented);
                    let settled = UsageLesson::Settled { id, warned };
                    learned.take_in_lessons(&[observed, settled], at).unwrap();
                    learned.sync().unwrap();
                }
            });
        }
    });
    bench.sync();
    assert_eq!(bench.learned().fixes().unwrap().len(), 20);
    assert_eq!(bench.read("tool_fixes.yaml").matches("tool_name:").count(), 20);
    let known = &bench.learned().usage_patterns().unwrap()[0];
    assert_eq!((known.observations, known.success_after_prevention), (20, 20));
    assert_eq!(known.warnings, Some(20));
    let text = bench.read("usage_patterns.yaml");
    assert!(text.contains("observations: 20"), "{text}");
}

#[test]
fn a_fix_is_offered_for_its_own_error_of_its_own_tool_only() {
    let bench = Bench::new();
    let learned = bench.learned();
    learned.put_fix(&fix("deploy", "manifest unknown")).unwrap();
    learned
        .put_fix(&fix("deploy", "Error: listen EADDRINUSE: address already in use :::3000"))
        .unwrap();
    let known = |tool, error: &str| learned.known_issues(Some(tool), error).unwrap().fixes.len();
    assert_eq!(known("deploy", "Manifest unknown: quay.io/x"), 1);
    assert_eq!(known("deploy", "quota exceeded"), 0, "another error of the same tool");
    assert_eq!(known("other", "manifest unknown"), 0, "another tool");
    // The same failure in other words: one fingerprint.
    let same = "  Error: listen EADDRINUSE: address already in use 0.0.0.0:3000\n    at Server.x (a.js:1:2)";
    assert_eq!(known("deploy", same), 1);
}

#[test]
fn hostile_yaml_is_refused_quickly() {
    let mut bomb = String::from("tool_fixes: []\na: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (from, to) in ('a'..'l').zip('b'..) {
        let list = vec![format!("*{from}"); 10].join(", ");
        bomb += &format!("{to}: &{to} [{list}]\n");
    }
    let deep = format!("tool_fixes: []\nx: {}{}\n", "[".repeat(5000), "]".repeat(5000));
    let block = format!("tool_fixes: []\nx:\n{}", "- ".repeat(5000));
    let many = "tool_fixes: []\n---\n".repeat(3);
    let twice = "tool_fixes: []\ntool_fixes: []\n";
    let tagged = "tool_fixes: !!python/object/apply:os.system [\"id\"]\n";
    for text in [bomb.as_str(), &deep, &block, &many, twice, tagged] {
        let head: String = text.chars().take(40).collect();
        assert!(check_text("tool_fixes.yaml", text).is_err(), "{head:?}");
    }
}

#[test]
fn a_layout_that_is_not_understood_is_kept_beside() {
    let bench = Bench::new();
    let flow = "tool_fixes: [{tool_name: a, error_pattern: b, fix_description: c}] # mine\n";
    bench.write("tool_fixes.yaml", flow);
    assert_eq!(bench.sync().kept_aside.len(), 1);
    assert_eq!(bench.read("tool_fixes.yaml.kept-1"), flow);
    assert_eq!(bench.sync(), SyncReport::default());
    assert_eq!(bench.learned().fixes().unwrap().len(), 1);
}

#[test]
fn a_secret_in_an_edit_reaches_neither_store_nor_rewritten_file() {
    let bench = Bench::new();
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let text = format!(
        "tool_fixes:\n  - tool_name: a\n    error_pattern: b\n    fix_description: use {token}\n"
    );
    bench.write("tool_fixes.yaml", &text);
    bench.sync();
    assert!(!bench.read("tool_fixes.yaml").contains(&token));
    assert!(!bench.learned().fixes().unwrap()[0].fix_description.contains(&token));
}

fn tool_failure(at: &str, error: &str, auto_healed: bool) -> ToolFailure {
    ToolFailure {
        timestamp: When(at.parse().unwrap()),
        tool: "deploy".into(),
        error: error.into(),
        context: json!({"namespace": "x", "mr_id": 1459}),
        resolution: Some("Used full SHA".into()),
        auto_healed,
    }
}

#[test]
fn tool_failures_carry_computed_statistics() {
    let bench = Bench::new();
    for failure in [
        tool_failure("2026-01-26T10:30:00Z", "connection refused", true),
        tool_failure("2026-01-26T11:30:00Z", "manifest unknown", false),
    ] {
        bench.learned().put_failure(&failure).unwrap();
    }
    bench.sync();
    let text = bench.read("tool_failures.yaml");
    let all: Value = yaml::yaml("x".as_ref(), &text).unwrap();
    let stats = &all["stats"];
    let want = json!({
        "total_failures": 2, "auto_fixed": 1, "manual_required": 1, "fix_rate": 0.5,
        "by_type": {"network": 1, "unknown": 1},
        "daily": {"2026-01-26": {"total": 2, "auto_fixed": 1}},
        "weekly": {"2026-W05": {"total": 2, "auto_fixed": 1}},
    });
    assert_eq!(*stats, want, "{text}");
    assert_eq!(all["failures"][0]["context"]["mr_id"], 1459);

    // A person may settle a failure; the numbers follow, whatever the file says about them.
    let edited = text.replacen("auto_healed: false", "auto_healed: true", 1);
    bench.write("tool_failures.yaml", &edited);
    bench.sync();
    let all: Value = yaml::yaml("x".as_ref(), &bench.read("tool_failures.yaml")).unwrap();
    assert_eq!(all["stats"]["auto_fixed"], 2);
    assert_eq!(all["failures"][1]["auto_healed"], true);
}

#[test]
fn equal_failures_within_one_second_are_as_many() {
    let bench = Bench::new();
    for at in ["2026-01-26T10:30:00.100Z", "2026-01-26T10:30:00.100001Z"] {
        bench.learned().put_failure(&tool_failure(at, "connection refused", true)).unwrap();
    }
    for _ in 0..2 {
        bench.sync();
        let all: Value = yaml::yaml("x".as_ref(), &bench.read("tool_failures.yaml")).unwrap();
        assert_eq!(all["stats"]["total_failures"], 2, "{all}");
        assert_eq!(all["stats"]["daily"]["2026-01-26"]["total"], 2);
        assert_eq!(all["failures"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_usage_patterns_confidence_is_computed_not_believed() {
    let bench = Bench::new();
    bench.write(
        "usage_patterns.yaml",
        "usage_patterns:\n- id: short_sha\n  tool: deploy\n  observations: 10\n  \
         success_after_prevention: 8\n  confidence: 0.99\n  \
         first_seen: '2026-01-12T10:00:00'\n  last_seen: '2026-01-12T15:30:00'\n",
    );
    bench.sync();
    let text = bench.read("usage_patterns.yaml");
    assert!(text.contains("confidence: 0.765"), "{text}");
    assert_eq!(bench.learned().usage_patterns().unwrap()[0].observations, 10);
}

fn failure() -> RememberedFailure {
    let normalized = "No module named foo in the place where it was";
    RememberedFailure {
        signature: Signature(0xa1b2_c3d4_e5f6_0718),
        class: Class::ImportError,
        error_type: Scrubbed::literal("ModuleNotFoundError"),
        normalized: Scrubbed::literal(normalized),
        identity: None,
        key_line: Scrubbed::default(),
    }
}

fn remedy(kind: RememberedKind, text: &'static str) -> RememberedRemedy {
    RememberedRemedy { kind, text: Scrubbed::literal(text) }
}

fn outcome(proof: Proof, at: &str) -> RemedyTrial {
    let (by, at) = (Scrubbed::literal("salve"), at.parse().unwrap());
    RemedyTrial { at, by, incident: None, project: Scrubbed::default(), proof }
}

#[test]
fn healing_patterns_have_exactly_the_specs_fields() {
    let bench = Bench::new();
    let memory = bench.store.memory();
    memory.see(&failure(), "2025-01-15T10:00:00Z".parse().unwrap()).unwrap();
    let rows = [
        (remedy(RememberedKind::Command, "pip install foo"), Proof::Failed),
        (remedy(RememberedKind::Command, "pip install foo-lib"), Proof::Proven),
        (remedy(RememberedKind::Instruction, "look at the imports"), Proof::Transient),
    ];
    for (remedy, proof) in &rows {
        memory.learn(&failure(), remedy, &outcome(*proof, "2025-01-15T10:00:00Z")).unwrap();
    }
    memory.see(&failure(), "2025-01-16T14:30:00Z".parse().unwrap()).unwrap();
    bench.sync();
    let got: Value = serde_json::from_str(&bench.read("healing-patterns.json")).unwrap();
    let mut got = got;
    got["patterns"][0]["fixes_attempted"]
        .as_array_mut()
        .unwrap()
        .sort_by_key(|fix| fix["description"].to_string());
    let want = json!({"patterns": [{
        "error_signature": "a1b2c3d4e5f60718",
        "error_type": "import_error",
        "normalized_error": "No module named foo in the place where it was",
        "fixes_attempted": [
            {"description": "instruction: look at the imports", "result": "inconclusive"},
            {"description": "pip install foo", "result": "failed"},
            {"description": "pip install foo-lib", "result": "success"},
        ],
        "successful_fix": "pip install foo-lib",
        "first_seen": "2025-01-15T10:00:00Z",
        "last_seen": "2025-01-16T14:30:00Z",
    }]});
    assert_eq!(got, want);
    assert_eq!(bench.sync(), SyncReport::default());
}

#[test]
fn healing_patterns_of_other_tools_are_taken_in() {
    let bench = Bench::new();
    // Neither the signature nor the times are as Salve writes them.
    let text = r#"{"patterns": [{
        "error_signature": "a1b2c3d4e5f6g7h8", "error_type": "import_error",
        "normalized_error": "ModuleNotFoundError: No module named 'foo'",
        "fixes_attempted": [
            {"description": "pip install foo", "result": "failed"},
            {"description": "pip install foo-lib", "result": "success"}
        ],
        "successful_fix": "pip install foo-lib",
        "first_seen": "2025-01-15T10:00:00", "last_seen": "2025-01-16T14:30:00",
        "ticket": 12
    }], "owner": "ada"}"#;
    bench.write("healing-patterns.json", text);
    assert_eq!(bench.sync().taken_in, [LearnedFile::HealingPatterns]);
    let error = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'foo'\n";
    let found = bench.rules.fingerprint(error, &Default::default());
    let known = bench.store.memory().recall(found.signature).unwrap().unwrap();
    let standing = |text| {
        let tried = known.find(&remedy(RememberedKind::Command, text)).unwrap();
        tried.record.standing()
    };
    assert_eq!(standing("pip install foo"), RecordStanding::Failed);
    assert_eq!(standing("pip install foo-lib"), RecordStanding::Works);
    let written: Value = serde_json::from_str(&bench.read("healing-patterns.json")).unwrap();
    assert_eq!(written["owner"], "ada");
    assert_eq!(written["patterns"][0]["ticket"], 12);
    assert_eq!(written["patterns"][0]["error_signature"], found.signature.to_string());
    assert_eq!(bench.sync(), SyncReport::default());
}

#[test]
fn an_edited_healing_pattern_changes_what_is_known() {
    let bench = Bench::new();
    let memory = bench.store.memory();
    let (bad, good) =
        (remedy(RememberedKind::Command, "bad"), remedy(RememberedKind::Command, "good"));
    memory.learn(&failure(), &bad, &outcome(Proof::Proven, "2025-01-15T10:00:00Z")).unwrap();
    bench.sync();
    let mut file: Value = serde_json::from_str(&bench.read("healing-patterns.json")).unwrap();
    file["patterns"][0]["fixes_attempted"] = json!([]);
    file["patterns"][0]["successful_fix"] = json!("good");
    bench.write("healing-patterns.json", &file.to_string());
    bench.sync();
    let known = memory.recall(failure().signature).unwrap().unwrap();
    assert!(known.find(&bad).is_none(), "taken out");
    let standing = known.find(&good).map(|tried| tried.record.standing());
    assert_eq!(standing, Some(RecordStanding::Untried), "taught, not proven");

    bench.write("healing-patterns.json", "{\"patterns\": []}");
    bench.sync();
    assert_eq!(memory.recall(failure().signature).unwrap(), None);
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,8}", "\\PC{0,12}", "(- |# |: |'|\"|\\||>|&a|\\*a|!!x|\\?|~|null|1e3|yes)*"]
}

fn document() -> impl Strategy<Value = Vec<LearnedItem>> {
    let item = (word(), word(), word(), prop::option::of(word())).prop_map(|(a, b, c, own)| {
        let mut item = LearnedItem::new();
        item.insert("tool_name".into(), a.into());
        item.insert("error_pattern".into(), b.into());
        item.insert("fix_description".into(), c.into());
        item.extend(own.map(|own| ("own".to_owned(), json!([own.clone(), {"deep": own}]))));
        item
    });
    prop::collection::vec(item, 0..5)
}

proptest! {
    #[test]
    fn any_items_come_back_from_yaml_and_json(items in document(), more in document()) {
        let path = std::path::Path::new("x");
        let first = text::write(LearnedFile::ToolFixes, &items, None, None);
        let read = parse(LearnedFile::ToolFixes, path, &first.text).unwrap();
        prop_assert_eq!(&read.items, &items, "{}", first.text);
        // Written into an existing text, they come back just the same.
        let both: Vec<LearnedItem> = items.iter().skip(1).chain(&more).cloned().collect();
        let second = text::write(LearnedFile::ToolFixes, &both, None, Some(OldText { text: &first.text, document: &read }));
        let read = parse(LearnedFile::ToolFixes, path, &second.text).unwrap();
        prop_assert_eq!(&read.items, &both, "{}\n--\n{}", first.text, second.text);
        let json = text::write(LearnedFile::HealingPatterns, &items, None, None).text;
        let root: Value = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(&root["patterns"], &serde_json::to_value(&items).unwrap());
    }

    #[test]
    fn any_text_is_read_or_refused_without_panic(text in "(\\PC|\n|  |- |: |tool_fixes:|\\[|\\{|&a|\\*a){0,60}") {
        for file in LearnedFile::ALL {
            let _ = check_text(file.name(), &text);
        }
    }

    #[test]
    fn a_patch_of_any_text_keeps_every_comment(note in "[a-z ]{1,20}", items in document()) {
        let text = EDITED.replace("ask Ada about this one", &note);
        let path = std::path::Path::new("x");
        let old: Document = parse(LearnedFile::ToolFixes, path, &text).unwrap();
        let mut all = old.items.clone();
        all.extend(items);
        let written = text::write(LearnedFile::ToolFixes, &all, None, Some(OldText { text: &text, document: &old }));
        prop_assert!(written.text.contains(&format!("# {}", note.trim_end())), "{}", written.text);
        prop_assert_eq!(parse(LearnedFile::ToolFixes, path, &written.text).unwrap().items, all);
    }
}

#[test]
fn times_are_read_with_and_without_a_zone() {
    let read = |text: &str| serde_json::from_value::<When>(text.into()).map(|when| when.0);
    let want: Timestamp = "2025-01-15T10:00:00Z".parse().unwrap();
    for text in ["2025-01-15T10:00:00", "2025-01-15T10:00:00Z", "2025-01-15T12:00:00+02:00"] {
        assert_eq!(read(text).unwrap(), want, "{text}");
    }
    assert!(read("soon").is_err());
}
