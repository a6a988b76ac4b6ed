//! NATS as it goes over the wire, as far as a soak reads it: frames, and a client that asks for one
//! message.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// One frame of the protocol, with its bytes as they came.
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// How long its first line is, with its end.
    line: usize,
}

impl Frame {
    /// Reads the next frame; nothing where the other side has gone.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        if from.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        let line = bytes.len();
        let mut frame = Self { bytes, line };
        if matches!(frame.word(0), "PUB" | "HPUB" | "MSG" | "HMSG") {
            let size = frame.words().last().and_then(|word| word.parse::<usize>().ok());
            let start = frame.bytes.len();
            // The body ends with an end of line of its own.
            frame.bytes.resize(start + size.unwrap_or(0) + 2, 0);
            from.read_exact(&mut frame.bytes[start..])?;
        }
        Ok(Some(frame))
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        str::from_utf8(&self.bytes[..self.line]).unwrap_or_default().split_ascii_whitespace()
    }

    fn word(&self, number: usize) -> &str {
        self.words().nth(number).unwrap_or_default()
    }

    fn body(&self) -> &[u8] {
        &self.bytes[self.line.min(self.bytes.len())..self.bytes.len().saturating_sub(2)]
    }

    /// Returns a message that is sent: where to, where the answer is to go, and what.
    pub(super) fn sent(&self) -> Option<Message<'_>> {
        let words: Vec<&str> = self.words().collect();
        let (subject, reply, head) = match words.as_slice() {
            ["PUB", subject, _] => (subject, "", 0),
            ["PUB", subject, reply, _] => (subject, *reply, 0),
            ["HPUB", subject, head, _] => (subject, "", head.parse().ok()?),
            ["HPUB", subject, reply, head, _] => (subject, *reply, head.parse().ok()?),
            _ => return None,
        };
        self.message(subject, reply, head)
    }

    /// Returns a message that arrives.
    pub(super) fn received(&self) -> Option<Message<'_>> {
        let words: Vec<&str> = self.words().collect();
        let (subject, head) = match words.as_slice() {
            ["MSG", subject, ..] => (subject, 0),
            ["HMSG", subject, .., head, _] => (subject, head.parse().ok()?),
            _ => return None,
        };
        self.message(subject, "", head)
    }

    fn message<'f>(&'f self, subject: &'f str, reply: &'f str, head: usize) -> Option<Message<'f>> {
        let (head, payload) = self.body().split_at_checked(head)?;
        Some(Message { subject, reply, head: str::from_utf8(head).ok()?, payload })
    }
}

/// A message on its way.
pub(super) struct Message<'f> {
    pub(super) subject: &'f str,
    pub(super) reply: &'f str,
    head: &'f str,
    pub(super) payload: &'f [u8],
}

impl Message<'_> {
    /// Returns the revision that it is to replace.
    pub(super) fn expected(&self) -> Option<u64> {
        let name = "nats-expected-last-subject-sequence:";
        let line = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
        line.get(name.len()..)?.trim().parse().ok()
    }

    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_slice(self.payload).ok()
    }
}

/// Asks the servers one thing; nothing where they do not answer.
pub(super) fn ask(address: &SocketAddr, subject: &str, payload: &str) -> Option<Value> {
    let mut stream = TcpStream::connect_timeout(address, Duration::from_millis(700)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
    let size = payload.len();
    let words = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB {subject} answer {size}\r\n{payload}\r\n"
    );
    stream.write_all(words.as_bytes()).ok()?;
    let mut from = BufReader::new(stream.try_clone().ok()?);
    while let Ok(Some(frame)) = Frame::read(&mut from) {
        if frame.word(0) == "PING" {
            stream.write_all(b"PONG\r\n").ok()?;
        }
        if let Some(message) = frame.received() {
            return message.json();
        }
    }
    None
}

/// Passes all that comes through until one side has gone.
pub(super) fn pass(from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&Frame) -> Passing) {
    let mut from = BufReader::new(from);
    while let Ok(Some(frame)) = Frame::read(&mut from) {
        if look(&frame) == Passing::Kept || to.write_all(&frame.bytes).is_err() {
            break;
        }
    }
    // The other direction ends, too.
    let _gone = to.shutdown(std::net::Shutdown::Both);
    let _gone = from.get_ref().shutdown(std::net::Shutdown::Both);
    let _rest = from.get_mut().read(&mut []);
}

/// Whether a frame goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    On,
    /// It is kept, and the connection ends.
    Kept,
}
