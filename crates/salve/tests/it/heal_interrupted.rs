//! What runs when Salve is ended gets the signal, as it would without Salve.

use std::fs::{File, read_to_string};
use std::process::{Child, Command, Stdio};

use crate::bench::signal;
use crate::support::{Project, dev, is_alive, wait_for};

/// Starts a check without a terminal, and returns Salve when the check runs.
fn start(project: &Project, command: &[&str]) -> Child {
    begin(project, project.command(&[&["heal", "--"], command].concat()))
}

/// Starts a server without a terminal, and returns Salve when the server runs.
fn serve(project: &Project, command: &[&str], env: &[(&str, &str)]) -> Child {
    let mut salve = dev(project, &[&["--"], command].concat());
    salve.envs(env.iter().copied());
    begin(project, salve)
}

fn begin(project: &Project, mut salve: Command) -> Child {
    let said = File::create(project.home().join("said.log")).unwrap();
    let salve = salve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().unwrap();
    wait_for("what it runs", || project.dir().join("up").exists());
    salve
}

fn said(project: &Project) -> String {
    read_to_string(project.home().join("said.log")).unwrap()
}

/// Says which signals it got; tidies up for longer than Salve waits for what it ends itself.
const TIDIES: &str = "tidy() { echo $1 >> heard; sleep 3; touch cleaned; exit 7; }\n\
    trap 'tidy INT' INT; trap 'tidy TERM' TERM; trap 'tidy HUP' HUP; trap 'tidy QUIT' QUIT\n\
    touch up; while :; do sleep 0.05; done\n";

/// Tells whether these tests run under `nohup`: then Salve ignores the end of a terminal, too.
fn is_under_nohup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1
}

#[test]
fn a_check_gets_the_signal_that_ends_salve_once_and_tidies_up() {
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)] {
        if name == "HUP" && is_under_nohup() {
            continue;
        }
        let project = Project::new();
        project.write("check.sh", TIDIES);
        let mut salve = start(&project, &["sh", "check.sh"]);
        signal(name, salve.id());
        assert_eq!(salve.wait().unwrap().code(), Some(code), "{name}");
        assert!(project.dir().join("cleaned").exists(), "{name}");
        assert_eq!(read_to_string(project.dir().join("heard")).unwrap(), format!("{name}\n"));
        let said = said(&project);
        assert_eq!(said.matches("still tidies up").count(), 1, "{said}");
    }
}

/// Ends at once by Ctrl-C, unlike what it has started.
const STARTER: &str = "import signal, subprocess\n\
    signal.signal(signal.SIGINT, signal.SIG_DFL)\n\
    subprocess.Popen(['sh', 'tidies.sh']).wait()\n";

#[test]
fn what_a_check_started_may_tidy_up_although_the_check_has_ended() {
    let project = Project::new();
    project.write("tidies.sh", TIDIES);
    project.write("check.py", STARTER);
    let mut salve = start(&project, &["python3", "check.py"]);
    signal("INT", salve.id());
    assert_eq!(salve.wait().unwrap().code(), Some(130));
    assert!(project.dir().join("cleaned").exists());
    assert_eq!(read_to_string(project.dir().join("heard")).unwrap(), "INT\n");
}

#[test]
fn a_check_that_never_ends_by_a_signal_is_ended_where_nobody_can_send_another() {
    let project = Project::new();
    project.write("check.sh", "trap '' INT TERM; echo $$ > pid; touch up; exec sleep 300\n");
    let mut salve = start(&project, &["sh", "check.sh"]);
    signal("INT", salve.id());
    assert_eq!(salve.wait().unwrap().code(), Some(130));
    let pid = read_to_string(project.dir().join("pid")).unwrap();
    assert!(!is_alive(pid.trim().parse().unwrap()));
}

#[test]
fn a_server_gets_the_signal_that_ends_salve_once_and_tidies_up() {
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        if name == "HUP" && is_under_nohup() {
            continue;
        }
        let project = Project::new();
        project.write("server.sh", TIDIES);
        let longer = [("SALVE_SERVER_STOP_GRACE_MS", "60000")];
        let mut salve = serve(&project, &["sh", "server.sh"], &longer);
        signal(name, salve.id());
        assert_eq!(salve.wait().unwrap().code(), Some(code), "{name}");
        assert!(project.dir().join("cleaned").exists(), "{name}");
        assert_eq!(read_to_string(project.dir().join("heard")).unwrap(), format!("{name}\n"));
        let said = said(&project);
        assert_eq!(said.matches("still tidies up").count(), 1, "{said}");
        assert!(!said.contains("by force"), "{said}");
    }
}

#[test]
fn a_server_that_does_not_end_in_time_is_ended_by_force_and_that_is_said() {
    for is_ordered in [false, true] {
        let project = Project::new();
        let script = "trap '' INT TERM; echo $$ > pid; touch up; exec sleep 300\n";
        project.write("server.sh", script);
        let grace = [("SALVE_SERVER_STOP_GRACE_MS", "200")];
        let mut salve = serve(&project, &["sh", "server.sh"], &grace);
        if is_ordered {
            assert!(project.run(&["stop", "dev"]).status.success());
        } else {
            signal("INT", salve.id());
        }
        wait_for("its end", || said(&project).contains("was ended by force"));
        let pid = read_to_string(project.dir().join("pid")).unwrap();
        wait_for("the server's end", || !is_alive(pid.trim().parse().unwrap()));
        signal("INT", salve.id());
        assert_eq!(salve.wait().unwrap().code(), Some(130), "{}", said(&project));
        assert!(said(&project).contains("server.stop_grace_ms"));
    }
}
