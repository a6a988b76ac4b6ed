//! Cuts a message down to what everyone who tells it says.
//!
//! One failure has many tellers. A wrapper puts its own words in front (`Service 'web' failed to
//! build: …`), a driver the name of its exception, a server the request behind it. The statement
//! in the middle is the same for all of them, and it identifies.

use super::head;
use super::path;
use super::telling;

/// How much of a message is looked at.
const LONGEST: usize = 1000;
/// How many links of a chain are looked at, from its end.
const LINKS: usize = 24;

/// How many telling words make a statement that stands for itself.
const STATEMENT: usize = 3;
/// How many make one that need not name anything.
const LONG_STATEMENT: usize = 5;

/// Parts of words that deny: a statement has one of them.
const DENIALS: &[&str] = &[
    "not",
    "n't",
    "fail",
    "unable",
    " no ",
    "no ",
    "invalid",
    "missing",
    "unexpected",
    "unknown",
    "denied",
    "refused",
    "exceed",
    "already",
    "must",
    "requir",
    "expired",
    "unsupported",
    "conflict",
    "mismatch",
    "error",
    "illegal",
    "undefined",
    "too ",
    "timed out",
    "timeout",
    "unresolved",
    "forbidden",
    "unauthorized",
    "limit",
    "abort",
    "killed",
    "corrupt",
    "violat",
    "duplicate",
    "ambiguous",
    "reached",
    "wrong",
    "incompatible",
    "disabled",
    "only",
    "never",
    "lack",
    "out of",
    "disconnect",
    "outdated",
    "deprecated",
    "broken",
    "unreachable",
    "locked",
    "closed",
    "changed",
];

/// What an operating system says of any file, host or process.
const SYSTEM: &[&str] = &[
    "address already in use",
    "bad file descriptor",
    "bad interpreter",
    "cannot open shared object file",
    "certificate signed by unknown authority",
    "executable file not found in $path",
    "file not found",
    "module not found",
    "broken pipe",
    "cannot allocate memory",
    "connection refused",
    "connection reset by peer",
    "connection timed out",
    "context canceled",
    "context deadline exceeded",
    "device or resource busy",
    "directory not empty",
    "eof",
    "exec format error",
    "file exists",
    "i/o timeout",
    "input/output error",
    "invalid argument",
    "is a directory",
    "name does not resolve",
    "name or service not known",
    "network is unreachable",
    "no address associated with hostname",
    "no route to host",
    "no space left on device",
    "no such file or directory",
    "no such host",
    "no such process",
    "nodename nor servname provided",
    "not a directory",
    "not found",
    "operation not permitted",
    "operation timed out",
    "permission denied",
    "read-only file system",
    "resource temporarily unavailable",
    "temporary failure in name resolution",
    "text file busy",
    "timed out",
    "timeout",
    "too many open files",
    "unexpected eof",
    "unknown",
];

/// Where advice, details or the request begin, whatever the statement was.
const TAILS: &[&str] = &[
    " Did you mean",
    " did you mean",
    "; did you mean",
    "; see ",
    " See http",
    " see http",
    " For more info",
    " Please ",
    ", please ",
    " DETAIL: ",
    " (SQL: ",
    " (Connection: ",
    " Require stack:",
    " at http",
    "\\n",
    "\\r\\n",
    "&#xA;",
    " To add an exception",
    "; if you ",
    ", if you ",
    " - did you",
    ". preemption:",
];

/// Returns the part of a message that is the same for all who tell it.
pub(crate) fn shared_statement(message: &str) -> &str {
    let end = (0..=LONGEST.min(message.len())).rev().find(|at| message.is_char_boundary(*at));
    let text = without_tail(said(&message[..end.unwrap_or(0)]));
    let text = without_place(text);
    let text = first_sentence(text);
    let text = without_verdict(text);
    let text = statement(text);
    let text = without_remark(without_tag(text));
    let text = without_name(text).trim_matches([' ', ',', ';', '*']);
    match text.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
        // Ruby has the name of the exception behind its words.
        Some((words, name)) if head::exception(name).is_some() || name.contains("::") => words,
        _ => text,
    }
}

/// Returns the first sentence of a message, without advice behind it.
pub(crate) fn opening(message: &str) -> &str {
    first_sentence(without_tail(message)).trim_end()
}

/// Returns the message inside a printed object: `{"error":{"message":"…"}}`.
fn said(text: &str) -> &str {
    const KEYS: &[&str] =
        &["\"message\":", "'message':", "\\\"message\\\":", "\"msg\":", "message:"];
    let found = KEYS.iter().find_map(|key| text.find(key).map(|at| &text[at + key.len()..]));
    let Some(value) = found.filter(|_| text.contains('{')) else { return text };
    let value = value.trim_start();
    let quote = value.trim_start_matches('\\');
    let Some(mark) = quote.chars().next().filter(|c| matches!(c, '"' | '\'')) else { return text };
    let inner = &quote[1..];
    let closes = |at: usize| {
        let next = inner[at + 1..].trim_start_matches(['"', '\'', '\\']).trim_start();
        next.is_empty() || next.starts_with([',', '}', ')', ']'])
    };
    let end = inner.char_indices().find(|(at, c)| *c == mark && closes(*at));
    let inner = end.map_or(inner, |(at, _)| &inner[..at]).trim_end_matches('\\');
    if telling::count(inner) >= 2 { inner } else { text }
}

/// Cuts off what always follows a statement and never belongs to it.
fn without_tail(text: &str) -> &str {
    let ends = TAILS.iter().filter_map(|tail| text.find(tail)).filter(|at| *at > 16).min();
    let text = ends.map_or(text, |at| &text[..at]);
    // Containers end every chain with it.
    let bare = text.trim_end_matches(['.', ' ', '"', '\'']);
    bare.strip_suffix(": unknown").map_or(text, |rest| rest.trim_end_matches(['"', '\'']))
}

/// Cuts a place off the end: where a file is differs from machine to machine.
fn without_place(text: &str) -> &str {
    let bare = text.trim_end_matches(['.', ' ']);
    if let Some((head, place)) = bare.strip_suffix(')').and_then(|inner| inner.rsplit_once(" ("))
        && head.len() > 16
        && is_path(place)
    {
        return head;
    }
    for mark in [" in ", " at "] {
        if let Some((head, place)) = bare.rsplit_once(mark)
            && head.len() > 16
            && is_path(place.split(" on line ").next().unwrap_or(place))
        {
            return head;
        }
    }
    text
}

/// Returns whether a text is a path and nothing else.
fn is_path(text: &str) -> bool {
    let text = text.trim_matches(['\'', '"', '`']);
    let windows = text.as_bytes().get(1..3) == Some(b":\\");
    let placed = path::strip_position(text).len() < text.len() && text.contains('.');
    (windows || placed || text.starts_with('/')) && text.len() > 3 && !text.contains(", ")
}

/// Cuts a message behind its first sentence if that is long enough to say something.
fn first_sentence(text: &str) -> &str {
    let bytes = text.as_bytes();
    let ends = memchr::memmem::find_iter(bytes, b". ")
        .find(|at| *at >= 24 && bytes.get(at + 2).is_some_and(u8::is_ascii_uppercase));
    ends.map_or(text, |at| &text[..at])
}

/// Drops words in front that only say that something failed: `INSTALLATION FAILED: …`.
fn without_verdict(text: &str) -> &str {
    let Some((front, rest)) = text.split_once(": ") else { return text };
    let lower = front.to_ascii_lowercase();
    let fails = ["failed", "failure"].iter().any(|word| lower.ends_with(word));
    let short = front.split_whitespace().count() <= 3 && !is_specific(front);
    if fails && short && telling::count(rest) >= 2 { without_verdict(rest) } else { text }
}

/// Returns the last statement of a chain, as in `building failed: copy failed: no file x`.
///
/// One that says of what it speaks comes first; a long one says enough without.
fn statement(text: &str) -> &str {
    let links = || {
        let ends = text.rmatch_indices(": ").take(LINKS);
        let ends = ends.filter(|(at, _)| !inside(&text[..*at]));
        let links = ends.map(|(at, mark)| text[at + mark.len()..].trim_start());
        links.chain([text]).filter(|link| states(link))
    };
    let long = |link: &&str| telling::count(link) >= LONG_STATEMENT;
    links().find(|link| is_specific(link)).or_else(|| links().find(long)).unwrap_or(text)
}

/// Returns whether a text names something: quoted, a path, an identifier.
fn is_specific(text: &str) -> bool {
    text.split_whitespace().any(|word| {
        let quoted = word.starts_with(['\'', '"', '`', '‘', '“']) && word.len() > 2;
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let marked = bare.contains(['.', '/', '_', '@', '\\']) || bare.contains("::");
        let humped =
            bare.chars().skip(1).any(char::is_uppercase) && bare.contains(char::is_lowercase);
        let lettered = bare.starts_with(char::is_alphabetic);
        quoted || (lettered && (marked || humped) && !bare.contains("://"))
    })
}

/// Returns whether the text in front leaves a bracket open.
fn inside(front: &str) -> bool {
    [('(', ')'), ('[', ']'), ('{', '}')]
        .iter()
        .any(|(open, close)| front.matches(*open).count() > front.matches(*close).count())
}

/// Returns whether a text says by itself what failed.
fn states(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let system = SYSTEM.iter().find(|said| lower.trim_end_matches('.').ends_with(*said));
    match system {
        // What is said of anything needs to be said of something.
        Some(said) => telling::count(&lower[..lower.len() - said.len()]) >= 2,
        None => tells_enough(text) && denies(&lower),
    }
}

/// Returns whether a text has the words of a statement; one that names something needs fewer.
fn tells_enough(text: &str) -> bool {
    telling::count(text) + usize::from(is_specific(text)) >= STATEMENT
}

fn denies(lower: &str) -> bool {
    DENIALS.iter().any(|part| lower.contains(part))
}

/// Cuts off what a statement is followed by: a reason, a remark in brackets, another clause.
fn without_remark(text: &str) -> &str {
    let marks = [" (", ": ", "; ", " - ", " -> ", " : "];
    let mut ends: Vec<(usize, &str)> =
        marks.iter().flat_map(|mark| text.match_indices(mark)).collect();
    ends.sort_unstable();
    for (at, mark) in ends {
        let (front, rest) = (&text[..at], &text[at + mark.len()..]);
        let told = tells_enough(front) && denies(&front.to_ascii_lowercase());
        let named = is_specific(front)
            || if mark == ": " {
                telling::count(front) >= LONG_STATEMENT
            } else {
                !is_specific(rest)
            };
        if told && named && remarks(mark, rest) {
            return front;
        }
    }
    text
}

/// Returns whether what follows a mark is a remark, and not the value that the text is about.
fn remarks(mark: &str, rest: &str) -> bool {
    let words = rest.split_whitespace().count();
    match mark {
        " (" => {
            let inner = rest.split(')').next().unwrap_or(rest);
            inner.split_whitespace().count() > 2 || inner.contains(['/', '\\'])
        }
        ": " => words > 2 && (words > 6 || denies(&rest.to_ascii_lowercase())),
        "; " => true,
        _ => words > 1,
    }
}

/// Drops tags in front, as in `[eslint] …` or `{ [Error: …`.
fn without_tag(text: &str) -> &str {
    let open = text.trim_start_matches(['{', ' ', '*']);
    let open =
        open.strip_prefix('[').filter(|rest| head::exception(rest).is_some()).unwrap_or(open);
    let tagged = [("[", "] "), ("(", ") "), ("SQLSTATE[", "] "), ("(", ", ")]
        .iter()
        .find_map(|(start, end)| open.strip_prefix(start)?.split_once(end))
        .filter(|(tag, rest)| tag.len() < 64 && !tag.contains(' ') && telling::count(rest) >= 2);
    tagged.map_or(open, |(_, rest)| without_tag(rest.trim_start_matches(['"', '\''])))
}

/// Drops the name of an exception whose words tell enough, and the package of any other.
fn without_name(text: &str) -> &str {
    let Some(name) = head::exception(text) else { return text };
    let text = text.find(name).map_or(text, |at| &text[at..]);
    let rest = text[name.len()..].split_once(": ").or_else(|| text[name.len()..].split_once(" - "));
    match rest {
        Some((code, rest)) if code.len() < 24 && telling::count(rest) >= 2 => without_tag(rest),
        _ => text,
    }
}

/// Returns a masked message as all write it: in lower case, without quotes and stray marks.
pub(crate) fn plain(masked: &str) -> String {
    let mut out = String::with_capacity(masked.len());
    for c in masked.chars().filter(|c| !matches!(c, '\'' | '*' | '\\')) {
        if c == ' ' && (out.is_empty() || out.ends_with(' ')) {
            continue;
        }
        out.extend(c.to_lowercase());
    }
    for (noise, instead) in [
        ("<version>", "<n>"),
        ("[errno <n>] ", ""),
        ("[winerror <n>] ", ""),
        ("[<n>]", ""),
        (": ", " "),
    ] {
        out = out.replace(noise, instead);
    }
    while out.contains("<n>.<n>") {
        out = out.replace("<n>.<n>", "<n>");
    }
    let ends = |c: char| matches!(c, '.' | ',' | ':' | ';' | '!' | '?' | ' ' | '-' | '"');
    let mut text = out.trim_matches(ends);
    while let Some(rest) =
        ["error", "fatal", "e", "<n>"].iter().find_map(|word| text.strip_prefix(word))
    {
        let rest = rest.strip_prefix([' ', ':']).map(|rest| rest.trim_matches(ends));
        match rest.filter(|rest| telling::count(rest) >= 2) {
            Some(rest) => text = rest,
            None => break,
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(shared_statement(text), want, "{text}");
    }

    #[test]
    fn words_in_front_of_a_statement_go() {
        let want = "cannot align spoke_7 with the old rail";
        for front in [
            "",
            "FrobError: ",
            "dev.shop.FrobError: ",
            "Service 'web' broke: ",
            "step 3/4: frob failed: ",
            "INSTALLATION FAILED: ",
            "(frob.align.rails.of.the.whole.old.network) ",
        ] {
            check(&format!("{front}{want}"), want);
        }
    }

    #[test]
    fn words_behind_a_statement_go() {
        let want = "cannot align spoke_7 with the old rail";
        for tail in [
            "",
            ". Is it bent?",
            " (/srv/frob/rail.py)",
            " (is there a rail at all?)",
            "; try the right one",
            ": the rail is not there",
            " in /srv/frob/rail.php on line 3",
            " at /srv/rail.js:3:4",
            "\\n  at frob",
        ] {
            check(&format!("{want}{tail}"), want);
        }
    }

    #[test]
    fn what_identifies_stays() {
        for text in [
            "KeyError: 'left'",
            "open /etc/shop.toml: permission denied",
            "missing setting: LEFT",
            "required variable is missing a value: LEFT_RAIL",
            "lookup rail.dev on <ip>: no such host",
        ] {
            check(text, text);
        }
        check(
            "failed to start: exec: \"rail.sh\": permission denied: unknown",
            "exec: \"rail.sh\": permission denied",
        );
    }

    #[test]
    fn a_printed_object_is_its_message() {
        let want = "the rail is gone for good";
        check(&format!("429 {{\"error\":{{\"message\":\"{want}\",\"type\":\"x\"}}}}"), want);
        check(&format!("Error code: 400 - {{'error': {{'message': \"{want}\"}}}}"), want);
    }

    #[test]
    fn everyone_writes_it_the_same() {
        assert_eq!(plain("Cannot align 'left' rail:"), "cannot align left rail");
    }
}
