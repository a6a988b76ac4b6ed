//! What a server wrote before it died: kept in a file, and quoted to whoever waits for an answer.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use salve_core::scrub::Scrubber;

use crate::dirs;
use crate::project::Project;

/// How many of the last lines an answer quotes.
const QUOTED: usize = 8;
/// How long a file may become before a new one is begun.
const LONGEST: u64 = 1 << 20;

/// The file of one server's crashes, found and opened only when one dies.
#[derive(Debug)]
pub(super) struct ProxyCrashLog {
    name: String,
}

impl ProxyCrashLog {
    pub(super) fn new(name: String) -> Self {
        Self { name }
    }

    /// Keeps how a server ended and what it wrote; returns what a client is told about it.
    pub(super) fn record(&self, how: &str, tail: &str, scrubber: &Scrubber) -> String {
        let tail = scrubber.scrub(tail);
        let lines: Vec<&str> = tail.as_str().lines().collect();
        let quoted = lines[lines.len().saturating_sub(QUOTED)..].join("\n");
        let mut told = format!("`{}` {how}.", self.name);
        if quoted.is_empty() {
            told.push_str(" It wrote nothing to its standard error.");
        } else {
            told.push_str(&format!(" It last wrote to its standard error:\n{quoted}\n"));
        }
        if let Some(path) = self.keep(how, tail.as_str()).ok().flatten() {
            told.push_str(&format!("More of it is in {}.", path.display()));
        }
        told
    }

    fn keep(&self, how: &str, tail: &str) -> io::Result<Option<PathBuf>> {
        let Some(path) = self.path() else { return Ok(None) };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        if fs::metadata(&path).is_ok_and(|meta| meta.len() > LONGEST) {
            fs::rename(&path, path.with_extension("log.1"))?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        let now = jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default();
        file.write_all(format!("{tail}\n[salve: {how} at {now}]\n").as_bytes())?;
        Ok(Some(path))
    }

    /// Returns the project's place for logs, or the user's where Salve keeps nothing in a project.
    fn path(&self) -> Option<PathBuf> {
        let name = format!("mcp-{}", self.name);
        let project = Project::locate(None).ok();
        match project.filter(|project| project.has_state_dir().unwrap_or(false)) {
            Some(project) => Some(project.log(&name)),
            None => Some(dirs::data()?.join("logs").join(format!("{name}.log"))),
        }
    }
}
