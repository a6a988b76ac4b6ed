//! Any output has a fingerprint: the same one every time, whole or in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve_core::fingerprint::{Hints, FingerprintRules};
use std::sync::LazyLock;

static RULES: LazyLock<&FingerprintRules> = LazyLock::new(FingerprintRules::built_in);

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let once = RULES.fingerprint(&text, &Hints::default());
    assert_eq!(once, RULES.fingerprint(&text, &Hints::default()));
});
