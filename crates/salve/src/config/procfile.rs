//! Servers from a Procfile, for projects that have one and no `[servers]`.

use std::collections::BTreeMap;

use super::command::CommandLine;
use super::servers::ServerEntry;

/// The files that are looked for, the first that exists wins.
pub const PROCFILES: [&str; 2] = ["Procfile.dev", "Procfile"];

/// A line of a Procfile that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected `name: command`")]
pub struct ProcfileError {
    /// The number of the line, from 1.
    pub line: usize,
}

/// Reads the servers of a Procfile; `release` is a step of a deployment and no server.
pub fn procfile(text: &str) -> Result<BTreeMap<String, ServerEntry>, ProcfileError> {
    let mut servers = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = ProcfileError { line: number };
        let (name, command) = line.split_once(':').ok_or_else(|| wrong.clone())?;
        let (name, command) = (name.trim().to_ascii_lowercase(), command.trim());
        if !is_name(&name) || command.is_empty() {
            return Err(wrong);
        }
        if name != "release" {
            let command = Some(CommandLine::Line(command.to_owned()));
            servers.insert(name, ServerEntry { command, ..ServerEntry::default() });
        }
    }
    Ok(servers)
}

/// Returns whether this can be the name of a server.
pub fn is_name(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
    !name.is_empty() && name.len() <= 40 && name.bytes().all(good) && !name.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_from_a_procfile() {
        let text = "# dev\nweb: npm start -- --port 3000\n\nWorker_1:  bundle exec sidekiq \nrelease: rake db:migrate\r\n";
        let servers = procfile(text).unwrap();
        let commands: Vec<_> = servers
            .iter()
            .map(|(name, entry)| format!("{name}={}", entry.command.as_ref().unwrap()))
            .collect();
        assert_eq!(commands, ["web=npm start -- --port 3000", "worker_1=bundle exec sidekiq"]);
        for wrong in ["web npm start", "we b: x", ": x", "web:", "ok: x\n-x: y"] {
            assert!(procfile(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            procfile("a: b\nc").unwrap_err().to_string(),
            "line 2: expected `name: command`"
        );
    }
}
