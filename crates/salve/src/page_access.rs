//! Who may use the page and its API: tokens, sessions and one-time codes, as they are kept on disk.
//!
//! The browser's session is a bearer token that it keeps for this origin (which includes the
//! port) and sends in a header; a cookie would also go to whatever listens on another port. It
//! gets that token for a code that is good once and travels behind the `#` of an address, so that
//! it stands in no log. Only hashes are kept on disk.
//!
//! **Invariant:** what is kept cannot be turned back into a token.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use rustix::fs::{FlockOperation, flock};
use salve_core::event::Digest;
use salve_core::id::IncidentId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The version of the file's shape.
const VERSION: u32 = 2;

/// How long a one-time code is good.
const CODE_LIFE: SignedDuration = SignedDuration::from_mins(10);

/// How long a code is good that answers one question.
const ANSWER_LIFE: SignedDuration = SignedDuration::from_hours(24);

/// How long a browser's session is good.
const SESSION_LIFE: SignedDuration = SignedDuration::from_hours(12);

/// The longest file that is read.
const LONGEST: u64 = 1024 * 1024;

/// What somebody may do.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum AccessRight {
    /// See everything and change nothing
    Viewer,
    /// See everything and report issues; never decide
    Agent,
    /// See and decide everything
    Operator,
}

/// Why access cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// There is no directory for the user's own data.
    #[error("neither XDG_DATA_HOME nor HOME names a directory")]
    NoHome,
    /// The file cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is a token of that name already.
    #[error("there is a token called `{0}` already")]
    Exists(String),
}

/// A token as it is kept: everything but the token itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// The name under which whoever shows it speaks.
    pub name: String,
    /// What it allows.
    pub right: AccessRight,
    /// When it was made.
    pub made: Timestamp,
    /// When it stops being good; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    hash: Digest,
}

/// A one-time code or a session, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Passing {
    hash: Digest,
    expires: Timestamp,
}

/// The one question that a code answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerGrant {
    /// The project's root.
    pub project: PathBuf,
    /// The incident that asks.
    pub incident: IncidentId,
    /// The question's number.
    pub question: u32,
    /// The hash of what is asked about.
    pub digest: Digest,
}

/// A code that answers one question, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerCode {
    hash: Digest,
    expires: Timestamp,
    grant: AnswerGrant,
}

/// What the file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokensOnDisk {
    version: u32,
    #[serde(default)]
    tokens: Vec<TokenRecord>,
    #[serde(default)]
    sessions: Vec<Passing>,
    #[serde(default)]
    codes: Vec<Passing>,
    #[serde(default)]
    answers: Vec<AnswerCode>,
}

/// The file that holds the hashes of tokens, sessions and codes, its owner's alone.
#[derive(Clone, Debug)]
pub struct AccessFile {
    path: PathBuf,
}

impl AccessFile {
    /// Returns the user's own file.
    ///
    /// # Errors
    ///
    /// When there is no directory for the user's data.
    pub fn of_user() -> Result<Self, AccessError> {
        let dir = crate::dirs::data().ok_or(AccessError::NoHome)?;
        Ok(Self { path: dir.join("web-access.json") })
    }

    /// Returns the file at `path`.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Makes a code that opens the page once, within ten minutes.
    ///
    /// # Errors
    ///
    /// When it cannot be kept.
    pub fn new_code(&self) -> Result<String, AccessError> {
        let code = Uuid::new_v4().simple().to_string();
        let expires = in_time(CODE_LIFE);
        self.update(|kept| kept.codes.push(Passing { hash: hash_of(&code), expires }))?;
        Ok(code)
    }

    /// Makes a token of a name and returns it; it is shown this once.
    ///
    /// # Errors
    ///
    /// When the name is taken or the token cannot be kept.
    pub fn new_token(
        &self,
        name: &str,
        right: AccessRight,
        life: Option<SignedDuration>,
    ) -> Result<String, AccessError> {
        let token = secret();
        let record = TokenRecord {
            name: name.to_owned(),
            right,
            made: Timestamp::now(),
            expires: life.map(in_time),
            hash: hash_of(&token),
        };
        let added = self.update(|kept| {
            let is_new = kept.tokens.iter().all(|token| token.name != record.name);
            if is_new {
                kept.tokens.push(record);
            }
            is_new
        })?;
        if added { Ok(token) } else { Err(AccessError::Exists(name.to_owned())) }
    }

    /// Takes a token of that name back; returns whether there was one.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub fn revoke_token(&self, name: &str) -> Result<bool, AccessError> {
        self.update(|kept| {
            let before = kept.tokens.len();
            kept.tokens.retain(|token| token.name != name);
            kept.tokens.len() < before
        })
    }

    /// Returns all tokens that are good.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn tokens(&self) -> Result<Vec<TokenRecord>, AccessError> {
        Ok(self.read()?.tokens)
    }

    /// Makes a code that answers one question, once, within a day.
    ///
    /// # Errors
    ///
    /// When it cannot be kept.
    pub fn new_answer_code(&self, grant: AnswerGrant) -> Result<String, AccessError> {
        let code = secret();
        let kept = AnswerCode { hash: hash_of(&code), expires: in_time(ANSWER_LIFE), grant };
        self.update(|all| all.answers.push(kept))?;
        Ok(code)
    }

    /// Returns the question that a code answers, and until when.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn answer_grant(
        &self,
        code: &str,
    ) -> Result<Option<(AnswerGrant, Timestamp)>, AccessError> {
        let hash = hash_of(code);
        let found = self.read()?.answers.into_iter().find(|answer| answer.hash == hash);
        Ok(found.map(|answer| (answer.grant, answer.expires)))
    }

    /// Uses a code up and returns the question that it answers.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub fn redeem_answer(&self, code: &str) -> Result<Option<AnswerGrant>, AccessError> {
        let hash = hash_of(code);
        self.update(|kept| {
            let at = kept.answers.iter().position(|answer| answer.hash == hash)?;
            Some(kept.answers.remove(at).grant)
        })
    }

    /// Turns a code that is good into a session's token.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub fn redeem(&self, code: &str) -> Result<Option<String>, AccessError> {
        let (hash, session) = (hash_of(code), secret());
        let opened = Passing { hash: hash_of(&session), expires: in_time(SESSION_LIFE) };
        self.update(|kept| {
            let at = kept.codes.iter().position(|code| code.hash == hash)?;
            kept.codes.remove(at);
            kept.sessions.push(opened);
            Some(session)
        })
    }

    /// Ends a session.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub fn end_session(&self, hash: Digest) -> Result<(), AccessError> {
        self.update(|kept| kept.sessions.retain(|session| session.hash != hash))
    }

    pub(crate) fn read(&self) -> Result<TokensOnDisk, AccessError> {
        let mut kept = read_kept(&self.path).map_err(|source| self.fault(source))?;
        forget_expired(&mut kept);
        Ok(kept)
    }

    /// Changes what is kept; of several processes one after the other does.
    fn update<T>(&self, change: impl FnOnce(&mut TokensOnDisk) -> T) -> Result<T, AccessError> {
        let work = || -> io::Result<T> {
            let _lock = lock(&self.path)?;
            let mut kept = read_kept(&self.path)?;
            forget_expired(&mut kept);
            let value = change(&mut kept);
            kept.version = VERSION;
            write_kept(&self.path, &kept)?;
            Ok(value)
        };
        work().map_err(|source| self.fault(source))
    }

    fn fault(&self, source: io::Error) -> AccessError {
        AccessError::File { path: self.path.clone(), source }
    }
}

fn forget_expired(kept: &mut TokensOnDisk) {
    let now = Timestamp::now();
    kept.codes.retain(|code| code.expires > now);
    kept.answers.retain(|answer| answer.expires > now);
    kept.sessions.retain(|session| session.expires > now);
    kept.tokens.retain(|token| token.expires.is_none_or(|expires| expires > now));
}

fn lock(path: &Path) -> io::Result<File> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(path.with_extension("lock"))?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

fn read_kept(path: &Path) -> io::Result<TokensOnDisk> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TokensOnDisk::default()),
        meta => meta?,
    };
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    if !meta.is_file() || meta.permissions().mode() & 0o077 != 0 || meta.len() > LONGEST {
        return Err(bad("others may read or replace it; remove it, and a new one is made"));
    }
    let kept: TokensOnDisk = serde_json::from_slice(&fs::read(path)?)?;
    if kept.version > VERSION {
        return Err(bad("a newer Salve wrote it"));
    }
    Ok(kept)
}

fn write_kept(path: &Path, kept: &TokensOnDisk) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let owner_only = fs::Permissions::from_mode(0o600);
    let mut file =
        tempfile::Builder::new().prefix(".web-access-").permissions(owner_only).tempfile_in(dir)?;
    file.write_all(&serde_json::to_vec_pretty(kept)?)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Returns 244 random bits in hex digits.
fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Returns what is kept of a secret.
pub(crate) fn hash_of(secret: &str) -> Digest {
    Digest::of(&[b"web access", secret.as_bytes()])
}

fn in_time(life: SignedDuration) -> Timestamp {
    Timestamp::now().checked_add(life).unwrap_or(Timestamp::MAX)
}

/// Who holds a token or a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessHolder {
    /// What they may do.
    pub(crate) right: AccessRight,
    /// The token's name; none for the browser of the person who runs the server.
    pub(crate) token_name: Option<String>,
}

impl TokensOnDisk {
    /// Returns who holds the secret of this hash now.
    pub(crate) fn holder(&self, hash: Digest) -> Option<AccessHolder> {
        let now = Timestamp::now();
        if self.sessions.iter().any(|one| one.hash == hash && one.expires > now) {
            return Some(AccessHolder { right: AccessRight::Operator, token_name: None });
        }
        let is_good = |token: &&TokenRecord| {
            token.hash == hash && token.expires.is_none_or(|expires| expires > now)
        };
        let token = self.tokens.iter().find(is_good)?;
        Some(AccessHolder { right: token.right, token_name: Some(token.name.clone()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// **Invariant:** Tokens are kept as hashes.
    #[test]
    fn only_hashes_are_kept_and_only_for_their_owner() {
        let dir = tempfile::tempdir().unwrap();
        let file = AccessFile::at(dir.path().join("web-access.json"));
        let code = file.new_code().unwrap();
        let token = file.new_token("ci", AccessRight::Viewer, None).unwrap();
        let text = fs::read_to_string(&file.path).unwrap();
        assert!(!text.contains(&code) && !text.contains(&token));
        assert_eq!(fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&file.path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(file.new_code().is_err(), "what others may read is not trusted");
        assert!(file.redeem(&code).is_err());
    }

    /// **Invariant:** A code that answers one question answers no other, and only once.
    #[test]
    fn a_code_for_an_answer_is_no_session_and_good_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = AccessFile::at(dir.path().join("web-access.json"));
        let grant = AnswerGrant {
            project: dir.path().to_path_buf(),
            incident: IncidentId(Uuid::from_u128(1)),
            question: 2,
            digest: Digest::of(&[b"make clean"]),
        };
        let code = file.new_answer_code(grant.clone()).unwrap();
        assert_eq!(file.redeem(&code).unwrap(), None, "it opens no session");
        assert_eq!(file.read().unwrap().holder(hash_of(&code)), None, "it is no token");
        assert_eq!(file.answer_grant(&code).unwrap().map(|(grant, _)| grant), Some(grant.clone()));
        assert_eq!(file.answer_grant("0").unwrap(), None);
        assert_eq!(file.redeem_answer(&code).unwrap(), Some(grant));
        assert_eq!(file.redeem_answer(&code).unwrap(), None, "it is good once");
        assert_eq!(file.answer_grant(&code).unwrap(), None);
    }
}
