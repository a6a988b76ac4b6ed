//! A simulated fleet: its events in their order, its network, and what goes wrong.

use uuid::Uuid;

use super::judge::{FleetInvariant, FleetJudge, Verdict};
use super::line::EventLine;
use super::server::{KeptRecord, SimServer, SimWaiter, SimWakeUp, WriteIntent, Writer};
use super::worker::{
    Ask, Change, ClientRunning, Doing, Lane, PendingWrite, Said, SimClient, WritePurpose,
};
use super::{FleetSimFault, FleetSimPlan, FleetSimSummary};
use crate::incident::sim::rng::Rng;
use crate::job::{
    ClaimGrant, JobTrace, QueueState, RecordWrite, SentWrite, WakeUpMove, WriteAnswer,
    is_to_be_prolonged,
};
use crate::scrub::Scrubbed;

/// How long a claim counts without a sign of its worker.
pub(super) const LEASE_MS: i64 = 5_000;
pub(super) const LEASE: u64 = 5_000;
/// How long a request may take.
const REQUEST_MS: i64 = 5_000;
/// How long a worker waits to be woken, and how long it rests then.
const PATIENCE_MS: i64 = 150;
pub(super) const REST_MS: i64 = 250;
/// How long a process waits before it looks what became of a write, longer each time.
pub(super) const PAUSE_MS: i64 = 250;
/// How often somebody makes up for what others left undone.
const RECONCILED_MS: i64 = 20_000;
/// How often servers are lost.
const OUTAGES_MS: u64 = 9_000;
/// How long the fleet may take to end its jobs once nothing disturbs it.
const CALM_MS: i64 = 900_000;

/// What happens next.
#[derive(Clone, Debug)]
pub(super) enum FleetEvent {
    /// A request arrives at the servers.
    Arrive {
        from: Writer,
        lane: Lane,
        ticket: u64,
        ask: Ask,
    },
    /// An answer arrives.
    Answer {
        to: Writer,
        lane: Lane,
        ticket: u64,
        said: Said,
    },
    /// A process waited long enough.
    Timer {
        to: Writer,
        lane: Lane,
        ticket: u64,
    },
    /// A wake-up is due.
    Due,
    /// Something happens to a worker.
    Blow,
    /// A suspended worker goes on, or a killed one is replaced.
    Back(usize),
    /// A server is lost.
    Outage,
    /// Somebody makes up for what others left undone; each look is a moment after the one before.
    Records,
    WakeUps(Vec<usize>),
    Letters(Vec<(usize, bool)>),
}

/// One simulated fleet.
#[derive(Debug)]
pub(super) struct FleetWorld {
    pub(super) plan: FleetSimPlan,
    pub(super) fault: Option<FleetSimFault>,
    pub(super) line: EventLine<FleetEvent>,
    server: SimServer,
    down_until: i64,
    /// When the earliest look at what is due is planned.
    due_at: i64,
    pub(super) clients: Vec<SimClient>,
    /// What came for processes that were suspended.
    kept_back: Vec<(usize, FleetEvent)>,
    pub(super) judge: FleetJudge,
    marks: u128,
    pub(super) contents: u64,
    pub(super) summary: FleetSimSummary,
}

impl FleetWorld {
    pub(super) fn new(plan: FleetSimPlan, seed: u64, fault: Option<FleetSimFault>) -> Self {
        let mut rng = Rng::new(seed);
        let mut clients: Vec<SimClient> =
            (0..plan.workers).map(|client| SimClient::new(client, None)).collect();
        for submitter in 0..plan.submitters {
            let jobs = (0..plan.jobs).rev().filter(|job| job % plan.submitters == submitter);
            clients.push(SimClient::new(plan.workers + submitter, Some(jobs.collect())));
        }
        for client in &mut clients {
            client.lag = i64::try_from(rng.below(40)).unwrap_or(0);
            let is_wrong = fault == Some(FleetSimFault::TrustsItsClock) && rng.chance(30);
            client.skew = if is_wrong { 3_600_000 } else { 0 };
        }
        Self {
            plan,
            fault,
            line: EventLine::new(rng, plan.chaos_ms),
            server: SimServer::new(plan.jobs),
            down_until: 0,
            due_at: i64::MAX,
            clients,
            kept_back: Vec::new(),
            judge: FleetJudge::new(plan.jobs),
            marks: 0,
            contents: 0,
            summary: FleetSimSummary::default(),
        }
    }

    /// Lets everything happen until every job has ended, or nobody can believe that it will.
    pub(super) fn live(&mut self) -> Verdict {
        for client in 0..self.clients.len() {
            let at = i64::try_from(self.line.rng.below(2_000)).unwrap_or(0);
            self.line.plan_at(at, FleetEvent::Back(client));
        }
        self.line.plan_at(RECONCILED_MS, FleetEvent::Records);
        self.line.plan_at(500, FleetEvent::Blow);
        self.line.plan_at(4_000, FleetEvent::Outage);
        while let Some(event) = self.line.next() {
            if self.line.now > self.plan.chaos_ms + CALM_MS || self.is_over() {
                break;
            }
            self.summary.events += 1;
            self.on(event)?;
        }
        let steps = self.plan.steps;
        let found = |job: usize| self.server.record(job).map(|kept| kept.record.clone());
        self.judge.at_the_end(steps, &found, &|job| self.server.has_letter(job))
    }

    /// Tells whether nothing is left to do; looked at now and then only.
    fn is_over(&self) -> bool {
        if self.line.now < self.plan.chaos_ms || !self.summary.events.is_multiple_of(1_000) {
            return false;
        }
        let is_submitted = self.clients.iter().all(|client| client.to_submit.is_empty());
        is_submitted
            && (0..self.plan.jobs).all(|job| match self.server.record(job) {
                // A submission of which nobody heard may have left none.
                None => true,
                Some(kept) => {
                    let of = &kept.record.job;
                    let is_buried = self.server.has_letter(job);
                    !of.needs_waking() && !of.lacks_its_trace(true, is_buried)
                }
            })
    }

    pub(super) fn add_to(&self, summary: &mut FleetSimSummary) {
        let of = &self.summary;
        summary.seeds += 1;
        summary.events += of.events;
        summary.jobs += self.judge.submitted.len() as u64;
        summary.claims += of.claims;
        summary.takeovers += of.takeovers;
        summary.steps += of.steps;
        summary.fenced += of.fenced;
        summary.refused += of.refused;
        summary.unheard += of.unheard;
        summary.found_written += of.found_written;
        summary.kills += of.kills;
        summary.suspensions += of.suspensions;
        summary.outages += of.outages;
        summary.lost += self.line.lost;
        summary.doubled += self.line.doubled;
        summary.reconciled += of.reconciled;
        for job in 0..self.plan.jobs {
            if let Some(kept) = self.server.record(job) {
                *summary.ends.entry(kept.record.job.state.as_str()).or_default() += 1;
            }
        }
    }

    fn on(&mut self, event: FleetEvent) -> Verdict {
        match event {
            FleetEvent::Arrive { from, lane, ticket, ask } => {
                if self.line.now < self.down_until {
                    self.line.lost += 1;
                    return Ok(());
                }
                return self.serve(from, lane, ticket, ask);
            }
            FleetEvent::Answer { to, lane, ticket, ref said } => {
                if self.is_for(to, lane, ticket, &event) {
                    return self.heard(to, lane, Some(said.clone()));
                }
            }
            FleetEvent::Timer { to, lane, ticket } => {
                if self.is_for(to, lane, ticket, &event) {
                    return self.heard(to, lane, None);
                }
            }
            FleetEvent::Due => {
                self.due_at = i64::MAX;
                self.deliver();
            }
            FleetEvent::Blow => self.blow(),
            FleetEvent::Back(client) => self.back(client),
            FleetEvent::Outage => self.outage(),
            FleetEvent::Records => self.reconcile(),
            FleetEvent::WakeUps(jobs) => {
                let seen = jobs.into_iter().map(|job| (job, self.server.has_wake_up(job)));
                let seen = seen.collect();
                let at = self.line.now + 1 + self.line.below(300);
                self.line.plan_at(at, FleetEvent::Letters(seen));
            }
            FleetEvent::Letters(seen) => self.make_up(seen),
        }
        Ok(())
    }

    /// Tells whether a process still waits for this; what comes for one that is suspended is kept.
    fn is_for(&mut self, to: Writer, lane: Lane, ticket: u64, event: &FleetEvent) -> bool {
        let of = &mut self.clients[to.client];
        if of.me != to || of.running == ClientRunning::Killed || of.lane(lane).ticket != ticket {
            return false;
        }
        if of.is_asleep(lane) {
            self.kept_back.push((to.client, event.clone()));
            return false;
        }
        true
    }

    // What goes wrong.

    fn blow(&mut self) {
        if !self.line.is_chaos() {
            return;
        }
        let gap = 1_000 / i64::try_from(self.plan.blows).unwrap_or(1).max(1);
        let at = self.line.now + gap / 2 + self.line.below(gap.max(1));
        self.line.plan_at(at, FleetEvent::Blow);
        for blow in 0..2 {
            let client = self.line.rng.index(self.clients.len());
            if self.clients[client].running != ClientRunning::Yes {
                continue;
            }
            if blow == 0 {
                self.summary.kills += 1;
                self.clients[client].die();
                self.kept_back.retain(|(of, _)| *of != client);
                let at = self.line.now + 1 + self.line.below(3_000);
                self.line.plan_at(at, FleetEvent::Back(client));
            } else {
                self.summary.suspensions += 1;
                let with_runner = self.line.rng.chance(50);
                self.clients[client].running = ClientRunning::Suspended { with_runner };
                let at = self.line.now + 1 + self.line.below(4 * LEASE_MS);
                self.line.plan_at(at, FleetEvent::Back(client));
            }
        }
    }

    fn back(&mut self, client: usize) {
        match self.clients[client].running {
            ClientRunning::Yes => {}
            ClientRunning::Suspended { .. } => {
                self.clients[client].running = ClientRunning::Yes;
                let all = std::mem::take(&mut self.kept_back);
                for (of, event) in all {
                    if of == client {
                        self.line.plan_at(self.line.now, event);
                    } else {
                        self.kept_back.push((of, event));
                    }
                }
            }
            ClientRunning::Killed => {
                let of = &mut self.clients[client];
                of.me.life += 1;
                of.running = ClientRunning::Yes;
                self.go_on(client);
            }
        }
    }

    fn outage(&mut self) {
        if !self.line.is_chaos() {
            return;
        }
        self.summary.outages += 1;
        let long = if self.line.rng.chance(30) { 15_000 } else { 2_000 };
        self.down_until = self.line.now + 100 + self.line.below(long);
        self.server.lose_leader(self.down_until);
        if self.fault == Some(FleetSimFault::Forgets) {
            for job in 0..self.plan.jobs {
                if self.line.rng.chance(20) {
                    self.server.forget(job);
                }
            }
        }
        self.look_at_due();
        let at = self.down_until + 1 + i64::try_from(self.line.rng.below(OUTAGES_MS)).unwrap_or(0);
        self.line.plan_at(at, FleetEvent::Outage);
    }

    // Making up for what others left undone, as `reconcile` does it.

    fn reconcile(&mut self) {
        self.line.plan_at(self.line.now + RECONCILED_MS, FleetEvent::Records);
        if self.fault == Some(FleetSimFault::LeavesUndone) || self.line.now < self.down_until {
            return;
        }
        let has_trace = |job: &usize| {
            let kept = self.server.record(*job);
            kept.is_some_and(|kept| kept.record.job.trace() != JobTrace::None)
        };
        let jobs: Vec<usize> = (0..self.plan.jobs).filter(has_trace).collect();
        let at = self.line.now + 1 + self.line.below(300);
        self.line.plan_at(at, FleetEvent::WakeUps(jobs));
    }

    fn make_up(&mut self, seen: Vec<(usize, bool)>) {
        for (job, has_wake_up) in seen {
            let Some(kept) = self.server.record(job) else { continue };
            if !kept.record.job.lacks_its_trace(has_wake_up, self.server.has_letter(job)) {
                continue;
            }
            self.summary.reconciled += 1;
            let trace = kept.record.job.trace();
            self.leave_trace(Writer { client: 0, life: 0 }, job, trace);
        }
    }

    // The servers.

    fn deliver(&mut self) {
        if self.line.now >= self.down_until {
            while let Some((to, wake_up)) = self.server.deliver(self.line.now) {
                let said = Said::Woken(wake_up);
                self.line.send(FleetEvent::Answer {
                    to: to.by,
                    lane: Lane::Keeper,
                    ticket: to.ticket,
                    said,
                });
            }
        }
        self.look_at_due();
    }

    /// Plans the next look at what is due; a waiter who comes by looks, too.
    fn look_at_due(&mut self) {
        let Some(due) = self.server.next_due() else { return };
        let at = due.max(self.down_until);
        if at > self.line.now && at < self.due_at {
            self.due_at = at;
            self.line.plan_at(at, FleetEvent::Due);
        }
    }

    fn serve(&mut self, from: Writer, lane: Lane, ticket: u64, ask: Ask) -> Verdict {
        let said = match ask {
            Ask::Pull { until } => {
                self.server.wait(SimWaiter { by: from, ticket, until });
                self.deliver();
                return Ok(());
            }
            Ask::Read(job) => Said::Found(self.server.record(job).cloned().map(Box::new)),
            Ask::Write(write) => Said::Written(self.write(*write)?),
            Ask::Wake(job) => {
                self.server.wake(job, self.line.now);
                self.deliver();
                return Ok(());
            }
            Ask::Bury(job) => {
                self.server.bury(job);
                return Ok(());
            }
            Ask::PutOff(wake_up, ms) => {
                let at = self.line.now + i64::try_from(ms).unwrap_or(i64::MAX / 4);
                self.server.put_off(wake_up, at);
                self.deliver();
                return Ok(());
            }
            Ask::Settle(wake_up) => {
                self.server.settle(wake_up);
                return Ok(());
            }
        };
        self.line.send(FleetEvent::Answer { to: from, lane, ticket, said });
        Ok(())
    }

    fn write(&mut self, write: PendingWrite) -> Result<WriteAnswer, (FleetInvariant, String)> {
        let job = write.intent.job;
        let is_blind = self.fault == Some(FleetSimFault::WritesBlindly);
        if !is_blind && !self.server.accepts(job, write.revision) {
            self.summary.refused += 1;
            return Ok(WriteAnswer::Refused);
        }
        let before = self.server.record(job).map(|kept| kept.record.clone());
        self.judge.on_write(&write, before.as_ref(), self.line.now)?;
        if let WritePurpose::Claim { grant: ClaimGrant::Granted(epoch), .. } = write.purpose {
            self.summary.claims += 1;
            let was_held = before.is_some_and(|before| before.job.state == QueueState::Claimed);
            self.summary.takeovers += u64::from(was_held && epoch > 1);
        }
        self.summary.steps += u64::from(write.intent.step.is_some());
        Ok(self.server.write(job, write.record, write.mark))
    }

    // The processes.

    /// Asks the servers something that is answered.
    pub(super) fn ask(&mut self, client: usize, lane: Lane, ask: Ask, doing: Doing) {
        let ticket = self.wait(client, lane, REQUEST_MS, doing);
        let from = self.clients[client].me;
        self.line.send(FleetEvent::Arrive { from, lane, ticket, ask });
    }

    /// Tells the servers something that is not answered.
    pub(super) fn tell(&mut self, from: Writer, ask: Ask) {
        self.line.send(FleetEvent::Arrive { from, lane: Lane::Keeper, ticket: 0, ask });
    }

    /// Has a process wait so long at most.
    pub(super) fn wait(&mut self, client: usize, lane: Lane, ms: i64, doing: Doing) -> u64 {
        let of = &mut self.clients[client];
        let to = of.me;
        let state = of.lane(lane);
        state.ticket += 1;
        state.doing = doing;
        let ticket = state.ticket;
        self.line.plan_at(self.line.now + ms, FleetEvent::Timer { to, lane, ticket });
        ticket
    }

    /// Takes in an answer, or that none came in time.
    fn heard(&mut self, to: Writer, lane: Lane, said: Option<Said>) -> Verdict {
        let client = to.client;
        let doing = std::mem::replace(&mut self.clients[client].lane(lane).doing, Doing::Idle);
        match (doing, said) {
            (Doing::Pulling, Some(Said::Woken(wake_up))) => {
                self.ask(client, lane, Ask::Read(wake_up.job), Doing::Woken(wake_up));
            }
            (Doing::Pulling | Doing::Woken(_), None) => {
                self.wait(client, lane, REST_MS, Doing::Resting);
            }
            (Doing::Woken(wake_up), Some(Said::Found(found))) => {
                self.try_to_claim(client, wake_up, found);
            }
            (Doing::Reading(change), Some(Said::Found(found))) => {
                return self.make(client, lane, change, found);
            }
            (Doing::Reading(change), None) => self.unknown(client, change),
            (Doing::Writing(of), Some(Said::Written(answer))) => {
                return self.on_answer(client, lane, of, answer);
            }
            (Doing::Writing(of), None) => {
                self.summary.unheard += 1;
                return self.on_answer(client, lane, of, WriteAnswer::Nothing);
            }
            (Doing::Pausing(of), None) => {
                self.ask(client, lane, Ask::Read(of.intent.job), Doing::Looking(of));
            }
            (Doing::Looking(of), said) => return self.on_look(client, lane, of, said),
            (Doing::Working, None) => self.end_step(client),
            (Doing::Resting, None) => self.go_on(client),
            // An answer to something else cannot bear the ticket.
            (_, _) => {}
        }
        Ok(())
    }

    /// Has the keeper of a worker do what is due.
    fn go_on(&mut self, client: usize) {
        if self.clients[client].is_submitter {
            return self.submit_next(client);
        }
        let Some(held) = &self.clients[client].held else {
            let until = self.line.now + PATIENCE_MS;
            let ticket = self.wait(client, Lane::Keeper, PATIENCE_MS + 100, Doing::Pulling);
            let from = self.clients[client].me;
            let ask = Ask::Pull { until };
            return self.line.send(FleetEvent::Arrive { from, lane: Lane::Keeper, ticket, ask });
        };
        let since = (self.line.now - held.held_at).unsigned_abs();
        if let Some(end) = held.end.clone() {
            self.change(client, Lane::Keeper, Change::Finish(end));
        } else if is_to_be_prolonged(since, LEASE) {
            self.change(client, Lane::Keeper, Change::Prolong { asked_at: self.line.now });
        } else {
            self.wait(client, Lane::Keeper, REST_MS, Doing::Resting);
        }
    }

    fn submit_next(&mut self, client: usize) {
        if self.line.rng.chance(10) && !self.judge.submitted.is_empty() && self.line.is_chaos() {
            let job = self.judge.submitted[self.line.rng.index(self.judge.submitted.len())];
            return self.change(client, Lane::Keeper, Change::Requeue(job));
        }
        if let Some(&job) = self.clients[client].to_submit.last() {
            self.change(client, Lane::Keeper, Change::Submit(job));
        }
    }

    /// Begins a change: the record is read first.
    pub(super) fn change(&mut self, client: usize, lane: Lane, change: Change) {
        if let Some(job) = self.clients[client].job_of(&change) {
            self.ask(client, lane, Ask::Read(job), Doing::Reading(change));
        }
    }

    fn try_to_claim(&mut self, client: usize, wake_up: SimWakeUp, found: Option<Box<KeptRecord>>) {
        let (me, now) = (self.clients[client].me, self.clients[client].believed(self.line.now));
        let found = found.map(|found| (found.record.job.on_wake_up(now), found));
        match found {
            None | Some((WakeUpMove::Forget, _)) => self.tell(me, Ask::Settle(wake_up)),
            Some((WakeUpMove::After(ms), _)) => self.tell(me, Ask::PutOff(wake_up, ms)),
            Some((WakeUpMove::Claim, found)) => {
                let mut found = *found;
                let grant = found.record.job.claim(Scrubbed::literal("w"), LEASE, now);
                let intent = WriteIntent {
                    job: wake_up.job,
                    by: me,
                    is_claim: true,
                    epoch: None,
                    step: None,
                };
                let of = self.new_write(found, intent, WritePurpose::Claim { wake_up, grant });
                return self.ask(client, Lane::Keeper, Ask::Write(of.clone()), Doing::Writing(of));
            }
        }
        self.wait(client, Lane::Keeper, REST_MS, Doing::Resting);
    }

    /// Prepares a write that nobody has sent yet.
    pub(super) fn new_write(
        &mut self,
        found: KeptRecord,
        intent: WriteIntent,
        purpose: WritePurpose,
    ) -> Box<PendingWrite> {
        self.marks += 1;
        let mark = Uuid::from_u128(self.marks);
        let KeptRecord { record, write: SentWrite { revision, .. } } = found;
        let write = RecordWrite::new(SentWrite { mark, revision });
        Box::new(PendingWrite { write, mark, revision, record, intent, purpose })
    }
}
