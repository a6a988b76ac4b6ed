//! The tests, run by Salve itself.

use std::sync::Arc;

use salve_core::check;
use salve_core::event::{Digest, LoopTurn, ProcessExit, TestsVerdict};
use salve_core::iteration::{TestsRun, seen};
use salve_core::recovery::{Execution, executed};

use super::driver::LoopRun;
use super::{LoopError, LoopNews};
use crate::heal::cause::Evidence;
use crate::heal::inbox::InboxMessage;
use crate::heal::judging_command::ONLY;
use crate::heal::millis;
use crate::heal::run::{self, CommandRunEnd};
use crate::process::{Capture, Outlet, OutputStyle};
use crate::workspace::Workspace;

/// How many of the last lines of output are kept.
pub(super) const LINES: usize = 2_000;

impl LoopRun<'_, '_> {
    /// Runs the tests and takes in how they came out.
    pub(super) fn tests(&mut self) -> Result<(), LoopError> {
        let tree = self.tree();
        let news = self.driver.news.sender();
        let then = move |ran| {
            // Nobody is left to tell when the run of Salve is over.
            let _ = news.send(LoopNews::Ran(ran));
        };
        let capture = Capture::new(Arc::new(Outlet::none()), OutputStyle::Plain).with_lines(LINES);
        let errand = self.driver.plan.tests.command_run(self.of.id().as_str());
        let stopper = run::start(&self.driver.base.care, &errand, Arc::new(capture), then);
        let ran = loop {
            match self.hear() {
                LoopNews::Ran(ran) => break ran,
                LoopNews::Stop(signal) => {
                    let inbox = self.driver.base.inbox.sender();
                    stopper.interrupt(signal, move |text| {
                        // Nobody is left to tell when the run of Salve is over.
                        let _ = inbox.send(InboxMessage::Note { subject: ONLY, text });
                    });
                    self.take(LoopNews::Stop(signal))?;
                }
                other @ (LoopNews::Agent(_) | LoopNews::Ordered | LoopNews::Note(_)) => {
                    self.take(other)?;
                    if self.of.is_called_off() {
                        stopper.stop();
                    }
                }
            }
        };
        if ran.stopped || self.is_called_off() {
            return Ok(());
        }
        self.tested(ran, tree)
    }

    /// Returns the hash of the tree, if it can be taken.
    pub(super) fn tree(&self) -> Option<Digest> {
        let workspace = Workspace::open(&self.driver.base.project);
        workspace.and_then(|workspace| workspace.tree()).ok()
    }

    /// Takes in how the tests came out on a tree.
    pub(super) fn tested(
        &mut self,
        ran: CommandRunEnd,
        tree: Option<Digest>,
    ) -> Result<(), LoopError> {
        let driver = &self.driver;
        let scrubber = &driver.base.writer.scrubber;
        let evidence = Evidence::of(&ran.output, Some(&ran.exit), driver.base.rules, scrubber);
        let root = driver.base.project.root().to_string_lossy();
        let results = check::read(evidence.output.as_str()).relative_to(&root);
        let verdict = match executed(&results, evidence.symptom.class, &ran.exit) {
            _ if ran.exit == ProcessExit::Code(0) => TestsVerdict::Green,
            Execution::All => TestsVerdict::Red,
            Execution::InVain | Execution::Partly | Execution::Nothing => TestsVerdict::NotExecuted,
        };
        let run = TestsRun {
            verdict,
            symptom: &evidence.symptom,
            exit: ran.exit.clone(),
            results: &results,
            tree,
            took_ms: millis(ran.took),
        };
        let seen = seen(&run, scrubber);
        let command = &driver.plan.tests.command;
        driver.folder.keep_tests(&self.of, command, &evidence.output, &seen)?;
        self.ran = Some(ran);
        Ok(self.say(LoopTurn::TestsRan { tests: Box::new(seen) })?)
    }
}
