//! Writes what was found as a short settings file.

use std::path::Path;

use super::{Detected, Findings, read};
use crate::project::LEFT_AT_THE_ROOT;

/// Returns the text of a `salve.toml`.
pub fn settings_text(findings: &Findings) -> String {
    let mut text =
        "# Settings of Salve for this project; `salve config show` lists all there are.\n\
         # Start with `salve dev` and `salve heal`.\n"
            .to_owned();
    for server in &findings.servers {
        text.push_str(&section("servers", server));
    }
    for check in &findings.checks {
        text.push_str(&section("checks", check));
    }
    if !findings.services.is_empty() {
        let names: Vec<_> = findings.services.iter().map(|name| plain(name)).collect();
        text.push_str(&format!(
            "\n# The compose file has {}; start them with `docker compose up`.\n",
            names.join(", ")
        ));
    }
    text.push_str(
        "\n# A healthy answer, if it is more than a page where the server says it listens:\n\
         # [server.health]\n\
         # path = \"/health\"\n\
         \n\
         # Let a coding agent repair code; `salve init --agent claude` tells it about Salve.\n\
         # [agent]\n\
         # repair = true\n",
    );
    text
}

fn section(table: &str, server: &Detected) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let framework = server.framework.map(|name| format!("{name}: "));
    let why: Vec<_> = server.why.iter().map(|why| plain(why)).collect();
    let dir = server.dir.as_deref().map(|dir| format!("dir = {}\n", quoted(dir)));
    format!(
        "\n# {}{}\n[{table}.{}]\ncommand = {}\n{}",
        framework.unwrap_or_default(),
        why.join(", "),
        server.name,
        quoted(&server.command),
        dir.unwrap_or_default(),
    )
}

/// Returns text fit for a comment.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}

/// Returns the lines that a `.gitignore` lacks; none where there is no git.
pub fn missing_ignores(root: &Path) -> Vec<&'static str> {
    if !root.ancestors().any(|dir| dir.join(".git").exists()) {
        return Vec::new();
    }
    let text = read(root, ".gitignore").unwrap_or_default();
    let has = |line: &&str| text.lines().any(|known| known.trim().trim_start_matches('/') == *line);
    LEFT_AT_THE_ROOT.into_iter().filter(|line| !has(line)).collect()
}

/// Returns a `.gitignore` with these lines at its end.
pub fn with_ignores(root: &Path, lines: &[&str]) -> String {
    let old = read(root, ".gitignore").unwrap_or_default();
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    format!("{old}{gap}{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_as_it_was_found(
            command in "\\PC{1,30}x",
            dir in prop::option::of("\\PC{1,12}"),
            why in "[\\PC\\n]{0,20}",
            service in "\\PC{0,9}",
        ) {
            let name = "web".to_owned();
            let framework = Some("Vite");
            let server = Detected { name, command, dir, framework, why: vec![why] };
            let findings = Findings {
                servers: vec![server.clone()],
                checks: vec![server.clone()],
                services: vec![service],
            };
            let text = settings_text(&findings);
            let config = crate::config::load_file(Path::new("salve.toml"), text).unwrap();
            let read = &config.settings.servers["web"];
            prop_assert_eq!(read.command.as_ref().unwrap().to_string(), server.command);
            prop_assert_eq!(&read.dir, &server.dir);
        }
    }
}
