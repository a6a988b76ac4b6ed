//! Whether a green check is the remedy's doing.
//!
//! A repair that changed files is run once more as it was before, and, where it touched what judges
//! it, once more with the judge as it was. What all that speaks for is run again as it is, for it
//! may be green by chance. Core weighs what that showed.

use jiff::Timestamp;
use salve_core::check::proof::{
    self, Before, Colour, Evidence, Failure, Keep, OldVerifier, Touched,
};
use salve_core::check::tamper::Weakening;
use salve_core::check::{self, Counts, Results};
use salve_core::event::{Effect, Event, IncidentEvent, Origin, Proof, RemedyKind, Report, Scope};
use salve_core::incident::{Incident, Run as Effecting};
use salve_core::scrub::Scrubbed;

use super::checkup::Checkup;
use super::trials::{Confirm, Extent, Question, Trial, Trials, lay};
use super::{Input, Ran, Remark};
use crate::heal::files::has_changed;
use crate::heal::shelf::Cure;
use crate::heal::{spawn_thread, verifier};
use crate::store::{StoreError, Stream};

/// What a verification found.
#[derive(Debug)]
pub(super) struct Conclusion {
    pub(super) proof: Proof,
    pub(super) why: Scrubbed,
    /// Whether the change was found needless and is undone.
    pub(super) taken_back: bool,
}

impl Conclusion {
    fn new(proof: Proof, why: Scrubbed) -> Self {
        Self { proof, why, taken_back: false }
    }
}

impl Checkup<'_, '_> {
    /// Finds out whether the remedy made the check green.
    pub(super) fn prove(&mut self, effect: Effecting, ran: &Ran) -> Result<(), StoreError> {
        let touched = self.touched();
        if self.has_no_tests() {
            let why = Scrubbed::literal("there are no tests to run, so nothing is proven");
            return self.conclude(effect, Conclusion::new(Proof::Transient, why));
        }
        if self.quest.is_some() {
            // What judges a loop's tests is the loop; here they only have to execute.
            let touched = match touched {
                Touched::Nothing => Touched::Nothing,
                Touched::Tree | Touched::Outside => Touched::Outside,
            };
            return self.judge(effect, touched, Results::default(), None);
        }
        let green = self.results(&ran.output);
        let (Some(before), Touched::Tree) = (self.name(Scope::Attempt), touched) else {
            return self.judge(effect, touched, green, None);
        };
        let question = Question {
            project: self.clinic.project.clone(),
            care: self.clinic.care.clone(),
            plan: self.plan.clone(),
            before,
            since: self.agents_start()?.max(self.case.packages_since),
            results: self.first_results(),
            took: ran.took,
            extent: if self.clinic.heal.proof { Extent::Full } else { Extent::Verifier },
            confirm: match self.is_prescribed() {
                true => Confirm::No,
                false => Confirm::Yes,
            },
        };
        self.case.green = Some(green);
        let post = self.clinic.inbox.0.clone();
        spawn_thread("proof", move || {
            let trials = Box::new(question.answer());
            // Nobody is left to tell when the run of Salve is over.
            let _ = post.send(Input::Tried { effect, trials });
        });
        Ok(())
    }

    /// Takes in what the runs beside the real tree showed.
    pub(super) fn tried(&mut self, effect: Effecting, trials: &Trials) -> Result<(), StoreError> {
        if self.case.effect != Some(effect) {
            return Ok(());
        }
        let green = self.case.green.take().unwrap_or_default();
        self.judge(effect, Touched::Tree, green, Some(trials))
    }

    fn judge(
        &mut self,
        effect: Effecting,
        touched: Touched,
        green: Results,
        trials: Option<&Trials>,
    ) -> Result<(), StoreError> {
        let mut earlier = self.case.earlier.clone();
        if self.is_rerun() {
            earlier.push(Colour::Green);
        }
        if self.is_prescribed() {
            // The cause was seen in the project's own state, so it would have failed again.
            earlier.push(Colour::Red);
        }
        let judged = proof::judge(&Evidence {
            now: Colour::Green,
            confirmed: trials.and_then(|trials| trials.confirmed),
            touched,
            earlier: &earlier,
            before: trials
                .and_then(|trials| trials.before.as_ref())
                .map_or(Before::Off, |trial| self.before(trial)),
            old_verifier: trials
                .and_then(|trials| trials.old_verifier.as_ref())
                .map_or(OldVerifier::Untouched, |trial| self.old_verifier(trial)),
            weakenings: trials.map_or(0, |trials| trials.weakenings.len()),
            counts_before: match self.quest.is_some() {
                true => Counts::default(),
                false => self.first_results().counts,
            },
            counts_after: green.counts,
        });
        let mut why = judged.ground.to_string();
        if let Some(trials) = trials {
            why.extend(trials.weakenings.iter().map(said));
            why.push_str(&said_of_packages(&trials.packages));
        }
        if let (Keep::AllButVerifier, Some(trials)) = (judged.keep, trials) {
            why.push_str(&self.give_verifier_back(trials));
        }
        match (judged.keep, touched) {
            (Keep::NotNeeded, Touched::Tree) => {
                self.doubt(effect, why);
                Ok(())
            }
            (Keep::All | Keep::AllButVerifier | Keep::NotNeeded | Keep::Nothing, _) => {
                let why = self.clinic.desk.scrubber.scrub(&why);
                self.conclude(effect, Conclusion::new(judged.proof, why))
            }
        }
    }

    /// Says what was found, and why.
    pub(super) fn conclude(
        &mut self,
        effect: Effecting,
        Conclusion { proof, why, taken_back }: Conclusion,
    ) -> Result<(), StoreError> {
        let told = match taken_back {
            true => {
                let text = format!("{why}\nthe change was not needed, and is undone");
                self.clinic.desk.scrubber.scrub(&text)
            }
            false => why.clone(),
        };
        self.remark(&Remark::Judged { proof, why: told });
        if let Some(incident) = self.incident.as_ref().map(Incident::id) {
            self.append(incident, IncidentEvent::ProofExplained { why, taken_back }.into())?;
        }
        self.finish(effect, Report::Verified { proof, symptom: None })
    }

    /// Puts what judges the check back as it was, which the repair did not need to change.
    fn give_verifier_back(&self, trials: &Trials) -> String {
        let root = self.clinic.project.root();
        if let Err(error) = lay(root, &trials.previous) {
            return format!("\nwhat judges it could not be put back: {error}");
        }
        if let Some(name) = self.name(Scope::Attempt) {
            // The state that the repair left is now another.
            let _unkept = has_changed(&self.clinic.project, name);
        }
        "\nthat was not needed, and is put back".to_owned()
    }

    /// Returns what the present remedy does, as far as this process knows.
    pub(super) fn cure(&self) -> Option<&Cure> {
        let digest = self.incident.as_ref()?.trial()?.remedy.digest;
        self.case.cures.iter().find(|cure| cure.digest == digest)
    }

    /// Returns whether the present remedy is only another run.
    fn is_rerun(&self) -> bool {
        let trial = self.incident.as_ref().and_then(Incident::trial);
        trial.is_some_and(|trial| trial.remedy.kind == RemedyKind::Retry)
    }

    /// Returns whether the playbook has the present remedy against the cause that was seen.
    fn is_prescribed(&self) -> bool {
        let trial = self.incident.as_ref().and_then(Incident::trial);
        trial.is_some_and(|trial| {
            trial.remedy.origin == Origin::Playbook && trial.remedy.kind != RemedyKind::Retry
        })
    }

    /// Returns what the remedy changed.
    fn touched(&self) -> Touched {
        let Some(trial) = self.incident.as_ref().and_then(Incident::trial) else {
            return Touched::Nothing;
        };
        match (trial.remedy.kind, trial.measured.and_then(|change| change.files)) {
            (RemedyKind::Retry, _) | (_, Some(0)) => Touched::Nothing,
            (RemedyKind::Agent | RemedyKind::Patch, _) => Touched::Tree,
            (RemedyKind::Command | RemedyKind::SoftReset | RemedyKind::HardReset, _) => {
                match self.case.changed {
                    true => Touched::Tree,
                    false => Touched::Outside,
                }
            }
        }
    }

    /// Returns when the agent of the present attempt began, if one did.
    fn agents_start(&self) -> Result<Option<Timestamp>, StoreError> {
        let Some(incident) = &self.incident else { return Ok(None) };
        let is_agents =
            incident.trial().is_some_and(|trial| trial.remedy.kind == RemedyKind::Agent);
        if !is_agents {
            return Ok(None);
        }
        let journal = self.clinic.desk.store.journal();
        let told = journal.read(0, &Stream::Incident(incident.id()), usize::MAX)?;
        let applies = |event: &Event| {
            matches!(
                event,
                Event::Incident(IncidentEvent::Requested { what: Effect::Apply { .. }, .. })
            )
        };
        Ok(told.iter().rev().find(|entry| applies(&entry.event)).map(|entry| entry.at))
    }

    /// Returns whether the unrepaired state failed as it had.
    fn before(&self, trial: &Trial) -> Before {
        let first = self.case.first.as_ref().map(|first| first.symptom.signature);
        // Of a failure that an earlier run of Salve saw, the journal knows what it was.
        let first = first.or_else(|| Some(self.incident.as_ref()?.trial()?.signature));
        let (ran, signature) = match (trial, first) {
            (Trial::NotRun(why), _) => return Before::NotRun(self.clinic.desk.scrubber.scrub(why)),
            (Trial::Ran(ran), _) if ran.is_green() => return Before::Green,
            (Trial::Ran(_), None) => {
                return Before::NotRun(Scrubbed::literal("an earlier run of Salve saw it"));
            }
            (Trial::Ran(ran), Some(signature)) => (ran, signature),
        };
        let again = self.examine(ran);
        proof::likeness(
            Failure { signature, results: &self.first_results() },
            Failure { signature: again.symptom.signature, results: &self.results(&ran.output) },
        )
    }

    fn old_verifier(&self, trial: &Trial) -> OldVerifier {
        match trial {
            Trial::Ran(ran) if ran.is_green() => OldVerifier::Green,
            Trial::Ran(_) => OldVerifier::Red,
            Trial::NotRun(why) => OldVerifier::NotRun(self.clinic.desk.scrubber.scrub(why)),
        }
    }

    /// Returns what a check's output says, with paths from where it runs.
    pub(super) fn results(&self, output: &str) -> Results {
        check::read(output).relative_to(&self.plan.dir.to_string_lossy())
    }

    pub(super) fn first_results(&self) -> Results {
        let first = self.case.first.as_ref();
        first.map(|first| self.results(first.output.as_str())).unwrap_or_default()
    }
}

/// Returns what has to be said of installed packages that were edited.
fn said_of_packages(edited: &[String]) -> String {
    match edited {
        [] => String::new(),
        edited => format!(
            "\nedited where it is installed, and not put back: {}\n\
             install the packages anew before the check is trusted again",
            edited.join(", ")
        ),
    }
}

/// Returns a weakening in words, on a line of its own.
fn said(weakening: &Weakening) -> String {
    format!("\n{}", verifier::said(weakening))
}
