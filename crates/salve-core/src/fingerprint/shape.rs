//! The shape language of anchors: literal text with typed holes, matched on one line.
//!
//! A shape is searched for as a substring of a *flat* line (see [`Flat`]): every kind of quote
//! is `'` and white space is one blank, in the line and in the shape alike, so that `"x"` finds
//! `` `x` `` and matching is plain substring search. Work per line is bounded by a step budget,
//! which keeps hostile lines linear.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use memchr::memmem::Finder;

use super::flat::Flat;
use super::hole::{goes_on, run_back, run_forward};
use super::table::pattern::{Hole, HoleKind, LetterCase, Pattern, PatternPiece};

/// How many placements one shape may try on one line before it gives up.
const STEPS: u32 = 512;

/// How many placements all shapes may try on one text before they give up.
///
/// An ordinary text of the largest size needs a tenth of it.
const TEXT_STEPS: u32 = 16 * 1024;

/// The placements that are left for one text.
#[derive(Debug)]
pub(crate) struct Budget(Cell<u32>);

impl Default for Budget {
    fn default() -> Self {
        Self(Cell::new(TEXT_STEPS))
    }
}

/// One piece of a shape.
#[derive(Debug)]
enum ShapePart {
    Literal(Box<Finder<'static>>),
    Skip,
    Hole(Hole),
}

/// What a hole caught: its name, its kind and the text.
pub(crate) type Catch<'s, 'l> = (&'s str, HoleKind, &'l str);

/// A compiled shape.
#[derive(Debug)]
pub(crate) struct Shape {
    parts: Vec<ShapePart>,
    at_start: bool,
    at_end: bool,
    case: LetterCase,
}

impl From<Pattern> for Shape {
    fn from(Pattern { pieces, at_start, at_end, case }: Pattern) -> Self {
        let part = |piece| match piece {
            PatternPiece::Literal(text) => {
                ShapePart::Literal(Box::new(Finder::new(text.as_bytes()).into_owned()))
            }
            PatternPiece::Skip => ShapePart::Skip,
            PatternPiece::Hole(hole) => ShapePart::Hole(hole),
        };
        Self { parts: pieces.into_iter().map(part).collect(), at_start, at_end, case }
    }
}

impl Shape {
    /// Returns how much literal text the shape has.
    pub(crate) fn weight(&self) -> usize {
        let literals = self.parts.iter().map(|part| match part {
            ShapePart::Literal(finder) => finder.needle().len(),
            ShapePart::Skip | ShapePart::Hole(_) => 0,
        });
        literals.sum()
    }

    /// Returns the names of this shape's holes.
    pub(crate) fn holes(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            ShapePart::Hole(hole) => Some(&*hole.name),
            ShapePart::Literal(_) | ShapePart::Skip => None,
        })
    }

    /// Looks for the shape in a flat line and returns what its holes caught.
    pub(crate) fn find<'s, 'l>(
        &'s self,
        flat: &'l Flat,
        budget: &Budget,
    ) -> Option<Vec<Catch<'s, 'l>>> {
        let line = flat.text.as_str();
        let hay: Cow<'_, str> = match self.case {
            LetterCase::Exact => Cow::Borrowed(line),
            LetterCase::Any => Cow::Owned(line.to_ascii_lowercase()),
        };
        let floor = flat.body;
        let caught = Vec::new();
        let steps = STEPS.min(budget.0.get());
        let mut search = Search { shape: self, line, hay: &hay, floor, caught, steps };
        let found = if self.at_start {
            // A hole would take the decorations for its own.
            let starts = match self.parts.first() {
                Some(ShapePart::Hole(_)) => [flat.body, flat.core, 0],
                Some(ShapePart::Literal(_) | ShapePart::Skip) | None => [0, flat.body, flat.core],
            };
            starts.into_iter().any(|start| search.rest(0, start))
        } else {
            search.run()
        };
        let spent = steps - search.steps;
        budget.0.set(budget.0.get().saturating_sub(spent));
        found.then_some(search.caught)
    }
}

/// One attempt to place a shape on a line.
struct Search<'s, 'l, 'h> {
    shape: &'s Shape,
    line: &'l str,
    hay: &'h str,
    /// How far back an open hole may reach.
    floor: usize,
    caught: Vec<Catch<'s, 'l>>,
    steps: u32,
}

impl<'s, 'l> Search<'s, 'l, '_> {
    /// Places the shape anywhere.
    fn run(&mut self) -> bool {
        match self.shape.parts.first() {
            None => false,
            Some(ShapePart::Literal(finder)) => {
                let mut from = 0;
                while let Some(at) = self.next(finder, from) {
                    if self.rest(1, at + finder.needle().len()) {
                        return true;
                    }
                    from = at + 1;
                }
                false
            }
            Some(ShapePart::Hole(hole)) => self.leading(hole),
            Some(ShapePart::Skip) => self.rest(0, 0),
        }
    }

    /// Places a shape that opens with a hole: the hole reaches back from the first literal.
    fn leading(&mut self, hole: &'s Hole) -> bool {
        let Some(ShapePart::Literal(finder)) = self.shape.parts.get(1) else {
            return (0..self.line.len())
                .any(|at| self.line.is_char_boundary(at) && self.rest(0, at));
        };
        let mut from = 0;
        while let Some(at) = self.next(finder, from) {
            let start = run_back(hole.kind, self.line, at).max(self.floor.min(at));
            if start < at {
                let mark = self.caught.len();
                self.caught.push((&*hole.name, hole.kind, &self.line[start..at]));
                if self.rest(2, at + finder.needle().len()) {
                    return true;
                }
                self.caught.truncate(mark);
            }
            from = at + 1;
        }
        false
    }

    /// Returns where `finder` matches next, at or after `from`, while steps are left.
    fn next(&mut self, finder: &Finder<'_>, from: usize) -> Option<usize> {
        self.steps = self.steps.checked_sub(1)?;
        finder.find(self.hay.as_bytes().get(from..)?).map(|at| at + from)
    }

    /// Matches the parts from `index` on, exactly at byte `at`.
    fn rest(&mut self, index: usize, at: usize) -> bool {
        if self.steps == 0 {
            return false;
        }
        self.steps -= 1;
        let shape = self.shape;
        match shape.parts.get(index) {
            None => !shape.at_end || at == self.line.len(),
            Some(ShapePart::Literal(finder)) => {
                self.hay.as_bytes()[at..].starts_with(finder.needle())
                    && self.rest(index + 1, at + finder.needle().len())
            }
            Some(ShapePart::Skip) => self.skip(index, at),
            Some(ShapePart::Hole(hole)) if hole.kind.is_open() => self.open(hole, index, at),
            Some(ShapePart::Hole(hole)) => self.typed(hole, index, at),
        }
    }

    fn skip(&mut self, index: usize, at: usize) -> bool {
        match self.shape.parts.get(index + 1) {
            None => true,
            Some(ShapePart::Literal(finder)) => {
                let mut from = at;
                while let Some(next) = self.next(finder, from) {
                    if self.rest(index + 2, next + finder.needle().len()) {
                        return true;
                    }
                    from = next + 1;
                }
                false
            }
            Some(ShapePart::Skip | ShapePart::Hole(_)) => (at..self.line.len())
                .any(|next| self.line.is_char_boundary(next) && self.rest(index + 1, next)),
        }
    }

    /// Fills an untyped hole: the shortest run up to the next literal, or to the line's end.
    fn open(&mut self, hole: &'s Hole, index: usize, at: usize) -> bool {
        let Some(ShapePart::Literal(finder)) = self.shape.parts.get(index + 1) else {
            let end = self.line.len();
            return at < end && self.catch(hole, at..end, index + 1);
        };
        let mut from = at + 1;
        while let Some(end) = self.next(finder, from) {
            if self.catch(hole, at..end, index + 1) {
                return true;
            }
            from = end + 1;
        }
        false
    }

    /// Fills a typed hole: the longest run of its characters that lets the rest match.
    fn typed(&mut self, hole: &'s Hole, index: usize, at: usize) -> bool {
        let (least, most) = run_forward(hole.kind, self.line, at);
        let bounded = matches!(self.shape.parts.get(index + 1), Some(ShapePart::Literal(_)));
        if !bounded && hole.kind.is_number() && goes_on(&self.line[most..]) {
            return false;
        }
        let mut end = most;
        while end > at && end >= least && self.steps > 0 {
            if self.line.is_char_boundary(end) && self.catch(hole, at..end, index + 1) {
                return true;
            }
            end -= 1;
        }
        false
    }

    /// Takes `line[from..to]` for `hole` if the parts from `next` on match behind it.
    fn catch(&mut self, hole: &'s Hole, span: Range<usize>, next: usize) -> bool {
        let (text, to) = (&self.line[span.clone()], span.end);
        if !hole.kind.accepts(text) {
            return false;
        }
        let mark = self.caught.len();
        self.caught.push((&*hole.name, hole.kind, text));
        let fits = self.rest(next, to);
        if !fits {
            self.caught.truncate(mark);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(source: &str, case: LetterCase) -> Shape {
        Pattern::parse(source, case).unwrap().into()
    }

    /// Checks what the holes of `shape` catch in `line`; `None` when it must not match.
    #[track_caller]
    fn check(shape: &str, line: &str, want: Option<&[&str]>) {
        let compiled = compile(shape, LetterCase::Exact);
        let flat = Flat::new(line);
        let got = compiled.find(&flat, &Budget::default());
        let got: Option<Vec<String>> =
            got.map(|all| all.iter().map(|(_, kind, text)| kind.value(text)).collect());
        assert_eq!(
            got,
            want.map(|all| all.iter().map(|s| (*s).to_owned()).collect()),
            "{shape} on {line}"
        );
    }

    #[test]
    fn holes_catch_what_their_types_allow() {
        check(
            "address already in use {..}:{p:port}",
            "address already in use :::3000",
            Some(&["3000"]),
        );
        check("address already in use {..}:{p:port}", "address already in use :::99999", None);
        check("refused {h:host}:{p:port}", "refused ::1:5432", Some(&["local", "5432"]));
        check(
            "refused {h:host}:{p:port}",
            "refused db.internal:5432",
            Some(&["db.internal", "5432"]),
        );
        check("find module '{m:module}'", "Cannot find module \"./lib/db\"", Some(&["db"]));
        check("find module '{m:module}'", "Cannot find module `@scope/pkg`", Some(&["@scope/pkg"]));
        check("No module named {m:name}", "No module named yaml.", Some(&["yaml"]));
        check(
            "repository at '{p:path}'",
            "ownership in repository at '/srv/my app'",
            Some(&["my app"]),
        );
        check("{t:word}: command not found", "bash: line 3: jq: command not found", Some(&["jq"]));
        check("version {v:version} does", "Host version \"0.21.5\" does", None);
        check("version '{v:version}' does", "Host version \"0.21.5\" does", Some(&["0.21.5"]));
    }

    #[test]
    fn ends_are_anchored_when_asked() {
        check("^fatal: {what}", "fatal: bad thing.", Some(&["bad thing"]));
        check("^fatal: {what}", "a fatal: bad thing", None);
        check("^{what:rest}", "npm ERR! bad thing", Some(&["bad thing"]));
        check("Killed$", "Killed", Some(&[]));
        check("Killed$", "Killed by", None);
        check("brace {{x}} {n:num}", "brace {x} 12", Some(&["12"]));
    }

    #[test]
    fn white_space_and_quotes_do_not_matter() {
        check("cannot  open '{f:path}'", "cannot\topen   “/tmp/a.txt”", Some(&["a.txt"]));
    }

    #[test]
    fn folded_shapes_ignore_case() {
        let shape = compile("Out Of Memory {what:word}", LetterCase::Any);
        assert_eq!(
            shape.find(&Flat::new("OUT of memory NOW"), &Budget::default()).unwrap()[0].2,
            "NOW"
        );
    }

    #[test]
    fn hostile_lines_stay_cheap() {
        let shape = compile("a {..}b{..}c{..}d{..} {x}word{y}zzzz", LetterCase::Exact);
        let line = Flat::new(&"a b c d word ".repeat(50_000));
        assert!(shape.find(&line, &Budget::default()).is_none());
    }
}
