//! `salve memory check`: what is known about a failure.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use salve_core::class::Class;
use salve_core::fingerprint::Fingerprint;
use salve_core::id::Signature;
use salve_core::memory::{Choice, Knowledge, Ranked, RecordStanding, rank};
use salve_core::near::{NearAgreement, Side, agree};
use serde::Serialize;

use super::super::{CliError, Exit};
use super::MemoryCommandContext;
use super::list::{Tally, sightings};
use crate::learned::ToolFixItem;
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

/// What memory says about one failure.
#[derive(Debug, Serialize)]
struct MemoryAnswer {
    version: u32,
    signature: Signature,
    class: Class,
    error_type: String,
    key_line: String,
    normalized: String,
    /// Whether this very failure was seen before.
    known: bool,
    /// Whether anything was tried on it.
    tried_before: bool,
    seen: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seen: Option<Timestamp>,
    /// The remedy to try first, as the specs write it.
    successful_fix: Option<String>,
    /// What was tried, as the specs' memory store answers.
    results: Vec<TriedRemedyLine>,
    remedies: Vec<Ranked>,
    failed_approaches: Vec<Ranked>,
    tool_fixes: Vec<ToolFixItem>,
    near: Vec<NearMatch>,
}

#[derive(Debug, Serialize)]
struct TriedRemedyLine {
    description: String,
    result: &'static str,
}

#[derive(Debug, Serialize)]
struct NearMatch {
    signature: Signature,
    likeness: f32,
    class: Class,
    normalized: String,
    /// Whether class and identity agree, so that its remedies may be tried.
    agrees: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
    remedies: Vec<Ranked>,
}

/// Answers.
pub(super) fn run(args: Args, desk: &MemoryCommandContext<'_>) -> Result<Exit, CliError> {
    let now = Timestamp::now();
    let (print, text) = desk.fingerprint(args.text.as_deref(), args.tool.as_deref())?;
    let project = desk.project_store()?;
    let user = if desk.config.settings.memory.user { desk.user_store()? } else { None };
    let recall = |store: &Option<Store>| match store {
        Some(store) => store.memory().recall(print.signature),
        None => Ok(None),
    };
    let (here, elsewhere) = (recall(&project)?, recall(&user)?);
    let choice = rank(here.as_ref(), elsewhere.as_ref(), now);
    let mut fixes = Vec::new();
    for store in project.iter().chain(&user) {
        fixes.extend(desk.learned(store).known_issues(args.tool.as_deref(), &text)?.fixes);
    }
    let mut near = Vec::new();
    if here.is_none() && elsewhere.is_none() && args.near > 0 {
        for store in project.iter().chain(&user) {
            near.extend(near_matches(store, &print, args.near, now)?);
        }
        near.sort_by(|a: &NearMatch, b| b.likeness.total_cmp(&a.likeness));
        near.truncate(args.near);
    }
    let known: Vec<&Knowledge> = here.iter().chain(&elsewhere).collect();
    let answer = answer(&print, &known, choice, (fixes, near));
    if desk.out.json() {
        desk.out.fact(&answer)?
    } else {
        show(&answer, now, desk)?
    }
    Ok(Exit::Well)
}

fn answer(
    print: &Fingerprint,
    known: &[&Knowledge],
    choice: Choice,
    (tool_fixes, near): (Vec<ToolFixItem>, Vec<NearMatch>),
) -> MemoryAnswer {
    let all = choice.remedies.iter().chain(&choice.failed);
    let results = all.filter_map(|ranked| {
        let result = match ranked.standing {
            RecordStanding::Untried => return None,
            RecordStanding::Works => "success",
            RecordStanding::Undecided => "inconclusive",
            RecordStanding::Failed => "failed",
        };
        Some(TriedRemedyLine { description: ranked.remedy.description(), result })
    });
    MemoryAnswer {
        version: 1,
        signature: print.signature,
        class: print.class,
        error_type: print.error_type.clone(),
        key_line: print.key_line.clone(),
        normalized: print.normalized.clone(),
        known: !known.is_empty(),
        tried_before: choice.tried_before(),
        seen: known.iter().map(|known| known.seen).sum(),
        last_seen: known.iter().map(|known| known.last_seen).max(),
        successful_fix: choice
            .remedies
            .iter()
            .find(|ranked| ranked.standing == RecordStanding::Works)
            .map(|ranked| ranked.remedy.description()),
        results: results.collect(),
        remedies: choice.remedies,
        failed_approaches: choice.failed,
        tool_fixes,
        near,
    }
}

fn near_matches(
    store: &Store,
    print: &Fingerprint,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<NearMatch>, CliError> {
    let asked = Side {
        class: print.class,
        identity: print.identity.as_deref(),
        normalized: &print.normalized,
    };
    let found = store.memory().near()?.find(&print.normalized, limit)?;
    let one = |(near, known): (salve_core::near::Match, Knowledge)| {
        let failure = &known.failure;
        let side = Side {
            class: failure.class,
            identity: failure.identity.as_ref().map(AsRef::as_ref),
            normalized: failure.normalized.as_str(),
        };
        let why_not = match agree(asked, side) {
            NearAgreement::Agrees => None,
            NearAgreement::ClassDiffers => Some(format!("that is {}", failure.class)),
            NearAgreement::ClassUnknown => Some("neither class is known".to_owned()),
            NearAgreement::IdentityDiffers(parts) => {
                Some(format!("not about the same: {}", parts.join(", ")))
            }
        };
        NearMatch {
            signature: near.signature,
            likeness: near.likeness,
            class: failure.class,
            normalized: failure.normalized.to_string(),
            agrees: why_not.is_none(),
            why_not,
            remedies: rank(Some(&known), None, now).remedies,
        }
    };
    Ok(found.into_iter().map(one).collect())
}

/// Prints the answer for a person.
fn show(
    answer: &MemoryAnswer,
    now: Timestamp,
    desk: &MemoryCommandContext<'_>,
) -> Result<(), CliError> {
    let mut out = desk.out.stdout();
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
        let which = match answer.known {
            true => format!("--signature {}", answer.signature),
            false => "'the same text'".to_owned(),
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
