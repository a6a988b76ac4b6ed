//! What a command reads that may have to run twice.

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, SeekFrom};
use rustix::pipe::PipeFlags;

use crate::process::ProcessInput;

/// How much of a pipe is kept to be read once more.
const KEPT: usize = 1 << 20;

/// Our own standard input, from its beginning for each run.
#[derive(Debug)]
pub(super) enum CallInput {
    /// Nothing, or a terminal, which is asked again.
    Same(OwnedFd),
    /// A file, read from the same place again.
    File {
        file: OwnedFd,
        /// Where it was.
        from: u64,
    },
    /// Something that can be read only once, and is kept meanwhile.
    Once(Arc<Mutex<ReadOnce>>),
}

/// What was read so far, and who reads on.
#[derive(Debug, Default)]
pub(super) struct ReadOnce {
    kept: Vec<u8>,
    reader: Option<io::PipeWriter>,
    has_ended: bool,
    is_too_long: bool,
}

impl CallInput {
    /// Returns the standard input of this process.
    pub(super) fn of_process() -> io::Result<Self> {
        let stdin = rustix::stdio::stdin().try_clone_to_owned()?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&stdin)?.st_mode);
        Ok(match kind {
            FileType::RegularFile => {
                let from = rustix::fs::tell(&stdin)?;
                Self::File { file: stdin, from }
            }
            FileType::Fifo | FileType::Socket => {
                let once = Arc::new(Mutex::new(ReadOnce::default()));
                let shared = Arc::clone(&once);
                let read = move || copy(&shared);
                std::thread::Builder::new().name("salve-stdin".to_owned()).spawn(read)?;
                Self::Once(once)
            }
            _ => Self::Same(stdin),
        })
    }

    /// Returns whether another run can read all that the first did.
    pub(super) fn can_repeat(&self) -> bool {
        match self {
            Self::Same(_) | Self::File { .. } => true,
            Self::Once(once) => !lock(once).is_too_long,
        }
    }

    /// Returns what the next run reads.
    pub(super) fn next(&mut self) -> io::Result<ProcessInput> {
        match self {
            Self::Same(stdin) => Ok(ProcessInput::File(stdin.try_clone()?)),
            Self::File { file, from } => {
                rustix::fs::seek(&*file, SeekFrom::Start(*from))?;
                Ok(ProcessInput::File(file.try_clone()?))
            }
            Self::Once(once) => {
                let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                let mut writer = io::PipeWriter::from(writer);
                // What is kept may exceed the pipe, so it is written while the command reads.
                let (once, kept) = (Arc::clone(once), lock(once).kept.clone());
                let begin = move || {
                    let is_read = io::Write::write_all(&mut writer, &kept).is_ok();
                    let mut once = lock(&once);
                    let missed = once.kept[kept.len().min(once.kept.len())..].to_vec();
                    let is_read = is_read && io::Write::write_all(&mut writer, &missed).is_ok();
                    once.reader = (is_read && !once.has_ended).then_some(writer);
                };
                std::thread::Builder::new().name("salve-stdin".to_owned()).spawn(begin)?;
                Ok(ProcessInput::File(reader))
            }
        }
    }
}

/// Reads standard input to its end, for whoever reads just now.
fn copy(shared: &Mutex<ReadOnce>) {
    let mut stdin = io::stdin().lock();
    let mut buffer = [0; 16 << 10];
    loop {
        let read = stdin.read(&mut buffer).unwrap_or(0);
        let mut once = lock(shared);
        if read == 0 {
            once.has_ended = true;
            once.reader = None;
            return;
        }
        let bytes = &buffer[..read];
        once.is_too_long |= once.kept.len() + read > KEPT;
        if !once.is_too_long {
            once.kept.extend_from_slice(bytes);
        }
        let is_read = match &mut once.reader {
            Some(reader) => io::Write::write_all(reader, bytes).is_ok(),
            None => true,
        };
        if !is_read {
            once.reader = None;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
