//! Prefixes of loggers that name the process, the level or the place in the code.

use super::peel::{Left, LogLevel, level};
use super::stamp;

/// `app[web.1]: …` of a platform's log, `host sshd[812]: …` of the system's.
pub(super) fn daemon(line: &str) -> Left<'_> {
    let open = line.bytes().take(64).position(|b| b == b'[')?;
    let (who, rest) = (&line[..open], &line[open + 1..]);
    let (id, rest) = rest.split_once("]: ")?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_. ".contains(&b);
    let named = who.bytes().all(plain) && who.split(' ').count() <= 2;
    let numbered = id.len() < 24 && id.bytes().all(plain) && id.bytes().any(|b| b.is_ascii_digit());
    (named && numbered && !who.ends_with("error")).then_some((rest, None))
}

/// `[2024-05-01 10:00:00,123: ERROR/MainProcess] …` of Celery.
pub(super) fn worker(line: &str) -> Left<'_> {
    let close = line.bytes().take(72).position(|b| b == b']')?;
    let (_, said) = line[1..close].rsplit_once(": ")?;
    let level = level(said.split_once('/')?.0)?;
    Some((&line[close + 1..], Some(level)))
}

/// `[E 10:00:00.123 NotebookApp] …` of Jupyter.
pub(super) fn jupyter_prefix(line: &str) -> Left<'_> {
    let close = line.bytes().take(64).position(|b| b == b']')?;
    let (letter, rest) = line[1..close].split_once(' ')?;
    let level = match letter {
        "E" | "C" => LogLevel::Error,
        "W" => LogLevel::Warning,
        "I" | "D" => LogLevel::Info,
        _ => return None,
    };
    stamp::strip(rest)?;
    Some((&line[close + 1..], Some(level)))
}

/// `{taskinstance.py:1150} …` of Airflow.
pub(super) fn source(line: &str) -> Left<'_> {
    let (place, rest) = line[1..].split_once("} ")?;
    let (file, number) = place.split_once(':')?;
    let placed = file.ends_with(".py") && number.bytes().all(|b| b.is_ascii_digit());
    let said = rest.split_once(" - ").and_then(|(word, rest)| Some((rest, Some(level(word)?))));
    placed.then(|| said.unwrap_or((rest, None)))
}

/// `W core/loader.cc:55] …` of TensorFlow, and what klog leaves: `1 reflector.go:201] …`.
pub(super) fn placed(line: &str) -> Left<'_> {
    let (mark, rest) = line.split_once(' ')?;
    let said = match mark {
        "E" | "F" => Some(LogLevel::Error),
        "W" => Some(LogLevel::Warning),
        "I" => Some(LogLevel::Info),
        _ if mark.len() < 8 && mark.bytes().all(|b| b.is_ascii_digit()) => None,
        _ => return None,
    };
    let (place, rest) = rest.trim_start().split_once("] ")?;
    let (file, number) = place.rsplit_once(':')?;
    let named = [".cc", ".go", ".cpp", ".h"].iter().any(|end| file.ends_with(end));
    let plain = !file.contains(' ') && number.bytes().all(|b| b.is_ascii_digit());
    (named && plain).then_some((rest, said))
}
