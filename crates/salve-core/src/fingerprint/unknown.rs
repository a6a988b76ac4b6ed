//! Normalises a failure that no anchor knows: its head masked, and a frame if the head says nothing.

use super::frames;
use super::head;
use super::lexer::mask;
use super::path;
use super::peel::peel;
use super::text::Text;

/// The longest normalised message; what follows varies more than it identifies.
const LONGEST: usize = 240;

/// Words that occur in heads which name nothing.
const EMPTY_WORDS: &[&str] = &[
    "error",
    "errors",
    "exception",
    "failed",
    "failure",
    "fail",
    "type",
    "null",
    "undefined",
    "cannot",
    "read",
    "property",
    "properties",
    "reading",
    "setting",
    "set",
    "not",
    "function",
    "object",
    "index",
    "out",
    "range",
    "assertion",
    "expected",
    "actual",
    "nil",
    "pointer",
    "dereference",
    "invalid",
    "memory",
    "address",
    "runtime",
    "segmentation",
    "fault",
    "value",
    "none",
    "nonetype",
    "has",
    "attribute",
    "the",
    "and",
    "for",
    "with",
    "from",
    "was",
    "are",
    "but",
    "got",
    "bounds",
    "length",
    "len",
    "core",
    "dumped",
    "signal",
    "panic",
    "panicked",
    "thread",
    "main",
    "goroutine",
    "fatal",
    "unhandled",
    "uncaught",
    "typeerror",
    "valueerror",
    "runtimeerror",
    "keyerror",
    "indexerror",
    "attributeerror",
    "assertionerror",
    "assertionfailederror",
    "nullpointerexception",
    "illegalstateexception",
    "illegalargumentexception",
    "referenceerror",
    "rangeerror",
    "syntaxerror",
    "recursionerror",
    "list",
    "string",
    "iterable",
    "subscriptable",
    "unpack",
    "division",
    "zero",
    "zerodivisionerror",
    "maximum",
    "call",
    "stack",
    "size",
    "exceeded",
    "depth",
    "recursion",
    "called",
    "option",
    "unwrap",
    "result",
    "err",
    "true",
    "false",
    "equal",
    "assert",
    "left",
    "right",
    "operation",
    "unexpected",
    "unknown",
    "something",
    "went",
    "wrong",
    "been",
    "thrown",
    "throw",
    "rejection",
    "promise",
    "because",
    "this",
    "that",
    "indexoutofboundsexception",
    "arrayindexoutofboundsexception",
    "nomethoderror",
    "method",
    "class",
    "instance",
    "array",
    "slice",
    "map",
    "code",
    "exit",
    "status",
    "java",
    "lang",
    "violation",
    "sigsegv",
    "abort",
    "aborted",
    "number",
    "int",
    "float",
    "str",
    "dict",
    "bool",
];

/// Returns the normalised text of the failure named on line `head`.
pub(crate) fn normalize(text: &Text<'_>, number: usize) -> String {
    let peeled = peel(text.line(number));
    let core = head::located(peeled.core);
    let mut message = mask(first_sentence(core));
    if names_nothing_yet(core) {
        let more = (number + 1..text.len().min(number + 4)).map(|n| peel(text.line(n)).core).find(
            |line| {
                !line.is_empty()
                    && !frames::is_frame(line)
                    && line.chars().any(char::is_alphanumeric)
            },
        );
        if let Some(more) = more {
            message.push(' ');
            message.push_str(&mask(first_sentence(head::located(more))));
        }
    }
    cut(&mut message);
    if is_nameless(&message)
        && let Some(frame) = frames::top(text, number)
    {
        let (function, file) = place(&frame);
        message.push_str(" in ");
        message.push_str(&function);
        message.push('@');
        message.push_str(&file);
    }
    message
}

/// Returns a frame as an identity has it: the function without what varies, and the base name.
pub(crate) fn place(frame: &frames::Frame<'_>) -> (String, String) {
    let function = frame.function;
    let empty = matches!(function, "<module>" | "Object.<anonymous>" | "<anonymous>" | "eval" | "");
    (if empty { String::new() } else { mask(function) }, mask(path::base(frame.file)))
}

/// Returns whether a message is only a name, with the words on the lines below.
fn names_nothing_yet(core: &str) -> bool {
    core.ends_with(':')
        || head::exception(core).is_some_and(|name| core.trim_end_matches(':').ends_with(name))
}

/// Cuts a message behind its first sentence if that is long enough to say something.
fn first_sentence(text: &str) -> &str {
    const TAILS: &[&str] = &[
        " Did you mean",
        " did you mean",
        "; see ",
        " See http",
        " see http",
        " For more info",
        " Please ",
    ];
    let text = TAILS
        .iter()
        .filter_map(|tail| text.find(tail))
        .min()
        .filter(|at| *at > 16)
        .map_or(text, |at| &text[..at]);
    let text = without_place(text);
    let bytes = text.as_bytes();
    let ends = memchr::memmem::find_iter(bytes, b". ")
        .find(|at| *at >= 24 && bytes.get(at + 2).is_some_and(u8::is_ascii_uppercase));
    ends.map_or(text, |at| &text[..at])
}

/// Cuts a path in brackets off the end: where a file is differs from machine to machine.
fn without_place(text: &str) -> &str {
    let bare = text.trim_end_matches(['.', ' ']);
    match bare.strip_suffix(')').and_then(|inner| inner.rsplit_once(" (")) {
        Some((head, place)) if head.len() > 16 && is_path(place) => head,
        _ => text,
    }
}

/// Returns whether a text is a path and nothing else.
fn is_path(text: &str) -> bool {
    let windows = text.as_bytes().get(1..3) == Some(b":\\");
    (windows || text.starts_with('/')) && text.len() > 3 && !text.contains(", ")
}

fn cut(message: &mut String) {
    if message.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        let end = message[..end].rfind(' ').filter(|at| *at > LONGEST / 2).unwrap_or(end);
        message.truncate(end);
    }
}

/// Returns whether nothing in a masked message tells this failure from others of its kind.
fn is_nameless(message: &str) -> bool {
    let words = message.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'));
    let telling = words
        .filter(|word| word.len() > 2 && word.bytes().any(|b| b.is_ascii_alphabetic()))
        .filter(|word| !EMPTY_WORDS.iter().any(|empty| empty.eq_ignore_ascii_case(word)));
    telling.take(2).count() < 2 && !message.contains("panicked at")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(normalize(&Text::new(text), 0), want, "{text}");
    }

    #[test]
    fn what_varies_around_a_message_goes() {
        let want = "FrobError: cannot align 'left' with 'right'";
        check("FrobError: cannot align 'left' with 'right'. Did you mean: 'up'?", want);
        check("Uncaught FrobError: cannot align \"left\" with \"right\" (/srv/a/frob.py)", want);
        check("FrobError: cannot align `left` with `right` (C:\\a\\frob.py).", want);
        check(
            "src/a.frob:3:4: error: cannot align 'left' after 3 tries",
            "cannot align 'left' after <n> tries",
        );
    }

    #[test]
    fn a_bare_name_takes_the_words_below_it() {
        check("FrobError:\n  cannot align 'left' rail", "FrobError: cannot align 'left' rail");
    }

    #[test]
    fn a_head_that_names_nothing_takes_the_top_own_frame() {
        let frames =
            "    at align (/srv/shop/src/frob.js:3:4)\n    at main (/srv/shop/src/main.js:1:2)";
        check(
            &format!("TypeError: undefined is not a function\n{frames}"),
            "TypeError: undefined is not a function in align@frob.js",
        );
        check(
            &format!("FrobError: cannot align the sprocket\n{frames}"),
            "FrobError: cannot align the sprocket",
        );
    }
}
