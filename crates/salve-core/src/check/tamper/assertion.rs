//! What a test asserts, and how much that says.

use std::ops::Range;

use super::text::{Language, SourceText, calls, near};

/// The most assertions that are looked at in a test.
const MOST: usize = 400;

/// The longest assertion that is looked at whole.
const LONGEST: usize = 2_000;

/// How much an assertion says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// It cannot fail.
    Trivial,
    /// Many values would do.
    Loose,
    /// It names the value.
    Exact,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assertion {
    /// Where it stands.
    pub(super) at: usize,
    /// Its text on one line.
    pub(super) text: String,
    /// How much it says.
    pub(super) strength: Strength,
}

impl Assertion {
    /// Returns what it is about: the same in an assertion that expects something else of it.
    pub(super) fn subject(&self) -> &str {
        let text = self.text.as_str();
        let inner = match text.find(['(', ' ']) {
            Some(open) => &text[open + 1..],
            None => text,
        };
        first_argument(inner).trim()
    }

    /// Returns how far off a value may be, if the assertion says.
    pub(super) fn tolerance(&self) -> Option<f64> {
        let after = |key: &str| {
            let at = self.text.find(key)? + key.len();
            let rest = self.text[at..].trim_start_matches([' ', '=', ':']);
            let digits =
                |c: char| !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '-' | '_'));
            let end = rest.find(digits).unwrap_or(rest.len());
            rest[..end].replace('_', "").parse::<f64>().ok()
        };
        let wide =
            ["rel=", "abs=", "delta=", "rtol=", "atol=", "epsilon =", "epsilon=", "tolerance="];
        if let Some(value) = wide.iter().find_map(|key| after(key)) {
            return Some(value);
        }
        // The more digits must agree, the less a value may be off.
        let places = after("places=").or_else(|| {
            let (_, rest) = self.text.split_once(".toBeCloseTo(")?;
            rest.rsplit_once(',')?.1.trim_matches([' ', ')', ';']).parse().ok()
        });
        places.map(|places: f64| -places)
    }
}

/// The words that begin an assertion.
fn heads(language: Language) -> &'static [&'static str] {
    match language {
        Language::Python => &[
            "assert ",
            "assert(",
            "self.assert",
            "self.fail(",
            "pytest.raises(",
            "pytest.fail(",
            "np.testing.assert",
            "numpy.testing.assert",
            "assert_that(",
        ],
        Language::Script => &[
            "expect(",
            "assert(",
            "assert.",
            "expect.assertions(",
            "expectTypeOf(",
            "chai.expect(",
            "t.is(",
            "t.deepEqual(",
            "t.true(",
            "t.throws(",
            "cy.contains(",
        ],
        Language::Rust => &[
            "assert!",
            "assert_eq!",
            "assert_ne!",
            "assert_matches!",
            "debug_assert!",
            "debug_assert_eq!",
            "prop_assert!",
            "prop_assert_eq!",
            "assert_snapshot!",
            "panic!",
            "insta::assert_snapshot!",
            "insta::assert_debug_snapshot!",
            "insta::assert_json_snapshot!",
            "matches!",
            "unreachable!",
        ],
        Language::Go => &[
            "t.Error(",
            "t.Errorf(",
            "t.Fatal(",
            "t.Fatalf(",
            "t.Fail(",
            "t.FailNow(",
            "assert.",
            "require.",
            "b.Fatal(",
            "f.Fatal(",
        ],
    }
}

/// Returns the assertions between two places.
pub(super) fn assertions(source: &SourceText<'_>, span: &Range<usize>) -> Vec<Assertion> {
    let (start, end) = (span.start, span.end);
    let Some(bare) = source.bare.get(span.clone()) else { return Vec::new() };
    let heads = heads(source.language).iter();
    let mut places: Vec<usize> = heads.flat_map(|head| calls(bare, head).take(MOST)).collect();
    places.sort_unstable();
    let mut found: Vec<Assertion> = Vec::new();
    let mut last = 0;
    for at in places.into_iter().take(MOST).map(|at| start + at) {
        // What stands within another assertion is part of it.
        if at < last {
            continue;
        }
        let (text, stop) = statement(source, at, end);
        last = stop.max(at + 1);
        let strength = strength(&text, source.language);
        found.push(Assertion { at, text, strength });
    }
    found
}

/// Returns the statement at a place on one line, up to its end with brackets closed, and that end.
fn statement(source: &SourceText<'_>, start: usize, end: usize) -> (String, usize) {
    let bytes = source.bare.as_bytes();
    let mut at = start;
    let limit = end.min(start + LONGEST);
    while at < limit {
        match bytes[at] {
            b'(' | b'[' | b'{' => {
                at = source.closing(at).max(at + 1);
                continue;
            }
            b';' | b')' | b']' | b'}' => break,
            b'\n' => {
                // A chain goes on below.
                let next = near(&source.bare, at, 200).trim_start();
                if !next.starts_with('.') {
                    break;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let at = at.min(end);
    let said = source.said.get(start..at).unwrap_or_default();
    let mut text = said.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
    }
    (text, at)
}

/// Returns the text up to the first comma, comparison or closing bracket outside of brackets.
fn first_argument(text: &str) -> &str {
    let mut depth = 0_usize;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return &text[..at],
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => return &text[..at],
            b'<' | b'>' if depth == 0 && at > 0 => return &text[..at],
            b'=' | b'!' if depth == 0 && at > 0 && bytes.get(at + 1) == Some(&b'=') => {
                return &text[..at];
            }
            b' ' if depth == 0
                && (text[at..].starts_with(" is ") || text[at..].starts_with(" in ")) =>
            {
                return &text[..at];
            }
            _ => {}
        }
    }
    text
}

/// Returns how much an assertion says.
fn strength(text: &str, language: Language) -> Strength {
    if is_trivial(text, language) {
        return Strength::Trivial;
    }
    let loose = match language {
        Language::Python => python_is_loose(text),
        Language::Script => [
            ".toBeDefined(",
            ".toBeTruthy(",
            ".toBeFalsy(",
            ".not.",
            ".toBeInstanceOf(",
            ".toMatchObject(",
            ".toBeGreaterThan",
            ".toBeLessThan",
            ".toContain(",
            "expect.any",
            "assert.ok(",
            "assert(",
            ".toHaveBeenCalled()",
            ".to.exist",
            ".to.be.ok",
            "assert.exists(",
            ".toBeTypeOf(",
            "assert.isOk(",
            "assert.isDefined(",
            "assert.notEqual(",
            "assert.doesNotThrow(",
            ".toThrow()",
        ]
        .iter()
        .any(|word| text.contains(word)),
        Language::Rust => {
            text.contains("assert_ne!")
                || (text.contains("assert!") && !text.contains("==") && !text.contains("matches!"))
        }
        Language::Go => [".NotNil(", ".NotEmpty(", ".NoError(", ".NotEqual(", ".True(", ".IsType("]
            .iter()
            .any(|word| text.contains(word)),
    };
    if loose { Strength::Loose } else { Strength::Exact }
}

fn python_is_loose(text: &str) -> bool {
    let methods = [
        "assertTrue(",
        "assertFalse(",
        "assertIsNotNone(",
        "assertIn(",
        "assertIsInstance(",
        "assertNotEqual(",
        "assertGreater",
        "assertLess",
        "assertRegex(",
        "pytest.raises(Exception)",
        "pytest.raises(BaseException)",
    ];
    if methods.iter().any(|method| text.contains(method)) {
        return !text.contains("==");
    }
    let Some(condition) = text.strip_prefix("assert ").or_else(|| text.strip_prefix("assert("))
    else {
        return false;
    };
    let exact = condition.contains("==")
        || condition.ends_with(" is None")
        || condition.ends_with(" is True")
        || condition.ends_with(" is False");
    !exact
}

/// Tells whether an assertion holds whatever the code does.
fn is_trivial(text: &str, language: Language) -> bool {
    let text = text.trim_end_matches(';');
    if text.contains(" or True") || text.contains("|| true") || text.contains("||true") {
        return true;
    }
    let Some(open) = text.find(['(', ' ']) else { return false };
    let inner = &text[open + 1..];
    match language {
        Language::Python if text.starts_with("assert") => {
            let condition =
                inner.trim_end_matches(')').split(',').next().unwrap_or_default().trim();
            match condition.split_once("==").or_else(|| condition.split_once(" is ")) {
                Some((left, right)) => left.trim() == right.trim(),
                None => is_true(condition),
            }
        }
        Language::Script if text.starts_with("expect(") => {
            let subject = first_argument(inner).trim();
            let rest = &inner[subject.len().min(inner.len())..];
            let expected =
                rest.rsplit_once('(').map_or("", |(_, end)| end.trim_end_matches(')')).trim();
            let literal = is_literal(subject);
            literal && (expected == subject || expected.is_empty()) && rest.contains('.')
        }
        Language::Python | Language::Script | Language::Rust | Language::Go => {
            let first = first_argument(inner).trim();
            let rest = inner[first_argument(inner).len()..].trim_start_matches([',', ' ']);
            let rest = rest.trim_start_matches("== ").trim_start_matches("==");
            let second = first_argument(rest).trim();
            // Go's helpers take the test itself first.
            let (first, second) = match (first, language) {
                ("t", Language::Go) => {
                    let rest = rest[second.len()..].trim_start_matches([',', ' ']);
                    (second, first_argument(rest).trim())
                }
                pair => (pair.0, second),
            };
            let compares = text.contains("qual") || text.contains("_eq!") || text.contains("==");
            (second.is_empty() && is_true(first))
                || (compares && !first.is_empty() && first == second)
        }
    }
}

fn is_true(text: &str) -> bool {
    matches!(text, "True" | "true" | "1" | "!false" | "not False" | "!0" | "!!1")
        || (text.len() > 2 && text.starts_with(['"', '\'']) && text.ends_with(['"', '\'']))
}

fn is_literal(text: &str) -> bool {
    let quoted = text.starts_with(['"', '\'', '`']) && text.ends_with(['"', '\'', '`']);
    let number = text.parse::<f64>().is_ok();
    quoted || number || matches!(text, "true" | "false" | "null" | "undefined" | "{}" | "[]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use Language::{Go, Python, Rust, Script};
    use Strength::{Exact, Loose, Trivial};

    #[track_caller]
    fn check(language: Language, text: &str, want: Strength) {
        let source = SourceText::new(text, language);
        let found = assertions(&source, &(0..text.len()));
        let [assertion] = found.as_slice() else { panic!("{text}: {found:?}") };
        assert_eq!(assertion.strength, want, "{text}");
    }

    #[test]
    fn an_assertion_says_much_little_or_nothing() {
        for text in [
            "assert f(1) == 2",
            "assert x is None",
            "self.assertEqual(a, b)",
            "with pytest.raises(KeyError):",
        ] {
            check(Python, text, Exact);
        }
        for text in [
            "assert f(1)",
            "assert x is not None",
            "assert x in y",
            "self.assertTrue(x)",
            "assert isinstance(x, int)",
            "with pytest.raises(Exception):",
        ] {
            check(Python, text, Loose);
        }
        for text in [
            "assert True",
            "assert 1",
            "assert 1 == 1",
            "assert x == x",
            "self.assertTrue(True)",
            "self.assertEqual(1, 1)",
            "assert f(1) == 2 or True",
            "assert 'message'",
        ] {
            check(Python, text, Trivial);
        }
        for text in [
            "expect(f(1)).toBe(2);",
            "expect(x)\n  .toEqual({ a: 1 })",
            "assert.strictEqual(a, b)",
            "expect(() => f()).toThrow(TypeError)",
            "expect(x).toBeNull()",
        ] {
            check(Script, text, Exact);
        }
        for text in [
            "expect(x).toBeDefined()",
            "expect(x).not.toBe(3)",
            "assert.ok(x)",
            "expect(x).toEqual(expect.anything())",
            "expect(f).toThrow()",
        ] {
            check(Script, text, Loose);
        }
        for text in [
            "expect(true).toBe(true);",
            "expect(1).toBe(1)",
            "expect(true).toBeTruthy()",
            "assert(true)",
            "assert.equal(1, 1)",
        ] {
            check(Script, text, Trivial);
        }
    }

    #[test]
    fn so_does_one_in_rust_or_go() {
        for text in ["assert_eq!(f(1), 2);", "assert!(x == 2)", "assert!(matches!(x, Some(1)))"] {
            check(Rust, text, Exact);
        }
        for text in ["assert!(f().is_ok());", "assert_ne!(a, b)"] {
            check(Rust, text, Loose);
        }
        for text in
            ["assert!(true);", "assert_eq!(1, 1);", "assert_eq!(x, x)", "assert!(x || true)"]
        {
            check(Rust, text, Trivial);
        }
        check(Go, "require.Equal(t, 3, Add(1, 2))", Exact);
        check(Go, "t.Fatalf(\"got %d\", n)", Exact);
        check(Go, "assert.NotNil(t, x)", Loose);
        check(Go, "assert.Equal(t, 1, 1)", Trivial);
        check(Go, "assert.True(t, true)", Trivial);
    }

    #[test]
    fn an_assertion_is_about_something_and_may_be_off_by_something() {
        let of = |language, text: &str| {
            let source = SourceText::new(text, language);
            assertions(&source, &(0..text.len())).remove(0)
        };
        assert_eq!(of(Python, "assert f(1, 2) == 3").subject(), "f(1, 2)");
        assert_eq!(of(Script, "expect(f(1)).toBe(2)").subject(), "f(1)");
        assert_eq!(of(Rust, "assert_eq!(add(1, 1), 2)").subject(), "add(1, 1)");
        assert_eq!(of(Python, "assert x == pytest.approx(1, rel=1e-3)").tolerance(), Some(1e-3));
        assert_eq!(of(Script, "expect(x).toBeCloseTo(0.3, 5)").tolerance(), Some(-5.0));
        assert_eq!(of(Python, "self.assertAlmostEqual(a, b, places=2)").tolerance(), Some(-2.0));
        assert_eq!(of(Python, "assert x == 3").tolerance(), None);
    }
}
