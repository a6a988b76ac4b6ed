//! What a check shows before an agent's change is brought into the tree.
//!
//! With the change it runs in the agent's private layer, and without it where the user works, at the
//! same time as ever: where it passes there and fails here, the change is what made it pass. Core
//! weighs it by the same table as everything else.
//!
//! **Invariant:** a change that weakens what judges it, or that the check does not need, never reaches
//! the tree.

use salve_core::check::proof::{Keep, Touched};
use salve_core::event::{EffectReport, Proof, Scope};

use super::CheckNews;
use super::prove::{Prover, RepairedWhat, ShownBefore, said};
use super::trials::{CheckTrials, Confirm, ProofExtent, ShownInLayer, TrialOutcome, TrialQuestion};
use crate::heal::judging_command::ONLY;
use crate::heal::run::CommandRunEnd;
use crate::heal::spawn_thread;
use crate::workspace::{Moment, Workspace};

/// What a program says that wants to write where the layer lets nobody write.
const READ_ONLY: [&str; 2] = ["Read-only file system", "EROFS"];

/// What becomes of an effect once a check was run in a layer.
pub(super) enum LayerVerdict<'r> {
    /// It was told.
    Told,
    /// The check is red with the change, which the subject has to tell.
    Red(&'r CommandRunEnd),
}

impl Prover<'_, '_, '_> {
    /// Begins to run the check with the change, and without.
    pub(super) fn show_in_layer(&mut self) {
        self.state.shown = None;
        if self.state.what == RepairedWhat::Reported {
            // The check is green without it: only the tests that it brings show what it is for.
            return self.context.finish(ONLY, self.effect, EffectReport::Done);
        }
        let (before, layer) = match self.case() {
            Some(case) => (case.snapshot(Scope::Attempt), case.layer().cloned()),
            None => (None, None),
        };
        let Some(before) = before else {
            return self.context.finish(ONLY, self.effect, EffectReport::Done);
        };
        let question = TrialQuestion {
            project: self.context.base.project.clone(),
            care: self.context.base.care.clone(),
            plan: self.plan.clone(),
            before,
            after: before.at(Moment::InLayer),
            since: None,
            results: self.first_results(),
            took: self.plan.limit,
            extent: if self.terms.proof { ProofExtent::Full } else { ProofExtent::Verifier },
            confirm: Confirm::No,
        };
        let (news, effect) = (self.news.clone(), self.effect);
        spawn_thread("layer", move || {
            let shown = Box::new(question.answer_in_layer(layer.as_deref()));
            // Nobody is left to tell when the run is over.
            let _ = news.send(CheckNews::ShownInLayer { effect, shown });
        });
    }

    /// Says what the runs mean for the change.
    pub(super) fn judge_in_layer<'s>(&mut self, shown: &'s ShownInLayer) -> LayerVerdict<'s> {
        let ran = match &shown.with {
            TrialOutcome::NotRun(why) => return self.go_on_unseen(why),
            TrialOutcome::Ran(ran) if ran.is_green() => ran,
            TrialOutcome::Ran(ran) if READ_ONLY.iter().any(|words| ran.output.contains(words)) => {
                return self.go_on_unseen("it writes where a private layer lets nobody write");
            }
            TrialOutcome::Ran(ran) => return LayerVerdict::Red(ran),
        };
        let green = self.results(&ran.output);
        let judged = self.weigh(Touched::Tree, &green, Some(&shown.trials));
        let mut why = judged.ground.to_string();
        why.extend(shown.trials.weakenings.iter().map(said));
        match (judged.proof, judged.keep) {
            (Proof::Masked | Proof::Flaky | Proof::Failed, _) | (_, Keep::Nothing) => {
                self.conclude(judged.proof, &why);
            }
            (Proof::Proven | Proof::Transient, Keep::NotNeeded) => {
                why.push_str("\nthe change was not needed, and is left out");
                self.conclude(Proof::Transient, &why);
            }
            (Proof::Proven | Proof::Transient, Keep::All) => {
                self.bring_in(shown.trials.clone(), String::new());
            }
            (Proof::Proven | Proof::Transient, Keep::AllButVerifier) => {
                let note = self.leave_verifier_out(&shown.trials);
                let before = shown.trials.before.clone();
                self.bring_in(CheckTrials { before, ..CheckTrials::default() }, note);
            }
        }
        LayerVerdict::Told
    }

    /// Lets the change show what it does where the user works: in the layer that cannot be seen.
    fn go_on_unseen(&mut self, why: &str) -> LayerVerdict<'static> {
        let text = format!("it could not be checked in the private layer: {why}");
        self.context.note(ONLY, &text);
        self.context.finish(ONLY, self.effect, EffectReport::Done);
        LayerVerdict::Told
    }

    fn bring_in(&mut self, trials: CheckTrials, note: String) {
        let attempt = self.context.incident(ONLY).map(salve_core::incident::Incident::attempt);
        self.state.shown = attempt.map(|attempt| ShownBefore { attempt, trials, note });
        self.context.finish(ONLY, self.effect, EffectReport::Done);
    }

    /// Takes what the repair did to what judges it out of the change; returns what is said of it.
    fn leave_verifier_out(&self, trials: &CheckTrials) -> String {
        let weakened: String = trials.weakenings.iter().map(said).collect();
        let name = self.case().and_then(|case| case.snapshot(Scope::Attempt));
        let amend = || {
            let Some(name) = name else { return Ok(()) };
            Workspace::open(&self.context.base.project)?
                .attempts()
                .amend_layer(name, &trials.previous)
        };
        match amend() {
            Ok(()) => format!("{weakened}\nthat was not needed, and is left out"),
            Err(error) => format!("{weakened}\nwhat judges it could not be left out: {error}"),
        }
    }
}
