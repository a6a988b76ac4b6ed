//! Masks what varies between two sightings of one failure and keeps what identifies it.
//!
//! One pass, one token at a time: directories, positions, numbers, times, sizes, addresses,
//! hashes, versions and hosts become short tags; words, names, error codes and base names stay.
//!
//! **Invariant:** masking a masked text changes nothing.

use super::path;

/// Characters that end a token.
fn is_break(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '\'' | '"'
                | '`'
                | '('
                | ')'
                | '['
                | ']'
                | '{'
                | '}'
                | '<'
                | '>'
                | ','
                | ';'
                | '='
                | '|'
                | '│'
        )
}

/// Returns `text` with what varies masked, white space as single blanks and quotes as `'`.
pub fn mask(text: &str) -> String {
    let mut out = pass(text);
    // A cut may bring two pieces together that read differently now. That is rare, and settles
    // at once because a pass only ever shortens or masks.
    for _ in 0..4 {
        let again = pass(&out);
        if again == out {
            break;
        }
        out = again;
    }
    out
}

/// Masks every token once.
fn pass(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = "";
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        match c {
            '\'' | '"' | '`' | '´' | '‘' | '’' | '“' | '”' => {
                rest = quoted(rest, c, &mut out);
                last = "";
            }
            c if c.is_whitespace() || c.is_control() => {
                if !out.is_empty() && !out.ends_with(' ') {
                    out.push(' ');
                }
                rest = &rest[c.len_utf8()..];
            }
            c if is_break(c) => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
            _ => {
                let end = token_end(rest);
                let (token, tail) = rest.split_at(end);
                token_into(token, last, &mut out);
                out.push_str(ending(token, tail));
                last = token;
                rest = tail;
            }
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Returns where the token that `rest` starts with ends; `=` and `;` are part of an address.
fn token_end(rest: &str) -> usize {
    let end = rest.find(is_token_end).unwrap_or(rest.len());
    if !rest[..end].contains("://") {
        return end.max(1);
    }
    let inside = |c: char| !matches!(c, '=' | ';' | ',' | '[' | ']' | '{' | '}');
    rest.find(|c| is_token_end(c) && inside(c)).unwrap_or(rest.len())
}

fn is_token_end(c: char) -> bool {
    is_break(c) || c.is_control() || matches!(c, '´' | '‘' | '’' | '“' | '”')
}

/// Copies one quote; a quoted path, which may hold blanks, becomes its base name.
fn quoted<'t>(rest: &'t str, quote: char, out: &mut String) -> &'t str {
    let inner = &rest[quote.len_utf8()..];
    out.push('\'');
    let close = match quote {
        '‘' | '´' => '’',
        '“' => '”',
        other => other,
    };
    if let Some(end) = inner.find([close, '\'', '\n'])
        && is_absolute(&inner[..end])
    {
        out.push_str(&pass(path::base(&inner[..end])));
        return &inner[end..];
    }
    inner
}

/// Returns whether `text` starts like a path of its own.
fn is_absolute(text: &str) -> bool {
    let bytes = text.as_bytes();
    let drive = bytes.len() > 2
        && bytes[0].is_ascii_alphabetic()
        && bytes[1] == b':'
        && matches!(bytes[2], b'\\' | b'/');
    let rooted = text.len() > 1 && (text.starts_with('/') && !text.starts_with("//"));
    drive
        || rooted
        || text.starts_with("./")
        || text.starts_with("../")
        || text.starts_with("~/")
        || text.starts_with(".\\")
        || text.starts_with("..\\")
        || text.starts_with("\\\\")
}

/// Marks that end a sentence or introduce the next part of it.
const MARKS: [char; 5] = ['.', ':', '!', '?', '…'];

/// Copies one token that holds no blanks, masked, without the marks at its end.
fn token_into(token: &str, last: &str, out: &mut String) {
    let core = token.trim_end_matches(MARKS);
    if let Some(at) = core.find("://") {
        url_into(&core[at + 3..], out);
    } else if core.contains(['/', '\\']) && reduces(core) {
        word_into(path::base(core), last, out);
    } else {
        word_into(path::strip_position(core), last, out);
    }
}

/// Returns how a token ends: full stops go where a sentence may end, other marks stay once.
fn ending<'t>(token: &'t str, rest: &str) -> &'t str {
    let marks = &token[token.trim_end_matches(MARKS).len()..];
    if rest.starts_with('<') {
        return marks;
    }
    marks.get(..1).filter(|mark| *mark != ".").unwrap_or("")
}

/// Returns whether only the base name of `path` identifies.
fn reduces(path: &str) -> bool {
    if is_absolute(path) {
        return true;
    }
    let base = path::base(path);
    let segments = path.split(['/', '\\']).count();
    let extension = base.rsplit_once('.').is_some_and(|(stem, ext)| {
        !stem.is_empty()
            && (1..=5).contains(&ext.len())
            && ext.bytes().all(|b| b.is_ascii_alphanumeric())
            && ext.bytes().any(|b| b.is_ascii_alphabetic())
    });
    !path.starts_with('@')
        && (extension || (segments > 3 && !path.split('/').next().is_some_and(|s| s.contains('.'))))
}

/// Copies an address without its host: what is asked for identifies, where it is varies.
fn url_into(rest: &str, out: &mut String) {
    let path = rest.split(['?', '#']).next().unwrap_or(rest);
    let base = path.trim_end_matches('/').split_once('/').map_or("", |(_, path)| path::base(path));
    out.push_str("<url");
    if !base.is_empty() {
        out.push(':');
        word_into(base, "", out);
    }
    out.push('>');
}

/// Copies one word with its varying parts masked.
fn word_into(word: &str, last: &str, out: &mut String) {
    match kind(word, last) {
        Some(tag) => out.push_str(tag),
        None => match word.rsplit_once('@') {
            Some((name, version)) if !name.is_empty() && is_version(version) => {
                out.push_str(name);
                out.push_str("@<version>");
            }
            Some((name, host)) if is_mail(name, host) => out.push_str("<mail>"),
            _ => stem_into(word, out),
        },
    }
}

/// Returns whether `name@host` is the address of a person or an account.
fn is_mail(name: &str, host: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+' | b'%');
    let top = host.rsplit_once('.').map_or("", |(_, top)| top);
    !name.is_empty()
        && name.bytes().chain(host.bytes()).all(plain)
        && (2..=12).contains(&top.len())
        && top.bytes().all(|b| b.is_ascii_alphabetic())
}

/// Copies a name; a number or hash that only counts instances (`web-1`, `run_48213`) is masked.
fn stem_into(word: &str, out: &mut String) {
    if let Some(at) = word.rfind(['-', '_', '#', '.', ':'])
        && at > 0
        && let tail = &word[at + 1..]
        && let Some(tag) = kind(tail, "")
    {
        stem_into(&word[..at], out);
        out.push_str(&word[at..=at]);
        out.push_str(tag);
        return;
    }
    out.push_str(word);
}

/// Returns the tag for a word that varies as a whole.
fn kind(word: &str, last: &str) -> Option<&'static str> {
    let bytes = word.as_bytes();
    if bytes.is_empty() || !bytes.iter().any(u8::is_ascii_digit) {
        return looks_like_hash(bytes).then_some("<hash>");
    }
    if bytes.iter().all(u8::is_ascii_digit) {
        return (!is_status(word, last)).then_some("<n>");
    }
    if is_uuid(bytes) {
        return Some("<uuid>");
    }
    if is_address(word) {
        return Some("<addr>");
    }
    if looks_like_hash(bytes) {
        return Some("<hash>");
    }
    if is_ip(word) {
        return Some("<ip>");
    }
    if is_version(word) {
        return Some("<version>");
    }
    (is_quantity(word) || is_moment(bytes))
        .then_some("<n>")
        .or_else(|| random(bytes).then_some("<id>"))
}

/// Returns whether the number is a status that identifies, by the word before it.
fn is_status(word: &str, last: &str) -> bool {
    let last = last.trim_end_matches([':', '=']);
    let named = ["status", "HTTP", "code", "StatusCode", "statusCode", "http", "error", "errno"];
    word.len() == 3
        && matches!(word.as_bytes()[0], b'4' | b'5')
        && (named.contains(&last) || last.starts_with("HTTP/"))
}

fn is_uuid(bytes: &[u8]) -> bool {
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

fn is_address(word: &str) -> bool {
    let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    hex.is_some_and(|hex| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Returns whether the word is a hash: hex digits only, and too long or too mixed for a word.
fn looks_like_hash(bytes: &[u8]) -> bool {
    let digits = bytes.iter().filter(|b| b.is_ascii_digit()).count();
    bytes.len() >= 7
        && bytes.iter().all(u8::is_ascii_hexdigit)
        && (digits >= 2 || bytes.len() >= 16)
        && (digits < bytes.len() || bytes.len() >= 7)
}

fn is_ip(word: &str) -> bool {
    let host = word.split_once(':').map_or(word, |(host, _)| host);
    let mut parts = 0;
    let dotted = host.split('.').all(|part| {
        parts += 1;
        part.parse::<u8>().is_ok()
    });
    if dotted && parts == 4 {
        return true;
    }
    word.bytes().filter(|b| *b == b':').count() >= 2
        && word.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'))
}

fn is_version(word: &str) -> bool {
    let bare = word.trim_start_matches(['^', '~', '>', '<', '=', 'v', 'V']);
    let core = bare.split(['-', '+']).next().unwrap_or(bare);
    let mut parts = core.split('.');
    let numeric = |part: &str| {
        part == "x" || part == "*" || (!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => {
            major.bytes().all(|b| b.is_ascii_digit())
                && !major.is_empty()
                && parts.all(|part| {
                    part.bytes()
                        .next()
                        .is_some_and(|b| b.is_ascii_digit() || b == b'x' || b == b'*')
                })
                && (numeric(minor) || minor.bytes().next().is_some_and(|b| b.is_ascii_digit()))
                && !is_quantity(word)
        }
        (Some(major), None) => {
            bare.len() < word.len()
                && !major.is_empty()
                && major.bytes().all(|b| b.is_ascii_digit())
        }
        (None, _) => false,
    }
}

/// Returns whether the word is a number with a unit: a time, a size, a share.
fn is_quantity(word: &str) -> bool {
    let unit =
        word.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_'));
    let number = &word[..word.len() - unit.len()];
    let units = [
        "ns", "us", "µs", "ms", "s", "sec", "secs", "m", "min", "mins", "h", "d", "B", "b", "kB",
        "KB", "KiB", "k", "K", "MB", "MiB", "M", "G", "GB", "GiB", "TB", "TiB", "kb", "mb", "gb",
        "%", "x", "px", "Mi", "Gi", "Ki", "bytes",
    ];
    number.bytes().any(|b| b.is_ascii_digit())
        && (units.contains(&unit)
            || compound(word)
            || (unit.is_empty()
                && number.contains(['.', '-', '+', '_'])
                && !number.starts_with(['-', '+'])
                && number.matches('.').count() < 2)
            || (unit.is_empty() && number.starts_with(['-', '+'])))
}

/// Returns whether the word is a duration of several units, as in `1m30.5s`.
fn compound(word: &str) -> bool {
    word.as_bytes()[0].is_ascii_digit()
        && word.ends_with('s')
        && word.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'h' | b'm' | b's' | b'.'))
}

/// Returns whether the word is a time or date: digits joined by `:`, `-`, `T` and the like.
fn is_moment(bytes: &[u8]) -> bool {
    let digits = bytes.iter().filter(|b| b.is_ascii_digit()).count();
    digits >= 4
        && bytes[0].is_ascii_digit()
        && bytes.iter().any(|b| matches!(b, b':' | b'-' | b'/'))
        && bytes.iter().all(|b| {
            b.is_ascii_digit() || matches!(b, b':' | b'-' | b'/' | b'.' | b'T' | b'Z' | b'+' | b'_')
        })
}

/// Returns whether the word looks drawn at random: long, with digits and letters mixed.
fn random(bytes: &[u8]) -> bool {
    if bytes.len() < 12 || !bytes.iter().all(u8::is_ascii_alphanumeric) {
        return false;
    }
    let turns = bytes.windows(2).filter(|w| w[0].is_ascii_digit() != w[1].is_ascii_digit()).count();
    turns >= 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        let got = mask(text);
        assert_eq!(got, want, "{text}");
        assert_eq!(mask(&got), got, "masking twice: {text}");
    }

    #[test]
    fn what_varies_is_masked() {
        check("open '/home/me/my app/config.json'", "open 'config.json'");
        check("src/app/main.ts:12:7 - broken", "main.ts - broken");
        check("at C:\\Users\\me\\app\\main.ts(3,4): bad", "at main.ts(<n>,<n>): bad");
        check("took 1.53s (12 MB of 30MiB, 45%)", "took <n> (<n> MB of <n>, <n>)");
        check("pid 4312 at 0x7ffe12ab", "pid <n> at <addr>");
        check("commit 3f2a9bc1 of d41d8cd98f00b204e9800998ecf8427e", "commit <hash> of <hash>");
        check("id 123e4567-e89b-12d3-a456-426614174000", "id <uuid>");
        check("GET https://api.host.dev/v1/users?id=3 refused", "GET <url:users> refused");
        check("connect 10.0.0.12:5432", "connect <ip>");
        check("wants react@18.2.0, got ^17.0.2", "wants react@<version>, got <version>");
        check("2024-05-01T10:00:00.123Z boom", "<n> boom");
        check("container web-1 died", "container web-<n> died");
        check("denied for me.too@shop.dev (or others)", "denied for <mail> (or others)");
    }

    #[test]
    fn what_identifies_stays() {
        check(
            "error TS2322: Type 'A' is not assignable",
            "error TS2322: Type 'A' is not assignable",
        );
        check("error[E0282]: type annotations", "error[E0282]: type annotations");
        check("package github.com/a/b/c/d", "package github.com/a/b/c/d");
        check("module '@scope/pkg'", "module '@scope/pkg'");
        check("status 404", "status 404");
        check("amd64 utf8 python3", "amd64 utf8 python3");
        check("and/or", "and/or");
    }
}
