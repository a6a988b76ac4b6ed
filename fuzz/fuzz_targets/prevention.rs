//! No error of a tool makes the learner of mistakes panic, and what it learns is read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve_core::prevention::extract::{EarlierSuccess, FailedArguments, from_change, from_error};
use salve_core::prevention::mistake::{CallArguments, CallMistake};

fuzz_target!(|input: (&str, &str, &str)| {
    let (error, name, value) = input;
    let arguments: CallArguments = [(name.to_owned(), value.into())].into_iter().collect();
    let failed = FailedArguments { tool: "tool", arguments: &arguments, error };
    let worked = CallArguments::new();
    for found in [from_error(&failed, EarlierSuccess::Yes), from_change(&failed, &worked)] {
        if let Some(found) = found {
            assert_eq!(CallMistake::from_value(&found.mistake.to_value()), Some(found.mistake));
        }
    }
});
