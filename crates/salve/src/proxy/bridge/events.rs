//! A stream of events, which may be cut off and taken up where it was.

use std::io::{self, BufRead as _, BufReader, Read};
use std::time::Duration;

/// How long a server that says nothing about it is left alone before it is asked to go on.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest such time, whatever the server says.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest such time.
const LONGEST: Duration = Duration::from_secs(60);

/// How far a stream has come, by which the server takes it up again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamPlace {
    /// The last event's own id; without one the stream cannot be taken up.
    pub(super) last_id: Option<String>,
    retry: Option<Duration>,
}

impl StreamPlace {
    /// Returns how long the server wants to be left alone.
    pub(super) fn pause(&self) -> Duration {
        self.retry.unwrap_or(PAUSE).clamp(SHORTEST, LONGEST)
    }
}

/// Reads the events of one stream.
#[derive(Debug)]
pub(super) struct EventReader<R> {
    lines: BufReader<R>,
    is_over: bool,
}

impl<R: Read> EventReader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { lines: BufReader::new(stream), is_over: false }
    }

    /// Returns what the next event says, and notes in `place` how far the stream is; returns nothing
    /// at the stream's end.
    pub(super) fn next(&mut self, place: &mut StreamPlace) -> io::Result<Option<Vec<u8>>> {
        let (mut line, mut data) = (Vec::new(), Vec::new());
        let mut id: Option<String> = None;
        while !self.is_over {
            line.clear();
            self.is_over = self.lines.read_until(b'\n', &mut line)? == 0;
            if !self.is_over && !line.ends_with(b"\n") {
                // It was cut off in the midst of a line, and comes again.
                return Ok(None);
            }
            let said = line.strip_suffix(b"\n").unwrap_or(&line);
            let said = said.strip_suffix(b"\r").unwrap_or(said);
            if said.is_empty() {
                if let Some(id) = id.take() {
                    place.last_id = (!id.is_empty()).then_some(id);
                }
                if !data.is_empty() {
                    return Ok(Some(data));
                }
            } else if let Some(more) = field(said, b"data") {
                if !data.is_empty() {
                    data.push(b' ');
                }
                data.extend_from_slice(more);
            } else if let Some(text) = field(said, b"id") {
                id = std::str::from_utf8(text).ok().map(str::to_owned);
            } else if let Some(text) = field(said, b"retry") {
                let milliseconds =
                    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                place.retry = milliseconds.map(Duration::from_millis).or(place.retry);
            }
        }
        Ok(None)
    }
}

/// Returns what a line says if it is of this field.
fn field<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let value = line.strip_prefix(name)?.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_the_place_is_known_by_the_last_whole_one() {
        let text = ": hello\nid: 1\nretry: 250\ndata: \n\nevent: message\r\nid: 2\r\ndata: {\"a\":\r\n\
                    data: 1}\r\n\r\ndata:x\n\nid: 3\ndata: cut o";
        let mut events = EventReader::new(text.as_bytes());
        let mut place = StreamPlace::default();
        let mut next = || {
            let said = events.next(&mut place).unwrap();
            (said.map(|said| String::from_utf8(said).unwrap()), place.clone())
        };
        let (said, place) = next();
        assert_eq!(said.as_deref(), Some("{\"a\": 1}"));
        assert_eq!(
            (place.last_id.as_deref(), place.pause()),
            (Some("2"), Duration::from_millis(250))
        );
        assert_eq!(next().0.as_deref(), Some("x"));
        let (said, place) = next();
        assert_eq!((said, place.last_id.as_deref()), (None, Some("2")), "the third comes again");
        let mut last = EventReader::new(&b"data: all\n"[..]);
        assert_eq!(last.next(&mut StreamPlace::default()).unwrap(), Some(b"all".to_vec()));
        assert_eq!(StreamPlace::default().pause(), PAUSE);
    }
}
