//! `salve logs`: what servers wrote and agents said, without their secrets.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CliError, Exit, Output, interrupt, project};
use crate::files::{FileKind, Links, open_regular, read_bytes};
use crate::process::{OLDER, older};
use crate::project::Project;

/// How often `--follow` looks for more.
const LOOK: Duration = Duration::from_millis(100);

/// Arguments of `salve logs`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The servers [default: all that have a log]
    name: Vec<String>,
    /// What agents said and which tools they used, of those that Salve starts
    #[arg(long, conflicts_with = "name")]
    agent: bool,
    /// Wait for more until stopped with Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// How many lines of each to begin with
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    lines: usize,
}

/// One log and how far it was shown.
struct Log {
    name: String,
    path: PathBuf,
    file: Option<File>,
    inode: u64,
    /// A line that has not ended.
    open: Vec<u8>,
}

/// Shows the last lines of each log, and with `--follow` what comes.
pub(super) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    let project = project::locate(out)?;
    let mut logs =
        if args.agent { vec![of_agents(&project)?] } else { of_servers(&project, args)? };
    let several = logs.len() > 1;
    let widest = logs.iter().map(|log| log.name.len()).max().unwrap_or_default();
    let prefix = |name: &str| if several { format!("{name:<widest$} | ") } else { String::new() };
    // What is not UTF-8 passes through as it came, and so do colours where they are shown.
    let mut to = anstream::AutoStream::auto(io::stdout()).lock();
    for log in &mut logs {
        let cannot =
            |error| CliError::failed(format!("cannot read {}", log.path.display())).because(error);
        let last = last(&log.path, args.lines).map_err(cannot)?;
        show(&mut to, &prefix(&log.name), &last)?;
        log.open().map_err(|error| CliError::failed("cannot read a log").because(error))?;
        if let Some(file) = &mut log.file {
            file.seek(SeekFrom::End(0))?;
        }
    }
    to.flush()?;
    if !args.follow {
        return Ok(Exit::Well);
    }
    interrupt::end_with_130()?;
    loop {
        for log in &mut logs {
            let new = log.more()?;
            show(&mut to, &prefix(&log.name), &new)?;
        }
        to.flush()?;
        std::thread::sleep(LOOK);
    }
}

/// Returns the log of agents.
fn of_agents(project: &Project) -> Result<Log, CliError> {
    let path = project.agent_log();
    if !path.exists() {
        return Err(CliError::failed("no agent that Salve starts has said anything here"));
    }
    Ok(Log::new("agent".to_owned(), path))
}

/// Returns the logs of the servers that are meant.
fn of_servers(project: &Project, args: &Args) -> Result<Vec<Log>, CliError> {
    let names = names(project, &args.name)?.into_iter();
    Ok(names.map(|name| Log::new(name.clone(), project.log(&name))).collect())
}

/// Returns the servers whose logs are meant.
fn names(project: &Project, given: &[String]) -> Result<Vec<String>, CliError> {
    let mut known = Vec::new();
    if let Some(dir) = project.log("any").parent()
        && let Ok(entries) = std::fs::read_dir(dir)
    {
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        known.extend(names.filter_map(|name| Some(name.strip_suffix(".log")?.to_owned())));
    }
    known.sort();
    if known.is_empty() {
        return Err(CliError::failed("no server has written anything here")
            .hint("start one: salve dev -- npm run dev"));
    }
    if given.is_empty() {
        return Ok(known);
    }
    match given.iter().find(|name| !known.contains(name)) {
        Some(unknown) => Err(CliError::usage(format!("there is no log of `{unknown}`"))
            .hint(format!("there is one of: {}", known.join(", ")))),
        None => Ok(given.to_vec()),
    }
}

/// Returns the last lines of a log, from older files too where the newest has too few.
fn last(path: &Path, lines: usize) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for number in 0..=OLDER {
        let path = if number == 0 { path.to_owned() } else { older(path, number) };
        let mut before = match read_bytes(&path, FileKind::Bulk).map_err(io::Error::from) {
            Ok(before) => before,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        };
        before.append(&mut text);
        text = before;
        let ended = text.strip_suffix(b"\n").unwrap_or(&text);
        match lines.checked_sub(1).map(|nth| memchr::memrchr_iter(b'\n', ended).nth(nth)) {
            None => return Ok(Vec::new()),
            Some(Some(cut)) => return Ok(text.split_off(cut + 1)),
            Some(None) => {}
        }
    }
    Ok(text)
}

/// Writes whole lines, each behind `prefix`.
fn show(to: &mut impl Write, prefix: &str, text: &[u8]) -> io::Result<()> {
    if prefix.is_empty() {
        return to.write_all(text);
    }
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        to.write_all(prefix.as_bytes())?;
        to.write_all(line)?;
    }
    Ok(())
}

impl Log {
    fn new(name: String, path: PathBuf) -> Self {
        Self { name, path, file: None, inode: 0, open: Vec::new() }
    }

    fn open(&mut self) -> io::Result<()> {
        match open_regular(&self.path, Links::Refuse) {
            Ok(file) => {
                self.inode = file.metadata()?.ino();
                self.file = Some(file);
                Ok(())
            }
            Err(error) if error.is_absent() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the whole lines that were added, over a change of files.
    fn more(&mut self) -> io::Result<Vec<u8>> {
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut self.open)?;
        }
        let now = std::fs::metadata(&self.path).map(|found| found.ino()).ok();
        if now.is_some_and(|inode| self.file.is_none() || inode != self.inode) {
            self.open()?;
            if let Some(file) = &mut self.file {
                file.read_to_end(&mut self.open)?;
            }
        }
        let whole = memchr::memrchr(b'\n', &self.open).map_or(0, |end| end + 1);
        let rest = self.open.split_off(whole);
        Ok(std::mem::replace(&mut self.open, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_found_over_older_files() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("web.log");
        std::fs::write(older(&path, 1), "a\nb\n").unwrap();
        std::fs::write(&path, "c\nd\n").unwrap();
        for (lines, want) in
            [(0, ""), (1, "d\n"), (2, "c\nd\n"), (3, "b\nc\nd\n"), (9, "a\nb\nc\nd\n")]
        {
            assert_eq!(String::from_utf8(last(&path, lines).unwrap()).unwrap(), want, "{lines}");
        }
    }

    #[test]
    fn a_new_file_is_followed_once_the_old_one_is_read_out() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("web.log");
        let mut log = Log::new("web".into(), path.clone());
        assert_eq!(log.more().unwrap(), b"");
        std::fs::write(&path, "one\ntw").unwrap();
        assert_eq!(log.more().unwrap(), b"one\n");
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"o\n").unwrap();
        std::fs::rename(&path, older(&path, 1)).unwrap();
        std::fs::write(&path, "three\n").unwrap();
        assert_eq!(log.more().unwrap(), b"two\nthree\n");
    }
}
