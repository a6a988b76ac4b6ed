//! The scratch project of a demo, and the real `salve` to run in it.

use std::io::{self, BufRead as _, BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use salve_core::overview::{IncidentIndex, IndexedIncident};
use serde::Deserialize;
use tempfile::TempDir;

use crate::cli::{CliError, Output};
use crate::project::Project;
use crate::store::{Store, Stream};

/// How long one scene may take, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// How often a state that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What the project allows: everything else waits for a person.
const SETTINGS: &str = r#"version = 1

[server]
liveness_interval_ms = 1000
liveness_grace_ms = 5000

[recovery]
auto_approve = ["sh build.sh"]

[[auto_heal.rules]]
tool = "sh orders.sh *"
match = "401|token expired"
run = "sh orders.sh login"
writes = ["~/.orders"]

[tools."sh orders.sh list"]
read_only = true
"#;

/// How fast the scenes follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DemoPace {
    /// For somebody who watches.
    Shown,
    /// For nobody.
    Fast,
}

/// The scratch project.
pub(super) struct DemoProject<'o> {
    root: TempDir,
    program: PathBuf,
    pace: DemoPace,
    out: &'o Output,
    /// What the reader types, line by line; nothing if there is no terminal.
    typed: Option<Receiver<String>>,
}

/// The page of the scratch project; it ends with the demo.
pub(super) struct DemoPage {
    child: Child,
    /// The address that opens it once.
    pub(super) link: String,
}

impl Drop for DemoPage {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `salve serve --json` says first.
#[derive(Deserialize)]
struct DemoServed {
    link: String,
}

impl<'o> DemoProject<'o> {
    /// Makes the project: a repository of its own, with a home of its own, so that neither the
    /// user's settings nor their memory are touched.
    pub(super) fn build(pace: DemoPace, out: &'o Output) -> Result<Self, CliError> {
        let root = tempfile::Builder::new().prefix("salve-demo-").tempdir()?;
        std::fs::create_dir_all(root.path().join("shop"))?;
        std::fs::create_dir_all(root.path().join("home"))?;
        let is_watched = pace == DemoPace::Shown && io::stdin().is_terminal();
        let typed = is_watched.then(typed_lines);
        let stage = Self { root, program: std::env::current_exe()?, pace, out, typed };
        stage.write("salve.toml", SETTINGS)?;
        stage.git(&["init", "-q"])?;
        stage.commit("the shop")?;
        Ok(stage)
    }

    /// Returns the project's directory.
    pub(super) fn project(&self) -> PathBuf {
        self.root.path().join("shop")
    }

    /// Returns the directory beside the project, for what is not part of it.
    pub(super) fn beside(&self) -> &Path {
        self.root.path()
    }

    /// Returns how fast the scenes follow one another.
    pub(super) fn pace(&self) -> DemoPace {
        self.pace
    }

    /// Writes a file below the project.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), CliError> {
        let path = self.project().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
        Ok(std::fs::write(path, text)?)
    }

    /// Returns the home of whoever plays the user.
    pub(super) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Commits everything in the project.
    pub(super) fn commit(&self, title: &str) -> Result<(), CliError> {
        self.git(&["add", "-A"])?;
        self.git(&["commit", "-qm", title])
    }

    /// Runs git in the project as nobody in particular.
    pub(super) fn git(&self, args: &[&str]) -> Result<(), CliError> {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=demo", "-c", "user.email=demo@localhost"]).args(args);
        git.current_dir(self.project()).stdin(Stdio::null()).stdout(Stdio::null());
        let ran = git.status().map_err(|error| {
            CliError::failed("git cannot be run").because(error).hint("install git")
        })?;
        if ran.success() { Ok(()) } else { Err(CliError::failed("git failed")) }
    }

    /// Returns a `salve` of the project, with times that suit the pace.
    pub(super) fn salve(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let home = self.home();
        command.args(args).current_dir(self.project()).stdin(Stdio::null());
        command.env("HOME", &home).env("SALVE_USER", "you");
        command.env("XDG_DATA_HOME", home.join("data")).env("XDG_CONFIG_HOME", home.join("config"));
        command.env_remove("SALVE_PROJECT");
        // Shorter than the defaults, which are for servers that are slow now and then.
        for (name, value) in [
            ("REPAIR_BASE_DELAY_MS", "500"),
            ("REPAIR_HEALTH_TIMEOUT_MS", "1000"),
            ("SALVE_SERVER_LIVENESS_INTERVAL_MS", "1000"),
            ("SALVE_SERVER_LIVENESS_GRACE_MS", "1500"),
            ("SALVE_SERVER_HEALTH_SOAK_MS", "1000"),
            // An incident is over once its server has been well for this long.
            ("SALVE_SERVER_FLAP_WINDOW_MS", "1500"),
        ] {
            command.env(name, value);
        }
        if self.pace == DemoPace::Fast {
            for (name, value) in [
                ("REPAIR_BASE_DELAY_MS", "1"),
                ("REPAIR_HEALTH_RETRY_DELAY_MS", "20"),
                ("SALVE_SERVER_HEALTH_SOAK_MS", "20"),
                ("SALVE_SERVER_FLAP_WINDOW_MS", "0"),
            ] {
                command.env(name, value);
            }
        }
        command
    }

    /// Returns this very program, for scenes that play a server.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Serves the page of the project.
    pub(super) fn serve_page(&self) -> Result<DemoPage, CliError> {
        let mut command = self.salve(&["serve", "--json", "--no-open"]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        match serde_json::from_str::<DemoServed>(&line) {
            Ok(DemoServed { link }) => Ok(DemoPage { child, link }),
            Err(error) => Err(CliError::failed("the page cannot be served").because(error)),
        }
    }

    /// Returns all incidents so far, the oldest first.
    pub(super) fn incidents(&self) -> Result<Vec<IndexedIncident>, CliError> {
        let project = Project::at(&self.project())?;
        let Some(store) = Store::open_existing(&project)? else { return Ok(Vec::new()) };
        let mut index = IncidentIndex::default();
        for entry in store.journal().read(0, &Stream::IncidentCourses, usize::MAX)? {
            index.hear(&entry);
        }
        Ok(index.rows().to_vec())
    }

    /// Waits until the incidents are so.
    pub(super) fn wait_until(
        &self,
        what: &str,
        is_so: impl Fn(&[IndexedIncident]) -> bool,
    ) -> Result<(), CliError> {
        let since = Instant::now();
        while !is_so(&self.incidents()?) {
            if since.elapsed() > PATIENCE {
                return Err(CliError::failed(format!("{what} did not happen")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Asks the reader for a word and waits until the incidents are so, by the page or by what is
    /// typed here; returns whether they are.
    pub(super) fn wait_for_word(
        &self,
        id: &str,
        is_so: impl Fn(&[IndexedIncident]) -> bool,
    ) -> Result<bool, CliError> {
        let here = if self.typed.is_some() { ", or type `yes` or `no` here" } else { "" };
        let limit = PATIENCE.as_secs();
        self.out.remark(format_args!(
            "\nYour turn: approve it under `Needs you` on the page{here}.\nWithout an answer in \
             {limit} s the demo says no."
        ));
        let since = Instant::now();
        while !is_so(&self.incidents()?) {
            if since.elapsed() > PATIENCE {
                return Ok(false);
            }
            match self.typed.as_ref().and_then(|typed| typed.try_recv().ok()).as_deref() {
                Some("y" | "yes") => drop(self.salve(&["approve", id]).status()?),
                Some("n" | "no") => drop(self.salve(&["reject", id]).status()?),
                Some(_) => self.out.remark("Type `yes` or `no`, or answer on the page."),
                None => std::thread::sleep(LOOK),
            }
        }
        Ok(true)
    }

    /// Leaves the page open until the reader has seen enough.
    pub(super) fn wait_for_reader(&self) {
        if let Some(typed) = &self.typed {
            self.out.remark("\nThe page stays open until you press Enter.");
            // What was typed before was not meant for this.
            while typed.try_recv().is_ok() {}
            // Whatever comes, it ends.
            let _ = typed.recv();
        }
    }
}

/// Reads what is typed on a thread of its own, for as long as the program runs.
fn typed_lines() -> Receiver<String> {
    let (typed, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if typed.send(line.trim().to_lowercase()).is_err() {
                break;
            }
        }
    });
    lines
}

/// Ends a `salve` as Ctrl-C does, and waits until all that it started is gone.
pub(super) fn interrupt(mut child: Child) -> Result<(), CliError> {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::INT);
    }
    child.wait()?;
    Ok(())
}
