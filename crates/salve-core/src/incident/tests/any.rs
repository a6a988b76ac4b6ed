//! Anything at all, said by anyone at any time.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::event::{Authority, Draft, Entry, NoteEvent, Scope};
use crate::incident::sim::parts;

fn actors() -> impl Strategy<Value = Actor> {
    select(vec![
        Actor::Salve(process(1)),
        Actor::Salve(process(1)),
        Actor::Salve(process(2)),
        person("ada"),
        person(""),
        agent(),
    ])
}

fn effects() -> impl Strategy<Value = Effect> {
    let apply = |on| Effect::Apply { remedy: remedy(Command, "a").digest, on };
    select(vec![
        Effect::Snapshot,
        apply(Authority::Gate),
        apply(Authority::Approval(3)),
        Effect::Measure,
        Effect::VerifyInLayer,
        Effect::TakeOver,
        Effect::Verify,
        Effect::RollBack(Scope::Attempt),
        Effect::Ask,
        Effect::Record,
        Effect::Release,
    ])
}

fn reports() -> impl Strategy<Value = EffectReport> {
    let sick = Some(Box::new(symptom(1, "tree")));
    select(vec![
        EffectReport::Done,
        EffectReport::TimedOut,
        EffectReport::NoAgent,
        EffectReport::failed(Scrubbed::literal("no")),
        EffectReport::Measured(Change { files: Some(1), lines: Some(1) }),
        EffectReport::Measured(Change::default()),
        EffectReport::Conflict { paths: Vec::new() },
        EffectReport::Verified { proof: Proof::Proven, symptom: None },
        EffectReport::Verified { proof: Proof::Masked, symptom: None },
        EffectReport::Verified { proof: Proof::Failed, symptom: sick },
    ])
}

#[expect(clippy::too_many_lines, reason = "a table: one row for each case")]
fn said() -> impl Strategy<Value = Event> {
    let judged = |(kind, verdict)| {
        Event::Incident(IncidentEvent::Judged {
            remedy: Box::new(remedy(kind, "a")),
            judgement: judgement(verdict),
        })
    };
    let kinds = select(vec![Retry, Command, Patch, Agent, HardReset]);
    let verdicts = select(vec![Allow, Ask, Deny]);
    let orders = [
        PersonOrder::Pause,
        PersonOrder::Resume,
        PersonOrder::Skip,
        PersonOrder::Retry,
        PersonOrder::Abort,
    ];
    let marks = select(vec![AgentMark::Started, AgentMark::WroteFiles]);
    let digest = remedy(Command, "a").digest;
    let number = || prop_oneof![4 => 0_u32..8, 1 => Just(u32::MAX)];
    let amount = || prop_oneof![4 => 0_u64..5, 1 => Just(u64::MAX)];
    let amounts = |n| Amounts { attempts: n, tokens: n, money_micros: n, wall_ms: n, resets: n };
    prop_oneof![
        select(vec![None, Some(process(1)), Some(process(2))])
            .prop_map(|instead_of| Event::Incident(IncidentEvent::Claimed { instead_of })),
        (kinds, verdicts).prop_map(judged),
        (number(), effects())
            .prop_map(|(effect, what)| Event::Incident(IncidentEvent::Requested { effect, what })),
        (number(), reports()).prop_map(|(effect, report)| Event::Incident(
            IncidentEvent::Finished { effect, report }
        )),
        number().prop_map(move |question| Event::Incident(IncidentEvent::Approved {
            question,
            digest,
            note: None
        })),
        number().prop_map(move |question| Event::Incident(IncidentEvent::Rejected {
            question,
            digest,
            note: None
        })),
        (number(), marks).prop_map(|(attempt, mark)| Event::Incident(IncidentEvent::Marked {
            attempt,
            mark,
            reported: Change::default(),
            message: None
        })),
        (number(), amount()).prop_map(move |(effect, n)| Event::Incident(IncidentEvent::Charged {
            effect,
            spent: amounts(n)
        })),
        (number(), amount()).prop_map(|(effect, limit_ms)| Event::Incident(
            IncidentEvent::AgentLaunched {
                effect,
                process: process(7),
                agent: Scrubbed::literal("claude"),
                model: None,
                limit_ms,
            }
        )),
        number().prop_map(|effect| Event::Incident(IncidentEvent::LayerLaid { effect })),
        amount()
            .prop_map(move |n| Event::Incident(IncidentEvent::Refilled { granted: amounts(n) })),
        select(orders.to_vec()).prop_map(|order| Event::Incident(IncidentEvent::Ordered { order })),
        select(vec![
            Event::Incident(IncidentEvent::Released {}),
            Event::Incident(IncidentEvent::NothingLeft {}),
            Event::Incident(IncidentEvent::Superseded {}),
            Event::Incident(IncidentEvent::CooledDown {}),
            Event::Incident(IncidentEvent::TriedAgain { why: Scrubbed::literal("it changed") }),
            Event::Incident(IncidentEvent::CameBack { why: Scrubbed::literal("it changed") }),
            Event::Incident(IncidentEvent::Resolved { note: None }),
            Event::Incident(IncidentEvent::Exhausted { resource: Resource::Attempts }),
            Event::Incident(IncidentEvent::Tripped { breaker: Breaker::NewErrors }),
            Event::Incident(IncidentEvent::Ended {
                outcome: IncidentOutcome::Recovered(Proof::Proven)
            }),
            Event::Incident(IncidentEvent::Diagnosed {
                nature: Nature::Transient,
                rule: Scrubbed::literal("service.down"),
                findings: Vec::new(),
            }),
            Event::Note(NoteEvent::Noted { text: Scrubbed::literal("hm") }),
        ]),
    ]
}

proptest! {
    /// Half of what is written is what the owner would write, so that stories get somewhere.
    #[test]
    fn anything_at_all_is_taken_in_or_changes_nothing(
        words in prop::collection::vec((any::<bool>(), actors(), said(), 0_u64..900_000), 1..60),
    ) {
        let mut story = TestIncident::new(policy());
        for (in_turn, by, event, at) in words {
            let next = story.incident.next(&process(1), parts::time(at));
            let (by, event) = match next {
                IncidentMove::Write(next) if in_turn => (Actor::Salve(process(1)), next),
                _ => (by, event),
            };
            let before = story.incident.clone();
            let seq = before.last_seq() + 1;
            let entry: Entry =
                Draft { at: parts::time(at), by, incident: Some(parts::id()), event }.at_seq(seq);
            let taken = story.incident.step(&entry);
            story.journal.push(entry.clone());
            let after = &story.incident;
            prop_assert!(after.clock() >= before.clock(), "time ran backwards");
            if taken.is_err() {
                let mut same = before.clone();
                (same.last_seq, same.repair.clock) = (seq, after.clock());
                prop_assert_eq!(after, &same, "{:?} was refused", entry.event);
            }
            let refilled = matches!(entry.event, Event::Incident(IncidentEvent::Refilled { .. }));
            for resource in Resource::ALL {
                let (was, is) = (before.ledger().left(resource), after.ledger().left(resource));
                prop_assert!(is <= was || refilled && entry.by.person().is_some());
            }
        }
        prop_assert_eq!(Incident::replay(&story.journal), Ok(story.incident));
    }
}
