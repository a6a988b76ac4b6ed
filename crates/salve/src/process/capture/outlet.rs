//! Where the servers' output goes: our own standard output and error, untouched.
//!
//! A reader that goes away closes that side for good: nothing more is passed on, and the servers
//! notice nothing. So does a place that takes no more, a full disk say, but that is told, and kept
//! for whoever tells how it all came out. A reader that waits makes the servers wait, as it would
//! without us.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::tail::OutputSide;
use crate::process::lock;

/// Two outputs shared by all servers.
#[derive(Debug)]
pub struct Outlet {
    sinks: [Mutex<Sink>; 2],
    /// Whether the last byte written to each side ended no line.
    mid_line: [AtomicBool; 2],
    /// Whether both sides lead to one place.
    is_one: bool,
    /// What stands below everything else, on a terminal.
    status: Mutex<StatusLine>,
    /// Whether there is such a line; without one the two sides never wait for one another.
    has_status: AtomicBool,
    /// Whether output was lost that somebody wanted.
    has_lost: AtomicBool,
}

/// A line that stands below everything else that is written to a terminal.
#[derive(Debug, Default)]
struct StatusLine {
    text: String,
    is_shown: bool,
}

/// Takes the line away in which the cursor stands.
const ERASE: &str = "\r\x1b[K";

#[derive(Debug)]
enum Sink {
    Open(OwnedFd),
    Closed,
}

impl Outlet {
    /// Returns our own standard output and error.
    pub fn standard() -> Outlet {
        let side = |fd: rustix::fd::BorrowedFd<'_>| fd.try_clone_to_owned().ok();
        Outlet::new(side(rustix::stdio::stdout()), side(rustix::stdio::stderr()))
    }

    /// Returns an outlet that passes nothing on.
    pub fn none() -> Outlet {
        Outlet::new(None, None)
    }

    /// Returns an outlet to these two files; a missing one swallows what it is given.
    pub fn new(out: Option<OwnedFd>, err: Option<OwnedFd>) -> Outlet {
        let place = |fd: &Option<OwnedFd>| {
            let stat = rustix::fs::fstat(fd.as_ref()?).ok()?;
            Some((stat.st_dev, stat.st_ino))
        };
        // What nobody sees is kept in its order, as in a terminal.
        let is_one = place(&out) == place(&err) && place(&out).is_some() == out.is_some();
        let sink = |fd: Option<OwnedFd>| Mutex::new(fd.map_or(Sink::Closed, Sink::Open));
        let sinks = [sink(out), sink(err)];
        let (mid_line, status, has_status, has_lost) = Default::default();
        Outlet { sinks, mid_line, is_one, status, has_status, has_lost }
    }

    /// Returns whether both sides lead to one place, where their order shows.
    pub fn is_one(&self) -> bool {
        self.is_one
    }

    /// Writes all of `bytes` to one side, waiting as long as its reader does.
    pub fn write(&self, side: OutputSide, bytes: &[u8]) {
        let status = self.lift_status();
        let put = {
            let mut sink = lock(&self.sinks[side as usize]);
            self.put(&mut sink, side, bytes)
        };
        self.lower_status(status);
        if let Err(error) = put
            && error != Errno::PIPE
        {
            self.has_lost.store(true, Ordering::Relaxed);
            let name = match side {
                OutputSide::Out => "output",
                OutputSide::Err => "error",
            };
            let error = std::io::Error::from(error);
            self.say(&format!("salve: cannot write to standard {name}: {error}"));
        }
    }

    /// Returns whether output was lost because the place it goes to did not take it; a reader that
    /// went away wanted no more.
    pub fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    /// Shows a line on standard error, which has to be a terminal, below everything else; an empty
    /// one takes it away.
    pub fn show_status(&self, text: &str) {
        self.has_status.store(true, Ordering::Relaxed);
        let mut status = self.lift_status();
        if let Some(status) = &mut status {
            text.clone_into(&mut status.text);
        }
        self.lower_status(status);
    }

    /// Takes the line below everything else away for a moment.
    fn lift_status(&self) -> Option<MutexGuard<'_, StatusLine>> {
        if !self.has_status.load(Ordering::Relaxed) {
            return None;
        }
        let mut status = lock(&self.status);
        if std::mem::take(&mut status.is_shown) {
            self.draw(ERASE);
        }
        Some(status)
    }

    /// Shows the line again, unless what was written ended no line.
    fn lower_status(&self, status: Option<MutexGuard<'_, StatusLine>>) {
        let Some(mut status) = status else { return };
        let is_open = self.mid_line.iter().any(|side| side.load(Ordering::Relaxed));
        if !is_open && !status.text.is_empty() {
            self.draw(&status.text);
            status.is_shown = true;
        }
    }

    /// Writes to standard error what is no part of what was said.
    fn draw(&self, text: &str) {
        let mut sink = lock(&self.sinks[OutputSide::Err as usize]);
        if let Sink::Open(fd) = &*sink
            && write_all(fd, text.as_bytes()).is_err()
        {
            *sink = Sink::Closed;
        }
    }

    /// Writes a line of Salve's own to standard error, on a line by itself.
    pub fn say(&self, line: &str) {
        let status = self.lift_status();
        {
            let mut sink = lock(&self.sinks[OutputSide::Err as usize]);
            let is_open = |side: OutputSide| self.mid_line[side as usize].load(Ordering::Relaxed);
            let broken = is_open(OutputSide::Err) || self.is_one && is_open(OutputSide::Out);
            let before = if broken { "\n" } else { "" };
            // Where Salve's own words find no place, nothing of the servers' is lost.
            let _ = self.put(&mut sink, OutputSide::Err, format!("{before}{line}\n").as_bytes());
            if self.is_one {
                self.mid_line[OutputSide::Out as usize].store(false, Ordering::Relaxed);
            }
        }
        self.lower_status(status);
    }

    /// Writes to a side, and closes it where that fails; only then is there an error.
    fn put(&self, sink: &mut Sink, side: OutputSide, bytes: &[u8]) -> Result<(), Errno> {
        let (Sink::Open(fd), Some(last)) = (&*sink, bytes.last()) else { return Ok(()) };
        let written = write_all(fd, bytes);
        match written {
            Ok(()) => self.mid_line[side as usize].store(*last != b'\n', Ordering::Relaxed),
            Err(_) => *sink = Sink::Closed,
        }
        written
    }
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // Someone else who shares the terminal made it non-blocking.
            Err(Errno::AGAIN) => {
                let mut ready = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::OUT)];
                match rustix::event::poll(&mut ready, None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_line_of_salves_own_begins_a_line() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let outlet = Outlet::new(Some(writer.try_clone().unwrap().into()), Some(writer.into()));
        outlet.write(OutputSide::Out, b"50 %");
        outlet.say("crashed");
        outlet.write(OutputSide::Err, b"fine\n");
        outlet.say("healed");
        drop(outlet);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "50 %\ncrashed\nfine\nhealed\n");
    }

    #[test]
    fn a_status_stands_below_whole_lines_and_never_in_their_midst() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let outlet = Outlet::new(Some(writer.try_clone().unwrap().into()), Some(writer.into()));
        outlet.show_status("0:01");
        outlet.write(OutputSide::Out, b"one\n");
        outlet.write(OutputSide::Out, b"50 %");
        outlet.show_status("0:02");
        outlet.write(OutputSide::Out, b"\n");
        outlet.say("healed");
        outlet.show_status("");
        outlet.say("done");
        drop(outlet);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let e = ERASE;
        let want = format!("0:01{e}one\n0:01{e}50 %\n0:02{e}healed\n0:02{e}done\n");
        assert_eq!(text, want);
    }

    #[test]
    fn a_reader_that_went_away_closes_its_side_only() {
        let (reader, out) = std::io::pipe().unwrap();
        let (mut heard, err) = std::io::pipe().unwrap();
        let outlet = Outlet::new(Some(out.into()), Some(err.into()));
        drop(reader);
        outlet.write(OutputSide::Out, b"lost");
        outlet.write(OutputSide::Out, b"lost");
        outlet.write(OutputSide::Err, b"heard");
        drop(outlet);
        let mut text = String::new();
        heard.read_to_string(&mut text).unwrap();
        assert_eq!(text, "heard");
    }
}
