//! However a message is cut into pieces, the same envelope is read from it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve_core::tool::envelope::{Envelope, EnvelopeScanner};

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let at = usize::from(cut) % (bytes.len() + 1);
    let mut scanner = EnvelopeScanner::default();
    scanner.feed(&bytes[..at]);
    scanner.feed(&bytes[at..]);
    assert_eq!(scanner.finish(), Envelope::of(bytes));
});
