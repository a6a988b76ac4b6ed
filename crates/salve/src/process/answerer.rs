//! Who may speak for a person: a look at a process, taken by whoever it speaks to.
//!
//! Everything that Salve starts stays below the process that started it: keepers and workers are
//! sub-reapers, so that no double fork leads out. A process with a Salve among those that led to it
//! is therefore somebody's agent, check, server, tool or remedy, and never a person.
//!
//! **Invariant:** what cannot be looked at is refused.

use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, PROC_SUPER_MAGIC};

use super::attached;
use super::keeper;
use super::peer::Peer;
use super::tree::{self, Stat};

/// The name that every Salve bears.
const NAME: &CStr = c"salve";
/// The spaces that have to be the same as ours.
const SPACES: [(&str, &str); 3] =
    [("user", "user namespace"), ("pid", "process namespace"), ("mnt", "mount namespace")];
/// More generations than any process has.
const GENERATIONS: usize = 4_096;
/// The options of `salve` that stand before its command and have a word of their own behind them.
pub const OPTIONS_WITH_VALUES: [&str; 2] = ["--project", "--set"];
/// How long a keeper may take to take hold of a worker that it has just started.
const TAKING_HOLD: Duration = Duration::from_secs(2);
/// Programs that start a server for its client and are not the client themselves.
const WRAPPERS: [&str; 6] = ["sh", "bash", "dash", "zsh", "env", "npm"];

/// Why a process may not speak for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerRefusal {
    /// A Salve started it, or what started it.
    #[error("it was started by Salve (process {0})")]
    OfSalve(u32),
    /// It belongs to an agent that is attached to this project.
    #[error("it belongs to an agent that is attached to this project (process {0})")]
    OfAttachedAgent(u32),
    /// Another user runs it.
    #[error("another user runs it")]
    OfOtherUser,
    /// It lives in a space of its own.
    #[error("it lives in a {0} of its own")]
    InOtherSpace(&'static str),
    /// It is another program.
    #[error("it is not the same `salve` program")]
    OtherProgram,
    /// It cannot be looked at.
    #[error("it cannot be looked at: {0}")]
    Unseen(String),
}

/// Judges a process that came to speak to this one about the project at `root`.
pub fn judge_visitor(visitor: &Peer, root: &Path) -> Result<(), AnswerRefusal> {
    let pid = visitor.pid();
    if visitor.uid() != rustix::process::geteuid().as_raw() {
        return Err(AnswerRefusal::OfOtherUser);
    }
    expect_real_proc()?;
    let before = look(pid)?;
    for (space, name) in SPACES {
        let theirs = fs::read_link(format!("/proc/{pid}/ns/{space}"));
        let ours = fs::read_link(format!("/proc/self/ns/{space}"));
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) if theirs == ours => {}
            (Ok(_), Ok(_)) => return Err(AnswerRefusal::InOtherSpace(name)),
            (Err(error), _) | (_, Err(error)) => return Err(unseen(&error)),
        }
    }
    let ours = program(std::process::id());
    if ours.is_none() || program(pid) != ours {
        return Err(AnswerRefusal::OtherProgram);
    }
    judge_origin(&before, root)?;
    // All that was seen is about the one that is still there.
    if look(pid)? == before && visitor.is_there() {
        Ok(())
    } else {
        Err(AnswerRefusal::Unseen("it became another process meanwhile".to_owned()))
    }
}

/// Judges this process itself, for what is said while nobody listens.
pub fn judge_own_process(root: &Path) -> Result<(), AnswerRefusal> {
    expect_real_proc()?;
    expect_own_program()?;
    judge_origin(&look(std::process::id())?, root)
}

/// Refuses a copy in memory, and one that another program loaded, which hide whose program they are.
fn expect_own_program() -> Result<(), AnswerRefusal> {
    let started = fs::read_link("/proc/self/exe").map_err(|error| unseen(&error))?;
    if started.as_os_str().as_bytes().starts_with(b"/memfd:") {
        return Err(AnswerRefusal::OtherProgram);
    }
    let maps = fs::read_to_string("/proc/self/maps").map_err(|error| unseen(&error))?;
    let here = judge_own_process as *const () as usize;
    let holds = |line: &&str| {
        let ends = line.split(' ').next().and_then(|range| range.split_once('-'));
        let [from, to] = ends.map_or([None; 2], |(from, to)| {
            [from, to].map(|end| usize::from_str_radix(end, 16).ok())
        });
        from.is_some_and(|from| from <= here) && to.is_some_and(|to| here < to)
    };
    let line = maps.lines().find(holds).unwrap_or_default();
    // Some file systems tell another number here than there, but never another path.
    let inode = line.split_whitespace().nth(4).and_then(|inode| inode.parse().ok());
    let is_same = inode.is_some() && inode == program(std::process::id()).map(|own| own.1);
    let is_named = line.find('/').is_some_and(|at| Path::new(&line[at..]) == started);
    if is_same || is_named { Ok(()) } else { Err(AnswerRefusal::OtherProgram) }
}

/// Judges a process that decides through a page which this one, or another Salve, serves.
///
/// It need not be a `salve`, and browsers live in spaces of their own; who started it is what counts.
pub fn judge_page_client(pid: u32, roots: &[PathBuf]) -> Result<(), AnswerRefusal> {
    expect_real_proc()?;
    let before = look(pid)?;
    roots.iter().try_for_each(|root| judge_origin(&before, root))?;
    if look(pid)? == before {
        return Ok(());
    }
    Err(AnswerRefusal::Unseen("it became another process meanwhile".to_owned()))
}

/// Refuses a request of which nobody is seen to have the connection open, unless somebody whom Salve
/// did not start is there who may have it: the end of a tunnel hides its files, and so does another
/// user. `uid` is whose the connection is.
pub fn judge_unseen_client(uid: u32, roots: &[PathBuf]) -> Result<(), AnswerRefusal> {
    let hides = |stat: &Stat| {
        let files = fs::read_dir(format!("/proc/{}/fd", stat.pid));
        files.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    let own = rustix::process::geteuid().as_raw();
    // What another user's Salve started has none of these users' connections.
    let concerns = |stat: &Stat| is_of_user(stat.pid, &[uid, own]);
    let all = tree::all().into_iter().filter(|stat| !stat.is_dead && hides(stat));
    let hidden: Vec<Stat> = all.filter(concerns).collect();
    for stat in &hidden {
        roots.iter().try_for_each(|root| judge_origin(stat, root)).map_err(|_| {
            let who =
                format!("it may be process {}, which Salve started and which hides", stat.pid);
            AnswerRefusal::Unseen(who)
        })?;
    }
    let is_ours = uid == own;
    // Nobody becomes root, or another user whose processes are not even to be seen, by hiding.
    if !is_ours && (uid == 0 || hides_others()) {
        return Ok(());
    }
    if !hidden.iter().any(|stat| is_of_user(stat.pid, &[uid])) {
        return Err(AnswerRefusal::Unseen("nobody is seen to have its connection open".to_owned()));
    }
    // A connection can be put where no process has it open, in a queue of messages for one.
    match started_by_salve(own).filter(|_| is_ours) {
        Some(pid) => {
            let who = format!("it may be process {pid}, which Salve started");
            Err(AnswerRefusal::Unseen(who))
        }
        None => Ok(()),
    }
}

/// Returns whether a process runs as one of these users, by any of its ids.
fn is_of_user(pid: u32, uids: &[u32]) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut ids = ids.split_ascii_whitespace().filter_map(|id| id.parse().ok());
    ids.any(|id| uids.contains(&id))
}

/// Refuses whoever a Salve or an attached agent started.
pub(crate) fn judge_origin(process: &Stat, root: &Path) -> Result<(), AnswerRefusal> {
    let ancestors = expect_not_started(process)?;
    let line: Vec<u32> = ancestors.iter().map(|one| one.pid).collect();
    match attached_agents(root).into_iter().find(|agent| line.contains(agent)) {
        Some(agent) => Err(AnswerRefusal::OfAttachedAgent(agent)),
        None => Ok(()),
    }
}

/// Refuses whoever a Salve started; returns those that led to the process.
fn expect_not_started(process: &Stat) -> Result<Vec<Stat>, AnswerRefusal> {
    let ancestors = ancestors(process)?;
    let own_keeper = usize::from(has_own_keeper(process, &ancestors));
    let mut others = ancestors.iter().skip(own_keeper);
    match others.find(|one| is_salve(one.pid) && !starts_no_agent(one.pid)) {
        Some(salve) => Err(AnswerRefusal::OfSalve(salve.pid)),
        None => Ok(ancestors),
    }
}

/// Returns a living process of a user that a Salve started, if there is one.
fn started_by_salve(uid: u32) -> Option<u32> {
    let is_started = |stat: &Stat| {
        !stat.is_dead
            && is_of_user(stat.pid, &[uid])
            && matches!(expect_not_started(stat), Err(AnswerRefusal::OfSalve(_)))
    };
    tree::all().into_iter().find(is_started).map(|stat| stat.pid)
}

/// Remembers who started this server of tools as an agent of the project at `root`, for as long as that
/// process lives. What a person started by hand in a shell has no agent.
pub fn remember_client(root: &Path) {
    let client = tree::own().filter(|own| !is_started_by_hand(own)).and_then(|own| client_of(&own));
    let client = client.and_then(tree::stat);
    // Without a note it is known for as long as this process runs.
    let _ = client.map(|client| attached::remember(root, &client));
}

fn unseen(error: &dyn std::fmt::Display) -> AnswerRefusal {
    AnswerRefusal::Unseen(error.to_string())
}

/// Refuses where something else was put in the place of the system's own view of processes.
fn expect_real_proc() -> Result<(), AnswerRefusal> {
    let real = rustix::fs::statfs("/proc").map_err(|error| unseen(&error))?;
    let is_ours = tree::own().is_some_and(|own| own.pid == std::process::id());
    if real.f_type != PROC_SUPER_MAGIC || !is_ours {
        return Err(AnswerRefusal::Unseen("/proc is not this system's".to_owned()));
    }
    Ok(())
}

/// Reads about a process from the system itself, through whatever lies over its files.
fn look(pid: u32) -> Result<Stat, AnswerRefusal> {
    let path = format!("/proc/{pid}/stat");
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| unseen(&error))?;
    let system = rustix::fs::fstatfs(&file).map_err(|error| unseen(&error))?;
    let mut line = Vec::new();
    File::from(file).read_to_end(&mut line).map_err(|error| unseen(&error))?;
    let stat = tree::parse_stat(&line).filter(|stat| stat.pid == pid);
    match stat {
        Some(stat) if system.f_type == PROC_SUPER_MAGIC => Ok(stat),
        _ => Err(AnswerRefusal::Unseen(format!("{path} is not this system's"))),
    }
}

/// Returns those that led to a process, its parent first.
fn ancestors(process: &Stat) -> Result<Vec<Stat>, AnswerRefusal> {
    let mut found: Vec<Stat> = Vec::new();
    let mut parent = process.parent;
    // The first process of all, or of this space, has nobody above it that could be seen.
    while parent > 0 {
        let stat = match look(parent) {
            Ok(stat) => stat,
            // Where others' processes are hidden, what is hidden is no Salve of this user.
            Err(_) if hides_others() => break,
            Err(error) => return Err(error),
        };
        if found.len() > GENERATIONS {
            return Err(AnswerRefusal::Unseen("its parents do not end".to_owned()));
        }
        parent = stat.parent;
        found.push(stat);
    }
    Ok(found)
}

/// Returns whether this system shows a user only their own processes.
fn hides_others() -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut of_proc = mounts.lines().filter(|line| line.split(' ').nth(4) == Some("/proc"));
    of_proc.any(|line| line.contains("hidepid=") && !line.contains("hidepid=0"))
}

/// Returns which file a process runs, whatever its name is by now.
fn program(pid: u32) -> Option<(u64, u64)> {
    fs::metadata(format!("/proc/{pid}/exe")).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Returns whether a process that can be seen is a Salve; one that cannot be seen may be.
pub fn is_a_salve(pid: u32) -> bool {
    match fs::read_link(format!("/proc/{pid}/exe")) {
        Ok(_) => is_salve(pid),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Returns whether a process has this number where it lives itself, as one in a container may have
/// another one there.
pub fn has_number(pid: u32, number: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let inside = numbers.and_then(|numbers| numbers.split_ascii_whitespace().last()?.parse().ok());
    inside.unwrap_or(pid) == number
}

/// Returns whether a process is a Salve, this one's release or another.
fn is_salve(pid: u32) -> bool {
    let path = match fs::read_link(format!("/proc/{pid}/exe")) {
        Ok(path) => path,
        Err(error) if is_refused(&error) => return name(pid).starts_with(NAME.to_bytes()),
        Err(_) => return false,
    };
    let name = path.file_name().unwrap_or_default().as_bytes();
    let is_named = matches!(name, b"salve" | b"salve (deleted)");
    // Whatever its file is called, and whatever file this one was started from.
    let is_worker = || tree::stat(pid).is_some_and(|stat| keeper::is_a_worker(&stat));
    is_named
        || is_worker()
        || program(pid).is_some_and(|theirs| Some(theirs) == program(std::process::id()))
}

/// Has this process bear the name by which a Salve is known where nothing else of it can be seen,
/// whatever its file is called.
pub fn bear_name() {
    // Under another name it works as well.
    let _ = rustix::thread::set_name(NAME);
}

/// Returns whether the system refuses a look, as at others' processes and, from a user namespace, at all
/// that are outside of it: whoever started it may be one of those.
fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Returns whether something is mounted at a directory, as seen from this process.
///
/// # Errors
///
/// When the directory or the list of mounts cannot be read.
pub fn is_mounted_at(dir: &Path) -> io::Result<bool> {
    let dir = dir.canonicalize()?;
    let mounts = fs::read("/proc/self/mountinfo")?;
    let mut points = mounts
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
    // A path with odd bytes is written in another way there.
    let escape = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    };
    let written: Vec<u8> = dir.as_os_str().as_bytes().iter().flat_map(escape).collect();
    Ok(points.any(|point| point == written))
}

/// Returns a process's name, which everybody may read, and which it alone may change.
fn name(pid: u32) -> Vec<u8> {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_ascii_end().to_vec()
}

fn words(pid: u32) -> Vec<Vec<u8>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    line.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect()
}

/// Returns the command among the words behind `salve`, whatever options stand before it.
pub fn command_word<'w>(mut words: impl Iterator<Item = &'w OsStr>) -> Option<&'w OsStr> {
    while let Some(word) = words.next() {
        if OPTIONS_WITH_VALUES.iter().any(|option| word == *option) {
            words.next();
        } else if !word.as_bytes().starts_with(b"-") {
            return Some(word);
        }
    }
    None
}

fn command_of(words: &[Vec<u8>]) -> Option<&OsStr> {
    command_word(words.iter().skip(1).map(|word| OsStr::from_bytes(word)))
}

/// Returns whether a process starts nobody's agent: a demo starts Salves in a project of its own,
/// and who serves the page opens a browser for the person.
fn starts_no_agent(pid: u32) -> bool {
    is_harmless(&words(pid))
}

fn is_harmless(words: &[Vec<u8>]) -> bool {
    command_of(words).is_some_and(|word| word == "demo" || word == "serve")
}

/// Returns whether the parent of a process does nothing but keep it.
///
/// Its words and its environment it may have forged. So the parent has to be no worker itself: by what
/// that was started with, which it cannot have forged, and whether or not its own keeper still lives.
/// And the parent has to hold it by a handle, as it does nobody who only fell to it.
fn has_own_keeper(worker: &Stat, ancestors: &[Stat]) -> bool {
    let Some((parent, above)) = ancestors.split_first() else { return false };
    let rest = |pid| words(pid).into_iter().skip(1).collect::<Vec<_>>();
    let is_alike = program(parent.pid).is_some()
        && program(parent.pid) == program(worker.pid)
        && keeper::is_a_worker(worker)
        && rest(parent.pid) == rest(worker.pid);
    // A keeper below another Salve's worker was told of that one's keeper, which lives above it.
    let is_no_worker = || match keeper::told_keeper(parent.pid) {
        Ok(None) => true,
        Ok(Some(told)) => above.iter().skip(1).any(|one| one.pid == told),
        Err(_) => false,
    };
    is_alike && is_no_worker() && is_held_by(worker.pid, parent.pid)
}

/// Returns whether a keeper holds its worker; one that has just started it is waited for.
fn is_held_by(worker: u32, keeper: u32) -> bool {
    let since = Instant::now();
    while !keeper::holds(keeper, worker) {
        if since.elapsed() > TAKING_HOLD {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Returns the processes that have the repair tools of the project at `root` for themselves.
fn attached_agents(root: &Path) -> Vec<u32> {
    let servers = tree::all().into_iter().filter(|stat| {
        is_salve(stat.pid) && serves_tools(&words(stat.pid)) && may_be_fed(stat.pid)
    });
    let of_project = servers.filter(|stat| works_in(stat.pid, root));
    of_project.filter_map(|stat| client_of(&stat)).chain(attached::of_project(root)).collect()
}

/// Returns whether a process was started by a person at a shell.
fn is_started_by_hand(process: &Stat) -> bool {
    let parent = process.parent;
    let shell = fs::read_link(format!("/proc/{parent}/exe")).unwrap_or_default();
    let name = shell.file_name().unwrap_or_default();
    // A shell that runs a script or a command has words that say so.
    let is_interactive = |words: &[Vec<u8>]| {
        words.iter().skip(1).all(|word| word.starts_with(b"-") && !word.contains(&b'c'))
    };
    ["sh", "bash", "dash", "zsh", "fish"].iter().any(|shell| *shell == name)
        && is_interactive(&words(parent))
}

/// Returns whether these are the words of a server of repair tools.
fn serves_tools(words: &[Vec<u8>]) -> bool {
    command_of(words).is_some_and(|word| word == "mcp")
}

/// Returns whether somebody feeds a server of tools, as far as that can be seen.
fn may_be_fed(pid: u32) -> bool {
    let looked = fs::read_link(format!("/proc/{pid}/fd/0"));
    tree::is_fed(pid) || looked.is_err_and(|error| is_refused(&error))
}

fn works_in(pid: u32, root: &Path) -> bool {
    let names = |word: &Vec<u8>| Path::new(OsStr::from_bytes(word)).starts_with(root);
    let dir = match fs::read_link(format!("/proc/{pid}/cwd")) {
        Err(error) if is_refused(&error) => return true,
        looked => looked.ok(),
    };
    dir.is_some_and(|dir| dir.starts_with(root) || root.starts_with(dir))
        || words(pid).iter().any(names)
}

/// Returns who started a server of tools, shells and the like passed over; nobody if that is what a
/// Salve started, which is known by its origin, and whose own starter is a person.
fn client_of(server: &Stat) -> Option<u32> {
    let mut pid = server.parent;
    for _ in 0..GENERATIONS {
        let stat = tree::stat(pid).filter(|stat| stat.pid > 1)?;
        let name = match fs::read_link(format!("/proc/{pid}/exe")) {
            Ok(path) => path.file_name().unwrap_or_default().as_bytes().to_vec(),
            Err(error) if is_refused(&error) => name(pid),
            Err(_) => return None,
        };
        let is_wrapper = WRAPPERS.iter().any(|wrapper| wrapper.as_bytes() == name);
        if !is_wrapper && !is_salve(pid) {
            return Some(pid);
        }
        let passes_on = |word: &OsStr| word == "proxy" || word == "mcp";
        if !is_wrapper && !command_of(&words(pid)).is_some_and(passes_on) {
            return None;
        }
        pid = stat.parent;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_seen_with_all_that_led_to_it() {
        let me = look(std::process::id()).unwrap();
        let line = ancestors(&me).unwrap();
        assert_eq!(line.first().map(|stat| stat.pid), Some(me.parent));
        assert!(line.last().is_some_and(|first| first.parent == 0), "{line:?}");
        assert!(matches!(look(u32::MAX), Err(AnswerRefusal::Unseen(_))));
    }

    #[test]
    fn a_command_is_known_whatever_options_stand_before_it() {
        let split = |line: &str| -> Vec<Vec<u8>> {
            line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
        };
        let serves = |line: &str| serves_tools(&split(line));
        assert!(serves("salve mcp") && serves("/usr/bin/salve --json mcp"));
        assert!(serves("salve --project demo mcp") && serves("salve --set a=b --project=x mcp"));
        assert!(!serves("salve dev mcp") && !serves("salve") && !serves("mcp"));
        assert!(!serves("salve --project mcp"));
        let harmless = |line: &str| is_harmless(&split(line));
        assert!(harmless("salve demo") && harmless("salve --project web serve --port 1"));
        for line in ["--project demo dev", "--project serve heal", "--set demo run x", "dev demo"] {
            assert!(!harmless(&format!("salve {line}")), "{line}");
        }
    }

    #[test]
    fn another_user_and_another_program_are_refused() {
        let (me, uid) = (std::process::id(), rustix::process::geteuid().as_raw());
        let root = Path::new("/nowhere");
        let judge = |pid, uid| judge_visitor(&Peer::of_number(pid, uid), root);
        assert_eq!(judge(me, uid + 1), Err(AnswerRefusal::OfOtherUser));
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let judged = judge(other.id(), uid);
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(judged, Err(AnswerRefusal::OtherProgram));
        assert_eq!(judge(me, uid), Ok(()));
        assert!(matches!(judge(other.id(), uid), Err(AnswerRefusal::Unseen(_))));
    }
}
