//! Who makes a request to the page or the API, and what they may do.
//!
//! The browser's session is a bearer token that it keeps for this origin (which includes the
//! port) and sends in a header; a cookie would also go to whatever listens on another port. It
//! gets that token for a code that is good once and travels behind the `#` of an address, so that
//! it stands in no log.

use std::sync::{Mutex, PoisonError};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use salve_core::event::Digest;
use salve_core::scrub::Scrubbed;

use super::AppState;
use super::page_client::{self, ConnectionEnds};
use super::problem::HttpProblem;
use crate::page_access::{
    AccessError, AccessFile, AccessHolder, AccessRight, TokensOnDisk, hash_of,
};

/// Who makes a request, and what they may do.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    /// What they may do.
    pub(super) right: AccessRight,
    /// The token's name; none for the browser of the person who runs the server.
    pub(super) token_name: Option<String>,
    /// Why they may not decide although what they show would allow it.
    lowered: Option<String>,
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
        let AccessHolder { right, token_name } = kept.holder(hash)?;
        Some(Visitor { right, token_name, lowered: None, hash })
    }

    /// Returns the file, for codes that answer one question.
    pub(super) fn file(&self) -> &AccessFile {
        &self.file
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
    let Some(mut visitor) = shown.and_then(|shown| state.access.visitor(shown.trim())) else {
        return HttpProblem::new(StatusCode::UNAUTHORIZED, "show a token: Authorization: Bearer …")
            .next(
                "salve serve --link prints a link for the browser; salve serve token makes tokens",
            )
            .into_response();
    };
    if visitor.right == AccessRight::Operator && *request.method() == Method::POST {
        let ends = request.extensions().get::<ConnectionEnds>().copied();
        if let Err(refusal) = page_client::judge(ends, state.roots()).await {
            // What it shows may be a person's; it is not.
            visitor = Visitor { right: AccessRight::Agent, lowered: Some(refusal), ..visitor };
        }
    }
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
                let detail = match &self.lowered {
                    Some(why) => format!("this process may not decide for a person: {why}"),
                    None => "this token may not decide".to_owned(),
                };
                Err(HttpProblem::new(StatusCode::FORBIDDEN, detail)
                    .next("a person decides on the page, or by salve approve, reject, resolve"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

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
}
