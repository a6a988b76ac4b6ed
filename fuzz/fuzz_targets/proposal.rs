//! No recovery proposal makes the parser panic, and what it takes has a command.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve_core::gate::{RecoveryProposal, Which};

fuzz_target!(|text: &str| {
    if let Ok(proposal) = RecoveryProposal::parse(text)
        && let Ok(request) = proposal.request(Which::Recovery)
    {
        assert!(!request.command().is_empty());
        assert_eq!(request.command(), request.command().trim_ascii());
    }
});
