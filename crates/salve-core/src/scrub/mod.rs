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
//! excepted, which are read first, and values on the line after their name's, for which that is
//! held back), which is what makes streaming exact and memory bounded.
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
mod pair;
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

pub use mark::ScrubKey;
pub use pattern::BadPattern;
pub use scrubbed::Scrubbed;
pub use stream::ScrubStream;

use block::Blocks;
use known::KnownSecrets;
use line::{Find, rank};
use lines::Lines;
use pattern::ScrubPatterns;
use scan::{FoundSecret, More};

/// How often a line is looked at again; each time at least one more marker is written.
const MAX_PASSES: usize = 16;

/// Finds secrets and puts markers in their place.
#[derive(Clone, Debug)]
pub struct Scrubber {
    key: ScrubKey,
    known: KnownSecrets,
    patterns: ScrubPatterns,
}

impl Scrubber {
    /// Makes a scrubber that knows the built-in kinds and marks them under `key`.
    pub fn new(key: ScrubKey) -> Self {
        Self { key, known: KnownSecrets::default(), patterns: ScrubPatterns::default() }
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
        self.known = KnownSecrets::new(variables);
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
        self.patterns = ScrubPatterns::new(patterns)?;
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
        let lines = match more {
            More::None => text.len(),
            More::Maybe => Lines::complete(text),
        };
        let mut blocks = block::find(&text[..lines], more);
        let used = blocks.open.unwrap_or(lines);
        let used = pair::open(&text[..used], more).unwrap_or(used);
        blocks.keys.retain(|key| key.end <= used);
        let text = &text[..used];
        let finds = self.find(text, &blocks.keys);
        let start = out.len();
        let seams = self.rewrite(text, &finds, out);
        if !blocks.bare || finds.is_empty() {
            return used;
        }
        let Some(used) = self.read_again(ScrubPass { blocks, seams }, more, out, start) else {
            return used;
        };
        let used = pair::open(&text[..used], more).unwrap_or(used);
        out.truncate(start);
        self.scrub_part(&text[..used], More::None, out);
        used
    }

    /// Reads the blocks again in what was written from `start` on, until no new key shows.
    ///
    /// Returns where the text has to be cut if a key now goes on beyond its end.
    ///
    /// A line that stood in a key's way may be mostly a marker by now. Without this a second
    /// scrubbing could read on where the first had to stop.
    fn read_again(
        &self,
        first: ScrubPass,
        more: More,
        out: &mut Vec<u8>,
        start: usize,
    ) -> Option<usize> {
        let mut passes = vec![first];
        for _ in 0..MAX_PASSES {
            let text = &out[start..];
            let blocks = block::find(text, more);
            if let Some(open) = blocks.open {
                let passes = passes.iter().rev();
                return Some(passes.fold(open, |at, pass| pass.blocks.cut(pass.seams.origin(at))));
            }
            if blocks.keys.is_empty() {
                break;
            }
            let keys = blocks.keys.iter().cloned().map(Find::key);
            let finds = around(keys.collect(), &mark::all(text), text);
            let text = out.split_off(start);
            let seams = self.rewrite(&text, &finds, out);
            passes.push(ScrubPass { blocks, seams });
        }
        None
    }

    /// Finds all secrets in `text`, in order and apart from each other and from markers.
    fn find(&self, text: &[u8], keys: &[Range<usize>]) -> Vec<Find<'_>> {
        let FoundSecret { mut finds, marks } = scan::scan(text);
        finds.extend(keys.iter().cloned().map(Find::key));
        pair::find(text, &mut finds);
        for place in self.known.find(text) {
            finds.push(Find { place, kind: "env-value", rank: rank::VALUE });
        }
        self.patterns.find(text, &mut finds);
        finds.retain(|find| !find.place.is_empty());
        around(apart(finds), &marks, text)
    }

    /// Writes `text` with markers for `finds`.
    fn rewrite(&self, text: &[u8], finds: &[Find<'_>], out: &mut Vec<u8>) -> Seams {
        let start = out.len();
        let mut seams = Seams::default();
        let mut lines = Lines::new(text);
        let (mut written, mut next) = (0, 0);
        while let Some(first) = finds.get(next) {
            // The lines from the one where a secret begins to the one where the last of them ends.
            let mut stretch = lines.around(first.place.start);
            let from = next;
            while let Some(find) = finds.get(next).filter(|f| f.place.start < stretch.end) {
                stretch.end = stretch.end.max(lines.around(find.place.end - 1).end);
                next += 1;
            }
            out.extend_from_slice(&text[written..stretch.start]);
            let mut part = Vec::with_capacity(stretch.len() + 64);
            if self.write(text, stretch.clone(), &finds[from..next], &mut part) {
                part = self.settle(part);
            }
            let to = out.len() - start..out.len() - start + part.len();
            out.extend_from_slice(&part);
            written = stretch.end;
            seams.0.push((stretch, to));
        }
        out.extend_from_slice(&text[written..]);
        seams
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
    /// only then it shows. Without this a second scrubbing could find what the first left. Key
    /// blocks are not looked for: they may go on beyond these lines.
    fn settle(&self, mut part: Vec<u8>) -> Vec<u8> {
        for _ in 0..MAX_PASSES {
            let finds = self.find(&part, &[]);
            let mut next = Vec::with_capacity(part.len());
            if !self.write(&part, 0..part.len(), &finds, &mut next) {
                break;
            }
            part = next;
        }
        part
    }
}

/// What one pass over a text found and rewrote.
#[derive(Debug)]
struct ScrubPass {
    blocks: Blocks,
    seams: Seams,
}

/// Which stretches of a text were rewritten: where they stood, and where they stand now.
#[derive(Debug, Default)]
struct Seams(Vec<(Range<usize>, Range<usize>)>);

impl Seams {
    /// Returns where the text before `end` came from, up to the stretch that `end` is in.
    fn origin(&self, end: usize) -> usize {
        let before = self.0.partition_point(|(_, to)| to.start < end);
        match before.checked_sub(1).map(|last| &self.0[last]) {
            None => end,
            Some((from, to)) if end < to.end => from.start,
            Some((from, to)) => from.end + (end - to.end),
        }
    }
}

/// Leaves of each find what is outside of `marks`.
fn around<'k>(finds: Vec<Find<'k>>, marks: &[Range<usize>], text: &[u8]) -> Vec<Find<'k>> {
    if marks.is_empty() {
        return finds;
    }
    let pieces = finds.into_iter().flat_map(|find| {
        let pieces = outside(&find.place, marks, text);
        pieces.into_iter().map(move |place| Find { place, ..find.clone() })
    });
    pieces.collect()
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
    let pieces = starts.zip(ends).map(|(start, end)| {
        let piece = text[start..end.max(start)].trim_ascii_start();
        let start = end - piece.len();
        start..start + piece.trim_ascii_end().len()
    });
    let telling = |p: &Range<usize>| {
        text[p.clone()].iter().filter(|b| b.is_ascii_alphanumeric()).count() >= 4
    };
    pieces.filter(telling).collect()
}
