//! One rule of the playbook, as it is written and compiled.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Nature;
use super::catch::Caught;
use super::condition::Condition;
use super::cure::Cure;
use super::fill;
use super::pattern::{CasedText, RulePattern};
use crate::class::Class;
use crate::event::ProcessExit;
use crate::fingerprint::{FingerprintRules, RecognisedRow};

/// Whether a remedy may run unattended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Under `playbook.auto = "safe"` it may.
    #[default]
    Safe,
    /// A person decides.
    Ask,
}

/// Where a rule's patterns are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternPlace {
    /// In the line that names the failure, then in the lines around it.
    #[default]
    Near,
    /// Anywhere in the output, for texts that nothing else would write.
    Anywhere,
}

/// Whether a rule is asked with the others or only when no other knows the failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleTurn {
    /// With the others.
    #[default]
    First,
    /// When no other rule knows it.
    Last,
}

/// What a rule's own command may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleTouch {
    /// Derived files.
    #[default]
    Derived,
    /// The rule's lockfile too.
    Lockfile,
    /// Whatever it likes.
    Anything,
}

/// One rule as it is written in TOML.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleRow {
    /// Its name.
    pub id: String,
    /// What sort of trouble it knows.
    pub nature: Nature,
    /// Rows of the fingerprint's tables that know the failure; their holes catch values. It is
    /// enough that one of these rows or one of the patterns fits.
    #[serde(default)]
    pub on: Vec<String>,
    /// Regular expressions that name the failure; one has to match. Named groups catch values.
    #[serde(default, rename = "match")]
    pub patterns: Vec<String>,
    /// Expressions that catch more values from the lines around; none has to match.
    #[serde(default)]
    pub also: Vec<String>,
    /// Expressions that must not match in the lines around.
    #[serde(default)]
    pub unless: Vec<String>,
    /// The classes it is about; any if empty.
    #[serde(default)]
    pub class: Vec<Class>,
    /// The exit codes it is about; any if empty.
    #[serde(default)]
    pub exit: Vec<i32>,
    /// Where the patterns are looked for.
    #[serde(default)]
    pub place: PatternPlace,
    /// When the rule is asked.
    #[serde(default)]
    pub turn: RuleTurn,
    /// Whether a subject that still runs says this too: it lives, and something around it is broken.
    #[serde(default)]
    pub alive: bool,
    /// What must be true; a leading `!` says that it must not be.
    #[serde(default)]
    pub when: Vec<String>,
    /// The cures, the smallest first.
    #[serde(default, rename = "do")]
    pub cures: Vec<Cure>,
    /// A command of its own for [`Cure::Command`] and [`Cure::Exec`], with values in braces.
    #[serde(default)]
    pub command: Vec<String>,
    /// What the command may change.
    #[serde(default)]
    pub touches: RuleTouch,
    /// The lockfile that it may change.
    #[serde(default)]
    pub lockfile: String,
    /// Derived directories for [`Cure::Clear`], from the subject's directory.
    #[serde(default)]
    pub clear: Vec<String>,
    /// Variables for [`Cure::Environment`], with values in braces.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Whether the cures may run unattended.
    #[serde(default)]
    pub gate: Gate,
    /// Why they should help, with values in braces.
    #[serde(default)]
    pub why: String,
    /// What a person should know, with values in braces.
    #[serde(default)]
    pub finding: String,
    /// The same where the output names no place in the project's own source.
    #[serde(default)]
    pub unplaced: String,
    /// What a person can do, with values in braces.
    #[serde(default)]
    pub next: String,
    /// Failures that this rule must be chosen for.
    pub examples: Vec<RuleExample>,
    /// Failures that it must not be chosen for.
    #[serde(default)]
    pub counter: Vec<RuleExample>,
}

/// A failure in a state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleExample {
    /// The output.
    pub text: String,
    /// The conditions that hold; all others do not.
    #[serde(default)]
    pub holds: Vec<Condition>,
    /// The exit code.
    #[serde(default = "one")]
    pub exit: i32,
}

fn one() -> i32 {
    1
}

/// Why a rule cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaybookRuleError {
    /// The table cannot be read.
    #[error("the table of rules: {0}")]
    Table(String),
    /// A pattern cannot be read.
    #[error("rule `{rule}`: pattern `{pattern}`: {reason}")]
    Pattern {
        rule: String,
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A condition does not exist.
    #[error("rule `{rule}`: unknown condition `{condition}`")]
    Condition { rule: String, condition: String },
    /// A text asks for a value that does not exist.
    #[error("rule `{rule}`: unknown value `{{{value}}}`")]
    Value { rule: String, value: String },
    /// A rule does nothing and says nothing, or has two of something that excludes another.
    #[error("rule `{rule}`: {reason}")]
    Shape {
        rule: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// An example chooses another rule.
    #[error("rule `{rule}`: its example `{text}` chooses {got}")]
    Example {
        rule: String,
        /// The example.
        text: String,
        /// The rule that was chosen.
        got: String,
    },
    /// A counter-example chooses the rule.
    #[error("rule `{rule}`: it is chosen for its counter-example `{text}`")]
    Counter {
        rule: String,
        /// The counter-example.
        text: String,
    },
}

/// A compiled rule.
#[derive(Debug)]
pub(super) struct PlaybookRule {
    pub(super) row: RuleRow,
    patterns: Vec<RulePattern>,
    also: Vec<RulePattern>,
    unless: Vec<RulePattern>,
    when: Vec<(Condition, ConditionWish)>,
}

/// Whether a condition must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConditionWish {
    Holds,
    Fails,
}

impl PlaybookRule {
    /// Compiles a row.
    pub(super) fn compile(row: RuleRow) -> Result<Self, PlaybookRuleError> {
        let compile = |list: &[String]| -> Result<Vec<RulePattern>, PlaybookRuleError> {
            list.iter().map(|source| RulePattern::new(&row.id, source)).collect()
        };
        let patterns = compile(&row.patterns)?;
        let also = compile(&row.also)?;
        let unless = compile(&row.unless)?;
        let when = row.when.iter().map(|text| {
            let (name, wish) = match text.strip_prefix('!') {
                Some(name) => (name, ConditionWish::Fails),
                None => (text.as_str(), ConditionWish::Holds),
            };
            let unknown =
                || PlaybookRuleError::Condition { rule: row.id.clone(), condition: text.clone() };
            Condition::parse(name).map(|condition| (condition, wish)).ok_or_else(unknown)
        });
        let when = when.collect::<Result<_, _>>()?;
        let texts = [&row.why, &row.finding, &row.next].into_iter();
        let texts = texts.chain(&row.command).chain(row.env.values());
        for value in texts.flat_map(|text| fill::holes(text)) {
            if !fill::is_known(value) {
                return Err(PlaybookRuleError::Value {
                    rule: row.id.clone(),
                    value: value.to_owned(),
                });
            }
        }
        check_shape(&row)?;
        Ok(Self { row, patterns, also, unless, when })
    }

    /// Compiles all its patterns, to see that they can be.
    pub(super) fn check_patterns(&self) -> Result<(), PlaybookRuleError> {
        let mut all = self.patterns.iter().chain(&self.also).chain(&self.unless);
        all.try_for_each(|pattern| pattern.compile(&self.row.id))
    }

    /// Returns whether the rule is about such an exit and such a class.
    ///
    /// What stopped answering did not end with the last thing it said, so the kind of that alone
    /// tells nothing of it.
    pub(super) fn concerns(&self, exit: &ProcessExit, class: Class) -> bool {
        let exits = match exit {
            ProcessExit::Code(code) => self.row.exit.is_empty() || self.row.exit.contains(code),
            ProcessExit::Signal(signal) => {
                self.row.exit.is_empty() || self.row.exit.contains(&(128 + signal))
            }
            ProcessExit::TimedOut | ProcessExit::Hung => {
                self.row.exit.is_empty() && !self.is_about_class()
            }
        };
        exits && (self.row.class.is_empty() || self.row.class.contains(&class))
    }

    /// Returns what it catches if it knows the failure by one of its rows or one of its patterns
    /// matches in `text`; `near` is searched for the rest.
    pub(super) fn catch(
        &self,
        text: CasedText<'_>,
        near: CasedText<'_>,
        row: Option<&RecognisedRow>,
    ) -> Option<Caught> {
        let mut caught = Caught::default();
        let row = row.filter(|row| self.row.on.contains(&row.id));
        row.iter().for_each(|row| caught.keep_holes(row));
        let fits = row.is_some() || self.patterns.iter().any(|p| p.keep(text, &mut caught));
        if !(fits || self.is_about_class())
            || self.unless.iter().any(|pattern| pattern.is_match(near))
        {
            return None;
        }
        for pattern in &self.also {
            pattern.keep(near, &mut caught);
        }
        caught.complete();
        Some(caught)
    }

    /// Returns whether no text has to match, only the class.
    fn is_about_class(&self) -> bool {
        self.patterns.is_empty() && self.row.on.is_empty()
    }

    /// Returns whether every condition is as wished.
    pub(super) fn fits(&self, holds: impl Fn(Condition) -> bool) -> bool {
        self.when.iter().all(|(condition, wish)| match wish {
            ConditionWish::Holds => holds(*condition),
            ConditionWish::Fails => !holds(*condition),
        })
    }
}

/// Refuses a rule that makes no sense.
fn check_shape(row: &RuleRow) -> Result<(), PlaybookRuleError> {
    let wrong = |reason| Err(PlaybookRuleError::Shape { rule: row.id.clone(), reason });
    if row.patterns.is_empty() && row.class.is_empty() && row.on.is_empty() {
        return wrong("it has neither a row, nor a pattern, nor a class");
    }
    if row.on.iter().any(|id| FingerprintRules::built_in().recognised_row(id).is_none()) {
        return wrong("`on` names a row that the tables do not have");
    }
    if row.examples.is_empty() {
        return wrong("it has no example");
    }
    if row.cures.is_empty() && row.finding.is_empty() {
        return wrong("it neither does nor says anything");
    }
    if row.cures.is_empty() != row.why.is_empty() {
        return wrong("a cure needs a reason, and only a cure has one");
    }
    if row.finding.is_empty() != row.next.is_empty() {
        return wrong("a finding needs a next step, and only a finding has one");
    }
    if row.cures.iter().any(|cure| cure.needs_command()) == row.command.is_empty() {
        return wrong("the cures `command` and `node.exec` need a command, and only they have one");
    }
    if row.cures.contains(&Cure::Clear) == row.clear.is_empty() {
        return wrong("the cure `clear` needs directories, and only it has some");
    }
    if row.cures.contains(&Cure::Environment) == row.env.is_empty() {
        return wrong("the cure `environment` needs variables, and only it has some");
    }
    if (row.touches == RuleTouch::Lockfile) == row.lockfile.is_empty() {
        return wrong("a command that may change a lockfile names it");
    }
    let heavier = row.cures.iter().any(|cure| *cure != Cure::Restart);
    if heavier && row.nature != Nature::Infrastructure {
        return wrong("only failures of the infrastructure get more than a restart");
    }
    let cures = row.cures.iter().any(|cure| *cure != Cure::Restart) && row.gate == Gate::Safe;
    if row.alive && !cures {
        return wrong("a subject that still runs is only disturbed for a safe cure");
    }
    if row.touches == RuleTouch::Anything && row.gate == Gate::Safe {
        return wrong("a command that may change anything asks a person");
    }
    Ok(())
}
