//! What was written of jobs and what was heard of it, and whether it could have been so in a fleet
//! that keeps its promises.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

/// What was heard of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is kept, at this revision.
    Kept(u64),
    Refused,
    Unheard,
}

/// A write of a job's record, as it went over the wire.
#[derive(Clone, Debug)]
pub(super) struct RecordedWrite {
    /// Which process sent it, and in which of its lives.
    by: (usize, u64),
    job: String,
    /// The revision that it was to replace.
    expected: u64,
    record: Value,
    outcome: Outcome,
}

impl RecordedWrite {
    pub(super) fn sent(
        client: usize,
        life: u64,
        job: String,
        expected: u64,
        record: Value,
    ) -> Self {
        Self { by: (client, life), job, expected, record, outcome: Outcome::Unheard }
    }

    fn epoch(&self) -> u64 {
        self.record["job"]["epoch"].as_u64().unwrap_or(0)
    }

    fn state(&self) -> &str {
        self.record["job"]["state"].as_str().unwrap_or_default()
    }
}

/// Everything that was written.
#[derive(Debug, Default)]
pub(super) struct History {
    writes: Vec<RecordedWrite>,
    /// The last write of each job that is known to be kept.
    last: HashMap<String, usize>,
    /// What was seen of jobs whose last write may be one of which nothing was heard.
    seen: HashMap<String, (u64, Value)>,
}

/// What a whole history adds up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) jobs: usize,
    pub(super) kept: usize,
    pub(super) refused: usize,
    pub(super) unheard: usize,
    /// Claims of jobs that had a worker before.
    pub(super) takeovers: usize,
    /// Writes by whoever had lost the job; all of them were refused.
    pub(super) fenced: usize,
}

impl History {
    /// Puts a write down; returns where it stands.
    pub(super) fn put_down(&mut self, write: RecordedWrite) -> usize {
        self.writes.push(write);
        self.writes.len() - 1
    }

    /// Takes in what was heard of a write.
    pub(super) fn heard(&mut self, write: usize, outcome: Outcome) {
        self.writes[write].outcome = outcome;
        let Outcome::Kept(revision) = outcome else { return };
        let last = self.last.entry(self.writes[write].job.clone()).or_insert(write);
        if !matches!(self.writes[*last].outcome, Outcome::Kept(other) if other > revision) {
            *last = write;
        }
    }

    /// Takes in what the servers have of a job.
    pub(super) fn saw(&mut self, job: &str, revision: u64, record: Value) {
        self.seen.insert(job.to_owned(), (revision, record));
    }

    /// Returns the last record of a job that is known to be kept.
    pub(super) fn last(&self, job: &str) -> Option<&Value> {
        let write = &self.writes[*self.last.get(job)?];
        match (write.outcome, self.seen.get(job)) {
            (Outcome::Kept(kept), Some((revision, record))) if *revision > kept => Some(record),
            (Outcome::Kept(_) | Outcome::Refused | Outcome::Unheard, _) => Some(&write.record),
        }
    }

    /// Returns the last record of a run, by the end of its job's id.
    pub(super) fn record_of(&self, run: &str) -> Option<&Value> {
        self.last(self.last.keys().find(|job| job.ends_with(run))?)
    }

    /// Returns how many steps of a run are committed.
    pub(super) fn patches_of(&self, run: &str) -> usize {
        self.record_of(run).map_or(0, |record| step_patches(record).len())
    }

    /// Returns how often a run was claimed.
    pub(super) fn claims_of(&self, run: &str) -> u64 {
        self.record_of(run).and_then(|record| record["job"]["epoch"].as_u64()).unwrap_or(0)
    }

    /// Tells whether a run is done.
    pub(super) fn is_done(&self, run: &str) -> bool {
        self.record_of(run).is_some_and(|record| record["job"]["state"] == "done")
    }

    /// Returns the jobs, with the word for how each stands as far as that is known.
    pub(super) fn standing(&self) -> BTreeMap<String, String> {
        let state = |job: &String| {
            let record = self.last(job)?;
            Some((job.clone(), record["job"]["state"].as_str()?.to_owned()))
        };
        self.last.keys().filter_map(state).collect()
    }

    /// Looks whether all this could have been so: `found` is what the servers have in the end, with
    /// its revision.
    pub(super) fn judge(&self, found: &BTreeMap<String, (u64, Value)>) -> Result<Judged, String> {
        let mut by_job: BTreeMap<&str, Vec<&RecordedWrite>> = BTreeMap::new();
        for write in &self.writes {
            by_job.entry(&write.job).or_default().push(write);
        }
        let mut judged = Judged { jobs: by_job.len(), ..Judged::default() };
        for write in &self.writes {
            match write.outcome {
                Outcome::Kept(_) => judged.kept += 1,
                Outcome::Refused => judged.refused += 1,
                Outcome::Unheard => judged.unheard += 1,
            }
        }
        for (job, writes) in by_job {
            let (takeovers, fenced) =
                judge_job(&writes, found.get(job)).map_err(|what| format!("job {job}: {what}"))?;
            judged.takeovers += takeovers;
            judged.fenced += fenced;
        }
        Ok(judged)
    }
}

fn step_patches(record: &Value) -> BTreeMap<&str, &str> {
    let files = record["artifacts"].as_object();
    let is_step = |name: &str| name.contains("step-") && name.ends_with(".patch");
    let files = files.into_iter().flatten().filter(|(name, _)| is_step(name));
    files.map(|(name, file)| (name.as_str(), file["digest"].as_str().unwrap_or_default())).collect()
}

/// Looks at all writes of one job; returns how often it was taken over, and how many writes of those
/// who had lost it were refused.
fn judge_job(
    writes: &[&RecordedWrite],
    found: Option<&(u64, Value)>,
) -> Result<(usize, usize), String> {
    let mut kept: Vec<(u64, &RecordedWrite)> = Vec::new();
    for write in writes {
        if let Outcome::Kept(revision) = write.outcome {
            kept.push((revision, write));
        }
    }
    kept.sort_by_key(|(revision, _)| *revision);
    for pair in kept.windows(2) {
        let [(first, before), (second, after)] = pair else { continue };
        if first == second {
            return Err(format!("two writes are revision {first}"));
        }
        if after.expected < *first {
            return Err(format!(
                "revision {second} replaced {}, though {first} was kept",
                after.expected
            ));
        }
        if after.epoch() < before.epoch() {
            return Err(format!("revision {second} is of an older claim than {first}"));
        }
        let (had, has) = (step_patches(&before.record), step_patches(&after.record));
        if let Some(name) = had.iter().find(|(name, digest)| has.get(*name) != Some(digest)) {
            return Err(format!("revision {second} lost or changed {name:?}"));
        }
    }
    let last = kept.last().map_or(0, |(revision, _)| *revision);
    let Some((revision, record)) = found else {
        return if last == 0 { Ok((0, 0)) } else { Err("it is gone".to_owned()) };
    };
    if *revision < last {
        return Err(format!("revision {last} was kept, and there is {revision} only"));
    }
    if let Some((_, write)) = kept.last() {
        let (had, has) = (step_patches(&write.record), step_patches(record));
        if had.iter().any(|(name, digest)| has.get(name) != Some(digest)) {
            return Err("a step that was committed is not there any more".to_owned());
        }
    }
    fences(writes, &kept)
}

/// Looks whether only those wrote under a claim whose claim it was.
fn fences(
    writes: &[&RecordedWrite],
    kept: &[(u64, &RecordedWrite)],
) -> Result<(usize, usize), String> {
    // A claim whose answer nobody heard may be the one that counts. Who claimed it is told apart by
    // machine: what a killed worker ran ends a moment after it, and writes under its claim until then.
    let mut claimants: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    let mut highest = BTreeMap::new();
    for write in writes {
        let seen = highest.entry(write.by).or_insert(0);
        if write.state() == "claimed" && write.epoch() > *seen {
            *seen = write.epoch();
            if write.outcome != Outcome::Refused {
                claimants.entry(write.epoch()).or_default().insert(write.by.0);
            }
        }
    }
    let mut owners: BTreeMap<u64, usize> = BTreeMap::new();
    for (revision, write) in kept {
        let is_persons = write.by.0 == 0;
        if write.epoch() == 0 || is_persons {
            continue;
        }
        let is_claimant =
            claimants.get(&write.epoch()).is_some_and(|known| known.contains(&write.by.0));
        let owner = *owners.entry(write.epoch()).or_insert(write.by.0);
        // Whoever finds that a job lost too many workers ends it without a claim of its own.
        if write.state() != "dead" && (!is_claimant || owner != write.by.0) {
            return Err(format!(
                "revision {revision} is by {:?}, and claim {} is machine {owner}'s",
                write.by,
                write.epoch()
            ));
        }
    }
    let epochs: BTreeSet<u64> = kept.iter().map(|(_, write)| write.epoch()).collect();
    let takeovers = epochs.iter().filter(|epoch| **epoch > 1).count();
    let newest = epochs.last().copied().unwrap_or(0);
    let is_fenced = |write: &&&RecordedWrite| {
        write.outcome == Outcome::Refused && write.epoch() > 0 && write.epoch() < newest
    };
    Ok((takeovers, writes.iter().filter(is_fenced).count()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(epoch: u64, state: &str, patch: &str) -> Value {
        let files = if patch.is_empty() {
            json!({})
        } else {
            json!({ "step-0000.patch": { "digest": patch, "size": 1 } })
        };
        json!({ "job": { "epoch": epoch, "state": state }, "artifacts": files })
    }

    fn written(
        client: usize,
        expected: u64,
        record: Value,
        outcome: Outcome,
    ) -> (RecordedWrite, Outcome) {
        (RecordedWrite::sent(client, 1, "a".to_owned(), expected, record), outcome)
    }

    fn judged(
        writes: Vec<(RecordedWrite, Outcome)>,
        found: (u64, Value),
    ) -> Result<Judged, String> {
        let mut history = History::default();
        for (write, outcome) in writes {
            let place = history.put_down(write);
            history.heard(place, outcome);
        }
        history.judge(&BTreeMap::from([("a".to_owned(), found)]))
    }

    fn good() -> Vec<(RecordedWrite, Outcome)> {
        use Outcome::{Kept, Refused};
        vec![
            written(0, 0, record(0, "queued", ""), Kept(1)),
            written(1, 1, record(1, "claimed", ""), Kept(2)),
            written(1, 2, record(1, "claimed", "p"), Kept(4)),
            written(2, 4, record(2, "claimed", "p"), Kept(7)),
            written(1, 4, record(1, "done", "p"), Refused),
            written(2, 7, record(2, "done", "p"), Kept(9)),
        ]
    }

    #[test]
    fn a_history_in_which_a_zombie_is_refused_is_a_good_one() {
        let seen = judged(good(), (9, record(2, "done", "p"))).unwrap();
        assert_eq!((seen.kept, seen.refused, seen.takeovers, seen.fenced), (5, 1, 1, 1));
    }

    #[test]
    fn a_history_that_no_fleet_can_have_is_found() {
        use Outcome::{Kept, Unheard};
        type Spoil = fn(&mut Vec<(RecordedWrite, Outcome)>);
        let spoils: [(&str, Spoil); 4] = [
            ("a zombie writes", |all| all[4].1 = Kept(8)),
            ("a step is committed twice", |all| all[5].0.record = record(2, "done", "q")),
            ("a write is replaced unseen", |all| all[5].0.expected = 4),
            ("one claim has two owners", |all| {
                all[3].1 = Unheard;
                all.insert(4, written(3, 4, record(2, "claimed", "p"), Kept(7)));
                all.push(written(2, 9, record(2, "claimed", "p"), Kept(10)));
            }),
        ];
        for (what, spoil) in spoils {
            let mut all = good();
            spoil(&mut all);
            assert!(judged(all, (20, record(2, "done", "p"))).is_err(), "{what}");
        }
        for found in [(8, record(2, "done", "p")), (9, record(2, "done", ""))] {
            assert!(judged(good(), found.clone()).is_err(), "{found:?}");
        }
    }
}
