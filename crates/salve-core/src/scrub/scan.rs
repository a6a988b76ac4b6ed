//! Finds the secrets in a block of text, line by line.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::table;

/// Where a line without an end is cut.
pub(super) const LINE_MAX: usize = 64 * 1024;

/// Whether more text may follow the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    /// The block is the end of the text.
    None,
    /// More may come: the unfinished last line is left for later.
    Maybe,
}

/// A secret's place and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) place: Range<usize>,
    pub(super) kind: &'static str,
}

/// What a block holds.
#[derive(Debug)]
pub(super) struct Found {
    /// The secrets, in order and apart from each other.
    pub(super) spans: Vec<Span>,
    /// How much of the block has been judged.
    pub(super) used: usize,
}

/// Finds the secrets in `text`.
pub(super) fn scan(text: &[u8], more: More) -> Found {
    let used = match more {
        More::None => text.len(),
        More::Maybe => complete(text),
    };
    let mut spans: Vec<Span> = Vec::new();
    for hit in triggers().find_overlapping_iter(&text[..used]) {
        let token = &table::tokens()[hit.pattern().as_usize()];
        if text[hit.range()] != *token.prefix.as_bytes() {
            continue;
        }
        if let Some(rest) = token.rest.find(&text[..used], hit.end()) {
            spans.push(Span { place: hit.start()..rest.end, kind: token.kind });
        }
    }
    spans.sort_by_key(|span| (span.place.start, usize::MAX - span.place.end));
    let mut end = 0;
    spans.retain(|span| {
        let apart = span.place.start >= end;
        end = end.max(span.place.end);
        apart
    });
    Found { spans, used }
}

/// Returns the length of the complete lines of `text`.
fn complete(text: &[u8]) -> usize {
    let mut start = memchr::memrchr2(b'\n', b'\r', text).map_or(0, |at| at + 1);
    while text.len() - start >= LINE_MAX {
        start = cut(text, start);
    }
    start
}

/// Returns where the over-long line at `start` is cut: after the last comma or the like, so that
/// no token is.
fn cut(text: &[u8], start: usize) -> usize {
    let line = &text[start..start + LINE_MAX];
    let late = &line[LINE_MAX / 2..];
    let after = late
        .iter()
        .rposition(|b| b",;{}".contains(b))
        .or_else(|| late.iter().rposition(u8::is_ascii_whitespace))
        .map_or_else(|| late.len() - partial_char(late), |at| at + 1);
    start + LINE_MAX / 2 + after
}

/// Returns how many bytes at the end of `text` begin a character that may go on.
fn partial_char(text: &[u8]) -> usize {
    let tail = text.len().min(3);
    (1..=tail).find(|&n| text[text.len() - n] >= 0xc0).unwrap_or(0)
}

fn triggers() -> &'static AhoCorasick {
    static TRIGGERS: LazyLock<AhoCorasick> = LazyLock::new(|| {
        let words = table::tokens().iter().map(|token| token.prefix);
        let build = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(words);
        build.unwrap_or_else(|e| unreachable!("the built-in words are few and short: {e}"))
    });
    &TRIGGERS
}
