//! `salve memory check`: what is known about a failure.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use salve_core::memory::Ranked;

use super::super::{CliError, Exit};
use super::MemoryCommandContext;
use super::list::{Tally, sightings};
use crate::learned::{MemoryAnswer, MemoryQuestion};
use crate::store::Store;

/// Arguments of `salve memory check`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the tool that failed
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Show up to N near matches when the failure itself is not known
    #[arg(long, value_name = "N", default_value_t = 3)]
    near: usize,
    /// The failure's output [default: stdin]
    text: Option<String>,
}

/// Answers.
pub(super) fn run(args: Args, desk: &MemoryCommandContext<'_>) -> Result<Exit, CliError> {
    let now = Timestamp::now();
    let (print, text) = desk.fingerprint(args.text.as_deref(), args.tool.as_deref())?;
    let project = desk.project_store()?;
    let user = if desk.config.settings.memory.user { desk.user_store()? } else { None };
    let stores: [Option<&Store>; 2] = [project.as_ref(), user.as_ref()];
    let question = MemoryQuestion {
        print: &print,
        text: &text,
        tool: args.tool.as_deref(),
        near: args.near,
        now,
    };
    let [project, user] = stores.map(|store| store.map(|store| desk.learned(store)));
    let answer = MemoryAnswer::of(&question, project.as_ref(), user.as_ref())?;
    if desk.out.json() {
        desk.out.fact(&answer)?
    } else {
        show(&answer, now, desk)?
    }
    Ok(Exit::Well)
}

/// Prints the answer for a person.
fn show(
    answer: &MemoryAnswer,
    now: Timestamp,
    desk: &MemoryCommandContext<'_>,
) -> Result<(), CliError> {
    let mut out = desk.out.fitted();
    let bold = Style::new().bold();
    let dim = Style::new().dimmed();
    let green = Style::new().fg_color(Some(AnsiColor::Green.into()));
    let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
    writeln!(out, "{bold}{}{bold:#}  {dim}{}{dim:#}", answer.class, answer.signature)?;
    if !answer.key_line.is_empty() {
        writeln!(out, "  {}", answer.key_line)?;
    }
    match answer.last_seen {
        Some(last) => writeln!(out, "  {}", sightings(answer.seen, last, now))?,
        None => writeln!(out, "  never seen before")?,
    }
    for ranked in &answer.remedies {
        writeln!(out, "  {green}try{green:#}   {}", line(ranked))?;
    }
    for ranked in &answer.failed_approaches {
        writeln!(out, "  {red}skip{red:#}  {}", line(ranked))?;
    }
    for fix in &answer.tool_fixes {
        writeln!(out, "  {green}tool{green:#}  {}: {}", fix.tool_name, fix.fix_description)?;
    }
    for near in &answer.near {
        let likeness = (near.likeness * 100.0).round();
        writeln!(out, "  near  {likeness:.0}% like {}  {}", near.signature, near.normalized)?;
        match &near.why_not {
            Some(why) => writeln!(out, "        {dim}its remedies do not apply: {why}{dim:#}")?,
            None => {
                for ranked in &near.remedies {
                    writeln!(out, "        {green}try{green:#} {}", line(ranked))?;
                }
            }
        }
    }
    if answer.remedies.is_empty() && answer.tool_fixes.is_empty() {
        let which = if answer.known {
            format!("--signature {}", answer.signature)
        } else {
            "'the same text'".to_owned()
        };
        desk.out.remark(format_args!(
            "to teach a remedy: salve memory learn --command 'what helps' {which}"
        ));
    }
    Ok(())
}

fn line(ranked: &Ranked) -> String {
    let text = ranked.remedy.text.as_str();
    let first = text.lines().next().unwrap_or_default();
    let more = if text.lines().nth(1).is_some() { " …" } else { "" };
    format!("{first}{more}   {}", Tally(ranked))
}
