//! Values given to names that say secret: `KEY=value`, `key: value`, `"key": "value"`, `--key value`.
//!
//! A name alone proves nothing (`token: string`), nor does a value (`8f14e45f…`). The name says
//! what to expect, the way it is written says how sure that is, and the value has to fit.

use std::ops::Range;

use super::header;
use super::judge::{Setting, Tie, accepts};
use super::line::{Find, ScrubLine, Until, rank};
use super::name::{self, Meaning, NAME_MAX};
use super::{phrase, value};

/// A name that says secret.
#[derive(Clone, Debug)]
struct Name {
    place: Range<usize>,
    meaning: Meaning,
    /// How many dashes stand before it, if they make a flag of it.
    dashes: usize,
}

impl Name {
    fn is_flag(&self) -> bool {
        self.dashes > 0
    }

    /// Returns the byte before the name and its dashes.
    fn before(&self, line: &ScrubLine<'_>) -> u8 {
        line.before(self.place.start - self.dashes)
    }
}

/// Looks at the name around `hit` and at what is given to it.
pub(super) fn look(line: &mut ScrubLine<'_>, hit: Range<usize>, finds: &mut Vec<Find<'_>>) {
    if line.text[..hit.start].ends_with(b"emporary ") {
        phrase::issued(line, hit.end, finds);
    }
    let Some(name) = name_around(line, hit) else { return };
    let end = after_name(line, &name);
    let Some((at, tie)) = tied(line, &name, end) else { return };
    if name.meaning == Meaning::Cookie {
        return header::cookies(line, at, finds);
    }
    if name.meaning == Meaning::Auth
        && let Some(place) = second_of_pair(line, at)
    {
        let text = line.fresh(place.clone());
        if text.len() >= 6 && !value::is_placeholder(text) {
            finds.push(Find { place, kind: "password", rank: rank::NAME });
        }
        return;
    }
    let before = line.before(name.place.start - usize::from(name.is_flag()));
    let lead = line.text[..name.place.start].trim_ascii();
    let first =
        matches!(lead, b"" | b"-" | b"set" | b"$env:" | b"\"" | b"'" | b"+") || declares(lead);
    let text = &line.text[name.place.clone()];
    let mut setting = Setting {
        tie,
        quoted: false,
        alone: first,
        env: text.iter().all(|b| !b.is_ascii_lowercase()),
        param: name.is_flag() || matches!(before, b'?' | b'&' | b';'),
        argument: matches!(lead.last(), Some(b'(' | b',')),
    };
    // `password: str = "…"`, `password: &str = "…"`: a type first, then the value.
    let mut from = at + usize::from(tie == Tie::Loose && line.byte(at) == b'&');
    for _ in 0..2 {
        let (place, quoted) = value_at(line, from, setting, &name);
        setting.quoted = quoted;
        setting.alone = first && line.text[place.end..].trim_ascii_start().len() <= 1;
        let next = line.skip_blanks(place.end);
        let typed = tie == Tie::Loose && !quoted && next > place.end;
        let typed = typed && line.byte(next) == b'=' && line.byte(next + 1) != b'=';
        if !typed {
            let changed = tie == Tie::Prose && line.text[place.end..].starts_with(b" to ");
            let new = place.end + b" to ".len();
            judge(line, place, name.meaning, setting, finds);
            if changed {
                let end = line.value_end(new, Until::Space);
                judge(line, new..end, name.meaning, setting, finds);
            }
            return;
        }
        from = line.skip_blanks(next + 1);
        if !matches!(line.byte(from), b'"' | b'\'') {
            return;
        }
    }
}

/// Returns the second of two literals in brackets: `auth=('user', 'x')`.
fn second_of_pair(line: &ScrubLine<'_>, at: usize) -> Option<Range<usize>> {
    let at = at + usize::from(line.byte(at) == b'(');
    let first = quoted(line, at).filter(|_| line.before(at) == b'(')?;
    let comma = line.skip_blanks(first.end + 1);
    quoted(line, line.skip_blanks(comma + 1)).filter(|_| line.byte(comma) == b',')
}

/// Returns whether a name is the first thing that its line declares.
fn is_declared(line: &ScrubLine<'_>, name: &Range<usize>) -> bool {
    const LONGEST: usize = 16;
    name.start <= LONGEST && declares(line.text[..name.start].trim_ascii())
}

/// Returns where the content of an element of this name begins that has attributes.
fn element(line: &ScrubLine<'_>, name: &Range<usize>) -> Option<usize> {
    const LONGEST: usize = 256;
    let before = &line.text[..name.start];
    let space =
        before.iter().rev().take(16).take_while(|b| b.is_ascii_alphanumeric() || **b == b':');
    if !before[..before.len() - space.count()].ends_with(b"<") {
        return None;
    }
    let rest = &line.text[name.end..line.text.len().min(name.end + LONGEST)];
    let close = memchr::memchr(b'>', rest).filter(|&at| at > 0 && rest[at - 1] != b'/')?;
    Some(name.end + close + 1)
}

/// Returns whether what stands before a name declares it, with its value behind a blank.
fn declares(lead: &[u8]) -> bool {
    matches!(lead, b"export" | b"ENV" | b"ARG" | b"setenv" | b"set -x" | b"set -gx" | b"set -Ux")
}

/// Returns the name around `hit`, if it says secret and has not been looked at.
fn name_around(line: &mut ScrubLine<'_>, hit: Range<usize>) -> Option<Name> {
    let part = |b: &&u8| b.is_ascii_alphanumeric() || b"_-.".contains(b);
    let sign = line.text[hit.clone()].iter().rev().take_while(|b| !part(b)).count();
    let hit = hit.start..hit.end - sign;
    let left = line.text[..hit.start].iter().rev().take(NAME_MAX).take_while(part).count();
    let right = line.text[hit.end..].iter().take(NAME_MAX).take_while(part).count();
    let mut place = hit.start - left..hit.end + right;
    // After a colour sequence, whose last bytes look like a part of the name.
    let colour = line.after_colour(hit.start);
    if colour <= hit.start {
        place.start = place.start.max(colour);
    }
    if line.last_name == place.start || line.follows_mark(place.start) {
        return None;
    }
    line.last_name = place.start;
    let before = line.before(place.start);
    let head = &line.text[place.clone()];
    if before == b'%' && head.len() > 2 && head[..2].iter().all(u8::is_ascii_hexdigit) {
        place.start += 2;
    } else if before == b'\\' && matches!(head[0], b'n' | b'r' | b't') && head.len() > 3 {
        place.start += 1;
    }
    let head = &line.text[place.clone()];
    let dashes = head.iter().take_while(|&&b| b == b'-').count();
    let flag = dashes > 0 && !line.begins_mid_word(place.start);
    place.start += dashes;
    let dashes = if flag { dashes } else { 0 };
    while place.end > place.start && b".-".contains(&line.text[place.end - 1]) {
        place.end -= 1;
    }
    if place.end < hit.end {
        return None;
    }
    if !has_value(line, &place, flag) {
        return None;
    }
    let meaning = name::meaning(&line.text[place.clone()])?;
    // A checksum of secrets is none.
    if line.text[..place.start].ends_with(b"checksum/") {
        return None;
    }
    Some(Name { place, meaning, dashes })
}

/// Returns whether anything like a value follows the name at `place`; most words have none.
fn has_value(line: &ScrubLine<'_>, place: &Range<usize>, flag: bool) -> bool {
    let end = place.end;
    let rest = &line.text[end..];
    let closed = rest.iter().take(4).take_while(|b| b"\\\"'`?!*])".contains(b)).count();
    let sign = line.skip_blanks(end + closed);
    match line.byte(sign) {
        b'=' | b':' | b'>' | b',' | b'(' | b'%' | b'+' => true,
        _ if sign == end => false,
        _ if flag || closed > 0 || is_declared(line, place) => true,
        _ if element(line, place).is_some() => true,
        // In prose, only what has a digit can be a secret: `password is hunter2`.
        _ => {
            let rest = &line.text[sign..];
            let words = rest[..rest.len().min(64)].splitn(3, |&b| b == b' ').take(2);
            words.flatten().any(u8::is_ascii_digit)
        }
    }
}

/// Returns where the name and what closes it end: quotes, brackets, a question mark.
fn after_name(line: &ScrubLine<'_>, name: &Name) -> usize {
    let mut end = name.place.end;
    end += escapes(line, end);
    for closing in [&b"\"'`?!*"[..], b"])", b")"] {
        end += usize::from(closing.contains(&line.byte(end)));
    }
    end
}

/// Returns where the value begins and how it is tied to the name that ends at `end`.
fn tied(line: &ScrubLine<'_>, name: &Name, end: usize) -> Option<(usize, Tie)> {
    let sign = line.skip_blanks(end);
    let rest = &line.text[sign.min(line.text.len())..];
    let after = |len: usize| line.skip_blanks(sign + len);
    let quoted_name = is_quote(name.before(line));
    Some(match rest {
        [b'=', b'=', b'=', ..] => (after(3), Tie::Beside),
        [b'=' | b'!', b'=', ..] => (after(2), Tie::Beside),
        [b'=', b'>', ..] => (after(2), Tie::Loose),
        [b':', b'=', ..] | [b'?', b'=', ..] | [b'+', b'=', ..] => (after(2), Tie::Loose),
        [b'=', ..] if sign == end && after(1) == sign + 1 => (sign + 1, Tie::Tight),
        [b':', b':', ..] => return None,
        // A resource's name, `arn:aws:…:secret:x`, or a URL's user.
        [b':', next, ..] if b":/".contains(&line.before(name.place.start)) && *next != b' ' => {
            return None;
        }
        [b'=' | b':', ..] => (after(1), Tie::Loose),
        [b'%', b'3', b'D' | b'd', ..] => (sign + 3, Tie::Tight),
        [b'>', ..] if line.before(name.place.start) == b'<' => (after(1), Tie::Tight),
        [b',', ..] if quoted_name => beside(line, after(1))?,
        // `npmAuthToken  'x'`: a setting and its value in a list.
        [b'"' | b'\'', ..] if sign > end && is_setting(&line.text[name.place.clone()]) => {
            (sign, Tie::Beside)
        }
        [b'v' | b'V' | b'c', ..] if quoted_name => attribute(line, sign)?,
        [b'>', ..] if quoted_name => (sign + 1, Tie::Tight),
        [b'(', ..] if sign == end && is_quote(line.byte(sign + 1)) => (sign + 1, Tie::Beside),
        _ if sign == end => return None,
        _ if name.is_flag() || is_declared(line, &name.place) => (sign, Tie::Tight),
        _ => match element(line, &name.place) {
            Some(at) => (at, Tie::Tight),
            None => (prose(line, name, sign)?, Tie::Prose),
        },
    })
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// Returns how many backslashes at `at` escape a quote.
fn escapes(line: &ScrubLine<'_>, at: usize) -> usize {
    const DEEPEST: usize = 7;
    let rest = &line.text[at.min(line.text.len())..];
    let count = rest.iter().take(DEEPEST).take_while(|&&b| b == b'\\').count();
    if is_quote(line.byte(at + count)) { count } else { 0 }
}

/// Returns whether a name is of several words, as those of settings are and no word of prose.
fn is_setting(name: &[u8]) -> bool {
    let hump = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    name.contains(&b'_') || name.windows(2).any(hump)
}

/// Returns the literal after `"name",`, be it an argument or a `"value":` of its own.
fn beside(line: &ScrubLine<'_>, at: usize) -> Option<(usize, Tie)> {
    attribute(line, at + escapes(line, at)).or_else(|| {
        let literal = is_quote(line.byte(at + escapes(line, at)));
        literal.then_some((at, Tie::Beside))
    })
}

/// Returns where the value of a `value=` or `"value":` at `at` begins.
fn attribute(line: &ScrubLine<'_>, at: usize) -> Option<(usize, Tie)> {
    let at = at + usize::from(is_quote(line.byte(at)));
    let rest = &line.text[at.min(line.text.len())..];
    let word = [&b"value"[..], b"Value", b"content"].into_iter().find(|w| rest.starts_with(w))?;
    let mut sign = at + word.len();
    sign += escapes(line, sign);
    sign += usize::from(is_quote(line.byte(sign)));
    sign = line.skip_blanks(sign);
    let value = line.skip_blanks(sign + 1);
    (matches!(line.byte(sign), b'=' | b':')).then_some((value, Tie::Loose))
}

/// Returns where the value begins after a name and a blank: `password is x`, netrc's `password x`.
fn prose(line: &ScrubLine<'_>, name: &Name, at: usize) -> Option<usize> {
    let rest = &line.text[at..];
    for link in [&b"is "[..], b"was ", b"to ", b"of ", b"from "] {
        if rest.starts_with(link) {
            return Some(line.skip_blanks(at + link.len()));
        }
    }
    let clear = !line.text[name.place.clone()].ends_with(b"pass");
    let told = match name.meaning {
        Meaning::Password | Meaning::Secret | Meaning::Token | Meaning::Pgp | Meaning::Auth => true,
        Meaning::Session | Meaning::Signature | Meaning::Cookie => false,
    };
    (clear && told).then_some(at)
}

/// Returns the value's place, without quotes, and whether it had any.
fn value_at(
    line: &mut ScrubLine<'_>,
    at: usize,
    setting: Setting,
    name: &Name,
) -> (Range<usize>, bool) {
    if let Some(place) = quoted(line, at) {
        let inner = header::after_scheme(line, place.clone(), name.meaning);
        return (inner, true);
    }
    let closed = line.byte(name.place.end);
    let markup = closed == b'>' || line.before(at) == b'>' && !is_quote(closed);
    if markup && setting.tie == Tie::Tight {
        let rest = &line.text[at..];
        let closed = memchr::memchr(b'<', rest).filter(|&len| rest[len..].starts_with(b"</"));
        return (at..at + closed.unwrap_or(0), true);
    }
    let until = if setting.alone { Until::Space } else { Until::Separator };
    let mut place = at..line.value_end(at, until);
    let scheme = header::after_scheme(line, place.start..line.text.len(), name.meaning);
    if scheme.start > place.start {
        place = scheme.start..line.value_end(scheme.start, until);
    }
    if matches!(line.before(name.place.start), b'?' | b'&') {
        let text = &line.text[place.clone()];
        place.end = place.start + memchr::memchr(b'#', text).unwrap_or(text.len());
    }
    while place.end > place.start && b",;".contains(&line.text[place.end - 1]) {
        place.end -= 1;
    }
    // `"user:pass"`: a quote that was opened before the name ends the value.
    if place.end > place.start + 1 && is_quote(line.text[place.end - 1]) {
        place.end -= 1;
    }
    (place, false)
}

/// Returns what is between the quotes that open at `at`, if they close.
pub(super) fn quoted(line: &ScrubLine<'_>, at: usize) -> Option<Range<usize>> {
    let prefixed = matches!(line.byte(at), b'b' | b'r' | b'f' | b'u' | b'L' | b'@' | b'$')
        && matches!(line.byte(at + 1), b'"' | b'\'');
    let at = at + usize::from(prefixed);
    let escapes = escapes(line, at);
    let start = at + escapes + 1;
    let quote = line.byte(start - 1);
    if !is_quote(quote) {
        return None;
    }
    let start = if line.text[at..].starts_with(b"\"\"\"") { start + 2 } else { start };
    let mut from = start.min(line.text.len());
    for _ in 0..16 {
        let close = from + memchr::memchr(quote, line.text.get(from..)?)?;
        let slashes = line.text[start..close].iter().rev().take_while(|&&b| b == b'\\').count();
        match escapes {
            0 | 1 if slashes % 2 == 0 => return Some(start..close),
            1 => return Some(start..close - 1),
            2.. if slashes == escapes => return Some(start..close - slashes),
            _ => {}
        }
        from = close + 1;
    }
    None
}

/// Adds the value at `place` if it fits what its name says; returns whether it did.
fn judge(
    line: &mut ScrubLine<'_>,
    place: Range<usize>,
    meaning: Meaning,
    setting: Setting,
    finds: &mut Vec<Find<'_>>,
) -> bool {
    let fits =
        line.is_worth_judging(place.end) && accepts(meaning, line.fresh(place.clone()), setting);
    if fits {
        finds.push(Find { place, kind: meaning.kind(), rank: rank::NAME });
    }
    fits
}
