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

/// A text with holes: any text may stand between two neighbouring parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<String>,
}

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
                let text = template.symbols();
                self.readings.iter().any(|reading| overlap(reading, &text))
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
        Self { parts: vec![text.to_owned()] }
    }

    /// Appends literal text.
    pub(super) fn push(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(last) => last.push_str(text),
            None => self.parts.push(text.to_owned()),
        }
    }

    /// Appends a hole.
    pub(super) fn push_hole(&mut self) {
        self.parts.push(String::new());
    }

    /// Appends another template.
    pub(super) fn append(&mut self, other: &Template) {
        for (i, part) in other.parts.iter().enumerate() {
            if i > 0 {
                self.push_hole();
            }
            self.push(part);
        }
    }

    /// Returns the text if there are no holes.
    pub(super) fn known(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [text] => Some(text),
            [] | [_, _, ..] => None,
        }
    }

    /// Returns the text before the first hole.
    pub(super) fn head(&self) -> &str {
        self.parts.first().map_or("", String::as_str)
    }

    /// Returns whether some filling of the holes gives `text`.
    pub(super) fn could_be(&self, text: &str) -> bool {
        match self.known() {
            Some(known) => known == text,
            None => matches(&self.symbols(), text.as_bytes()),
        }
    }

    fn symbols(&self) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        for (i, part) in self.parts.iter().enumerate() {
            if i > 0 {
                symbols.push(Symbol::Any);
            }
            symbols.extend(part.bytes().map(Symbol::Byte));
        }
        symbols
    }
}

impl Default for Template {
    fn default() -> Self {
        Self::known_text("")
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

/// Returns whether some text fits both `a` and `b`.
fn overlap(a: &[Symbol], b: &[Symbol]) -> bool {
    for (&x, &y) in a.iter().zip(b) {
        match (x, y) {
            (Symbol::Any, _) | (_, Symbol::Any) => break,
            (Symbol::Byte(byte), other) | (other, Symbol::Byte(byte)) if !takes(other, byte) => {
                return false;
            }
            _ => {}
        }
    }
    if a.len().saturating_mul(b.len()) > MAX_STEPS {
        return true;
    }
    // `row[j]`: the first symbols of `a` up to here fit the first `j` of `b`.
    let mut row = vec![false; b.len() + 1];
    row[0] = true;
    for i in 0..=a.len() {
        let mut next = vec![false; b.len() + 1];
        for j in 0..=b.len() {
            if !row[j] {
                continue;
            }
            let (x, y) = (a.get(i), b.get(j));
            match (x, y) {
                (_, Some(Symbol::Any)) => {
                    row[j + 1] = true;
                    next[j] = true;
                }
                (Some(Symbol::Any), _) => {
                    next[j] = true;
                    if y.is_some() {
                        row[j + 1] = true;
                    }
                }
                (Some(&x), Some(&Symbol::Byte(byte))) => next[j + 1] |= takes(x, byte),
                (Some(&Symbol::Byte(byte)), Some(&y)) => next[j + 1] |= takes(y, byte),
                (Some(Symbol::Boundary), Some(Symbol::Boundary)) => next[j + 1] = true,
                (None, _) | (_, None) => {}
            }
        }
        if i == a.len() {
            return row[b.len()];
        }
        row = next;
    }
    false
}

#[cfg(test)]
mod tests;
