//! What a client itself says of Salve once it is registered.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::doctor::answer_of;
use crate::register::{Client, NAME};

use super::{CliError, Output};

/// How long a client may take: some start every server to see whether it answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// Has the client list its servers, and says what it says of Salve; a client that is not installed, or that
/// has no such command, is not asked.
pub(super) fn tell_listing(client: Client, dir: &Path, out: &Output) -> Result<(), CliError> {
    let Some(program) = client.lister() else { return Ok(()) };
    let Ok(told) = answer_of(program, &["mcp", "list"], dir, PATIENCE) else { return Ok(()) };
    let text = match listed(&told) {
        Some(line) => format!("`{program} mcp list` says: {line}"),
        None => format!("`{program} mcp list` does not show it yet"),
    };
    Ok(writeln!(out.stdout(), "    {text}")?)
}

/// Returns the line about Salve, without colours and bullets.
fn listed(told: &str) -> Option<String> {
    let plain = anstream::adapter::strip_str(told).to_string();
    let is_ours = |line: &&str| {
        let words = line.split_whitespace().map(|word| word.trim_end_matches(':'));
        words.take(3).any(|word| word == NAME)
    };
    let line = plain.lines().find(is_ours)?;
    let words: Vec<&str> =
        line.split_whitespace().skip_while(|word| word.len() <= 3 && !word.is_ascii()).collect();
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_about_salve_is_found_however_a_client_draws_it() {
        for (told, want) in [
            (
                "Checking MCP server health…\n\nsalve: salve mcp - ⏸ Pending approval\n",
                Some("salve: salve mcp - ⏸ Pending approval"),
            ),
            ("Name   Command\nsalve  /opt/salve  mcp   -\n", Some("salve /opt/salve mcp -")),
            (
                "Configured MCP servers:\n\n○ salve: salve mcp (stdio) - Disabled\n",
                Some("salve: salve mcp (stdio) - Disabled"),
            ),
            ("│\n●  ✓ salve \u{1b}[90mconnected\n│\n", Some("salve connected")),
            ("No MCP servers configured yet.\n", None),
            ("other: /home/salve/bin/other - connected\n", None),
        ] {
            assert_eq!(listed(told).as_deref(), want, "{told}");
        }
    }
}
