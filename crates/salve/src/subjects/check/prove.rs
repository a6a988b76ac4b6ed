//! Whether a green check is the remedy's doing.
//!
//! A repair that changed files is run once more as it was before, and, where it touched what judges
//! it, once more with the judge as it was. What all that speaks for is run again as it is, for it
//! may be green by chance. Core weighs what that showed.
//!
//! A change that may not have been needed is taken back, and the check shows whether it was. That
//! the state before it passed in a directory beside the tree is no certainty: what the check
//! depends on may be another there. So the tree itself is put back. If the check passes there too,
//! the change stays away; if it fails, the change was needed after all and returns.
//!
//! **Invariant:** what is concluded is of the very tree that the check ran in last, and was green in.

use jiff::Timestamp;
use salve_core::check::proof::{
    self, Before, CheckFailure, Colour, Judged, Keep, OldVerifier, ProofEvidence, ProofGround,
    Touched,
};
use salve_core::check::tamper::Weakening;
use salve_core::check::{self, Results};
use salve_core::event::{
    Effect, EffectReport, Event, IncidentEvent, Proof, RemedyKind, RemedyOrigin, Scope,
};
use salve_core::incident::{DueEffect, Incident};
use salve_core::scrub::Scrubbed;

use super::check_subject::examine;
use super::trials::{CheckTrials, Confirm, ProofExtent, TrialOutcome, TrialQuestion, lay};
use super::{CheckNews, CheckTerms};
use crate::heal::files::has_changed;
use crate::heal::inbox::NewsSender;
use crate::heal::judging_command::ONLY;
use crate::heal::run::{CommandPlan, CommandRunEnd};
use crate::heal::{Case, SubjectContext, VerifiedFinding, files, spawn_thread, verifier};
use crate::workspace::Moment;

/// What is known of how a check came out, for the proof of its repair.
#[derive(Debug, Default)]
pub(super) struct ProofState {
    /// How the unrepaired state came out, each time that it ran.
    earlier: Vec<Colour>,
    /// Whether it is only being run again.
    is_again: bool,
    /// The change that may not have been needed, while that is found out.
    doubt: Option<Doubt>,
    /// What the green run that is being proven said.
    green: Option<Results>,
    /// What is repaired.
    pub(super) what: RepairedWhat,
    /// What the check showed before the change of an attempt was brought into the tree.
    pub(super) shown: Option<ShownBefore>,
    /// What has to be said with the proof besides.
    note: String,
}

/// What a repair is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RepairedWhat {
    #[default]
    RedCheck,
    /// Something that was reported while the check is green.
    Reported,
}

/// What a check showed before the change of an attempt was brought into the tree.
#[derive(Debug)]
pub(super) struct ShownBefore {
    pub(super) attempt: u32,
    pub(super) trials: CheckTrials,
    /// What has to be said besides.
    pub(super) note: String,
}

/// A change without which the check passed in a directory beside the tree.
#[derive(Debug)]
struct Doubt {
    /// Why it is in doubt.
    why: String,
    /// Whether the tree is without it now.
    tree: DoubtedTree,
}

/// How the tree is while a change is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DoubtedTree {
    /// As it was before the change.
    Without,
    /// With the change again.
    With,
}

impl ProofState {
    /// Begins to verify a remedy.
    pub(super) fn begin(&mut self, is_again: bool) {
        self.is_again = is_again;
        self.doubt = None;
    }

    /// Begins with what was reported while the check is green.
    pub(super) fn of_reported() -> Self {
        Self { what: RepairedWhat::Reported, ..Self::default() }
    }

    /// Takes in that the unrepaired state was green before, on the same files.
    pub(super) fn was_green_unrepaired(&mut self) {
        self.earlier.push(Colour::Green);
    }

    /// Takes in that the unrepaired state was red.
    pub(super) fn was_red_unrepaired(&mut self) {
        self.earlier.push(Colour::Red);
    }

    /// Takes in that the check was red when a remedy was verified.
    pub(super) fn was_red(&mut self) {
        self.doubt = None;
        if self.is_again {
            self.earlier.push(Colour::Red);
        }
    }

    /// Tells whether a run settles a doubt about a change.
    pub(super) fn is_settled_by(&self, is_green: bool) -> bool {
        self.doubt.as_ref().is_some_and(|doubt| is_green || doubt.tree == DoubtedTree::Without)
    }
}

/// What the runs beside the real tree showed, and what is to be said with it.
#[derive(Clone, Copy)]
struct NotedTrials<'t> {
    trials: &'t CheckTrials,
    note: &'t str,
}

/// Finds out whether a remedy made a check green.
pub(super) struct Prover<'p, 'c, 'a> {
    pub(super) plan: &'p CommandPlan,
    pub(super) terms: &'p CheckTerms,
    pub(super) state: &'p mut ProofState,
    pub(super) news: NewsSender<CheckNews>,
    /// The effect that is verified.
    pub(super) effect: DueEffect,
    pub(super) context: &'p mut SubjectContext<'c, 'a>,
}

impl Prover<'_, '_, '_> {
    /// Begins with a check that is green.
    pub(super) fn prove(&mut self, ran: &CommandRunEnd) {
        let touched = self.touched();
        let green = self.results(&ran.output);
        let attempt = self.context.incident(ONLY).map(Incident::attempt);
        let shown = self.state.shown.take().filter(|one| Some(one.attempt) == attempt);
        let before = self.case().and_then(|case| case.snapshot(Scope::Attempt));
        let (Some(before), Touched::Tree) = (before, touched) else {
            return self.judge(touched, &green, None);
        };
        let question = TrialQuestion {
            project: self.context.base.project.clone(),
            care: self.context.base.care.clone(),
            plan: self.plan.clone(),
            before,
            after: before.at(Moment::After),
            since: self.agents_start(),
            results: self.first_results(),
            took: ran.took,
            extent: match (self.state.what, self.terms.proof) {
                // Without that, nothing at all speaks for it.
                (RepairedWhat::Reported, _) => ProofExtent::NewTests,
                (RepairedWhat::RedCheck, true) => ProofExtent::Full,
                (RepairedWhat::RedCheck, false) => ProofExtent::Verifier,
            },
            confirm: if self.is_prescribed() { Confirm::No } else { Confirm::Yes },
        };
        self.state.green = Some(green);
        self.state.note = shown.as_ref().map(|shown| shown.note.clone()).unwrap_or_default();
        let (news, effect) = (self.news.clone(), self.effect);
        spawn_thread("proof", move || {
            let trials = match shown {
                // What speaks for it was seen before it was brought in; it may be green by chance.
                Some(shown) => CheckTrials { confirmed: question.confirm(), ..shown.trials },
                None => question.answer(),
            };
            let trials = Box::new(trials);
            // Nobody is left to tell when the run is over.
            let _ = news.send(CheckNews::Tried { effect, trials });
        });
    }

    /// Takes in what the runs beside the real tree showed.
    pub(super) fn tried(&mut self, trials: &CheckTrials) {
        let green = self.state.green.take().unwrap_or_default();
        let note = std::mem::take(&mut self.state.note);
        self.judge(Touched::Tree, &green, Some(NotedTrials { trials, note: &note }));
    }

    /// Weighs what is known of a green run.
    pub(super) fn weigh(
        &self,
        touched: Touched,
        green: &Results,
        trials: Option<&CheckTrials>,
    ) -> Judged {
        let mut earlier = self.state.earlier.clone();
        if self.state.is_again {
            earlier.push(Colour::Green);
        }
        if self.is_prescribed() {
            // The cause was seen in the project's own state, so it would have failed again.
            earlier.push(Colour::Red);
        }
        proof::judge(&ProofEvidence {
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
            counts_before: self.first_results().counts,
            counts_after: green.counts,
        })
    }

    fn judge(&mut self, touched: Touched, green: &Results, noted: Option<NotedTrials<'_>>) {
        let note = noted.map(|noted| noted.note).unwrap_or_default();
        let trials = noted.map(|noted| noted.trials);
        if self.state.what == RepairedWhat::Reported
            && let Some(why) = lacks_evidence(trials)
        {
            self.context.note(ONLY, &why);
            return self.conclude(Proof::Failed, &why);
        }
        let judged = self.weigh(touched, green, trials);
        let mut why = judged.ground.to_string();
        if let (ProofGround::UnrepairedOther, Some(lacking)) =
            (&judged.ground, trials.and_then(|trials| trials.lacking.as_ref()))
        {
            why.push_str(&format!(": {lacking}"));
        }
        if let Some(trials) = trials {
            why.extend(trials.weakenings.iter().map(said));
            why.push_str(&said_of_packages(&trials.packages));
        }
        why.push_str(note);
        if let (Keep::AllButVerifier, Some(trials)) = (judged.keep, trials) {
            why.push_str(&self.give_verifier_back(trials));
        }
        match (judged.keep, touched) {
            (Keep::NotNeeded, Touched::Tree) => self.doubt(why),
            (Keep::All | Keep::AllButVerifier | Keep::NotNeeded | Keep::Nothing, _) => {
                self.conclude(judged.proof, &why);
            }
        }
    }

    pub(super) fn conclude(&mut self, proof: Proof, why: &str) {
        self.context.judged(ONLY, self.effect, VerifiedFinding::new(proof, why));
    }

    /// Puts what judges the check back as it was, which the repair did not need to change.
    fn give_verifier_back(&self, trials: &CheckTrials) -> String {
        let project = &self.context.base.project;
        if let Err(error) = lay(project.root(), &trials.previous) {
            return format!("\nwhat judges it could not be put back: {error}");
        }
        if let Some(name) = self.case().and_then(|case| case.snapshot(Scope::Attempt)) {
            // The state that the repair left is now another.
            let _unkept = has_changed(project, name);
        }
        "\nthat was not needed, and is put back".to_owned()
    }

    /// Takes a change back for which nothing speaks.
    fn doubt(&mut self, why: String) {
        self.state.doubt = Some(Doubt { why, tree: DoubtedTree::Without });
        self.move_files(DoubtedTree::Without);
    }

    fn move_files(&self, to: DoubtedTree) {
        let base = &*self.context.base;
        let (project, scrubber) = (base.project.clone(), base.writer.scrubber.clone());
        let name = self.case().and_then(|case| case.snapshot(Scope::Attempt));
        let (news, effect) = (self.news.clone(), self.effect);
        spawn_thread("doubt", move || {
            let report = match (name, to) {
                (Some(name), DoubtedTree::Without) => files::take_away(&project, name, &scrubber),
                (Some(name), DoubtedTree::With) => files::bring_back(&project, name, &scrubber),
                (None, _) => files::nothing_there(),
            };
            // Nobody is left to tell when the run is over.
            let _ = news.send(CheckNews::Moved { effect, report });
        });
    }

    /// Takes in whether the files were moved to where they are looked at; tells whether the check
    /// is to run there.
    pub(super) fn is_moved(&mut self, report: &EffectReport) -> bool {
        let EffectReport::Failed { reason, .. } = report else { return true };
        match self.state.doubt.take() {
            // It was not moved, and green when it was seen last.
            Some(Doubt { why, tree: DoubtedTree::Without }) => {
                let why = format!("{why}\nthe change could not be taken back: {reason}");
                self.conclude(Proof::Transient, &why);
            }
            Some(Doubt { tree: DoubtedTree::With, .. }) | None => {
                let text = format!("what was needed could not be put back: {reason}");
                let reason = self.context.base.writer.scrubber.scrub(&text);
                self.context.finish(ONLY, self.effect, EffectReport::failed(reason));
            }
        }
        false
    }

    /// Takes in how the check does where the change in doubt is away, or back and well.
    pub(super) fn settle_doubt(&mut self, is_green: bool) {
        match (self.state.doubt.take(), is_green) {
            (Some(Doubt { why, tree: DoubtedTree::Without }), true) => {
                let judged = VerifiedFinding {
                    is_taken_back: true,
                    ..VerifiedFinding::new(Proof::Transient, &why)
                };
                self.context.judged(ONLY, self.effect, judged);
            }
            (Some(Doubt { why, tree: DoubtedTree::With }), true) => self.conclude(
                Proof::Transient,
                &format!("{why}\nbut not here: without the change it fails, so the change stays"),
            ),
            (Some(Doubt { why, .. }), false) => {
                self.state.doubt = Some(Doubt { why, tree: DoubtedTree::With });
                self.move_files(DoubtedTree::With);
            }
            (None, _) => {}
        }
    }

    pub(super) fn case(&self) -> Option<&Case> {
        self.context.cases.get(ONLY)
    }

    /// Returns whether the playbook has the present remedy against the cause that was seen.
    fn is_prescribed(&self) -> bool {
        self.case().and_then(Case::trial).is_some_and(|trial| {
            trial.remedy.origin == RemedyOrigin::Playbook && trial.remedy.kind != RemedyKind::Retry
        })
    }

    /// Returns what the remedy changed.
    fn touched(&self) -> Touched {
        let Some((case, trial)) = self.case().and_then(|case| Some((case, case.trial()?))) else {
            return Touched::Nothing;
        };
        match (trial.remedy.kind, trial.measured.and_then(|change| change.files)) {
            (RemedyKind::Retry, _) | (_, Some(0)) => Touched::Nothing,
            (RemedyKind::Agent | RemedyKind::Patch, _) => Touched::Tree,
            (RemedyKind::Command | RemedyKind::SoftReset | RemedyKind::HardReset, _) => {
                if case.has_changed_files() { Touched::Tree } else { Touched::Outside }
            }
        }
    }

    /// Returns when the agent of the present attempt began, if one did.
    fn agents_start(&self) -> Option<Timestamp> {
        let incident = self.context.incident(ONLY)?;
        incident.trial().filter(|trial| trial.remedy.kind == RemedyKind::Agent)?;
        let told = self.context.base.writer.entries(incident.id()).ok()?;
        let applies = |event: &Event| {
            matches!(
                event,
                Event::Incident(IncidentEvent::Requested { what: Effect::Apply { .. }, .. })
            )
        };
        told.iter().rev().find(|entry| applies(&entry.event)).map(|entry| entry.at)
    }

    /// Returns whether the unrepaired state failed as it had.
    fn before(&self, trial: &TrialOutcome) -> Before {
        if self.state.what == RepairedWhat::Reported {
            // It was looked at before that it is red.
            return Before::RedByNewTests;
        }
        let scrubber = &self.context.base.writer.scrubber;
        let first = self.case().and_then(Case::first).map(|first| first.symptom.signature);
        // Of a failure that an earlier run of Salve saw, the journal knows what it was.
        let first = first.or_else(|| Some(self.case()?.trial()?.signature));
        let (ran, signature) = match (trial, first) {
            (TrialOutcome::NotRun(why), _) => return Before::NotRun(scrubber.scrub(why)),
            (TrialOutcome::Ran(ran), _) if ran.is_green() => return Before::Green,
            (TrialOutcome::Ran(_), None) => {
                return Before::NotRun(Scrubbed::literal("an earlier run of Salve saw it"));
            }
            (TrialOutcome::Ran(ran), Some(signature)) => (ran, signature),
        };
        let again = examine(ran, self.context);
        proof::likeness(
            CheckFailure { signature, results: &self.first_results() },
            CheckFailure {
                signature: again.symptom.signature,
                results: &self.results(&ran.output),
            },
        )
    }

    fn old_verifier(&self, trial: &TrialOutcome) -> OldVerifier {
        match trial {
            TrialOutcome::Ran(ran) if ran.is_green() => OldVerifier::Green,
            TrialOutcome::Ran(_) => OldVerifier::Red,
            TrialOutcome::NotRun(why) => {
                OldVerifier::NotRun(self.context.base.writer.scrubber.scrub(why))
            }
        }
    }

    /// Returns what a check's output says, with paths from where it runs.
    pub(super) fn results(&self, output: &str) -> Results {
        check::read(output).relative_to(&self.plan.dir.to_string_lossy())
    }

    pub(super) fn first_results(&self) -> Results {
        let first = self.case().and_then(Case::first);
        first.map(|first| self.results(first.output.as_str())).unwrap_or_default()
    }
}

/// Returns why nothing shows that what was reported was so and is mended, if nothing does.
fn lacks_evidence(trials: Option<&CheckTrials>) -> Option<String> {
    match trials.and_then(|trials| trials.before.as_ref()) {
        None => Some("nothing was changed, so nothing shows what was reported".to_owned()),
        Some(TrialOutcome::NotRun(why)) => Some(format!("nothing shows what was reported: {why}")),
        Some(TrialOutcome::Ran(ran)) if ran.is_green() => Some(
            "nothing shows what was reported: its tests pass without the change too".to_owned(),
        ),
        Some(TrialOutcome::Ran(_)) => None,
    }
}

/// Returns what has to be said of installed packages that were edited.
fn said_of_packages(edited: &[String]) -> String {
    match edited {
        [] => String::new(),
        edited => format!(
            "\nedited where it is installed, and not put back: {}\n\
             install the packages again before the check is trusted again",
            edited.join(", ")
        ),
    }
}

/// Returns a weakening in words, on a line of its own.
pub(super) fn said(weakening: &Weakening) -> String {
    format!("\n{}", verifier::said(weakening))
}
