//! No learned file makes the reader panic, whichever of them it claims to be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve::learned::{File, check_text};

fuzz_target!(|text: &str| {
    for file in File::ALL {
        let _ = check_text(file.name(), text);
    }
});
