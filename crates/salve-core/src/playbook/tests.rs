//! Tests of the playbook as a whole.

use super::*;
use crate::fingerprint::{FingerprintRules, Hints};
use crate::scrub::{ScrubKey, Scrubber};

#[test]
fn every_shipped_rule_loads_and_keeps_its_promises() {
    if let Err(errors) = Playbook::shipped() {
        let list: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{} broken rules:\n{}", list.len(), list.join("\n"));
    }
}

#[test]
fn a_subject_that_runs_is_heard_only_by_rules_about_such() {
    let playbook = Playbook::built_in();
    for text in [
        "[vite] Internal server error: Failed to resolve import \"dayjs\" from \"src/main.js\".",
        "Module not found: Error: Can't resolve 'dayjs' in '/srv/shop/src'",
        "Port 5173 is already in use",
        "Port 5173 is in use, trying another one...",
    ] {
        assert!(playbook.may_ail(text), "{text}");
    }
    for text in [
        "GET / 200 in 12ms",
        "Error: connect ECONNREFUSED 127.0.0.1:5432 (will retry)",
        "TypeError: x is not a function",
        "SyntaxError: Unexpected end of JSON input\n    at POST /orders",
        "listening on port 3000",
    ] {
        assert!(!playbook.may_ail(text), "{text}");
    }
}

/// Diagnoses an output of a check that ended with 1, in a project of which nothing is known.
fn rule_for(output: &str) -> Option<String> {
    let fingerprint = FingerprintRules::built_in().fingerprint(output, &Hints::default());
    let seen = ObservedFailure { output, fingerprint: &fingerprint, exit: &ProcessExit::Code(1) };
    let scrubber = Scrubber::new(ScrubKey::new([7; 32]));
    Playbook::built_in().diagnose(&seen, &ProjectFacts::default(), &scrubber).rule
}

#[test]
fn what_a_test_compares_or_provokes_is_not_why_it_fails() {
    let logged = "WARNING GET /x 401 Unauthorized\nconnect ECONNREFUSED 127.0.0.1:5432\n";
    let pytest = format!(
        "    def test_total():\n>       assert total([1, 2]) == 4\nE       assert 3 == 4\n\n\
         test_cart.py:5: AssertionError\n----------- Captured stdout call -----------\n{logged}\
         FAILED test_cart.py::test_total - assert 3 == 4\n"
    );
    let node = "AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:\n\
         + actual - expected\n\n+ 'ENOSPC: no space left on device'\n\
         - 'Error: listen EADDRINUSE: address already in use 127.0.0.1:1'\n\n    \
         at Object.<anonymous> (/p/t.js:1:19)\n";
    let jest = "FAIL ./a.test.js\n  ● a\n\n    expect(received).toBe(expected)\n\n    \
         Expected: \"no such table: users\"\n    Received: \"Cannot find module 'x'\"\n\n      \
         at Object.toBe (a.test.js:1:46)\n";
    for output in [pytest.as_str(), node, jest] {
        assert_eq!(rule_for(output).as_deref(), Some("code.test"), "{output}");
    }
    // What stopped the test itself is why.
    let refused = "FAILED test_a.py::test_a\nE       psycopg2.OperationalError: connection to server \
                   at \"localhost\" (::1), port 5432 failed: Connection refused\n";
    assert_eq!(rule_for(refused).as_deref(), Some("service.down"));
}

#[test]
fn what_hung_is_not_judged_by_the_kind_of_what_it_said_last() {
    let output = "django.core.exceptions.ImproperlyConfigured: the cache has no backend";
    let fingerprint = FingerprintRules::built_in().fingerprint(output, &Hints::default());
    let nature = |exit: &ProcessExit| {
        let seen = ObservedFailure { output, fingerprint: &fingerprint, exit };
        Playbook::built_in()
            .diagnose(&seen, &ProjectFacts::default(), &Scrubber::new(ScrubKey::new([7; 32])))
            .nature
    };
    assert_eq!(nature(&ProcessExit::Code(1)), Nature::Code);
    for exit in [ProcessExit::Hung, ProcessExit::TimedOut] {
        assert_eq!(nature(&exit), Nature::Unknown, "{exit:?}");
    }
}

/// What a failure's own text may make of a value.
const HOSTILE: &[&str] = &[
    "/",
    "/home/me",
    "/etc/passwd",
    "~",
    "$HOME",
    "-rf",
    "--recursive",
    ".",
    "..",
    "*",
    "1",
    "-1",
    "a b",
    "x; rm -rf /",
    "$(reboot)",
    "",
];

/// **Invariant:** No advice can do harm, whatever a failure names.
#[test]
fn every_advice_is_harmless_whatever_the_failure_names() {
    let root = "/srv/shop";
    for row in Playbook::built_in().rows() {
        let usual = table::advise(row, &fill::Values::all("4711"), root);
        assert_ne!(usual, advice::NO_ADVICE, "{} says nothing at all: {}", row.id, row.next);
        for value in HOSTILE {
            let told = table::advise(row, &fill::Values::all(value), root);
            assert_eq!(harm_of(&told, root), None, "{}: {told}", row.id);
            // Once more by plain search, so that one mistake in the judge is not enough.
            for bad in
                ["chown -R", "chmod -R", "rm -rf /", "rm -rf ~", "sudo rm", "kill 1 ", "kill -1"]
            {
                assert!(!format!("{told} ").contains(bad), "{}: {told}", row.id);
            }
            let privileged = told.match_indices("sudo").count();
            assert!(privileged == 0 || told.contains("sudo chown "), "{}: {told}", row.id);
        }
    }
}

#[test]
fn a_rule_may_name_a_row_and_uses_what_its_holes_caught() {
    let rule = |on: &str| {
        format!(
            "[[rule]]\nid = \"own.port\"\nnature = \"infrastructure\"\non = [\"{on}\"]\n\
             finding = \"Port {{port}} is taken.\"\nnext = \"Look at port {{port}}.\"\n\
             examples = [{{ text = \"Error: listen EADDRINUSE: address already in use :::3000\" }}]\n\
             counter = [{{ text = \"TypeError: x is not a function\" }}]\n"
        )
    };
    let playbook = Playbook::parse(&[&rule("port.in_use")]).unwrap();
    let output = "Error: listen EADDRINUSE: address already in use :::3000";
    let fingerprint = FingerprintRules::built_in().fingerprint(output, &Hints::default());
    let seen = ObservedFailure { fingerprint: &fingerprint, exit: &ProcessExit::Code(1), output };
    let clues = playbook.clues(&seen);
    assert_eq!(clues.ports.into_iter().collect::<Vec<_>>(), [3000]);
    let found =
        playbook.diagnose(&seen, &ProjectFacts::default(), &Scrubber::new(ScrubKey::new([7; 32])));
    assert_eq!(found.findings[0].what.as_str(), "Port 3000 is taken.");
    let unknown = Playbook::parse(&[&rule("port.nowhere")]).unwrap_err();
    assert_eq!(
        unknown[0].to_string(),
        "rule `own.port`: `on` names a row that the tables do not have"
    );
}

#[test]
fn a_lockfile_is_written_unattended_only_where_it_is_what_failed() {
    let scrubber = Scrubber::new(ScrubKey::new([7; 32]));
    let node = NodeProject {
        manager: Some(NodeManager::Pnpm),
        manager_found: true,
        lockfiles: vec!["pnpm-lock.yaml".into()],
        agreement: Agreement::Differs,
        declared: [("ms".to_owned(), "2".to_owned())].into(),
        ..NodeProject::default()
    };
    let packages =
        [("ms".to_owned(), PackageState { declared: Some("2".into()), ..PackageState::default() })];
    let facts =
        ProjectFacts { node: Some(node), packages: packages.into(), ..ProjectFacts::default() };
    let gates = |output: &str| {
        let fingerprint = FingerprintRules::built_in().fingerprint(output, &Hints::default());
        let seen =
            ObservedFailure { fingerprint: &fingerprint, exit: &ProcessExit::Code(1), output };
        let found = Playbook::built_in().diagnose(&seen, &facts, &scrubber);
        found.remedies.iter().map(|one| one.gate).collect::<Vec<_>>()
    };
    assert_eq!(gates("Error: Cannot find module 'ms'"), [Gate::Ask]);
    assert_eq!(
        gates("ERR_PNPM_OUTDATED_LOCKFILE  Cannot install with \"frozen-lockfile\""),
        [Gate::Safe]
    );
}
