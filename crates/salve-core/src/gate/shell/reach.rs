//! From one simple command to every command that it would run.

use super::Unclear;
use super::programs::{self, Role};
use super::script::Simple;
use super::word::{CommandWords, ShellWord};

/// Characters that mean something to a shell.
const META: &str = ";|&(){}`$<>";

/// How many words a wrapped command may have.
const MAX_WRAPPED: usize = 64;

/// What one simple command leads to.
#[derive(Debug, Default)]
pub(super) struct CommandReach {
    /// The words at which it and the commands that it wraps begin.
    pub(super) begins: Vec<usize>,
    /// Scripts among its arguments.
    pub(super) scripts: Vec<String>,
    /// Why more may run than is seen here, if so.
    pub(super) doubt: Option<&'static str>,
}

/// Where the commands begin that a command wraps; the later, the more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wraps {
    Nothing,
    /// After `-exec` and its relatives.
    AfterExec,
    /// At any later word.
    Rest,
}

impl CommandReach {
    /// Follows a command through its wrappers; words they fill in become unknown.
    pub(super) fn of(command: &mut Simple) -> Result<Self, Unclear> {
        let mut reach = Self::default();
        let (fed, words) = (command.fed, &mut command.words);
        for word in command.assignments.iter_from(0).chain(words.iter_from(0)) {
            let name = word.raw.split_once('=').map(|(name, _)| name.trim_end_matches('+'));
            if name.is_some_and(programs::variable_runs) {
                reach.doubt = Some("it sets a variable that decides what runs");
            }
        }
        if words.is_empty() {
            return Ok(reach);
        }
        if words.iter_from(0).filter_map(ShellWord::known).any(programs::option_runs) {
            reach.doubt = Some("it has an option whose value may be run");
        }
        let mut wraps = Wraps::Nothing;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let before = at.checked_sub(1).and_then(|before| words.get(before));
            let begins = before.is_none_or(|before| match wraps {
                Wraps::Nothing => false,
                Wraps::Rest => !skips(word),
                Wraps::AfterExec => before.known().is_some_and(is_exec),
            });
            let after_dashes = before.is_some_and(|before| before.raw == "--");
            if !begins && after_dashes && word.known().is_none() {
                reach.doubt = Some("what follows `--` is only known when it runs");
            } else if begins || after_dashes {
                if reach.begins.len() > MAX_WRAPPED {
                    return Err(Unclear("it wraps too many commands"));
                }
                wraps = wraps.max(reach.follow(words, at, fed)?);
                if wraps == Wraps::Rest && words.len() - at > MAX_WRAPPED {
                    return Err(Unclear("a wrapped command is too long"));
                }
            }
            at += 1;
        }
        if wraps == Wraps::Rest {
            reach.arguments_as_scripts(words.iter_from(1));
        }
        Ok(reach)
    }

    /// Takes arguments that look like scripts for scripts: many wrappers do.
    fn arguments_as_scripts<'w>(&mut self, arguments: impl Iterator<Item = ShellWord<'w>>) {
        let scripted = |text: &str| text.contains(|c: char| c.is_whitespace() || META.contains(c));
        for text in arguments.filter_map(ShellWord::known) {
            let value = text.split_once('=').map(|(_, value)| value);
            let whole = (!text.starts_with('-')).then_some(text);
            let found = [whole, value].into_iter().flatten().filter(|text| scripted(text));
            self.scripts.extend(found.map(str::to_owned));
        }
        self.scripts.dedup();
    }

    /// Looks at the command that begins at `at`; returns what it wraps.
    fn follow(&mut self, words: &mut CommandWords, at: usize, fed: bool) -> Result<Wraps, Unclear> {
        let Some(program) = words.get(at).and_then(ShellWord::known) else {
            return Err(Unclear("what it runs is only known when it runs"));
        };
        if !program.is_ascii() {
            return Err(Unclear("it runs a program whose name is not plain ASCII"));
        }
        let name = programs::name(program);
        let arguments = words.iter_from(at + 1);
        self.nature(name, arguments.clone(), fed);
        let wraps = match programs::role(name) {
            Role::Plain => self.subcommand(name, arguments),
            Role::Wrapper if name == "env" && arguments.clone().any(splits) => {
                return Err(Unclear("`env` splits a text into a command"));
            }
            Role::Wrapper => Wraps::Rest,
            Role::Feeder => {
                feeds(program, arguments)?;
                words.push(ShellWord::UNKNOWN);
                Wraps::Rest
            }
            Role::Finder => {
                drop(arguments);
                // Where it puts names.
                words.hide(at, |word| word.known().is_some_and(|text| text.contains("{}")));
                Wraps::AfterExec
            }
            Role::ScriptRunner => {
                self.scripts(arguments)?;
                Wraps::Rest
            }
            Role::Shell => {
                self.shell(arguments, fed)?;
                Wraps::Rest
            }
            Role::Interpreter => {
                self.interpreter(arguments.clone(), fed);
                self.subcommand(name, arguments)
            }
            Role::Editor => {
                if arguments.clone().any(edits_and_runs) {
                    self.doubt = Some("it may run what it edits");
                }
                Wraps::Nothing
            }
            Role::Redefiner => {
                self.doubt = Some("it changes what later words mean");
                Wraps::Nothing
            }
            Role::Evaluator => {
                let runs =
                    |word: ShellWord| word.known().is_some_and(|t| t.contains(['`', '[', '$']));
                if name == "let" || arguments.clone().any(runs) {
                    self.doubt = Some("it evaluates its arguments");
                }
                Wraps::Nothing
            }
        };
        self.begins.push(at);
        Ok(wraps)
    }

    /// Handles programs that run, or remove, what their arguments or input say.
    fn nature<'w>(
        &mut self,
        name: &str,
        mut arguments: impl Iterator<Item = ShellWord<'w>>,
        fed: bool,
    ) {
        if programs::runs_by_nature(name) {
            self.doubt = Some("it runs what it is given or reads");
        }
        if arguments.any(|word| programs::runs_by_option(name, word.cooked.head())) {
            self.doubt = Some("it has an option by which it runs or removes something");
        }
        if fed && programs::runs_input(name) {
            self.doubt = Some("its input decides what it runs");
        }
    }

    /// Handles programs of which only some subcommands run others.
    fn subcommand<'w>(
        &mut self,
        name: &str,
        arguments: impl Iterator<Item = ShellWord<'w>> + Clone,
    ) -> Wraps {
        let known = || arguments.clone().filter_map(ShellWord::known);
        if name == "git" && known().any(|text| text == "-c" || text.starts_with("--config-env")) {
            self.doubt = Some("it changes git's settings, which may name programs");
        }
        let runs = known().any(|text| programs::runs_rest(name, text));
        if runs && name == "git" {
            self.doubt = Some("it lets git run commands");
        }
        if runs { Wraps::Rest } else { Wraps::Nothing }
    }

    /// Takes every argument that could be a script for one.
    fn scripts<'w>(
        &mut self,
        arguments: impl Iterator<Item = ShellWord<'w>>,
    ) -> Result<(), Unclear> {
        let mut whole = Vec::new();
        for word in arguments {
            let text = word.known().ok_or(Unclear("it runs a script that is not written here"))?;
            whole.push(text);
        }
        if whole.is_empty() {
            return Err(Unclear("its input decides what it runs"));
        }
        let after_options = whole.iter().position(|text| !text.starts_with('-'));
        self.scripts.extend(after_options.map(|first| whole[first..].join(" ")));
        Ok(())
    }

    fn shell<'w>(
        &mut self,
        arguments: impl Iterator<Item = ShellWord<'w>>,
        fed: bool,
    ) -> Result<(), Unclear> {
        let mut file = false;
        let mut wants_script = false;
        for word in arguments {
            let Some(text) = word.known() else {
                return Err(Unclear("it runs a script that is not written here"));
            };
            if wants_script {
                self.scripts.push(text.to_owned());
                wants_script = false;
                file = true;
            } else if text.starts_with(['-', '+']) && !file {
                wants_script = !text.starts_with("--") && text.contains('c');
                if !text.starts_with("--") && text.contains('s') {
                    return Err(Unclear("its input decides what it runs"));
                }
            } else {
                file = true;
            }
        }
        if !file {
            return Err(Unclear("its input decides what it runs"));
        }
        if fed {
            self.doubt = Some("it feeds a shell");
        }
        Ok(())
    }

    fn interpreter<'w>(
        &mut self,
        mut arguments: impl Iterator<Item = ShellWord<'w>> + Clone,
        fed: bool,
    ) {
        let inline = |word: ShellWord| {
            let text = word.cooked.head();
            let short = text.starts_with('-') && !text.starts_with("--");
            let long = ["--eval", "--print", "--execute", "--command", "--require", "--import"];
            (short && text.contains(['c', 'e', 'r', 'p', 'E', 'C', 'i', 'x']))
                || long.iter().any(|option| text.starts_with(option))
                || ["system", "exec", "eval", "|", "`", "!"].iter().any(|sign| text.contains(sign))
        };
        let mut all = arguments.clone();
        let input = arguments.clone().next().is_none() || all.any(|word| word.raw == "-");
        if arguments.any(inline) || fed || input {
            self.doubt = Some("it runs code in another language");
        }
    }
}

/// Returns whether a word inside a wrapped command cannot be its program.
fn skips(word: ShellWord<'_>) -> bool {
    let head = word.cooked.head();
    word.is_option() || head.is_empty() && word.known().is_some() || is_number(head)
}

fn is_number(text: &str) -> bool {
    let digits = text.trim_end_matches(['s', 'm', 'h', 'd']);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Returns whether a `sed` script may hold the command that runs another.
fn edits_and_runs(word: ShellWord<'_>) -> bool {
    let text = word.cooked.head().as_bytes();
    let letter = |at: Option<&u8>| at.is_some_and(u8::is_ascii_alphabetic);
    !word.is_option()
        && (0..text.len())
            .any(|i| text[i] == b'e' && !letter(text[..i].last()) && !letter(text.get(i + 1)))
}

/// Returns whether an option of `env` holds a whole command.
fn splits(word: ShellWord<'_>) -> bool {
    let text = word.cooked.head();
    text.starts_with("--split")
        || (text.starts_with('-') && !text.starts_with("--") && text.contains('S'))
}

/// Returns whether `find` runs what follows this word.
fn is_exec(text: &str) -> bool {
    matches!(
        text,
        "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec" | "--exec-batch"
    )
}

/// Checks that a program which appends what it reads names the program that gets it.
fn feeds<'w>(
    program: &str,
    mut arguments: impl Iterator<Item = ShellWord<'w>> + Clone,
) -> Result<(), Unclear> {
    let replaces = |word: ShellWord| {
        let text = word.cooked.head();
        ["-I", "-i", "-J", "--replace"].iter().any(|option| text.starts_with(option))
    };
    let names_program = arguments.clone().any(|word| !word.is_option());
    if program.contains("parallel") || !names_program || arguments.any(replaces) {
        return Err(Unclear("its input decides what it runs"));
    }
    Ok(())
}
