//! Recovers a loop's tests by the clinic that heals checks.

use std::collections::HashMap;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use salve_core::earned::Terms;
use salve_core::event::{Actor, Entry, Event, LoopEvent, LoopId, SubjectKind};
use salve_core::scrub::Scrubber;

use super::super::Output;
use super::super::ground::shelf;
use super::super::heal::heal_plan;
use super::super::listen::Heard;
use super::super::project::speaker;
use super::super::voice::Voice;
use crate::config::Config;
use crate::heal::loops::{Recovery, Sought};
use crate::heal::{Desk, Presence};
use crate::notify::{self, Notifier};
use crate::process::{Capture, Care, Look, Outlet};
use crate::project::Project;
use crate::store::{Store, StoreError};
use crate::subjects::check::{self, CheckPlan, Clinic, Records};
use crate::subjects::iteration::{self, Recover, TestsPlan};

/// How many of the last lines of output are kept.
const LINES: usize = 2_000;

/// Where what comes from outside goes: to the loop, and to a recovery while there is one.
#[derive(Clone, Default)]
pub(super) struct Bell(Arc<Mutex<Option<Sender<check::Input>>>>);

impl Bell {
    /// Hands on what came from outside.
    pub(super) fn ring(&self, heard: Heard, post: &Sender<iteration::Input>) {
        let is_order = |entry: &Entry| {
            let about_loops = matches!(entry.event, Event::Loop(LoopEvent::Turned { .. }));
            about_loops && entry.by.process().is_none()
        };
        let input = match &heard {
            Heard::Stop(signal) | Heard::Signal(signal) => Some(iteration::Input::Stop(*signal)),
            Heard::Journal(entries) if entries.iter().any(is_order) => Some(iteration::Input::News),
            Heard::Journal(_) => None,
        };
        if let Some(input) = input {
            // Nobody is left to tell when the loop is over.
            let _ = post.send(input);
        }
        if let Some(clinic) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = clinic.send(heard.into());
        }
    }

    fn answer(&self, by: Option<Sender<check::Input>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = by;
    }
}

/// Recovers tests; a clinic is opened for each recovery, with the settings of its iteration.
pub(super) struct Nurse<'a> {
    pub(super) project: Project,
    pub(super) store: &'a Store,
    pub(super) scrubber: Scrubber,
    pub(super) care: Care,
    pub(super) config: Config,
    pub(super) out: &'a Output,
    pub(super) outlet: Arc<Outlet>,
    pub(super) presence: Presence,
    pub(super) bell: Bell,
    pub(super) notices: Notifier,
}

impl Recover for Nurse<'_> {
    fn take_over(&mut self, config: &Config) -> Result<(), StoreError> {
        self.config = config.clone();
        self.notices.take_over(notify::Plan::new(&config.settings))
    }

    fn recover(
        &mut self,
        (id, tests): (&LoopId, &TestsPlan),
        sought: Sought,
    ) -> Result<Recovery, StoreError> {
        let (post, inbox) = mpsc::channel();
        self.bell.answer(Some(post.clone()));
        let mut voice = Voice {
            outlet: self.outlet.clone(),
            out: self.out,
            store: self.store,
            several: false,
            terms: Terms::from(&self.config.settings.earned),
            tales: HashMap::new(),
            checked: HashMap::new(),
        };
        let heal = heal_plan(&self.config, false, &self.scrubber);
        let mut clinic = Clinic {
            shelf: shelf(&self.project, &self.config),
            records: Records::new(&self.project, heal.kept),
            heal,
            project: self.project.clone(),
            by: Some(speaker(&self.scrubber)).filter(|by| matches!(by, Actor::Person { .. })),
            desk: Desk::new(self.store, self.scrubber.clone()),
            care: self.care.clone(),
            rules: self.config.fingerprint_rules(),
            agents: None,
            inbox: (post, inbox),
            face: &mut voice,
            presence: self.presence,
            spent: Default::default(),
            orphans: 0,
        };
        let tests = tests.clone();
        let plan = CheckPlan {
            kind: SubjectKind::Iteration,
            name: id.to_string(),
            argv: tests.argv,
            command: tests.command,
            dir: tests.dir,
            env: tests.env,
            limit: tests.limit,
        };
        let quiet = Capture::new(Arc::new(Outlet::none()), Look::Plain).with_lines(LINES);
        let recovered = clinic.recover(plan, Arc::new(quiet), sought);
        self.bell.answer(None);
        recovered
    }
}
