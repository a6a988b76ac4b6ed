//! `salve loop stats`: how a loop's recoveries came out.

use std::collections::BTreeSet;
use std::io::Write as _;

use salve_core::event::{Event, IncidentEvent, SubjectKind};
use salve_core::recovery::RecoveryStatistics;
use salve_core::view::LoopView;

use crate::cli::project::open_store;
use crate::cli::{CliError, Exit, Output};
use crate::reading::loop_view;
use crate::store::{Store, Stream};

/// Arguments of `salve loop stats`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Name of the loop [default: all]
    id: Option<String>,
}

/// Shows the figures.
pub(in crate::cli) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let store = open_store(out)?;
    let views = match &args.id {
        Some(id) => vec![loop_view(store.journal(), id)?],
        None => all(&store)?,
    };
    let stats: Vec<RecoveryStatistics> = views.iter().map(LoopView::stats).collect();
    let known: Vec<&RecoveryStatistics> = stats.iter().filter(|one| one.recoveries > 0).collect();
    if let (Some(id), true) = (&args.id, known.is_empty()) {
        return Err(CliError::failed(format!("loop `{id}` has no recoveries"))
            .hint("salve loop stats shows all loops that have"));
    }
    for one in known {
        if out.json() { out.fact(one)? } else { tell(one, out)? }
    }
    if stats.is_empty() && !out.json() {
        out.remark("no loop has had anything to recover");
    }
    Ok(Exit::Well)
}

/// Returns every loop that has had something to recover.
fn all(store: &Store) -> Result<Vec<LoopView>, CliError> {
    let openings = store.journal().read(0, &Stream::Incidents, usize::MAX)?;
    let names: BTreeSet<String> = openings
        .into_iter()
        .filter_map(|entry| match entry.event {
            Event::Incident(IncidentEvent::Opened { subject, .. })
                if subject.kind == SubjectKind::Iteration =>
            {
                Some(subject.name.into_string())
            }
            _ => None,
        })
        .collect();
    let mut views = Vec::new();
    for name in names {
        let view = loop_view(store.journal(), &name)?;
        // What is no loop of roles has a check's incident.
        if view.recoveries().iter().any(|recovery| recovery.iteration() > 0) {
            views.push(view);
        }
    }
    Ok(views)
}

fn tell(stats: &RecoveryStatistics, out: &Output) -> Result<(), CliError> {
    let mut to = out.fitted();
    writeln!(to, "loop {}", stats.loop_id)?;
    writeln!(to, "  recoveries        {}", stats.recoveries)?;
    writeln!(to, "  proposals         {}", stats.proposals)?;
    let rate = stats.auto_success_rate.map(|rate| format!(" ({:.0} %)", rate * 100.0));
    let (ran, helped) = (stats.auto_recoveries, stats.auto_recovered);
    writeln!(to, "  auto-recoveries   {helped} of {ran} helped{}", rate.unwrap_or_default())?;
    let often = stats.escalation_frequency.map(|often| format!(" ({often:.2} a recovery)"));
    writeln!(to, "  escalations       {}{}", stats.escalations, often.unwrap_or_default())?;
    if let (Some(median), Some(longest)) =
        (stats.median_time_to_resolution_ms, stats.longest_time_to_resolution_ms)
    {
        let (median, longest) = (seconds(median), seconds(longest));
        writeln!(to, "  answered in       {median} (median), {longest} at most")?;
    }
    let named = |name: &str, count: u32| format!("{name} {count}");
    let categories: Vec<String> =
        stats.categories.iter().map(|(category, count)| named(category.name(), *count)).collect();
    if !categories.is_empty() {
        writeln!(to, "  categories        {}", categories.join(", "))?;
    }
    let outcomes: Vec<String> =
        stats.outcomes.iter().map(|(outcome, count)| named(outcome, *count)).collect();
    if !outcomes.is_empty() {
        writeln!(to, "  came out          {}", outcomes.join(", "))?;
    }
    if stats.awaiting_human {
        let id = &stats.loop_id;
        writeln!(to, "  waits for a person: salve approve-recovery --loop {id}")?;
    }
    Ok(())
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", std::time::Duration::from_millis(ms).as_secs_f64())
}
