//! The settings in force, each with where it comes from, and the rules.

use maud::{Markup, html};

use super::parts::{counted, nothing};
use crate::config::SettingRow;
use crate::heal::rule_list::{RuleListRow, RuleState, day};
use crate::web::views::{SettingsView, WaitingSettings};
use crate::web::visible::visible;

/// Returns the section.
pub(super) fn page(view: &SettingsView) -> Markup {
    let is_shipped = |row: &&SettingRow| row.from.is_none_or(|from| from == "default");
    let (shipped, changed): (Vec<_>, Vec<_>) = view.settings.iter().partition(is_shipped);
    html! {
        h1 { "Settings" }
        p.dim { "They are changed in " code { "salve.toml" } " or your own " code { "config.toml" } "; a change that lets more run unattended waits for you here." }
        @for warning in &view.warnings { p.warn.card { (visible(warning)) } }
        @if let Some(waiting) = &view.waiting { (waiting_card(waiting)) }
        section aria-labelledby="notices" {
            h2 #notices { "Notices" }
            p { "Sends a test to every webhook and to the desktop, once." }
            p { button type="button" data-post="/api/notices/test" data-body="{}" { "Send a test notice" } }
        }
        section aria-labelledby="rules" {
            h2 #rules { "Rules" }
            @if view.rules.is_empty() { (nothing("There are no rules.", None)) }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Does" } th { "What" } th { "Rule" } th { "From" } th { span.sr { "Change" } } } }
                tbody { @for rule in &view.rules { (rule_row(rule)) } }
            } }
        }
        section aria-labelledby="values" {
            h2 #values { "Every setting" }
            @if changed.is_empty() {
                p { "Nothing is set: everything is as shipped." }
            } @else { (setting_table(&changed)) }
            details #defaults {
                summary { (counted(shipped.len() as u64, "setting", "settings")) " as shipped" }
                (setting_table(&shipped))
            }
        }
    }
}

fn setting_table(rows: &[&SettingRow]) -> Markup {
    html! {
        div.scroll tabindex="0" { table.settings {
            thead { tr { th { "Setting" } th { "Value" } th { "From" } } }
            tbody { @for row in rows { tr {
                td { code { (row.key) } }
                td { @match row.as_toml() { Some(value) => code { (visible(&value)) }, None => span.dim { "not set" } } }
                td { (visible(&row.origin())) }
            } } }
        } }
    }
}

/// Returns a change of the settings that waits for a person, with the button that accepts it.
pub(super) fn waiting_card(waiting: &WaitingSettings) -> Markup {
    let digest = waiting.digest.to_string();
    html! {
        article.card.question data-item id={ "settings-" (digest) } {
            header { span.badge.bad { "needs you" } b { "Changed settings wait" } code { (digest.chars().take(12).collect::<String>()) } }
            p.why { "This change would widen what runs unattended. Until you accept it the stricter settings hold." }
            ul { @for change in &waiting.changes { li { code { (visible(change.as_str())) } } } }
            div.answers {
                button.yes type="button" data-key="a" data-post="/api/settings/accept" data-body={ "{\"digest\":\"" (digest) "\"}" } {
                    b { "Accept" } span { "it holds from the next safe point on" }
                }
            }
            p.dim { "To say no, change the file back." }
        }
    }
}

/// Returns an approval that a command has earned, with the button that grants it.
pub(super) fn proposed_rule_card(rule: &RuleListRow) -> Markup {
    html! {
        article.card.question data-item id={ "rule-" (rule.rule) } {
            header { span.badge.busy { "earned" } b { "A command may run without asking" } code { (rule.rule) } }
            pre.command { (visible(&rule.text)) }
            @if let Some(record) = &rule.record {
                p { "You approved it " (record.approvals) " times; it was proven to help " (record.proven) " of " (record.uses.len()) " times, for failure " code { (record.signature) } "." }
            }
            div.answers { (rule_button(rule, "accept", "Let it run", "for this failure, in the same directory, until it fails once")) }
        }
    }
}

fn rule_button(rule: &RuleListRow, word: &str, label: &str, note: &str) -> Markup {
    html! {
        button type="button" data-post={ "/api/rules/" (rule.rule) "/word" } data-body={ "{\"word\":\"" (word) "\"}" } {
            b { (label) } @if !note.is_empty() { span { (note) } }
        }
    }
}

fn rule_row(rule: &RuleListRow) -> Markup {
    let (word, class) = match rule.state {
        RuleState::Allows => ("allows", "good"),
        RuleState::Asks => ("asks", "warn"),
        RuleState::Proposed => ("proposed", "busy"),
        RuleState::Gathering => ("gathering", "dim"),
        RuleState::Expired => ("expired", "dim"),
        RuleState::Withdrawn => ("withdrawn", "bad"),
    };
    let is_earned = rule.record.is_some();
    html! {
        tr {
            td { span class={ "badge " (class) } { (word) } }
            td {
                code { (visible(&rule.text)) }
                @if let Some(record) = &rule.record {
                    div.dim {
                        "proven " (record.proven) " of " (record.uses.len()) " times"
                        @if let Some(until) = record.until { ", until " (day(until)) }
                        @if let Some(lost) = &record.lost { "; " (visible(lost)) }
                    }
                }
            }
            td { code { (rule.rule) } }
            td { (visible(&rule.origin)) }
            td {
                @if is_earned && rule.state == RuleState::Proposed { (rule_button(rule, "accept", "Accept", "")) }
                @if is_earned && rule.state == RuleState::Allows { (rule_button(rule, "withdraw", "Withdraw", "")) }
            }
        }
    }
}
