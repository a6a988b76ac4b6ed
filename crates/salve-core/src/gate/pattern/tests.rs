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
        assert_eq!(Pattern::new(pattern).matches(text), want, "{pattern:?} on {text:?}");
        assert_eq!(naive(pattern, text), want, "naive: {pattern:?} on {text:?}");
    }
}

fn template(text: &str) -> Template {
    let mut template = Template::default();
    for (i, part) in text.split('?').enumerate() {
        if i > 0 {
            template.push_hole();
        }
        template.push(part);
    }
    template
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
        assert_eq!(Pattern::new(pattern).could_match(&template(text)), want, "{pattern} {text}");
    }
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
        assert_eq!(Pattern::new(wide).covers(&Pattern::new(narrow)), want, "{wide} / {narrow}");
    }
}

#[test]
fn hostile_patterns_stay_quick() {
    let text = "a".repeat(32 * 1024);
    assert!(!Pattern::new(&format!("{}b", "*a".repeat(200))).matches(&text));
    let many = template(&"a?".repeat(2000));
    assert!(Pattern::new(&"a*".repeat(2000)).could_match(&many));
}

proptest! {
    #[test]
    fn the_matcher_agrees_with_the_naive_one(
        pattern in "[ab* _é]{1,8}",
        text in "[ab _;é]{0,10}",
    ) {
        prop_assert_eq!(Pattern::new(&pattern).matches(&text), naive(&pattern, &text));
    }

    #[test]
    fn a_filled_hole_that_matches_was_foreseen(
        pattern in "[ab* ]{1,7}",
        before in "[ab ]{0,4}",
        filling in "[ab ]{0,4}",
        after in "[ab ]{0,4}",
    ) {
        let pattern = Pattern::new(&pattern);
        let mut holed = Template::known_text(&before);
        holed.push_hole();
        holed.push(&after);
        if pattern.matches(&format!("{before}{filling}{after}")) {
            prop_assert!(pattern.could_match(&holed));
        }
        let filled = format!("{before}{filling}{after}");
        prop_assert!(holed.could_be(&filled));
    }

    #[test]
    fn what_a_covered_pattern_matches_the_wider_matches_too(
        wide in "[ab* ]{1,5}",
        narrow in "[ab* ]{1,5}",
        text in "[ab ;]{0,8}",
    ) {
        let (wide, narrow) = (Pattern::new(&wide), Pattern::new(&narrow));
        if wide.covers(&narrow) && narrow.matches(&text) {
            prop_assert!(wide.matches(&text), "{} / {} on {:?}", wide.text(), narrow.text(), text);
        }
    }
}
