//! What came of several checks, at the end of a run.

use std::time::Duration;

use salve_core::event::Proof;

use super::super::terminal_reporter::{Grade, TerminalLine};
use crate::subjects::check::CheckEnd;

/// How one check ended.
#[derive(Clone, Debug)]
pub(super) struct EndedCheck {
    pub(super) name: String,
    pub(super) end: CheckEnd,
    pub(super) took: Duration,
}

/// Returns one line for each check, those last that need somebody; nothing where there was one.
pub(super) fn summary(ended: &[EndedCheck]) -> Vec<TerminalLine> {
    if ended.len() < 2 {
        return Vec::new();
    }
    let mut sorted: Vec<&EndedCheck> = ended.iter().collect();
    sorted.sort_by_key(|one| is_red(one.end));
    let widest = ended.iter().map(|one| one.name.chars().count()).max().unwrap_or_default();
    sorted.into_iter().map(|one| line(one, widest)).collect()
}

fn is_red(end: CheckEnd) -> bool {
    match end {
        CheckEnd::Green | CheckEnd::Healed(Proof::Proven | Proof::Transient | Proof::Flaky) => {
            false
        }
        CheckEnd::Healed(Proof::Masked | Proof::Failed)
        | CheckEnd::NeedsPerson
        | CheckEnd::Watches
        | CheckEnd::CalledOff
        | CheckEnd::Stopped(_) => true,
    }
}

fn line(one: &EndedCheck, widest: usize) -> TerminalLine {
    let (grade, verb, more) = match one.end {
        CheckEnd::Green => (Grade::Good, "green", ""),
        CheckEnd::Healed(Proof::Proven) => (Grade::Good, "healed", "proven"),
        CheckEnd::Healed(Proof::Transient) => (Grade::Good, "healed", "by itself"),
        CheckEnd::Healed(Proof::Flaky) => (Grade::Good, "flaky", "it passes and fails by turns"),
        CheckEnd::Healed(Proof::Masked | Proof::Failed) => (Grade::Grave, "red", "not healed"),
        CheckEnd::NeedsPerson => (Grade::Grave, "red", "needs you"),
        CheckEnd::Watches => (Grade::Grave, "watches", "it does not end by itself"),
        CheckEnd::CalledOff => (Grade::Grave, "red", "called off"),
        CheckEnd::Stopped(_) => (Grade::Grave, "stopped", ""),
    };
    let (name, took) = (&one.name, one.took.as_secs_f64());
    let text = format!("{name:<widest$}  {took:>6.1} s  {more}");
    TerminalLine::new(grade, verb, text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::super::super::terminal_reporter::Colours;
    use super::*;

    #[test]
    fn several_checks_end_with_a_summary_and_failures_come_last() {
        let check = |name: &str, end| EndedCheck {
            name: name.to_owned(),
            end,
            took: Duration::from_millis(1500),
        };
        let ended = [
            check("unit", CheckEnd::NeedsPerson),
            check("types", CheckEnd::Green),
            check("e2e", CheckEnd::Healed(Proof::Proven)),
        ];
        let shown: Vec<String> =
            summary(&ended).iter().map(|line| line.show(Colours::Plain)).collect();
        let want = [
            "● salve  green     types     1.5 s",
            "● salve  healed    e2e       1.5 s  proven",
            "■ salve  red       unit      1.5 s  needs you",
        ];
        assert_eq!(shown, want);
        assert!(summary(&ended[..1]).is_empty());
    }
}
