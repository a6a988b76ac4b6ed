//! `salve workers`: who is there in a fleet, what each does, and since when.

use std::io::Write as _;

use jiff::Timestamp;

use super::super::events::visible;
use super::super::{CliError, Exit, Output};
use super::fleet::{FleetArgs, fleet_of};
use crate::store::WorkerSeen;

/// Arguments of `salve workers`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    fleet: FleetArgs,
}

/// Lists the workers, by name.
pub(in crate::cli) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let store = args.fleet.open(out)?.ok_or_else(|| {
        CliError::usage("no fleet is meant")
            .hint("salve workers --fleet URL, or set `fleet.url` in salve.toml")
    })?;
    let workers = fleet_of(&store)?.workers()?;
    for worker in &workers {
        if out.json() {
            out.fact(worker)?;
        } else {
            write!(out.stdout(), "{}", lines(worker, Timestamp::now()))?;
        }
    }
    if workers.is_empty() && !out.json() {
        out.remark("no worker is there; start one: salve worker --fleet URL");
    }
    Ok(Exit::Well)
}

fn lines(worker: &WorkerSeen, now: Timestamp) -> String {
    let name = visible(worker.name.as_str());
    let labels = worker.labels.join(", ");
    let labels = if labels.is_empty() { labels } else { format!("  offers {}", visible(&labels)) };
    let (busy, slots) = (worker.jobs.len(), worker.slots);
    let mut text =
        format!("{name}  {busy}/{slots} jobs  for {}{labels}\n", since(worker.since, now));
    for job in &worker.jobs {
        text.push_str(&format!("  {}  for {}\n", job.job.short(), since(job.since, now)));
    }
    text
}

/// Returns how long ago something was; a worker's clock may be ahead.
fn since(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use salve_core::id::JobId;
    use salve_core::scrub::Scrubbed;
    use uuid::Uuid;

    use super::*;
    use crate::store::JobSeen;

    #[test]
    fn a_worker_is_shown_with_what_it_offers_and_does() {
        let now = Timestamp::UNIX_EPOCH;
        let ago = |seconds| now - SignedDuration::from_secs(seconds);
        let job = JobId(Uuid::from_u128(7));
        let worker = WorkerSeen {
            version: 1,
            id: "a".to_owned(),
            name: Scrubbed::literal("process 7 on box"),
            since: ago(7_300),
            labels: vec!["gpu".to_owned(), "node20".to_owned()],
            slots: 2,
            jobs: vec![JobSeen { job, since: ago(130) }],
        };
        let id = job.short();
        let want =
            format!("process 7 on box  1/2 jobs  for 2 h  offers gpu, node20\n  {id}  for 2 min\n");
        assert_eq!(lines(&worker, now), want);
        assert_eq!(since(now + SignedDuration::from_secs(9), now), "0 s", "its clock is ahead");
    }
}
