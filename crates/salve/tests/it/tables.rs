//! New tables: what an older release's store knows holds under the names that new rows give.

use rusqlite::Connection;
use serde_json::Value;

use crate::heal::Ward;

/// What the release before wrote (schema 2): for one failure that no row knew, a command that is
/// known to help and was approved, proven and accepted, and one that failed.
const UNSEALED: &str = include_str!("../golden/store-2.sql");

/// The same as the present release writes it (schema 6): what people said is sealed.
const SEALED: &str = include_str!("../golden/store-6.sql");

/// The key of whom the sealed words are.
const KEY: &str = include_str!("../golden/store-6.seal.keys");

const FAILURE: &[u8] = b"error: stock service eu-1 does not answer\n";

const CHECK: &str = "if [ \"$(cat sum.txt)\" = 5 ]; then echo ok; else \
                     echo \"error: stock service eu-1 does not answer\"; exit 1; fi";

const ROW: &str = "[earned]\ndays = 3650\n\n[[fingerprint.anchors]]\nid = \"shop.stock\"\n\
                   class = \"network\"\nshapes = [\"stock service {name} does not answer\"]\n\
                   identify = [\"name\"]\n";

/// Returns a project with a store of another release in it.
fn ward(store: &str) -> Ward {
    let ward = Ward::new();
    ward.project.write("check.sh", CHECK);
    ward.project.write("sum.txt", "4");
    ward.project.write("salve.toml", "[earned]\ndays = 3650\n");
    ward.project.write(".salve/.gitignore", "*\n");
    let database = Connection::open(ward.project.dir().join(".salve/salve.db")).unwrap();
    database.execute_batch(store).unwrap();
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

/// Returns what the rules say of commands that earned their approval.
fn earned(ward: &Ward) -> String {
    let rules = ward.salve(&["rules"]);
    rules.lines().filter(|line| line.contains("earned.")).collect()
}

/// **Invariant:** A new row in the tables loses nothing that was learned, failed, earned or
/// approved.
#[test]
fn a_store_of_this_release_keeps_all_that_people_allowed_under_new_tables() {
    let ward = ward(SEALED);
    ward.project.write("../home/data/salve/seal.keys", KEY);
    let before = expect_all_known(&ward);
    assert!(earned(&ward).starts_with("allows "), "{}", earned(&ward));
    ward.project.write("salve.toml", ROW);
    let after = expect_all_known(&ward);
    assert_ne!(after, before, "the row gives the failure another name");
    let allowed = earned(&ward);
    assert!(allowed.starts_with("allows ") && allowed.contains("printf 5 > sum.txt"), "{allowed}");
    // Nobody is asked: what ada accepted holds for the failure by its new name.
    ward.heal(&[]).expect(0, &["printf 5 > sum.txt", "healed", "proven"]);
    let asked = ward.salve(&["events", "--kind", "approved", "--json"]);
    assert_eq!(asked.lines().count(), 3, "as many as before: {asked}");
    // A word whose seal is of somebody else's key allows nothing.
    ward.project.write("../home/data/salve/seal.keys", KEY.replace("64", "65"));
    assert_eq!(earned(&ward), "");
}

/// **Invariant:** A new row in the tables loses nothing that was learned or failed, and words from
/// before they were sealed allow nothing until they are said once more.
#[test]
fn a_store_of_an_older_release_keeps_everything_under_new_tables() {
    let ward = ward(UNSEALED);
    let before = expect_all_known(&ward);
    ward.project.write("salve.toml", ROW);
    let after = expect_all_known(&ward);
    assert_ne!(after, before, "the row gives the failure another name");
    let rules = earned(&ward);
    assert!(
        rules.starts_with("proposed ") && rules.contains("sealed; accept it once more"),
        "nobody sealed that it may run: {rules}"
    );
    // The command is known and comes first; the question says how to take the old word over.
    let id = rules.split("earned.").nth(1).and_then(|rest| rest.get(..8)).unwrap();
    let accept = format!("salve rules accept {id}");
    ward.heal(&[]).expect(3, &["printf 5 > sum.txt", "needs you", &accept]);
    assert!(ward.salve(&["rules", "accept", "--before-seals"]).contains("accepted; it holds for"));
    assert!(earned(&ward).starts_with("allows "), "{}", earned(&ward));
    let nothing = ward.salve(&["rules", "accept", "--before-seals"]);
    assert!(nothing.contains("no rule waits"), "{nothing}");
    assert!(ward.salve(&["approve"]).contains("said yes"));
    ward.heal(&[]).expect(0, &["healed", "proven"]);
    let told = ward.project.run(&["events", "--kind", "rekeyed", "--json"]);
    assert_eq!(String::from_utf8_lossy(&told.stdout).lines().count(), 1, "said once");

    ward.project.write("salve.toml", "[earned]\ndays = 3650\n");
    let known = known(&ward);
    assert_eq!(known["signature"], before, "and back where the row is gone");
    assert_eq!(known["remedies"][0]["record"]["proven"], 4, "with what was learned meanwhile");
}
