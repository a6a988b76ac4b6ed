//! Keeps secrets out of everything Salve stores, prints, sends or shows.
//!
//! A [`Scrubber`] puts a marker such as `[secret:github-token:3fa9c1d2]` in the place of each
//! secret: its kind, and a short keyed hash by which two occurrences of one secret can be told to
//! be the same. What is around it stays readable: of a URL only the password goes, of an
//! assignment only the value.
//!
//! One pass over the text finds the words that are worth a look; small hand-written judges then
//! look at the line around each: token shapes from a table, key blocks, URLs, headers, and
//! assignments judged by name and value. Every judgement sees one line only (key blocks
//! excepted), which is what makes streaming exact and memory bounded.
//!
//! **Invariants:** however a stream is cut, its output is that of the whole text; scrubbing twice
//! is scrubbing once; [`Scrubbed`] comes only from here.

mod assign;
mod block;
mod command;
mod header;
mod judge;
mod known;
mod line;
mod lines;
mod mark;
mod name;
mod pattern;
mod phrase;
mod scan;
mod scrubbed;
mod shape;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod trigger;
mod url;
mod value;
mod words;

use std::ops::Range;

pub use mark::Key;
pub use pattern::BadPattern;
pub use scrubbed::Scrubbed;
pub use stream::ScrubStream;

use known::Known;
use line::{Find, rank};
use lines::Lines;
use pattern::Patterns;
use scan::{Found, More};

/// How often a line is looked at again; each time at least one more marker is written.
const MAX_PASSES: usize = 16;

/// Finds secrets and puts markers in their place.
#[derive(Clone, Debug)]
pub struct Scrubber {
    key: Key,
    known: Known,
    patterns: Patterns,
}

impl Scrubber {
    /// Makes a scrubber that knows the built-in kinds and marks them under `key`.
    pub fn new(key: Key) -> Self {
        Self { key, known: Known::default(), patterns: Patterns::default() }
    }

    /// Adds the values of those environment variables whose names say secret.
    ///
    /// They are found wherever they stand, also base64- or URL-encoded. Values too short or too
    /// plain to be told from ordinary words are not looked for.
    #[must_use]
    pub fn with_variables<'a>(
        mut self,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        self.known = Known::new(variables);
        self
    }

    /// Adds the user's own patterns: a kind and a regular expression each.
    ///
    /// A pattern is matched against one line at a time. If it has a group, the first is the
    /// secret, else all of it is.
    pub fn with_patterns<'a>(
        mut self,
        patterns: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, BadPattern> {
        self.patterns = Patterns::new(patterns)?;
        Ok(self)
    }

    /// Returns `text` with a marker in the place of each secret.
    pub fn scrub(&self, text: &str) -> Scrubbed {
        let out = self.scrub_bytes(text.as_bytes());
        let text = String::from_utf8(out)
            .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
        Scrubbed::from_scrubber(text)
    }

    /// Returns `bytes` with a marker in the place of each secret; what is not UTF-8 stays as it is.
    pub fn scrub_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        self.scrub_part(bytes, More::None, &mut out);
        out
    }

    /// Returns `bytes` as text with a marker in the place of each secret.
    ///
    /// What is not UTF-8 becomes U+FFFD.
    pub fn scrub_lossy(&self, bytes: &[u8]) -> Scrubbed {
        self.scrub(&String::from_utf8_lossy(bytes))
    }

    /// Starts scrubbing a text that arrives in pieces.
    pub fn stream(&self) -> ScrubStream<'_> {
        ScrubStream::new(self)
    }

    /// Scrubs as much of `text` as can be told for sure and returns how much that was.
    fn scrub_part(&self, text: &[u8], more: More, out: &mut Vec<u8>) -> usize {
        let found = self.find(text, more);
        let judged = &text[..found.used];
        let mut lines = Lines::new(judged);
        let (mut written, mut next) = (0, 0);
        while let Some(first) = found.finds.get(next) {
            // The lines from the one where a secret begins to the one where the last of them ends.
            let mut stretch = lines.around(first.place.start);
            let from = next;
            while let Some(find) = found.finds.get(next).filter(|f| f.place.start < stretch.end) {
                stretch.end = stretch.end.max(lines.around(find.place.end - 1).end);
                next += 1;
            }
            out.extend_from_slice(&judged[written..stretch.start]);
            let mut part = Vec::with_capacity(stretch.len() + 64);
            if self.write(judged, stretch.clone(), &found.finds[from..next], &mut part) {
                part = self.settle(part);
            }
            out.extend_from_slice(&part);
            written = stretch.end;
        }
        out.extend_from_slice(&judged[written..]);
        found.used
    }

    /// Finds all secrets in `text`, in order and apart from each other and from markers.
    fn find(&self, text: &[u8], more: More) -> Found<'_> {
        let mut found = scan::scan(text, more);
        let judged = &text[..found.used];
        for place in self.known.find(judged) {
            found.finds.push(Find { place, kind: "env-value", rank: rank::VALUE });
        }
        self.patterns.find(judged, &mut found.finds);
        found.finds.retain(|find| find.place.end <= judged.len() && !find.place.is_empty());
        let finds = apart(found.finds).into_iter().flat_map(|find| {
            let pieces = outside(&find.place, &found.marks, judged);
            pieces.into_iter().map(move |place| Find { place, ..find.clone() })
        });
        Found { finds: finds.collect(), ..found }
    }

    /// Writes `stretch` of `text` with markers for `finds`; returns whether there were any.
    fn write(
        &self,
        text: &[u8],
        stretch: Range<usize>,
        finds: &[Find<'_>],
        out: &mut Vec<u8>,
    ) -> bool {
        let mut written = stretch.start;
        for find in finds {
            // Should two ever overlap, what both hold is marked once.
            let place = find.place.start.max(written)..find.place.end;
            if place.is_empty() {
                continue;
            }
            out.extend_from_slice(&text[written..place.start]);
            mark::write(out, &self.key, find.kind, &text[place.clone()]);
            written = place.end;
        }
        out.extend_from_slice(text.get(written..stretch.end).unwrap_or_default());
        !finds.is_empty()
    }

    /// Looks again at lines that got markers, until nothing new is found.
    ///
    /// A marker may free what stands beside it from the word it was read as a part of, so that
    /// only then it shows. Without this a second scrubbing could find what the first left.
    fn settle(&self, mut part: Vec<u8>) -> Vec<u8> {
        for _ in 0..MAX_PASSES {
            let found = self.find(&part, More::None);
            let mut next = Vec::with_capacity(part.len());
            if !self.write(&part, 0..part.len(), &found.finds, &mut next) {
                break;
            }
            part = next;
        }
        part
    }
}

/// Puts the finds in order and joins those that overlap.
fn apart(mut finds: Vec<Find<'_>>) -> Vec<Find<'_>> {
    finds.sort_by_key(|f| (f.place.start, usize::MAX - f.place.end, u8::MAX - f.rank));
    let mut joined: Vec<Find<'_>> = Vec::with_capacity(finds.len());
    for find in finds {
        match joined.last_mut() {
            Some(last) if find.place.start < last.place.end => {
                last.place.end = last.place.end.max(find.place.end);
            }
            Some(_) | None => joined.push(find),
        }
    }
    joined
}

/// Returns what of `place` is outside of `marks` and worth a marker of its own.
fn outside(place: &Range<usize>, marks: &[Range<usize>], text: &[u8]) -> Vec<Range<usize>> {
    let first = marks.partition_point(|mark| mark.end <= place.start);
    let inside: Vec<_> = marks[first..].iter().take_while(|mark| mark.start < place.end).collect();
    if inside.is_empty() {
        return vec![place.clone()];
    }
    let starts = std::iter::once(place.start).chain(inside.iter().map(|mark| mark.end));
    let ends = inside.iter().map(|mark| mark.start).chain(std::iter::once(place.end));
    let pieces = starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end);
    let telling = |p: &Range<usize>| {
        text[p.clone()].iter().filter(|b| b.is_ascii_alphanumeric()).count() >= 4
    };
    pieces.filter(telling).collect()
}
