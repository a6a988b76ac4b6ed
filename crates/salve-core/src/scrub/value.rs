//! What a value looks like: random, a placeholder, code, a word, prose.

use super::words::listed;

/// Counts of what a value is made of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Makeup {
    pub(super) len: usize,
    pub(super) digits: usize,
    pub(super) lower: usize,
    pub(super) upper: usize,
    /// Bytes that are neither letter nor digit.
    pub(super) other: usize,
    /// How often a letter or digit is followed by one of another kind (aA, a1).
    pub(super) turns: usize,
    pub(super) distinct: u32,
}

/// How much of a value is looked at; what is longer is judged by its beginning.
const ENOUGH: usize = 256;

impl Makeup {
    /// Counts what `value` is made of.
    pub(super) fn of(value: &[u8]) -> Self {
        let mut makeup = Self { len: value.len(), ..Self::default() };
        let mut seen = [0u64; 4];
        let mut last = 0;
        for &byte in value.iter().take(ENOUGH) {
            seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
            let kind = match byte {
                b'0'..=b'9' => {
                    makeup.digits += 1;
                    1
                }
                b'a'..=b'z' => {
                    makeup.lower += 1;
                    2
                }
                b'A'..=b'Z' => {
                    makeup.upper += 1;
                    3
                }
                _ => {
                    makeup.other += 1;
                    0
                }
            };
            makeup.turns += usize::from(kind != last && kind != 0 && last != 0);
            last = kind;
        }
        makeup.distinct = seen.iter().map(|bits| bits.count_ones()).sum();
        makeup
    }

    pub(super) fn letters(self) -> usize {
        self.lower + self.upper
    }

    pub(super) fn has_digit_and_letter(self) -> bool {
        self.digits > 0 && self.letters() > 0
    }

    /// Returns whether there is a digit, an upper-case and a lower-case letter.
    pub(super) fn is_mixed(self) -> bool {
        self.digits > 0 && self.upper > 0 && self.lower > 0
    }

    /// Returns whether the value reads as drawn at random rather than as words.
    pub(super) fn is_random(self) -> bool {
        let varied = self.distinct >= 6 || self.len < 12;
        varied
            && (self.has_digit_and_letter() || self.upper > 1 && self.lower > 1 && self.turns > 3)
    }
}

/// What the table asks of the part after a token's prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Body {
    /// Digits and letters, or both cases in a jumble.
    #[default]
    Random,
    /// A digit and a letter.
    Digit,
    /// A digit and both cases, well mixed.
    Mixed,
    /// Many different characters.
    Varied,
    /// Anything.
    Any,
}

impl Body {
    /// Returns whether `body` looks as asked and is no placeholder.
    pub(super) fn accepts(self, body: &[u8]) -> bool {
        let makeup = Makeup::of(body);
        match self {
            Body::Any => true,
            Body::Random => makeup.is_random() && !is_blanked(body) && !talks(body),
            Body::Digit => {
                makeup.has_digit_and_letter() && makeup.distinct > 7 && !is_blanked(body)
            }
            Body::Mixed => makeup.is_mixed() && makeup.turns > 4 && !is_blanked(body),
            Body::Varied => makeup.distinct > 6 && !is_blanked(body) && !talks(body),
        }
    }
}

/// Returns whether `value` has a stretch that stands for something left out: `xxxx`, `***`, `...`.
pub(super) fn is_blanked(value: &[u8]) -> bool {
    let (mut last, mut run) = (0, 0);
    for &byte in value.iter().take(ENOUGH) {
        let byte = byte.to_ascii_lowercase();
        run = if byte == last { run + 1 } else { 1 };
        last = byte;
        let least = match byte {
            b'*' | b'.' => 3,
            b'x' | b'#' | b'_' => 4,
            _ => usize::MAX,
        };
        if run >= least {
            return true;
        }
    }
    let dots = |w: &[u8]| w == "…".as_bytes() || w == "•".as_bytes();
    !value.is_ascii() && value.windows(3).take(ENOUGH).any(dots)
}

/// Returns whether `value` is drawn at random from all that can be typed, as the keys of Django and
/// WordPress are; code and patterns have no such mixture, and a value put in at run time has `${`.
pub(super) fn is_noise(value: &[u8]) -> bool {
    let makeup = Makeup::of(value);
    // Django's keys have no capitals.
    let varied = makeup.distinct >= if makeup.upper > 0 { 24 } else { 20 };
    if value.len() < 40 || makeup.digits == 0 || makeup.lower == 0 || !varied || makeup.other < 5 {
        return false;
    }
    let mut signs: Vec<u8> = value.iter().copied().filter(|b| !b.is_ascii_alphanumeric()).collect();
    signs.sort_unstable();
    signs.dedup();
    let opens = |pair: &[u8]| matches!(pair, b"${" | b"#{" | b"%{" | b"{{" | b"$(" | b"](" | b"()");
    signs.len() >= 4
        && (makeup.turns + makeup.other) * 6 >= value.len()
        && value.iter().all(u8::is_ascii_graphic)
        && !value.windows(2).any(opens)
        && !is_blanked(value)
}

/// Returns whether `value` is the fingerprint of an OpenPGP key, in one piece: 40 or, since
/// version 6, 64 hexadecimal digits.
pub(super) fn is_fingerprint(value: &[u8]) -> bool {
    matches!(value.len(), 40 | 64) && value.iter().all(u8::is_ascii_hexdigit)
}

/// Returns whether a word in `value` says that it stands for another.
fn talks(value: &[u8]) -> bool {
    let mut random = false;
    let mut telling = false;
    each_word(&value[..value.len().min(ENOUGH)], |word| {
        telling |= listed().telling.has(word);
        random |= word.len() >= 16 && Makeup::of(word).has_digit_and_letter();
        true
    });
    telling && !random
}

/// Returns whether `value` is there to be replaced: `<token>`, `your-key-here`, `${VAR}`, `***`.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let (Some(&first), Some(&last)) = (value.first(), value.last()) else { return true };
    let wrapped =
        matches!((first, last), (b'<', b'>') | (b'{', b'}') | (b'[', b']') | (b'(', b')'))
            || matches!((first, last), (b'%', b'%') | (b'@', b'@'))
            || value.starts_with(b"__") && value.ends_with(b"__");
    if wrapped || is_blanked(value) || is_reference(value) || talks(value) {
        return true;
    }
    let makeup = Makeup::of(value);
    if makeup.distinct == 1 || makeup.letters() + makeup.digits == 0 {
        return true;
    }
    value.len() <= ENOUGH && each_word(value, |word| listed().filler.has(word))
}

/// Returns whether `value` names where the secret is rather than being it: `$VAR`, `${{ x }}`,
/// `{{ x }}`, `%s`, `env:X`.
fn is_reference(value: &[u8]) -> bool {
    let name = |rest: &[u8]| {
        rest.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
            && rest.iter().all(|b| b.is_ascii_alphanumeric() || b"_.:[]".contains(b))
    };
    match value {
        [b'$', b'{' | b'(', ..] | [b'#', b'{', ..] | [b'%', b'{' | b'(', ..] => true,
        [b'{', b'{', ..] | [b'<', b'%' | b'?', ..] | [b'!', b'R' | b'S' | b'G', ..] => {
            value[0] != b'!' || value.starts_with(b"!Ref") || value.starts_with(b"!Sub")
        }
        [b'$', rest @ ..] => {
            name(rest) && !Makeup::of(rest).has_digit_and_letter() || rest.starts_with(b"env:")
        }
        [b'%', b's' | b'd' | b'v' | b'q' | b'r' | b'@'] => true,
        // `password=@file`: read from there.
        [b'@', file @ ..] => {
            let named = |b: &u8| b.is_ascii_alphanumeric() || b"_./-".contains(b);
            file == b"-" || file.iter().all(named) && file.iter().any(|b| b"./".contains(b))
        }
        _ => {
            let lower = value[..value.len().min(12)].to_ascii_lowercase();
            [
                &b"env:"[..],
                b"env(",
                b"env.",
                b"vault:",
                b"secret://",
                b"op://",
                b"ssm:",
                b"arn:aws:",
                b"file:",
            ]
            .iter()
            .any(|p| lower.starts_with(p))
        }
    }
}

/// Returns whether `value` is a word of state, type or syntax.
pub(super) fn is_stop_word(value: &[u8]) -> bool {
    let value = value.strip_suffix(b"?").unwrap_or(value);
    listed().stop.has(value)
}

/// Returns whether an unquoted `value` is an expression rather than a literal.
pub(super) fn is_code(value: &[u8]) -> bool {
    let Some(&first) = value.first() else { return true };
    let ident =
        value.iter().take_while(|b| b.is_ascii_alphanumeric() || b"_.:$".contains(b)).count();
    let call = ident > 0 && matches!(value.get(ident), Some(b'(' | b'[' | b'<' | b'{'));
    let chain = value.contains(&b'.') && value.split(|&b| b == b'.').all(is_identifier);
    let path = value.windows(2).any(|w| w == b"::" || w == b"->" || w == b"=>");
    let sigil = b"&*(){}[]<>|,;=+!?~^".contains(&first) && !first.is_ascii_alphanumeric();
    let sigil = sigil && Makeup::of(value).digits == 0;
    call || chain || path || sigil || first == b'(' || first == b'[' || first == b'{'
}

/// Returns whether `word` could name a variable or a member and hardly is a token.
fn is_identifier(word: &[u8]) -> bool {
    let digits = word.iter().filter(|b| b.is_ascii_digit()).count();
    word.first().is_some_and(|b| b.is_ascii_alphabetic() || b"_$".contains(b))
        && word.iter().all(|b| b.is_ascii_alphanumeric() || b"_$".contains(b))
        && digits <= 2
        && word.len() <= 40
}

/// Returns whether `text` is written as names with several words are: `snake_case_2`, `A_CONSTANT`.
pub(super) fn is_snake(text: &[u8]) -> bool {
    text.contains(&b'_')
        && text.split(|&b| b == b'_').all(|word| {
            word.len() <= 2 && word.iter().all(u8::is_ascii_alphanumeric) || is_plain_word(word)
        })
}

/// Returns whether `word` is an identifier as people write them: letters, at most ending in digits.
pub(super) fn is_plain_word(word: &[u8]) -> bool {
    let end = word.iter().rposition(|b| !b.is_ascii_digit()).map_or(0, |at| at + 1);
    end > 0
        && word.len() - end <= 2
        && word.len() <= 40
        && word[..end].iter().all(|b| b.is_ascii_alphabetic() || *b == b'_' || *b == b'$')
}

/// Returns whether `value` is a UUID.
pub(super) fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// Returns whether `value` is a path or a plain web address.
pub(super) fn is_path(value: &[u8]) -> bool {
    let start = [&b"/"[..], b"./", b"../", b"~/", b"http://", b"https://", b"file://", b"C:\\"];
    let slashes = value.iter().filter(|&&b| b == b'/' || b == b'\\').count();
    let wordy = value
        .split(|b| b"/\\._-:".contains(b))
        .all(|part| part.len() < 24 && (is_plain_word(part) || part.len() < 8));
    start.iter().any(|s| value.starts_with(s)) && slashes >= 1 && wordy
}

/// Returns whether a quoted `value` with spaces reads as a sentence rather than a passphrase.
pub(super) fn is_prose(value: &[u8]) -> bool {
    let mut words = value.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty());
    let small = words.clone().any(|w| {
        let w = w.strip_suffix(b".").or(w.strip_suffix(b"?")).or(w.strip_suffix(b":")).unwrap_or(w);
        listed().prose.has(w)
    });
    let lettered = |w: &[u8]| w.iter().all(|b| b.is_ascii_alphabetic() || b".,?!:'-".contains(b));
    let count = words.clone().count();
    small || count > 1 && words.all(lettered) && value[0].is_ascii_uppercase() || count == 2
}

/// Calls `visit` with each word of `value` while it returns true; returns whether it always did.
///
/// Words end at what is neither letter nor digit and where lower case turns into upper.
pub(super) fn each_word(value: &[u8], mut visit: impl FnMut(&[u8]) -> bool) -> bool {
    let mut start = 0;
    for at in 0..=value.len() {
        let here = value.get(at).copied().unwrap_or(b' ');
        let hump = at > start && here.is_ascii_uppercase() && value[at - 1].is_ascii_lowercase();
        if (!here.is_ascii_alphanumeric() || hump) && at > start && !visit(&value[start..at]) {
            return false;
        }
        if !here.is_ascii_alphanumeric() {
            start = at + 1;
        } else if hump {
            start = at;
        }
    }
    true
}
