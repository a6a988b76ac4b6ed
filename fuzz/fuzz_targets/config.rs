//! No settings file makes the reader panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = salve::config::parse_toml(text);
    let _ = salve::config::parse_json(text);
});
