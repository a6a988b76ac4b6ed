//! Directories: what is inside, what is not, and what happens when they change.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use salve_core::gate::GateVerdict;
use salve_core::scrub::{ScrubKey, Scrubber};
use serde_json::json;
use tempfile::TempDir;

use super::*;

struct Fixture {
    _guard: TempDir,
    base: PathBuf,
    root: PathBuf,
}

fn fixture() -> Fixture {
    let guard = tempfile::tempdir().unwrap();
    let base = guard.path().canonicalize().unwrap();
    let root = base.join("repo");
    for dir in [
        "repo/web/app",
        "repo/.git/hooks",
        "repo/sub/.git/info",
        "repo/.GIT-notes",
        "repo/odd name",
        "repo/$(x)",
        "repo/~",
        "repo/-rf",
        "repo/..data",
        "outside",
        "repo-evil",
        "repository",
    ] {
        fs::create_dir_all(base.join(dir)).unwrap();
    }
    fs::write(root.join("file"), "").unwrap();
    for (link, target) in [
        ("in", "web"),
        ("in-absolute", root.join("web").to_str().unwrap()),
        ("out", "../outside"),
        ("out-absolute", base.join("outside").to_str().unwrap()),
        ("out-and-in", "../outside/back"),
        ("hooks", ".git/hooks"),
        ("loop", "loop"),
        ("dangling", "nowhere"),
        ("up", ".."),
        ("here", "."),
        ("to-file", "file"),
        ("proc", "/proc/self/cwd"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    symlink(root.join("web"), base.join("outside/back")).unwrap();
    Fixture { _guard: guard, base, root }
}

#[test]
fn directories_at_or_below_the_root_are_inside() {
    let f = fixture();
    let absolute = f.root.join("web");
    for (dir, want) in [
        (".", ""),
        ("./", ""),
        ("", ""),
        ("web", "web"),
        ("web/", "web"),
        ("./web/../web/./app", "web/app"),
        ("../repo/web", "web"),
        (absolute.to_str().unwrap(), "web"),
        ("in", "web"),
        ("in/app", "web/app"),
        ("in-absolute", "web"),
        ("out-and-in", "web"),
        ("here/here/web", "web"),
        ("up/repo/web", "web"),
        ("odd name", "odd name"),
        ("$(x)", "$(x)"),
        ("~", "~"),
        ("-rf", "-rf"),
        ("..data", "..data"),
        (".GIT-notes", ".GIT-notes"),
    ] {
        let resolved = resolve(&f.root, dir).unwrap_or_else(|e| panic!("{dir}: {e}"));
        let want = if want.is_empty() { f.root.clone() } else { f.root.join(want) };
        assert_eq!(resolved.path(), want, "{dir}");
    }
}

#[test]
fn everything_else_is_refused() {
    let f = fixture();
    let evil = format!("{}/../repo-evil", f.root.display());
    let long = "x/".repeat(3000);
    for dir in [
        "..",
        "../",
        "../repository",
        "../repo-evil",
        "../outside",
        "web/../..",
        "/",
        "//",
        "/tmp",
        "/proc/self/cwd",
        "/proc/self/root",
        "/dev/fd",
        "out",
        "out/",
        "out-absolute",
        "out/..",
        "up",
        "web/../../outside",
        "loop",
        "dangling",
        "nowhere",
        "nowhere/..",
        "file",
        "file/",
        "file/..",
        "to-file",
        ".git",
        ".git/",
        ".git/hooks",
        ".git/..",
        ".git/../web",
        "hooks",
        "sub/.git",
        "sub/.git/info",
        "web/../.git",
        "proc",
        "$HOME",
        "~root",
        "..\\outside",
        "%2e%2e/outside",
        " web",
        "web ",
        "WEB\0",
        "web\0",
        "\u{2024}\u{2024}/outside",
        &evil,
        &long,
    ] {
        assert!(resolve(&f.root, dir).is_err(), "{dir:?}");
    }
    fs::create_dir_all(f.root.join("x/.Git/y")).unwrap();
    assert!(matches!(resolve(&f.root, "x/.Git/y"), Err(DirError::InGit)));
    assert!(matches!(resolve(&f.base.join("absent"), "."), Err(DirError::Root(_))));
    assert!(resolve(&f.root.join("file"), ".").is_err());
    assert!(matches!(resolve(&f.root, ".."), Err(DirError::Outside)));
    assert!(matches!(resolve(&f.root, "file"), Err(DirError::NotADirectory)));
}

#[test]
fn a_root_that_is_a_link_is_resolved_first() {
    let f = fixture();
    let link = f.base.join("link");
    symlink(&f.root, &link).unwrap();
    assert_eq!(resolve(&link, "web").unwrap().path(), f.root.join("web"));
    assert!(resolve(&link, "..").is_err());
}

#[test]
fn swapping_the_directory_later_changes_nothing() {
    let f = fixture();
    let held = resolve(&f.root, "web").unwrap();
    fs::write(f.root.join("web/mark"), "right").unwrap();
    fs::rename(f.root.join("web"), f.root.join("moved")).unwrap();
    fs::write(f.base.join("outside/mark"), "wrong").unwrap();
    symlink(f.base.join("outside"), f.root.join("web")).unwrap();

    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mark = rustix::fs::openat(held.handle(), "mark", flags, Mode::empty()).unwrap();
    let text = io::read_to_string(fs::File::from(mark)).unwrap();
    assert_eq!(text, "right");
    assert!(resolve(&f.root, "web").is_err());
}

#[test]
fn a_directory_that_cannot_be_entered_is_refused() {
    let f = fixture();
    let shut = f.root.join("shut");
    fs::create_dir(&shut).unwrap();
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may enter anything.
    let superuser = rustix::process::geteuid().is_root();
    assert_eq!(resolve(&f.root, "shut").is_ok(), superuser);
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o700)).unwrap();
}

fn scrubber() -> Scrubber {
    Scrubber::new(ScrubKey::new([0; 32]))
}

fn proposal(command: &str, dir: &str) -> serde_json::Value {
    json!({
        "version": 1, "timestamp": "2026-03-01T10:00:00Z", "category": "dependency",
        "severity": "blocking",
        "diagnosis": {"error_pattern": "x", "root_cause": "x", "evidence": ["a:1"]},
        "recovery": {
            "command": command, "working_dir": dir, "expected_outcome": "x", "confidence": "high"
        },
        "fallback": {"command": "npm ci", "confidence": "low"}
    })
}

#[test]
fn a_line_is_judged_whole() {
    let f = fixture();
    let line = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut case = json!({
            "id": "x", "repo": f.root, "config": {"auto_approve": ["npm ci"]},
            "proposal": proposal("npm ci", "web")
        });
        change(&mut case);
        let (id, verdict) = judge_line(&case.to_string(), &scrubber());
        assert_eq!(id, "x");
        format!("{} {}", verdict.decision(), verdict.rule())
    };
    assert_eq!(line(&|_| {}), "auto auto_approve[0]");
    assert_eq!(line(&|c| c["proposal"] = proposal("npm ci", "..")), "deny working_dir");
    assert_eq!(line(&|c| c["proposal"] = proposal("ls", ".")), "human require_human[0]");
    assert_eq!(line(&|c| c["proposal"] = json!(null)), "deny proposal");
    assert_eq!(line(&|c| c["proposal_text"] = json!("{}")), "deny proposal");
    assert_eq!(line(&|c| c["config"] = json!({"auto_approve": [" npm ci"]})), "deny config");
    assert_eq!(line(&|c| c["config"] = json!(null)), "deny config");
    assert_eq!(line(&|c| c["repo"] = json!(1)), "deny working_dir");
    assert_eq!(line(&|c| c["repo"] = json!("/nowhere/at/all")), "deny working_dir");
    assert_eq!(line(&|c| c["state"] = json!({"auto_recoveries_this_run": -1})), "deny state");
    assert_eq!(line(&|c| c["state"] = json!(null)), "deny state");
    assert_eq!(
        line(&|c| c["state"] = json!({"auto_recoveries_this_run": 3})),
        "human max_auto_recoveries_per_run"
    );
    assert_eq!(line(&|c| c["which"] = json!("fallback")), "auto auto_approve[0]");
    assert_eq!(line(&|c| c["which"] = json!("Fallback")), "deny proposal");
    assert_eq!(line(&|c| c["which"] = json!(null)), "deny proposal");
    let no_fallback = line(&|c| {
        c["which"] = json!("fallback");
        c["proposal"].as_object_mut().unwrap().remove("fallback");
    });
    assert_eq!(no_fallback, "deny proposal");
    let text = proposal("npm ci", ".").to_string();
    let as_text = line(&|c| {
        c.as_object_mut().unwrap().remove("proposal");
        c["proposal_text"] = json!(text);
    });
    assert_eq!(as_text, "auto auto_approve[0]");
    assert_eq!(
        line(&|c| drop(c.as_object_mut().unwrap().remove("config"))),
        "human require_human[0]"
    );
}

#[test]
fn a_broken_line_is_denied_with_its_id() {
    for (line, id) in [
        (r#"{"id":"C1","repo""#, json!("C1")),
        (r#"{"id":"C1","id":"C2"}"#, json!("C1")),
        (r#"{"id":4}"#, json!(4)),
        ("[]", json!(null)),
        ("nonsense", json!(null)),
    ] {
        let (got, verdict) = judge_line(line, &scrubber());
        assert_eq!(got, id, "{line}");
        assert!(matches!(verdict, GateVerdict::Deny { .. }), "{line}");
    }
}

#[test]
fn settings_are_found_in_every_form() {
    for text in [
        r#"{"auto_approve": ["npm ci"]}"#,
        r#"{"recovery": {"auto_approve": ["npm ci"]}}"#,
        r#"{"version": 1, "recovery": {"auto_approve": ["npm ci"]}, "webhooks": {}}"#,
        "auto_approve = [\"npm ci\"]",
        "version = 1\n[recovery]\nauto_approve = [\"npm ci\"]\n",
    ] {
        let policy = read_policy(text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        let request = salve_core::gate::Request::new("npm ci", ".", 1).unwrap();
        let state = salve_core::gate::GateCounters::default();
        let root = std::env::temp_dir();
        let judged = judge(&root, &policy, &request, &state, &scrubber());
        assert_eq!(judged.verdict.decision(), "auto", "{text}");
        assert_eq!(judged.dir.unwrap().path(), root.canonicalize().unwrap(), "{text}");
    }
    for text in ["", "{}", "version = 1", "[agent]\nenabled = true"] {
        assert!(read_policy(text).is_ok(), "{text}");
    }
    for text in [
        "{",
        "[]",
        "null",
        "auto_approve = 1",
        "recovery = 1",
        "a = [",
        r#"{"recovery": {}, "auto_approve": ["npm ci"]}"#,
        r#"{"recovery": {"auto_approve": []}, "recovery": {"auto_approve": ["npm ci"]}}"#,
        "[recovery]\nauto_approve = [\"npm ci\"]\n[recovery]\nenabled = true",
        "[recovery]\nauto_aprove = []",
        "[recovery]\non_unknown = 1979-05-27",
    ] {
        assert!(read_policy(text).is_err(), "{text}");
    }
}
