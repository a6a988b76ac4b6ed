//! What the bare command does, `salve heal` does too.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use crate::bench::signal;
use crate::keys::Terminal;
use crate::support::{Project, dev, is_alive, wait_for};

/// Writes by turns to both outputs, from several processes.
const BY_TURNS: &str =
    "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; sh -c \"echo err $i >&2\"; done";

#[test]
fn output_and_errors_that_go_to_one_place_keep_their_order() {
    let project = Project::new();
    for mut salve in [
        project.command(&["heal", "--quiet", "--", "sh", "-c", BY_TURNS]),
        dev(&project, &["--quiet", "--", "sh", "-c", BY_TURNS]),
    ] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        salve.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut child = salve.spawn().unwrap();
        drop(salve);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("salve")).collect();
        let want: Vec<String> =
            (1..10).flat_map(|i| [format!("out {i}"), format!("err {i}")]).collect();
        assert_eq!(lines, want);
    }
}

#[test]
fn a_command_line_is_passed_on_as_it_was_typed() {
    let odd = OsStr::from_bytes(b"caf\xe9 \xff");
    for command in ["heal", "dev", "call"] {
        let project = Project::new();
        let script = "printf %s \"$1\" > got";
        let mut salve = project.command(&[command, "--", "sh", "-c", script, "sh"]);
        let ran = salve.arg(odd).stdin(Stdio::null()).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        let got = std::fs::read(project.dir().join("got")).unwrap();
        assert_eq!(got, odd.as_bytes(), "{command}");
    }
}

#[test]
fn what_outlives_its_terminal_without_salve_does_with_it() {
    for command in ["heal", "dev", "call"] {
        let project = Project::new();
        project.write("run.sh", "touch up; while [ ! -e go ]; do sleep 0.05; done; touch done\n");
        let salve = project.command(&[command, "--", "sh", "run.sh"]);
        let mut nohup = Command::new("sh");
        nohup.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(salve.get_program());
        nohup.args(salve.get_args()).current_dir(project.dir()).env_clear();
        nohup.envs(salve.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let nohup = nohup.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut salve = nohup.spawn().unwrap();
        wait_for("what it runs", || project.dir().join("up").exists());
        signal("HUP", salve.id());
        project.write("go", "");
        assert_eq!(salve.wait().unwrap().code(), Some(0), "{command}");
        assert!(project.dir().join("done").exists(), "{command}");
    }
}

fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[test]
fn ctrl_z_stops_what_runs_with_salve_and_fg_goes_on() {
    for command in ["heal", "dev"] {
        let project = Project::new();
        let check = "echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done; touch done\n";
        project.write("check.sh", check);
        let salve = project.command(&[command, "--", "sh", "check.sh"]);
        // A shell that controls jobs.
        let mut shell = Command::new("bash");
        shell.args(["--norc", "--noprofile", "-i"]).current_dir(project.dir()).env_clear();
        shell.envs(salve.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut terminal = Terminal::of(shell);
        let words: Vec<_> = std::iter::once(salve.get_program()).chain(salve.get_args()).collect();
        let line = words.join(OsStr::new(" "));
        terminal.press(&format!("{}\n", line.to_string_lossy()));
        let pid = || std::fs::read_to_string(project.dir().join("pid")).unwrap_or_default();
        wait_for("what it runs", || pid().trim().parse::<u32>().is_ok());
        let pid: u32 = pid().trim().parse().unwrap();
        terminal.press("\x1a");
        terminal.until("Stopped");
        wait_for("it stands still", || state_of(pid) == Some('T'));
        terminal.press("fg\n");
        wait_for("it goes on", || state_of(pid).is_some_and(|state| state != 'T'));
        project.write("go", "");
        wait_for("its end", || project.dir().join("done").exists() && !is_alive(pid));
        terminal.press("exit\n");
    }
}

#[test]
fn a_check_that_takes_too_long_is_told_its_limit_and_not_run_again_for_that() {
    let project = Project::new();
    project.write("salve.toml", "[checks.slow]\ncommand = \"sh slow.sh\"\ntimeout_ms = 400\n");
    project.write("slow.sh", "echo x >> runs; exec sleep 300\n");
    let ran = project.run(&["heal", "slow"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(3), "{said}");
    assert!(said.contains("after 0.4 s"), "{said}");
    assert!(said.contains("checks.slow.timeout_ms"), "{said}");
    assert_eq!(std::fs::read_to_string(project.dir().join("runs")).unwrap(), "x\n", "{said}");
}

#[test]
fn a_file_gets_no_colours_because_salve_sets_ci() {
    for (said, want) in [(None, "1"), (Some("FORCE_COLOR"), "none"), (Some("CI"), "none")] {
        let project = Project::new();
        let mut salve =
            project.command(&["heal", "--", "sh", "-c", "printf %s ${NO_COLOR-none} > got"]);
        salve.env_remove("NO_COLOR").envs(said.map(|name| (name, "1")));
        let ran = salve.stdin(Stdio::null()).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        let got = std::fs::read_to_string(project.dir().join("got")).unwrap();
        assert_eq!(got, want, "{said:?}");
    }
}
