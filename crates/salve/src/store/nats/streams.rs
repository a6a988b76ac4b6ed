//! What is kept for a fleet: which streams there are, what each may hold, and what is written to them.
//!
//! **Invariant:** every stream has an end to its size and refuses what is new beyond it, so that a
//! full disk is an error with a name and nothing that was acknowledged makes room for something else.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::context::{Context, GetStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, PersistenceMode, RetentionPolicy, StorageType,
};
use async_nats::jetstream::{ErrorCode, object_store};
use futures_util::StreamExt as _;
use salve_core::id::JobId;
use salve_core::job::WriteAnswer;

use super::link::in_words;
use crate::store::fleet::{FleetError, FleetName, FleetStanding, FleetTerms, StreamStanding};

/// How long a worker counts as there that says nothing any more.
const PRESENCE: Duration = Duration::from_secs(15);

/// How long it is known what came of a fix.
const FLIGHTS: Duration = Duration::from_secs(60 * 60);
/// How long what happened to jobs can be followed; their histories stay.
const EVENTS: Duration = Duration::from_secs(3_600);

/// How many messages are asked for at once.
const PORTION: usize = 500;

/// How long a portion may take.
const PORTION_TIME: Duration = Duration::from_secs(5);

/// What JetStream says when a stream may not grow any more.
const FULL: [&str; 3] =
    ["maximum bytes exceeded", "maximum messages exceeded", "insufficient storage"];

/// What is said when nobody knows what came of a request, or nobody can answer just now.
const LATE: [&str; 6] = [
    "timed out",
    "no responders",
    "temporarily unavailable",
    "no suitable peers",
    "broken pipe",
    "503",
];

/// How long to wait before listening is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// How often a write that may be made twice is tried.
const TRIES: u32 = 4;

/// How long to wait before it is tried again, longer each time.
const PAUSE: Duration = Duration::from_millis(300);

/// What belongs to one fleet on its servers.
#[derive(Clone, Debug)]
pub(super) struct StreamNames {
    name: String,
}

/// What is written of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FleetStream {
    /// The record: one per job.
    Record,
    /// The wake-up of those who could claim it: one per job.
    WakeUp,
    /// That it failed for good.
    DeadLetter,
    /// Small files, one message each.
    Blob,
    /// What people order jobs to do, one message each.
    Order,
    /// Which workers are there, and who reconciles; each goes unless it is written again.
    Presence,
    /// How remedies came out, one message per outcome.
    Fix,
    /// What is being fixed once for all machines: one per cause, which goes after a while.
    Flight,
    /// What runs added to the histories of jobs, for those who follow them.
    Event,
    /// What people answered, and what workers said to it.
    Answer,
}

impl FleetStream {
    const ALL: [Self; 10] = [
        Self::Record,
        Self::WakeUp,
        Self::DeadLetter,
        Self::Blob,
        Self::Order,
        Self::Presence,
        Self::Fix,
        Self::Flight,
        Self::Event,
        Self::Answer,
    ];

    /// Returns how much of the room it may take, in hundredths.
    fn share(self) -> i64 {
        match self {
            Self::Record => 10,
            Self::Flight => 1,
            Self::WakeUp | Self::Order | Self::Presence => 2,
            Self::Answer => 1,
            Self::Event => 4,
            Self::DeadLetter | Self::Fix => 3,
            Self::Blob => 25,
        }
    }
}

/// How much of the room large files may take, in hundredths.
const OBJECTS_SHARE: i64 = 40;

impl StreamNames {
    /// How many places a fleet has: its streams, and the bucket with large files.
    #[cfg(test)]
    pub(super) const COUNT: usize = FleetStream::ALL.len() + 1;

    pub(super) fn of(name: &FleetName) -> Self {
        Self { name: name.to_string() }
    }

    /// Returns the name of a stream. The records are a bucket of the server's own kind, so that its
    /// own tools can look at them.
    pub(super) fn stream(&self, what: FleetStream) -> String {
        let name = &self.name;
        match what {
            FleetStream::Record => format!("KV_salve-{name}-jobs"),
            FleetStream::WakeUp => format!("salve-{name}-wake-ups"),
            FleetStream::DeadLetter => format!("salve-{name}-dead"),
            FleetStream::Blob => format!("salve-{name}-blobs"),
            FleetStream::Order => format!("KV_salve-{name}-orders"),
            FleetStream::Presence => format!("KV_salve-{name}-workers"),
            FleetStream::Fix => format!("salve-{name}-fixes"),
            FleetStream::Flight => format!("KV_salve-{name}-flights"),
            FleetStream::Event => format!("salve-{name}-events"),
            FleetStream::Answer => format!("KV_salve-{name}-answers"),
        }
    }

    /// Returns the name of the bucket with large files.
    pub(super) fn objects(&self) -> String {
        format!("salve-{}-objects", self.name)
    }

    /// Returns what all subjects of a stream begin with.
    fn prefix(&self, what: FleetStream) -> String {
        let name = &self.name;
        match what {
            FleetStream::Record => format!("$KV.salve-{name}-jobs."),
            FleetStream::WakeUp => format!("salve.{name}.wake-up."),
            FleetStream::DeadLetter => format!("salve.{name}.dead."),
            FleetStream::Blob => format!("salve.{name}.blob."),
            FleetStream::Order => format!("$KV.salve-{name}-orders."),
            FleetStream::Presence => format!("$KV.salve-{name}-workers."),
            FleetStream::Fix => format!("salve.{name}.fix."),
            FleetStream::Flight => format!("$KV.salve-{name}-flights."),
            FleetStream::Event => format!("salve.{name}.event."),
            FleetStream::Answer => format!("$KV.salve-{name}-answers."),
        }
    }

    /// Returns the subject of a job.
    pub(super) fn subject(&self, what: FleetStream, job: JobId) -> String {
        format!("{}{}", self.prefix(what), job.0.simple())
    }

    /// Returns the subject of one thing that is no job's.
    pub(super) fn named(&self, what: FleetStream, name: &str) -> String {
        format!("{}{name}", self.prefix(what))
    }

    /// Returns the subject of a file of a job.
    pub(super) fn blob(&self, job: JobId, digest: &str) -> String {
        format!("{}.{digest}", self.subject(FleetStream::Blob, job))
    }

    /// Returns the subjects of everything in a stream.
    pub(super) fn all(&self, what: FleetStream) -> String {
        format!("{}>", self.prefix(what))
    }

    /// Returns the job that a subject is about.
    pub(super) fn job(&self, what: FleetStream, subject: &str) -> Option<JobId> {
        let rest = subject.strip_prefix(&self.prefix(what))?;
        rest.split('.').next()?.parse().ok().map(JobId)
    }

    /// Returns how everything that is kept for the fleet stands.
    pub(super) async fn look(&self, context: &Context) -> Result<FleetStanding, FleetError> {
        let server = context.client().server_info();
        let mut standing = FleetStanding {
            version: server.version,
            servers: BTreeSet::from([server.server_name]),
            streams: Vec::new(),
            missing: Vec::new(),
        };
        let forgetful = [FleetStream::Presence, FleetStream::Flight, FleetStream::Event];
        let forgetful = forgetful.map(|what| self.stream(what));
        let mut names: Vec<String> =
            FleetStream::ALL.into_iter().map(|what| self.stream(what)).collect();
        names.push(format!("OBJ_{}", self.objects()));
        for name in names {
            match context.get_stream(&name).await {
                Ok(stream) => {
                    let info = stream.cached_info();
                    standing.servers.extend(keepers(info));
                    let may_forget = forgetful.contains(&name);
                    let of = stream_standing(name, info);
                    standing
                        .streams
                        .push(StreamStanding { forgets: of.forgets && !may_forget, ..of });
                }
                Err(error) if is_no_stream(&error.kind()) => standing.missing.push(name),
                Err(error) => return Err(refused("looking at a stream", &error)),
            }
        }
        Ok(standing)
    }

    fn config(&self, what: FleetStream, terms: &FleetTerms) -> Config {
        let (retention, max_age) = match what {
            FleetStream::WakeUp => (RetentionPolicy::WorkQueue, Duration::ZERO),
            FleetStream::Presence => (RetentionPolicy::Limits, PRESENCE),
            FleetStream::Flight => (RetentionPolicy::Limits, FLIGHTS),
            FleetStream::Event => (RetentionPolicy::Limits, EVENTS),
            FleetStream::Record
            | FleetStream::DeadLetter
            | FleetStream::Blob
            | FleetStream::Order
            | FleetStream::Fix
            | FleetStream::Answer => (RetentionPolicy::Limits, Duration::ZERO),
        };
        Config {
            name: self.stream(what),
            subjects: vec![self.all(what)],
            retention,
            max_bytes: room(terms, what.share()),
            // What is written again replaces what was there; only events follow one another.
            max_messages_per_subject: if what == FleetStream::Event { -1 } else { 1 },
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            num_replicas: usize::from(terms.replicas),
            max_age,
            // Only the leader answers: a follower may be behind what was acknowledged.
            allow_direct: false,
            allow_rollup: true,
            ..Config::default()
        }
    }

    /// Makes what is not there yet; what is there stays as it is.
    pub(super) async fn make(
        &self,
        context: &Context,
        terms: &FleetTerms,
    ) -> Result<(), FleetError> {
        for what in FleetStream::ALL {
            let made = context.get_or_create_stream(self.config(what, terms)).await;
            made.map_err(|error| refused("making a stream", &error))?;
        }
        if context.get_object_store(self.objects()).await.is_err() {
            let config = object_store::Config {
                bucket: self.objects(),
                max_bytes: room(terms, OBJECTS_SHARE),
                num_replicas: usize::from(terms.replicas),
                ..object_store::Config::default()
            };
            let made = context.create_object_store(config).await;
            // Another one may have made it just now.
            if let Err(error) = made
                && context.get_object_store(self.objects()).await.is_err()
            {
                return Err(refused("making a bucket", &error));
            }
        }
        Ok(())
    }
}

fn is_no_stream(error: &GetStreamErrorKind) -> bool {
    matches!(error, GetStreamErrorKind::JetStream(said) if said.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Returns the names of the servers that a stream is on.
fn keepers(info: &Info) -> Vec<String> {
    let Some(cluster) = &info.cluster else { return Vec::new() };
    let followers = cluster.replicas.iter().map(|peer| peer.name.clone());
    cluster.leader.iter().cloned().chain(followers).collect()
}

fn stream_standing(name: String, info: &Info) -> StreamStanding {
    let followers = info.cluster.iter().flat_map(|cluster| &cluster.replicas);
    let has_leader = info.cluster.as_ref().is_none_or(|cluster| cluster.leader.is_some());
    let current = followers.filter(|peer| peer.current && !peer.offline).count();
    StreamStanding {
        name,
        replicas: info.config.num_replicas,
        current: current + usize::from(has_leader),
        max_bytes: u64::try_from(info.config.max_bytes).ok(),
        bytes: info.state.bytes,
        refuses_new: info.config.discard == DiscardPolicy::New,
        forgets: !info.config.max_age.is_zero(),
        is_on_disk: info.config.storage == StorageType::File
            && info.config.persist_mode != Some(PersistenceMode::Async),
    }
}

fn room(terms: &FleetTerms, share: i64) -> i64 {
    i64::from(terms.storage_mb) * 1024 * 1024 / 100 * share
}

/// Says that the server refused, has no room, or did not answer.
pub(super) fn refused(what: &'static str, error: &dyn std::error::Error) -> FleetError {
    let said = in_words(error);
    if FULL.iter().any(|words| said.contains(words)) {
        return FleetError::Full { place: what.to_owned() };
    }
    if LATE.iter().any(|words| said.contains(words)) {
        return FleetError::Late { what };
    }
    FleetError::Refused { what, said }
}

/// What was heard of a message that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) answer: WriteAnswer,
    /// The revision at which it is kept, if it is.
    pub(super) revision: u64,
}

impl Written {
    fn not(answer: WriteAnswer) -> Self {
        Self { answer, revision: 0 }
    }
}

/// Writes a message, if what its subject had last is of this revision; 0 means nothing at all.
pub(super) async fn write_at(
    context: &Context,
    subject: String,
    revision: u64,
    bytes: Vec<u8>,
) -> Result<Written, FleetError> {
    let message =
        PublishMessage::build().payload(bytes.into()).expected_last_subject_sequence(revision);
    publish(context, subject, message).await
}

/// Writes a message, whatever was there before; it may be written twice.
pub(super) async fn write(
    context: &Context,
    what: &'static str,
    subject: String,
    bytes: Vec<u8>,
) -> Result<(), FleetError> {
    for attempt in 1..=TRIES {
        let message = PublishMessage::build().payload(bytes.clone().into());
        match publish(context, subject.clone(), message).await?.answer {
            WriteAnswer::Kept => return Ok(()),
            WriteAnswer::Refused | WriteAnswer::Nothing => {
                tokio::time::sleep(PAUSE * attempt).await
            }
        }
    }
    Err(FleetError::Late { what })
}

pub(super) async fn publish(
    context: &Context,
    subject: String,
    message: PublishMessage,
) -> Result<Written, FleetError> {
    let place = || subject.clone();
    let acknowledged = match context.send_publish(subject.clone(), message).await {
        Ok(sent) => sent.await,
        Err(error) => Err(error),
    };
    match acknowledged {
        Ok(said) => Ok(Written { answer: WriteAnswer::Kept, revision: said.sequence }),
        Err(error) => match error.kind() {
            PublishErrorKind::WrongLastSequence => Ok(Written::not(WriteAnswer::Refused)),
            // It may have arrived, or may still arrive.
            PublishErrorKind::TimedOut
            | PublishErrorKind::BrokenPipe
            | PublishErrorKind::StreamNotFound => Ok(Written::not(WriteAnswer::Nothing)),
            PublishErrorKind::MaxPayloadExceeded
            | PublishErrorKind::MaxAckPending
            | PublishErrorKind::WrongLastMessageId
            | PublishErrorKind::Other => {
                let said = in_words(&error);
                if FULL.iter().any(|words| said.contains(words)) {
                    return Err(FleetError::Full { place: place() });
                }
                Err(FleetError::Refused { what: "writing", said })
            }
        },
    }
}

/// A message as it is kept.
#[derive(Clone, Debug)]
pub(super) struct KeptMessage {
    pub(super) seq: u64,
    pub(super) subject: String,
    /// When the server got it, in milliseconds of its clock.
    pub(super) at_ms: i64,
    pub(super) bytes: Vec<u8>,
}

impl KeptMessage {
    fn of(message: &async_nats::jetstream::Message) -> Result<Self, FleetError> {
        let info = message.info().map_err(|error| refused("reading a message", error.as_ref()))?;
        let at_ms = info.published.unix_timestamp_nanos() / 1_000_000;
        Ok(Self {
            seq: info.stream_sequence,
            subject: message.subject.to_string(),
            at_ms: i64::try_from(at_ms).unwrap_or(i64::MAX),
            bytes: message.payload.to_vec(),
        })
    }
}

/// Where in a stream somebody listens.
#[derive(Clone, Debug)]
pub(super) struct HearingPlace {
    pub(super) stream: String,
    /// The next message.
    pub(super) next: u64,
}

/// Returns where a stream ends now.
pub(super) async fn end_of(context: &Context, stream: String) -> Result<HearingPlace, FleetError> {
    let found = patiently(|| async {
        let found = context.get_stream(&stream).await;
        found.map_err(|error| refused("listening", &error))
    });
    let next = found.await?.cached_info().state.last_sequence.saturating_add(1);
    Ok(HearingPlace { stream, next })
}

/// Hands every message of a stream on from a place, once, until nobody wants any more; what comes
/// while no server answers is heard when one does.
pub(super) async fn hear(
    context: Context,
    mut place: HearingPlace,
    mut take: impl FnMut(KeptMessage) -> Hearing,
) {
    while let Err(_again) = hear_for_now(&context, &mut place, &mut take).await {
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whether one who listens wants more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    GoesOn,
    Over,
}

async fn hear_for_now(
    context: &Context,
    place: &mut HearingPlace,
    take: &mut impl FnMut(KeptMessage) -> Hearing,
) -> Result<(), FleetError> {
    let failed = |error: &(dyn std::error::Error + 'static)| refused("listening", error);
    let stream = context.get_stream_no_info(&place.stream).await;
    let config = pull::OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: place.next.max(1) },
        ..pull::OrderedConfig::default()
    };
    let stream = stream.map_err(|error| failed(&error))?;
    let consumer = stream.create_consumer(config).await.map_err(|error| failed(&error))?;
    let mut messages = consumer.messages().await.map_err(|error| failed(&error))?;
    while let Some(message) = messages.next().await {
        let message = KeptMessage::of(&message.map_err(|error| failed(&error))?)?;
        if message.seq < place.next {
            continue;
        }
        place.next = message.seq.saturating_add(1);
        if take(message) == Hearing::Over {
            return Ok(());
        }
    }
    Err(FleetError::Late { what: "listening" })
}

/// Reads all messages of a stream whose subjects fit, from this one on, in order.
pub(super) async fn read_all(
    context: &Context,
    stream: String,
    filter: String,
    from: u64,
) -> Result<Vec<KeptMessage>, FleetError> {
    patiently(|| read_once(context, &stream, &filter, from)).await
}

/// Asks again for what the servers cannot answer just now: a reader that was made a moment ago, or
/// whose leader was lost, may not listen yet.
pub(super) async fn patiently<T, F>(ask: impl Fn() -> F) -> Result<T, FleetError>
where
    F: Future<Output = Result<T, FleetError>>,
{
    for attempt in 1..TRIES {
        match ask().await {
            Err(error) if error.is_transient() => tokio::time::sleep(PAUSE * attempt).await,
            answer => return answer,
        }
    }
    ask().await
}

async fn read_once(
    context: &Context,
    stream: &str,
    filter: &str,
    from: u64,
) -> Result<Vec<KeptMessage>, FleetError> {
    let failed = |error: &(dyn std::error::Error + 'static)| refused("reading a list", error);
    let stream = context.get_stream_no_info(stream).await.map_err(|error| failed(&error))?;
    let config = pull::Config {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from.max(1) },
        filter_subject: filter.to_owned(),
        ack_policy: AckPolicy::None,
        memory_storage: true,
        num_replicas: 1,
        inactive_threshold: Duration::from_secs(30),
        ..pull::Config::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(|error| failed(&error))?;
    let mut left = consumer.cached_info().num_pending;
    let mut found = Vec::new();
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(PORTION).min(PORTION);
        let batch = consumer.batch().max_messages(most).expires(PORTION_TIME);
        let mut batch = batch.messages().await.map_err(|error| failed(&error))?;
        let before = found.len();
        while let Some(message) = batch.next().await {
            let message = message.map_err(|error| failed(error.as_ref()))?;
            found.push(KeptMessage::of(&message)?);
        }
        // What was replaced or removed meanwhile does not come.
        if found.len() == before {
            break;
        }
        left = left.saturating_sub((found.len() - before) as u64);
    }
    // It would go by itself.
    let _gone = stream.delete_consumer(&consumer.cached_info().name).await;
    Ok(found)
}

/// Tells whether the server says that there is no such message.
pub(super) fn is_no_message(error: &async_nats::jetstream::Error) -> bool {
    error.error_code() == ErrorCode::NO_MESSAGE_FOUND
}
