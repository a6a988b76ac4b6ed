use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use uuid::Uuid;

use super::*;
use crate::event::{Actor, Digest, Proof, RemedyKind, RemedyVerdict, Repeat};
use crate::incident::testing::{
    TestIncident, judgement, person, policy, process, remedy, subject, symptom, time,
};

/// A journal of many incidents.
#[derive(Default)]
struct Journal {
    entries: Vec<Entry>,
}

impl Journal {
    fn add(&mut self, incident: u128, at: Timestamp, event: IncidentEvent) {
        let seq = self.entries.len() as u64 + 1;
        let by = Actor::Salve(process(1));
        let incident = Some(IncidentId(Uuid::from_u128(incident)));
        self.entries.push(Entry {
            seq,
            at,
            by,
            incident,
            event: Event::Incident(event),
            seal: None,
        });
    }

    /// Opens an incident with a failure.
    fn open(&mut self, incident: u128, at: Timestamp, failure: u64) {
        let event = IncidentEvent::Opened {
            subject: subject(SubjectKind::Server, Repeat::Safe),
            policy: Box::new(policy()),
            symptom: Box::new(symptom(failure, "tree")),
        };
        self.add(incident, at, event);
    }

    fn end(&mut self, incident: u128, at: Timestamp, outcome: IncidentOutcome) {
        self.add(incident, at, IncidentEvent::Ended { outcome });
    }

    fn index(&self) -> IncidentIndex {
        let mut index = IncidentIndex::default();
        self.entries.iter().for_each(|entry| index.hear(entry));
        index
    }
}

const HEALED: IncidentOutcome = IncidentOutcome::Recovered(Proof::Proven);

#[test]
fn rows_stand_in_their_order_and_pages_follow_one_another() {
    let mut journal = Journal::default();
    for incident in 1..=5 {
        journal.open(incident, time(incident as u64), 1);
    }
    journal.end(2, time(9), HEALED);
    let index = journal.index();
    let ids = |rows: &mut dyn Iterator<Item = &IndexedIncident>| -> Vec<u128> {
        rows.map(|row| row.id.0.as_u128()).collect()
    };
    assert_eq!(ids(&mut index.open()), [5, 4, 3, 1]);
    let first: Vec<_> = index.before(u64::MAX).take(2).collect();
    assert_eq!(first.iter().map(|row| row.id.0.as_u128()).collect::<Vec<_>>(), [5, 4]);
    assert_eq!(ids(&mut index.before(first[1].opened_seq)), [3, 2, 1]);
}

#[test]
fn an_entry_that_is_heard_twice_changes_nothing() {
    let mut story = TestIncident::new(policy());
    story.judge(RemedyKind::Command, "npm ci", RemedyVerdict::Ask);
    story.run();
    let mut index = IncidentIndex::default();
    for entry in story.journal.iter().chain(&story.journal) {
        index.hear(entry);
    }
    assert_eq!(index.rows().len(), 1);
    assert_eq!(index.rows()[0].asked, 1);
}

#[test]
fn the_kinds_that_are_read_are_all_that_an_index_needs() {
    let mut story = TestIncident::new(policy());
    story.judge(RemedyKind::Command, "npm ci", RemedyVerdict::Ask);
    story.run();
    let approve = IncidentEvent::Approved {
        question: 1,
        digest: remedy(RemedyKind::Command, "npm ci").digest,
        note: None,
    };
    story.now += 5_000;
    story.by(person("ada"), Event::Incident(approve)).unwrap();
    story.run();
    let (mut all, mut few) = (IncidentIndex::default(), IncidentIndex::default());
    for entry in &story.journal {
        all.hear(entry);
        if IncidentIndex::KINDS.contains(&entry.event.kind()) {
            few.hear(entry);
        }
    }
    assert_eq!(all.rows(), few.rows());
    assert_eq!(all.rows()[0].answered_after_ms, [5_000]);
}

#[test]
fn of_two_statements_of_an_effects_cost_the_larger_counts() {
    let mut journal = Journal::default();
    journal.open(1, time(0), 1);
    for (effect, tokens) in [(1, 10), (1, 30), (1, 20), (2, 5)] {
        let spent = Amounts { tokens, ..Amounts::default() };
        journal.add(1, time(1), IncidentEvent::Charged { effect, spent });
    }
    assert_eq!(journal.index().rows()[0].spent().tokens, 35);
}

#[test]
fn a_search_finds_names_lines_classes_and_ids() {
    let mut journal = Journal::default();
    journal.open(0xABCD << 112, time(0), 1);
    let index = journal.index();
    let row = &index.rows()[0];
    let class = row.class.to_string().to_uppercase();
    for (text, found) in
        [("heal-abcd", true), ("ABCD", true), (class.as_str(), true), ("no such words", false)]
    {
        assert_eq!(row.mentions(text), found, "{text}");
    }
}

#[test]
fn statistics_tell_what_recovered_how_fast_and_what_came_back() {
    let day = Timestamp::from_second(1_700_000_000).unwrap();
    let at = |hours: i64| day + hours.hours();
    let mut journal = Journal::default();
    // One failure is healed, is back within the hour, and is healed for good.
    journal.open(1, at(0), 1);
    journal.end(1, at(0) + 10.seconds(), HEALED);
    journal.open(2, at(0) + 30.minutes(), 1);
    journal.end(2, at(0) + 30.minutes() + 30.seconds(), HEALED);
    // Another is given up two days later, and one is still open.
    journal.open(3, at(48), 2);
    journal.end(3, at(49), IncidentOutcome::GivenUp);
    journal.open(4, at(49), 3);
    let statistics = Statistics::of(&journal.index(), Timestamp::MIN, &TimeZone::UTC);
    assert_eq!((statistics.incidents, statistics.open, statistics.recovered), (4, 1, 2));
    assert_eq!((statistics.proven, statistics.did_not_hold), (2, 1));
    assert_eq!(statistics.heal_rate, Some(2.0 / 3.0));
    assert_eq!(statistics.median_heal_ms, Some(30_000));
    let days: Vec<_> = statistics.by_day.iter().map(|day| day.incidents).collect();
    assert_eq!(days, [2, 0, 2], "quiet days are there too");
    assert_eq!(statistics.top_signatures[0].incidents, 2);
    let late = Statistics::of(&journal.index(), at(48), &TimeZone::UTC);
    assert_eq!((late.incidents, late.recovered, late.heal_rate), (2, 0, Some(0.0)));
    let none = Statistics::of(&IncidentIndex::default(), Timestamp::MIN, &TimeZone::UTC);
    assert_eq!((none.heal_rate, none.median_heal_ms), (None, None));
}

#[test]
fn what_a_known_remedy_saves_is_what_the_agent_had_cost() {
    let mut journal = Journal::default();
    let cost = |tokens| IncidentEvent::Charged {
        effect: 1,
        spent: Amounts { tokens, ..Amounts::default() },
    };
    // An agent heals one failure, memory heals it twice, and another was never an agent's.
    for (id, signature, tokens) in [(1_u64, 1, 900), (2, 1, 0), (3, 1, 0), (4, 2, 0)] {
        let (second, id) = (id * 10, u128::from(id));
        journal.open(id, time(second), signature);
        journal.add(id, time(second + 1), cost(tokens));
        journal.end(id, time(second + 2), HEALED);
    }
    let statistics = Statistics::of(&journal.index(), Timestamp::MIN, &TimeZone::UTC);
    assert_eq!((statistics.tokens, statistics.saved_tokens), (900, 1_800));
}

#[test]
fn weeks_begin_on_monday_and_none_is_left_out() {
    let sunday: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let mut journal = Journal::default();
    for (id, days) in [(1, 0), (2, 1), (3, 15)] {
        journal.open(id, sunday + (days * 24).hours(), 1);
    }
    let statistics = Statistics::of(&journal.index(), Timestamp::MIN, &TimeZone::UTC);
    let weeks: Vec<_> =
        statistics.by_week.iter().map(|week| (week.from.to_string(), week.incidents)).collect();
    let want = [("2026-02-23", 1), ("2026-03-02", 1), ("2026-03-09", 0), ("2026-03-16", 1)];
    assert_eq!(weeks, want.map(|(from, count)| (from.to_owned(), count)));
}

#[test]
fn a_denied_remedy_is_not_counted_as_applied() {
    let mut journal = Journal::default();
    journal.open(1, time(0), 1);
    let judged = IncidentEvent::Judged {
        remedy: Box::new(remedy(RemedyKind::Command, "x")),
        judgement: judgement(RemedyVerdict::Deny),
    };
    journal.add(1, time(1), judged);
    let applied = Effect::Apply { remedy: Digest::of(&[b"x"]), on: crate::event::Authority::Gate };
    assert_eq!(journal.index().rows()[0].applied, 0);
    journal.add(1, time(2), IncidentEvent::Requested { effect: 1, what: applied });
    assert_eq!(journal.index().rows()[0].applied, 1);
}
