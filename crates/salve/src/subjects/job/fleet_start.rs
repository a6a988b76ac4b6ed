//! The files from which a job of a fleet starts: a commit that a git remote has, or a bundle that
//! travels with the job.
//!
//! Whoever submits names a remote only where it is known to have the commit, and names it without
//! credentials: a worker uses its own. Both ways lead to one commit without the history before it, so
//! that a job's checkpoints fit whichever way its files came.
//!
//! **Invariant:** a worker fetches from the places that git reaches over HTTPS, SSH or a path, and
//! with nothing that the address could have it run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::fleet::FleetJobError;
use crate::process::quiet_git;
use crate::project::Project;
use crate::store::FleetFile;
use crate::workspace::StartFrom;

/// How long a worker fetches at most.
const FETCHING: Duration = Duration::from_secs(10 * 60);

/// How often it looks whether git has ended.
const LOOK: Duration = Duration::from_millis(50);

/// The remote that is looked for.
const REMOTE: &str = "origin";

/// What git may not do while it fetches: reach other protocols, ask anybody, wait for ever.
const FETCHED_BY: [&str; 9] = [
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "protocol.file.allow=always",
    "protocol.version=2",
    "core.askPass=",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
    "fetch.recurseSubmodules=false",
];

/// Where the files of a job are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetStart {
    /// In a bundle that the fleet keeps.
    Bundle(FleetFile),
    /// With a git remote.
    Remote(GitRemote),
}

/// A commit of a git remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitRemote {
    /// Its address, without credentials.
    pub url: String,
    pub commit: String,
}

/// A commit that a remote has, and where the project is in its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteStart {
    pub remote: GitRemote,
    pub prefix: PathBuf,
}

impl GitRemote {
    /// Returns a commit of a remote, if every part is such as a worker fetches.
    pub fn new(url: &str, commit: &str) -> Option<Self> {
        let is_hash = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !(matches!(commit.len(), 40 | 64) && is_hash(commit)) {
            return None;
        }
        Some(Self { url: address(url)?, commit: commit.to_owned() })
    }

    /// Tells whether workers on other machines can be expected to reach it.
    fn is_shared(&self) -> bool {
        !self.url.starts_with("file://")
    }
}

/// Returns the address of a repository without credentials; nothing where it is none that is fetched
/// from.
fn address(url: &str) -> Option<String> {
    let is_plain = |text: &str| {
        !text.is_empty()
            && !text.starts_with('-')
            && !text.contains(|c: char| c.is_control() || c == ' ')
    };
    if !is_plain(url) {
        return None;
    }
    if let Some(rest) = url.strip_prefix("https://") {
        let (host, path) = rest.split_once('/')?;
        let host = host.rsplit('@').next().unwrap_or(host);
        return (is_plain(host) && is_plain(path)).then(|| format!("https://{host}/{path}"));
    }
    if let Some(rest) = url.strip_prefix("ssh://") {
        let (host, path) = rest.split_once('/')?;
        let (user, host) = host.rsplit_once('@').unwrap_or(("", host));
        // A user's name is no secret; a password is.
        let user = user.split(':').next().unwrap_or_default();
        let at = if user.is_empty() { String::new() } else { format!("{user}@") };
        let is_safe = is_plain(host) && is_plain(path) && !user.starts_with('-');
        return is_safe.then(|| format!("ssh://{at}{host}/{path}"));
    }
    if let Some(path) = url.strip_prefix("file://") {
        return path.starts_with('/').then(|| url.to_owned());
    }
    if url.contains("://") || url.contains("::") {
        return None;
    }
    if url.starts_with('/') {
        return Some(format!("file://{url}"));
    }
    // `user@host:path`, as ssh has it.
    let (place, path) = url.split_once(':')?;
    let host = place.rsplit('@').next().unwrap_or(place);
    let is_safe = is_plain(host) && is_plain(path) && !place.contains('/');
    is_safe.then(|| url.to_owned())
}

/// Which way the files of a job travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartWay {
    /// By the remote where it has them and other machines can reach it, else by a bundle.
    Usual,
    /// By a bundle.
    Bundle,
    /// By the remote.
    Remote,
}

/// Returns the start of a job as the project's remote has it, as far as this repository knows.
pub fn at_remote(
    project: &Project,
    start: &StartFrom,
    way: StartWay,
) -> Result<Option<RemoteStart>, FleetJobError> {
    let name = match (start, way) {
        (_, StartWay::Bundle) | (StartFrom::Files, StartWay::Usual) => return Ok(None),
        (StartFrom::Files, StartWay::Remote) => {
            return Err(FleetJobError::NotPushed("what is not committed".to_owned()));
        }
        (StartFrom::Usual, _) => "HEAD",
        (StartFrom::Ref(name), _) => name.as_str(),
    };
    let found = of_remote(project.root(), name);
    let is_wanted = |found: &RemoteStart| way == StartWay::Remote || found.remote.is_shared();
    match (found.filter(is_wanted), way) {
        (None, StartWay::Remote) => Err(FleetJobError::NotPushed(name.to_owned())),
        (found, _) => Ok(found),
    }
}

fn of_remote(root: &Path, name: &str) -> Option<RemoteStart> {
    let commit = said(root, &["rev-parse", "--quiet", "--verify", &format!("{name}^{{commit}}")])?;
    // A repository around the project may know nothing of it.
    said(root, &["rev-parse", "--quiet", "--verify", &format!("{commit}:./")])?;
    let contains = format!("--contains={commit}");
    let known = format!("refs/remotes/{REMOTE}");
    let pushed = said(root, &["for-each-ref", "--count=1", "--format=x", &contains, &known])?;
    let url = said(root, &["remote", "get-url", REMOTE]).filter(|_| !pushed.is_empty())?;
    let prefix = PathBuf::from(said(root, &["rev-parse", "--show-prefix"])?);
    Some(RemoteStart { remote: GitRemote::new(&url, &commit)?, prefix })
}

/// Returns the submodules among the files from which a job starts; they do not travel.
pub fn submodules(project: &Project, start: &StartFrom) -> Vec<String> {
    let root = project.root();
    let listed = match start {
        StartFrom::Files => said(root, &["ls-files", "--stage", "--full-name", ":/"]),
        StartFrom::Usual => said(root, &["ls-tree", "-r", "--full-tree", "HEAD"]),
        StartFrom::Ref(name) => said(root, &["ls-tree", "-r", "--full-tree", name, "--"]),
    };
    let links = listed.unwrap_or_default();
    let links = links.lines().filter(|line| line.starts_with("160000 "));
    links.filter_map(|line| Some(line.split_once('\t')?.1.to_owned())).collect()
}

/// Returns what git says, if it does what it is asked.
fn said(dir: &Path, args: &[&str]) -> Option<String> {
    let output = quiet_git(dir).args(args).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim_end().to_owned())
}

/// Fetches a commit into an empty directory, as `refs/heads/start` and without the history before it.
pub(super) fn fetch(home: &Path, tree: &Path, remote: &GitRemote) -> Result<(), FleetJobError> {
    // What came with the job is looked at once more: anybody may have written it.
    let GitRemote { url, commit } = GitRemote::new(&remote.url, &remote.commit)
        .ok_or_else(|| FleetJobError::Outside(remote.url.clone()))?;
    let failed = |said: String| FleetJobError::Remote { url: url.clone(), said };
    let run = |args: &[&str]| run_bounded(home, tree, args).map_err(failed);
    let format = if commit.len() == 64 { "sha256" } else { "sha1" };
    run(&["init", "--quiet", &format!("--object-format={format}")])?;
    let fetching = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
    let this = [&fetching[..], &["--depth=1", "--", &url, &commit]].concat();
    if run(&this).is_err() {
        // A server may give out branches only.
        let all = [&fetching[..], &["--", &url, "+refs/heads/*:refs/fetched/*"]].concat();
        run(&all)?;
    }
    let of_commit = format!("{commit}^{{tree}}");
    let made = said(tree, &["rev-parse", "--quiet", "--verify", &of_commit]);
    let made = made.ok_or_else(|| failed(format!("it does not have the commit {commit}")))?;
    let who = ["-c", "user.name=salve", "-c", "user.email=salve@localhost"];
    let words = ["commit-tree", "-m", "the files when the job began", &made];
    let start = said(tree, &[&who[..], &words].concat());
    let start = start.ok_or_else(|| failed("its files cannot be used".to_owned()))?;
    run(&["update-ref", "refs/heads/start", &start])?;
    run(&["checkout", "--quiet", "start", "--"])
}

/// Runs git within its time and returns what it complained about.
fn run_bounded(home: &Path, dir: &Path, args: &[&str]) -> Result<(), String> {
    let complaints = home.join("git.log");
    let log = File::create(&complaints).map_err(|error| error.to_string())?;
    let mut command = fetching_git(dir);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < FETCHING => std::thread::sleep(LOOK),
            Ok(None) | Err(_) => {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("git was not done after {} s", FETCHING.as_secs()));
            }
        }
    };
    if status.success() {
        return Ok(());
    }
    let said = fs::read(&complaints).unwrap_or_default();
    Err(String::from_utf8_lossy(&said).trim().to_owned())
}

fn fetching_git(dir: &Path) -> Command {
    let mut command = quiet_git(dir);
    // Nobody is there to be asked.
    command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes").env_remove("SSH_ASKPASS");
    for setting in FETCHED_BY {
        command.args(["-c", setting]);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    /// **Invariant:** An address names a place over HTTPS, SSH or a path, has no credentials, and is
    /// no option of any program.
    #[test]
    fn an_address_is_one_that_is_fetched_from_and_has_no_credentials() {
        let rows = [
            ("https://example.com/a/b.git", Some("https://example.com/a/b.git")),
            ("https://ann:secret@example.com/b", Some("https://example.com/b")),
            ("https://ghp_token@example.com/b", Some("https://example.com/b")),
            ("ssh://git@example.com:22/b", Some("ssh://git@example.com:22/b")),
            ("ssh://git:secret@example.com/b", Some("ssh://git@example.com/b")),
            ("git@example.com:a/b.git", Some("git@example.com:a/b.git")),
            ("/srv/git/b.git", Some("file:///srv/git/b.git")),
            ("file:///srv/git/b.git", Some("file:///srv/git/b.git")),
            ("http://example.com/b", None),
            ("git://example.com/b", None),
            ("ext::sh -c touch% /tmp/x", None),
            ("https://example.com", None),
            ("ssh://-oProxyCommand=x/b", None),
            ("ssh://git@-oProxyCommand=x/b", None),
            ("-oProxyCommand=x:b", None),
            ("git@-oProxyCommand=x:b", None),
            ("--upload-pack=x", None),
            ("../elsewhere", None),
            ("a\nb:c", None),
            ("", None),
        ];
        for (url, want) in rows {
            assert_eq!(GitRemote::new(url, COMMIT).map(|one| one.url).as_deref(), want, "{url}");
        }
        for commit in ["HEAD", "", "--all", &COMMIT.to_uppercase(), &COMMIT[1..]] {
            assert_eq!(GitRemote::new("/srv/b", commit), None, "{commit}");
        }
    }
}
