//! Files that are either wholly written or not touched at all.
//!
//! A write goes to a temporary file in the same directory, is synced, takes the old file's mode
//! and is renamed over it; then the directory is synced. A reader sees the old text or the new
//! one, also after a crash or a power cut.
//!
//! A symbolic link is replaced, not followed: nothing is ever written outside the directory that
//! was named. Below `.salve` no part of the path may be a link; see [`crate::files`].

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use uuid::Uuid;

use crate::files::{self, Parent};

/// The mode of a new file before the user's umask is taken off.
const NEW_FILE_MODE: u32 = 0o666;

/// Why a file could not be written; the old one is as it was.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk or the quota is full.
    #[error("no space left to write {}", path.display())]
    Full {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file system cannot be written to.
    #[error("{} is on a read-only file system", path.display())]
    ReadOnly {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The user may not write there.
    #[error("no permission to write {}", path.display())]
    Denied {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Anything else.
    #[error("cannot write {}", path.display())]
    Other {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl WriteError {
    /// Sorts what the system said about writing `path`.
    pub fn new(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::Full { path, source },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, source },
            io::ErrorKind::PermissionDenied => Self::Denied { path, source },
            _ => Self::Other { path, source },
        }
    }

    /// Returns what the user can do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::Full { .. } => "free some disk space, then try again".into(),
            Self::ReadOnly { .. } => "make the file system writable, then try again".into(),
            Self::Denied { path, .. } => {
                format!("make {} writable for you, then try again", parent(path).display())
            }
            Self::Other { path, .. } => format!("look at {}", parent(path).display()),
        }
    }
}

/// Whether [`write_new`] made the file or found one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMade {
    /// The file is new.
    New,
    /// There was one already; it is as it was.
    Existed,
}

/// Replaces the file at `path`, or makes it.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), WriteError> {
    write_with(path, |file| file.write_all(bytes.as_ref()))
}

/// Replaces the file at `path`, or makes it, and does not wait for the disk.
///
/// A killed process leaves the old text or the new one, as ever. After a power cut the text may be gone:
/// this is for what is told again from the journal.
pub fn write_derived(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), WriteError> {
    let done = || {
        let parent = Parent::of(path)?;
        let fill = |file: &mut dyn Write| file.write_all(bytes.as_ref());
        Temporary::filled(&parent, WriteSync::Later, fill)?.replace()
    };
    done().map_err(|error| WriteError::new(path, error))
}

/// Replaces the file at `path` with whatever `fill` writes.
pub fn write_with(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    let done = || {
        let parent = Parent::of(path)?;
        let temporary = Temporary::filled(&parent, WriteSync::Now, fill)?;
        temporary.replace()?;
        files::sync(parent.handle())
    };
    done().map_err(|error| WriteError::new(path, error))
}

/// A file that is written along with others.
#[derive(Clone, Copy, Debug)]
pub struct FileText<'t> {
    pub path: &'t Path,
    pub bytes: &'t [u8],
}

/// Writes files that mean something together only, and waits for the disk once for all of them.
///
/// They take their names first and are brought to the disk at the same time: on a busy disk one wait
/// costs as much as two. A killed process leaves each of them whole or not there. A power cut that
/// comes before this returned may leave a name without its text, so whoever reads such a file knows it
/// by a hash that is written afterwards.
pub fn write_together(files: &[FileText<'_>]) -> Result<(), WriteError> {
    let mut placed = Vec::new();
    for one in files {
        let place = || -> io::Result<PlacedFile<'_>> {
            let parent = Parent::of(one.path)?;
            let fill = |file: &mut dyn Write| file.write_all(one.bytes);
            let temporary = Temporary::filled(&parent, WriteSync::Later, fill)?;
            let file = temporary.file.try_clone()?;
            temporary.replace()?;
            Ok(PlacedFile { path: one.path, parent, file })
        };
        placed.push(place().map_err(|error| WriteError::new(one.path, error))?);
    }
    std::thread::scope(|scope| {
        let syncing: Vec<_> = placed.iter().map(|one| scope.spawn(|| one.sync())).collect();
        let lost = |_| io::Error::other("the thread that synced it is gone");
        placed.iter().zip(syncing).try_for_each(|(one, thread)| {
            let synced = thread.join().map_err(lost).flatten();
            synced.map_err(|error| WriteError::new(one.path, error))
        })
    })
}

/// A file that has its name and is not known to be on the disk.
struct PlacedFile<'p> {
    path: &'p Path,
    parent: Parent<'p>,
    file: File,
}

impl PlacedFile<'_> {
    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()?;
        files::sync(self.parent.handle())
    }
}

/// Makes the file at `path` unless there is one, which is then left alone.
pub fn write_new(path: &Path, bytes: impl AsRef<[u8]>) -> Result<FileMade, WriteError> {
    let done = || {
        let parent = Parent::of(path)?;
        let fill = |file: &mut dyn Write| file.write_all(bytes.as_ref());
        let temporary = Temporary::filled(&parent, WriteSync::Now, fill)?;
        let made = temporary.take_free_name()?;
        files::sync(parent.handle())?;
        Ok(made)
    };
    done().map_err(|error| WriteError::new(path, error))
}

/// Makes the names in `dir` survive a power cut.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Whether a file is on the disk when its writing is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteSync {
    Now,
    Later,
}

/// A file that is written beside the one it will be, and is gone if it never becomes that.
struct Temporary<'p> {
    parent: &'p Parent<'p>,
    name: OsString,
    file: File,
    is_in_place: bool,
}

impl<'p> Temporary<'p> {
    /// Makes the file and writes it whole.
    fn filled(
        parent: &'p Parent<'p>,
        sync: WriteSync,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut name = OsString::from(".");
        name.push(parent.name());
        name.push(format!(".{}.tmp", Uuid::new_v4().simple()));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(NEW_FILE_MODE);
        let file = File::from(rustix::fs::openat(parent.handle(), &name, flags, mode)?);
        let temporary = Self { parent, name, file, is_in_place: false };
        let old = parent.look().ok();
        if let Some(old) = old.filter(|old| FileType::from_raw_mode(old.st_mode).is_file()) {
            rustix::fs::fchmod(&temporary.file, Mode::from_raw_mode(old.st_mode))?;
        }
        let mut buffer = io::BufWriter::new(&temporary.file);
        fill(&mut buffer)?;
        buffer.flush()?;
        drop(buffer);
        if sync == WriteSync::Now {
            temporary.file.sync_all()?;
        }
        Ok(temporary)
    }

    /// Takes the place of the old file, or of the link that stands there.
    fn replace(mut self) -> io::Result<()> {
        let dir = self.parent.handle();
        rustix::fs::renameat(dir, &self.name, dir, self.parent.name())?;
        self.is_in_place = true;
        Ok(())
    }

    /// Takes its place unless there is something already.
    fn take_free_name(mut self) -> io::Result<FileMade> {
        let (dir, to) = (self.parent.handle(), self.parent.name());
        // A rename that never replaces is not known to every file system; a link never does.
        let linked = rustix::fs::renameat_with(dir, &self.name, dir, to, RenameFlags::NOREPLACE);
        match linked {
            Ok(()) => {
                self.is_in_place = true;
                Ok(FileMade::New)
            }
            Err(Errno::EXIST) => Ok(FileMade::Existed),
            Err(Errno::INVAL | Errno::NOSYS) => {
                match rustix::fs::linkat(dir, &self.name, dir, to, AtFlags::empty()) {
                    Ok(()) => Ok(FileMade::New),
                    Err(Errno::EXIST) => Ok(FileMade::Existed),
                    Err(error) => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_in_place {
            // It is known by its name and does no harm.
            let _ = rustix::fs::unlinkat(self.parent.handle(), &self.name, AtFlags::empty());
        }
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_made_then_replaced_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        write(&path, "one").unwrap();
        assert_eq!(mode(&path) & 0o600, 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        write(&path, "two").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("two", 0o640));
    }

    #[test]
    fn files_that_belong_together_are_all_there_or_it_is_said_which_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("sub/two"));
        let both = [FileText { path: &one, bytes: b"1" }, FileText { path: &two, bytes: b"2" }];
        let error = write_together(&both).unwrap_err().to_string();
        assert!(error.contains("sub/two"), "{error}");
        fs::create_dir(dir.path().join("sub")).unwrap();
        write_together(&both).unwrap();
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!((read(&one).as_str(), read(&two).as_str()), ("1", "2"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no litter");
    }

    #[test]
    fn a_failing_write_leaves_the_old_file_and_no_litter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        write(&path, "one").unwrap();
        let error = write_with(&path, |file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(matches!(error, Err(WriteError::Full { .. })), "{error:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_file_never_replaces_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        assert_eq!(write_new(&path, "one").unwrap(), FileMade::New);
        assert_eq!(write_new(&path, "two").unwrap(), FileMade::Existed);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_replaced_and_its_target_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        write(&target, "theirs").unwrap();
        symlink(&target, &link).unwrap();
        write(&link, "ours").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(&link).unwrap(), "ours");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }

    #[test]
    fn each_trouble_has_its_own_name_and_advice() {
        let of = |kind: io::ErrorKind| WriteError::new(Path::new("/x/y"), kind.into());
        assert!(matches!(of(io::ErrorKind::QuotaExceeded), WriteError::Full { .. }));
        assert!(matches!(of(io::ErrorKind::ReadOnlyFilesystem), WriteError::ReadOnly { .. }));
        let denied = of(io::ErrorKind::PermissionDenied);
        assert_eq!(denied.to_string(), "no permission to write /x/y");
        assert_eq!(denied.advice(), "make /x writable for you, then try again");
    }
}
