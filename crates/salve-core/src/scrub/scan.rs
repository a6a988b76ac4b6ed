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
enum ScanAct {
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
const WORDS: &[(&str, ScanAct)] = &[
    ("pass", ScanAct::Name),
    ("pwd", ScanAct::Name),
    ("pw=", ScanAct::Name),
    ("pw:", ScanAct::Name),
    ("pw\"", ScanAct::Name),
    ("pw ", ScanAct::Name),
    ("psk", ScanAct::Name),
    ("secret", ScanAct::Name),
    ("token", ScanAct::Name),
    ("key", ScanAct::Name),
    ("auth", ScanAct::Name),
    ("cred", ScanAct::Name),
    ("cookie", ScanAct::Name),
    ("sess", ScanAct::Name),
    ("sid", ScanAct::Name),
    ("sig", ScanAct::Name),
    ("jwt", ScanAct::Name),
    ("_pat", ScanAct::Name),
    ("salt", ScanAct::Name),
    ("hmac", ScanAct::Name),
    ("code=", ScanAct::Name),
    ("verifier", ScanAct::Name),
    ("ticket=", ScanAct::Name),
    ("pepper", ScanAct::Name),
    ("bearer ", ScanAct::Scheme),
    ("basic ", ScanAct::Scheme),
    ("response=\"", ScanAct::Digest),
    ("://", ScanAct::Url),
    ("@tcp(", ScanAct::Dsn),
    ("@unix(", ScanAct::Dsn),
    ("jdbc:oracle:thin:", ScanAct::Oracle),
    (":5432:", ScanAct::Pgpass),
    ("identified by ", ScanAct::Phrase),
    ("SecureString ", ScanAct::Phrase),
    ("mnemonic", ScanAct::Phrase),
    ("phrase", ScanAct::Phrase),
    ("[secret:", ScanAct::Mark),
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

fn triggers() -> &'static Triggers<ScanAct> {
    static TRIGGERS: LazyLock<Triggers<ScanAct>> = LazyLock::new(|| {
        let words = WORDS
            .iter()
            .flat_map(|(word, act)| spellings(word).into_iter().map(|word| (word, None, *act)));
        let tokens = table::tokens().iter().enumerate();
        let tokens =
            tokens.map(|(i, token)| (token.prefix.to_owned(), token.next(), ScanAct::Token(i)));
        let commands = table::table().command.iter().enumerate().flat_map(|(i, command)| {
            command.program.iter().map(move |name| (name.clone(), None, ScanAct::Command(i)))
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
        if let ScanAct::Mark = act {
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
fn look(act: ScanAct, line: &mut ScrubLine<'_>, hit: Range<usize>, finds: &mut Vec<Find<'_>>) {
    match act {
        ScanAct::Token(i) => {
            let token = &table::tokens()[i];
            if let Some(place) = token.find(line, hit) {
                if token.kind == "aws-access-key" {
                    phrase::aws_secret_after(line, place.end, finds);
                }
                finds.push(Find { place, kind: token.kind, rank: rank::SHAPE });
            }
        }
        ScanAct::Command(i) => command::look(line, hit, &table::table().command[i], finds),
        ScanAct::Name => assign::look(line, hit, finds),
        ScanAct::Scheme => header::look_scheme(line, hit, finds),
        ScanAct::Digest => header::look_digest(line, hit, finds),
        ScanAct::Url => url::look(line, hit, finds),
        ScanAct::Dsn => url::look_dsn(line, hit, finds),
        ScanAct::Oracle => url::look_oracle(line, hit, finds),
        ScanAct::Pgpass => url::look_pgpass(line, hit, finds),
        ScanAct::Phrase => phrase::look(line, hit, finds),
        ScanAct::Mark => {}
    }
}
