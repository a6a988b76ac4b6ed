//! Clocks that jump: what the journal says happened in a time to come makes a loop neither wait for
//! ever nor forget its limits.

use jiff::{SignedDuration, Timestamp};
use salve_core::event::{Amounts, Entry, Event, LoopEvent, LoopTurn, Promise, RoleEnd};
use salve_core::scrub::Scrubber;

use crate::loops::{PROMISE, Rounds};
use crate::recovery::{Site, TOUCH};
use crate::recovery_resumed::{journal, rewrite};

/// Returns entries as a clock that was ahead by so much would have written them.
fn ahead(entries: &[Entry], by: SignedDuration) -> Vec<Entry> {
    let later = |at: Timestamp| at.saturating_add(by).unwrap();
    let moved = |entry: &Entry| {
        let mut entry = Entry { at: later(entry.at), ..entry.clone() };
        if let Event::Loop(LoopEvent::Turned {
            what: LoopTurn::RoleEnded { end: RoleEnd::Away { until, .. }, .. },
            ..
        }) = &mut entry.event
        {
            *until = later(*until);
        }
        entry
    };
    entries.iter().map(moved).collect()
}

fn years(years: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * 365 * years)
}

#[test]
fn a_loop_that_was_parked_by_a_clock_ahead_goes_on_in_its_time() {
    let rounds = Rounds::new(&[("implementer", "printf 5 > sum.txt"), ("reviewer", PROMISE)]);
    // It is stopped in the midst, so that there is something to go on with.
    rounds.project.write("salve.toml", "[loop.roles.planner]\ncommand = [\"no-such-agent\"]\n");
    rounds.run(&[]).expect(3, &["needs you"]);
    rounds.project.write("salve.toml", "");
    let mut entries = journal(&rounds.project);
    let last = entries.last_mut().unwrap();
    let Event::Loop(LoopEvent::Turned { what, .. }) = &mut last.event else { panic!("{last:?}") };
    let LoopTurn::RoleEnded { role, .. } = what.clone() else { panic!("{what:?}") };
    let until = last.at + SignedDuration::from_millis(300);
    let reason = Scrubber::new(salve_core::scrub::ScrubKey::new([1; 32])).scrub("no quota");
    let (end, spent) = (RoleEnd::Away { until, reason }, Amounts::default());
    *what = LoopTurn::RoleEnded { role, end, spent, promise: Promise::None };
    for by in [years(30), years(-30)] {
        rewrite(&rounds.project, &ahead(&entries, by));
        rounds.salve(&["loop", "status"]).expect(0, &["parked until"]);
        rounds.go_on().expect(0, &["completed"]);
        // The journal goes on where it was, and time never ran backwards in it.
        let times: Vec<Timestamp> = journal(&rounds.project)
            .iter()
            .filter(|entry| matches!(entry.event, Event::Loop(LoopEvent::Turned { .. })))
            .map(|entry| entry.at)
            .collect();
        assert!(times.is_sorted(), "{times:?}");
        rounds.project.write("sum.txt", "4");
    }
}

#[test]
fn a_tester_is_heard_though_the_clock_was_set_back_since_the_iteration_began() {
    let missing = "if [ ! -e part.txt ]; then echo \"Error: Cannot find module 'part'\"; exit 1; fi; \
                   echo '=== 1 passed in 0.01s ==='";
    let tester = r#"cat > "$cd_to/recovery.json" <<END
{"version": 1, "timestamp": "$(date -u +%Y-%m-%dT%H:%M:%SZ)", "category": "dependency",
 "severity": "blocking",
 "diagnosis": {"error_pattern": "Cannot find module", "root_cause": "it is not installed",
               "evidence": ["test-output.txt:1: Cannot find module"]},
 "recovery": {"command": "touch part.txt", "expected_outcome": "they start", "confidence": "high"}}
END"#;
    let rounds = Rounds::new(&[("tester", tester), ("reviewer", PROMISE)]);
    rounds.project.write("check.sh", missing);
    let recovery = "[playbook]\nauto = \"none\"\n[recovery]\nauto_approve = [\"touch part.txt\"]\n";
    let absent = "[loop.roles.tester]\ncommand = [\"no-such-agent\"]\n";
    rounds.project.write("salve.toml", format!("{recovery}{absent}"));
    rounds.run(&[]).expect(3, &["needs you"]);
    rounds.project.write("salve.toml", recovery);
    rewrite(&rounds.project, &ahead(&journal(&rounds.project), years(1)));
    rounds.run(&["--no-wait"]).expect(0, &["healed", "completed"]);
}

#[test]
fn limit_and_cooldown_hold_where_the_clock_was_ahead_and_the_cooldown_passes() {
    let rules = format!("auto_approve = [{TOUCH:?}]\nmax_auto_recoveries_per_run = 2\n");
    // However slow the machine is, this does not pass before it is shown to hold.
    let site = Site::new(&format!("{rules}cooldown_seconds = 3600"));
    site.propose(&Site::proposal(TOUCH));
    site.once(&["--no-wait"]).expect(0, &["healed"]);
    let first = ahead(&journal(&site.project), years(1));
    let again = || {
        std::fs::remove_file(site.project.dir().join("started")).unwrap();
        site.propose(&Site::proposal(TOUCH));
        site.once(&["--no-wait"])
    };
    // What ran in a year from now has just run, not will have for a year.
    rewrite(&site.project, &first);
    again().expect(3, &["needs you"]);
    let reason = site.json("escalation.json")["reason"].to_string();
    assert!(reason.contains("since the last"), "{reason}");
    site.salve(&["reject-recovery", "--loop", "shop"]).expect(0, &[]);
    site.once(&["--no-wait"]);
    // Once the cooldown has passed in whatever time the journal keeps, it may run again.
    let short = format!("version = 1\n[recovery]\n{rules}cooldown_seconds = 1\n");
    site.project.write("salve.toml", short);
    crate::support::wait_for("the cooldown", || {
        site.propose(&Site::proposal(TOUCH));
        let visit = site.once(&["--no-wait"]);
        if visit.code != Some(0) {
            site.salve(&["reject-recovery", "--loop", "shop"]);
            site.once(&["--no-wait"]);
        }
        visit.code == Some(0)
    });
    assert_eq!(site.ran(), 2);
    again().expect(3, &["needs you"]);
    let reason = site.json("escalation.json")["reason"].to_string();
    assert!(reason.contains("2 of 2 unattended commands"), "{reason}");
}
