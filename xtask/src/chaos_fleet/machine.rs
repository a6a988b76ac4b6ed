//! A machine of a soak with a worker on it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::gate::{FLEET, Gate};
use super::network::MachineNet;
use super::servers::fill;
use super::{Person, SETTINGS};
use crate::chaos::Luck;

/// How large a machine's disk is.
const DISK: &str = "size=192m";

/// How long a worker stays away that has ended.
const REST: Duration = Duration::from_millis(700);

/// How far a worker's clock is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    None,
    Ahead,
    Behind,
}

impl Shift {
    /// Chooses one; most clocks are right.
    pub(super) fn any(luck: &mut Luck) -> Self {
        match luck.below(10) {
            0 if Self::library().is_some() => Self::Ahead,
            1 if Self::library().is_some() => Self::Behind,
            _ => Self::None,
        }
    }

    /// Returns the library that shifts a process's clock, where it is installed.
    pub(super) fn library() -> Option<PathBuf> {
        let dirs = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let paths = dirs.map(|dir| dir.path().join("faketime/libfaketime.so.1"));
        paths.into_iter().find(|path| path.is_file())
    }

    fn shift(self, command: &mut Command) {
        let offset = match self {
            Self::None => return,
            Self::Ahead => "+1h",
            Self::Behind => "-1h",
        };
        let Some(library) = Self::library() else { return };
        command.env("LD_PRELOAD", library).env("FAKETIME", offset);
        // A steady clock is steady on every machine.
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}

/// Gives a command a home of its own, and the fleet.
pub(super) fn at_home(command: &mut Command, home: &Path, url: &str) {
    command.env("HOME", home).env("SALVE_USER", "chaos").env("SALVE_FLEET_URL", url);
    command.env("SALVE_FLEET_NAME", FLEET);
    for name in ["XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
        command.env_remove(name);
    }
}

/// A machine with a worker.
pub(super) struct Machine {
    salve: PathBuf,
    place: PathBuf,
    log: PathBuf,
    pub(super) net: MachineNet,
    pub(super) gate: Arc<Gate>,
    url: String,
    child: Option<Child>,
    /// When it ended; one that cannot begin is not begun again at once.
    ended_at: Option<Instant>,
    /// What was suspended with it.
    suspended: Vec<String>,
    has_disk: bool,
}

impl Machine {
    pub(super) fn new(
        person: &Person,
        number: usize,
        net: MachineNet,
        gate: Arc<Gate>,
    ) -> io::Result<Self> {
        let (salve, home) = (&person.salve, &person.home);
        let place = home.join(format!("machine-{number}"));
        fs::create_dir_all(&place)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", DISK, "none"]).arg(&place);
        let has_disk = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        let log = home.join(format!("worker-{number}.log"));
        let (url, salve) = (format!("nats://{}", gate.address), salve.clone());
        let (child, ended_at, suspended) = (None, None, Vec::new());
        Ok(Self { salve, place, log, net, gate, url, child, ended_at, suspended, has_disk })
    }

    pub(super) fn has_disk(&self) -> bool {
        self.has_disk
    }

    pub(super) fn start(&mut self, shift: Shift) -> io::Result<()> {
        self.wake();
        let log = fs::File::options().create(true).append(true).open(&self.log)?;
        let mut command = self.net.command(&self.salve);
        at_home(&mut command, &self.place, &self.url);
        shift.shift(&mut command);
        command.args(SETTINGS.iter().flat_map(|set| ["--set", set]));
        command.args(["worker", "--jobs", "2"]).current_dir(&self.place);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn()?;
        self.gate.is_of(child.id());
        self.child = Some(child);
        Ok(())
    }

    /// Tells whether its worker has ended, by itself or not.
    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        if let Some(child) = &mut self.child
            && child.try_wait()?.is_some()
        {
            self.child = None;
            self.ended_at = Some(Instant::now());
        }
        let is_due = self.ended_at.is_none_or(|at| at.elapsed() >= REST);
        Ok(self.child.is_none() && is_due)
    }

    pub(super) fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Suspends the worker, with what it runs or alone.
    pub(super) fn suspend(&mut self, with_jobs: bool) {
        let Some(child) = &self.child else { return };
        let pid = child.id().to_string();
        send("STOP", &pid);
        let with_it = if with_jobs { children_of(&pid) } else { Vec::new() };
        for pid in &with_it {
            send("STOP", pid);
        }
        self.suspended.extend(with_it.into_iter().chain([pid]));
    }

    pub(super) fn wake(&mut self) {
        for pid in self.suspended.drain(..) {
            send("CONT", &pid);
        }
    }

    pub(super) fn fill(&self) {
        fill(&self.place, "ballast");
    }

    pub(super) fn make_room(&self) {
        // It may not have been filled.
        let _ = fs::remove_file(self.place.join("ballast"));
    }

    /// Returns how many jobs its workers gave up that others had taken over.
    pub(super) fn zombies(&self) -> usize {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let is_one = |line: &&str| {
            line.contains("another worker took it over")
                || line.contains("another worker has")
                || line.contains("its claim could not be renewed")
        };
        said.lines().filter(is_one).count()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
        self.wake();
        if self.has_disk {
            for _ in 0..100 {
                let mut unmount = Command::new("umount");
                let unmount = unmount.arg(&self.place).stderr(Stdio::null());
                if unmount.status().is_ok_and(|status| status.success()) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn send(name: &str, pid: &str) {
    // It may have ended just now.
    let _ = Command::new("kill").args([&format!("-{name}"), pid]).stderr(Stdio::null()).status();
}

/// Returns all processes that came from one.
fn children_of(pid: &str) -> Vec<String> {
    let output = Command::new("pgrep").args(["-P", pid]).output();
    let said = output.map(|output| output.stdout).unwrap_or_default();
    let direct: Vec<String> = String::from_utf8_lossy(&said).lines().map(str::to_owned).collect();
    let mut all = direct.clone();
    for child in direct {
        all.extend(children_of(&child));
    }
    all
}
