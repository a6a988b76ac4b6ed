//! What people order the jobs of a fleet to do: kept until the job is removed, and heard at once.

use std::sync::mpsc::Sender;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures_util::StreamExt as _;
use salve_core::id::JobId;
use salve_core::job::WriteAnswer;
use uuid::Uuid;

use super::streams::{FleetStream, StreamNames, read_all, refused, write_at};
use crate::store::fleet::{FleetError, FleetOrder, PlacedOrder};

/// The version of an order's shape.
const VERSION: u32 = 1;

/// How long to wait before listening is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps an order.
pub(super) async fn place(
    context: &Context,
    names: &StreamNames,
    order: &FleetOrder,
) -> Result<(), FleetError> {
    let malformed = |error: serde_json::Error| FleetError::Malformed { what: error.to_string() };
    let bytes = serde_json::to_vec(order).map_err(malformed)?;
    // One subject for each: an order that was not heard of again is not given twice.
    let subject =
        format!("{}.{}", names.subject(FleetStream::Order, order.job), Uuid::new_v4().simple());
    for _ in 0..3 {
        match write_at(context, subject.clone(), 0, bytes.clone()).await?.answer {
            // The first of two that were sent refuses the second.
            WriteAnswer::Kept | WriteAnswer::Refused => return Ok(()),
            WriteAnswer::Nothing => tokio::time::sleep(PAUSE).await,
        }
    }
    Err(FleetError::Late { what: "giving an order" })
}

/// Returns the orders to a job that were given after this one.
pub(super) async fn after(
    context: &Context,
    names: &StreamNames,
    job: JobId,
    after: u64,
) -> Result<Vec<PlacedOrder>, FleetError> {
    let filter = format!("{}.>", names.subject(FleetStream::Order, job));
    let kept = read_all(context, names.stream(FleetStream::Order), filter, after + 1).await?;
    kept.into_iter().map(|message| decode(message.seq, &message.bytes)).collect()
}

/// Tells of every order from now on, until nobody listens any more.
pub(super) async fn tell(context: Context, names: StreamNames, to: Sender<PlacedOrder>) {
    // What is missed while the server is away is read when a claim is prolonged.
    while tell_for_now(&context, &names, &to).await.is_err() {
        tokio::time::sleep(PAUSE).await;
    }
}

async fn tell_for_now(
    context: &Context,
    names: &StreamNames,
    to: &Sender<PlacedOrder>,
) -> Result<(), FleetError> {
    let failed = |error: &(dyn std::error::Error + 'static)| refused("listening for orders", error);
    let stream = context.get_stream_no_info(names.stream(FleetStream::Order)).await;
    let config = pull::OrderedConfig {
        deliver_policy: DeliverPolicy::New,
        ..pull::OrderedConfig::default()
    };
    let stream = stream.map_err(|error| failed(&error))?;
    let consumer = stream.create_consumer(config).await.map_err(|error| failed(&error))?;
    let mut orders = consumer.messages().await.map_err(|error| failed(&error))?;
    while let Some(message) = orders.next().await {
        let message = message.map_err(|error| failed(&error))?;
        let place = message.info().map_err(|error| failed(error.as_ref()))?.stream_sequence;
        // What a later Salve orders is not understood here, and what was removed is none.
        let Ok(order) = decode(place, &message.payload) else { continue };
        if to.send(order).is_err() {
            return Ok(());
        }
    }
    Err(FleetError::Late { what: "listening for orders" })
}

fn decode(place: u64, bytes: &[u8]) -> Result<PlacedOrder, FleetError> {
    let malformed =
        |error: serde_json::Error| FleetError::Malformed { what: format!("an order: {error}") };
    let order: FleetOrder = serde_json::from_slice(bytes).map_err(malformed)?;
    if order.version > VERSION {
        let what = format!("an order, version {}", order.version);
        return Err(FleetError::Malformed { what });
    }
    Ok(PlacedOrder { place, order })
}
