//! The last of what a server wrote, in whole lines and bounded memory.

use std::collections::VecDeque;

/// How many bytes are kept at most.
pub(super) const KEPT: usize = 256 << 10;
/// How long a line without an end may grow before it is taken in pieces.
pub(super) const LONGEST: usize = 16 << 10;

/// Which of its two outputs a process wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputSide {
    /// Standard output, or a terminal.
    Out,
    /// Standard error.
    Err,
}

/// The newest bytes of both outputs, each line of one side whole before the next begins.
///
/// Positions count every byte ever taken in, so a reader that comes late knows what it missed.
#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: VecDeque<u8>,
    /// The position of the first byte kept.
    base: u64,
    /// Where the present run of the process began.
    start: u64,
    /// Lines that have not ended yet, one for each side.
    open: [Vec<u8>; 2],
}

impl Tail {
    /// Takes in what was read from one side.
    pub(super) fn push(&mut self, side: OutputSide, bytes: &[u8]) {
        let mut open = std::mem::take(&mut self.open[side as usize]);
        let whole = memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1);
        let (lines, rest) = bytes.split_at(whole);
        if !lines.is_empty() {
            self.keep(&open);
            open.clear();
            self.keep(lines);
        }
        open.extend_from_slice(rest);
        if open.len() > LONGEST {
            self.keep(&open);
            // Not `clear`: what an endless line grew to is given back.
            open = Vec::new();
        }
        self.open[side as usize] = open;
    }

    fn keep(&mut self, bytes: &[u8]) {
        let skipped = bytes.len().saturating_sub(KEPT);
        let newest = &bytes[skipped..];
        let over = (self.kept.len() + newest.len()).saturating_sub(KEPT);
        self.kept.drain(..over.min(self.kept.len()));
        self.kept.extend(newest);
        self.base += (over + skipped) as u64;
    }

    /// Takes unfinished lines as they are: a new process writes from here on.
    pub(super) fn mark_start(&mut self) {
        self.close_lines();
        self.start = self.end();
    }

    /// Takes unfinished lines as they are.
    pub(super) fn close_lines(&mut self) {
        for side in [OutputSide::Out, OutputSide::Err] {
            let mut open = std::mem::take(&mut self.open[side as usize]);
            if !open.is_empty() {
                open.push(b'\n');
                self.keep(&open);
            }
        }
    }

    /// Returns the position after the last byte kept.
    pub(super) fn end(&self) -> u64 {
        self.base + self.kept.len() as u64
    }

    /// Appends to `out` what is kept from `position` on; returns how much before it was lost.
    pub(super) fn read_from(&self, position: u64, out: &mut Vec<u8>) -> u64 {
        let lost = self.base.saturating_sub(position);
        let from = usize::try_from(position.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let (first, second) = self.kept.as_slices();
        out.extend_from_slice(first.get(from..).unwrap_or_default());
        out.extend_from_slice(second.get(from.saturating_sub(first.len())..).unwrap_or_default());
        lost
    }

    /// Returns the last `lines` lines of the present run, unfinished ones last.
    pub(super) fn last(&self, lines: usize) -> Vec<u8> {
        self.last_since(self.start, lines)
    }

    /// Returns the last `lines` lines from a position on that the present run wrote.
    pub(super) fn last_since(&self, position: u64, lines: usize) -> Vec<u8> {
        let mut text = Vec::new();
        let lost = self.read_from(position.max(self.start), &mut text);
        if lost > 0 {
            // The oldest line kept has lost its beginning.
            let whole = memchr::memchr(b'\n', &text).map_or(0, |end| end + 1);
            if whole < text.len() {
                text.drain(..whole);
            }
        }
        for open in &self.open {
            text.extend_from_slice(open);
        }
        let ended = text.strip_suffix(b"\n").unwrap_or(&text);
        let cut = memchr::memrchr_iter(b'\n', ended).nth(lines.saturating_sub(1));
        text.split_off(cut.map_or(0, |at| at + 1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn last(tail: &Tail, lines: usize) -> String {
        String::from_utf8(tail.last(lines)).unwrap()
    }

    #[test]
    fn lines_of_two_sides_stay_whole() {
        let mut tail = Tail::default();
        tail.push(OutputSide::Out, b"one\ntw");
        tail.push(OutputSide::Err, b"oops: ");
        tail.push(OutputSide::Out, b"o\nthr");
        tail.push(OutputSide::Err, b"bad\n");
        assert_eq!(last(&tail, 9), "one\ntwo\noops: bad\nthr");
        assert_eq!(last(&tail, 2), "oops: bad\nthr");
        assert_eq!(last(&tail, 1), "thr");
        tail.mark_start();
        assert_eq!(last(&tail, 9), "");
        tail.push(OutputSide::Err, b"new\n");
        assert_eq!(last(&tail, 9), "new\n");
    }

    #[test]
    fn a_late_reader_learns_what_it_missed() {
        let mut tail = Tail::default();
        let line = [b"x".repeat(99), b"\n".to_vec()].concat();
        for _ in 0..10_000 {
            tail.push(OutputSide::Out, &line);
        }
        assert_eq!(tail.end(), 1_000_000);
        let mut text = Vec::new();
        assert_eq!(tail.read_from(0, &mut text), 1_000_000 - KEPT as u64);
        assert_eq!(text.len(), KEPT);
        text.clear();
        assert_eq!(tail.read_from(999_900, &mut text), 0);
        assert_eq!(text, line);
        assert!(last(&tail, usize::MAX).len() <= KEPT);
        assert!(last(&tail, usize::MAX).starts_with('x'));
        assert_eq!(last(&tail, 500).len(), 50_000);
    }

    #[test]
    fn a_line_without_end_needs_no_more_memory() {
        let mut tail = Tail::default();
        for _ in 0..1000 {
            tail.push(OutputSide::Out, &[b'a'; 10_000]);
            assert!(tail.open[0].capacity() <= 4 * LONGEST);
        }
        assert!(tail.kept.capacity() <= 2 * KEPT);
        assert!(last(&tail, 3).len() <= KEPT + LONGEST);
    }

    proptest! {
        #[test]
        fn however_it_is_cut_the_text_of_one_side_stays(
            text in "[ab\n]{0,200}", cuts in prop::collection::vec(0usize..200, 0..8),
        ) {
            let mut tail = Tail::default();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            for pair in cuts.windows(2) {
                tail.push(OutputSide::Out, &text.as_bytes()[pair[0]..pair[1]]);
            }
            prop_assert_eq!(last(&tail, usize::MAX), text);
        }
    }
}
