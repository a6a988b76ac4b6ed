//! Two machines and a server of the test's own.

use jiff::Timestamp;
use salve_core::class::Class;
use salve_core::event::Proof;
use salve_core::id::IncidentId;
use salve_core::memory::fleet::Disagreement;
use salve_core::memory::{RememberedFailure, RememberedRemedy};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::scrub::scrubber;
use crate::store::TestServers;

const FAILURE: Signature = Signature(0x0011_2233_4455_6677);

/// A machine with a memory of its own.
struct MemoryMachine {
    memory: FleetMemory,
    dir: TempDir,
}

impl MemoryMachine {
    fn new(fleet: &FleetTerms, trust: FleetTrust) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let memory = FleetMemory {
            terms: FleetMemoryTerms { trust, patches: PatchReach::Fleet },
            fleet: Arc::new(fleet.clone()),
            dir: dir.path().join("memory"),
            person: Scrubbed::literal("ann"),
            scrubber: scrubber(),
            parting: Mutex::new(None),
        };
        Self { memory, dir }
    }

    /// Gives the machine a key of its own, which a server without accounts does not ask for.
    fn with_key(mut self, fleet: &FleetTerms) -> Self {
        let path = self.dir.path().join("own.creds");
        let seed = nkeys::KeyPair::new_user().seed().unwrap();
        let text = format!(
            "-----BEGIN NATS USER JWT-----\neyJ0eXAiOiJKV1QifQ.e30.c2ln\n\
             ------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        std::fs::write(&path, text).unwrap();
        self.memory.fleet = Arc::new(FleetTerms { credentials: Some(path), ..fleet.clone() });
        self
    }

    fn tells(&self, kind: RememberedKind, text: &str, proof: Proof) {
        let failure = RememberedFailure {
            signature: FAILURE,
            class: Class::ImportError,
            error_type: Scrubbed::default(),
            normalized: Scrubbed::literal("no module foo"),
            identity: None,
            key_line: Scrubbed::default(),
        };
        let remedy = RememberedRemedy { kind, text: scrubber().scrub(text) };
        let (at, incident) = (Timestamp::now(), IncidentId(Uuid::new_v4()));
        let told = FixTold::Tried { failure, remedy, at, incident, proof };
        self.memory.tell(Scrubbed::literal("web"), told).unwrap();
    }

    fn forgets(&self) {
        let told = FixTold::Forgotten { signature: FAILURE, at: Timestamp::now() };
        self.memory.tell(Scrubbed::default(), told).unwrap();
    }

    fn syncs(&self) -> SyncSummary {
        self.memory.sync().unwrap()
    }

    fn knows(&self) -> Vec<String> {
        let known = self.memory.recall(FAILURE).unwrap();
        let remedies = known.into_iter().flat_map(|known| known.remedies);
        remedies.map(|tried| format!("{} x{}", tried.remedy.text, tried.record.tries())).collect()
    }
}

#[test]
fn what_one_machine_learned_another_knows_until_it_is_forgotten() {
    let Some(servers) = TestServers::one() else { return };
    let fleet = servers.new_fleet();
    let (one, other) = (
        MemoryMachine::new(&fleet, FleetTrust::Team),
        MemoryMachine::new(&fleet, FleetTrust::Team),
    );
    one.tells(RememberedKind::Command, "npm ci", Proof::Proven);
    assert_eq!(other.knows(), Vec::<String>::new());
    assert_eq!((one.syncs().sent, other.syncs().learned), (1, 1));
    assert_eq!((one.knows(), other.knows()), (vec!["npm ci x1".into()], vec!["npm ci x1".into()]));
    // What another one saw to fail stands beside it.
    other.tells(RememberedKind::Command, "npm ci", Proof::Failed);
    other.syncs();
    one.syncs();
    let known = one.memory.recall(FAILURE).unwrap().unwrap();
    let split = Disagreement::about(&known.remedies[0]);
    assert!(split.is_none() || split.is_some_and(|split| split.failed.len() == 1));
    assert_eq!(one.knows(), ["npm ci x2"]);
    let by = known.remedies[0].outcomes[0].by.as_str();
    assert!(by.starts_with("ann on ") && by.ends_with("(not signed)"), "{by}");
    // Nothing new changes nothing, and forgetting reaches everybody.
    assert_eq!((one.syncs().learned, one.syncs().sent), (0, 0));
    other.forgets();
    other.syncs();
    assert_eq!((one.syncs().forgotten, one.knows().len(), other.knows().len()), (1, 0, 0));
    let late = MemoryMachine::new(&fleet, FleetTrust::Team);
    late.syncs();
    assert_eq!(late.knows().len(), 0, "one that comes later does not know it either");
    one.tells(RememberedKind::Command, "npm ci", Proof::Proven);
    one.syncs();
    late.syncs();
    assert_eq!(late.knows(), ["npm ci x1"], "what was seen since counts");
}

/// **Invariant:** A message that makes no sense, or says what is not taken from others, stops nothing
/// and is not used.
#[test]
fn garbage_and_poison_are_counted_and_passed_over() {
    let Some(servers) = TestServers::one() else { return };
    let fleet = servers.new_fleet();
    let (one, other) = (
        MemoryMachine::new(&fleet, FleetTrust::Team),
        MemoryMachine::new(&fleet, FleetTrust::Team),
    );
    let sealed = "diff --git a/salve.toml b/salve.toml\n--- a/salve.toml\n+++ b/salve.toml\n";
    one.tells(RememberedKind::Patch, sealed, Proof::Proven);
    one.tells(RememberedKind::Instruction, "run curl", Proof::Proven);
    assert_eq!(one.syncs().sent, 0, "an honest machine does not send it");
    let project = Project::of_user(one.dir.path().join("raw"));
    let store = Store::open_in_fleet(&project, &fleet).unwrap();
    let fixes = store.fleet().unwrap().fixes();
    let source = FixSource {
        person: Scrubbed::literal("eve"),
        machine: Scrubbed::literal("x"),
        project: Scrubbed::default(),
    };
    one.tells(RememberedKind::Command, "npm ci", Proof::Proven);
    let waiting = one.memory.store().unwrap().unwrap();
    let item = waiting.memory().file_items(OUTBOX, u64::MAX).unwrap().remove(0).item;
    let good = item["news"].as_str().unwrap();
    let poison = good.replace("\"command\"", "\"patch\"");
    let poison = poison.replace("npm ci", &sealed.replace('\n', "\\n"));
    assert!(poison.contains("salve.toml"), "{poison}");
    let words = good.replace("\"command\"", "\"instruction\"");
    let bodies = ["", "{}", "\u{1}\u{2}", &poison, &words, &"x".repeat(300_000)];
    for (number, body) in bodies.iter().enumerate() {
        fixes.tell_fix(&format!("0011.{number}.x.proven.0"), body).unwrap();
    }
    let told = FixTold::Forgotten { signature: Signature(1), at: Timestamp::MAX };
    fixes.tell_fix("1.x", &FixNews::new(source, told).to_text()).unwrap();
    one.syncs();
    let summary = other.syncs();
    assert_eq!((summary.unusable, summary.learned), (6, 1), "{summary:?}");
    assert_eq!(other.knows(), ["npm ci x1"]);
}

/// **Invariant:** Only what is signed with the user's own key is theirs.
#[test]
fn of_several_people_only_my_own_word_counts_where_i_say_so() {
    let Some(servers) = TestServers::one() else { return };
    let fleet = servers.new_fleet();
    let unsigned = MemoryMachine::new(&fleet, FleetTrust::Team);
    let bea = MemoryMachine::new(&fleet, FleetTrust::Team).with_key(&fleet);
    let mine = MemoryMachine::new(&fleet, FleetTrust::Mine).with_key(&fleet);
    unsigned.tells(RememberedKind::Command, "unsigned", Proof::Proven);
    bea.tells(RememberedKind::Command, "of bea", Proof::Proven);
    mine.tells(RememberedKind::Command, "of mine", Proof::Proven);
    bea.forgets();
    for machine in [&unsigned, &bea, &mine] {
        machine.syncs();
    }
    assert_eq!(mine.knows(), ["of mine x1"], "nobody else's tombstone counts either");
    let keyless = MemoryMachine::new(&fleet, FleetTrust::Mine);
    assert!(matches!(keyless.memory.sync(), Err(FleetMemoryError::NoKey)));
    let own = mine.memory.recall(FAILURE).unwrap().unwrap().remedies.remove(0);
    assert!(own.outcomes[0].by.as_str().ends_with("(your own key)"), "{own:?}");
}

#[test]
fn a_secret_never_reaches_the_fleet_and_a_fleet_that_is_away_loses_nothing() {
    let Some(servers) = TestServers::one() else { return };
    let fleet = servers.new_fleet();
    let away = FleetTerms { url: "nats://127.0.0.1:9".to_owned(), ..fleet.clone() };
    let mut one = MemoryMachine::new(&away, FleetTrust::Team);
    let secret = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
    one.tells(RememberedKind::Command, &format!("login {secret}"), Proof::Proven);
    assert!(one.memory.sync().is_err());
    one.memory.fleet = Arc::new(fleet.clone());
    assert_eq!(one.syncs().sent, 1, "it waited");
    let other = MemoryMachine::new(&fleet, FleetTrust::Team);
    other.syncs();
    let known = other.knows().join("");
    assert!(known.starts_with("login ") && !known.contains(secret), "{known}");
}
