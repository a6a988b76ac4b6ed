//! Picks the line that names the failure.
//!
//! One pass of the automaton finds the candidate lines; everything else looks only at those.
//! Anchored lines weigh what their row says, other lines what their words say. The heaviest
//! wins, and the first of equally heavy ones: the root cause comes before the noise after it.

use aho_corasick::Input;

use super::peel::{Level, Peeled, peel};
use super::rules::Rules;
use super::shape::flatten;
use super::vocabulary::Says;

/// Lines after an anchored line in which its `near` shapes are looked for.
const NEAR_AFTER: usize = 12;
/// Lines before it.
const NEAR_BEFORE: usize = 3;
/// How many candidate lines are looked at from the start of the text, and as many from its end.
const CANDIDATES: usize = 512;

/// A cleaned text and where its lines are.
#[derive(Debug)]
pub(crate) struct Text<'t> {
    text: &'t str,
    lines: Vec<(usize, usize)>,
}

impl<'t> Text<'t> {
    /// Finds the lines of a cleaned text.
    pub(crate) fn new(text: &'t str) -> Self {
        let mut lines = Vec::with_capacity(64);
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', text.as_bytes()) {
            lines.push((start, end));
            start = end + 1;
        }
        if start < text.len() {
            lines.push((start, text.len()));
        }
        Self { text, lines }
    }

    /// Returns the whole text.
    pub(crate) fn whole(&self) -> &'t str {
        self.text
    }

    /// Returns how many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns line `number`, or an empty one past the end.
    pub(crate) fn line(&self, number: usize) -> &'t str {
        self.lines.get(number).map_or("", |(start, end)| &self.text[*start..*end])
    }
}

/// A line that may name the failure.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Its number.
    pub(crate) line: usize,
    /// How surely it names the failure.
    pub(crate) score: i32,
    /// The anchor that knows it, with the identifying values.
    pub(crate) anchor: Option<(usize, Vec<String>)>,
}

/// Finds every line that may name the failure, best anchor each.
pub(crate) fn candidates(rules: &Rules, text: &Text<'_>) -> Vec<Candidate> {
    let mut numbers = candidate_lines(rules, text);
    if numbers.len() > 2 * CANDIDATES {
        numbers.drain(CANDIDATES..numbers.len() - CANDIDATES);
    }
    let mut found = Vec::new();
    for number in numbers {
        judge(rules, text, number, &mut found);
    }
    found
}

/// Returns the numbers of the lines in which the automaton finds anything.
fn candidate_lines(rules: &Rules, text: &Text<'_>) -> Vec<usize> {
    let mut numbers = Vec::new();
    let mut number = 0;
    let mut at = 0;
    while let Some(hit) = rules.automaton.find(Input::new(text.text).range(at..)) {
        while text.lines[number].1 < hit.start() {
            number += 1;
        }
        numbers.push(number);
        at = (text.lines[number].1 + 1).min(text.text.len());
    }
    numbers
}

/// Judges one line: every anchor that matches it, and what its words say.
fn judge(rules: &Rules, text: &Text<'_>, number: usize, found: &mut Vec<Candidate>) {
    let peeled = peel(text.line(number));
    let flat = flatten(peeled.body);
    let inner = flat.len().saturating_sub(flatten(peeled.core).len());
    let mut says = Vec::new();
    let mut tried: Vec<(u32, u32)> = Vec::new();
    for hit in rules.automaton.find_overlapping_iter(&flat) {
        let pattern = &rules.patterns[hit.pattern().as_usize()];
        says.extend(pattern.says);
        for shape in &pattern.shapes {
            if !tried.contains(shape) {
                tried.push(*shape);
            }
        }
    }
    for (anchor, shape) in tried {
        let (anchor, shape) = (anchor as usize, shape as usize);
        let row = &rules.anchors[anchor];
        let around = || around(text, number);
        let Some(values) = row.catch(shape, (&flat, inner), around) else { continue };
        if !row
            .require
            .iter()
            .all(|word| memchr::memmem::find(text.text.as_bytes(), word.as_bytes()).is_some())
        {
            continue;
        }
        let score = i32::from(row.weight);
        found.push(Candidate { line: number, score, anchor: Some((anchor, values)) });
    }
    let score = plain_score(&peeled, &says);
    if score > 0 {
        found.push(Candidate { line: number, score, anchor: None });
    }
}

/// Returns the flat lines around line `number`: those after it, then those before it.
fn around(text: &Text<'_>, number: usize) -> Vec<String> {
    let after = number + 1..(number + 1 + NEAR_AFTER).min(text.len());
    let before = (number.saturating_sub(NEAR_BEFORE)..number).rev();
    after.chain(before).map(|n| flatten(peel(text.line(n)).body)).collect()
}

/// Returns how surely a line names the failure, by its words alone.
fn plain_score(peeled: &Peeled<'_>, says: &[Says]) -> i32 {
    let mut best = 0;
    for say in says {
        match say {
            Says::Up(points) => best = best.max(i32::from(*points)),
            Says::Wrapper => return 6,
            Says::Noise => return 0,
        }
    }
    match peeled.level {
        Level::Plain => best,
        Level::Error => best + 2,
        Level::Warning => best / 4,
        Level::Info => best / 2,
    }
}

/// Returns the candidate that names the failure.
pub(crate) fn pick(found: &[Candidate]) -> Option<&Candidate> {
    found.iter().reduce(|best, next| if next.score > best.score { next } else { best })
}
