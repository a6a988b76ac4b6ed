//! Secrets that follow a fixed phrase.

use std::ops::Range;

use super::assign;
use super::line::{Find, ScrubLine, rank};
use super::value::{self, Makeup};

/// Looks at what follows the phrase at `hit`.
pub(super) fn look(line: &mut ScrubLine<'_>, hit: Range<usize>, finds: &mut Vec<Find<'_>>) {
    if line.text[hit.clone()].ends_with(b" ") {
        literal(line, hit.end, finds);
    } else {
        words(line, hit.end, finds);
    }
}

/// Looks at the literal at `at`: `IDENTIFIED BY 'x'`, `ConvertTo-SecureString "x"`.
fn literal(line: &ScrubLine<'_>, at: usize, finds: &mut Vec<Find<'_>>) {
    let mut at = line.skip_blanks(at);
    if line.text[at..].starts_with(b"-String ") {
        at = line.skip_blanks(at + 8);
    }
    if line.byte(at) == b'`' {
        return;
    }
    let Some(place) = assign::quoted(line, at) else { return };
    let text = line.fresh(place.clone());
    if text.len() >= 3 && !value::is_placeholder(text) {
        finds.push(Find { place, kind: "password", rank: rank::NAME });
    }
}

/// Looks for a password that was made for someone: `A temporary password … for root@host: x`.
pub(super) fn issued(line: &ScrubLine<'_>, at: usize, finds: &mut Vec<Find<'_>>) {
    const LONGEST: usize = 160;
    let rest = &line.text[at..line.text.len().min(at + LONGEST)];
    let Some(colon) = memchr::memmem::find(rest, b": ") else { return };
    let start = line.skip_blanks(at + colon + 2);
    let len = line.text[start..].iter().take_while(|b| !b.is_ascii_whitespace()).count();
    let text = line.fresh(start..start + len);
    if text.len() >= 8 && Makeup::of(text).is_random() && !value::is_placeholder(text) {
        finds.push(Find { place: start..start + len, kind: "password", rank: rank::NAME });
    }
}

/// Looks at the twelve words or more of a wallet's seed after `at`.
fn words(line: &ScrubLine<'_>, at: usize, finds: &mut Vec<Find<'_>>) {
    let lead = line.text[at..].iter().take(8).take_while(|b| b" :=\"'\\".contains(b)).count();
    if lead == 0 {
        return;
    }
    let start = at + lead;
    let run =
        line.text[start..].iter().take_while(|b| b.is_ascii_lowercase() || **b == b' ').count();
    let text = line.text[start..start + run].trim_ascii_end();
    let count = text.split(|&b| b == b' ').filter(|w| (3..=8).contains(&w.len())).count();
    let odd = text.split(|&b| b == b' ').any(|w| !(3..=8).contains(&w.len()));
    if count >= 12 && !odd {
        finds.push(Find {
            place: start..start + text.len(),
            kind: "seed-phrase",
            rank: rank::PLACE,
        });
    }
}

/// Looks for the secret that is listed beside an AWS access key: 40 characters of base64.
pub(super) fn aws_secret_after(line: &ScrubLine<'_>, at: usize, finds: &mut Vec<Find<'_>>) {
    let end = line.text.len().min(at + 256);
    let mut start = at;
    for word in line.text[at..end].split(|b| !(b.is_ascii_alphanumeric() || b"+/".contains(b))) {
        let makeup = Makeup::of(word);
        if word.len() == 40 && makeup.is_mixed() && makeup.distinct > 16 {
            finds.push(Find {
                place: start..start + 40,
                kind: "aws-secret-key",
                rank: rank::PLACE,
            });
        }
        start += word.len() + 1;
    }
}
