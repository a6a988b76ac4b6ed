//! Tells others what happens: webhooks, and a notice on the desktop.
//!
//! A [`Notifier`] follows the journal on threads of its own, so whatever a target does, the subject
//! never waits for it. What is to be told is written to the journal before it is sent and after it
//! was taken; what was not taken when a run ends is told by the next one, under the same id. A
//! process tells only of entries that it wrote itself, so several of them tell nothing twice.

mod deliveries;
mod desktop;
mod http;
mod preview;
#[cfg(test)]
mod tests;

pub use preview::{AddressPreview, Hook, NotifyPreview, Screen, look};

use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use salve_core::event::Channel;
use salve_core::notify::{Banner, Message, NoticeMoment, TargetAnswer};
use salve_core::scrub::Scrubber;

use self::deliveries::{Deliveries, DeliveryInput};
use self::desktop::Desktop;
use crate::config::Settings;
use crate::project::Project;
use crate::store::{Store, StoreError, Stream};
use crate::webhook_secret::Secret;

/// How long the journal is waited for at once.
const LONG: Duration = Duration::from_secs(3_600);

/// Who is told what.
#[derive(Clone, Debug)]
pub struct NoticePlan {
    /// The address for each moment that has one.
    hooks: Vec<(NoticeMoment, String)>,
    /// The secrets that messages are signed with, all of them.
    secrets: Vec<Secret>,
    /// Whether addresses that are not the world's may be sent to.
    allow_private: bool,
    /// Where notices appear on this machine, if they do.
    desktop: Option<Desktop>,
}

impl NoticePlan {
    /// Returns what the settings say, on this machine.
    pub fn new(settings: &Settings) -> Self {
        let hooks = &settings.webhooks;
        let pairs = [
            (NoticeMoment::Escalation, &hooks.on_escalation),
            (NoticeMoment::Recovered, &hooks.on_recovered),
            (NoticeMoment::Exhausted, &hooks.on_exhausted),
            (NoticeMoment::ConfigChange, &hooks.on_config_change),
        ];
        let named = |(moment, url): (NoticeMoment, &Option<String>)| Some((moment, url.clone()?));
        Self {
            hooks: pairs.into_iter().filter_map(named).collect(),
            // What the settings' own check let through can be read.
            secrets: hooks.secrets.iter().filter_map(|text| text.parse().ok()).collect(),
            allow_private: hooks.allow_private,
            desktop: settings.notify.desktop.then(Desktop::find).flatten(),
        }
    }

    fn hook(&self, moment: NoticeMoment) -> Option<&str> {
        self.hooks.iter().find(|(of, _)| *of == moment).map(|(_, url)| &**url)
    }

    fn is_empty(&self) -> bool {
        self.hooks.is_empty() && self.desktop.is_none()
    }
}

/// What came of trying to reach one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// How it is told.
    pub via: Channel,
    /// The setting by which it is told.
    pub setting: String,
    /// Why it was not taken, if it was not.
    pub failed: Option<String>,
}

/// Tries every target once, with a message that says nothing else.
pub fn test(plan: &NoticePlan, project: &Project) -> Vec<DeliveryAttempt> {
    let (at, name) = (Timestamp::now(), name_of(project));
    let message = Message::test(at, &name);
    let mut tried = Vec::new();
    for (moment, url) in &plan.hooks {
        let id = format!("msg_test_{}", uuid::Uuid::new_v4().simple());
        let sent = http::send(&http::Letter { id: &id, at, url, body: &message.body() }, plan);
        let taken = matches!(sent.answer, TargetAnswer::Status { code: 200..=299, .. });
        let setting = format!("webhooks.on_{}", moment.as_str());
        let failed = (!taken).then_some(sent.why);
        tried.push(DeliveryAttempt { via: Channel::Webhook, setting, failed });
    }
    if let Some(desktop) = &plan.desktop {
        let text = "Salve's notices appear here.".to_owned();
        let failed = desktop.show(&Banner { title: format!("{name}: a test"), text }).err();
        tried.push(DeliveryAttempt {
            via: Channel::Desktop,
            setting: "notify.desktop".to_owned(),
            failed,
        });
    }
    tried
}

/// Tells others what happens, until it is dropped.
///
/// What is under way then gets a moment to arrive.
#[derive(Debug)]
pub struct Notifier {
    project: Project,
    scrubber: Scrubber,
    /// Where nobody is to be told, nothing is begun.
    office: Option<Office>,
}

/// Whoever carries messages, and the way to them.
#[derive(Debug)]
struct Office {
    post: Sender<DeliveryInput>,
    postman: Option<JoinHandle<()>>,
}

impl Notifier {
    /// Begins to tell others of what this process writes to the journal from now on.
    pub fn start(
        project: &Project,
        plan: NoticePlan,
        scrubber: &Scrubber,
    ) -> Result<Self, StoreError> {
        let (project, scrubber) = (project.clone(), scrubber.clone());
        let mut notifier = Self { project, scrubber, office: None };
        notifier.take_over(plan)?;
        Ok(notifier)
    }

    /// Tells by another plan from now on; what was written before is told by the old one.
    ///
    /// What was not taken yet is tried again where the new plan says.
    pub fn take_over(&mut self, plan: NoticePlan) -> Result<(), StoreError> {
        match &self.office {
            // One whose carrier died has told what it could.
            Some(office) => drop(office.post.send(DeliveryInput::Plan(plan))),
            None if plan.is_empty() => {}
            None => self.office = Some(Office::open(&self.project, plan, &self.scrubber)?),
        }
        Ok(())
    }
}

impl Office {
    fn open(project: &Project, plan: NoticePlan, scrubber: &Scrubber) -> Result<Self, StoreError> {
        let (ears, desk) = (Store::open(project)?, Store::open(project)?);
        let after = desk.journal().last_seq()?;
        let (post, inbox) = mpsc::channel();
        let to = post.clone();
        crate::process::spawn_thread("notice ears", move || follow(&ears, after, &to));
        let postman = Deliveries::new(desk, plan, scrubber.clone(), (post.clone(), inbox), after);
        let builder = std::thread::Builder::new().name("notices".to_owned());
        // Without a thread nobody is told; what is under care goes on.
        let postman = builder.stack_size(512 << 10).spawn(move || postman.work()).ok();
        Ok(Self { post, postman })
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        let told = self.post.send(DeliveryInput::Finish);
        if let (Ok(()), Some(postman)) = (told, self.postman.take()) {
            // One that died has told what it could.
            let _ = postman.join();
        }
    }
}

fn follow(store: &Store, after: u64, to: &Sender<DeliveryInput>) {
    let mut follower = store.journal().follow(after, Stream::Project);
    while let Ok(mut entries) = follower.next(LONG) {
        entries.retain(|entry| NoticeMoment::of(&entry.event).is_some());
        if !entries.is_empty() && to.send(DeliveryInput::Entries(entries)).is_err() {
            return;
        }
    }
}

/// Returns what a project is called.
fn name_of(project: &Project) -> String {
    let name = project.root().file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
