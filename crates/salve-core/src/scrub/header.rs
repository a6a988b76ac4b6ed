//! Headers: authorization schemes, bare bearer tokens, cookies.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::line::{Find, ScrubLine, Until, rank};
use super::name::Meaning;
use super::value::{self, Makeup};
use super::words::listed;

/// Returns the part of `place` after an authorization scheme, if the name calls for one.
pub(super) fn after_scheme(
    line: &ScrubLine<'_>,
    place: Range<usize>,
    meaning: Meaning,
) -> Range<usize> {
    if !matches!(meaning, Meaning::Auth | Meaning::Token | Meaning::Pgp) {
        return place;
    }
    let text = &line.text[place.clone()];
    let word =
        text.iter().take(20).take_while(|b| b.is_ascii_alphanumeric() || **b == b'-').count();
    let known = listed().schemes.has(&text[..word]);
    // A plus or `%20` stands for the blank in URLs.
    let blank = match &text[word..] {
        [b' ', ..] => line.skip_blanks(place.start + word) - place.start - word,
        [b'+', ..] => 1,
        [b'%', b'2', b'0', ..] => 3,
        _ => 0,
    };
    if known && blank > 0 { place.start + word + blank..place.end } else { place }
}

/// Looks at what follows a bare `Bearer` or `Basic`.
pub(super) fn look_scheme(line: &mut ScrubLine<'_>, hit: Range<usize>, finds: &mut Vec<Find<'_>>) {
    if !line.begins(hit.start) {
        return;
    }
    let basic = line.text[hit.start].eq_ignore_ascii_case(&b'b')
        && line.text[hit.start + 1].eq_ignore_ascii_case(&b'a');
    let start = line.skip_blanks(hit.end);
    let end = line.value_end(start, Until::Separator);
    let text = &line.text[start..end];
    let makeup = Makeup::of(text);
    let fits = if basic {
        is_basic(text)
    } else {
        text.len() >= 16 && makeup.is_random() && !text.iter().any(|b| b"(){}<>[]".contains(b))
    };
    if fits && !value::is_placeholder(text) {
        let kind = if basic { "basic-auth" } else { "bearer-token" };
        finds.push(Find { place: start..end, kind, rank: rank::PLACE });
    }
}

/// Looks at what follows `Digest`: the response proves the password.
pub(super) fn look_digest(line: &mut ScrubLine<'_>, hit: Range<usize>, finds: &mut Vec<Find<'_>>) {
    let start = hit.end;
    let end = line.value_end(start, Until::Separator);
    let text = &line.text[start..end];
    if text.len() >= 32 && text.iter().all(u8::is_ascii_hexdigit) {
        finds.push(Find { place: start..end, kind: "digest-response", rank: rank::PLACE });
    }
}

/// Returns whether `text` is base64 of a name, a colon and a password.
pub(super) fn is_basic(text: &[u8]) -> bool {
    let bare = text.trim_ascii_end();
    let padding = bare.iter().rev().take_while(|&&b| b == b'=').count();
    let bare = &bare[..bare.len() - padding];
    if padding > 2 || bare.len() < 6 || bare.len() > 4096 {
        return false;
    }
    let printable = |b: &u8| !b.is_ascii_control() && (*b != b' ' || padding > 0);
    STANDARD_NO_PAD.decode(bare).is_ok_and(|plain| {
        let colon = plain.iter().position(|&b| b == b':');
        colon.is_some_and(|at| at < plain.len()) && plain.iter().all(printable) && plain.is_ascii()
    })
}

/// Attributes of a cookie, which are nobody's secret.
const ATTRIBUTES: &[&str] = &[
    "path",
    "domain",
    "expires",
    "max-age",
    "samesite",
    "secure",
    "httponly",
    "priority",
    "version",
    "comment",
    "partitioned",
];

/// Looks at the cookies that begin at `at`.
pub(super) fn cookies(line: &mut ScrubLine<'_>, at: usize, finds: &mut Vec<Find<'_>>) {
    let mut at = at
        + line.text[at.min(line.text.len())..]
            .iter()
            .take_while(|b| b"\"'`\\ ".contains(b))
            .count();
    for _ in 0..64 {
        let rest = &line.text[at.min(line.text.len())..];
        let name = rest
            .iter()
            .take(64)
            .take_while(|b| b.is_ascii_alphanumeric() || b"_-.$%".contains(b))
            .count();
        if name == 0 || rest.get(name) != Some(&b'=') {
            return;
        }
        let start = at + name + 1;
        let end = cookie_end(line, start);
        let text = line.fresh(start..end);
        let called = &rest[..name];
        let attribute = ATTRIBUTES.iter().any(|a| called.eq_ignore_ascii_case(a.as_bytes()));
        if !attribute && is_cookie(called, text) {
            finds.push(Find { place: start..end, kind: "cookie", rank: rank::PLACE });
        }
        let next = line.skip_blanks(end);
        if line.byte(next) != b';' {
            return;
        }
        at = line.skip_blanks(next + 1);
    }
}

fn cookie_end(line: &ScrubLine<'_>, start: usize) -> usize {
    let stop = |b: &u8| b" ;\"'`\\\t".contains(b);
    start + line.text[start..].iter().position(stop).unwrap_or(line.text.len() - start)
}

fn is_cookie(name: &[u8], text: &[u8]) -> bool {
    let makeup = Makeup::of(text);
    let plain = value::is_placeholder(text) || value::is_code(text);
    let told = super::name::meaning(name).is_some() || name.ends_with(b".sid");
    !plain && (makeup.len >= 8 && makeup.has_digit_and_letter() || told && makeup.len >= 6)
}
