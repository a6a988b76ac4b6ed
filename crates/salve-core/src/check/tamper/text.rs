//! Source text without comments, and without what stands in strings.
//!
//! Both copies have the length of the original, so a place in one is the same place in the others.

/// A language whose tests are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    /// JavaScript and TypeScript.
    Script,
    Rust,
    Go,
}

impl Language {
    /// Returns a file's language by its ending.
    pub(super) fn of(path: &str) -> Option<Self> {
        Some(match path.rsplit('.').next()? {
            "py" | "pyi" => Language::Python,
            "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "mts" | "cts" | "vue" | "svelte" => {
                Language::Script
            }
            "rs" => Language::Rust,
            "go" => Language::Go,
            _ => return None,
        })
    }
}

/// A source text and its copies.
#[derive(Debug)]
pub(super) struct SourceText<'t> {
    pub(super) language: Language,
    /// The original.
    pub(super) text: &'t str,
    /// Without comments.
    pub(super) said: String,
    /// Without comments and without what stands in strings, a byte for each.
    pub(super) bare: String,
    brackets: Vec<(usize, usize)>,
    /// Where lines end.
    lines: Vec<usize>,
}

impl<'t> SourceText<'t> {
    /// Reads a text.
    pub(super) fn new(text: &'t str, language: Language) -> Self {
        let mut said = text.as_bytes().to_vec();
        let mut bare = said.clone();
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let (end, kind) = token(bytes, at, language);
            let inner = match kind {
                TokenKind::Code => None,
                TokenKind::Comment => {
                    blank(&mut said, at, end);
                    Some((at, end))
                }
                // The quotes stay, so that an empty string can be told from nothing.
                TokenKind::Text => {
                    let quote = matches!(bytes[end - 1], b'"' | b'\'' | b'`' | b'#');
                    let closed = end > at + 1 && quote;
                    Some((at + 1, if closed { end - 1 } else { end }))
                }
            };
            if let Some((start, end)) = inner {
                blank(&mut bare, start, end);
            }
            at = end;
        }
        let whole = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        // Names may hold any letter; with one byte for each, every place in it can be looked at.
        bare.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'_');
        let bare = whole(bare);
        let brackets = brackets(&bare);
        let lines = memchr::memchr_iter(b'\n', bytes).collect();
        Self { language, text, said: whole(said), bare, brackets, lines }
    }

    /// Returns the end of the bracket that opens at `at`, itself included.
    pub(super) fn closing(&self, at: usize) -> usize {
        let found = self.brackets.binary_search_by_key(&at, |(open, _)| *open);
        found.ok().and_then(|n| self.brackets.get(n)).map_or(self.bare.len(), |(_, end)| *end)
    }

    /// Returns the number of the line at a place, from 1.
    pub(super) fn line(&self, at: usize) -> u32 {
        let before = self.lines.partition_point(|end| *end < at);
        u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1)
    }
}

enum TokenKind {
    Code,
    Comment,
    Text,
}

/// Overwrites everything but line ends; whole tokens only, so no character is cut.
fn blank(bytes: &mut [u8], start: usize, end: usize) {
    for byte in bytes.iter_mut().take(end).skip(start) {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

/// Returns where the token that starts at `at` ends, and what it is.
fn token(bytes: &[u8], at: usize, language: Language) -> (usize, TokenKind) {
    let rest = &bytes[at..];
    let python = language == Language::Python;
    match rest[0] {
        b'#' if python => (line_end(bytes, at), TokenKind::Comment),
        b'/' if !python && rest.starts_with(b"//") => (line_end(bytes, at), TokenKind::Comment),
        b'/' if !python && rest.starts_with(b"/*") => {
            let end = memchr::memmem::find(&rest[2..], b"*/").map_or(bytes.len(), |n| at + n + 4);
            (end, TokenKind::Comment)
        }
        quote @ (b'"' | b'\'') if python && rest.starts_with(&[quote; 3]) => {
            let end = memchr::memmem::find(&rest[3..], &[quote; 3]);
            (end.map_or(bytes.len(), |n| at + n + 6), TokenKind::Text)
        }
        b'r' if language == Language::Rust && is_raw(bytes, at) => raw(bytes, at),
        b'\'' if language == Language::Rust => match char_end(rest) {
            Some(length) => (at + length, TokenKind::Text),
            None => (at + 1, TokenKind::Code),
        },
        b'`' if language == Language::Go => {
            let end = memchr::memchr(b'`', &rest[1..]).map_or(bytes.len(), |n| at + n + 2);
            (end, TokenKind::Text)
        }
        quote @ (b'"' | b'\'') => {
            (quoted(bytes, at, quote, language == Language::Rust), TokenKind::Text)
        }
        b'`' if language == Language::Script => (quoted(bytes, at, b'`', true), TokenKind::Text),
        _ => (at + 1, TokenKind::Code),
    }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n)
}

/// Returns the end of a string with escapes; one that may not span lines ends with its line.
fn quoted(bytes: &[u8], start: usize, quote: u8, spans_lines: bool) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match *byte {
            b'\\' => at += 2,
            b'\n' if !spans_lines => return at,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the length of a Rust character, or nothing if the quote begins a lifetime.
fn char_end(rest: &[u8]) -> Option<usize> {
    match rest.get(1)? {
        b'\\' => rest.iter().take(14).skip(3).position(|b| *b == b'\'').map(|n| n + 4),
        first => {
            let width = match first {
                0..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0.. => 4,
            };
            (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
        }
    }
}

/// Tells whether a raw string begins here, rather than a name that ends in `r`.
fn is_raw(bytes: &[u8], at: usize) -> bool {
    let name = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    let byte_string = at > 0 && bytes[at - 1] == b'b';
    (!name || byte_string) && bytes.get(at + 1 + hashes) == Some(&b'"')
}

fn raw(bytes: &[u8], at: usize) -> (usize, TokenKind) {
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = at + 2 + hashes;
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let end = memchr::memmem::find(&bytes[open..], &close);
    (end.map_or(bytes.len(), |n| open + n + close.len()), TokenKind::Text)
}

/// Returns where each bracket opens and where the one that closes it stands, in order.
fn brackets(bare: &str) -> Vec<(usize, usize)> {
    let mut open = Vec::new();
    let mut pairs = Vec::new();
    for (at, byte) in bare.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => {
                open.push(pairs.len());
                pairs.push((at, bare.len()));
            }
            b')' | b']' | b'}' => {
                if let Some(pair) = open.pop().and_then(|pair: usize| pairs.get_mut(pair)) {
                    pair.1 = at + 1;
                }
            }
            _ => {}
        }
    }
    pairs
}

/// Returns at most `length` bytes from a place on, so that no search runs to the end of the text.
pub(super) fn near(text: &str, at: usize, length: usize) -> &str {
    let floor = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    let start = floor(at).unwrap_or(0);
    let end = floor(at.saturating_add(length)).unwrap_or(0).max(start);
    &text[start..end]
}

/// Tells whether a name stands at `at`, rather than the end of a longer one.
pub(super) fn starts_name(bare: &str, at: usize) -> bool {
    let before = bare.as_bytes().get(at.wrapping_sub(1));
    !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$'))
}

/// Returns the places of `name` where it stands as a whole name before a further sign.
pub(super) fn calls<'b>(bare: &'b str, name: &'b str) -> impl Iterator<Item = usize> + 'b {
    let found = memchr::memmem::find_iter(bare.as_bytes(), name.as_bytes());
    found.collect::<Vec<_>>().into_iter().filter(move |at| starts_name(bare, *at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(language: Language, text: &str, said: &str, bare: &str) {
        let source = SourceText::new(text, language);
        assert_eq!((source.said.as_str(), source.bare.as_str()), (said, bare), "{text}");
    }

    #[test]
    fn comments_and_strings_are_blanked_in_place() {
        check(Language::Python, "a = 'x#y' # no", "a = 'x#y'     ", "a = '   '     ");
        check(
            Language::Python,
            "'''a\n\"b''' + \"c\\\"\"",
            "'''a\n\"b''' + \"c\\\"\"",
            "'   \n    ' + \"   \"",
        );
        check(Language::Script, "f(`a${b}`) // é", "f(`a${b}`)      ", "f(`     `)      ");
        check(Language::Script, "/* ( */ '(' + /'/", "        '(' + /'/", "        ' ' + /' ");
        check(
            Language::Rust,
            "fn f<'a>() { '\"'; r#\"}\"# } // }",
            "fn f<'a>() { '\"'; r#\"}\"# }     ",
            "fn f<'a>() { ' '; r    # }     ",
        );
        check(Language::Go, "s := `(\n` // x", "s := `(\n`     ", "s := ` \n`     ");
    }

    #[test]
    fn brackets_are_matched_outside_of_strings() {
        let source = SourceText::new("f('(', [1, {a: ')'}]); g()", Language::Script);
        assert_eq!(source.closing(1), 21);
        assert_eq!(SourceText::new("((", Language::Go).closing(0), 2);
    }
}
