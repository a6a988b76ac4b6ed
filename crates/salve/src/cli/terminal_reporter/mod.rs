//! Shows what happens to what is under care: lines for people, facts for programs.

mod fit;
mod lines;

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::Arc;

use jiff::Timestamp;
use salve_core::earned::EarningTerms;
use salve_core::event::{Entry, Event, IncidentEvent, IncidentOutcome, Proof, RuleKey};
use salve_core::id::IncidentId;
use salve_core::incident::{Incident, Phase, RepairPhase};
use salve_core::playbook::PlaybookFinding;
use salve_core::repair::{self};
use salve_core::view::IncidentView;
use serde::Serialize;

pub(in crate::cli) use self::fit::window_width;
use self::lines::lines;
pub(in crate::cli) use self::lines::{Grade, TerminalLine};
use super::Output;
use crate::heal::earned::proposed;
use crate::heal::{Remark, Reporter};
use crate::process::Outlet;
use crate::store::{Store, Stream};

/// Tells what happens, to whoever reads.
pub(in crate::cli) struct TerminalReporter<'a> {
    pub(in crate::cli) outlet: Arc<Outlet>,
    pub(in crate::cli) out: &'a Output,
    pub(in crate::cli) store: &'a Store,
    /// Whether several servers share the terminal.
    pub(in crate::cli) several: bool,
    /// How commands earn their approval.
    pub(in crate::cli) terms: EarningTerms,
    /// The incidents that are not over.
    pub(in crate::cli) views: HashMap<IncidentId, IncidentView>,
    /// What the last verification of each server saw.
    pub(in crate::cli) checked: HashMap<String, String>,
}

/// What `--json` prints: one turn a line.
#[derive(Serialize)]
struct IncidentReportLine<'a> {
    version: u32,
    at: Timestamp,
    server: &'a str,
    #[serde(rename = "repairId")]
    repair_id: String,
    phase: RepairPhase,
    attempt: u32,
    message: &'a str,
    /// What was found out about the cause, where a person has to go on.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    findings: &'a [PlaybookFinding],
}

impl TerminalReporter<'_> {
    fn say(&self, server: &str, line: &TerminalLine) {
        if self.out.global().quiet && line.grade == Grade::News {
            return;
        }
        let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let mut line = line.clone();
        if self.several {
            line.text = format!("{server}: {}", line.text);
        }
        self.outlet.say(&line.fitted(window_width()).show(coloured));
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

    /// Says what an entry of an incident brought about.
    fn heard(&mut self, server: &str, incident: &Incident, entry: &Entry) {
        let checked = self.checked.get(server).cloned();
        let Some(view) = self.hear(incident.id(), entry) else { return };
        let said = lines(view, checked.as_deref());
        if self.out.json() {
            if let Some(view) = self.views.get(&incident.id()) {
                self.facts(server, view);
            }
        } else {
            for line in &said {
                self.say(server, line);
            }
        }
        if let Event::Incident(IncidentEvent::Ended {
            outcome: IncidentOutcome::Recovered(Proof::Proven),
        }) = &entry.event
        {
            self.propose(server, incident);
        }
        if matches!(incident.phase(), Phase::Closed(_)) {
            self.views.remove(&incident.id());
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

    /// Prints what an incident still asks.
    fn asks(&self, check: &str, view: &IncidentView) {
        let Some(ask) = repair::ask(view) else { return };
        self.needs_person(check, view, &ask.why);
    }

    /// Prints that an incident is a person's from now on, and why.
    fn needs_person(&self, subject: &str, view: &IncidentView, why: &str) {
        let Some(last) = view.lines().last() else { return };
        let fact = IncidentReportLine {
            version: 1,
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
            let fact = IncidentReportLine {
                version: 1,
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
            Remark::Started { command } => {
                TerminalLine::new(Grade::News, "watching", format!("`{command}`"))
            }
            Remark::Well { url: Some(url), after, status } => lines::up(url, *after, *status),
            Remark::TriedAgain { command, why } => {
                TerminalLine::new(Grade::News, "again", format!("`{command}`: {why}"))
            }
            Remark::StillFails { line, missing } => lines::still(line, missing.as_deref()),
            // Quiet when healthy: there is nothing to tell about where it answers.
            Remark::Well { url: None, .. } => return,
            Remark::Verified { url, soak } => {
                let soak = soak.as_secs_f64();
                let checked = match url {
                    Some(url) => format!("its own process answers at {url}, stable {soak:.1} s"),
                    None => "its process stays up".to_owned(),
                };
                self.checked.insert(subject.to_owned(), checked);
                return;
            }
            Remark::Ended { .. } => TerminalLine::new(Grade::Good, "ended", "exit 0"),
            Remark::Stopped => TerminalLine::new(Grade::News, "stopped", ""),
            Remark::Running { command } => {
                TerminalLine::new(Grade::News, "checking", format!("`{command}`"))
            }
            Remark::Green { took } => green_line(subject, *took),
            Remark::Watches { once } => watching_line(once.as_deref()),
            Remark::Judged { proof, why } => {
                self.checked.insert(subject.to_owned(), format!("{}: {why}", proof_word(*proof)));
                match proof {
                    Proof::Masked => TerminalLine::new(Grade::Grave, "masked", why.to_string()),
                    Proof::Flaky => TerminalLine::new(Grade::News, "flaky", why.to_string()),
                    Proof::Proven | Proof::Transient | Proof::Failed => return,
                }
            }
            Remark::Asks { incident } => {
                let Some(view) = self.views.get(incident) else { return };
                if self.out.json() {
                    return self.asks(subject, view);
                }
                let Some(line) = lines::asks(view) else { return };
                line
            }
            // A person was told with the give-up itself, and what only restarts has no such phase.
            Remark::LeftToPerson { incident } => {
                let cools = |view: &&IncidentView| {
                    let last = view.lines().last().map(|line| &line.notices);
                    last.is_some_and(|all| all.iter().any(|one| one.phase == RepairPhase::Cooldown))
                };
                let view = self.views.get(incident).filter(|_| self.out.json());
                if let Some(view) = view.filter(cools) {
                    self.needs_person(subject, view, LEFT_TO_PERSON);
                }
                return;
            }
            Remark::Note(text) => TerminalLine::new(Grade::News, "note", text.to_string()),
        };
        // Facts are for programs; what a person should know is said beside them.
        if !self.out.json() || matches!(remark, Remark::Note(_)) {
            self.say(subject, &line);
        }
    }
}

/// Returns the word for a proof.
fn proof_word(proof: Proof) -> &'static str {
    match proof {
        Proof::Proven => "proven",
        Proof::Transient => "transient",
        Proof::Flaky => "flaky",
        Proof::Masked => "masked",
        Proof::Failed => "failed",
    }
}

/// Returns what is said of a check that is green.
fn green_line(check: &str, took: std::time::Duration) -> TerminalLine {
    TerminalLine::new(Grade::Good, "green", format!("`{check}` in {:.1} s", took.as_secs_f64()))
}

/// Returns what is said of a check that watches, and which command would end.
fn watching_line(once: Option<&str>) -> TerminalLine {
    let instead = match once {
        Some(once) => format!("`{once}` does not"),
        None => "name a command that ends by itself".to_owned(),
    };
    let text = format!("this watches for edits, so it was ended; {instead}");
    TerminalLine::new(Grade::Grave, "watches", text)
}
