//! Values that a failed assertion compares: what a test wanted, and what it got.
//!
//! They are quotations. A test that wants `EADDRINUSE` and gets something else says nothing about
//! a port, whatever the words would mean elsewhere.

use std::borrow::Cow;

use super::frames;
use super::peel::peel;
use super::text::OutputText;

/// How far above a line of a difference the words stand that introduce it.
const REACH: usize = 40;
/// How far from one side of a comparison the other stands.
const OTHER_SIDE: usize = 4;

/// What stands between two values in one line.
const BETWEEN: &[&str] = &[
    " == ",
    " != ",
    " === ",
    " !== ",
    " in ",
    " not in ",
    " not found in ",
    " is not ",
    " to be ",
    " to equal ",
    " to deeply equal ",
    " to strictly equal ",
    " to match ",
    " to include ",
    " to contain ",
    " not equal ",
    " want ",
];

/// How the two sides of a comparison are named where each has lines of its own.
const SIDES: &[(&str, &str)] = &[
    ("Expected", "Received"),
    ("Expected", "Actual"),
    ("expected", "actual"),
    ("Expected", "got"),
    ("expected", "got"),
    ("left:", "right:"),
    ("want:", "got:"),
];

/// What introduces a difference, line by line.
const LEGENDS: &[&str] = &[
    "+ actual - expected",
    "+ expected - actual",
    "- Expected",
    "--- Expected",
    "(-want +got)",
    "(-got +want)",
    "Diff < left / right >",
    "AssertionError",
];

/// How a line takes part in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparedLine {
    /// It says that two values differ, and quotes both.
    Says,
    /// It is a part of one of the values.
    Holds,
}

/// Returns how line `number` takes part in a comparison, if it does.
pub(crate) fn compared(text: &OutputText<'_>, number: usize) -> Option<ComparedLine> {
    let body = peel(text.line(number)).body;
    if is_side(text, number, body) || is_difference(text, number, body) {
        return Some(ComparedLine::Holds);
    }
    says(body).then_some(ComparedLine::Says)
}

/// Returns a cleaned text with nothing in the place of the values that are compared; every other
/// character stays where it was.
pub(crate) fn without_compared(whole: &str) -> Cow<'_, str> {
    const SIGNS: &[&str] = &["ssert", "xpected", "want", "left:"];
    if !SIGNS.iter().any(|sign| memchr::memmem::find(whole.as_bytes(), sign.as_bytes()).is_some()) {
        return Cow::Borrowed(whole);
    }
    let text = OutputText::new(whole);
    let mut kept = whole.to_owned();
    for number in 0..text.len() {
        let (line, end) = (text.line(number), text.end(number));
        let start = end - line.len();
        let blank = match compared(&text, number) {
            None => continue,
            Some(ComparedLine::Holds) => start..end,
            Some(ComparedLine::Says) => {
                let quote = |c: char| matches!(c, '\'' | '"' | '`');
                match (line.find(quote), line.rfind(quote)) {
                    (Some(first), Some(last)) if first < last => start + first..start + last + 1,
                    (Some(_) | None, _) => continue,
                }
            }
        };
        let nothing = " ".repeat(blank.len());
        kept.replace_range(blank, &nothing);
    }
    Cow::Owned(kept)
}

/// Returns whether a line says in itself that two values differ.
fn says(body: &str) -> bool {
    if !body.contains(['\'', '"', '`']) {
        return false;
    }
    let asserts = body.contains("AssertionError")
        || body.starts_with("assert ")
        || body.contains(" - assert ")
        || ["expected '", "expected \"", "got '", "got \""].iter().any(|one| body.contains(one));
    asserts && BETWEEN.iter().any(|between| body.contains(between))
}

/// Returns whether a line is one side of a comparison, and the other stands nearby.
///
/// An error that a test got is no quotation but what happened: `Received: [Error: …]`.
fn is_side(text: &OutputText<'_>, number: usize, body: &str) -> bool {
    let is_named = |line: &str, name: &str| {
        line.strip_prefix(name).is_some_and(|rest| {
            let words = rest.split_once(':').map(|(words, _)| words);
            let plain = |words: &str| words.chars().all(|c| c == ' ' || c.is_ascii_lowercase());
            name.ends_with(':') || words.is_some_and(plain)
        })
    };
    let near = number.saturating_sub(OTHER_SIDE)..=number + OTHER_SIDE;
    let has = |name: &str| near.clone().any(|n| is_named(peel(text.line(n)).body, name));
    SIDES.iter().any(|(wanted, got)| {
        let is_wanted = is_named(body, wanted) && has(got);
        let is_got = is_named(body, got) && !body.contains("[") && has(wanted);
        is_wanted || is_got
    })
}

/// Returns whether a line belongs to a difference between two values.
fn is_difference(text: &OutputText<'_>, number: usize, body: &str) -> bool {
    if !body.starts_with(['+', '-', '<', '>']) {
        return false;
    }
    let above = (number.saturating_sub(REACH)..number).rev().map(|n| peel(text.line(n)).body);
    let introduces = |line: &str| {
        line.starts_with("assert ") || LEGENDS.iter().any(|legend| line.contains(legend))
    };
    above.take_while(|line| !frames::is_frame(line)).any(introduces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::fingerprint::{FingerprintRules, Hints};

    /// What tests of several tools print that want one failure's text and get another's.
    const TESTS: &[&str] = &[
        "    def test_x():\n>       assert f() == \"Error: listen EADDRINUSE: address already in use 127.0.0.1:1\"\n\
         E       AssertionError: assert 'ENOSPC: no s...eft on device' == 'Error: liste... 127.0.0.1:1'\n\
         E         \nE         - Error: listen EADDRINUSE: address already in use 127.0.0.1:1\n\
         E         + ENOSPC: no space left on device\n\ntest_a.py:4: AssertionError\n\
         FAILED test_a.py::test_x - AssertionError: assert 'ENOSPC: no s...eft on device' == 'Er'",
        "FAIL ./a.test.js\n  ● a\n\n    expect(received).toBe(expected) // Object.is equality\n\n    \
         Expected: \"Error: listen EADDRINUSE: address already in use 127.0.0.1:1\"\n    \
         Received: \"ENOSPC: no space left on device\"\n\n      at Object.toBe (a.test.js:1:46)",
        " FAIL  a.test.js > a\nAssertionError: expected 'ENOSPC: no space left on device' to be \
         'Error: listen EADDRINUSE: address al…' // Object.is equality\n\n- Expected\n+ Received\n\n\
         - Error: listen EADDRINUSE: address already in use 127.0.0.1:1\n\
         + ENOSPC: no space left on device\n\n ❯ a.test.js:3:17",
        "thread 'tests::x' (12345) panicked at src/lib.rs:5:9:\nassertion `left == right` failed\n  \
         left: \"Error: listen EADDRINUSE: address already in use 127.0.0.1:1\"\n right: \"No space \
         left on device\"\ntest result: FAILED. 0 passed; 1 failed",
        "--- FAIL: TestX (0.00s)\n    a_test.go:7: got \"ENOSPC: no space left on device\", want \
         \"listen tcp :8080: bind: address already in use\"\nFAIL\nFAIL\tshop\t0.002s",
        "FAIL: test_x (test_a.T.test_x)\nTraceback (most recent call last):\n  File \"/p/test_a.py\", \
         line 5, in test_x\n    self.assertEqual(f(), 1)\nAssertionError: 'ENOSPC: no space left on \
         device' != 'Error: listen EADDRINUSE: address already in use 127.0.0.1:1'\n\
         - ENOSPC: no space left on device\n\
         + Error: listen EADDRINUSE: address already in use 127.0.0.1:1\n",
        "AssertionError [ERR_ASSERTION]: Expected values to be strictly equal:\n\
         + actual - expected\n\n+ 'ENOSPC: no space left on device'\n\
         - 'Error: listen EADDRINUSE: address already in use 127.0.0.1:1'\n\n    \
         at Object.<anonymous> (/p/t.js:1:19)",
        "  1) a\n       says:\n\n      AssertionError: expected 'ENOSPC: no space left on device' to \
         equal 'Error: listen EADDRINUSE: address already in use 127.0.0.1:1'\n      \
         + expected - actual\n\n      -ENOSPC: no space left on device\n      \
         +Error: listen EADDRINUSE: address already in use 127.0.0.1:1\n      \
         at Context.<anonymous> (t.js:1:60)",
    ];

    #[test]
    fn what_a_test_compares_does_not_name_the_failure() {
        for text in TESTS {
            let found = FingerprintRules::built_in().fingerprint(text, &Hints::default());
            assert_eq!(found.class, Class::TestFailure, "{}\n{text}", found.key_line);
            let rest = without_compared(text);
            assert_eq!(rest.len(), text.len());
            assert!(!rest.contains("EADDRINUSE: address already in use 127"), "{rest}");
            assert!(!rest.contains("no space left"), "{rest}");
        }
    }

    #[test]
    fn what_happened_to_a_test_still_names_the_failure() {
        for text in [
            "Error: listen EADDRINUSE: address already in use 127.0.0.1:3000\n    at Server.setup",
            "- Error: listen EADDRINUSE: address already in use 127.0.0.1:3000",
            "  ● a\n\n    expect(received).toBeNull()\n\n    \
             Received: [Error: listen EADDRINUSE: address already in use 127.0.0.1:3000]",
            "E       OSError: [Errno 98] Address already in use\n\ntest_a.py:4: OSError",
        ] {
            let found = FingerprintRules::built_in().fingerprint(text, &Hints::default());
            assert_eq!(found.class, Class::PortConflict, "{}\n{text}", found.key_line);
            assert!(without_compared(text).to_lowercase().contains("address already in use"));
        }
    }
}
