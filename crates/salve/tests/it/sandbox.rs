//! Commands that heal run in the sandbox: installs work there, what is not theirs stays as it is,
//! and where there is no sandbox a person is asked.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use landlock::{AccessFs, Ruleset, RulesetAttr as _};

use crate::heal::{Visit, git};
use crate::support::{Project, wait_for};

/// A project whose check is red until `made` is there, and whose memory knows how to make it.
struct Ward {
    project: Project,
}

impl Ward {
    fn new(command: &str, made: &str, files: &[(&str, &str)]) -> Self {
        let project = Project::new();
        let check =
            format!("test -e {made} || {{ echo 'Error: greet is not installed'; exit 1; }}");
        project.write("check.sh", check);
        project.write("salve.toml", format!("[recovery]\nauto_approve = ['''{command}''']\n"));
        project.write(".gitignore", "node_modules\n.venv\ntarget\nmade\n.salve\n");
        files.iter().for_each(|(path, text)| project.write(path, text));
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            git(&project, args);
        }
        let learn = ["memory", "learn", "--command", command];
        let learnt = project.run_with_input(&learn, b"Error: greet is not installed\n");
        assert!(learnt.status.success(), "{learnt:?}");
        Self { project }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.project.command(args);
        let home = std::env::var_os("HOME").map(|home| std::path::Path::new(&home).join(".rustup"));
        let home = home.map(std::path::PathBuf::into_os_string);
        command.envs(std::env::var_os("RUSTUP_HOME").or(home).map(|home| ("RUSTUP_HOME", home)));
        command.env("SALVE_USER", "ada").stdin(Stdio::null());
        command
    }

    fn heal(&self, args: &[&str]) -> Visit {
        let all = [&["heal"], args, &["--", "sh", "check.sh"]].concat();
        Visit::of(&self.command(&all).output().unwrap())
    }

    /// Heals on what looks like a machine that has no Landlock.
    fn heal_without_landlock(&self, args: &[&str]) -> Visit {
        std::thread::scope(|scope| {
            let work = || {
                // Rules can be nested sixteen deep: after that the kernel takes no more.
                for _ in 0..16 {
                    let rules = Ruleset::default().handle_access(AccessFs::MakeChar).unwrap();
                    rules.create().unwrap().restrict_self().unwrap();
                }
                self.heal(args)
            };
            scope.spawn(work).join().unwrap()
        })
    }
}

/// Heals by an install that needs no network, with a home in which no tool has ever run.
#[track_caller]
fn installs(tool: &str, command: &str, made: &str, files: &[(&str, &str)]) {
    if Command::new(tool).arg("--version").output().is_err() {
        return; // It is not here to install anything.
    }
    let ward = Ward::new(command, made, files);
    ward.heal(&[]).expect(0, &["healed"]);
    assert!(ward.project.dir().join(made).exists());
}

#[test]
fn npm_installs() {
    let manifest = r#"{"name":"app","dependencies":{"greet":"file:greet"}}"#;
    let greet = r#"{"name":"greet","version":"1.0.0","scripts":{"install":"echo built > built"}}"#;
    let files = [("package.json", manifest), ("greet/package.json", greet)];
    installs("npm", "npm install --no-audit --no-fund", "node_modules/greet", &files);
}

#[test]
fn pip_installs_into_a_venv() {
    let pack = "import zipfile as z\n\
        f = z.ZipFile('greet-1.0-py3-none-any.whl', 'w')\n\
        i = 'greet-1.0.dist-info/'\n\
        f.writestr('greet.py', 'hello = 1')\n\
        f.writestr(i + 'METADATA', 'Metadata-Version: 2.1\\nName: greet\\nVersion: 1.0\\n')\n\
        f.writestr(i + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        f.writestr(i + 'RECORD', '')\n\
        f.close()\n";
    let command = "python3 pack.py && python3 -m venv .venv && \
        .venv/bin/pip install --no-index ./greet-1.0-py3-none-any.whl && \
        .venv/bin/python -c 'import greet' && touch made";
    installs("python3", command, "made", &[("pack.py", pack)]);
}

#[test]
fn cargo_builds() {
    let manifest = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
        [dependencies]\ngreet = { path = \"greet\" }\n[workspace]\nmembers = [\"greet\"]\n";
    let greet = "[package]\nname = \"greet\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let files = [
        ("Cargo.toml", manifest),
        ("src/main.rs", "fn main() { greet::hello() }"),
        ("greet/Cargo.toml", greet),
        ("greet/src/lib.rs", "pub fn hello() {}"),
    ];
    installs("cargo", "cargo build --offline", "target/debug/app", &files);
}

#[test]
fn a_command_that_heals_cannot_loosen_the_rules_or_answer_for_a_person() {
    let salve = env!("CARGO_BIN_EXE_salve");
    let command = format!(
        "echo x > made; echo '[recovery]' >> salve.toml; echo x > .git/hooks/post-commit; \
         echo x > .salve/x; echo x > ../outside; \
         {salve} memory learn --command 'rm -rf /' 'Error: other' && touch learnt; true"
    );
    let ward = Ward::new(&command, "made", &[]);
    let before = std::fs::read(ward.project.dir().join("salve.toml")).unwrap();
    ward.heal(&[]).expect(0, &["healed"]);
    assert_eq!(std::fs::read(ward.project.dir().join("salve.toml")).unwrap(), before);
    for path in [".git/hooks/post-commit", ".salve/x", "../outside", "learnt"] {
        assert!(!ward.project.dir().join(path).exists(), "{path}");
    }
}

/// **Invariant:** No sandbox, no unattended command.
#[test]
fn where_there_is_no_sandbox_a_person_is_asked() {
    let ward = Ward::new("touch made", "made", &[]);
    let crowded = |args: &[&str]| ward.heal_without_landlock(args);
    crowded(&[]).expect(3, &["needs you"]);
    assert!(!ward.project.dir().join("made").exists());
    let shown = Visit::of(&ward.command(&["show"]).output().unwrap());
    shown.expect(3, &["Landlock is not available"]);
    let answered = Visit::of(&ward.command(&["approve"]).output().unwrap());
    assert_eq!(answered.code, Some(0), "{}", answered.said);
    crowded(&[]).expect(0, &["healed"]);
    assert!(ward.project.dir().join("made").exists(), "a person has agreed");
    let ward_off = Ward::new("touch made", "made", &[]);
    ward_off.heal(&["--set", "recovery.sandbox.mode=off"]).expect(0, &["healed"]);
}

#[test]
fn what_was_allowed_where_it_could_be_held_is_asked_about_where_it_cannot() {
    let ward = Ward::new("touch made", "made", &[]);
    let at = |name: &str| ward.project.dir().join(name);
    // A git that does not come back from keeping the files, which is the last before the command.
    let real =
        String::from_utf8(Command::new("which").arg("git").output().unwrap().stdout).unwrap();
    let git = "#!/bin/sh\ncase \"$*\" in *fast-import*)\n\
        while [ -e ../stall ]; do touch ../stalled; sleep 0.05; done;;\nesac\n";
    ward.project.write("../bin/git", format!("{git}exec {} \"$@\"\n", real.trim()));
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(at("../bin/git"), executable).unwrap();
    ward.project.write("../stall", "");
    let path = format!("{}:{}", at("../bin").display(), std::env::var("PATH").unwrap());
    let mut command = ward.command(&["heal", "--", "sh", "check.sh"]);
    command.env("PATH", path).stdout(Stdio::null()).stderr(Stdio::null());
    let mut keeper = command.spawn().unwrap();
    wait_for("the files to be kept", || at("../stalled").exists());
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    std::fs::remove_file(at("../stall")).unwrap();
    let log = || String::from_utf8(ward.project.run(&["events", "--json"]).stdout).unwrap();
    assert!(log().contains("\"allow\""), "{}", log());
    // Its worker sees the keeper's end.
    wait_for("the right to heal", || {
        let visit = ward.heal_without_landlock(&[]);
        assert!(!at("made").exists(), "{}", visit.said);
        visit.code == Some(3)
    });
    let shown = Visit::of(&ward.command(&["show"]).output().unwrap());
    shown.expect(3, &["Landlock is not available", "touch made"]);
    let answered = Visit::of(&ward.command(&["approve"]).output().unwrap());
    answered.expect(0, &[]);
    ward.heal_without_landlock(&[]).expect(0, &["healed"]);
    assert!(at("made").exists(), "a person has agreed");
}

#[test]
fn submodules_are_fetched_though_gits_settings_are_sealed() {
    let command = "git -c protocol.file.allow=always submodule update --init --recursive";
    let ward = Ward::new(command, "vendor/greet/hello", &[]);
    let other = ward.project.dir().join("../greet");
    ward.project.write("../greet/hello", "hello");
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "greet"]] {
        let all = [&["-C", other.to_str().unwrap()], args].concat();
        git(&ward.project, &all);
    }
    let add = ["-c", "protocol.file.allow=always", "submodule", "-q", "add"];
    let url = other.canonicalize().unwrap();
    git(&ward.project, &[&add[..], &[url.to_str().unwrap(), "vendor/greet"]].concat());
    git(&ward.project, &["commit", "-qam", "with greet"]);
    // As after a clone without them.
    git(&ward.project, &["submodule", "-q", "deinit", "-f", "--all"]);
    let fresh = ward.project.dir().join(".git/modules");
    std::fs::remove_dir_all(&fresh).unwrap();
    let config = || std::fs::read_to_string(ward.project.dir().join(".git/config")).unwrap();
    assert!(!config().contains("submodule"), "{}", config());
    ward.heal(&[]).expect(0, &["healed"]);
    assert!(ward.project.dir().join("vendor/greet/hello").exists());
    assert!(config().contains("[submodule \"vendor/greet\"]"), "{}", config());
}

/// What a command tries as an ordinary user, and whether it is let.
const TRIES: [(&str, &str, bool); 19] = [
    ("inside", "echo x > inside", true),
    ("temporary", "echo x > $TMPDIR/x", true),
    ("few processes", "test $(ls /proc | grep -c '^[0-9]') -lt 16", true),
    ("cache", "mkdir -p ~/.cache/planted && echo x > ~/.cache/planted/x", true),
    ("outside", "echo x > OUT/new", false),
    ("mode", "chmod 666 OUT/mine", false),
    ("time", "touch -d yesterday OUT/mine", false),
    ("group", "chgrp 65534 OUT/mine", false),
    ("shell", "echo x >> ~/.bashrc", false),
    ("config", "echo x >> .git/config", false),
    ("hook", "echo x > .git/hooks/post-checkout", false),
    ("head", "echo x > .git/HEAD", false),
    ("repository", "mv .git other", false),
    ("journal", "echo x > .salve/salve.db", false),
    ("settings", "echo x >> salve.toml", false),
    ("mount", "mount --bind /tmp .git", false),
    ("signal", "kill -0 PID", false),
    ("limits", "sleep 60 & prlimit --pid $! --cpu=100:100", false),
    (
        "socket",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"OUT/other.sock\")'",
        false,
    ),
];

/// **Invariant:** What the sandbox holds for root it holds for an ordinary user, in a user namespace.
#[test]
fn an_ordinary_user_is_held_by_the_same() {
    const NOBODY: &str = "65534";
    let ward = Ward::new("sh ./attack.sh", "made", &[]);
    let root = ward.project.dir().canonicalize().unwrap();
    let out = ward.project.home().canonicalize().unwrap().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("mine"), "mine").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(out.join("other.sock")).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let as_ordinary = |program: &str, args: &[&str]| {
        let words = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all"];
        let mut command = Command::new(if is_root { "setpriv" } else { program });
        if is_root {
            command.args(words).arg(program);
        }
        command.args(args).current_dir(&root);
        command
    };
    let all = root.parent().unwrap().to_str().unwrap();
    if is_root {
        let mut give = Command::new("chown");
        assert!(give.args(["-R", "65534:65534", all]).status().unwrap().success());
    }
    let salve = env!("CARGO_BIN_EXE_salve");
    let can = as_ordinary("unshare", &["-rmp", "--fork", "test", "-x", salve]).status();
    if !can.is_ok_and(|status| status.success()) {
        println!("skipped: an ordinary user has no namespaces here, or cannot run this program");
        return;
    }
    let mut other = as_ordinary("sleep", &["600"]).spawn().unwrap();
    let mut script = "try() { if (eval \"$2\") >/dev/null 2>&1; then echo \"$1: done\"; \
                      else echo \"$1: refused\"; fi >> told; }\n"
        .to_owned();
    for (name, way, _) in TRIES {
        let way = way.replace("OUT", out.to_str().unwrap()).replace("PID", &other.id().to_string());
        script += &format!("try '{name}' '{}'\n", way.replace('\'', "'\\''"));
    }
    ward.project.write("attack.sh", script + "touch made\n");
    let heal = ward.command(&["heal", "--", "sh", "check.sh"]);
    let words: Vec<&str> = heal.get_args().map(|word| word.to_str().unwrap()).collect();
    let mut command = as_ordinary(salve, &words);
    command.env_clear().stdin(Stdio::null());
    command.envs(heal.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let visit = Visit::of(&command.output().unwrap());
    other.kill().unwrap();
    other.wait().unwrap();
    visit.expect(0, &["healed"]);
    let told = std::fs::read_to_string(root.join("told")).unwrap();
    for (name, way, is_let) in TRIES {
        let want = format!("{name}: {}", if is_let { "done" } else { "refused" });
        assert!(told.lines().any(|line| line == want), "{way}: {told}");
    }
    assert!(!ward.project.home().join(".cache/planted").exists(), "it is thrown away");
}
