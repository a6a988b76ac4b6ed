//! Memory outlives its tables: what is known moves along when a failure gets another signature.
//!
//! A new row in the fingerprint tables gives another identity to what was unknown before, or was
//! known by another row. The line that named the failure tells which.

use std::collections::BTreeMap;

use super::{Knowledge, Record, RemedyTrial, RememberedFailure, TriedRemedy};
use crate::fingerprint::{FingerprintRules, Hints};
use crate::id::Signature;
use crate::scrub::Scrubber;

/// A failure that has another signature by the tables in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rekeying {
    /// The signature by which it was known.
    pub from: Signature,
    /// The failure as it is known now.
    pub to: RememberedFailure,
}

/// Returns the failure as these rules know it, if they know it by another signature.
///
/// `key_line` is the line that named it. Where the failure was told by its place too, the place is
/// in what was hashed, and goes in again as a frame.
pub fn rekeyed(
    failure: &RememberedFailure,
    key_line: &str,
    rules: &FingerprintRules,
    scrubber: &Scrubber,
) -> Option<RememberedFailure> {
    let unnamed = failure.identity.is_none();
    let text = match failure.normalized.as_str().rsplit_once(" in ") {
        Some((_, place)) if unnamed && place.contains('@') => {
            let (function, file) = place.split_once('@').unwrap_or_default();
            format!("{key_line}\n    at {function} ({file}:1:1)")
        }
        Some(_) | None => key_line.to_owned(),
    };
    let found = rules.fingerprint(&text, &Hints::default());
    if found.signature == failure.signature {
        return None;
    }
    match (&failure.identity, &found.identity) {
        // How an unknown failure is normalised does not depend on the tables: the line alone only
        // says less than the whole output did.
        (None, None) => None,
        // The same row with a place that the line alone does not show.
        (Some(old), Some(new)) if is_part_of(new, old.as_str()) => None,
        // A row that asks for words elsewhere says nothing about the line alone.
        (Some(old), _) if rules.row_names_line(row_of(old.as_str()), key_line) == Some(false) => {
            None
        }
        (Some(_), None) | (None | Some(_), Some(_)) => Some(RememberedFailure {
            key_line: failure.key_line.clone(),
            ..RememberedFailure::new(&found, scrubber)
        }),
    }
}

/// Returns the row of an identity such as `port.in_use("3000")`.
fn row_of(identity: &str) -> &str {
    identity.split('(').next().unwrap_or_default()
}

/// Returns whether an identity is another one's beginning: the same row, and fewer values.
fn is_part_of(part: &str, whole: &str) -> bool {
    match part.strip_suffix(')') {
        Some(values) => whole.starts_with(values),
        None => whole.split('(').next() == Some(part),
    }
}

/// Takes what was known of the same failure under another signature into `known`.
///
/// Unlike [`merge`](super::merge()), which puts two copies of one history together, this adds two
/// histories up.
pub fn join(known: &mut Knowledge, other: &Knowledge) {
    known.first_seen = known.first_seen.min(other.first_seen);
    known.last_seen = known.last_seen.max(other.last_seen);
    known.seen = known.seen.saturating_add(other.seen);
    for tried in &other.remedies {
        match known.remedies.iter_mut().find(|known| known.remedy == tried.remedy) {
            None => known.remedies.push(tried.clone()),
            Some(known) => join_tried(known, tried),
        }
    }
}

fn join_tried(known: &mut TriedRemedy, other: &TriedRemedy) {
    known.record = join_records(&known.record, &other.record);
    let fresh = other.outcomes.iter().filter(|outcome| !known.outcomes.contains(outcome));
    let fresh: Vec<RemedyTrial> = fresh.cloned().collect();
    known.outcomes.extend(fresh);
    known.outcomes.sort_by_key(|outcome| outcome.at);
    let over = known.outcomes.len().saturating_sub(TriedRemedy::KEPT);
    known.outcomes.drain(..over);
    if other.since < known.since {
        known.since = other.since;
        known.by = other.by.clone();
    }
}

fn join_records(one: &Record, other: &Record) -> Record {
    // What failed before the other side's last heal is made up for by it; what failed after, or at
    // a time that nobody can tell, is not.
    let healed = one.healed.max(other.healed);
    let losing = |record: &Record| {
        let is_before = record.last.zip(healed).is_some_and(|(last, healed)| last < healed);
        if is_before { 0 } else { record.losing }
    };
    Record {
        proven: one.proven.saturating_add(other.proven),
        transient: one.transient.saturating_add(other.transient),
        flaky: one.flaky.saturating_add(other.flaky),
        masked: one.masked.saturating_add(other.masked),
        failed: one.failed.saturating_add(other.failed),
        losing: losing(one).saturating_add(losing(other)),
        last: one.last.max(other.last),
        healed,
    }
}

/// Which signature a failure has by now that was known by another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignatureAliases(BTreeMap<Signature, Signature>);

impl SignatureAliases {
    /// Takes in that what was known as `from` is known as `to` from now on.
    pub fn add(&mut self, from: Signature, to: Signature) {
        self.0.values_mut().filter(|now| **now == from).for_each(|now| *now = to);
        self.0.insert(from, to);
        // Tables may come back: then the failure has its first signature again.
        self.0.remove(&to);
    }

    /// Returns the signature in force.
    pub fn resolve(&self, signature: Signature) -> Signature {
        self.0.get(&signature).copied().unwrap_or(signature)
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::event::Proof;
    use crate::fingerprint::{AnchorRow, Rows};
    use crate::memory::{RecordStanding, RememberedKind, RememberedRemedy};
    use crate::scrub::{ScrubKey, Scrubbed};

    fn rules(shape: &str) -> FingerprintRules {
        let row = serde_json::json!({
            "id": "shop.stock", "class": "network", "error_type": "Stock", "shapes": [shape],
        });
        let row: AnchorRow = serde_json::from_value(row).unwrap();
        FingerprintRules::with_user(&Rows { anchors: vec![row], classes: Vec::new() }).unwrap()
    }

    fn scrubber() -> Scrubber {
        Scrubber::new(ScrubKey::new([0; 32]))
    }

    fn failure(rules: &FingerprintRules, text: &str) -> RememberedFailure {
        RememberedFailure::new(&rules.fingerprint(text, &Hints::default()), &scrubber())
    }

    #[test]
    fn what_a_new_row_knows_gets_the_signature_that_its_output_has_now() {
        let new = rules("stock service {name} does not answer");
        let output = "12:01 GET /cart 502\nerror: stock service eu-1 does not answer\n";
        let old = failure(FingerprintRules::built_in(), output);
        assert_eq!(old.identity, None);
        let now = rekeyed(&old, old.key_line.as_str(), &new, &scrubber()).unwrap();
        assert_eq!(now.signature, failure(&new, output).signature);
        assert_eq!(rekeyed(&now, now.key_line.as_str(), &new, &scrubber()), None);
        let back = rekeyed(&now, now.key_line.as_str(), FingerprintRules::built_in(), &scrubber())
            .unwrap();
        assert_eq!(back.signature, old.signature, "and back where the row is gone");
    }

    #[test]
    fn what_the_tables_have_no_other_word_for_keeps_its_signature() {
        let new = rules("stock service {name} does not answer");
        for output in [
            "error: the cart is not a list of things",
            "Error: listen EADDRINUSE: address already in use :::3000",
            "TypeError: Cannot read properties of undefined (reading 'map')\n    at list (/a/b.js:3:4)",
        ] {
            let old = failure(FingerprintRules::built_in(), output);
            assert_eq!(rekeyed(&old, old.key_line.as_str(), &new, &scrubber()), None, "{output}");
        }
    }

    #[test]
    fn two_histories_add_up_and_a_failed_approach_stays_failed() {
        let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let remedy = |text| RememberedRemedy {
            kind: RememberedKind::Command,
            text: Scrubbed::literal(text),
        };
        let outcome = |proof, seconds| RemedyTrial {
            at: at(seconds),
            by: Scrubbed::literal("salve"),
            incident: None,
            project: Scrubbed::default(),
            proof,
        };
        let base = failure(FingerprintRules::built_in(), "error: a b c d");
        let mut one = Knowledge::new(base.clone(), at(1));
        one.learn(remedy("a"), outcome(Proof::Proven, 10));
        one.learn(remedy("b"), outcome(Proof::Failed, 11));
        let mut other = Knowledge::new(base, at(5));
        other.learn(remedy("a"), outcome(Proof::Failed, 20));
        other.learn(remedy("b"), outcome(Proof::Failed, 21));
        other.learn(remedy("c"), outcome(Proof::Proven, 22));
        join(&mut one, &other);
        assert_eq!((one.seen, one.first_seen, one.last_seen), (2, at(1), at(5)));
        let standing = |text| one.find(&remedy(text)).unwrap().record.standing();
        assert_eq!(standing("b"), RecordStanding::Failed);
        assert_eq!(standing("c"), RecordStanding::Works);
        let a = one.find(&remedy("a")).unwrap();
        assert_eq!((a.record.proven, a.record.failed, a.record.losing), (1, 1, 1));
        assert_eq!(a.record, Record::of(&a.outcomes), "as if it had been one all the time");
    }

    #[test]
    fn aliases_lead_to_the_signature_in_force_also_when_tables_come_back() {
        let [a, b, c] = [1, 2, 3].map(Signature);
        let mut aliases = SignatureAliases::default();
        aliases.add(a, b);
        aliases.add(b, c);
        assert_eq!([a, b, c].map(|one| aliases.resolve(one)), [c; 3]);
        aliases.add(c, a);
        assert_eq!([a, b, c].map(|one| aliases.resolve(one)), [a; 3]);
    }
}
