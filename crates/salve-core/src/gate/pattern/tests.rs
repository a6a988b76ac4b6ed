//! Patterns against a matcher that is too simple to be wrong.

use proptest::prelude::*;

use super::*;

/// The rules, as plainly as they can be written.
fn naive(pattern: &str, text: &str) -> bool {
    fn glob(p: &[u8], t: &[u8]) -> bool {
        match p.split_first() {
            None => t.is_empty(),
            Some((b'*', rest)) => (0..=t.len()).any(|skip| glob(rest, &t[skip..])),
            Some((b, rest)) => t.first() == Some(b) && glob(rest, &t[1..]),
        }
    }
    let (p, t) = (pattern.as_bytes(), text.as_bytes());
    glob(p, t)
        || pattern.strip_suffix(" *").is_some_and(|bare| glob(bare.as_bytes(), t))
        || (!pattern.contains('*')
            && t.starts_with(p)
            && t.get(p.len()).is_some_and(|&b| !b.is_ascii_alphanumeric() && b != b'_'))
}

#[test]
fn patterns_match_as_the_rules_say() {
    for (pattern, text, want) in [
        ("git push", "git push", true),
        ("git push", "git push origin main", true),
        ("git push", "git push\torigin", true),
        ("git push", "git push;ls", true),
        ("git push", "git push-notes", true),
        ("git push", "git pushx", false),
        ("git push", "git push_all", false),
        ("git push", "git  push", false),
        ("git push", "Git push", false),
        ("git push", "git pus", false),
        ("git push", "echo git push", false),
        ("curl *", "curl", true),
        ("curl *", "curl x", true),
        ("curl *", "curlx", false),
        ("curl *", "curl\tx", false),
        ("rm -rf *", "rm -rf", true),
        ("rm -rf *", "rm -rf a\nb c", true),
        ("*", "", true),
        ("*", "anything\nat all", true),
        ("*curl*", "a; curl x", true),
        ("*curl*", "cur l", false),
        ("*.sh", "./a/.b/c.sh", true),
        ("*.sh", "./c.sh x", false),
        ("a.c", "abc", false),
        ("[ab]", "a", false),
        ("a?c", "abc", false),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("**", "x", true),
        ("* *", "a", true),
        ("é*", "éa", true),
    ] {
        assert_eq!(ApprovalPattern::new(pattern).matches(text), want, "{pattern:?} on {text:?}");
        assert_eq!(naive(pattern, text), want, "naive: {pattern:?} on {text:?}");
    }
}

fn template(text: &str) -> String {
    text.replace('?', "\0")
}

#[test]
fn a_hole_may_hold_whatever_would_match() {
    for (pattern, text, want) in [
        ("git push", "git ?", true),
        ("git push", "?", true),
        ("git push", "git pu?", true),
        ("git push", "git p?x", true),
        ("git push", "npm ?", false),
        ("git push", "git pull ?", false),
        ("curl *", "cu?l", true),
        ("curl *", "echo ?", false),
        ("*curl*", "echo ?", true),
        ("a*c", "?b", false),
        ("a*c", "a?", true),
        ("a*c", "?c?", true),
    ] {
        assert_eq!(
            ApprovalPattern::new(pattern).could_match(Template(&template(text))),
            want,
            "{pattern} {text}"
        );
    }
}

/// Tries every step of every reading against every byte: some text fits both.
fn overlap(readings: &[Vec<Symbol>], template: &[u8]) -> bool {
    fn fit(pattern: &[Symbol], template: &[u8]) -> bool {
        let takes = |symbol: Symbol, byte: u8| match symbol {
            Symbol::Byte(own) => own == byte,
            Symbol::Boundary => !(byte.is_ascii_alphanumeric() || byte == b'_'),
            Symbol::Any => true,
        };
        match (pattern.split_first(), template.split_first()) {
            (None, None) => true,
            (_, Some((0, rest))) => {
                fit(pattern, rest) || (!pattern.is_empty() && fit(&pattern[1..], template))
            }
            (Some((Symbol::Any, rest)), None) => fit(rest, template),
            (Some((Symbol::Any, rest)), Some((_, more))) => {
                fit(rest, template) || fit(pattern, more)
            }
            (Some((symbol, rest)), Some((byte, more))) => takes(*symbol, *byte) && fit(rest, more),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
    readings.iter().any(|reading| fit(reading, template))
}

#[test]
fn covering_is_never_claimed_wrongly() {
    for (wide, narrow, want) in [
        ("*", "git push", true),
        ("*", "rm -rf *", true),
        ("git *", "git push", true),
        ("git", "git push", true),
        ("git push", "git push", true),
        ("git push", "git push *", true),
        ("git push *", "git push", false),
        ("git push*", "git push", true),
        ("*push", "git push", false),
        ("git push", "git *", false),
        ("rm -rf *", "rm *", false),
        ("*curl*", "curl *", true),
    ] {
        assert_eq!(
            ApprovalPattern::new(wide).covers(&ApprovalPattern::new(narrow)),
            want,
            "{wide} / {narrow}"
        );
    }
}

#[test]
fn hostile_patterns_stay_quick() {
    let text = "a".repeat(32 * 1024);
    assert!(!ApprovalPattern::new(&format!("{}b", "*a".repeat(200))).matches(&text));
    let many = template(&"a?".repeat(2000));
    assert!(ApprovalPattern::new(&"a*".repeat(2000)).could_match(Template(&many)));
}

proptest! {
    #[test]
    fn the_matcher_agrees_with_the_naive_one(
        pattern in "[ab* _é]{1,8}",
        text in "[ab _;é]{0,10}",
    ) {
        prop_assert_eq!(ApprovalPattern::new(&pattern).matches(&text), naive(&pattern, &text));
    }

    #[test]
    fn a_filled_hole_that_matches_was_foreseen(
        pattern in "[ab* ]{1,7}",
        before in "[ab ]{0,4}",
        filling in "[ab ]{0,4}",
        after in "[ab ]{0,4}",
    ) {
        let pattern = ApprovalPattern::new(&pattern);
        let holed = format!("{before}\0{after}");
        let filled = format!("{before}{filling}{after}");
        if pattern.matches(&filled) {
            prop_assert!(pattern.could_match(Template(&holed)));
        }
        prop_assert!(Template(&holed).could_be(&filled));
    }

    #[test]
    fn what_could_match_does_for_some_filling(
        pattern in "[ab* _é]{1,7}",
        template in "[ab _é\0]{0,9}",
    ) {
        let want = overlap(&ApprovalPattern::new(&pattern).readings(), template.as_bytes());
        prop_assert_eq!(ApprovalPattern::new(&pattern).could_match(Template(&template)), want);
    }

    #[test]
    fn a_form_that_is_not_looked_at_does_not_match(
        pattern in "[ab* ]{1,6}",
        text in "[ab \0]{0,8}",
    ) {
        let pattern = ApprovalPattern::new(&pattern);
        let word = text.split(' ').next().unwrap_or("");
        if pattern.could_match(Template(&text)) {
            prop_assert!(pattern.may_occur(Template(&text)));
            prop_assert!(word.contains('\0') || pattern.may_start(word));
        }
    }

    #[test]
    fn what_a_covered_pattern_matches_the_wider_matches_too(
        wide in "[ab* ]{1,5}",
        narrow in "[ab* ]{1,5}",
        text in "[ab ;]{0,8}",
    ) {
        let (wide, narrow) = (ApprovalPattern::new(&wide), ApprovalPattern::new(&narrow));
        if wide.covers(&narrow) && narrow.matches(&text) {
            prop_assert!(wide.matches(&text), "{} / {} on {:?}", wide.text(), narrow.text(), text);
        }
    }
}
