//! The pieces that several sections share.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use salve_core::event::{Amounts, Proof, RemedyKind, RemedyOrigin, RemedyVerdict};
use salve_core::playbook::PlaybookFinding;
use salve_core::repair::RepairStanding;
use salve_core::view::{RemedyResult, RemedyTried};

use crate::web::views::{ChangePlace, IncidentDetails, IncidentRow};
use crate::web::visible::visible;

/// Returns a state's word and the class that colours it.
pub(super) fn state_word(state: RepairStanding) -> (&'static str, &'static str) {
    match state {
        RepairStanding::Healing => ("healing", "busy"),
        RepairStanding::AwaitingAgent => ("waits for an agent", "busy"),
        RepairStanding::NeedsHuman => ("needs you", "bad"),
        RepairStanding::Cooldown => ("cooling down", "warn"),
        RepairStanding::Deserted => ("left alone", "warn"),
        RepairStanding::Recovered => ("recovered", "good"),
        RepairStanding::Resolved => ("settled", "good"),
        RepairStanding::GivenUp => ("given up", "bad"),
        RepairStanding::Unhealed => ("unhealed", "bad"),
        RepairStanding::Aborted => ("called off", "warn"),
    }
}

/// Returns a badge that tells a state, with what was proven where that is known.
pub(super) fn badge(state: RepairStanding, proof: Option<Proof>) -> Markup {
    let (word, class) = state_word(state);
    html! {
        span class={ "badge " (class) } {
            (word)
            @if let Some(word) = proof.and_then(proof_word) { ", " (word) }
        }
    }
}

/// Returns what verification found, where that is more than that it is well.
pub(super) fn proof_word(proof: Proof) -> Option<&'static str> {
    match proof {
        Proof::Proven => Some("proven"),
        // Whether it was the remedy or the passing of time, nothing shows.
        Proof::Transient => None,
        Proof::Flaky => Some("flaky"),
        Proof::Masked => Some("masked"),
        Proof::Failed => Some("failed"),
    }
}

/// Returns a time that the browser keeps telling as long ago.
pub(super) fn ago(at: Timestamp) -> Markup {
    html! { time data-ago datetime=(at.to_string()) { (clock(at)) } }
}

/// Returns a time since which something lasts, told by the browser as how long that is.
pub(super) fn lasting_since(at: Timestamp) -> Markup {
    html! { time data-ago="span" datetime=(at.to_string()) { "since " (clock(at)) } }
}

/// Returns a time of day, with its day where that is not today.
pub(super) fn clock(at: Timestamp) -> String {
    let (at, now) =
        (at.to_zoned(TimeZone::system()), Timestamp::now().to_zoned(TimeZone::system()));
    let shape = match (at.date() == now.date(), at.year() == now.year()) {
        (true, _) => "%H:%M:%S",
        (false, true) => "%-d %b %H:%M:%S",
        (false, false) => "%-d %b %Y %H:%M:%S",
    };
    at.strftime(shape).to_string()
}

/// Returns a moment with its day, by this machine's clock.
pub(super) fn local_time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%A %H:%M").to_string()
}

/// Returns a duration in words that stay short.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// Returns a count with its noun.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns a share in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Returns what was spent, in words.
pub(super) fn cost(spent: Amounts) -> Option<String> {
    let mut parts = Vec::new();
    if spent.tokens > 0 {
        parts.push(format!("{} tokens", spent.tokens));
    }
    if spent.money_micros > 0 {
        parts.push(format!("${:.2}", spent.money_micros as f64 / 1e6));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns rows of incidents, each a link.
pub(super) fn incident_rows(rows: &[IncidentRow]) -> Markup {
    html! {
        ul.rows {
            @for row in rows {
                li data-item id={ "row-" (row.id.short()) } {
                    a.row href={ "/incidents/" (row.id.short()) } {
                        span.row-head {
                            (badge(row.state, row.proof))
                            span.subject { (row.subject.for_people()) " " b { (visible(&row.name)) } }
                            span.dim { (ago(row.opened_at)) }
                        }
                        span.key-line { (visible(&row.key_line)) }
                        span.dim {
                            "heal-" (row.id.short()) " · " (row.class)
                            @if let Some(cost) = cost(row.spent) { " · " (cost) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the phases of an incident as a line, each with when it began and how long it took.
pub(super) fn phase_line(details: &IncidentDetails) -> Markup {
    let events = &details.story.repair.last_events;
    let is_over = details.story.repair.state.is_over();
    html! {
        ol.phases aria-label="phases" {
            @for (at, event) in events.iter().enumerate() {
                @let next = events.get(at + 1);
                @let is_current = next.is_none() && !is_over;
                li class=[is_current.then_some("current")] title=(event.message) {
                    span.phase { (event.phase.to_string()) }
                    span.dim {
                        (clock(event.timestamp))
                        @if let Some(next) = next {
                            " · " (duration(milliseconds(event.timestamp, next.timestamp)))
                        } @else if is_current { " · " (lasting_since(event.timestamp)) }
                    }
                }
            }
        }
    }
}

fn milliseconds(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or_default()
}

/// Returns what was spent and what is left, in words.
pub(super) fn budget_line(details: &IncidentDetails) -> String {
    let repair = &details.story.repair;
    let mut parts = vec![format!("attempt {} of {}", repair.attempt, repair.max_attempts)];
    let spent = details.story.spent;
    let worked = repair.agent.iter().any(|part| part.name.is_some());
    // What nobody stated is not nothing.
    parts.extend(cost(spent).or_else(|| worked.then(|| "cost not stated".to_owned())));
    if let Some(limit) = details.story.limits.tokens {
        parts.push(format!("{} tokens left", limit.saturating_sub(spent.tokens)));
    }
    let agent = repair.agent.iter().rev().find_map(|part| part.name.as_deref());
    match agent {
        Some(name) => parts.push(format!("agent {name}")),
        None => parts.push("no agent engaged".to_owned()),
    }
    parts.join(" · ")
}

pub(super) fn origin_word(origin: RemedyOrigin) -> &'static str {
    match origin {
        RemedyOrigin::Project => "known in this project",
        RemedyOrigin::User => "known from another project of yours",
        RemedyOrigin::Fleet => "known from another machine of the fleet",
        RemedyOrigin::Playbook => "shipped with Salve",
        RemedyOrigin::Proposal => "proposed by an agent",
        RemedyOrigin::Builtin => "Salve's own resort",
        RemedyOrigin::Person => "proposed by a person",
    }
}

pub(super) fn kind_word(kind: RemedyKind) -> &'static str {
    match kind {
        RemedyKind::Retry => "run it again",
        RemedyKind::Command => "command",
        RemedyKind::Patch => "patch",
        RemedyKind::Agent => "agent",
        RemedyKind::SoftReset => "fresh runtime",
        RemedyKind::HardReset => "fresh workspace",
    }
}

/// Returns what the gate said about a remedy, and by which rule.
pub(super) fn gate_word(remedy: &RemedyTried) -> Markup {
    let (word, class) = match remedy.verdict {
        RemedyVerdict::Allow => ("allowed", "good"),
        RemedyVerdict::Ask => ("asks a person", "warn"),
        RemedyVerdict::Deny => ("denied", "bad"),
    };
    html! {
        span class={ "badge " (class) } { "gate: " (word) } " "
        span.dim { (visible(remedy.reason.as_str())) " (rule " code { (visible(remedy.rule.as_str())) } ")" }
    }
}

/// Returns what came of a remedy.
pub(super) fn result_word(result: &RemedyResult) -> Markup {
    let (class, text) = match result {
        RemedyResult::Due => ("busy", "about to run".to_owned()),
        RemedyResult::AwaitingPerson => ("bad", "waits for you".to_owned()),
        RemedyResult::Running => ("busy", "running".to_owned()),
        RemedyResult::Denied => ("bad", "not run".to_owned()),
        RemedyResult::Declined => ("warn", "declined".to_owned()),
        RemedyResult::CouldNotRun(why) => ("bad", format!("could not run: {why}")),
        RemedyResult::Verified(Proof::Proven) => ("good", "it helped, proven".to_owned()),
        RemedyResult::Verified(Proof::Transient) => {
            ("good", "it is well; nothing shows that this did it".to_owned())
        }
        RemedyResult::Verified(Proof::Flaky) => ("warn", "well and unwell by turns".to_owned()),
        RemedyResult::Verified(Proof::Masked) => {
            ("bad", "it only looks well: what judges it was weakened".to_owned())
        }
        RemedyResult::Verified(Proof::Failed) => ("bad", "it did not help".to_owned()),
    };
    html! { span class={ "badge " (class) } { (visible(&text)) } }
}

/// Returns a patch with its lines coloured by what they do.
pub(super) fn patch_lines(patch: &str) -> Markup {
    html! {
        pre.diff tabindex="0" {
            @for line in patch.lines() { span class=[patch_line_class(line)] { (visible(line)) "\n" } }
        }
    }
}

fn patch_line_class(line: &str) -> Option<&'static str> {
    match line.as_bytes().first() {
        _ if line.starts_with("+++") || line.starts_with("---") => Some("file"),
        Some(b'+') => Some("add"),
        Some(b'-') => Some("del"),
        Some(b'@') => Some("hunk"),
        Some(_) | None => None,
    }
}

/// Returns where a change is now.
pub(super) fn place_badge(place: ChangePlace) -> Markup {
    let (class, word) = match place {
        ChangePlace::InFiles => ("good", "in your files"),
        ChangePlace::TakenBack => ("warn", "you took it back"),
        ChangePlace::LeftOut => ("busy", "not in your files"),
    };
    html! { span class={ "badge " (class) } { (word) } }
}

/// Returns what was found out about a failure, and what to do about it.
pub(super) fn finding_line(finding: &PlaybookFinding) -> Markup {
    html! {
        p {
            (visible(finding.what.as_str()))
            @if !finding.next.as_str().is_empty() { br; span.dim { (visible(finding.next.as_str())) } }
        }
    }
}

/// Returns a text as it stands in the query of an address.
pub(super) fn url_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Returns a section that says that there is nothing, and what to type next.
pub(super) fn nothing(what: &str, next: Option<&str>) -> Markup {
    html! {
        div.empty {
            p { (what) }
            @if let Some(next) = next { p { code { (next) } } }
        }
    }
}
