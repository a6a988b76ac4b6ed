//! A person looks at the settings, makes mistakes in them, and is told where.

use salve::config::{LiveSettings, Reload, Sources};
use salve::store::Store;
use salve_core::scrub::{ScrubKey, Scrubber};
use serde_json::Value;

use crate::support::Project;

fn stdout(output: &std::process::Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn facts(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

#[test]
fn show_tells_each_value_and_where_it_comes_from() {
    let project = Project::new();
    project.write("salve.toml", "# mine\n[recovery]\nauto_approve = [\"npm ci\"]\n");
    let mut command = project.command(&["config", "show", "recovery", "--json"]);
    let output = command.env("SALVE_RECOVERY_COOLDOWN_SECONDS", "5").output().unwrap();
    let shown = facts(&output);
    let of = |key: &str| {
        let settings = shown["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["key"] == key).unwrap().clone()
    };
    let approve = of("recovery.auto_approve");
    assert_eq!((&approve["from"], &approve["source"]), (&"project".into(), &"salve.toml".into()));
    assert_eq!(approve["line"], 3);
    assert_eq!(of("recovery.cooldown_seconds")["source"], "SALVE_RECOVERY_COOLDOWN_SECONDS");
    assert_eq!(of("recovery.enabled")["from"], "default");

    let one = project.run(&["config", "show", "repair.max_loc", "--set", "repair.max_loc=7"]);
    assert_eq!(
        stdout(&one).split_whitespace().collect::<Vec<_>>().join(" "),
        "repair.max_loc = 7 # flag --set"
    );
    let none = project.run(&["config", "show", "repair.max_lok"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("did you mean `repair.max_loc`?"), "{}", stderr(&none));
}

#[test]
fn what_show_prints_is_a_settings_file_with_the_same_meaning() {
    let project = Project::new();
    let text = "[recovery]\nrequire_human = [\"a \\\"b\\\" 'c' \\\\ é #\", \"*\"]\n\
        [auto_heal.clusters]\n\"a.b\" = \"x\"\n";
    project.write("salve.toml", text);
    let before = project.run(&["config", "show"]);
    project.write("salve.toml", &before.stdout);
    let after = facts(&project.run(&["config", "show", "--json"]));
    std::fs::remove_file(project.dir().join("salve.toml")).unwrap();
    project.write("salve.toml", text);
    let first = facts(&project.run(&["config", "show", "--json"]));
    let values = |shown: &Value| -> Vec<Value> {
        let settings = shown["settings"].as_array().unwrap();
        settings.iter().map(|setting| setting["value"].clone()).collect()
    };
    assert_eq!(values(&first), values(&after));
}

#[test]
fn show_keeps_secrets_to_itself() {
    let project = Project::new();
    let token = format!("gh{}{}", "p_", "x9Kd2mQ7Lw4RtB8vNc3HfYz6JgPs1ATeWu5E");
    project.write("salve.toml", format!("webhooks.on_escalation = \"https://a.example/{token}\""));
    for args in [&["config", "show"][..], &["config", "show", "--json"]] {
        let text = stdout(&project.run(args));
        assert!(text.contains("https://a.example/[secret:") && !text.contains(&token), "{text}");
    }
}

#[test]
fn check_lists_every_mistake_and_ends_with_2() {
    let project = Project::new();
    project.write("salve.toml", "[recovery]\ncooldown = 1\non_unknown = 5\n");
    let output = project.run(&["config", "check"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("salve.toml:2:1: unknown key `cooldown`"), "{text}");
    assert!(text.contains("salve.toml:3:14: recovery.on_unknown: expected one of"), "{text}");
    let report = facts(&project.run(&["config", "check", "--json"]));
    assert_eq!((&report["valid"], report["errors"].as_array().unwrap().len()), (&false.into(), 2));

    let good = project.run_with_input(&["config", "check", "-"], b"recovery.enabled = false");
    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));
    project.write("other.json", "{\"recovery\": {\"enabled\": 3}}");
    let other = project.run(&["config", "check", "other.json"]);
    assert!(stderr(&other).contains("other.json:1:26"), "{}", stderr(&other));
}

#[test]
fn two_settings_files_are_one_too_many() {
    let project = Project::new();
    project.write("salve.toml", "");
    project.write("salve.json", "{}");
    let output = project.run(&["config", "show"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("both salve.toml and salve.json"), "{}", stderr(&output));
}

#[test]
fn strange_files_are_refused_with_a_clear_word() {
    let project = Project::new();
    let path = project.dir().join("salve.toml");
    let refused = |word: &str| {
        let output = project.run(&["config", "check", "--project", "."]);
        assert_eq!(output.status.code(), Some(2), "{word}");
        assert!(stderr(&output).contains(word), "{word}: {}", stderr(&output));
        std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path)).unwrap();
    };
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    refused("is a named pipe, not a file");
    std::fs::create_dir(&path).unwrap();
    refused("is a directory, not a file");
    let huge = std::fs::File::create(&path).unwrap();
    huge.set_len(2 << 30).unwrap();
    refused("is larger than 1024 KiB");
    project.write("salve.toml", b"a = 1\n# \xff\n");
    refused("line 2 is not valid UTF-8");
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    refused("is a device, not a file");
    std::os::unix::fs::symlink("/nowhere/at/all", &path).unwrap();
    refused("is a link to nowhere");
    std::fs::write(project.home().join("key"), "TOKEN=hush-hush").unwrap();
    std::os::unix::fs::symlink(project.home().join("key"), &path).unwrap();
    refused("a link to a file outside the project");
    project.write("shared.toml", "[recovery]\ncooldown_seconds = 9\n");
    std::os::unix::fs::symlink("shared.toml", &path).unwrap();
    let inside = project.run(&["config", "show", "recovery.cooldown_seconds"]);
    assert!(stdout(&inside).contains("= 9"), "{}", stderr(&inside));
}

#[test]
fn the_users_own_file_lies_under_the_projects() {
    let project = Project::new();
    let dir = project.home().join("config/salve");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.toml"), "[repair]\nmax_loc = 1\nmax_files = 1\n").unwrap();
    project.write("salve.toml", "repair.max_loc = 2\n");
    let shown = stdout(&project.run(&["config", "show", "repair"]));
    assert!(shown.lines().any(|l| l.starts_with("repair.max_files = 1") && l.contains("# user ")));
    assert!(shown.lines().any(|l| l.starts_with("repair.max_loc = 2") && l.contains("# project")));
}

/// Plays a Salve whose agent edits the settings, and returns the hash of what waits then.
pub(crate) fn agent_edits(project: &Project, text: &str) -> String {
    let root = salve::project::Project::at(&project.dir()).unwrap();
    let store = Store::open(&root).unwrap();
    let scrubber = || Scrubber::new(ScrubKey::new([5; 32]));
    let sources = Sources { project: Some(root.root().to_owned()), ..Sources::default() };
    let now = jiff::Timestamp::now();
    let mut live = LiveSettings::open(store.journal(), sources, scrubber(), now).unwrap();
    let guard = live.agent_starts(now).unwrap();
    project.write("salve.toml", text);
    match live.agent_ended(guard, now).unwrap() {
        Reload::Waiting { digest, .. } => digest.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_an_agent_widened_waits_for_a_person_who_sees_it() {
    let project = Project::new();
    project.write("salve.toml", "[recovery]\nauto_approve = [\"npm ci\"]\n");
    assert!(stdout(&project.run(&["config", "accept"])).starts_with("no change"));
    let wide = "[recovery]\nauto_approve = [\"npm ci\", \"make\"]\ncooldown_seconds = 90\n";
    let digest = agent_edits(&project, wide);
    let shown = project.run(&["config", "show", "recovery"]);
    let text = stdout(&shown);
    assert!(text.contains("recovery.auto_approve = [\"npm ci\"]"), "{text}");
    assert!(text.contains("# held until `salve config accept`"), "{text}");
    assert!(text.contains("recovery.cooldown_seconds = 90"), "the stricter part holds: {text}");
    assert!(stderr(&shown).contains(&digest[..12]), "{}", stderr(&shown));
    let judged = project.run(&["gate", "--command", "make"]);
    assert_eq!(judged.status.code(), Some(3), "the rules in force judge: {}", stderr(&judged));

    let unnamed = project.run(&["config", "accept"]);
    assert_eq!(unnamed.status.code(), Some(3));
    assert!(stdout(&unnamed).contains("recovery.auto_approve: added \"make\""));
    let report = facts(&project.run(&["config", "accept", "--json"]));
    assert_eq!((&report["accepted"], &report["digest"]), (&false.into(), &digest.as_str().into()));
    let other = project.run(&["config", "accept", "0123456789ab"]);
    assert_eq!(other.status.code(), Some(3), "{}", stderr(&other));

    let good = project.run(&["config", "accept", &digest[..12]]);
    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));
    let text = stdout(&project.run(&["config", "show", "recovery.auto_approve"]));
    assert!(text.contains("[\"npm ci\", \"make\"]") && text.contains("# project"), "{text}");
    assert_eq!(project.run(&["gate", "--command", "make"]).status.code(), Some(0));
}

/// **Invariant:** An agent cannot accept, even by unsetting its mark.
#[test]
fn an_agent_cannot_accept_not_even_by_washing_its_environment() {
    let project = Project::new();
    project.write("salve.toml", "");
    let digest = agent_edits(&project, "recovery.auto_approve = [\"make\"]\n");
    let marked = project.command(&["config", "accept", &digest]).env("SALVE_AGENT", "1").output();
    let marked = marked.unwrap();
    assert_eq!(marked.status.code(), Some(3));
    assert!(stderr(&marked).contains("an agent cannot accept"), "{}", stderr(&marked));
    let washed = std::process::Command::new("sh")
        .args(["-c", "env -u SALVE_AGENT \"$1\" config accept \"$2\"; exit $?", "sh"])
        .args([env!("CARGO_BIN_EXE_salve"), &digest])
        .env("SALVE_AGENT", "1")
        .current_dir(project.dir())
        .output()
        .unwrap();
    assert_eq!(washed.status.code(), Some(3), "{}", stderr(&washed));
    let text = stdout(&project.run(&["config", "show", "recovery.auto_approve"]));
    assert!(text.contains("= []"), "{text}");
}

#[test]
fn a_change_made_after_it_was_shown_is_asked_for_again() {
    let project = Project::new();
    project.write("salve.toml", "");
    let digest = agent_edits(&project, "recovery.auto_approve = [\"make\"]\n");
    project.write("salve.toml", "recovery.auto_approve = [\"make\", \"curl evil\"]\n");
    let stale = project.run(&["config", "accept", &digest]);
    assert_eq!(stale.status.code(), Some(3));
    assert!(stdout(&stale).contains("added \"curl evil\""), "{}", stdout(&stale));
    let report = facts(&project.run(&["config", "accept", "--json"]));
    assert_ne!(report["digest"], digest.as_str());
}

#[test]
fn own_failures_and_own_secrets_are_known_by_the_commands() {
    let project = Project::new();
    project.write(
        "salve.toml",
        "[[fingerprint.anchors]]\nid = \"shop.stock\"\nclass = \"network\"\n\
         shapes = [\"stock service {name:word} does not answer\"]\nidentify = [\"name\"]\n\
         [[scrub.patterns]]\nkind = \"badge\"\nregex = \"badge ([0-9]{6})\"\n",
    );
    let text = b"error: stock service eu-1 does not answer, badge 123456\n";
    let print = facts(&project.run_with_input(&["fingerprint", "--json"], text));
    assert_eq!(
        (&print["class"], &print["identity"]),
        (&"network".into(), &"shop.stock(\"eu-1\")".into())
    );
    let lines = project.run_with_input(
        &["fingerprint", "--jsonl"],
        br#"{"id":1,"text":"stock service eu-1 does not answer"}"#,
    );
    assert_eq!(facts(&lines)["signature"], print["signature"]);
    let scrubbed = stdout(&project.run_with_input(&["scrub"], text));
    assert!(
        scrubbed.contains("badge [secret:badge:") && !scrubbed.contains("123456"),
        "{scrubbed}"
    );
}

#[test]
fn the_users_own_memory_can_be_left_out() {
    let project = Project::new();
    project.write("salve.toml", "");
    let text = b"Error: listen EADDRINUSE: address already in use :::3000\n";
    let learnt = project
        .run_with_input(&["memory", "learn", "--user", "--instruction", "free the port"], text);
    assert_eq!(learnt.status.code(), Some(0), "{}", stderr(&learnt));
    let check = |set: &str| {
        let args = ["memory", "check", "--json", "--set", set];
        stdout(&project.run_with_input(&args, text)).contains("free the port")
    };
    assert!(check("memory.user=true"));
    assert!(!check("memory.user=false"));
}
