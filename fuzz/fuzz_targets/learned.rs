//! No learned file makes the reader panic, whichever of them it claims to be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve::learned::{LearnedFile, check_text};

fuzz_target!(|text: &str| {
    for file in LearnedFile::ALL {
        let _ = check_text(file.name(), text);
    }
});
