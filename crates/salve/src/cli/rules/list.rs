//! Every rule with its origin and its record.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use salve_core::earned::EarningTerms;
use serde::Serialize;

use crate::cli::events::visible;
use crate::cli::{CliError, Exit, Output, config, project};
use crate::heal::earned;
use crate::heal::rule_list::{RuleListRow, RuleRecord, RuleState, day, written_rules};
use crate::store::Store;

/// What `--json` prints.
#[derive(Serialize)]
struct RuleList {
    version: u32,
    rules: Vec<RuleListRow>,
}

/// Lists every rule.
pub(super) fn run(out: &Output) -> Result<Exit, CliError> {
    let settings = config::in_force(out)?;
    let scrubber = project::scrubber();
    let mut rows = written_rules(&settings, &scrubber);
    let (terms, now) = (EarningTerms::from(&settings.settings.earned), Timestamp::now());
    if let Some(store) = Store::open_existing(&project::locate(out)?)? {
        let earned = earned::load(store.journal())?;
        rows.extend(earned.rules().map(|rule| RuleListRow::of_earned(rule, terms, now)));
    }
    if out.json() {
        out.fact(&RuleList { version: 1, rules: rows })?;
    } else {
        print(&mut out.fitted(), &rows)?;
    }
    Ok(Exit::Well)
}

fn print(to: &mut impl Write, rows: &[RuleListRow]) -> io::Result<()> {
    let texts: Vec<String> =
        rows.iter().map(|row| visible(&row.text).chars().take(48).collect()).collect();
    let widest = texts.iter().map(|text| text.chars().count()).max().unwrap_or_default();
    for (row, text) in rows.iter().zip(&texts) {
        let (word, colour) = match row.state {
            RuleState::Allows => ("allows", AnsiColor::Green),
            RuleState::Asks => ("asks", AnsiColor::Yellow),
            RuleState::Proposed => ("proposed", AnsiColor::Cyan),
            RuleState::Gathering => ("gathering", AnsiColor::BrightBlack),
            RuleState::Expired => ("expired", AnsiColor::BrightBlack),
            RuleState::Withdrawn => ("withdrawn", AnsiColor::Red),
        };
        let (style, pad) =
            (Style::new().fg_color(Some(colour.into())), widest - text.chars().count());
        let pad = " ".repeat(pad);
        let (rule, origin) = (&row.rule, visible(&row.origin));
        writeln!(to, "{style}{word:<9}{style:#}  {text}{pad}  {rule:<17}  {origin}")?;
        if let Some(record) = &row.record {
            print_record(to, row, record)?;
        }
    }
    Ok(())
}

fn print_record(to: &mut impl Write, row: &RuleListRow, record: &RuleRecord) -> io::Result<()> {
    let dim = Style::new().dimmed();
    let (proven, all) = (record.proven, record.uses.len());
    let mut line = format!("proven {proven} of {all} times, for failure {}", record.signature);
    if let Some(until) = record.until {
        line.push_str(&format!(", until {}", day(until)));
    }
    if let Some(lost) = &record.lost {
        line.push_str(&format!("; {}", visible(lost)));
    }
    writeln!(to, "           {dim}{line}{dim:#}")?;
    let id = row.rule.strip_prefix("earned.").unwrap_or(&row.rule);
    match row.state {
        RuleState::Proposed => writeln!(to, "           salve rules accept {id}"),
        RuleState::Allows => writeln!(to, "           salve rules withdraw {id}"),
        RuleState::Asks | RuleState::Gathering | RuleState::Expired | RuleState::Withdrawn => {
            Ok(())
        }
    }
}
