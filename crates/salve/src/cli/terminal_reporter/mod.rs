//! Shows what happens to what is under care: lines for people, facts for programs.

mod facts;
mod fit;
mod lines;
mod plea;
mod progress;
mod remarks;

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use salve_core::earned::EarningTerms;
use salve_core::event::{Effect, Entry, Event, IncidentEvent, IncidentOutcome, Proof, RuleKey};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Phase, RepairPhase};
use salve_core::repair::{self};
use salve_core::scrub::Scrubbed;
use salve_core::view::IncidentView;

use self::facts::{GreenCheck, IncidentResult, PhaseFact, RunResult, UpFact, whole_ms};
pub(in crate::cli) use self::fit::window_width;
pub(in crate::cli) use self::lines::{Colours, Grade, TerminalLine};
use self::lines::{SKIPPED, lines};
pub(in crate::cli) use self::plea::AnswerWay;
use self::plea::is_answered_by_keys;
pub(in crate::cli) use self::progress::WorkProgress;
use self::remarks::plain_line;
use super::Output;
use super::dev::keys::KeysOnceAsked;
use crate::heal::earned::proposed;
use crate::heal::{Remark, Reporter};
use crate::process::{Outlet, WorkOutput};
use crate::store::{Store, Stream};

/// Tells what happens, to whoever reads.
pub(in crate::cli) struct TerminalReporter<'a> {
    pub(in crate::cli) outlet: Arc<Outlet>,
    pub(in crate::cli) out: &'a Output,
    pub(in crate::cli) store: &'a Store,
    /// Whether several servers share the terminal.
    pub(in crate::cli) several: bool,
    /// How a person answers.
    pub(in crate::cli) answers: AnswerWay,
    /// The keys that answer what is asked about a check.
    pub(in crate::cli) keys: Option<KeysOnceAsked>,
    /// How commands earn their approval.
    pub(in crate::cli) terms: EarningTerms,
    /// The incidents that are not over.
    pub(in crate::cli) views: HashMap<IncidentId, IncidentView>,
    /// What the last verification of each server saw.
    pub(in crate::cli) checked: HashMap<String, String>,
    /// What is told when the run ends.
    pub(in crate::cli) told: RunTold,
    /// What the work under way writes.
    pub(in crate::cli) work: WorkOutput,
    /// The line that shows that it goes on.
    pub(in crate::cli) progress: Option<WorkProgress>,
}

/// What a run has told so far, for its last line.
#[derive(Debug)]
pub(in crate::cli) struct RunTold {
    begun: Instant,
    over: Vec<IncidentResult>,
    green: Vec<GreenCheck>,
}

impl RunTold {
    /// Returns what a run has told that begins now.
    pub(in crate::cli) fn begin() -> Self {
        Self { begun: Instant::now(), over: Vec::new(), green: Vec::new() }
    }
}

/// Returns the last line of `--json` for checks that were only run.
pub(in crate::cli) fn bare_result(
    exit_code: u8,
    took: Duration,
    green: &[(String, Duration)],
) -> impl serde::Serialize {
    let green = green.iter();
    let green =
        green.map(|(name, took)| GreenCheck { name: name.clone(), duration_ms: whole_ms(*took) });
    RunResult::bare(exit_code, took, green.collect())
}

impl TerminalReporter<'_> {
    fn say(&self, server: &str, line: &TerminalLine) {
        let mut line = line.clone();
        if self.several {
            line.text = format!("{server}: {}", line.text);
        }
        self.tell(&line);
    }

    /// Says a line of the whole run; only what needs somebody is said where quiet is wanted.
    pub(in crate::cli) fn tell(&self, line: &TerminalLine) {
        if self.out.global().quiet && line.grade != Grade::Grave {
            return;
        }
        self.outlet.say(&line.clone().fitted(window_width()).show(Colours::on(&std::io::stderr())));
    }

    /// Takes an entry into its incident's view.
    fn hear(&mut self, id: IncidentId, entry: &Entry) -> Option<&IncidentView> {
        if let Some(view) = self.views.get_mut(&id) {
            view.hear(entry.clone());
        } else {
            let view = match &entry.event {
                Event::Incident(IncidentEvent::Opened { .. }) => {
                    IncidentView::begin(entry.clone()).ok()?
                }
                // An earlier run of Salve opened it.
                _ => self.recall(id, entry)?,
            };
            self.views.insert(id, view);
        }
        self.views.get(&id)
    }

    /// Tells an incident from the journal, up to an entry.
    fn recall(&self, id: IncidentId, last: &Entry) -> Option<IncidentView> {
        let entries = self.store.journal().read(0, &Stream::Incident(id), usize::MAX).ok()?;
        IncidentView::of(entries.into_iter().take_while(|entry| entry.seq <= last.seq)).ok()
    }

    /// Shows that long work goes on, where somebody watches.
    fn show_progress(&mut self, what: Option<String>) {
        // The line before goes first, so that both are never there.
        self.progress = None;
        let is_watched =
            std::io::stderr().is_terminal() && !self.out.json() && !self.out.global().quiet;
        let what = what.filter(|_| is_watched);
        self.progress = what.map(|what| WorkProgress::begin(what, &self.outlet, &self.work));
    }

    /// Shows or ends the line for long work, as an entry of an incident says.
    fn follow_work(&mut self, incident: &Incident, event: &Event) {
        match event {
            Event::Incident(IncidentEvent::Requested { what: Effect::Apply { .. }, .. }) => {
                let what = incident.trial().map(|trial| trial.remedy.text.to_string());
                self.show_progress(what);
            }
            Event::Incident(IncidentEvent::AgentLaunched { agent, .. }) => {
                self.show_progress(Some(format!("{agent} works")));
            }
            Event::Incident(IncidentEvent::Opened { .. } | IncidentEvent::Finished { .. }) => {
                self.show_progress(None);
            }
            _ => {}
        }
    }

    /// Says what an entry of an incident brought about.
    fn heard(&mut self, server: &str, incident: &Incident, entry: &Entry) {
        let (checked, answers) = (self.checked.get(server).cloned(), self.answers);
        let Some(view) = self.hear(incident.id(), entry) else { return };
        let mut said = lines(view, checked.as_deref(), answers);
        if let Some(busy) = self.repair_under_way(incident.id()) {
            let is_skipped =
                |line: &&mut TerminalLine| line.verb == SKIPPED && line.grade == Grade::Grave;
            let skipped = said.iter_mut().filter(is_skipped);
            skipped.for_each(|line| *line = lines::skipped_beside(busy));
        }
        if self.out.json() {
            if let Some(view) = self.views.get(&incident.id()) {
                self.facts(server, view);
            }
        } else {
            for line in &said {
                self.say(server, line);
            }
        }
        self.hear_answer(incident.id());
        self.follow_work(incident, &entry.event);
        if let Event::Incident(IncidentEvent::Ended {
            outcome: IncidentOutcome::Recovered(Proof::Proven),
        }) = &entry.event
        {
            self.propose(server, incident);
        }
        // The incident itself may be further than what was told of it.
        let told = self.views.get(&incident.id()).map(|view| view.incident().phase());
        if matches!(told, Some(Phase::Closed(_))) {
            let over = self.views.remove(&incident.id());
            self.told.over.extend(over.as_ref().map(IncidentResult::of));
        }
    }

    /// Returns the repair that is under way of what an incident is about, beside that one.
    fn repair_under_way(&self, id: IncidentId) -> Option<IncidentId> {
        let subject = self.views.get(&id)?.subject();
        let is_busy = |view: &&IncidentView| match view.incident().phase() {
            Phase::Choosing | Phase::Due { .. } | Phase::Doing { .. } => true,
            Phase::Asking { .. }
            | Phase::CoolingDown { .. }
            | Phase::Ending { .. }
            | Phase::Closed(_) => false,
        };
        let mut others = self.views.values().filter(|view| view.id() != id);
        others.find(|view| view.subject() == subject && is_busy(view)).map(IncidentView::id)
    }

    /// Begins to hear the keys for a question that waits here for its answer.
    fn hear_answer(&mut self, id: IncidentId) {
        let asks = |view: &IncidentView| is_answered_by_keys(view, self.answers);
        if !self.views.get(&id).is_some_and(asks) {
            return;
        }
        if let Some(keys) = &mut self.keys {
            keys.ask(id);
        }
    }

    /// Proposes to let the command that has just healed run unattended, if it has earned that.
    fn propose(&self, server: &str, incident: &Incident) {
        let Some((remedy, signature)) = incident.credit() else { return };
        let key = RuleKey { signature, remedy: remedy.digest };
        // What cannot be read now is shown by `salve rules` later.
        let Ok(Some(rule)) = proposed(self.store, key, self.terms, Timestamp::now()) else {
            return;
        };
        let (times, id) = (rule.streak(), key.short());
        let text = format!(
            "`{}` was approved and proven to help {times} times; it could run unattended\n\
             salve rules accept {id}",
            rule.command
        );
        if !self.out.json() {
            self.say(server, &TerminalLine::new(Grade::News, "proposes", text));
        }
    }

    /// Prints the last line of `--json`: how the run ended and what came of each incident.
    pub(in crate::cli) fn conclude(&self, exit_code: u8) {
        if !self.out.json() {
            return;
        }
        let mut open: Vec<&IncidentView> = self.views.values().collect();
        open.sort_by_key(|view| view.opened_at());
        let open = open.into_iter().map(IncidentResult::of);
        let incidents: Vec<_> = self.told.over.iter().cloned().chain(open).collect();
        let spent = RunResult::sum(&incidents);
        let (took, green) = (self.told.begun.elapsed(), self.told.green.clone());
        let cost = spent.cost_in_words();
        let result =
            RunResult { incidents, spent, cost, ..RunResult::bare(exit_code, took, green) };
        // Whoever read it has gone.
        let _ = self.out.fact(&result);
    }

    /// Prints that a server answers.
    fn tell_up(&self, server: &str, url: Option<&Scrubbed>, after: Duration, status: Option<u16>) {
        if self.out.json() {
            // Whoever read it has gone; the servers go on.
            let _ = self.out.fact(&UpFact::new(server, url.map(Scrubbed::as_str), after, status));
        }
    }

    /// Prints what an incident still asks.
    fn asks(&self, check: &str, view: &IncidentView) {
        let Some(ask) = repair::ask(view) else { return };
        self.needs_person(check, view, &ask.why);
    }

    /// Prints that the run leaves an incident to a person which cools down; with the give-up itself
    /// a person was told, and what only restarts has no such phase.
    fn left_to_person(&self, subject: &str, incident: IncidentId) {
        let cools = |view: &&IncidentView| {
            let last = view.lines().last().map(|line| &line.notices);
            last.is_some_and(|all| all.iter().any(|one| one.phase == RepairPhase::Cooldown))
        };
        let view = self.views.get(&incident).filter(|_| self.out.json());
        if let Some(view) = view.filter(cools) {
            self.needs_person(subject, view, LEFT_TO_PERSON);
        }
    }

    /// Prints that an incident is a person's from now on, and why.
    fn needs_person(&self, subject: &str, view: &IncidentView, why: &str) {
        let Some(last) = view.lines().last() else { return };
        let fact = PhaseFact {
            version: 1,
            kind: "phase",
            at: last.entry.at,
            server: subject,
            repair_id: view.id().to_string(),
            phase: RepairPhase::FailedRequiresHuman,
            attempt: last.attempt,
            message: why,
            findings: view.incident().findings(),
        };
        // Whoever read it has gone.
        let _ = self.out.fact(&fact);
    }

    /// Prints the phases that the last entry of a view brought about.
    fn facts(&self, server: &str, view: &IncidentView) {
        let Some(last) = view.lines().last() else { return };
        for notice in &last.notices {
            let fact = PhaseFact {
                version: 1,
                kind: "phase",
                at: last.entry.at,
                server,
                repair_id: view.id().to_string(),
                phase: notice.phase,
                attempt: last.attempt,
                message: &notice.message,
                findings: match notice.phase {
                    RepairPhase::FailedRequiresHuman | RepairPhase::Exhausted => {
                        view.incident().findings()
                    }
                    _ => &[],
                },
            };
            // Whoever read it has gone; the servers go on.
            let _ = self.out.fact(&fact);
        }
    }
}

/// Why an incident that cools down is a person's when the run ends.
const LEFT_TO_PERSON: &str =
    "All repair attempts exhausted. Nothing is tried until you start it again.";

impl Reporter for TerminalReporter<'_> {
    fn entry(&mut self, subject: &str, incident: &Incident, entry: &Entry) {
        self.heard(subject, incident, entry);
    }

    fn remark(&mut self, subject: &str, remark: &Remark) {
        let line = match remark {
            Remark::Well { url, after, status } => {
                self.tell_up(subject, url.as_ref(), *after, *status);
                plain_line(subject, remark)
            }
            Remark::Verified { url, soak } => {
                let stable = match soak.as_secs_f64() {
                    0.0 => String::new(),
                    soak => format!(", stable {soak:.1} s"),
                };
                let checked = match url {
                    Some(url) => format!("its own process answers at {url}{stable}"),
                    None => "its process stays up".to_owned(),
                };
                self.checked.insert(subject.to_owned(), checked);
                None
            }
            Remark::Running { command } => {
                self.show_progress(Some(format!("`{command}`")));
                plain_line(subject, remark)
            }
            Remark::Green { took } => {
                self.show_progress(None);
                let green = GreenCheck { name: subject.to_owned(), duration_ms: whole_ms(*took) };
                self.told.green.push(green);
                plain_line(subject, remark)
            }
            Remark::Judged { proof, why } => {
                self.checked.insert(subject.to_owned(), format!("{}: {why}", proof_word(*proof)));
                judged_line(*proof, why)
            }
            Remark::Asks { incident } => {
                let view = self.views.get(incident);
                if let Some(view) = view.filter(|_| self.out.json()) {
                    self.asks(subject, view);
                }
                view.and_then(|view| lines::asks(view, self.answers))
            }
            Remark::LeftToPerson { incident } => {
                self.left_to_person(subject, *incident);
                None
            }
            _ => plain_line(subject, remark),
        };
        // Facts are for programs; what a person should know is said beside them.
        let is_shown = !self.out.json() || matches!(remark, Remark::Note(_));
        if let Some(line) = line.filter(|_| is_shown) {
            self.say(subject, &line);
        }
    }
}

/// Returns what is said of a green check that proves less than it seems to.
fn judged_line(proof: Proof, why: &Scrubbed) -> Option<TerminalLine> {
    match proof {
        Proof::Masked => Some(TerminalLine::new(Grade::Grave, "masked", why.to_string())),
        Proof::Flaky => Some(TerminalLine::new(Grade::News, "flaky", why.to_string())),
        Proof::Proven | Proof::Transient | Proof::Failed => None,
    }
}

fn proof_word(proof: Proof) -> &'static str {
    match proof {
        Proof::Proven => "proven",
        Proof::Transient => "transient",
        Proof::Flaky => "flaky",
        Proof::Masked => "masked",
        Proof::Failed => "failed",
    }
}
