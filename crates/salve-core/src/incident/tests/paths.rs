//! All legal sequences of events, up to a length.

use std::collections::HashSet;

use super::*;
use crate::event::{Authority, Entry, Scope};

/// Everything the world can try at any moment.
const ACTS: [Act; 25] = [
    Works,
    Fails,
    Hangs,
    Is(1, 1),
    Is(9, 9),
    Found(Proof::Proven),
    Found(Proof::Transient),
    Found(Proof::Masked),
    Breaks(1, "tree"),
    Breaks(2, "other"),
    Acts,
    Relapses,
    Says(true),
    Says(false),
    Resolves,
    Orders(PersonOrder::Pause),
    Orders(PersonOrder::Resume),
    Orders(PersonOrder::Skip),
    Orders(PersonOrder::Retry),
    Orders(PersonOrder::Abort),
    Orders(PersonOrder::Escalate),
    Grants(1),
    Marks(AgentMark::WroteFiles),
    Dies,
    Trips(Breaker::NewErrors),
];

/// One path: what was chosen from, what happened, and what ran.
#[derive(Clone)]
struct Path {
    story: TestIncident,
    plan: Vec<(RemedyKind, RemedyVerdict)>,
    ran: Vec<Effect>,
}

/// Walks all legal sequences of `depth` acts and hands every path to `visit`.
///
/// Between two acts the owner does what it can by itself. Returns the number of paths.
fn every_path(
    story: TestIncident,
    plan: &[(RemedyKind, RemedyVerdict)],
    depth: usize,
    visit: &mut impl FnMut(&Path),
) -> u64 {
    let mut path = Path { story, plan: plan.to_vec(), ran: Vec::new() };
    path.settle();
    walk(&path, depth, visit)
}

fn walk(path: &Path, depth: usize, visit: &mut impl FnMut(&Path)) -> u64 {
    visit(path);
    if depth == 0 {
        return 1;
    }
    let mut paths = 0;
    for act in &ACTS {
        let mut next = path.clone();
        if attempt(&mut next.story, act).is_ok() {
            next.settle();
            paths += walk(&next, depth - 1, visit);
        }
    }
    paths.max(1)
}

impl Path {
    /// Lets the owner do what it can by itself.
    fn settle(&mut self) {
        loop {
            match self.story.run() {
                Some(run) => {
                    self.ran.push(run.what);
                    // Telling, recording and letting go do not branch.
                    if !matches!(run.what, Effect::Ask | Effect::Record | Effect::Release) {
                        return;
                    }
                    let event = Event::Incident(IncidentEvent::Finished {
                        effect: run.effect,
                        report: EffectReport::Done,
                    });
                    self.story.salve(event).unwrap();
                }
                None if self.story.next() == IncidentMove::Choose => self.choose(),
                None => return,
            }
        }
    }

    /// Takes the next remedy of the plan that may be tried.
    fn choose(&mut self) {
        let names = ["a", "b", "c", "d"];
        let incident = &self.story.incident;
        let open = self.plan.iter().zip(names).find(|((kind, _), name)| {
            let remedy = remedy(*kind, name);
            let stuck = incident.is_stuck() && *kind != HardReset;
            incident.may_try(&remedy) && !stuck
        });
        match open {
            Some((&(kind, verdict), name)) => self.story.judge(kind, name, verdict),
            None => drop(self.story.salve(Event::Incident(IncidentEvent::NothingLeft {})).unwrap()),
        }
    }

    /// Lets things go on with always the same luck until they come to rest.
    fn rest(mut self, luck: &[Act]) -> IncidentMove {
        for _ in 0..100 {
            self.settle();
            if !matches!(self.story.incident.phase(), Phase::Doing { .. }) {
                return self.story.next();
            }
            let done = luck.iter().any(|act| attempt(&mut self.story, act).is_ok());
            assert!(done, "nothing ends {:?}", self.story.incident.phase());
        }
        panic!("goes on for ever: {:?}", self.story.incident.phase());
    }
}

/// Checks what must hold on every path.
fn check_path(path: &Path) {
    let Path { story, plan, ran } = path;
    for (number, effect) in ran.iter().enumerate() {
        let Effect::Apply { remedy: digest, on } = *effect else { continue };
        let at = ["a", "b", "c", "d"].iter().position(|name| remedy(Retry, name).digest == digest);
        match (plan[at.unwrap()].1, on) {
            (Allow, Authority::Gate) => {}
            (Ask, Authority::Approval(seq)) => {
                let approved = |entry: &&Entry| entry.seq == seq && entry.by.person().is_some();
                let entry = story.journal.iter().find(approved).unwrap();
                let Event::Incident(IncidentEvent::Approved { digest: about, .. }) = entry.event
                else {
                    panic!()
                };
                assert_eq!(about, digest);
            }
            (verdict, on) => panic!("{verdict:?} ran on {on:?}"),
        }
        let twice = ran[..number].contains(effect) && on != Authority::Gate;
        assert!(!twice, "an approval was used twice");
    }
    assert_eq!(Incident::replay(&story.journal).as_ref(), Ok(&story.incident));
    if let Phase::Closed(IncidentOutcome::Recovered(_)) = story.incident.phase() {
        let last = |what: fn(&Effect) -> bool| ran.iter().rposition(what);
        let verified = last(|effect| *effect == Effect::Verify);
        assert!(verified > last(|effect| matches!(effect, Effect::Apply { .. })));
    }
}

/// Checks that from here the incident ends or waits for someone named, with any luck.
fn check_rest(path: &Path) {
    let good = [Works, Is(1, 1), Found(Proof::Proven)];
    let bad = [Fails, Is(9, 9), Breaks(1, "tree")];
    let slow = [Hangs, Acts];
    for luck in [&good[..], &bad[..], &slow[..]] {
        match path.clone().rest(luck) {
            IncidentMove::Over => {}
            IncidentMove::Wait { on: Awaited::Person(name), until: None } => {
                assert!(["ada"].contains(&name.as_str()));
            }
            other => panic!("{other:?} in {:?}", path.story.incident.phase()),
        }
    }
}

/// Checks every path, and what follows from every state that was reached.
fn check_every_path(
    story: &TestIncident,
    plan: &[(RemedyKind, RemedyVerdict)],
    depth: usize,
) -> u64 {
    let mut reached = HashSet::new();
    every_path(story.clone(), plan, depth, &mut |path| {
        check_path(path);
        let mut state = path.story.incident.clone();
        state.last_seq = 0;
        if reached.insert(format!("{state:?}")) {
            check_rest(path);
        }
    })
}

/// **Invariant:** Every incident ends or waits for someone named.
#[test]
fn every_path_of_every_plan_is_sound() {
    let limits = ResourceLimits { attempts: Some(2), resets: Some(1), ..ResourceLimits::default() };
    let policy = IncidentPolicy { limits, no_progress_limit: Some(2), watch_ms: 1_000, ..policy() };
    let safe = TestIncident::new(policy.clone());
    let unsafe_ = TestIncident::with(policy.clone(), symptom(1, "tree"), Repeat::Unsafe);
    let closing =
        TestIncident::new(IncidentPolicy { at_a_loss: AtALoss::Close, cooldown_ms: 0, ..policy });
    let plans: [&[(RemedyKind, RemedyVerdict)]; 6] = [
        &[(Command, Allow), (Retry, Allow)],
        &[(Command, Ask), (Command, Deny)],
        &[(Agent, Allow), (HardReset, Allow)],
        &[(Patch, Ask), (Retry, Allow)],
        &[(Retry, Allow), (HardReset, Ask)],
        &[],
    ];
    for plan in plans {
        for story in [&safe, &unsafe_, &closing] {
            let paths = check_every_path(story, plan, 3);
            assert!(paths > 100 || plan.is_empty(), "{plan:?}: {paths}");
        }
    }
}

/// **Invariant:** Never an ungated remedy.
#[test]
fn a_denied_remedy_runs_on_no_path() {
    let denied = remedy(Command, "a").digest;
    let story = TestIncident::new(policy());
    let paths = every_path(story, &[(Command, Deny), (Patch, Allow)], 4, &mut |path| {
        let ran =
            |effect: &Effect| matches!(effect, Effect::Apply { remedy, .. } if *remedy == denied);
        assert!(!path.ran.iter().any(ran));
    });
    assert!(paths > 1_000, "{paths}");
}

#[test]
fn a_workspace_is_kept_before_it_is_changed_on_every_path() {
    let story = TestIncident::new(policy());
    every_path(story, &[(Command, Allow), (Patch, Allow)], 4, &mut |path| {
        let mut kept = false;
        for effect in &path.ran {
            match effect {
                Effect::Snapshot => kept = true,
                Effect::Apply { .. } => assert!(std::mem::take(&mut kept), "{:?}", path.ran),
                Effect::RollBack(Scope::Attempt | Scope::Incident) => {}
                Effect::Measure
                | Effect::VerifyInLayer
                | Effect::TakeOver
                | Effect::Verify
                | Effect::Ask
                | Effect::Record
                | Effect::Release => {}
            }
        }
    });
}
