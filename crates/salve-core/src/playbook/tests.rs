//! Tests of the playbook as a whole.

use super::*;

#[test]
fn every_shipped_rule_loads_and_keeps_its_promises() {
    if let Err(errors) = Playbook::shipped() {
        let list: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{} broken rules:\n{}", list.len(), list.join("\n"));
    }
}
