//! New tables: what an older release's store knows holds under the names that new rows give.

use rusqlite::Connection;
use serde_json::Value;

use crate::heal::Ward;

/// What the release before wrote (schema 2): for one failure that no row knew, a command that is
/// known to help and was approved, proven and accepted, and one that failed.
const GOLDEN: &str = include_str!("../golden/store-2.sql");

const FAILURE: &[u8] = b"error: stock service eu-1 does not answer\n";

const CHECK: &str = "if [ \"$(cat sum.txt)\" = 5 ]; then echo ok; else \
                     echo \"error: stock service eu-1 does not answer\"; exit 1; fi";

const ROW: &str = "[earned]\ndays = 3650\n\n[[fingerprint.anchors]]\nid = \"shop.stock\"\n\
                   class = \"network\"\nshapes = [\"stock service {name} does not answer\"]\n\
                   identify = [\"name\"]\n";

/// Returns a project with the older release's store in it.
fn ward() -> Ward {
    let ward = Ward::new();
    ward.project.write("check.sh", CHECK);
    ward.project.write("sum.txt", "4");
    ward.project.write("salve.toml", "[earned]\ndays = 3650\n");
    ward.project.write(".salve/.gitignore", "*\n");
    let database = Connection::open(ward.project.dir().join(".salve/salve.db")).unwrap();
    database.execute_batch(GOLDEN).unwrap();
    ward
}

fn known(ward: &Ward) -> Value {
    let output = ward.project.run_with_input(&["memory", "check", "--json"], FAILURE);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Expects that everything that was learned is known, and returns the failure's signature.
#[track_caller]
fn expect_all_known(ward: &Ward) -> Value {
    let known = known(ward);
    assert_eq!(known["known"], true, "{known:#}");
    assert_eq!(known["remedies"][0]["remedy"]["text"], "printf 5 > sum.txt", "{known:#}");
    assert_eq!(known["remedies"][0]["record"]["proven"], 3, "{known:#}");
    assert_eq!(known["failed_approaches"][0]["remedy"]["text"], "printf 6 > sum.txt", "{known:#}");
    known["signature"].clone()
}

/// **Invariant:** A new row in the tables loses nothing that was learned or failed, and words from
/// before they were sealed allow nothing.
#[test]
fn a_store_of_an_older_release_keeps_everything_under_new_tables() {
    let ward = ward();
    let before = expect_all_known(&ward);
    ward.project.write("salve.toml", ROW);
    let after = expect_all_known(&ward);
    assert_ne!(after, before, "the row gives the failure another name");
    let rules = ward.salve(&["rules", "--json"]);
    assert!(!rules.contains("earned."), "nobody sealed what earned it: {rules}");
    // The command is known and comes first; a person is asked once more.
    ward.heal(&[]).expect(3, &["printf 5 > sum.txt", "needs you"]);
    assert!(ward.salve(&["approve"]).contains("said yes"));
    ward.heal(&[]).expect(0, &["healed", "proven"]);
    let told = ward.project.run(&["events", "--kind", "rekeyed", "--json"]);
    assert_eq!(String::from_utf8_lossy(&told.stdout).lines().count(), 1, "said once");

    ward.project.write("salve.toml", "[earned]\ndays = 3650\n");
    let known = known(&ward);
    assert_eq!(known["signature"], before, "and back where the row is gone");
    assert_eq!(known["remedies"][0]["record"]["proven"], 4, "with what was learned meanwhile");
}
