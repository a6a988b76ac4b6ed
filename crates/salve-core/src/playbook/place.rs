//! Where in the project's own source a failure points to.

use std::sync::LazyLock;

use regex_automata::meta::Regex;

use super::facts::Facts;

/// How tools write a place: a path and a line.
const SHAPES: &[&str] = &[
    r#"File "(?P<path>[^"]+)", line (?P<line>\d+)"#,
    r"(?:^|[\s(\[])(?:file://)?(?P<path>[\w@./~+-]*[\w-]\.(?:[cm]?[jt]sx?|vue|svelte|astro|py|rs|go|rb|php|json|toml|ya?ml|css|scss|html)):(?P<line>\d+)",
    r"(?:^|[\s(\[])(?P<path>[\w@./~+-]*[\w-]\.[cm]?[jt]sx?)\((?P<line>\d+),\d+\)",
];

/// Directories whose files are not the project's own source.
const FOREIGN: &[&str] =
    &["node_modules/", "site-packages/", ".venv/", "/lib/python", "node:", "internal/", "<frozen"];

static PLACES: LazyLock<Vec<Regex>> =
    LazyLock::new(|| SHAPES.iter().filter_map(|shape| Regex::new(shape).ok()).collect());

/// Returns ` (file:line)` of the innermost place in the project's own source, or nothing.
///
/// Python writes the innermost frame last, everybody else first.
pub(super) fn told(near: &str, whole: &str, facts: &Facts) -> String {
    let found = [near, whole].into_iter().find_map(|text| {
        PLACES.iter().enumerate().find_map(|(index, regex)| {
            let own = places(regex, text, facts);
            if index == 0 { own.into_iter().last() } else { own.into_iter().next() }
        })
    });
    found.map(|place| format!(" ({place})")).unwrap_or_default()
}

fn places(regex: &Regex, text: &str, facts: &Facts) -> Vec<String> {
    let mut found = Vec::new();
    for groups in regex.captures_iter(text) {
        let group = |name| groups.get_group_by_name(name).map(|span| &text[span.range()]);
        let (Some(path), Some(line)) = (group("path"), group("line")) else { continue };
        let own = path.strip_prefix(&facts.root).map(|path| path.trim_start_matches('/'));
        let own = own.or_else(|| (!path.starts_with('/')).then_some(path));
        if let Some(own) = own.filter(|own| !FOREIGN.iter().any(|part| own.contains(part))) {
            found.push(format!("{own}:{line}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_place_in_the_projects_own_source_is_told() {
        let facts = Facts { root: "/p".into(), ..Facts::default() };
        let rows = [
            ("/p/server.js:4\n  x(\n\nSyntaxError: no", " (server.js:4)"),
            ("    at a (/p/node_modules/x/i.js:1:2)\n    at b (/p/src/b.ts:7:2)", " (src/b.ts:7)"),
            ("  File \"/p/a.py\", line 1, in x\n  File \"/p/b.py\", line 9\nKeyError", " (b.py:9)"),
            ("src/a.ts(3,4): error TS2322", " (src/a.ts:3)"),
            ("  --> src/main.rs:8:5", " (src/main.rs:8)"),
            ("    at node:internal/main.js:28:49", ""),
            ("/other/x.js:3", ""),
        ];
        for (text, want) in rows {
            assert_eq!(told(text, text, &facts), want, "{text}");
        }
        assert_eq!(PLACES.len(), SHAPES.len());
    }
}
