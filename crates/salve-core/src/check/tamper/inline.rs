//! Tests that stand in the same file as what they test, as in Rust.

use super::text::SourceText;

/// Returns the modules of tests in a file: where each begins, its mark included, and ends.
fn modules(source: &SourceText<'_>) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut from = 0;
    for (at, mark) in source.bare.match_indices("#[cfg(test)]") {
        if at < from {
            continue;
        }
        let rest = &source.bare[at + mark.len()..];
        let head = rest.split('{').next().unwrap_or_default();
        let words: Vec<&str> = head.split_whitespace().take(4).collect();
        let module =
            matches!(words.as_slice(), ["mod", _] | ["pub", "mod", _] | ["pub(crate)", "mod", _]);
        if module && rest.len() > head.len() {
            let open = at + mark.len() + head.len();
            from = source.closing(open);
            found.push((at, from));
        }
    }
    found
}

/// Tells whether the tests in a file are no longer what they were.
pub(super) fn differ(before: &SourceText<'_>, after: &SourceText<'_>) -> bool {
    let texts = |source: &SourceText<'_>| -> Vec<String> {
        modules(source).iter().map(|(start, end)| source.said[*start..*end].to_owned()).collect()
    };
    texts(before) != texts(after)
}

/// Returns the file as it is now with the tests as they were, if they can be told apart.
pub(super) fn merged(before: &SourceText<'_>, after: &SourceText<'_>) -> Option<String> {
    let (old, new) = (modules(before), modules(after));
    if old.len() < new.len() && !old.is_empty() {
        return None;
    }
    let mut text = String::with_capacity(after.text.len() + before.text.len());
    let mut at = 0;
    let mut old = old.iter();
    for (start, end) in &new {
        text.push_str(after.text.get(at..*start)?);
        if let Some((start, end)) = old.next() {
            text.push_str(before.text.get(*start..*end)?);
        }
        at = *end;
    }
    text.push_str(after.text.get(at..)?);
    for (start, end) in old {
        text.push_str("\n\n");
        text.push_str(before.text.get(*start..*end)?);
        text.push('\n');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::super::text::Language;
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, want: Option<&str>) {
        let source = |text| SourceText::new(text, Language::Rust);
        let (before, after) = (source(before), source(after));
        assert_eq!(merged(&before, &after).as_deref(), want, "{}", after.text);
    }

    #[test]
    fn the_tests_go_back_and_the_code_stays() {
        let tests =
            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() { assert_eq!(f(), '}'); }\n}";
        let weak = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {}\n}";
        let before = format!("fn f() {{ 1 }}\n{tests}\n");
        check(
            &before,
            &format!("fn f() {{ 2 }}\n{weak}\n"),
            Some(&format!("fn f() {{ 2 }}\n{tests}\n")),
        );
        check(&before, "fn f() { 2 }\n", Some(&format!("fn f() {{ 2 }}\n\n\n{tests}\n")));
        check("fn f() {}\n", &format!("fn f() {{}}\n{weak}\n"), Some("fn f() {}\n\n"));
        check(
            "#[cfg(test)]\nmod tests;\n",
            "#[cfg(test)]\nmod tests;\nfn g() {}\n",
            Some("#[cfg(test)]\nmod tests;\nfn g() {}\n"),
        );
    }
}
