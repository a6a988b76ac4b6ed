//! What the machines of a fleet tell one another about remedies: a stream, read from where one left
//! off.

use async_nats::jetstream::Context;

use super::queue::NatsQueue;
use super::streams::{FleetStream, StreamNames, read_all, refused, write};
use crate::store::fleet::FleetError;
use crate::store::{FixMessage, FixPortion, FleetFixes, SaidFix, StoreError};

impl FleetFixes for NatsQueue {
    fn tell_fix(&self, place: &str, body: &str) -> Result<(), StoreError> {
        let (context, names) = (self.link.context.clone(), self.link.names.clone());
        let sealed = self.signer.sealed(place, body);
        let subject = names.named(FleetStream::Fix, place);
        let done = self.link.wait("telling of a remedy", async move {
            write(&context, "telling of a remedy", subject, sealed).await
        });
        Ok(done?)
    }

    fn fixes_after(&self, after: Option<&str>) -> Result<FixPortion, StoreError> {
        let (context, names) = (self.link.context.clone(), self.link.names.clone());
        let after = after.map(str::to_owned);
        let (next, kept) = self.link.wait("reading of remedies", async move {
            kept_after(&context, &names, after.as_deref()).await
        })?;
        let prefix = self.link.names.named(FleetStream::Fix, "");
        let opened = |(subject, bytes): (String, Vec<u8>)| {
            let place = subject.strip_prefix(&prefix).unwrap_or_default();
            match self.signer.opened(place, &bytes) {
                Some((body, author)) => FixMessage::Said(SaidFix { body, author }),
                None => FixMessage::Garbage,
            }
        };
        Ok(FixPortion { messages: kept.into_iter().map(opened).collect(), next })
    }

    fn has_key(&self) -> bool {
        self.signer.key().is_some()
    }
}

/// A message's subject and content.
type KeptFix = (String, Vec<u8>);

/// Reads what is behind a place, which names the stream, too: one that was made anew begins anew.
async fn kept_after(
    context: &Context,
    names: &StreamNames,
    after: Option<&str>,
) -> Result<(String, Vec<KeptFix>), FleetError> {
    let failed = |error: &(dyn std::error::Error + 'static)| refused("reading of remedies", error);
    let name = names.stream(FleetStream::Fix);
    let stream = context.get_stream(&name).await.map_err(|error| failed(&error))?;
    let info = stream.cached_info();
    let this = info.created.unix_timestamp_nanos().to_string();
    let from = after.and_then(|after| after.split_once(':')).filter(|(which, _)| *which == this);
    let from = from.and_then(|(_, seq)| seq.parse::<u64>().ok()).unwrap_or(0);
    let is_behind = from <= info.state.last_sequence;
    let from = if is_behind { from } else { 0 };
    let kept = if info.state.last_sequence > from {
        read_all(context, name, names.all(FleetStream::Fix), from + 1).await?
    } else {
        Vec::new()
    };
    let last = kept.iter().map(|message| message.seq).max().unwrap_or(from);
    let kept = kept.into_iter().map(|message| (message.subject, message.bytes)).collect();
    Ok((format!("{this}:{last}"), kept))
}
