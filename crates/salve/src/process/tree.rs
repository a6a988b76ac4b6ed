//! What the system says about processes: parents, sessions, commands, directories, marks.
//!
//! Everything comes from `/proc`. A process may end while it is looked at, so every answer may be
//! missing; a pid alone names nobody, a pid with its start time does.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::Signal;
use salve_core::event::Process;
use salve_core::scrub::Scrubbed;
use uuid::Uuid;

/// The variable that names the run of Salve which started a process.
pub const RUN_MARK: &str = "SALVE_RUN";
/// The variable that names the server a process belongs to.
pub const SERVER_MARK: &str = "SALVE_SERVER";

/// A living process that was found by looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProcess {
    /// Which one it is.
    pub process: Process,
    /// Its command line as it shows it, words parted by spaces; not scrubbed.
    pub command: String,
    /// The directory it works in; the system marks a deleted one.
    pub cwd: PathBuf,
}

/// The line the system keeps for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    pub session: u32,
    /// When it started, in the system's own unit.
    pub started: u64,
    /// Whether it has ended and only waits to be reaped.
    pub is_dead: bool,
}

/// Returns what the system says about `pid`.
pub fn stat(pid: u32) -> Option<Stat> {
    read_stat(&format!("/proc/{pid}/stat"))
}

/// Returns what the system says about this process.
pub fn own() -> Option<Stat> {
    read_stat("/proc/self/stat")
}

fn read_stat(path: &str) -> Option<Stat> {
    parse_stat(&fs::read(path).ok()?)
}

pub(super) fn parse_stat(line: &[u8]) -> Option<Stat> {
    // The program's name may hold anything, so the fields count from the parenthesis after it.
    let open = memchr::memchr(b'(', line)?;
    let close = memchr::memrchr(b')', line)?;
    let pid = std::str::from_utf8(line.get(..open)?).ok()?.trim().parse().ok()?;
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let started = fields.nth(15)?.parse().ok()?;
    Some(Stat { pid, parent, group, session, started, is_dead })
}

/// Returns whether what a process reads comes from another one.
pub fn is_fed(pid: u32) -> bool {
    let input = fs::read_link(format!("/proc/{pid}/fd/0")).unwrap_or_default();
    ["pipe:", "socket:"]
        .iter()
        .any(|kind| input.as_os_str().as_bytes().starts_with(kind.as_bytes()))
}

/// Returns whether a process has a way of its own to answer a signal.
pub(super) fn catches(pid: u32, signal: Signal) -> bool {
    is_in_mask(pid, "SigCgt:", signal)
}

/// Returns whether a process ignores a signal.
pub(super) fn ignores(pid: u32, signal: Signal) -> bool {
    is_in_mask(pid, "SigIgn:", signal)
}

/// Returns whether somebody stopped a process, which has not been continued.
pub(super) fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The program's name may hold anything, so the fields count from the parenthesis after it.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

fn is_in_mask(pid: u32, name: &str, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(name));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal.as_raw() - 1)) != 0)
}

/// Returns every process of the system.
pub fn all() -> Vec<Stat> {
    numbers(Path::new("/proc")).filter_map(stat).collect()
}

/// Returns the children of `pid`, those waiting to be reaped included.
pub fn children(pid: u32) -> Vec<Stat> {
    if has_children_files() {
        return listed(Path::new("/proc"), pid).into_iter().filter_map(stat).collect();
    }
    all().into_iter().filter(|stat| stat.parent == pid).collect()
}

/// Returns everything that descends from `pid`, parents before their children.
pub fn descendants(pid: u32) -> Vec<Stat> {
    if !has_children_files() {
        return below(pid, &all());
    }
    let mut found = children(pid);
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        let more = children(parent.pid);
        // A process seen twice has been given to a new parent meanwhile.
        let known: Vec<u32> = found.iter().map(|stat| stat.pid).collect();
        found.extend(more.into_iter().filter(|stat| !known.contains(&stat.pid)));
        next += 1;
    }
    found
}

/// Returns those of `all` that descend from `pid`, parents before their children.
pub fn below(pid: u32, all: &[Stat]) -> Vec<Stat> {
    let mut parents = vec![pid];
    let mut found = Vec::new();
    while !parents.is_empty() {
        let generation = all.iter().filter(|s| parents.contains(&s.parent) && s.pid != s.parent);
        let generation: Vec<Stat> = generation.copied().collect();
        parents = generation.iter().map(|stat| stat.pid).collect();
        found.extend(generation);
    }
    found
}

/// Returns whether the system lists the children of each thread; not every kernel is built so.
fn has_children_files() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let me = std::process::id();
        Path::new(&format!("/proc/{me}/task/{me}/children")).exists()
    })
}

/// Returns the children that the threads of `pid` list below `proc`.
fn listed(proc: &Path, pid: u32) -> Vec<u32> {
    let tasks = proc.join(pid.to_string()).join("task");
    let lists = numbers(&tasks)
        .filter_map(|task| fs::read_to_string(tasks.join(task.to_string()).join("children")).ok());
    let mut children = Vec::new();
    for list in lists {
        children.extend(list.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    children
}

/// Returns the entries of `dir` that are numbers.
fn numbers(dir: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the directory that `pid` works in.
pub fn cwd(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// Returns the command line of `pid`, its words parted by spaces.
pub fn command_line(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = line.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    Some(words.join(" ").trim_end().to_owned())
}

/// Returns a variable of the environment that `pid` was started with.
pub fn variable(pid: u32, name: &str) -> Option<Vec<u8>> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    variables.find_map(|variable| {
        variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec)
    })
}

/// Returns whether `pid` was started by `run` for `server`, as far as its environment says.
pub fn is_marked(pid: u32, run: Uuid, server: &str) -> bool {
    variable(pid, RUN_MARK).is_some_and(|mark| mark == run.to_string().as_bytes())
        && variable(pid, SERVER_MARK).is_some_and(|mark| mark == server.as_bytes())
}

/// Returns what is to be said about a process, unless it ended or its pid is another's by now.
pub fn found(stat: &Stat) -> Option<FoundProcess> {
    let process = Process { pid: stat.pid, started: stat.started, host: host() };
    let command = command_line(stat.pid)?;
    let cwd = cwd(stat.pid).unwrap_or_else(|| PathBuf::from(OsStr::from_bytes(b"")));
    is_still(stat).then_some(FoundProcess { process, command, cwd })
}

/// Returns whether this very process is still there and has not ended.
pub fn is_still(process: &Stat) -> bool {
    stat(process.pid).is_some_and(|now| now.started == process.started && !now.is_dead)
}

pub(super) fn host() -> Scrubbed {
    static HOST: OnceLock<Scrubbed> = OnceLock::new();
    HOST.get_or_init(|| super::this(&crate::scrub::scrubber()).host).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_hides_no_field() {
        let line = b"4711 (a) S 1 (b)) Z 12 13 14 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 987 1 2\n";
        let want =
            Stat { pid: 4711, parent: 12, group: 13, session: 14, started: 987, is_dead: true };
        assert_eq!(parse_stat(line), Some(want));
        for cut in ["", "12", "12 (a", "12 (a) S 1 2", "x (a) S 1 2 3"] {
            assert_eq!(parse_stat(cut.as_bytes()), None, "{cut}");
        }
    }

    #[test]
    fn descendants_are_found_through_all_generations() {
        let line = |pid, parent| Stat {
            pid,
            parent,
            group: pid,
            session: pid,
            started: 0,
            is_dead: false,
        };
        let all = [line(1, 0), line(5, 3), line(3, 2), line(2, 1), line(9, 1), line(4, 3)];
        let pids: Vec<u32> = below(2, &all).iter().map(|stat| stat.pid).collect();
        assert_eq!(pids, [3, 5, 4]);
    }

    #[test]
    fn children_are_read_from_every_thread() {
        let proc = tempfile::tempdir().unwrap();
        for (task, children) in [("70", "81 82 "), ("71", ""), ("72", "90 ")] {
            let dir = proc.path().join("70/task").join(task);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("children"), children).unwrap();
        }
        let mut got = listed(proc.path(), 70);
        got.sort_unstable();
        assert_eq!(got, [81, 82, 90]);
        assert_eq!(listed(proc.path(), 71), Vec::<u32>::new());
    }

    #[test]
    fn this_process_is_found_with_its_command_and_directory() {
        let me = own().unwrap();
        assert_eq!(me.pid, std::process::id());
        let found = found(&me).unwrap();
        assert_eq!(found.cwd, std::env::current_dir().unwrap());
        assert!(found.command.contains("salve"), "{}", found.command);
        assert_eq!(super::found(&Stat { started: me.started + 1, ..me }), None);
    }
}
