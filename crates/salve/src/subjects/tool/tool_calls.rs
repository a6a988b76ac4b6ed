//! Heals the calls of a desk, one incident for all calls that failed of one cause.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salve_core::check::CheckBrief;
use salve_core::event::{
    AtALoss, Digest, EffectReport, IncidentOutcome, Proof, RepairMode, Repeat, ResourceLimits,
    Subject, SubjectKind,
};
use salve_core::incident::{DueEffect, Incident, Phase};
use salve_core::playbook::Diagnosis;
use salve_core::scrub::Scrubbed;
use salve_core::tool::failure::FailedCall;
use salve_core::tool::rule::{HealChoice, ToolFix};

use super::cause::{CallTrial, CauseKey, FailureCause, JudgedCall, OfferedFix};
use super::desk::{CallAnswer, CallDesk, FailingCall};
use super::offers;
use crate::heal::cause::{Evidence, FailurePlace};
use crate::heal::inbox::{NewsQueue, NewsSender};
use crate::heal::remedies::Offer;
use crate::heal::{
    Case, OpeningTerms, Resorts, RunBase, SeenFailure, SubjectContext, Subjects, VerifiedFinding,
    left_behind, spawn_thread,
};
use crate::store::{Store, StoreError};
use crate::tools::{HealMeans, Healed};

/// How many causes are worked on at once; calls that fail of another one wait.
const MOST_CAUSES: usize = 4;
/// How many incidents of killed processes are brought to their end by the way.
const MOST_LEFT: usize = 4;

/// What is said behind what was done and helped, when the call then failed of something else.
pub const FAILED_OTHERWISE: &str = "but the call then failed for another reason";
/// What whoever waits is told when a call failed again after what made others work.
const AGAIN: &str = "Salve tried this call again, which did not help: a person has to look.";
/// What whoever waits is told about a call that must not be repeated.
const ACTED: &str =
    "Salve did not repeat this call: it may have taken effect. Look before you call it again.";
/// How long the files that people read may lack what the journal has.
const SYNCED_AFTER: Duration = Duration::from_secs(2);
/// How much of what shows whether a call took effect is told.
const SHOWN: usize = 2_000;

/// What is told to whoever serves the desk.
enum CallNews {
    /// A fix came to its end.
    Fixed { at: usize, effect: DueEffect, digest: Digest, outcome: Result<(), String> },
    /// A call was made again to see whether the fix helped.
    Verified { trial: Box<CallTrial>, answer: CallAnswer },
    /// It was looked what a call did that may have taken effect.
    Looked { call: Box<JudgedCall>, note: String },
    /// A call was made again after the fix was seen to help.
    Followed { call: Box<JudgedCall>, by: String, answer: CallAnswer },
}

/// The calls of a desk under care.
pub struct ToolCalls {
    desk: Arc<CallDesk>,
    means: Arc<HealMeans>,
    news: NewsQueue<CallNews>,
    places: Vec<CausePlace>,
    /// Calls for whose cause there is no place yet.
    backlog: VecDeque<FailingCall>,
    /// Threads that will tell us something.
    threads: usize,
    /// Since when the files that people read lack something.
    unsynced: Option<Instant>,
}

#[derive(Default)]
struct CausePlace {
    cause: Option<FailureCause>,
    /// Whose incident a killed process left here.
    left: Option<Subject>,
}

impl ToolCalls {
    /// Serves a desk.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn new(
        desk: Arc<CallDesk>,
        means: Arc<HealMeans>,
        base: &RunBase<'_>,
    ) -> Result<Self, StoreError> {
        let mut places: Vec<CausePlace> = (0..MOST_CAUSES).map(|_| CausePlace::default()).collect();
        let left = left_behind(base.writer.store, SubjectKind::Tool, &base.writer.scrubber)?;
        places.extend(
            left.into_iter()
                .take(MOST_LEFT)
                .map(|subject| CausePlace { cause: None, left: Some(subject) }),
        );
        desk.attend(base.inbox.sender());
        let news = NewsQueue::new(base.inbox.sender());
        Ok(Self { desk, means, news, places, backlog: VecDeque::new(), threads: 0, unsynced: None })
    }

    /// Takes in a failed call: it joins those that failed of the same, or begins another cause, or
    /// goes back as it is.
    fn take_in(
        &mut self,
        mut failing: FailingCall,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let call = self.means.judge_failure(&failing.tool, &failing.text);
        let base = &*context.base;
        let (rules, scrubber) = (base.rules, &base.writer.scrubber);
        let evidence = Evidence::of(&failing.text, failing.exit.as_ref(), rules, scrubber);
        let may_repeat = self.means.may_retry(failing.retries) && failing.caller.can_repeat();
        let has_tool = |tool: &str| failing.caller.has_tool(tool);
        let choice = self.means.choose(&call, failing.caller.hints(), &has_tool);
        let (fixes, note) = match choice {
            HealChoice::MayHaveActed { look: Some(look) } if may_repeat || failing.retries > 0 => {
                self.look(&look, failing, call);
                return Ok(());
            }
            choice if may_repeat => chosen(choice),
            choice => (Vec::new(), unrepeated(&choice, &failing)),
        };
        let signature = evidence.symptom.signature;
        let is_repeatable = self.means.may_repeat(&call, failing.caller.hints());
        let known = if may_repeat && note.is_none() && is_repeatable {
            let store = base.writer.store;
            offers::allowed(base.remedies.known(&base.project, store, signature, scrubber)?)
        } else {
            Vec::new()
        };
        if fixes.is_empty() && known.is_empty() {
            let note = note.map(|note| self.means.scrub(&note));
            failing.caller.give_up(Some(&call), note.as_deref());
            self.record(&JudgedCall { failing, call }, None, base.writer.store);
            return Ok(());
        }
        let causes = fixes.iter().map(|fix| fix.cause()).collect();
        let offered = fixes.into_iter().map(|fix| OfferedFix { digest: offers::digest(&fix), fix });
        let cause = FailureCause {
            key: CauseKey { signature, fixes: causes },
            tool: failing.tool.clone(),
            fixes: offered.collect(),
            waiting: VecDeque::from([JudgedCall { failing, call }]),
            known,
            doing: None,
            in_vain: Vec::new(),
        };
        self.begin(cause, evidence, context);
        Ok(())
    }

    /// Joins the calls of a cause with those that failed of the same, or opens an incident.
    fn begin(
        &mut self,
        cause: FailureCause,
        evidence: Evidence,
        context: &mut SubjectContext<'_, '_>,
    ) {
        let mut others = self.places.iter_mut().filter_map(|place| place.cause.as_mut());
        if let Some(same) = others.find(|other| other.key == cause.key) {
            same.waiting.extend(cause.waiting);
            return;
        }
        let is_free = |(at, place): &(usize, &CausePlace)| {
            place.cause.is_none() && context.incident(*at).is_none()
        };
        match self.places.iter().enumerate().find(is_free) {
            Some((at, _)) => {
                let took = cause.waiting.front().map(|call| call.failing.took);
                let took = took.unwrap_or_default();
                self.places[at].cause = Some(cause);
                let (before, verifies, waiter) = (Vec::new(), None, None);
                context.failed(at, SeenFailure { evidence, took, before, verifies, waiter });
            }
            None => self.backlog.extend(cause.waiting.into_iter().map(|call| call.failing)),
        }
    }

    /// Looks what a call did that may have taken effect.
    fn look(&mut self, look: &str, failing: FailingCall, call: FailedCall) {
        let (means, news, look) = (Arc::clone(&self.means), self.sender(), look.to_owned());
        spawn_thread("look", move || {
            let server = failing.caller.server();
            let seen = server.read(&look).unwrap_or_else(|| means.look(&look));
            let shown = |text: String| text.chars().take(SHOWN).collect::<String>();
            let seen = match seen {
                Ok(text) => format!("`{look}` says now:\n{}", shown(text)),
                Err(why) => format!("Salve could not find out whether it did: {}", shown(why)),
            };
            let call = Box::new(JudgedCall { failing, call });
            // Nobody is left to tell when the run is over.
            let _ = news.send(CallNews::Looked { call, note: format!("{ACTED} {seen}") });
        });
    }

    fn sender(&mut self) -> NewsSender<CallNews> {
        self.threads += 1;
        self.news.sender()
    }

    /// Takes in how a call answered that was to show whether the fix helped.
    fn verified(
        &mut self,
        trial: CallTrial,
        answer: CallAnswer,
        context: &mut SubjectContext<'_, '_>,
    ) {
        let CallTrial { at, effect, mut call } = trial;
        let Some(cause) = self.places.get(at).and_then(|place| place.cause.as_ref()) else {
            return;
        };
        let done = cause.doing.clone().unwrap_or_default();
        let trial = context.cases.get(at).and_then(Case::trial);
        let fix = trial.and_then(|trial| cause.fix(trial.remedy.digest)).cloned();
        match answer {
            CallAnswer::Gone => match self.next_waiting(at, context.base.writer.store) {
                Some(call) => self.call_again(CallTrial { at, effect, call }),
                None => {
                    let reason = Scrubbed::literal("nobody waits for the call any more");
                    context.finish(at, effect, EffectReport::failed(reason));
                }
            },
            CallAnswer::Worked => {
                if let Some(fix) = &fix {
                    self.means.judge_fix(fix, true);
                }
                self.healed(&mut call, &done, context);
                self.follow_all(at, &done);
                let found = VerifiedFinding::new(Proof::Proven, "the call works again");
                context.judged(at, effect, found);
            }
            CallAnswer::Failed { text } => {
                call.failing.retries += 1;
                call.failing.text = text;
                self.failed_again(CallTrial { at, effect, call }, fix.as_ref(), &done, context);
            }
        }
    }

    /// Takes in that a call failed again: of the same, or, where what was done helped, of something
    /// else.
    fn failed_again(
        &mut self,
        trial: CallTrial,
        fix: Option<&ToolFix>,
        done: &str,
        context: &mut SubjectContext<'_, '_>,
    ) {
        let CallTrial { at, effect, call } = trial;
        let helped = fix.is_some_and(|fix| !self.still_fits(fix, &call));
        if let Some(fix) = fix {
            self.means.judge_fix(fix, helped);
        }
        if helped {
            self.failed_otherwise(at, call, done);
            let why = "that failure is gone, and the call fails of something else";
            context.judged(at, effect, VerifiedFinding::new(Proof::Proven, why));
            return;
        }
        let Some(cause) = self.places[at].cause.as_mut() else { return };
        cause.in_vain.push(format!("{done}, which did not help"));
        let base = &*context.base;
        let (text, exit) = (&call.failing.text, call.failing.exit.as_ref());
        let evidence = Evidence::of(text, exit, base.rules, &base.writer.scrubber);
        let took = call.failing.took;
        cause.waiting.push_front(call);
        let (before, verifies, waiter) = (Vec::new(), Some(effect), None);
        context.failed(at, SeenFailure { evidence, took, before, verifies, waiter });
    }

    /// Tells whether what was done is still what the settings say against what a call failed of.
    fn still_fits(&self, fix: &ToolFix, call: &JudgedCall) -> bool {
        let caller = &call.failing.caller;
        let again = self.means.judge_failure(&call.call.tool, &call.failing.text);
        match self.means.choose(&again, caller.hints(), &|tool| caller.has_tool(tool)) {
            HealChoice::Fixes(fixes) => fixes.iter().any(|other| other.cause() == fix.cause()),
            HealChoice::Nothing | HealChoice::MayHaveActed { .. } | HealChoice::Person(_) => {
                again.category == call.call.category && again.class == call.call.class
            }
        }
    }

    /// Takes a call that fails of something else for a new failure, and makes the others again that
    /// waited for what is mended.
    fn failed_otherwise(&mut self, at: usize, mut call: JudgedCall, done: &str) {
        call.failing.caller.failed_otherwise(done);
        call.failing.so_far.push(done.to_owned());
        self.backlog.push_back(call.failing);
        self.follow_all(at, done);
    }

    /// Makes all calls again that wait for what is mended.
    fn follow_all(&mut self, at: usize, done: &str) {
        let cause = self.places[at].cause.as_mut();
        let followers = cause.map(|cause| std::mem::take(&mut cause.waiting)).unwrap_or_default();
        for follower in followers {
            self.follow(follower, done.to_owned());
        }
    }

    /// Returns the next call of a cause that may be made again; the others go back.
    fn next_waiting(&mut self, at: usize, store: &Store) -> Option<JudgedCall> {
        loop {
            let cause = self.places[at].cause.as_mut()?;
            let mut call = cause.waiting.pop_front()?;
            if self.means.may_retry(call.failing.retries) {
                return Some(call);
            }
            let note = self.means.scrub(&cause.in_vain());
            call.failing.caller.give_up(Some(&call.call), Some(&note));
            self.record(&call, None, store);
        }
    }

    /// Makes a call again, to show whether the fix helped.
    fn call_again(&mut self, mut trial: CallTrial) {
        let news = self.sender();
        spawn_thread("call", move || {
            let answer = trial.call.failing.caller.call_again();
            // Nobody is left to tell when the run is over.
            let _ = news.send(CallNews::Verified { trial: Box::new(trial), answer });
        });
    }

    /// Makes a call again that waited for what is fixed by now.
    fn follow(&mut self, mut call: JudgedCall, by: String) {
        let news = self.sender();
        spawn_thread("call", move || {
            let answer = call.failing.caller.call_again();
            // Nobody is left to tell when the run is over.
            let _ = news.send(CallNews::Followed { call: Box::new(call), by, answer });
        });
    }

    /// Writes down that a call works again.
    fn healed(&mut self, call: &mut JudgedCall, by: &str, context: &SubjectContext<'_, '_>) {
        let mut all = call.failing.so_far.clone();
        all.push(by.to_owned());
        let all = all.join(", then ");
        call.failing.caller.healed(&all);
        self.record(call, Some(&all), context.base.writer.store);
    }

    /// Writes down what came of a call: what made it work, or that nothing did.
    fn record(&mut self, judged: &JudgedCall, healed_by: Option<&str>, store: &Store) {
        self.means.record_in(
            store,
            &Healed {
                call: &judged.call,
                arguments: &judged.failing.arguments,
                resolution: healed_by.map(str::to_owned),
                is_healed: healed_by.is_some(),
            },
        );
        self.unsynced.get_or_insert_with(Instant::now);
    }

    /// Hands the calls of a cause back.
    fn give_up(&mut self, at: usize, note: &str, context: &SubjectContext<'_, '_>) {
        let Some(cause) = self.places.get_mut(at).and_then(|place| place.cause.as_mut()) else {
            return;
        };
        let note = self.means.scrub(note);
        for mut waiting in std::mem::take(&mut cause.waiting) {
            waiting.failing.caller.give_up(Some(&waiting.call), Some(&note));
            self.record(&waiting, None, context.base.writer.store);
        }
    }
}

/// Returns what is done about a call that may be made again, or what its caller is told.
fn chosen(choice: HealChoice) -> (Vec<ToolFix>, Option<String>) {
    match choice {
        HealChoice::Fixes(fixes) => (fixes, None),
        HealChoice::Nothing => (Vec::new(), None),
        HealChoice::MayHaveActed { .. } => (Vec::new(), Some(ACTED.to_owned())),
        HealChoice::Person(why) => {
            (Vec::new(), Some(format!("Salve did nothing about it: {why}.")))
        }
    }
}

/// Returns what the caller is told of a call that may not be made once more.
fn unrepeated(choice: &HealChoice, failing: &FailingCall) -> Option<String> {
    match choice {
        _ if failing.retries == 0 => None,
        HealChoice::MayHaveActed { .. } => Some(ACTED.to_owned()),
        _ if failing.so_far.is_empty() => Some(AGAIN.to_owned()),
        // The failure is its own from here on.
        HealChoice::Nothing => None,
        HealChoice::Fixes(_) | HealChoice::Person(_) => {
            let done = failing.so_far.join(", then ");
            Some(format!(
                "Salve {done} and called again, {FAILED_OTHERWISE}. \
                 auto_heal.max_retries allows no further call."
            ))
        }
    }
}

impl Subjects for ToolCalls {
    fn names(&self) -> Vec<String> {
        self.places.iter().map(|_| "tool call".to_owned()).collect()
    }

    fn opening(&self, at: usize, base: &RunBase<'_>) -> OpeningTerms {
        let place = &self.places[at];
        let name = place.cause.as_ref().map_or("", |cause| &cause.tool);
        let new = || Subject {
            kind: SubjectKind::Tool,
            name: base.writer.scrubber.scrub(name),
            repeat: Repeat::Safe,
        };
        let subject = match (&place.cause, &place.left) {
            (None, Some(left)) => left.clone(),
            (Some(_), _) | (None, None) => new(),
        };
        let attempts = Some(u64::from(self.means.max_retries()));
        let mut policy =
            base.terms.policy(ResourceLimits { attempts, ..ResourceLimits::default() });
        // Whoever called gets the failure, and knows best whom to ask.
        (policy.at_a_loss, policy.mode) = (AtALoss::Close, RepairMode::Legacy);
        OpeningTerms { subject, policy, left: ResourceLimits::default() }
    }

    fn place(&self, _: usize, base: &RunBase<'_>) -> FailurePlace {
        let root = base.project.root();
        FailurePlace::new(root, root, &[], &[], &base.remedies.sandbox)
    }

    fn command(&self, at: usize) -> Scrubbed {
        let tool = self.places[at].cause.as_ref().map(|cause| cause.tool.as_str());
        crate::scrub::scrubber().scrub(tool.unwrap_or_default())
    }

    fn resorts(&self, _: usize, _: &Case, _: &Diagnosis, _: &RunBase<'_>) -> Resorts {
        Resorts { again: "call it again", own: Vec::new() }
    }

    fn brief(&self, _: usize, _: &CheckBrief) -> String {
        // No agent takes part in what keeps a caller waiting.
        String::new()
    }

    fn has_breakers(&self) -> bool {
        // A token that expires every day is no sign that healing goes wrong.
        false
    }

    fn offers(
        &mut self,
        at: usize,
        base: &mut RunBase<'_>,
        _: &Case,
    ) -> Result<Option<Vec<Offer>>, StoreError> {
        let Some(cause) = &self.places[at].cause else { return Ok(Some(Vec::new())) };
        let scrubber = &base.writer.scrubber;
        let fixes = cause.fixes.iter().map(|offered| offers::offer(&offered.fix, scrubber));
        Ok(Some(fixes.chain(cause.known.iter().cloned()).collect()))
    }

    fn apply(
        &mut self,
        at: usize,
        effect: DueEffect,
        digest: Digest,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let cause = self.places[at].cause.as_ref();
        let fix = cause.and_then(|cause| Some((cause.fix(digest)?, cause.waiting.front()?)));
        let Some((fix, first)) = fix.map(|(fix, first)| (fix.clone(), first)) else {
            let reason = Scrubbed::literal("nobody waits for the call any more");
            context.finish(at, effect, EffectReport::failed(reason));
            return Ok(());
        };
        let (server, began) = (first.failing.caller.server(), first.failing.began);
        let (means, news) = (Arc::clone(&self.means), self.sender());
        spawn_thread("fix", move || {
            let fixed = means.fix(&fix, began, &mut |fix| server.carry_out(fix));
            let outcome = fixed.map_err(|error| error.to_string());
            // Nobody is left to tell when the run is over.
            let _ = news.send(CallNews::Fixed { at, effect, digest, outcome });
        });
        Ok(())
    }

    fn verify(
        &mut self,
        at: usize,
        effect: DueEffect,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let trial = context.cases.get(at).and_then(Case::trial);
        let name = trial.map(|trial| format!("ran `{}`", trial.remedy.text));
        let cause = self.places[at].cause.as_mut();
        if let Some(cause) = cause {
            let fix = trial.and_then(|trial| cause.fix(trial.remedy.digest));
            cause.doing = fix.map(|fix| fix.describe()).or(name);
        }
        match self.next_waiting(at, context.base.writer.store) {
            Some(call) => self.call_again(CallTrial { at, effect, call }),
            None => {
                let reason = Scrubbed::literal("nobody waits for the call any more");
                context.finish(at, effect, EffectReport::failed(reason));
            }
        }
        Ok(())
    }

    fn closed(&mut self, at: usize, over: &Incident, context: &mut SubjectContext<'_, '_>) {
        let Phase::Closed(outcome) = over.phase() else { return };
        let cause = self.places[at].cause.as_mut();
        let late = cause.map(|cause| std::mem::take(&mut cause.waiting)).unwrap_or_default();
        if let IncidentOutcome::Recovered(_) = outcome {
            // They failed before the fix was in place, and came after it was seen to help.
            let by = self.places[at].cause.as_ref().and_then(|cause| cause.doing.clone());
            for call in late {
                self.follow(call, by.clone().unwrap_or_default());
            }
        } else if let Some(cause) = self.places[at].cause.as_mut() {
            cause.waiting = late;
            let note = cause.in_vain();
            self.give_up(at, &note, context);
        }
        self.places[at] = CausePlace::default();
    }

    fn tend(
        &mut self,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<Option<Instant>, StoreError> {
        for failing in std::mem::take(&mut self.backlog) {
            self.take_in(failing, context)?;
        }
        while let Some(failing) = self.desk.take() {
            self.take_in(failing, context)?;
        }
        for at in 0..self.places.len() {
            let asks = context.cases.get(at).filter(|case| case.asks()).and_then(Case::incident);
            if let Some(id) = asks.map(|incident| incident.id().short()) {
                let note = format!("A person has to decide about this call: salve show {id}");
                self.give_up(at, &note, context);
            }
        }
        let due = self.unsynced.map(|since| since + SYNCED_AFTER);
        if due.is_some_and(|due| due <= Instant::now()) {
            self.means.sync_in(context.base.writer.store);
            self.unsynced = None;
            return Ok(None);
        }
        Ok(due)
    }

    fn hear(&mut self, context: &mut SubjectContext<'_, '_>) -> Result<(), StoreError> {
        let Some(news) = self.news.next() else { return Ok(()) };
        self.threads = self.threads.saturating_sub(1);
        match news {
            CallNews::Fixed { at, effect, digest, outcome } if context.is_due(at, effect) => {
                let report = match outcome {
                    Ok(()) => EffectReport::Done,
                    Err(why) => {
                        let cause = self.places[at].cause.as_mut();
                        let why = cause.map_or(why.clone(), |cause| cause.failed(digest, why));
                        EffectReport::failed(context.base.writer.scrubber.scrub(&why))
                    }
                };
                context.finish(at, effect, report);
            }
            CallNews::Verified { trial, answer } if context.is_due(trial.at, trial.effect) => {
                self.verified(*trial, answer, context);
            }
            CallNews::Followed { mut call, by, answer } => match answer {
                CallAnswer::Worked => self.healed(&mut call, &by, context),
                CallAnswer::Gone => {}
                CallAnswer::Failed { text } => {
                    call.failing.retries += 1;
                    call.failing.text = text;
                    self.take_in(call.failing, context)?;
                }
            },
            CallNews::Looked { mut call, note } => {
                let note = self.means.scrub(&note);
                call.failing.caller.give_up(Some(&call.call), Some(&note));
                self.record(&call, None, context.base.writer.store);
            }
            // Of an effect that is over: whoever waits is not left alone.
            CallNews::Verified { mut trial, answer } => {
                if let CallAnswer::Failed { .. } = answer {
                    trial.call.failing.caller.give_up(None, None);
                }
            }
            CallNews::Fixed { .. } => {}
        }
        Ok(())
    }

    fn stop(&mut self, _: i32, _: &mut SubjectContext<'_, '_>) {}

    fn is_idle(&self) -> bool {
        self.threads == 0
    }

    fn is_over(&mut self, cases: &[Case], _: &RunBase<'_>) -> bool {
        let is_done = |case: &Case| case.incident().is_none() || case.asks();
        let mut causes = self.places.iter().filter_map(|place| place.cause.as_ref());
        self.backlog.is_empty()
            && self.desk.is_empty()
            && cases.iter().all(is_done)
            && causes.all(|cause| cause.waiting.is_empty())
    }

    fn taken_away(&mut self, at: usize) {
        if let Some(mut cause) = self.places[at].cause.take() {
            for mut waiting in std::mem::take(&mut cause.waiting) {
                waiting.failing.caller.give_up(None, None);
            }
        }
    }
}
