//! The ways in which others are told: whether they would work, and how to mend them.

use super::Finding;
use crate::config::Settings;
use crate::notify::{self, AddressPreview, Hook, Screen};

/// Hosts whose addresses are secrets themselves: they do not look at signatures.
const CHATS: [&str; 4] =
    ["hooks.slack.com", "discord.com", "discordapp.com", "chat.googleapis.com"];

/// Looks at webhooks and desktop, and tells nobody anything.
pub(super) fn examine(settings: &Settings) -> [Finding; 2] {
    let found = notify::look(settings);
    [webhooks(&found.hooks, settings), desktop(found.screen)]
}

fn webhooks(hooks: &[Hook], settings: &Settings) -> Finding {
    const CHECK: &str = "webhooks";
    if hooks.is_empty() {
        return Finding::ok(CHECK, "none: nobody outside is told");
    }
    let detail = |hook: &Hook| {
        let settings = hook.settings.join(", ");
        match hook.address {
            AddressPreview::Reachable => format!("{settings} → {}", hook.host),
            AddressPreview::Private => format!("{settings}: {} is a private address", hook.host),
            AddressPreview::Unknown => format!("{settings}: there is no host {}", hook.host),
            AddressPreview::Unusable => format!("{settings}: no address that can be used"),
        }
    };
    let is_signed = !settings.webhooks.secrets.is_empty();
    let mend = hooks.iter().find_map(|hook| match hook.address {
        AddressPreview::Reachable => None,
        AddressPreview::Private => Some("set webhooks.allow_private = true if that is meant"),
        AddressPreview::Unknown => {
            Some("correct it, or look at the network; `salve notify test` tries it")
        }
        AddressPreview::Unusable => Some("it has to be an http or https address: correct it"),
    });
    let is_chat = |hook: &Hook| CHATS.contains(&&*hook.host);
    let unsigned = (!is_signed && !hooks.iter().all(is_chat)).then_some(
        "put a secret that the receiver has too into SALVE_WEBHOOKS_SECRETS: \
         [\"whsec_…\"], `whsec_` and 24 to 64 random bytes in base64",
    );
    let signed = if is_signed { "signed" } else { "not signed" };
    let all: Vec<String> = hooks.iter().map(detail).collect();
    let text = format!("{}; {signed}", all.join("; "));
    match mend.or(unsigned) {
        Some(mend) => Finding::warn(CHECK, text, mend),
        None => Finding::ok(CHECK, text),
    }
}

fn desktop(screen: Screen) -> Finding {
    const CHECK: &str = "desktop";
    match screen {
        Screen::Off => Finding::ok(CHECK, "switched off (notify.desktop)"),
        Screen::None => Finding::ok(CHECK, "none here: what needs you is told in the terminal"),
        Screen::By(how) => Finding::ok(CHECK, format!("notices appear by {how}")),
        Screen::Mute => {
            let mend = "install notify-send (libnotify), or set notify.desktop = false";
            Finding::warn(CHECK, "there is one, and nothing that shows notices on it", mend)
        }
    }
}
