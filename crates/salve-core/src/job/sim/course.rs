//! What the processes of a simulated fleet do with what they hear: the code that decides is the one
//! that a worker runs.

use super::FleetSimFault;
use super::judge::Verdict;
use super::server::{KeptRecord, SimRecord, SimWakeUp, WriteIntent, Writer};
use super::worker::{Ask, Change, Doing, HeldJob, Lane, PendingWrite, Said, WritePurpose};
use super::world::{FleetWorld, LEASE, LEASE_MS, PAUSE_MS, REST_MS};
use crate::id::JobId;
use crate::job::{
    ClaimCare, ClaimEnd, ClaimGrant, JobTrace, ProlongAnswer, QueuedJob, RetryTerms, SentWrite,
    WakeUpEnd, WriteAnswer, WriteLook, WriteNext, care_for_claim,
};
use crate::scrub::Scrubbed;
use uuid::Uuid;

/// How often a job is tried.
const TERMS: RetryTerms = RetryTerms { max_tries: 4, max_losses: 8, backoff_ms: 200 };

impl FleetWorld {
    /// Makes a change in the record that was read, if its claim still counts.
    pub(super) fn make(
        &mut self,
        client: usize,
        lane: Lane,
        change: Change,
        found: Option<Box<KeptRecord>>,
    ) -> Verdict {
        let Some(job) = self.clients[client].job_of(&change) else { return Ok(()) };
        let now = self.clients[client].believed(self.line.now);
        let Some(mut found) = found_or_new(&change, job, found, now) else {
            return self.turned_down(client, lane, change);
        };
        let epoch = self.clients[client].held.as_ref().map(|held| held.epoch);
        let mut intent =
            WriteIntent { job, by: self.clients[client].me, is_claim: false, epoch, step: None };
        let counts = |of: &QueuedJob| epoch.is_some_and(|epoch| of.is_held_by(epoch));
        let is_blind = self.fault == Some(FleetSimFault::IgnoresEpochs);
        let SimRecord { job: of, steps } = &mut found.record;
        let is_wanted = match &change {
            Change::Submit(_) => found.write.revision == 0,
            Change::Requeue(_) => {
                intent.epoch = None;
                of.requeue(now)
            }
            Change::Prolong { .. } | Change::Commit { .. } | Change::Finish(_)
                if !counts(of) && !is_blind =>
            {
                self.summary.fenced += 1;
                false
            }
            Change::Prolong { .. } => {
                of.extend_lease(LEASE, now);
                true
            }
            Change::Commit { step, content } => {
                intent.step = Some((*step, *content));
                // As an artifact is kept under its name, whatever was there.
                steps.truncate(steps.len().max(step + 1));
                match steps.get_mut(*step) {
                    Some(kept) => *kept = *content,
                    None => steps.push(*content),
                }
                true
            }
            Change::Finish(end) => {
                of.finish(end.clone(), now);
                true
            }
        };
        if !is_wanted {
            return self.turned_down(client, lane, change);
        }
        let of = self.new_write(found, intent, WritePurpose::Change(change));
        self.ask(client, lane, Ask::Write(of.clone()), Doing::Writing(of));
        Ok(())
    }

    /// Takes in that a change is not to be made.
    fn turned_down(&mut self, client: usize, lane: Lane, change: Change) -> Verdict {
        match change {
            // It is there already.
            Change::Submit(job) => self.was_submitted(client, job),
            Change::Requeue(_) => self.rest(client),
            Change::Prolong { asked_at } => {
                self.care(client, ProlongAnswer::Fenced, asked_at);
            }
            Change::Commit { .. } => self.clients[client].interrupt(lane),
            Change::Finish(_) => self.let_go(client, Some(WakeUpEnd::Again(0))),
        }
        Ok(())
    }

    /// Takes in that nobody knows whether a change was made, or could be.
    pub(super) fn unknown(&mut self, client: usize, change: Change) {
        match change {
            Change::Submit(_) | Change::Requeue(_) => self.rest(client),
            Change::Prolong { asked_at } => self.care(client, ProlongAnswer::Nothing, asked_at),
            // The step fails, as far as the process knows.
            Change::Commit { .. } => self.clients[client].stop_running(ClaimEnd::Back),
            Change::Finish(_) => self.let_go(client, None),
        }
    }

    /// Takes in what was heard of a write.
    pub(super) fn on_answer(
        &mut self,
        client: usize,
        lane: Lane,
        of: Box<PendingWrite>,
        answer: WriteAnswer,
    ) -> Verdict {
        let next = match answer {
            WriteAnswer::Nothing if self.fault == Some(FleetSimFault::TrustsSilence) => {
                WriteNext::Counts
            }
            WriteAnswer::Kept | WriteAnswer::Refused | WriteAnswer::Nothing => {
                of.write.on_answer(answer)
            }
        };
        self.follow(client, lane, of, next)
    }

    /// Takes in what a look at the record found after nothing was heard of a write.
    pub(super) fn on_look(
        &mut self,
        client: usize,
        lane: Lane,
        mut of: Box<PendingWrite>,
        said: Option<Said>,
    ) -> Verdict {
        let look = match said {
            Some(Said::Found(Some(found))) => WriteLook::Found(found.write),
            Some(Said::Found(None)) => WriteLook::Missing,
            Some(Said::Woken(_) | Said::Written(_)) | None => WriteLook::Unknown,
        };
        let next = of.write.on_look(look);
        self.summary.found_written += u64::from(next == WriteNext::Counts);
        self.follow(client, lane, of, next)
    }

    fn follow(
        &mut self,
        client: usize,
        lane: Lane,
        of: Box<PendingWrite>,
        next: WriteNext,
    ) -> Verdict {
        match next {
            WriteNext::Counts => return self.counts(client, *of),
            WriteNext::Send => self.ask(client, lane, Ask::Write(of.clone()), Doing::Writing(of)),
            WriteNext::Look => {
                let pause = PAUSE_MS * i64::from(of.write.sends());
                self.wait(client, lane, pause, Doing::Pausing(of));
            }
            WriteNext::Lost => match of.purpose {
                WritePurpose::Claim { wake_up, grant } => {
                    let end = grant.wake_up_end(false, LEASE);
                    self.end_wake_up(client, wake_up, end);
                    self.rest(client);
                }
                // It is made again in what is there now.
                WritePurpose::Change(change) => self.change(client, lane, change),
            },
            WriteNext::Unknown => match of.purpose {
                // It comes again once the servers have waited long enough.
                WritePurpose::Claim { .. } => self.rest(client),
                WritePurpose::Change(change) => self.unknown(client, change),
            },
        }
        Ok(())
    }

    /// Takes in that a write counts.
    fn counts(&mut self, client: usize, of: PendingWrite) -> Verdict {
        self.judge.on_believed(&of)?;
        let (job, trace, me) = (of.intent.job, of.record.job.trace(), self.clients[client].me);
        match of.purpose {
            WritePurpose::Claim { wake_up, grant } => {
                self.end_wake_up(client, wake_up, grant.wake_up_end(true, LEASE));
                match grant {
                    ClaimGrant::Dead => {
                        self.leave_trace(me, job, trace);
                        self.rest(client);
                    }
                    ClaimGrant::Granted(epoch) => {
                        let (held_at, steps) = (self.line.now, of.record.steps.len());
                        let held = HeldJob { job, epoch, held_at, wake_up, steps, end: None };
                        self.clients[client].held = Some(held);
                        self.begin_step(client);
                        self.rest(client);
                    }
                }
            }
            WritePurpose::Change(Change::Submit(job)) => {
                self.leave_trace(me, job, trace);
                self.was_submitted(client, job);
            }
            WritePurpose::Change(Change::Requeue(_)) => {
                self.leave_trace(me, job, trace);
                self.rest(client);
            }
            WritePurpose::Change(Change::Prolong { asked_at }) => {
                self.care(client, ProlongAnswer::Held, asked_at);
            }
            WritePurpose::Change(Change::Commit { step, .. }) => {
                if let Some(held) = &mut self.clients[client].held {
                    held.steps = step + 1;
                }
                self.begin_step(client);
            }
            WritePurpose::Change(Change::Finish(_)) => {
                self.leave_trace(me, job, trace);
                let is_over = trace != JobTrace::WakeUp;
                self.let_go(client, is_over.then_some(WakeUpEnd::Settled));
            }
        }
        Ok(())
    }

    /// Does what has to follow from how a job stands.
    pub(super) fn leave_trace(&mut self, by: Writer, job: usize, trace: JobTrace) {
        match trace {
            JobTrace::WakeUp => self.tell(by, Ask::Wake(job)),
            JobTrace::DeadLetter => self.tell(by, Ask::Bury(job)),
            JobTrace::None => {}
        }
    }

    fn end_wake_up(&mut self, client: usize, wake_up: SimWakeUp, end: WakeUpEnd) {
        let by = self.clients[client].me;
        match end {
            WakeUpEnd::Again(ms) => self.tell(by, Ask::PutOff(wake_up, ms)),
            WakeUpEnd::Settled => self.tell(by, Ask::Settle(wake_up)),
        }
    }

    fn rest(&mut self, client: usize) {
        self.wait(client, Lane::Keeper, REST_MS, Doing::Resting);
    }

    fn was_submitted(&mut self, client: usize, job: usize) {
        self.judge.submitted.push(job);
        self.clients[client].to_submit.pop();
        self.rest(client);
    }

    /// Does about a claim what its worker does.
    fn care(&mut self, client: usize, answer: ProlongAnswer, asked_at: i64) {
        let Some(held) = &mut self.clients[client].held else { return self.rest(client) };
        let since = (asked_at - held.held_at).unsigned_abs();
        match care_for_claim(answer, since, LEASE_MS.unsigned_abs()) {
            ClaimCare::Keep => {}
            ClaimCare::Renew => held.held_at = asked_at,
            // It lets go of it as of one whose process was killed.
            ClaimCare::Fenced | ClaimCare::Expired => {
                self.clients[client].stop_running(ClaimEnd::Lost)
            }
        }
        self.rest(client);
    }

    fn let_go(&mut self, client: usize, end: Option<WakeUpEnd>) {
        self.clients[client].interrupt(Lane::Runner);
        let held = self.clients[client].held.take();
        if let (Some(held), Some(WakeUpEnd::Settled)) = (held, end) {
            self.end_wake_up(client, held.wake_up, WakeUpEnd::Settled);
        }
        self.rest(client);
    }

    /// Begins the next step, or ends the work.
    fn begin_step(&mut self, client: usize) {
        let steps = self.plan.steps;
        let Some(held) = &self.clients[client].held else { return };
        if held.steps >= steps {
            return self.clients[client].stop_running(ClaimEnd::Done);
        }
        let long = 200 + self.line.below(4_000);
        self.wait(client, Lane::Runner, long, Doing::Working);
    }

    /// Takes in that a step was worked on long enough.
    pub(super) fn end_step(&mut self, client: usize) {
        let why = || Scrubbed::literal("no luck");
        let end = match self.line.below(100) {
            0..4 => ClaimEnd::Retry(why()),
            4 => ClaimEnd::Dead(why()),
            5 => ClaimEnd::Waiting(why()),
            6 => ClaimEnd::Later(700),
            7 => ClaimEnd::Withdrawn,
            _ => {
                self.contents += 1;
                let content = self.contents;
                let Some(held) = &self.clients[client].held else { return };
                let change = Change::Commit { step: held.steps, content };
                return self.change(client, Lane::Runner, change);
            }
        };
        self.clients[client].stop_running(end);
    }
}

/// Returns the record to change; a job that is submitted has none yet.
fn found_or_new(
    change: &Change,
    job: usize,
    found: Option<Box<KeptRecord>>,
    now: i64,
) -> Option<KeptRecord> {
    match (change, found) {
        (_, Some(found)) => Some(*found),
        (Change::Submit(_), None) => {
            let id = JobId(Uuid::from_u128(job as u128));
            let of = QueuedJob::submitted(id, String::new(), TERMS, now);
            let write = SentWrite { mark: Uuid::nil(), revision: 0 };
            Some(KeptRecord { record: SimRecord { job: of, steps: Vec::new() }, write })
        }
        (_, None) => None,
    }
}
