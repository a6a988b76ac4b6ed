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
        && path[open + 1..].starts_with(|c: char| c.is_ascii_digit())
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

/// Returns the installed package that a path lies in.
pub(crate) fn package(path: &str) -> Option<&str> {
    let after = |marks: &[&str]| {
        let at = marks.iter().filter_map(|mark| path.rfind(mark).map(|at| at + mark.len())).max();
        at.map(|at| &path[at..])
    };
    let segment = |text: &'_ str| text.find(['/', '\\']).unwrap_or(text.len());
    // Vite keeps what it bundled of a package in one file of its name.
    if let Some(rest) = after(&["/.vite/deps/"]) {
        return rest.split(".js").next().filter(|name| !name.is_empty());
    }
    if let Some(rest) = after(&["node_modules/", "node_modules\\"]) {
        let end = segment(rest);
        let scoped = rest.starts_with('@') && end < rest.len();
        let end = if scoped { end + 1 + segment(&rest[end + 1..]) } else { end };
        return Some(&rest[..end]).filter(|name| !name.is_empty());
    }
    if let Some(rest) =
        after(&["site-packages/", "site-packages\\", "dist-packages/", "dist-packages\\"])
    {
        let name = rest[..segment(rest)].trim_end_matches(".py");
        return Some(name).filter(|name| !name.is_empty());
    }
    if let Some(rest) = after(&["registry/src/", "registry\\src\\"]) {
        let (_, rest) = rest.split_once(['/', '\\'])?;
        let (name, version) = rest[..segment(rest)].rsplit_once('-')?;
        return version.starts_with(|c: char| c.is_ascii_digit()).then_some(name);
    }
    if let Some(rest) = after(&["git/checkouts/", "git\\checkouts\\"]) {
        let (name, hash) = rest[..segment(rest)].rsplit_once('-')?;
        let hashed = hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit());
        return hashed.then_some(name);
    }
    let rest = after(&["pkg/mod/", "pkg\\mod\\"])?;
    rest.split_once('@').map(|(name, _)| name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_told_from_their_paths() {
        for (path, want) in [
            ("/a/node_modules/x/node_modules/@s/y/i.js", Some("@s/y")),
            ("C:\\a\\node_modules\\x\\i.js", Some("x")),
            ("/node_modules/.vite/deps/x.js?v=3be1f0c2", Some("x")),
            ("/v/lib/python3.9/site-packages/flask/app.py", Some("flask")),
            ("/v/lib/python3.9/site-packages/six.py", Some("six")),
            ("/h/.cargo/registry/src/index.host-6f17/time-core-0.3.34/src/a.rs", Some("time-core")),
            ("/h/.cargo/git/checkouts/rail-core-1d67d4e24063428f/6cb9d30/a.rs", Some("rail-core")),
            ("/go/pkg/mod/github.com/a/b@v1.2.3/c.go", Some("github.com/a/b")),
            ("/srv/app/main.rs", None),
        ] {
            assert_eq!(package(path), want, "{path}");
        }
    }

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
