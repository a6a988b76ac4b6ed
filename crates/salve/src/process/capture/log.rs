//! What servers wrote, kept on disk: scrubbed, in whole lines, a bounded number of bytes.
//!
//! One thread serves all servers. It reads what their captures still hold, so a flood costs it
//! no more than a trickle: what it could not keep up with is left out, and the log says so.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use salve_core::scrub::{ScrubStream, Scrubber};

use super::Capture;
use crate::files;
use crate::process::lock;

/// The most bytes one file of a log holds.
const FILE_BYTES: u64 = 4 << 20;
/// How many older files are kept beside the newest.
pub const OLDER: u32 = 2;
/// How long lines gather before they are written together.
const PAUSE: Duration = Duration::from_millis(20);
/// How long they do in a flood, of which only samples can be kept anyway.
const FLOODED: Duration = Duration::from_millis(500);

/// Tells the thread that there is something to write.
#[derive(Debug, Default)]
pub(super) struct LogWaker {
    rung: Mutex<Rung>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Rung {
    has_news: bool,
    is_over: bool,
}

impl LogWaker {
    pub(super) fn ring(&self) {
        let mut rung = lock(&self.rung);
        if !rung.has_news {
            rung.has_news = true;
            self.changed.notify_all();
        }
    }

    fn end(&self) {
        lock(&self.rung).is_over = true;
        self.changed.notify_all();
    }

    /// Waits for news and then for `pause`; returns whether more may follow.
    fn wait(&self, pause: Duration) -> bool {
        let rung = lock(&self.rung);
        let idle = |rung: &mut Rung| !rung.has_news && !rung.is_over;
        let rung = self.changed.wait_while(rung, idle).unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(rung, pause, |rung| !rung.is_over);
        let mut rung = waited.unwrap_or_else(PoisonError::into_inner).0;
        rung.has_news = false;
        !rung.is_over
    }
}

/// The logs of all servers of one run; what is left is written when it is dropped.
#[derive(Debug)]
pub struct Logs {
    bell: Arc<LogWaker>,
    thread: Option<JoinHandle<()>>,
}

impl Logs {
    /// Starts to write what each named capture takes in to a file of that name in `dir`.
    ///
    /// `complain` is told once for each server whose log cannot be written.
    pub fn start(
        dir: PathBuf,
        servers: Vec<(String, Arc<Capture>)>,
        scrubber: Scrubber,
        mut complain: impl FnMut(&str, io::Error) + Send + 'static,
    ) -> io::Result<Logs> {
        let bell = Arc::new(LogWaker::default());
        for (_, capture) in &servers {
            // A capture that has a log already keeps it.
            let _ = capture.bell.set(bell.clone());
        }
        let hears = bell.clone();
        let write = move || {
            let mut scribes: Vec<LogWriter<'_>> = servers
                .iter()
                .map(|(name, capture)| LogWriter::new(dir.join(format!("{name}.log")), capture))
                .collect();
            let mut pause = PAUSE;
            loop {
                let goes_on = hears.wait(pause);
                pause = PAUSE;
                for (scribe, (name, _)) in scribes.iter_mut().zip(&servers) {
                    match scribe.write(&scrubber, goes_on) {
                        Ok(LogPace::Kept) => {}
                        Ok(LogPace::Lost) => pause = FLOODED,
                        Err(error) => complain(name, error),
                    }
                }
                if !goes_on {
                    return;
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("salve-logs".to_owned()).stack_size(512 << 10);
        Ok(Logs { bell, thread: Some(thread.spawn(write)?) })
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.bell.end();
        if let Some(thread) = self.thread.take() {
            // It only fails by a panic, and then there is nothing more to write.
            let _ = thread.join();
        }
    }
}

/// Whether a log keeps up with its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogPace {
    Kept,
    Lost,
}

/// Writes one server's log.
struct LogWriter<'a> {
    path: PathBuf,
    capture: &'a Capture,
    /// How far the capture was read.
    position: u64,
    stream: Option<ScrubStream<'a>>,
    state: Sheet,
}

/// The file that is written to.
enum Sheet {
    /// None yet.
    Closed,
    /// This one, with so many bytes in it.
    Open { file: File, bytes: u64 },
    /// None any more: it could not be written.
    Failed,
}

impl<'a> LogWriter<'a> {
    fn new(path: PathBuf, capture: &'a Capture) -> Self {
        Self { path, capture, position: 0, stream: None, state: Sheet::Closed }
    }

    /// Writes what is new; `goes_on` tells whether more may follow.
    fn write(&mut self, scrubber: &'a Scrubber, goes_on: bool) -> io::Result<LogPace> {
        let mut bytes = Vec::new();
        let lost = {
            let mut tail = lock(&self.capture.tail);
            if !goes_on {
                tail.close_lines();
            }
            let lost = tail.read_from(self.position, &mut bytes);
            self.position = tail.end();
            lost
        };
        let mut text = Vec::with_capacity(bytes.len());
        let mut new = bytes.as_slice();
        if lost > 0 {
            // The line that begins what is left has lost its own beginning.
            let whole = memchr::memchr(b'\n', new).map_or(new.len(), |end| end + 1);
            new = &new[whole..];
            if let Some(stream) = self.stream.take() {
                stream.finish(&mut text);
            }
            let left_out = lost + whole as u64;
            text.extend(format!("[salve: {left_out} bytes left out here]\n").into_bytes());
        }
        self.stream.get_or_insert_with(|| scrubber.stream()).push(new, &mut text);
        if let Some(stream) = self.stream.take_if(|_| !goes_on) {
            stream.finish(&mut text);
        }
        if let Err(error) = self.put(&text) {
            self.state = Sheet::Failed;
            return Err(error);
        }
        Ok(if lost > 0 { LogPace::Lost } else { LogPace::Kept })
    }

    fn put(&mut self, text: &[u8]) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if matches!(&self.state, Sheet::Open { bytes, .. } if *bytes >= FILE_BYTES) {
            rotate(&self.path)?;
            self.state = Sheet::Closed;
        }
        if matches!(self.state, Sheet::Closed) {
            if let Some(dir) = self.path.parent() {
                files::make_directories(dir)?;
            }
            let file = files::open_to_append(&self.path, 0o600)?;
            let bytes = file.metadata()?.len();
            self.state = Sheet::Open { file, bytes };
        }
        match &mut self.state {
            Sheet::Open { file, bytes } => {
                file.write_all(text)?;
                *bytes += text.len() as u64;
                Ok(())
            }
            Sheet::Closed | Sheet::Failed => Ok(()),
        }
    }
}

/// Returns the name of an older file of a log; the higher the number the older it is.
pub fn older(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Makes room for a new file, and lets the oldest go.
fn rotate(path: &Path) -> io::Result<()> {
    for number in (1..OLDER).rev() {
        match files::rename(&older(path, number), &older(path, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    files::rename(path, &older(path, 1))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use salve_core::scrub::ScrubKey;

    use super::*;
    use crate::process::capture::{Outlet, OutputSide, OutputStyle};

    fn capture() -> Arc<Capture> {
        Arc::new(Capture::new(Arc::new(Outlet::none()), OutputStyle::Plain))
    }

    fn start(dir: &Path, capture: &Arc<Capture>) -> (Logs, mpsc::Receiver<io::Error>) {
        let (tell, told) = mpsc::channel();
        let complain = move |_: &str, error| drop(tell.send(error));
        let servers = vec![("web".to_owned(), capture.clone())];
        let scrubber = Scrubber::new(ScrubKey::new([7; 32]));
        (Logs::start(dir.to_owned(), servers, scrubber, complain).unwrap(), told)
    }

    /// **Invariant:** What a server wrote is kept on disk without its secrets.
    #[test]
    fn what_a_server_wrote_is_kept_without_its_secrets() {
        let home = tempfile::tempdir().unwrap();
        let capture = capture();
        let (logs, _) = start(home.path(), &capture);
        capture.keep(OutputSide::Out, b"ready\nPASSWORD=hunter2-Zq81\npro");
        capture.keep(OutputSide::Err, b"oops\n");
        capture.keep(OutputSide::Out, b"mpt");
        drop(logs);
        let text = fs::read_to_string(home.path().join("web.log")).unwrap();
        assert!(text.starts_with("ready\nPASSWORD=[secret:"), "{text}");
        assert!(text.ends_with("oops\nprompt\n"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn a_flood_is_left_out_in_part_and_the_log_says_so() {
        let home = tempfile::tempdir().unwrap();
        let capture = capture();
        let flood = b"one line of many in a flood\n".repeat(100_000);
        capture.keep(OutputSide::Out, &flood);
        let (logs, _) = start(home.path(), &capture);
        capture.keep(OutputSide::Out, b"after\n");
        drop(logs);
        let text = fs::read_to_string(home.path().join("web.log")).unwrap();
        let mut lines = text.lines();
        let first = lines.next().unwrap();
        let left_out: usize =
            first.strip_prefix("[salve: ").unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(left_out + text.len() - first.len() - 1, flood.len() + "after\n".len());
        assert_eq!(lines.next(), Some("one line of many in a flood"));
        assert_eq!(lines.next_back(), Some("after"));
    }

    #[test]
    fn old_files_make_room_for_new_ones() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("web.log");
        fs::write(&path, b"newest").unwrap();
        fs::write(older(&path, 1), b"old").unwrap();
        fs::write(older(&path, 2), b"oldest").unwrap();
        rotate(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read(older(&path, 1)).unwrap(), b"newest");
        assert_eq!(fs::read(older(&path, 2)).unwrap(), b"old");
        // A sheet that is full is put away before the next line.
        File::create(&path).unwrap().set_len(FILE_BYTES).unwrap();
        let capture = capture();
        let mut scribe = LogWriter::new(path.clone(), &capture);
        scribe.put(b"last of the old\n").unwrap();
        scribe.put(b"first of the new\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first of the new\n");
    }

    #[test]
    fn a_log_that_cannot_be_written_is_told_once() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("in the way");
        fs::write(&file, "").unwrap();
        let capture = capture();
        let (logs, told) = start(&file, &capture);
        capture.keep(OutputSide::Out, b"one\n");
        told.recv_timeout(Duration::from_secs(60)).unwrap();
        capture.keep(OutputSide::Out, b"two\n");
        drop(logs);
        assert!(told.try_recv().is_err());
    }
}
