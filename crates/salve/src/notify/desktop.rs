//! A notice on this machine's desktop, by the program that the desktop has for it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use salve_core::notify::Banner;

use crate::doctor::find_program;

/// How long the program may take.
const LIMIT: Duration = Duration::from_secs(3);
/// How long to wait before looking again whether it has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// What shows notices here.
#[derive(Clone, Debug)]
pub(super) enum Desktop {
    /// The freedesktop.org program.
    NotifySend(PathBuf),
    /// The script host of macOS.
    OsaScript(PathBuf),
}

impl Desktop {
    /// Finds what shows notices on this machine, if there is a desktop.
    pub(super) fn find() -> Option<Self> {
        if cfg!(target_os = "macos") {
            return find_program("osascript").map(Self::OsaScript);
        }
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let has_desktop = is_set("WAYLAND_DISPLAY") || is_set("DISPLAY");
        find_program("notify-send").filter(|_| has_desktop).map(Self::NotifySend)
    }

    /// Shows a notice.
    pub(super) fn show(&self, banner: &Banner) -> Result<(), String> {
        let mut command = self.command(banner);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let since = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("the program failed: {status}")),
                Ok(None) if since.elapsed() < LIMIT => thread::sleep(PAUSE),
                Ok(None) => {
                    // It may have ended just now.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err("the desktop did not answer in time".to_owned());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn command(&self, Banner { title, text }: &Banner) -> Command {
        match self {
            Self::NotifySend(program) => {
                let mut command = Command::new(program);
                command.args(["--app-name=Salve", "--", title, &without_markup(text)]);
                command
            }
            Self::OsaScript(program) => {
                let mut command = Command::new(program);
                let script = "display notification (item 2 of argv) with title (item 1 of argv)";
                command.args(["-e", "on run argv", "-e", script, "-e", "end run", title, text]);
                command
            }
        }
    }
}

/// Returns a text in which no desktop sees markup.
fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
