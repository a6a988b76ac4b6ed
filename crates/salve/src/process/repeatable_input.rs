//! What a command reads that may have to run more than once.
//!
//! A pipe is read no further than the command reads it: what it leaves is left to whoever reads
//! next, as without Salve.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, SeekFrom};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::launch::ProcessInput;
use super::{lock, thread};

/// How much of a pipe is kept to be read once more.
const KEPT: usize = 1 << 20;
/// How much is handed on at once.
const CHUNK: usize = 16 << 10;
/// How long what a command has read is waited for, once it has ended.
const SETTLING: Duration = Duration::from_secs(1);
/// After which times it is looked whether the command has read what was handed on.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(16);

/// Our own standard input, from its beginning for each run.
#[derive(Debug)]
pub struct RepeatableInput(InputSource);

#[derive(Debug)]
enum InputSource {
    /// Nothing, or a terminal, which is asked again.
    Same(OwnedFd),
    /// A file, read from the same place again.
    File {
        file: OwnedFd,
        /// Where it was.
        from: u64,
        /// Whether a run has had it already.
        is_used: AtomicBool,
    },
    /// Something that can be read only once, and is kept meanwhile.
    Once(Arc<ReadOnce>),
}

/// What can be read only once.
#[derive(Debug)]
struct ReadOnce {
    stdin: OwnedFd,
    /// What was read so far; held by whoever hands it to a command, until that has ended.
    kept: Mutex<Vec<u8>>,
    is_too_long: AtomicBool,
    /// Hears when the last run's input is settled.
    settled: Mutex<Option<Receiver<()>>>,
}

impl RepeatableInput {
    /// Returns the standard input of this process.
    pub fn of_process() -> io::Result<Self> {
        let stdin = rustix::stdio::stdin().try_clone_to_owned()?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&stdin)?.st_mode);
        Ok(Self(match kind {
            FileType::RegularFile => {
                let from = rustix::fs::tell(&stdin)?;
                InputSource::File { file: stdin, from, is_used: AtomicBool::new(false) }
            }
            FileType::Fifo | FileType::Socket => InputSource::Once(Arc::new(ReadOnce {
                stdin,
                kept: Mutex::default(),
                is_too_long: AtomicBool::new(false),
                settled: Mutex::default(),
            })),
            _ => InputSource::Same(stdin),
        }))
    }

    /// Returns whether somebody gave it for this one command, as a pipe or a file.
    pub fn is_given(&self) -> bool {
        !matches!(self.0, InputSource::Same(_))
    }

    /// Returns whether another run can read all that the first did.
    pub fn can_repeat(&self) -> bool {
        match &self.0 {
            InputSource::Same(_) | InputSource::File { .. } => true,
            InputSource::Once(once) => !once.is_too_long.load(Ordering::Relaxed),
        }
    }

    /// Returns what the next run reads.
    pub(crate) fn next(&self) -> io::Result<ProcessInput> {
        match &self.0 {
            InputSource::Same(stdin) => Ok(ProcessInput::File(stdin.try_clone()?)),
            InputSource::File { file, from, is_used } => {
                if !is_used.swap(true, Ordering::Relaxed) {
                    return Ok(ProcessInput::File(file.try_clone()?));
                }
                let again = again(file)?;
                rustix::fs::seek(&again, SeekFrom::Start(*from))?;
                Ok(ProcessInput::File(again))
            }
            InputSource::Once(_) if !self.can_repeat() => Err(io::Error::other(
                "its input is too large to be kept, so it cannot be read once more",
            )),
            InputSource::Once(once) => {
                let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                let (is_over, settled) = mpsc::channel();
                let shared = Arc::clone(once);
                thread("salve-stdin", move || {
                    // A command that reads no more, or has ended, is an error here and no other.
                    let _ = shared.feed(io::PipeWriter::from(writer));
                    drop::<mpsc::Sender<()>>(is_over);
                })?;
                *lock(&once.settled) = Some(settled);
                Ok(ProcessInput::File(reader))
            }
        }
    }

    /// Waits, once a command has ended, until what it read is taken from the input and kept.
    pub(crate) fn settle(&self) {
        if let InputSource::Once(once) = &self.0
            && let Some(settled) = lock(&once.settled).take()
        {
            // Something of the command may live on and hold it open.
            let _ = settled.recv_timeout(SETTLING);
        }
    }
}

/// Opens a file once more, so that two runs do not share the place where they read.
fn again(file: &OwnedFd) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd as _;
    match std::fs::File::open(format!("/proc/self/fd/{}", file.as_raw_fd())) {
        Ok(again) => Ok(again.into()),
        // It may be readable only for whoever gave it to us.
        Err(_) => file.try_clone(),
    }
}

impl ReadOnce {
    /// Hands it to a command from its beginning, until it ends or the command does.
    fn feed(&self, mut to: io::PipeWriter) -> io::Result<()> {
        let mut kept = lock(&self.kept);
        to.write_all(&kept)?;
        wait_until_read(&to)?;
        while wait_for_more(&self.stdin, &to)? {
            match rustix::pipe::tee(&self.stdin, &to, CHUNK, SpliceFlags::NONBLOCK) {
                Ok(0) => return Ok(()),
                Ok(shown) => {
                    wait_until_read(&to)?;
                    let unread = usize::try_from(rustix::io::ioctl_fionread(&to)?);
                    let unread = unread.unwrap_or(usize::MAX).min(shown);
                    self.take(shown - unread, &mut kept)?;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                // A socket cannot be looked into, only read.
                Err(_) => {
                    let mut chunk = [0; CHUNK];
                    let read = rustix::io::read(&self.stdin, &mut chunk)?;
                    if read == 0 {
                        return Ok(());
                    }
                    self.keep(&chunk[..read], &mut kept);
                    to.write_all(&chunk[..read])?;
                }
            }
        }
        Ok(())
    }

    /// Takes from the input what the command has read.
    fn take(&self, read: usize, kept: &mut Vec<u8>) -> io::Result<()> {
        let mut stdin = io::PipeReader::from(self.stdin.try_clone()?).take(read as u64);
        let mut chunk = Vec::with_capacity(read);
        stdin.read_to_end(&mut chunk)?;
        self.keep(&chunk, kept);
        Ok(())
    }

    fn keep(&self, bytes: &[u8], kept: &mut Vec<u8>) {
        if kept.len() + bytes.len() > KEPT {
            self.is_too_long.store(true, Ordering::Relaxed);
        } else if !self.is_too_long.load(Ordering::Relaxed) {
            kept.extend_from_slice(bytes);
        }
    }
}

/// Waits until there is something to read, or its end; returns false if nobody reads it any more.
fn wait_for_more(from: &OwnedFd, to: &impl AsFd) -> io::Result<bool> {
    let mut both = [
        PollFd::new(from, PollFlags::IN),
        PollFd::from_borrowed_fd(to.as_fd(), PollFlags::empty()),
    ];
    loop {
        match rustix::event::poll(&mut both, None) {
            Ok(_) => return Ok(both[1].revents().is_empty()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until all that was handed on is read, or nobody reads it any more.
fn wait_until_read(to: &impl AsFd) -> io::Result<()> {
    let mut look = FIRST_LOOK;
    while rustix::io::ioctl_fionread(to)? > 0 {
        let mut reader = [PollFd::from_borrowed_fd(to.as_fd(), PollFlags::empty())];
        let wait = Timespec { tv_sec: 0, tv_nsec: look.subsec_nanos().into() };
        match rustix::event::poll(&mut reader, Some(&wait)) {
            Ok(_) if !reader[0].revents().is_empty() => return Ok(()),
            Ok(_) | Err(Errno::INTR) => look = (look * 2).min(LAST_LOOK),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
