//! What an index adds up to: how often healing works, how long it takes and what it costs.

use std::collections::{BTreeMap, HashMap};

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, civil::Date};
use serde::Serialize;

use super::{IncidentIndex, IndexedIncident, between_ms};
use crate::class::Class;
use crate::event::{Amounts, IncidentOutcome, Proof};
use crate::id::Signature;

/// A recovery whose failure is back within this time did not hold.
const HOLDS_MS: u64 = 60 * 60 * 1000;

/// How many signatures are told of.
const TOP_SIGNATURES: usize = 10;

/// What all incidents since some time add up to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Statistics {
    /// How many incidents opened.
    pub incidents: u64,
    /// How many of them are not over.
    pub open: u64,
    /// How many recovered, whoever did it.
    pub recovered: u64,
    /// How many of those were proven to be the remedy's doing.
    pub proven: u64,
    /// How many recoveries did not hold: the same failure of the same subject was back within an
    /// hour.
    pub did_not_hold: u64,
    /// The share of those that are over and recovered; unknown while none is over.
    pub heal_rate: Option<f64>,
    /// The median time from opening to recovery, in milliseconds.
    pub median_heal_ms: Option<u64>,
    /// The time within which nine of ten recoveries came, in milliseconds.
    pub p90_heal_ms: Option<u64>,
    /// How often a person was asked.
    pub questions: u64,
    /// The median time until a person answered, in milliseconds.
    pub median_answer_ms: Option<u64>,
    /// Tokens of models, as far as agents said how many.
    pub tokens: u64,
    /// Money in millionths of the currency unit, as far as agents said how much.
    pub money_micros: u64,
    /// Tokens that known remedies saved: what the same failure had cost when an agent healed it.
    pub saved_tokens: u64,
    /// Money that known remedies saved, in millionths of the currency unit.
    pub saved_money_micros: u64,
    /// By kind of failure, the most frequent first.
    pub by_class: Vec<ClassStatistics>,
    /// By day in the given time zone, without gaps, the oldest first.
    pub by_day: Vec<PeriodStatistics>,
    /// By week, which begins on Monday, without gaps, the oldest first.
    pub by_week: Vec<PeriodStatistics>,
    /// The most frequent failures.
    pub top_signatures: Vec<SignatureStatistics>,
}

/// What the incidents of one class add up to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassStatistics {
    pub class: Class,
    /// How many opened.
    pub incidents: u64,
    /// How many recovered.
    pub recovered: u64,
    /// The median time to recovery, in milliseconds.
    pub median_heal_ms: Option<u64>,
}

/// What the incidents that opened on one day, or in one week, add up to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PeriodStatistics {
    /// The day, or the first of the week.
    pub from: Date,
    /// How many opened.
    pub incidents: u64,
    /// How many recovered.
    pub recovered: u64,
    /// How often a person was asked.
    pub questions: u64,
    /// Tokens of models.
    pub tokens: u64,
    /// Money in millionths of the currency unit.
    pub money_micros: u64,
}

/// How often one failure came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignatureStatistics {
    /// The failure.
    pub signature: Signature,
    /// The line that named it last.
    pub key_line: String,
    /// How many incidents it opened.
    pub incidents: u64,
    /// How many of them recovered.
    pub recovered: u64,
}

impl Statistics {
    /// Adds up the incidents that opened at `since` or later; days are those of `zone`.
    pub fn of(index: &IncidentIndex, since: Timestamp, zone: &TimeZone) -> Self {
        let rows: Vec<&IndexedIncident> =
            index.rows().iter().filter(|row| row.opened_at >= since).collect();
        let recovered: Vec<&IndexedIncident> =
            rows.iter().copied().filter(|row| has_recovered(row)).collect();
        let over = count(rows.iter().filter(|row| row.ending.is_some()));
        let mut heal_ms: Vec<u64> = recovered.iter().filter_map(|row| row.lasted_ms()).collect();
        let mut answer_ms: Vec<u64> =
            rows.iter().flat_map(|row| row.answered_after_ms.iter().copied()).collect();
        let healed = count(recovered.iter());
        let saved = saved(&recovered);
        Self {
            incidents: count(rows.iter()),
            open: count(rows.iter()) - over,
            recovered: healed,
            proven: count(recovered.iter().filter(|row| is_proven(row))),
            did_not_hold: did_not_hold(&rows),
            heal_rate: (over > 0).then(|| healed as f64 / over as f64),
            median_heal_ms: quantile(&mut heal_ms, 50),
            p90_heal_ms: quantile(&mut heal_ms, 90),
            questions: rows.iter().map(|row| u64::from(row.asked)).sum(),
            median_answer_ms: quantile(&mut answer_ms, 50),
            tokens: rows.iter().map(|row| row.spent().tokens).sum(),
            money_micros: rows.iter().map(|row| row.spent().money_micros).sum(),
            saved_tokens: saved.tokens,
            saved_money_micros: saved.money_micros,
            by_class: by_class(&rows),
            by_day: by_period(&rows, zone, PeriodLength::Day),
            by_week: by_period(&rows, zone, PeriodLength::Week),
            top_signatures: top_signatures(&rows),
        }
    }
}

fn count<T>(rows: impl Iterator<Item = T>) -> u64 {
    rows.count() as u64
}

fn has_recovered(row: &IndexedIncident) -> bool {
    row.ending.is_some_and(|ending| matches!(ending.outcome, IncidentOutcome::Recovered(_)))
}

fn is_proven(row: &IndexedIncident) -> bool {
    row.ending.is_some_and(|ending| ending.outcome == IncidentOutcome::Recovered(Proof::Proven))
}

/// Counts recoveries after which the same subject had the same failure again soon.
fn did_not_hold(rows: &[&IndexedIncident]) -> u64 {
    let mut recovered_at: HashMap<(Signature, &str), Timestamp> = HashMap::new();
    let mut back = 0;
    for row in rows {
        let key = (row.signature, row.name.as_str());
        if let Some(at) = recovered_at.remove(&key)
            && between_ms(at, row.opened_at) < HOLDS_MS
        {
            back += 1;
        }
        if let Some(ending) = row.ending.filter(|_| has_recovered(row)) {
            recovered_at.insert(key, ending.at);
        }
    }
    back
}

/// Returns the value below or at which `percent` of all values lie; sorts them.
fn quantile(values: &mut [u64], percent: usize) -> Option<u64> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    values.get((last * percent).div_ceil(100)).copied()
}

fn by_class(rows: &[&IndexedIncident]) -> Vec<ClassStatistics> {
    let mut groups: HashMap<Class, Vec<&IndexedIncident>> = HashMap::new();
    for row in rows {
        groups.entry(row.class).or_default().push(row);
    }
    let add_up = |(class, rows): (Class, Vec<&IndexedIncident>)| {
        let recovered = rows.iter().filter(|row| has_recovered(row));
        let mut heal_ms: Vec<u64> = recovered.filter_map(|row| row.lasted_ms()).collect();
        ClassStatistics {
            class,
            incidents: count(rows.iter()),
            recovered: heal_ms.len() as u64,
            median_heal_ms: quantile(&mut heal_ms, 50),
        }
    };
    let mut classes: Vec<ClassStatistics> = groups.into_iter().map(add_up).collect();
    classes.sort_by_key(|group| (std::cmp::Reverse(group.incidents), group.class.to_string()));
    classes
}

/// How long a period of the statistics is.
#[derive(Clone, Copy)]
enum PeriodLength {
    Day,
    Week,
}

impl PeriodLength {
    /// Returns the first day of the period that a day belongs to.
    fn first_day(self, day: Date) -> Date {
        match self {
            Self::Day => day,
            Self::Week => {
                let since = i64::from(day.weekday().to_monday_zero_offset());
                day.checked_sub(since.days()).unwrap_or(day)
            }
        }
    }

    fn next(self, day: Date) -> Option<Date> {
        match self {
            Self::Day => day.tomorrow().ok(),
            Self::Week => day.checked_add(7.days()).ok(),
        }
    }
}

/// Adds up what the healing without an agent saved: each time, what an agent's last healing of the
/// same failure had cost.
fn saved(recovered: &[&IndexedIncident]) -> Amounts {
    let mut costs: HashMap<Signature, Amounts> = HashMap::new();
    let mut saved = Amounts::default();
    for row in recovered {
        let spent = row.spent();
        if spent.tokens > 0 || spent.money_micros > 0 {
            costs.insert(row.signature, spent);
        } else if let Some(cost) = costs.get(&row.signature) {
            saved.tokens = saved.tokens.saturating_add(cost.tokens);
            saved.money_micros = saved.money_micros.saturating_add(cost.money_micros);
        }
    }
    saved
}

fn by_period(
    rows: &[&IndexedIncident],
    zone: &TimeZone,
    length: PeriodLength,
) -> Vec<PeriodStatistics> {
    let mut periods: BTreeMap<Date, PeriodStatistics> = BTreeMap::new();
    let empty = |from| PeriodStatistics {
        from,
        incidents: 0,
        recovered: 0,
        questions: 0,
        tokens: 0,
        money_micros: 0,
    };
    for row in rows {
        let from = length.first_day(row.opened_at.to_zoned(zone.clone()).date());
        let group = periods.entry(from).or_insert_with(|| empty(from));
        let spent = row.spent();
        group.incidents += 1;
        group.recovered += u64::from(has_recovered(row));
        group.questions += u64::from(row.asked);
        group.tokens += spent.tokens;
        group.money_micros += spent.money_micros;
    }
    let (Some(&first), Some(&last)) = (periods.keys().next(), periods.keys().next_back()) else {
        return Vec::new();
    };
    // A chart without the quiet days would show trouble where there was none.
    let dates = std::iter::successors(Some(first), |from| length.next(*from));
    let dates = dates.take_while(|from| *from <= last);
    dates.map(|from| periods.remove(&from).unwrap_or_else(|| empty(from))).collect()
}

fn top_signatures(rows: &[&IndexedIncident]) -> Vec<SignatureStatistics> {
    let mut groups: HashMap<Signature, SignatureStatistics> = HashMap::new();
    for row in rows {
        let group = groups.entry(row.signature).or_insert_with(|| SignatureStatistics {
            signature: row.signature,
            key_line: String::new(),
            incidents: 0,
            recovered: 0,
        });
        group.incidents += 1;
        group.recovered += u64::from(has_recovered(row));
        group.key_line.clone_from(&row.key_line);
    }
    let mut all: Vec<SignatureStatistics> = groups.into_values().collect();
    all.sort_by_key(|group| (std::cmp::Reverse(group.incidents), group.signature));
    all.truncate(TOP_SIGNATURES);
    all
}
