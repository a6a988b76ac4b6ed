//! `salve init`: from a project's files to settings that Salve reads, and to agents' settings.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::Project;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn vite() -> Project {
    let project = Project::new();
    project.write("package.json", r#"{"scripts":{"dev":"vite"},"devDependencies":{"vite":"7"}}"#);
    project.write("package-lock.json", "{}");
    std::fs::create_dir(project.dir().join(".git")).unwrap();
    project
}

#[test]
fn a_project_gets_settings_once_and_they_are_right() {
    let project = vite();
    let shown = project.run(&["init", "--dry-run"]);
    assert!(shown.status.success());
    assert!(text(&shown.stdout).contains("npm run dev"));
    assert!(!project.dir().join("salve.toml").exists());

    let made = project.run(&["init"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let said = text(&made.stdout);
    assert!(said.contains("found web (Vite): npm run dev"), "{said}");
    assert!(said.contains("script dev in package.json"), "{said}");
    assert!(said.contains(".dev-repair.lock"), "{said}");
    assert!(!project.dir().join(".gitignore").exists());
    assert!(project.run(&["config", "check"]).status.success());

    let before = std::fs::read(project.dir().join("salve.toml")).unwrap();
    let again = project.run(&["init"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("there is a salve.toml already"));
    assert_eq!(std::fs::read(project.dir().join("salve.toml")).unwrap(), before);
}

#[test]
fn with_yes_git_is_told_what_to_ignore() {
    let project = vite();
    project.write(".gitignore", "node_modules");
    assert!(project.run(&["init", "--yes"]).status.success());
    let ignored = std::fs::read_to_string(project.dir().join(".gitignore")).unwrap();
    assert_eq!(ignored, "node_modules\n.dev-crash*.log\n.dev-repair.lock\n");
}

#[test]
fn where_there_is_nothing_the_next_step_is_told() {
    let project = Project::new();
    let nothing = project.run(&["init"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(text(&nothing.stderr).contains("salve dev -- COMMAND"));
}

#[test]
fn an_agent_is_told_about_salve_without_disturbing_its_file() {
    let project = Project::new();
    let own = "{\n  // mine\n  \"mcpServers\": { \"other\": { \"command\": \"x\" } }\n}\n";
    project.write(".mcp.json", own);
    let shown = project.run(&["init", "--agent", "claude", "--dry-run"]);
    assert!(text(&shown.stdout).contains("would change"), "{}", text(&shown.stderr));
    assert_eq!(std::fs::read_to_string(project.dir().join(".mcp.json")).unwrap(), own);

    let done = project.run(&["init", "--agent", "claude", "--agent", "codex"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let new = std::fs::read_to_string(project.dir().join(".mcp.json")).unwrap();
    assert!(new.contains("// mine") && new.contains("\"other\"") && new.contains("\"salve\""));
    assert!(project.dir().join(".codex/config.toml").is_file());
    let copies = project.home().join("data/salve/backups");
    let copy = std::fs::read_dir(copies).unwrap().next().unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(copy.path()).unwrap(), own);

    let again = project.run(&["init", "--agent", "claude"]);
    assert!(text(&again.stdout).contains("right already"));
    assert_eq!(std::fs::read_to_string(project.dir().join(".mcp.json")).unwrap(), new);
}

#[test]
fn a_malformed_file_of_an_agent_is_left_alone() {
    let project = Project::new();
    project.write(".cursor/mcp.json", "{ oops");
    let failed = project.run(&["init", "--agent", "cursor"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).contains("mcp.json"), "{}", text(&failed.stderr));
    assert_eq!(std::fs::read(project.dir().join(".cursor/mcp.json")).unwrap(), b"{ oops");
}

#[test]
fn whoever_is_found_is_told_and_forgets_again() {
    let project = Project::new();
    let own = "{\n  \"mcpServers\": { \"other\": { \"command\": \"x\" } }\n}\n";
    project.write(".mcp.json", own);
    let install = |more: &[&str]| {
        let mut command = project.command(&[&["mcp", "install"], more].concat());
        // Whatever this machine has installed is not part of the story.
        command.env("PATH", "/nowhere").output().unwrap()
    };
    let read = || std::fs::read_to_string(project.dir().join(".mcp.json")).unwrap();
    let shown = install(&["--print"]);
    assert!(text(&shown.stdout).contains("Claude Code: would change"), "{shown:?}");
    assert_eq!(read(), own);
    assert!(install(&[]).status.success());
    assert!(read().contains("\"salve\""), "{}", read());
    assert!(!project.dir().join(".cursor").exists(), "nobody else is here");
    assert!(install(&["--client", "cursor", "--client", "auto"]).status.success());
    assert!(project.dir().join(".cursor/mcp.json").is_file());
    assert!(install(&["--remove"]).status.success());
    assert!(!read().contains("salve") && read().contains("\"other\""), "{}", read());

    let elsewhere = Project::new();
    let nobody = elsewhere.command(&["mcp", "install"]).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("--client claude"), "{nobody:?}");
}

#[test]
fn a_file_that_is_broken_keeps_no_other_from_being_written() {
    let project = Project::new();
    project.write(".mcp.json", "{ oops");
    let words = ["mcp", "install", "--client", "claude", "--client", "cursor"];
    let output = project.command(&words).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains(".mcp.json"), "{output:?}");
    assert_eq!(std::fs::read(project.dir().join(".mcp.json")).unwrap(), b"{ oops");
    let cursor = std::fs::read_to_string(project.dir().join(".cursor/mcp.json")).unwrap();
    assert!(cursor.contains("\"salve\""), "{cursor}");
}

#[test]
fn a_client_is_told_not_to_ask_and_says_itself_that_it_knows_salve() {
    let project = Project::new();
    let bin = project.home().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let client = "#!/bin/sh\n[ \"$*\" = 'mcp list' ] && grep -q salve .mcp.json && \
                  printf 'checking\\n\\nsalve: salve mcp - \\033[33mPending approval\\033[0m\\n'\n";
    std::fs::write(bin.join("claude"), client).unwrap();
    std::fs::set_permissions(bin.join("claude"), Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let install = |more: &[&str]| {
        let words = [&["mcp", "install", "--client", "claude"], more].concat();
        let output = project.command(&words).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    let said = install(&[]);
    assert!(said.contains("approve the server `salve`"), "{said}");
    assert!(said.contains("--client claude --scope project --allow-tools"), "{said}");
    assert!(said.contains("`claude mcp list` says: salve: salve mcp - Pending approval"), "{said}");
    let settings = project.dir().join(".claude/settings.local.json");
    assert!(!settings.exists());
    let said = install(&["--allow-tools"]);
    assert!(!said.contains("--allow-tools"), "{said}");
    let allowed = std::fs::read_to_string(&settings).unwrap();
    assert!(allowed.contains("\"mcp__salve\""), "{allowed}");
    install(&["--remove"]);
    assert!(!settings.exists() && !project.dir().join(".mcp.json").exists());
}
