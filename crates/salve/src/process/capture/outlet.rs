//! Where the servers' output goes: our own standard output and error, untouched.
//!
//! A reader that goes away closes that side for good: nothing more is passed on, and the servers
//! notice nothing. A reader that waits makes the servers wait, as it would without us.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::tail::Side;
use crate::process::lock;

/// Two outputs shared by all servers.
#[derive(Debug)]
pub struct Outlet {
    sinks: [Mutex<Sink>; 2],
    /// Whether the last byte written to each side ended no line.
    mid_line: [AtomicBool; 2],
    /// Whether both sides lead to one place.
    is_one: bool,
}

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
        let is_one = place(&out).is_some() && place(&out) == place(&err);
        let sink = |fd: Option<OwnedFd>| Mutex::new(fd.map_or(Sink::Closed, Sink::Open));
        Outlet { sinks: [sink(out), sink(err)], mid_line: Default::default(), is_one }
    }

    /// Writes all of `bytes` to one side, waiting as long as its reader does.
    pub fn write(&self, side: Side, bytes: &[u8]) {
        let mut sink = lock(&self.sinks[side as usize]);
        self.put(&mut sink, side, bytes);
    }

    /// Writes a line of Salve's own to standard error, on a line by itself.
    pub fn say(&self, line: &str) {
        let mut sink = lock(&self.sinks[Side::Err as usize]);
        let is_open = |side: Side| self.mid_line[side as usize].load(Ordering::Relaxed);
        let broken = is_open(Side::Err) || self.is_one && is_open(Side::Out);
        let before = if broken { "\n" } else { "" };
        self.put(&mut sink, Side::Err, format!("{before}{line}\n").as_bytes());
        if self.is_one {
            self.mid_line[Side::Out as usize].store(false, Ordering::Relaxed);
        }
    }

    fn put(&self, sink: &mut Sink, side: Side, bytes: &[u8]) {
        let Sink::Open(fd) = sink else { return };
        let Some(last) = bytes.last() else { return };
        match write_all(fd, bytes) {
            Ok(()) => self.mid_line[side as usize].store(*last != b'\n', Ordering::Relaxed),
            Err(_) => *sink = Sink::Closed,
        }
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
        outlet.write(Side::Out, b"50 %");
        outlet.say("crashed");
        outlet.write(Side::Err, b"fine\n");
        outlet.say("healed");
        drop(outlet);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "50 %\ncrashed\nfine\nhealed\n");
    }

    #[test]
    fn a_reader_that_went_away_closes_its_side_only() {
        let (reader, out) = std::io::pipe().unwrap();
        let (mut heard, err) = std::io::pipe().unwrap();
        let outlet = Outlet::new(Some(out.into()), Some(err.into()));
        drop(reader);
        outlet.write(Side::Out, b"lost");
        outlet.write(Side::Out, b"lost");
        outlet.write(Side::Err, b"heard");
        drop(outlet);
        let mut text = String::new();
        heard.read_to_string(&mut text).unwrap();
        assert_eq!(text, "heard");
    }
}
