//! A second opinion: the commands that a full shell parser finds.
//!
//! [`super::script`] reads flat text; this walks the tree that `brush-parser` builds. Where the
//! parser sees a command that the flat reading did not, or no program at all, the text is unclear.
//! It is only asked about texts that the flat reading understood, so its input is short, shallow,
//! and free of the constructs on which it may panic or backtrack.

use std::collections::HashSet;

use brush_parser::ast::{
    AndOr, AndOrList, Command, CommandPrefixOrSuffixItem, CompoundCommand, CompoundList,
    IoFileRedirectTarget, IoRedirect, Program, RedirectList, SimpleCommand,
};
use brush_parser::{ParserOptions, Token, parse_tokens, uncached_tokenize_str};

use super::{TELLING_WORDS, Unclear, beginning};

/// Checks that every simple command in `text` begins like one that was `found` before.
pub(super) fn check(text: &str, found: &HashSet<String>) -> Result<(), Unclear> {
    let tokens = tokens(text)?;
    if is_list(&tokens, found) {
        debug_assert!(tokens.len() > MAX_TOKENS || parse(tokens, found).is_ok());
        return Ok(());
    }
    parse(tokens, found)
}

fn options() -> ParserOptions {
    // Extended patterns are off in scripts, where `!(…)` is a negated subshell.
    ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() }
}

/// Returns the words and operators of a text.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Unclear> {
    uncached_tokenize_str(text, &options().tokenizer_options()).map_err(|_| PARTIAL)
}

/// Checks a text of any shape.
pub(super) fn parse(tokens: Vec<Token>, found: &HashSet<String>) -> Result<(), Unclear> {
    let tokens = shorten(tokens);
    if tokens.len() > MAX_TOKENS {
        return Err(Unclear("it holds too much that only a parser can read"));
    }
    if tokens.windows(2).any(is_large_descriptor) {
        return Err(Unclear("it redirects an odd descriptor"));
    }
    let program = parse_tokens(&tokens, &options()).map_err(|_| PARTIAL)?;
    Walk { found, beginning: String::new() }.program(&program)
}

/// Returns whether a number before a redirection is too large for the parser, which panics on it.
fn is_large_descriptor(pair: &[Token]) -> bool {
    let [Token::Word(word, _), Token::Operator(operator, _)] = pair else { return false };
    operator.starts_with(['<', '>']) && word.len() > 3 && is_number(word)
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit())
}

/// How many words and operators are parsed; more would take longer than a decision may.
const MAX_TOKENS: usize = 192;

/// Drops arguments that cannot change where a command begins or ends.
///
/// The parser tries many readings for every word. Once a command has begun, all words up to the
/// next operator are its arguments, whatever they are; those that are compared tell as much as all.
fn shorten(tokens: Vec<Token>) -> Vec<Token> {
    let redirects = |token: Option<&Token>| match token {
        Some(Token::Operator(text, _)) => text.starts_with(['<', '>']),
        Some(Token::Word(..)) | None => false,
    };
    let mut kept = Vec::new();
    let mut left = TELLING_WORDS;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let keep = match &token {
            Token::Operator(text, _) => {
                left = TELLING_WORDS + own_words(text);
                true
            }
            Token::Word(text, _) if is_reserved(text) || text.contains('=') => true,
            Token::Word(..) if left > 0 => {
                left -= 1;
                true
            }
            Token::Word(..) => redirects(tokens.peek()),
        };
        if keep {
            kept.push(token);
        }
    }
    kept
}

/// Returns how many words behind an operator belong to it and not to the command.
fn own_words(operator: &str) -> usize {
    match operator {
        // Its end mark, its text, and its end mark again.
        "<<" | "<<-" => 3,
        text if text.starts_with(['<', '>']) => 1,
        _ => 0,
    }
}

/// Returns whether a word may mean something to the shell's grammar wherever it stands.
fn is_reserved(word: &str) -> bool {
    matches!(
        word,
        "!" | "{"
            | "}"
            | "case"
            | "do"
            | "done"
            | "elif"
            | "else"
            | "esac"
            | "fi"
            | "for"
            | "if"
            | "in"
            | "then"
            | "until"
            | "while"
            | "time"
            | "-p"
            | "function"
            | "select"
    )
}

/// What a token is in a list of commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListPart<'t> {
    Word(&'t str),
    /// Ends a command.
    Separator,
    /// Ends a command, and another one has to follow.
    Joint,
    Newline,
    /// Belongs to the next word.
    Redirection,
    /// Something that such a list does not have.
    Other,
}

impl<'t> ListPart<'t> {
    fn of(token: &'t Token) -> Self {
        match token {
            Token::Word(text, _) => ListPart::Word(text),
            Token::Operator(text, _) => match &**text {
                ";" | "&" => ListPart::Separator,
                "&&" | "||" | "|" | "|&" => ListPart::Joint,
                "\n" => ListPart::Newline,
                "<" | ">" | ">>" | "<&" | ">&" | "<>" | ">|" | "<<<" => ListPart::Redirection,
                _ => ListPart::Other,
            },
        }
    }
}

/// Returns whether the tokens are nothing but a list of commands that were `found` before.
///
/// Such a list needs no grammar: operators stand between commands, and each of these begins with a
/// word. Whatever is not plainly of this kind is left to the parser, which is many times slower.
pub(super) fn is_list(tokens: &[Token], found: &HashSet<String>) -> bool {
    let mut parts = tokens.iter().map(ListPart::of).chain([ListPart::Newline]).peekable();
    let mut command = Vec::with_capacity(TELLING_WORDS);
    let mut text = String::new();
    let mut waits = false;
    while let Some(part) = parts.next() {
        match part {
            ListPart::Word(word) => {
                let descriptor = parts.peek() == Some(&ListPart::Redirection) && is_number(word);
                if descriptor || command.is_empty() && (is_reserved(word) || word.contains('=')) {
                    return false;
                }
                if command.len() < TELLING_WORDS {
                    command.push(word);
                }
            }
            ListPart::Redirection => {
                let Some(ListPart::Word(target)) = parts.next() else { return false };
                // `>2>x`: whether the number is a file or a descriptor is the parser's to say.
                if is_number(target) && parts.peek() == Some(&ListPart::Redirection) {
                    return false;
                }
            }
            ListPart::Newline if command.is_empty() => {}
            ListPart::Newline | ListPart::Separator | ListPart::Joint => {
                beginning(command.drain(..), &mut text);
                // Without words the beginning is empty, and nothing was found that begins so.
                if !found.contains(&text) {
                    return false;
                }
                waits = part == ListPart::Joint;
            }
            ListPart::Other => return false,
        }
    }
    !waits
}

const PARTIAL: Unclear = Unclear("it is not a complete shell command");

struct Walk<'a> {
    found: &'a HashSet<String>,
    /// How the current command begins; its room is used again.
    beginning: String,
}

impl Walk<'_> {
    fn program(&mut self, program: &Program) -> Result<(), Unclear> {
        program.complete_commands.iter().try_for_each(|list| self.list(list))
    }

    fn list(&mut self, list: &CompoundList) -> Result<(), Unclear> {
        list.0.iter().try_for_each(|item| self.and_or(&item.0))
    }

    fn and_or(&mut self, list: &AndOrList) -> Result<(), Unclear> {
        let rest = list.additional.iter().map(|item| match item {
            AndOr::And(pipeline) | AndOr::Or(pipeline) => pipeline,
        });
        for pipeline in std::iter::once(&list.first).chain(rest) {
            pipeline.seq.iter().try_for_each(|command| self.command(command))?;
        }
        Ok(())
    }

    fn command(&mut self, command: &Command) -> Result<(), Unclear> {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, redirects) => {
                self.redirects(redirects.as_ref())?;
                self.compound(compound)
            }
            Command::Function(_) | Command::ExtendedTest(..) => Err(UNREAD),
        }
    }

    fn compound(&mut self, command: &CompoundCommand) -> Result<(), Unclear> {
        match command {
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(shell) => self.list(&shell.list),
            CompoundCommand::ForClause(clause) => self.list(&clause.body.list),
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition)?;
                self.list(&clause.then)?;
                for part in clause.elses.iter().flatten() {
                    part.condition.iter().try_for_each(|list| self.list(list))?;
                    self.list(&part.body)?;
                }
                Ok(())
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0)?;
                self.list(&clause.1.list)
            }
            CompoundCommand::Arithmetic(_)
            | CompoundCommand::ArithmeticForClause(_)
            | CompoundCommand::CaseClause(_)
            | CompoundCommand::Coprocess(_) => Err(UNREAD),
        }
    }

    fn redirects(&mut self, redirects: Option<&RedirectList>) -> Result<(), Unclear> {
        redirects.iter().flat_map(|list| &list.0).try_for_each(|redirect| self.redirect(redirect))
    }

    fn redirect(&mut self, redirect: &IoRedirect) -> Result<(), Unclear> {
        match redirect {
            IoRedirect::File(_, _, IoFileRedirectTarget::ProcessSubstitution(_, shell)) => {
                self.list(&shell.list)
            }
            IoRedirect::File(..)
            | IoRedirect::HereDocument(..)
            | IoRedirect::HereString(..)
            | IoRedirect::OutputAndError(..) => Ok(()),
        }
    }

    fn simple(&mut self, command: &SimpleCommand) -> Result<(), Unclear> {
        use CommandPrefixOrSuffixItem as Item;
        let mut words = Vec::from_iter(command.word_or_name.as_ref().map(|word| &*word.value));
        for item in command.prefix.iter().flat_map(|prefix| &prefix.0) {
            if let Item::IoRedirect(redirect) = item {
                self.redirect(redirect)?;
            }
        }
        for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
            match item {
                Item::IoRedirect(redirect) => self.redirect(redirect)?,
                Item::Word(word) | Item::AssignmentWord(_, word) => words.push(&word.value),
                Item::ProcessSubstitution(_, shell) => self.list(&shell.list)?,
            }
        }
        beginning(words.iter().copied(), &mut self.beginning);
        if words.is_empty() || self.found.contains(&self.beginning) {
            Ok(())
        } else {
            Err(DISAGREE)
        }
    }
}

const DISAGREE: Unclear = Unclear("two readings of it disagree");
const UNREAD: Unclear = Unclear("it uses a construct that is not read here");
