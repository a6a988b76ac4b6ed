//! Secrets known beforehand: values of environment variables, and the forms they take.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::lines::Lines;
use super::name::{self, Meaning};
use super::value::{self, Makeup};

/// The shortest value worth looking for; shorter ones would blot out ordinary words.
const SHORTEST: usize = 8;

/// Finds values that are known to be secret.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownSecrets {
    search: Option<AhoCorasick>,
}

impl KnownSecrets {
    /// Takes those of `variables` whose names say secret and whose values can be told from words.
    pub(super) fn new<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut forms = Vec::new();
        for (name, value) in variables {
            for secret in secrets_in(name, value) {
                add_forms(secret, &mut forms);
            }
        }
        forms.sort_unstable();
        forms.dedup();
        let search = (!forms.is_empty())
            .then(|| {
                AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&forms).ok()
            })
            .flatten();
        Self { search }
    }

    /// Returns the places of known values in `text`.
    pub(super) fn find<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = Range<usize>> + 't {
        let mut lines = Lines::new(text);
        let hits = self.search.iter().flat_map(move |search| search.find_iter(text));
        // Of an over-long line, each part is judged alone.
        hits.map(|hit| hit.range()).filter(move |place| lines.around(place.start).end >= place.end)
    }
}

/// Returns what of a variable's value is secret.
fn secrets_in<'v>(name: &str, value: &'v str) -> Vec<&'v [u8]> {
    if matches!(name, "PWD" | "OLDPWD") {
        // The shell's own: directories, however they are called.
        return Vec::new();
    }
    let value = value.trim().as_bytes();
    // The password of an address is a secret whatever the variable is called.
    let in_url = memchr::memmem::find(value, b"://").and_then(|at| {
        let rest = &value[at + 3..];
        let userinfo = &rest[..memchr::memrchr(b'@', rest)?];
        Some(&userinfo[memchr::memchr(b':', userinfo)? + 1..])
    });
    let secret = match name::meaning(name.as_bytes()) {
        Some(Meaning::Password | Meaning::Secret | Meaning::Token | Meaning::Auth) => {
            in_url.or(Some(value))
        }
        Some(Meaning::Pgp) => in_url.or(Some(value)).filter(|value| !value::is_fingerprint(value)),
        Some(Meaning::Session | Meaning::Signature | Meaning::Cookie) | None => in_url,
    };
    // A key of many lines is looked for line by line, so that each line can be judged alone.
    let lines = secret.unwrap_or_default().split(|b| b"\r\n".contains(b)).map(<[u8]>::trim_ascii);
    lines.filter(|line| is_telling(line)).collect()
}

/// Returns whether finding `value` somewhere says that it was this secret.
fn is_telling(value: &[u8]) -> bool {
    let makeup = Makeup::of(value);
    let plain = makeup.digits == 0
        && makeup.other == 0
        && makeup.len < 16
        && (makeup.upper == 0 || makeup.lower == 0 || makeup.turns < 3);
    makeup.len >= SHORTEST
        && !plain
        && makeup.distinct > 4
        && makeup.letters() + makeup.other > 0
        && !value::is_placeholder(value)
        && !value::is_path(value)
        && !value.starts_with(b"-----")
}

/// Adds `secret` and what it looks like in URLs, JSON and base64.
fn add_forms(secret: &[u8], forms: &mut Vec<Vec<u8>>) {
    forms.push(secret.to_vec());
    for upper in [true, false] {
        let encoded = percent(secret, upper);
        forms.push(encoded.replace("%20", "+").into_bytes());
        forms.push(encoded.into_bytes());
    }
    if let Ok(text) = std::str::from_utf8(secret) {
        let json = serde_json::Value::from(text).to_string();
        forms.push(json.as_bytes()[1..json.len() - 1].to_vec());
    }
    // Where base64 begins decides how it looks; the characters that hold a neighbour's bits too
    // are left out.
    for before in 0..3 {
        let padded = [&[0; 2][..before], secret].concat();
        let head = [0, 2, 3][before];
        let whole = padded.len() / 3 * 4;
        let end = if padded.len() % 3 == 0 { whole } else { whole + padded.len() % 3 };
        for text in [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)] {
            let form = &text.as_bytes()[head..end.min(text.len())];
            if form.len() >= SHORTEST {
                forms.push(form.to_vec());
            }
            if before == 0 {
                forms.push(text.into_bytes());
            }
        }
    }
}

fn percent(secret: &[u8], upper: bool) -> String {
    let mut out = String::with_capacity(secret.len() * 3);
    for &byte in secret {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else if upper {
            out.push_str(&format!("%{byte:02X}"));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, secret: &str, text: &str, want: bool) {
        let known = KnownSecrets::new([(name, secret)]);
        assert_eq!(known.find(text.as_bytes()).next().is_some(), want, "{name}={secret} in {text}");
    }

    #[test]
    fn a_value_is_found_in_every_form() {
        let secret = "tr&y m3/if+you";
        check("DB_PASSWORD", secret, "x tr&y m3/if+you x", true);
        check("DB_PASSWORD", secret, "?p=tr%26y%20m3%2Fif%2Byou&", true);
        check("DB_PASSWORD", secret, "?p=tr%26y+m3%2fif%2byou&", true);
        for before in ["", "u", "us", "use", "user:"] {
            for after in ["", "\n", "@h"] {
                let plain = format!("{before}{secret}{after}");
                let text = base64::engine::general_purpose::STANDARD.encode(plain);
                check("DB_PASSWORD", secret, &text, true);
            }
        }
        check("API_TOKEN", "a\"quoted\"9", r#"{"k":"a\"quoted\"9"}"#, true);
        check("DATABASE_URL", "postgres://u:sw0rdf1sh!@h/db", "auth sw0rdf1sh! failed", true);
    }

    #[test]
    fn ordinary_words_and_other_variables_are_left_alone() {
        check("DB_PASSWORD", "postgres", "cannot reach postgres", false);
        check("DB_PASSWORD", "changeme-please", "changeme-please", false);
        check("AUTH_TOKEN_FILE", "/run/secrets/tok3n", "/run/secrets/tok3n", false);
        check("HOME", "/home/alice99", "/home/alice99", false);
        for name in ["PWD", "OLDPWD"] {
            check(name, "/tmp/x-kzit8zzo/app", "/tmp/x-kzit8zzo/app/server.js", false);
        }
        check("GIT_TOKEN", "12345678", "took 12345678 ns", false);
        let hex = "0d96df4d4110e5c43fbfb17f2d347ea6aa65421d";
        check("GPG_KEY", hex, &format!("signed by {hex}"), false);
        check("GPG_PRIVATE_KEY", hex, &format!("signed by {hex}"), true);
    }
}
