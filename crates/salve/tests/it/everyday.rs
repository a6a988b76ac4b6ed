//! The ordinary day: slips of the hand, lists of servers, words for people.

use std::process::Stdio;

use crate::support::{Project, dev, wait_for};

fn stdout(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_command_that_cannot_be_started_is_an_error_and_no_incident() {
    let project = Project::new();
    for command in ["dev", "heal"] {
        let output = project.run(&[command, "--", "no-such-program-anywhere"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("cannot start `no-such-program-anywhere`"), "{said}");
    }
    assert!(stdout(&project.run(&["incidents"])).is_empty());
    let slip = project.run(&["heal", "--", "shh", "-c", "true"]);
    assert!(String::from_utf8_lossy(&slip.stderr).contains("did you mean `sh`?"), "{slip:?}");
    let other = project.run(&["sh", "-c", "true"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("salve dev -- sh"), "{other:?}");
}

#[test]
fn a_check_is_told_that_nobody_answers_it_unless_the_user_says_otherwise() {
    let project = Project::new();
    let script = "test \"$CI\" = 1 && ! read line";
    let mut command = project.command(&["heal", "--", "sh", "-c", script]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    project.write("salve.toml", "[checks.a]\ncommand = \"test $CI = no\"\nenv = { CI = \"no\" }\n");
    let output = project.run(&["heal"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn every_question_is_answered_no_at_once_and_events_speak_to_people() {
    let project = Project::new();
    for name in ["one", "two"] {
        let output = project.run(&["heal", "--", "sh", "-c", &format!("echo {name} >&2; exit 1")]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
    let said = stdout(&project.run(&["events"]));
    assert!(said.contains("chose `run it again`"), "{said}");
    assert!(!said.contains("policy."), "{said}");
    let refused = project.run(&["refill", "--attempts", "1"]);
    assert_eq!(refused.status.code(), Some(2), "two fit: {refused:?}");
    let output = project.run(&["reject", "--all"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let none = project.run(&["approve"]);
    assert!(
        String::from_utf8_lossy(&none.stderr).contains("no incident asks anything"),
        "{none:?}"
    );
}

#[test]
fn servers_are_listed_with_all_that_is_known_and_their_logs_are_plain_in_a_pipe() {
    let project = Project::new();
    let script = "printf '\\033[31mred\\033[0m\\n'; sleep 600";
    let mut command = dev(&project, &["--", "sh", "-c", script]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("a list with the server", || stdout(&project.run(&["ps"])).contains("pid "));
    let all = stdout(&project.run(&["ps", "--all"]));
    let root = project.dir().canonicalize().unwrap();
    assert!(all.contains(root.to_str().unwrap()), "{all}");
    let json: serde_json::Value =
        serde_json::from_slice(&project.run(&["--json", "ps"]).stdout).unwrap();
    assert_eq!(json["servers"][0]["name"], "dev");
    assert_eq!(json["servers"][0]["restarts"], 0);
    let status = stdout(&project.run(&["status"]));
    assert!(status.contains("servers") && status.contains("pid "), "{status}");
    wait_for("a log", || stdout(&project.run(&["logs"])).contains("red"));
    let log = stdout(&project.run(&["logs"]));
    assert!(log.ends_with("\nred\n") && !log.contains('\x1b'), "{log:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_status_tells_jobs_that_are_not_over_and_what_nobody_works_on() {
    let project = Project::new();
    project.write("job.toml", "[[steps]]\nid = \"one\"\ncommand = \"true\"\n");
    let submitted = project.run(&["submit", "job.toml"]);
    assert_eq!(submitted.status.code(), Some(0), "{submitted:?}");
    let told = stdout(&project.run(&["status"]));
    assert!(told.contains("jobs") && told.contains("queued 0/1; salve worker"), "{told}");
    assert_eq!(
        project.run(&["heal", "--", "sh", "-c", "echo x >&2; exit 1"]).status.code(),
        Some(3)
    );
    let asks = project.run(&["status"]);
    assert!(
        stdout(&asks).contains("needs you") && stdout(&asks).contains("salve show "),
        "{asks:?}"
    );
    let said = project.run(&["approve"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("when you run `salve heal` again"), "{said}");
    let told = stdout(&project.run(&["status"]));
    assert!(told.contains("nobody works on it; salve heal goes on with it"), "{told}");
    let done = project.run(&["worker", "--until-empty"]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let told = stdout(&project.run(&["status"]));
    assert!(!told.contains("jobs"), "it is over: {told}");
}

#[test]
fn a_project_that_cannot_be_read_does_not_hide_the_others() {
    let (project, broken) = (Project::new(), Project::new());
    let of_broken = |name: &str| broken.dir().join(".salve").join(name);
    std::fs::create_dir(broken.dir().join(".salve")).unwrap();
    std::fs::create_dir(of_broken("salve.db")).unwrap();
    let marked = std::process::Command::new("sleep")
        .arg("600")
        .env("SALVE_RUN", "00000000-0000-4000-8000-000000000000")
        .current_dir(broken.dir())
        .spawn();
    let mut marked = marked.unwrap();
    let mut command = dev(&project, &["--", "sleep", "600"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("a list with the server", || stdout(&project.run(&["ps"])).contains("pid "));
    let all = project.run(&["ps", "--all"]);
    for one in [&mut marked, &mut child] {
        one.kill().unwrap();
        one.wait().unwrap();
    }
    let root = project.dir().canonicalize().unwrap();
    assert!(stdout(&all).contains(root.to_str().unwrap()), "{all:?}");
    let said = String::from_utf8_lossy(&all.stderr).into_owned();
    let root = broken.dir().canonicalize().unwrap();
    assert!(said.contains(root.to_str().unwrap()), "{said}");
}

#[test]
fn a_damaged_file_of_an_installed_distribution_is_installed_again() {
    let project = Project::new();
    let run = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        command.args(args).current_dir(project.dir()).output()
    };
    let made = run("python3", &["-m", "venv", ".venv"]).is_ok_and(|made| made.status.success());
    let pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "six==1.17.0"];
    let python = project.dir().join(".venv/bin/python");
    let python = python.to_str().unwrap();
    if !made || !run(python, &pip).is_ok_and(|done| done.status.success()) {
        println!("skipped: no distribution can be installed here");
        return;
    }
    project.write("requirements.txt", "six==1.17.0\n");
    project.write("app.py", "import six\nprint(six.PY3)\n");
    assert!(run("git", &["init", "-q"]).is_ok());
    project.write(".gitignore", ".venv\n.salve\n__pycache__\n");
    let lib = std::fs::read_dir(project.dir().join(".venv/lib")).unwrap().next().unwrap().unwrap();
    let damaged = lib.path().join("site-packages/six.py");
    std::fs::write(&damaged, "def (:\n").unwrap();
    let output = project.run(&["heal", "--", ".venv/bin/python", "app.py"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("python.distribution-damaged"), "{said}");
    assert!(!said.contains("does not parse"), "{said}");
    // The package is fetched again by the remedy itself, which has the caches of this home only.
    if output.status.code() == Some(0) {
        assert!(std::fs::read_to_string(&damaged).unwrap().contains("__version__"));
    }
}

#[test]
fn where_nothing_can_be_kept_a_check_runs_as_it_would_without_salve() {
    let project = Project::new();
    // Nobody can make a directory there.
    let heal = |script: &str| {
        let mut command = project.command(&["heal", "--", "sh", "-c", script]);
        command.current_dir("/sys/kernel").stdin(Stdio::null()).output().unwrap()
    };
    let green = heal("echo it ran");
    let said = String::from_utf8_lossy(&green.stderr).into_owned();
    assert_eq!(green.status.code(), Some(0), "{said}");
    assert!(stdout(&green).contains("it ran"), "{said}");
    assert!(said.contains("nothing is healed"), "{said}");
    assert_eq!(heal("exit 7").status.code(), Some(7));
}

#[test]
fn output_that_finds_no_place_is_told_and_not_green() {
    let project = Project::new();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let script = "echo one; echo two; echo more >&2; touch done.txt";
    let mut command = project.command(&["heal", "--", "sh", "-c", script]);
    let output = command.stdin(Stdio::null()).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let told = "cannot write to standard output: No space left on device";
    assert_eq!(said.matches(told).count(), 1, "{said}");
    assert!(said.contains("more\n"), "{said}");
    assert!(project.dir().join("done.txt").exists(), "the command itself goes on");

    let (reader, gone) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = project.command(&["heal", "--", "sh", "-c", "echo one"]);
    let output = command.stdin(Stdio::null()).stdout(gone).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "its reader wanted no more: {output:?}");
}

#[test]
fn a_check_reads_its_input_in_every_run_and_no_more_of_it_than_the_bare_command() {
    let project = Project::new();
    let red = project.run_with_input(&["heal", "--", "grep", "-q", "needle"], b"hay\n");
    assert_eq!(red.status.code(), Some(3), "{red:?}");
    // The first run fails of what may pass, so it runs once more, and reads the same again.
    let script = "cat >> read.txt; test -e again && exit 0; touch again; \
        echo 'connect ETIMEDOUT 127.0.0.1:9' >&2; exit 1";
    let input = "a line of many\n".repeat(20_000);
    let read = || std::fs::read_to_string(project.dir().join("read.txt")).unwrap();
    let healed = project.run_with_input(&["heal", "--", "sh", "-c", script], input.as_bytes());
    assert_eq!(healed.status.code(), Some(0), "{healed:?}");
    assert!(read() == input.repeat(2), "{} of {} bytes", read().len(), 2 * input.len());
    for name in ["again", "read.txt"] {
        std::fs::remove_file(project.dir().join(name)).unwrap();
    }
    project.write("input.txt", &input);
    let file = std::fs::File::open(project.dir().join("input.txt")).unwrap();
    let mut command = project.command(&["heal", "--", "sh", "-c", script]);
    let healed = command.stdin(file).output().unwrap();
    assert_eq!(healed.status.code(), Some(0), "{healed:?}");
    assert!(read() == input.repeat(2), "{} of {} bytes", read().len(), 2 * input.len());
}

#[test]
fn what_a_check_leaves_of_its_input_is_left_and_an_open_pipe_holds_nothing_up() {
    use std::io::{Read as _, Write as _};
    let project = Project::new();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"one\ntwo\n").unwrap();
    // The writer stays open: nothing ends that pipe while the check runs.
    for script in ["true", "read line && test $line = one"] {
        let mut command = project.command(&["heal", "--", "sh", "-c", script]);
        let output = command.stdin(reader.try_clone().unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    drop(writer);
    let mut left = String::new();
    reader.read_to_string(&mut left).unwrap();
    assert_eq!(left, "two\n");
}

#[test]
fn a_red_check_that_read_too_much_to_keep_is_not_run_again() {
    let project = Project::new();
    let script = "wc -c >> runs.txt; echo 'connect ETIMEDOUT 127.0.0.1:9' >&2; exit 1";
    let input = vec![b'x'; 3 << 20];
    let output = project.run_with_input(&["heal", "--", "sh", "-c", script], &input);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("not run again"), "{output:?}");
    let runs = std::fs::read_to_string(project.dir().join("runs.txt")).unwrap();
    assert_eq!(runs.trim(), input.len().to_string());
}
