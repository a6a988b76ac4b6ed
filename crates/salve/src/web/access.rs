//! Who may use the page and the API: tokens, sessions and one-time codes.
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
use std::sync::{Mutex, PoisonError};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use jiff::{SignedDuration, Timestamp};
use rustix::fs::{FlockOperation, flock};
use salve_core::event::Digest;
use salve_core::scrub::Scrubbed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::AppState;
use super::problem::HttpProblem;

/// The version of the file's shape.
const VERSION: u32 = 1;

/// How long a one-time code is good.
const CODE_LIFE: SignedDuration = SignedDuration::from_mins(10);

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

/// What the file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokensOnDisk {
    version: u32,
    #[serde(default)]
    tokens: Vec<TokenRecord>,
    #[serde(default)]
    sessions: Vec<Passing>,
    #[serde(default)]
    codes: Vec<Passing>,
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

    /// Turns a code that is good into a session's token.
    fn redeem(&self, code: &str) -> Result<Option<String>, AccessError> {
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
    fn end_session(&self, hash: Digest) -> Result<(), AccessError> {
        self.update(|kept| kept.sessions.retain(|session| session.hash != hash))
    }

    fn read(&self) -> Result<TokensOnDisk, AccessError> {
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

fn hash_of(secret: &str) -> Digest {
    Digest::of(&[b"web access", secret.as_bytes()])
}

fn in_time(life: SignedDuration) -> Timestamp {
    Timestamp::now().checked_add(life).unwrap_or(Timestamp::MAX)
}

/// Who makes a request, and what they may do.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    /// What they may do.
    pub(super) right: AccessRight,
    /// The token's name; none for the browser of the person who runs the server.
    pub(super) token_name: Option<String>,
    hash: Digest,
}

/// The file's content as it was read last, so that not every request reads it.
#[derive(Debug)]
pub(super) struct AccessList {
    file: AccessFile,
    kept: Mutex<TokensOnDisk>,
}

impl AccessList {
    /// Returns the list of a file.
    pub(super) fn new(file: AccessFile) -> Self {
        // What cannot be read now is read again when somebody comes.
        let kept = Mutex::new(file.read().unwrap_or_default());
        Self { file, kept }
    }

    /// Returns who shows this secret.
    pub(super) fn visitor(&self, secret: &str) -> Option<Visitor> {
        let hash = hash_of(secret);
        self.find(hash).or_else(|| {
            // A token or session that was made meanwhile, perhaps by another process.
            self.reload();
            self.find(hash)
        })
    }

    /// Turns a code into a session's token, if it is good.
    pub(super) fn redeem(&self, code: &str) -> Result<Option<String>, AccessError> {
        let session = self.file.redeem(code)?;
        self.reload();
        Ok(session)
    }

    /// Ends the session of a visitor.
    pub(super) fn end_session(&self, visitor: &Visitor) -> Result<(), AccessError> {
        self.file.end_session(visitor.hash)?;
        self.reload();
        Ok(())
    }

    fn reload(&self) {
        if let Ok(kept) = self.file.read() {
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        }
    }

    fn find(&self, hash: Digest) -> Option<Visitor> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Timestamp::now();
        let session = kept.sessions.iter().find(|one| one.hash == hash && one.expires > now);
        if session.is_some() {
            return Some(Visitor { right: AccessRight::Operator, token_name: None, hash });
        }
        let is_good = |token: &&TokenRecord| {
            token.hash == hash && token.expires.is_none_or(|expires| expires > now)
        };
        let token = kept.tokens.iter().find(is_good)?;
        Some(Visitor { right: token.right, token_name: Some(token.name.clone()), hash })
    }
}

/// Lets only those pass who show a token or session, and says to the handlers who they are.
pub(super) async fn identify(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION);
    let shown = shown.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let Some(visitor) = shown.and_then(|shown| state.access.visitor(shown.trim())) else {
        return HttpProblem::new(StatusCode::UNAUTHORIZED, "show a token: Authorization: Bearer …")
            .next(
                "salve serve --link prints a link for the browser; salve serve token makes tokens",
            )
            .into_response();
    };
    request.extensions_mut().insert(visitor);
    next.run(request).await
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, HttpProblem> {
        let nobody = || HttpProblem::new(StatusCode::UNAUTHORIZED, "show a token");
        parts.extensions.get::<Visitor>().cloned().ok_or_else(nobody)
    }
}

impl Visitor {
    /// Refuses unless the visitor may decide; returns the name under which they speak.
    pub(super) fn decider(&self, person: &Scrubbed) -> Result<Scrubbed, HttpProblem> {
        match self.right {
            AccessRight::Operator => Ok(match &self.token_name {
                Some(name) => crate::scrub::scrubber().scrub(name),
                None => person.clone(),
            }),
            AccessRight::Viewer | AccessRight::Agent => {
                let detail = "this token may not decide";
                Err(HttpProblem::new(StatusCode::FORBIDDEN, detail)
                    .next("a person decides on the page, or by salve approve, reject, resolve"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(dir: &tempfile::TempDir) -> (AccessFile, AccessList) {
        let file = AccessFile::at(dir.path().join("web-access.json"));
        (file.clone(), AccessList::new(file))
    }

    #[test]
    fn a_code_is_good_once_and_its_session_lives_on() {
        let dir = tempfile::tempdir().unwrap();
        let (file, access) = list(&dir);
        let code = file.new_code().unwrap();
        assert!(access.visitor(&code).is_none(), "a code is no token");
        let session = access.redeem(&code).unwrap().unwrap();
        assert_eq!(access.redeem(&code).unwrap(), None);
        let right = |access: &AccessList| access.visitor(&session).map(|one| one.right);
        assert_eq!(right(&access), Some(AccessRight::Operator));
        let (_, restarted) = list(&dir);
        assert_eq!(right(&restarted), Some(AccessRight::Operator), "it outlives the server");
        let visitor = access.visitor(&session).unwrap();
        access.end_session(&visitor).unwrap();
        assert_eq!(right(&access), None);
    }

    #[test]
    fn tokens_have_rights_and_can_be_taken_back_while_the_server_runs() {
        let dir = tempfile::tempdir().unwrap();
        let (file, access) = list(&dir);
        let life = Some(SignedDuration::from_hours(1));
        for right in [AccessRight::Viewer, AccessRight::Agent, AccessRight::Operator] {
            let name = format!("{right:?}");
            let token = file.new_token(&name, right, life).unwrap();
            let visitor = access.visitor(&token).unwrap();
            assert_eq!(visitor.right, right);
            let may = visitor.decider(&Scrubbed::literal("ada"));
            assert_eq!(may.is_ok(), right == AccessRight::Operator, "{right:?}");
        }
        assert!(file.new_token("Viewer", AccessRight::Viewer, None).is_err());
        assert!(file.revoke_token("Viewer").unwrap());
        assert!(!file.revoke_token("Viewer").unwrap());
        assert_eq!(file.tokens().unwrap().len(), 2);
    }

    #[test]
    fn what_has_expired_is_not_good() {
        let dir = tempfile::tempdir().unwrap();
        let (file, access) = list(&dir);
        let past = Some(SignedDuration::from_secs(-1));
        let token = file.new_token("old", AccessRight::Operator, past).unwrap();
        assert!(access.visitor(&token).is_none());
    }

    /// **Invariant:** Tokens are kept as hashes.
    #[test]
    fn only_hashes_are_kept_and_only_for_their_owner() {
        let dir = tempfile::tempdir().unwrap();
        let (file, access) = list(&dir);
        let code = file.new_code().unwrap();
        let token = file.new_token("ci", AccessRight::Viewer, None).unwrap();
        let text = fs::read_to_string(&file.path).unwrap();
        assert!(!text.contains(&code) && !text.contains(&token));
        assert_eq!(fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&file.path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(file.new_code().is_err(), "what others may read is not trusted");
        assert!(access.redeem(&code).is_err());
    }
}
