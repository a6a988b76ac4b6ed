//! What a command line would run, as far as that can be told without running it.
//!
//! [`read`] finds every simple command of a text: in lists, pipes, subshells, blocks, loops and
//! substitutions, behind `env`, `sudo` and the like, and inside the scripts given to `sh -c` and
//! `eval`. A word that only the shell can fill in leaves a hole that may hold anything. A text
//! that cannot be read to the end is [`Unclear`], which counts as matching every pattern.
//!
//! **Invariant:** nothing is taken for read before [`Reading::confirm`] has agreed.

mod cursor;
mod known;
mod options;
mod programs;
mod reach;
mod script;
mod tree;
mod word;
mod written;

use std::collections::HashSet;

use super::pattern::{ApprovalPattern, Template};
use reach::CommandReach;
use script::WrittenFile;
use word::{CommandWords, ShellWord};
use written::{FileUse, is_inert};

/// How deep scripts may nest in scripts.
const MAX_DEPTH: usize = 6;

/// How many scripts one command may hold.
const MAX_SCRIPTS: usize = 32;

/// Why a text cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unclear(pub(super) &'static str);

/// Everything a text would run, as one reader sees it.
#[derive(Debug, Default)]
pub(super) struct Reading {
    commands: Vec<KnownShellCommand>,
    /// Why more may run than is seen here, if so.
    pub(super) doubt: Option<&'static str>,
    /// Why what it sets may change what runs, if so.
    sets: Option<&'static str>,
    /// The scripts of which a parser has to say whether they are complete.
    intricate: Vec<String>,
    /// All commands as written.
    written: String,
    /// All commands without holes as the shell sees them.
    seen: String,
}

/// Reads a command line.
///
/// # Errors
///
/// Returns [`Unclear`] when the text cannot be read to the end.
pub(super) fn read(text: &str) -> Result<Reading, Unclear> {
    if let Some(odd) = text.chars().find(|&c| is_odd(c)) {
        return Err(if odd.is_ascii() { CONTROL } else { INVISIBLE });
    }
    let mut reader =
        ShellReader { left: text.len() + nested_room(text.len()), ..ShellReader::default() };
    reader.script(text, 0)?;
    let doubt = reader.doubt.or_else(|| reader.written_and_run());
    let ShellReader { commands, intricate, sets, .. } = reader;
    let mut reading = Reading { commands, doubt, sets, intricate, ..Reading::default() };
    for command in &reading.commands {
        let whole = command.words.from(0);
        for (text, part) in
            [(&mut reading.written, Some(whole.raw)), (&mut reading.seen, whole.known())]
        {
            text.extend(part.into_iter().flat_map(|part| [part, "\n"]));
        }
    }
    Ok(reading)
}

/// Returns how much text of scripts inside a text of `length` is read.
///
/// A wrapped script is as long as the text around it, and may hold others. Much more than that is
/// the same text nested over and over, which would be read once for every level.
fn nested_room(length: usize) -> usize {
    length + length / 4 + 512
}

const CONTROL: Unclear = Unclear("it holds a control character");
const INVISIBLE: Unclear = Unclear("it holds an invisible character");
const TOO_DEEP: Unclear = Unclear("it is nested too deep");

#[derive(Default)]
struct ShellReader {
    commands: Vec<KnownShellCommand>,
    doubt: Option<&'static str>,
    sets: Option<&'static str>,
    /// How many scripts were read.
    scripts: usize,
    /// How much text may still be read.
    left: usize,
    /// Those of which a parser has to say whether they are complete.
    intricate: Vec<String>,
    /// Every simple command as written, which reads as the same words again.
    seen: HashSet<String>,
    /// The files that are written to.
    written: Vec<PlacedWrite>,
    /// Whether commands may run in another order than they are written in.
    is_unordered: bool,
}

/// A file that is written, and where in the text.
struct PlacedWrite {
    file: WrittenFile,
    /// Which command writes it, as its words are written; none where that is a whole block.
    by: Option<String>,
    place: usize,
}

impl ShellReader {
    fn script(&mut self, text: &str, depth: usize) -> Result<(), Unclear> {
        if depth > MAX_DEPTH || self.scripts == MAX_SCRIPTS {
            return Err(TOO_DEEP);
        }
        self.left = self.left.checked_sub(text.len()).ok_or(TOO_DEEP)?;
        self.scripts += 1;
        let script = script::read(text)?;
        if script.intricate {
            self.intricate.push(text.to_owned());
        }
        let mut nested = script.nested;
        self.is_unordered |= script.is_unordered || depth > 0;
        let of_block = |file| PlacedWrite { file, by: None, place: 0 };
        self.written.extend(script.writes.into_iter().map(of_block));
        let loops = script.loops.iter().find_map(|variable| known::of_loop(variable));
        self.sets = self.sets.or(loops);
        for mut command in script.commands {
            self.sets = self.sets.or_else(|| known::of_assignments(&command.assignments));
            let (by, place) = (command.words.from(0).raw.to_owned(), command.place);
            let fresh = command.words.is_empty() || self.seen.insert(by.clone());
            let placed = |file| PlacedWrite { file, by: Some(by.clone()), place };
            self.written.extend(std::mem::take(&mut command.writes).into_iter().map(placed));
            let same = |known: &&mut KnownShellCommand| known.words.from(0).raw == by;
            if let Some(known) = self.commands.iter_mut().find(same).filter(|_| !fresh) {
                known.last = place;
            }
            // The very same command again leads nowhere new.
            if !fresh && command.assignments.is_empty() && !command.fed {
                continue;
            }
            let reach = CommandReach::of(&mut command)?;
            self.doubt = self.doubt.or(reach.doubt);
            nested.extend(reach.scripts);
            if fresh && !command.words.is_empty() {
                let has_holes = command.words.from(0).known().is_none();
                let has_options = command.words.iter_from(1).any(ShellWord::is_option);
                let (words, begins) = (command.words, reach.begins);
                let [first, last] = [place; 2];
                let known =
                    KnownShellCommand { words, begins, has_holes, has_options, first, last };
                self.commands.push(known);
            }
        }
        nested.iter().try_for_each(|text| self.script(text, depth + 1))
    }
}

impl ShellReader {
    /// Says why a file that is written here may also be run here, if so.
    fn written_and_run(&self) -> Option<&'static str> {
        let uses: Vec<FileUse> =
            self.commands.iter().map(|command| written::file_use(&command.words)).collect();
        let by_programs = self.commands.iter().zip(&uses).flat_map(|(command, uses)| {
            let by = Some(command.words.from(0).raw);
            uses.writes.iter().map(move |file| (file, by, command.first))
        });
        let redirected =
            self.written.iter().map(|write| (&write.file, write.by.as_deref(), write.place));
        let is_later =
            |command: &KnownShellCommand, place| self.is_unordered || command.last >= place;
        // Where names are given to other files, a harmless name says nothing about its file.
        let renames = uses.iter().any(|uses| uses.renames);
        let is_inert = |file: &str| is_inert(file) && (!renames || file.starts_with("/dev/"));
        let is_risky = |(file, by, place): (&WrittenFile, Option<&str>, usize)| {
            if matches!(file, WrittenFile::File(file) if file.starts_with("/dev/") && is_inert(file))
            {
                return false;
            }
            let is_run = |(command, uses): (&KnownShellCommand, &FileUse)| {
                let is_other = by != Some(command.words.from(0).raw);
                let may_name = match file {
                    WrittenFile::Unknown => false,
                    WrittenFile::File(file) => command.may_name(file),
                };
                let runs_any =
                    is_other && !matches!(file, WrittenFile::File(file) if is_inert(file));
                uses.may_run && is_later(command, place) && (may_name || runs_any)
            };
            self.commands.iter().zip(&uses).any(is_run)
        };
        redirected.chain(by_programs).any(is_risky).then_some("it writes a file that it may run")
    }
}

/// How many words of a command show where it begins.
const TELLING_WORDS: usize = 2;

/// Joins the telling words so that only their inner white space may differ.
fn beginning<'a>(words: impl Iterator<Item = &'a str>, text: &mut String) {
    text.clear();
    for word in words.take(TELLING_WORDS) {
        for part in word.split_whitespace() {
            text.push_str(part);
            text.push(' ');
        }
        text.push('\0');
    }
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
    /// Returns the words of every simple command, without `env`, `sudo` and the like: as the shell
    /// sees them, or as written where it fills something in.
    pub(super) fn simple_commands(&self) -> Vec<Vec<String>> {
        let words = |known: &KnownShellCommand, at: usize| {
            known
                .words
                .iter_from(at)
                .map(|word| word.known().unwrap_or(word.raw).to_owned())
                .collect()
        };
        let commands = self.commands.iter();
        commands.flat_map(|known| known.begins.iter().map(move |&at| words(known, at))).collect()
    }

    /// Returns whether `pattern` matches one of the commands, whatever the holes may hold.
    pub(super) fn could_match(&self, pattern: &ApprovalPattern) -> bool {
        let somewhere =
            pattern.may_occur(Template(&self.written)) || pattern.may_occur(Template(&self.seen));
        let mut commands = self.commands.iter();
        commands.any(|command| {
            let likely = somewhere || command.has_holes || command.has_options;
            likely && command.could_match(pattern)
        })
    }

    /// Says why it may start what nobody sees here: only programs, options, operands and variables of
    /// which that is known start nothing else.
    pub(super) fn strangeness(&self) -> Option<&'static str> {
        self.sets.or_else(|| self.commands.iter().find_map(|one| known::strange(&one.words)))
    }

    /// Asks a second reader about every script that is more than a list of plain commands.
    ///
    /// # Errors
    ///
    /// Returns [`Unclear`] when that one cannot read them, or reads something else.
    pub(super) fn confirm(&self) -> Result<(), Unclear> {
        if self.intricate.is_empty() {
            return Ok(());
        }
        let found: HashSet<String> =
            self.commands.iter().map(KnownShellCommand::beginning).collect();
        self.intricate.iter().try_for_each(|text| tree::check(text, &found))
    }
}

/// One command, and where in it those begin that it wraps.
#[derive(Debug)]
struct KnownShellCommand {
    words: CommandWords,
    begins: Vec<usize>,
    /// Whether parts of it are known only at run time.
    has_holes: bool,
    /// Whether it has options, which may be written in many ways.
    has_options: bool,
    /// Where it stands first and last among the pipelines of its script.
    first: usize,
    last: usize,
}

impl KnownShellCommand {
    /// Returns whether one of its words may be a file, by whatever directories lead there.
    fn may_name(&self, file: &str) -> bool {
        let name = programs::name(file);
        let is = |word: ShellWord<'_>| word.known().is_none_or(|text| text.ends_with(name));
        self.words.iter_from(0).any(is)
    }

    /// Returns how the command begins, as both readers write it: no `time`, no `<(…)`.
    fn beginning(&self) -> String {
        let mut words = self.words.iter_from(0).map(|word| word.raw).peekable();
        while words.next_if(|&word| word == "time").is_some() {
            words.next_if(|&word| word == "-p");
        }
        let mut text = String::new();
        let words = words.filter(|word| !word.starts_with("<(") && !word.starts_with(">("));
        beginning(words, &mut text);
        text
    }

    /// Returns whether `pattern` matches it or a command in it, under any of their forms.
    fn could_match(&self, pattern: &ApprovalPattern) -> bool {
        let whole = self.words.from(0);
        let written = pattern.may_occur(Template(whole.raw));
        let seen = pattern.may_occur(whole.cooked);
        self.begins.iter().any(|&at| {
            (written && pattern.could_match(Template(self.words.from(at).raw)))
                || (seen && self.forms_match(at, pattern))
                || (pattern.is_literal() && self.reaches(at, pattern.text()))
                || self.reaches_otherwise(at, pattern)
        })
    }

    /// Compares with the command at word `at` as the shell sees it: with and without the program's
    /// directory, and with and without options before the first argument.
    fn forms_match(&self, at: usize, pattern: &ApprovalPattern) -> bool {
        let whole = self.words.from(at).cooked;
        let Some(program) = self.words.get(at).and_then(ShellWord::known) else {
            return pattern.could_match(whole);
        };
        if pattern.may_start(program) && pattern.could_match(whole) {
            return true;
        }
        let name = programs::name(program);
        let options = leading_options(self.words.iter_from(at + 1));
        let names = [Some(program), Some(name).filter(|name| *name != program)];
        let mut form = String::new();
        names.into_iter().flatten().filter(|name| pattern.may_start(name)).any(|name| {
            // The first name with all its options is the whole.
            let skipped = usize::from(name == program)..=options;
            skipped.into_iter().any(|options| {
                form.clear();
                form.push_str(name);
                if at + 1 + options < self.words.len() {
                    form.push(' ');
                    form.push_str(self.words.from(at + 1 + options).cooked.0);
                }
                pattern.could_match(Template(&form))
            })
        })
    }

    /// Returns whether the command at word `at` does what a pattern names, with its options written
    /// another way.
    fn reaches_otherwise(&self, at: usize, pattern: &ApprovalPattern) -> bool {
        let Some(program) = self.words.get(at).and_then(ShellWord::known) else { return false };
        options::reaches(programs::name(program), self.words.iter_from(at + 1), pattern)
    }

    /// Returns whether the command at word `at` does what a literal pattern names, with other
    /// options in between.
    ///
    /// `git push` reaches `git -C web push`, and `git reset --hard` reaches `git reset -q --hard`.
    fn reaches(&self, at: usize, pattern: &str) -> bool {
        let mut wanted = pattern.split_ascii_whitespace();
        let Some(program) = wanted.next() else { return false };
        let same = |text: &str| text == program || programs::name(text) == program;
        if !self.words.get(at).and_then(ShellWord::known).is_some_and(same) {
            return false;
        }
        let (options, names): (Vec<&str>, Vec<&str>) =
            wanted.partition(|word| word.starts_with('-'));
        let arguments = self.words.iter_from(at + 1);
        let has = |option: &&str| arguments.clone().any(|word| word.cooked.could_be(option));
        options.iter().all(has) && follow(arguments.clone(), &names)
    }
}

/// Returns how many words at the front are options and their values, as far as is looked.
fn leading_options<'w>(arguments: impl Iterator<Item = ShellWord<'w>>) -> usize {
    let mut previous = false;
    let options = arguments.take_while(move |word| {
        let option = word.is_option();
        std::mem::replace(&mut previous, option) || option
    });
    options.take(16).count()
}

/// Returns whether the words are `names` in this order, with only options in between.
fn follow<'w>(words: impl Iterator<Item = ShellWord<'w>>, names: &[&str]) -> bool {
    let mut names = names.iter().peekable();
    let mut after_option = false;
    for word in words {
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
