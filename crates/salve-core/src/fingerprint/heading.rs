//! Headings that tools draw around a name.

/// Returns a line without the rules that are drawn around it: `____ test_total ____`.
pub fn undecorated(line: &str) -> &str {
    let line = line.trim();
    let is_heading = ["___", "===", "---"].iter().any(|rule| line.starts_with(rule));
    let inner = line.trim_matches(|c| matches!(c, '_' | '=' | '-' | ' '));
    if is_heading && !inner.is_empty() { inner } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_drawn_around_a_name_goes() {
        let rows = [
            ("_______ test_total _______", "test_total"),
            ("=== FAILURES ===", "FAILURES"),
            ("--- FAIL: TestTotal (0.00s)", "FAIL: TestTotal (0.00s)"),
            ("__init__.py is missing", "__init__.py is missing"),
            ("_______", "_______"),
            ("  Error: x - y  ", "Error: x - y"),
        ];
        for (line, want) in rows {
            assert_eq!(undecorated(line), want);
        }
    }
}
