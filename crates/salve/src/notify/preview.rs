//! A look at who would be told, without telling anybody.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc;
use std::time::Duration;

use salve_core::notify::is_public;
use ureq::http::Uri;

use super::NoticePlan;
use super::desktop::Desktop;
use crate::config::Settings;

/// How long a name is looked up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who would be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyPreview {
    /// The webhooks, each address once.
    pub hooks: Vec<Hook>,
    /// Where notices appear on this machine.
    pub screen: Screen,
}

/// One address that is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The settings that name it.
    pub settings: Vec<String>,
    /// Its host; the rest of an address may be a secret.
    pub host: String,
    /// Whether it would be sent to.
    pub address: AddressPreview,
}

/// Whether an address would be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressPreview {
    /// It would, as far as can be seen without sending.
    Reachable,
    /// It is private, and the settings do not allow that.
    Private,
    /// There is no such host.
    Unknown,
    /// It is no address of a web server.
    Unusable,
}

/// Where notices appear on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// Nowhere: the settings do not want it.
    Off,
    /// Nowhere: there is no desktop.
    None,
    /// Nowhere: there is a desktop, and nothing that shows notices on it.
    Mute,
    /// On the desktop, by this.
    By(&'static str),
}

/// Looks at who would be told, and tells nobody anything.
pub fn look(settings: &Settings) -> NotifyPreview {
    let plan = NoticePlan::new(settings);
    let mut hooks: Vec<(String, Vec<String>)> = Vec::new();
    for (moment, url) in &plan.hooks {
        let setting = format!("webhooks.on_{}", moment.as_str());
        match hooks.iter_mut().find(|(known, _)| known == url) {
            Some((_, settings)) => settings.push(setting),
            None => hooks.push((url.clone(), vec![setting])),
        }
    }
    let hook = |(url, settings): (String, Vec<String>)| {
        let (host, address) = address(&url, plan.allow_private);
        Hook { settings, host, address }
    };
    let screen = match (settings.notify.desktop, &plan.desktop) {
        (false, _) => Screen::Off,
        (true, Some(desktop)) => Screen::By(desktop.name()),
        (true, None) if Desktop::is_there() => Screen::Mute,
        (true, None) => Screen::None,
    };
    NotifyPreview { hooks: hooks.into_iter().map(hook).collect(), screen }
}

fn address(url: &str, allow_private: bool) -> (String, AddressPreview) {
    let parsed = url.parse::<Uri>().ok().and_then(|uri| {
        let port = match (uri.port_u16(), uri.scheme_str()?) {
            (Some(port), "http" | "https") => port,
            (None, "https") => 443,
            (None, "http") => 80,
            _ => return None,
        };
        Some((uri.host()?.to_owned(), port))
    });
    let Some((host, port)) = parsed else { return (String::new(), AddressPreview::Unusable) };
    let found = addresses(host.trim_matches(['[', ']']).to_owned(), port);
    let is_fine = |one: &SocketAddr| allow_private || is_public(one.ip());
    let address = match found.as_slice() {
        [] => AddressPreview::Unknown,
        found if found.iter().any(is_fine) => AddressPreview::Reachable,
        _ => AddressPreview::Private,
    };
    (host, address)
}

/// Looks a name up; one that takes too long has no address.
fn addresses(host: String, port: u16) -> Vec<SocketAddr> {
    let (tell, found) = mpsc::channel();
    crate::process::spawn_thread("look-up", move || {
        let found = (host, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
        // Nobody waits any more if it took too long.
        let _ = tell.send(found);
    });
    found.recv_timeout(PATIENCE).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_judged_as_it_would_be_when_it_is_sent_to() {
        for (url, allow_private, host, want) in [
            ("https://192.0.2.7/x", false, "192.0.2.7", AddressPreview::Private),
            ("https://127.0.0.1:8080/x?token=1", false, "127.0.0.1", AddressPreview::Private),
            ("http://[::1]/x", false, "[::1]", AddressPreview::Private),
            ("http://[::1]/x", true, "[::1]", AddressPreview::Reachable),
            ("https://1.1.1.1/", false, "1.1.1.1", AddressPreview::Reachable),
            (
                "https://no-such-host.invalid/",
                false,
                "no-such-host.invalid",
                AddressPreview::Unknown,
            ),
            ("ftp://1.1.1.1/", false, "", AddressPreview::Unusable),
            ("nonsense", false, "", AddressPreview::Unusable),
        ] {
            assert_eq!(address(url, allow_private), (host.to_owned(), want), "{url}");
        }
    }
}
