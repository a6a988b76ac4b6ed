//! Repairs that weaken what judges them are seen through; honest ones are not suspected.

use crate::heal::{Visit, Ward, git};

const TEST: &str = "import add\n\n\ndef test_adds():\n    assert add.add(2, 3) == 5\n\n\n\
                    def test_adds_nothing():\n    assert add.add(2, 0) == 2\n";
const BROKEN: &str = "def add(a, b):\n    return a - b\n";
const MENDED: &str = "def add(a, b):\n    return a + b\n";

/// Runs the tests as pytest names and counts them, without pytest.
const RUNNER: &str = r#"
import importlib, sys, traceback
names = [n for n in dir(importlib.import_module("test_add")) if n.startswith("test_")]
failed = []
for name in names:
    try:
        getattr(sys.modules["test_add"], name)()
    except AssertionError:
        traceback.print_exc()
        failed.append(name)
for name in failed:
    print(f"FAILED test_add.py::{name} - AssertionError")
word = f"{len(failed)} failed, " if failed else ""
print(f"==== {word}{len(names) - len(failed)} passed in 0.01s ====")
sys.exit(1 if failed else 0)
"#;

/// Returns a project whose test is red for a reason, and an agent that does this about it.
fn ward(agent: &str) -> Ward {
    let ward = Ward::new().agent(agent);
    ward.project.write("add.py", BROKEN);
    ward.project.write("test_add.py", TEST);
    git(&ward.project, &["add", "add.py", "test_add.py"]);
    git(&ward.project, &["commit", "-qm", "tests"]);
    ward
}

const CHECK: [&str; 4] = ["--", "python3", "-B", "-c"];

/// The check: the runner's own text, so that it is out of the agent's reach.
fn check() -> Vec<&'static str> {
    let mut words = CHECK.to_vec();
    words.push(RUNNER);
    words
}

/// **Invariant:** A weakened verifier never makes a heal.
#[test]
fn a_deleted_skipped_or_loosened_test_is_masked_undone_and_shown() {
    for (agent, shown) in [
        ("printf 'def test_adds_nothing():\\n    pass\\n' > test_add.py", "test_add.py"),
        ("sed -i 's/== 5/is not None/' test_add.py", "test_add.py"),
        ("rm test_add.py; printf 'def test_x():\\n    pass\\n' > test_add.py", "test_add.py"),
    ] {
        let ward = ward(agent);
        let visit = ward.heal(&check());
        visit.expect(3, &["masked", "that judge it were weakened", shown]);
        assert_eq!(ward.read("test_add.py"), TEST, "{agent}: the tests are back");
        assert_eq!(ward.read("add.py"), BROKEN);
        let memory = ward.salve(&["--json", "memory", "list"]);
        assert!(!memory.contains("\"proven\":1"), "{memory}");
    }
}

#[test]
fn an_honest_repair_that_adds_a_test_is_proven() {
    let agent = format!(
        "printf '{}' > add.py; printf '\\n\\ndef test_more():\\n    assert __import__(\"add\").add(1, 1) == 2\\n' >> test_add.py",
        MENDED.replace('\n', "\\n")
    );
    let ward = ward(&agent);
    ward.heal(&check()).expect(0, &["healed", "proven"]);
    assert_eq!(ward.read("add.py"), MENDED);
    assert!(ward.read("test_add.py").contains("test_more"), "an added test stays");
}

#[test]
fn a_weakening_that_a_repair_did_not_need_is_put_back() {
    let agent = format!(
        "printf '{}' > add.py; sed -i 's/== 5/is not None/' test_add.py",
        MENDED.replace('\n', "\\n")
    );
    let ward = ward(&agent);
    ward.heal(&check()).expect(0, &["proven", "that was not needed, and is left out"]);
    assert_eq!(ward.read("add.py"), MENDED, "the repair stays");
    assert_eq!(ward.read("test_add.py"), TEST, "the test is as it was");
}

/// **Invariant:** A changed verifier is not trusted where its old form cannot be run.
#[test]
fn where_the_verifier_as_it_was_cannot_be_run_a_changed_one_is_not_trusted() {
    let weakened = "sed -i 's/== 5/is not None/' test_add.py".to_owned();
    let honest = format!("printf '{}' > add.py", MENDED.replace('\n', "\\n"));
    for (agent, code, said) in [(weakened, 3, "masked"), (honest, 0, "proven")] {
        let ward = ward(&agent);
        // No state can be laid out beside the tree.
        let nowhere = ward.project.home().join("nowhere");
        std::fs::write(&nowhere, "").unwrap();
        let mut heal = ward.command(&check());
        heal.env("XDG_CACHE_HOME", nowhere);
        Visit::of(&heal.output().unwrap()).expect(code, &[said]);
        assert_eq!(ward.read("test_add.py"), TEST, "{agent}: no weakened test stays");
    }
}

/// **Invariant:** What is green by chance is not credited.
#[test]
fn what_passes_and_fails_at_random_is_not_credited_to_whoever_was_lucky() {
    // Each run of what was repaired takes the next letter of a row that no agent has a hand in.
    let check = |row: &str| {
        format!(
            "[ \"$(cat sum.txt)\" = 4 ] && {{ echo 'Error: the answer was late'; exit 1; }}; \
             n=$(cat \"$HOME/runs\" 2>/dev/null || echo 0); echo $((n + 1)) > \"$HOME/runs\"; \
             if [ \"$(printf %s {row} | cut -c$((n + 1)))\" = g ]; then echo ok; else \
             echo 'Error: the answer was late'; exit 1; fi"
        )
    };
    // Green where the user works, as it was in the layer, and then one of the confirming runs is red.
    for row in ["gr", "ggr", "gggr"] {
        let ward = Ward::new().agent("printf 5 > sum.txt");
        let check = check(row);
        let visit = ward.heal(&["--", "sh", "-c", &check]);
        visit.expect(
            3,
            &["flaky", "the repaired state passed, then failed", "nothing of the change stays"],
        );
        assert_eq!(ward.read("sum.txt"), "4", "{row}: what does not hold does not stay");
        let memory = ward.salve(&["--json", "memory", "list"]);
        assert!(!memory.contains("\"proven\":1"), "{row}: {memory}");
        assert_eq!(
            std::fs::read_to_string(ward.project.home().join("runs")).unwrap().trim(),
            row.len().to_string(),
            "no more runs than it took to see it"
        );
    }
    let ward = Ward::new().agent("printf 5 > sum.txt");
    let check = check("gggg");
    ward.heal(&["--", "sh", "-c", &check]).expect(0, &["proven"]);
}

/// Gives a project a file that git ignores and that is too large to be copied; it takes no room.
fn give_data(ward: &Ward) {
    ward.project.write(".gitignore", "data/\n");
    ward.project.write("data/made.txt", "data\n");
    let big = std::fs::File::create(ward.project.dir().join("data/big.bin")).unwrap();
    big.set_len(300 << 20).unwrap();
}

/// **Invariant:** A copy of the files that lacks some of them speaks against no repair, and is named.
#[test]
fn what_is_too_large_to_be_copied_is_named_where_the_copy_failed_for_it() {
    let needs = "test -e data/big.bin || { echo 'Error: there is no data'; exit 1; }; ";
    let ward = Ward::new();
    give_data(&ward);
    ward.project
        .write("salve.toml", "[recovery]\nauto_approve = [\"touch cured\"]\nrequire_human = []\n");
    let check = format!("{needs}test -e cured || {{ echo 'Error: boom in module x'; exit 1; }}\n");
    ward.project.write("cured.sh", check);
    let failure = b"Error: boom in module x\n";
    let learned =
        ward.project.run_with_input(&["memory", "learn", "--command", "touch cured"], failure);
    assert!(learned.status.success(), "{learned:?}");
    let said = ["fails too, but in another way: the copy beside your files lacks data (too much"];
    ward.heal(&["--", "sh", "cured.sh"]).expect(0, &said);

    let agent = "printf 'def add(a, b):\\n    return a + b\\n' > add.py; \
                 printf '\\n\\ndef test_none():\\n    assert add.add(0, 0) == 0\\n' >> test_add.py";
    let ward = self::ward(agent);
    give_data(&ward);
    let check = format!("{needs}exec python3 -B run.py");
    ward.project.write("run.py", RUNNER);
    let visit = ward.heal(&["--", "sh", "-c", &check]);
    visit.expect(3, &["could not be run as it was before: the copy beside your files lacks data"]);
    assert_eq!(ward.read("test_add.py"), TEST, "what nobody could judge is a person's");
}
