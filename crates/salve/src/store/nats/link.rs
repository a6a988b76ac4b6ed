//! The connection to a fleet: the asynchronous client on a thread of its own.
//!
//! Whoever asks waits until the answer is there. Nothing waits for ever: each request has its limit
//! with the client, and a whole question has one here.

use std::future::Future;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::streams::StreamNames;
use crate::store::fleet::{FleetError, FleetTerms};

/// How long a server may take to let us in.
const CONNECTING: Duration = Duration::from_secs(5);

/// How long servers may take to choose a leader, and how long to wait before they are asked again.
const CHOOSING: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(250);

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(5);

/// How long a whole question may take, with all that is tried again.
const QUESTION: Duration = Duration::from_secs(60);

/// How long a whole file may take to travel.
const FILE: Duration = Duration::from_secs(30 * 60);

/// The way to the thread that is connected to a fleet; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct NatsLink {
    pub(super) context: Context,
    pub(super) names: StreamNames,
    runtime: Handle,
    /// Whoever drops it tells the thread to end.
    _end: oneshot::Sender<()>,
}

/// What is done once a connection is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connecting {
    /// What is kept for the fleet is made where it is not there yet.
    Makes,
    /// Nothing.
    Looks,
}

impl NatsLink {
    /// Connects to a fleet.
    pub(super) fn connect(terms: &FleetTerms, how: Connecting) -> Result<Self, FleetError> {
        let (tell, told) = mpsc::channel();
        let (end, ended) = oneshot::channel();
        let wanted = terms.clone();
        thread::spawn(move || live(&wanted, how, &tell, ended));
        let gone = |_| FleetError::Late { what: "connecting" };
        let (runtime, context) = told.recv_timeout(QUESTION).map_err(gone)??;
        let names = StreamNames::of(&terms.name);
        Ok(Self { context, names, runtime, _end: end })
    }

    /// Has the thread do something, and waits for what comes of it.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<T, FleetError>> + Send + 'static,
    ) -> Result<T, FleetError> {
        self.wait_within(QUESTION, what, work)
    }

    /// Has the thread send or fetch a file, and waits for what comes of it.
    pub(super) fn wait_for_file<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<T, FleetError>> + Send + 'static,
    ) -> Result<T, FleetError> {
        self.wait_within(FILE, what, work)
    }

    fn wait_within<T: Send + 'static>(
        &self,
        limit: Duration,
        what: &'static str,
        work: impl Future<Output = Result<T, FleetError>> + Send + 'static,
    ) -> Result<T, FleetError> {
        let (tell, told) = mpsc::channel();
        self.runtime.spawn(async move {
            let done = tokio::time::timeout(limit, work).await;
            // Whoever asked is waiting.
            let _gone = tell.send(done.unwrap_or(Err(FleetError::Late { what })));
        });
        told.recv().unwrap_or(Err(FleetError::Late { what }))
    }

    /// Has the thread do something beside all else, for as long as it takes.
    pub(super) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }
}

type Connected = Result<(Handle, Context), FleetError>;

/// Keeps the connection until it is told to end.
fn live(
    terms: &FleetTerms,
    how: Connecting,
    tell: &mpsc::Sender<Connected>,
    ended: oneshot::Receiver<()>,
) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let said = error.to_string();
            // Whoever asked is waiting.
            let _gone = tell.send(Err(FleetError::Refused { what: "starting a thread", said }));
            return;
        }
    };
    let handle = runtime.handle().clone();
    runtime.block_on(async move {
        let connected = connect(terms, how).await;
        let is_there = connected.is_ok();
        let _gone = tell.send(connected.map(|context| (handle, context)));
        if is_there {
            // An end that is dropped is an end, too.
            let _ended = ended.await;
        }
    });
}

async fn connect(terms: &FleetTerms, how: Connecting) -> Result<Context, FleetError> {
    let client = options(terms).await?.connect(&addresses(terms)?).await.map_err(|error| {
        let (url, said) = (terms.url.clone(), in_words(&error));
        match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                FleetError::Denied { url, said }
            }
            ConnectErrorKind::ServerParse
            | ConnectErrorKind::Dns
            | ConnectErrorKind::TimedOut
            | ConnectErrorKind::Tls
            | ConnectErrorKind::Io
            | ConnectErrorKind::MaxReconnects => FleetError::Unreachable { url, said },
        }
    })?;
    look_at_version(&client)?;
    let mut context = jetstream::new(client);
    context.set_timeout(REQUEST);
    match how {
        Connecting::Makes => make(&context, terms).await?,
        Connecting::Looks => {}
    }
    Ok(context)
}

/// Makes what is kept for a fleet; servers that have just started choose a leader first.
async fn make(context: &Context, terms: &FleetTerms) -> Result<(), FleetError> {
    let names = StreamNames::of(&terms.name);
    let begun = Instant::now();
    loop {
        match names.make(context, terms).await {
            Err(error) if error.is_transient() && begun.elapsed() < CHOOSING => {
                tokio::time::sleep(PAUSE).await;
            }
            made => return made,
        }
    }
}

fn addresses(terms: &FleetTerms) -> Result<Vec<async_nats::ServerAddr>, FleetError> {
    let parse = |word: &str| {
        word.trim().parse().map_err(|error: std::io::Error| FleetError::Unreachable {
            url: terms.url.clone(),
            said: error.to_string(),
        })
    };
    terms.url.split(',').map(parse).collect()
}

async fn options(terms: &FleetTerms) -> Result<ConnectOptions, FleetError> {
    let mut options = ConnectOptions::new()
        .name("salve")
        .connection_timeout(CONNECTING)
        .request_timeout(Some(REQUEST))
        .require_tls(terms.requires_tls);
    if let Some(path) = &terms.credentials {
        options = options
            .credentials_file(path)
            .await
            .map_err(|error| FleetError::File { path: path.clone(), said: error.to_string() })?;
    }
    if let Some(path) = &terms.tls_ca {
        // The client says that it cannot read a file, and not which.
        std::fs::File::open(path)
            .map_err(|error| FleetError::File { path: path.clone(), said: error.to_string() })?;
        options = options.add_root_certificates(path.clone());
    }
    Ok(options)
}

fn look_at_version(client: &Client) -> Result<(), FleetError> {
    FleetError::too_old(&client.server_info().version).map_or(Ok(()), Err)
}

/// Returns what an error says, with what it came from.
pub(super) fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        source = error.source();
    }
    words
}
