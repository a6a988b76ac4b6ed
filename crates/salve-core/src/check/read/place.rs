//! Files and lines in a line of output.

use super::super::results::ErrorPlace;

/// Parts of a path that say: not the project's own file.
const FOREIGN: [&str; 12] = [
    "node_modules/",
    "site-packages/",
    "dist-packages/",
    "/rustc/",
    "/.cargo/",
    "/lib/python",
    "/go/src/",
    "/usr/lib/",
    "/usr/include/",
    "/pkg/mod/",
    "doctest_bundle",
    "/rustlib/",
];

/// A file and a line that are surely a test's own, so the file may be anyone's.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) file: String,
    pub(super) line: u32,
}

impl Located {
    /// Reads `src/a.test.js:3:7`.
    pub(super) fn of(text: &str) -> Option<Self> {
        let (head, _) = text.rsplit_once(':')?;
        let (file, line) = head.rsplit_once(':')?;
        Some(Self { file: file.to_owned(), line: line.parse().ok()? })
    }
}

/// Returns the project's files and lines that a line of output names.
pub(super) fn places(line: &str) -> impl Iterator<Item = ErrorPlace> {
    python_frame(line).into_iter().chain(line.split(is_border).filter_map(token))
}

fn is_border(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '(' | ')' | '"' | '\'' | '`' | '[' | ']' | ',' | ';' | '<' | '>')
}

/// Reads `File "a.py", line 3, in f`.
fn python_frame(line: &str) -> Option<ErrorPlace> {
    let rest = line.trim_start().trim_start_matches("E ").trim_start().strip_prefix("File \"")?;
    let (file, rest) = rest.split_once("\", line ")?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let line = rest[..digits].parse().ok()?;
    is_ours(file).then(|| ErrorPlace { file: file.to_owned(), line: Some(line) })
}

/// Reads `src/a.rs:3`, `src/a.rs:3:7` and `src/a.rs:3:7:`.
pub(super) fn token(token: &str) -> Option<ErrorPlace> {
    let token = token.strip_prefix("file://").unwrap_or(token);
    let token = token.trim_end_matches([':', '.']);
    let (head, last) = token.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let (file, line) = match head.rsplit_once(':') {
        Some((file, line)) => match line.parse() {
            Ok(line) => (file, line),
            Err(_) => (head, last),
        },
        None => (head, last),
    };
    let file = file.strip_prefix("./").unwrap_or(file);
    (is_ours(file) && line > 0).then(|| ErrorPlace { file: file.to_owned(), line: Some(line) })
}

/// Tells whether a text is the path of a source file that is not a library's.
pub(super) fn is_ours(file: &str) -> bool {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let extension = name.rsplit_once('.').map_or("", |(stem, extension)| match stem {
        "" => "",
        _ => extension,
    });
    let source = (1..=8).contains(&extension.len())
        && extension.starts_with(|c: char| c.is_ascii_alphabetic())
        && extension.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    source
        && !file.contains("://")
        && !file.starts_with("node:")
        && !is_host(name)
        && !FOREIGN.iter().any(|part| file.contains(part))
}

/// Tells a host with a port from a file with a line, as in `example.com:443`.
fn is_host(name: &str) -> bool {
    let host = [".com", ".org", ".net", ".io", ".dev", ".local", ".internal"];
    name.starts_with("localhost") || host.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, want: &[(&str, u32)]) {
        let got: Vec<_> = places(line).map(|p| (p.file, p.line.unwrap_or(0))).collect();
        let got: Vec<_> = got.iter().map(|(file, line)| (file.as_str(), *line)).collect();
        assert_eq!(got, want, "{line:?}");
    }

    #[test]
    fn files_with_lines_are_found_and_nothing_else() {
        check("  File \"/p/a.py\", line 3, in f", &[("/p/a.py", 3)]);
        check("E     File \"/p/a.py\", line 3", &[("/p/a.py", 3)]);
        check("tests/test_a.py:4: AssertionError", &[("tests/test_a.py", 4)]);
        check("    at Object.toBe (src/a.test.js:2:36)", &[("src/a.test.js", 2)]);
        check("    at file:///p/a.mjs:2:36", &[("/p/a.mjs", 2)]);
        check("thread 'x' panicked at src/lib.rs:11:17:", &[("src/lib.rs", 11)]);
        check("             at ./src/lib.rs:11:17", &[("src/lib.rs", 11)]);
        check("C:\\p\\a.ts:3:4", &[("C:\\p\\a.ts", 3)]);
        check("    at f (/p/node_modules/x/a.js:1:2)", &[]);
        check("    at g (node:internal/timers:483:21)", &[]);
        check("listening on http://localhost:3000 and example.com:443", &[]);
        check("at 07:04:33 it was 1.5:2 of 3:4", &[]);
        check("a.py:0: nothing", &[]);
    }
}
