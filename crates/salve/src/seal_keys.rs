//! The user's sealing keys: what a person's word in the journal is sealed with.
//!
//! They are kept in `$XDG_DATA_HOME/salve/seal.keys`, outside of every project and readable by the
//! user alone. The newest seals; the older ones only tell that a word was theirs once, so that a key
//! which somebody got to know allows nothing any more after [`SealKeys::renew`].

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use salve_core::event::{Digest, Seal};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use uuid::Uuid;

use crate::dirs;

/// The keys' file below the user's data directory.
const FILE: &str = "seal.keys";
/// The version of the file's shape.
const VERSION: u32 = 1;
/// The longest file that is read.
const LONGEST: u64 = 1 << 20;

/// Why there are no keys to seal or to check with.
#[derive(Debug, thiserror::Error)]
pub enum SealKeyError {
    /// There is no directory for the user's data.
    #[error("there is no directory for your key: neither HOME nor XDG_DATA_HOME is set")]
    NoHome,
    /// The file cannot be used.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealWorth {
    /// The newest key made it of exactly this.
    Holds,
    /// A key that was given up made it of exactly this.
    OfOldKey,
    /// No key of the user's made it of this.
    Wrong,
}

/// All keys of the user, the newest last.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKeys {
    keys: Vec<Vec<u8>>,
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKeys({} keys)", self.keys.len())
    }
}

/// What the file holds.
#[derive(Debug, Serialize, Deserialize)]
struct SealKeysOnDisk {
    version: u32,
    keys: Vec<Digest>,
}

impl SealKeys {
    /// Returns the path of the user's keys.
    pub fn path() -> Option<PathBuf> {
        dirs::data().map(|dir| dir.join(FILE))
    }

    /// Returns the user's keys, making the first if there is none.
    pub fn of_user() -> Result<Self, SealKeyError> {
        let path = Self::path().ok_or(SealKeyError::NoHome)?;
        Self::at(&path).map_err(|source| SealKeyError::File { path, source })
    }

    /// Makes a new key, which seals from now on; the words that the others sealed are history.
    pub fn renew() -> Result<String, SealKeyError> {
        let path = Self::path().ok_or(SealKeyError::NoHome)?;
        let work = || -> io::Result<String> {
            let mut keys = Self::at(&path)?.keys;
            let new = random();
            let name = Seal::name_of_key(&new.0);
            keys.push(new.0.to_vec());
            write(&path, &keys)?.persist(&path).map_err(|error| error.error)?;
            Ok(name)
        };
        work().map_err(|source| SealKeyError::File { path: path.clone(), source })
    }

    fn at(path: &Path) -> io::Result<Self> {
        match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let file = write(path, &[random().0.to_vec()])?;
        match file.persist_noclobber(path) {
            Ok(_) => {}
            // Another process was faster: its key is the one.
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.error),
        }
        read(path)
    }

    /// Returns the seal of a content.
    pub fn seal(&self, content: Digest) -> Option<Seal> {
        let key = self.keys.last()?;
        Some(Seal::new(Seal::name_of_key(key), mac(key, content)?))
    }

    /// Returns what a seal on a content is worth.
    pub fn worth(&self, seal: &Seal, content: Digest) -> SealWorth {
        let newest = self.keys.len().saturating_sub(1);
        let mut named = self.keys.iter().enumerate();
        let Some((at, key)) = named.find(|(_, key)| Seal::name_of_key(key) == seal.key()) else {
            return SealWorth::Wrong;
        };
        let verified = Hmac::<Sha256>::new_from_slice(key).is_ok_and(|mut mac| {
            mac.update(&content.0);
            // It takes the same time whatever is wrong.
            mac.verify_slice(&seal.mac().0).is_ok()
        });
        if !verified {
            SealWorth::Wrong
        } else if at == newest {
            SealWorth::Holds
        } else {
            SealWorth::OfOldKey
        }
    }
}

fn mac(key: &[u8], content: Digest) -> Option<Digest> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(&content.0);
    Some(Digest(mac.finalize().into_bytes().into()))
}

fn read(path: &Path) -> io::Result<SealKeys> {
    let kept: SealKeysOnDisk = serde_json::from_slice(&read_key_file(path)?)?;
    if kept.version != VERSION || kept.keys.is_empty() {
        return Err(unusable("it holds no keys that this Salve knows"));
    }
    Ok(SealKeys { keys: kept.keys.into_iter().map(|key| key.0.to_vec()).collect() })
}

/// Writes keys to a file beside `path`, which only its owner may read.
fn write(path: &Path, keys: &[Vec<u8>]) -> io::Result<tempfile::NamedTempFile> {
    let keys = keys.iter().filter_map(|key| Some(Digest(key.as_slice().try_into().ok()?)));
    let kept = SealKeysOnDisk { version: VERSION, keys: keys.collect() };
    write_key_file(path, &serde_json::to_vec(&kept)?)
}

/// Reads a file with keys of the user's; what others may read or replace is not trusted.
pub(crate) fn read_key_file(path: &Path) -> io::Result<Vec<u8>> {
    let meta = fs::symlink_metadata(path)?;
    let is_ours = meta.uid() == rustix::process::geteuid().as_raw();
    if !meta.is_file() || !is_ours || meta.permissions().mode() & 0o077 != 0 {
        return Err(unusable(
            "others may read or replace it: make it yours alone, or move it away",
        ));
    }
    if meta.len() > LONGEST {
        return Err(unusable("it is too large to hold keys"));
    }
    fs::read(path)
}

/// Writes a file with keys beside `path`, which only its owner may read; whoever persists it decides
/// what becomes of one that is there.
pub(crate) fn write_key_file(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    let owner_only = fs::Permissions::from_mode(0o600);
    let mut file =
        tempfile::Builder::new().prefix(".seal-keys-").permissions(owner_only).tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Says why a file with keys cannot be used.
pub(crate) fn unusable(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Returns 32 bytes of the system's random numbers.
fn random() -> Digest {
    let parts: Vec<Uuid> = (0..4).map(|_| Uuid::new_v4()).collect();
    let parts: Vec<&[u8]> = parts.iter().map(|part| &part.as_bytes()[..]).collect();
    Digest::of(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: usize) -> SealKeys {
        SealKeys { keys: (0..count).map(|at| vec![u8::try_from(at).unwrap(); 32]).collect() }
    }

    #[test]
    fn a_seal_holds_for_its_content_and_the_newest_key() {
        let content = Digest::of(&[b"yes"]);
        let seal = keys(1).seal(content).unwrap();
        assert_eq!(keys(1).worth(&seal, content), SealWorth::Holds);
        assert_eq!(keys(1).worth(&seal, Digest::of(&[b"no"])), SealWorth::Wrong);
        assert_eq!(keys(2).worth(&seal, content), SealWorth::OfOldKey);
        let of_other = SealKeys { keys: vec![vec![9; 32]] };
        assert_eq!(of_other.worth(&seal, content), SealWorth::Wrong);
        let renamed = Seal::new(Seal::name_of_key(&[9; 32]), seal.mac());
        assert_eq!(of_other.worth(&renamed, content), SealWorth::Wrong);
    }

    #[test]
    fn all_who_make_the_first_key_get_the_same_and_nobody_else_may_read_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("data/salve").join(FILE);
        let made: Vec<SealKeys> = std::thread::scope(|scope| {
            let all: Vec<_> =
                (0..8).map(|_| scope.spawn(|| SealKeys::at(&path).unwrap())).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(made.iter().all(|keys| *keys == made[0]));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(SealKeys::at(&path).is_err(), "what others may read is not trusted");
    }
}
