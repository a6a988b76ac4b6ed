//! Numbers for whoever scrapes them, in Prometheus' text format.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use salve_core::overview::Statistics;

use super::AppState;
use super::access::Visitor;
use super::problem::HttpProblem;
use super::views::{ProjectReader, ViewError};

/// What one project's numbers are.
struct ProjectNumbers {
    entries: u64,
    needs_you: u64,
    statistics: Statistics,
}

/// Answers with the numbers of all projects.
pub(super) async fn metrics(
    State(state): State<AppState>,
    _visitor: Visitor,
) -> Result<Response, HttpProblem> {
    let mut all = Vec::new();
    for handle in state.projects.iter() {
        all.push((handle.name.as_str(), handle.ask(numbers).await??));
    }
    let text = render(&all);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

fn numbers(reader: &mut ProjectReader) -> Result<ProjectNumbers, ViewError> {
    let needs_you = reader.needs().count()? as u64;
    let entries = reader.last_seq()?;
    let statistics = Statistics::of(reader.index()?, Timestamp::MIN, &TimeZone::UTC);
    Ok(ProjectNumbers { entries, needs_you, statistics })
}

fn render(all: &[(&str, ProjectNumbers)]) -> String {
    type Number = fn(&ProjectNumbers) -> u64;
    let series: [(&str, &str, &str, Number); 8] = [
        ("salve_journal_entries_total", "counter", "Entries of the journal", |of| of.entries),
        ("salve_incidents_total", "counter", "Incidents", |of| of.statistics.incidents),
        ("salve_incidents_open", "gauge", "Incidents that are not over", |of| of.statistics.open),
        ("salve_incidents_waiting", "gauge", "Incidents that wait for a person", |of| of.needs_you),
        ("salve_recovered_total", "counter", "Incidents that recovered", |of| {
            of.statistics.recovered
        }),
        ("salve_proven_total", "counter", "Recoveries that were proven", |of| of.statistics.proven),
        ("salve_questions_total", "counter", "Questions to people", |of| of.statistics.questions),
        ("salve_tokens_total", "counter", "Tokens that agents said they used", |of| {
            of.statistics.tokens
        }),
    ];
    let mut text = String::new();
    for (name, kind, help, number) in series {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (project, numbers) in all {
            let _ = writeln!(text, "{name}{{project=\"{project}\"}} {}", number(numbers));
        }
    }
    text
}
