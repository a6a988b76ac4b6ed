//! The user's own key: what their answers to a fleet's workers are sealed with.
//!
//! The keys of [`crate::seal_keys`] prove something on one machine only, since whoever checks with them
//! could have sealed, too. This one has two halves: the public one stands in the settings of the
//! workers that are to believe it. It is kept in `$XDG_DATA_HOME/salve/person.key`, readable by the
//! user alone, where no agent that Salve starts can look.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use salve_core::event::Digest;
use serde::{Deserialize, Serialize};

use crate::dirs;
use crate::seal_keys::{read_key_file, unusable, write_key_file};

/// The key's file below the user's data directory.
const FILE: &str = "person.key";

/// The version of the file's shape.
const VERSION: u32 = 1;

/// Why there is no key, or nothing can be sealed with it.
#[derive(Debug, thiserror::Error)]
pub enum PersonKeyError {
    /// There is no directory for the user's data.
    #[error("there is no directory for your key: neither HOME nor XDG_DATA_HOME is set")]
    NoHome,
    /// The file cannot be used.
    #[error("cannot use {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// This program was built without what seals.
    #[error("this salve was built without the feature `fleet`")]
    NotBuilt,
    /// The file holds something else than a key.
    #[error("the key cannot be used")]
    Unusable,
}

/// The user's key.
#[derive(Clone, PartialEq, Eq)]
pub struct PersonKey {
    seed: String,
}

impl fmt::Debug for PersonKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PersonKey")
    }
}

/// What the file holds.
#[derive(Debug, Serialize, Deserialize)]
struct PersonKeyOnDisk {
    version: u32,
    seed: String,
}

impl PersonKey {
    /// Returns the user's key, making it if there is none.
    pub fn of_user() -> Result<Self, PersonKeyError> {
        let path = dirs::data().ok_or(PersonKeyError::NoHome)?.join(FILE);
        Self::at(&path)
    }

    /// Returns the key of a file, making it if there is none.
    pub(crate) fn at(path: &Path) -> Result<Self, PersonKeyError> {
        let failed = |source| PersonKeyError::File { path: path.to_path_buf(), source };
        match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found.map_err(failed),
        }
        let kept = PersonKeyOnDisk { version: VERSION, seed: signing::new_seed()? };
        let bytes = serde_json::to_vec(&kept).map_err(|error| failed(error.into()))?;
        let file = write_key_file(path, &bytes).map_err(failed)?;
        match file.persist_noclobber(path) {
            Ok(_) => {}
            // Another process was faster: its key is the one.
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error.error)),
        }
        read(path).map_err(failed)
    }

    /// Returns the half that others may know.
    pub fn public(&self) -> Result<String, PersonKeyError> {
        signing::public_of(&self.seed)
    }

    /// Seals a content.
    pub fn seal(&self, content: Digest) -> Result<String, PersonKeyError> {
        signing::seal(&self.seed, content)
    }
}

fn read(path: &Path) -> io::Result<PersonKey> {
    let kept: PersonKeyOnDisk = serde_json::from_slice(&read_key_file(path)?)?;
    if kept.version != VERSION {
        return Err(unusable("it holds no key that this Salve knows"));
    }
    Ok(PersonKey { seed: kept.seed })
}

/// Tells whether the key of this public half made a seal of a content.
pub fn is_sealed_by(public: &str, content: Digest, seal: &str) -> bool {
    signing::holds(public, content, seal)
}

/// Ed25519, as the fleet's own client has it.
#[cfg(feature = "fleet")]
mod signing {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use nkeys::KeyPair;
    use salve_core::event::Digest;

    use super::PersonKeyError;

    pub(super) fn new_seed() -> Result<String, PersonKeyError> {
        KeyPair::new_user().seed().map_err(|_| PersonKeyError::Unusable)
    }

    fn pair(seed: &str) -> Result<KeyPair, PersonKeyError> {
        KeyPair::from_seed(seed).map_err(|_| PersonKeyError::Unusable)
    }

    pub(super) fn public_of(seed: &str) -> Result<String, PersonKeyError> {
        Ok(pair(seed)?.public_key())
    }

    pub(super) fn seal(seed: &str, content: Digest) -> Result<String, PersonKeyError> {
        let made = pair(seed)?.sign(&content.0).map_err(|_| PersonKeyError::Unusable)?;
        Ok(STANDARD.encode(made))
    }

    pub(super) fn holds(public: &str, content: Digest, seal: &str) -> bool {
        let (Ok(pair), Ok(seal)) = (KeyPair::from_public_key(public), STANDARD.decode(seal)) else {
            return false;
        };
        pair.verify(&content.0, &seal).is_ok()
    }
}

/// What a program says that was built without.
#[cfg(not(feature = "fleet"))]
mod signing {
    use salve_core::event::Digest;

    use super::PersonKeyError;

    pub(super) fn new_seed() -> Result<String, PersonKeyError> {
        Err(PersonKeyError::NotBuilt)
    }

    pub(super) fn public_of(_seed: &str) -> Result<String, PersonKeyError> {
        Err(PersonKeyError::NotBuilt)
    }

    pub(super) fn seal(_seed: &str, _content: Digest) -> Result<String, PersonKeyError> {
        Err(PersonKeyError::NotBuilt)
    }

    pub(super) fn holds(_public: &str, _content: Digest, _seal: &str) -> bool {
        false
    }
}

#[cfg(feature = "fleet")]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_seal_is_of_one_key_on_one_content() {
        let home = tempfile::tempdir().unwrap();
        let key = |name: &str| PersonKey::at(&home.path().join(name).join(FILE)).unwrap();
        let (ann, bea) = (key("ann"), key("bea"));
        assert_eq!(key("ann"), ann, "it is made once");
        let content = Digest::of(&[b"yes"]);
        let seal = ann.seal(content).unwrap();
        let holds = |of: &PersonKey, content, seal: &str| {
            is_sealed_by(&of.public().unwrap(), content, seal)
        };
        assert!(holds(&ann, content, &seal));
        assert!(!holds(&bea, content, &seal), "another person's key");
        assert!(!holds(&ann, Digest::of(&[b"no"]), &seal), "another word");
        let mut bent = seal.clone().into_bytes();
        bent[3] = if bent[3] == b'A' { b'B' } else { b'A' };
        assert!(!holds(&ann, content, &String::from_utf8(bent).unwrap()));
        for wrong in ["", "A", "ä", &seal[..40]] {
            assert!(!holds(&ann, content, wrong), "{wrong}");
        }
        assert!(!is_sealed_by("U", content, &seal) && !is_sealed_by("", content, &seal));
    }

    #[test]
    fn a_key_that_others_may_read_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(FILE);
        PersonKey::at(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(PersonKey::at(&path), Err(PersonKeyError::File { .. })));
    }
}
