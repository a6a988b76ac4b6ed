//! `salve incidents`: every incident of the project, whatever fell ill.

use std::io::{self, Write};

use anstyle::Style;
use jiff::Timestamp;
use salve_core::event::{Amounts, Proof, SubjectKind};
use salve_core::id::{IncidentId, Signature};
use salve_core::repair::RepairStanding;
use salve_core::scrub::Scrubber;
use salve_core::view::IncidentView;
use serde::Serialize;

use super::events::visible;
use super::show::state;
use super::status::ago;
use super::{CliError, Exit, Output, project};
use crate::reading::{incident_view, repair_state};
use crate::store::{Store, Stream};

/// How many incidents are shown unless told otherwise.
const SHOWN: usize = 20;

/// Arguments of `salve incidents`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only those of this kind (server, check, tool, step, iteration) or of this name
    #[arg(value_name = "SUBJECT")]
    subject: Option<String>,
    /// Only those in this state
    #[arg(long, value_enum)]
    state: Option<StandingFilter>,
    /// How many to show at most, the newest first
    #[arg(long, short = 'n', value_name = "N", default_value_t = SHOWN)]
    limit: usize,
}

/// How incidents that are shown stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StandingFilter {
    /// Not over
    Open,
    /// Over, however they ended
    Over,
    /// Waiting for a person
    NeedsYou,
    /// Healed
    Recovered,
    /// Over, and not healed
    Unhealed,
}

impl StandingFilter {
    fn is(self, state: RepairStanding) -> bool {
        let is_healed = state == RepairStanding::Recovered;
        match self {
            StandingFilter::Open => !state.is_over(),
            StandingFilter::Over => state.is_over(),
            StandingFilter::NeedsYou => state == RepairStanding::NeedsHuman,
            StandingFilter::Recovered => is_healed,
            StandingFilter::Unhealed => state.is_over() && !is_healed,
        }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct IncidentList {
    version: u32,
    incidents: Vec<IncidentListRow>,
}

/// One incident in a line.
#[derive(Serialize)]
struct IncidentListRow {
    id: IncidentId,
    subject: SubjectKind,
    name: String,
    class: String,
    signature: Signature,
    key_line: String,
    state: RepairStanding,
    proof: Option<Proof>,
    opened: Timestamp,
    updated: Timestamp,
    attempts: u64,
    tokens: u64,
    cost_micros: u64,
}

/// Lists incidents, the newest first; exit code 3 if one of them needs a person.
pub(super) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let rows = match Store::open_existing(&project::locate(out)?)? {
        Some(store) => {
            project::tell_mended(&store, out);
            rows(&store, args, &project::scrubber())?
        }
        None => Vec::new(),
    };
    let needed = rows.iter().any(|row| row.state == RepairStanding::NeedsHuman);
    if out.json() {
        out.fact(&IncidentList { version: 1, incidents: rows })?;
    } else if rows.is_empty() {
        out.remark("no incidents");
    } else {
        print(&mut out.fitted(), &rows)?;
    }
    Ok(if needed { Exit::NeedsPerson } else { Exit::Well })
}

fn rows(store: &Store, args: &Args, scrubber: &Scrubber) -> Result<Vec<IncidentListRow>, CliError> {
    let journal = store.journal();
    let mut rows = Vec::new();
    for opened in journal.tail(&Stream::Incidents, usize::MAX)?.iter().rev() {
        if rows.len() >= args.limit {
            break;
        }
        let Some(id) = opened.incident else { continue };
        let Some(view) = incident_view(journal, id)? else { continue };
        let row = row(&view, scrubber);
        let is_of = |wanted: &str| wanted == row.subject.as_str() || wanted == row.name;
        let is_wanted = args.subject.as_deref().is_none_or(is_of)
            && args.state.is_none_or(|wanted| wanted.is(row.state));
        if is_wanted {
            rows.push(row);
        }
    }
    Ok(rows)
}

fn row(view: &IncidentView, scrubber: &Scrubber) -> IncidentListRow {
    let incident = view.incident();
    let repair = repair_state(view, scrubber);
    let Amounts { attempts, tokens, money_micros, .. } = incident.ledger().spent();
    IncidentListRow {
        id: view.id(),
        subject: view.subject().kind,
        name: view.subject().name.to_string(),
        class: repair.class.to_string(),
        signature: repair.signature,
        key_line: repair.key_line,
        state: repair.state,
        proof: repair.proof,
        opened: repair.started_at,
        updated: repair.updated_at,
        attempts,
        tokens,
        cost_micros: money_micros,
    }
}

fn print(to: &mut impl Write, rows: &[IncidentListRow]) -> io::Result<()> {
    let shown = |text: &str, most: usize| visible(text).chars().take(most).collect::<String>();
    let names: Vec<String> = rows
        .iter()
        .map(|row| shown(&format!("{} {}", row.subject.as_str(), row.name), 32))
        .collect();
    let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    for (row, name) in rows.iter().zip(&names) {
        let (word, colour) = state(row.state);
        let word = match row.proof {
            Some(proof) => salve_core::check::decisions::proof_word(proof),
            None => word,
        };
        let style = Style::new().fg_color(Some(colour.into()));
        let pad = " ".repeat(widest - name.chars().count());
        let (when, class, line) = (ago(row.opened), &row.class, shown(&row.key_line, 60));
        writeln!(
            to,
            "heal-{}  {name}{pad}  {style}{word:<12}{style:#}  {class} · {line} ({when}{})",
            row.id.short(),
            cost(row)
        )?;
    }
    Ok(())
}

/// Says what an incident cost, if anything.
fn cost(row: &IncidentListRow) -> String {
    let mut text = match row.attempts {
        0 => String::new(),
        1 => ", 1 attempt".to_owned(),
        n => format!(", {n} attempts"),
    };
    if row.tokens > 0 {
        text.push_str(&format!(", {} tokens", row.tokens));
    }
    if row.cost_micros > 0 {
        text.push_str(&format!(", ${:.2}", row.cost_micros as f64 / 1e6));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_is_wanted_by_what_it_means() {
        use RepairStanding as S;
        let all = [S::Healing, S::NeedsHuman, S::Recovered, S::Resolved, S::Unhealed, S::Aborted];
        let of = |wanted: StandingFilter| all.map(|state| u8::from(wanted.is(state)));
        assert_eq!(of(StandingFilter::Open), [1, 1, 0, 0, 0, 0]);
        assert_eq!(of(StandingFilter::Over), [0, 0, 1, 1, 1, 1]);
        assert_eq!(of(StandingFilter::NeedsYou), [0, 1, 0, 0, 0, 0]);
        assert_eq!(of(StandingFilter::Recovered), [0, 0, 1, 0, 0, 0]);
        assert_eq!(of(StandingFilter::Unhealed), [0, 0, 0, 1, 1, 1]);
    }
}
