//! A notice on this machine's desktop, by the terminal if it can, else by the desktop's program.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use salve_core::notify::Banner;

use crate::process::program_outside;

/// How long the program may take.
const LIMIT: Duration = Duration::from_secs(3);
/// How long to wait before looking again whether it has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// What shows notices here.
#[derive(Clone, Debug)]
pub(super) enum Desktop {
    /// The terminal that Salve runs in.
    Terminal(Osc),
    /// The freedesktop.org program.
    NotifySend(PathBuf),
    /// The script host of macOS.
    OsaScript(PathBuf),
}

impl Desktop {
    /// Finds what shows notices on this machine, if there is a desktop.
    pub(super) fn find() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        if let Some(osc) = Osc::of(variable).filter(|_| std::io::stderr().is_terminal()) {
            return Some(Self::Terminal(osc));
        }
        if cfg!(target_os = "macos") {
            return program_outside("osascript").map(Self::OsaScript);
        }
        program_outside("notify-send").filter(|_| Self::is_there()).map(Self::NotifySend)
    }

    /// Returns whether there is a desktop, whatever shows notices on it.
    pub(super) fn is_there() -> bool {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        cfg!(target_os = "macos") || is_set("WAYLAND_DISPLAY") || is_set("DISPLAY")
    }

    /// Returns what it is called.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Terminal(_) => "this terminal",
            Self::NotifySend(_) => "notify-send",
            Self::OsaScript(_) => "osascript",
        }
    }

    /// Shows a notice.
    pub(super) fn show(&self, banner: &Banner) -> Result<(), String> {
        let Some(mut command) = self.command(banner)? else { return Ok(()) };
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

    /// Returns the program that shows a notice, if one is needed for it.
    fn command(&self, banner: &Banner) -> Result<Option<Command>, String> {
        let Banner { title, text } = banner;
        Ok(Some(match self {
            Self::Terminal(osc) => {
                // One write, so that nothing comes in between.
                let written =
                    rustix::io::write(rustix::stdio::stderr(), osc.say(banner).as_bytes());
                return written.map(|_| None).map_err(|error| error.to_string());
            }
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
        }))
    }
}

/// The sequences by which terminals show notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Osc {
    /// iTerm2, WezTerm, Ghostty.
    Nine,
    /// kitty.
    NinetyNine,
    /// foot, urxvt.
    SevenSevenSeven,
}

impl Osc {
    /// Returns what the terminal that the variables tell of understands, if that is known.
    fn of(variable: impl Fn(&str) -> String) -> Option<Self> {
        let (term, program) = (variable("TERM"), variable("TERM_PROGRAM"));
        match (&*program, &*term) {
            ("iTerm.app" | "WezTerm" | "ghostty", _) => Some(Self::Nine),
            (_, "xterm-kitty") => Some(Self::NinetyNine),
            (_, term) if term.starts_with("foot") || term.starts_with("rxvt-unicode") => {
                Some(Self::SevenSevenSeven)
            }
            (_, _) => None,
        }
    }

    /// Returns a notice as the terminal understands it.
    fn say(self, Banner { title, text }: &Banner) -> String {
        // A text must not end the sequence, nor divide its fields.
        let plain = |text: &str, most: usize| {
            let one = |c: char| if c.is_control() || c == ';' { ' ' } else { c };
            text.chars().take(most).map(one).collect::<String>()
        };
        let (title, text) = (plain(title, 80), plain(text, 200));
        let body = match self {
            Self::Nine => format!("9;{title}: {text}"),
            Self::NinetyNine => format!("99;;{title}: {text}"),
            Self::SevenSevenSeven => format!("777;notify;{title};{text}"),
        };
        format!("\u{1b}]{body}\u{1b}\\")
    }
}

/// Returns a text in which no desktop sees markup.
fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_that_are_known_get_their_own_sequence_and_no_text_can_end_it() {
        let banner = Banner { title: "check a;b".into(), text: "x\u{1b}\\\u{7}\ny".into() };
        for (term, program, want) in [
            ("xterm-256color", "iTerm.app", Some("\u{1b}]9;check a b: x \\  y\u{1b}\\")),
            ("xterm-kitty", "", Some("\u{1b}]99;;check a b: x \\  y\u{1b}\\")),
            ("foot", "", Some("\u{1b}]777;notify;check a b;x \\  y\u{1b}\\")),
            ("xterm-256color", "vscode", None),
            ("", "", None),
        ] {
            let variable = |name: &str| match name {
                "TERM" => term.to_owned(),
                _ => program.to_owned(),
            };
            let said = Osc::of(variable).map(|osc| osc.say(&banner));
            assert_eq!(said.as_deref(), want, "{term} {program}");
        }
    }
}
