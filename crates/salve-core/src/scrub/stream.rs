//! Scrubbing text that arrives in pieces.

use super::Scrubber;
use super::lines::LINE_MAX;
use super::scan::More;

/// The most that is held back. Only in a hostile text do keys follow one another on one line for
/// so long; it is then cut.
const HELD_MAX: usize = 16 * LINE_MAX;

/// Scrubs a stream chunk by chunk; however it is cut, the output is that of the whole text.
///
/// Complete lines come out at once. What is held back is bounded: the unfinished last line (cut
/// at `LINE_MAX` bytes) and a private key block whose end has not arrived, a megabyte at most.
#[derive(Debug)]
pub struct ScrubStream<'a> {
    scrubber: &'a Scrubber,
    held: Vec<u8>,
    /// How much of `held` has been looked at without finding the end of a line.
    seen: usize,
}

impl<'a> ScrubStream<'a> {
    pub(super) fn new(scrubber: &'a Scrubber) -> Self {
        Self { scrubber, held: Vec::new(), seen: 0 }
    }

    /// Takes a chunk and appends to `out` what can be told for sure.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(chunk);
        let fresh = &self.held[self.seen..];
        let wait = memchr::memchr2(b'\n', b'\r', fresh).is_none();
        if wait && self.held.len() < LINE_MAX {
            self.seen = self.held.len();
            return;
        }
        let used = self.scrubber.scrub_part(&self.held, More::Maybe, out);
        self.held.drain(..used);
        if self.held.len() > HELD_MAX {
            self.scrubber.scrub_part(&self.held, More::None, out);
            self.held.clear();
        }
        self.seen = self.held.len();
    }

    /// Returns how many bytes are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Ends the stream and appends the rest to `out`.
    pub fn finish(self, out: &mut Vec<u8>) {
        self.scrubber.scrub_part(&self.held, More::None, out);
    }
}
