//! `salve notify`: the ways in which Salve tells others what happens.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use salve_core::event::Channel;
use serde::Serialize;

use super::events::visible;
use super::{CliError, Exit, Output, project};
use crate::notify::{self, DeliveryAttempt, NoticePlan};

/// Arguments of `salve notify`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: NotifyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum NotifyCommand {
    /// Send a test to every webhook and to the desktop, once
    Test,
}

/// What `--json` prints.
#[derive(Serialize)]
struct NotifyReport<'a> {
    version: u32,
    channels: Vec<NotifyTargetRow<'a>>,
}

#[derive(Serialize)]
struct NotifyTargetRow<'a> {
    channel: Channel,
    setting: &'a str,
    delivered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Runs the command; exit code 1 if somebody could not be told.
pub(super) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    match args.command {
        NotifyCommand::Test => test(out),
    }
}

fn test(out: &Output) -> Result<Exit, CliError> {
    let project = project::locate(out)?;
    let config = super::config::in_force(out)?;
    let tried = notify::test(&NoticePlan::new(&config.settings), &project);
    let failed = tried.iter().any(|one| one.failed.is_some());
    if out.json() {
        out.fact(&NotifyReport { version: 1, channels: tried.iter().map(row).collect() })?;
    } else if tried.is_empty() {
        out.remark("nobody is told: there is no webhook in the settings, and no desktop");
    } else {
        print(&mut out.stdout(), &tried)?;
    }
    Ok(if failed { Exit::Failed } else { Exit::Well })
}

fn row(one: &DeliveryAttempt) -> NotifyTargetRow<'_> {
    let reason = one.failed.as_deref();
    NotifyTargetRow { channel: one.via, setting: &one.setting, delivered: reason.is_none(), reason }
}

fn print(to: &mut impl Write, tried: &[DeliveryAttempt]) -> std::io::Result<()> {
    for one in tried {
        let (mark, colour, text) = match &one.failed {
            None => ("●", AnsiColor::Green, "delivered".to_owned()),
            Some(why) => ("■", AnsiColor::Red, visible(why)),
        };
        let style = Style::new().fg_color(Some(colour.into()));
        writeln!(to, "{style}{mark}{style:#} {:<26} {text}", one.setting)?;
    }
    Ok(())
}
