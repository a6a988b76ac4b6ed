//! The user's scrubber: their key, the secrets in their environment, their own patterns.
//!
//! The key is made once per user and kept in `$XDG_DATA_HOME/salve/scrub.key`, readable by them
//! alone, so that one secret has one marker in all their projects and nobody else can guess it
//! back. Where it cannot be kept, a key of this process's own does.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

use salve_core::scrub::{ScrubKey, Scrubber};
use serde_json::Value;
use uuid::Uuid;

use crate::dirs;

/// The key's file below the user's data directory.
const FILE: &str = "scrub.key";

/// Returns the user's scrubber with the built-in kinds and the secrets in the environment.
pub fn scrubber() -> Scrubber {
    static SCRUBBER: OnceLock<Scrubber> = OnceLock::new();
    let make = || {
        let dir = dirs::data();
        let kept = dir.and_then(|dir| kept_key(&dir).ok().flatten());
        let key = ScrubKey::new(kept.unwrap_or_else(random));
        let variables: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let pairs = variables.iter().map(|(name, value)| (&**name, &**value));
        Scrubber::new(key).with_variables(pairs)
    };
    SCRUBBER.get_or_init(make).clone()
}

/// Returns a value with the secrets taken out of all its texts.
pub fn scrub_value(scrubber: &Scrubber, value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(scrubber.scrub(text).into_string()),
        Value::Array(list) => list.iter().map(|value| scrub_value(scrubber, value)).collect(),
        Value::Object(object) => {
            let clean =
                |(key, value): (&String, &Value)| (key.clone(), scrub_value(scrubber, value));
            Value::Object(object.iter().map(clean).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Returns the key kept in `dir`, making it if there is none; nothing if the file holds no key.
///
/// Of several processes that make it at once, one wins and all return its key.
fn kept_key(dir: &Path) -> io::Result<Option<[u8; 32]>> {
    let path = dir.join(FILE);
    match std::fs::read(&path) {
        Ok(text) => return Ok(parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    std::fs::create_dir_all(dir)?;
    // Temporary files are made readable by their owner alone, and the link fails if another
    // process was faster.
    let mut file = tempfile::Builder::new()
        .prefix(".scrub-key-")
        .permissions(std::fs::Permissions::from_mode(0o600))
        .tempfile_in(dir)?;
    for byte in random() {
        write!(file, "{byte:02x}")?;
    }
    writeln!(file)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(&path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.error),
    }
    std::fs::read(&path).map(|text| parse(&text))
}

/// Reads 64 hex digits.
fn parse(text: &[u8]) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let digits = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let mut key = [0; 32];
    for (i, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    digits.then_some(key)
}

/// Returns 32 bytes from the system's random numbers.
fn random() -> [u8; 32] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(Uuid::new_v4().as_bytes());
    key[16..].copy_from_slice(Uuid::new_v4().as_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_make_the_key_at_once_get_the_same() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("data/salve");
        let keys: Vec<_> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..16).map(|_| scope.spawn(|| kept_key(&dir).unwrap())).collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        assert!(keys[0].is_some());
        assert!(keys.iter().all(|key| *key == keys[0]));
        let mode = std::fs::metadata(dir.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let left: Vec<_> = std::fs::read_dir(&dir).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_file_that_holds_no_key_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        for text in ["", "12", "zz", &"g".repeat(64), &"é".repeat(32)] {
            std::fs::write(home.path().join(FILE), text).unwrap();
            assert_eq!(kept_key(home.path()).unwrap(), None, "{text}");
            assert_eq!(std::fs::read_to_string(home.path().join(FILE)).unwrap(), text);
        }
    }
}
