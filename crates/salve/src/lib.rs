//! The part of Salve that acts: store, config, command line.
//!
//! `cli` sends commands in and reads events out; `store` and `config` are leaves.

pub mod agent;
pub mod atomic;
pub mod cli;
pub mod config;
pub mod detect;
pub mod dirs;
pub mod doctor;
pub mod door;
pub mod file_watch;
pub mod files;
pub mod fleet_memory;
pub mod gate;
pub mod heal;
pub mod learned;
pub mod mcp;
pub mod notify;
pub mod page_access;
pub mod person_key;
pub mod playbook;
pub mod probe;
pub mod process;
pub mod project;
pub mod proxy;
pub mod reading;
pub mod register;
pub mod sandbox;
pub mod scrub;
pub mod seal_keys;
pub mod sealed;
pub mod skills;
pub mod store;
pub mod subjects;
pub mod team;
pub mod telemetry;
pub mod tools;
pub mod undo;
pub mod used_words;
pub mod web;
pub mod webhook_secret;
pub mod workspace;
