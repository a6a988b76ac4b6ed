//! All incidents, filtered and searched; the filter stands in the address.

use maud::{Markup, html};
use salve_core::event::SubjectKind;

use super::parts::{incident_rows, nothing, url_encoded};
use crate::web::views::{IncidentPage, IncidentQuery, StateFilter};

/// Returns the section.
pub(super) fn page(query: &IncidentQuery, page: &IncidentPage) -> Markup {
    let is_filtered = query.state.is_some() || query.subject.is_some() || !query.text.is_empty();
    html! {
        h1 { "Incidents" }
        (filter_form(query))
        @if page.incidents.is_empty() && is_filtered {
            (nothing("No incident fits.", None))
        } @else if page.incidents.is_empty() {
            (nothing("Nothing has failed yet.", Some("salve dev -- npm run dev")))
        } @else {
            (incident_rows(&page.incidents))
        }
        nav.pages aria-label="pages" {
            @if query.before.is_some() { a href=(address(query, None)) { "Newest" } }
            @if let Some(before) = page.next_before {
                a rel="next" href=(address(query, Some(before))) { "Older" }
            }
        }
    }
}

fn filter_form(query: &IncidentQuery) -> Markup {
    let state = query.state.map_or("", state_name);
    let subject = query.subject.map_or("", SubjectKind::as_str);
    html! {
        form.filter role="search" data-navigate="/incidents" {
            label { span.sr { "Search" }
                input type="search" name="q" value=(query.text) placeholder="Search incidents ( / )" data-search; }
            label { span.sr { "State" } select name="state" {
                @for (value, word) in [("", "any state"), ("open", "open"), ("needs-you", "needs you"),
                    ("recovered", "recovered"), ("not-healed", "not healed")] {
                    option value=(value) selected[value == state] { (word) }
                }
            } }
            label { span.sr { "Kind" } select name="subject" {
                @for (value, word) in [("", "any kind"), ("server", "servers"), ("check", "checks"),
                    ("tool", "tools"), ("step", "steps"), ("iteration", "loops")] {
                    option value=(value) selected[value == subject] { (word) }
                }
            } }
            button type="submit" { "Show" }
        }
    }
}

fn state_name(state: StateFilter) -> &'static str {
    match state {
        StateFilter::Open => "open",
        StateFilter::NeedsYou => "needs-you",
        StateFilter::Recovered => "recovered",
        StateFilter::NotHealed => "not-healed",
    }
}

/// Returns the address of the same list from another place on.
fn address(query: &IncidentQuery, before: Option<u64>) -> String {
    let encoded = url_encoded(&query.text);
    let mut parts = Vec::new();
    parts.extend((!encoded.is_empty()).then(|| format!("q={encoded}")));
    parts.extend(query.state.map(|state| format!("state={}", state_name(state))));
    parts.extend(query.subject.map(|kind| format!("subject={}", kind.as_str())));
    parts.extend(before.map(|before| format!("before={before}")));
    if parts.is_empty() {
        "/incidents".to_owned()
    } else {
        format!("/incidents?{}", parts.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_holds_the_whole_filter() {
        let query = IncidentQuery {
            state: Some(StateFilter::NotHealed),
            subject: Some(SubjectKind::Check),
            text: "a b&c".into(),
            ..IncidentQuery::default()
        };
        let want = "/incidents?q=a%20b%26c&state=not-healed&subject=check&before=7";
        assert_eq!(address(&query, Some(7)), want);
        assert_eq!(address(&IncidentQuery::default(), None), "/incidents");
    }
}
