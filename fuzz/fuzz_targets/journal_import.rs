//! A journal line is refused, or says the same after it is written out again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve::store::{parse_line, to_line};

fuzz_target!(|text: &str| {
    if let Ok(entry) = parse_line(text) {
        let again = parse_line(&to_line(&entry)).expect("our own line reads back");
        assert_eq!(again, entry);
    }
});
