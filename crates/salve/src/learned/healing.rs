//! `healing-patterns.json`: how typed remedies with records become the spec's shape and return.
//!
//! A remedy that was tried is one of `fixes_attempted`: a command is its own description, other
//! kinds say what they are. `successful_fix` is the best of those that work, or else one that was
//! taught and not yet tried; such a one is not among the attempts. Read back, an attempt that is
//! new is one outcome on the file's word, and a `successful_fix` that was never attempted is taught.

use salve_core::class::Class;
use salve_core::event::Proof;
use salve_core::fingerprint::{Hints, sign};
use salve_core::id::Signature;
use salve_core::memory::{
    Knowledge, KnowledgeChange, KnowledgeEdit, Ranked, RecordStanding, RemedyTrial,
    RememberedFailure, RememberedRemedy, TriedRemedy, rank,
};
use salve_core::scrub::Scrubbed;

use super::Learned;
use super::items::{FixAttempt, FixResult, HealingPattern, When};
use crate::process::is_tracked;

/// Writes what is known about a failure in the spec's shape.
pub(super) fn to_pattern(known: &Knowledge) -> HealingPattern {
    // As of when it was last seen, so that the file does not change by itself.
    let choice = rank(Some(known), None, known.last_seen);
    let best = |standing| choice.remedies.iter().find(move |ranked| ranked.standing == standing);
    let best: Option<&Ranked> =
        best(RecordStanding::Works).or_else(|| best(RecordStanding::Untried));
    let attempts = known.remedies.iter().filter_map(|tried| {
        let result = match tried.record.standing() {
            RecordStanding::Untried => return None,
            RecordStanding::Works => FixResult::Success,
            RecordStanding::Undecided => FixResult::Inconclusive,
            RecordStanding::Failed => FixResult::Failed,
        };
        Some(FixAttempt { description: tried.remedy.description(), result })
    });
    HealingPattern {
        error_signature: known.failure.signature.to_string(),
        error_type: known.failure.class.to_string(),
        normalized_error: known.failure.normalized.to_string(),
        fixes_attempted: attempts.collect(),
        successful_fix: best.map(|ranked| ranked.remedy.description()),
        first_seen: When(known.first_seen),
        last_seen: When(known.last_seen),
    }
}

impl Learned<'_> {
    /// Returns the signature a pattern is about.
    ///
    /// Other tools number their patterns as they like; then the failure's own text decides.
    pub(super) fn signature_of(&self, pattern: &HealingPattern) -> Signature {
        let text = &pattern.normalized_error;
        let found = self.rules.fingerprint(text, &Hints::default());
        match pattern.error_signature.parse() {
            // Whoever wrote it had no row for what is known by one here. What memory still knows
            // by the old signature is re-keyed by its own line, which says more than this text.
            Ok(given)
                if found.identity.is_some()
                    && sign(text) == given
                    && !is_identity(text)
                    && !self.is_known(given) =>
            {
                found.signature
            }
            Ok(given) => given,
            Err(_) => found.signature,
        }
    }

    fn is_known(&self, signature: Signature) -> bool {
        self.store.memory().recall(signature).is_ok_and(|known| known.is_some())
    }

    /// Returns on whose word the file's patterns are known.
    pub(super) fn file_word(&self) -> Scrubbed {
        let file = self.store.project().learned().join(TriedRemedy::BY_FILE);
        Scrubbed::literal(if is_tracked(&file) {
            TriedRemedy::BY_REPOSITORY
        } else {
            TriedRemedy::BY_FILE
        })
    }

    /// Returns what changed in one pattern, on the word of the file.
    pub(super) fn pattern_edit(
        &self,
        old: Option<&HealingPattern>,
        new: &HealingPattern,
        by: &Scrubbed,
    ) -> KnowledgeEdit {
        let at = new.last_seen.0;
        let mut changes = Vec::new();
        if old.is_none_or(|old| old.first_seen != new.first_seen) {
            changes.push(KnowledgeChange::FirstSeen(new.first_seen.0));
        }
        if old.is_none_or(|old| old.last_seen != new.last_seen) {
            changes.push(KnowledgeChange::LastSeen(at));
        }
        let gone = old.iter().flat_map(|old| descriptions(old));
        let gone = gone.filter(|was| !descriptions(new).any(|kept| kept == *was));
        changes.extend(gone.map(|was| KnowledgeChange::Dropped(self.remedy(was))));
        let was = old.map_or(&[][..], |old| &old.fixes_attempted);
        for attempt in new.fixes_attempted.iter().filter(|attempt| !was.contains(attempt)) {
            let outcome = RemedyTrial {
                at,
                by: by.clone(),
                incident: None,
                project: Scrubbed::default(),
                proof: match attempt.result {
                    FixResult::Success => Proof::Proven,
                    FixResult::Failed => Proof::Failed,
                    FixResult::Inconclusive => Proof::Transient,
                },
            };
            let remedy = self.remedy(&attempt.description);
            changes.push(KnowledgeChange::Learned { remedy, outcome });
        }
        if let Some(fix) = &new.successful_fix {
            let (remedy, by) = (self.remedy(fix), by.clone());
            changes.push(KnowledgeChange::Taught { remedy, at, by });
        }
        let failure = self.failure_of(self.signature_of(new), new);
        KnowledgeEdit { failure, at, changes }
    }

    fn remedy(&self, description: &str) -> RememberedRemedy {
        let (kind, text) = RememberedRemedy::describes(description);
        RememberedRemedy { kind, text: self.scrubber.scrub(text) }
    }

    fn failure_of(&self, signature: Signature, pattern: &HealingPattern) -> RememberedFailure {
        let text = &pattern.normalized_error;
        let found = self.rules.fingerprint(text, &Hints::default());
        if found.signature == signature {
            return RememberedFailure::new(&found, self.scrubber);
        }
        let class = pattern.error_type.parse().unwrap_or(Class::Unknown);
        let named = sign(text) == signature && is_identity(text);
        RememberedFailure {
            signature,
            class,
            error_type: self.scrubber.scrub(&pattern.error_type),
            normalized: self.scrubber.scrub(text),
            identity: named.then(|| self.scrubber.scrub(text)),
            key_line: Scrubbed::default(),
        }
    }
}

/// Returns all remedies a pattern speaks of.
fn descriptions(pattern: &HealingPattern) -> impl Iterator<Item = &str> {
    let attempts = pattern.fixes_attempted.iter().map(|attempt| attempt.description.as_str());
    attempts.chain(pattern.successful_fix.as_deref())
}

/// Returns whether a normalised text is an anchor's identity, as in `port.in_use("3000")`.
fn is_identity(text: &str) -> bool {
    let name = text.split('(').next().unwrap_or_default();
    name.contains('.')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._".contains(&b))
}
