//! The machine, row by row: what runs, in which order, and where it ends.

mod any;
mod layer;
mod paths;

use Act::*;
use RemedyKind::{Agent, Command, HardReset, Patch, Retry};
use RemedyVerdict::{Allow, Ask, Deny};

use super::testing::{TestIncident, agent, judgement, person, policy, process, remedy, symptom};
use super::{
    Awaited, DueEffect, Ignored, Incident, IncidentMove, NotClaimed, NotOpened, OwnerState, Phase,
    Told, phase_names,
};
use crate::event::{
    Acted, Actor, AgentMark, Amounts, AtALoss, Breaker, Change, Effect, EffectReport, EffectStage,
    Event, IncidentEvent, IncidentOutcome, IncidentPolicy, OnFailure, PersonOrder, PersonQuestion,
    Proof, RemedyKind, RemedyVerdict, RepairMode, Repeat, Resource, ResourceLimits, Symptom,
};
use crate::playbook::{Nature, PlaybookFinding};
use crate::scrub::Scrubbed;

/// What the world does next.
#[derive(Clone, Debug)]
enum Act {
    /// The running effect does what it should.
    Works,
    /// The running effect fails.
    Fails,
    /// The running effect does not come back in time.
    Hangs,
    /// The change is this large.
    Is(u32, u32),
    /// The subject is found to be so.
    Found(Proof),
    /// The subject fails with this signature in this tree.
    Breaks(u64, &'static str),
    /// The subject fails and may have acted.
    Acts,
    /// The subject falls ill after it was found well.
    Relapses,
    /// The person answers the open question.
    Says(bool),
    /// The person settles it.
    Resolves,
    /// The person orders.
    Orders(PersonOrder),
    /// The person grants attempts.
    Grants(u64),
    /// The agent marks.
    Marks(AgentMark),
    /// The owner dies and another process takes over.
    Dies,
    /// A breaker trips.
    Trips(Breaker),
    /// Something else is proposed than what is asked about.
    Supersedes,
}

/// Plays an incident and compares what ran and where it stands with `want`.
///
/// Each effect is a word, questions too, and the last word is the phase. Telling people, recording
/// and letting go always work; remedies that need no choice between are chosen in order.
#[track_caller]
fn check(policy: IncidentPolicy, plan: &[(RemedyKind, RemedyVerdict)], acts: &[Act], want: &str) {
    let story = TestIncident::new(policy);
    check_story(story, plan, acts, want);
}

#[track_caller]
fn check_story(
    mut story: TestIncident,
    plan: &[(RemedyKind, RemedyVerdict)],
    acts: &[Act],
    want: &str,
) {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut plan = plan.iter().zip(names);
    let mut acts = acts.iter();
    let mut log: Vec<String> = Vec::new();
    loop {
        let run = story.run();
        if let Some(run) = run {
            if matches!(run.what, Effect::Ask | Effect::Record | Effect::Release) {
                if let Phase::Asking { question, .. } = story.incident.phase() {
                    log.push(word(&question));
                }
                let event = Event::Incident(IncidentEvent::Finished {
                    effect: run.effect,
                    report: EffectReport::Done,
                });
                story.salve(event).unwrap();
                continue;
            }
            log.push(effect_word(run.what));
        } else if story.next() == IncidentMove::Choose {
            match plan.next() {
                Some((&(kind, verdict), name)) => story.judge(kind, name, verdict),
                None => drop(story.salve(Event::Incident(IncidentEvent::NothingLeft {})).unwrap()),
            }
            continue;
        }
        let Some(act) = acts.next() else { break };
        perform(&mut story, act);
    }
    log.push(match story.incident.phase() {
        Phase::Closed(outcome) => word(&outcome),
        Phase::Asking { .. } => "waits".into(),
        phase => word(&phase),
    });
    assert_eq!(log.join(" "), want, "acts left: {:?}", acts.as_slice());
    assert_eq!(Incident::replay(&story.journal), Ok(story.incident), "replay");
}

fn word(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split(" {").next().unwrap_or_default().to_lowercase()
}

fn effect_word(what: Effect) -> String {
    match what {
        Effect::Apply { remedy: digest, .. } => {
            let name = ["a", "b", "c", "d", "e", "f", "g", "h"];
            let found = name.iter().find(|name| remedy(Retry, name).digest == digest);
            format!("apply-{}", found.unwrap())
        }
        Effect::RollBack(scope) => format!("rollback-{}", word(&scope)),
        what => word(&what),
    }
}

/// Lets the world do what it must be allowed to.
#[track_caller]
fn perform(story: &mut TestIncident, act: &Act) {
    attempt(story, act).unwrap_or_else(|ignored| panic!("{act:?}: {ignored}"));
}

/// Lets the world try something.
#[expect(clippy::too_many_lines, reason = "a table: one row for each case")]
fn attempt(story: &mut TestIncident, act: &Act) -> Result<Option<DueEffect>, Ignored> {
    let effect = match story.incident.phase() {
        Phase::Doing { effect, .. } => effect,
        _ => 0,
    };
    let finished = |report| Event::Incident(IncidentEvent::Finished { effect, report });
    let failed = |symptom: Symptom| EffectReport::Verified {
        proof: Proof::Failed,
        symptom: Some(Box::new(symptom)),
    };
    let mut by = Actor::Salve(process(story.me));
    let event = match act {
        Works => finished(EffectReport::Done),
        Fails => finished(EffectReport::failed(Scrubbed::literal("no"))),
        Hangs => finished(EffectReport::TimedOut),
        Is(files, lines) => {
            finished(EffectReport::Measured(Change { files: Some(*files), lines: Some(*lines) }))
        }
        Found(proof) => finished(EffectReport::Verified { proof: *proof, symptom: None }),
        Breaks(signature, tree) => finished(failed(symptom(*signature, tree))),
        Acts => finished(failed(Symptom { acted: Acted::Maybe, ..symptom(9, "t") })),
        Relapses => {
            Event::Incident(IncidentEvent::Sickened { symptom: Box::new(symptom(1, "tree")) })
        }
        Says(yes) => {
            by = person("ada");
            let Phase::Asking { number, digest, .. } = story.incident.phase() else {
                return Err(Ignored::Stale);
            };
            if *yes {
                Event::Incident(IncidentEvent::Approved { question: number, digest, note: None })
            } else {
                Event::Incident(IncidentEvent::Rejected { question: number, digest, note: None })
            }
        }
        Resolves | Orders(_) | Grants(_) => {
            by = person("ada");
            match act {
                Orders(order) => Event::Incident(IncidentEvent::Ordered { order: *order }),
                Grants(attempts) => Event::Incident(IncidentEvent::Refilled {
                    granted: Amounts { attempts: *attempts, ..Amounts::default() },
                }),
                _ => Event::Incident(IncidentEvent::Resolved { note: None }),
            }
        }
        Marks(mark) => {
            by = agent();
            let attempt = story.incident.attempt();
            Event::Incident(IncidentEvent::Marked {
                attempt,
                mark: *mark,
                reported: Change::default(),
                message: None,
            })
        }
        Dies => {
            let heir = process(story.me + 1);
            let claim = story.incident.claim(&heir, OwnerState::Gone).map_err(|_| Ignored::Over)?;
            story.me += 1;
            by = Actor::Salve(heir);
            claim
        }
        Trips(breaker) => Event::Incident(IncidentEvent::Tripped { breaker: *breaker }),
        Supersedes => Event::Incident(IncidentEvent::Superseded {}),
    };
    story.by(by, event)
}

#[test]
fn a_restart_that_helps_closes_the_incident() {
    check(policy(), &[(Retry, Allow)], &[Found(Proof::Proven)], "verify recovered(proven)");
    check(policy(), &[(Retry, Allow)], &[Found(Proof::Flaky)], "verify recovered(flaky)");
}

#[test]
fn what_ends_by_itself_as_it_should_is_neither_run_again_nor_called_healed() {
    let retries = [(Retry, Allow), (Retry, Allow)];
    check(policy(), &retries, &[Works], "verify aborted");
    check(policy(), &retries, &[Breaks(1, "x"), Works], "verify verify aborted");
    // What a remedy changed is unproven, so it is given back.
    let acts = [Works, Works, Works, Works];
    check(policy(), &[(Command, Allow)], &acts, "snapshot apply-a verify rollback-attempt aborted");
}

#[test]
fn the_second_remedy_runs_after_the_first_is_undone() {
    check(
        policy(),
        &[(Command, Allow), (Command, Allow)],
        &[Works, Works, Breaks(1, "x"), Works, Works, Works, Found(Proof::Proven)],
        "snapshot apply-a verify rollback-attempt snapshot apply-b verify recovered(proven)",
    );
}

/// **Invariant:** What may be somebody else's work stays until a person takes it back.
#[test]
fn what_an_agent_leaves_in_the_workspace_itself_stays_until_a_person_takes_it_back() {
    let plan = [(Agent, Allow), (Command, Allow)];
    let acts = [Works, Works, Is(1, 3), Breaks(1, "x"), Works, Works, Found(Proof::Proven)];
    let want = "snapshot apply-a measure verify snapshot apply-b verify recovered(proven)";
    check(policy(), &plan, &acts, want);
    let acts = [Works, Works, Is(9, 3), Says(false), Works];
    let want = "snapshot apply-a measure changetoolarge rollback-attempt givenup";
    check(policy(), &[(Agent, Allow)], &acts, want);
    // What lies above it cannot be undone as one, but each attempt of Salve's own is.
    let policy = IncidentPolicy { catastrophe_after: Some(2), ..policy() };
    let acts = [Works, Works, Is(1, 3), Breaks(1, "x"), Works, Works, Breaks(1, "x"), Works];
    let want = "snapshot apply-a measure verify snapshot apply-b verify rollback-attempt \
                nothingleft waits";
    check(policy, &plan, &acts, want);
}

#[test]
fn a_remedy_that_fails_or_hangs_is_undone_unverified() {
    for act in [Fails, Hangs] {
        let want = "snapshot apply-a rollback-attempt nothingleft waits";
        check(policy(), &[(Command, Allow)], &[Works, act, Works], want);
    }
}

#[test]
fn a_denied_remedy_never_runs() {
    check(
        policy(),
        &[(Command, Deny), (Retry, Allow)],
        &[Found(Proof::Transient)],
        "verify recovered(transient)",
    );
    check(policy(), &[(Command, Deny)], &[], "nothingleft waits");
}

#[test]
fn a_person_is_asked_and_the_answer_holds() {
    let plan = [(Command, Ask)];
    check(policy(), &plan, &[], "remedy waits");
    check(
        policy(),
        &plan,
        &[Says(true), Works, Works, Found(Proof::Proven)],
        "remedy snapshot apply-a verify recovered(proven)",
    );
    check(policy(), &plan, &[Says(false)], "remedy givenup");
    check(policy(), &plan, &[Resolves], "remedy resolved");
}

#[test]
fn an_unsaved_workspace_is_not_changed() {
    let plan = [(Command, Allow)];
    check(policy(), &plan, &[Fails], "snapshot snapshotfailed waits");
    let acts = [Fails, Says(true), Works, Works, Found(Proof::Proven)];
    check(
        policy(),
        &plan,
        &acts,
        "snapshot snapshotfailed snapshot apply-a verify recovered(proven)",
    );
    check(policy(), &plan, &[Fails, Says(false)], "snapshot snapshotfailed givenup");
}

#[test]
fn exhausted_then_cooldown_then_a_person() {
    let plan = [(Retry, Allow), (Retry, Allow), (Retry, Allow)];
    let failing = [Breaks(1, "x"), Breaks(1, "x"), Breaks(1, "x")];
    // The same remedy under three names: a retry may be repeated, so the names do not matter.
    check(policy(), &plan, &failing, "verify verify verify exhausted(attempts) waits");
    let mut acts = failing.to_vec();
    acts.extend([Grants(1), Found(Proof::Proven)]);
    let plan = [(Retry, Allow); 4];
    check(
        policy(),
        &plan,
        &acts,
        "verify verify verify exhausted(attempts) verify recovered(proven)",
    );
}

#[test]
fn a_yes_does_not_refill_a_budget() {
    let policy = IncidentPolicy {
        limits: ResourceLimits { attempts: Some(0), ..ResourceLimits::default() },
        ..policy()
    };
    let mut story = TestIncident::new(policy);
    while let Some(run) = story.run() {
        story
            .salve(Event::Incident(IncidentEvent::Finished {
                effect: run.effect,
                report: EffectReport::Done,
            }))
            .unwrap();
    }
    let Phase::Asking { number, digest, question, .. } = story.incident.phase() else { panic!() };
    assert_eq!(question, PersonQuestion::Exhausted(Resource::Attempts));
    assert_eq!(story.now, 600_000, "after the whole cooldown");
    let yes = Event::Incident(IncidentEvent::Approved { question: number, digest, note: None });
    assert_eq!(story.by(person("ada"), yes), Err(Ignored::Exhausted));
    let retry = Event::Incident(IncidentEvent::Ordered { order: PersonOrder::Retry });
    assert_eq!(story.by(person("ada"), retry), Err(Ignored::Exhausted));
}

#[test]
fn where_nobody_is_asked_an_incident_at_a_loss_closes() {
    let policy = IncidentPolicy { at_a_loss: AtALoss::Close, cooldown_ms: 0, ..policy() };
    check(policy.clone(), &[], &[], "unhealed");
    let failing = [Breaks(1, "x"), Breaks(1, "x"), Breaks(1, "x")];
    check(policy.clone(), &[(Retry, Allow); 3], &failing, "verify verify verify unhealed");
    // What may be done is still a person's decision.
    check(policy.clone(), &[(Command, Ask)], &[], "remedy waits");
    let story = || TestIncident::with(policy.clone(), symptom(1, "tree"), Repeat::Unsafe);
    check_story(story(), &[(Retry, Allow)], &[Acts], "verify unhealed");
    let acts = [Works, Works, Hangs, Works];
    let want = "snapshot apply-a verify rollback-attempt unhealed";
    check_story(story(), &[(Command, Allow)], &acts, want);
}

#[test]
fn the_owner_may_call_off_what_has_not_begun() {
    let off = Event::Incident(IncidentEvent::Ended { outcome: IncidentOutcome::Aborted });
    let mut story = TestIncident::new(policy());
    story.salve(off.clone()).unwrap();
    assert_eq!(story.run().unwrap().what, Effect::Record);
    let mut story = TestIncident::new(policy());
    story.judge(Retry, "again", Allow);
    assert_eq!(story.salve(off.clone()), Err(Ignored::Stale));
    story.finish(Effect::Verify, EffectReport::Verified { proof: Proof::Failed, symptom: None });
    assert_eq!(story.salve(off), Err(Ignored::Stale), "something was done");
}

#[test]
fn back_off_doubles_and_the_cooldown_is_served_in_full() {
    let mut story = TestIncident::new(policy());
    let mut began = Vec::new();
    for _ in 0..3 {
        story.judge(Retry, "again", Allow);
        let run = story.run().unwrap();
        began.push(story.now);
        let report = EffectReport::Verified { proof: Proof::Failed, symptom: None };
        story
            .salve(Event::Incident(IncidentEvent::Finished { effect: run.effect, report }))
            .unwrap();
    }
    assert_eq!(began, [2_000, 6_000, 14_000]);
    story
        .salve(Event::Incident(IncidentEvent::Exhausted { resource: Resource::Attempts }))
        .unwrap();
    story.now += 599_999;
    assert_eq!(story.salve(Event::Incident(IncidentEvent::CooledDown {})), Err(Ignored::TooEarly));
    let crash = Event::Incident(IncidentEvent::Sickened { symptom: Box::new(symptom(1, "tree")) });
    assert_eq!(story.salve(crash), Err(Ignored::Stale), "a crash meanwhile changes nothing");
    // The cooldown outlives the process that began it.
    let again = Incident::replay(&story.journal).unwrap();
    assert_eq!(again.phase(), story.incident.phase());
    story.now += 1;
    story.salve(Event::Incident(IncidentEvent::CooledDown {})).unwrap();
}

#[test]
fn what_waits_for_a_person_may_be_run_again_and_come_back_by_itself() {
    let tried =
        || Event::Incident(IncidentEvent::TriedAgain { why: Scrubbed::literal("app.py changed") });
    let back =
        || Event::Incident(IncidentEvent::CameBack { why: Scrubbed::literal("app.py changed") });
    let mut story = TestIncident::new(policy());
    assert_eq!(story.salve(tried()), Err(Ignored::Stale), "nobody is waited for");
    assert_eq!(story.salve(back()), Err(Ignored::Stale));
    story.salve(Event::Incident(IncidentEvent::NothingLeft {})).unwrap();
    let before = (story.incident.attempt(), story.incident.phase());
    assert_eq!(story.by(person("ada"), tried()), Err(Ignored::NotOwner));
    story.salve(tried()).unwrap();
    assert_eq!((story.incident.attempt(), story.incident.phase()), before, "it costs nothing");
    story.salve(back()).unwrap();
    let recovered = IncidentOutcome::Recovered(Proof::Transient);
    let phase = story.incident.phase();
    assert!(matches!(phase, Phase::Ending { outcome, .. } if outcome == recovered), "{phase:?}");
    assert_eq!(story.incident.credit(), None, "nothing of ours helped");

    // It ends a cooldown, and the question that follows is known already.
    let mut story = TestIncident::new(IncidentPolicy { cooldown_ms: 600_000, ..policy() });
    for _ in 0..3 {
        story.judge(Retry, "again", Allow);
        let report = EffectReport::Verified { proof: Proof::Failed, symptom: None };
        story.finish(Effect::Verify, report);
    }
    let exhausted = IncidentEvent::Exhausted { resource: Resource::Attempts };
    story.salve(Event::Incident(exhausted)).unwrap();
    assert!(matches!(story.incident.phase(), Phase::CoolingDown { .. }));
    story.salve(tried()).unwrap();
    let phase = story.incident.phase();
    let question = PersonQuestion::Exhausted(Resource::Attempts);
    assert!(
        matches!(phase, Phase::Asking { question: asked, told: Told::Yes, .. } if asked == question),
        "{phase:?}"
    );
    story.salve(back()).unwrap();
}

#[test]
fn an_agent_that_never_comes_is_not_waited_for() {
    let mut story = TestIncident::new(policy());
    story.judge(Agent, "a", Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    let apply = story.run().unwrap();
    assert_eq!(story.run().unwrap().what, Effect::Measure);
    assert_eq!(story.now, 30_000);
    let late = Event::Incident(IncidentEvent::Finished {
        effect: apply.effect,
        report: EffectReport::Done,
    });
    assert_eq!(story.salve(late), Err(Ignored::Stale));
}

#[test]
fn an_agent_that_came_has_its_time_and_its_last_mark_ends_the_wait() {
    let mut story = TestIncident::new(policy());
    story.judge(Agent, "a", Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    story.run_until_waiting();
    story.now += 29_000;
    let mark = |mark| {
        Event::Incident(IncidentEvent::Marked {
            attempt: 1,
            mark,
            reported: Change::default(),
            message: None,
        })
    };
    story.by(agent(), mark(AgentMark::Started)).unwrap();
    let on = Awaited::Effect(2);
    let until = Some(super::testing::time(149_000));
    assert_eq!(story.next(), IncidentMove::Wait { on, until });
    story.by(agent(), mark(AgentMark::WroteFiles)).unwrap();
    assert_eq!(story.by(agent(), mark(AgentMark::WroteFiles)), Err(Ignored::NoNews));
    assert_eq!(story.run().unwrap().what, Effect::Measure);
}

#[test]
fn an_agent_that_salve_started_has_its_own_time() {
    let mut story = TestIncident::new(policy());
    story.judge(Agent, "a", Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    let launched = |effect| {
        Event::Incident(IncidentEvent::AgentLaunched {
            effect,
            process: process(7),
            agent: Scrubbed::literal("claude"),
            model: None,
            limit_ms: 600_000,
        })
    };
    assert_eq!(story.salve(launched(1)), Err(Ignored::Stale), "nothing is applied yet");
    let apply = story.run().unwrap();
    assert_eq!(story.by(agent(), launched(apply.effect)), Err(Ignored::NotAPerson));
    story.salve(launched(apply.effect)).unwrap();
    assert_eq!(story.salve(launched(apply.effect)), Err(Ignored::NoNews));
    let mark = Event::Incident(IncidentEvent::Marked {
        attempt: 1,
        mark: AgentMark::Started,
        reported: Change::default(),
        message: None,
    });
    story.by(agent(), mark).unwrap();
    assert_eq!(story.run().unwrap().what, Effect::Measure);
    assert_eq!(story.now, 600_000, "neither the time to begin nor the time to write cut it short");
}

#[test]
fn a_mark_that_came_before_the_wait_counts() {
    let mut story = TestIncident::new(policy());
    story.judge(Agent, "a", Allow);
    let reported = Change { files: Some(20), lines: Some(1) };
    let mark = Event::Incident(IncidentEvent::Marked {
        attempt: 1,
        mark: AgentMark::WroteFiles,
        reported,
        message: None,
    });
    story.by(agent(), mark).unwrap();
    story.finish(Effect::Snapshot, EffectReport::Done);
    let small = EffectReport::Measured(Change { files: Some(1), lines: Some(1) });
    story.finish(Effect::Measure, small);
    let Phase::Asking { question, .. } = story.incident.phase() else { panic!() };
    assert_eq!(question, PersonQuestion::ChangeTooLarge, "what was reported is larger");
}

#[test]
fn a_mark_for_another_attempt_is_refused() {
    let mut story = TestIncident::new(policy());
    story.judge(Agent, "a", Allow);
    for attempt in [0, 2] {
        let change = Change::default();
        let mark = Event::Incident(IncidentEvent::Marked {
            attempt,
            mark: AgentMark::WroteFiles,
            reported: change,
            message: None,
        });
        assert_eq!(story.by(agent(), mark), Err(Ignored::Stale));
    }
}

#[test]
fn a_large_change_is_a_persons_decision() {
    let plan = [(Patch, Allow)];
    let wait = "snapshot apply-a measure changetoolarge waits";
    check(policy(), &plan, &[Works, Works, Is(9, 1)], wait);
    check(policy(), &plan, &[Works, Works, Fails], wait);
    check(
        policy(),
        &plan,
        &[Works, Works, Is(1, 301), Says(true), Found(Proof::Proven)],
        "snapshot apply-a measure changetoolarge verify recovered(proven)",
    );
    check(
        policy(),
        &plan,
        &[Works, Works, Is(1, 301), Says(false), Works],
        "snapshot apply-a measure changetoolarge rollback-attempt givenup",
    );
}

#[test]
fn a_masked_failure_is_undone_and_shown() {
    for on_failure in [OnFailure::Undo, OnFailure::Keep] {
        check(
            IncidentPolicy { on_failure, ..policy() },
            &[(Patch, Allow)],
            &[Works, Works, Is(1, 1), Found(Proof::Masked), Works],
            "snapshot apply-a measure verify rollback-attempt masked waits",
        );
    }
}

#[test]
fn a_change_that_does_not_hold_is_undone_and_shown_but_luck_alone_is_none() {
    for kind in [Patch, Agent, Command] {
        let measured: &[Act] = if kind == Command { &[] } else { &[Is(1, 1)] };
        let acts = [&[Works, Works], measured, &[Found(Proof::Flaky), Works]].concat();
        let measures = if kind == Command { "" } else { "measure " };
        let want = format!("snapshot apply-a {measures}verify rollback-attempt flaky waits");
        check(policy(), &[(kind, Allow)], &acts, &want);
    }
    let again = [Works, Works, Is(1, 1), Found(Proof::Flaky), Works, Says(true)];
    let want = "snapshot apply-a measure verify rollback-attempt flaky nothingleft waits";
    check(policy(), &[(Patch, Allow)], &again, want);
}

#[test]
fn a_change_is_kept_when_told_so() {
    check(
        IncidentPolicy { on_failure: OnFailure::Keep, ..policy() },
        &[(Command, Allow)],
        &[Works, Works, Breaks(1, "x")],
        "snapshot apply-a verify nothingleft waits",
    );
}

#[test]
fn what_cannot_be_undone_is_shown() {
    let acts = [Works, Works, Breaks(1, "x"), Fails];
    let want = "snapshot apply-a verify rollback-attempt rollbackfailed waits";
    check(policy(), &[(Command, Allow)], &acts, want);
}

#[test]
fn three_failures_in_a_row_undo_everything_and_the_budget_stays() {
    let limits = ResourceLimits { attempts: Some(4), ..ResourceLimits::default() };
    let policy = IncidentPolicy { catastrophe_after: Some(3), limits, ..policy() };
    let one = [Works, Works, Breaks(1, "x"), Works];
    let acts: Vec<Act> = one.iter().cycle().take(16).cloned().collect();
    check(
        policy,
        &[(Command, Allow); 5],
        &acts,
        "snapshot apply-a verify rollback-attempt snapshot apply-b verify rollback-attempt \
         snapshot apply-c verify rollback-incident snapshot apply-d verify rollback-attempt \
         exhausted(attempts) waits",
    );
}

#[test]
fn no_progress_leaves_only_a_hard_reset() {
    let limits = ResourceLimits { attempts: Some(9), resets: Some(1), ..ResourceLimits::default() };
    let policy = IncidentPolicy { no_progress_limit: Some(1), limits, ..policy() };
    let mut story = TestIncident::new(policy);
    story.judge(Retry, "again", Allow);
    story.finish(
        Effect::Verify,
        EffectReport::Verified {
            proof: Proof::Failed,
            symptom: Some(Box::new(symptom(1, "tree"))),
        },
    );
    assert!(story.incident.is_stuck());
    let retry = Event::Incident(IncidentEvent::Judged {
        remedy: Box::new(remedy(Retry, "again")),
        judgement: judgement(Allow),
    });
    assert_eq!(story.salve(retry.clone()), Err(Ignored::NoProgress));
    story.judge(HardReset, "again", Allow);
    story.finish_apply(EffectReport::Done);
    assert!(!story.incident.is_stuck());
    let reset = Event::Incident(IncidentEvent::Judged {
        remedy: Box::new(remedy(HardReset, "again")),
        judgement: judgement(Allow),
    });
    story.finish(
        Effect::Verify,
        EffectReport::Verified {
            proof: Proof::Failed,
            symptom: Some(Box::new(symptom(1, "tree"))),
        },
    );
    assert_eq!(story.salve(reset), Err(Ignored::Exhausted), "the one reset is used");
    story.salve(Event::Incident(IncidentEvent::NothingLeft {})).unwrap();
    let Phase::Asking { question, .. } = story.incident.phase() else { panic!() };
    assert_eq!(question, PersonQuestion::NoProgress);
}

#[test]
fn a_relapse_counts_against_the_remedy_that_seemed_to_help() {
    let policy = IncidentPolicy { watch_ms: 60_000, ..policy() };
    let mut story = TestIncident::new(policy);
    story.judge(Command, "a", Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    story.finish_apply(EffectReport::Done);
    story.finish(Effect::Verify, EffectReport::Verified { proof: Proof::Proven, symptom: None });
    story.now += 59_000;
    perform(&mut story, &Relapses);
    assert_eq!(story.run().unwrap().what, Effect::RollBack(crate::event::Scope::Attempt));
}

#[test]
fn what_nobody_watches_any_more_is_over_when_somebody_comes() {
    let policy = IncidentPolicy { watch_ms: 60_000, ..policy() };
    let mut story = TestIncident::new(policy);
    story.judge(Retry, "a", Allow);
    story.finish(Effect::Verify, EffectReport::Verified { proof: Proof::Transient, symptom: None });
    let ended = Event::Incident(IncidentEvent::Ended {
        outcome: IncidentOutcome::Recovered(Proof::Transient),
    });
    assert_eq!(story.salve(ended.clone()), Err(Ignored::TooEarly));
    story.salve(Event::Incident(IncidentEvent::Released {})).unwrap();
    assert_eq!(attempt(&mut story, &Relapses), Err(Ignored::NotOwner));
    story.salve(Event::Incident(IncidentEvent::Claimed { instead_of: None })).unwrap();
    assert_eq!(story.next(), IncidentMove::Write(ended), "without waiting");
}

#[test]
fn orders_stop_at_once_or_when_the_effect_is_back() {
    let plan = [(Command, Allow)];
    check(policy(), &plan, &[Orders(PersonOrder::Abort), Works], "snapshot aborted");
    check(
        policy(),
        &plan,
        &[Works, Orders(PersonOrder::Abort), Works, Works],
        "snapshot apply-a rollback-attempt aborted",
    );
    check(
        policy(),
        &plan,
        &[Works, Works, Orders(PersonOrder::Abort), Found(Proof::Proven)],
        "snapshot apply-a verify recovered(proven)",
    );
    check(
        policy(),
        &plan,
        &[Works, Orders(PersonOrder::Escalate), Works, Works],
        "snapshot apply-a rollback-attempt ordered waits",
    );
    check(
        policy(),
        &[(Command, Allow), (Retry, Allow)],
        &[Works, Orders(PersonOrder::Skip), Works, Works, Found(Proof::Proven)],
        "snapshot apply-a rollback-attempt verify recovered(proven)",
    );
    check(policy(), &plan, &[Works, Resolves, Works], "snapshot apply-a resolved");
    // What the person mended by hand while the remedy failed is not rolled back.
    check(policy(), &plan, &[Works, Resolves, Fails], "snapshot apply-a resolved");
    check(policy(), &plan, &[Works, Resolves, Dies], "snapshot apply-a resolved");
    check(policy(), &[], &[Orders(PersonOrder::Retry)], "nothingleft nothingleft waits");
}

#[test]
fn a_breaker_stops_healing_and_new_errors_undo_all_of_it() {
    let plan = [(Command, Allow)];
    check(
        policy(),
        &plan,
        &[Works, Works, Trips(Breaker::FileChurn), Breaks(1, "x"), Works],
        "snapshot apply-a verify rollback-attempt tripped(filechurn) waits",
    );
    let mut story = TestIncident::new(policy());
    story.judge(Command, "a", Allow);
    story.finish(Effect::Snapshot, EffectReport::Done);
    story.finish_apply(EffectReport::Done);
    story.salve(Event::Incident(IncidentEvent::Tripped { breaker: Breaker::NewErrors })).unwrap();
    assert_eq!(story.run().unwrap().what, Effect::RollBack(crate::event::Scope::Incident));
}

#[test]
fn a_pause_starts_nothing_and_names_who_paused() {
    let mut story = TestIncident::new(policy());
    let pause = |order| Event::Incident(IncidentEvent::Ordered { order });
    story.by(person("bob"), pause(PersonOrder::Pause)).unwrap();
    let on = Awaited::Person(Scrubbed::literal("bob"));
    assert_eq!(story.next(), IncidentMove::Wait { on, until: None });
    story.by(person("ada"), pause(PersonOrder::Resume)).unwrap();
    assert_eq!(story.next(), IncidentMove::Choose);
}

/// **Invariant:** What may have acted is never repeated blindly.
#[test]
fn after_a_crash_a_remedy_is_verified_and_never_applied_again() {
    check(
        policy(),
        &[(Command, Allow)],
        &[Works, Dies, Found(Proof::Proven)],
        "snapshot apply-a verify recovered(proven)",
    );
    check(
        policy(),
        &[(Command, Allow)],
        &[Works, Dies, Breaks(1, "x")],
        "snapshot apply-a verify nothingleft waits",
    );
    check(
        policy(),
        &[(Patch, Allow)],
        &[Works, Dies, Is(1, 1), Found(Proof::Proven)],
        "snapshot apply-a measure verify recovered(proven)",
    );
}

/// **Invariant:** What a kill cut short counts as no failure, and runs again on a person's word only.
#[test]
fn what_a_kill_cut_short_runs_again_on_a_persons_word() {
    let mut story = TestIncident::new(policy());
    for word in [Allow, Ask] {
        story.judge(Command, "a", word);
        if word == Ask {
            story.finish(Effect::Ask, EffectReport::Done);
            perform(&mut story, &Says(true));
        }
        story.finish(Effect::Snapshot, EffectReport::Done);
        assert!(matches!(story.run().unwrap().what, Effect::Apply { .. }), "it is run");
        perform(&mut story, &Dies);
        assert_eq!(story.run().unwrap().what, Effect::Verify);
        perform(&mut story, &Breaks(1, "tree"));
        let tried = story.incident.tried();
        assert!(tried.iter().all(|one| one.fate == super::RemedyFate::CutShort), "{tried:?}");
    }
    // The gate's word alone does not do it.
    story.judge(Command, "a", Allow);
    assert_eq!(story.run().unwrap().what, Effect::Ask);
    assert!(!story.incident.is_stuck(), "nothing of it tells that it helps nothing");
}

#[test]
fn after_a_crash_what_is_harmless_is_done_again() {
    check(
        policy(),
        &[(Command, Allow)],
        &[Dies, Works, Works, Dies, Breaks(1, "x"), Dies, Works],
        "snapshot snapshot apply-a verify verify rollback-attempt rollback-attempt nothingleft waits",
    );
}

#[test]
fn a_subject_that_may_have_acted_is_a_persons_decision() {
    let story = || TestIncident::with(policy(), symptom(1, "tree"), Repeat::Unsafe);
    let plan = [(Retry, Allow), (Retry, Allow)];
    check_story(story(), &plan, &[Dies], "verify mayhaveacted waits");
    check_story(story(), &plan, &[Hangs], "verify mayhaveacted waits");
    check_story(story(), &plan, &[Acts], "verify mayhaveacted waits");
    check_story(
        story(),
        &plan,
        &[Acts, Says(true), Found(Proof::Proven)],
        "verify mayhaveacted verify recovered(proven)",
    );
    check_story(story(), &plan, &[Dies, Says(false)], "verify mayhaveacted givenup");
    let acted = Symptom { acted: Acted::Maybe, ..symptom(1, "tree") };
    check_story(
        TestIncident::with(policy(), acted, Repeat::Unsafe),
        &plan,
        &[],
        "mayhaveacted waits",
    );
}

/// **Invariant:** Nothing is called recovered unverified; only proven heals are credited.
#[test]
fn only_a_proven_and_certain_heal_is_credited() {
    #[track_caller]
    fn credit_of(kind: RemedyKind, acts: &[Act], want: bool) {
        let mut story = TestIncident::new(policy());
        story.judge(kind, "a", Allow);
        story.finish(Effect::Snapshot, EffectReport::Done);
        story.run().unwrap();
        for act in acts {
            perform(&mut story, act);
            story.run();
        }
        assert_eq!(story.incident.credit().is_some(), want, "{kind:?} {acts:?}");
    }
    let credit = |acts: &[Act], want| credit_of(Command, acts, want);
    credit(&[Works, Found(Proof::Proven)], true);
    credit(&[Works, Found(Proof::Transient)], false);
    credit(&[Works, Found(Proof::Flaky)], false);
    credit(&[Works, Found(Proof::Masked)], false);
    credit(&[Works, Breaks(1, "x")], false);
    credit(&[Dies, Found(Proof::Proven)], false);
    credit(&[Works], false);
    // What a run that was cut off left in the files is proven as it stands.
    credit_of(Agent, &[Dies, Is(1, 1), Found(Proof::Proven)], true);
    credit_of(Agent, &[Dies, Is(1, 1), Found(Proof::Transient)], false);
}

/// **Invariant:** Never two owners.
#[test]
fn an_incident_has_one_owner() {
    let mut story = TestIncident::new(policy());
    let (one, two) = (process(1), process(2));
    let claim = |holder| story.incident.claim(&two, holder);
    assert_eq!(claim(OwnerState::Alive), Err(NotClaimed::Held(one.clone())));
    assert_eq!(claim(OwnerState::Unknown), Err(NotClaimed::Held(one.clone())));
    assert_eq!(story.incident.claim(&one, OwnerState::Gone), Err(NotClaimed::Mine));
    let takeover = claim(OwnerState::Gone).unwrap();
    let as_two = |event, story: &mut TestIncident| story.by(Actor::Salve(process(2)), event);
    assert_eq!(
        as_two(Event::Incident(IncidentEvent::Claimed { instead_of: None }), &mut story),
        Err(Ignored::Held)
    );
    assert_eq!(
        as_two(Event::Incident(IncidentEvent::NothingLeft {}), &mut story),
        Err(Ignored::NotOwner)
    );
    assert_eq!(as_two(takeover, &mut story), Ok(None));
    assert_eq!(story.salve(Event::Incident(IncidentEvent::NothingLeft {})), Err(Ignored::NotOwner));
    assert_eq!(story.next(), IncidentMove::NotMine);
    assert_eq!(as_two(Event::Incident(IncidentEvent::Released {}), &mut story), Ok(None));
    assert_eq!(story.salve(Event::Incident(IncidentEvent::Claimed { instead_of: None })), Ok(None));
}

/// **Invariant:** An approval is for one question, from one named person, used once.
#[test]
fn an_answer_is_to_one_question_from_one_person_once() {
    let mut story = TestIncident::new(policy());
    story.judge(Command, "a", Ask);
    let Phase::Asking { number, digest, .. } = story.incident.phase() else { panic!() };
    let yes = |question, digest| {
        Event::Incident(IncidentEvent::Approved { question, digest, note: None })
    };
    let other = remedy(Command, "b").digest;
    assert_eq!(story.by(agent(), yes(number, digest)), Err(Ignored::NotAPerson));
    assert_eq!(story.by(person(" "), yes(number, digest)), Err(Ignored::NotAPerson));
    assert_eq!(story.salve(yes(number, digest)), Err(Ignored::NotAPerson));
    assert_eq!(story.by(person("ada"), yes(number + 1, digest)), Err(Ignored::Stale));
    assert_eq!(story.by(person("ada"), yes(number, other)), Err(Ignored::Stale));
    assert_eq!(story.by(person("ada"), yes(number, digest)), Ok(None));
    assert_eq!(story.by(person("bob"), yes(number, digest)), Err(Ignored::Stale));
}

#[test]
fn what_is_due_can_be_taken_back_by_the_gate_and_by_nobody_else() {
    let again = |verdict, name: &'static str| {
        Event::Incident(IncidentEvent::Judged {
            remedy: Box::new(remedy(Command, name)),
            judgement: judgement(verdict),
        })
    };
    let mut story = TestIncident::new(policy());
    story.judge(Command, "a", Allow);
    assert!(matches!(story.incident.phase(), Phase::Due { .. }));
    // Nothing but the very remedy that is due, and never to widen anything.
    assert_eq!(story.salve(again(Ask, "b")), Err(Ignored::Stale));
    assert_eq!(story.salve(again(Allow, "a")), Err(Ignored::Stale));
    assert_eq!(story.by(agent(), again(Deny, "a")), Err(Ignored::NotAPerson));
    assert_eq!(story.salve(again(Ask, "a")), Ok(None));
    assert!(matches!(
        story.incident.phase(),
        Phase::Asking { question: PersonQuestion::Remedy, .. }
    ));
    // What a person has approved stays approved.
    attempt(&mut story, &Says(true)).unwrap();
    assert_eq!(story.salve(again(Ask, "a")), Err(Ignored::Stale));
    assert_eq!(story.salve(again(Deny, "a")), Err(Ignored::Stale));
    let mut story = TestIncident::new(policy());
    story.judge(Command, "a", Allow);
    assert_eq!(story.salve(again(Deny, "a")), Ok(None));
    assert_eq!(story.incident.phase(), Phase::Choosing);
    assert_eq!(story.salve(again(Allow, "a")), Err(Ignored::NoNews), "denied is denied");
}

#[test]
fn what_is_superseded_is_asked_anew_and_an_old_answer_does_not_count() {
    let mut story = TestIncident::new(policy());
    story.judge(Command, "a", Ask);
    let Phase::Asking { number, digest, .. } = story.incident.phase() else { panic!() };
    let old = Event::Incident(IncidentEvent::Approved { question: number, digest, note: None });
    assert_eq!(
        story.by(person("ada"), Event::Incident(IncidentEvent::Superseded {})),
        Err(Ignored::NotOwner)
    );
    assert_eq!(story.salve(Event::Incident(IncidentEvent::Superseded {})), Ok(None));
    assert_eq!(story.by(person("ada"), old.clone()), Err(Ignored::Stale));
    assert_eq!(story.salve(Event::Incident(IncidentEvent::Superseded {})), Err(Ignored::Stale));
    // The same remedy again is another question, and a yes to the first is none to it.
    story.judge(Command, "a", Ask);
    assert_eq!(story.by(person("ada"), old), Err(Ignored::Stale));
    let Phase::Asking { number: again, .. } = story.incident.phase() else { panic!() };
    assert_eq!(again, number + 1);
    // What was approved is not taken back by it.
    attempt(&mut story, &Says(true)).unwrap();
    assert_eq!(attempt(&mut story, &Supersedes), Err(Ignored::Stale));
}

/// **Invariant:** Never an effect without its journal entry, none run twice.
#[test]
fn an_effect_that_was_not_due_is_refused() {
    let mut story = TestIncident::new(policy());
    story.judge(Command, "a", Ask);
    let digest = remedy(Command, "a").digest;
    let apply = |on| {
        Event::Incident(IncidentEvent::Requested {
            effect: 1,
            what: Effect::Apply { remedy: digest, on },
        })
    };
    let gate = apply(crate::event::Authority::Gate);
    let approval = apply(crate::event::Authority::Approval(3));
    assert_eq!(story.salve(gate), Err(Ignored::NotDue));
    assert_eq!(story.salve(approval), Err(Ignored::NotDue));
    assert_eq!(
        story.salve(Event::Incident(IncidentEvent::Requested { effect: 1, what: Effect::Verify })),
        Err(Ignored::NotDue)
    );
    assert_eq!(
        story.salve(Event::Incident(IncidentEvent::Requested { effect: 2, what: Effect::Ask })),
        Err(Ignored::NotDue)
    );
}

#[test]
fn the_same_entry_twice_counts_once_and_late_costs_count_after_the_end() {
    let mut story = TestIncident::new(policy());
    story.judge(Retry, "again", Allow);
    story.finish(Effect::Verify, EffectReport::Verified { proof: Proof::Proven, symptom: None });
    while let Some(run) = story.run() {
        story
            .salve(Event::Incident(IncidentEvent::Finished {
                effect: run.effect,
                report: EffectReport::Done,
            }))
            .unwrap();
    }
    assert_eq!(story.incident.phase(), Phase::Closed(IncidentOutcome::Recovered(Proof::Proven)));
    let spent = Amounts { tokens: 70, ..Amounts::default() };
    story
        .by(Actor::Salve(process(7)), Event::Incident(IncidentEvent::Charged { effect: 1, spent }))
        .unwrap();
    assert_eq!(story.incident.ledger().spent().tokens, 70);
    let again = story.journal.last().unwrap().clone();
    assert_eq!(story.incident.step(&again), Err(Ignored::Replayed));
    assert_eq!(
        story.by(agent(), Event::Incident(IncidentEvent::Charged { effect: 1, spent })),
        Err(Ignored::Over)
    );
    assert_eq!(
        story.salve(Event::Incident(IncidentEvent::Charged { effect: 9, spent })),
        Err(Ignored::NotDue)
    );
}

#[test]
fn an_incident_names_a_person_and_has_a_limit() {
    let open = |policy: IncidentPolicy| {
        let mut story = TestIncident::new(super::testing::policy());
        let Event::Incident(IncidentEvent::Opened { policy: old, .. }) =
            &mut story.journal[0].event
        else {
            panic!()
        };
        **old = policy;
        Incident::replay(&story.journal).err()
    };
    let nobody = IncidentPolicy { person: Scrubbed::literal(" "), ..policy() };
    assert_eq!(open(nobody), Some(NotOpened::NobodyNamed));
    let endless = IncidentPolicy { limits: ResourceLimits::default(), ..policy() };
    assert_eq!(open(endless), Some(NotOpened::Endless));
    let story = TestIncident::new(policy());
    assert_eq!(Incident::replay(&story.journal[1..]).err(), Some(NotOpened::NoOpening));
}

#[test]
fn a_clock_set_back_neither_shortens_nor_stops_a_wait() {
    let mut story = TestIncident::new(policy());
    story.now = 1_000_000;
    story.judge(Retry, "again", Allow);
    story.now = 0;
    let until = Some(super::testing::time(1_002_000));
    assert_eq!(story.next(), IncidentMove::Wait { on: Awaited::Time, until });
    assert_eq!(story.incident.clock(), super::testing::time(1_000_000));
    assert_eq!(story.run().unwrap().what, Effect::Verify);
}

/// Plays a server's incident and returns the spec's phases in their order.
fn phases(mode: RepairMode, kind: RemedyKind, acts: &[Act]) -> Vec<&'static str> {
    let mut story = TestIncident::new(IncidentPolicy { mode, ..policy() });
    let mut acts = acts.iter();
    loop {
        let run = story.run();
        match (run, story.next()) {
            (None, IncidentMove::Choose) => story.judge(kind, "again", Allow),
            (None, _) => break,
            (Some(run), _) if run.what == Effect::Verify => {
                for stage in [EffectStage::HealthCheck, EffectStage::VerifyingFix] {
                    story
                        .salve(Event::Incident(IncidentEvent::Progressed {
                            effect: run.effect,
                            stage,
                        }))
                        .unwrap();
                }
                match acts.next() {
                    Some(act) => perform(&mut story, act),
                    None => break,
                }
            }
            (Some(run), _) if matches!(run.what, Effect::Apply { .. }) => {
                use AgentMark::{ApplyingFix, ReadingLog, Started, WroteFiles};
                for mark in [Started, ReadingLog, ApplyingFix, WroteFiles] {
                    perform(&mut story, &Marks(mark));
                }
            }
            (Some(run), _) if run.what == Effect::Measure => perform(&mut story, &Is(1, 1)),
            (Some(run), _) => {
                let event = Event::Incident(IncidentEvent::Finished {
                    effect: run.effect,
                    report: EffectReport::Done,
                });
                story.salve(event).unwrap();
            }
        }
    }
    let mut names = Vec::new();
    let mut replayed = Incident::replay(&story.journal[..1]).unwrap();
    names
        .extend(phase_names(&replayed, &story.journal[0].event).iter().map(|phase| phase.as_str()));
    for entry in &story.journal[1..] {
        if replayed.step(entry).is_ok() {
            names.extend(phase_names(&replayed, &entry.event).iter().map(|phase| phase.as_str()));
        }
    }
    names
}

#[test]
fn the_specs_phases_can_be_read_from_the_journal() {
    let names = phases(RepairMode::Legacy, Retry, &[Breaks(1, "x"), Found(Proof::Proven)]);
    let want = "crash-detected lock-acquired waiting restarting health-check failed \
                waiting restarting health-check recovered";
    assert_eq!(names.join(" "), want);

    let names = phases(RepairMode::Agent, Agent, &[Found(Proof::Proven)]);
    let want = "crash_detected repair_started awaiting_agent agent_started agent_reading_log \
                agent_applying_fix agent_wrote_files ready_to_restart restarting health-check \
                verifying_fix recovered";
    assert_eq!(names.join(" "), want);

    let failing = [Breaks(1, "x"), Breaks(1, "x"), Breaks(1, "x")];
    let names = phases(RepairMode::Agent, Retry, &failing);
    let end = ["failed", "exhausted", "cooldown", "failed_requires_human"];
    assert_eq!(names[names.len() - 4..], end);
    let names = phases(RepairMode::Legacy, Retry, &failing);
    let end = ["failed", "exhausted", "failed_requires_human"];
    assert_eq!(names[names.len() - 3..], end);
}

#[test]
fn what_nobody_took_up_is_called_off_without_an_owner() {
    let mut story = TestIncident::unclaimed(policy());
    let done = Event::Incident(IncidentEvent::Ended {
        outcome: IncidentOutcome::Recovered(Proof::Proven),
    });
    assert_eq!(story.salve(done), Err(Ignored::NotOwner));
    assert_eq!(
        story.salve(Event::Incident(IncidentEvent::Ended { outcome: IncidentOutcome::Aborted })),
        Ok(None)
    );
    assert_eq!(story.incident.phase(), Phase::Closed(IncidentOutcome::Aborted));
    assert_eq!(
        phase_names(&story.incident, &story.journal[2].event),
        [crate::incident::RepairPhase::Aborted]
    );

    let mut story = TestIncident::new(policy());
    story.me = 2;
    let aborted = Event::Incident(IncidentEvent::Ended { outcome: IncidentOutcome::Aborted });
    assert_eq!(story.salve(aborted), Err(Ignored::NotOwner), "it has an owner");
}

#[test]
fn what_was_found_out_is_about_the_latest_failure_and_decides_nothing() {
    let mut story = TestIncident::new(policy());
    let found =
        |what| PlaybookFinding { what: Scrubbed::literal(what), next: Scrubbed::literal("look") };
    let diagnosed = |what| {
        Event::Incident(IncidentEvent::Diagnosed {
            nature: Nature::Infrastructure,
            rule: Scrubbed::literal("port.stranger"),
            findings: vec![found(what)],
        })
    };
    story.salve(diagnosed("port 80 is taken")).unwrap();
    assert_eq!(story.incident.phase(), Phase::Choosing);
    let judged = Event::Incident(IncidentEvent::Judged {
        remedy: Box::new(remedy(Retry, "again")),
        judgement: judgement(RemedyVerdict::Allow),
    });
    story.salve(judged).unwrap();
    assert_eq!(story.salve(diagnosed("too late")), Err(Ignored::Stale));
    assert_eq!(story.incident.findings(), [found("port 80 is taken")]);
    story.now += 3_600_000;
    story
        .salve(Event::Incident(IncidentEvent::Requested { effect: 1, what: Effect::Verify }))
        .unwrap();
    let report =
        EffectReport::Verified { proof: Proof::Failed, symptom: Some(Box::new(symptom(2, "t"))) };
    story.salve(Event::Incident(IncidentEvent::Finished { effect: 1, report })).unwrap();
    assert!(story.incident.findings().is_empty(), "it is another failure now");
}
