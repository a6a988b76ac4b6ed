//! Passwords in the arguments of well-known programs: `mysql -pX`, `curl -u user:X`.

use std::ops::Range;

use serde::Deserialize;

use super::assign;
use super::line::{Find, ScrubLine, rank};
use super::value::{self, Makeup};

/// One row of the table: programs and the argument that carries a password.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScrubCommand {
    pub(super) program: Vec<String>,
    flag: Vec<String>,
    form: Form,
}

/// How the password follows its flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    /// `-pX`
    Attached,
    /// `-p X`
    Next,
    /// `-pX` or `-p X`
    Either,
    /// `-u user:X`
    Pair,
    /// The last argument, without any flag.
    Last,
    /// The only argument, of a line in a settings file.
    Only,
    /// The first argument, where it has the look of a token.
    Token,
    /// The last argument of what is piped into a program that has the flag.
    Piped,
    /// `user/X@server`
    Login,
}

/// Looks at the arguments after the program at `hit`.
pub(super) fn look(
    line: &mut ScrubLine<'_>,
    hit: Range<usize>,
    command: &ScrubCommand,
    finds: &mut Vec<Find<'_>>,
) {
    let blank = line.text[hit.end - 1] == b' ' || line.byte(hit.end).is_ascii_whitespace();
    let alone = blank && line.begins(hit.start);
    if !alone || matches!(line.before(hit.start), b'-' | b'_' | b'.' | b':') {
        return;
    }
    if !line.has_patience() {
        return;
    }
    let args = arguments(line, hit.end);
    if let Some(place) = without_flag(command, line, hit.start, &args) {
        add(line, place, finds);
        return;
    }
    for (i, place) in args.iter().enumerate() {
        let arg = &line.text[place.clone()];
        for flag in &command.flag {
            let flag = flag.as_bytes();
            let next = args.get(i + 1).filter(|_| arg == flag).cloned();
            let glued = arg.len() > flag.len() && arg.starts_with(flag);
            let attached = glued.then(|| place.start + flag.len()..place.end);
            match command.form {
                Form::Attached => {
                    // Of `-p'x'` only the quote is between.
                    let next = next.filter(|next| next.start == place.end + 1);
                    attached
                        .or(next.filter(|next| line.byte(next.start - 1) != b' '))
                        .into_iter()
                        .for_each(|p| add(line, p, finds));
                }
                Form::Next => next.into_iter().for_each(|p| add(line, p, finds)),
                Form::Either => next.or(attached).into_iter().for_each(|p| add(line, p, finds)),
                Form::Pair => {
                    let short = flag.len() == 2;
                    // `-sSu x`: the last of several flags in one.
                    let bundled = short
                        && arg.len() > 2
                        && arg[0] == b'-'
                        && arg.ends_with(&flag[1..])
                        && arg[1..].iter().all(u8::is_ascii_alphabetic);
                    let next = next.or_else(|| args.get(i + 1).filter(|_| bundled).cloned());
                    let glued = attached.filter(|p| short || line.text[p.start] == b'=');
                    next.or(glued).into_iter().for_each(|p| add_pair(line, p, finds));
                }
                Form::Last | Form::Only | Form::Token | Form::Piped | Form::Login => {}
            }
        }
    }
}

/// Returns the password of a program that takes it without any flag.
fn without_flag(
    command: &ScrubCommand,
    line: &ScrubLine<'_>,
    program: usize,
    args: &[Range<usize>],
) -> Option<Range<usize>> {
    let first = || line.text[..program].trim_ascii().is_empty();
    let is_token = |place: &Range<usize>| {
        place.len() >= 20 && Makeup::of(&line.text[place.clone()]).has_digit_and_letter()
    };
    let piped = |place: &Range<usize>| {
        let after = &line.text[place.end..];
        let after = memchr::memchr(b'|', after).map_or(&[][..], |at| &after[at..]);
        command.flag.iter().any(|flag| memchr::memmem::find(after, flag.as_bytes()).is_some())
    };
    let place = match command.form {
        Form::Last => args.last().filter(|_| args.len() >= 2),
        Form::Only => args.first().filter(|_| args.len() == 1 && first()),
        Form::Token => args.first().filter(|place| is_token(place)),
        Form::Piped => args.last().filter(|place| piped(place)),
        Form::Login => return args.iter().find_map(|place| login(line, place)),
        Form::Attached | Form::Next | Form::Either | Form::Pair => None,
    };
    place.cloned()
}

/// Returns the password in `user/X@server`.
fn login(line: &ScrubLine<'_>, place: &Range<usize>) -> Option<Range<usize>> {
    let text = &line.text[place.clone()];
    let slash = memchr::memchr(b'/', text).filter(|&at| at > 0)?;
    let user = text[..slash].iter().all(|b| b.is_ascii_alphanumeric() || b"_$#".contains(b));
    let end = slash + memchr::memchr(b'@', &text[slash..])?;
    (user && end > slash + 3).then_some(place.start + slash + 1..place.start + end)
}

/// Returns the arguments from `at` to the end of the simple command.
fn arguments(line: &ScrubLine<'_>, at: usize) -> Vec<Range<usize>> {
    const MOST: usize = 64;
    let mut args = Vec::new();
    let mut at = line.skip_blanks(at);
    while at < line.text.len() && args.len() < MOST {
        if b"|;&)>\"'\\".contains(&line.text[at]) && assign::quoted(line, at).is_none() {
            break;
        }
        let place = assign::quoted(line, at).unwrap_or_else(|| {
            let rest = &line.text[at..];
            let end = rest.iter().position(|b| b.is_ascii_whitespace() || b"|;".contains(b));
            at..at + end.unwrap_or(rest.len())
        });
        let mut quoted = place.start > at;
        let mut place = place;
        // `-p'X'`: the flag and what is in quotes are one word.
        let open = line.text[place.clone()].iter().position(|b| matches!(b, b'"' | b'\''));
        if let Some(open) = open.filter(|&open| !quoted && open <= 3)
            && let Some(value) = assign::quoted(line, place.start + open)
        {
            args.push(place.start..place.start + open);
            (place, quoted) = (value, true);
        }
        at = line.skip_blanks(place.end.max(at + 1) + usize::from(quoted));
        args.push(place);
    }
    args
}

fn add(line: &ScrubLine<'_>, place: Range<usize>, finds: &mut Vec<Find<'_>>) {
    let text = line.fresh(place.clone());
    let other = text.is_empty() || text[0] == b'-' || value::is_placeholder(text);
    if !other && text.len() >= 3 {
        finds.push(Find { place, kind: "password", rank: rank::PLACE });
    }
}

fn add_pair(line: &ScrubLine<'_>, place: Range<usize>, finds: &mut Vec<Find<'_>>) {
    let text = &line.text[place.clone()];
    if let Some(colon) = text.iter().position(|b| b":%,".contains(b)) {
        // `user:` asks for the password, `-u https://…` is something else.
        if !text[colon..].starts_with(b"://") {
            add(line, place.start + colon + 1..place.end, finds);
        }
    }
}
