//! Keeps of a long output what may matter: its start, its end, and what is around the lines that
//! may name the failure.
//!
//! An output of any length goes through in constant memory. A short one stays whole.
//!
//! **Invariant:** how the output was cut into pieces does not change what is kept.

use std::borrow::Cow;

use super::clean::clean;
use super::pick::{self, KeyLineCandidate};
use super::rules::FingerprintRules;
use super::text::OutputText;

/// An output up to this size is kept whole; a longer one is judged block by block.
pub const WHOLE: usize = 256 * 1024;
/// How much of the start of a long output is kept, and of its end.
const EDGE: usize = 48 * 1024;
/// How many places in between are kept.
const REGIONS: usize = 24;
/// How many lines before and after a place are kept with it, and how many bytes at most.
const BEFORE: usize = 30;
const AFTER: usize = 40;
const REACH: usize = 4 * 1024;

/// A place that may name the failure, with the lines around it.
#[derive(Debug)]
struct Region {
    score: i32,
    order: u64,
    text: String,
}

/// Reads an output piece by piece and keeps what may matter.
#[derive(Debug)]
pub struct Window<'r> {
    rules: &'r FingerprintRules,
    block: Vec<u8>,
    head: String,
    tail: String,
    regions: Vec<Region>,
    blocks: u64,
}

impl<'r> Window<'r> {
    /// Opens a window in which `rules` say what may matter.
    pub fn new(rules: &'r FingerprintRules) -> Self {
        let (head, tail) = (String::new(), String::new());
        Self { rules, block: Vec::new(), head, tail, regions: Vec::new(), blocks: 0 }
    }

    /// Takes the next piece of the output.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = WHOLE - self.block.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == WHOLE && !bytes.is_empty() {
                self.close_block();
            }
        }
    }

    /// Returns what was kept, in the order of the output.
    pub fn finish(mut self) -> String {
        if self.blocks == 0 {
            return text(&self.block).into_owned();
        }
        let rest = std::mem::take(&mut self.block);
        self.judge(&text(&rest));
        self.regions.sort_by_key(|region| region.order);
        let mut text = self.head;
        for region in &self.regions {
            text.push('\n');
            text.push_str(&region.text);
        }
        text.push('\n');
        text.push_str(&self.tail);
        text
    }

    /// Judges the block up to its last line end and keeps the rest of it for the next one.
    fn close_block(&mut self) {
        let mut block = std::mem::take(&mut self.block);
        // A line that fills more than half a block is cut.
        let end = memchr::memrchr(b'\n', &block).filter(|at| *at >= WHOLE / 2);
        let end = end.map_or(block.len(), |at| at + 1);
        self.judge(&text(&block[..end]));
        block.drain(..end);
        self.block = block;
    }

    /// Keeps what may matter of one block.
    fn judge(&mut self, raw: &str) {
        let block = clean(raw);
        if self.blocks == 0 {
            let end = boundary(&block, EDGE);
            self.head.push_str(&block[..end]);
        }
        let text = OutputText::new(&block);
        let mut reach = 0;
        let found = pick::candidates(self.rules, &text);
        for (number, candidate) in (0..).zip(&found) {
            if candidate.line >= reach && self.wants(candidate.score) {
                reach = self.keep(&text, candidate, self.blocks << 32 | number);
            }
        }
        let start = boundary(&block, block.len().saturating_sub(EDGE));
        if block.len() < EDGE {
            self.tail.push_str(&block);
            let cut = boundary(&self.tail, self.tail.len().saturating_sub(EDGE));
            self.tail.drain(..cut);
        } else {
            self.tail.clear();
            self.tail.push_str(&block[start..]);
        }
        self.blocks += 1;
    }

    /// Returns whether a place of this score is worth keeping.
    fn wants(&self, score: i32) -> bool {
        self.regions.len() < REGIONS || self.regions.iter().any(|region| region.score < score)
    }

    /// Keeps a place, in the stead of the last of the least likely ones if there are too many.
    ///
    /// Returns the first line after it.
    fn keep(&mut self, text: &OutputText<'_>, candidate: &KeyLineCandidate, order: u64) -> usize {
        let mut region = String::new();
        let line = candidate.line;
        let before = (line.saturating_sub(BEFORE)..line).rev();
        let mut first = line;
        let mut size = 0;
        for number in before {
            size += text.line(number).len() + 1;
            if size > REACH {
                break;
            }
            first = number;
        }
        let mut next = first;
        size = 0;
        while next <= line || (next < (line + AFTER).min(text.len()) && size < REACH) {
            region.push_str(text.line(next));
            region.push('\n');
            size += if next > line { text.line(next).len() + 1 } else { 0 };
            next += 1;
        }
        if self.regions.len() == REGIONS {
            let least =
                self.regions.iter().enumerate().min_by_key(|(_, r)| (r.score, u64::MAX - r.order));
            if let Some((at, _)) = least {
                self.regions.swap_remove(at);
            }
        }
        self.regions.push(Region { score: candidate.score, order, text: region });
        next
    }
}

/// Returns bytes as text; what is not UTF-8 becomes U+FFFD.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    // The check for valid text is much faster than the search for what is not.
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// Returns the first character boundary at or after `at`.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::super::Hints;
    use super::*;

    fn noise(lines: usize) -> String {
        (0..lines).map(|n| format!("{n} GET /basket/{n} 200 in {n}ms\n")).collect()
    }

    #[track_caller]
    fn reduce(text: &str, piece: usize) -> String {
        let mut window = Window::new(FingerprintRules::built_in());
        text.as_bytes().chunks(piece).for_each(|bytes| window.push(bytes));
        window.finish()
    }

    #[test]
    fn a_failure_in_the_middle_of_a_long_log_is_kept_with_its_frames() {
        let failure =
            "TypeError: basket.total is not a function\n    at sum (/srv/shop/src/sum.js:3:1)\n";
        let text = [noise(60_000).as_str(), failure, &noise(60_000)].concat();
        let kept = reduce(&text, 4096);
        assert!(kept.len() < 4 * EDGE, "{}", kept.len());
        assert!(kept.contains(failure));
        let rules = FingerprintRules::built_in();
        let whole = rules.fingerprint(failure, &Hints::default());
        assert_eq!(rules.fingerprint(&text, &Hints::default()).signature, whole.signature);
    }

    #[test]
    fn pieces_do_not_matter() {
        let text = noise(40_000) + "Error: boom at sea\n" + &noise(300);
        let whole = reduce(&text, text.len());
        for piece in [1000, 65_537, WHOLE, WHOLE + 1] {
            assert!(reduce(&text, piece) == whole, "{piece}");
        }
        assert_eq!(reduce("short\n", 2), "short\n");
    }

    #[test]
    fn a_log_of_errors_alone_stays_small() {
        let text: String = (0..50_000).map(|n| format!("error: number {n} went wrong\n")).collect();
        assert!(reduce(&text, 10_000).len() < 2 * EDGE + REGIONS * 3 * REACH);
    }
}
