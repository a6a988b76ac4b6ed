//! An incident replayed under other settings.

use maud::{Markup, html};

use super::parts::clock;
use crate::web::views::{IncidentDetails, WhatIfAnswer};
use crate::web::visible::visible;

/// Returns the form that asks what would have been.
pub(super) fn form(details: &IncidentDetails) -> Markup {
    let id = details.story.repair.repair_id;
    let limits = &details.story.limits;
    let number = |name: &str, label: &str, now: Option<u64>| {
        let now = now.map_or("no limit".to_owned(), |now| now.to_string());
        html! { label { (label) " " input type="number" name=(name) min="0" placeholder=(now); } }
    };
    html! {
        details #what-if {
            summary { "What if the settings had been different?" }
            form.what-if data-fragment={ "/fragment/incidents/" (id) "/what-if" } data-into="what-if-answer" {
                (number("attempts", "Attempts", limits.attempts))
                (number("tokens", "Tokens", limits.tokens))
                (number("seconds", "Seconds", limits.wall_ms.map(|ms| ms / 1_000)))
                (number("cooldownSeconds", "Cooldown in seconds", None))
                (number("maxFiles", "Files that may change", None))
                (number("maxLines", "Lines that may change", None))
                label.wide { "Settings for the gate, one on each line "
                    textarea name="settings" rows="2" placeholder="recovery.auto_approve=[\"npm ci\"]" {} }
                p { button type="submit" { "Replay it" } }
            }
            div #what-if-answer data-keep aria-live="polite" {}
        }
    }
}

/// Returns what would have been.
pub(in crate::web) fn what_if_answer(answer: &WhatIfAnswer) -> Markup {
    html! {
        @match &answer.difference {
            None => p { "Nothing: all " (answer.entries) " entries of the journal would have been the same." },
            Some(difference) => {
                p { "The first " (answer.shared) " of " (answer.entries) " entries would have been the same. At " (clock(difference.at)) " the courses part:" }
                dl {
                    dt { "It was" } dd { (visible(&difference.happened)) }
                    dt { "Instead" } dd { b { (visible(&difference.instead)) } }
                }
                p.dim { "This is exact up to here. What would have followed depends on the world, and nobody knows it." }
            }
        }
        @for remedy in &answer.not_judged {
            p.dim { "Not judged again, because today’s gate does not say what it said then: " code { (visible(remedy)) } }
        }
    }
}
