//! What is kept of a heal below `.salve`, so that a person can follow it later.

use serde_json::{Value, json};

use crate::heal::Ward;

/// A check that is red with a secret in its output until `sum.txt` says 5.
const LEAKY: &str = "if [ \"$(cat sum.txt)\" = 5 ]; then exit 0; fi; \
                     echo 'token ghp_0123456789abcdefghijABCDEFGHIJ012345'; \
                     echo \"AssertionError: expected 5, found $(cat sum.txt)\"; exit 1";

impl Ward {
    /// Returns the names of the files that are kept of heals.
    fn kept(&self) -> Vec<String> {
        let dir = self.project.dir().join(".salve/healing-attempts");
        let files = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns what the file of an attempt says.
    fn attempt(&self, number: usize) -> Value {
        let end = format!("-{number}.json");
        let is_it = |name: &&String| name.starts_with("attempt-") && name.ends_with(&end);
        let names = self.kept();
        let name = names.iter().find(is_it).unwrap();
        serde_json::from_str(&self.read(&format!(".salve/healing-attempts/{name}"))).unwrap()
    }
}

#[test]
fn a_heal_leaves_its_evidence_its_attempts_and_its_decisions() {
    // The agent reads the evidence it was told of; the first attempt does not help.
    let ward = Ward::new().agent(
        "cat > ../task; cat .salve/healing-attempts/*.log >> ../read; \
         if [ -e ../again ]; then printf 5 > sum.txt; else touch ../again; printf 6 > sum.txt; fi",
    );
    ward.project.write("check.sh", LEAKY);
    ward.heal(&[]).expect(0, &["healed"]);
    let read = ward.read("../read");
    for words in ["Check:       sh check.sh", "expected 5, found 4", "expected 5, found 6"] {
        assert!(read.contains(words), "not in the evidence: {words}\n{read}");
    }
    let first = ward.attempt(1);
    assert_eq!([&first["result"], &first["rolled_back"]], [&json!("failed"), &json!("attempt")]);
    assert_eq!(first["files"][0]["path"], json!("sum.txt"));
    let second = ward.attempt(2);
    assert_eq!([&second["result"], &second["proof"]], [&json!("success"), &json!("proven")]);
    assert_eq!(second["agent"], json!("sh"));
    let decided = ward.read(".salve/decisions.log");
    let mut rest = decided.as_str();
    for words in
        ["OPENED", "CHOSE", "ROLLBACK of the attempt: still red", "CHOSE", "OUTCOME: green, proven"]
    {
        rest = rest.split_once(words).unwrap_or_else(|| panic!("no {words}:\n{decided}")).1;
    }
    for file in ward.kept() {
        let text = ward.read(&format!(".salve/healing-attempts/{file}"));
        assert!(!text.contains("ghp_0123"), "a secret is in {file}");
    }
    assert!(!decided.contains("ghp_0123"));
}

#[test]
fn what_was_lost_of_the_records_is_written_again() {
    let ward = Ward::new().agent("printf 6 > sum.txt");
    ward.heal(&["--set", "heal.max_attempts=1", "--", "sh", "check.sh"]).expect(3, &["exhausted"]);
    let lines = ward.read(".salve/decisions.log").lines().count();
    let kept = ward.kept();
    for file in &kept {
        std::fs::remove_file(ward.project.dir().join(".salve/healing-attempts").join(file))
            .unwrap();
    }
    // The incident goes on, and with it what is kept of it.
    ward.heal(&[]).expect(3, &["is red"]);
    let attempts = kept.iter().filter(|name| name.starts_with("attempt-"));
    for name in attempts {
        assert!(ward.kept().contains(name), "{name} is missing among {:?}", ward.kept());
    }
    let decided = ward.read(".salve/decisions.log");
    assert!(decided.lines().count() > lines);
    let mut all: Vec<_> = decided.lines().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), decided.lines().count(), "something was told twice:\n{decided}");
}
