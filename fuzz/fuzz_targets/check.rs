//! Any output of a check is read within bounds, and no command is narrowed to nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve_core::check::{narrow, read};

fuzz_target!(|input: (&str, &str)| {
    let (command, output) = input;
    let results = read(output);
    assert!(results.failed.len() <= 500 && results.places.len() <= 200);
    assert!(results.failed.iter().all(|case| !case.name.is_empty()));
    assert_eq!(results, read(output));
    let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    if let Some(narrowed) = narrow(&words, &results) {
        assert!(narrowed.len() > 1 && narrowed[0] == words[0]);
    }
});
