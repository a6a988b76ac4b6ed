//! A second opinion: the commands that a full shell parser finds.
//!
//! [`super::script`] reads flat text; this walks the tree that `brush-parser` builds. Where the
//! parser sees a command that the flat reading did not, or no program at all, the text is unclear.
//! It is only asked about texts that the flat reading understood, so its input is short, shallow,
//! and free of the constructs on which it may panic or backtrack.

use brush_parser::ast::{
    AndOr, AndOrList, Command, CommandPrefixOrSuffixItem, CompoundCommand, CompoundList,
    IoFileRedirectTarget, IoRedirect, Program, RedirectList, SimpleCommand,
};
use brush_parser::{Parser, ParserOptions};

use super::Unclear;

/// Returns the words of every simple command in `text`, as written.
pub(super) fn commands(text: &str) -> Result<Vec<Vec<String>>, Unclear> {
    // Extended patterns are off in scripts, where `!(…)` is a negated subshell.
    let options = ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() };
    let program = Parser::new(text.as_bytes(), &options)
        .parse_program()
        .map_err(|_| Unclear("it is not a complete shell command"))?;
    let mut walk = Walk { found: Vec::new() };
    walk.program(&program)?;
    Ok(walk.found)
}

struct Walk {
    found: Vec<Vec<String>>,
}

impl Walk {
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
        let mut words = Vec::new();
        for item in command.prefix.iter().flat_map(|prefix| &prefix.0) {
            if let Item::IoRedirect(redirect) = item {
                self.redirect(redirect)?;
            }
        }
        words.extend(command.word_or_name.iter().map(|word| word.value.clone()));
        for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
            match item {
                Item::IoRedirect(redirect) => self.redirect(redirect)?,
                Item::Word(word) | Item::AssignmentWord(_, word) => words.push(word.value.clone()),
                Item::ProcessSubstitution(_, shell) => self.list(&shell.list)?,
            }
        }
        if !words.is_empty() {
            self.found.push(words);
        }
        Ok(())
    }
}

const UNREAD: Unclear = Unclear("it uses a construct that is not read here");
