//! `require_human` patterns, and texts of which parts are known only at run time.
//!
//! In a pattern `*` stands for any text, white space and newlines included; all else is literal
//! and case-sensitive. A pattern without `*` also reaches longer commands at a word boundary, one
//! that ends in ` *` also the bare command.

/// One `require_human` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalPattern {
    text: String,
    /// How much of it stands before the first `*`.
    head: usize,
}

/// A text with holes, in each of which any text may stand.
///
/// A [`HOLE`] is a hole, for no command that is judged holds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Template<'t>(pub(super) &'t str);

/// What stands for a hole in a [`Template`].
pub(super) const HOLE: char = '\0';

const STAR: char = '*';

impl ApprovalPattern {
    /// Makes a pattern from an entry that [`Policy::new`](super::Policy::new) has checked.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), head: text.find(STAR).unwrap_or(text.len()) }
    }

    /// Returns the pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern has no `*`.
    pub fn is_literal(&self) -> bool {
        self.head == self.text.len()
    }

    /// Returns whether the pattern matches `text`.
    pub fn matches(&self, text: &str) -> bool {
        if self.is_literal() {
            return text.strip_prefix(&*self.text).is_some_and(ends_word);
        }
        glob(&self.text, STAR, text) || self.bare().is_some_and(|bare| glob(bare, STAR, text))
    }

    /// Returns whether the pattern matches for some filling of the template's holes.
    pub(super) fn could_match(&self, template: Template<'_>) -> bool {
        let Template(text) = template;
        let Some((head, rest)) = text.split_once(HOLE) else { return self.matches(text) };
        let start = &self.text[..self.head];
        if self.is_literal() {
            return head.strip_prefix(start).map_or(start.starts_with(head), ends_word);
        }
        let tail = rest.rsplit(HOLE).next().unwrap_or(rest);
        // Between the ends the star takes what the template wants, and the hole what the pattern
        // wants, so only the ends have to agree.
        let agrees = |pattern: &str| {
            let end = pattern.rsplit(STAR).next().unwrap_or(pattern);
            (start.starts_with(head) || head.starts_with(start))
                && (end.ends_with(tail) || tail.ends_with(end))
        };
        let bare =
            |bare: &str| if bare.contains(STAR) { agrees(bare) } else { template.could_be(bare) };
        agrees(&self.text) || self.bare().is_some_and(bare)
    }

    /// Returns whether a text that starts with `word` may match; `false` is certain.
    pub(super) fn may_start(&self, word: &str) -> bool {
        let start = &self.text[..self.head];
        start.starts_with(word) || word.starts_with(start)
    }

    /// Returns whether a text made of words of `text` may match; `false` is certain.
    pub(super) fn may_occur(&self, Template(text): Template<'_>) -> bool {
        let apart = |c: char| c == STAR || c.is_ascii_whitespace();
        text.contains(HOLE) || self.text.split(apart).all(|part| find(text, part).is_some())
    }

    /// Returns the command alone where the pattern also asks for arguments.
    fn bare(&self) -> Option<&str> {
        self.text.strip_suffix(" *")
    }

    /// Returns whether everything that `other` matches is matched by this pattern too.
    ///
    /// May say no where the answer is yes, never the reverse.
    pub fn covers(&self, other: &ApprovalPattern) -> bool {
        let wide = self.readings();
        other.readings().iter().all(|narrow| wide.iter().any(|wide| fits(wide, narrow)))
    }

    /// Returns every way the pattern matches, the plain one first.
    fn readings(&self) -> Vec<Vec<Symbol>> {
        let symbol = |b: u8| if b == b'*' { Symbol::Any } else { Symbol::Byte(b) };
        let symbols = |text: &str| text.bytes().map(symbol).collect::<Vec<_>>();
        let plain = symbols(&self.text);
        let longer = if self.is_literal() {
            Some([plain.as_slice(), &[Symbol::Boundary, Symbol::Any]].concat())
        } else {
            self.bare().map(symbols)
        };
        [Some(plain), longer].into_iter().flatten().collect()
    }
}

impl<'t> Template<'t> {
    /// Returns the text if there are no holes.
    pub(super) fn known(self) -> Option<&'t str> {
        (!self.0.contains(HOLE)).then_some(self.0)
    }

    /// Returns the text before the first hole.
    pub(super) fn head(self) -> &'t str {
        self.0.split(HOLE).next().unwrap_or("")
    }

    /// Returns whether some filling of the holes gives `text`.
    pub(super) fn could_be(self, text: &str) -> bool {
        glob(self.0, HOLE, text)
    }
}

/// Returns whether `text` is the parts of `pattern` in their order, with any text at its marks.
///
/// The first fit of each part leaves the most to the others, so one pass is enough.
fn glob(pattern: &str, mark: char, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once(mark) else { return pattern == text };
    let (middle, last) = rest.rsplit_once(mark).unwrap_or(("", rest));
    let inner = text.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
    let Some(mut inner) = inner else { return false };
    middle.split(mark).all(|part| match find(inner, part) {
        Some(at) => {
            inner = &inner[at + part.len()..];
            true
        }
        None => false,
    })
}

fn find(text: &str, part: &str) -> Option<usize> {
    memchr::memmem::find(text.as_bytes(), part.as_bytes())
}

/// Returns whether a word ends before `rest`; UTF-8 may end one, too.
fn ends_word(rest: &str) -> bool {
    !rest.as_bytes().first().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// One step of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    Byte(u8),
    /// One byte that cannot continue a word.
    Boundary,
    /// Any bytes, or none.
    Any,
}

/// Returns whether every text that `narrow` reads is read by `wide`, as far as can be told.
fn fits(wide: &[Symbol], narrow: &[Symbol]) -> bool {
    let takes = |own: Symbol, theirs: Symbol| match (own, theirs) {
        (Symbol::Any, _) => true,
        (Symbol::Boundary, Symbol::Byte(b)) => !(b.is_ascii_alphanumeric() || b == b'_'),
        (own, theirs) => own == theirs,
    };
    let (mut w, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while n < narrow.len() {
        match wide.get(w) {
            Some(Symbol::Any) => {
                back = Some((w, n));
                w += 1;
            }
            Some(&symbol) if takes(symbol, narrow[n]) => {
                w += 1;
                n += 1;
            }
            Some(_) | None => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    w = star + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    wide[w..].iter().all(|&symbol| symbol == Symbol::Any)
}

#[cfg(test)]
mod tests;
