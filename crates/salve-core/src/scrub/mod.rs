//! Keeps secrets out of everything Salve stores, prints, sends or shows.
//!
//! A [`Scrubber`] puts a marker such as `[secret:github-token:3fa9c1d2]` in the place of each
//! secret: its kind, and a short keyed hash by which two occurrences of one secret can be told to
//! be the same. What is around it stays readable: of a URL only the password goes, of an
//! assignment only the value.
//!
//! One Aho-Corasick pass over the text finds the places worth a look (`triggers`); small
//! hand-written judges then look at the line around each: token shapes from a table, key blocks,
//! URLs, headers, and assignments judged by name and value. Every judgement sees one line only
//! (key blocks excepted), which is what makes streaming exact and memory bounded.
//!
//! **Invariants:** however a stream is cut, its output is that of the whole text; scrubbing twice
//! is scrubbing once; [`Scrubbed`] comes only from here.

mod mark;
mod scan;
mod scrubbed;
mod shape;
mod stream;
mod table;

pub use mark::Key;
pub use scrubbed::Scrubbed;
pub use shape::BadShape;
pub use stream::ScrubStream;

use scan::More;

/// Finds secrets and puts markers in their place.
#[derive(Clone, Debug)]
pub struct Scrubber {
    key: Key,
}

impl Scrubber {
    /// Makes a scrubber that knows the built-in kinds and marks them under `key`.
    pub fn new(key: Key) -> Self {
        Self { key }
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
        let found = scan::scan(text, more);
        let mut written = 0;
        for span in &found.spans {
            out.extend_from_slice(&text[written..span.place.start]);
            mark::write(out, &self.key, span.kind, &text[span.place.clone()]);
            written = span.place.end;
        }
        out.extend_from_slice(&text[written..found.used]);
        found.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_becomes_a_marker_that_names_its_kind() {
        let scrubber = Scrubber::new(Key::new([7; 32]));
        let token = format!("gh{}{}", "p_", "a1B2".repeat(9));
        let text = format!("push with {token} and again {token}");
        let marker = scrubber.scrub(&token);
        assert!(marker.as_str().starts_with("[secret:github-token:"), "{marker}");
        assert_eq!(scrubber.scrub(&text), &*format!("push with {marker} and again {marker}"));
        assert_eq!(scrubber.scrub(&text), scrubber.scrub(scrubber.scrub(&text).as_str()));
    }
}
