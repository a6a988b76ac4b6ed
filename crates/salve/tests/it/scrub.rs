//! A user pipes text with secrets through `salve scrub`.

use std::io::{Read, Write};
use std::process::Stdio;

use crate::support::Project;

/// A token put together so that none stands here.
fn token() -> String {
    format!("gh{}_{}", "p", "a1B2c3D4e5F6".repeat(3))
}

/// **Invariant:** One secret has one mark for its user, and another for others.
#[test]
fn one_secret_has_one_marker_for_the_user_and_another_for_others() {
    let (me, other) = (Project::new(), Project::new());
    let text = format!("push with {}\nand with {}\n", token(), token());
    let scrub = |project: &Project| {
        let output = project.run_with_input(&["scrub"], text.as_bytes());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let first = scrub(&me);
    let markers: Vec<_> = first.lines().map(|line| &line[line.find('[').unwrap()..]).collect();
    assert!(first.starts_with("push with [secret:github-token:"), "{first}");
    assert_eq!(markers[0], markers[1]);
    assert_eq!(first, scrub(&me));
    assert_ne!(first, scrub(&other));
}

#[test]
fn secrets_of_the_environment_and_own_patterns_go_too() {
    let project = Project::new();
    project.write(
        "salve.toml",
        "[[scrub.patterns]]\nkind = \"badge\"\nregex = \"badge ([A-Z]{2}[0-9]{6})\"\n",
    );
    let mut command = project.command(&["scrub"]);
    command.env("SHOP_PASSWORD", "pl4in:sight").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let input = b"login pl4in:sight, cGw0aW46c2lnaHQ=, badge AB123456\n";
    child.stdin.take().unwrap().write_all(input).unwrap();
    let out = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(out.matches("[secret:env-value:").count(), 2, "{out}");
    assert!(out.contains("badge [secret:badge:"), "{out}");
}

#[test]
fn lines_come_as_they_are_written_and_bytes_as_they_are() {
    let project = Project::new();
    let mut command = project.command(&["scrub"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let line = b"\x1b[32mok\x1b[0m \xff\xfe\x00 done\n";
    for _ in 0..3 {
        stdin.write_all(line).unwrap();
        let mut echo = [0; 64];
        stdout.read_exact(&mut echo[..line.len()]).unwrap();
        assert_eq!(echo[..line.len()], line[..]);
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn without_a_home_to_keep_a_key_in_secrets_still_go() {
    let project = Project::new();
    let mut command = project.command(&["scrub"]);
    command.env("XDG_DATA_HOME", "/proc/nowhere").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(token().as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.stdout.starts_with(b"[secret:github-token:"), "{out:?}");
}
