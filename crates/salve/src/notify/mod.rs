//! Tells others what happens: webhooks, and a notice on the desktop.
//!
//! A [`Notifier`] follows the journal on threads of its own, so whatever a target does, the subject
//! never waits for it. What is to be told is written to the journal before it is sent and after it
//! was taken; what was not taken when a run ends is told by the next one, under the same id. A
//! process tells only of entries that it wrote itself, so several of them tell nothing twice.

mod channel;
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
use jiff::tz::TimeZone;
use salve_core::event::{Channel, Entry};
use salve_core::notify::{NoticeLinks, NoticeMoment, PublicAddress, QuietHours};
use salve_core::repair;
use salve_core::scrub::Scrubber;
use salve_core::view::IncidentView;

use self::deliveries::{Deliveries, DeliveryInput, DeliveryLine};
use self::desktop::Desktop;
use crate::config::{DesktopMoment, Settings};
use crate::page_access::{AccessFile, AnswerGrant};
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
    /// Which moments appear there.
    pop_ups: Vec<DesktopMoment>,
    /// When nobody wants to be told.
    quiet: Option<QuietHours>,
    /// Where the page can be reached by those who are told.
    page: Option<PublicAddress>,
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
            pop_ups: settings.notify.desktop_moments.clone(),
            // What the settings' own check let through can be read.
            quiet: settings.notify.quiet_hours.as_deref().and_then(|text| text.parse().ok()),
            page: settings.page.url.as_deref().and_then(|text| text.parse().ok()),
        }
    }

    /// Returns how long it is still quiet; nothing if it is not.
    fn quiet_now(&self) -> Option<Duration> {
        let now = Timestamp::now().to_zoned(TimeZone::system());
        let (hour, minute) = (u16::try_from(now.hour()), u16::try_from(now.minute()));
        self.quiet?.left(hour.ok()? * 60 + minute.ok()?)
    }

    fn pops_up(&self, moment: NoticeMoment) -> bool {
        let of = match moment {
            NoticeMoment::Escalation => DesktopMoment::Escalation,
            NoticeMoment::Recovered => DesktopMoment::Recovered,
            NoticeMoment::Exhausted => DesktopMoment::Exhausted,
            NoticeMoment::ConfigChange => return false,
        };
        self.pop_ups.contains(&of)
    }

    /// Returns where a message about an entry leads; a question that a phone can reach gets a code
    /// that answers it once.
    fn links(&self, entry: &Entry, view: Option<&IncidentView>, project: &Project) -> NoticeLinks {
        let (Some(page), Some(view)) = (&self.page, view) else { return NoticeLinks::default() };
        let is_question = NoticeMoment::of(&entry.event) == Some(NoticeMoment::Escalation);
        let ask = repair::ask(view).filter(|_| is_question && page.is_beyond_this_machine());
        let grant = ask.map(|ask| AnswerGrant {
            project: project.root().to_path_buf(),
            incident: view.id(),
            question: ask.number,
            digest: ask.digest,
        });
        // Without a code the message leads to the page, where a person has to sign in.
        let code = grant.and_then(|grant| AccessFile::of_user().ok()?.new_answer_code(grant).ok());
        NoticeLinks {
            page: Some(page.incident(view.id())),
            answer: code.map(|code| page.answer(&code)),
        }
    }

    fn hook(&self, moment: NoticeMoment) -> Option<&str> {
        self.hooks.iter().find(|(of, _)| *of == moment).map(|(_, url)| &**url)
    }

    fn is_empty(&self) -> bool {
        self.channels().is_empty()
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
    plan.channels().iter().flat_map(|channel| channel.try_out(&name, at)).collect()
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
        let line = DeliveryLine { post: post.clone(), inbox };
        let postman = Deliveries::new(desk, plan, scrubber.clone(), line, after);
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
