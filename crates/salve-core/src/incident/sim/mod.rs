//! Simulated lives of incidents.
pub mod parts;
