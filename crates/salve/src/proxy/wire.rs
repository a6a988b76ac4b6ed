//! Lines from one file and to another, without waiting for more than one line and without keeping
//! one that is too long.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// How much is read at once.
const CHUNK: usize = 64 << 10;
/// A line longer than this passes in pieces. It must exceed what a server with very many tools
/// answers to `tools/list`, which is read for its hints.
pub(super) const LONGEST_KEPT: usize = 1 << 20;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// One or more whole lines, each with its end.
    Lines(&'a [u8]),
    /// A piece of a line that is too long to keep.
    Part(&'a [u8]),
    /// The last piece of such a line, with its end.
    LastPart(&'a [u8]),
    /// What came after the last line's end, when nothing comes any more.
    Torn(&'a [u8]),
}

/// Reads lines.
#[derive(Debug)]
pub(super) struct LineReader {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// How much of the buffer has been handed out.
    taken: usize,
    is_in_long_line: bool,
    has_ended: bool,
}

impl LineReader {
    pub(super) fn new(fd: OwnedFd) -> Self {
        let buffer = Vec::with_capacity(CHUNK);
        Self { fd, buffer, taken: 0, is_in_long_line: false, has_ended: false }
    }

    /// Waits for the next piece; there is none once everything has been read.
    pub(super) fn next_piece(&mut self) -> io::Result<Option<Piece<'_>>> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        // What has been looked at and ends no line.
        let mut looked = 0;
        loop {
            if self.is_in_long_line {
                if let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                    self.is_in_long_line = false;
                    self.taken = end + 1;
                    return Ok(Some(Piece::LastPart(&self.buffer[..self.taken])));
                }
                if !self.buffer.is_empty() {
                    self.taken = self.buffer.len();
                    return Ok(Some(Piece::Part(&self.buffer)));
                }
            } else if let Some(end) = memchr::memrchr(b'\n', &self.buffer[looked..]) {
                self.taken = looked + end + 1;
                return Ok(Some(Piece::Lines(&self.buffer[..self.taken])));
            } else if self.buffer.len() >= LONGEST_KEPT {
                self.is_in_long_line = true;
                self.taken = self.buffer.len();
                return Ok(Some(Piece::Part(&self.buffer)));
            }
            if self.has_ended {
                let is_over = self.buffer.is_empty();
                self.taken = self.buffer.len();
                return Ok((!is_over).then_some(Piece::Torn(&self.buffer)));
            }
            looked = self.buffer.len();
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.buffer.capacity() - self.buffer.len() < CHUNK / 2 {
            self.buffer.reserve(CHUNK.max(self.buffer.len()));
        }
        loop {
            match rustix::io::read(&self.fd, spare_capacity(&mut self.buffer)) {
                Ok(0) => self.has_ended = true,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    wait_for(&self.fd, PollFlags::IN)?;
                    continue;
                }
                // A terminal or socket whose other side went away.
                Err(Errno::IO | Errno::CONNRESET) => self.has_ended = true,
                Err(error) => return Err(error.into()),
            }
            return Ok(());
        }
    }
}

/// How far a write got that did not get all the way.
#[derive(Debug)]
pub(super) struct CutShort {
    /// How many bytes were written.
    pub(super) written: usize,
}

/// Writes everything, waiting for a slow reader as long as it takes.
pub(super) fn write_all(fd: &OwnedFd, bytes: &[u8]) -> Result<(), CutShort> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(fd, &bytes[written..]) {
            Ok(0) => return Err(CutShort { written }),
            Ok(more) => written += more,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if wait_for(fd, PollFlags::OUT).is_ok() => {}
            Err(_) => return Err(CutShort { written }),
        }
    }
    Ok(())
}

/// Waits until a file that does not block is ready: whoever gave it to us may share it.
fn wait_for(fd: &OwnedFd, flags: PollFlags) -> io::Result<()> {
    loop {
        let mut ready = [PollFd::from_borrowed_fd(fd.as_fd(), flags)];
        match rustix::event::poll(&mut ready, None) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Writes `chunks` one by one and returns what each reading brought, as text.
    fn read(chunks: &[&[u8]]) -> Vec<String> {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut lines = LineReader::new(reader.into());
        let mut got = Vec::new();
        let mut take = |lines: &mut LineReader| {
            let piece = lines.next_piece().unwrap();
            let (kind, bytes) = match piece {
                Some(Piece::Lines(bytes)) => ("lines", bytes),
                Some(Piece::Part(bytes)) => ("part", bytes),
                Some(Piece::LastPart(bytes)) => ("last", bytes),
                Some(Piece::Torn(bytes)) => ("torn", bytes),
                None => return false,
            };
            got.push(format!("{kind} {}", String::from_utf8_lossy(bytes)));
            true
        };
        for chunk in chunks {
            writer.write_all(chunk).unwrap();
            if chunk.contains(&b'\n') {
                take(&mut lines);
            }
        }
        drop(writer);
        while take(&mut lines) {}
        got
    }

    #[test]
    fn whole_lines_come_together_and_the_rest_waits() {
        let got = read(&[b"a\nb\nc", b"d\n", b"e"]);
        assert_eq!(got, ["lines a\nb\n", "lines cd\n", "torn e"]);
        assert_eq!(read(&[]), [""; 0]);
    }

    #[test]
    fn a_line_that_is_too_long_comes_in_pieces_and_those_around_it_whole() {
        let (reader, mut writer) = io::pipe().unwrap();
        let long = vec![b'x'; 3 * LONGEST_KEPT];
        let sent = long.clone();
        let write = std::thread::spawn(move || {
            writer.write_all(b"a\n").unwrap();
            writer.write_all(&sent).unwrap();
            writer.write_all(b"\nb\n").unwrap();
        });
        let mut lines = LineReader::new(reader.into());
        assert_eq!(lines.next_piece().unwrap(), Some(Piece::Lines(b"a\n")));
        let mut got = Vec::new();
        loop {
            match lines.next_piece().unwrap().unwrap() {
                Piece::Part(bytes) => got.extend_from_slice(bytes),
                Piece::LastPart(bytes) => break got.extend_from_slice(bytes),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(got.len(), long.len() + 1);
        assert_eq!(lines.next_piece().unwrap(), Some(Piece::Lines(b"b\n")));
        assert_eq!(lines.next_piece().unwrap(), None);
        assert!(lines.buffer.capacity() <= 4 * LONGEST_KEPT, "{}", lines.buffer.capacity());
        write.join().unwrap();
    }
}
