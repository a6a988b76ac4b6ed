//! The part of Salve that decides.
//!
//! Nothing here does I/O, reads a clock, draws random numbers or looks at the environment: time,
//! ids, file contents and settings come in as values, and what should happen goes out as data.
//! That makes every decision replayable from the journal and testable over every path.

pub mod agent;
pub mod check;
pub mod class;
pub mod control;
pub mod earned;
pub mod event;
pub mod fingerprint;
pub mod gate;
pub mod hidden_char;
pub mod id;
pub mod incident;
pub mod iteration;
pub mod job;
pub mod memory;
pub mod near;
pub mod notify;
pub mod overview;
pub mod playbook;
pub mod prevention;
pub mod recovery;
pub mod repair;
pub mod scrub;
pub mod sealed_path;
pub mod server;
pub mod steps;
pub mod team;
pub mod telemetry;
pub mod tool;
pub mod view;
pub mod watch;
pub mod what_if;
pub mod widen;
