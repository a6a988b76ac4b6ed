//! `memory.fleet`: what healed on one machine heals on another one, and nobody is trusted blindly.

use std::process::Command;

use crate::heal::{Visit, Ward};
use crate::jobs_fleet::NatsServer;

/// What helps in the wards' projects.
const HELPS: &str = "printf 5 > sum.txt";

/// A machine with a user, a home and a project of its own.
struct TeamMachine<'s> {
    ward: Ward,
    server: &'s NatsServer,
}

impl<'s> TeamMachine<'s> {
    fn new(server: &'s NatsServer) -> Self {
        Self { ward: Ward::new(), server }
    }

    fn with_agent(self, script: &str) -> Self {
        Self { ward: self.ward.agent(script), ..self }
    }

    fn in_fleet(&self, mut command: Command) -> Visit {
        command.env("SALVE_FLEET_URL", &self.server.url).env("SALVE_MEMORY_FLEET", "team");
        command.env("SALVE_MEMORY_PATCHES", "fleet").env("SALVE_USER", "ada");
        Visit::of(&command.output().unwrap())
    }

    fn heal(&self) -> Visit {
        self.in_fleet(self.ward.command(&[]))
    }

    fn salve(&self, args: &[&str]) -> Visit {
        let mut command = self.ward.project.command(args);
        command.stdin(std::process::Stdio::null());
        self.in_fleet(command)
    }

    fn allows(&self, rules: &str) -> &Self {
        self.ward.project.write("salve.toml", format!("[recovery]\n{rules}\n"));
        self
    }

    fn syncs(&self) -> String {
        let visit = self.salve(&["memory", "sync"]);
        assert_eq!(visit.code, Some(0), "{}", visit.said);
        visit.said
    }

    /// Has the machine heal by the command that helps, and tell so.
    fn heals_by_command(&self) -> String {
        self.allows(&format!("auto_approve = [\"{HELPS}\"]"));
        let failed = "AssertionError: expected 5, found 4";
        let taught = self.salve(&["memory", "learn", "--command", HELPS, failed]);
        assert_eq!(taught.code, Some(0), "{}", taught.said);
        self.heal().expect(0, &["healed", "proven"]);
        self.syncs();
        let word = taught.said.split_whitespace().find(|word| word.len() == 17);
        word.unwrap_or_default().trim_end_matches(':').to_owned()
    }
}

#[test]
fn what_healed_on_one_machine_heals_on_another_one_without_an_agent() {
    let Some(server) = NatsServer::start() else { return };
    let one = TeamMachine::new(&server).with_agent("printf 5 > sum.txt");
    one.heal().expect(0, &["proven"]);
    one.syncs();
    let other = TeamMachine::new(&server);
    assert!(other.syncs().contains("learned 1"));
    let told = "known patch of sum.txt from the fleet, where it healed the project project";
    other.heal().expect(0, &[told, "(memory.fleet)", "healed", "proven"]);
    assert_eq!(other.ward.read("sum.txt"), "5");
    other.ward.assert_users_work_is_intact();
    // Whoever does not say so has nothing of it, and tells nothing.
    let alone = Ward::new();
    let mut command = alone.command(&[]);
    command.env("SALVE_FLEET_URL", &server.url);
    Visit::of(&command.output().unwrap()).expect(3, &["needs you"]);
    let mut command = alone.project.command(&["memory", "sync"]);
    command.env("SALVE_FLEET_URL", &server.url);
    Visit::of(&command.output().unwrap()).expect(2, &["`memory.fleet` is \"off\""]);
}

/// **Invariant:** A command that another machine told runs by no rule but one that names it.
#[test]
fn a_poisoned_entry_does_not_pass_the_gate() {
    let Some(server) = NatsServer::start() else { return };
    let evil = TeamMachine::new(&server);
    evil.heals_by_command();
    let rules = ["", "on_unknown = \"allow\"", "auto_approve = [\"printf 6 > sum.txt\"]"];
    for rule in rules {
        let victim = TeamMachine::new(&server);
        victim.allows(rule);
        assert!(victim.syncs().contains("learned 1"));
        let asked = format!("`{HELPS}` may not run without a person's word");
        victim.heal().expect(3, &[&asked]);
        assert_eq!(victim.ward.read("sum.txt"), "4", "{rule}");
    }
    let trusting = TeamMachine::new(&server);
    trusting.allows(&format!("auto_approve = [\"{HELPS}\"]"));
    trusting.syncs();
    trusting.heal().expect(0, &["healed", "proven"]);
}

#[test]
fn machines_that_disagree_are_both_shown_and_what_is_forgotten_is_gone_everywhere() {
    let Some(server) = NatsServer::start() else { return };
    let one = TeamMachine::new(&server);
    let signature = one.heals_by_command();
    let other = TeamMachine::new(&server);
    other.allows(&format!("auto_approve = [\"{HELPS}\"]"));
    let hopeless = "echo \"AssertionError: expected 5, found 4\"; exit 1";
    other.ward.project.write("check.sh", hopeless);
    other.syncs();
    assert_eq!(other.heal().code, Some(3));
    other.syncs();
    let third = TeamMachine::new(&server);
    assert!(third.syncs().contains("learned 2"));
    let shown = third.salve(&["memory", "show", &signature]);
    shown.expect(0, &["in the fleet", HELPS, "proven ", "failed ", "ada on ", "(not signed)"]);
    let forgotten = third.salve(&["memory", "forget", &signature, "--yes"]);
    forgotten.expect(0, &["forgot"]);
    third.syncs();
    assert!(one.syncs().contains("1 failures were forgotten"));
    third.salve(&["memory", "show", &signature]).expect(1, &["nothing is known"]);
    // What the project itself learned stays its own.
    one.salve(&["memory", "show", &signature]).expect(0, &[HELPS]);
}
