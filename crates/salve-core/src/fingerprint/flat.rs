//! Flat lines: every kind of quote is `'`, white space is one blank.

use super::peel::{Peeled, peel};

/// Whether blanks at the ends of a flattened text stay.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// One blank stays.
    Kept,
    /// None stays.
    Trimmed,
}

/// Appends `text` to `out` with every quote as `'`, escaped or not, and white space as one blank.
pub(crate) fn flatten_into(text: &str, out: &mut String, ends: Ends) {
    let floor = out.len();
    let mut blank = ends == Ends::Trimmed;
    let mut last = ' ';
    let mut rest = text;
    loop {
        // Nearly all of a line is plain and is copied as it stands.
        let plain = rest.bytes().position(is_curious).unwrap_or(rest.len());
        if plain > 0 {
            out.push_str(&rest[..plain]);
            (blank, last) = (false, 'x');
        }
        let Some(c) = rest[plain..].chars().next() else { break };
        rest = &rest[plain + c.len_utf8()..];
        if c == '\\' && rest.starts_with(['"', '\'', '`']) {
            continue;
        }
        if is_quote(c) {
            // Quotes of two kinds in a row are one quotation inside another.
            if !is_quote(last) || c == last {
                out.push('\'');
            }
            blank = false;
        } else if matches!(c, ' ' | '\t' | '\u{a0}') {
            if !blank {
                out.push(' ');
            }
            blank = true;
        } else {
            out.push(c);
            blank = false;
        }
        last = c;
    }
    if ends == Ends::Trimmed && out.len() > floor && out.ends_with(' ') {
        out.pop();
    }
}

/// Returns whether a byte is not copied as it stands, or may start a character that is not.
fn is_curious(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'`' | b'\\') || byte >= 0x80
}

fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '"' | '`' | '´' | '‘' | '’' | '“' | '”')
}

/// Returns `text` flat, with one blank kept at either end.
pub(crate) fn flatten_word(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    flatten_into(text, &mut out, Ends::Kept);
    out
}

/// A line as shapes see it, and where its message starts in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flat {
    /// The whole line, flat.
    pub(crate) text: String,
    /// Where it goes on after the log decorations.
    pub(crate) body: usize,
    /// Where it goes on after words that only say "error".
    pub(crate) core: usize,
}

impl Flat {
    /// Flattens a line that was peeled, using the buffer again.
    pub(crate) fn fill(&mut self, line: &str, peeled: &Peeled<'_>) {
        let line = line.trim();
        let place = |part: &str| (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
        let body = place(peeled.body).min(line.len());
        let core = place(peeled.core).clamp(body, line.len());
        self.text.clear();
        flatten_into(&line[..body], &mut self.text, Ends::Kept);
        self.body = self.text.len();
        flatten_into(&line[body..core], &mut self.text, Ends::Kept);
        self.core = self.text.len();
        flatten_into(&line[core..], &mut self.text, Ends::Kept);
    }

    /// Flattens a line.
    pub(crate) fn new(line: &str) -> Self {
        let mut flat = Self::default();
        flat.fill(line, &peel(line));
        flat
    }
}

/// Returns `text` as a flat line.
pub(crate) fn flatten(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    flatten_into(text, &mut out, Ends::Trimmed);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_blanks_are_all_of_one_kind() {
        for (text, want) in [
            ("  a \t b\u{a0}c  ", "a b c"),
            ("“x” `y` \"z\"", "'x' 'y' 'z'"),
            ("types '\"a\"' and \\\"b\\\"", "types 'a' and 'b'"),
            ("empty ''", "empty ''"),
            ("é’s", "é's"),
        ] {
            assert_eq!(flatten(text), want, "{text}");
        }
    }

    #[test]
    fn a_flat_line_knows_where_its_message_starts() {
        let flat = Flat::new("web-1  | npm ERR!  Error: Cannot  find \"x\"");
        assert_eq!(&flat.text[flat.body..], "Error: Cannot find 'x'");
        assert_eq!(&flat.text[flat.core..], "Cannot find 'x'");
    }
}
