//! The ways in which people are told.

use jiff::Timestamp;
use salve_core::event::{Channel, Entry};
use salve_core::notify::{Banner, NoticeMessage, NoticeMoment, TargetAnswer};

use super::deliveries::Deliveries;
use super::desktop::Desktop;
use super::http::{self, Letter};
use super::{DeliveryAttempt, NoticePlan};

/// A way in which people are told: a new one is a type with this trait and a line in
/// [`NoticePlan::channels`].
pub(super) trait NoticeChannel {
    /// Returns its word in the journal.
    fn via(&self) -> Channel;

    /// Tries each of its targets once, with a message that says nothing else.
    fn try_out(&self, project: &str, at: Timestamp) -> Vec<DeliveryAttempt>;

    /// Tells of an entry, at once or when its turn has come, if it deserves that.
    fn tell(&self, entry: &Entry, carrier: &mut Deliveries);
}

impl NoticePlan {
    /// Returns every way in which somebody is told by this plan.
    pub(super) fn channels(&self) -> Vec<Box<dyn NoticeChannel + '_>> {
        let webhooks = (!self.hooks.is_empty()).then_some(WebhookChannel { plan: self });
        let webhooks = webhooks.map(|webhooks| Box::new(webhooks) as Box<dyn NoticeChannel + '_>);
        let desktop = self.desktop.as_ref().map(|desktop| DesktopChannel { desktop });
        let desktop = desktop.map(|desktop| Box::new(desktop) as Box<dyn NoticeChannel + '_>);
        webhooks.into_iter().chain(desktop).collect()
    }
}

/// HTTP requests to the addresses of the settings; they are tried again until somebody takes them.
struct WebhookChannel<'p> {
    plan: &'p NoticePlan,
}

impl NoticeChannel for WebhookChannel<'_> {
    fn via(&self) -> Channel {
        Channel::Webhook
    }

    fn try_out(&self, project: &str, at: Timestamp) -> Vec<DeliveryAttempt> {
        let message = NoticeMessage::test(at, project);
        let attempt = |(moment, url): &(NoticeMoment, String)| {
            let id = format!("msg_test_{}", uuid::Uuid::new_v4().simple());
            let letter = Letter { id: &id, at, url, message: &message };
            let sent = http::send(&letter, self.plan, &crate::scrub::scrubber());
            let taken = matches!(sent.answer, TargetAnswer::Status { code: 200..=299, .. });
            let setting = format!("webhooks.on_{}", moment.as_str());
            let failed = (!taken).then_some(sent.why);
            DeliveryAttempt { via: self.via(), setting, failed }
        };
        self.plan.hooks.iter().map(attempt).collect()
    }

    fn tell(&self, entry: &Entry, carrier: &mut Deliveries) {
        carrier.take_up(entry);
    }
}

/// A notice on this machine's desktop, shown once.
struct DesktopChannel<'p> {
    desktop: &'p Desktop,
}

impl NoticeChannel for DesktopChannel<'_> {
    fn via(&self) -> Channel {
        Channel::Desktop
    }

    fn try_out(&self, project: &str, _: Timestamp) -> Vec<DeliveryAttempt> {
        let text = "Salve's notices appear here.".to_owned();
        let failed = self.desktop.show(&Banner { title: format!("{project}: a test"), text }).err();
        vec![DeliveryAttempt { via: self.via(), setting: "notify.desktop".to_owned(), failed }]
    }

    fn tell(&self, entry: &Entry, carrier: &mut Deliveries) {
        carrier.show(entry, self.desktop);
    }
}
