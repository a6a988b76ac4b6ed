//! `salve rules`: what may run unattended, what asks, where that is written, and what was earned.

mod list;

use std::io::Write;

use jiff::Timestamp;
use salve_core::earned::{Earned, EarnedRule, EarningTerms, RuleStanding};
use salve_core::event::{Actor, Draft, Event, RuleEvent};

use super::answer::{refuse_agents, speaker};
use super::events::visible;
use super::{CliError, Exit, Output, project};
use crate::heal::earned;
use crate::heal::rule_list::{RuleListRow, came, day};
use crate::store::Store;

/// Arguments of `salve rules`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<RulesCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum RulesCommand {
    /// List every rule [default]
    List,
    /// Let a command that has proven itself run unattended from now on
    Accept(AcceptChoice),
    /// Let a command that was accepted ask again
    Withdraw(RuleChoice),
}

/// Which rules are accepted, and by whom.
#[derive(Debug, clap::Args)]
struct AcceptChoice {
    /// The rule's id, as `salve rules` shows it; its first digits will do
    #[arg(required_unless_present = "before_seals")]
    id: Option<String>,
    /// Accept once more all rules that were accepted before Salve sealed such words
    #[arg(long, conflicts_with = "id")]
    before_seals: bool,
    /// Who speaks [default: git's user.name, or the login]
    #[arg(long = "as", value_name = "NAME", env = "SALVE_USER")]
    name: Option<String>,
}

/// Which rule is meant, and by whom.
#[derive(Debug, clap::Args)]
struct RuleChoice {
    /// The rule's id, as `salve rules` shows it; its first digits will do
    id: String,
    /// Who speaks [default: git's user.name, or the login]
    #[arg(long = "as", value_name = "NAME", env = "SALVE_USER")]
    name: Option<String>,
}

/// Lists the rules, or changes an earned one.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    match args.command {
        None | Some(RulesCommand::List) => list::run(out),
        Some(RulesCommand::Accept(which)) => accept_chosen(&which, out),
        Some(RulesCommand::Withdraw(which)) => withdraw(&which, out),
    }
}

fn accept_chosen(which: &AcceptChoice, out: &Output) -> Result<Exit, CliError> {
    refuse_agents("accept a rule")?;
    let store = project::open_store(out)?;
    let earned = earned::load(store.journal())?;
    let name = which.name.as_deref();
    if let Some(id) = &which.id {
        return accept(find(&earned, id)?, name, &store, out);
    }
    let (terms, now) = (terms(out)?, Timestamp::now());
    let is_open = |rule: &&EarnedRule| {
        rule.word_before_seals().is_some() && rule.standing(terms, now) == RuleStanding::Proposed
    };
    let open: Vec<&EarnedRule> = earned.rules().filter(is_open).collect();
    if open.is_empty() {
        return Err(CliError::failed("no rule waits to be accepted once more").hint("salve rules"));
    }
    for rule in open {
        accept(rule, name, &store, out)?;
    }
    Ok(Exit::Well)
}

/// Accepts a rule, if it has earned that.
fn accept(
    rule: &EarnedRule,
    name: Option<&str>,
    store: &Store,
    out: &Output,
) -> Result<Exit, CliError> {
    let (terms, id, now) = (terms(out)?, rule.key.short(), Timestamp::now());
    match rule.standing(terms, now) {
        RuleStanding::Proposed => {}
        RuleStanding::Allowed { .. } => {
            return Err(CliError::failed(format!("rule {id} is accepted already")));
        }
        RuleStanding::Gathering | RuleStanding::Lost | RuleStanding::Expired => {
            let why = format!("it was proven {} of {} times", rule.streak(), terms.after);
            return Err(CliError::failed(format!("rule {id} has not earned it"))
                .because(why)
                .hint("salve rules"));
        }
    }
    if !out.json() {
        evidence(&mut out.fitted(), rule)?;
    }
    say(name, store, Event::Rule(RuleEvent::Accepted(rule.key)))?;
    told(
        rule,
        out,
        format!("accepted; it holds for {} days: salve rules withdraw {id}", terms.days),
    )
}

fn withdraw(which: &RuleChoice, out: &Output) -> Result<Exit, CliError> {
    refuse_agents("withdraw a rule")?;
    let store = project::open_store(out)?;
    let earned = earned::load(store.journal())?;
    let rule = find(&earned, &which.id)?;
    if rule.accepted.is_none() {
        let id = rule.key.short();
        return Err(CliError::failed(format!("rule {id} is not accepted")).hint("salve rules"));
    }
    say(which.name.as_deref(), &store, Event::Rule(RuleEvent::Withdrawn(rule.key)))?;
    told(rule, out, "withdrawn; the command asks again".to_owned())
}

/// Writes what a person said about a rule.
fn say(name: Option<&str>, store: &Store, event: Event) -> Result<(), CliError> {
    let scrubber = project::scrubber();
    let by = Actor::Person { name: speaker(name, store, &scrubber) };
    let draft = Draft { at: Timestamp::now(), by, incident: None, event };
    store.journal().append(draft)?;
    Ok(())
}

fn told(rule: &EarnedRule, out: &Output, text: String) -> Result<Exit, CliError> {
    if out.json() {
        let terms = terms(out)?;
        let store = project::open_store(out)?;
        let now = earned::load(store.journal())?;
        let rule = now.rule(rule.key).unwrap_or(rule);
        out.fact(&RuleListRow::of_earned(rule, terms, Timestamp::now()))?;
    } else {
        writeln!(out.fitted(), "{}  {text}", rule.key)?
    }
    Ok(Exit::Well)
}

/// Returns the terms that hold here.
pub(super) fn terms(out: &Output) -> Result<EarningTerms, CliError> {
    Ok(EarningTerms::from(&super::config::in_force(out)?.settings.earned))
}

/// Finds the rule whose id begins so.
fn find<'e>(earned: &'e Earned, id: &str) -> Result<&'e EarnedRule, CliError> {
    let digits = id.trim();
    let digits = digits.strip_prefix("earned.").unwrap_or(digits).to_ascii_lowercase();
    let mut found = earned.rules().filter(|rule| rule.key.short().starts_with(&digits));
    match (found.next(), found.next()) {
        (Some(rule), None) if !digits.is_empty() => Ok(rule),
        (Some(_), _) => {
            Err(CliError::usage(format!("several rules' ids begin with `{}`", visible(&digits)))
                .hint("salve rules"))
        }
        (None, _) => Err(CliError::failed(format!("there is no rule `{}`", visible(id)))
            .hint("`salve rules` lists them")),
    }
}

/// Shows what speaks for a rule.
pub(super) fn evidence(to: &mut impl Write, rule: &EarnedRule) -> std::io::Result<()> {
    writeln!(to, "{}  `{}`", rule.key, visible(rule.command.as_str()))?;
    writeln!(
        to,
        "  for failure {} only, in the same directory, with the same time-out",
        rule.key.signature
    )?;
    for one in &rule.approvals {
        let id = one.incident.map(|id| id.short()).unwrap_or_default();
        writeln!(to, "  approved   {}  by {}  heal-{id}", day(one.at), visible(one.by.as_str()))?;
    }
    for one in &rule.uses {
        let came = came(one.came);
        writeln!(to, "  {came:<10} {}  heal-{}", day(one.at), one.incident.short())?;
    }
    Ok(())
}
