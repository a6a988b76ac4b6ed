//! Tool calls: what passes between an agent and its tools, and what becomes of a call that fails.

pub mod batch;
pub mod cluster;
pub mod envelope;
pub mod failure;
pub mod hook;
pub mod http_header;
pub mod inside;
pub mod rule;
pub mod rule_text;
pub mod session;
pub mod several;
