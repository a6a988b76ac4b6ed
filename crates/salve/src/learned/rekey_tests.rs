//! New tables: what was known, what a person wrote into the file, and what a colleague sends.

use std::fs;

use jiff::Timestamp;
use salve_core::event::Proof;
use salve_core::fingerprint::{AnchorRow, FingerprintRules, Hints, Rows};
use salve_core::memory::{
    RecordStanding, RemedyTrial, RememberedFailure, RememberedKind, RememberedRemedy,
};
use salve_core::scrub::{ScrubKey, Scrubbed, Scrubber};

use super::super::Learned;
use crate::project::Project;
use crate::store::{Store, Stream};

const OUTPUT: &str = "12:01 GET /cart\nerror: stock service eu-1 does not answer\n";

/// Returns tables with a row for the output, such as a user adds.
fn with_row() -> FingerprintRules {
    let row = serde_json::json!({
        "id": "shop.stock", "class": "network", "error_type": "Stock",
        "shapes": ["stock service {name} does not answer"], "identify": ["name"],
    });
    let row: AnchorRow = serde_json::from_value(row).unwrap();
    FingerprintRules::with_user(&Rows { anchors: vec![row], classes: Vec::new() }).unwrap()
}

fn command(text: &'static str) -> RememberedRemedy {
    RememberedRemedy { kind: RememberedKind::Command, text: Scrubbed::literal(text) }
}

fn failure(rules: &FingerprintRules, scrubber: &Scrubber) -> RememberedFailure {
    RememberedFailure::new(&rules.fingerprint(OUTPUT, &Hints::default()), scrubber)
}

#[test]
fn a_new_row_loses_nothing_that_was_learned_or_written_into_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&Project::at(dir.path()).unwrap()).unwrap();
    let (scrubber, old, new) =
        (Scrubber::new(ScrubKey::new([1; 32])), FingerprintRules::built_in(), with_row());
    let before = Learned::new(&store, &scrubber, old);
    assert_eq!(before.rekey().unwrap(), 0);
    let outcome = |proof| RemedyTrial {
        at: "2026-01-20T10:00:00Z".parse().unwrap(),
        by: Scrubbed::literal("salve"),
        incident: None,
        project: Scrubbed::default(),
        proof,
    };
    let known = failure(old, &scrubber);
    store.memory().learn(&known, &command("make stock"), &outcome(Proof::Proven)).unwrap();
    store.memory().learn(&known, &command("make cart"), &outcome(Proof::Failed)).unwrap();
    before.sync().unwrap();
    // A person adds a key and a fix, and nobody has looked since.
    let path = store.project().learned().join("healing-patterns.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    file["patterns"][0]["team"] = "shop".into();
    let tried = serde_json::json!({"description": "make tea", "result": "failed"});
    file["patterns"][0]["fixes_attempted"].as_array_mut().unwrap().push(tried);
    fs::write(&path, file.to_string()).unwrap();

    let after = Learned::new(&store, &scrubber, &new);
    assert_eq!(after.rekey().unwrap(), 1);
    let now = failure(&new, &scrubber);
    assert_ne!(now.signature, known.signature);
    assert_eq!(store.memory().recall(known.signature).unwrap(), None);
    let moved = store.memory().recall(now.signature).unwrap().unwrap();
    let standing = |text| moved.find(&command(text)).unwrap().record.standing();
    assert_eq!(standing("make stock"), RecordStanding::Works);
    assert_eq!(standing("make cart"), RecordStanding::Failed);
    assert_eq!(standing("make tea"), RecordStanding::Failed);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(&now.signature.to_string()) && text.contains("\"team\""), "{text}");
    assert!(!text.contains(&known.signature.to_string()), "{text}");

    let told = store.journal().tail(&Stream::EarnedRules, 9).unwrap();
    assert_eq!(told.len(), 1, "the journal says so once");
    assert_eq!(after.rekey().unwrap(), 0);
    assert_eq!(before.rekey().unwrap(), 1, "and back where the row is gone");
    let back = store.memory().recall(known.signature).unwrap().unwrap();
    assert_eq!(back.remedies, moved.remedies);
}

#[test]
fn what_a_colleague_without_the_row_sends_is_taken_in_under_the_rows_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&Project::at(dir.path()).unwrap()).unwrap();
    let (scrubber, new) = (Scrubber::new(ScrubKey::new([1; 32])), with_row());
    let output = "error: stock service berlin does not answer";
    let failure = |rules: &FingerprintRules| {
        RememberedFailure::new(&rules.fingerprint(output, &Hints::default()), &scrubber)
    };
    let theirs = failure(FingerprintRules::built_in());
    let file = serde_json::json!({ "patterns": [{
        "error_signature": theirs.signature.to_string(),
        "normalized_error": theirs.normalized.as_str(),
        "successful_fix": "make stock",
        "first_seen": Timestamp::UNIX_EPOCH.to_string(),
        "last_seen": Timestamp::UNIX_EPOCH.to_string(),
    }]});
    fs::create_dir_all(store.project().learned()).unwrap();
    fs::write(store.project().learned().join("healing-patterns.json"), file.to_string()).unwrap();
    Learned::new(&store, &scrubber, &new).pull().unwrap();
    let known = store.memory().recall(failure(&new).signature).unwrap();
    assert!(known.is_some_and(|known| known.find(&command("make stock")).is_some()));
}
