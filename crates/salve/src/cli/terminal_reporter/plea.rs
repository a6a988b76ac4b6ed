//! What a person is told when Salve cannot go on: the cause, the place, what to do, and how to say
//! it.
//!
//! **Invariant:** no sentence stands twice in it.

use salve_core::event::{PersonQuestion, SubjectKind};
use salve_core::repair::{self, CooldownNotice, OpenQuestion, evidence_path};
use salve_core::view::IncidentView;

use super::lines::is_server;

/// How a person says what is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) enum AnswerWay {
    /// By a key in this very terminal.
    Keys,
    /// By a command.
    #[default]
    Commands,
}

/// Returns what a person is asked: one cause, one place, what to do, then the answers.
pub(super) fn plea(view: &IncidentView, message: &str, answers: AnswerWay) -> String {
    let ask = repair::ask(view);
    let mut lines = Vec::new();
    let found = view.incident().findings();
    // That alone says less than the cause, where that is known.
    if found.is_empty() || message != "Nothing further is known to try." {
        lines.push(message.to_owned());
    }
    lines.extend(causes(view));
    let mut said = without_repeats(lines);
    if starts_with_an_edit(view, ask.as_ref()) {
        said.push("Save a file and it starts again at once.".to_owned());
    }
    said.push(match ask {
        Some(ask) => how_to_answer(view, &ask, answers),
        None => see_more(view, answers),
    });
    said.join("\n")
}

/// Returns what is said of a failure that was given up: the cause, for how long nothing is tried,
/// and what can be done.
pub(super) fn given_up(view: &IncidentView, answers: AnswerWay) -> String {
    let mut said = without_repeats(causes(view));
    said.extend(cooldown(view, answers));
    said.push(see_more(view, answers));
    said.join("\n")
}

/// Returns the cause, its place and what a person can do; the line that names the failure where
/// nothing more is known.
fn causes(view: &IncidentView) -> Vec<String> {
    let found = view.incident().findings();
    let mut lines = Vec::new();
    for finding in found {
        let (what, place) = split_place(finding.what.as_str());
        lines.push(what.to_owned());
        lines.extend(place.map(str::to_owned));
        lines.push(finding.next.to_string());
    }
    if found.is_empty() {
        lines.push(view.incident().symptom().key_line.to_string());
    }
    lines
}

/// Splits a finding into what it says and the place that it names at its end.
fn split_place(what: &str) -> (&str, Option<&str>) {
    let trimmed = what.strip_suffix('.').unwrap_or(what);
    let place = trimmed.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
    match place {
        Some((said, place)) if is_place(place) => (said, Some(place)),
        Some(_) | None => (what, None),
    }
}

/// Tells whether a text is a file with a line.
fn is_place(text: &str) -> bool {
    let Some((file, line)) = text.split_once(':') else { return false };
    let numbers = line.split(':').all(|number| number.parse::<u32>().is_ok());
    numbers && !file.is_empty() && !file.contains(' ')
}

/// Returns the lines without those that another one says already.
fn without_repeats(lines: Vec<String>) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for line in lines {
        let known = said.iter().any(|one| one.contains(line.trim_end_matches('.')));
        if !known && !line.is_empty() {
            said.push(line);
        }
    }
    said
}

/// Tells whether a server is down and what is asked is only whether to try again: then an edit
/// starts it.
fn starts_with_an_edit(view: &IncidentView, ask: Option<&OpenQuestion>) -> bool {
    let has_ended = view.incident().symptom().exit.is_some();
    is_server(view) && has_ended && ask.is_some_and(|ask| tries_again(ask.question))
}

fn how_to_answer(view: &IncidentView, ask: &OpenQuestion, answers: AnswerWay) -> String {
    let id = format!("heal-{}", view.id().short());
    match (&ask.yes, is_answered_by_keys(view, answers)) {
        (Some(_), true) => {
            let (yes, no) = key_words(view.subject().kind, ask.question);
            let rest = if is_server(view) { "[l] log" } else { "[Ctrl-C] decide later" };
            format!("[a] {yes}  [r] {no}  {rest}\nsalve show {id}")
        }
        // Another try is another run of the check, which has ended by now.
        (Some(_), false) if is_check(view) && ask.question == PersonQuestion::NothingLeft => {
            see_more(view, answers)
        }
        (Some(yes), false) => {
            let no = &ask.no;
            format!("salve approve {id}  {yes}\nsalve reject {id}   {no}\nsalve show {id}")
        }
        (None, _) => see_more(view, answers),
    }
}

/// Tells whether what is asked is answered by keys: about a server always, about a check while it
/// waits for a decision.
pub(super) fn is_answered_by_keys(view: &IncidentView, answers: AnswerWay) -> bool {
    let asks = || repair::ask(view).is_some_and(|ask| ask.question.is_decision());
    match answers {
        AnswerWay::Keys => is_server(view) || (is_check(view) && asks()),
        AnswerWay::Commands => false,
    }
}

fn is_check(view: &IncidentView) -> bool {
    view.subject().kind == SubjectKind::Check
}

/// Returns what the keys for yes and no do, in a few words.
fn key_words(kind: SubjectKind, question: PersonQuestion) -> (&'static str, &'static str) {
    match question {
        PersonQuestion::Remedy => ("run it once and verify", "leave it out"),
        PersonQuestion::ChangeTooLarge if kind == SubjectKind::Check => {
            ("keep the change and run it again", "undo it")
        }
        PersonQuestion::ChangeTooLarge => ("keep the change and restart", "undo it"),
        PersonQuestion::Conflict => ("bring the change in", "leave it out"),
        PersonQuestion::MayHaveActed => ("do it again", "leave it"),
        PersonQuestion::Exhausted(_)
        | PersonQuestion::NothingLeft
        | PersonQuestion::NoProgress
        | PersonQuestion::RollBackFailed
        | PersonQuestion::SnapshotFailed
        | PersonQuestion::Masked
        | PersonQuestion::Flaky
        | PersonQuestion::Tripped(_)
        | PersonQuestion::Ordered => ("try again", "leave it"),
    }
}

/// Tells whether a yes is nothing but another try.
fn tries_again(question: PersonQuestion) -> bool {
    match question {
        PersonQuestion::Exhausted(_)
        | PersonQuestion::NothingLeft
        | PersonQuestion::NoProgress
        | PersonQuestion::Flaky => true,
        PersonQuestion::Remedy
        | PersonQuestion::ChangeTooLarge
        | PersonQuestion::Conflict
        | PersonQuestion::MayHaveActed
        | PersonQuestion::RollBackFailed
        | PersonQuestion::SnapshotFailed
        | PersonQuestion::Masked
        | PersonQuestion::Tripped(_)
        | PersonQuestion::Ordered => false,
    }
}

/// Returns that nothing is tried for a while, for how long, and what ends that.
fn cooldown(view: &IncidentView, answers: AnswerWay) -> Vec<String> {
    let Some(cooldown) = CooldownNotice::of(view.incident()) else { return Vec::new() };
    let left = cooldown.left(view.incident().clock());
    let mut lines = vec![format!("no further repair of this failure for {left}")];
    lines.extend(match (is_server(view), answers) {
        (true, AnswerWay::Keys) => Some("save a file and it starts again at once".to_owned()),
        (true, AnswerWay::Commands) => {
            Some("save a file, or `salve start`, and it starts again at once".to_owned())
        }
        (false, _) => None,
    });
    lines
}

fn see_more(view: &IncidentView, answers: AnswerWay) -> String {
    let id = format!("heal-{}", view.id().short());
    match (view.subject().kind, answers) {
        (SubjectKind::Server, AnswerWay::Keys) => {
            format!("[a] try again  [l] log\nsalve show {id}")
        }
        (kind, _) => format!("see {}\nsalve show {id}", evidence_path(kind, view.id())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_at_the_end_of_a_finding_stands_on_a_line_of_its_own() {
        for (what, want) in [
            ("It does not parse: eof (a.ts:9)", ("It does not parse: eof", Some("a.ts:9"))),
            ("It does not parse (src/a.ts:9:4).", ("It does not parse", Some("src/a.ts:9:4"))),
            ("Port 80 is held by node (pid 7).", ("Port 80 is held by node (pid 7).", None)),
            ("Nothing listens (http://a:80)", ("Nothing listens (http://a:80)", None)),
            ("It broke", ("It broke", None)),
        ] {
            assert_eq!(split_place(what), want);
        }
    }

    #[test]
    fn what_another_line_says_is_not_said_again() {
        let lines = ["It does not parse: eof", "a.ts:9", "eof", "Correct it.", "Correct it."];
        let said = without_repeats(lines.map(str::to_owned).to_vec());
        assert_eq!(said, ["It does not parse: eof", "a.ts:9", "Correct it."]);
    }
}
