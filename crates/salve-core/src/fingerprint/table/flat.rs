//! Flat text: every kind of quote is `'`, white space is one blank.

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
}
