//! No policy and no proposal make the gate panic, and an approval repeats an entry's own text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve_core::gate::{GatePolicy, RawPolicy, Request, GateVerdict, fuzz};
use salve_core::gate::{GateCase, OnUnknown, CommandPlace, GateCounters, decide};
use salve_core::scrub::{Key, Scrubber};
use std::sync::LazyLock;

static SCRUBBER: LazyLock<Scrubber> = LazyLock::new(|| Scrubber::new(Key::new([7; 32])));

fuzz_target!(|input: (&str, &str, u8)| {
    let (pattern, command, unknown) = input;
    fuzz(pattern, command, &SCRUBBER);
    let on_unknown = [OnUnknown::Escalate, OnUnknown::Deny][usize::from(unknown % 2)];
    let raw = RawPolicy {
        auto_approve: vec!["npm ci".into()],
        require_human: vec![pattern.into()],
        on_unknown,
        ..RawPolicy::default()
    };
    let (Ok(policy), Ok(request)) = (GatePolicy::new(&raw), Request::new(command, ".", 60)) else { return };
    let (place, state) = (CommandPlace::Inside, GateCounters::default());
    let case = GateCase { policy: &policy, request: &request, place: &place, state: &state };
    if let GateVerdict::Auto(approval) = decide(case, &SCRUBBER) {
        assert_eq!(approval.command(), "npm ci");
        assert_eq!(command.trim_ascii(), "npm ci");
    }
});
