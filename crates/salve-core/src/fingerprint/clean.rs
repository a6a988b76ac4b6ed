//! Removes what a terminal would not show: escape sequences, overwritten text, control bytes.

use std::borrow::Cow;

const ESC: u8 = 0x1b;
const BELL: u8 = 0x07;
const BACKSPACE: u8 = 0x08;

/// Returns `text` as a terminal would leave it, line by line.
///
/// Escape sequences go; of text that was overwritten after a carriage return, what was written
/// last stays; backspaces take the character before them. Line ends become `\n`.
pub fn clean(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    // Most texts have nothing to clean, which whole blocks of bytes tell faster than single ones.
    let plain = bytes
        .chunks(64)
        .take_while(|chunk| !chunk.iter().fold(false, |any, b| any | is_special(*b)));
    let first = plain.map(<[u8]>::len).sum();
    if first == bytes.len() {
        return Cow::Borrowed(text);
    }
    let first =
        bytes[first..].iter().position(|b| is_special(*b)).map_or(bytes.len(), |at| first + at);
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    let mut line = out.rfind('\n').map_or(0, |at| at + 1);
    let mut at = first;
    while at < bytes.len() {
        match bytes[at] {
            ESC => at = escape_end(bytes, at),
            b'\r' => {
                at += 1;
                let ends = matches!(bytes.get(at), None | Some(b'\n' | b'\r'));
                if !ends {
                    out.truncate(line);
                }
            }
            BACKSPACE => {
                at += 1;
                if out.len() > line {
                    out.pop();
                }
            }
            b'\n' => {
                at += 1;
                out.push('\n');
                line = out.len();
            }
            byte if is_special(byte) => at += 1,
            _ => {
                let end = bytes[at..]
                    .iter()
                    .position(|b| *b == b'\n' || is_special(*b))
                    .map_or(bytes.len(), |n| at + n);
                out.push_str(&text[at..end]);
                at = end;
            }
        }
    }
    Cow::Owned(out)
}

/// Returns whether a byte is a control byte other than a line end or a tab.
fn is_special(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\n' && byte != b'\t') || byte == 0x7f
}

/// Returns where the escape sequence that starts at `at` ends.
fn escape_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'[') => {
            let parameters =
                bytes[at + 2..].iter().take(64).position(|b| !(0x20..=0x3f).contains(b));
            match parameters.map(|n| at + 2 + n) {
                Some(end) if bytes[end].is_ascii() && bytes[end] >= 0x40 => end + 1,
                Some(end) => end,
                None => at + 2,
            }
        }
        // A string sequence ends with BEL or ESC \; an unclosed one must not swallow the log.
        Some(b']' | b'P' | b'_' | b'^' | b'X') => {
            let body =
                bytes[at + 2..].iter().take(2048).position(|b| matches!(*b, BELL | ESC | b'\n'));
            match body.map(|n| at + 2 + n) {
                Some(end) if bytes[end] == BELL => end + 1,
                Some(end) if bytes[end] == ESC && bytes.get(end + 1) == Some(&b'\\') => end + 2,
                _ => at + 2,
            }
        }
        Some(b'(' | b')' | b'#' | b'%') if bytes.get(at + 2).is_some_and(u8::is_ascii) => at + 3,
        Some(b'\n' | &ESC) | None => at + 1,
        Some(next) if next.is_ascii() && !is_special(*next) => at + 2,
        Some(_) => at + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(clean(text), want, "{text:?}");
    }

    #[test]
    fn only_what_a_terminal_shows_stays() {
        check("plain\ntext", "plain\ntext");
        check("\x1b[31mred\x1b[0m and \x1b[1;38;5;196mbold\x1b[m", "red and bold");
        check("\x1b]8;;http://a.b/c\x07link\x1b]8;;\x1b\\ end", "link end");
        check("10%\r50%\r100%\r\nError: x\r\n", "100%\nError: x\n");
        check("progress \r", "progress ");
        check("ab\x08c", "ac");
        check("\x08a", "a");
        check("\x1b(Bx\x1b7y\x1bMz", "xyz");
        check("tail\x1b", "tail");
        check("cut\x1b[12", "cut12");
        check("\x1b]0;title never closed", "0;title never closed");
        check("é\x1b[0mü\x1bé", "éüé");
    }

    #[test]
    fn cleaning_is_idempotent_on_hostile_input() {
        let hostile = "\x1b\x1b[[[\x1b]\x08\r\x7f\n".repeat(1000);
        let once = clean(&hostile).into_owned();
        assert_eq!(clean(&once), once);
    }
}
