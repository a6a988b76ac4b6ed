//! Which workers are there: each writes a key now and then that goes unless it is written again.

use async_nats::jetstream::Context;
use salve_core::job::WriteAnswer;

use super::streams::{FleetStream, StreamNames, read_all, refused, write, write_at};
use crate::store::fleet::{FleetError, WorkerSeen};

/// What the keys of workers begin with.
const WORKER: &str = "worker.";

/// The key of whoever makes up for what others left undone.
const RECONCILER: &str = "reconciler";

/// Says that a worker is there.
pub(super) async fn say(
    context: &Context,
    names: &StreamNames,
    worker: &WorkerSeen,
) -> Result<(), FleetError> {
    let malformed = |error: serde_json::Error| FleetError::Malformed { what: error.to_string() };
    let bytes = serde_json::to_vec(worker).map_err(malformed)?;
    write(context, "being seen", key(names, &worker.id), bytes).await
}

/// Says that a worker has left.
pub(super) async fn take_back(
    context: &Context,
    names: &StreamNames,
    worker: &str,
) -> Result<(), FleetError> {
    let failed = |error: &(dyn std::error::Error + 'static)| refused("leaving", error);
    let stream = context.get_stream_no_info(names.stream(FleetStream::Presence)).await;
    let stream = stream.map_err(|error| failed(&error))?;
    stream.purge().filter(key(names, worker)).await.map(drop).map_err(|error| failed(&error))
}

/// Returns the workers that are there, by name.
pub(super) async fn all(
    context: &Context,
    names: &StreamNames,
) -> Result<Vec<WorkerSeen>, FleetError> {
    let filter = format!("{}>", names.named(FleetStream::Presence, WORKER));
    let kept = read_all(context, names.stream(FleetStream::Presence), filter, 1).await?;
    // What a later Salve says of itself may not be understood here.
    let read = |bytes: &Vec<u8>| serde_json::from_slice::<WorkerSeen>(bytes).ok();
    let mut found: Vec<WorkerSeen> =
        kept.iter().filter_map(|message| read(&message.bytes)).collect();
    // One that was written twice while they were read comes twice, the later one last.
    found.reverse();
    found.sort_by(|one, other| one.id.cmp(&other.id));
    found.dedup_by(|one, other| one.id == other.id);
    found.sort_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
    Ok(found)
}

/// Takes the right to make up for what others left undone, for a while; tells whether nobody has it.
pub(super) async fn take_reconciler(
    context: &Context,
    names: &StreamNames,
) -> Result<bool, FleetError> {
    let subject = names.named(FleetStream::Presence, RECONCILER);
    Ok(write_at(context, subject, 0, Vec::new()).await?.answer == WriteAnswer::Kept)
}

fn key(names: &StreamNames, worker: &str) -> String {
    names.named(FleetStream::Presence, &format!("{WORKER}{worker}"))
}
