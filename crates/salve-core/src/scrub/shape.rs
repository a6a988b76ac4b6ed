//! The small language in which the table writes token shapes.
//!
//! A shape looks like a regular expression and means the same, but knows only literals, classes
//! (`[A-Z0-9]`, `[^\s"]`, `\d`, `\w`) and counts (`{36}`, `{20,}`, `{8,64}`, `?`, `*`, `+`), takes
//! as much as it can and never goes back. That is enough for tokens, costs one pass and cannot
//! run away; compiling two hundred of them takes microseconds.

use std::ops::Range;

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CharClass([u64; 4]);

impl CharClass {
    const EMPTY: Self = Self([0; 4]);

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn add_range(&mut self, low: u8, high: u8) {
        (low..=high).for_each(|byte| self.add(byte));
    }

    fn union(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }

    fn inverted(self) -> Self {
        Self(self.0.map(|bits| !bits))
    }

    /// Returns whether `byte` is in the set.
    pub(super) const fn has(self, byte: u8) -> bool {
        self.0[(byte >> 6) as usize] & (1 << (byte & 63)) != 0
    }
}

/// One class and how often it may stand.
#[derive(Clone, Debug)]
struct Piece {
    class: CharClass,
    min: usize,
    max: usize,
}

/// A compiled shape.
#[derive(Clone, Debug)]
pub(super) struct SecretShape {
    pieces: Vec<Piece>,
    /// Which pieces are the secret itself; the others are context that stays.
    secret: Range<usize>,
    /// The secret is in parentheses, so that what is before it stays.
    marked: bool,
}

/// Why a shape could not be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the shape `{shape}` at byte {at}")]
pub(super) struct BadShape {
    /// The shape as written.
    shape: String,
    /// Where reading stopped.
    at: usize,
}

impl SecretShape {
    /// Compiles `shape`; parentheses, at most one pair, hold the part that is the secret.
    pub(super) fn new(shape: &str) -> Result<Self, BadShape> {
        let mut reader = ShapeReader { text: shape.as_bytes(), at: 0 };
        let mut pieces: Vec<Piece> = Vec::new();
        let (mut open, mut close) = (None, None);
        while let Some(byte) = reader.peek() {
            match byte {
                b'(' if open.is_none() => {
                    open = Some(pieces.len());
                    reader.at += 1;
                }
                b')' if open.is_some() && close.is_none() => {
                    close = Some(pieces.len());
                    reader.at += 1;
                }
                b'(' | b')' => return Err(reader.error()),
                _ => pieces.push(reader.piece().ok_or_else(|| reader.error())?),
            }
        }
        if open.is_some() != close.is_some() {
            return Err(reader.error());
        }
        let secret = open.unwrap_or(0)..close.unwrap_or(pieces.len());
        Ok(Self { pieces, secret, marked: open.is_some() })
    }

    /// Returns what the shape begins with, if it must.
    pub(super) fn first(&self) -> Option<CharClass> {
        self.pieces.first().filter(|piece| piece.min > 0).map(|piece| piece.class)
    }

    /// Returns whether no part of the shape is mere context.
    pub(super) fn is_all_secret(&self) -> bool {
        !self.marked
    }

    /// Returns how much of the end of `text` is of the shape's first class, if that is enough.
    pub(super) fn len_before(&self, text: &[u8]) -> Option<usize> {
        let piece = self.pieces.first()?;
        let most = piece.max.saturating_add(1);
        let count = text.iter().rev().take(most).take_while(|&&b| piece.class.has(b)).count();
        (piece.min..=piece.max).contains(&count).then_some(count)
    }

    /// Returns the secret's place if `text` has the shape at `at`.
    pub(super) fn find(&self, text: &[u8], at: usize) -> Option<Range<usize>> {
        let mut end = at;
        let (mut from, mut to) = (at, at);
        for (i, piece) in self.pieces.iter().enumerate() {
            if i == self.secret.start {
                from = end;
            }
            let rest = &text[end..];
            let most = rest.len().min(piece.max);
            let count = rest[..most].iter().take_while(|&&b| piece.class.has(b)).count();
            if count < piece.min {
                return None;
            }
            end += count;
            if i + 1 == self.secret.end {
                to = end;
            }
        }
        // What goes on with a letter or digit where the shape ends is something else.
        let last = self.pieces.last()?;
        let goes_on = text.get(end).is_some_and(|&b| {
            b.is_ascii_alphanumeric() && text[end - 1].is_ascii_alphanumeric() || last.class.has(b)
        });
        (!goes_on).then_some(from..to)
    }
}

struct ShapeReader<'a> {
    text: &'a [u8],
    at: usize,
}

impl ShapeReader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn error(&self) -> BadShape {
        BadShape { shape: String::from_utf8_lossy(self.text).into_owned(), at: self.at }
    }

    fn piece(&mut self) -> Option<Piece> {
        let class = match self.next()? {
            b'[' => self.class()?,
            b'\\' => escape(self.next()?),
            b'{' | b'}' | b']' | b'*' | b'+' | b'?' | b'|' | b'^' | b'$' => return None,
            b'.' => single(b'\n').inverted(),
            byte => single(byte),
        };
        let (min, max) = self.count()?;
        (min <= max && max > 0).then_some(Piece { class, min, max })
    }

    fn class(&mut self) -> Option<CharClass> {
        let inverted = self.peek() == Some(b'^');
        self.at += usize::from(inverted);
        let mut class = CharClass::EMPTY;
        loop {
            match self.next()? {
                b']' => break,
                b'\\' => class.union(escape(self.next()?)),
                low => {
                    let range = self.peek() == Some(b'-')
                        && self.text.get(self.at + 1).is_some_and(|&b| b != b']');
                    if range {
                        self.at += 1;
                        let high = self.next()?;
                        (low <= high).then(|| class.add_range(low, high))?;
                    } else {
                        class.add(low);
                    }
                }
            }
        }
        Some(if inverted { class.inverted() } else { class })
    }

    fn count(&mut self) -> Option<(usize, usize)> {
        let counts = match self.peek() {
            Some(b'?') => (0, 1),
            Some(b'*') => (0, usize::MAX),
            Some(b'+') => (1, usize::MAX),
            Some(b'{') => {
                self.at += 1;
                let min = self.number()?;
                let max = match self.peek()? {
                    b',' => {
                        self.at += 1;
                        if self.peek()? == b'}' { usize::MAX } else { self.number()? }
                    }
                    _ => min,
                };
                (self.peek()? == b'}').then_some((min, max))?
            }
            _ => return Some((1, 1)),
        };
        self.at += 1;
        Some(counts)
    }

    fn number(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        std::str::from_utf8(&self.text[start..self.at]).ok()?.parse().ok()
    }
}

fn single(byte: u8) -> CharClass {
    let mut class = CharClass::EMPTY;
    class.add(byte);
    class
}

fn escape(byte: u8) -> CharClass {
    let mut class = CharClass::EMPTY;
    match byte {
        b'd' => class.add_range(b'0', b'9'),
        b'w' => {
            class.add_range(b'0', b'9');
            class.add_range(b'a', b'z');
            class.add_range(b'A', b'Z');
            class.add(b'_');
        }
        b's' => b" \t\r\n".iter().for_each(|&b| class.add(b)),
        other => class.add(other),
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shape: &str, text: &str, want: Option<&str>) {
        let got = SecretShape::new(shape).unwrap().find(text.as_bytes(), 0);
        assert_eq!(got.map(|r| &text[r]), want, "{shape} on {text}");
    }

    #[test]
    fn a_shape_takes_what_a_regex_would() {
        check(r"ab[0-9]{2,3}", "ab12", Some("ab12"));
        check(r"ab[0-9]{2,3}", "ab1", None);
        check(r"ab[0-9]{2}", "ab123", None);
        check(r"ab\d{2}", "ab12-", Some("ab12"));
        check(r"ab\d{2}", "ab12x", None);
        check(r"x-(\w+)", "x-abc_1 d", Some("abc_1"));
        check(r"(a+)=?", "aa==", None);
        check(r"[^\s]+", "a,b c", Some("a,b"));
        check(r"[a-z-]+\.[a-z]+", "a-b.c", Some("a-b.c"));
    }

    #[test]
    fn a_bad_shape_says_where() {
        for (shape, at) in [("a{", 2), ("[a", 2), ("a)", 1), ("(a", 2), ("*", 1), ("a{3,2}", 6)] {
            assert_eq!(SecretShape::new(shape).unwrap_err().at, at, "{shape}");
        }
    }
}
