//! Making up for what a process left undone that was killed between a record and what follows from it.
//!
//! A job that has to be claimed sooner or later has a wake-up, and one that is dead has a dead letter.
//! Both are made from the record alone, so it does no harm to make them twice.

use std::collections::HashSet;

use async_nats::jetstream::Context;
use futures_util::TryStreamExt as _;
use salve_core::id::JobId;

use super::presence::take_reconciler;
use super::queue::FleetJobs;
use super::streams::{FleetStream, StreamNames, refused};
use crate::store::fleet::FleetError;

/// Makes up for what others left undone, unless somebody else does; returns for how many jobs.
pub(super) async fn reconcile(jobs: &FleetJobs) -> Result<usize, FleetError> {
    let (context, names) = (&jobs.records.context, &jobs.records.names);
    if !take_reconciler(context, names).await? {
        return Ok(0);
    }
    // In this order: whoever is submitted meanwhile is not among the records.
    let records = jobs.records.all().await?;
    let woken = of_stream(context, names, FleetStream::WakeUp).await?;
    let buried = of_stream(context, names, FleetStream::DeadLetter).await?;
    let mut mended = 0;
    for record in records {
        let job = record.job.job;
        if record.job.lacks_its_trace(woken.contains(&job), buried.contains(&job)) {
            jobs.settle_as(&record).await?;
            mended += 1;
        }
    }
    Ok(mended)
}

/// Returns the jobs that have a message in a stream.
async fn of_stream(
    context: &Context,
    names: &StreamNames,
    what: FleetStream,
) -> Result<HashSet<JobId>, FleetError> {
    let failed = |error: &(dyn std::error::Error + 'static)| refused("looking for jobs", error);
    let stream = context.get_stream_no_info(names.stream(what)).await;
    let stream = stream.map_err(|error| failed(&error))?;
    let info = stream.info_with_subjects(names.all(what)).await.map_err(|error| failed(&error))?;
    let subjects: Vec<_> = info.try_collect().await.map_err(|error| failed(&error))?;
    Ok(subjects.iter().filter_map(|(subject, _)| names.job(what, subject)).collect())
}
