//! What a name says about its value.

use super::value::each_word;
use super::words::listed;

/// What kind of secret a name promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A password: may be any word.
    Password,
    /// A shared secret: may be words, but hardly a single plain one.
    Secret,
    /// A token or a qualified key: has the look of one.
    Token,
    /// An OpenPGP key: its fingerprint is public.
    Pgp,
    /// Authorization: a scheme and credentials.
    Auth,
    /// A session's id: long and random.
    Session,
    /// A signature, verifier or bare key: long and random, and only where nothing is between name and value.
    Signature,
    /// Cookies: pairs of names and values.
    Cookie,
}

impl Meaning {
    /// Returns the kind that stands in the marker.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Meaning::Password => "password",
            Meaning::Secret => "secret",
            Meaning::Token | Meaning::Pgp => "token",
            Meaning::Auth => "credentials",
            Meaning::Session => "session",
            Meaning::Signature => "signature",
            Meaning::Cookie => "cookie",
        }
    }
}

/// The longest name that is looked at.
pub(super) const NAME_MAX: usize = 80;

/// The most words a name may have.
const WORDS_MAX: usize = 16;

/// Returns what `name` says about its value, if it says anything.
pub(super) fn meaning(name: &[u8]) -> Option<Meaning> {
    if name.len() > NAME_MAX {
        return None;
    }
    let mut lower = [0u8; NAME_MAX];
    let mut ends = [0usize; WORDS_MAX + 1];
    let (mut used, mut count) = (0, 0);
    each_word(name, |word| {
        // `PASSWORD2` is a password too.
        let digits = word.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        let kept =
            if digits < word.len() && digits <= 2 { word.len() - digits } else { word.len() };
        let kept = if word.ends_with(b"64") || word.ends_with(b"256") { word.len() } else { kept };
        for byte in &word[..kept] {
            lower[used] = byte.to_ascii_lowercase();
            used += 1;
        }
        count += 1;
        if let Some(end) = ends.get_mut(count) {
            *end = used;
        }
        true
    });
    let mut words = [&[][..]; WORDS_MAX];
    for (i, word) in words.iter_mut().enumerate().take(count) {
        *word = &lower[ends[i]..ends[i + 1]];
    }
    let mut words = words.get(..count)?;
    while let [head @ .., last] = words
        && !head.is_empty()
        && is_tail(last)
    {
        words = head;
    }
    let (&last, before) = words.split_last()?;
    told_by(last, before).or_else(|| told_by_first(words))
}

fn is_tail(word: &[u8]) -> bool {
    word.iter().all(u8::is_ascii_digit)
        || word.len() == 1
        || word.len() == 2 && word[0] == b'v' && word[1].is_ascii_digit()
        || listed().tail.has(word)
}

/// Qualified keys written as one word.
const JOINED: [&str; 14] = [
    "apikey",
    "accesskey",
    "writekey",
    "secretkey",
    "privatekey",
    "authkey",
    "licensekey",
    "masterkey",
    "signingkey",
    "encryptionkey",
    "accountkey",
    "appkey",
    "sharedkey",
    "privkey",
];

/// Returns what the last word says, given those before it.
fn told_by(last: &[u8], before: &[&[u8]]) -> Option<Meaning> {
    let ends = |tail: &str| last.ends_with(tail.as_bytes());
    let previous = before.last().copied().unwrap_or_default();
    let is = |word: &str| last == word.as_bytes();
    if before.contains(&&b"public"[..]) || before.contains(&&b"max"[..]) {
        return None;
    }
    // Where to go on in a list is nobody's secret.
    if is("token") && matches!(previous, b"page" | b"continuation" | b"cursor" | b"cancellation") {
        return None;
    }
    if ["password", "passwd", "passphrase", "passcode", "pwd", "pswd", "passwort", "psk", "bindpw"]
        .into_iter()
        .any(ends)
        || listed().pass.has(last)
        || is("pw") && !before.is_empty()
        || is("word") && previous == b"pass"
        || is("phrase") && matches!(previous, b"pass" | b"seed" | b"recovery" | b"secret")
    {
        return Some(Meaning::Password);
    }
    if ends("secret") || is("secrets") || is("mnemonic") || is("pepper") {
        return Some(Meaning::Secret);
    }
    if ends("token") || is("jwt") || is("pat") && !before.is_empty() || is("bearer") {
        return Some(Meaning::Token);
    }
    if is("key") && is_pgp(before) {
        return Some(Meaning::Pgp);
    }
    let qualified = before.iter().any(|w| listed().key_of.has(w));
    if JOINED.into_iter().any(ends) || is("key") && qualified {
        return Some(Meaning::Token);
    }
    if is("keys") && matches!(previous, b"api" | b"secret" | b"private" | b"unseal") {
        return Some(Meaning::Token);
    }
    if ends("auth")
        || is("ident") && previous == b"auth"
        || is("authorization")
        || is("authorisation")
        || listed().credentials.has(last)
    {
        return Some(Meaning::Auth);
    }
    if is("cookie") || is("cookies") {
        return Some(Meaning::Cookie);
    }
    let session = is("sid") || ends("sessid") || ends("sessionid") || ends("session");
    if session || is("id") && previous == b"session" {
        return Some(Meaning::Session);
    }
    let signed = ["sig", "signature", "hmac", "salt", "code", "verifier", "key", "ticket", "otp"];
    signed.into_iter().any(is).then_some(Meaning::Signature)
}

/// Returns whether a key after these words is an OpenPGP key that others may have.
fn is_pgp(before: &[&[u8]]) -> bool {
    let hidden = |word: &&[u8]| matches!(*word, b"private" | b"priv" | b"secret");
    matches!(before, [.., b"gpg" | b"pgp"]) && !before.iter().any(hidden)
}

/// Returns what a leading word says in names such as `TOKEN_GITHUB`.
fn told_by_first(words: &[&[u8]]) -> Option<Meaning> {
    let (&first, rest) = words.split_first()?;
    let strong = matches!(first, b"password" | b"passwd" | b"secret" | b"token" | b"apikey");
    let told = strong && rest.iter().all(|w| !listed().about.has(w));
    told.then_some(Meaning::Signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_tells() {
        use Meaning as M;
        for (name, want) in [
            ("DB_PASSWORD", Some(M::Password)),
            ("dbPassword", Some(M::Password)),
            ("spring.datasource.password", Some(M::Password)),
            ("PASSWORD_PROD", Some(M::Password)),
            ("PGPASSWORD", Some(M::Password)),
            ("storepass", Some(M::Password)),
            ("client_secret", Some(M::Secret)),
            ("secret_key_base", Some(M::Token)),
            ("AWS_SECRET_ACCESS_KEY", Some(M::Token)),
            ("X-Api-Key", Some(M::Token)),
            ("STRIPE_KEY", Some(M::Token)),
            ("_authToken", Some(M::Token)),
            ("client-key-data", Some(M::Token)),
            ("GPG_KEY", Some(M::Pgp)),
            ("release-pgp-key", Some(M::Pgp)),
            ("GPG_PRIVATE_KEY", Some(M::Token)),
            ("PRIVATE_GPG_KEY", Some(M::Token)),
            ("Authorization", Some(M::Auth)),
            ("Set-Cookie", Some(M::Cookie)),
            ("JSESSIONID", Some(M::Session)),
            ("X-Amz-Signature", Some(M::Signature)),
            ("TOKEN_GITHUB", Some(M::Signature)),
            ("public_key", None),
            ("password_file", None),
            ("token_type", None),
            ("max_tokens", None),
            ("nextPageToken", None),
            ("tokenizer", None),
            ("keyboard", None),
            ("author", None),
            ("compass", None),
            ("secret_name", None),
            ("passed", None),
            ("session_name", None),
        ] {
            assert_eq!(meaning(name.as_bytes()), want, "{name}");
        }
    }
}
