//! Every rule with its origin and its record.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use salve_core::earned::{Came, EarnedRule, EarningTerms, Lost, RuleStanding};
use salve_core::scrub::Scrubber;
use serde::Serialize;

use crate::cli::events::visible;
use crate::cli::{CliError, Exit, Output, config, project};
use crate::config::tree::{Node, Value};
use crate::config::{Config, PlaybookAuto};
use crate::heal::earned;
use crate::store::Store;

/// What `--json` prints.
#[derive(Serialize)]
struct RuleList {
    version: u32,
    rules: Vec<RuleListRow>,
}

/// What a rule does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum RuleState {
    Allows,
    Asks,
    Proposed,
    Gathering,
    Expired,
    Withdrawn,
}

/// One rule.
#[derive(Serialize)]
pub(super) struct RuleListRow {
    rule: String,
    state: RuleState,
    text: String,
    /// Where it is written, or who accepted it.
    origin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<RuleRecord>,
}

/// The record of an earned rule.
#[derive(Serialize)]
struct RuleRecord {
    signature: String,
    approvals: usize,
    proven: usize,
    uses: Vec<Use>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
}

/// One use of an earned rule.
#[derive(Serialize)]
struct Use {
    incident: String,
    at: Timestamp,
    came: &'static str,
}

/// Lists every rule.
pub(super) fn run(out: &Output) -> Result<Exit, CliError> {
    let settings = config::in_force(out)?;
    let scrubber = project::scrubber();
    let mut rows = written(&settings, &scrubber);
    let (terms, now) = (EarningTerms::from(&settings.settings.earned), Timestamp::now());
    if let Some(store) = Store::open_existing(&project::locate(out)?)? {
        let earned = earned::load(store.journal())?;
        rows.extend(earned.rules().map(|rule| RuleListRow::of_earned(rule, terms, now)));
    }
    if out.json() {
        out.fact(&RuleList { version: 1, rules: rows })?;
    } else {
        print(&mut out.stdout(), &rows)?;
    }
    Ok(Exit::Well)
}

/// Returns the rules that stand in the settings.
fn written(config: &Config, scrubber: &Scrubber) -> Vec<RuleListRow> {
    let entries = |key: &str, state: RuleState| {
        let list = match config.tree.get(&format!("recovery.{key}")).map(|node| &node.value) {
            Some(Value::List(items)) => items.as_slice(),
            Some(_) | None => &[],
        };
        let row = move |(place, node): (usize, &Node)| RuleListRow {
            rule: format!("{key}[{place}]"),
            state,
            text: match &node.value {
                Value::Text(text) => scrubber.scrub(text).to_string(),
                other => scrubber.scrub(&other.to_json().to_string()).to_string(),
            },
            origin: origin(Some(node)),
            record: None,
        };
        list.iter().enumerate().map(row).collect::<Vec<_>>()
    };
    let mut rows = entries("auto_approve", RuleState::Allows);
    rows.extend(entries("require_human", RuleState::Asks));
    let (state, text) = match config.settings.playbook.auto {
        PlaybookAuto::Safe => (RuleState::Allows, "shipped remedies that are safe"),
        PlaybookAuto::None => (RuleState::Asks, "every shipped remedy"),
    };
    rows.push(RuleListRow {
        rule: "playbook.auto".to_owned(),
        state,
        text: text.to_owned(),
        origin: origin(config.tree.get("playbook.auto")),
        record: None,
    });
    rows
}

fn origin(node: Option<&Node>) -> String {
    match node.map(|node| &node.origin) {
        None => "not set".to_owned(),
        Some(origin) if origin.layer() == "default" => "default".to_owned(),
        Some(origin) => match origin.place() {
            Some(place) => format!("{}:{}", origin.name(), place.line),
            None => format!("{} {}", origin.layer(), origin.name()),
        },
    }
}

impl RuleListRow {
    /// Returns an earned rule as it is shown.
    pub(super) fn of_earned(rule: &EarnedRule, terms: EarningTerms, now: Timestamp) -> Self {
        let standing = rule.standing(terms, now);
        let (state, until) = match standing {
            RuleStanding::Allowed { until } => (RuleState::Allows, Some(until)),
            RuleStanding::Proposed => (RuleState::Proposed, None),
            RuleStanding::Gathering => (RuleState::Gathering, None),
            RuleStanding::Expired => (RuleState::Expired, None),
            RuleStanding::Lost => (RuleState::Withdrawn, None),
        };
        let origin = match (&rule.accepted, rule.approvals.last()) {
            (Some(word), _) => format!("accepted by {}, {}", word.by, day(word.at)),
            (None, Some(word)) => format!("approved by {}, {}", word.by, day(word.at)),
            (None, None) => String::new(),
        };
        let lost = rule.lost.as_ref().map(|lost| match lost {
            Lost::Use(one) => format!("{} in heal-{}", came(one.came), one.incident.short()),
            Lost::Withdrawn(word) => format!("withdrawn by {}", word.by),
        });
        let uses = rule.uses.iter().map(|one| Use {
            incident: one.incident.to_string(),
            at: one.at,
            came: came(one.came),
        });
        let proven = rule.uses.iter().filter(|one| one.came == Came::Proven).count();
        let record = RuleRecord {
            signature: rule.key.signature.to_string(),
            approvals: rule.approvals.len(),
            proven,
            uses: uses.collect(),
            until,
            lost,
        };
        let text = rule.command.to_string();
        Self { rule: rule.key.to_string(), state, text, origin, record: Some(record) }
    }
}

/// Returns the word for how a use came out.
pub(super) fn came(came: Came) -> &'static str {
    match came {
        Came::Proven => "proven",
        Came::Unproven => "unproven",
        Came::Failed => "failed",
    }
}

/// Returns the day of a time, here.
pub(super) fn day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string()
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
