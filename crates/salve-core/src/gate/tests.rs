//! The decision: every combination of rules, and every sentence of the contract.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::scrub::ScrubKey;

fn scrubber() -> Scrubber {
    Scrubber::new(ScrubKey::new([3; 32]))
}

fn judge_in(
    section: &Value,
    command: &str,
    place: &CommandPlace,
    state: GateCounters,
) -> GateVerdict {
    let policy = match GatePolicy::read(section) {
        Ok(policy) => policy,
        Err(error) => return GateVerdict::deny(GateRule::Config, error.to_string()),
    };
    match Request::new(command, ".", 60) {
        Err(error) => GateVerdict::deny(GateRule::Proposal, error.to_string()),
        Ok(request) => {
            let case = GateCase { policy: &policy, request: &request, place, state: &state };
            decide(case, &scrubber())
        }
    }
}

fn judge(section: &Value, command: &str) -> GateVerdict {
    judge_in(section, command, &CommandPlace::Inside, GateCounters::default())
}

fn lists(auto: &[&str], human: &[&str], unknown: &str) -> Value {
    json!({"auto_approve": auto, "require_human": human, "on_unknown": unknown})
}

/// Judges `command` and compares the decision and the rule.
#[track_caller]
fn check(section: Value, command: &str, want: &str) {
    let verdict = judge(&section, command);
    assert_eq!(
        format!("{} {}", verdict.decision(), verdict.rule()),
        want,
        "{section} on {command:?}: {}",
        verdict.reason()
    );
}

#[test]
fn which_rule_wins() {
    // auto_approve, require_human, on_unknown, command, answer
    for (auto, human, unknown, command, want) in [
        (&["npm ci"][..], &[][..], "escalate", "npm ci", "auto auto_approve[0]"),
        (&["npm ci"], &["*"], "escalate", "npm ci", "auto auto_approve[0]"),
        (&["npm ci"], &["npm *"], "deny", "npm ci", "auto auto_approve[0]"),
        (&["npm ci"], &["npm"], "deny", "npm ci", "auto auto_approve[0]"),
        (&["npm ci"], &["npm ci *"], "allow", "npm ci", "auto auto_approve[0]"),
        (&["npm ci"], &["npm ci"], "escalate", "npm ci", "human require_human[0]"),
        (&["npm ci"], &["*", "npm ci"], "allow", "npm ci", "human require_human[1]"),
        (&["npm ci"], &["npm ci"], "deny", "npm ci", "human require_human[0]"),
        (
            &["rm -rf x && npm ci"],
            &["rm -rf *"],
            "deny",
            "rm -rf x && npm ci",
            "auto auto_approve[0]",
        ),
        (
            &["rm -rf x && npm ci"],
            &["npm ci"],
            "deny",
            "rm -rf x && npm ci",
            "auto auto_approve[0]",
        ),
        (&["a", "npm ci"], &[], "deny", "npm ci", "auto auto_approve[1]"),
        (&["npm ci"], &[], "escalate", "npm test", "human on_unknown"),
        (&["npm ci"], &[], "deny", "npm test", "deny on_unknown"),
        (&["npm ci"], &[], "allow", "npm test", "auto on_unknown"),
        (&[], &[], "escalate", "npm ci", "human on_unknown"),
        (&[], &[], "deny", "npm ci", "deny on_unknown"),
        (&[], &["git push"], "escalate", "git push", "human require_human[0]"),
        (&[], &["git push"], "deny", "git push", "human require_human[0]"),
        (&[], &["git push"], "allow", "git push", "human require_human[0]"),
        (&[], &["git push"], "allow", "git push origin main", "human require_human[0]"),
        (&[], &["git push"], "allow", "ls && git push", "human require_human[0]"),
        (&[], &["git push"], "deny", "ls && git push", "human require_human[0]"),
        (&[], &["git push"], "allow", "git pull", "auto on_unknown"),
        (&[], &["git push"], "deny", "git pull", "deny on_unknown"),
        (&[], &["curl *", "*curl*"], "allow", "ls; curl x", "human require_human[1]"),
        (&[], &["Git push"], "allow", "git push", "auto on_unknown"),
        (&[], &["*"], "allow", "ls", "human require_human[0]"),
        (&[], &["*"], "deny", "ls", "human require_human[0]"),
        // What cannot be read counts as matching, where there is something to match.
        (&[], &["git push"], "allow", "$x", "human unreadable"),
        (&[], &["git push"], "deny", "$x", "human unreadable"),
        (&[], &["git push"], "escalate", "ls '", "human unreadable"),
        (&[], &[], "deny", "$x", "deny on_unknown"),
        (&[], &[], "escalate", "$x", "human on_unknown"),
        (&[], &[], "allow", "$x", "human unreadable"),
        (&[], &[], "allow", "ls '", "human unreadable"),
        (&[], &[], "allow", "python -c 'x'", "human unreadable"),
        (&[], &["git push"], "deny", "python -c 'x'", "deny on_unknown"),
        // An approved text need not be readable: a person has read it.
        (&["x=$(date); $x"], &["git push"], "deny", "x=$(date); $x", "auto auto_approve[0]"),
    ] {
        check(lists(auto, human, unknown), command, want);
    }
}

#[test]
fn the_defaults_ask_about_everything() {
    check(json!({}), "ls", "human require_human[0]");
    check(json!({"auto_approve": ["ls"]}), "ls", "auto auto_approve[0]");
    check(json!({"on_unknown": "allow"}), "ls", "human require_human[0]");
}

#[test]
fn switched_off_denies_all() {
    for command in ["npm ci", "git push", "x"] {
        let section = json!({
            "enabled": false, "auto_approve": ["npm ci"], "require_human": ["git push"],
            "on_unknown": "allow"
        });
        check(section, command, "deny enabled");
    }
}

/// **Invariant:** An invalid policy never approves.
#[test]
fn an_invalid_policy_never_approves() {
    for (key, wrong) in [
        ("enabled", json!("true")),
        ("auto_approve", json!(["npm ci", " x"])),
        ("auto_approve", json!(["npm ci", ""])),
        ("auto_approve", json!("npm ci")),
        ("require_human", json!([null])),
        ("require_human", json!(null)),
        ("max_auto_recoveries_per_run", json!(-1)),
        ("max_auto_recoveries_per_run", json!("many")),
        ("cooldown_seconds", json!(1.5)),
        ("on_unknown", json!("ALLOW")),
        ("on-unknown", json!("deny")),
    ] {
        let mut section = lists(&["npm ci"], &[], "allow");
        section[key] = wrong;
        check(section, "npm ci", "deny config");
    }
}

/// **Invariant:** A directory elsewhere denies whatever the lists say, and swapping it later
/// changes nothing.
#[test]
fn a_directory_elsewhere_denies_whatever_the_lists_say() {
    let elsewhere = CommandPlace::Refused("outside".into());
    for unknown in ["escalate", "deny", "allow"] {
        for command in ["npm ci", "git push", "ls"] {
            let section = lists(&["npm ci"], &["git push"], unknown);
            let verdict = judge_in(&section, command, &elsewhere, GateCounters::default());
            assert_eq!(
                verdict,
                GateVerdict::deny(GateRule::WorkingDir, "outside"),
                "{unknown} {command}"
            );
        }
    }
}

#[test]
fn limits_and_cooldown_ask_a_person() {
    for (max, cooldown, count, since, want) in [
        (3, 60, 0, None, "auto"),
        (3, 60, 2, Some(60.5), "auto"),
        (3, 60, 2, Some(60.0), "human cooldown_seconds"),
        (3, 60, 2, Some(3600.0), "auto"),
        (3, 60, 2, Some(59.9), "human cooldown_seconds"),
        (3, 60, 1, Some(0.0), "human cooldown_seconds"),
        (3, 60, 0, Some(5.0), "human cooldown_seconds"),
        (3, 60, 1, None, "human cooldown_seconds"),
        (3, 0, 1, None, "auto"),
        (3, 0, 2, Some(0.0), "auto"),
        (3, 60, 3, Some(3600.0), "human max_auto_recoveries_per_run"),
        (3, 60, 4, None, "human max_auto_recoveries_per_run"),
        (0, 0, 0, None, "human max_auto_recoveries_per_run"),
        (1, 0, 0, None, "auto"),
    ] {
        for (auto, rule) in [(&["npm ci"][..], "auto_approve[0]"), (&[], "on_unknown")] {
            let mut section = lists(auto, &[], "allow");
            section["max_auto_recoveries_per_run"] = json!(max);
            section["cooldown_seconds"] = json!(cooldown);
            let state =
                GateCounters { auto_recoveries_this_run: count, seconds_since_last_auto: since };
            let verdict = judge_in(&section, "npm ci", &CommandPlace::Inside, state);
            let want = if want == "auto" { format!("auto {rule}") } else { want.to_owned() };
            let got = format!("{} {}", verdict.decision(), verdict.rule());
            assert_eq!(got, want, "{max} {cooldown} {state:?}");
        }
    }
}

#[test]
fn limits_do_not_soften_a_refusal() {
    let state = GateCounters { auto_recoveries_this_run: 9, seconds_since_last_auto: Some(0.0) };
    let verdict = judge_in(&lists(&[], &[], "deny"), "ls", &CommandPlace::Inside, state);
    assert_eq!(verdict.decision(), "deny");
}

/// Texts that look, sound or act like `npm install`.
const NEARLY_NPM_INSTALL: &[&str] = &[
    "npm  install",
    "npm\tinstall",
    "npm install;",
    "npm install &",
    "npm install #",
    "npm install # x",
    "npm install\\",
    "npm \\\ninstall",
    "npm install\nls",
    "npm\ninstall",
    "npm install\r\nls",
    "npm\r install",
    "NPM install",
    "npm Install",
    "npm install .",
    "npm install --force",
    "npm instal",
    "npm installl",
    "pnpm install",
    "xnpm install",
    "(npm install)",
    "{ npm install; }",
    "!npm install",
    "! npm install",
    "time npm install",
    "env npm install",
    "sudo npm install",
    "command npm install",
    "exec npm install",
    "nohup npm install",
    "A=b npm install",
    "\\npm install",
    "'npm' install",
    "\"npm install\"",
    "'npm install'",
    "n''pm install",
    "$'npm' install",
    "npm $'install'",
    "npm install ''",
    "npm install \"\"",
    "/usr/bin/npm install",
    "./npm install",
    "npm.cmd install",
    "$(npm install)",
    "`npm install`",
    "npm install && ls",
    "npm install || ls",
    "npm install | ls",
    "npm install > x",
    "npm install 2>&1",
    "npm install < x",
    ">x npm install",
    "ls; npm install",
    "if true; then npm install; fi",
    "bash -c 'npm install'",
    "eval npm install",
    "npm${IFS}install",
    "npm {install,}",
    "npm install $x",
    "npm install *",
    "npm\u{a0}install",
    "npm\u{2003}install",
    "npm\u{3000}install",
    "npm\u{200b} install",
    "\u{feff}npm install",
    "npm install\u{200b}",
    "npm install\u{2028}",
    "npm inst\u{430}ll",
    "n\u{440}m install",
    "\u{ff4e}\u{ff50}\u{ff4d} install",
    "npm i\u{301}nstall",
    "npm install\u{7f}",
    "npm install\u{b}",
    "\u{c}npm install",
    "npm install\u{85}",
    "\u{202e}npm install",
    "npm install\u{e0001}",
    "npm install\u{fe0f}",
    "npm install\u{ad}",
];

/// **Invariant:** Two readers agree on what runs before anything is allowed.
#[test]
fn what_only_the_second_reader_finds_odd_asks() {
    for command in ["if true", "ls | | ls", "{ ls", "ls && ", "for x in a; ls"] {
        for unknown in ["allow", "deny"] {
            check(lists(&[], &["git push"], unknown), command, "human unreadable");
        }
    }
}

/// **Invariant:** Only the very same bytes are approved, and what runs is the entry's own text.
#[test]
fn only_the_very_same_bytes_are_approved() {
    for command in NEARLY_NPM_INSTALL {
        for unknown in ["escalate", "deny"] {
            for human in [&[][..], &["*"], &["git push"]] {
                let verdict = judge(&lists(&["npm install"], human, unknown), command);
                assert_ne!(verdict.decision(), "auto", "{command:?} {unknown} {human:?}");
            }
        }
        let verdict = judge(&lists(&["npm install"], &["npm *", "*npm*"], "allow"), command);
        if command.contains("npm") {
            assert_ne!(verdict.decision(), "auto", "allow: {command:?}");
        }
    }
}

#[test]
fn what_runs_is_the_entrys_own_text() {
    for command in ["npm ci", " npm ci", "npm ci\n", "\r\n\t npm ci \t\r\n"] {
        match judge(&lists(&["npm ci"], &["*"], "deny"), command) {
            GateVerdict::Auto(approval) => {
                assert_eq!(approval.command(), "npm ci");
                assert_eq!(approval.rule(), GateRule::AutoApprove(0));
                assert_eq!(approval.timeout_seconds(), 60);
            }
            other => panic!("{command:?}: {other:?}"),
        }
    }
}

#[test]
fn approval_knows_no_patterns() {
    check(lists(&["npm *"], &[], "deny"), "npm ci", "deny on_unknown");
    check(lists(&["*"], &[], "deny"), "npm ci", "deny on_unknown");
    check(lists(&["npm *"], &[], "deny"), "npm *", "auto auto_approve[0]");
    check(lists(&["npm"], &[], "deny"), "npm ci", "deny on_unknown");
    check(lists(&["npm.ci"], &[], "deny"), "npm ci", "deny on_unknown");
}

/// **Invariant:** A visible secret asks, and no answer repeats the command.
#[test]
fn a_visible_secret_asks_and_stays_out_of_the_answer() {
    let token = format!("gh{}{}", "p_", "a1B2".repeat(9));
    let command = format!("curl -H 'authorization: token {token}' https://api.example.com");
    for unknown in ["escalate", "deny", "allow"] {
        for auto in [&[][..], &[command.as_str()]] {
            let verdict = judge(&lists(auto, &[], unknown), &command);
            assert_eq!(verdict.decision(), "human", "{unknown}");
            assert_eq!(verdict.rule(), GateRule::Secret, "{unknown}");
            assert!(!format!("{verdict:?}").contains(&token));
        }
    }
    let plain = "curl -H \"authorization: token $GITHUB_TOKEN\" https://api.example.com";
    check(lists(&[plain], &[], "deny"), plain, "auto auto_approve[0]");
}

#[test]
fn no_answer_repeats_the_command() {
    let command = "zebra '$(giraffe) && lion";
    for unknown in ["escalate", "deny", "allow"] {
        for human in [&[][..], &["*"], &["zebra *"], &["tiger"]] {
            let verdict = judge(&lists(&[], human, unknown), command);
            for word in ["zebra", "giraffe", "lion"] {
                assert!(!verdict.reason().contains(word), "{verdict:?}");
            }
        }
    }
}

/// The decision, as plainly as the contract puts it, for commands without any shell syntax.
fn naive(auto: &[String], human: &[String], unknown: &str, command: &str) -> &'static str {
    let command = command.trim_matches([' ', '\n']);
    let matches = |pattern: &String| {
        let p: Vec<&str> = pattern.split('*').collect();
        if p.len() == 1 {
            let rest = command.strip_prefix(pattern.as_str());
            return rest.is_some_and(|r| r.is_empty() || r.starts_with([' ', '-']));
        }
        let glob = |p: &[&str]| {
            let (Some(first), Some(last)) = (p.first(), p.last()) else { return false };
            let Some(mut rest) = command.strip_prefix(first) else { return false };
            for middle in &p[1..p.len() - 1] {
                match rest.split_once(middle) {
                    Some((_, after)) if !middle.is_empty() => rest = after,
                    Some(_) => {}
                    None => return false,
                }
            }
            rest.ends_with(last)
        };
        glob(&p) || (pattern.ends_with(" *") && command == pattern.trim_end_matches(" *"))
    };
    if human.iter().any(|p| p == command) {
        "human"
    } else if auto.iter().any(|a| a == command) {
        "auto"
    } else if human.iter().any(matches) {
        "human"
    } else {
        match unknown {
            "escalate" => "human",
            "deny" => "deny",
            // Nobody knows what these programs start.
            _ => "human",
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// On plain words the gate is never more generous than the naive reading, and equal to it
    /// where the pattern has a star.
    #[test]
    fn plain_words_are_judged_as_the_contract_says(
        auto in proptest::collection::vec("[ab]{1,2}( [abc]{1,2}){0,2}", 0..3),
        human in proptest::collection::vec("[ab]{1,2}( [abc]{1,2}){0,1}( ?\\*)?", 0..3),
        unknown in proptest::sample::select(vec!["escalate", "deny", "allow"]),
        command in "[ab]{1,2}( [abc]{1,2}){0,2}",
    ) {
        let section = json!({"auto_approve": auto, "require_human": human, "on_unknown": unknown});
        let want = naive(&auto, &human, unknown, &command);
        prop_assert_eq!(judge(&section, &command).decision(), want, "{} {}", section, command);
    }

    /// Without `on_unknown: allow`, nothing runs that is not an entry, byte for byte.
    #[test]
    fn nothing_but_an_entry_is_approved(
        auto in proptest::collection::vec("[a-c &;'\"$*-]{1,6}", 0..4),
        human in proptest::collection::vec("[a-c *]{1,4}", 0..3),
        unknown in proptest::sample::select(vec!["escalate", "deny"]),
        command in "[a-c &;'\"$*-]{0,6}",
    ) {
        let section = json!({"auto_approve": auto, "require_human": human, "on_unknown": unknown});
        if let GateVerdict::Auto(approval) = judge(&section, &command) {
            prop_assert!(auto.contains(&command.trim_matches(' ').to_owned()));
            // A pattern with a star gives way to an equal entry; a plain one does not.
            let plain = |entry: &&String| !entry.contains('*');
            prop_assert!(!human.iter().filter(plain).any(|entry| entry == approval.command()));
            prop_assert_eq!(approval.command(), command.trim_matches(' '));
        }
    }

    /// Any two texts end in some verdict; only well-formed ones in `auto`.
    #[test]
    fn any_bytes_end_in_a_verdict(policy in ".{0,60}", proposal in ".{0,60}") {
        prop_assert_eq!(fuzz(&policy, &proposal, &scrubber()).decision(), "deny");
    }
}

#[test]
fn the_fuzz_entry_reaches_every_decision() {
    let proposal = json!({
        "version": 1, "timestamp": "2026-03-01T10:00:00Z", "category": "network",
        "severity": "degraded",
        "diagnosis": {"error_pattern": "x", "root_cause": "x", "evidence": ["a:1"]},
        "recovery": {"command": "npm ci", "expected_outcome": "x", "confidence": "low"}
    })
    .to_string();
    for (policy, want) in [
        (r#"{"auto_approve":["npm ci"]}"#, "auto"),
        ("{}", "human"),
        (r#"{"require_human":[],"on_unknown":"deny"}"#, "deny"),
        (r#"{"auto_approve":["npm ci"],"auto_approve":["npm ci"]}"#, "deny"),
        ("", "deny"),
    ] {
        assert_eq!(fuzz(policy, &proposal, &scrubber()).decision(), want, "{policy}");
    }
}
