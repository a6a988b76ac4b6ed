//! Text from elsewhere, as HTML in which nothing is hidden.
//!
//! A command that a person is asked about must look like what runs: control characters, marks
//! that turn the direction of writing and characters without a shape are shown by their numbers.

use maud::{Markup, html};
use salve_core::hidden_char::is_hidden;

/// Returns text with every character that cannot be seen shown by its number.
pub(super) fn visible(text: &str) -> Markup {
    html! {
        @for part in parts(text) {
            @match part {
                TextPart::Plain(text) => (text),
                TextPart::Hidden(c) => span.hidden-char title="a character that cannot be seen" { (escaped(c)) },
            }
        }
    }
}

/// A run of characters that can be seen, or one that cannot.
#[derive(Debug, PartialEq, Eq)]
enum TextPart<'t> {
    Plain(&'t str),
    Hidden(char),
}

fn parts(text: &str) -> Vec<TextPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_hidden) {
        let (plain, tail) = rest.split_at(at);
        if !plain.is_empty() {
            parts.push(TextPart::Plain(plain));
        }
        let mut chars = tail.chars();
        parts.extend(chars.next().map(TextPart::Hidden));
        rest = chars.as_str();
    }
    if !rest.is_empty() {
        parts.push(TextPart::Plain(rest));
    }
    parts
}

fn escaped(c: char) -> String {
    match c {
        '\r' => "\\r".to_owned(),
        '\0' => "\\0".to_owned(),
        '\u{1b}' => "\\e".to_owned(),
        c if u32::from(c) < 0x100 => format!("\\x{:02x}", u32::from(c)),
        c => format!("\\u{{{:x}}}", u32::from(c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_cannot_be_seen_stays_unseen_and_nothing_is_markup() {
        let span = |text: &str| {
            format!(
                "<span class=\"hidden-char\" title=\"a character that cannot be seen\">{text}</span>"
            )
        };
        for (text, want) in [
            ("npm ci", "npm ci".to_owned()),
            ("<b>&", "&lt;b&gt;&amp;".to_owned()),
            ("a\u{202e}b", format!("a{}b", span("\\u{202e}"))),
            ("rm\u{200b} x\r", format!("rm{} x{}", span("\\u{200b}"), span("\\r"))),
            ("\u{1b}[31m", format!("{}[31m", span("\\e"))),
            ("\u{e0041}", span("\\u{e0041}")),
        ] {
            assert_eq!(visible(text).into_string(), want, "{text:?}");
        }
    }
}
