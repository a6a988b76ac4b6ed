//! Finds the secrets in a block of text, line by line.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::block::{self, Block};
use super::line::{Find, Line, rank};
use super::lines::Lines;
use super::table;
use super::{assign, command, header, mark, phrase, url};

/// Whether more text may follow the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    /// The block is the end of the text.
    None,
    /// More may come: the unfinished last line is left for later.
    Maybe,
}

/// What a block holds.
#[derive(Debug)]
pub(super) struct Found<'k> {
    /// The secrets in no order, overlaps and all.
    pub(super) finds: Vec<Find<'k>>,
    /// The markers of an earlier scrubbing, which stay.
    pub(super) marks: Vec<Range<usize>>,
    /// How much of the block has been judged.
    pub(super) used: usize,
}

/// What to do where a trigger is found.
#[derive(Clone, Copy, Debug)]
enum Act {
    Token(usize),
    Command(usize),
    Name,
    Scheme,
    Digest,
    Url,
    Dsn,
    Oracle,
    Pgpass,
    Phrase,
    Begin,
    Mark,
}

/// Words that lead to a judge, whatever their case.
const WORDS: &[(&str, Act)] = &[
    ("pass", Act::Name),
    ("pwd", Act::Name),
    ("pw", Act::Name),
    ("psk", Act::Name),
    ("secret", Act::Name),
    ("token", Act::Name),
    ("key", Act::Name),
    ("auth", Act::Name),
    ("cred", Act::Name),
    ("cookie", Act::Name),
    ("sess", Act::Name),
    ("sid", Act::Name),
    ("sig", Act::Name),
    ("jwt", Act::Name),
    ("_pat", Act::Name),
    ("salt", Act::Name),
    ("hmac", Act::Name),
    ("code=", Act::Name),
    ("verifier", Act::Name),
    ("ticket=", Act::Name),
    ("pepper", Act::Name),
    ("bearer ", Act::Scheme),
    ("basic ", Act::Scheme),
    ("response=\"", Act::Digest),
    ("://", Act::Url),
    ("@tcp(", Act::Dsn),
    ("@unix(", Act::Dsn),
    ("jdbc:oracle:thin:", Act::Oracle),
    (":5432:", Act::Pgpass),
    ("identified by ", Act::Phrase),
    ("securestring ", Act::Phrase),
    ("mnemonic", Act::Phrase),
    ("phrase", Act::Phrase),
    ("-----BEGIN ", Act::Begin),
    ("[secret:", Act::Mark),
];

struct Triggers {
    search: AhoCorasick,
    acts: Vec<Act>,
}

fn triggers() -> &'static Triggers {
    static TRIGGERS: LazyLock<Triggers> = LazyLock::new(|| {
        let tokens = table::tokens().iter().enumerate().map(|(i, t)| (t.prefix, Act::Token(i)));
        let commands = table::table().command.iter().enumerate().flat_map(|(i, command)| {
            command.program.iter().map(move |name| (name.as_str(), Act::Command(i)))
        });
        let words = WORDS.iter().copied().chain(tokens).chain(commands);
        let (words, acts): (Vec<&str>, Vec<Act>) = words.unzip();
        let search = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(words);
        let search = search.unwrap_or_else(|e| unreachable!("the words are few and short: {e}"));
        Triggers { search, acts }
    });
    &TRIGGERS
}

/// Finds the secrets in `text`.
pub(super) fn scan(text: &[u8], more: More) -> Found<'static> {
    let used = match more {
        More::None => text.len(),
        More::Maybe => Lines::complete(text),
    };
    let text = &text[..used];
    let mut found = Found { finds: Vec::new(), marks: Vec::new(), used };
    let mut lines = Lines::new(text);
    let mut line = Line::new(&[], 0);
    let triggers = triggers();
    for hit in triggers.search.find_overlapping_iter(text) {
        let place = lines.around(hit.end() - 1);
        if place.start != line.base || place.len() != line.text.len() {
            line = Line::new(&text[place.clone()], place.start);
        }
        // A word that the cut of an over-long line went through.
        if hit.start() < place.start || hit.end() > place.end {
            continue;
        }
        if found.marks.last().is_some_and(|mark| hit.start() < mark.end) {
            continue;
        }
        let act = triggers.acts[hit.pattern().as_usize()];
        match act {
            Act::Begin => match block::read(text, hit.start(), more == More::None) {
                Block::Other => {}
                // A block that has been scrubbed before is not whole any more.
                Block::Key(place) if has_mark(&text[place.clone()]) => {}
                Block::Key(place) => {
                    found.finds.push(Find { place, kind: "private-key", rank: rank::PLACE });
                }
                Block::Open => found.used = found.used.min(place.start),
            },
            Act::Mark => {
                let len = mark::len(&text[hit.start()..place.end]);
                found.marks.extend(len.map(|len| hit.start()..hit.start() + len));
            }
            _ => {
                let known = found.finds.len();
                let at = hit.start() - place.start..hit.end() - place.start;
                // The word `secret` that opens a marker is seen before the marker is.
                if mark::len(&line.text[at.start.saturating_sub(1)..]).is_some() {
                    continue;
                }
                look(act, &mut line, at, &mut found.finds);
                for find in &mut found.finds[known..] {
                    find.place = find.place.start + place.start..find.place.end + place.start;
                }
            }
        }
    }
    found
}

fn has_mark(text: &[u8]) -> bool {
    memchr::memmem::find_iter(text, mark::OPEN).any(|at| mark::len(&text[at..]).is_some())
}

/// Lets the right judge look at the `hit` in `line`.
fn look(act: Act, line: &mut Line<'_>, hit: Range<usize>, finds: &mut Vec<Find<'_>>) {
    match act {
        Act::Token(i) => {
            let token = &table::tokens()[i];
            if let Some(place) = token.find(line, hit) {
                if token.kind == "aws-access-key" {
                    phrase::aws_secret_after(line, place.end, finds);
                }
                finds.push(Find { place, kind: token.kind, rank: rank::SHAPE });
            }
        }
        Act::Command(i) => command::look(line, hit, &table::table().command[i], finds),
        Act::Name => assign::look(line, hit, finds),
        Act::Scheme => header::look_scheme(line, hit, finds),
        Act::Digest => header::look_digest(line, hit, finds),
        Act::Url => url::look(line, hit, finds),
        Act::Dsn => url::look_dsn(line, hit, finds),
        Act::Oracle => url::look_oracle(line, hit, finds),
        Act::Pgpass => url::look_pgpass(line, hit, finds),
        Act::Phrase => phrase::look(line, hit, finds),
        Act::Begin | Act::Mark => {}
    }
}
