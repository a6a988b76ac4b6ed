//! Normalises a failure that no anchor knows: its head masked, and a frame if the head says nothing.

use std::borrow::Cow;

use super::essence::{plain, shared_statement};
use super::frames;
use super::head;
use super::lexer::mask;
use super::path;
use super::peel::peel;
use super::telling;
use super::text::OutputText;

/// The longest normalised message; what follows varies more than it identifies.
const LONGEST: usize = 240;

/// How many telling words make the message of a panic its name.
const TELLING: usize = 3;

/// Returns the normalised text of the failure named on line `head`.
pub(crate) fn normalize(text: &OutputText<'_>, number: usize) -> String {
    let peeled = peel(text.line(number));
    if let Some(panic) = panicked(text, number, peeled.core) {
        return panic;
    }
    let core = head::located(peeled.core);
    let mut whole = Cow::Borrowed(core);
    if names_nothing_yet(core)
        && let Some(more) = words_below(text, number)
    {
        whole = Cow::Owned(format!("{core} {more}"));
    }
    let mut message = plain(&mask(shared_statement(&whole)));
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

/// Returns a panic of Rust by its message, and by its place too where the message names nothing.
///
/// Compilers before 1.73 wrote the message in quotes before the place, later ones below it.
fn panicked(text: &OutputText<'_>, number: usize, core: &str) -> Option<String> {
    let (thread, after) = core.split_once(" panicked at ")?;
    let quoted = after.strip_prefix('\'').and_then(|rest| rest.rsplit_once("', "));
    let (said, place) = match quoted {
        Some(parts) => parts,
        None => (words_below(text, number)?, after),
    };
    let mut message = plain(&mask(shared_statement(said)));
    cut(&mut message);
    if telling::count(&message) >= TELLING {
        return Some(format!("panicked at {message}"));
    }
    Some(plain(&mask(&format!("{thread} panicked at {place} {said}"))))
}

/// Returns a line with the words in names apart: `QuotaExceededError` is `Quota Exceeded Error`.
///
/// What errors of a language are called stays whole: a `TypeError` says nothing about types.
pub(crate) fn part_camel_case(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    for word in line.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let whole = telling::is_empty(name);
        let mut last = ' ';
        for c in word.chars() {
            if c.is_ascii_uppercase() && last.is_ascii_lowercase() && !whole {
                out.push(' ');
            }
            out.push(if c == '_' { ' ' } else { c });
            last = c;
        }
    }
    out
}

/// Returns whether a test runner wrote the text: what went wrong there failed a test.
pub(crate) fn in_tests(text: &OutputText<'_>) -> bool {
    const SUMMARIES: &[&str] = &[
        " passing (",
        "Test Suites: ",
        "Tests run: ",
        "test result: FAILED",
        "short test summary",
        "tests failed",
        "failing tests",
    ];
    let whole = text.whole().as_bytes();
    SUMMARIES.iter().any(|words| memchr::memmem::find(whole, words.as_bytes()).is_some())
}

/// Returns whether a build tool wrote the text: what went wrong there broke a build.
pub(crate) fn in_build(text: &OutputText<'_>) -> bool {
    const SUMMARIES: &[&str] = &[
        "* What went wrong:",
        "BUILD FAILED",
        "BUILD FAILURE",
        "build commands failed",
        "error during build",
        "Failed to compile",
        "Build failed",
        "make: ***",
        "ninja: build stopped",
        "error: could not compile",
        "> Task :",
    ];
    let whole = text.whole().as_bytes();
    SUMMARIES.iter().any(|words| memchr::memmem::find(whole, words.as_bytes()).is_some())
}

/// Returns the first words below line `number` that are no frame and no source code.
fn words_below<'t>(text: &OutputText<'t>, number: usize) -> Option<&'t str> {
    let lines = (number + 1..text.len().min(number + 4)).map(|n| peel(text.line(n)).core);
    let says = |line: &&str| line.chars().any(char::is_alphabetic) && !frames::is_frame(line);
    lines.filter(|line| !line.starts_with("raise ")).find(says).map(head::located)
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
        || core.ends_with(['{', '['])
        || core.ends_with(" '")
        || head::exception(core).is_some_and(|name| core.trim_end_matches(':').ends_with(name))
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
        .filter(|word| !telling::is_empty(word));
    telling.take(2).count() < 2 && !message.contains("panicked at")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(normalize(&OutputText::new(text), 0), want, "{text}");
    }

    #[test]
    fn what_varies_around_a_message_goes() {
        let want = "froberror cannot align left with right";
        check("FrobError: cannot align 'left' with 'right'. Did you mean: 'up'?", want);
        check("Uncaught FrobError: cannot align \"left\" with \"right\" (/srv/a/frob.py)", want);
        check("FrobError: cannot align `left` with `right` (C:\\a\\frob.py).", want);
        check(
            "src/a.frob:3:4: error: cannot align 'left' after 3 tries",
            "cannot align left after <n> tries",
        );
    }

    #[test]
    fn the_words_of_a_name_stand_apart() {
        for (line, want) in [
            ("shop.QuotaExceededError: ERR_SDK_GONE", "shop.Quota Exceeded Error: ERR SDK GONE"),
            ("TypeError: a is no function", "TypeError: a is no function"),
        ] {
            assert_eq!(part_camel_case(line), want, "{line}");
        }
    }

    #[test]
    fn the_summary_of_a_test_runner_tells_where_it_happened() {
        for (text, want) in [
            ("  0 passing (10s)\n  1 failing\n\n  Error: basket is full", true),
            ("Error: basket is full\n    at pay (/srv/shop/pay.js:3:4)", false),
        ] {
            assert_eq!(in_tests(&OutputText::new(text)), want, "{text}");
        }
    }

    #[test]
    fn the_summary_of_a_build_tool_tells_that_a_build_broke() {
        for (text, want) in [
            ("* What went wrong:\nExecution failed for task ':shop:frob'.\n> basket is full", true),
            ("Error: basket is full\n    at pay (/srv/shop/pay.js:3:4)", false),
        ] {
            assert_eq!(in_build(&OutputText::new(text)), want, "{text}");
        }
    }

    #[test]
    fn a_panic_is_the_same_whichever_compiler_told_it() {
        let said = "the till drawer is locked from within the shop";
        let want = "panicked at the till drawer is locked from within the shop";
        check(&format!("thread 'main' panicked at '{said}', /h/till/src/context.rs:54:26"), want);
        check(&format!("thread 'main' panicked at src/updater.rs:88:9:\n{said}"), want);
        let nothing = "called `Option::unwrap()` on a `None` value";
        let want = "thread main panicked at till.rs called option::unwrap() on a none value";
        check(&format!("thread 'main' panicked at '{nothing}', src/till.rs:54:26"), want);
        check(&format!("thread 'main' panicked at src/till.rs:88:9:\n{nothing}"), want);
    }

    #[test]
    fn a_bare_name_takes_the_words_below_it() {
        check("FrobError:\n  cannot align 'left' rail", "cannot align left rail");
    }

    #[test]
    fn a_head_that_names_nothing_takes_the_top_own_frame() {
        let frames =
            "    at align (/srv/shop/src/frob.js:3:4)\n    at main (/srv/shop/src/main.js:1:2)";
        check(
            &format!("TypeError: undefined is not a function\n{frames}"),
            "typeerror undefined is not a function in align@frob.js",
        );
        check(
            &format!("FrobError: cannot align the sprocket\n{frames}"),
            "cannot align the sprocket",
        );
    }
}
