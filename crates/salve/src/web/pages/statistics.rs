//! What all incidents add up to: figures, charts, and a table under each chart.

use maud::{Markup, html};
use salve_core::overview::{PeriodStatistics, Statistics};

use super::chart::{ChartBar, bar_chart};
use super::parts::{duration, nothing, percent};
use crate::web::views::DayRange;
use crate::web::visible::visible;

/// Returns the section.
pub(super) fn page(range: DayRange, statistics: &Statistics) -> Markup {
    html! {
        h1 { "Statistics" }
        nav.tabs aria-label="range" {
            @for (days, label) in [(Some(7), "7 days"), (Some(30), "30 days"), (Some(90), "90 days"), (None, "All")] {
                @let href = days.map_or("/statistics".to_owned(), |days| format!("/statistics?days={days}"));
                a href=(href) aria-current=[(range.days == days).then_some("true")] { (label) }
            }
        }
        @if statistics.incidents == 0 {
            (nothing("Nothing has failed in this time.", Some("salve dev -- npm run dev")))
        } @else {
            (figures(statistics))
            (period_section("By day", "days", &statistics.by_day, range))
            (period_section("By week", "weeks", &statistics.by_week, range))
            (class_section(statistics, range))
            (failure_section(statistics, range))
        }
    }
}

fn figures(statistics: &Statistics) -> Markup {
    let time = |ms: Option<u64>| ms.map_or("–".to_owned(), duration);
    let money = |micros: u64| format!("${:.2}", micros as f64 / 1e6);
    let rate = statistics.heal_rate.map_or("–".to_owned(), percent);
    let rows = [
        (
            "Healed",
            rate,
            format!(
                "{} of {} incidents, {} open",
                statistics.recovered, statistics.incidents, statistics.open
            ),
        ),
        (
            "Proven",
            statistics.proven.to_string(),
            "recoveries that were the remedy’s doing".to_owned(),
        ),
        (
            "Did not hold",
            statistics.did_not_hold.to_string(),
            "the same failure was back within an hour".to_owned(),
        ),
        (
            "Time to heal",
            time(statistics.median_heal_ms),
            format!("median; nine of ten within {}", time(statistics.p90_heal_ms)),
        ),
        (
            "Asked you",
            statistics.questions.to_string(),
            match (statistics.questions, statistics.median_answer_ms) {
                (0, _) => "nothing had to be decided".to_owned(),
                (_, None) => "not answered yet".to_owned(),
                (_, Some(ms)) => format!("answered after {} (median)", duration(ms)),
            },
        ),
        (
            "Spent",
            format!("{} tokens", statistics.tokens),
            format!("{}, as far as agents said", money(statistics.money_micros)),
        ),
        (
            "Saved",
            format!("{} tokens", statistics.saved_tokens),
            format!(
                "{}: what agents had cost for the same failures",
                money(statistics.saved_money_micros)
            ),
        ),
    ];
    html! {
        dl.figures { @for (name, value, note) in rows {
            div { dt { (name) } dd { b { (value) } span.dim { (note) } } }
        } }
    }
}

fn csv_button(table: &str, range: DayRange) -> Markup {
    let days = range.days.map_or(String::new(), |days| format!("&days={days}"));
    html! {
        p { button type="button" data-download={ "/api/statistics.csv?table=" (table) (days) } data-file={ "salve-" (table) ".csv" } { "CSV" } }
    }
}

fn period_section(
    title: &str,
    table: &str,
    periods: &[PeriodStatistics],
    range: DayRange,
) -> Markup {
    let bar = |one: &PeriodStatistics| ChartBar {
        label: one.from.strftime("%-d %b").to_string(),
        whole: one.incidents,
        part: one.recovered,
    };
    let bars: Vec<ChartBar> = periods.iter().map(bar).collect();
    html! {
        section aria-labelledby=(table) {
            h2 id=(table) { (title) }
            (bar_chart(&format!("{title}: incidents, and how many of them recovered"), &bars))
            p.legend { span.swatch.part {} " recovered " span.swatch.whole {} " open or not recovered" }
            details { summary { "Table" }
                div.scroll tabindex="0" { table {
                    thead { tr { th { "From" } th { "Incidents" } th { "Recovered" } th { "Questions" } th { "Tokens" } th { "Money" } } }
                    tbody { @for one in periods.iter().rev() { tr {
                        td { (one.from.to_string()) } td { (one.incidents) } td { (one.recovered) } td { (one.questions) }
                        td { (one.tokens) } td { (format!("${:.2}", one.money_micros as f64 / 1e6)) }
                    } } }
                } }
                (csv_button(table, range))
            }
        }
    }
}

fn class_section(statistics: &Statistics, range: DayRange) -> Markup {
    let highest = statistics.by_class.iter().map(|one| one.incidents).max().unwrap_or(1);
    html! {
        section aria-labelledby="classes" {
            h2 #classes { "By kind of failure" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Kind" } th.share { span.sr { "Share" } } th { "Incidents" } th { "Recovered" } th { "Median" } } }
                tbody { @for one in &statistics.by_class { tr {
                    td { (one.class.to_string()) }
                    td.share { meter min="0" max=(highest) value=(one.incidents) { (one.incidents) } }
                    td { (one.incidents) } td { (one.recovered) }
                    td { (one.median_heal_ms.map_or("–".to_owned(), duration)) }
                } } }
            } }
            (csv_button("classes", range))
        }
    }
}

fn failure_section(statistics: &Statistics, range: DayRange) -> Markup {
    html! {
        section aria-labelledby="failures" {
            h2 #failures { "Most frequent failures" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Failure" } th { "Incidents" } th { "Recovered" } } }
                tbody { @for one in &statistics.top_signatures { tr {
                    td { a.key-line href={ "/memory?q=" (one.signature.to_string()) } { (visible(&one.key_line)) } }
                    td { (one.incidents) } td { (one.recovered) }
                } } }
            } }
            (csv_button("failures", range))
        }
    }
}
