//! Files that are kept for a fleet's jobs, by the hash of their content: small ones as one message,
//! large ones in the object store.
//!
//! **Invariant:** what is given out is what was kept, byte for byte, or nothing.

use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::object_store::{GetErrorKind, ObjectStore};
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use futures_util::StreamExt as _;
use salve_core::id::JobId;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;

use super::streams::{FleetStream, StreamNames, is_no_message, refused, write};
use crate::store::fleet::{FleetError, FleetFile};

/// The largest file that is one message.
const SMALL: usize = 512 * 1024;

/// How often a large file that is not there is looked for: a server may be a moment behind.
const LOOKS: u32 = 5;

/// How long to wait between.
const PAUSE: Duration = Duration::from_millis(200);

/// The files of a fleet's jobs.
#[derive(Clone)]
pub(super) struct Blobs {
    context: Context,
    names: StreamNames,
    small: Stream<()>,
    large: ObjectStore,
}

impl std::fmt::Debug for Blobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blobs").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Blobs {
    /// Prepares to keep files.
    pub(super) async fn open(context: Context, names: StreamNames) -> Result<Self, FleetError> {
        let small = context.get_stream_no_info(names.stream(FleetStream::Blob)).await;
        let small = small.map_err(|error| refused("looking for the files", &error))?;
        let large = context.get_object_store(names.objects()).await;
        let large = large.map_err(|error| refused("looking for the files", &error))?;
        Ok(Self { context, names, small, large })
    }

    /// Keeps a file of a job; it is there once this returns.
    pub(super) async fn keep(&self, job: JobId, bytes: Vec<u8>) -> Result<FleetFile, FleetError> {
        let stored = FleetFile { digest: hex(&bytes), size: bytes.len() as u64 };
        if bytes.len() <= SMALL {
            let subject = self.names.blob(job, &stored.digest);
            write(&self.context, "keeping a file", subject, bytes).await?;
        } else {
            let name = object_name(job, &stored.digest);
            let mut rest = bytes.as_slice();
            let kept = self.large.put(name.as_str(), &mut rest).await;
            kept.map_err(|error| refused("keeping a file", &error))?;
        }
        Ok(stored)
    }

    /// Returns the content of a file.
    pub(super) async fn content(
        &self,
        job: JobId,
        file: &FleetFile,
    ) -> Result<Vec<u8>, FleetError> {
        let is_small = usize::try_from(file.size).is_ok_and(|size| size <= SMALL);
        let found =
            if is_small { self.small(job, file).await? } else { self.large(job, file).await? };
        match found {
            Some(bytes) if hex(&bytes) == file.digest => Ok(bytes),
            Some(_) => Err(FleetError::Malformed { what: format!("the file {}", file.digest) }),
            None => Err(FleetError::Malformed { what: format!("no file {}", file.digest) }),
        }
    }

    async fn small(&self, job: JobId, file: &FleetFile) -> Result<Option<Vec<u8>>, FleetError> {
        let subject = self.names.blob(job, &file.digest);
        match self.small.get_last_raw_message_by_subject(&subject).await {
            Ok(found) => Ok(Some(found.payload.to_vec())),
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(None),
                LastRawMessageErrorKind::JetStream(said) if is_no_message(&said) => Ok(None),
                LastRawMessageErrorKind::JetStream(_)
                | LastRawMessageErrorKind::InvalidSubject
                | LastRawMessageErrorKind::Other => Err(refused("reading a file", &error)),
            },
        }
    }

    async fn large(&self, job: JobId, file: &FleetFile) -> Result<Option<Vec<u8>>, FleetError> {
        let name = object_name(job, &file.digest);
        for _ in 0..LOOKS {
            match self.large.get(name.as_str()).await {
                Ok(mut object) => {
                    let mut bytes = Vec::new();
                    let read = object.read_to_end(&mut bytes).await;
                    read.map_err(|error| refused("reading a file", &error))?;
                    return Ok(Some(bytes));
                }
                Err(error) if error.kind() == GetErrorKind::NotFound => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(refused("reading a file", &error)),
            }
        }
        Ok(None)
    }

    /// Removes all files of a job.
    pub(super) async fn forget(&self, job: JobId) -> Result<(), FleetError> {
        let subjects = format!("{}.>", self.names.subject(FleetStream::Blob, job));
        let purged = self.small.purge().filter(subjects).await;
        purged.map_err(|error| refused("removing files", &error))?;
        let listed = self.large.list().await;
        let mut listed = listed.map_err(|error| refused("removing files", &error))?;
        let of_job = object_name(job, "");
        let mut names = Vec::new();
        while let Some(object) = listed.next().await {
            let object = object.map_err(|error| refused("removing files", &error))?;
            names.push(object.name);
        }
        for name in names.iter().filter(|name| name.starts_with(&of_job)) {
            // One that is gone already is what is wanted.
            let _gone = self.large.delete(name).await;
        }
        Ok(())
    }
}

fn object_name(job: JobId, digest: &str) -> String {
    format!("{}/{digest}", job.0.simple())
}

fn hex(bytes: &[u8]) -> String {
    salve_core::event::Digest(Sha256::digest(bytes).into()).to_string()
}
