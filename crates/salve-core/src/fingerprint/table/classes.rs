//! The class table, compiled: which rule's words occur in a line.

use std::ops::Range;

use super::flat::flatten_word;
use super::grams::{Common, GramWords};
use super::kept::Kept;
use super::row::{ClassError, ClassRow};
use crate::class::Class;

/// Which list of a rule a word is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordList {
    /// One of these must occur.
    Any,
    /// One of these must occur, too.
    Also,
    /// None of these may occur.
    Never,
}

/// The compiled table.
#[derive(Debug)]
pub(crate) struct Classes {
    pub(crate) words: GramWords,
    /// Where each word stands: rule and list.
    pub(crate) places: Kept<[(u32, WordList)]>,
    /// The class of each rule, and how many words its second list has.
    pub(crate) rules: Kept<[(Class, u32)]>,
}

/// What one rule has seen in a line.
#[derive(Clone, Copy, Debug, Default)]
struct SeenWords {
    any: bool,
    also: bool,
    never: bool,
}

impl Classes {
    /// Compiles the rows that can be, and reports the others by name.
    pub(crate) fn compile(rows: &[ClassRow], common: &Common) -> (Self, Vec<(String, ClassError)>) {
        let mut errors = Vec::new();
        let (mut words, mut places, mut rules) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let mut all = row.any.iter().chain(&row.also).chain(&row.never);
            if row.any.is_empty() || all.any(String::is_empty) {
                errors.push((row.name.clone(), ClassError::NoWords));
                continue;
            }
            let number = u32::try_from(rules.len()).unwrap_or(u32::MAX);
            let lists = [
                (WordList::Any, &row.any),
                (WordList::Also, &row.also),
                (WordList::Never, &row.never),
            ];
            for (list, texts) in lists {
                words.extend(texts.iter().map(|text| flatten_word(text).to_ascii_lowercase()));
                places.extend(texts.iter().map(|_| (number, list)));
            }
            rules.push((row.class, u32::try_from(row.also.len()).unwrap_or(u32::MAX)));
        }
        let words = GramWords::new(&words, common);
        let (places, rules) = (Kept::Made(places.into()), Kept::Made(rules.into()));
        (Self { words, places, rules }, errors)
    }

    /// Returns the class of a flat line, if any rule applies.
    ///
    /// What a failure is about says less of its kind than the words around it: names in quotes
    /// count only where those say nothing, or nothing more than that it ran, and paths only where
    /// nothing else says anything.
    pub(crate) fn classify(&self, flat: &str) -> Option<Class> {
        let paths = paths(flat);
        let mut names = quoted_names(flat);
        let named = !names.is_empty();
        names.extend(paths.iter().cloned());
        let said = self.seen(flat, &names).next();
        let plain = |rule: &usize| self.rules[*rule].0 == Class::RuntimeError;
        let told = said.filter(|rule| !named || !plain(rule));
        let told = told.or_else(|| self.seen(flat, &paths).next());
        told.or_else(|| self.applying(flat).next()).map(|rule| self.rules[rule].0)
    }

    /// Returns the rules that apply to a flat line, first one first.
    pub(crate) fn applying(&self, flat: &str) -> impl Iterator<Item = usize> {
        self.seen(flat, &[])
    }

    /// Returns the rules that apply to a flat line without the words that stand in `names`.
    fn seen(&self, flat: &str, names: &[Range<usize>]) -> impl Iterator<Item = usize> {
        let mut seen = vec![SeenWords::default(); self.rules.len()];
        self.words.find(flat.as_bytes(), 0, |start, word| {
            let end = start + self.words.word(word).len();
            if is_word(flat.as_bytes(), start, end) {
                let (rule, list) = self.places[word];
                let seen = &mut seen[rule as usize];
                let named = names.iter().any(|name| name.start <= start && end <= name.end);
                match list {
                    WordList::Any => seen.any |= !named,
                    WordList::Also => seen.also |= !named,
                    WordList::Never => seen.never = true,
                }
            }
            true
        });
        let rules = seen.into_iter().zip(&*self.rules).enumerate();
        rules.filter_map(|(number, (seen, (_, also)))| {
            (seen.any && (seen.also || *also == 0) && !seen.never).then_some(number)
        })
    }
}

/// Returns where single words stand in quotes.
fn quoted_names(flat: &str) -> Vec<Range<usize>> {
    let mut names = Vec::new();
    let mut quotes = flat.match_indices('\'').map(|(at, _)| at).peekable();
    while let Some(open) = quotes.next() {
        let starts = open == 0 || !flat.as_bytes()[open - 1].is_ascii_alphanumeric();
        let Some(&close) = quotes.peek() else { break };
        if starts && close > open + 1 && !flat[open..close].contains(' ') {
            names.push(open + 1..close);
            quotes.next();
        }
    }
    names
}

/// Returns where paths and addresses stand: words of several parts from the root or a scheme on.
fn paths(flat: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    for word in flat.split_inclusive(' ') {
        let path = word.trim_start_matches(['(', '\'', '<', '[', '`']);
        let start = at + word.len() - path.len();
        let slash = |b: u8| matches!(b, b'/' | b'\\');
        let rooted = path.bytes().next().is_some_and(slash)
            || path.starts_with("./")
            || path.starts_with("../")
            || path.contains("://")
            || path.as_bytes().get(1..3) == Some(b":\\");
        if rooted && path.bytes().filter(|b| slash(*b)).count() > 1 {
            found.push(start..at + word.len());
        }
        at += word.len();
    }
    found
}

/// Returns whether a hit starts where a word does, and, if it ends with a digit, ends with it.
fn is_word(line: &[u8], start: usize, end: usize) -> bool {
    let opens = start == 0
        || !line[start].is_ascii_alphanumeric()
        || !line[start - 1].is_ascii_alphanumeric();
    let number = line[end - 1].is_ascii_digit();
    opens
        && !(number
            && line.get(end).is_some_and(u8::is_ascii_digit)
            && line[start].is_ascii_digit())
}
