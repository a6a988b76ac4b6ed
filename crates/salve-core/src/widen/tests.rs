use proptest::prelude::*;

use super::*;
use crate::event::{Actor, ConfigEvent, Digest, Entry, Event, Process};
use crate::gate::{self, CommandPlace, GateCase, GateCounters, GatePolicy, GateVerdict, Request};
use crate::scrub::{ScrubKey, Scrubber};

const WORDS: [&str; 4] = ["npm ci", "git push", "rm -rf *", "*"];

fn list(items: &[&'static str]) -> RuleValue {
    RuleValue::List(items.iter().map(|item| Scrubbed::literal(item)).collect())
}

fn word(word: &'static str) -> RuleValue {
    RuleValue::Word(Scrubbed::literal(word))
}

/// Any value that a setting with this bearing may have.
fn term(bearing: Bearing) -> BoxedStrategy<RuleValue> {
    match bearing {
        Bearing::Off | Bearing::On => any::<bool>().prop_map(RuleValue::Flag).boxed(),
        Bearing::Lower | Bearing::Higher | Bearing::None => {
            (0..4u64).prop_map(RuleValue::Number).boxed()
        }
        Bearing::Fewer | Bearing::More => prop::sample::subsequence(&WORDS[..], 0..=WORDS.len())
            .prop_shuffle()
            .prop_map(|items| list(&items))
            .boxed(),
        Bearing::Earlier(order) => prop::sample::select(order.to_vec()).prop_map(word).boxed(),
        Bearing::Unset => {
            prop_oneof![Just(RuleValue::Unset), prop::sample::select(WORDS.to_vec()).prop_map(word)]
                .boxed()
        }
    }
}

fn rules() -> impl Strategy<Value = UnattendedRules> {
    let each: Vec<_> = BEARINGS.iter().map(|&(_, bearing)| term(bearing)).collect();
    each.prop_map(|terms| {
        BEARINGS.iter().zip(terms).map(|(&(name, _), term)| (name.to_owned(), term)).collect()
    })
}

fn names<'a>(differences: impl Iterator<Item = Difference<'a>>) -> Vec<(&'a str, bool)> {
    differences.map(|difference| (difference.name, difference.wider)).collect()
}

proptest! {
    /// **Invariant:** The strictest of two rule sets is never wider than either.
    #[test]
    fn the_strictest_is_never_wider_than_either(old in rules(), new in rules()) {
        let strict = strictest(&old, &new);
        prop_assert!(!widens(&old, &strict), "{strict:?} against the old {old:?}");
        prop_assert!(!widens(&new, &strict), "{strict:?} against the new {new:?}");
    }

    #[test]
    fn what_only_narrows_holds_as_it_is(old in rules(), new in rules()) {
        let strict = strictest(&old, &new);
        if !widens(&old, &new) {
            prop_assert_eq!(names(compare(&strict, &new)), []);
        }
        let swapped = strictest(&new, &old);
        prop_assert_eq!(names(compare(&swapped, &strict)), []);
        prop_assert_eq!(names(compare(&old, &old)), []);
    }

    #[test]
    fn one_rule_made_wider_is_noticed(old in rules(), new in rules(), at in any::<prop::sample::Index>()) {
        let (name, bearing) = BEARINGS[at.index(BEARINGS.len())];
        let mut changed = old.clone();
        changed.insert(name.to_owned(), new[name].clone());
        let expected = is_wider(bearing, &old[name], &new[name]);
        prop_assert_eq!(widens(&old, &changed), expected, "{}", name);
    }
}

/// The recovery section that these rules stand for.
fn policy(rules: &UnattendedRules) -> GatePolicy {
    let section = BEARINGS.iter().filter_map(|(name, _)| {
        let value = match &rules[*name] {
            RuleValue::Unset => serde_json::Value::Null,
            RuleValue::Flag(flag) => (*flag).into(),
            RuleValue::Number(number) => (*number).into(),
            RuleValue::Word(word) => word.as_str().into(),
            RuleValue::List(entries) => entries.iter().map(Scrubbed::as_str).collect(),
        };
        // How a command is held is not the gate's to judge.
        let name = name.strip_prefix("recovery.").filter(|name| !name.contains('.'))?;
        Some((name.to_owned(), value))
    });
    GatePolicy::read(&serde_json::Value::Object(section.collect())).unwrap()
}

fn runs_unattended(rules: &UnattendedRules, command: &str, state: &GateCounters) -> bool {
    let scrubber = Scrubber::new(ScrubKey::new([1; 32]));
    let request = Request::new(command, ".", 60).unwrap();
    let policy = policy(rules);
    let case = GateCase { policy: &policy, request: &request, place: &CommandPlace::Inside, state };
    matches!(gate::decide(case, &scrubber), GateVerdict::Auto(_))
}

proptest! {
    #[test]
    fn the_gate_approves_under_the_strictest_only_what_it_approves_under_both(
        old in rules(),
        new in rules(),
        command in prop::sample::select(vec![
            "npm ci", "git push", "git push origin main", "rm -rf x", "npm ci && git push", "ls",
        ]),
        recoveries in 0..5u64,
        seconds in prop::option::of(0..5u32),
    ) {
        let state = GateCounters {
            auto_recoveries_this_run: recoveries,
            seconds_since_last_auto: seconds.map(f64::from),
        };
        if runs_unattended(&strictest(&old, &new), command, &state) {
            prop_assert!(runs_unattended(&old, command, &state), "wider than the old");
            prop_assert!(runs_unattended(&new, command, &state), "wider than the new");
        }
    }

    #[test]
    fn what_does_not_widen_lets_the_gate_approve_nothing_more(
        old in rules(),
        at in prop::collection::vec((any::<prop::sample::Index>(), rules()), 1..3),
        command in prop::sample::select(WORDS.to_vec()),
    ) {
        let mut new = old.clone();
        for (index, other) in at {
            let name = BEARINGS[index.index(BEARINGS.len())].0;
            new.insert(name.to_owned(), other[name].clone());
        }
        let state = GateCounters { auto_recoveries_this_run: 0, seconds_since_last_auto: None };
        if !widens(&old, &new) && runs_unattended(&new, command, &state) {
            prop_assert!(runs_unattended(&old, command, &state));
        }
    }
}

#[test]
fn each_bearing_knows_its_wider_side() {
    #[track_caller]
    fn check(name: &str, strict: RuleValue, loose: RuleValue) {
        let bearing = bearing(name).unwrap();
        assert!(is_wider(bearing, &strict, &loose), "{name}: {strict:?} → {loose:?}");
        assert!(!is_wider(bearing, &loose, &strict), "{name}: {loose:?} → {strict:?}");
        assert_eq!(stricter(bearing, &strict, &loose), strict);
        assert_eq!(stricter(bearing, &loose, &strict), strict);
    }
    check("recovery.enabled", RuleValue::Flag(false), RuleValue::Flag(true));
    check("recovery.auto_approve", list(&[]), list(&["npm ci"]));
    check("recovery.require_human", list(&["*"]), list(&[]));
    check("recovery.max_auto_recoveries_per_run", RuleValue::Number(3), RuleValue::Number(4));
    check("recovery.cooldown_seconds", RuleValue::Number(60), RuleValue::Number(5));
    check("recovery.on_unknown", word("deny"), word("escalate"));
    check("recovery.on_unknown", word("escalate"), word("allow"));
    check("playbook.auto", word("none"), word("safe"));
    check("agent.repair", RuleValue::Flag(false), RuleValue::Flag(true));
    check("repair.max_files", RuleValue::Number(8), RuleValue::Number(80));
    check("repair.cooldown_ms", RuleValue::Number(600_000), RuleValue::Number(0));
    check("agent.autostart", RuleValue::Flag(false), RuleValue::Flag(true));
    check("server.liveness", RuleValue::Flag(true), RuleValue::Flag(false));
    check("servers", list(&["web = npm start"]), list(&["web = npm start", "api = x"]));
    check("auto_heal.vpn_script", RuleValue::Unset, word("./vpn"));
}

#[test]
fn an_exchanged_program_is_wider_both_ways_and_neither_runs_meanwhile() {
    let bearing = bearing("auto_heal.vpn_script").unwrap();
    assert!(is_wider(bearing, &word("./a"), &word("./b")));
    assert_eq!(stricter(bearing, &word("./a"), &word("./b")), RuleValue::Unset);
}

#[test]
fn the_names_are_sorted_and_unique() {
    assert!(BEARINGS.is_sorted_by(|a, b| a.0 < b.0));
}

fn of(pairs: &[(&str, RuleValue)]) -> UnattendedRules {
    pairs.iter().map(|(name, term)| ((*name).to_owned(), term.clone())).collect()
}

fn cooldown(seconds: u64) -> UnattendedRules {
    of(&[("recovery.cooldown_seconds", RuleValue::Number(seconds))])
}

fn salve() -> Actor {
    Actor::Salve(Process { pid: 7, started: 1, host: Scrubbed::literal("here") })
}

fn person() -> Actor {
    Actor::Person { name: Scrubbed::literal("ada") }
}

fn agent() -> Actor {
    Actor::Agent { name: Scrubbed::literal("claude") }
}

/// Reads events in order, numbered from 1.
fn standing(events: &[(Actor, Event)]) -> SettingsStanding {
    let mut standing = SettingsStanding::default();
    for (seq, (by, event)) in (1..).zip(events) {
        let at = jiff::Timestamp::UNIX_EPOCH;
        let (by, event) = (by.clone(), event.clone());
        standing.take(&Entry { seq, at, by, incident: None, event, seal: None });
    }
    standing
}

fn guarded(seconds: u64) -> (Actor, Event) {
    (salve(), Event::Config(ConfigEvent::Guarded { rules: cooldown(seconds) }))
}

fn pending(name: &str, seconds: u64) -> (Actor, Event) {
    let (digest, changes) = (Digest::of(&[name.as_bytes()]), vec![]);
    (salve(), Event::Config(ConfigEvent::Pending { digest, changes, rules: cooldown(seconds) }))
}

fn accepted(by: Actor, name: &str) -> (Actor, Event) {
    (by, Event::Config(ConfigEvent::Accepted { digest: Digest::of(&[name.as_bytes()]) }))
}

fn released(guard: u64) -> (Actor, Event) {
    (salve(), Event::Config(ConfigEvent::Released { guard }))
}

#[test]
fn without_an_agent_every_change_applies() {
    assert_eq!(standing(&[]).rule(&cooldown(0)), Ruling::Apply);
    let after = standing(&[guarded(60), released(1)]);
    assert_eq!(after.rule(&cooldown(0)), Ruling::Apply);
}

#[test]
fn while_an_agent_runs_the_wider_waits_and_the_stricter_holds() {
    let running = standing(&[guarded(60)]);
    assert_eq!(running.rule(&cooldown(5)), Ruling::Wait(cooldown(60)));
    assert_eq!(running.rule(&cooldown(90)), Ruling::Apply);
    let two = standing(&[guarded(60), guarded(5), released(1)]);
    assert_eq!(two.rule(&cooldown(5)), Ruling::Wait(cooldown(60)), "the first guard's rules");
}

#[test]
fn what_waits_goes_on_waiting_after_the_agent_has_ended() {
    let ended = standing(&[guarded(60), pending("wide", 5), released(1)]);
    assert_eq!(ended.rule(&cooldown(5)), Ruling::Wait(cooldown(60)));
    assert!(ended.waiting().is_some());
    let again = standing(&[guarded(60), pending("wide", 5), released(1), guarded(5)]);
    assert_eq!(again.rule(&cooldown(5)), Ruling::Wait(cooldown(60)));
}

/// **Invariant:** Only a person accepts a widening change, and only exactly what waits.
#[test]
fn only_a_person_accepts_and_only_what_waits() {
    let story = [guarded(60), pending("wide", 5)];
    let with = |last| standing(&[&story[..], &[last]].concat());
    assert_eq!(with(accepted(person(), "wide")).rule(&cooldown(5)), Ruling::Apply);
    assert_eq!(with(accepted(person(), "wide")).rule(&cooldown(4)), Ruling::Wait(cooldown(5)));
    for wrong in [
        accepted(agent(), "wide"),
        accepted(salve(), "wide"),
        accepted(Actor::Person { name: Scrubbed::literal(" ") }, "wide"),
        accepted(person(), "other"),
        pending("wider still", 1),
        (agent(), Event::Config(ConfigEvent::Released { guard: 1 })),
        (
            agent(),
            Event::Config(ConfigEvent::Changed { digest: Digest::of(&[b"wide"]), changes: vec![] }),
        ),
    ] {
        let after = with(wrong.clone());
        assert_eq!(after.rule(&cooldown(5)), Ruling::Wait(cooldown(60)), "{wrong:?}");
        assert!(after.waiting().is_some(), "{wrong:?}");
    }
}

#[test]
fn an_old_acceptance_does_not_hold_for_a_later_agent() {
    let later = standing(&[
        guarded(60),
        pending("wide", 5),
        accepted(person(), "wide"),
        released(1),
        guarded(60),
    ]);
    assert_eq!(later.rule(&cooldown(5)), Ruling::Wait(cooldown(60)));
}
