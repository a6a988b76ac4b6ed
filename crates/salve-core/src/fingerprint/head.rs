//! The head of a failure: how a line names an error, and what the error is called.

use super::path;
use super::peel::{LogLevel, Peeled};

/// From here on a form names an error of its own, not only that there is one.
pub(crate) const NAMED: i32 = 40;

/// Returns how surely a line's form, beyond its single words, says that it names a failure.
pub(crate) fn form(peeled: &Peeled<'_>) -> Option<i32> {
    let body = peeled.body;
    let core = located(peeled.core);
    if core.contains("panicked at ") || core.starts_with("panic: ") {
        return Some(47);
    }
    if body.starts_with("error[") || core.starts_with("error[") {
        return Some(46);
    }
    if let Some(name) = exception(core).or_else(|| exception(body)) {
        let bare = matches!(name, "Error" | "Exception");
        return Some(if name.ends_with("Warning") {
            4
        } else if bare {
            40
        } else {
            45
        });
    }
    if test_name(body) {
        return Some(44);
    }
    if body.starts_with("fatal: ") || core.starts_with("fatal error") || body.starts_with("FATAL") {
        return Some(42);
    }
    if body.starts_with("Error: ") || body.contains(": Error: ") {
        return Some(40);
    }
    if body.starts_with("error: ") || body.contains(": error: ") || body.contains(": error ") {
        return Some(38);
    }
    (peeled.level == LogLevel::Error && peeled.core.len() < body.len()).then_some(32)
}

/// Returns whether a line names a failed test.
fn test_name(body: &str) -> bool {
    body.starts_with("--- FAIL: ")
        || (body.starts_with("● ") && !body.starts_with("● Test suite failed"))
        || (body.starts_with("FAILED ") && body.contains("::"))
        || (body.starts_with("test ") && body.ends_with("... FAILED"))
        || (body.starts_with("FAIL ") && body.contains(" > "))
}

/// Returns the name of the exception that `text` starts with.
pub(crate) fn exception(text: &str) -> Option<&str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$' | b'\\');
    let end = text.bytes().position(|b| !plain(b)).unwrap_or(text.len());
    let full = text[..end].trim_end_matches('.');
    let after = &text[end..];
    // `DiscordAPIError[50013]: …` has its code in brackets.
    let coded = after.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let closes = after.is_empty()
        || after.starts_with(':')
        || after.starts_with(" [")
        || after.starts_with(" (")
        || after.starts_with(" - ")
        || coded.is_some_and(|(code, rest)| code.len() < 24 && rest.starts_with(':'));
    let name = full.rsplit(['.', '\\', '$']).next().unwrap_or(full);
    const ENDS: &[&str] = &[
        "Error",
        "Exception",
        "Warning",
        "Failure",
        "Fault",
        "Interrupt",
        "SystemExit",
        "Panic",
        "Throwable",
    ];
    let known = ENDS.iter().any(|end| name.ends_with(end))
        && name.starts_with(|c: char| c.is_ascii_alphabetic());
    // Python's own exceptions of a package may be named anything: `jinja2.exceptions.TemplateNotFound`.
    let dotted = full.contains('.')
        && (full.contains(".exc.") || full.contains("xceptions.") || full.contains(".errors."))
        && name.starts_with(|c: char| c.is_ascii_uppercase());
    (closes && (known || dotted)).then_some(name)
}

/// How far into a line an error may be said that something else introduces.
const INTRODUCED: usize = 120;

/// Returns the error that the words in front only introduce: `Rollup error: Error: …` is `…`.
pub(crate) fn introduced_error(text: &str) -> &str {
    let near = (0..=INTRODUCED.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    let head = &text[..near.unwrap_or(0)];
    for (at, _) in head.rmatch_indices(": ") {
        let rest = text[at + 2..].trim_start();
        let Some(name) = exception(rest).filter(|name| !name.ends_with("Warning")) else {
            continue;
        };
        match rest.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")) {
            Some(message) if matches!(name, "Error" | "Exception") => return message,
            Some(_) => return rest,
            None => {}
        }
    }
    text
}

/// Returns `text` without a place in a file in front: `a.ts:3:4 - …`, `a.c:3: …`, `a.ts(3,4): …`.
pub(crate) fn located(text: &str) -> &str {
    let Some(end) = text.find([' ', '\t']) else { return text };
    let place = &text[..end];
    let bare = place.trim_end_matches(':');
    let stripped = path::strip_position(bare);
    let file = stripped.len() < bare.len() && stripped.contains(['.', '/']);
    if !file {
        return text;
    }
    let rest = text[end..].trim_start_matches([' ', '-', ':', '\t']);
    let rest = ["error: ", "error ", "fatal error: ", "Error: "]
        .iter()
        .find_map(|word| rest.strip_prefix(word))
        .unwrap_or(rest);
    if rest.is_empty() { text } else { rest }
}

/// Returns what a person calls the error: its type, or a code in it.
pub(crate) fn error_type<'l>(peeled: &Peeled<'l>) -> Option<&'l str> {
    let core = located(peeled.core);
    if let Some(name) = exception(core).filter(|name| !matches!(*name, "Error" | "Exception")) {
        return Some(name);
    }
    if let Some(at) = peeled.body.find("rror[") {
        let code = peeled.body[at + 5..].split(']').next()?;
        return Some(code).filter(|code| is_code(code));
    }
    if core.contains("panicked at ") || core.starts_with("panic: ") {
        return Some("panic");
    }
    let words = peeled.body.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.into_iter().find(|word| is_code(word)).or_else(|| exception(peeled.body))
}

/// Returns whether a word is an error code: `ENOENT`, `TS2322`, `E0282`, `ERR_REQUIRE_ESM`.
fn is_code(word: &str) -> bool {
    let bytes = word.as_bytes();
    if bytes.len() < 5
        || !bytes.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_')
    {
        return false;
    }
    let letters = bytes.iter().take_while(|b| b.is_ascii_uppercase()).count();
    let numbered = (1..=5).contains(&letters)
        && bytes[letters..].iter().all(u8::is_ascii_digit)
        && bytes.len() > letters + 2;
    const ERRNO: &[&str] = &["ERROR", "ERRORS"];
    numbered
        || word.starts_with("ERR_")
        || (bytes[0] == b'E' && letters == bytes.len() && !ERRNO.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::super::peel::peel;
    use super::*;

    #[test]
    fn exceptions_are_called_by_their_name() {
        for (line, want) in [
            ("TypeError: x is not a function", Some("TypeError")),
            ("Uncaught ReferenceError: y", Some("ReferenceError")),
            ("Caused by: java.lang.IllegalStateException: z", Some("IllegalStateException")),
            ("jinja2.exceptions.TemplateNotFound: a.html", Some("TemplateNotFound")),
            ("Error: ENOENT: no such file", Some("ENOENT")),
            ("src/a.ts(3,4): error TS2322: Type", Some("TS2322")),
            ("error[E0282]: type annotations needed", Some("E0282")),
            ("panic: boom", Some("panic")),
            ("thread 'main' panicked at src/main.rs:3:4:", Some("panic")),
            ("Error [ERR_REQUIRE_ESM]: no", Some("ERR_REQUIRE_ESM")),
            ("DiscordAPIError[50013]: Missing Permissions", Some("DiscordAPIError")),
            ("something broke", None),
        ] {
            assert_eq!(error_type(&peel(line)), want, "{line}");
        }
    }

    #[test]
    fn places_in_files_are_no_part_of_the_message() {
        for (text, want) in [
            ("src/a.ts:3:4 - error TS1: x", "TS1: x"),
            ("./main.go:3:4: undefined: x", "undefined: x"),
            ("a.c:3: warning", "warning"),
            ("10:30 it broke", "10:30 it broke"),
            ("plain words", "plain words"),
            ("Till.open() wants a key", "Till.open() wants a key"),
        ] {
            assert_eq!(located(text), want, "{text}");
        }
    }

    #[test]
    fn words_that_introduce_an_error_are_no_part_of_it() {
        for (text, want) in [
            ("Rollup error: Error: no entry", "no entry"),
            ("in handler for 'x': Error: no: entry", "no: entry"),
            ("Command raised: TypeError: y", "TypeError: y"),
            ("shop: no entry", "shop: no entry"),
            ("DeprecationWarning: x", "DeprecationWarning: x"),
        ] {
            assert_eq!(introduced_error(text), want, "{text}");
        }
    }
}
