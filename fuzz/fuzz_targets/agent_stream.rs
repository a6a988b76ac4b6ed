//! Whatever an agent prints, reading it never fails, and what it has spent never falls.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve_core::agent::{AgentStream, Dialect};

fuzz_target!(|input: (u8, &str)| {
    let (pick, text) = input;
    let dialects = [Dialect::Claude, Dialect::Codex, Dialect::Gemini, Dialect::Lines];
    let mut stream = AgentStream::new(dialects[usize::from(pick) % dialects.len()]);
    let mut tokens = 0;
    for line in text.lines() {
        stream.line(line);
        let now = stream.spent().amounts().tokens;
        assert!(now >= tokens);
        tokens = now;
    }
});
