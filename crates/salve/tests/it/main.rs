//! Stories told against the real `salve` binary, one file each.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its stage should stop at once")]

mod agent;
mod agent_own;
mod bench;
mod care;
mod cli;
mod config;
mod dev;
mod faults;
mod fingerprint;
mod fleet;
mod gate;
mod heal;
mod heal_breakers;
mod heal_control;
mod heal_faults;
mod heal_killed;
mod heal_proof;
mod heal_records;
mod heal_tamper;
mod heal_team;
mod incident;
mod init;
mod journal;
mod keys;
mod killed;
mod loops;
mod loops_clock;
mod loops_faults;
mod loops_people;
mod loops_recovery;
mod loops_reload;
mod loops_told;
mod mcp;
mod memory;
mod notify;
mod people;
mod playbook;
mod recovery;
mod recovery_resumed;
mod rules;
mod sandbox;
mod scrub;
mod store_faults;
mod support;
