//! What holds for every output: golden signatures, one identity through every wrapper, and
//! properties over made-up text.

use proptest::prelude::*;

use super::*;

/// Failures as their tools print them, and the signature each must keep for ever.
///
/// Written as `signature class` on one line, the output indented below it.
const GOLDEN: &str = include_str!("golden.txt");

fn print(text: &str) -> Fingerprint {
    FingerprintRules::built_in().fingerprint(text, &Hints::default())
}

/// Splits the golden file into head line and output.
fn golden() -> Vec<(String, String)> {
    let mut cases: Vec<(String, String)> = Vec::new();
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix("    "), cases.last_mut()) {
            (Some(text), Some((_, output))) => *output += &format!("{text}\n"),
            (None, _) if !line.trim().is_empty() => cases.push((line.to_owned(), String::new())),
            _ => {}
        }
    }
    cases
}

/// **Invariant:** Signatures are stable across releases.
#[test]
fn golden_signatures_never_change() {
    let cases = golden();
    assert!(cases.len() >= 40, "{}", cases.len());
    let mut wrong = Vec::new();
    for (want, text) in &cases {
        let got = print(text);
        let line = format!("{} {}", got.signature, got.class);
        if line != *want {
            wrong.push(format!("{want}\n  is now {line}: {}\n{text}", got.normalized));
        }
    }
    assert!(wrong.is_empty(), "{} changed:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn golden_failures_are_told_apart() {
    let mut seen = std::collections::HashSet::new();
    for (head, _) in golden() {
        assert!(seen.insert(head.clone()), "{head} twice");
    }
}

#[test]
fn a_test_that_its_surroundings_failed_is_their_failure() {
    let cases = [
        (
            "FAILED tests/test_till.py::test_sell - ConnectionRefusedError: [Errno 111] Connection refused",
            "network",
        ),
        (
            "FAILED tests/test_till.py::test_sell - ModuleNotFoundError: No module named 'tillkit'",
            "import_error",
        ),
        (
            " FAIL  src/till.test.ts > till > sells\nError: connect ECONNREFUSED 127.0.0.1:6380",
            "network",
        ),
        (
            "______ test_sell ______\n\n    def test_sell():\n>       sell()\n\ntill.py:3:\n\
             E       ModuleNotFoundError: No module named 'tillkit'",
            "import_error",
        ),
        // What the code does wrong is the test's failure, and so is what a passing test said.
        ("FAILED tests/test_till.py::test_sell - assert 3 == 4", "test_failure"),
        (
            "FAILED tests/test_till.py::test_sell - AttributeError: 'Till' object has no attribute 'sel'",
            "test_failure",
        ),
        (
            "ConnectionRefusedError: [Errno 111] Connection refused\n\
             FAILED tests/test_till.py::test_sell - assert 3 == 4",
            "test_failure",
        ),
    ];
    for (text, class) in cases {
        assert_eq!(print(text).class.as_str(), class, "{text}: {}", print(text).normalized);
    }
}

#[test]
fn a_panic_is_classed_by_its_message() {
    for (message, class) in [
        ("TILL_URL must be set: NotPresent", "config_error"),
        ("index out of bounds: the len is 3 but the index is 3", "runtime_error"),
        ("nothing in the till", "runtime_error"),
    ] {
        let text = format!(
            "thread 'main' panicked at src/main.rs:4:10:\n{message}\nnote: run with `RUST_BACKTRACE=1`"
        );
        assert_eq!(print(&text).class.as_str(), class, "{message}: {}", print(&text).normalized);
    }
}

/// Puts something around an output.
type Wrap = fn(&str) -> String;

/// Ways in which the same output arrives.
fn wrappers() -> Vec<(&'static str, Wrap)> {
    fn lines(text: &str, wrap: impl Fn(&str) -> String) -> String {
        text.lines().map(|line| wrap(line) + "\n").collect()
    }
    vec![
        ("npm", |text| lines(text, |line| format!("npm ERR! {line}"))),
        ("new npm", |text| lines(text, |line| format!("npm error {line}"))),
        ("compose", |text| lines(text, |line| format!("web-1  | {line}"))),
        ("BuildKit", |text| lines(text, |line| format!("#12 3.414 {line}"))),
        ("CI", |text| lines(text, |line| format!("2024-05-01T10:00:00.1234567Z {line}"))),
        ("pm2", |text| lines(text, |line| format!("0|shop  | {line}"))),
        ("colours", |text| lines(text, |line| format!("\x1b[31m{line}\x1b[0m"))),
        ("Windows", |text| lines(text, |line| format!("{line}\r"))),
        ("a long start", |text| format!("{}{text}", "GET /basket 200 in 3 ms\n".repeat(500))),
        ("npm's own warning", |text| {
            format!(
                "npm warn Unknown user config \"nodedir\". This will stop working in the next major version of npm.\n{text}"
            )
        }),
        ("progress", |text| format!("10%\r50%\r100%\n{text}")),
    ]
}

/// **Invariant:** The same failure has one signature through every wrapper.
#[test]
fn the_same_failure_has_one_signature_through_every_wrapper() {
    let mut wrong = Vec::new();
    for (_, text) in golden() {
        let want = print(&text);
        for (name, wrap) in wrappers() {
            let got = print(&wrap(&text));
            if (got.signature, got.class) != (want.signature, want.class) {
                wrong.push(format!("{name}: {} became {}", want.normalized, got.normalized));
            }
        }
    }
    assert!(wrong.is_empty(), "{} split:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn exits_without_words_are_classified_by_evidence_only() {
    let class = |exit_code, signal: Option<&str>| {
        let hints = Hints { exit_code, signal: signal.map(Into::into), tool: None };
        FingerprintRules::built_in().fingerprint("", &hints).class
    };
    assert_eq!(class(Some(127), None), Class::MissingTool);
    assert_eq!(class(Some(126), None), Class::Permission);
    assert_eq!(class(Some(139), None), Class::RuntimeError);
    assert_eq!(class(None, Some("SIGSEGV")), Class::RuntimeError);
    assert_eq!(class(Some(137), None), Class::Unknown);
    assert_eq!(class(None, Some("KILL")), Class::Unknown);
    assert_eq!(class(None, None), Class::Unknown);
}

#[test]
fn a_package_managers_word_on_its_own_settings_names_no_failure() {
    let said = "npm warn Unknown user config \"nodedir\". This will stop working in the next major version of npm. See `npm help npmrc`.\n\n> dev\n> node server.js\n";
    assert_eq!(print(said).class, Class::Unknown);
}

#[test]
fn a_line_that_only_announces_a_text_names_nothing() {
    let tap = |test: &str| {
        format!(
            "TAP version 13\nnot ok 1 - {test}\n  ---\n  failureType: 'testCodeFailure'\n  \
             error: |-\n    Expected values to be strictly equal:\n    2 !== 3\n  \
             name: 'AssertionError'\n  ...\n"
        )
    };
    assert_eq!(print(&tap("adds")).key_line, "not ok 1 - adds");
    assert_ne!(print(&tap("adds")).signature, print(&tap("takes away")).signature);
}

#[test]
fn a_place_alone_names_nothing_and_a_message_that_begins_like_code_does() {
    let output = "ERROR in ./src/shop.frob 31:35-41\n\nexport 'rail' was not found in 'frobkit'";
    assert_eq!(print(output).normalized, "node.export_not_found(\"frobkit\",\"rail\")");
}

#[test]
fn a_member_that_a_person_named_needs_no_place() {
    let print = |expr: &str, file: &str| {
        print(&format!("TypeError: {expr} is not a function\n    at sell (/srv/shop/{file}:3:4)"))
    };
    for (expr, same) in [("till.drawers", true), ("e.map", false), ("n", false)] {
        let (one, other) = (print(expr, "till.js"), print(expr, "basket.js"));
        assert_eq!(one.signature == other.signature, same, "{expr}: {}", one.normalized);
    }
}

#[test]
fn hints_do_not_change_the_signature_of_an_output() {
    let hints = Hints { exit_code: Some(1), signal: Some("TERM".into()), tool: Some("npm".into()) };
    let text = "TypeError: basket.total is not a function";
    assert_eq!(
        FingerprintRules::built_in().fingerprint(text, &hints).signature,
        print(text).signature
    );
}

#[test]
fn a_mark_of_the_scrubber_identifies_by_its_kind_alone() {
    let one = print("Error: token [secret:github-token:3fa9c1d2] was turned away");
    let other = print("Error: token [secret:github-token:00000000] was turned away");
    assert_eq!(one, other);
    assert!(one.key_line.contains("[secret:github-token]"), "{}", one.key_line);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_panics_and_the_answer_is_always_the_same(text in "(?s).{0,400}") {
        prop_assert_eq!(print(&text), print(&text));
    }

    #[test]
    fn pieces_of_real_failures_do_not_panic(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "error", "Error: ", "npm ERR! ", "Cannot find module '", "\x1b[31m", "\r", "\n", "    at ", "(", ")", ":",
                "File \"", "\", line 3, in ", "[", "]", "{", "}", "'", "\"", "`", "/srv/a.js", "3000", "web-1  | ", "#12 ",
                "listen EADDRINUSE", " ", "é", "\u{fffd}", "\t", "->", "panicked at ", "goroutine 1", "C:\\", "https://", "@1.2.3",
                "2024-05-01T10:00:00Z ", "{\"message\":\"", "::error ", "##[", "E   ", "Caused by: ", "[secret:",
            ]),
            0..40,
        ),
    ) {
        let text = parts.concat();
        prop_assert_eq!(print(&text), print(&text));
    }

    #[test]
    fn masking_twice_is_masking_once(text in "[a-zA-Z0-9 /\\\\:._@#'\"`<>()=,;|%+-]{0,120}") {
        let once = mask(&text);
        prop_assert_eq!(mask(&once), once);
    }

    #[test]
    fn cleaning_twice_is_cleaning_once(text in "[a-z\\x1b\\[\\]0-9;m\r\n\x08\x07\\\\ ]{0,120}") {
        let once = clean(&text).into_owned();
        prop_assert_eq!(clean(&once).into_owned(), once);
    }
}
