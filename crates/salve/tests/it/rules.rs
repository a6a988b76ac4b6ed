//! Commands that people approve again and again earn their approval, and lose it at once.

use std::process::Stdio;

use serde_json::Value;

use crate::heal::{Visit, Ward};
use crate::notify::Stuck;
use crate::support::wait_for;

/// What mends the check.
const CURE: &str = "printf 5 > sum.txt";

/// A check that `sum.txt` turns green unless something else is broken.
const CHECK: &str = "if [ \"$(cat sum.txt)\" = 5 ] && [ ! -e broken ]; then echo ok; else \
                     echo \"AssertionError: expected 5, found $(cat sum.txt)\"; exit 1; fi";

/// Returns a project whose memory knows the cure.
fn ward() -> Ward {
    let ward = Ward::new();
    ward.project.write("check.sh", CHECK);
    let fail = b"AssertionError: expected 5, found 4\n";
    ward.project.run_with_input(&["memory", "learn", "--command", CURE], fail);
    ward
}

/// Breaks the check again and lets a person approve the cure.
fn approved(ward: &Ward) -> Visit {
    ward.project.write("sum.txt", "4");
    ward.heal(&[]).expect(3, &["needs you", "salve approve"]);
    ward.salve(&["approve"]);
    let healed = ward.heal(&[]);
    healed.expect(0, &["healed", "proven"]);
    healed
}

/// Returns the one earned rule.
fn rule(ward: &Ward) -> Value {
    let output = ward.project.run(&["rules", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rules = report["rules"].as_array().unwrap().clone();
    let is_earned = |rule: &Value| rule["rule"].as_str().unwrap().starts_with("earned.");
    let [rule] = rules.into_iter().filter(is_earned).collect::<Vec<_>>().try_into().unwrap();
    rule
}

/// Returns a project in which the cure has earned its approval, and the rule's id.
fn earned() -> (Ward, String) {
    let ward = ward();
    for _ in 0..2 {
        let healed = approved(&ward);
        assert!(!healed.said.contains("proposes"), "{}", healed.said);
        assert_eq!(rule(&ward)["state"], "gathering");
    }
    let id = rule(&ward)["rule"].as_str().unwrap().strip_prefix("earned.").unwrap().to_owned();
    let accept = format!("salve rules accept {id}");
    approved(&ward).expect(0, &["proposes", "3 times", &accept]);
    assert!(ward.salve(&["status"]).contains(&accept), "{}", ward.salve(&["status"]));
    (ward, id)
}

#[test]
fn what_helped_three_times_is_proposed_accepted_by_a_person_and_lost_by_one_failure() {
    let (ward, id) = earned();
    let mut agent = ward.project.command(&["rules", "accept", &id]);
    let refused = Visit::of(&agent.env("SALVE_AGENT", "bot").output().unwrap());
    refused.expect(3, &["an agent cannot accept a rule"]);
    ward.project.write("sum.txt", "4");
    ward.heal(&[]).expect(3, &["needs you"]);
    assert_eq!(rule(&ward)["state"], "proposed", "nobody has accepted it");
    ward.salve(&["resolve"]);

    let said = ward.salve(&["rules", "accept", &id[..4], "--as", "kim"]);
    assert!(said.contains("approved") && said.contains("accepted; it holds for 90 days"), "{said}");
    let accepted = rule(&ward);
    assert_eq!((&accepted["state"], &accepted["text"]), (&"allows".into(), &CURE.into()));
    assert!(accepted["origin"].as_str().unwrap().starts_with("accepted by kim"), "{accepted}");
    let rule_said = format!("(earned.{id})");
    ward.heal(&[]).expect(0, &["repairing", &rule_said, "healed", "proven"]);
    assert_eq!(ward.read("sum.txt"), "5");

    ward.project.write("sum.txt", "4");
    let literal = format!("recovery.require_human=[\"{CURE}\"]");
    ward.heal(&["--set", &literal, "--", "sh", "check.sh"]).expect(3, &["needs you"]);
    ward.salve(&["resolve"]);

    ward.project.write("broken", "");
    ward.heal(&[]).expect(3, &[&rule_said, "red"]);
    let lost = rule(&ward);
    assert_eq!(lost["state"], "withdrawn", "{lost}");
    assert!(lost["record"]["lost"].as_str().unwrap().starts_with("failed in heal-"), "{lost}");
    let again = Visit::of(&ward.project.run(&["rules", "accept", &id]));
    again.expect(1, &["has not earned it", "proven 0 of 3 times"]);
}

#[test]
fn a_person_withdraws_a_rule_and_every_rule_says_where_it_stands() {
    let (ward, id) = earned();
    ward.salve(&["rules", "accept", &id]);
    assert!(ward.salve(&["rules", "withdraw", &id]).contains("asks again"));
    let lost = rule(&ward);
    assert_eq!(
        (&lost["state"], &lost["record"]["lost"]),
        (&"withdrawn".into(), &"withdrawn by ada".into())
    );
    ward.project.write("sum.txt", "4");
    ward.heal(&[]).expect(3, &["needs you"]);
    Visit::of(&ward.project.run(&["rules", "withdraw", &id])).expect(1, &["is not accepted"]);
    Visit::of(&ward.project.run(&["rules", "accept", "zz"])).expect(1, &["there is no rule `zz`"]);

    let settings =
        "[recovery]\nauto_approve = [\n  \"npm ci\",\n]\nrequire_human = [\"git push\"]\n";
    ward.project.write("salve.toml", settings);
    let said = ward.salve(&["rules"]);
    for want in [
        "allows     npm ci ",
        "auto_approve[0]    salve.toml:3",
        "asks       git push ",
        "salve.toml:5",
        "shipped remedies that are safe",
        "withdrawn  printf 5 > sum.txt",
        "proven 3 of 3 times",
    ] {
        assert!(said.contains(want), "{want}: {said}");
    }
}

#[test]
fn what_a_loops_tester_proposes_earns_its_approval_too() {
    let stuck = Stuck::new("[recovery]\ncooldown_seconds = 0\n");
    let started = stuck.project.dir().join("started");
    let is_asked = || {
        let path = stuck.project.dir().join("loop/escalation.json");
        std::fs::read_to_string(path).is_ok_and(|text| text.contains("\"pending\""))
    };
    for _ in 0..3 {
        let mut command = stuck.attach(&[]);
        let service = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for("a question", is_asked);
        let approved = stuck.project.run(&["approve-recovery", "--loop", "pinpoint-v1"]);
        assert_eq!(approved.status.code(), Some(0));
        Visit::of(&service.wait_with_output().unwrap()).expect(0, &["healed", "proven"]);
        std::fs::remove_file(&started).unwrap();
    }
    let said = Visit::of(&stuck.project.run(&["rules"])).said;
    let id = said.split("earned.").nth(1).unwrap()[..8].to_owned();
    let accepted = Visit::of(&stuck.project.run(&["rules", "accept", &id]));
    accepted.expect(0, &["accepted"]);
    let unattended = Visit::of(&stuck.attach(&["--no-wait"]).output().unwrap());
    unattended.expect(0, &[&format!("(earned.{id})"), "healed"]);
    assert!(started.exists());
}
