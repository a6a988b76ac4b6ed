//! No text makes the reader and the checker of skills panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve::skills::check_skill_text;

fuzz_target!(|text: &str| {
    let _ = check_skill_text(text);
});
