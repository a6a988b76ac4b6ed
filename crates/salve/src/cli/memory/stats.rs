//! `salve memory stats`: how much is known and how much it has helped.

use std::io::Write;

use jiff::Timestamp;
use salve_core::memory::tool::ToolStatistics;
use serde::Serialize;

use super::super::output::counted;
use super::super::{CliError, Exit};
use super::MemoryCommandContext;
use crate::learned::{FailedCalls, MemoryHealth, ToolFailure};
use crate::store::{MemorySize, Store};

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
    project: MemorySize,
    user: MemorySize,
    tool_fixes: u64,
    usage_patterns: u64,
    tools: ToolStatistics,
}

/// Counts.
pub(super) fn run(desk: &MemoryCommandContext<'_>) -> Result<Exit, CliError> {
    let now = Timestamp::now();
    let counts = |store: &Option<Store>| match store {
        Some(store) => store.memory().counts(),
        None => Ok(MemorySize::default()),
    };
    let (project, user) = (desk.project_store()?, desk.user_store()?);
    let (mut health, mut fixes, mut patterns, mut tools) =
        (MemoryHealth::default(), 0, 0, ToolStatistics::default());
    if let Some(store) = &project {
        let learned = desk.learned(store);
        (health, tools) = (learned.memory_health(now)?, FailedCalls::of(&learned).statistics()?);
        fixes = learned.fixes()?.len() as u64;
        patterns = learned.usage_patterns()?.len() as u64;
    }
    let (project, user) = (counts(&project)?, counts(&user)?);
    let MemoryHealth { auto_heal_rate, patterns_active, fixes_learned, recent_failures } = health;
    let fact = MemoryStatistics {
        version: 1,
        auto_heal_rate,
        patterns_active,
        fixes_learned,
        recent_failures,
        project,
        user,
        tool_fixes: fixes,
        usage_patterns: patterns,
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
    let mut out = desk.out.fitted();
    for (whose, counts) in [("this project", fact.project), ("your own", fact.user)] {
        let MemorySize { failures, remedies, proven, failed } = counts;
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
