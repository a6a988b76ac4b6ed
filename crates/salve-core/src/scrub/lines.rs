//! Where lines begin and end, and where an over-long one is cut.

use std::ops::Range;

/// Where a line without an end is cut.
pub(super) const LINE_MAX: usize = 64 * 1024;

/// Walks through the lines of a block.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    text: &'a [u8],
    line: Range<usize>,
    next: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, line: 0..0, next: 0 }
    }

    /// Returns the line, without its end, that holds the byte at `at`; `at` never goes back.
    pub(super) fn around(&mut self, at: usize) -> Range<usize> {
        // Far ahead, the last line end before `at` is found faster backwards.
        if at > self.next + 256
            && let Some(end) = memchr::memrchr2(b'\n', b'\r', &self.text[self.next..at])
        {
            self.next += end + 1;
        }
        while self.next <= at {
            let start = self.next;
            let window = &self.text[start..self.text.len().min(start + LINE_MAX)];
            (self.line, self.next) = match memchr::memchr2(b'\n', b'\r', window) {
                Some(len) => (start..start + len, start + len + 1),
                None if window.len() == LINE_MAX => {
                    let end = cut(self.text, start);
                    (start..end, end)
                }
                None => (start..self.text.len(), self.text.len().max(at + 1)),
            };
        }
        self.line.clone()
    }

    /// Returns the next line, without its end.
    pub(super) fn next_line(&mut self) -> Option<Range<usize>> {
        (self.next < self.text.len()).then(|| self.around(self.next))
    }

    /// Returns the length of the complete lines of `text`.
    pub(super) fn complete(text: &[u8]) -> usize {
        let mut start = memchr::memrchr2(b'\n', b'\r', text).map_or(0, |at| at + 1);
        while text.len() - start >= LINE_MAX {
            start = cut(text, start);
        }
        start
    }
}

/// Returns where the over-long line at `start` is cut: after the last comma or the like, so that
/// no token is.
fn cut(text: &[u8], start: usize) -> usize {
    let late = &text[start + LINE_MAX / 2..start + LINE_MAX];
    let after = late
        .iter()
        .rposition(|b| b",;{}".contains(b))
        .or_else(|| late.iter().rposition(u8::is_ascii_whitespace))
        .map_or_else(|| late.len() - partial_char(late), |at| at + 1);
    start + LINE_MAX / 2 + after
}

/// Returns how many bytes at the end of `text` begin a character that may go on.
fn partial_char(text: &[u8]) -> usize {
    let tail = text.len().min(3);
    (1..=tail).find(|&n| text[text.len() - n] >= 0xc0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_in_the_line_that_holds_it() {
        let long = "word,".repeat(LINE_MAX / 3);
        let text = format!("one\r\ntwo\n\n{long}\nlast {long}");
        let mut lines = Lines::new(text.as_bytes());
        let mut one_by_one = Vec::new();
        for at in 0..text.len() {
            let line = lines.around(at);
            if one_by_one.last() != Some(&line) {
                one_by_one.push(line);
            }
        }
        for skip in [7, 300, 70_000] {
            let mut lines = Lines::new(text.as_bytes());
            for at in (0..text.len()).step_by(skip) {
                assert!(one_by_one.contains(&lines.around(at)), "{at} by {skip}");
            }
        }
        assert!(one_by_one.iter().all(|line| line.len() < LINE_MAX));
    }
}
