//! The habits that every command shares: help, exit codes, completions, manual pages, pipes.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::support::Project;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_names_every_command_and_the_exit_codes() {
    let project = Project::new();
    let output = project.run(&["--help"]);
    let help = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    for word in ["fingerprint", "scrub", "gate", "events", "memory", "config", "doctor", "status"] {
        assert!(help.contains(&format!("\n  {word}")), "{word} is missing in:\n{help}");
    }
    assert!(help.contains("0 well, 1 failed, 2 usage or config, 3 a person is needed"));
}

#[test]
fn a_wrong_word_is_a_usage_error_that_names_the_right_one() {
    let project = Project::new();
    let output = project.run(&["fingerprnt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("'fingerprint'"), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
}

#[test]
fn completions_exist_for_every_shell() {
    let project = Project::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = project.run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(text(&output.stdout).contains("fingerprint"), "{shell}");
    }
}

#[test]
fn manual_pages_are_written_one_per_command() {
    let project = Project::new();
    assert!(text(&project.run(&["man"]).stdout).contains(".TH salve 1"));
    let output = project.run(&["man", "pages"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for page in ["salve.1", "salve-gate.1", "salve-config-show.1"] {
        assert!(project.dir().join("pages").join(page).is_file(), "{page}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let project = Project::new();
    let mut command = project.command(&["completions", "bash"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn doctor_reports_every_check_with_a_way_to_mend() {
    let project = Project::new();
    let output = project.run(&["doctor", "--json", "--project", "."]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["version"], 1);
    let findings = report["findings"].as_array().unwrap();
    let checks =
        ["git", "sandbox", "agents", "python3", "ports", "store", "config", "project", "disk"];
    for check in checks.into_iter().chain(["webhooks", "desktop", "registrations"]) {
        let finding = findings.iter().find(|finding| finding["check"] == check);
        let finding = finding.unwrap_or_else(|| panic!("{check} is missing in {report:#}"));
        assert_eq!(finding["state"] == "ok", finding["mend"].is_null(), "{finding}");
    }
}

#[test]
fn doctor_fails_where_git_does_not_work() {
    let project = Project::new();
    // One that is not on PATH is found where systems have it.
    let git = project.home().join("git");
    std::fs::write(&git, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = project.command(&["doctor"]).env("PATH", project.home()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("install git"), "{}", text(&output.stdout));
}

#[test]
fn status_shows_a_new_project_and_leaves_nothing_behind() {
    let project = Project::new();
    assert_eq!(project.run(&["status"]).status.code(), Some(2), "no project here yet");
    project.write("salve.toml", "");
    let output = project.run(&["status"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let screen = text(&output.stdout);
    for words in ["config     valid", "journal    empty", "memory     empty", "incidents  none"] {
        assert!(screen.contains(words), "{words} is missing in:\n{screen}");
    }
    assert!(!project.dir().join(".salve").exists());
}

#[test]
fn status_counts_events_and_names_wrong_settings() {
    let project = Project::new();
    project.write("salve.toml", "recovry = 1\n");
    project.run(&["events", "note", "hello"]);
    let output = project.run(&["status", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["events"], &report["version"]), (&1.into(), &1.into()));
    assert_eq!(report["config"]["valid"], false);
    assert!(report["config"]["error"].as_str().unwrap().contains("recovery"), "{report}");
}

#[test]
fn letters_that_changed_places_are_taken_for_a_slip() {
    let project = Project::new();
    for (word, meant) in [("dve", "dev"), ("haal", "heal"), ("statsu", "status")] {
        let said = project.run(&[word]);
        assert_eq!(said.status.code(), Some(2));
        let said = text(&said.stderr);
        assert!(said.contains(&format!("'{meant}'")), "{said}");
    }
}
