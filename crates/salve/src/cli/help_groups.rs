//! The commands in the main help, by what people want: a flat list of fifty is not read.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::styling::Styles;

/// Headings, and the commands below them in the order in which they are shown.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run and heal", &["demo", "dev", "heal", "loop", "run", "call", "proxy", "skill"]),
    ("See what happens", &["status", "ps", "logs", "incidents", "show", "events", "serve"]),
    (
        "Answer and steer",
        &[
            "approve", "reject", "resolve", "retry", "refill", "undo", "pause", "resume", "abort",
            "start", "stop", "restart",
        ],
    ),
    ("Queue of jobs", &["submit", "worker", "workers", "fleet", "jobs", "control", "metrics"]),
    ("Failures and memory", &["explain", "fingerprint", "memory", "patterns", "debug", "report"]),
    ("Rules and settings", &["init", "config", "rules", "gate", "notify", "doctor"]),
    ("Agents and scripts", &["mcp", "hook", "scrub", "completions", "man"]),
];

/// Has the main help show the commands in groups.
pub(super) fn grouped(command: Command) -> Command {
    let (list, head) = (list(&command), *Styles::default().get_header());
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\
         `salve COMMAND --help` says more about a command.\n\n\
         {head}Options:{head:#}\n{{options}}{{after-help}}"
    ))
}

fn list(command: &Command) -> String {
    let styles = Styles::default();
    let (head, literal) = (styles.get_header(), styles.get_literal());
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let width = names.map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, names) in GROUPS {
        // Writing to a text does not fail.
        let _ = writeln!(text, "{head}{heading}:{head:#}");
        for name in *names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {about}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_shown_once_and_fits_a_narrow_terminal() {
        let command = Cli::command();
        let mut shown: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let visible = command.get_subcommands().filter(|one| !one.is_hide_set());
        let mut all: Vec<&str> = visible.map(Command::get_name).collect();
        shown.sort_unstable();
        all.sort_unstable();
        assert_eq!(shown, all);
        let help = grouped(command).render_help().to_string();
        let (first, _) = help.split_once("Options:").unwrap();
        let wide: Vec<&str> = first.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
        assert!(help.contains("Run and heal:\n  demo") && help.contains("  dev          Run dev"));
        assert!(help.contains("Exit codes: 0 well"), "{help}");
    }
}
