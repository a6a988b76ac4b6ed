//! Names and values on lines of their own: Kubernetes' `name:` and `value:`, the parts of a form.
//!
//! These are the only assignments that span lines. While the line that tells is still to come,
//! the one with the name is held back, so that a stream comes out as the whole text does.

use std::ops::Range;

use super::judge::{Setting, Tie, accepts};
use super::line::{Find, rank};
use super::lines::Lines;
use super::mark;
use super::name::{self, Meaning};
use super::scan::More;

/// The longest line with a name that is looked at.
const NAME_LINE_MAX: usize = 256;
/// The longest line with a value that is looked at.
const VALUE_LINE_MAX: usize = 4096;
/// How many lines of a form's part may stand before the empty one.
const HEADERS_MAX: usize = 3;

/// What follows a line with a name.
enum Next {
    /// Nothing that is given to the name.
    Nothing,
    Secret(Find<'static>),
    /// It has not arrived.
    Unknown,
}

/// Finds the values in `text` whose names stand on a line before them.
pub(super) fn find(text: &[u8], finds: &mut Vec<Find<'_>>) {
    each(text, |_, next| {
        if let Next::Secret(found) = next {
            finds.push(found);
        }
    });
}

/// Returns where the lines at the end of `text` begin that need more of it to be judged.
pub(super) fn open(text: &[u8], more: More) -> Option<usize> {
    let mut open = None;
    if more == More::Maybe {
        each(text, |line, next| {
            if let Next::Unknown = next {
                open.get_or_insert(line);
            }
        });
    }
    open
}

/// Calls `visit` with where each line begins that names a secret, and what follows it.
fn each(text: &[u8], mut visit: impl FnMut(usize, Next)) {
    let mut lines = Lines::new(text);
    for at in memchr::memmem::find_iter(text, b"name") {
        let line = lines.around(at);
        if line.len() > NAME_LINE_MAX {
            continue;
        }
        let told = &text[line.clone()];
        if let Some(name) = listed(told).filter(|_| is_first(told, at - line.start)) {
            visit(line.start, value_after(text, line.end, name));
        } else if let Some(name) = part_of_form(told) {
            visit(line.start, body_after(text, line.end, name));
        }
    }
}

/// Returns whether only what begins an item of a list stands before `at`.
fn is_first(line: &[u8], at: usize) -> bool {
    matches!(line[..at].trim_ascii(), b"" | b"-")
}

/// A name that says secret, and what it says of its value.
#[derive(Clone, Copy)]
struct SecretName<'t> {
    text: &'t [u8],
    meaning: Meaning,
}

/// Returns the name in `- name: X`, if it says secret.
fn listed(line: &[u8]) -> Option<SecretName<'_>> {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"-").unwrap_or(line).trim_ascii_start();
    let name = line.strip_prefix(b"name:")?.trim_ascii();
    told(unquoted(name).0)
}

/// Returns the name in `Content-Disposition: form-data; name="X"`, if it says secret.
fn part_of_form(line: &[u8]) -> Option<SecretName<'_>> {
    let name = line.strip_prefix(b"Content-Disposition: form-data; name=\"")?;
    told(name.strip_suffix(b"\"")?)
}

fn told(name: &[u8]) -> Option<SecretName<'_>> {
    let plain = name.iter().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(b));
    Some(SecretName { text: name, meaning: name::meaning(name).filter(|_| plain)? })
}

/// Judges the `value:` on the line after the one that ends at `end`.
fn value_after(text: &[u8], end: usize, name: SecretName<'_>) -> Next {
    let Some(line) = next_line(text, end) else { return Next::Unknown };
    if line.len() > VALUE_LINE_MAX {
        return Next::Nothing;
    }
    let told = &text[line.clone()];
    let Some(value) = told.trim_ascii_start().strip_prefix(b"value:") else { return Next::Nothing };
    let (inner, quoted) = unquoted(value.trim_ascii());
    let start = line.end - value.len() + place_in(value, inner);
    judge(text, start..start + inner.len(), name, quoted)
}

/// Judges the line after the empty one that ends the head of a form's part.
fn body_after(text: &[u8], mut end: usize, name: SecretName<'_>) -> Next {
    for _ in 0..=HEADERS_MAX {
        let Some(line) = next_line(text, end) else { return Next::Unknown };
        end = line.end;
        if line.is_empty() {
            return match next_line(text, end) {
                // An empty part: the next one begins.
                Some(body) if part_of_form(&text[body.clone()]).is_some() => Next::Nothing,
                Some(body) => judge(text, body, name, true),
                None => Next::Unknown,
            };
        }
    }
    Next::Nothing
}

fn judge(text: &[u8], place: Range<usize>, name: SecretName<'_>, quoted: bool) -> Next {
    let value = &text[place.clone()];
    let setting = Setting {
        tie: Tie::Loose,
        quoted,
        alone: true,
        env: name.text.iter().all(|b| !b.is_ascii_lowercase()),
        param: false,
        argument: false,
    };
    let fits = value.len() <= VALUE_LINE_MAX
        && mark::all(value).is_empty()
        && accepts(name.meaning, value, setting);
    if fits {
        Next::Secret(Find { place, kind: name.meaning.kind(), rank: rank::NAME })
    } else {
        Next::Nothing
    }
}

/// Returns `text` without the quotes around it, and whether there were any.
fn unquoted(text: &[u8]) -> (&[u8], bool) {
    match text {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => (inner, true),
        _ => (text, false),
    }
}

/// Returns where `inner`, which is a part of `outer`, begins in it.
fn place_in(outer: &[u8], inner: &[u8]) -> usize {
    inner.as_ptr() as usize - outer.as_ptr() as usize
}

/// Returns the line after the one that ends at `end`, or nothing where that has not arrived whole.
fn next_line(text: &[u8], end: usize) -> Option<Range<usize>> {
    let sign = match text.get(end..)? {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] | [b'\r', _, ..] => 1,
        _ => return None,
    };
    let start = end + sign;
    // What is longer than any value that is judged need not be read to its end.
    let rest = text.get(start..text.len().min(start + VALUE_LINE_MAX + 1))?;
    let len = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
    (start < text.len()).then_some(start..start + len)
}

#[cfg(test)]
mod tests {
    use super::super::tests::scrubber;

    #[test]
    fn a_value_on_the_line_after_its_name_goes() {
        for (text, gone) in [
            (
                "  - name: TILL_TOKEN\n    value: \"8d1f2c7a9b3e4d5f\"\n  - name: PORT\n    value: \"3000\"\n",
                "8d1f2c7a9b3e4d5f",
            ),
            ("- name: TILL_PASSWORD\r\n  value: hunter2-and-more\r\n", "hunter2-and-more"),
            (
                "Content-Disposition: form-data; name=\"password\"\r\n\r\nhunter2x\r\n--b\r\n",
                "hunter2x",
            ),
        ] {
            let out = scrubber().scrub(text);
            assert!(!out.as_str().contains(gone), "{out}");
            assert_eq!(out.as_str().matches("[secret:").count(), 1, "{out}");
        }
        for text in [
            "- name: LOG_LEVEL\n  value: debug\n",
            "- name: TILL_TOKEN\n  valueFrom: till-8d1f2c7a\n",
            "- name: TILL_TOKEN\n  value: $(TOKEN)\n",
            "form-data; name=\"user\"\n\nada99\n",
        ] {
            assert_eq!(scrubber().scrub(text).as_str(), text);
        }
    }
}
