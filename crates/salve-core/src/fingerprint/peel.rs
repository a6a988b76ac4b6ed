//! Peels log decorations off a line until its message is left.
//!
//! The same failure arrives through npm, compose, BuildKit, CI and loggers; each puts its own
//! words in front. They are taken off one at a time, in a loop, in whatever order they stand.

use super::head;
use super::logger::{daemon, jupyter_prefix, placed, source, worker};
use super::stamp;

/// How loudly a line was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogLevel {
    /// Nothing says.
    Plain,
    Error,
    Warning,
    /// As information or chatter.
    Info,
}

/// A line without its decorations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peeled<'l> {
    /// What is left after log prefixes went.
    pub(crate) body: &'l str,
    /// What is left of the body after words that only say "error" went.
    pub(crate) core: &'l str,
    /// How loudly it was logged.
    pub(crate) level: LogLevel,
}

/// Peels `line`.
pub(crate) fn peel(line: &str) -> Peeled<'_> {
    let mut level = LogLevel::Plain;
    let mut body = line.trim();
    while let Some((rest, says)) = decoration(body) {
        let rest = rest.trim_start();
        if rest.is_empty() || rest.len() == body.len() {
            break;
        }
        level = says.unwrap_or(level);
        body = rest;
    }
    body = nested(body);
    let mut core = body;
    while let Some((rest, says)) = word(core) {
        let rest = rest.trim_start();
        if rest.is_empty() || rest.len() == core.len() {
            break;
        }
        level = says.unwrap_or(level);
        core = rest;
    }
    let core = head::introduced_error(core.trim_end_matches("'}\""));
    Peeled { body, core, level }
}

/// Returns what a line says went wrong where it only wraps that: the root of a chain of
/// exceptions told on one line, or why a goal of Maven failed.
pub(super) fn nested(line: &str) -> &str {
    const WRAPS: &str = "nested exception is ";
    let at = memchr::memmem::rfind(line.as_bytes(), WRAPS.as_bytes());
    let root = at.map_or(line, |at| line[at + WRAPS.len()..].trim_start());
    let root = goal(root).unwrap_or(root);
    if root.is_empty() { line } else { root }
}

/// `Failed to execute goal … on project shop: …`, and `Execution … of goal … failed: …` in it.
fn goal(line: &str) -> Option<&str> {
    let at = memchr::memmem::find(line.as_bytes(), b"Failed to execute goal ")?;
    let (_, rest) = line[at..].split_once(" on project ")?;
    let (_, mut why) = rest.split_once(": ")?;
    if why.starts_with("Execution ") {
        why = why.split_once(" failed: ").map_or(why, |(_, why)| why);
    }
    Some(why.split(" -> [Help").next().unwrap_or(why).trim())
}

/// What is left behind a prefix, and the level the prefix tells.
pub(super) type Left<'l> = Option<(&'l str, Option<LogLevel>)>;

/// Takes one log decoration off the front.
fn decoration(line: &str) -> Left<'_> {
    match line.as_bytes().first()? {
        b'0'..=b'9' => counted(line).or_else(|| stamped(line)).or_else(|| placed(line)),
        b'#' => hashed(line),
        b'[' => worker(line)
            .or_else(|| stamped(line))
            .or_else(|| tag(line))
            .or_else(|| jupyter_prefix(line)),
        b'(' => process(line),
        b'{' => json_message(line).or_else(|| source(line)),
        b'>' | b'|' => line[1..].strip_prefix(' ').map(|rest| (rest, None)),
        b':' => annotation(line),
        b'a'..=b'z' | b'A'..=b'Z' => {
            let tagged = tool(line).or_else(|| logfmt(line)).or_else(|| service(line));
            let tagged = tagged.or_else(|| daemon(line)).or_else(|| yarn(line));
            let tagged = tagged.or_else(|| stamped(line)).or_else(|| console(line));
            tagged.or_else(|| placed(line))
        }
        0xe2 | 0xe3 | 0xc3 | 0xf0 => bullet(line),
        _ => None,
    }
}

/// Prefixes that tools put in front of every line.
const TOOLS: &[(&str, Option<LogLevel>)] = &[
    ("npm ERR!", Some(LogLevel::Error)),
    ("npm error", Some(LogLevel::Error)),
    ("npm WARN", Some(LogLevel::Warning)),
    ("npm warn", Some(LogLevel::Warning)),
    ("npm notice", Some(LogLevel::Info)),
    ("npm info", Some(LogLevel::Info)),
    ("npm verb", Some(LogLevel::Info)),
    ("npm http", Some(LogLevel::Info)),
    ("ERR!", Some(LogLevel::Error)),
    ("gyp ERR!", Some(LogLevel::Error)),
    ("gyp WARN", Some(LogLevel::Warning)),
    ("gyp info", Some(LogLevel::Info)),
    ("gyp verb", Some(LogLevel::Info)),
    ("node-pre-gyp ERR!", Some(LogLevel::Error)),
    ("node-pre-gyp WARN", Some(LogLevel::Warning)),
    ("node-pre-gyp info", Some(LogLevel::Info)),
    ("lerna ERR!", Some(LogLevel::Error)),
    ("prebuild-install ERR!", Some(LogLevel::Error)),
    ("prebuild-install WARN", Some(LogLevel::Warning)),
    ("remote: ", None),
    ("stderr: ", None),
    ("E  ", Some(LogLevel::Error)),
];

fn tool(line: &str) -> Left<'_> {
    let known = TOOLS.iter().find_map(|(prefix, level)| Some((line.strip_prefix(prefix)?, *level)));
    known.filter(|(rest, _)| {
        rest.is_empty() || rest.starts_with(' ') || !rest.starts_with(char::is_alphanumeric)
    })
}

/// `(node:4812) …` of Node's warnings.
fn process(line: &str) -> Left<'_> {
    let (pid, rest) = line.strip_prefix("(node:")?.split_once(") ")?;
    pid.bytes().all(|b| b.is_ascii_digit()).then_some((rest, None))
}

/// `YN0001: …` of Yarn.
fn yarn(line: &str) -> Left<'_> {
    let (code, rest) = line.strip_prefix("YN")?.split_once(": ")?;
    (code.len() == 4 && code.bytes().all(|b| b.is_ascii_digit())).then_some((rest, None))
}

/// `main.ts:5 ERROR …` of a browser's console.
fn console(line: &str) -> Left<'_> {
    let (place, rest) = line.split_once(' ')?;
    let (file, number) = place.rsplit_once(':')?;
    let placed =
        file.contains('.') && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let says = ["ERROR ", "Uncaught ", "Error: "].iter().any(|word| rest.starts_with(word));
    (placed && says).then_some((rest, None))
}

/// `143 error …` of npm's debug log, `3.414 …` of BuildKit, `0|app | …` of pm2.
fn counted(line: &str) -> Left<'_> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &line[digits..];
    if let Some(inner) = rest.strip_prefix('|') {
        let bar = inner.bytes().take(32).position(|b| b == b'|')?;
        let name = inner[..bar].trim();
        let simple = !name.is_empty() && !name.contains(' ');
        return simple.then(|| (&inner[bar + 1..], None));
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        let places = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let after = &fraction[places..];
        return ((2..=3).contains(&places) && after.starts_with(' ')).then_some((after, None));
    }
    let words = [
        (" error ", LogLevel::Error),
        (" verbose ", LogLevel::Info),
        (" warn ", LogLevel::Warning),
        (" silly ", LogLevel::Info),
        (" info ", LogLevel::Info),
        (" http ", LogLevel::Info),
        (" timing ", LogLevel::Info),
    ];
    words.iter().find_map(|(word, level)| Some((rest.strip_prefix(word)?, Some(*level))))
}

/// `#12 3.414 …` of BuildKit, `##[error]…` of CI.
fn hashed(line: &str) -> Left<'_> {
    if let Some(rest) = line.strip_prefix("##[") {
        let (tag, rest) = rest.split_once(']')?;
        return Some((rest, level(tag)));
    }
    let rest = &line[1..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let after = &rest[digits..];
    // `#0 /app/a.php(3): …` is a frame of PHP.
    let frame = after.trim_start().starts_with(['/', '{']);
    (digits > 0 && digits < 5 && after.starts_with(' ') && !frame).then_some((after, None))
}

/// `::error file=a.ts,line=3::…` of CI.
fn annotation(line: &str) -> Left<'_> {
    let rest = line.strip_prefix("::")?;
    let (head, message) = rest.split_once("::")?;
    let level = level(head.split(' ').next()?)?;
    Some((message, Some(level)))
}

/// `[nodemon] …`, `[0] …`, `[ERROR] …`; not `[Errno 2]` or `[ERR_X]`, which identify.
fn tag(line: &str) -> Left<'_> {
    let close = line.bytes().take(40).position(|b| b == b']')?;
    let inside = line[1..close].trim();
    let rest = &line[close + 1..];
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    if !rest.starts_with(' ') {
        return None;
    }
    if let Some(level) = level(inside) {
        return Some((rest, Some(level)));
    }
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_:@/# .".contains(&b);
    let name = inside.bytes().all(plain) && !inside.is_empty();
    name.then_some((rest, None))
}

/// Bullets, box drawing and spinners.
fn bullet(line: &str) -> Left<'_> {
    let c = line.chars().next()?;
    let mark = matches!(
        c,
        '✘' | '✗'
            | '✖'
            | '×'
            | '✕'
            | '⨯'
            | '❌'
            | '›'
            | '❯'
            | '→'
            | '»'
            | '•'
            | '▲'
            | '⚠'
            | '⎿'
            | '➤'
            | '⎯'
    ) || ('\u{2500}'..='\u{257f}').contains(&c)
        || ('\u{2800}'..='\u{28ff}').contains(&c);
    let level = (c == '⚠' || c == '▲').then_some(LogLevel::Warning);
    mark.then(|| (line[c.len_utf8()..].trim_start_matches('\u{fe0f}'), level))
}

/// `svc_1  | …` of compose.
fn service(line: &str) -> Left<'_> {
    let name =
        line.bytes().take(64).position(|b| !(b.is_ascii_alphanumeric() || b"_.-".contains(&b)))?;
    let rest = line[name..].trim_start_matches(' ');
    let bar = rest.strip_prefix('|')?;
    // `a | b` of a union type has one blank and goes on with a word, too; a service is padded or
    // numbered, or the bar ends the line.
    let numbered = line[..name].ends_with(|c: char| c.is_ascii_digit());
    let padded = line.len() - rest.len() > name + 1;
    let joined = line[..name].contains(['-', '_']);
    let fits = bar.is_empty() || bar.starts_with(' ');
    (fits && (numbered || padded || joined)).then_some((bar, None))
}

/// `level=error msg="…"` and `ERRO[0012] …`.
fn logfmt(line: &str) -> Left<'_> {
    let short = [
        ("ERRO[", LogLevel::Error),
        ("FATA[", LogLevel::Error),
        ("PANI[", LogLevel::Error),
        ("WARN[", LogLevel::Warning),
        ("INFO[", LogLevel::Info),
        ("DEBU[", LogLevel::Info),
    ];
    if let Some((rest, level)) =
        short.iter().find_map(|(word, level)| Some((line.strip_prefix(word)?, *level)))
    {
        let (digits, rest) = rest.split_once(']')?;
        return digits.bytes().all(|b| b.is_ascii_digit()).then_some((rest, Some(level)));
    }
    if !(line.starts_with("time=")
        || line.starts_with("level=")
        || line.starts_with("ts=")
        || line.starts_with("t="))
    {
        return None;
    }
    let said =
        line.split_once("level=").and_then(|(_, rest)| level(rest.split([' ', '"']).next()?));
    let (_, message) = line.split_once("msg=")?;
    let message = message.strip_prefix('"').unwrap_or(message);
    Some((message, said))
}

/// `{"level":"error","message":"…"}`.
fn json_message(line: &str) -> Left<'_> {
    if !line.starts_with("{\"") {
        return None;
    }
    let at = ["\"message\":", "\"msg\":", "\"error\":"]
        .iter()
        .find_map(|key| Some(line.find(key)? + key.len()))?;
    let value = line[at..].trim_start().strip_prefix('"')?;
    let said = line.split_once("\"level\":\"").and_then(|(_, rest)| level(rest.split('"').next()?));
    let bytes = value.as_bytes();
    let end = (0..bytes.len()).find(|&i| bytes[i] == b'"' && (i == 0 || bytes[i - 1] != b'\\'));
    Some((&value[..end.unwrap_or(value.len())], said))
}

/// A time or date in front, alone or in brackets.
fn stamped(line: &str) -> Left<'_> {
    let rest = stamp::strip(line)?;
    Some((rest.trim_start_matches([' ', '-', ':', '\t', ',']), None))
}

/// Returns the level that a word names.
pub(super) fn level(word: &str) -> Option<LogLevel> {
    let known: &[(&[&str], LogLevel)] = &[
        (
            &["error", "err", "fatal", "critical", "severe", "alert", "emerg", "failure"],
            LogLevel::Error,
        ),
        (&["warn", "warning"], LogLevel::Warning),
        (&["info", "debug", "trace", "notice", "verbose", "log", "fine"], LogLevel::Info),
    ];
    let word = word.trim();
    known
        .iter()
        .find(|(names, _)| names.iter().any(|name| name.eq_ignore_ascii_case(word)))
        .map(|(_, level)| *level)
}

/// Phrases that only say that this is an error.
const PHRASES: &[(&str, Option<LogLevel>)] = &[
    ("Uncaught ", None),
    ("Uncaught: ", None),
    ("uncaughtException: ", None),
    ("Uncaught Exception:", None),
    ("Unhandled Rejection", None),
    ("Unhandled rejection ", None),
    ("Unhandled Promise Rejection:", None),
    ("UnhandledPromiseRejectionWarning: ", None),
    ("(in promise) ", None),
    ("(in promise): ", None),
    ("docker: ", None),
    ("Error response from daemon: ", None),
    ("(HTTP code 500) server error - ", None),
    ("ERROR in ", None),
    ("Internal server error: ", None),
    ("Usage Error: ", Some(LogLevel::Error)),
    ("Unhandled exception: ", None),
    ("Unhandled exception. ", None),
    ("Exception: ", None),
    ("PHP Fatal error:  ", None),
    ("PHP Fatal error: ", None),
    ("Exception in thread \"main\" ", None),
    ("fatal error: ", None),
    ("Caused by: ", None),
    ("caused by: ", None),
    ("Command failed: ", None),
    ("rpc error: ", None),
    ("DeprecationWarning: ", Some(LogLevel::Warning)),
    ("b'", None),
    ("b\"", None),
];

/// Takes one word off the front that says no more than "error".
fn word(line: &str) -> Left<'_> {
    if let Some(left) =
        PHRASES.iter().find_map(|(phrase, level)| Some((line.strip_prefix(phrase)?, *level)))
    {
        return Some(left);
    }
    let end = line.bytes().take(12).position(|b| !b.is_ascii_alphabetic())?;
    let said = level(&line[..end]).filter(|_| end > 0)?;
    let rest = &line[end..];
    match rest.as_bytes().first()? {
        b':' => Some((&rest[1..], Some(said))),
        // "error TS2322:" and "Error while …" say more; capitals in front are a log level.
        b' ' if line[..end].bytes().all(|b| b.is_ascii_uppercase()) => Some((rest, Some(said))),
        b' ' if rest.starts_with("  ") || rest.starts_with(" - ") => {
            Some((rest.trim_start_matches([' ', '-']), Some(said)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, body: &str, core: &str) {
        let peeled = peel(line);
        assert_eq!((peeled.body, peeled.core), (body, core), "{line}");
    }

    #[test]
    fn decorations_go_in_any_order() {
        let message = "Error: boom at sea";
        for prefix in [
            "npm ERR! ",
            "npm error ",
            "143 error ",
            "web_1  | ",
            "api-1 | ",
            "0|app  | ",
            "#12 3.414 ",
            "3.414 ",
            "2024-05-01T10:00:00.123Z ",
            "2024-05-01 10:00:00,123 ",
            "[10:00:00] ",
            "May 19 11:35:19 AM  ",
            "11:26:29 PM ",
            "[nodemon] ",
            "[vite] ",
            "[0] ",
            "##[error]",
            "::error file=a.ts,line=1::",
            "✘ [ERROR] ",
            "│ ",
            "gyp ERR! ",
            "[ERROR] ",
            "ERRO[0001] ",
            "time=\"2024\" level=error msg=\"",
            "web_1 | npm ERR! ",
            "#9 1.23 npm error ",
            "2024-05-01T10:00:00Z [vite] ",
            "(node:4812) ",
            "➤ YN0001: │ ",
            "[2024-05-01 10:00:00,123: ERROR/MainProcess] ",
            "main.ts:5 ",
            "[E 10:00:00.123 NotebookApp] ",
            "[C 2024-05-01 10:00:00.123 ServerApp] ",
            "[2024-05-01 10:00:00,123] {taskinstance.py:1150} ERROR - ",
            "2024-05-01T10:00:00.123+00:00 app[web.1]: ",
            "May 01 10:00:00 shop-2 gunicorn[812]: ",
            "2024-05-01 10:00:00.123456: W core/loader.cc:55] ",
            "E0501 10:00:00.123456       1 reflector.go:201] ",
        ] {
            check(&format!("{prefix}{message}"), message, "boom at sea");
        }
    }

    #[test]
    fn what_identifies_is_not_peeled() {
        for line in [
            "[Errno 2] No such file",
            "83 |     let x = 1;",
            "3 errors found",
            "string | number is not it",
            "error TS2322: Type 'A'",
            "12:30 lunch",
            "error[e0282]: x",
        ] {
            check(line, line, line);
        }
    }

    #[test]
    fn what_a_line_wraps_is_its_message() {
        for (line, want) in [
            ("A: no bean; nested exception is B: no till; nested exception is C: x y", "C: x y"),
            ("Failed to execute goal a:b:1:run (c) on project shop: x y -> [Help 1]", "x y"),
            (
                "[ERROR] Failed to execute goal a:b:1:test (c) on project shop: \
                 Execution c of goal a:b:1:test failed: x y -> [Help 1]",
                "x y",
            ),
        ] {
            assert_eq!(peel(line).body, want, "{line}");
        }
    }

    #[test]
    fn words_that_carry_nothing_go_from_the_core_only() {
        check("Uncaught Error: x y", "Uncaught Error: x y", "x y");
        check("Shop error: Error: x y", "Shop error: Error: x y", "x y");
        check(
            "docker: Error response from daemon: x",
            "docker: Error response from daemon: x",
            "x",
        );
        check("ERROR  x y", "ERROR  x y", "x y");
        check(
            "{\"level\":\"error\",\"message\":\"x \\\"y\\\" z\"}",
            "x \\\"y\\\" z",
            "x \\\"y\\\" z",
        );
        assert_eq!(peel("npm WARN x").level, LogLevel::Warning);
        assert_eq!(peel("WARNING: x").level, LogLevel::Warning);
    }
}
