//! One line under examination.

use std::cell::OnceCell;
use std::ops::Range;

use super::mark;
use super::value::Makeup;

/// A secret found in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Find<'k> {
    pub(super) place: Range<usize>,
    pub(super) kind: &'k str,
    /// Which of two kinds for one place is the better name: the greater.
    pub(super) rank: u8,
}

impl Find<'_> {
    /// Takes the place of a private key.
    pub(super) fn key(place: Range<usize>) -> Self {
        Self { place, kind: "private-key", rank: rank::PLACE }
    }
}

/// Ranks of finds: what names itself, where it stands, what it is called.
pub(super) mod rank {
    pub(in crate::scrub) const SHAPE: u8 = 4;
    pub(in crate::scrub) const PLACE: u8 = 3;
    pub(in crate::scrub) const NAME: u8 = 2;
    pub(in crate::scrub) const VALUE: u8 = 1;
}

/// A line of the text, without its end, and what has been found in it.
#[derive(Debug)]
pub(super) struct ScrubLine<'a> {
    pub(super) text: &'a [u8],
    /// Where the line begins in the block.
    pub(super) base: usize,
    /// The name looked at last; several words of one name lead to it.
    pub(super) last_name: usize,
    /// Where the last search for the end of a value ended, so that hostile lines stay linear.
    ends: [Option<Range<usize>>; 3],
    /// Where the value judged last ended, and how many before it ended there too.
    tries: (usize, usize),
    /// How many more costly looks this line is worth.
    patience: usize,
    /// Where markers begin, once that has been asked for.
    marks: OnceCell<Vec<usize>>,
}

/// What ends a value that is not quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// White space, or what separates and closes things.
    Separator,
    /// White space only.
    Space,
    /// White space, quotes or angle brackets, as around URLs.
    Url,
}

impl<'a> ScrubLine<'a> {
    pub(super) fn new(text: &'a [u8], base: usize) -> Self {
        Self {
            text,
            base,
            last_name: usize::MAX,
            ends: [None, None, None],
            tries: (0, 0),
            patience: 64,
            marks: OnceCell::new(),
        }
    }

    /// Returns the byte at `at`, or a line end.
    pub(super) fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(b'\n')
    }

    /// Returns the byte before `at`, or a line end.
    pub(super) fn before(&self, at: usize) -> u8 {
        at.checked_sub(1).map_or(b'\n', |at| self.byte(at))
    }

    /// Returns where markers begin.
    fn marks(&self) -> &[usize] {
        self.marks.get_or_init(|| mark::all(self.text).into_iter().map(|mark| mark.start).collect())
    }

    /// Returns whether a marker ends at `at`.
    ///
    /// Nothing begins there: had it been apart from the secret that was hidden, it would have been
    /// judged with it.
    pub(super) fn follows_mark(&self, at: usize) -> bool {
        let ends = |start: &usize| mark::len(&self.text[*start..]) == Some(at - *start);
        let marks = if self.before(at) == b']' { self.marks() } else { &[] };
        marks[..marks.partition_point(|&start| start < at)].last().is_some_and(ends)
    }

    /// Returns the text at `place`, or nothing if an earlier scrubbing has been there: what is left
    /// beside a marker was judged then, together with what the marker hides.
    pub(super) fn fresh(&self, place: Range<usize>) -> &'a [u8] {
        let marks = self.marks();
        let next = marks.partition_point(|&at| at < place.start);
        let text = &self.text[place.clone()];
        if marks.get(next).is_some_and(|&at| at < place.end) {
            return &[];
        }
        text
    }

    /// Returns the first place at or after `at` that is neither a blank nor a colour sequence.
    pub(super) fn skip_blanks(&self, mut at: usize) -> usize {
        loop {
            let rest = &self.text[at.min(self.text.len())..];
            at += rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
            match self.colour_len(at) {
                0 => return at,
                len => at += len,
            }
        }
    }

    /// Returns how long the ANSI colour sequence at `at` is, or 0 where there is none.
    fn colour_len(&self, at: usize) -> usize {
        let Some(rest) = self.text.get(at..).and_then(|rest| rest.strip_prefix(b"\x1b[")) else {
            return 0;
        };
        let sign = |b: &&u8| b.is_ascii_digit() || **b == b';';
        let len = rest.iter().take(16).take_while(sign).count();
        if rest.get(len) == Some(&b'm') { len + 3 } else { 0 }
    }

    /// Returns where the unquoted value at `at` ends.
    pub(super) fn value_end(&mut self, at: usize, until: Until) -> usize {
        let known = &mut self.ends[until as usize];
        if let Some(range) = known
            && (range.start..range.end).contains(&at)
        {
            return range.end;
        }
        let stops = |b: u8| match until {
            Until::Space => b.is_ascii_whitespace() || b == 0x1b,
            Until::Url => {
                b.is_ascii_whitespace() || matches!(b, b'"' | b'\'' | b'`' | b'<' | b'>' | 0x1b)
            }
            Until::Separator => {
                b.is_ascii_whitespace()
                    || matches!(b, b'"' | b'\'' | b'`' | b',' | b';' | b'&' | b'<' | b'>')
                    || matches!(b, b')' | b']' | b'}' | b'|' | b'\\' | 0x1b)
            }
        };
        let mut end = at;
        while end < self.text.len() {
            let byte = self.text[end];
            let mark = if byte == b'[' { mark::len(&self.text[end..]) } else { None };
            match mark {
                Some(len) => end += len,
                None if stops(byte) => break,
                None => end += 1,
            }
        }
        *known = Some(at..end);
        end
    }

    /// Returns whether the line is worth another costly look, which only hostile ones are not.
    pub(super) fn has_patience(&mut self) -> bool {
        self.patience = self.patience.saturating_sub(1);
        self.patience > 0
    }

    /// Returns whether a value that ends at `end` is worth judging.
    ///
    /// Only in hostile lines do many names share one unbroken value (`key=key=key=…`); without a
    /// limit each of them would be judged against all of the rest.
    pub(super) fn is_worth_judging(&mut self, end: usize) -> bool {
        let before = if self.tries.0 == end { self.tries.1 } else { 0 };
        self.tries = (end, before + 1);
        before < 8
    }

    /// Returns whether a word can begin at `at`: what stands before is no part of it.
    pub(super) fn begins(&self, at: usize) -> bool {
        let before = self.before(at);
        if !before.is_ascii_alphanumeric() {
            return !self.follows_mark(at);
        }
        let two = at.checked_sub(2).map_or(b'\n', |at| self.byte(at));
        let three = at.checked_sub(3).map_or(b'\n', |at| self.byte(at));
        // After `\n` written out, `%3D`, or a colour sequence.
        two == b'\\' && b"nrt".contains(&before)
            || three == b'%' && two.is_ascii_hexdigit() && before.is_ascii_hexdigit()
            || before == b'm' && self.is_colour(at - 1)
    }

    /// Returns whether `at` is in the middle of a long stretch of base64.
    pub(super) fn is_in_base64(&self, at: usize) -> bool {
        if !matches!(self.before(at), b'/' | b'+') {
            return false;
        }
        let part = |b: &&u8| b.is_ascii_alphanumeric() || b"+/".contains(b);
        let run = self.text[..at].iter().rev().take(32).take_while(part).count();
        run == 32 && Makeup::of(&self.text[at - run..at]).is_mixed()
    }

    /// Returns whether `at` is inside a word, so that a dash there is no flag's.
    pub(super) fn begins_mid_word(&self, at: usize) -> bool {
        let before = self.before(at);
        before.is_ascii_alphanumeric() || before == b'_'
    }

    /// Returns where the last ANSI colour sequence before `at` ends, or the line's beginning.
    pub(super) fn after_colour(&self, at: usize) -> usize {
        let from = at.saturating_sub(128);
        let Some(escape) = memchr::memrchr(0x1b, &self.text[from..at]) else { return 0 };
        let sequence = &self.text[from + escape..at];
        memchr::memchr(b'm', sequence).map_or(0, |end| from + escape + end + 1)
    }

    /// Returns whether the `m` at `at` ends an ANSI colour sequence.
    fn is_colour(&self, at: usize) -> bool {
        let head = &self.text[at.saturating_sub(16)..at];
        let digits = head.iter().rev().take_while(|b| b.is_ascii_digit() || **b == b';').count();
        head[..head.len() - digits].ends_with(b"[")
    }
}
