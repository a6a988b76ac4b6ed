//! `CONTROL.md`: words that a person writes there for every healing in a project.
//!
//! A word counts where it stands alone on its line, in capitals; everything else in the file is
//! the person's own. Quoted lines (`> …`) are Salve's answers.
//!
//! **Invariant:** a word acts when it appears, once; taking other words away makes none act again.

use std::fmt;

use crate::event::PersonOrder;
use crate::iteration::{Loop, StepsStanding, state};
use crate::view::IncidentView;

/// What a line of Salve's own below a word begins with.
const ANSWER: &str = "> ";

/// What stands below a word that Salve wrote itself.
const OWN: &str = "> written by Salve";

/// What a person may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlWord {
    /// Start nothing new, until RESUME.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Leave out what is being tried.
    Skip,
    /// Stop, undo what is unproven, and close.
    Abort,
    /// Write below the word how things stand.
    Status,
    /// Stop trying and ask a person.
    Escalate,
}

impl ControlWord {
    /// Every word.
    pub const ALL: [Self; 6] =
        [Self::Pause, Self::Resume, Self::Skip, Self::Abort, Self::Status, Self::Escalate];

    /// Returns the word as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            ControlWord::Pause => "PAUSE",
            ControlWord::Resume => "RESUME",
            ControlWord::Skip => "SKIP",
            ControlWord::Abort => "ABORT",
            ControlWord::Status => "STATUS",
            ControlWord::Escalate => "ESCALATE",
        }
    }

    /// Returns what it orders incidents to do.
    pub fn order(self) -> Option<PersonOrder> {
        match self {
            ControlWord::Pause => Some(PersonOrder::Pause),
            ControlWord::Resume => Some(PersonOrder::Resume),
            ControlWord::Skip => Some(PersonOrder::Skip),
            ControlWord::Abort => Some(PersonOrder::Abort),
            ControlWord::Escalate => Some(PersonOrder::Escalate),
            ControlWord::Status => None,
        }
    }

    /// Tells whether more may run because of it, so that only a person may say it.
    pub fn widens(self) -> bool {
        match self {
            ControlWord::Resume | ControlWord::Skip => true,
            ControlWord::Pause
            | ControlWord::Abort
            | ControlWord::Status
            | ControlWord::Escalate => false,
        }
    }

    /// Reads a word as it is written.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.as_str() == text)
    }
}

impl fmt::Display for ControlWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    pub word: ControlWord,
    /// Its line, from 1.
    pub line: usize,
    /// What stands below it.
    pub below: Below,
}

/// What stands below a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// Nothing of Salve's.
    Nothing,
    Answer,
    /// That Salve wrote the word itself.
    Own,
}

/// A line that looks like a word and is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The line, from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = ControlWord::ALL.map(ControlWord::as_str).join(", ");
        let Self { line, text } = self;
        write!(f, "CONTROL.md:{line}: `{text}` is none of its words, which are {words}")
    }
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The words, in their order.
    pub said: Vec<Said>,
    /// Lines that look like words and are none.
    pub unknown: Vec<Unknown>,
}

impl Control {
    pub fn words(&self) -> Vec<ControlWord> {
        self.said.iter().map(|said| said.word).collect()
    }
}

/// Reads the file.
pub fn read(text: &str) -> Control {
    let lines: Vec<&str> = text.lines().collect();
    let mut control = Control::default();
    let mut fenced = false;
    for (at, line) in lines.iter().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let bare = bare(line);
        if fenced || line.starts_with('>') || !is_one_word(bare) {
            continue;
        }
        let line = at + 1;
        match ControlWord::parse(bare) {
            Some(word) => {
                let below = lines.get(line).map_or(Below::Nothing, |next| below(next));
                control.said.push(Said { word, line, below });
            }
            None if looks_like_one(bare) => {
                control.unknown.push(Unknown { line, text: bare.chars().take(40).collect() });
            }
            None => {}
        }
    }
    control
}

/// Returns a line without what marks it up.
fn bare(line: &str) -> &str {
    line.trim()
        .trim_matches(|c: char| "#*-+_`[]() \t".contains(c))
        .trim_end_matches(['.', '!', ':'])
}

fn is_one_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic())
}

fn looks_like_one(text: &str) -> bool {
    let in_capitals = text.len() >= 3 && text.chars().all(|c| c.is_ascii_uppercase());
    in_capitals || ControlWord::parse(&text.to_ascii_uppercase()).is_some()
}

fn below(line: &str) -> Below {
    match line {
        _ if line.starts_with(OWN) => Below::Own,
        _ if line.starts_with(ANSWER) => Below::Answer,
        _ => Below::Nothing,
    }
}

/// What is new in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// The words that appeared.
    pub said: Vec<Said>,
    /// Whether a PAUSE was taken away, and nothing put in its place.
    pub lifted: bool,
}

/// A word that was in the file when it was last looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownWord {
    pub word: ControlWord,
    /// What became of it.
    pub fate: WordFate,
}

/// What became of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordFate {
    /// It acted.
    Taken,
    /// It may not have been a person's; it acts when the file is saved once more.
    Refused,
}

/// Returns what is new since the file said `before`.
pub fn news(before: &[KnownWord], now: &Control) -> News {
    let known = matches(before, &now.said);
    let is_news = |at: usize| match known.iter().find(|(_, new)| *new == at) {
        Some((old, _)) => before[*old].fate == WordFate::Refused,
        None => true,
    };
    let said = now.said.iter().enumerate().filter(|(at, _)| is_news(*at));
    let taken = before.iter().filter(|known| known.fate == WordFate::Taken);
    let held = last_of_pause(taken.map(|known| known.word)) == Some(ControlWord::Pause);
    let lifted = held && last_of_pause(now.words()).is_none();
    News { said: said.map(|(_, said)| *said).collect(), lifted }
}

fn last_of_pause(words: impl IntoIterator<Item = ControlWord>) -> Option<ControlWord> {
    words.into_iter().filter(|word| matches!(word, ControlWord::Pause | ControlWord::Resume)).last()
}

/// The most pairs of words that are compared with each other.
const MOST_PAIRS: usize = 1 << 20;

/// Returns which words are still those of before, as pairs of places: the most that keep their
/// order.
fn matches(before: &[KnownWord], now: &[Said]) -> Vec<(usize, usize)> {
    let is_same = |(old, new): &(usize, usize)| before[*old].word == now[*new].word;
    let most = before.len().min(now.len());
    let head = (0..most).take_while(|at| is_same(&(*at, *at))).count();
    let from_end = |back: usize| (before.len() - 1 - back, now.len() - 1 - back);
    let tail = (0..most - head).take_while(|back| is_same(&from_end(*back))).count();
    let (rows, columns) = (before.len() - head - tail, now.len() - head - tail);
    let mut pairs: Vec<(usize, usize)> = (0..head).map(|at| (at, at)).collect();
    if rows * columns <= MOST_PAIRS {
        let middle = longest(rows, columns, |row, column| is_same(&(head + row, head + column)));
        pairs.extend(middle.into_iter().map(|(row, column)| (head + row, head + column)));
    }
    pairs.extend((0..tail).rev().map(from_end));
    pairs
}

/// Returns the longest row of pairs that are the same and in order in both.
fn longest(
    rows: usize,
    columns: usize,
    is_same: impl Fn(usize, usize) -> bool,
) -> Vec<(usize, usize)> {
    let mut best = vec![vec![0_usize; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            best[row][column] = if is_same(row, column) {
                best[row + 1][column + 1] + 1
            } else {
                best[row + 1][column].max(best[row][column + 1])
            };
        }
    }
    let (mut row, mut column, mut pairs) = (0, 0, Vec::new());
    while row < rows && column < columns {
        if is_same(row, column) {
            pairs.push((row, column));
            (row, column) = (row + 1, column + 1);
        } else if best[row + 1][column] >= best[row][column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    pairs
}

/// Returns the file with an answer below the word in this line.
pub fn with_answer(text: &str, line: usize, answer: &[String]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let quoted = answer.iter().map(|line| format!("{ANSWER}{}", plain(line)));
    lines.splice(line.min(lines.len())..line.min(lines.len()), quoted);
    lines.join("\n") + "\n"
}

/// Returns the file with a PAUSE of Salve's own at its end.
pub fn with_pause(text: &str, why: &str) -> String {
    let break_before = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let why = plain(why);
    format!("{text}{break_before}PAUSE\n{OWN}: {why}; write RESUME below once that is settled\n")
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns how the healings of a project stand, a line each.
pub fn status(views: &[IncidentView], paused: Option<&str>) -> Vec<String> {
    let mut lines: Vec<String> = paused.map(|by| format!("paused by {by}")).into_iter().collect();
    if views.is_empty() {
        lines.push("nothing is being healed".into());
    }
    lines.extend(views.iter().map(|view| {
        let (subject, symptom) = (view.subject(), view.incident().symptom());
        let (attempt, most) = (view.attempt(), view.max_attempts());
        format!(
            "heal-{} {}: {}, attempt {attempt} of {most}: {}",
            view.id().short(),
            subject.name,
            view.phase(),
            symptom.key_line
        )
    }));
    lines
}

/// Returns how a loop stands, if it is not over.
pub fn status_of_loop(of: &Loop) -> Option<String> {
    if let StepsStanding::Ended(_) = of.standing() {
        return None;
    }
    let state = state(of, None);
    let role = of.role().map(|role| format!(", {role}")).unwrap_or_default();
    Some(format!(
        "loop {}: {}, iteration {}{role}",
        state.loop_id,
        state.status.as_str(),
        state.iteration
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use ControlWord::*;

    #[track_caller]
    fn check(text: &str, words: &[ControlWord], unknown: &[usize]) {
        let control = read(text);
        assert_eq!(control.words(), words, "{text:?}");
        let lines: Vec<_> = control.unknown.iter().map(|one| one.line).collect();
        assert_eq!(lines, unknown, "{text:?}");
    }

    #[test]
    fn a_word_stands_alone_on_its_line_in_capitals() {
        check("PAUSE", &[Pause], &[]);
        check(
            "# Notes\n\n  - **PAUSE**\nplease\n`RESUME`\r\nSTATUS:\n",
            &[Pause, Resume, Status],
            &[],
        );
        check("SKIP\nABORT\nESCALATE\n", &[Skip, Abort, Escalate], &[]);
        check("please PAUSE it\nPAUSED for now\nPAUSE RESUME\n", &[], &[]);
        check("> PAUSE\n```\nPAUSE\n```\n", &[], &[]);
        check("", &[], &[]);
    }

    #[test]
    fn what_looks_like_a_word_and_is_none_is_told() {
        check("PAUES\npause\nTODO\nok\nNotes\n", &[], &[1, 2, 3]);
        let told = read("x\nSTOP").unknown[0].to_string();
        let want = "CONTROL.md:2: `STOP` is none of its words, which are \
                    PAUSE, RESUME, SKIP, ABORT, STATUS, ESCALATE";
        assert_eq!(told, want);
    }

    #[track_caller]
    fn check_news(before: &[ControlWord], text: &str, want: &[ControlWord], lifted: bool) {
        check_known(&taken(before), text, want, lifted);
    }

    fn taken(words: &[ControlWord]) -> Vec<KnownWord> {
        words.iter().map(|word| KnownWord { word: *word, fate: WordFate::Taken }).collect()
    }

    #[track_caller]
    fn check_known(before: &[KnownWord], text: &str, want: &[ControlWord], lifted: bool) {
        let news = news(before, &read(text));
        let said: Vec<_> = news.said.iter().map(|said| said.word).collect();
        assert_eq!((said.as_slice(), news.lifted), (want, lifted), "{before:?}, {text:?}");
    }

    #[test]
    fn a_word_acts_once_wherever_it_appears() {
        check_news(&[], "PAUSE", &[Pause], false);
        check_news(&[Pause], "PAUSE", &[], false);
        check_news(&[Pause], "PAUSE\nRESUME", &[Resume], false);
        check_news(&[Pause], "RESUME\nPAUSE", &[Resume], false);
        check_news(&[Pause], "RESUME", &[Resume], false);
        check_news(&[Pause, Resume], "RESUME", &[], false);
        check_news(&[Abort], "ABORT\nABORT", &[Abort], false);
        check_news(&[Abort, Pause], "PAUSE", &[], false);
        check_news(&[Pause], "", &[], true);
        check_news(&[Pause, Abort], "ABORT", &[], true);
        check_news(&[Pause, Resume], "", &[], false);
        check_news(&[Skip, Abort, Skip], "ABORT", &[], false);
        check_news(&[Abort, Pause, Skip], "SKIP\nABORT\nESCALATE\nSKIP", &[Skip, Escalate], true);
    }

    /// **Invariant:** A word of CONTROL.md acts once.
    #[test]
    fn a_refused_word_acts_later_and_makes_no_other_act_again() {
        let refused = |word| KnownWord { word, fate: WordFate::Refused };
        let [pause, abort] = [Pause, Abort].map(|word| KnownWord { word, fate: WordFate::Taken });
        check_known(&[refused(Resume)], "RESUME", &[Resume], false);
        check_known(&[refused(Resume), pause], "RESUME\nPAUSE\nABORT", &[Resume, Abort], false);
        check_known(&[abort, refused(Skip), pause], "ABORT\nSKIP\nPAUSE", &[Skip], false);
        check_known(&[abort, refused(Skip), pause], "ABORT\nPAUSE", &[], false);
        check_known(&[pause, refused(Resume)], "", &[], true);
    }

    #[test]
    fn an_answer_is_quoted_below_its_word_and_a_pause_of_salves_own_is_marked() {
        let text = "notes\nSTATUS\nmore\n";
        let answered = with_answer(text, 2, &["one".into(), "two\u{1b}".into()]);
        assert_eq!(answered, "notes\nSTATUS\n> one\n> two \nmore\n");
        assert_eq!(read(&answered).said[0].below, Below::Answer);
        assert_eq!(read(text).said[0].below, Below::Nothing);
        let paused = with_pause("notes", "3 processes were left");
        assert!(paused.starts_with("notes\nPAUSE\n> written by Salve: 3 processes"), "{paused}");
        assert_eq!(read(&paused).said[0].below, Below::Own);
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_says_nothing_new_twice(text in "(?s).{0,200}", cut in 0_usize..8) {
            let control = read(&text);
            let words = control.words();
            prop_assert_eq!(news(&taken(&words), &control), News::default());
            let more: Vec<ControlWord> = [Skip].into_iter().cycle().take(cut).chain(words.clone()).collect();
            prop_assert_eq!(news(&taken(&more), &control), News::default());
            let fewer: Vec<ControlWord> = words.iter().copied().skip(cut).collect();
            prop_assert_eq!(news(&taken(&fewer), &control).said.len(), words.len() - fewer.len());
            for said in &control.said {
                let answered = with_answer(&text, said.line, &["fine".into()]);
                prop_assert_eq!(read(&answered).words(), words.clone());
            }
        }
    }
}
