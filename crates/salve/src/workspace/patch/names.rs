//! Which files a patch may speak of, read from its headers.
//!
//! Every line that looks like a header counts, so lines of content may add names that the patch
//! does not mean; none that it means is missed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// What stands before a name in a header.
const HEADERS: [&[u8]; 4] = [b"--- ", b"+++ ", b"rename from ", b"copy from "];

/// Returns the names, without their first directory where the patch's form has one.
pub(super) fn names(patch: &[u8]) -> BTreeSet<OsString> {
    let mut names = BTreeSet::new();
    for line in patch.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(pair) = line.strip_prefix(b"diff --git ") {
            names.extend(of_pair(pair).into_iter().filter_map(strip));
        }
        let Some(name) = HEADERS.iter().find_map(|header| line.strip_prefix(*header)) else {
            continue;
        };
        // A time may follow behind a tab.
        let bare = name.split(|&byte| byte == b'\t').next().unwrap_or(name);
        let name = unquote(name).map_or_else(|| bare.to_vec(), |(name, _)| name);
        let is_whole = line.starts_with(b"rename") || line.starts_with(b"copy");
        names.extend(if is_whole { Some(name) } else { strip(name) });
    }
    names.into_iter().map(OsString::from_vec).collect()
}

/// Takes the first directory off.
fn strip(name: Vec<u8>) -> Option<Vec<u8>> {
    let slash = name.iter().position(|&byte| byte == b'/')?;
    Some(name[slash + 1..].to_vec())
}

/// Returns both names of `a/x b/x`, however they are quoted.
fn of_pair(pair: &[u8]) -> Vec<Vec<u8>> {
    if let Some((first, rest)) = unquote(pair) {
        let rest = rest.trim_ascii_start();
        let second = unquote(rest).map_or_else(|| rest.to_vec(), |(name, _)| name);
        return vec![first, second];
    }
    // Names with spaces are told apart by being the same on both sides.
    let spaces = (0..pair.len()).filter(|&at| pair[at] == b' ');
    let tail = |name: &[u8]| strip(name.to_vec());
    let halves = spaces.map(|at| (&pair[..at], &pair[at + 1..]));
    halves
        .filter(|(a, b)| unquote(b).is_some() || (tail(a).is_some() && tail(a) == tail(b)))
        .map(|(a, _)| a.to_vec())
        .collect()
}

/// Reads a name in quotes, and what follows it.
fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (&code, after) = rest.split_first()?;
                let (byte, used) = match code {
                    b'0'..=b'3' => (octal(rest.get(..3)?)?, 3),
                    b'n' => (b'\n', 1),
                    b't' => (b'\t', 1),
                    b'r' => (b'\r', 1),
                    b'a' => (7, 1),
                    b'b' => (8, 1),
                    b'f' => (12, 1),
                    b'v' => (11, 1),
                    other => (other, 1),
                };
                name.push(byte);
                rest = &after[used - 1..];
            }
            other => name.push(other),
        }
    }
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_header_names_its_files() {
        #[track_caller]
        fn check(patch: &str, want: &[&str]) {
            let names = names(patch.as_bytes());
            let got: Vec<_> = names.iter().map(|name| name.to_str().unwrap()).collect();
            assert_eq!(got, want, "{patch}");
        }
        check("diff --git a/x/y.js b/x/y.js\nold mode 100644\nnew mode 100755\n", &["x/y.js"]);
        check("--- a/src/a\t2024-01-01\n+++ b/src/a\n@@ -1 +1 @@\n", &["src/a"]);
        check("diff --git a/one two b/one two\n", &["one two"]);
        check("diff --git \"a/\\303\\274 \\\"q\\\"\" \"b/\\303\\274 \\\"q\\\"\"\n", &["ü \"q\""]);
        check("rename from old/name\nrename to new/name\n", &["old/name"]);
        check("--- /dev/null\n+++ b/new\n", &["dev/null", "new"]);
        check("diff --git a/x\\ b/x\\\n", &["x\\"]);
        check("diff --git \"a/\\3\n--- \"\n+++ \"b/\\\n", &["\\"]);
    }
}
