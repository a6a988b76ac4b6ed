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
    commands: Vec<Vec<Word>>,
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
    let mut reading = Reading::default();
    let mut left = MAX_SCRIPTS;
    read_script(text, 0, &mut left, &mut reading)?;
    Ok(reading)
}

const CONTROL: Unclear = Unclear("it holds a control character");
const INVISIBLE: Unclear = Unclear("it holds an invisible character");

fn read_script(
    text: &str,
    depth: usize,
    left: &mut usize,
    reading: &mut Reading,
) -> Result<(), Unclear> {
    if depth > MAX_DEPTH || *left == 0 {
        return Err(Unclear("it is nested too deep"));
    }
    *left -= 1;
    let script = script::read(text)?;
    let first = reading.commands.len();
    let mut nested = script.nested;
    let mut written = Vec::new();
    for command in script.commands {
        written.push(words_as_written(&command.words));
        let reach = Reach::of(command)?;
        reading.doubt = reading.doubt.or(reach.doubt);
        reading.commands.extend(reach.commands);
        nested.extend(reach.scripts);
    }
    for text in &nested {
        read_script(text, depth + 1, left, reading)?;
    }
    let known = |words: &[String]| {
        let squeezed = squeeze(words.iter().map(String::as_str));
        written.contains(&squeezed)
            || reading.commands[first..].iter().any(|c| words_as_written(c) == squeezed)
    };
    if tree::commands(text)?.iter().all(|words| known(words)) {
        Ok(())
    } else {
        Err(Unclear("two readings of it disagree"))
    }
}

/// Returns the words as both readers see them: no `time`, no `<(…)`, and single spaces.
fn words_as_written(words: &[Word]) -> String {
    let mut words = words.iter().map(|word| word.raw.as_str()).peekable();
    while words.next_if(|&word| word == "time").is_some() {
        words.next_if(|&word| word == "-p");
    }
    squeeze(words.filter(|word| !word.starts_with("<(") && !word.starts_with(">(")))
}

fn squeeze<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let parts: Vec<&str> = words.flat_map(str::split_whitespace).collect();
    parts.join(" ")
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
        self.commands.iter().any(|words| matches(words, pattern))
    }
}

fn matches(words: &[Word], pattern: &Pattern) -> bool {
    let written: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
    pattern.matches(&written.join(" "))
        || join(words).any_form(|form| pattern.could_match(form))
        || (pattern.is_literal() && reaches(words, pattern.text()))
}

/// The texts under which one command may be known.
struct Forms<'a> {
    words: &'a [Word],
}

fn join(words: &[Word]) -> Forms<'_> {
    Forms { words }
}

impl Forms<'_> {
    /// Returns whether `test` holds for the words joined by single spaces, with or without the
    /// program's directory, and with or without options before the first argument.
    fn any_form(&self, test: impl Fn(&Template) -> bool) -> bool {
        let Some((program, arguments)) = self.words.split_first() else { return false };
        let names = match program.known() {
            Some(text) => [Template::known_text(text), Template::known_text(programs::name(text))],
            None => [program.cooked.clone(), program.cooked.clone()],
        };
        let starts = std::iter::once(0).chain(after_options(arguments));
        starts.into_iter().any(|start| {
            names.iter().any(|name| {
                let mut form = name.clone();
                for word in &arguments[start..] {
                    form.push(" ");
                    form.append(&word.cooked);
                }
                test(&form)
            })
        })
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
