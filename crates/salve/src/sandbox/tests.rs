//! The sandbox with real commands.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Instant;

use uuid::Uuid;

mod own;

use super::*;
use crate::process::tests::alone;

/// The variable by which this test program knows what to become.
const BECOME: &str = "SALVE_TEST_SANDBOXED";

/// Returns the sandbox of the default settings.
pub(crate) fn usual() -> Sandbox {
    Sandbox::new(&settings())
}

fn settings() -> SandboxSettings {
    let settings = crate::config::defaults().unwrap().value.to_json();
    serde_json::from_value(settings["recovery"]["sandbox"].clone()).unwrap()
}

/// Returns how this test program becomes a command, since its own arguments are not free.
pub(super) fn launcher(what: &OsStr) -> (Vec<OsString>, Vec<(OsString, OsString)>) {
    let name = "sandbox::tests::becomes_a_command";
    let words = ["/proc/self/exe", "--exact", name, "--nocapture", "--test-threads=1"];
    (words.map(OsString::from).to_vec(), vec![(BECOME.into(), what.to_owned())])
}

/// Only the launcher: as a test it has nothing to do.
#[test]
fn becomes_a_command() {
    if let Some(what) = std::env::var_os(BECOME) {
        let args = [OsString::from(enter::WORD), what];
        // The harness has an exit code of its own.
        let code = format!("{:?}", enter(args.into_iter()).unwrap());
        let code: String = code.chars().filter(char::is_ascii_digit).collect();
        std::process::exit(code.parse().unwrap_or(126));
    }
}

/// A project in which commands run.
struct Stage {
    dir: tempfile::TempDir,
    care: Supervisor,
    settings: SandboxSettings,
    names: Names,
    /// What the machine can enforce, where that is not what this one can.
    means: Option<Means>,
}

impl Stage {
    fn new() -> Self {
        // Not among temporary files, of which commands get their own.
        let dir = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
        let care = Supervisor::start(Uuid::new_v4()).unwrap();
        Self { dir, care, settings: settings(), names: Names::ByTcp, means: None }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    fn try_run(&self, command: &str, limit: Duration) -> Result<SandboxEnd, SandboxError> {
        fs::create_dir_all(self.root()).unwrap();
        let dir = crate::gate::resolve(&self.root(), ".").unwrap();
        let job = SandboxedCommand {
            command,
            argv: shell(command),
            root: &self.root(),
            dir: &dir,
            env: Vec::new(),
            name: format!("test {REMEDY}"),
            limit,
            on: Authority::Gate,
        };
        let sandbox = match self.means {
            Some(means) => Sandbox::with_means(&self.settings, means),
            None => Sandbox::new(&self.settings),
        };
        sandbox.with_names(self.names).run(&self.care, &job)
    }

    /// Runs a command and returns how it ended and what it wrote.
    #[track_caller]
    fn run(&self, command: &str) -> (ProcessExit, String) {
        let ran = self.try_run(command, Duration::from_secs(120)).unwrap();
        assert_eq!(ran.breach, None, "{command}");
        (ran.exit, ran.output)
    }
}

/// Returns the lines of an output after a word: the launcher itself writes some before.
fn said<'o>(output: &'o str, word: &str) -> Vec<&'o str> {
    output.split_once(word).map(|(_, rest)| rest.lines().collect()).unwrap_or_default()
}

/// **Invariant:** Writes only in the project, caches and temporary files of its own.
#[test]
fn a_command_writes_in_the_project_and_its_own_temporary_files_only() {
    let _alone = alone();
    let stage = Stage::new();
    let outside = stage.dir.path().join("outside");
    let script = format!(
        "echo 1 > inside && mkdir -p node_modules && echo 2 > node_modules/x && \
         echo 3 > $TMPDIR/t && mv $TMPDIR/t here && echo told $TMPDIR; echo 4 > {0}; mkdir {0}.d; \
         ln -s / far; echo 5 > far{0}; echo 6 > /tmp/salve-test-$$; echo 7 > ~/.salve-test",
        outside.display(),
    );
    let (exit, output) = stage.run(&script);
    assert_ne!(exit, ProcessExit::Code(0), "{output}");
    for name in ["inside", "node_modules/x", "here"] {
        assert!(stage.root().join(name).exists(), "{name}: {output}");
    }
    let entries = fs::read_dir(stage.dir.path()).unwrap().flatten();
    assert_eq!(entries.map(|entry| entry.file_name()).collect::<Vec<_>>(), ["repo"], "{output}");
    assert!(!Path::new(&std::env::var("HOME").unwrap()).join(".salve-test").exists());
    let told = said(&output, "told ")[0];
    assert!(!Path::new(told).exists(), "its temporary files are gone: {told}");
}

/// **Invariant:** What a link in a sealed place leads to is sealed, and the link is put back.
#[test]
fn a_sealed_path_that_is_a_link_is_sealed_with_what_it_leads_to() {
    let _alone = alone();
    let stage = Stage::new();
    let at = |name: &str| stage.root().join(name);
    fs::create_dir_all(at("real.git/hooks")).unwrap();
    fs::write(at("real.git/config"), "old").unwrap();
    std::os::unix::fs::symlink("real.git", at(".git")).unwrap();
    for way in ["echo new > .git/config", "echo x > real.git/hooks/post-checkout", "mv real.git g"]
    {
        assert_ne!(stage.run(way).0, ProcessExit::Code(0), "{way}");
    }
    let swap = "rm .git && mkdir -p .git/hooks && echo new > .git/config";
    let ran = stage.try_run(swap, Duration::from_secs(60)).unwrap();
    assert_eq!(ran.breach, Some(Breach::Wrote(vec![".git".to_owned()])));
    assert_eq!(fs::read_link(at(".git")).unwrap(), Path::new("real.git"));
    assert_eq!(fs::read_to_string(at(".git/config")).unwrap(), "old");
    // Nor does a link keep what was refused in its place.
    fs::remove_dir_all(at(".salve/refused")).unwrap();
    std::os::unix::fs::symlink("/nowhere", at(".salve/refused")).unwrap();
    let ran = stage.try_run("echo {} > salve.json", Duration::from_secs(60)).unwrap();
    assert_eq!(ran.breach, Some(Breach::Wrote(vec!["salve.json".to_owned()])));
    assert!(!at("salve.json").exists());
}

/// **Invariant:** No link on the way to a sealed place stays changed, and nothing is changed or made
/// behind it.
#[test]
fn a_link_in_the_middle_of_a_sealed_way_leads_no_command_there() {
    let _alone = alone();
    let stage = Stage::new();
    let at = |name: &str| stage.root().join(name);
    for dir in ["b/c", "conf", "other/c"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    fs::write(at("b/c/settings.json"), "old").unwrap();
    for (link, target) in [("a", "b"), (".claude", "a/c"), (".vscode", "conf")] {
        std::os::unix::fs::symlink(target, at(link)).unwrap();
    }
    for way in ["echo new > b/c/settings.json", "echo new > a/c/x", "mv b/c d", "mv b d"] {
        assert_ne!(stage.run(way).0, ProcessExit::Code(0), "{way}");
    }
    for (way, told) in [
        ("ln -sfn other a", "a"),
        ("rm .claude && mkdir .claude && echo new > .claude/settings.json", ".claude"),
        ("echo new > conf/tasks.json", "conf/tasks.json"),
        ("rm -r conf && ln -s other conf && echo new > other/tasks.json", "conf"),
        ("ln -sfn other .vscode", ".vscode"),
    ] {
        let ran = stage.try_run(way, Duration::from_secs(60)).unwrap();
        assert_eq!(ran.breach, Some(Breach::Wrote(vec![told.to_owned()])), "{way}");
        assert_eq!(fs::read_to_string(at(".claude/settings.json")).unwrap(), "old", "{way}");
        assert!(!at(".vscode/tasks.json").exists(), "{way}");
    }
    fs::remove_file(at(".claude")).unwrap();
    std::os::unix::fs::symlink(".", at(".claude")).unwrap();
    let refused = stage.try_run("true", Duration::from_secs(60));
    assert!(matches!(refused, Err(SandboxError::Refused(_))), "{refused:?}");
}

/// **Invariant:** Salve puts back what is in the project and touches nothing outside, wherever links lead
/// that a command left.
#[test]
fn putting_back_touches_nothing_outside() {
    let _alone = alone();
    for spaces in [None, Some(Spaces::None)] {
        let mut stage = Stage::new();
        let at = |name: &str| stage.dir.path().join("repo").join(name);
        let outside = stage.dir.path().join("outside");
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(at(".claude/deep")).unwrap();
        fs::write(outside.join("settings.json"), "mine").unwrap();
        fs::write(at(".claude/deep/x"), "old").unwrap();
        stage.means = spaces.map(|spaces| Means { spaces, ..Means::here() });
        let link = format!("ln -s {} .vscode", outside.display());
        let ran = stage.try_run(&link, Duration::from_secs(60)).unwrap();
        assert_eq!(ran.breach, Some(Breach::Wrote(vec![".vscode".to_owned()])), "{spaces:?}");
        fs::create_dir(at(".vscode")).unwrap();
        fs::write(at(".vscode/settings.json"), "old").unwrap();
        let swap =
            format!("mv .vscode v; rm -rf .claude/deep; ln -s {} .vscode", outside.display());
        let ran = stage.try_run(&swap, Duration::from_secs(60)).unwrap();
        assert_eq!(ran.breach.is_some(), spaces.is_some(), "{ran:?}");
        assert_eq!(fs::read_to_string(at(".vscode/settings.json")).unwrap(), "old");
        assert_eq!(fs::read_to_string(at(".claude/deep/x")).unwrap(), "old");
        assert_eq!(fs::read_to_string(outside.join("settings.json")).unwrap(), "mine");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }
}

/// Runs git in the project of a stage.
#[track_caller]
fn git(stage: &Stage, args: &[&str]) {
    let mut git = std::process::Command::new("git");
    let status = git.args(args).current_dir(stage.root()).stdout(std::process::Stdio::null());
    assert!(status.status().unwrap().success(), "{args:?}");
}

#[test]
fn where_git_finds_programs_no_command_writes() {
    let _alone = alone();
    let stage = Stage::new();
    let at = |name: &str| stage.root().join(name);
    for dir in ["tools/hooks", "inner/sub", "data.git/objects", "data.git/refs", "src"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    git(&stage, &["init", "-q"]);
    git(&stage, &["init", "-q", "--separate-git-dir", "inner/store", "inner/sub"]);
    git(&stage, &["config", "core.hooksPath", "tools/hooks"]);
    git(&stage, &["config", "include.path", "../more.config"]);
    git(&stage, &["config", "filter.x.clean", "tools/clean.sh"]);
    let files = ["more.config", "tools/clean.sh", "tools/hooks/pre-commit", "data.git/config"];
    files.iter().for_each(|name| fs::write(at(name), "# old\n").unwrap());
    fs::write(at("data.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    for way in [
        "echo new >> more.config",
        "echo new > tools/clean.sh",
        "echo new > tools/hooks/pre-commit",
        "echo new > tools/hooks/post-checkout",
        "mv tools t",
        "echo new > data.git/config",
        "echo new > inner/store/config",
        "mkdir -p inner/store/hooks && echo new > inner/store/hooks/post-checkout",
    ] {
        assert_ne!(stage.run(way).0, ProcessExit::Code(0), "{way}");
    }
    let made = "mkdir -p data.git/hooks && echo new > data.git/hooks/post-update";
    let ran = stage.try_run(made, Duration::from_secs(60)).unwrap();
    assert_eq!(ran.breach, Some(Breach::Wrote(vec!["data.git/hooks".to_owned()])));
    assert_eq!(stage.run("echo fine > tools/other && echo fine > src/x").0, ProcessExit::Code(0));
    // Where there is no repository, the root itself could become one.
    let bare = Stage::new();
    let make =
        "mkdir objects refs && echo 'ref: refs/heads/x' > HEAD && echo x > shop.code-workspace";
    let ran = bare.try_run(make, Duration::from_secs(60)).unwrap();
    let wrote = ["shop.code-workspace", "HEAD"].map(str::to_owned).to_vec();
    assert_eq!(ran.breach, Some(Breach::Wrote(wrote)));
    assert!(!bare.root().join("HEAD").exists() && bare.root().join("refs").exists());
}

/// **Invariant:** Another name of a sealed file changes it as little as its own does.
#[test]
fn another_name_of_a_sealed_file_or_of_a_socket_is_sealed_too() {
    let _alone = alone();
    let stage = Stage::new();
    let at = |name: &str| stage.root().join(name);
    for dir in [".salve", ".git/hooks", "node_modules/deep"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    let names = [
        (".mcp.json", "other.json"),
        (".git/hooks/pre-commit", "node_modules/deep/hook"),
        (".salve/salve.db", "data"),
    ];
    for (sealed, other) in names {
        fs::write(at(sealed), "old").unwrap();
        fs::hard_link(at(sealed), at(other)).unwrap();
        let way = format!("echo new > {other}");
        assert_ne!(stage.run(&way).0, ProcessExit::Code(0), "{way}");
        assert_eq!(fs::read_to_string(at(sealed)).unwrap(), "old");
    }
    // A name in a place that is written to, but not in the project, such as a package manager's cache.
    let mut stage = stage;
    let elsewhere = stage.dir.path().join("cache");
    fs::create_dir(&elsewhere).unwrap();
    fs::hard_link(stage.root().join(".mcp.json"), elsewhere.join("x")).unwrap();
    stage.settings.caches = vec![elsewhere.display().to_string()];
    let ran =
        stage.try_run(&format!("echo new > {}/x", elsewhere.display()), Duration::from_secs(60));
    assert_eq!(ran.unwrap().breach, Some(Breach::Wrote(vec![".mcp.json".to_owned()])));
    assert_eq!(fs::read_to_string(stage.root().join(".mcp.json")).unwrap(), "old");
    let socket = stage.dir.path().join("other.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    fs::hard_link(&socket, stage.root().join("inside.sock")).unwrap();
    let connect =
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"inside.sock\")'";
    assert_ne!(stage.run(connect).0, ProcessExit::Code(0));
}

/// **Invariant:** A command that locks Salve's files locks nobody out.
#[test]
fn what_a_command_locks_is_locked_for_itself_alone() {
    let _alone = alone();
    let stage = Stage::new();
    let own = stage.root().join(".salve");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("salve.lock"), "").unwrap();
    let file = fs::File::open(own.join("salve.lock")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let lock = "import fcntl; f = open(\".salve/salve.lock\"); \
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.lockf(f, fcntl.LOCK_SH)";
    let (exit, output) = stage.run(&format!("python3 -c '{lock}' && cat .salve/salve.lock"));
    assert_eq!(exit, ProcessExit::Code(0), "ours does not keep it from its own: {output}");
    assert_ne!(stage.run("echo x > .salve/new").0, ProcessExit::Code(0));
}

/// Ways to change what is sealed.
const SEAL_BREAKS: [&str; 29] = [
    "echo new > .salve/salve.db",
    "rm -rf .salve",
    "mv .salve s && mkdir .salve",
    "touch .salve/x",
    "echo new > .git/config",
    "mv .git/config c",
    "mv .git g",
    "cp /etc/hostname x && mv x .git/config",
    "rm salve.toml",
    "echo new >> salve.toml",
    "mount --bind /tmp .salve",
    "umount .salve",
    "ln -f .git/config l && echo new > l",
    "echo ../evil > .git/commondir",
    "mkdir -p .git/hooks",
    "echo x > .git/HEAD",
    "mkdir -p .git/refs/heads && echo x > .git/refs/heads/main",
    "echo x > .git/index",
    "echo x > .git/config.worktree",
    "mkdir -p .git/info && echo x > .git/info/attributes",
    "chmod 777 .git/config",
    "echo x > sub/.git/config",
    "echo x > sub/.git/commondir",
    "mv sub/.git g",
    "mv sub s && mkdir -p sub/.git && echo new > sub/.git/config",
    "mv deep d && mkdir -p deep/web/.vscode && echo new > deep/web/.vscode/tasks.json",
    "echo new > deep/web/.vscode/tasks.json",
    "echo new > shop.code-workspace",
    "git submodule status; echo x > .git/commondir",
];

/// **Invariant:** What makes git run programs, and modes, owners and times elsewhere, are out of a
/// command's reach.
#[test]
fn what_is_sealed_is_not_changed_by_any_way() {
    let _alone = alone();
    let stage = Stage::new();
    let at = |name: &str| stage.root().join(name);
    for dir in [".git", ".salve", "sub/.git", "deep/web/.vscode"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    let files = [
        ".salve/salve.db",
        ".git/config",
        "salve.toml",
        "sub/.git/config",
        "deep/web/.vscode/tasks.json",
        "shop.code-workspace",
    ];
    files.iter().for_each(|name| fs::write(at(name), "old").unwrap());
    for way in SEAL_BREAKS {
        let (exit, output) = stage.run(way);
        assert_ne!(exit, ProcessExit::Code(0), "{way}: {output}");
        for name in files {
            assert_eq!(fs::read_to_string(at(name)).unwrap(), "old", "{way}: {name}");
        }
    }
    // What was not there when the command began is found afterwards.
    let ran = stage.try_run("echo {} > salve.json", Duration::from_secs(60)).unwrap();
    assert_eq!(ran.breach, Some(Breach::Wrote(vec!["salve.json".to_owned()])));
    assert!(!at("salve.json").exists());
    let plant = "echo {} > .mcp.json; mkdir .claude && echo {} > .claude/settings.json";
    let ran = stage.try_run(plant, Duration::from_secs(60)).unwrap();
    let Some(Breach::Wrote(mut wrote)) = ran.breach else { panic!("{ran:?}") };
    wrote.sort();
    assert_eq!(wrote, [".claude", ".mcp.json"]);
    assert!(!at(".claude").exists() && !at(".mcp.json").exists());
}

#[test]
fn nothing_outside_changes_its_mode_its_owner_its_times_or_its_attributes() {
    let _alone = alone();
    let stage = Stage::new();
    let outside = stage.dir.path().join("outside");
    fs::write(&outside, "mine").unwrap();
    let before = || {
        let meta = fs::metadata(&outside).unwrap();
        (meta.permissions().mode(), meta.modified().unwrap(), meta.uid(), meta.ctime_nsec())
    };
    let was = before();
    let path = outside.display();
    for way in [
        format!("chmod 666 {path}"),
        format!("touch -d 2001-01-01 {path}"),
        format!("touch -a {path}"),
        format!("chown 12345 {path}"),
        format!("python3 -c 'import os; os.setxattr(\"{path}\", \"user.x\", b\"1\")'"),
        format!("truncate -s 0 {path}"),
        format!("mv {path} {path}.moved"),
        "chmod 777 /etc".to_owned(),
    ] {
        let (exit, output) = stage.run(&way);
        assert_ne!(exit, ProcessExit::Code(0), "{way}: {output}");
        assert_eq!(before(), was, "{way}");
    }
    // What is its own it may do as it likes with.
    let own = "echo x > own && chmod 600 own && touch -d 2001-01-01 own && chmod 700 \"$TMPDIR\"";
    let (exit, output) = stage.run(own);
    assert_eq!(exit, ProcessExit::Code(0), "{output}");
}

/// **Invariant:** Limits, priorities and sockets of others are out of a command's reach.
#[test]
fn the_limits_and_priority_of_others_stay() {
    let _alone = alone();
    let stage = Stage::new();
    let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = other.id();
    for way in [format!("prlimit --pid {pid} --cpu=1:1"), format!("renice -n 5 -p {pid}")] {
        let (exit, output) = stage.run(&way);
        assert_ne!(exit, ProcessExit::Code(0), "{way}: {output}");
    }
    // Those that it does see are others, too: without the filter of calls this would be let.
    for way in ["prlimit --pid $! --cpu=100:100", "renice -n 5 -p $!"] {
        let (exit, output) = stage.run(&format!("sleep 60 & {way}; did=$?; kill $!; exit $did"));
        assert_ne!(exit, ProcessExit::Code(0), "{way}: {output}");
    }
    // KEYCTL_GET_KEYRING_ID of the user's own keyring, made if it is not there.
    let key = "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(250, 0, -4, 1) < 0)";
    if cfg!(target_arch = "x86_64") {
        assert_ne!(
            stage.run(&format!("python3 -c '{key}'")).0,
            ProcessExit::Code(0),
            "the user's keys"
        );
    }
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let cpu = limits.lines().find(|line| line.starts_with("Max cpu time")).unwrap();
    assert!(!cpu.contains(" 1 "), "{cpu}");
    other.kill().unwrap();
    other.wait().unwrap();
    let (exit, output) = stage.run("ulimit -n 100 && nice -n 5 true");
    assert_eq!(exit, ProcessExit::Code(0), "its own it may change: {output}");
}

#[test]
fn sockets_of_other_programs_are_reached_only_if_listed() {
    let _alone = alone();
    let mut stage = Stage::new();
    let socket = stage.dir.path().join("other.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let connect = format!(
        "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{}\")'",
        socket.display()
    );
    assert_ne!(stage.run(&connect).0, ProcessExit::Code(0));
    // The kernel tells of these by no path that leads there.
    let other = stage.dir.path().join("elsewhere");
    fs::create_dir(&other).unwrap();
    let listen = "import os, socket, sys\nall = [socket.socket(socket.AF_UNIX) for _ in '12']\n\
                  for s, name in zip(all, ['near.sock', os.getcwd() + '/first.sock']):\n    \
                  s.bind(name); s.listen()\nos.link('first.sock', 'shared.sock')\n\
                  os.unlink('first.sock')\nprint('there', flush=True)\nsys.stdin.read()";
    let mut listener = std::process::Command::new("python3");
    listener.args(["-c", listen]).current_dir(&other);
    let mut listener = listener
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = String::new();
    let said = listener.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut told).unwrap();
    for name in ["near.sock", "shared.sock"] {
        let path = other.join(name).display().to_string();
        let reached = connect.replace(&socket.display().to_string(), &path);
        std::os::unix::net::UnixStream::connect(&path).unwrap();
        assert_ne!(stage.run(&reached).0, ProcessExit::Code(0), "{name}");
    }
    drop(listener.stdin.take());
    listener.wait().unwrap();
    let hidden = socket_behind_a_handle(&other);
    let reached = connect
        .replace(&socket.display().to_string(), &other.join("far.sock").display().to_string());
    assert_ne!(stage.run(&reached).0, ProcessExit::Code(0), "bound by a handle");
    drop(hidden);
    stage.settings.sockets = vec![socket.display().to_string()];
    let (exit, output) = stage.run(&connect);
    assert_eq!(exit, ProcessExit::Code(0), "{output}");
    let own = "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"own.sock\"); \
               s.listen(); c = socket.socket(socket.AF_UNIX); c.connect(\"own.sock\")'";
    assert_eq!(stage.run(own).0, ProcessExit::Code(0));
}

/// Listens on a socket in `dir` whose name the kernel tells from a handle of this process.
fn socket_behind_a_handle(dir: &Path) -> (fs::File, std::os::unix::net::UnixListener) {
    let handle = fs::File::open(dir).unwrap();
    let name = format!("/proc/self/fd/{}/far.sock", handle.as_raw_fd());
    let listener = std::os::unix::net::UnixListener::bind(name).unwrap();
    std::os::unix::net::UnixStream::connect(dir.join("far.sock")).unwrap();
    (handle, listener)
}

#[test]
fn a_command_has_a_session_three_files_limits_and_no_way_to_more_rights() {
    let _alone = alone();
    let stage = Stage::new();
    let script = &format!(
        "echo files $(ls /proc/self/fd | wc -l); ps -o sid= -p $$ | tr -d ' '; echo $$; \
        ulimit -H -c; grep NoNewPrivs /proc/self/status; grep CapBnd /proc/self/status; \
        kill -0 {} 2>/dev/null || echo alone; echo shell $0; \
        echo \"[$GITHUB_TOKEN][$SALVE_AGENT]\"",
        std::process::id()
    );
    // Whoever starts Salve may leave files open.
    let left = fs::File::open("/etc/hostname").unwrap();
    rustix::io::fcntl_setfd(&left, rustix::io::FdFlags::empty()).unwrap();
    let (exit, output) = stage.run(script);
    assert_eq!(exit, ProcessExit::Code(0), "{output}");
    let lines = said(&output, "files ");
    // `ls` has the directory open besides.
    assert_eq!(lines[0], "4", "{output}");
    assert_eq!((lines[1], lines[3]), (lines[2], "0"), "{output}");
    assert_eq!(lines[4], "NoNewPrivs:\t1");
    let bounding = u64::from_str_radix(lines[5].split_whitespace().nth(1).unwrap(), 16).unwrap();
    if rustix::process::geteuid().is_root() {
        assert_eq!(bounding & (1 << 21), 0, "no CAP_SYS_ADMIN: {output}");
    }
    assert_eq!(lines[6..], ["alone", "shell /bin/sh", "[][remedy]"], "{output}");
}

#[test]
fn the_network_is_what_the_settings_say() {
    let _alone = alone();
    let mut stage = Stage::new();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let connect =
        format!("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'");
    let reached = |stage: &Stage| stage.run(&connect).0 == ProcessExit::Code(0);
    assert!(!reached(&stage), "a port that is not the web's");
    fs::write(stage.root().join(".npmrc"), format!("registry=http://127.0.0.1:{port}/")).unwrap();
    assert!(reached(&stage), "the port of a registry");
    stage.settings.offline = vec![connect.clone()];
    assert!(!reached(&stage), "no network at all");
    stage.settings.offline.clear();
    fs::remove_file(stage.root().join(".npmrc")).unwrap();
    stage.settings.online = vec![connect.clone()];
    assert!(reached(&stage), "any network");
}

/// **Invariant:** A swapped directory changes nothing.
#[test]
fn a_directory_that_is_swapped_after_the_check_changes_nothing() {
    let _alone = alone();
    let stage = Stage::new();
    let root = stage.root();
    fs::create_dir_all(root.join("app")).unwrap();
    fs::create_dir_all(root.join("other")).unwrap();
    let dir = crate::gate::resolve(&root, "app").unwrap();
    fs::rename(root.join("app"), root.join("was-app")).unwrap();
    std::os::unix::fs::symlink("other", root.join("app")).unwrap();
    let command = "echo here > mark";
    let (argv, limit) = (shell(command), Duration::from_secs(60));
    let (env, name) = (Vec::new(), REMEDY.to_owned());
    let on = Authority::Gate;
    let job = SandboxedCommand { command, argv, root: &root, dir: &dir, env, name, limit, on };
    usual().run(&stage.care, &job).unwrap();
    assert!(root.join("was-app/mark").exists() && !root.join("other/mark").exists());
}

/// **Invariant:** Nothing outlives a command, and output is bounded.
#[test]
fn nothing_outlives_a_command() {
    let _alone = alone();
    let stage = Stage::new();
    let daemon = "setsid sh -c 'trap \"\" TERM; echo $$ > pid; exec sleep 1000' & \
        while ! [ -s pid ]; do :; done";
    assert_eq!(stage.run(daemon).0, ProcessExit::Code(0));
    let pid = fs::read_to_string(stage.root().join("pid")).unwrap();
    let is_there = Path::new("/proc").join(pid.trim()).join("exe").exists();
    assert!(!is_there, "a daemon ends with its command");

    let stubborn = "trap '' TERM; echo $$ > pid; while :; do sleep 1000; done";
    let ran = stage.try_run(stubborn, Duration::from_secs(1)).unwrap();
    assert_eq!(ran.exit, ProcessExit::TimedOut);
    let pid = fs::read_to_string(stage.root().join("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).join("exe").exists());
}

#[test]
fn endless_output_fills_neither_memory_nor_disk() {
    let _alone = alone();
    let stage = Stage::new();
    let (exit, output) = stage.run("yes 'all work and no play' | head -c 1000000000; echo done");
    assert_eq!(exit, ProcessExit::Code(0));
    assert!(output.ends_with("done\n") && output.len() < 4 << 20, "{}", output.len());
}

#[test]
fn a_command_that_starts_too_many_processes_is_ended() {
    let _alone = alone();
    let stage = Stage::new();
    let begun = Instant::now();
    let script = "i=0; while [ $i -lt 3000 ]; do sleep 612.5 & i=$((i+1)); done; wait";
    let ran = stage.try_run(script, Duration::from_secs(240)).unwrap();
    assert_eq!(ran.breach, Some(Breach::Crowd), "{:?}", begun.elapsed());
    // Other tests have children of their own meanwhile.
    let mine = crate::process::tree::descendants(std::process::id());
    let left = mine.iter().filter_map(|stat| crate::process::tree::command_line(stat.pid));
    assert_eq!(left.filter(|line| line == "sleep 612.5").count(), 0);
}

#[test]
fn what_cannot_be_started_is_told() {
    let _alone = alone();
    let stage = Stage::new();
    fs::create_dir_all(stage.root()).unwrap();
    let dir = crate::gate::resolve(&stage.root(), ".").unwrap();
    let argv = vec!["no-such-program".into()];
    let (root, limit) = (&stage.root(), Duration::from_secs(60));
    let job = SandboxedCommand {
        command: "x",
        argv,
        root,
        dir: &dir,
        env: Vec::new(),
        name: REMEDY.to_owned(),
        limit,
        on: Authority::Gate,
    };
    let error = usual().run(&stage.care, &job).unwrap_err().to_string();
    assert!(error.starts_with("cannot start `no-such-program`"), "{error}");
}

#[test]
fn where_nothing_can_hold_a_command_it_is_told_before() {
    let mut settings = settings();
    let lack = |settings: &SandboxSettings, landlock, spaces, sockets| {
        let means = Means { landlock, spaces, processes: Processes::Shared, sockets };
        Sandbox::with_means(settings, means).lack("make")
    };
    use {Landlock as L, Sockets as S, Spaces as P};
    assert_eq!(lack(&settings, L::None, P::User, S::Filtered), Some(Lack::Landlock));
    assert_eq!(lack(&settings, L::Files, P::None, S::Any), None);
    settings.offline = vec!["make".to_owned()];
    assert_eq!(lack(&settings, L::Files, P::None, S::Any), Some(Lack::Network));
    assert_eq!(lack(&settings, L::Ports, P::None, S::Any), Some(Lack::Network), "there is UDP");
    assert_eq!(lack(&settings, L::Files, P::None, S::Filtered), None);
    assert_eq!(lack(&settings, L::Files, P::Root, S::Any), None);
    settings.mode = SandboxMode::Off;
    assert_eq!(lack(&settings, L::None, P::None, S::Any), None);
}

/// **Invariant:** What nothing can hold runs only on a person's word.
#[test]
fn what_nothing_can_hold_runs_only_on_a_persons_word() {
    let _alone = alone();
    let stage = Stage::new();
    fs::create_dir_all(stage.root()).unwrap();
    let dir = crate::gate::resolve(&stage.root(), ".").unwrap();
    let sandbox = Sandbox::with_means(&stage.settings, Means::NOTHING);
    let ran = |on| {
        let (command, root) = ("echo ran >> ran", &stage.root());
        let (argv, env, limit) = (shell(command), Vec::new(), Duration::from_secs(60));
        let name = REMEDY.to_owned();
        sandbox.run(
            &stage.care,
            &SandboxedCommand { command, argv, root, dir: &dir, env, name, limit, on },
        )
    };
    let refused = ran(Authority::Gate).unwrap_err();
    assert!(matches!(refused, SandboxError::Unheld(Lack::Landlock)), "{refused}");
    assert!(!stage.root().join("ran").exists());
    assert_eq!(ran(Authority::Approval(7)).unwrap().exit, ProcessExit::Code(0));
    assert!(stage.root().join("ran").exists());
}

/// Opens a socket of this family, kind and protocol, and connects it to a port of this machine.
fn opens(stage: &Stage, kind: &str, port: u16) -> bool {
    let script = format!(
        "import socket as s; o = s.socket({kind}); \
         o.connect(('::1' if o.family == s.AF_INET6 else '127.0.0.1', {port})) if {port} else None"
    );
    stage.run(&format!("python3 -c \"{script}\"")).0 == ProcessExit::Code(0)
}

/// **Invariant:** The network `web` is TCP to its ports.
#[test]
fn the_web_is_tcp_to_its_ports_and_nothing_else() {
    let _alone = alone();
    let mut stage = Stage::new();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    fs::create_dir_all(stage.root()).unwrap();
    fs::write(stage.root().join(".npmrc"), format!("registry=http://127.0.0.1:{port}/")).unwrap();
    let others = [
        "s.AF_INET, s.SOCK_DGRAM",
        "s.AF_INET6, s.SOCK_DGRAM | s.SOCK_CLOEXEC",
        "s.AF_INET, s.SOCK_DGRAM, s.IPPROTO_UDP",
        "s.AF_INET, s.SOCK_RAW, s.IPPROTO_ICMP",
        "s.AF_PACKET, s.SOCK_RAW",
        "s.AF_NETLINK, s.SOCK_RAW, 16",
        // TCP by another name, of which Landlock knows nothing.
        "s.AF_INET, s.SOCK_STREAM, 262",
    ];
    for kind in others {
        assert!(!opens(&stage, kind, 0), "{kind}");
    }
    for kind in
        ["s.AF_UNIX, s.SOCK_STREAM", "s.AF_UNIX, s.SOCK_DGRAM", "s.AF_NETLINK, s.SOCK_RAW, 0"]
    {
        assert!(opens(&stage, kind, 0), "{kind}");
    }
    assert!(opens(&stage, "s.AF_INET, s.SOCK_STREAM", port));
    assert!(opens(&stage, "s.AF_INET, s.SOCK_STREAM, s.IPPROTO_TCP", port));
    // A connection that comes with its first data asks Landlock nothing.
    let hidden = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hasty = format!(
        "python3 -c \"import socket as s; o = s.socket(); \
         o.sendto(b'x', 0x20000000, ('127.0.0.1', {}))\"",
        hidden.local_addr().unwrap().port()
    );
    assert_ne!(stage.run(&hasty).0, ProcessExit::Code(0));
    // Where names need it, there is UDP, and still nothing else.
    stage.names = Names::ByUdp;
    assert!(opens(&stage, "s.AF_INET, s.SOCK_DGRAM", port));
    assert!(!opens(&stage, "s.AF_INET, s.SOCK_RAW, s.IPPROTO_ICMP", 0));
    assert!(!opens(&stage, "s.AF_INET, s.SOCK_DGRAM, s.IPPROTO_ICMP", 0));
    // Of two ways to say that there is no network, this one needs no namespace.
    stage.settings.network = Network::None;
    for kind in ["s.AF_INET, s.SOCK_STREAM", "s.AF_INET6, s.SOCK_DGRAM"] {
        assert!(!opens(&stage, kind, 0), "{kind}");
    }
    stage.settings.network = Network::Any;
    assert!(opens(&stage, "s.AF_INET, s.SOCK_DGRAM", port));
}

#[test]
fn names_are_looked_up_by_tcp() {
    let _alone = alone();
    let stage = Stage::new();
    let (exit, output) =
        stage.run("echo told $RES_OPTIONS; grep -c '^options use-vc' /etc/resolv.conf");
    let lines = said(&output, "told ");
    assert_eq!(lines[0], "use-vc", "{exit:?}: {output}");
    if Means::here().spaces != Spaces::None && Path::new("/etc/resolv.conf").exists() {
        assert_eq!(lines[1], "1", "{output}");
    }
}
