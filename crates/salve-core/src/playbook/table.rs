//! The rules in force and how one of them is chosen.

use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::action::Action;
use super::advice::{NO_ADVICE, harm_of};
use super::catch::{Caught, Clues};
use super::condition::{Condition, View};
use super::cure::{Cure, CureGround};
use super::facts::ProjectFacts;
use super::fill::{Values, fill, fill_advice};
use super::pattern::CasedText;
use super::place;
use super::rule::{
    Gate, PatternPlace, PlaybookRule, PlaybookRuleError, RuleExample, RuleRow, RuleTouch, RuleTurn,
};
use super::{Diagnosis, ObservedFailure, PlaybookFinding, Prescription, remedy};
use crate::class::Class;
use crate::event::ProcessExit;
use crate::fingerprint::{
    Fingerprint, FingerprintRules, Hints, RecognisedRow, clean, without_compared,
};
use crate::scrub::Scrubber;

/// The shipped tables, in the order in which they are asked.
const FILES: &[&str] = &[
    include_str!("../../data/playbook/system.toml"),
    include_str!("../../data/playbook/checks.toml"),
    include_str!("../../data/playbook/node.toml"),
    include_str!("../../data/playbook/frontend.toml"),
    include_str!("../../data/playbook/python.toml"),
    include_str!("../../data/playbook/other.toml"),
    include_str!("../../data/playbook/code.toml"),
];

/// How many lines before and after the line that names the failure belong to it.
const BEFORE: usize = 14;
const AFTER: usize = 50;

/// How much of the end of an output is looked at.
const WINDOW: usize = 96 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<RuleRow>,
}

/// The rules in force.
#[derive(Debug)]
pub struct Playbook {
    rules: Vec<PlaybookRule>,
}

static BUILT_IN: LazyLock<Playbook> = LazyLock::new(|| {
    // A test proves that every shipped rule loads, so nothing is lost here.
    let rows = FILES.iter().filter_map(|text| parse(text).ok()).flatten();
    Playbook { rules: rows.filter_map(|row| PlaybookRule::compile(row).ok()).collect() }
});

fn parse(text: &str) -> Result<Vec<RuleRow>, PlaybookRuleError> {
    let file: Result<File, _> = toml::from_str(text);
    file.map(|file| file.rule).map_err(|error| PlaybookRuleError::Table(error.to_string()))
}

impl Playbook {
    /// Returns the rules that ship with Salve.
    pub fn built_in() -> &'static Playbook {
        &BUILT_IN
    }

    /// Reads rules and checks that each keeps the promise of its examples.
    ///
    /// # Errors
    /// Names every rule that cannot be used.
    pub fn parse(tables: &[&str]) -> Result<Self, Vec<PlaybookRuleError>> {
        let mut errors = Vec::new();
        let mut rules = Vec::new();
        for table in tables {
            match parse(table) {
                Ok(rows) => {
                    for row in rows {
                        PlaybookRule::compile(row)
                            .map_or_else(|e| errors.push(e), |r| rules.push(r));
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        let playbook = Self { rules };
        errors.extend(playbook.check());
        if errors.is_empty() { Ok(playbook) } else { Err(errors) }
    }

    /// Reads the shipped tables with every check.
    ///
    /// # Errors
    /// Names every rule that cannot be used.
    pub fn shipped() -> Result<Self, Vec<PlaybookRuleError>> {
        Self::parse(FILES)
    }

    /// Returns the names of the rules, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.row.id.as_str())
    }

    /// Returns the rules as they are written.
    #[cfg(test)]
    pub(super) fn rows(&self) -> impl Iterator<Item = &RuleRow> {
        self.rules.iter().map(|rule| &rule.row)
    }

    /// Returns whether the text of a failure is one that some rule is about. If it is not, no look
    /// at the project changes that nothing is known of it.
    pub fn may_know(&self, seen: &ObservedFailure<'_>) -> bool {
        if *seen.exit == ProcessExit::Code(0) {
            return false;
        }
        let story = OutputEnd::new(seen.output, seen.fingerprint);
        let about = |rule: &&PlaybookRule| rule.concerns(seen.exit, seen.fingerprint.class);
        self.rules
            .iter()
            .filter(about)
            .any(|rule| story.texts(rule.row.place).any(|text| story.catch(rule, text).is_some()))
    }

    /// Returns the things that the failure speaks of and whose state [`Playbook::diagnose`] wants.
    pub fn clues(&self, seen: &ObservedFailure<'_>) -> Clues {
        let mut clues = Clues::default();
        if *seen.exit == ProcessExit::Code(0) {
            return clues;
        }
        let story = OutputEnd::new(seen.output, seen.fingerprint);
        for rule in &self.rules {
            if rule.concerns(seen.exit, seen.fingerprint.class) {
                for text in story.texts(rule.row.place) {
                    story.catch(rule, text).iter().for_each(|caught| clues.add(caught));
                }
            }
        }
        clues
    }

    /// Returns what to make of the failure in this state of the world.
    pub fn diagnose(
        &self,
        seen: &ObservedFailure<'_>,
        facts: &ProjectFacts,
        scrubber: &Scrubber,
    ) -> Diagnosis {
        self.judge(seen, facts, scrubber, Among::All)
    }

    /// Returns whether a subject that still runs may be telling that something around it is
    /// broken.
    pub fn may_ail(&self, output: &str) -> bool {
        let raw = clean(end(output));
        let small = raw.to_ascii_lowercase();
        let text = CasedText { raw: &raw, small: &small };
        let alive = self.rules.iter().filter(|rule| rule.row.alive);
        alive.into_iter().any(|rule| rule.catch(text, text, None).is_some())
    }

    /// Returns what a subject that still runs tells about what is broken around it; unknown unless
    /// that is certain and there is a safe cure.
    pub fn ails(
        &self,
        seen: &ObservedFailure<'_>,
        facts: &ProjectFacts,
        scrubber: &Scrubber,
    ) -> Diagnosis {
        let found = self.judge(seen, facts, scrubber, Among::Alive);
        if found.remedies.iter().any(Prescription::is_safe) { found } else { Diagnosis::unknown() }
    }

    fn judge(
        &self,
        seen: &ObservedFailure<'_>,
        facts: &ProjectFacts,
        scrubber: &Scrubber,
        among: Among,
    ) -> Diagnosis {
        if *seen.exit == ProcessExit::Code(0) {
            return Diagnosis::unknown();
        }
        let story = OutputEnd::new(seen.output, seen.fingerprint);
        let holds = |condition: Condition, caught: &Caught| condition.holds(caught, facts);
        let chosen = match among {
            Among::All => self.choose(&story, seen, holds),
            Among::Alive => self.choose_alive(&story, holds),
        };
        let Some((rule, caught)) = chosen else {
            return Diagnosis::unknown();
        };
        let mut values = Values::new(&caught, facts, seen.fingerprint);
        let place = story.place(facts);
        let row = &rule.row;
        let is_unplaced = place.is_empty() && !row.unplaced.is_empty();
        let what = if is_unplaced { &row.unplaced } else { &row.finding };
        values.set_where(place);
        let ground = CureGround { row, view: View { caught: &caught, facts }, values: &values };
        let prescribe = |action: Action| {
            let text = scrubber.scrub(&action.text());
            Prescription {
                rule: row.id.clone(),
                gate: gate_of(row, &action),
                remedy: remedy(&action, text),
                why: scrubber.scrub(&fill(&row.why, &values)),
                action,
            }
        };
        let remedies = row.cures.iter().filter_map(|cure| cure.action(&ground)).map(prescribe);
        let finding = PlaybookFinding {
            what: scrubber.scrub(&fill(what, &values)),
            next: scrubber.scrub(&advise(row, &values, &facts.root)),
        };
        Diagnosis {
            nature: row.nature,
            rule: Some(row.id.clone()),
            remedies: remedies.collect(),
            findings: if row.finding.is_empty() { Vec::new() } else { vec![finding] },
        }
    }

    /// Chooses the rule for a subject that still runs, whose text names no failure of its own.
    fn choose_alive(
        &self,
        story: &OutputEnd,
        holds: impl Fn(Condition, &Caught) -> bool,
    ) -> Option<(&PlaybookRule, Caught)> {
        self.rules.iter().filter(|rule| rule.row.alive).find_map(|rule| {
            let caught = rule.catch(story.whole(), story.whole(), None)?;
            rule.fits(|condition| holds(condition, &caught)).then_some((rule, caught))
        })
    }

    /// Chooses the rule: one that knows the line that names the failure before one that knows a
    /// line nearby, that before one that knows a line anywhere, and the last resorts at the end.
    fn choose(
        &self,
        story: &OutputEnd,
        seen: &ObservedFailure<'_>,
        holds: impl Fn(Condition, &Caught) -> bool,
    ) -> Option<(&PlaybookRule, Caught)> {
        let about = |rule: &&PlaybookRule| rule.concerns(seen.exit, seen.fingerprint.class);
        for turn in [RuleTurn::First, RuleTurn::Last] {
            for reach in 0..3 {
                for rule in self.rules.iter().filter(|rule| rule.row.turn == turn).filter(about) {
                    let text = story.texts(rule.row.place).nth(reach);
                    let caught = text.and_then(|text| story.catch(rule, text));
                    if let Some(caught) = caught
                        && rule.fits(|condition| holds(condition, &caught))
                    {
                        return Some((rule, caught));
                    }
                }
            }
        }
        None
    }

    /// Checks every example and counter-example.
    fn check(&self) -> Vec<PlaybookRuleError> {
        let mut errors = Vec::new();
        for rule in &self.rules {
            let id = &rule.row.id;
            errors.extend(rule.check_patterns().err());
            let chosen =
                |case: &RuleExample| self.chosen(case).unwrap_or_else(|| "none".to_owned());
            for case in &rule.row.examples {
                let got = chosen(case);
                if got != *id {
                    let (rule, text) = (id.clone(), case.text.clone());
                    errors.push(PlaybookRuleError::Example { rule, text, got });
                }
            }
            for case in rule.row.counter.iter().filter(|case| chosen(case) == *id) {
                errors
                    .push(PlaybookRuleError::Counter { rule: id.clone(), text: case.text.clone() });
            }
        }
        errors
    }

    /// Returns the rule that is chosen for a case.
    fn chosen(&self, case: &RuleExample) -> Option<String> {
        let hints = Hints { exit_code: Some(case.exit), ..Hints::default() };
        let fingerprint = FingerprintRules::built_in().fingerprint(&case.text, &hints);
        let exit = ProcessExit::Code(case.exit);
        let seen = ObservedFailure { fingerprint: &fingerprint, exit: &exit, output: &case.text };
        let story = OutputEnd::new(&case.text, &fingerprint);
        let holds = |condition: Condition, _: &Caught| case.holds.contains(&condition);
        self.choose(&story, &seen, holds).map(|(rule, _)| rule.row.id.clone())
    }
}

/// Returns whether an action of a rule may run unattended.
///
/// A lockfile is brought into agreement with its manifest only where that disagreement is the
/// failure; a cure that would write one by the way asks.
fn gate_of(row: &RuleRow, action: &Action) -> Gate {
    let is_about_lockfile = row.touches == RuleTouch::Lockfile || row.cures.contains(&Cure::Relock);
    match row.gate {
        Gate::Safe if action.edits_lockfile() && !is_about_lockfile => Gate::Ask,
        Gate::Safe => Gate::Safe,
        Gate::Ask => Gate::Ask,
    }
}

/// Returns what a person can do; nothing that could do harm with these values.
pub(super) fn advise(row: &RuleRow, values: &Values, root: &str) -> String {
    let advice = fill_advice(&row.next, values);
    match harm_of(&advice, root) {
        None => advice,
        Some(_) => NO_ADVICE.to_owned(),
    }
}

/// Which rules are asked.
#[derive(Clone, Copy)]
enum Among {
    All,
    /// Those about subjects that still run.
    Alive,
}

/// Returns where the report of a failed test ends that is named at `at`.
///
/// What was logged before it, and what a runner captured of it, is what tests often write on
/// purpose: an error that a test provokes is not why another fails.
fn end_of_report(whole: &str, at: usize) -> usize {
    const CAPTURED: &[&str] = &["- Captured std", "- Captured log"];
    let rest = &whole[at..];
    let lines = rest.match_indices('\n').nth(AFTER).map_or(rest.len(), |(end, _)| end);
    let captured = CAPTURED.iter().filter_map(|mark| rest.find(mark)).min();
    at + captured.unwrap_or(lines).min(lines)
}

/// Returns the end of an output that is looked at.
fn end(output: &str) -> &str {
    let mut start = output.len().saturating_sub(WINDOW);
    while !output.is_char_boundary(start) {
        start += 1;
    }
    &output[start..]
}

/// The end of an output, and what of it belongs to the line that names the failure.
///
/// Rules see nothing of the values that a failed assertion compares: they are quotations, and
/// tell nothing of what happened.
struct OutputEnd {
    /// The line that names the failure, as it was written.
    written_key: String,
    /// All of it, as it was written.
    written: String,
    key: String,
    small_key: String,
    whole: String,
    small: String,
    near: Range<usize>,
    /// The row of the fingerprint's tables that knows the failure.
    row: Option<RecognisedRow>,
}

impl OutputEnd {
    fn new(output: &str, fingerprint: &Fingerprint) -> Self {
        let written = clean(end(output)).into_owned();
        let written_key = fingerprint.key_line.clone();
        let head: String = written_key.chars().take(80).collect();
        // Of a failure that was written several times the last one counts.
        let at = written.rfind(head.as_str()).filter(|_| !head.is_empty());
        let whole = without_compared(&written).into_owned();
        let key = without_compared(&written_key).into_owned();
        let near = match at {
            None => 0..whole.len(),
            Some(at) if fingerprint.class == Class::TestFailure => at..end_of_report(&whole, at),
            Some(at) => {
                let before = whole[..at].rmatch_indices('\n').nth(BEFORE);
                let after = whole[at..].match_indices('\n').nth(AFTER);
                before.map_or(0, |(at, _)| at + 1)..after.map_or(whole.len(), |(end, _)| at + end)
            }
        };
        let (small_key, small) = (key.to_ascii_lowercase(), whole.to_ascii_lowercase());
        let identity = fingerprint.identity.as_deref();
        let row = identity.and_then(|one| FingerprintRules::built_in().recognised_row(one));
        Self { written_key, written, key, small_key, whole, small, near, row }
    }

    /// Returns what a rule catches in `text`, one of [`OutputEnd::texts`].
    fn catch(&self, rule: &PlaybookRule, text: CasedText<'_>) -> Option<Caught> {
        rule.catch(text, self.near(), self.row.as_ref())
    }

    /// Returns ` (file:line)` of the place in the project's own source that it points to.
    fn place(&self, facts: &ProjectFacts) -> String {
        place::told(&self.written_key, &self.written[self.near.clone()], &self.written, facts)
    }

    fn whole(&self) -> CasedText<'_> {
        CasedText { raw: &self.whole, small: &self.small }
    }

    fn near(&self) -> CasedText<'_> {
        let near = self.near.clone();
        CasedText { raw: &self.whole[near.clone()], small: &self.small[near] }
    }

    /// Returns the texts in which a rule's patterns are looked for, the surest first.
    fn texts(&self, place: PatternPlace) -> impl Iterator<Item = CasedText<'_>> {
        let whole = match place {
            PatternPlace::Near => None,
            PatternPlace::Anywhere => Some(self.whole()),
        };
        let key = CasedText { raw: &self.key, small: &self.small_key };
        [key, self.near()].into_iter().chain(whole)
    }
}
