//! What was seen of a loop's tests: whether they executed, what ails them, and what that proves.

use salve_core::check::proof::{self, Before, Colour, OldVerifier, Touched};
use salve_core::check::{self, TestCounts};
use salve_core::event::{Proof, RemedyKind, RemedyOrigin};
use salve_core::incident::DueEffect;
use salve_core::playbook::{Diagnosis, Nature};
use salve_core::recovery::{self, Execution, TestsTrouble};

use super::proposal::ProposalWatch;
use super::sought::SoughtRecovery;
use crate::heal::cause::{self, Evidence};
use crate::heal::judging_command::ONLY;
use crate::heal::run::{CommandPlan, CommandRunEnd};
use crate::heal::{Case, RunBase, SubjectContext, VerifiedFinding};
use crate::store::StoreError;

pub(super) struct SeenTests {
    /// Whether there is something to run by which Salve can see for itself.
    pub(super) has_tests: bool,
    /// How the tests came out last.
    pub(super) last: Option<CommandRunEnd>,
    /// What ails them.
    pub(super) ailment: TestsTrouble,
    pub(super) execution: Execution,
    /// How often they were seen to fail before this care of them.
    pub(super) before: usize,
    /// How the unrepaired state came out, each time that it ran.
    pub(super) earlier: Vec<Colour>,
    /// Whether they were found to execute while somebody was asked about them.
    pub(super) is_well: bool,
}

impl SeenTests {
    /// Returns tests of which nothing was seen.
    pub(super) fn new(plan: &CommandPlan) -> Self {
        Self {
            has_tests: !plan.argv.is_empty(),
            last: None,
            ailment: TestsTrouble::None,
            execution: Execution::All,
            before: 0,
            earlier: Vec::new(),
            is_well: false,
        }
    }

    /// Takes in a run, and tells whether it came out as it should: the tests executed, or it is not
    /// for us.
    pub(super) fn judge(
        &mut self,
        ran: &CommandRunEnd,
        plan: &CommandPlan,
        proposal: &ProposalWatch,
        context: &SubjectContext<'_, '_>,
    ) -> bool {
        let is_proposed = proposal.found.is_some();
        let is_tried = context.incident(ONLY).is_some();
        let is_off = !context.base.remedies.policy.is_enabled() && !is_tried;
        self.last = Some(ran.clone());
        (self.ailment, self.execution) = if self.has_tests {
            ailment(ran, plan, context.base)
        } else {
            match (ran.is_green(), is_proposed) {
                (true, _) => (TestsTrouble::None, Execution::All),
                (false, true) => (TestsTrouble::Infrastructure, Execution::Nothing),
                (false, false) => (TestsTrouble::Unknown, Execution::Nothing),
            }
        };
        match self.ailment {
            TestsTrouble::None | TestsTrouble::Code => !ran.stopped,
            TestsTrouble::Infrastructure | TestsTrouble::Unknown if is_off => true,
            TestsTrouble::Infrastructure => false,
            // Only the tester claims that it is the infrastructure; what was begun goes on.
            TestsTrouble::Unknown => !(is_tried || is_proposed),
        }
    }

    /// Says what it proves that the tests execute.
    pub(super) fn prove(&self, effect: DueEffect, context: &mut SubjectContext<'_, '_>) {
        if !self.has_tests {
            let why = "there are no tests to run, so nothing is proven";
            return context.judged(ONLY, effect, VerifiedFinding::new(Proof::Transient, why));
        }
        let trial = context.cases.get(ONLY).and_then(Case::trial);
        let is_prescribed = trial.is_some_and(|trial| {
            trial.remedy.origin == RemedyOrigin::Playbook && trial.remedy.kind != RemedyKind::Retry
        });
        let changed = trial.and_then(|trial| trial.measured).and_then(|change| change.files);
        // What judges a loop's tests is the loop; here they only have to execute.
        let touched = match trial.map(|trial| trial.remedy.kind) {
            None | Some(RemedyKind::Retry) => Touched::Nothing,
            Some(_) if changed == Some(0) => Touched::Nothing,
            Some(_) => Touched::Outside,
        };
        let mut earlier = self.earlier.clone();
        if is_rerun(context) {
            earlier.push(Colour::Green);
        }
        if is_prescribed {
            // The cause was seen in the project's own state, so it would have failed again.
            earlier.push(Colour::Red);
        }
        let judged = proof::judge(&proof::ProofEvidence {
            now: Colour::Green,
            confirmed: None,
            touched,
            earlier: &earlier,
            before: Before::Off,
            old_verifier: OldVerifier::Untouched,
            weakenings: 0,
            counts_before: TestCounts::default(),
            counts_after: TestCounts::default(),
        });
        let why = judged.ground.to_string();
        context.judged(ONLY, effect, VerifiedFinding::new(judged.proof, &why));
    }

    /// Says what was proposed for nothing where there is nothing to recover from.
    pub(super) fn say_nothing_to_recover(
        &self,
        proposal: &ProposalWatch,
        sought: &SoughtRecovery,
        context: &mut SubjectContext<'_, '_>,
    ) -> Result<(), StoreError> {
        let why = match self.ailment {
            TestsTrouble::None => "the tests execute, so nothing is recovered",
            TestsTrouble::Code => "the code has to change, so nothing is recovered",
            TestsTrouble::Unknown | TestsTrouble::Infrastructure => "recovery is switched off",
        };
        let is_red = self.last.as_ref().is_some_and(|ran| !ran.is_green());
        if proposal.found.is_some() && is_red {
            sought.refuse(&format!("recovery.json is not taken up: {why}"), context)?;
        }
        Ok(())
    }
}

/// Finds out what ails tests that came out so.
fn ailment(
    ran: &CommandRunEnd,
    plan: &CommandPlan,
    base: &RunBase<'_>,
) -> (TestsTrouble, Execution) {
    let evidence = examine(ran, base);
    let results = check::read(&ran.output).relative_to(&plan.dir.to_string_lossy());
    let class = evidence.symptom.class;
    let execution = recovery::executed(&results, class, &ran.exit);
    let nature = match execution {
        Execution::All => Nature::Unknown,
        Execution::InVain | Execution::Partly | Execution::Nothing => {
            diagnose(&evidence, plan, base).nature
        }
    };
    (recovery::ailment(execution, nature, class, results.tool), execution)
}

/// Looks into the cause of a failure of the tests.
pub(super) fn diagnose(evidence: &Evidence, plan: &CommandPlan, base: &RunBase<'_>) -> Diagnosis {
    cause::diagnose(evidence, &plan.place(base), &base.writer.scrubber)
}

/// Finds out what a failure of the tests is.
pub(super) fn examine(ran: &CommandRunEnd, base: &RunBase<'_>) -> Evidence {
    Evidence::of(&ran.output, Some(&ran.exit), base.rules, &base.writer.scrubber)
}

/// Tells whether the tests were only run again.
pub(super) fn is_rerun(context: &SubjectContext<'_, '_>) -> bool {
    let trial = context.cases.get(ONLY).and_then(Case::trial);
    trial.is_some_and(|trial| trial.remedy.kind == RemedyKind::Retry)
}
