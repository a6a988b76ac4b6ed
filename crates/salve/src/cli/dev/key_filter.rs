//! Tells a key that somebody pressed from what a terminal answers by itself.
//!
//! What a server prints reaches the terminal as it is, and may ask it for a colour, a title or its
//! name. The answer arrives as if it were typed: `rgb:aaaa/aaaa/aaaa` would be twelve times yes.
//!
//! **Invariant:** nothing that a terminal answers by itself is a key.

use std::time::{Duration, Instant};

/// After so long a silence the next byte belongs to no answer any more.
const SILENCE: Duration = Duration::from_secs(2);

/// Where in a sequence of the terminal's the last byte was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SequencePart {
    /// In none.
    #[default]
    Outside,
    /// Behind an escape.
    Begin,
    /// In the parameters of one that ends with a letter.
    Parameters,
    /// In the text of one that ends with a terminator of its own.
    Text,
    /// Behind an escape in such a text.
    TextEscape,
}

/// Lets single keys through.
#[derive(Debug, Default)]
pub(super) struct KeyFilter {
    part: SequencePart,
    last: Option<Instant>,
}

impl KeyFilter {
    /// Returns the key that was pressed, if that is what has been read at once.
    ///
    /// Several bytes at once are no key here: a sequence, a paste, or the name with which some
    /// terminals answer without any sequence around it.
    pub(super) fn pressed(&mut self, read: &[u8], now: Instant) -> Option<u8> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) > SILENCE) {
            self.part = SequencePart::Outside;
        }
        self.last = Some(now);
        let before = self.part;
        read.iter().for_each(|byte| self.part = next(self.part, *byte));
        match read {
            [key] if before == SequencePart::Outside && self.part == SequencePart::Outside => {
                Some(*key)
            }
            _ => None,
        }
    }
}

fn next(part: SequencePart, byte: u8) -> SequencePart {
    use SequencePart::{Begin, Outside, Parameters, Text, TextEscape};
    match (part, byte) {
        // A terminal may have been told to answer with the introducers of eight bits.
        (Outside | Begin, 0x1b) => Begin,
        (Outside, 0x9b) => Parameters,
        (Outside, 0x90 | 0x98 | 0x9d..=0x9f) => Text,
        (Outside, _) => Outside,
        // `O` is followed by one letter, which ends like a parameter's.
        (Begin, b'[' | b'O') => Parameters,
        (Begin, b']' | b'P' | b'X' | b'^' | b'_') => Text,
        (Begin, 0x20..=0x2f) => Begin,
        (Begin, _) => Outside,
        (Parameters, 0x40..=0x7e) => Outside,
        (Parameters, 0x1b) => Begin,
        (Parameters, _) => Parameters,
        (Text, 0x07 | 0x9c) => Outside,
        (Text, 0x1b) => TextEscape,
        (Text, _) => Text,
        (TextEscape, b'\\') => Outside,
        (TextEscape, 0x1b) => TextEscape,
        (TextEscape, _) => Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the keys that are heard when these arrive one after the other.
    fn heard(reads: &[&[u8]]) -> Vec<u8> {
        let (mut filter, now) = (KeyFilter::default(), Instant::now());
        reads.iter().filter_map(|read| filter.pressed(read, now)).collect()
    }

    #[test]
    fn what_a_terminal_answers_by_itself_is_no_key_however_it_arrives() {
        for answer in [
            &b"\x1b]4;1;rgb:aaaa/aaaa/aaaa\x1b\\"[..],
            b"\x1b]lapra\x07",
            b"\x1bP1$r0;1m\x1b\\",
            b"\x1b[?62;22c",
            b"\x1b[12;1R",
            b"\x1b_Ga=a;a\x1b\\",
            b"\x1bOa",
            b"\x9d4;1;rgb:aa/aa/aa\x9c",
            b"\x9b1;1a",
        ] {
            assert_eq!(heard(&[answer, b"a"]), b"a", "{answer:?} at once");
            let bytes: Vec<&[u8]> = answer.chunks(1).collect();
            assert_eq!(heard(&bytes), b"", "{answer:?} byte by byte");
            for cut in 1..answer.len() {
                let (begin, end) = answer.split_at(cut);
                assert_eq!(heard(&[begin, end, b"r"]), b"r", "{answer:?} cut at {cut}");
            }
        }
        assert_eq!(heard(&[b"aardvark", b"a", b"l"]), b"al", "a name and a paste are no keys");
    }

    #[test]
    fn a_key_after_a_silence_is_one_whatever_came_before() {
        let (mut filter, now) = (KeyFilter::default(), Instant::now());
        assert_eq!(filter.pressed(b"\x1b]", now), None);
        assert_eq!(filter.pressed(b"a", now + SILENCE), None);
        assert_eq!(filter.pressed(b"a", now + 3 * SILENCE), Some(b'a'));
    }
}
