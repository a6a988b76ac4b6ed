//! The door through which people's words come to a Salve that runs.
//!
//! Every Salve that heals in a project listens on a socket in the user's own directory. Whoever
//! wants to write a person's word announces it there first; each Salve of the project looks at the
//! process that came ([`crate::process::answerer`]) and lets the word in or refuses it. While it
//! runs, it believes no word that was not announced to it, whatever stands in the journal.
//!
//! **Invariant:** nobody judges whether they may speak but those who are spoken to; only where no
//! Salve of the project runs, the speaker's own process is what is looked at.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use salve_core::event::Digest;
use serde::{Deserialize, Serialize};

use crate::dirs;
use crate::process::answerer::{self, AnswerRefusal};
use crate::process::peer::{Peer, listener_at};
use crate::process::tree;
use crate::project::Project;

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a word that is just being written may hold up a door that is opened.
const WRITING: Duration = Duration::from_secs(5);
/// How long a door may have more visitors than it can keep waiting.
const CROWD: Duration = Duration::from_secs(1);
/// How many visitors are served at once; more are turned away.
const VISITORS: usize = 32;
/// The longest message.
const LONGEST: u64 = 1 << 20;
/// The version of the messages.
const VERSION: u32 = 1;

/// Why a word was not let in.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The process that speaks may not.
    #[error("this process may not speak for a person: {0}")]
    Refused(String),
    /// A Salve that runs does not answer.
    #[error("the salve that runs here (process {0}) does not answer")]
    Silent(u32),
    /// There is no place for doors.
    #[error("cannot use {}", path.display())]
    System {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no directory for the user's data.
    #[error("there is no directory for your data: neither HOME nor XDG_DATA_HOME is set")]
    NoHome,
}

impl From<AnswerRefusal> for DoorError {
    fn from(refusal: AnswerRefusal) -> Self {
        DoorError::Refused(refusal.to_string())
    }
}

/// What a visitor says.
#[derive(Debug, Serialize, Deserialize)]
struct Announcement {
    version: u32,
    words: Vec<Digest>,
}

/// What the one behind the door says.
#[derive(Debug, Serialize, Deserialize)]
struct DoorReply {
    version: u32,
    refused: Option<String>,
}

/// What is known of a word that stands in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordStanding {
    /// This process has no door of the project, or the word is older than it.
    NotOurs,
    /// It was announced.
    Announced,
    /// Nobody announced it, or it stands at two places.
    Unannounced,
}

/// The words that were announced to this process for one project.
#[derive(Debug)]
struct GuestBook {
    root: PathBuf,
    /// The last entry that was on record before the door was open.
    since: u64,
    /// Each word with the number under which it was seen first.
    words: Mutex<HashMap<Digest, Option<u64>>>,
}

/// All guest books of this process.
static BOOKS: Mutex<Vec<Arc<GuestBook>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open door; it is closed when this is dropped.
#[derive(Debug)]
pub struct Door {
    book: Arc<GuestBook>,
    path: PathBuf,
}

impl Door {
    /// Opens the door of this process to a project; `last_seq` reads the journal's last number.
    ///
    /// # Errors
    ///
    /// When there is no place for its socket, or `last_seq` fails.
    pub fn open<E: From<DoorError>>(
        project: &Project,
        last_seq: impl FnOnce() -> Result<u64, E>,
    ) -> Result<Self, E> {
        let place = DoorPlace::of_user()?;
        // Whoever writes a word just now knows nothing of this door.
        let _alone = place.lock(project.root(), FlockOperation::NonBlockingLockExclusive)?;
        let me = std::process::id();
        let started = tree::own().map_or(0, |own| own.started);
        let name = format!("{}-{me}-{started}.sock", name_of(project.root()));
        let path = place.dir.join(&name);
        let listener = place.listen(&name)?;
        let since = last_seq()?;
        let root = project.root().to_path_buf();
        let book = Arc::new(GuestBook { root, since, words: Mutex::default() });
        lock(&BOOKS).push(Arc::clone(&book));
        let behind = Arc::clone(&book);
        crate::process::spawn_thread("door", move || attend(listener, &behind, &name));
        Ok(Self { book, path })
    }

    /// Returns the number of the last entry that was on record before it was open.
    pub fn since(&self) -> u64 {
        self.book.since
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // First of all, or it would be put back.
        lock(&BOOKS).retain(|book| !Arc::ptr_eq(book, &self.book));
        // One that stays leads nowhere and is removed by whoever knocks at it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns what this process knows of a word at a place in a project's journal.
pub fn standing(root: &Path, word: Digest, seq: u64) -> WordStanding {
    let books: Vec<_> = lock(&BOOKS).iter().filter(|book| book.root == root).cloned().collect();
    let mut standing = WordStanding::NotOurs;
    for book in books.iter().filter(|book| seq > book.since) {
        match lock(&book.words).get_mut(&word) {
            Some(at) if at.is_none_or(|at| at == seq) => {
                *at = Some(seq);
                return WordStanding::Announced;
            }
            Some(_) | None => standing = WordStanding::Unannounced,
        }
    }
    standing
}

/// Announces words to every Salve that runs in the project, or has this process looked at where
/// there is none; they have to be written while the answer is held.
///
/// # Errors
///
/// When this process may not speak, or a Salve does not say whether it may.
pub fn announce(root: &Path, words: &[Digest]) -> Result<LetIn, DoorError> {
    answerer::judge_own_process(root)?;
    let place = DoorPlace::of_user()?;
    let lock = place.lock(root, FlockOperation::NonBlockingLockShared)?;
    for name in place.doors(root)? {
        place.announce_at_door(&name, words)?;
    }
    Ok(LetIn { _lock: lock })
}

/// Returns whether this process may speak for a person about a project, as far as can be seen now.
pub fn may_speak(root: &Path) -> Result<(), DoorError> {
    announce(root, &[]).map(drop)
}

/// Words that were let in and are being written.
#[derive(Debug)]
pub struct LetIn {
    _lock: Option<File>,
}

/// The directory of all doors of the user.
struct DoorPlace {
    dir: PathBuf,
    handle: OwnedFd,
}

impl DoorPlace {
    fn of_user() -> Result<Self, DoorError> {
        let dir = dirs::data().ok_or(DoorError::NoHome)?.join("doors");
        let work = || -> io::Result<OwnedFd> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            if answerer::is_mounted_at(&dir)? {
                return Err(io::Error::other("something is mounted over it"));
            }
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
            let handle = rustix::fs::open(&dir, flags, Mode::empty())?;
            let stat = rustix::fs::fstat(&handle)?;
            if stat.st_uid != rustix::process::geteuid().as_raw() {
                return Err(io::Error::other("it is another user's"));
            }
            if stat.st_mode & 0o077 != 0 {
                // Whatever others put there meanwhile is not who it says.
                rustix::fs::fchmod(&handle, Mode::RWXU)?;
            }
            Ok(handle)
        };
        let handle = work().map_err(|source| DoorError::System { path: dir.clone(), source })?;
        Ok(Self { dir, handle })
    }

    /// Begins to listen under a name.
    fn listen(&self, name: &str) -> Result<PlacedListener, DoorError> {
        let path = self.dir.join(name);
        let system = |source| DoorError::System { path: path.clone(), source };
        // One of this name is a remnant: no other process is this one.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(self.short(name)).map_err(system)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(system)?;
        let file = fs::symlink_metadata(&path).map_err(system)?.ino();
        Ok(PlacedListener { listener, path, file })
    }

    /// Returns a path that fits into a socket's address however long the directory's is.
    fn short(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.handle.as_raw_fd()))
    }

    /// Takes the lock of a project's words; nothing if others keep it for too long, or something
    /// that is no lock stays in its place.
    fn lock(&self, root: &Path, how: FlockOperation) -> Result<Option<File>, DoorError> {
        let name = format!("{}.lock", name_of(root));
        let system =
            |error: Errno| DoorError::System { path: self.dir.join(&name), source: error.into() };
        let Some(file) = self.open_lock(&name).map_err(system)? else { return Ok(None) };
        let since = Instant::now();
        loop {
            match flock(&file, how) {
                Ok(()) => return Ok(Some(file)),
                Err(Errno::WOULDBLOCK) if since.elapsed() < WRITING => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                // It only orders those who mean well; a word that is missed is said once more.
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(system(error)),
            }
        }
    }

    /// Opens the file of a lock; what somebody put in its place is removed, if it can be.
    fn open_lock(&self, name: &str) -> Result<Option<File>, Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        for _ in 0..2 {
            let opened = rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR);
            match opened {
                Ok(file) => {
                    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
                    if kind == FileType::RegularFile {
                        return Ok(Some(file.into()));
                    }
                }
                Err(Errno::NXIO | Errno::ISDIR | Errno::LOOP) => {}
                Err(error) => return Err(error),
            }
            let file = rustix::fs::unlinkat(&self.handle, name, AtFlags::empty());
            if file.is_err() {
                // A directory with something in it stays.
                let _ = rustix::fs::unlinkat(&self.handle, name, AtFlags::REMOVEDIR);
            }
        }
        Ok(None)
    }

    /// Returns the names of all doors to a project.
    fn doors(&self, root: &Path) -> Result<Vec<String>, DoorError> {
        let system = |source| DoorError::System { path: self.dir.clone(), source };
        let (prefix, mut names) = (name_of(root), Vec::new());
        for file in fs::read_dir(&self.dir).map_err(system)? {
            let name = file.map_err(system)?.file_name();
            let name = name.to_str().filter(|name| name.starts_with(&prefix));
            names.extend(name.filter(|name| name.ends_with(".sock")).map(str::to_owned));
        }
        Ok(names)
    }

    /// Announces words at one door; one that nobody is behind, or not who it says, is removed.
    fn announce_at_door(&self, name: &str, words: &[Digest]) -> Result<(), DoorError> {
        let since = Instant::now();
        while let DoorVisit::TurnedAway(pid) = self.visit(name, words)? {
            if since.elapsed() > PATIENCE {
                return Err(DoorError::Silent(pid));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn visit(&self, name: &str, words: &[Digest]) -> Result<DoorVisit, DoorError> {
        let named = OwnerInName::of(name);
        let pid = named.pid;
        let planted = || {
            // One that cannot be removed leads nowhere all the same.
            let _ = fs::remove_file(self.dir.join(name));
            Ok(DoorVisit::Done)
        };
        let mut stream = match self.connect(name) {
            Ok(stream) => stream,
            Err(Errno::CONNREFUSED | Errno::NOENT) => return planted(),
            // A Salve takes up at once whoever comes; another one's queue may stay full for ever.
            Err(Errno::AGAIN) if !named.is_there() => return planted(),
            Err(Errno::AGAIN) => return Ok(DoorVisit::TurnedAway(pid)),
            Err(error) => {
                let path = self.dir.join(name);
                return Err(DoorError::System { path, source: error.into() });
            }
        };
        match listener_at(&stream) {
            // Somebody planted it, to answer for a Salve or to keep people waiting.
            Some(behind) if !answerer::is_a_salve(behind) => return planted(),
            // It leads to the door of another one.
            Some(behind) if behind != pid && !answerer::has_number(behind, pid) => {
                return planted();
            }
            Some(behind) if behind == pid => {}
            // Whoever cannot see who listens there lives in a space of their own.
            Some(_) | None => return Err(DoorError::Silent(pid)),
        }
        match send_words(&mut stream, words) {
            Ok(Some(DoorReply { refused: None, .. })) => Ok(DoorVisit::Done),
            Ok(Some(DoorReply { refused: Some(why), .. })) => Err(DoorError::Refused(why)),
            // It ended while we spoke.
            Ok(None) | Err(_) if tree::stat(pid).is_none_or(|stat| stat.is_dead) => {
                Ok(DoorVisit::Done)
            }
            Ok(None) => Ok(DoorVisit::TurnedAway(pid)),
            Err(_) => Err(DoorError::Silent(pid)),
        }
    }

    /// Connects to a door without waiting for long.
    fn connect(&self, name: &str) -> Result<UnixStream, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let address = SocketAddrUnix::new(self.short(name))?;
        let since = Instant::now();
        while let Err(error) = rustix::net::connect(&socket, &address) {
            if error != Errno::AGAIN || since.elapsed() > CROWD {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        rustix::io::ioctl_fionbio(&socket, false)?;
        Ok(socket.into())
    }
}

/// What came of a visit at a door.
#[derive(Clone, Copy, Debug)]
enum DoorVisit {
    /// The words were let in, or nobody is behind it.
    Done,
    /// This process has too many visitors just now.
    TurnedAway(u32),
}

/// Whose door it is, by its name, which anybody may give.
#[derive(Clone, Copy, Debug)]
struct OwnerInName {
    pid: u32,
    started: u64,
}

impl OwnerInName {
    fn of(name: &str) -> Self {
        let mut parts = name.trim_end_matches(".sock").split('-').skip(1);
        let mut number = || parts.next()?.parse::<u64>().ok();
        let pid = number().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        Self { pid, started: number().unwrap_or(0) }
    }

    /// Returns whether that very process is there and is a Salve.
    fn is_there(self) -> bool {
        tree::stat(self.pid).is_some_and(|stat| stat.started == self.started)
            && answerer::is_a_salve(self.pid)
    }
}

/// A socket that listens, and the file by which others find it.
struct PlacedListener {
    listener: UnixListener,
    path: PathBuf,
    file: u64,
}

impl PlacedListener {
    /// Waits for a visitor for a while; tells whether there is one.
    fn wait(&self) -> bool {
        let pause = Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut listener = [PollFd::new(&self.listener, PollFlags::IN)];
        poll(&mut listener, Some(&pause)).is_ok_and(|ready| ready > 0)
    }

    /// Returns whether nobody can find it any more.
    fn is_gone(&self) -> bool {
        fs::symlink_metadata(&self.path).map_or(true, |found| found.ino() != self.file)
    }
}

/// Says words and returns the answer; nothing if there is none, as where too many came.
fn send_words(stream: &mut UnixStream, words: &[Digest]) -> io::Result<Option<DoorReply>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut said = serde_json::to_vec(&Announcement { version: VERSION, words: words.to_vec() })?;
    said.push(b'\n');
    // Who is refused is told so before they have said anything.
    let written = stream.write_all(&said);
    let mut reply = String::new();
    match BufReader::new(stream).take(LONGEST).read_line(&mut reply) {
        Ok(0) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        Err(error) => Err(written.err().unwrap_or(error)),
        Ok(_) => Ok(Some(serde_json::from_str(&reply)?)),
    }
}

/// Lets visitors in or refuses them, for as long as the door is open.
///
/// Whoever removes the socket would have every answer pass by unannounced, and a person's word taken
/// for a forged one: it is put back.
fn attend(mut door: PlacedListener, book: &Arc<GuestBook>, name: &str) {
    let inside = Arc::new(AtomicUsize::new(0));
    loop {
        if !door.wait() {
            let books = lock(&BOOKS);
            if !books.iter().any(|open| Arc::ptr_eq(open, book)) {
                return;
            }
            if door.is_gone() {
                // Where it cannot be put back now it may be a second later.
                let again = DoorPlace::of_user().and_then(|place| place.listen(name));
                door = again.unwrap_or(door);
            }
            continue;
        }
        let Ok((stream, _)) = door.listener.accept() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if inside.fetch_add(1, Ordering::Relaxed) >= VISITORS {
            inside.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (book, inside) = (Arc::clone(book), Arc::clone(&inside));
        crate::process::spawn_thread("visitor", move || {
            // One who does not say what they want gets no answer.
            let _ = receive(stream, &book);
            inside.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn receive(mut stream: UnixStream, book: &GuestBook) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = Peer::of_socket(&stream)?;
    let judged = answerer::judge_visitor(&peer, &book.root);
    if judged.is_ok() {
        let mut line = String::new();
        BufReader::new(&stream).take(LONGEST).read_line(&mut line)?;
        let said: Announcement = serde_json::from_str(&line)?;
        let mut known = lock(&book.words);
        for word in said.words {
            known.entry(word).or_insert(None);
        }
    }
    // Whoever is refused is not waited for: they would take the place of those who may speak.
    let refused = judged.err().map(|why| why.to_string());
    let mut reply = serde_json::to_vec(&DoorReply { version: VERSION, refused })?;
    reply.push(b'\n');
    stream.write_all(&reply)
}

/// Returns the name of a project among the doors.
fn name_of(root: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let meta = fs::metadata(root).map(|meta| (meta.dev(), meta.ino())).unwrap_or_default();
    let parts = [meta.0.to_le_bytes(), meta.1.to_le_bytes()].concat();
    let digest = Digest::of(&[b"door", root.as_os_str().as_bytes(), &parts]);
    digest.to_string().chars().take(16).collect()
}
