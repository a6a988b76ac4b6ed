//! Scrubbing twice is scrubbing once, and a stream in pieces gives what the whole gives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use salve_core::scrub::{Key, Scrubber};
use std::sync::LazyLock;

static SCRUBBER: LazyLock<Scrubber> = LazyLock::new(|| Scrubber::new(Key::new([7; 32])));

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = SCRUBBER.scrub_bytes(bytes);
    assert_eq!(SCRUBBER.scrub_bytes(&whole), whole);
    let (mut stream, mut pieces) = (SCRUBBER.stream(), Vec::new());
    for chunk in bytes.chunks(usize::from(size).max(1)) {
        stream.push(chunk, &mut pieces);
    }
    stream.finish(&mut pieces);
    assert_eq!(pieces, whole);
});
