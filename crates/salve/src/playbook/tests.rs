//! The playbook in real projects on disk.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use salve_core::event::{Authority, Process, ProcessExit};
use salve_core::fingerprint::{FingerprintRules, Hints};
use salve_core::playbook::{Action, ActionStep, Diagnosis, Edits, Gate, LockHold, Nature, Right};
use salve_core::scrub::{ScrubKey, Scrubber};

use super::*;
use crate::process::tests::alone;
use crate::process::{Supervisor, tree};

/// Carries an action out on the gate's word.
fn apply(
    action: &Action,
    ask: &FailedSubject<'_>,
    care: &Supervisor,
) -> Result<Applied, ApplyError> {
    super::apply(action, Authority::Gate, ask, care)
}

/// A project in a directory of its own, with git.
struct Stage {
    _dir: tempfile::TempDir,
    root: PathBuf,
    sandbox: Sandbox,
}

impl Stage {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let stage = Self { _dir: dir, root, sandbox: crate::sandbox::tests::usual() };
        files.iter().for_each(|(path, text)| stage.write(path, text));
        stage.git(&["init", "-q"]);
        stage.git(&["add", "-A"]);
        stage
    }

    fn git(&self, args: &[&str]) {
        let done = Command::new("git").arg("-C").arg(&self.root).args(args).status().unwrap();
        assert!(done.success());
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn ask<'a>(&'a self, command: &'a str) -> FailedSubject<'a> {
        FailedSubject {
            root: &self.root,
            dir: &self.root,
            command,
            env: &[],
            run: None,
            sandbox: &self.sandbox,
        }
    }

    /// Diagnoses an output in which `ROOT` stands for the project's root.
    fn diagnose(&self, command: &str, output: &str, code: i32) -> Diagnosis {
        let output = output.replace("ROOT", self.root.to_str().unwrap());
        let hints = Hints { exit_code: Some(code), ..Hints::default() };
        let fingerprint = FingerprintRules::built_in().fingerprint(&output, &hints);
        let exit = ProcessExit::Code(code);
        let seen = ObservedFailure { fingerprint: &fingerprint, exit: &exit, output: &output };
        super::diagnose(&self.ask(command), &seen, &Scrubber::new(ScrubKey::new([1; 32])))
    }

    /// Diagnoses and compares the rule and the remedies.
    #[track_caller]
    fn check<'c>(&self, failed: impl Into<FailedCommand<'c>>, rule: &str, remedies: &[&str]) {
        let failed = failed.into();
        let found = self.diagnose(failed.command, failed.output, failed.code);
        assert_eq!(found.rule.as_deref(), Some(rule), "{found:?}");
        let got: Vec<&str> = found.remedies.iter().map(|r| r.remedy.text.as_str()).collect();
        assert_eq!(got, remedies, "{found:?}");
    }
}

/// A command, and how it failed.
#[derive(Clone, Copy)]
struct FailedCommand<'a> {
    command: &'a str,
    output: &'a str,
    code: i32,
}

impl<'a, S: AsRef<str> + ?Sized> From<(&'a str, &'a S, i32)> for FailedCommand<'a> {
    fn from((command, output, code): (&'a str, &'a S, i32)) -> Self {
        Self { command, output: output.as_ref(), code }
    }
}

const fn failed_command<'a>(command: &'a str, output: &'a str, code: i32) -> FailedCommand<'a> {
    FailedCommand { command, output, code }
}

const NPM: &str = r#"{"name":"app","scripts":{"dev":"node server.js","build":"tsc"},"dependencies":{"ms":"2.1.3"}}"#;
const LOCK: &str = r#"{"name":"app","lockfileVersion":3,"packages":{"":{"name":"app","dependencies":{"ms":"2.1.3"}},"node_modules/ms":{"version":"2.1.3","bin":{"ms":"cli.js"}}}}"#;
const MISSING: FailedCommand<'static> = failed_command(
    "npm run dev",
    "Error: Cannot find module 'ms'\nRequire stack:\n- ROOT/server.js\n",
    1,
);

fn node() -> Stage {
    Stage::new(&[
        ("package.json", NPM),
        ("package-lock.json", LOCK),
        (".gitignore", "node_modules\ndist\n*.pid\n.salve\n"),
    ])
}

const CI: &str = "npm ci --include=dev --no-audit --no-fund";
const LOOSE: &str = "npm install --no-save --include=dev --no-audit --no-fund";

#[test]
fn the_same_words_want_another_cure_in_another_state() {
    let stage = node();
    stage.check(MISSING, "node.modules-missing", &[CI, LOOSE]);
    stage.write("node_modules/other/package.json", "{}");
    let fresh = [CI, LOOSE].map(|install| format!("rm -rf node_modules && {install}"));
    let fresh = fresh.each_ref().map(String::as_str);
    stage.check(MISSING, "node.package-missing", &fresh);
    stage.write("node_modules/ms/package.json", r#"{"version":"2.1.3","main":"index.js"}"#);
    stage.check(MISSING, "node.dependency-damaged", &fresh);
    stage.write("node_modules/ms/index.js", "module.exports = 1");
    stage.check(MISSING, "node.package-there-now", &["restart"]);
    stage.write("node_modules/ms/package.json", r#"{"version":"1.0.0","main":"index.js"}"#);
    stage.check(MISSING, "node.stale", &fresh);
    let undeclared = failed_command("npm run dev", "Error: Cannot find module 'left-pads'\n", 1);
    stage.check(undeclared, "node.package-undeclared", &[]);
}

#[test]
fn a_lockfile_that_disagrees_is_not_written_for_a_missing_package() {
    let stage = node();
    stage.write("package.json", &NPM.replace("2.1.3", "2.1.2"));
    stage.check(MISSING, "node.modules-missing", &[LOOSE]);
    stage.write("yarn.lock", "");
    stage.check(MISSING, "node.manager-unclear", &[]);
}

#[test]
fn the_projects_own_output_is_built_and_its_source_is_not() {
    let stage = node();
    stage.write("node_modules/ms/index.js", "1");
    let output =
        failed_command("npm start", "Error: Cannot find module 'ROOT/dist/server.js'\n", 1);
    stage.check(output, "node.build-output-missing", &["npm run build"]);
    let own = failed_command("npm start", "Error: Cannot find module 'ROOT/src/server.js'\n", 1);
    stage.check(own, "code.import", &[]);
}

#[test]
fn a_project_that_is_missing_in_its_own_environment_is_installed_there() {
    use std::os::unix::fs::PermissionsExt as _;
    let manifest = "[build-system]\nrequires = []\n[project]\nname = \"shop\"\nversion = \"1\"\n";
    let stage = Stage::new(&[
        ("pyproject.toml", manifest),
        ("requirements.txt", "pytest\n"),
        ("src/shop/__init__.py", ""),
        (".gitignore", ".venv\n"),
    ]);
    stage.write(".venv/pyvenv.cfg", "");
    stage.write(".venv/lib/python3.11/site-packages/pytest/__init__.py", "");
    stage.write(".venv/bin/python", "#!/bin/sh\necho Python 3.11.1\n");
    let python = stage.root.join(".venv/bin/python");
    std::fs::set_permissions(python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let found = |output: &str| stage.diagnose(".venv/bin/python -m pytest", output, 2);
    let own = found("E   ModuleNotFoundError: No module named 'shop'\n");
    assert_eq!(own.rule.as_deref(), Some("python.package-missing"), "{own:?}");
    assert!(own.remedies[0].remedy.text.as_str().ends_with("-r requirements.txt -e ."), "{own:?}");
    // A part of it that is not there is missing in the source, and another module is not its own.
    for other in ["shop.core", "shopping"] {
        let found = found(&format!("E   ModuleNotFoundError: No module named '{other}'\n"));
        assert_eq!(found.rule.as_deref(), Some("python.package-undeclared"), "{found:?}");
    }
}

#[test]
fn compiled_files_of_a_place_that_is_gone_are_cleared() {
    let stage = Stage::new(&[("test_cart.py", ""), (".gitignore", "__pycache__\n")]);
    let output = "import file mismatch:\nimported module 'test_cart' has this __file__ attribute:\n  \
                  /nowhere/test_cart.py\nwhich is not the same as the test file we want to collect:\n  \
                  ROOT/test_cart.py\nHINT: remove __pycache__ / .pyc files";
    stage.check(failed_command("pytest", output, 2), "check.pytest-same-name", &[]);
    stage.write("__pycache__/test_cart.cpython-311.pyc", "x");
    stage.check(failed_command("pytest", output, 2), "check.pytest-moved", &["rm -rf __pycache__"]);
}

#[test]
fn a_clean_exit_is_left_alone() {
    let found = node().diagnose(MISSING.command, MISSING.output, 0);
    assert_eq!((found.nature, found.remedies.len()), (Nature::Unknown, 0));
}

#[test]
fn what_is_tracked_or_elsewhere_is_never_moved_or_deleted() {
    let _alone = alone();
    let stage = node();
    let care = Supervisor::start(Uuid::new_v4()).unwrap();
    for path in ["package.json", "..", "", "/etc", "a/../../b", "../sibling"] {
        for step in
            [ActionStep::Clear { path: path.into() }, ActionStep::SetAside { path: path.into() }]
        {
            let action = Action { steps: vec![step] };
            let error = apply(&action, &stage.ask("x"), &care).unwrap_err();
            assert!(matches!(error, ApplyError::NotDerived { .. }), "{path}: {error:?}");
        }
    }
}

fn sh(script: &str) -> ActionStep {
    ActionStep::Run {
        argv: vec!["sh".into(), "-c".into(), script.into()],
        dir: String::new(),
        limit: std::time::Duration::from_secs(60),
        edits: Edits::Derived,
    }
}

#[test]
fn what_was_set_aside_comes_back_when_a_step_fails() {
    let _alone = alone();
    let stage = node();
    stage.write("node_modules/ms/index.js", "old");
    let care = Supervisor::start(Uuid::new_v4()).unwrap();
    let aside = ActionStep::SetAside { path: "node_modules".into() };
    let broken = Action { steps: vec![aside.clone(), sh("mkdir node_modules && exit 3")] };
    let error = apply(&broken, &stage.ask("x"), &care).unwrap_err();
    assert!(matches!(error, ApplyError::Failed { exit: ProcessExit::Code(3), .. }), "{error:?}");
    let file = stage.root.join("node_modules/ms/index.js");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    let whole = Action { steps: vec![aside, sh("mkdir -p node_modules/ms")] };
    apply(&whole, &stage.ask("x"), &care).unwrap();
    assert!(!file.exists());
    assert_eq!(std::fs::read_dir(stage.root.join(".salve/aside")).unwrap().count(), 0);
}

#[test]
fn a_command_writes_nothing_outside_where_the_kernel_sees_to_that() {
    let _alone = alone();
    let stage = node();
    let outside = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let care = Supervisor::start(Uuid::new_v4()).unwrap();
    let script = format!("echo in > inside; echo out > {}/out", outside.path().display());
    let done = apply(&Action { steps: vec![sh(&script)] }, &stage.ask("x"), &care);
    assert!(stage.root.join("inside").exists());
    assert!(!outside.path().join("out").exists() && done.is_err(), "{done:?}");
}

#[test]
fn a_pid_file_goes_only_when_its_process_is_gone() {
    let _alone = alone();
    let stage = node();
    let care = Supervisor::start(Uuid::new_v4()).unwrap();
    let mut child =
        Command::new("cat").current_dir(&stage.root).stdin(Stdio::piped()).spawn().unwrap();
    stage.write("server.pid", &child.id().to_string());
    let old =
        || Command::new("touch").args(["-d", "now"]).arg(stage.root.join("server.pid")).status();
    old().unwrap();
    let failure = failed_command("npm run dev", "Error: already running, see server.pid\n", 1);
    let held = stage.diagnose(failure.command, failure.output, failure.code);
    assert_eq!(held.rule.as_deref(), Some("pidfile.held"), "{held:?}");
    let place = stage.root.join("server.pid");
    let judged = LockHold { holders: Vec::new(), ..look::procs::hold(&stage.ask("x"), &place) };
    let unlock =
        Action { steps: vec![ActionStep::Unlock { path: "server.pid".into(), hold: judged }] };
    let error = apply(&unlock, &stage.ask("x"), &care).unwrap_err();
    assert!(matches!(error, ApplyError::Changed { .. }), "{error:?}");
    drop(child.stdin.take());
    child.wait().unwrap();
    let past = Command::new("touch").args(["-d", "1 hour ago"]).arg(&place).status().unwrap();
    assert!(past.success());
    stage.check(failure, "pidfile.stale", &["rm server.pid"]);
    let stale = stage.diagnose(failure.command, failure.output, failure.code);
    apply(&stale.remedies[0].action, &stage.ask("x"), &care).unwrap();
    assert!(!place.exists());
}

const LISTENER: &str = "import socket,time\ns=socket.socket();s.bind(('127.0.0.1',0));s.listen()\n\
                        print(s.getsockname()[1],flush=True)\ntime.sleep(600)\n";

/// Starts a listener in a session of its own, as an orphan would be; returns it and its port.
fn listener(dir: &std::path::Path, args: &[&str]) -> (Child, u16) {
    use std::io::{BufRead, BufReader};
    let mut child = Command::new("setsid")
        .arg("python3")
        .args(args)
        .current_dir(dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().parse().unwrap())
}

/// Ends a listener; what is in a session of its own may have been waited for already.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_strangers_port_is_named_and_left_alone() {
    let _alone = alone();
    let stage = node();
    let elsewhere = tempfile::tempdir().unwrap();
    let (mut child, port) = listener(elsewhere.path(), &["-c", LISTENER]);
    let output = format!("Error: listen EADDRINUSE: address already in use 127.0.0.1:{port}\n");
    let found = stage.diagnose("npm run dev", &output, 1);
    end(&mut child);
    assert_eq!(found.rule.as_deref(), Some("port.stranger"), "{found:?}");
    assert!(found.remedies.is_empty());
    let what = found.findings[0].what.as_str();
    assert!(what.contains(&child.id().to_string()) && what.contains("python3"), "{what}");
}

#[test]
fn an_orphan_of_the_project_is_ended_and_nobody_else() {
    let _alone = alone();
    let stage = node();
    stage.write("server.py", LISTENER);
    let (mut child, port) = listener(&stage.root, &["server.py"]);
    let output = format!("Error: listen EADDRINUSE: address already in use 127.0.0.1:{port}\n");
    let found = stage.diagnose("npm run dev", &output, 1);
    assert_eq!(found.rule.as_deref(), Some("port.own-orphan"), "{found:?}");
    assert_eq!(found.remedies[0].gate, Gate::Safe);
    let care = Supervisor::start(Uuid::new_v4()).unwrap();
    let stat = tree::stat(child.id()).unwrap();
    let host = salve_core::scrub::Scrubbed::literal("here");
    let holder = Process { pid: child.id(), started: stat.started + 1, host };
    let (family, right) = (vec![holder.clone()], Right::Orphan);
    let other = Action { steps: vec![ActionStep::End { holder, family, port: Some(port), right }] };
    assert!(apply(&other, &stage.ask("x"), &care).is_err());
    assert!(child.try_wait().unwrap().is_none());
    apply(&found.remedies[0].action, &stage.ask("x"), &care).unwrap();
    assert!(!tree::is_still(&stat));
    end(&mut child);
}

#[test]
fn what_only_works_in_the_projects_directory_is_no_orphan_of_it() {
    let _alone = alone();
    let stage = node();
    let (mut child, port) = listener(&stage.root, &["-c", LISTENER]);
    let output = format!("Error: listen EADDRINUSE: address already in use 127.0.0.1:{port}\n");
    let found = stage.diagnose("npm run dev", &output, 1);
    end(&mut child);
    assert_eq!(found.rule.as_deref(), Some("port.own-attended"), "{found:?}");
    assert_eq!(found.remedies[0].gate, Gate::Ask);
}

#[test]
fn a_lockfile_with_the_markers_of_a_merge_is_not_a_missing_one() {
    let ci = "npm error code EUSAGE\nnpm error The `npm ci` command can only install with an \
              existing package-lock.json or\nnpm error npm-shrinkwrap.json with lockfileVersion >= 1.";
    let stage = node();
    stage.write("package-lock.json", &format!("{{\n<<<<<<< HEAD\n{LOCK}\n=======\n>>>>>>> b\n"));
    stage.check(failed_command("npm ci", ci, 1), "node.lock-conflict", &[]);
    stage.check(MISSING, "node.lock-conflict", &[]);
    let told = stage.diagnose("npm ci", ci, 1).findings[0].what.to_string();
    assert!(told.contains("package-lock.json") && told.contains("line 2"), "{told}");
    stage.write("package-lock.json", "{\n\"name\": ");
    stage.check(failed_command("npm ci", ci, 1), "node.lock-broken", &[]);
    std::fs::remove_file(stage.root.join("package-lock.json")).unwrap();
    stage.check(("npm ci", ci, 1), "git.deleted", &[]);
    stage.git(&["add", "-A"]);
    let found = stage.diagnose("npm ci", ci, 1);
    assert_eq!(found.rule.as_deref(), Some("node.lock-missing"), "{found:?}");
}

#[test]
fn a_pid_file_of_another_program_is_stale() {
    let _alone = alone();
    let stage = node();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut other =
        Command::new("cat").current_dir(elsewhere.path()).stdin(Stdio::piped()).spawn().unwrap();
    let failure = failed_command("npm run dev", "Error: already running, see server.pid\n", 1);
    stage.write("server.pid", &other.id().to_string());
    stage.check(failure, "pidfile.reused", &["rm server.pid"]);
    // The same id in the project's own directory may be the server itself.
    let mut own =
        Command::new("cat").current_dir(&stage.root).stdin(Stdio::piped()).spawn().unwrap();
    stage.write("server.pid", &own.id().to_string());
    let found = stage.diagnose(failure.command, failure.output, failure.code);
    for child in [&mut other, &mut own] {
        end(child);
    }
    assert_eq!(found.rule.as_deref(), Some("pidfile.held"), "{found:?}");
}

#[test]
fn a_script_without_its_right_to_run_leads_to_one_file() {
    let stage = Stage::new(&[("start.sh", "#!/bin/sh\n")]);
    let output = failed_command("./start.sh", "bash: line 1: ./start.sh: Permission denied\n", 126);
    let found = stage.diagnose(output.command, output.output, output.code);
    assert_eq!(found.rule.as_deref(), Some("permission.not-executable"), "{found:?}");
    assert_eq!(found.remedies[0].gate, Gate::Ask);
    assert_eq!(found.remedies[0].remedy.text.as_str(), "chmod u+x ./start.sh");
    let next = found.findings[0].next.as_str();
    assert!(next.starts_with("chmod u+x ./start.sh;"), "{next}");
}

#[test]
fn a_file_that_git_has_and_the_failure_names_is_to_be_restored() {
    let stage = Stage::new(&[("shop/util.py", ""), ("src/main.js", ""), ("src/util.js", "")]);
    for path in ["shop/util.py", "src/util.js"] {
        std::fs::remove_file(stage.root.join(path)).unwrap();
    }
    let rows = [
        ("ModuleNotFoundError: No module named 'shop.util'", "git restore shop/util.py"),
        (
            "Error: Cannot find module './util'\nRequire stack:\n- ROOT/src/main.js\n",
            "git restore src/util.js",
        ),
    ];
    for (output, want) in rows {
        let found = stage.diagnose("run", output, 1);
        assert_eq!(found.rule.as_deref(), Some("git.deleted"), "{found:?}");
        let next = found.findings[0].next.as_str();
        assert!(next.ends_with(want), "{next}");
    }
}

#[test]
fn variables_that_are_not_set_are_told_by_the_example_and_by_the_code() {
    let missing = ("npm start", "Error: Missing required environment variable: SHOP_URL\n", 1);
    let code =
        Stage::new(&[("server.js", "const a = process.env.SHOP_URL + process.env.SHOP_KEY")]);
    let told = code.diagnose(missing.0, missing.1, missing.2).findings[0].what.to_string();
    assert!(told.ends_with("nothing sets: SHOP_KEY, SHOP_URL."), "{told}");
    code.write(".env.example", "SHOP_URL=\nSHOP_MAIL=\n");
    let told = code.diagnose(missing.0, missing.1, missing.2).findings[0].what.to_string();
    assert!(told.ends_with("Not set: SHOP_MAIL, SHOP_URL."), "{told}");
}

/// Writes an environment that calls itself Python 3.11.
fn environment(stage: &Stage) {
    use std::os::unix::fs::PermissionsExt as _;
    stage.write(".venv/pyvenv.cfg", "");
    stage.write(".venv/lib/python3.11/site-packages/six.py", "x = 1\n");
    stage.write(".venv/lib/python3.11/site-packages/six-1.16.0.dist-info/RECORD", "six.py,,\n");
    stage.write(".venv/bin/python", "#!/bin/sh\necho Python 3.11.1\n");
    let python = stage.root.join(".venv/bin/python");
    std::fs::set_permissions(python, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn versions_that_differ_from_what_is_asked_for_are_drift() {
    let stage = Stage::new(&[("requirements.txt", "six==1.17.0\n"), (".gitignore", ".venv\n")]);
    environment(&stage);
    let output = "ImportError: cannot import name 'fresh' from 'six'\n";
    let command = ".venv/bin/python app.py";
    let found = stage.diagnose(command, output, 1);
    assert_eq!(found.rule.as_deref(), Some("python.drift"), "{found:?}");
    let told = found.findings[0].what.as_str();
    assert!(told.contains("six 1.16.0 instead of 1.17.0"), "{told}");
    stage.write("requirements.txt", "six==1.16.0\n");
    let found = stage.diagnose(command, output, 1);
    assert_eq!(found.rule.as_deref(), Some("code.import"), "{found:?}");
}

#[test]
fn a_damaged_file_of_a_distribution_is_installed_again() {
    let stage = Stage::new(&[("requirements.txt", "six==1.16.0\n"), (".gitignore", ".venv\n")]);
    environment(&stage);
    let list = ".venv/lib/python3.11/site-packages/six-1.16.0.dist-info/RECORD";
    stage.write(list, "six.py,sha256=of_another_text,6\n");
    let output = "Traceback (most recent call last):\n  File \"ROOT/app.py\", line 1, in <module>\n\
                  \x20   import six\n  File \"ROOT/.venv/lib/python3.11/site-packages/six.py\", \
                  line 3\n    def (\n        ^\nSyntaxError: invalid syntax\n";
    let again = ".venv/bin/python -m pip install --no-input --disable-pip-version-check \
                 --force-reinstall --no-deps six==1.16.0";
    let found = stage.diagnose(".venv/bin/python app.py", output, 1);
    assert_eq!(found.rule.as_deref(), Some("python.distribution-damaged"), "{found:?}");
    assert_eq!(found.remedies[0].remedy.text.as_str(), again);
    // All of it gone, while what says that it is installed is still there: no installer would do
    // anything unless it is told to install it again.
    std::fs::remove_file(stage.root.join(".venv/lib/python3.11/site-packages/six.py")).unwrap();
    for output in [
        "ModuleNotFoundError: No module named 'six'\n",
        "ROOT/.venv/bin/python: No module named six\n",
    ] {
        for python in [".venv/bin/python", "./lib/../.venv/bin/python"] {
            let found = stage.diagnose(&format!("{python} -m six"), output, 1);
            assert_eq!(found.rule.as_deref(), Some("python.distribution-damaged"), "{found:?}");
            assert_eq!(found.remedies[0].remedy.text.as_str(), again);
        }
    }
}

#[test]
fn only_the_projects_own_sqlite_file_is_migrated_unasked_and_it_is_copied_first() {
    let _alone = alone();
    let settings = "DATABASES = {'default': {'NAME': BASE_DIR / 'db.sqlite3'}}\n";
    let stage = Stage::new(&[
        ("manage.py", ""),
        ("shop/settings.py", settings),
        ("requirements.txt", "django\n"),
        (".gitignore", "*.sqlite3\n.salve\n"),
    ]);
    let failure = failed_command(
        "python manage.py runserver",
        "OperationalError: no such table: shop_order\n",
        1,
    );
    let asked = stage.diagnose(failure.command, failure.output, failure.code);
    assert_eq!(asked.rule.as_deref(), Some("django.migrations"), "{asked:?}");
    assert_eq!(asked.remedies[0].gate, Gate::Ask);
    stage.write("db.sqlite3", "SQLite format 3\0old");
    let copy = "cp db.sqlite3 .salve/copies/ && python3 manage.py migrate --noinput";
    stage.check(failure, "django.migrations-local", &[copy]);
    let care = Supervisor::start(Uuid::new_v4()).unwrap();
    let copy = ActionStep::CopyAside { path: "db.sqlite3".into() };
    let broken = Action { steps: vec![copy, sh("echo half > db.sqlite3; exit 3")] };
    apply(&broken, &stage.ask("x"), &care).unwrap_err();
    let kept = std::fs::read_to_string(stage.root.join("db.sqlite3")).unwrap();
    assert_eq!(kept, "SQLite format 3\0old");
    stage.write("other/b.db", "");
    stage.write("shop/settings.py", &format!("{settings} 'b.db'"));
    let two = stage.diagnose(failure.command, failure.output, failure.code);
    assert_eq!(two.rule.as_deref(), Some("django.migrations"), "two databases: {two:?}");
}

#[test]
fn a_link_to_a_program_whose_package_is_gone_brings_none() {
    let stage = node();
    stage.write("node_modules/other/package.json", "{}");
    std::fs::create_dir_all(stage.root.join("node_modules/.bin")).unwrap();
    std::os::unix::fs::symlink("../ms/cli.js", stage.root.join("node_modules/.bin/ms")).unwrap();
    let fresh = [CI, LOOSE].map(|install| format!("rm -rf node_modules && {install}"));
    let fresh = fresh.each_ref().map(String::as_str);
    stage.check(("npm test", "sh: 1: ms: not found\n", 127), "node.program-missing", &fresh);
    stage.check(("npm test", "sh: 1: nonsuch: not found\n", 127), "program.missing", &[]);
}

#[test]
fn a_lockfile_with_markers_of_a_conflict_is_neither_followed_nor_rewritten() {
    let stage = node();
    stage.write("package-lock.json", &format!("<<<<<<< HEAD\n{LOCK}\n=======\n>>>>>>> b\n"));
    let frozen =
        "error Your lockfile needs to be updated, but yarn was run with `--frozen-lockfile`.";
    let ci = "npm error `npm ci` can only install packages when your package.json and";
    for output in [frozen, ci] {
        stage.check(("npm ci", output, 1), "node.lock-conflict", &[]);
    }
    stage.check(MISSING, "node.lock-conflict", &[]);
}

#[test]
fn damaged_build_output_is_built_again_and_damaged_source_is_not() {
    let stage = node();
    stage.write("node_modules/ms/index.js", "1");
    stage.write("dist/cli.js", "console.log(((");
    stage.write("src/cli.js", "console.log(((");
    let parse = |file: &str| format!("ROOT/{file}:2\n\n\nSyntaxError: Unexpected end of input\n");
    let (built, own) = (parse("dist/cli.js"), parse("src/cli.js"));
    stage.check(("npm start", &built, 1), "node.build-output-damaged", &["npm run build"]);
    stage.check(("npm start", &own, 1), "code.syntax", &[]);
}

#[test]
fn a_lock_of_gits_settings_is_removed_when_it_was_left_behind() {
    let stage = Stage::new(&[("a.txt", "")]);
    let output =
        ("git config a.b 1", "error: could not lock config file .git/config: File exists", 255);
    stage.check(output, "git.index-lock-gone", &["restart"]);
    stage.write(".git/config.lock", "");
    stage.check(output, "git.index-lock-young", &["restart"]);
    let lock = stage.root.join(".git/config.lock");
    let aged = Command::new("touch").args(["-d", "2 hours ago"]).arg(lock).status();
    assert!(aged.unwrap().success());
    stage.check(output, "git.index-lock-stale", &["rm .git/config.lock"]);
}

#[test]
fn a_script_that_cannot_be_run_is_told_by_what_is_wrong_with_it() {
    let stage = Stage::new(&[
        ("windows.sh", "#!/bin/sh\r\necho\r\n"),
        ("gone.sh", "#!/opt/gone/python3\n"),
        ("plain.sh", "#!/bin/sh\n"),
    ]);
    let none: &[&str] = &[];
    for (script, rule, remedies) in [
        ("windows.sh", "script.windows-lines", &["sed -i 's/\\r$//' ./windows.sh"][..]),
        ("gone.sh", "script.interpreter", none),
        ("nonsuch.sh", "program.path-missing", none),
    ] {
        let started = format!("`./{script}` cannot be run: No such file or directory (os error 2)");
        let by_shell = format!("sh: 1: ./{script}: not found");
        for output in [started, by_shell] {
            stage.check(("./run", &output, 127), rule, remedies);
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_told_with_the_directory_that_it_lacks() {
    let stage = Stage::new(&[("build.py", "")]);
    let output = "FileNotFoundError: [Errno 2] No such file or directory: 'out/x.txt'";
    stage.check(("python3 build.py", output, 1), "path.directory-missing", &["mkdir -p out"]);
    stage.write("out/y.txt", "");
    stage.check(("python3 build.py", output, 1), "path.missing", &[]);
}

#[test]
fn a_submodule_that_was_not_fetched_is_named() {
    let modules = "[submodule \"l\"]\n\tpath = vendor/lib\n\turl = ../l\n";
    let stage = Stage::new(&[(".gitmodules", modules)]);
    let output = ("make", "cc1: fatal error: vendor/lib/seven.c: No such file or directory\n", 2);
    stage.check(output, "git.submodule", &[]);
    stage.write("vendor/lib/other.c", "");
    let found = stage.diagnose(output.0, output.1, output.2);
    assert_ne!(found.rule.as_deref(), Some("git.submodule"), "{found:?}");
}
