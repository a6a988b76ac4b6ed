//! Real processes, started, ended and outlived.

use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use salve_core::event::ProcessExit;
use salve_core::scrub::ScrubKey;
use uuid::Uuid;

use super::*;

/// Longer than anything here takes, on however busy a machine.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_process_is_gone_when_it_ended_or_its_pid_is_anothers() {
    let _alone = alone();
    let scrubber = Scrubber::new(ScrubKey::new([1; 32]));
    let me = this(&scrubber);
    assert!(!is_gone(&me, &scrubber));
    assert!(is_gone(&Process { started: me.started + 1, ..me.clone() }, &scrubber));
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let started = tree::stat(child.id()).unwrap().started;
    let process = Process { pid: child.id(), started, ..me.clone() };
    assert!(!is_gone(&process, &scrubber));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(is_gone(&process, &scrubber));
}

/// Lets one test of processes run at a time: orphans fall to the process, not to a test.
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    lock(&ONE)
}

/// A server under test.
struct Server {
    care: Supervisor,
    spec: Spec,
}

impl Server {
    fn new(argv: &[&str], dir: &Path) -> Server {
        let output = Arc::new(Capture::new(Arc::new(Outlet::none()), OutputStyle::Plain));
        Server {
            care: Supervisor::start(Uuid::new_v4()).unwrap(),
            spec: Spec {
                argv: argv.iter().map(OsString::from).collect(),
                dir: dir.to_owned(),
                env: Vec::new(),
                server: "web".to_owned(),
                terminal: Terminal::Pipes,
                output,
            },
        }
    }

    fn shell(script: &str, dir: &Path) -> Server {
        Server::new(&["sh", "-c", script], dir)
    }

    fn start(&self) -> (Running, Receiver<ProcessEnd>) {
        let (tell, told) = mpsc::channel();
        // A test that is over no longer listens, and the reaper is everyone's.
        let then = Box::new(move |ended| drop(tell.send(ended)));
        (self.care.spawn(&self.spec, then).unwrap(), told)
    }

    /// Waits until the server has written `text`.
    #[track_caller]
    fn wait_for(&self, text: &str) {
        wait_until(|| self.spec.output.tail().contains(text));
    }
}

/// Waits until `is_so`, looking now and then.
#[track_caller]
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "it did not come to pass");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the number a process wrote to `path` in `dir`.
fn number(dir: &Path, path: &str) -> u32 {
    let mut number = None;
    wait_until(|| {
        let text = fs::read_to_string(dir.join(path)).unwrap_or_default();
        number = text.strip_suffix('\n').and_then(|text| text.trim().parse().ok());
        number.is_some()
    });
    number.unwrap()
}

fn is_alive(pid: u32) -> bool {
    tree::stat(pid).is_some_and(|stat| !stat.is_dead)
}

#[test]
fn how_it_ended_and_its_last_words_are_handed_out() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    for (script, exit) in [
        ("echo out; echo err >&2; printf last; exit 3", ProcessExit::Code(3)),
        ("echo out; echo err >&2; printf last; kill -SEGV $$", ProcessExit::Signal(11)),
    ] {
        let server = Server::shell(script, home.path());
        let (running, told) = server.start();
        let ended = told.recv_timeout(LONG).unwrap();
        assert_eq!(ended.exit, exit);
        assert_eq!(running.ended(), Some(ended));
        let tail = server.spec.output.tail();
        for word in ["out\n", "err\n", "last"] {
            assert!(tail.contains(word), "{tail}");
        }
        assert_eq!(server.care.end(&running, LONG), EndReport::default());
    }
}

#[test]
fn a_server_leads_a_session_and_carries_its_marks() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    // While a process becomes another program, the kernel shows nothing of its environment.
    let server = Server::shell("echo ready; sleep 600 & wait", home.path());
    let (running, _told) = server.start();
    server.wait_for("ready");
    let stat = tree::stat(running.process().pid).unwrap();
    assert_eq!((stat.session, stat.group), (stat.pid, stat.pid));
    assert_eq!(tree::variable(stat.pid, tree::SERVER_MARK).unwrap(), b"web");
    assert_eq!(tree::cwd(stat.pid).unwrap(), home.path().canonicalize().unwrap());
    server.care.end(&running, LONG);
    assert!(!is_alive(stat.pid));
}

#[test]
fn what_cannot_be_started_says_why() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("plain");
    fs::write(&file, "no program").unwrap();
    let spawn = |argv: &[&str], dir: &Path| {
        let server = Server::new(argv, dir);
        server.care.spawn(&server.spec, Box::new(|_| {})).unwrap_err()
    };
    assert!(matches!(spawn(&[], home.path()), SpawnError::Empty));
    let error = spawn(&["no-such-program"], home.path());
    assert_eq!(error.to_string(), "`no-such-program` was not found");
    let error = spawn(&["./plain"], home.path());
    assert!(matches!(error, SpawnError::NotExecutable { .. }), "{error:?}");
    let gone = home.path().join("gone");
    let error = spawn(&["true"], &gone);
    assert!(matches!(error, SpawnError::Directory { .. }), "{error:?}");
}

#[test]
fn a_grandchild_that_left_everything_is_ended() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    // Two forks, a session of its own, an empty environment, deaf to TERM, holding our pipes.
    let script = "(setsid env -i /bin/sh -c 'trap \"\" TERM; (trap \"\" TERM; \
        echo $$ > pid; while :; do sleep 600; done) & wait' &) ; echo ready; exec sleep 600";
    let server = Server::shell(script, home.path());
    let (running, _told) = server.start();
    server.wait_for("ready");
    let stray = number(home.path(), "pid");
    let report = server.care.end(&running, Duration::from_millis(200));
    assert!(report.killed > 0, "{report:?}");
    assert_eq!(report.left, []);
    assert!(!is_alive(stray));
    assert_eq!(server.care.leftovers(&running), []);
}

#[test]
fn what_a_crashed_server_leaves_is_found_and_ended() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let script = "setsid env -i sh -c 'echo $$ > pid; exec sleep 600' & \
        while ! [ -s pid ]; do :; done; exit 1";
    let server = Server::shell(script, home.path());
    let (running, told) = server.start();
    assert_eq!(told.recv_timeout(LONG).unwrap().exit, ProcessExit::Code(1));
    let stray = number(home.path(), "pid");
    // It writes its number before it becomes the program it is then known by.
    let mut found = Vec::new();
    wait_until(|| {
        found = server.care.leftovers(&running);
        found.iter().all(|process| process.command == "sleep 600")
    });
    assert_eq!(found.iter().map(|it| it.process.pid).collect::<Vec<_>>(), [stray]);
    let report = server.care.end(&running, LONG);
    assert_eq!((report.asked, report.killed), (1, 0));
    assert!(!is_alive(stray));
}

#[test]
fn of_two_servers_only_the_ended_ones_grandchild_goes() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let script = |name| {
        format!("(setsid env -i sh -c 'echo $$ > {name}; exec sleep 600' &); exec sleep 600")
    };
    let web = Server::shell(&script("web"), home.path());
    let mut api = Server::shell(&script("api"), home.path());
    api.care = web.care.clone();
    api.spec.server = "api".to_owned();
    let (web_runs, _told) = web.start();
    let (api_runs, _told_too) = api.start();
    let (of_web, of_api) = (number(home.path(), "web"), number(home.path(), "api"));
    web.care.end(&web_runs, LONG);
    assert!(!is_alive(of_web) && is_alive(of_api));
    assert!(api_runs.ended().is_none());
    api.care.end(&api_runs, LONG);
    assert!(!is_alive(of_api));
}

#[test]
fn a_server_that_goes_on_forking_ends() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    // Each generation leaves the session and starts the next one; none hears TERM. There is a last
    // one, in case nobody ends them.
    fs::write(
        home.path().join("chain"),
        "trap '' TERM; [ $1 -gt 0 ] && { setsid sh ./chain $(($1 - 1)) & }; exec sleep 60",
    )
    .unwrap();
    let server = Server::new(&["sh", "./chain", "150"], home.path());
    let (running, _told) = server.start();
    wait_until(|| server.care.leftovers(&running).len() > 20);
    let report = server.care.end(&running, Duration::from_millis(1));
    assert_eq!(report.left, []);
    assert_eq!(server.care.leftovers(&running), []);
}

#[test]
fn children_of_others_are_left_to_them() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let server = Server::shell("exec sleep 600", home.path());
    let (running, _told) = server.start();
    let mut bystander = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    server.care.end(&running, LONG);
    assert!(is_alive(bystander.id()));
    drop(bystander.stdin.take());
    assert!(bystander.wait().unwrap().success());
}

#[test]
fn a_command_is_bounded_and_leaves_nothing() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let quick = Server::shell("cat; echo done; sleep 600 & echo $! > pid; exit 4", home.path());
    let end = run_command(&quick.care, &quick.spec, LONG).unwrap();
    assert_eq!((end.exit, &*end.output), (ProcessExit::Code(4), "done\n"));
    assert!(!is_alive(number(home.path(), "pid")));
    let slow = Server::shell("echo begun; sleep 600", home.path());
    let end = run_command(&slow.care, &slow.spec, Duration::from_secs(3)).unwrap();
    assert_eq!((end.exit, &*end.output), (ProcessExit::TimedOut, "begun\n"));
}

#[test]
fn a_terminal_has_our_size_and_takes_our_keys() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let script = "trap 'stty size' WINCH; stty size; read line; echo got $line; \
                  while :; do sleep 0.05; done";
    let mut server = Server::shell(script, home.path());
    server.spec.terminal = Terminal::Pty { rows: 30, cols: 90 };
    let (running, _told) = server.start();
    server.wait_for("30 90");
    running.type_in(b"keys\r");
    server.wait_for("got keys");
    running.resize(50, 120);
    server.wait_for("50 120");
    server.care.end(&running, Duration::ZERO);
}

#[test]
fn keys_are_heard_by_who_reads_them_and_the_output_stays_on_pipes() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let script = "test -t 0 && test ! -t 1 && echo ready; read line; echo got $line; \
                  while :; do sleep 0.05; done";
    let mut server = Server::shell(script, home.path());
    server.spec.terminal = Terminal::Keyboard { rows: 30, cols: 90 };
    let (running, _told) = server.start();
    server.wait_for("ready");
    let main = running.process().pid;
    let hears = || running.hears_keys(&[main]);
    while !hears() {
        std::thread::yield_now();
    }
    assert!(is_debugged(main, main), "it may be a debugger's prompt");
    running.type_in(b"keys\n");
    server.wait_for("got keys");
    assert!(!hears() && !is_debugged(main, main), "it reads no more");
    server.care.end(&running, Duration::ZERO);
}

#[test]
fn a_signal_reaches_the_main_process() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let script = "trap 'echo heard' USR2; echo ready; while :; do sleep 0.05; done";
    let server = Server::shell(script, home.path());
    let (running, _told) = server.start();
    server.wait_for("ready");
    running.signal(signal_hook::consts::SIGUSR2);
    server.wait_for("heard");
    server.care.end(&running, Duration::ZERO);
}

/// **Invariant:** What a command wrote last is passed on.
#[test]
fn what_a_process_wrote_last_is_waited_for() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    for end in [reader.as_fd(), writer.as_fd()] {
        rustix::io::ioctl_fionbio(end, true).unwrap();
    }
    // A reader that does not read.
    while rustix::io::write(&writer, &[b'.'; 4096]).is_ok() {}
    let mut server = Server::shell("echo the last words", dir.path());
    let outlet = Arc::new(Outlet::new(Some(writer.into()), None));
    server.spec.output = Arc::new(Capture::new(outlet, OutputStyle::Plain));
    let running = server.care.spawn(&server.spec, Box::new(|_| {})).unwrap();
    running.wait(LONG).unwrap();
    server.care.end(&running, Duration::ZERO);
    assert!(!running.wait_for_output(Duration::ZERO), "nobody has read it yet");
    let mut read = Vec::new();
    let mut drain = || {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = rustix::io::read(&reader, &mut chunk) {
            read.extend_from_slice(&chunk[..count]);
        }
    };
    drain();
    assert!(running.wait_for_output(LONG));
    drain();
    assert!(read.ends_with(b"the last words\n"));
    // Whoever still holds the process does not hold its output open.
    drop(server);
    rustix::io::ioctl_fionbio(&reader, false).unwrap();
    assert_eq!(rustix::io::read(&reader, &mut [0; 64]), Ok(0));
    drop(running);
}

const SPINNER: &str = "SALVE_TEST_SPINNER";

/// A worker that does not listen; a process of its own for the test below.
#[test]
#[ignore = "started by another test"]
#[expect(clippy::zombie_processes, reason = "whoever ends the worker ends its child too")]
fn spinner() {
    if std::env::var_os(SPINNER).is_none() {
        return;
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    keeper::end_with_keeper(Duration::from_millis(10)).unwrap();
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    fs::write(std::env::var_os(SPINNER).unwrap(), format!("{} {}", std::process::id(), child.id()))
        .unwrap();
    loop {
        std::hint::spin_loop();
    }
}

/// **Invariant:** A worker that hangs or spins ends with its keeper.
#[test]
fn a_worker_that_hangs_or_spins_ends_with_its_keeper() {
    let _alone = alone();
    for stop in ["", "STOP"] {
        let dir = tempfile::tempdir().unwrap();
        let said = dir.path().join("pids");
        // The shell stands for the keeper.
        let script = "\"$0\" --exact process::tests::spinner --ignored --nocapture & wait";
        let mut keeper = Command::new("sh")
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .env(SPINNER, &said)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pids = || -> Vec<u32> {
            let text = fs::read_to_string(&said).unwrap_or_default();
            text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
        };
        let since = Instant::now();
        while pids().len() < 2 {
            assert!(since.elapsed() < LONG, "the worker did not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        let pids = pids();
        if !stop.is_empty() {
            let args = [format!("-{stop}"), pids[0].to_string()];
            assert!(Command::new("kill").args(args).status().unwrap().success());
        }
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        let is_left = |pid: &u32| tree::stat(*pid).is_some_and(|stat| !stat.is_dead);
        while pids.iter().any(is_left) {
            assert!(since.elapsed() < LONG, "{stop}: something is left of {pids:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
