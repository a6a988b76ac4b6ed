//! Picks the line that names the failure.
//!
//! One pass over the text finds the candidate lines; everything else looks only at those.
//! Anchored lines weigh what their row says, other lines what their form and words say. The
//! heaviest wins, and the first of equally heavy ones: the root cause comes before the noise
//! after it. Only in a chain of `Caused by:` does the last one win.

use std::collections::HashMap;

use super::compared::{ComparedLine, compared};
use super::flat::Flat;
use super::frames;
use super::head;
use super::peel::{LogLevel, Peeled, peel};
use super::rules::FingerprintRules;
use super::shape::Budget;
use super::table::grams::ShapeId;
use super::table::vocabulary::{Says, WORDS};
use super::text::OutputText;
use crate::class::Class;

/// Lines after an anchored line in which its `near` shapes are looked for.
const NEAR_AFTER: usize = 12;
/// Lines before it.
const NEAR_BEFORE: usize = 3;
/// How many candidate lines are looked at from the start of the text, and as many from its end.
const CANDIDATES: usize = 256;

/// Lines under the name of a failed test in which its error is told.
const TOLD_UNDER: usize = 3;

/// How far apart two links of one chain of causes may be.
const CHAIN: usize = 150;
/// What a line weighs that only repeats that something failed.
const WRAPPER: i32 = 6;
/// How much more a message weighs for naming what it is about.
const NAMES: i32 = 8;
/// Up to this weight an anchor says that its line names nothing.
const NAMES_NOTHING: i32 = 20;

/// A line that may name the failure.
#[derive(Clone, Debug)]
pub(crate) struct KeyLineCandidate {
    /// Its number.
    pub(crate) line: usize,
    /// How surely it names the failure.
    pub(crate) score: i32,
    /// What its anchor weighs, before the line had a say; settles ties on one line.
    weight: i32,
    /// How much literal text its anchor matched; settles what is still a tie.
    literal: usize,
    /// Whether the line is a link in a chain of causes.
    pub(crate) cause: bool,
    /// The anchor that knows it, with the identifying values.
    pub(crate) anchor: Option<(usize, Vec<String>)>,
}

impl KeyLineCandidate {
    /// Returns the number of the anchor that knows it.
    pub(super) fn row(&self) -> Option<usize> {
        self.anchor.as_ref().map(|(anchor, _)| *anchor)
    }

    /// Returns how many identifying holes have a value.
    fn filled(&self) -> usize {
        let values = self.anchor.iter().flat_map(|(_, values)| values);
        values.filter(|value| !value.is_empty()).count()
    }
}

/// Finds every line that may name the failure, once for each anchor that knows it.
pub(crate) fn candidates(rules: &FingerprintRules, text: &OutputText<'_>) -> Vec<KeyLineCandidate> {
    let mut numbers = candidate_lines(rules, text);
    if numbers.len() > 2 * CANDIDATES {
        numbers.drain(CANDIDATES..numbers.len() - CANDIDATES);
    }
    let mut found = Vec::new();
    let mut scratch = Scratch::default();
    let mut last = "";
    for number in numbers {
        // The first of equal lines says it all.
        if text.line(number) != last {
            judge(rules, text, number, &mut scratch, &mut found);
        }
        last = text.line(number);
    }
    found
}

/// Returns the numbers of the lines in which there is any word that matters.
fn candidate_lines(rules: &FingerprintRules, text: &OutputText<'_>) -> Vec<usize> {
    let mut numbers = Vec::new();
    let mut number = 0;
    let mut at = 0;
    while at < text.whole().len() {
        let mut hit = None;
        rules.index.words.find(text.whole().as_bytes(), at, |start, _| {
            hit = Some(start);
            false
        });
        let Some(start) = hit else { break };
        while text.end(number) <= start {
            number += 1;
        }
        numbers.push(number);
        at = text.end(number);
        number += 1;
    }
    numbers
}

/// Buffers that are used again for every line.
#[derive(Debug, Default)]
struct Scratch {
    flat: Flat,
    budget: Budget,
    says: Vec<Says>,
    shapes: Vec<ShapeId>,
    /// Whether the text has the words that a row asks for; the whole of it is read once a row.
    fits: HashMap<usize, bool>,
}

impl Scratch {
    /// Flattens a line and finds the words and shapes in it.
    fn look(&mut self, rules: &FingerprintRules, line: &str, peeled: &Peeled<'_>) {
        self.flat.fill(line, peeled);
        self.says.clear();
        self.shapes.clear();
        rules.index.words.find(self.flat.text.as_bytes(), 0, |_, word| {
            self.says.extend(WORDS.get(word).map(|(_, says)| *says));
            true
        });
        rules.index.grams.look(&self.flat.text, &mut self.shapes);
    }
}

/// Tells whether a line only says that a text follows, as YAML writes `error: |-`.
fn opens_block(body: &str) -> bool {
    let sign = body.trim_end().rsplit_once(": ").map_or("", |(_, sign)| sign);
    matches!(sign, "|" | "|-" | "|+" | ">" | ">-" | ">+")
}

/// Judges one line: every anchor that matches it, or else what its words say.
fn judge(
    rules: &FingerprintRules,
    text: &OutputText<'_>,
    number: usize,
    scratch: &mut Scratch,
    found: &mut Vec<KeyLineCandidate>,
) {
    let peeled = peel(text.line(number));
    if frames::is_frame(peeled.body) || opens_block(peeled.body) {
        return;
    }
    scratch.look(rules, text.line(number), &peeled);
    let compared = compared(text, number);
    let echo = (peeled.level == LogLevel::Plain && is_echo(text, number, peeled.body))
        || compared == Some(ComparedLine::Holds);
    let line = RankedLine {
        number,
        flat: &scratch.flat,
        budget: &scratch.budget,
        plain: if echo { 0 } else { plain_score(&peeled, &scratch.says) },
        penalty: if echo { 30 } else { log_level_penalty(peeled.level) },
        cause: peeled.body.starts_with("Caused by:"),
    };
    let before = found.len();
    for &(anchor, shape) in &scratch.shapes {
        let tried = ShapePlace { anchor: anchor as usize, shape: shape as usize };
        if compared.is_some() && !is_about_tests(rules, tried) {
            continue;
        }
        let Some(next) = line.anchored(rules, text, tried, &mut scratch.fits) else { continue };
        let twin = found[before..].iter_mut().find(|old| old.row() == next.row());
        match twin {
            Some(old) if (next.filled(), next.literal) > (old.filled(), old.literal) => *old = next,
            Some(_) => {}
            None => found.push(next),
        }
    }
    // An anchor that knows the line knows better than its words.
    if found.len() == before && line.plain > 0 {
        found.push(line.candidate(line.plain));
    }
}

/// Returns whether an anchor knows failed tests.
fn is_about_tests(rules: &FingerprintRules, tried: ShapePlace) -> bool {
    rules.anchor(tried.anchor).is_some_and(|row| row.class == Class::TestFailure)
}

/// Which shape of which anchor is tried.
#[derive(Clone, Copy)]
struct ShapePlace {
    anchor: usize,
    shape: usize,
}

/// A line under judgement.
struct RankedLine<'l> {
    number: usize,
    flat: &'l Flat,
    budget: &'l Budget,
    plain: i32,
    penalty: i32,
    cause: bool,
}

impl RankedLine<'_> {
    /// Makes a candidate that no anchor knows.
    fn candidate(&self, score: i32) -> KeyLineCandidate {
        KeyLineCandidate {
            line: self.number,
            score,
            weight: 0,
            literal: 0,
            cause: self.cause,
            anchor: None,
        }
    }

    /// Tries one shape of one anchor.
    fn anchored(
        &self,
        rules: &FingerprintRules,
        text: &OutputText<'_>,
        ShapePlace { anchor, shape }: ShapePlace,
        fits: &mut HashMap<usize, bool>,
    ) -> Option<KeyLineCandidate> {
        let row = rules.anchor(anchor)?;
        let values = row.catch(shape, self.flat, self.budget, || around(text, self.number))?;
        if row.asks() && !*fits.entry(anchor).or_insert_with(|| row.fits(text.whole())) {
            return None;
        }
        let weight = i32::from(rules.weight(anchor, row));
        let names = weight > NAMES_NOTHING;
        let score = if names { (weight - self.penalty).max(self.plain) } else { weight };
        let literal = row.shapes[shape].weight();
        Some(KeyLineCandidate {
            weight,
            literal,
            anchor: Some((anchor, values)),
            ..self.candidate(score)
        })
    }
}

/// Returns how much less an anchored line weighs for how it was logged.
fn log_level_penalty(level: LogLevel) -> i32 {
    match level {
        LogLevel::Plain | LogLevel::Error => 0,
        LogLevel::Warning => 14,
        LogLevel::Info => 16,
    }
}

/// Returns whether a line is source code shown around the failure, not a message.
fn is_echo(text: &OutputText<'_>, number: usize, body: &str) -> bool {
    const STARTS: &[&str] = &[
        "throw ",
        "raise ",
        "return ",
        "const ",
        "let ",
        "var ",
        "if (",
        "import ",
        "await ",
        "console.",
        "assert ",
        "} catch",
        "else ",
        "except ",
        "def ",
        "function ",
        "export default ",
        "export const ",
        "export {",
        "export function ",
        "export async ",
        "export class ",
        "export type ",
        "export interface ",
        "new Error",
    ];
    let imports = body.starts_with("from ") && body.contains(" import ");
    if imports || STARTS.iter().any(|start| body.starts_with(start)) {
        return true;
    }
    let digits =
        body.trim_start_matches(['>', ' ']).trim_start_matches(|c: char| c.is_ascii_digit());
    if digits.trim_start().starts_with('|') && digits.len() < body.len() {
        return true;
    }
    let indented = text.line(number).starts_with("    ");
    indented
        && number > 0
        && peel(text.line(number - 1)).body.starts_with("File \"")
        && head::exception(body).is_none()
}

/// Returns the flat lines around line `number`: those after it, then those before it.
fn around(text: &OutputText<'_>, number: usize) -> Vec<Flat> {
    let after = number + 1..(number + 1 + NEAR_AFTER).min(text.len());
    let before = (number.saturating_sub(NEAR_BEFORE)..number).rev();
    after.chain(before).map(|n| Flat::new(text.line(n))).collect()
}

/// Returns how surely a line names the failure, by its form and its words.
fn plain_score(peeled: &Peeled<'_>, says: &[Says]) -> i32 {
    let mut best = 0;
    let mut wrapper = false;
    for say in says {
        match say {
            Says::Up(points) => best = best.max(i32::from(*points)),
            Says::Wrapper => wrapper = true,
            Says::Noise => return 0,
        }
    }
    if wrapper || is_place(peeled.core) || is_field(peeled) {
        return WRAPPER;
    }
    let best = if best > 0 && names(peeled.core) { best + NAMES } else { best };
    let best = head::form(peeled).map_or(best, |form| form.max(best));
    match peeled.level {
        LogLevel::Plain => best,
        LogLevel::Error => best + 2,
        LogLevel::Warning => best / 4,
        LogLevel::Info => best / 2,
    }
}

/// Returns whether a message has a name in quotes, and so tells what it is about.
fn names(core: &str) -> bool {
    let quote = |c: char| matches!(c, '\'' | '"' | '`' | '‘' | '“');
    let mut parts = core.split(quote);
    // A quote inside a word is an apostrophe.
    let opens = parts.next().is_some_and(|front| !front.ends_with(char::is_alphanumeric));
    opens
        && parts.next().is_some_and(|name| {
            (2..=64).contains(&name.len()) && !name.contains(' ') && parts.next().is_some()
        })
}

/// Returns whether a message is only the place of an error, which the next lines name.
fn is_place(core: &str) -> bool {
    let span = |at: &str| at.bytes().all(|b| b.is_ascii_digit() || matches!(b, b':' | b'-'));
    let core = core.rsplit_once(' ').filter(|(_, at)| span(at)).map_or(core, |(place, _)| place);
    core.contains(['/', '\\']) && !core.contains([' ', '\t', '\'', '"']) && !core.contains("://")
}

/// Returns whether a line is a field of npm's report, as in `code ENOENT`.
fn is_field(peeled: &Peeled<'_>) -> bool {
    const FIELDS: &[&str] = &["code ", "errno ", "syscall ", "path ", "command ", "cwd "];
    peeled.level == LogLevel::Error && FIELDS.iter().any(|field| peeled.body.starts_with(field))
}

/// Returns whether line `number` is in what is told of the test that failed in line `test`.
///
/// That is the line itself, the error right under it, and what pytest marks with an `E`.
pub(super) fn reports(text: &OutputText<'_>, test: usize, number: usize) -> bool {
    let under = test..=test + TOLD_UNDER;
    let marked = || text.line(number).contains("E     ");
    under.contains(&number) || ((test..test + NEAR_AFTER).contains(&number) && marked())
}

/// Returns the candidate that names the failure.
pub(crate) fn pick(found: &[KeyLineCandidate]) -> Option<&KeyLineCandidate> {
    found.iter().reduce(|best, next| if is_better_candidate(next, best) { next } else { best })
}

/// Returns whether `next`, which stands on the same line as `best` or a later one, is better.
fn is_better_candidate(next: &KeyLineCandidate, best: &KeyLineCandidate) -> bool {
    if next.score != best.score {
        return next.score > best.score;
    }
    if next.line == best.line {
        return (next.weight, next.literal) > (best.weight, best.literal);
    }
    next.cause && next.line - best.line < CHAIN
}
