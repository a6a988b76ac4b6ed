//! Tests in JavaScript and TypeScript, whose runners agree on the words.

use super::super::text::{SourceText, near, starts_name};
use super::{MOST, Test};

/// The words that begin a test or a group of tests, longest first, and whether it is a group.
const WORDS: [(&str, bool); 12] = [
    ("describe", true),
    ("xdescribe", true),
    ("fdescribe", true),
    ("suite", true),
    ("context", true),
    ("test", false),
    ("specify", false),
    ("xtest", false),
    ("it", false),
    ("xit", false),
    ("fit", false),
    ("bench", false),
];

/// Returns the tests of a file.
pub(super) fn tests(source: &SourceText<'_>) -> Vec<Test> {
    let mut found = Vec::new();
    let bytes = source.bare.as_bytes();
    let mut at = 0;
    while at < bytes.len() && found.len() < MOST {
        let word = word_at(&source.bare, at);
        if word.is_empty() {
            at += 1;
            continue;
        }
        let known = WORDS.iter().find(|(known, _)| *known == word);
        let test = known
            .filter(|_| starts_name(&source.bare, at))
            .and_then(|(word, group)| call(source, at, word, *group));
        found.extend(test);
        at += word.len();
    }
    found
}

/// Returns the name at a place.
fn word_at(bare: &str, at: usize) -> &str {
    let rest = &bare.as_bytes()[at..];
    let length =
        rest.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')).count();
    &bare[at..at + length]
}

/// Reads `it.skip.each([…])('adds', () => …)`.
fn call(source: &SourceText<'_>, start: usize, word: &str, group: bool) -> Option<Test> {
    let bytes = source.bare.as_bytes();
    let mut marks = Vec::new();
    if let Some(first) = word.strip_suffix("it").or_else(|| word.strip_suffix("describe")) {
        marks.extend(mark(first));
    }
    marks.extend(word.strip_suffix("test").and_then(mark));
    let mut at = start + word.len();
    loop {
        match bytes.get(at)? {
            b'.' => {
                let name = word_at(&source.bare, at + 1);
                at += 1 + name.len();
                match (name, bytes.get(at)) {
                    // The table of cases, or the condition, comes before the test itself.
                    ("each" | "for" | "skipIf" | "runIf" | "if", Some(b'(')) => {
                        let end = source.closing(at);
                        let said = source.said.get(at..end).unwrap_or_default();
                        if name != "each" && name != "for" {
                            marks.push(format!(".{name}{said}"));
                        }
                        at = end;
                    }
                    ("each", Some(b'`')) => {
                        at += 2 + near(&source.bare, at + 1, 20_000).find('`')?
                    }
                    ("", _) => return None,
                    (name, _) => marks.push(format!(".{name}")),
                }
            }
            b'<' => at += near(&source.bare, at, 200).find('>')? + 1,
            b'(' => break,
            _ => return None,
        }
    }
    let end = source.closing(at);
    let name = title(near(&source.said, at + 1, 2_000))?;
    Some(Test { name, start, body: at + 1..end.saturating_sub(1).max(at + 1), marks, group })
}

fn mark(prefix: &str) -> Option<String> {
    match prefix {
        "x" => Some(".skip".to_owned()),
        "f" => Some(".only".to_owned()),
        _ => None,
    }
}

/// Returns the text of the first argument, which names the test.
fn title(inner: &str) -> Option<String> {
    let inner = inner.trim_start();
    let quote = inner.chars().next()?;
    if !matches!(quote, '\'' | '"' | '`') {
        // A class or a variable may name it, too; a call without either is no test.
        let inner = near(inner, 0, 100);
        let end = inner.find([',', ')'])?;
        let name = inner[..end].trim();
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
        return (!name.is_empty() && name.chars().all(plain)).then(|| name.to_owned());
    }
    let mut title = String::new();
    let mut escaped = false;
    for c in inner.chars().skip(1) {
        match c {
            _ if escaped => {
                title.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            c if c == quote => return Some(title),
            c => title.push(c),
        }
        if title.len() > 1_000 {
            break;
        }
    }
    Some(title)
}
