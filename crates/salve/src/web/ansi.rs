//! What programs print to terminals, as HTML: colours as classes, everything else as text.

use maud::{Markup, html};

use super::visible::visible;

/// How the text that follows looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TextStyle {
    bold: bool,
    dim: bool,
    colour: Option<u8>,
}

impl TextStyle {
    /// Takes in the numbers of one sequence that selects a look.
    fn select(&mut self, numbers: &str) {
        let mut codes = numbers.split([';', ':']).map(|code| code.parse::<u16>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                22 => (self.bold, self.dim) = (false, false),
                39 => self.colour = None,
                30..=37 => self.colour = u8::try_from(code - 30).ok(),
                90..=97 => self.colour = u8::try_from(code - 90 + 8).ok(),
                // Colours beyond the sixteen are left out, with the numbers that name them.
                38 | 48 => match codes.next() {
                    Some(5) => drop(codes.next()),
                    Some(2) => drop(codes.nth(2)),
                    Some(_) | None => {}
                },
                _ => {}
            }
        }
    }

    fn classes(self) -> String {
        let mut classes = Vec::new();
        if self.bold {
            classes.push("ansi-bold".to_owned());
        }
        if self.dim {
            classes.push("ansi-dim".to_owned());
        }
        classes.extend(self.colour.map(|colour| format!("ansi-{colour}")));
        classes.join(" ")
    }
}

/// Returns one line of a program's output as HTML.
pub(super) fn line(text: &str) -> Markup {
    let pieces = pieces(text);
    html! {
        @for (look, text) in &pieces {
            @if *look == TextStyle::default() { (visible(text)) }
            @else { span class=(look.classes()) { (visible(text)) } }
        }
    }
}

/// Returns one line of a program's output without its sequences.
pub(super) fn plain(text: &str) -> String {
    pieces(text).into_iter().map(|(_, text)| text).collect()
}

/// Splits a line where its look changes and drops all other sequences.
fn pieces(text: &str) -> Vec<(TextStyle, String)> {
    let mut pieces = Vec::new();
    let mut look = TextStyle::default();
    let mut rest = text.trim_end_matches(['\r', '\n']);
    // What a progress bar wrote over is gone in a terminal, too.
    if let Some(at) = rest.rfind('\r') {
        rest = &rest[at + 1..];
    }
    while let Some(at) = rest.find('\u{1b}') {
        let (before, sequence) = rest.split_at(at);
        push(&mut pieces, look, before);
        let (numbers, after) = skip_sequence(&sequence[1..]);
        if let Some(numbers) = numbers {
            look.select(numbers);
        }
        rest = after;
    }
    push(&mut pieces, look, rest);
    pieces
}

fn push(pieces: &mut Vec<(TextStyle, String)>, look: TextStyle, text: &str) {
    if !text.is_empty() {
        pieces.push((look, text.to_owned()));
    }
}

/// Skips a sequence that follows an escape; returns its numbers if it selects a look.
fn skip_sequence(text: &str) -> (Option<&str>, &str) {
    if let Some(body) = text.strip_prefix('[') {
        let Some(end) = body.find(|c: char| ('@'..='~').contains(&c)) else { return (None, "") };
        let (numbers, tail) = body.split_at(end);
        let is_look = tail.starts_with('m');
        return (is_look.then_some(numbers), &tail[1..]);
    }
    if let Some(body) = text.strip_prefix(']') {
        // A title or a link: it ends with a bell or with an escape and a backslash.
        let end = body.find(['\u{7}', '\u{1b}']);
        let Some(end) = end else { return (None, "") };
        let tail = &body[end..];
        let tail = tail.strip_prefix('\u{7}').or_else(|| tail.strip_prefix("\u{1b}\\"));
        return (None, tail.unwrap_or(""));
    }
    let mut chars = text.chars();
    chars.next();
    (None, chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_classes_and_other_sequences_go() {
        for (text, want) in [
            ("plain <b>", "plain &lt;b&gt;"),
            ("\u{1b}[1;31mError\u{1b}[0m: x", "<span class=\"ansi-bold ansi-1\">Error</span>: x"),
            ("\u{1b}[38;5;208mx\u{1b}[39m", "x"),
            ("\u{1b}[38;2;1;2;3;1mx", "<span class=\"ansi-bold\">x</span>"),
            ("\u{1b}[2K\u{1b}[1Gdone", "done"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("10 %\r20 %\r\n", "20 %"),
            ("cut \u{1b}[3", "cut "),
        ] {
            assert_eq!(line(text).into_string(), want, "{text:?}");
        }
        assert_eq!(plain("\u{1b}[31mred\u{1b}[0m"), "red");
    }
}
