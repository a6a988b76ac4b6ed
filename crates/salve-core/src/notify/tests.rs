//! Addresses, answers, and what is said.

use std::net::IpAddr;
use std::time::Duration;

use super::*;
use crate::event::{EffectReport, RemedyKind, RemedyVerdict};
use crate::incident::testing::{TestIncident, policy};
use crate::view::IncidentView;

#[test]
fn only_the_worlds_addresses_are_public() {
    let public = ["1.1.1.1", "8.8.8.8", "100.63.0.1", "100.128.0.1", "172.15.0.1", "172.32.0.1"];
    let public_v6 = ["2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"];
    for ip in public.iter().chain(&public_v6) {
        assert!(is_public(ip.parse().unwrap()), "{ip}");
    }
    let own = [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.127.255.255",
        "169.254.169.254",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001::1",
        "2001:db8::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "100::1",
        "3fff::1",
        "4000::1",
    ];
    for ip in own {
        assert!(!is_public(ip.parse::<IpAddr>().unwrap()), "{ip}");
    }
}

#[test]
fn what_may_pass_is_tried_again_later_and_later_and_what_will_not_is_not() {
    let status = |code| TargetAnswer::Status { code, retry_after: None };
    let seconds = Duration::from_secs;
    for code in [200, 201, 204, 299] {
        assert_eq!(after(1, status(code), 0), After::Delivered);
    }
    for code in [301, 302, 307, 400, 401, 403, 404, 410, 422, 100, 600] {
        assert_eq!(after(1, status(code), 0), After::Hopeless, "{code}");
    }
    assert_eq!(after(1, TargetAnswer::Forbidden, 0), After::Hopeless);
    for answer in
        [status(500), status(503), status(408), status(425), status(429), TargetAnswer::None]
    {
        let mut last = Duration::ZERO;
        for attempt in 1..=8 {
            let After::Again(soonest) = after(attempt, answer, 0) else { panic!("{answer:?}") };
            let After::Again(latest) = after(attempt, answer, 255) else { panic!("{answer:?}") };
            assert!(soonest > last && latest == soonest.mul_f64(1.25), "{answer:?} {attempt}");
            last = latest;
        }
        assert_eq!(after(9, answer, 0), After::Enough);
        assert_eq!(after(u32::MAX, answer, 0), After::Enough);
    }
    let wishes = |wish| {
        let answer = TargetAnswer::Status { code: 429, retry_after: Some(seconds(wish)) };
        after(1, answer, 0)
    };
    assert_eq!(wishes(0), After::Again(seconds(1)));
    assert_eq!(wishes(17), After::Again(seconds(17)));
    assert_eq!(wishes(u64::MAX), After::Again(seconds(3_600)));
}

/// Returns the last entry of a story, with what is said about it.
fn said(story: &TestIncident) -> (NoticeMessage, Option<Banner>) {
    let view = IncidentView::of(story.journal.clone()).unwrap();
    let last = story.journal.last().unwrap();
    let message = NoticeMessage::of(last, Some(&view), &NoticeLinks::default(), "shop").unwrap();
    (message, banner(last, &view))
}

/// **Invariant:** A message has no log text.
#[test]
fn an_escalation_says_what_is_asked_and_how_to_answer_and_no_line_of_a_log() {
    let mut story = TestIncident::new(policy());
    story.judge(RemedyKind::Command, "rm -rf dist", RemedyVerdict::Ask);
    story.run().unwrap();
    let (message, banner) = said(&story);
    let body: serde_json::Value = serde_json::from_str(&message.body()).unwrap();
    assert_eq!(body["type"], "salve.escalation");
    assert_eq!(body["text"], body["content"]);
    let text = body["text"].as_str().unwrap();
    assert!(text.starts_with("shop: server web needs you (heal-00000000)."), "{text}");
    assert!(text.ends_with("salve approve 00000000 --question 1"), "{text}");
    let commands = body["data"]["commands"].as_array().unwrap();
    let commands: Vec<_> = commands.iter().map(|one| one["command"].as_str().unwrap()).collect();
    assert_eq!(commands[1], "salve reject 00000000 --question 1");
    assert_eq!(commands[3], "salve show 00000000");
    assert_eq!(body["data"]["question"]["person"], "ada");
    assert!(!message.body().contains("it broke"), "{}", message.body());
    let banner = banner.unwrap();
    assert_eq!(banner.title, "server web needs you");
    assert!(banner.text.contains("`rm -rf dist`") && !banner.text.contains("it broke"));
}

#[test]
fn quick_healing_is_worth_no_notice_and_what_took_more_is() {
    let heal = |attempts| {
        let mut story = TestIncident::new(policy());
        for attempt in 1..=attempts {
            story.judge(RemedyKind::Retry, "restart", RemedyVerdict::Allow);
            let run = story.run().unwrap();
            let proof = if attempt == attempts {
                crate::event::Proof::Proven
            } else {
                crate::event::Proof::Failed
            };
            let symptom = crate::incident::testing::symptom(1, "tree");
            let symptom = (attempt < attempts).then(|| Box::new(symptom));
            let report = EffectReport::Verified { proof, symptom };
            story
                .salve(Event::Incident(IncidentEvent::Finished { effect: run.effect, report }))
                .unwrap();
        }
        let crate::incident::IncidentMove::Write(event) = story.next() else { panic!() };
        assert!(matches!(event, Event::Incident(IncidentEvent::Ended { .. })));
        story.salve(event).unwrap();
        story
    };
    let view = |story: &TestIncident| IncidentView::of(story.journal.clone()).unwrap();
    let (quick, again) = (heal(1), heal(2));
    assert!(!is_worth_telling(&view(&quick)) && is_worth_telling(&view(&again)));
    let (message, none) = said(&quick);
    assert!(message.body().contains("\"proof\":\"proven\""), "{}", message.body());
    assert_eq!(none, None);
    let (_, some) = said(&again);
    assert_eq!(some.unwrap().title, "server web has healed");
}

#[test]
fn settings_are_told_line_by_line_and_not_without_end() {
    let changes = vec![crate::scrub::Scrubbed::literal("recovery.cooldown_seconds: 60 → 5"); 50];
    let event = Event::Config(ConfigEvent::Changed { digest: Digest::of(&[b"x"]), changes });
    let by = crate::incident::testing::person("ada");
    let at = crate::incident::testing::time(5);
    let draft = crate::event::Draft { at, by, incident: None, event };
    let entry = draft.at_seq(3);
    let body = NoticeMessage::of(&entry, None, &NoticeLinks::default(), "shop").unwrap().body();
    assert_eq!(body.matches("cooldown_seconds").count(), 20, "{body}");
    assert_eq!(message_id(&entry), message_id(&entry.clone()));
    assert_ne!(message_id(&entry), message_id(&Entry { seq: 4, ..entry.clone() }));
    assert!(
        NoticeMessage::of(
            &Entry { event: Event::Incident(IncidentEvent::Released {}), ..entry },
            None,
            &NoticeLinks::default(),
            "shop"
        )
        .is_none()
    );
}

#[test]
fn quiet_hours_may_pass_midnight() {
    let left = |hours: &str, minute: u16| {
        let hours: QuietHours = hours.parse().unwrap();
        hours.left(minute).map(|left| left.as_secs() / 60)
    };
    for (hours, minute, want) in [
        ("22:00-07:00", 22 * 60, Some(540)),
        ("22:00-07:00", 23 * 60 + 59, Some(421)),
        ("22:00-07:00", 0, Some(420)),
        ("22:00-07:00", 7 * 60 - 1, Some(1)),
        ("22:00-07:00", 7 * 60, None),
        ("22:00-07:00", 21 * 60 + 59, None),
        ("12:00-13:00", 12 * 60 + 30, Some(30)),
        ("12:00-13:00", 13 * 60, None),
        ("9:30 - 9:45", 9 * 60 + 30, Some(15)),
    ] {
        assert_eq!(left(hours, minute), want, "{hours} at minute {minute}");
    }
    for bad in
        ["", "22:00", "22-07", "24:00-07:00", "22:60-07:00", "22:00-22:00", "-1:00-2:00", "x"]
    {
        assert_eq!(bad.parse::<QuietHours>(), Err(BadQuietHours), "{bad}");
    }
    let said = "9:05-17:00".parse::<QuietHours>().unwrap();
    assert_eq!(said.to_string(), "09:05-17:00");
}

#[test]
fn the_pages_address_is_an_origin_and_nothing_more() {
    for (text, origin, beyond) in [
        ("https://box.example", "https://box.example", true),
        ("https://Box.example:8443/", "https://box.example:8443", true),
        ("http://127.0.0.1:7717", "http://127.0.0.1:7717", false),
        ("http://localhost:7717", "http://localhost:7717", false),
        ("http://[::1]:7717", "http://[::1]:7717", false),
        ("http://192.168.1.4:7717", "http://192.168.1.4:7717", true),
    ] {
        let address: PublicAddress = text.parse().unwrap();
        assert_eq!((address.origin(), address.is_beyond_this_machine()), (origin.into(), beyond));
    }
    for bad in ["box.example", "ftp://x", "https://", "https://a/b", "https://a?b", "https://u@a"] {
        assert_eq!(bad.parse::<PublicAddress>(), Err(BadPublicAddress), "{bad}");
    }
}

#[test]
fn a_message_leads_to_the_page_and_a_question_to_its_answer() {
    let mut story = TestIncident::new(policy());
    story.judge(RemedyKind::Command, "make clean", RemedyVerdict::Ask);
    story.run().unwrap();
    let entry = story.journal.last().unwrap().clone();
    let view = IncidentView::of(story.journal.clone()).unwrap();
    let links = NoticeLinks {
        page: Some("https://box.example/incidents/1".into()),
        answer: Some("https://box.example/answer#c0de".into()),
    };
    let message = NoticeMessage::of(&entry, Some(&view), &links, "shop").unwrap();
    let body: serde_json::Value = serde_json::from_str(&message.body()).unwrap();
    assert_eq!(body["data"]["links"]["answer"], "https://box.example/answer#c0de");
    assert!(body["text"].as_str().unwrap().ends_with("https://box.example/answer#c0de"), "{body}");
    let ntfy = message.ntfy();
    assert_eq!((ntfy.title.as_str(), ntfy.priority), ("shop", 4));
    assert!(ntfy.text.contains("needs you"), "{ntfy:?}");
    assert_eq!(ntfy.click.as_deref(), Some("https://box.example/answer#c0de"));
}
