//! File paths as they stand in messages.

/// Returns the base name of a path, without a position behind it (`:12:3`, `(12,3)`).
pub(crate) fn base(path: &str) -> &str {
    let path = strip_position(path.trim_matches(['\'', '"', '`']));
    let path = path.trim_end_matches(['/', '\\']);
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.split(['?', '#']).next().filter(|name| !name.is_empty()).unwrap_or(name)
}

/// Cuts `:12`, `:12:3` and `(12,3)` off the end of a path.
pub(crate) fn strip_position(path: &str) -> &str {
    let mut path = path.trim_end_matches([':', ',']);
    if let Some(open) = path.strip_suffix(')').and_then(|inner| inner.rfind('('))
        && path[open + 1..path.len() - 1].bytes().all(|b| b.is_ascii_digit() || b == b',')
    {
        path = &path[..open];
    }
    for _ in 0..2 {
        match path.rsplit_once(':') {
            Some((head, digits))
                if !head.is_empty()
                    && !digits.is_empty()
                    && digits.bytes().all(|b| b.is_ascii_digit()) =>
            {
                path = head;
            }
            _ => break,
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_names_come_without_directories_and_positions() {
        for (path, want) in [
            ("/srv/app/src/main.ts:12:3", "main.ts"),
            ("C:\\Users\\dev\\app\\main.ts(12,3):", "main.ts"),
            ("/srv/my app/", "my app"),
            ("src/a.vue?type=script", "a.vue"),
            ("main.go:7", "main.go"),
            ("plain", "plain"),
            ("/", ""),
        ] {
            assert_eq!(base(path), want, "{path}");
        }
    }
}
