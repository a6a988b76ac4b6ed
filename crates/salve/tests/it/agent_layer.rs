//! Agents work on a private layer: only their measured, proven change reaches the tree, and nothing of
//! the user's is lost meanwhile.

use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};

use crate::bench::Bench;
use crate::heal::{Visit, Ward};
use crate::heal_killed::kill;
use crate::support::{has_process, wait_for};

/// Waits for a word of the test.
const WAITS: &str = "touch ../began; while [ ! -e ../go ]; do sleep 0.02; done; ";

/// A ward whose agent edits a file that the user edits too, and waits for the test before it does `then`.
fn waiting(then: &str) -> Ward {
    let ward = Ward::new().agent(&format!("sed -i s/one/ONE/ shop.txt; {WAITS}{then}"));
    ward.project.write("shop.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    ward
}

/// Starts a heal and waits until its agent is at work.
fn begin(ward: &Ward) -> Child {
    let mut heal = ward.command(&[]);
    heal.stdout(Stdio::piped()).stderr(Stdio::piped());
    let heal = heal.spawn().unwrap();
    wait_for("the agent", || ward.project.dir().join("../began").exists());
    heal
}

/// Lets the agent go on and waits for the end of the heal.
fn finish(ward: &Ward, heal: Child) -> Visit {
    ward.project.write("../go", "");
    Visit::of(&heal.wait_with_output().unwrap())
}

/// What a user types in other files and in the same file, at other lines than the agent.
fn type_on(ward: &Ward) {
    ward.project.write("notes.txt", "typed while the agent worked\n");
    ward.project.write("shop/new.txt", "a new file\n");
    ward.project.write("shop.txt", "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
}

/// Asserts that all that was typed is there.
#[track_caller]
fn expect_typed(ward: &Ward) {
    assert_eq!(ward.read("notes.txt"), "typed while the agent worked\n");
    assert_eq!(ward.read("shop/new.txt"), "a new file\n");
    assert!(ward.read("shop.txt").ends_with("six\nSEVEN\n"), "{}", ward.read("shop.txt"));
    assert_eq!(ward.read("draft.txt"), "the user's own file\n");
}

/// **Invariant:** A repair and its undoing leave every edit of the user's in place.
#[test]
fn who_goes_on_typing_loses_nothing_to_a_repair_or_its_undoing() {
    let ward = waiting("printf 5 > sum.txt");
    let heal = begin(&ward);
    assert_eq!(ward.read("sum.txt"), "4", "nothing of the agent's is seen");
    type_on(&ward);
    let healed = finish(&ward, heal);
    healed.expect(0, &["healed", "proven", "you edited shop.txt meanwhile"]);
    assert_eq!(ward.read("sum.txt"), "5");
    assert!(ward.read("shop.txt").starts_with("ONE\ntwo\n"), "both edits are in it");
    expect_typed(&ward);
    ward.project.write("later.txt", "made after the repair\n");
    assert!(ward.salve(&["undo"]).contains("undone: 2 files"));
    assert_eq!(ward.read("sum.txt"), "4");
    assert!(ward.read("shop.txt").starts_with("one\ntwo\n"));
    assert_eq!(ward.read("later.txt"), "made after the repair\n");
    expect_typed(&ward);
    ward.salve(&["undo", "--back"]);
    assert_eq!(ward.read("sum.txt"), "5");
    assert!(ward.read("shop.txt").starts_with("ONE\ntwo\n"));
    expect_typed(&ward);
}

#[test]
fn who_goes_on_typing_loses_nothing_to_an_attempt_that_fails() {
    let ward = waiting("printf 6 > sum.txt; rm -f notes.txt draft.txt");
    let heal = begin(&ward);
    type_on(&ward);
    finish(&ward, heal).expect(3, &["expected 5, found 6"]);
    assert_eq!(ward.read("sum.txt"), "4");
    assert!(ward.read("shop.txt").starts_with("one\ntwo\n"), "nothing of it was brought in");
    expect_typed(&ward);
}

#[test]
fn the_same_lines_are_a_persons_to_decide_and_both_versions_are_kept() {
    let ward = waiting("printf 5 > sum.txt");
    let heal = begin(&ward);
    let typed = "first\ntwo\nthree\nfour\nfive\nsix\nseven\n";
    ward.project.write("shop.txt", typed);
    let asked = finish(&ward, heal);
    asked.expect(3, &["The agent changed the same lines of shop.txt", "salve approve"]);
    assert_eq!([ward.read("sum.txt"), ward.read("shop.txt")], ["4".to_owned(), typed.to_owned()]);
    assert!(ward.salve(&["show", "--diff"]).contains("+ONE"), "the agent's version is kept");
    // The user makes room, and says yes.
    ward.project.write("shop.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    ward.salve(&["approve"]);
    ward.heal(&[]).expect(0, &["healed"]);
    assert_eq!(ward.read("sum.txt"), "5");
    assert!(ward.read("shop.txt").starts_with("ONE\n"));
}

#[test]
fn what_an_agent_goes_on_writing_is_measured_and_asked_about() {
    // It reports and leaves a writer behind; what that wrote until the end of the agent counts.
    let many = "for n in $(seq 20); do seq 30 > file$n.txt; done";
    let ward = Ward::new().agent(&format!("printf 5 > sum.txt; ({many}) & echo fixed; wait"));
    ward.heal(&[]).expect(3, &["the repair changed 21 files"]);
    assert_eq!(ward.read("sum.txt"), "4", "nothing is brought in before a person says so");
    assert!(!ward.project.dir().join("file1.txt").exists());
    ward.salve(&["approve"]);
    ward.heal(&[]).expect(0, &["healed"]);
    assert_eq!(ward.read("sum.txt"), "5");
    assert!(ward.project.dir().join("file20.txt").exists());
    ward.assert_users_work_is_intact();
}

/// **Invariant:** What an agent writes outside of its layer stays in no place of the user's.
#[test]
fn what_an_agent_writes_elsewhere_goes_nowhere() {
    let ward = Ward::new().agent(
        "mkdir -p \"$HOME/other\" \"$HOME/.config/autostart\"; echo x > \"$HOME/other/main.js\"; \
         echo x > \"$HOME/.config/autostart/x.desktop\"; echo x > /var/tmp/salve-test-$$-x; \
         echo x > ../beside.txt; git config core.fsmonitor 'touch ../pwned'; \
         git -c user.name=a -c user.email=a@b commit -qm wip --allow-empty; printf 5 > sum.txt",
    );
    let mut heal = ward.command(&[]);
    heal.env_remove("SALVE_AGENT_STATE_DIRS");
    let before = std::fs::read_dir("/var/tmp").unwrap().count();
    let healed = Visit::of(&heal.output().unwrap());
    healed.expect(0, &["healed", "proven", "the agent also wanted to change .git/config"]);
    for path in ["other/main.js", ".config/autostart/x.desktop"] {
        assert!(!ward.project.home().join(path).exists(), "{path}");
    }
    assert!(!ward.project.dir().join("../beside.txt").exists());
    assert_eq!(std::fs::read_dir("/var/tmp").unwrap().count(), before);
    ward.assert_users_work_is_intact();
}

#[test]
fn what_decides_about_commands_is_left_out_and_shown_and_travels_nowhere() {
    let ward = Ward::new().agent(
        "printf 5 > sum.txt; printf 'version = 1\\n[recovery]\\nauto_approve = [\"rm -rf /\"]\\n' > \
         salve.toml; mkdir -p .claude; echo '{}' > .claude/settings.json",
    );
    let healed = ward.heal(&[]);
    healed.expect(0, &["healed", "proven", "the agent also wanted to change", "salve.toml"]);
    assert!(!ward.project.dir().join("salve.toml").exists());
    assert!(!ward.project.dir().join(".claude").exists());
    assert!(ward.salve(&["show"]).contains("also wanted to change"), "the story tells it too");
    let memory = ward.salve(&["--json", "memory", "list"]);
    assert!(!memory.contains("auto_approve"), "{memory}");
}

/// **Invariant:** An agent ends with its Salve, however that ends, and the tree is as the user has it.
#[test]
fn an_agent_ends_with_a_salve_that_is_killed() {
    let ward = waiting("printf 5 > sum.txt");
    let mut heal = begin(&ward);
    let agent = ward.project.dir().join("../agent.sh").canonicalize().unwrap();
    let agent = agent.to_string_lossy().into_owned();
    assert!(has_process(&agent));
    type_on(&ward);
    kill(&mut heal);
    wait_for("the agent's end", || !has_process(&agent));
    assert_eq!(ward.read("sum.txt"), "4");
    expect_typed(&ward);
    ward.project.write("../go", "");
    ward.heal(&[]).expect(0, &["healed"]);
    assert_eq!(ward.read("sum.txt"), "5");
    expect_typed(&ward);
}

/// Runs a server that dies unless `sum.txt` says 5.
const SERVER: &str = "[ \"$(cat sum.txt)\" = 5 ] && exec sleep 300\n\
                      echo 'ReferenceError: total is not defined' >&2\nexit 1\n";

#[test]
fn a_server_is_tried_with_the_change_and_without_it_where_it_does_not_help() {
    let script = format!(
        "echo x >> ../turns; if [ \"$(wc -l < ../turns)\" -eq 1 ]; then sed -i s/one/ONE/ shop.txt; \
         {WAITS}printf 6 > sum.txt; else printf 5 > sum.txt; fi\n\
         echo '{{\"type\":\"spent\",\"tokens\":1,\"cost_usd\":0.01}}'"
    );
    let bench = Bench::with_own("command", &script);
    bench.project.write("app.sh", SERVER);
    bench.project.write("sum.txt", "4");
    bench.project.write("shop.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    let mut run = bench.dev(&[]);
    wait_for("the agent", || bench.project.dir().join("../began").exists());
    bench.project.write("mine.txt", "typed while the agent worked\n");
    bench.project.write("shop.txt", "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
    bench.project.write("../go", "");
    run.until("recovered");
    assert_eq!(bench.read("sum.txt"), "5");
    let typed = "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n";
    assert_eq!(bench.read("shop.txt"), typed, "the attempt that failed was taken back exactly");
    assert_eq!(bench.read("mine.txt"), "typed while the agent worked\n");
    let id = bench.incidents()[0].to_string();
    run.end();
    assert!(bench.project.run(&["undo", &id]).status.success());
    assert_eq!([bench.read("sum.txt"), bench.read("shop.txt")], ["4", typed]);
    assert_eq!(bench.read("mine.txt"), "typed while the agent worked\n");
}

/// Puts `salve heal` into a mount namespace in which `mounts` were made; nothing where none is allowed.
fn among_mounts(ward: &Ward, mounts: &str) -> Option<Visit> {
    let heal = ward.command(&[]);
    let script = format!("{mounts} && exec \"$@\"");
    let mut unshare = Command::new("unshare");
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    // Else as in a container without root.
    unshare
        .args([if is_root { "-m" } else { "-Urm" }, "sh", "-c", &script, "sh"])
        .arg(heal.get_program())
        .args(heal.get_args());
    unshare.current_dir(ward.project.dir()).stdin(Stdio::null()).env_clear();
    unshare.envs(heal.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = unshare.output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    (!said.contains("unshare:") && !said.contains("mount:")).then(|| Visit::of(&output))
}

/// As in a container whose packages lie in a volume of their own.
#[test]
fn what_is_mounted_inside_of_a_project_is_there_in_the_layer() {
    let volume = "mount -t tmpfs none node_modules && echo dep > node_modules/dep.js";
    let ward = Ward::new().agent("cat node_modules/dep.js > ../seen; printf 5 > sum.txt");
    ward.project.write("node_modules/.keep", "");
    ward.project.write(
        "check.sh",
        "[ -e node_modules/dep.js ] && [ \"$(cat sum.txt)\" = 5 ] || { echo AssertionError: no; exit 1; }",
    );
    let Some(healed) = among_mounts(&ward, volume) else { return };
    healed.expect(0, &["healed", "proven"]);
    assert_eq!(ward.read("../seen"), "dep\n");
    assert_eq!(ward.read("sum.txt"), "5");
}

#[test]
fn an_edit_of_what_is_mounted_inside_of_a_project_is_brought_in() {
    let volume = "mount -t tmpfs none src && printf 4 > src/sum.txt && echo mine > src/own.txt && \
                  mkdir ../out && trap 'cp src/* ../out' EXIT";
    let ward = Ward::new().agent("printf 5 > src/sum.txt");
    ward.project.write("src/.keep", "");
    ward.project.write(
        "check.sh",
        "[ \"$(cat src/sum.txt)\" = 5 ] || { echo AssertionError: no; exit 1; }",
    );
    // The shell stays, to show what lies in the volume at the end.
    let Some(healed) = among_mounts(&ward, &format!("{volume} && \"$@\"; exit $?; true")) else {
        return;
    };
    healed.expect(0, &["healed", "proven"]);
    assert_eq!([ward.read("../out/sum.txt"), ward.read("../out/own.txt")], ["5", "mine\n"]);
}

#[test]
fn a_directory_that_an_agent_closes_is_measured_all_the_same() {
    let ward =
        Ward::new().agent("printf 5 > sum.txt; mkdir -p d/e; echo x > d/e/x; chmod 000 d/e d");
    ward.heal(&[]).expect(0, &["healed", "proven"]);
    assert_eq!(ward.read("d/e/x"), "x\n");
}
