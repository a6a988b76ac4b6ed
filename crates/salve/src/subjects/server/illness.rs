//! Servers in trouble that have not ended: most are ill, and an ill server is left running.

use salve_core::class::Class;
use salve_core::fingerprint::Hints;
use salve_core::incident::{Incident, Phase};
use salve_core::server::{may_be_debugged, self_reload};
use salve_core::watch::{FaultTold, ServerTrouble, TroubleCourse, course_of};

use super::life::ServerCare;
use super::{AfterEnd, Ailing, Debugging, Failing, ProcessState, StartCause};
use crate::heal::cause::Evidence;
use crate::heal::{RunIntent, SeenFailure, millis};
use crate::process::is_debugged;

/// What is said of a server that stands still under a debugger.
const IN_DEBUGGER: &str = "it does not answer and a debugger may hold it, so it is left alone";

impl ServerCare<'_, '_, '_> {
    /// Leaves a server in trouble running or ends it, and tells how it failed.
    pub(super) fn is_unwell(&mut self, ailing: Ailing) {
        let ProcessState::Up(life) = &mut self.server.state else { return };
        let mut family =
            self.context.base.care.families(std::slice::from_ref(&life.running)).concat();
        let main = life.running.process().pid;
        family.push(main);
        let own: Vec<String> =
            self.server.plan.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let commands: Vec<Vec<String>> =
            family.iter().copied().filter_map(command_line).chain([own]).collect();
        life.reload = self_reload(commands.iter().map(Vec::as_slice));
        let stands_still = match ailing.ailment {
            ServerTrouble::Hung | ServerTrouble::NotListening => true,
            ServerTrouble::Replaced | ServerTrouble::Unhealthy | ServerTrouble::Impaired => false,
        };
        let in_debugger = || {
            may_be_debugged(commands.iter().map(Vec::as_slice), &self.server.capture.tail())
                || family.iter().any(|pid| is_debugged(*pid, main))
        };
        if stands_still && life.verifies.is_none() && in_debugger() {
            return self.leave_to_debugger();
        }
        let said = self.server.capture.tail_since(life.good_until);
        let rules = self.context.base.rules;
        let told = match rules.fingerprint(&said, &Hints::default()).class {
            Class::Unknown => FaultTold::Silent,
            _ => FaultTold::Told,
        };
        let (uptime, verifies) = (life.since.elapsed(), life.verifies);
        let course = match self.context.base.intent {
            RunIntent::Heal => course_of(ailing.ailment, life.reload, told),
            RunIntent::Observe => TroubleCourse::LeaveRunning,
        };
        match course {
            TroubleCourse::End => self.clear(AfterEnd::Unwell { ailing, uptime, verifies }),
            TroubleCourse::LeaveRunning => {
                life.watch.leave_running(millis(uptime));
                life.was_ill = true;
                life.never_listened = ailing.ailment == ServerTrouble::NotListening;
                life.verifies = None;
                let failing = Failing {
                    exit: None,
                    uptime,
                    ailing: Some(ailing),
                    unstarted: None,
                    tree: None,
                    verifies,
                };
                self.server.cause = StartCause::Changed("it answers again".to_owned());
                self.is_ill(&failing);
            }
        }
    }

    /// Leaves a server alone that does not answer because somebody debugs it.
    fn leave_to_debugger(&mut self) {
        let ProcessState::Up(life) = &mut self.server.state else { return };
        life.watch.leave_running(millis(life.since.elapsed()));
        let before = std::mem::replace(&mut life.debugging, Debugging::StandsStill);
        if before == Debugging::NotSeen {
            self.context.note(self.at, IN_DEBUGGER);
        }
    }

    /// Tells that a server that should have started takes its time, once.
    pub(super) fn tell_slow(&mut self) {
        let startup = self.server.plan.timing.startup;
        let ProcessState::Up(life) = &mut self.server.state else { return };
        let ran = life.since.elapsed();
        if ran < startup || life.watch.is_well() || std::mem::replace(&mut life.slow_told, true) {
            return;
        }
        let fault = life.fault.as_deref().unwrap_or("no answer yet");
        let text = format!(
            "after {} s: {fault}; it works on something, so it is left alone",
            ran.as_secs()
        );
        self.context.note(self.at, &text);
    }

    /// Tells what is wrong with a server that is left running, once.
    pub(super) fn is_ill(&mut self, failing: &Failing) {
        let evidence = self.examine(failing);
        if failing.verifies.is_none() && self.fails_as_before(&evidence) {
            return;
        }
        let (took, before) = (failing.uptime, Vec::new());
        let (verifies, waiter) = (failing.verifies, None);
        self.context.failed(self.at, SeenFailure { evidence, took, before, verifies, waiter });
    }

    /// Tells whether a failure is the one that a person is asked about already.
    pub(super) fn fails_as_before(&self, evidence: &Evidence) -> bool {
        let is_asked = |incident: &Incident| {
            let asks = matches!(incident.phase(), Phase::Asking { .. });
            asks && incident.history().has_seen(evidence.symptom.signature)
        };
        self.context.cases.get(self.at).is_some_and(|case| case.incidents().any(is_asked))
    }
}

/// Returns the words by which a process was started.
fn command_line(pid: u32) -> Option<Vec<String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}
