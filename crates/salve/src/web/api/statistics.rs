//! What all incidents add up to, as JSON and as tables.

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use salve_core::overview::{PeriodStatistics, Statistics};

use super::json;
use super::request::ProjectView;
use crate::web::problem::HttpProblem;

pub(super) async fn statistics(
    ProjectView { project, query, headers }: ProjectView,
) -> Result<Response, HttpProblem> {
    let range = query.range();
    let statistics = project.ask(move |reader| reader.statistics(range)).await??;
    json(&headers, &statistics)
}

pub(super) async fn statistics_csv(
    ProjectView { project, query, .. }: ProjectView,
) -> Result<Response, HttpProblem> {
    let range = query.range();
    let table = query.table.clone().unwrap_or_else(|| "days".to_owned());
    let statistics = project.ask(move |reader| reader.statistics(range)).await??;
    let text = csv_table(&statistics, &table).ok_or_else(|| {
        HttpProblem::missing("there is no such table").next("days, weeks, classes or failures")
    })?;
    Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], text).into_response())
}

/// Returns one table of the statistics as CSV, if there is one of that name.
fn csv_table(statistics: &Statistics, table: &str) -> Option<String> {
    let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let period = |one: &PeriodStatistics| {
        let amounts = [one.incidents, one.recovered, one.questions, one.tokens, one.money_micros];
        let mut row = vec![one.from.to_string()];
        row.extend(amounts.map(|amount| amount.to_string()));
        row
    };
    const PERIOD: [&str; 6] =
        ["from", "incidents", "recovered", "questions", "tokens", "money_micros"];
    let (head, rows): (&[&str], Vec<Vec<String>>) = match table {
        "days" => (&PERIOD, statistics.by_day.iter().map(period).collect()),
        "weeks" => (&PERIOD, statistics.by_week.iter().map(period).collect()),
        "classes" => {
            let row = |one: &salve_core::overview::ClassStatistics| {
                let counts = [one.incidents.to_string(), one.recovered.to_string()];
                let [incidents, recovered] = counts;
                vec![one.class.to_string(), incidents, recovered, number(one.median_heal_ms)]
            };
            let head = &["class", "incidents", "recovered", "median_heal_ms"];
            (head, statistics.by_class.iter().map(row).collect())
        }
        "failures" => {
            let row = |one: &salve_core::overview::SignatureStatistics| {
                let signature = one.signature.to_string();
                let counts = [one.incidents.to_string(), one.recovered.to_string()];
                let [incidents, recovered] = counts;
                vec![signature, incidents, recovered, one.key_line.clone()]
            };
            let head = &["signature", "incidents", "recovered", "line"];
            (head, statistics.top_signatures.iter().map(row).collect())
        }
        _ => return None,
    };
    let mut text = head.join(",");
    for row in rows {
        let fields: Vec<String> = row.iter().map(|field| csv_field(field)).collect();
        text.push_str("\r\n");
        text.push_str(&fields.join(","));
    }
    text.push_str("\r\n");
    Some(text)
}

/// Returns a field so that no spreadsheet splits it or takes it for a formula.
fn csv_field(field: &str) -> String {
    let is_formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let plain = if is_formula { format!("'{field}") } else { field.to_owned() };
    if plain.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", plain.replace('"', "\"\""))
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stay_one_field_and_are_no_formulas() {
        for (field, want) in [
            ("plain", "plain"),
            ("a, \"b\"", "\"a, \"\"b\"\"\""),
            ("=cmd()", "'=cmd()"),
            ("two\nlines", "\"two\nlines\""),
        ] {
            assert_eq!(csv_field(field), want);
        }
        assert_eq!(csv_table(&Statistics::default(), "no such table"), None);
    }
}
