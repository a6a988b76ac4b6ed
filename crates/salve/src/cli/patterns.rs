//! `salve patterns`: mistakes in calling tools that Salve has learned.

use std::io::Write;

use anstyle::Style;
use jiff::Timestamp;
use salve_core::memory::Confidence;
use salve_core::memory::usage::{PatternStage, UsageRecord};
use salve_core::prevention::index::{PatternIndex, WorkedBefore};
use salve_core::prevention::mistake::CallArguments;
use serde::Serialize;
use serde_json::Value;

use super::memory::MemoryCommandContext;
use super::{CliError, Exit, Output};
use crate::learned::UsagePattern;
use crate::process;
use crate::store::Store;
use crate::tools::entry_of;

/// Arguments of `salve patterns`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: PatternsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PatternsCommand {
    /// List all patterns, the surest first
    List,
    /// Show one pattern
    Show(PatternArgs),
    /// Drop one pattern
    Forget(PatternArgs),
    /// Say what Salve would tell about a call
    Test(TestArgs),
}

#[derive(Debug, clap::Args)]
struct PatternArgs {
    /// The pattern's name; its beginning will do
    id: String,
}

#[derive(Debug, clap::Args)]
struct TestArgs {
    /// The tool
    tool: String,
    /// Its arguments as a JSON object
    #[arg(default_value = "{}")]
    arguments: String,
}

/// A pattern with what is computed from it.
#[derive(Debug, Serialize)]
struct PatternFact<'a> {
    version: u32,
    stage: PatternStage,
    confidence: Confidence,
    /// Whether calls can be checked by it.
    checked: bool,
    advice: String,
    pattern: &'a UsagePattern,
}

impl<'a> PatternFact<'a> {
    fn new(pattern: &'a UsagePattern, now: Timestamp) -> Self {
        let record = UsageRecord::from(pattern);
        let entry = entry_of(pattern);
        let (stage, confidence) = (record.stage(now), record.confidence(now));
        let advice = entry.as_ref().map(|entry| entry.advice()).unwrap_or_default();
        Self { version: 1, stage, confidence, checked: entry.is_some(), advice, pattern }
    }
}

/// What a call would be told.
#[derive(Debug, Serialize)]
struct TestFact {
    version: u32,
    warnings: Vec<WarningFact>,
}

#[derive(Debug, Serialize)]
struct WarningFact {
    id: String,
    stage: PatternStage,
    confidence: Confidence,
    /// Whether the pattern is sure enough to warn.
    warns: bool,
    text: String,
}

/// Runs the command.
pub(super) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let desk = MemoryCommandContext::new(out)?;
    let store = desk.project_store()?;
    let patterns = match &store {
        Some(store) => desk.learned(store).usage_patterns()?,
        None => Vec::new(),
    };
    let now = Timestamp::now();
    match &args.command {
        PatternsCommand::List => list(&patterns, now, out),
        PatternsCommand::Show(args) => show(find(&args.id, &patterns)?, now, out),
        PatternsCommand::Forget(args) => {
            let pattern = find(&args.id, &patterns)?;
            forget(&pattern.id, store.as_ref(), &desk)
        }
        PatternsCommand::Test(args) => test(args, &patterns, now, out),
    }
}

fn list(patterns: &[UsagePattern], now: Timestamp, out: &Output) -> Result<Exit, CliError> {
    let mut facts: Vec<PatternFact<'_>> =
        patterns.iter().map(|pattern| PatternFact::new(pattern, now)).collect();
    facts.sort_by(|a, b| {
        b.confidence.cmp(&a.confidence).then_with(|| a.pattern.id.cmp(&b.pattern.id))
    });
    if out.json() {
        facts.iter().try_for_each(|fact| out.fact(fact))?;
        return Ok(Exit::Well);
    }
    if facts.is_empty() {
        out.remark("no pattern is known yet");
    }
    let mut stdout = out.fitted();
    let dim = Style::new().dimmed();
    for fact in &facts {
        let (stage, sure) = (fact.stage.as_str(), fact.confidence.to_string());
        let UsagePattern { id, tool, .. } = fact.pattern;
        let advice = if fact.checked { &fact.advice } else { "(no call can be checked by it)" };
        writeln!(stdout, "{stage:<8} {sure:>4}  {tool}: {advice}  {dim}{id}{dim:#}")?;
    }
    Ok(Exit::Well)
}

fn show(pattern: &UsagePattern, now: Timestamp, out: &Output) -> Result<Exit, CliError> {
    let fact = PatternFact::new(pattern, now);
    if out.json() {
        out.fact(&fact)?;
        return Ok(Exit::Well);
    }
    let mut stdout = out.fitted();
    let record = UsageRecord::from(pattern);
    let confirmed =
        record.warned.saturating_sub(record.preventions).saturating_sub(record.false_positives);
    writeln!(stdout, "{}  {}, {} sure", pattern.id, fact.stage.as_str(), fact.confidence)?;
    writeln!(stdout, "  tool       {}", pattern.tool)?;
    writeln!(stdout, "  mistake    {} {}", pattern.error_category, pattern.mistake_pattern)?;
    if !pattern.root_cause.is_empty() {
        writeln!(stdout, "  it said    {}", pattern.root_cause)?;
    }
    if fact.checked {
        writeln!(stdout, "  instead    {}", fact.advice)?;
    }
    let (first, last) = (pattern.first_seen, pattern.last_seen);
    writeln!(stdout, "  failed     {} ({first} to {last})", record.observations)?;
    writeln!(
        stdout,
        "  warnings   {} prevented a failure, {} were wrong, {confirmed} failed all the same",
        record.preventions, record.false_positives
    )?;
    Ok(Exit::Well)
}

fn forget(
    id: &str,
    store: Option<&Store>,
    desk: &MemoryCommandContext<'_>,
) -> Result<Exit, CliError> {
    if process::is_agents() {
        return Err(CliError::needs_person("an agent cannot make Salve forget")
            .hint(format!("ask a person to run: salve patterns forget {id}")));
    }
    if let Some(store) = store {
        desk.expect_person(store, "make Salve forget")?;
        let learned = desk.learned(store);
        learned.forget_usage_pattern(id)?;
        desk.tell(&learned.sync()?);
    }
    if desk.out.json() {
        desk.out.fact(&serde_json::json!({ "version": 1, "forgotten": id }))?;
    } else {
        desk.out.remark(format_args!("forgot {id}"));
    }
    Ok(Exit::Well)
}

fn test(
    args: &TestArgs,
    patterns: &[UsagePattern],
    now: Timestamp,
    out: &Output,
) -> Result<Exit, CliError> {
    let arguments: CallArguments = match serde_json::from_str(&args.arguments) {
        Ok(Value::Object(arguments)) => arguments,
        Ok(_) => return Err(CliError::usage("the arguments are not a JSON object")),
        Err(error) => return Err(CliError::usage("the arguments are not JSON").because(error)),
    };
    let index = PatternIndex::new(patterns.iter().filter_map(entry_of).collect());
    let worked = WorkedBefore::default();
    let warned = index.check(&args.tool, &arguments, &worked, now);
    let mut warnings: Vec<WarningFact> = Vec::new();
    for entry in index.matching(&args.tool, &arguments, &worked) {
        let said = warned.iter().find(|warning| warning.id == entry.id);
        warnings.push(WarningFact {
            id: entry.id.clone(),
            stage: entry.record.stage(now),
            confidence: entry.record.confidence(now),
            warns: said.is_some(),
            text: said.map_or_else(|| entry.advice(), |warning| warning.text.clone()),
        });
    }
    if out.json() {
        out.fact(&TestFact { version: 1, warnings })?;
        return Ok(Exit::Well);
    }
    if warnings.is_empty() {
        out.remark("nothing is known against this call");
    }
    let mut stdout = out.fitted();
    for WarningFact { id, stage, warns, text, .. } in &warnings {
        let how = if *warns { "warns" } else { "quiet" };
        writeln!(stdout, "{how}  {text}  ({}, {id})", stage.as_str())?;
    }
    Ok(Exit::Well)
}

fn find<'a>(id: &str, patterns: &'a [UsagePattern]) -> Result<&'a UsagePattern, CliError> {
    if let Some(exact) = patterns.iter().find(|pattern| pattern.id == id) {
        return Ok(exact);
    }
    let mut found = patterns.iter().filter(|pattern| pattern.id.starts_with(id));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(CliError::usage(format!("several patterns begin with `{id}`"))),
        (None, _) => {
            Err(CliError::failed(format!("no pattern is called `{id}`"))
                .hint("salve patterns list"))
        }
    }
}
