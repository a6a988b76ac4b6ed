//! What is around a check rather than in it: variables for one run, its virtual environment, and
//! a check that is red only now and then.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::heal::{Visit, Ward, git};

/// Fills more of Node's heap than a small one holds.
const HUNGRY: &str = "\
const kept = [];
for (let i = 0; i < 700000; i++) kept.push({ i, text: 'x' + i, list: [i, i, i] });
console.log('held ' + kept.length);
";

#[test]
fn a_full_heap_is_made_larger_for_the_run_and_nothing_is_written() {
    let ward = Ward::new();
    let settings = "[checks.hungry]\ncommand = \"node hungry.js\"\n\
                    env = { NODE_OPTIONS = \"--max-old-space-size=48\" }\n";
    ward.project.write("hungry.js", HUNGRY);
    ward.project.write("salve.toml", settings);
    let said = [
        "memory.heap-larger",
        "NODE_OPTIONS=",
        "healed",
        "proven",
        "set for this run only",
        "write into salve.toml",
    ];
    let visit = ward.heal(&["hungry"]);
    visit.expect(0, &said);
    assert_eq!(ward.read("salve.toml"), settings);
    assert!(
        ward.salve(&["show"]).contains("for the rest of this run"),
        "{}",
        ward.salve(&["show"])
    );
    // What held for one run is no command that could be remembered for another.
    assert!(!ward.salve(&["memory", "list"]).contains("NODE_OPTIONS"));
    ward.assert_users_work_is_intact();
}

/// Makes a real virtual environment with a program of its own.
fn make_venv(ward: &Ward) {
    let made = Command::new("python3")
        .args(["-m", "venv", "--without-pip", ".venv"])
        .current_dir(ward.project.dir())
        .status();
    assert!(made.unwrap().success());
    let python = ward.project.dir().join(".venv/bin/python");
    let script = format!("#!{}\nimport sys\nprint('run by', sys.prefix)\n", python.display());
    ward.project.write(".venv/bin/shopcheck", script);
    let program = ward.project.dir().join(".venv/bin/shopcheck");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    ward.project.write("requirements.txt", "shopcheck\n");
    ward.project.write(".gitignore", ".venv/\ncache/\n.env\n");
    git(&ward.project, &["add", ".gitignore", "requirements.txt"]);
}

#[test]
fn a_program_that_is_only_in_the_virtual_environment_runs_from_there() {
    let ward = Ward::new();
    make_venv(&ward);
    let visit = ward.heal(&["--", "shopcheck"]);
    visit.expect(0, &["python.program-in-venv", "run by", "healed", "bin/activate"]);
    // A shell that cannot find it is no different.
    let visit = ward.heal(&["--", "sh", "-c", "shopcheck"]);
    visit.expect(0, &["python.program-in-venv", "healed"]);
}

/// Fails when there is a file outside of the project, and takes it away the first time if asked.
const MOODY: &str = "\
echo run >> ../runs
if [ -e ../broken ]; then echo 'AssertionError: broken'; exit 1; fi
if [ -e ../moody ]; then rm ../moody; echo 'AssertionError: expected 3, found 4'; exit 1; fi
echo ok
";

#[test]
fn red_on_the_files_on_which_it_was_just_green_is_run_once_more_and_called_flaky() {
    let ward = Ward::new();
    ward.project.write("moody.sh", MOODY);
    let check = ["--", "sh", "moody.sh"];
    ward.heal(&check).expect(0, &["green"]);
    ward.project.write("../moody", "");
    let visit = ward.heal(&check);
    visit.expect(0, &["on the same files", "flaky", "passed, failed, and passed again"]);
    assert!(!visit.said.contains("healed"), "what passes by chance is not healed: {}", visit.said);
    // What stays red is red, and has run twice.
    ward.project.write("../broken", "");
    let visit = ward.heal(&check);
    visit.expect(3, &["on the same files", "needs you"]);
    // Green, red and green, and now red once more than it would have been.
    assert!(ward.read("../runs").lines().count() >= 5, "{}", visit.said);
}

#[test]
fn red_after_an_edit_is_not_run_again_to_see() {
    let ward = Ward::new();
    ward.project.write("moody.sh", MOODY);
    let check = ["--", "sh", "moody.sh"];
    ward.heal(&check).expect(0, &["green"]);
    ward.project.write("draft.txt", "an edit");
    ward.project.write("../broken", "");
    let visit = ward.heal(&check);
    visit.expect(3, &["needs you"]);
    assert!(!visit.said.contains("on the same files"), "{}", visit.said);
}

#[test]
fn what_may_pass_is_not_tried_again_and_again_without_any_change() {
    let ward = Ward::new();
    ward.project.write("busy.sh", "echo run >> ../runs\necho 'Error: read ECONNRESET'; exit 1\n");
    ward.heal(&["--", "sh", "busy.sh"]).expect(3, &["needs you"]);
    let runs = ward.read("../runs").lines().count();
    assert!((2..=4).contains(&runs), "it ran {runs} times");
}

/// Is stricter where `CI` is set, as many tools are.
const STRICT: &str = "\
if [ -n \"$CI\" ]; then echo 'Treating warnings as errors because process.env.CI = true.'; exit 1; fi
echo 'compiled with warnings'
";

#[test]
fn a_check_that_only_the_ci_variable_makes_red_runs_without_it() {
    let ward = Ward::new();
    ward.project.write("strict.sh", STRICT);
    let check = ["--", "sh", "strict.sh"];
    let visit = ward.heal(&check);
    visit.expect(0, &["check.ci", "compiled with warnings", "set for this run only: CI="]);
    // Where somebody else sets it, it is meant.
    let output = ward.command(&check).env("CI", "true").output().unwrap();
    Visit::of(&output).expect(3, &["Treating warnings as errors"]);
    let settings = "[checks.strict]\ncommand = \"sh strict.sh\"\nenv = { CI = \"1\" }\n";
    ward.project.write("salve.toml", settings);
    ward.heal(&["strict"]).expect(3, &["Treating warnings as errors"]);
    ward.project.write("salve.toml", settings.replace("\"1\"", "\"\""));
    ward.heal(&["strict"]).expect(0, &["green"]);
}

#[test]
fn a_check_of_a_project_whose_checks_are_being_healed_is_run_as_it_is() {
    let ward = Ward::new();
    ward.project.write("inner.sh", "echo inner; exit 4\n");
    let salve = env!("CARGO_BIN_EXE_salve");
    let inner = |options: &str| {
        let outer = format!("'{salve}' heal {options} -- sh inner.sh; echo \"it ended by $?\"\n");
        ward.project.write("outer.sh", outer);
        ward.heal(&["--", "sh", "outer.sh"])
    };
    let visit = inner("");
    visit.expect(0, &["another salve heals", "only run, and not healed", "inner\n", "ended by 4"]);
    let visit = inner("--json");
    visit.expect(0, &["\"kind\":\"result\"", "\"exitCode\":4", "it ended by 4"]);
    ward.assert_users_work_is_intact();
}
