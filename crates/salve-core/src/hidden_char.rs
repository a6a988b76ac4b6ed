//! Characters that a person does not see, or that change how others are seen.
//!
//! What a person is told and asked must look like what it is. A failure's text, a command of a
//! repository's settings and the name of a file may hold sequences that a terminal obeys, marks that
//! turn the direction of writing, and characters without a shape.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Tells whether a character has no shape of its own, or changes that of others. A line's end and a
/// tab are seen by what they do.
pub fn is_hidden(c: char) -> bool {
    if c == '\n' || c == '\t' {
        return false;
    }
    c.is_control()
        || matches!(
            c,
            '\u{00ad}'
                | '\u{034f}'
                | '\u{061c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{17b4}'
                | '\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns a text for a terminal, with each hidden character shown by its number.
///
/// What joins and varies letters and pictures stays behind one of them: many scripts and most
/// pictures cannot be written without it. Behind a character of ASCII it has nothing to do.
pub fn revealed(text: &str) -> Cow<'_, str> {
    revealed_as(text, |c, shown| shown.extend(c.escape_unicode()))
}

/// Returns a text of JSON with each hidden character written by its number, which means the same.
pub fn revealed_json(text: &str) -> Cow<'_, str> {
    revealed_as(text, |c, shown| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    })
}

fn revealed_as(text: &str, write: impl Fn(char, &mut String)) -> Cow<'_, str> {
    // Most text has nothing to hide.
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    for c in text.chars() {
        let joins = matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
        if is_hidden(c) && !(joins && !before.is_ascii() && !is_hidden(before)) {
            write(c, &mut shown);
        } else {
            shown.push(c);
        }
        before = c;
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown_by_its_number_and_what_writing_needs_stays() {
        for (text, want) in [
            ("npm ci", "npm ci"),
            ("a\tb\nc", "a\tb\nc"),
            ("x\u{1b}[2Jy\u{7}\r", "x\\u{1b}[2Jy\\u{7}\\u{d}"),
            ("a\u{9b}31mb\u{7f}", "a\\u{9b}31mb\\u{7f}"),
            ("exe.\u{202e}gnp\u{2066}", "exe.\\u{202e}gnp\\u{2066}"),
            ("rm\u{200b}\u{ad}\u{feff}\u{61c}", "rm\\u{200b}\\u{ad}\\u{feff}\\u{61c}"),
            ("a\u{e0041}b\u{3164}", "a\\u{e0041}b\\u{3164}"),
            ("\u{26a0}\u{fe0f} old", "\u{26a0}\u{fe0f} old"),
            ("\u{1f468}\u{200d}\u{1f4bb}", "\u{1f468}\u{200d}\u{1f4bb}"),
            ("\u{645}\u{6cc}\u{200c}\u{62e}", "\u{645}\u{6cc}\u{200c}\u{62e}"),
            ("rm\u{200d}\u{fe0f}", "rm\\u{200d}\\u{fe0f}"),
            ("\u{26a0}\u{fe0f}\u{fe0f}", "\u{26a0}\u{fe0f}\\u{fe0f}"),
        ] {
            assert_eq!(revealed(text), want, "{text:?}");
        }
    }

    #[test]
    fn json_means_the_same_with_numbers() {
        let value = serde_json::json!({"a\u{202e}": "x\u{9b}y\u{e0041}\u{1b}\u{7f}\n"});
        let shown = revealed_json(&value.to_string()).into_owned();
        assert!(!shown.contains(is_hidden), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
