//! A server that is broken until its file is mended, under the care of `salve dev` in agent mode.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use salve::store::{Store, Stream};
use salve_core::event::{Entry, Event, IncidentEvent};
use salve_core::id::IncidentId;
use salve_core::incident::Incident;
use serde_json::Value;

use crate::support::Project;
pub(crate) use crate::support::{LONG, is_alive, wait_for as wait_until};

/// What a broken server does.
pub(crate) const BROKEN: &str = "echo 'ReferenceError: total is not defined' >&2\nexit 1\n";
/// What a mended server does.
pub(crate) const MENDED: &str = "exec sleep 300\n";

/// The phases of a repair by an agent that reports every step, from the crash to the recovery.
pub(crate) const REPAIRED: [&str; 12] = [
    "crash_detected",
    "repair_started",
    "awaiting_agent",
    "agent_started",
    "agent_reading_log",
    "agent_applying_fix",
    "agent_wrote_files",
    "ready_to_restart",
    "restarting",
    "health-check",
    "verifying_fix",
    "recovered",
];

/// A project with a broken server.
pub(crate) struct Bench {
    pub(crate) project: Project,
}

/// A run of `salve dev` that tells its phases.
pub(crate) struct Run {
    pub(crate) salve: Child,
    facts: Receiver<Value>,
    said: Receiver<String>,
    /// The phases until now.
    pub(crate) phases: Vec<String>,
}

impl Bench {
    /// Makes a project whose server is broken.
    pub(crate) fn new() -> Self {
        let project = Project::new();
        project.write("app.sh", BROKEN);
        project.write("salve.toml", "[agent]\nrepair = true\n");
        Self { project }
    }

    /// Makes a project in which Salve starts a stand-in for an agent.
    pub(crate) fn with_own(runtime: &str, script: &str) -> Self {
        let bench = Self::new();
        let program = if runtime == "command" { "fixer" } else { runtime };
        let command = "command = [\"fixer\", \"--now\"]\n";
        let settings = format!(
            "[agent]\nrepair = true\nautostart = true\nruntime = \"{runtime}\"\n{}",
            if runtime == "command" { command } else { "" }
        );
        bench.project.write("salve.toml", settings);
        bench.stand_in(program, script);
        bench
    }

    /// Puts a script into the place of a program.
    pub(crate) fn stand_in(&self, program: &str, script: &str) {
        let bin = self.bin();
        std::fs::create_dir_all(&bin).unwrap();
        let path = bin.join(program);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn bin(&self) -> PathBuf {
        self.project.home().join("bin")
    }

    /// Starts `salve dev` with times that are short where they are waited for and long where
    /// nothing should happen.
    pub(crate) fn dev(&self, env: &[(&str, &str)]) -> Run {
        self.start(&["dev", "--json", "--", "sh", "app.sh"], env)
    }

    /// Starts `salve dev` for all servers of the settings.
    pub(crate) fn dev_all(&self, env: &[(&str, &str)]) -> Run {
        self.start(&["dev", "--json"], env)
    }

    fn start(&self, args: &[&str], env: &[(&str, &str)]) -> Run {
        let mut command = self.project.command(args);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.bin().display()));
        for (name, value) in [
            ("REPAIR_HEALTH_RETRY_DELAY_MS", "300"),
            ("SALVE_SERVER_HEALTH_SOAK_MS", "200"),
            ("SALVE_SERVER_FLAP_WINDOW_MS", "0"),
            ("REPAIR_QUIET_PERIOD_MS", "1"),
            ("REPAIR_COOLDOWN_MS", "600000"),
            ("AGENT_ENGAGE_TIMEOUT_MS", "600000"),
            ("AGENT_WRITE_TIMEOUT_MS", "600000"),
        ] {
            command.env(name, value);
        }
        command.envs(env.iter().copied());
        Run::start(command)
    }

    pub(crate) fn mend(&self) {
        self.project.write("app.sh", MENDED);
    }

    pub(crate) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.project.dir().join(file)).unwrap_or_default()
    }

    fn store(&self) -> Store {
        Store::open(&salve::project::Project::at(&self.project.dir()).unwrap()).unwrap()
    }

    /// Returns the incidents, the oldest first.
    pub(crate) fn incidents(&self) -> Vec<IncidentId> {
        let opened = self.kind("opened");
        opened.iter().filter_map(|entry| entry.incident).collect()
    }

    pub(crate) fn entries(&self, id: IncidentId) -> Vec<Entry> {
        self.store().journal().read(0, &Stream::Incident(id), usize::MAX).unwrap()
    }

    pub(crate) fn kind(&self, kind: &str) -> Vec<Entry> {
        let all = self.store().journal().read(0, &Stream::Project, usize::MAX).unwrap();
        all.into_iter().filter(|entry| entry.event.kind() == kind).collect()
    }

    /// Returns the only incident.
    #[track_caller]
    pub(crate) fn incident(&self) -> Incident {
        let ids = self.incidents();
        assert_eq!(ids.len(), 1, "{ids:?}");
        Incident::replay(&self.entries(ids[0])).unwrap()
    }

    /// Returns what was said of each phase of an incident.
    pub(crate) fn told(&self, id: IncidentId) -> Vec<(&'static str, String)> {
        let entries = self.entries(id);
        let view = salve_core::view::IncidentView::of(entries).unwrap();
        view.notices().map(|(_, notice)| (notice.phase.as_str(), notice.message.clone())).collect()
    }

    /// Returns the agents that were started.
    pub(crate) fn launched(&self) -> Vec<u32> {
        let launched = self.kind("agent_launched").into_iter().filter_map(|entry| {
            let Event::Incident(IncidentEvent::AgentLaunched { process, .. }) = entry.event else {
                return None;
            };
            Some(process.pid)
        });
        launched.collect()
    }
}

impl Run {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut salve = command.spawn().unwrap();
        let (to, facts) = mpsc::channel();
        let stdout = BufReader::new(salve.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = to.send(serde_json::from_str(&line).unwrap());
            }
        });
        let (to, said) = mpsc::channel();
        let stderr = BufReader::new(salve.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        Self { salve, facts, said, phases: Vec::new() }
    }

    /// Waits until a phase is told that was not told before.
    #[track_caller]
    pub(crate) fn until(&mut self, phase: &str) {
        loop {
            let Ok(fact) = self.facts.recv_timeout(LONG) else {
                let said: Vec<String> = self.said.try_iter().collect();
                panic!("`{phase}` was never told after {:?}: {said:#?}", self.phases);
            };
            // What is no phase (a server that is up, the end) is not waited for here.
            let Some(told) = fact["phase"].as_str().map(str::to_owned) else { continue };
            self.phases.push(told.clone());
            if told == phase {
                return;
            }
        }
    }

    /// Waits until a line is said that has `words` in it, and returns it.
    #[track_caller]
    pub(crate) fn until_said(&mut self, words: &str) -> String {
        let mut before = Vec::new();
        loop {
            match self.said.recv_timeout(LONG) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => before.push(line),
                Err(_) => panic!("`{words}` was never said after {before:#?}"),
            }
        }
    }

    /// Returns the worker's pid.
    pub(crate) fn worker(&self) -> u32 {
        let children = format!("/proc/{0}/task/{0}/children", self.salve.id());
        let read = || std::fs::read_to_string(&children).unwrap_or_default();
        wait_until("a worker", || !read().trim().is_empty());
        read().split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Kills both of its processes at once, so that nobody is left to clean up; one that waits for
    /// a person may have ended by itself.
    pub(crate) fn kill(&mut self) {
        if self.salve.try_wait().unwrap().is_none() {
            signal("STOP", self.salve.id());
            let children = format!("/proc/{0}/task/{0}/children", self.salve.id());
            let children = std::fs::read_to_string(&children).unwrap_or_default();
            let workers: Vec<u32> =
                children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
            workers.iter().for_each(|worker| signal("KILL", *worker));
            self.salve.kill().unwrap();
            wait_until("the worker's end", || !workers.iter().any(|worker| is_alive(*worker)));
        }
        self.salve.wait().unwrap();
    }

    /// Ends it as Ctrl-C does, and returns its exit code and all phases.
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<String>) {
        signal("INT", self.salve.id());
        let code = self.salve.wait().unwrap().code();
        let rest = self.facts.iter().filter_map(|fact| Some(fact["phase"].as_str()?.to_owned()));
        self.phases.extend(rest);
        (code, std::mem::take(&mut self.phases))
    }

    /// Waits until it ends by itself, and returns its exit code and all phases.
    pub(crate) fn wait(mut self) -> (Option<i32>, Vec<String>) {
        let code = self.salve.wait().unwrap().code();
        assert_ne!(code, Some(1), "it failed: {:#?}", self.said.iter().collect::<Vec<_>>());
        let rest = self.facts.iter().filter_map(|fact| Some(fact["phase"].as_str()?.to_owned()));
        self.phases.extend(rest);
        (code, std::mem::take(&mut self.phases))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Ok(None) = self.salve.try_wait() {
            signal("TERM", self.salve.id());
            let _ = self.salve.wait();
        }
    }
}

/// Sends a signal to one process.
pub(crate) fn signal(name: &str, pid: u32) {
    // It may have ended just now.
    let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
}
