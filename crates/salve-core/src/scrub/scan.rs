//! Finds the secrets in a text, line by line.

use std::ops::Range;
use std::sync::LazyLock;

use super::line::{Find, ScrubLine, rank};
use super::lines::Lines;
use super::table;
use super::trigger::Triggers;
use super::{assign, command, header, mark, phrase, url};

/// Whether more text may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    /// This is the end of the text.
    None,
    /// More may come: an unfinished line or key is left for later.
    Maybe,
}

/// What the lines of a text hold.
#[derive(Debug)]
pub(super) struct FoundSecret<'k> {
    /// The secrets in no order, overlaps and all.
    pub(super) finds: Vec<Find<'k>>,
    /// The markers of an earlier scrubbing, which stay.
    pub(super) marks: Vec<Range<usize>>,
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
    Mark,
}

/// Words that lead to a judge, in all their spellings.
const WORDS: &[(&str, Act)] = &[
    ("pass", Act::Name),
    ("pwd", Act::Name),
    ("pw=", Act::Name),
    ("pw:", Act::Name),
    ("pw\"", Act::Name),
    ("pw ", Act::Name),
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
    ("SecureString ", Act::Phrase),
    ("mnemonic", Act::Phrase),
    ("phrase", Act::Phrase),
    ("[secret:", Act::Mark),
];

/// Returns a word as it is written in names: `password`, `Password`, `PASSWORD`.
fn spellings(word: &str) -> Vec<String> {
    let mut capital = word.to_owned();
    if let Some(first) = capital.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let mut all = vec![word.to_owned(), capital, word.to_ascii_uppercase()];
    // Words without small letters have fewer.
    all.dedup();
    all
}

fn triggers() -> &'static Triggers<Act> {
    static TRIGGERS: LazyLock<Triggers<Act>> = LazyLock::new(|| {
        let words = WORDS
            .iter()
            .flat_map(|(word, act)| spellings(word).into_iter().map(|word| (word, None, *act)));
        let tokens = table::tokens().iter().enumerate();
        let tokens =
            tokens.map(|(i, token)| (token.prefix.to_owned(), token.next(), Act::Token(i)));
        let commands = table::table().command.iter().enumerate().flat_map(|(i, command)| {
            command.program.iter().map(move |name| (name.clone(), None, Act::Command(i)))
        });
        Triggers::new(words.chain(tokens).chain(commands))
    });
    &TRIGGERS
}

/// Finds the secrets in the lines of `text`.
pub(super) fn scan(text: &[u8]) -> FoundSecret<'static> {
    let mut found = FoundSecret { finds: Vec::new(), marks: Vec::new() };
    let mut lines = Lines::new(text);
    let mut line = ScrubLine::new(&[], 0);
    triggers().each(text, |hit, act| {
        let place = lines.around(hit.start);
        if place.start != line.base || place.len() != line.text.len() {
            line = ScrubLine::new(&text[place.clone()], place.start);
        }
        // A word that the cut of an over-long line goes through.
        let cut = hit.end > place.end;
        if cut || found.marks.last().is_some_and(|mark| hit.start < mark.end) {
            return;
        }
        if let Act::Mark = act {
            let len = mark::len(&text[hit.start..place.end]);
            found.marks.extend(len.map(|len| hit.start..hit.start + len));
            return;
        }
        let known = found.finds.len();
        look(act, &mut line, hit.start - place.start..hit.end - place.start, &mut found.finds);
        for find in &mut found.finds[known..] {
            find.place = find.place.start + place.start..find.place.end + place.start;
        }
    });
    found
}

/// Lets the right judge look at the `hit` in `line`.
fn look(act: Act, line: &mut ScrubLine<'_>, hit: Range<usize>, finds: &mut Vec<Find<'_>>) {
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
        Act::Mark => {}
    }
}
