//! `require_human` patterns, and texts of which parts are known only at run time.
//!
//! In a pattern `*` stands for any text, white space and newlines included; all else is literal
//! and case-sensitive. A pattern without `*` also reaches longer commands at a word boundary, one
//! that ends in ` *` also the bare command.

/// How many steps a comparison with a partly known text may take before it counts as a match.
const MAX_STEPS: usize = 1 << 20;

/// One `require_human` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// Every way the pattern matches, the plain reading first.
    readings: Vec<Vec<Symbol>>,
}

/// A text with holes, in each of which any text may stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Template {
    /// The text; a [`HOLE`] is a hole, for no command that is judged holds one.
    text: String,
    holed: bool,
}

const HOLE: char = '\0';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    Byte(u8),
    /// One byte that cannot continue a word.
    Boundary,
    /// Any bytes, or none.
    Any,
}

impl Pattern {
    /// Makes a pattern from an entry that [`Policy::new`](super::Policy::new) has checked.
    pub(super) fn new(text: &str) -> Self {
        let symbols = |text: &str| {
            text.bytes()
                .map(|b| if b == b'*' { Symbol::Any } else { Symbol::Byte(b) })
                .collect::<Vec<_>>()
        };
        let plain = symbols(text);
        let longer = if text.contains('*') {
            text.strip_suffix(" *").map(symbols)
        } else {
            Some([plain.as_slice(), &[Symbol::Boundary, Symbol::Any]].concat())
        };
        Self {
            text: text.to_owned(),
            readings: [Some(plain), longer].into_iter().flatten().collect(),
        }
    }

    /// Returns the pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern has no `*`.
    pub fn is_literal(&self) -> bool {
        !self.text.contains('*')
    }

    /// Returns whether the pattern matches `text`.
    pub fn matches(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        self.readings.iter().any(|reading| matches(reading, bytes))
    }

    /// Returns whether the pattern matches for some filling of the template's holes.
    pub(super) fn could_match(&self, template: &Template) -> bool {
        match template.known() {
            Some(text) => self.matches(text),
            None => {
                let text = template.text.as_bytes();
                self.readings.iter().any(|reading| overlap(reading, text))
            }
        }
    }

    /// Returns whether everything that `other` matches is matched by this pattern too.
    ///
    /// May say no where the answer is yes, never the reverse.
    pub fn covers(&self, other: &Pattern) -> bool {
        other.readings.iter().all(|narrow| {
            self.readings.iter().any(|wide| {
                fits(wide, narrow, |own, theirs| match theirs {
                    Symbol::Byte(byte) => takes(own, byte),
                    Symbol::Boundary => matches!(own, Symbol::Boundary | Symbol::Any),
                    Symbol::Any => own == Symbol::Any,
                })
            })
        })
    }
}

impl Template {
    /// Makes a template without holes.
    pub(super) fn known_text(text: &str) -> Self {
        Self { text: text.to_owned(), holed: false }
    }

    /// Appends literal text.
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends a hole.
    pub(super) fn push_hole(&mut self) {
        self.text.push(HOLE);
        self.holed = true;
    }

    /// Appends another template.
    pub(super) fn append(&mut self, other: &Template) {
        self.text.push_str(&other.text);
        self.holed |= other.holed;
    }

    /// Returns the text if there are no holes.
    pub(super) fn known(&self) -> Option<&str> {
        (!self.holed).then_some(self.text.as_str())
    }

    /// Returns the text before the first hole.
    pub(super) fn head(&self) -> &str {
        self.text.split(HOLE).next().unwrap_or("")
    }

    /// Returns whether some filling of the holes gives `text`.
    pub(super) fn could_be(&self, text: &str) -> bool {
        match self.known() {
            Some(known) => known == text,
            None => {
                let literal: Vec<Symbol> = text.bytes().map(Symbol::Byte).collect();
                overlap(&literal, self.text.as_bytes())
            }
        }
    }
}

/// Returns whether `byte` continues a word; everything else, UTF-8 included, may end one.
fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn takes(symbol: Symbol, byte: u8) -> bool {
    match symbol {
        Symbol::Byte(own) => own == byte,
        Symbol::Boundary => !in_word(byte),
        Symbol::Any => true,
    }
}

fn matches(pattern: &[Symbol], text: &[u8]) -> bool {
    fits(pattern, text, takes)
}

/// Matches with one place to go back to: linear for usual patterns, never worse than n·m.
fn fits<T: Copy>(pattern: &[Symbol], text: &[T], takes: impl Fn(Symbol, T) -> bool) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(Symbol::Any) => {
                back = Some((p, t));
                p += 1;
            }
            Some(&symbol) if takes(symbol, text[t]) => {
                p += 1;
                t += 1;
            }
            Some(_) | None => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    p = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&symbol| symbol == Symbol::Any)
}

/// Returns whether some text fits the pattern and, with its holes filled, the template.
fn overlap(pattern: &[Symbol], template: &[u8]) -> bool {
    let hole = HOLE as u8;
    for (&symbol, &byte) in pattern.iter().zip(template) {
        if symbol == Symbol::Any || byte == hole {
            break;
        }
        if !takes(symbol, byte) {
            return false;
        }
    }
    if pattern.len().saturating_mul(template.len()) > MAX_STEPS {
        return true;
    }
    // `row[j]`: the pattern up to here fits the first `j` bytes of the template.
    let mut row = vec![false; template.len() + 1];
    row[0] = true;
    for i in 0..=pattern.len() {
        let mut next = vec![false; template.len() + 1];
        for j in 0..=template.len() {
            if !row[j] {
                continue;
            }
            match (pattern.get(i), template.get(j)) {
                (_, Some(&byte)) if byte == hole => {
                    row[j + 1] = true;
                    next[j] = true;
                }
                (Some(Symbol::Any), here) => {
                    next[j] = true;
                    if here.is_some() {
                        row[j + 1] = true;
                    }
                }
                (Some(&symbol), Some(&byte)) => next[j + 1] |= takes(symbol, byte),
                (None, _) | (_, None) => {}
            }
        }
        if i == pattern.len() {
            return row[template.len()];
        }
        row = next;
    }
    false
}

#[cfg(test)]
mod tests;
