//! What became of the tests in a file.

use std::collections::{BTreeMap, BTreeSet};

use super::assertion::{Assertion, Strength, assertions};
use super::cases::{Test, tests};
use super::hazard::{Hazard, early_returns, hazards};
use super::text::{Language, SourceText};

/// The longest passage of code that is shown.
const SHOWN: usize = 120;

/// A way in which a file judges less than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// The line in the file as it is now, or as it was if what stood there is gone.
    pub(super) line: Option<u32>,
    /// What was weakened, for people.
    pub(super) what: String,
}

/// A file's tests, found once.
pub(super) struct ComparedFile<'t> {
    source: SourceText<'t>,
    tests: Vec<Test>,
}

impl<'t> ComparedFile<'t> {
    /// Reads a file.
    pub(super) fn new(text: &'t str, language: Language) -> Self {
        let source = SourceText::new(text, language);
        let tests = tests(&source);
        Self { source, tests }
    }

    /// Returns the names of the tests, each as often as it occurs.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().filter(|test| !test.group).map(|test| test.name.as_str())
    }

    /// Returns the text.
    pub(super) fn source(&self) -> &SourceText<'t> {
        &self.source
    }

    pub(super) fn has_tests(&self) -> bool {
        !self.tests.is_empty()
    }

    fn note(&self, at: usize, what: String) -> Note {
        Note { line: Some(self.source.line(at)), what }
    }

    /// Returns the tests by name, in order.
    fn by_name(&self) -> BTreeMap<(&str, bool), Vec<&Test>> {
        let mut map: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for test in &self.tests {
            map.entry((test.name.as_str(), test.group)).or_default().push(test);
        }
        map
    }
}

/// Returns how a file judges less than before; `elsewhere` are tests that other files gained.
pub(super) fn compare(
    before: &ComparedFile<'_>,
    after: &ComparedFile<'_>,
    elsewhere: &BTreeSet<String>,
    whole: Whole,
) -> Vec<Note> {
    let mut notes = Vec::new();
    let (old, new) = (before.by_name(), after.by_name());
    let mut budget = 16 * (before.source.text.len() + after.source.text.len());
    for (key @ (name, group), tests) in &old {
        let now = new.get(key).map_or(&[][..], Vec::as_slice);
        for (nth, test) in tests.iter().enumerate() {
            match now.get(nth) {
                Some(still) => {
                    notes.extend(marks(after, test, still));
                    let size = test.body.len() + still.body.len();
                    if !group && size <= budget {
                        budget -= size;
                        notes.extend(bodies(FilePair { before, after }, test, still));
                    }
                }
                None if *group || elsewhere.contains(*name) => {}
                None => {
                    let what = format!("the test `{}` is gone", short(name));
                    notes.push(before.note(test.start, what));
                }
            }
        }
    }
    notes.extend(fresh_marks(&old, after));
    notes.extend(hazards_added(before, after, &old));
    if whole == Whole::Tests {
        notes.extend(loosened(
            &outside(before),
            &outside(after),
            FilePair { before, after },
            "outside of tests",
        ));
    }
    notes
}

/// Whether a file holds nothing but tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// It does.
    Tests,
    /// It holds the code that is tested, too.
    Mixed,
}

/// Returns the excuses that a test has now and did not have.
fn marks(after: &ComparedFile<'_>, test: &Test, still: &Test) -> Vec<Note> {
    let language = after.source.language;
    let had: BTreeSet<_> = test.marks.iter().filter_map(|mark| excuse(mark, language)).collect();
    let now = still.marks.iter().filter_map(|mark| excuse(mark, language));
    let added = now.filter(|excuse| !had.contains(excuse));
    added
        .map(|excuse| after.note(still.start, format!("`{}` {excuse}", short(&still.name))))
        .collect()
}

/// Returns the excuses of new groups around old tests, and of new tests that keep others from
/// running.
fn fresh_marks(old: &BTreeMap<(&str, bool), Vec<&Test>>, after: &ComparedFile<'_>) -> Vec<Note> {
    let language = after.source.language;
    let known = |test: &Test| old.contains_key(&(test.name.as_str(), test.group));
    let mut notes = Vec::new();
    for test in after.tests.iter().filter(|test| !known(test) && !test.marks.is_empty()) {
        for excuse in test.marks.iter().filter_map(|mark| excuse(mark, language)) {
            let inside = |inner: &&Test| {
                !inner.group
                    && inner.start > test.start
                    && inner.start < test.body.end
                    && known(inner)
            };
            let hides = test.group && after.tests.iter().any(|inner| inside(&inner));
            if excuse == ALONE || hides {
                notes.push(after.note(test.start, format!("`{}` {excuse}", short(&test.name))));
            }
        }
    }
    notes
}

const ALONE: &str = "runs alone, so that the others do not";

/// Returns how a mark excuses a test, if it does.
fn excuse(mark: &str, language: Language) -> Option<&'static str> {
    let has = |word: &str| mark.contains(word);
    match language {
        Language::Python => match mark {
            _ if has("xfail") || has("expectedFailure") => Some("is expected to fail"),
            _ if has("skip") => Some("is skipped"),
            _ if has("flaky") || has("reruns") || has("repeat") => Some("is run until it passes"),
            _ if has("patch") => Some("has what it tests replaced"),
            _ => None,
        },
        Language::Script => match mark {
            ".only" => Some(ALONE),
            ".fails" | ".failing" => Some("is expected to fail"),
            _ if has("skip") || has(".todo") || has(".runIf") || has(".if") => Some("is skipped"),
            _ => None,
        },
        Language::Rust => match mark {
            _ if has("ignore") => Some("is ignored"),
            _ if has("should_panic") => Some("is expected to panic"),
            _ if mark.starts_with("#[cfg(") && mark != "#[cfg(test)]" => {
                Some("is compiled only under a condition")
            }
            _ => None,
        },
        Language::Go => None,
    }
}

/// A file before a repair and after it.
#[derive(Clone, Copy)]
struct FilePair<'p, 's> {
    before: &'p ComparedFile<'s>,
    after: &'p ComparedFile<'s>,
}

/// Compares what one test does.
fn bodies(files: FilePair<'_, '_>, test: &Test, still: &Test) -> Vec<Note> {
    let FilePair { before, after } = files;
    let (said, now) = (&before.source.said, &after.source.said);
    if said.get(test.body.clone()) == now.get(still.body.clone()) {
        return Vec::new();
    }
    let old = assertions(&before.source, &test.body);
    let new = assertions(&after.source, &still.body);
    let place = format!("`{}`", short(&still.name));
    let mut notes = loosened(&old, &new, files, &place);
    let ends = |file: &ComparedFile<'_>, test: &Test, asserted: &[Assertion]| {
        let last = asserted.last().map_or(0, |assertion| assertion.at);
        early_returns(&file.source, &test.body, last)
    };
    if ends(after, still, &new) > ends(before, test, &old) {
        notes.push(after.note(still.start, format!("{place} returns before it has asserted all")));
    }
    notes
}

/// Returns the assertions that are gone, say less, or say something else.
fn loosened(
    old: &[Assertion],
    new: &[Assertion],
    FilePair { before, after }: FilePair<'_, '_>,
    place: &str,
) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    new.iter().for_each(|assertion| *kept.entry(&assertion.text).or_default() += 1);
    let mut gone: Vec<&Assertion> = Vec::new();
    for assertion in old {
        match kept.get_mut(assertion.text.as_str()).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => gone.push(assertion),
        }
    }
    // What is left are those that were not there before, with the later ones taken for new.
    let mut fresh: Vec<&Assertion> = Vec::new();
    for assertion in new.iter().rev() {
        if let Some(count) = kept.get_mut(assertion.text.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            fresh.push(assertion);
        }
    }
    fresh.reverse();
    for trivial in fresh.iter().filter(|assertion| assertion.strength == Strength::Trivial) {
        let what = format!("{place} asserts what cannot fail: `{}`", short(&trivial.text));
        notes.push(after.note(trivial.at, what));
    }
    fresh.retain(|assertion| assertion.strength != Strength::Trivial);
    for assertion in gone.into_iter().filter(|assertion| assertion.strength != Strength::Trivial) {
        let alike = fresh.iter().position(|other| other.subject() == assertion.subject());
        let pair = alike.or((!fresh.is_empty()).then_some(0)).map(|at| (fresh.remove(at), alike));
        notes.extend(match pair {
            Some((other, alike)) => changed(assertion, other, alike.is_some(), place)
                .map(|what| after.note(other.at, what)),
            None => {
                let what = format!("{place} no longer asserts `{}`", short(&assertion.text));
                Some(before.note(assertion.at, what))
            }
        });
    }
    notes
}

/// Says how an assertion that took another's place says less than that.
fn changed(old: &Assertion, new: &Assertion, alike: bool, place: &str) -> Option<String> {
    let (was, is) = (short(&old.text), short(&new.text));
    if new.strength < old.strength {
        return Some(format!("{place} asserts less: `{was}` became `{is}`"));
    }
    if let (old, Some(new)) = (old.tolerance(), new.tolerance()) {
        return (old.is_none_or(|old| new > old))
            .then(|| format!("{place} lets a value be further off: `{was}` became `{is}`"));
    }
    (alike && old.strength == Strength::Exact)
        .then(|| format!("{place} expects something else: `{was}` became `{is}`"))
}

/// Returns the assertions of a file that stand in no test.
fn outside(file: &ComparedFile<'_>) -> Vec<Assertion> {
    let mut spans: Vec<_> =
        file.tests.iter().filter(|test| !test.group).map(|t| (t.body.start, t.body.end)).collect();
    spans.sort_unstable();
    let mut all = assertions(&file.source, &(0..file.source.bare.len()));
    all.retain(|assertion| {
        let after = spans.partition_point(|(start, _)| *start <= assertion.at);
        let inside = after.checked_sub(1).and_then(|n| spans.get(n));
        inside.is_none_or(|(_, end)| *end <= assertion.at)
    });
    all
}

/// Returns the hazards that a file has now and did not have, but for those in new tests.
fn hazards_added(
    before: &ComparedFile<'_>,
    after: &ComparedFile<'_>,
    old: &BTreeMap<(&str, bool), Vec<&Test>>,
) -> Vec<Note> {
    let lines: BTreeSet<&str> = before.source.text.lines().map(str::trim).collect();
    let mut left: BTreeMap<Hazard, usize> = BTreeMap::new();
    for (hazard, _) in hazards(&before.source) {
        *left.entry(hazard).or_default() += 1;
    }
    let mut fresh: Vec<(usize, usize)> = after
        .tests
        .iter()
        .filter(|test| !test.group && !old.contains_key(&(test.name.as_str(), false)))
        .map(|test| (test.start, test.body.end))
        .collect();
    fresh.sort_unstable();
    let in_new_test = |at: usize| {
        let next = fresh.partition_point(|(start, _)| *start <= at);
        next.checked_sub(1).and_then(|n| fresh.get(n)).is_some_and(|(_, end)| at < *end)
    };
    let now = hazards(&after.source).into_iter().filter(|(_, at)| !in_new_test(*at));
    let (known, unknown): (Vec<_>, Vec<_>) = now
        .map(|(hazard, at)| (hazard, at, line_at(after.source.text, at)))
        .partition(|found| lines.contains(found.2));
    for (hazard, ..) in known {
        left.entry(hazard).and_modify(|count| *count = count.saturating_sub(1));
    }
    let mut notes = Vec::new();
    for (hazard, at, line) in unknown {
        match left.get_mut(&hazard).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => notes.push(after.note(at, format!("{}: `{}`", hazard.text(), short(line)))),
        }
    }
    notes
}

/// Returns the line at a place, trimmed.
fn line_at(text: &str, at: usize) -> &str {
    let bytes = text.as_bytes();
    let start = memchr::memrchr(b'\n', &bytes[..at.min(bytes.len())]).map_or(0, |n| n + 1);
    let end = memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |n| start + n);
    text.get(start..end).unwrap_or_default().trim()
}

/// Returns a passage cut to what a person reads.
pub(super) fn short(text: &str) -> String {
    let text = text.trim();
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    let end = (0..=SHOWN).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}
