//! Options as the program reads them: in any order, apart or together, short or long.
//!
//! A pattern names one way to write a command; `rm -rf *` means `rm -fr x`, `rm -r -f x`,
//! `rm x --recursive --force` and `rm -R --forc x` as well.

use super::programs;
use super::word::ShellWord;
use crate::gate::pattern::ApprovalPattern;

/// Short options, their long names, and other letters that mean the same, by program.
///
/// The list need not be complete: an option that it lacks only matches as it is written, with its
/// letters in any order.
const SAME: &[(&str, char, &str)] = &[
    ("rm", 'r', "recursive R"),
    ("rm", 'f', "force"),
    ("rm", 'd', "dir"),
    ("cp", 'r', "recursive R a archive"),
    ("cp", 'f', "force"),
    ("mv", 'f', "force"),
    ("ln", 'f', "force"),
    ("ln", 's', "symbolic"),
    ("chmod", 'R', "recursive"),
    ("chown", 'R', "recursive"),
    ("chgrp", 'R', "recursive"),
    ("git", 'f', "force force-with-lease"),
    ("git", 'd', "delete"),
    ("git", 'D', "delete"),
    ("git", 'a', "all"),
    ("git", 'u', "set-upstream include-untracked"),
    ("docker", 'f', "force"),
    ("docker", 'v', "volumes volume"),
    ("docker", 'a', "all"),
    ("podman", 'f', "force"),
    ("podman", 'v', "volumes volume"),
    ("podman", 'a', "all"),
    ("kubectl", 'f', "filename"),
    ("npm", 'g', "global location"),
    ("npm", 'f', "force"),
    ("pnpm", 'g', "global"),
    ("yarn", 'f', "force"),
    ("pip", 'U', "upgrade"),
    ("pip", 'y', "yes"),
    ("apt", 'y', "yes assume-yes"),
    ("apt-get", 'y', "yes assume-yes"),
    ("curl", 'X', "request"),
    ("curl", 'd', "data"),
    ("curl", 'T', "upload-file"),
    ("tar", 'x', "extract get"),
    ("kill", 'n', "signal s"),
    ("truncate", 's', "size"),
];

/// Returns whether a command does what a pattern names, with its options written another way.
///
/// `arguments` are the words behind the program called `name`.
pub(super) fn reaches<'w>(
    name: &str,
    arguments: impl Iterator<Item = ShellWord<'w>> + Clone,
    pattern: &ApprovalPattern,
) -> bool {
    let mut wanted = pattern.text().split_ascii_whitespace();
    let Some(program) = wanted.next() else { return false };
    if program.contains('*') || programs::name(program) != name {
        return false;
    }
    let (options, names): (Vec<&str>, Vec<&str>) = wanted.partition(|word| is_option(word));
    if options.iter().any(|option| option.contains('*')) {
        return false;
    }
    let given = Given { name, arguments: arguments.clone() };
    options.iter().all(|option| given.has(option)) && follows(arguments, &names)
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// The options of a command.
struct Given<'n, I> {
    name: &'n str,
    arguments: I,
}

impl<'w, I: Iterator<Item = ShellWord<'w>> + Clone> Given<'_, I> {
    /// Returns whether the command has the options of `word`, however they are written.
    fn has(&self, word: &str) -> bool {
        let written = |argument: ShellWord<'_>| argument.cooked.could_be(word);
        if self.arguments.clone().any(written) {
            return true;
        }
        match word.strip_prefix("--") {
            Some(long) => self.has_long(value_less(long)),
            // One that is written with a single dash and is no set of letters asks a little more.
            None => word.chars().skip(1).all(|letter| self.has_letter(letter)),
        }
    }

    fn has_letter(&self, letter: char) -> bool {
        let others = self.same(|short, _| short == letter);
        let letters = others.iter().filter(|name| name.len() == 1).flat_map(|name| name.chars());
        let letters: Vec<char> = letters.chain([letter]).collect();
        let is_short = |text: &str| {
            text.starts_with('-') && !text.starts_with("--") && text.contains(&letters[..])
        };
        let given = |word: ShellWord<'_>| match word.known() {
            Some(text) => is_short(text),
            None => true,
        };
        self.arguments.clone().any(given)
            || others.iter().filter(|name| name.len() > 1).any(|name| self.is_abbreviated(name))
    }

    fn has_long(&self, long: &str) -> bool {
        let short = SAME.iter().find(|(program, _, names)| {
            *program == self.name && names.split(' ').any(|name| name == long)
        });
        self.is_abbreviated(long) || short.is_some_and(|(_, letter, _)| self.has_letter(*letter))
    }

    /// Returns whether a long option is given, cut short as far as programs understand it.
    fn is_abbreviated(&self, long: &str) -> bool {
        let given = |word: ShellWord<'_>| match word.known().map(|text| text.strip_prefix("--")) {
            Some(Some(text)) => !text.is_empty() && long.starts_with(value_less(text)),
            Some(None) => false,
            None => true,
        };
        self.arguments.clone().any(given)
    }

    fn same(&self, wanted: impl Fn(char, &str) -> bool) -> Vec<&'static str> {
        let rows = SAME.iter().filter(|(program, _, _)| *program == self.name);
        let rows = rows.filter(|(_, letter, names)| wanted(*letter, names));
        rows.flat_map(|(_, _, names)| names.split(' ')).collect()
    }
}

fn value_less(option: &str) -> &str {
    option.split('=').next().unwrap_or(option)
}

/// Returns whether the words that are no options are `names` in this order, each of which may hold
/// `*`; a last `*` stands for any words or none.
fn follows<'w>(words: impl Iterator<Item = ShellWord<'w>>, names: &[&str]) -> bool {
    let mut names = names.iter().peekable();
    let mut after_option = false;
    for word in words {
        let Some(name) = names.peek() else { break };
        if **name == "*" || word.cooked.could_be(name) || could_match(word, name) {
            if **name != "*" || !word.is_option() {
                names.next();
            }
            after_option = false;
        } else if word.is_option() {
            after_option = true;
        } else if std::mem::take(&mut after_option) {
            // It may be the option's value.
        } else {
            return false;
        }
    }
    names.all(|name| *name == "*")
}

fn could_match(word: ShellWord<'_>, name: &str) -> bool {
    name.contains('*') && ApprovalPattern::new(name).could_match(word.cooked)
}
