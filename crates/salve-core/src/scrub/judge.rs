//! Whether a value fits what its name says.

use super::header;
use super::name::{self, Meaning};
use super::value::{self, Makeup};

/// How much of a value is judged; what is longer is judged by its beginning.
const JUDGED: usize = 256;

/// How a value is tied to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    /// `name=value` without blanks, a flag, or markup.
    Tight,
    /// `name: value` or `name = value`.
    Loose,
    /// `name == value`, `f("name", value)`: a literal beside the name.
    Beside,
    /// `the name is value`.
    Prose,
}

/// All that is known about where a value stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) tie: Tie,
    /// The value is in quotes.
    pub(super) quoted: bool,
    /// Name and value are all there is on the line.
    pub(super) alone: bool,
    /// The name is written as environment variables are.
    pub(super) env: bool,
    /// The name follows `?` or `&`, or is a flag.
    pub(super) param: bool,
    /// The name follows `(` or a comma, as arguments in code do.
    pub(super) argument: bool,
}

/// Returns whether `text` is a secret of the kind `meaning` promises.
pub(super) fn accepts(meaning: Meaning, whole: &[u8], setting: Setting) -> bool {
    let text = &whole[..whole.len().min(JUDGED)];
    let blanks = text.iter().any(|b| b.is_ascii_whitespace());
    if text.len() < 4 || text[0] == b'-' || value::is_placeholder(text) || value::is_stop_word(text)
    {
        return false;
    }
    let held = setting.quoted || setting.env && setting.tie == Tie::Tight && setting.alone;
    if held && meaning != Meaning::Cookie && value::is_noise(text) {
        return true;
    }
    if value::is_path(text) || !setting.quoted && value::is_code(text) || interpolates(text) {
        return false;
    }
    if setting.tie == Tie::Beside && !setting.quoted {
        return false;
    }
    if blanks {
        let words = matches!(meaning, Meaning::Password | Meaning::Secret);
        return words && setting.quoted && setting.tie != Tie::Beside && !value::is_prose(text);
    }
    let makeup = Makeup::of(text);
    if setting.tie == Tie::Prose {
        return in_prose(meaning, text, makeup, setting);
    }
    let loose = !setting.quoted && setting.tie != Tie::Tight;
    if makeup.digits == 0 && name::meaning(text).is_some() {
        return false;
    }
    if loose && !setting.alone && value::is_snake(text) {
        return false;
    }
    if loose && is_name_like(text) || setting.tie == Tie::Beside && makeup.digits == 0 {
        return false;
    }
    match meaning {
        Meaning::Password => password(text, makeup, setting),
        Meaning::Secret => secret(text, makeup, setting),
        Meaning::Token => token(text, makeup),
        Meaning::Pgp => token(text, makeup) && !value::is_fingerprint(text),
        Meaning::Auth | Meaning::Cookie => {
            let parameter = text.iter().take(24).any(|&b| b == b'=') && !text.ends_with(b"=");
            header::is_basic(whole) || token(text, makeup) && !parameter
        }
        Meaning::Session | Meaning::Signature if setting.tie == Tie::Beside => false,
        Meaning::Session => makeup.len >= 16 && token(text, makeup) && !value::is_uuid(text),
        Meaning::Signature => {
            let bound =
                setting.param || setting.tie == Tie::Tight && (setting.env || setting.quoted);
            let tight = bound || setting.tie == Tie::Tight && makeup.len >= 32;
            let padding = text.iter().rev().take_while(|&&b| b == b'=').count();
            let chained = text[..text.len() - padding].contains(&b'=');
            tight && !chained && makeup.len >= 16 && token(text, makeup) && !value::is_uuid(text)
        }
    }
}

/// Returns whether a part of `text` is put in at run time: `"Bearer ${token}"`, `f"{id}-x"`.
fn interpolates(text: &[u8]) -> bool {
    let close = |open: usize, with: u8| text[open..].contains(&with);
    text.iter().enumerate().any(|(at, byte)| match byte {
        b'{' => close(at, b'}'),
        b'(' => at > 0 && b"$%".contains(&text[at - 1]) && close(at, b')'),
        _ => false,
    })
}

/// Returns whether an unquoted value may be the name of a variable: `password2`, `new_token`.
fn is_name_like(text: &[u8]) -> bool {
    const VOCABULARY: [&[u8]; 6] = [b"pass", b"token", b"secret", b"key", b"pwd", b"cred"];
    let lower = text[..text.len().min(64)].to_ascii_lowercase();
    value::is_plain_word(text)
        && VOCABULARY.iter().any(|w| memchr::memmem::find(&lower, w).is_some())
}

fn in_prose(meaning: Meaning, text: &[u8], makeup: Makeup, setting: Setting) -> bool {
    match meaning {
        Meaning::Password | Meaning::Secret => {
            makeup.has_digit_and_letter()
                && makeup.len >= 6
                && !is_name_like(text)
                && !value::is_snake(text)
                && (setting.alone || !value::is_uuid(text))
                && !is_counter(text)
        }
        // A fingerprint is written in one case, which is not mixed.
        Meaning::Token | Meaning::Pgp | Meaning::Auth => {
            makeup.len >= 20 && makeup.is_mixed() && token(text, makeup)
        }
        Meaning::Session | Meaning::Signature | Meaning::Cookie => false,
    }
}

fn password(text: &[u8], makeup: Makeup, setting: Setting) -> bool {
    let tight = setting.quoted || setting.tie == Tie::Tight;
    if is_counter(text) && makeup.letters() > 0 {
        return false;
    }
    if makeup.digits > 0 {
        return makeup.letters() + makeup.other > 0 || tight;
    }
    let joiners = text.iter().filter(|b| b"_-.:/".contains(b)).count();
    if makeup.other > joiners {
        return true;
    }
    if text.iter().all(|b| b.is_ascii_uppercase() || *b == b'_') && joiners > 0 {
        return false;
    }
    if joiners > 0 {
        let words = text.split(|b| b"_-.:/".contains(b)).count();
        return (tight && words >= 3 || setting.alone && words >= 4)
            && (setting.quoted || !text.contains(&b'_') && !setting.argument);
    }
    if makeup.upper == 0 || makeup.lower == 0 {
        let said = setting.quoted || setting.param || setting.env || setting.alone;
        return makeup.len >= 6 && said && !setting.argument | setting.quoted;
    }
    let firm = setting.quoted || (setting.env || setting.param) && setting.tie == Tie::Tight;
    let firm = firm || (setting.alone || tight) && is_jumbled(text);
    firm && makeup.len >= 8 && makeup.turns >= 2 && !ends_in_name(text)
}

/// Returns whether letters of both cases follow one another as in no name: several runs of
/// capitals, or a change of case at nearly every other letter.
fn is_jumbled(text: &[u8]) -> bool {
    let cases: Vec<bool> =
        text.iter().filter(|b| b.is_ascii_alphabetic()).map(u8::is_ascii_uppercase).collect();
    let runs: Vec<&[bool]> = cases.chunk_by(|a, b| a == b).collect();
    let capitals = runs.iter().filter(|run| run[0] && run.len() > 1).count();
    cases.len() >= 12 && runs.len() > 3 && (capitals > 2 || runs.len() * 5 >= cases.len() * 2)
}

/// Returns whether the last word of camel-case `text` names what it holds: `newPassword`.
fn ends_in_name(text: &[u8]) -> bool {
    name::meaning(text).is_some()
}

fn secret(text: &[u8], makeup: Makeup, setting: Setting) -> bool {
    let words = text.split(|b| b"_-.:/".contains(b));
    let wordy = words.clone().all(value::is_plain_word) && !is_jumbled(text);
    let count = words.count();
    if wordy {
        let firm = setting.env && setting.tie == Tie::Tight;
        let one = count == 1 && makeup.len >= 10 && makeup.upper == 0 && (firm || setting.quoted);
        return one || count >= 3 && firm;
    }
    makeup.has_digit_and_letter() && makeup.len >= 6 && !is_counter(text)
        || makeup.other > 0 && makeup.len >= 8
        || is_jumbled(text)
}

fn token(text: &[u8], makeup: Makeup) -> bool {
    let mut words = text.split(|b| b"_-.:/".contains(b));
    let wordy = words.all(|w| w.is_empty() || value::is_plain_word(w)) && !is_jumbled(text);
    let foreign = text.iter().any(|b| b"(){}[]\\|^*<>,;?".contains(b) || !b.is_ascii());
    makeup.len >= 8 && makeup.is_random() && !wordy && !foreign && !is_counter(text)
}

/// Returns whether `text` is a number, a date, a version or a size rather than a secret.
fn is_counter(text: &[u8]) -> bool {
    let letters = text.iter().filter(|b| b.is_ascii_alphabetic()).count();
    let digits = text.iter().filter(|b| b.is_ascii_digit()).count();
    let marks = text.len() - letters - digits;
    let starts =
        text[0].is_ascii_digit() || text[0] == b'v' && text.get(1).is_some_and(u8::is_ascii_digit);
    let plain = text.iter().all(|b| b.is_ascii_alphanumeric() || b".-:+/_%".contains(b));
    plain && starts && letters <= 3 && (marks > 0 || text.len() < 8) && digits + marks > letters
}
