//! How those who share a queue deal with it over a network: what becomes of a write of which nothing
//! was heard, of a wake-up, of a claim that has to be prolonged, and of what a killed process left
//! undone.
//!
//! Everything here is decided from what was heard alone. Whoever asks servers for it acts, and the
//! simulator of fleets ([`crate::job::sim`], with the feature `sim`) walks the same code.

use super::{ClaimGrant, QueueState, QueuedJob, SentWrite, UnheardWrite, judge_unheard};

/// How often a write of which nothing was heard is sent.
const MOST_SENDS: u32 = 6;

/// How many times a lease is prolonged before it would run out.
const PROLONGED: u64 = 3;

/// What was heard of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAnswer {
    /// It is kept.
    Kept,
    /// What it was to replace is of another revision.
    Refused,
    /// Nothing.
    Nothing,
}

/// What a look at the record found, after nothing was heard of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteLook {
    /// A record, by whoever wrote it.
    Found(SentWrite),
    /// No record at all.
    Missing,
    /// It could not be looked at.
    Unknown,
}

/// What to do next about a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteNext {
    /// Nothing: it counts.
    Counts,
    /// Nothing: somebody else wrote first.
    Lost,
    /// See what is there now, a little later than the last time.
    Look,
    /// Send the very same again.
    Send,
    /// Nothing: it was tried often enough, and may count or not.
    Unknown,
}

/// A write of a record at a revision, until it is known what became of it.
///
/// **Invariant:** it is taken for written only if it was, and however often it is sent it counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordWrite {
    sent: SentWrite,
    sends: u32,
}

impl RecordWrite {
    /// Begins with a write that is about to be sent for the first time.
    pub fn new(sent: SentWrite) -> Self {
        Self { sent, sends: 1 }
    }

    /// Returns how often it was sent.
    pub fn sends(&self) -> u32 {
        self.sends
    }

    /// Takes in what was heard.
    pub fn on_answer(&self, answer: WriteAnswer) -> WriteNext {
        match answer {
            WriteAnswer::Kept => WriteNext::Counts,
            // Of one that was sent twice, the first may be what refuses the second.
            WriteAnswer::Refused if self.sends == 1 => WriteNext::Lost,
            WriteAnswer::Refused | WriteAnswer::Nothing => WriteNext::Look,
        }
    }

    /// Takes in what a look found.
    pub fn on_look(&mut self, look: WriteLook) -> WriteNext {
        let judged = match look {
            WriteLook::Found(found) => judge_unheard(&self.sent, &found),
            WriteLook::Missing if self.sent.revision == 0 => UnheardWrite::Open,
            WriteLook::Missing => UnheardWrite::Lost,
            WriteLook::Unknown => UnheardWrite::Open,
        };
        match judged {
            UnheardWrite::Written => WriteNext::Counts,
            UnheardWrite::Lost => WriteNext::Lost,
            UnheardWrite::Open if self.sends == MOST_SENDS => WriteNext::Unknown,
            UnheardWrite::Open => {
                self.sends += 1;
                WriteNext::Send
            }
        }
    }
}

/// What becomes of a wake-up once it is known what came of the claim that it led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeUpEnd {
    /// It comes again, to anybody, after so many milliseconds.
    Again(u64),
    /// Nobody need be woken any more.
    Settled,
}

impl ClaimGrant {
    /// Returns what becomes of the wake-up that led to a claim, which counts now or came too late.
    pub fn wake_up_end(self, is_written: bool, lease_ms: u64) -> WakeUpEnd {
        match self {
            // Whoever was faster had no wake-up, or an older one.
            Self::Granted(_) | Self::Dead if !is_written => WakeUpEnd::Again(0),
            // Whoever is woken then takes it over, or finds that it was prolonged.
            Self::Granted(_) => WakeUpEnd::Again(lease_ms),
            Self::Dead => WakeUpEnd::Settled,
        }
    }
}

/// What has to follow from how a job stands, which whoever wrote it does or leaves undone when it
/// is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobTrace {
    /// Somebody is woken for it sooner or later.
    WakeUp,
    /// It is among the dead letters.
    DeadLetter,
    /// Nothing.
    None,
}

impl QueuedJob {
    /// Returns what has to follow from how the job stands.
    pub fn trace(&self) -> JobTrace {
        if self.needs_waking() {
            JobTrace::WakeUp
        } else if self.state == QueueState::Dead {
            JobTrace::DeadLetter
        } else {
            JobTrace::None
        }
    }

    /// Tells whether what has to follow is not there, as far as this was seen.
    pub fn lacks_its_trace(&self, has_wake_up: bool, has_letter: bool) -> bool {
        match self.trace() {
            JobTrace::WakeUp => !has_wake_up,
            JobTrace::DeadLetter => !has_letter,
            JobTrace::None => false,
        }
    }
}

/// What was heard when a claim was to be prolonged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProlongAnswer {
    /// It counts for another lease.
    Held,
    /// It counts no longer.
    Fenced,
    /// Nothing, or nothing that helps.
    Nothing,
}

/// What a worker does about a claim of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimCare {
    /// It works on.
    Keep,
    /// It works on, and the claim counts from when the question was asked.
    Renew,
    /// It ends the work: somebody else has the job.
    Fenced,
    /// It ends the work: nobody knows whether somebody else has the job.
    Expired,
}

/// Tells whether a claim that was last known to count so long ago is to be prolonged.
pub fn is_to_be_prolonged(since_ms: u64, lease_ms: u64) -> bool {
    since_ms >= lease_ms / PROLONGED
}

/// Returns what a worker does about a claim that was last known to count so long ago, by its own
/// steady clock.
pub fn care_for_claim(answer: ProlongAnswer, since_ms: u64, lease_ms: u64) -> ClaimCare {
    match answer {
        ProlongAnswer::Held => ClaimCare::Renew,
        ProlongAnswer::Fenced => ClaimCare::Fenced,
        ProlongAnswer::Nothing if since_ms < lease_ms => ClaimCare::Keep,
        ProlongAnswer::Nothing => ClaimCare::Expired,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::id::JobId;
    use crate::job::{ClaimEnd, RetryTerms};
    use crate::scrub::Scrubbed;

    fn write(mark: u128, revision: u64) -> SentWrite {
        SentWrite { mark: Uuid::from_u128(mark), revision }
    }

    /// Walks every sequence of answers and looks to its end.
    fn every_end(of: RecordWrite, seen: &mut Vec<(WriteNext, u32)>) {
        let looks = [
            WriteLook::Found(write(7, 4)),
            WriteLook::Found(write(1, 3)),
            WriteLook::Found(write(2, 9)),
            WriteLook::Missing,
            WriteLook::Unknown,
        ];
        for answer in [WriteAnswer::Kept, WriteAnswer::Refused, WriteAnswer::Nothing] {
            match of.on_answer(answer) {
                WriteNext::Look => {
                    for look in looks {
                        let mut of = of;
                        match of.on_look(look) {
                            WriteNext::Send => every_end(of, seen),
                            next => seen.push((next, of.sends())),
                        }
                    }
                }
                next => seen.push((next, of.sends())),
            }
        }
    }

    #[test]
    fn every_write_comes_to_an_end_after_a_few_sends() {
        let mut seen = Vec::new();
        every_end(RecordWrite::new(write(7, 3)), &mut seen);
        assert!(seen.iter().all(|(_, sends)| *sends <= MOST_SENDS));
        for end in [WriteNext::Counts, WriteNext::Lost, WriteNext::Unknown] {
            assert!(seen.iter().any(|(next, _)| *next == end), "{end:?}");
        }
        let unknown = seen.iter().filter(|(next, _)| *next == WriteNext::Unknown);
        assert!(unknown.into_iter().all(|(_, sends)| *sends == MOST_SENDS));
    }

    /// **Invariant:** A write that was refused once it was sent twice is not taken for lost unheard.
    #[test]
    fn a_write_that_was_sent_twice_may_be_what_refuses_itself() {
        let mut of = RecordWrite::new(write(7, 3));
        assert_eq!(of.on_answer(WriteAnswer::Refused), WriteNext::Lost);
        assert_eq!(of.on_answer(WriteAnswer::Nothing), WriteNext::Look);
        assert_eq!(of.on_look(WriteLook::Found(write(1, 3))), WriteNext::Send);
        assert_eq!(of.on_answer(WriteAnswer::Refused), WriteNext::Look);
        assert_eq!(of.on_look(WriteLook::Found(write(7, 4))), WriteNext::Counts);
        // The first write of all replaces nothing, so finding nothing says nothing.
        let mut first = RecordWrite::new(write(7, 0));
        assert_eq!(first.on_look(WriteLook::Missing), WriteNext::Send);
        let mut later = RecordWrite::new(write(7, 3));
        assert_eq!(later.on_look(WriteLook::Missing), WriteNext::Lost);
    }

    #[test]
    fn a_wake_up_outlives_every_claim_but_the_last() {
        use WakeUpEnd::{Again, Settled};
        let granted = ClaimGrant::Granted(3);
        assert_eq!(granted.wake_up_end(true, 30), Again(30));
        assert_eq!(ClaimGrant::Dead.wake_up_end(true, 30), Settled);
        for grant in [granted, ClaimGrant::Dead] {
            assert_eq!(grant.wake_up_end(false, 30), Again(0), "{grant:?}");
        }
    }

    #[test]
    fn what_a_killed_process_left_undone_is_told_from_the_record_alone() {
        let why = || Scrubbed::literal("no luck");
        let terms = RetryTerms { max_tries: 3, max_losses: 2, backoff_ms: 100 };
        let mut of = QueuedJob::submitted(JobId(Uuid::nil()), String::new(), terms, 0);
        assert!(of.lacks_its_trace(false, true) && !of.lacks_its_trace(true, false));
        of.claim(why(), 10, 0);
        assert_eq!(of.trace(), JobTrace::WakeUp, "its worker may die");
        let ends = [
            (ClaimEnd::Back, JobTrace::WakeUp),
            (ClaimEnd::Dead(why()), JobTrace::DeadLetter),
            (ClaimEnd::Done, JobTrace::None),
            (ClaimEnd::Waiting(why()), JobTrace::None),
        ];
        for (end, trace) in ends {
            let mut of = of.clone();
            of.finish(end, 5);
            assert_eq!(of.trace(), trace, "{of:?}");
            assert_eq!(of.lacks_its_trace(true, false), trace == JobTrace::DeadLetter);
            assert!(!of.lacks_its_trace(true, true));
        }
    }

    #[test]
    fn a_claim_is_prolonged_in_time_and_given_up_when_nobody_knows_any_more() {
        assert!(!is_to_be_prolonged(9, 30) && is_to_be_prolonged(10, 30));
        for (answer, since, care) in [
            (ProlongAnswer::Held, 29, ClaimCare::Renew),
            (ProlongAnswer::Fenced, 10, ClaimCare::Fenced),
            (ProlongAnswer::Nothing, 29, ClaimCare::Keep),
            (ProlongAnswer::Nothing, 30, ClaimCare::Expired),
        ] {
            assert_eq!(care_for_claim(answer, since, 30), care, "{answer:?} after {since}");
        }
    }
}
