//! Putting two memories of one failure together.

use super::{Knowledge, Record, RemedyTrial, TriedRemedy};

/// Takes what `other` knows into `known`; both are about the same failure.
///
/// Taking the same knowledge in twice changes nothing the second time: outcomes that are already
/// there are not added again, and counts never fall.
pub fn merge(known: &mut Knowledge, other: &Knowledge) {
    known.first_seen = known.first_seen.min(other.first_seen);
    known.last_seen = known.last_seen.max(other.last_seen);
    known.seen = known.seen.max(other.seen);
    for tried in &other.remedies {
        match known.remedies.iter_mut().find(|known| known.remedy == tried.remedy) {
            None => known.remedies.push(tried.clone()),
            Some(known) => merge_tried(known, tried),
        }
    }
}

fn merge_tried(known: &mut TriedRemedy, other: &TriedRemedy) {
    let older = |tried: &TriedRemedy| !all_kept(tried);
    // Where one side has counted more than it kept, what is missing cannot be told apart: then the
    // side that has seen more speaks for both.
    if older(known) || older(other) {
        if other.record.tries() > known.record.tries() {
            known.record = other.record;
            known.outcomes.clone_from(&other.outcomes);
        }
    } else {
        let fresh = other.outcomes.iter().filter(|outcome| !known.outcomes.contains(outcome));
        let fresh: Vec<RemedyTrial> = fresh.cloned().collect();
        known.outcomes.extend(fresh);
        known.outcomes.sort_by_key(|outcome| outcome.at);
        known.record = Record::of(&known.outcomes);
        let over = known.outcomes.len().saturating_sub(TriedRemedy::KEPT);
        known.outcomes.drain(..over);
    }
    if other.since < known.since {
        known.since = other.since;
        known.by = other.by.clone();
    }
}

/// Returns whether the outcomes kept are all there ever were.
fn all_kept(tried: &TriedRemedy) -> bool {
    tried.record.tries() == tried.outcomes.len() as u64
}
