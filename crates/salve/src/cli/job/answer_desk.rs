//! The part of a fleet's worker that asks people and judges what they answer.
//!
//! The worker that asked judges the answer; where it has left, any other does. One that takes an answer
//! lets the job be claimed again, and whoever claims it judges the answer once more for itself.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use salve_core::job::QueueState;
use salve_core::scrub::Scrubbed;

use crate::store::{
    AnswerVerdict, ClaimStanding, Fleet, FleetPerson, PlacedAnswer, Store, StoreError,
};
use crate::subjects::job::{
    AnswerRefusal, Asker, FleetJobError, FleetQuestion, LocalRun, judge_answer,
};

/// How often an answer that is another worker's to judge is looked at again.
const LOOK: Duration = Duration::from_secs(2);

/// For how many looks one who has left may have a successor who knows the person.
const PATIENCE: u32 = 3;

/// The version of what is said of an answer.
const VERSION: u32 = 1;

const HOUR_MS: i64 = 3_600_000;

/// Who asks, for how long, and whose answers count.
#[derive(Clone, Debug)]
pub(super) struct AskingTerms {
    asker: Asker,
    pub(super) people: Vec<FleetPerson>,
    hours: u32,
}

/// An answer that nobody has judged yet.
#[derive(Debug)]
struct OpenAnswer {
    placed: PlacedAnswer,
    looks: u32,
    look_at: Instant,
}

/// What comes of a look at an answer.
enum AnswerLook {
    /// It is judged, or nobody's to judge any more.
    Over,
    /// It is another worker's to judge, or could not be judged now.
    Later,
}

/// The answers that a worker hears of.
#[derive(Debug)]
pub(super) struct AnswerDesk {
    terms: AskingTerms,
    heard: Receiver<PlacedAnswer>,
    open: Vec<OpenAnswer>,
}

impl AskingTerms {
    /// Tells the fleet what it does not know yet of a job, and those who follow it once it does.
    pub(super) fn tell(
        &self,
        store: &Store,
        local: &mut LocalRun,
    ) -> Result<ClaimStanding, FleetJobError> {
        let Some(fleet) = store.fleet() else { return Ok(ClaimStanding::Fenced) };
        let until = i64::from(self.hours).saturating_mul(HOUR_MS);
        let expires_ms = fleet.now_ms()?.saturating_add(until);
        let asker = Asker { expires_ms, ..self.asker.clone() };
        let Some(untold) = local.untold(&asker)? else { return Ok(ClaimStanding::Held) };
        let standing = store.queue().checkpoint(local.claim().token, &untold.artifacts)?;
        if standing == ClaimStanding::Held {
            local.was_told(&untold);
            // Whoever does not hear of it reads the history.
            let _unheard = fleet.tell_events(&untold.events);
        }
        Ok(standing)
    }
}

impl AnswerDesk {
    /// Begins to listen; what was answered before comes first.
    pub(super) fn open(
        fleet: &dyn Fleet,
        asker: Asker,
        people: Vec<FleetPerson>,
        hours: u32,
    ) -> Result<Self, StoreError> {
        let terms = AskingTerms { asker, people, hours };
        Ok(Self { terms, heard: fleet.hear_answers()?, open: Vec::new() })
    }

    pub(super) fn clone_terms(&self) -> AskingTerms {
        self.terms.clone()
    }

    /// Tells the fleet what it does not know yet of a job.
    pub(super) fn tell(&self, store: &Store, local: &mut LocalRun) -> Result<(), FleetJobError> {
        self.terms.tell(store, local).map(drop)
    }

    /// Judges what was answered; what fails now is tried again.
    pub(super) fn look_after(&mut self, store: &Store) {
        let Some(fleet) = store.fleet() else { return };
        let now = Instant::now();
        while let Ok(placed) = self.heard.try_recv() {
            self.open.push(OpenAnswer { placed, looks: 0, look_at: now });
        }
        let terms = &self.terms;
        self.open.retain_mut(|answer| {
            if answer.look_at > now {
                return true;
            }
            let looked = terms.look(store, fleet, answer);
            answer.looks = answer.looks.saturating_add(1);
            answer.look_at = now + LOOK;
            matches!(looked, Ok(AnswerLook::Later) | Err(_))
        });
    }
}

impl AskingTerms {
    fn look(
        &self,
        store: &Store,
        fleet: &dyn Fleet,
        OpenAnswer { placed, looks, .. }: &OpenAnswer,
    ) -> Result<AnswerLook, FleetJobError> {
        let job = placed.answer.question.job;
        let Some(row) = fleet.job_row(job)? else { return Ok(AnswerLook::Over) };
        if row.row.state == QueueState::Claimed && row.row.epoch == placed.answer.question.epoch {
            // Whoever asked is about to let go of it.
            return Ok(AnswerLook::Later);
        }
        let waits = row.row.state == QueueState::Waiting;
        let question = if waits { FleetQuestion::of(store.queue(), job)? } else { None };
        let open = question.filter(|question| question.binding == placed.answer.question);
        let Some(question) = open else {
            self.say(fleet, placed, Err(AnswerRefusal::OtherQuestion))?;
            return Ok(AnswerLook::Over);
        };
        let is_mine = question.worker_id == self.asker.id;
        let is_there = || -> Result<bool, StoreError> {
            Ok(fleet.workers()?.iter().any(|worker| worker.id == question.worker_id))
        };
        let judged = judge_answer(placed, &question.binding, &self.people);
        let is_left_to_us = is_mine || !is_there()?;
        let may_others_know =
            matches!(judged, Err(AnswerRefusal::UnknownKey(_))) && !is_mine && *looks < PATIENCE;
        if !is_left_to_us || may_others_know {
            let is_judged = fleet.verdict(placed.id)?.is_some();
            return Ok(if is_judged { AnswerLook::Over } else { AnswerLook::Later });
        }
        let is_taken = judged.is_ok();
        self.say(fleet, placed, judged)?;
        if is_taken {
            store.queue().requeue(job)?;
        }
        Ok(AnswerLook::Over)
    }

    fn say(
        &self,
        fleet: &dyn Fleet,
        placed: &PlacedAnswer,
        judged: Result<Scrubbed, AnswerRefusal>,
    ) -> Result<(), StoreError> {
        let (person, why) = match judged {
            Ok(person) => (Some(person), None),
            Err(why) => (None, Some(crate::scrub::scrubber().scrub(&why.to_string()))),
        };
        let by = self.asker.worker.clone();
        fleet.say_verdict(placed.id, &AnswerVerdict { version: VERSION, by, person, why })?;
        Ok(())
    }
}
