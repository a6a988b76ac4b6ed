//! What a command line would run, as far as that can be told without running it.
//!
//! [`read`] finds every simple command of a text: in lists, pipes, subshells, blocks, loops and
//! substitutions, behind `env`, `sudo` and the like, and inside the scripts given to `sh -c` and
//! `eval`. A word that only the shell can fill in leaves a hole that may hold anything. A text
//! that cannot be read to the end is [`Unclear`], which counts as matching every pattern.

mod cursor;
mod programs;
mod reach;
mod script;
mod tree;
mod word;

use std::collections::HashSet;

use super::pattern::{Pattern, Template};
use reach::Reach;
use word::Word;

/// How deep scripts may nest in scripts.
const MAX_DEPTH: usize = 6;

/// How many scripts one command may hold.
const MAX_SCRIPTS: usize = 32;

/// Why a text cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unclear(pub(super) &'static str);

/// Everything a text would run.
#[derive(Debug, Default)]
pub(super) struct Reading {
    commands: Vec<Known>,
    /// Why more may run than is seen here, if so.
    pub(super) doubt: Option<&'static str>,
}

/// Reads a command line.
///
/// # Errors
///
/// Returns [`Unclear`] when the text cannot be read to the end, by one of the two readers or by
/// both alike.
pub(super) fn read(text: &str) -> Result<Reading, Unclear> {
    if let Some(odd) = text.chars().find(|&c| is_odd(c)) {
        return Err(if odd.is_ascii() { CONTROL } else { INVISIBLE });
    }
    let mut reader = Reader::default();
    reader.script(text, 0)?;
    reader.compare()?;
    Ok(Reading { commands: reader.commands, doubt: reader.doubt })
}

const CONTROL: Unclear = Unclear("it holds a control character");
const INVISIBLE: Unclear = Unclear("it holds an invisible character");
const TOO_DEEP: Unclear = Unclear("it is nested too deep");

#[derive(Default)]
struct Reader {
    commands: Vec<Known>,
    doubt: Option<&'static str>,
    /// How many scripts were read.
    scripts: usize,
    /// Those of which a parser has to say whether they are complete.
    intricate: Vec<String>,
    /// How every simple command in them begins, as both readers write it.
    found: HashSet<String>,
    /// Every simple command, exactly as written.
    seen: HashSet<Vec<String>>,
}

impl Reader {
    fn script(&mut self, text: &str, depth: usize) -> Result<(), Unclear> {
        if depth > MAX_DEPTH || self.scripts == MAX_SCRIPTS {
            return Err(TOO_DEEP);
        }
        let script = script::read(text)?;
        self.scripts += 1;
        if script.intricate {
            self.intricate.push(text.to_owned());
        }
        let mut nested = script.nested;
        for command in script.commands {
            self.found.insert(as_written(&command.words));
            // The very same command again leads nowhere new.
            let words = command.words.iter().map(|word| word.raw.clone()).collect();
            let known = command.assignments.is_empty() && !command.fed;
            if !self.seen.insert(words) && known {
                continue;
            }
            let reach = Reach::of(command)?;
            self.doubt = self.doubt.or(reach.doubt);
            self.commands.extend(reach.commands.into_iter().map(Known::new));
            nested.extend(reach.scripts);
        }
        nested.iter().try_for_each(|text| self.script(text, depth + 1))
    }

    /// Asks the second reader about every script that is more than a list of plain commands.
    fn compare(&self) -> Result<(), Unclear> {
        for text in &self.intricate {
            for words in tree::commands(text)? {
                if !self.found.contains(&beginning(words.iter().map(String::as_str))) {
                    return Err(Unclear("two readings of it disagree"));
                }
            }
        }
        Ok(())
    }
}

/// Returns how a command begins, as both readers write it: no `time`, no `<(…)`.
fn as_written(words: &[Word]) -> String {
    let mut words = words.iter().map(|word| word.raw.as_str()).peekable();
    while words.next_if(|&word| word == "time").is_some() {
        words.next_if(|&word| word == "-p");
    }
    beginning(words.filter(|word| !word.starts_with("<(") && !word.starts_with(">(")))
}

/// Joins the first two words so that only their inner white space may differ.
fn beginning<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for word in words.take(2) {
        for part in word.split_whitespace() {
            text.push_str(part);
            text.push(' ');
        }
        text.push('\0');
    }
    text
}

/// Returns whether a character can hide what a person would see.
fn is_odd(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        c if c.is_control() => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
            true
        }
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => true,
        '\u{ffa0}' | '\u{fff0}'..='\u{fffd}' | '\u{e0000}'..='\u{e0fff}' => true,
        '\u{1d173}'..='\u{1d17a}' => true,
        c => !c.is_ascii() && c.is_whitespace(),
    }
}

impl Reading {
    /// Returns whether `pattern` matches one of the commands, whatever the holes may hold.
    pub(super) fn could_match(&self, pattern: &Pattern) -> bool {
        self.commands.iter().any(|command| command.could_match(pattern))
    }
}

/// One command and the texts under which it may be known.
#[derive(Debug)]
struct Known {
    words: Vec<Word>,
    forms: Vec<Template>,
}

impl Known {
    /// Joins the words by single spaces: as written and as the shell sees them, with and without
    /// the program's directory, and with and without options before the first argument.
    fn new(words: Vec<Word>) -> Self {
        let written: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
        let mut forms = vec![Template::known_text(&written.join(" "))];
        if let Some((program, arguments)) = words.split_first() {
            let mut names = vec![program.cooked.clone()];
            if let Some(text) = program.known().filter(|text| programs::name(text) != *text) {
                names.push(Template::known_text(programs::name(text)));
            }
            for start in std::iter::once(0).chain(after_options(arguments)) {
                for name in &names {
                    let mut form = name.clone();
                    for word in &arguments[start..] {
                        form.push(" ");
                        form.append(&word.cooked);
                    }
                    forms.push(form);
                }
            }
        }
        forms.dedup();
        Self { words, forms }
    }

    fn could_match(&self, pattern: &Pattern) -> bool {
        self.forms.iter().any(|form| pattern.could_match(form))
            || (pattern.is_literal() && reaches(&self.words, pattern.text()))
    }
}

/// Returns where the arguments may begin when options and their values come first.
fn after_options(arguments: &[Word]) -> impl Iterator<Item = usize> {
    let mut previous = false;
    let options = arguments.iter().take_while(move |word| {
        let option = word.is_option();
        std::mem::replace(&mut previous, option) || option
    });
    1..=options.take(16).count()
}

/// Returns whether a command does what a literal pattern names, with other options in between.
///
/// `git push` reaches `git -C web push`, and `git reset --hard` reaches `git reset -q --hard`.
fn reaches(words: &[Word], pattern: &str) -> bool {
    let mut wanted = pattern.split_ascii_whitespace();
    let (Some(program), Some((first, arguments))) = (wanted.next(), words.split_first()) else {
        return false;
    };
    let same = |text: &str| text == program || programs::name(text) == program;
    if !first.known().is_some_and(same) {
        return false;
    }
    let (options, names): (Vec<&str>, Vec<&str>) = wanted.partition(|word| word.starts_with('-'));
    if options.is_empty() && names.is_empty() {
        return true;
    }
    let has = |option: &&str| arguments.iter().any(|word| word.cooked.could_be(option));
    if !options.iter().all(has) {
        return false;
    }
    let mut names = names.iter().peekable();
    let mut after_option = false;
    for word in arguments {
        match names.peek() {
            None => break,
            Some(name) if word.cooked.could_be(name) => {
                names.next();
                after_option = false;
            }
            Some(_) if word.is_option() => after_option = true,
            Some(_) if after_option => after_option = false,
            Some(_) => return false,
        }
    }
    names.next().is_none()
}

#[cfg(test)]
mod tests;
