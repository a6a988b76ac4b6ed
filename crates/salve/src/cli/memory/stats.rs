//! `salve memory stats`: how much is known and how much it has helped.

use std::io::Write;

use jiff::Timestamp;
use salve_core::memory::tool::ToolStatistics;
use salve_core::memory::usage::{Level, UsageRecord};
use serde::Serialize;

use super::super::output::counted;
use super::super::{CliError, Exit};
use super::MemoryCommandContext;
use crate::learned::ToolFailure;
use crate::store::{Counts, Store};

/// Failures shown as recent.
const RECENT: usize = 10;

/// Arguments of `salve memory stats`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

/// The specs' `memory_stats`, and what else is worth counting.
#[derive(Debug, Serialize)]
struct MemoryStatistics {
    version: u32,
    auto_heal_rate: f64,
    patterns_active: u64,
    fixes_learned: u64,
    recent_failures: Vec<ToolFailure>,
    project: Counts,
    user: Counts,
    tool_fixes: u64,
    usage_patterns: u64,
    tools: ToolStatistics,
}

/// Counts.
pub(super) fn run(desk: &MemoryCommandContext<'_>) -> Result<Exit, CliError> {
    let now = Timestamp::now();
    let counts = |store: &Option<Store>| match store {
        Some(store) => store.memory().counts(),
        None => Ok(Counts::default()),
    };
    let (project, user) = (desk.project_store()?, desk.user_store()?);
    let (mut recent, mut fixes, mut patterns, mut tools) = Default::default();
    if let Some(store) = &project {
        let learned = desk.learned(store);
        (recent, fixes) = (learned.failures()?, learned.fixes()?.len() as u64);
        (patterns, tools) = (learned.usage_patterns()?, learned.tool_stats()?);
    }
    let (project, user) = (counts(&project)?, counts(&user)?);
    let active = patterns.iter().map(UsageRecord::from).filter(|usage| match usage.level(now) {
        Level::Quiet => false,
        Level::Active | Level::Strongest => !usage.is_expired(now),
    });
    let fact = MemoryStatistics {
        version: 1,
        auto_heal_rate: tools.fix_rate,
        patterns_active: active.count() as u64,
        fixes_learned: fixes + project.proven,
        recent_failures: recent.split_off(recent.len().saturating_sub(RECENT)),
        project,
        user,
        tool_fixes: fixes,
        usage_patterns: patterns.len() as u64,
        tools,
    };
    if desk.out.json() {
        desk.out.fact(&fact)?
    } else {
        show(&fact, desk)?
    }
    Ok(Exit::Well)
}

fn show(fact: &MemoryStatistics, desk: &MemoryCommandContext<'_>) -> Result<(), CliError> {
    let mut out = desk.out.stdout();
    for (whose, counts) in [("this project", fact.project), ("your own", fact.user)] {
        let Counts { failures, remedies, proven, failed } = counts;
        let failures = counted(failures, "failure", "failures");
        let remedies = counted(remedies, "remedy", "remedies");
        writeln!(out, "{whose:<14} {failures}, {remedies}: {proven} proven, {failed} failed")?;
    }
    let fixes = counted(fact.tool_fixes, "fix", "fixes");
    let patterns = counted(fact.usage_patterns, "usage pattern", "usage patterns");
    let active = fact.patterns_active;
    writeln!(out, "{:<14} {fixes}, {patterns}, {active} active", "tools")?;
    let tools = &fact.tools;
    if tools.total_failures > 0 {
        let (total, healed) = (tools.total_failures, tools.auto_fixed);
        let rate = (tools.fix_rate * 100.0).round();
        writeln!(
            out,
            "{:<14} {total}, {healed} healed without help ({rate:.0}%)",
            "tool failures"
        )?;
    }
    for failure in &fact.recent_failures {
        let error = failure.error.lines().next().unwrap_or_default();
        writeln!(out, "  {}  {}: {error}", failure.timestamp, failure.tool)?;
    }
    Ok(())
}
