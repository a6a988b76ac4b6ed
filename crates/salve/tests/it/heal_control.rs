//! `CONTROL.md`: a word that a person writes there acts on every healing in the project.

use std::process::{Child, Stdio};

use crate::heal::{Visit, Ward};
use crate::support::{Project, dev, wait_for};

/// An agent that says that it began, and waits until it may go on.
const SLOW: &str = "touch ../began; while [ ! -e ../go ]; do sleep 0.05; done; printf 5 > sum.txt";

impl Ward {
    fn start(&self) -> Healing {
        let mut command = self.command(&[]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Healing(Some(command.spawn().unwrap()))
    }

    fn control(&self, text: &str) {
        self.project.write(".salve/CONTROL.md", text);
    }

    #[track_caller]
    fn await_file(&self, path: &str) {
        wait_for(path, || self.project.dir().join(path).exists());
    }

    /// Waits until the journal has an order.
    #[track_caller]
    fn await_order(&self, order: &str) {
        wait_for(order, || self.is_ordered(order));
    }

    /// Waits until Salve has let go of what it held for the agent.
    #[track_caller]
    fn await_agents_end(&self) {
        wait_for("the agent's end", || {
            self.salve(&["--json", "events", "--kind", "config_released"])
                .contains("config_released")
        });
    }

    fn is_ordered(&self, order: &str) -> bool {
        let want = format!("\"order\":\"{order}\"");
        self.salve(&["--json", "events", "--kind", "ordered"]).contains(&want)
    }
}

/// A `salve heal` under way, which does not outlive its test.
struct Healing(Option<Child>);

impl Healing {
    /// Waits for its end.
    fn end(mut self) -> Visit {
        let child = self.0.take().unwrap();
        Visit::of(&child.wait_with_output().unwrap())
    }
}

impl Drop for Healing {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_pause_holds_what_comes_until_it_is_resumed() {
    let ward = Ward::new().agent("touch ../began; printf 5 > sum.txt");
    ward.control("# Notes of mine\n\nPAUSE\nSTATUS\n");
    // Nobody is there who could resume it.
    let held = ["healing is paused by ada", "write RESUME to .salve/CONTROL.md"];
    ward.heal(&[]).expect(3, &held);
    ward.heal(&[]).expect(3, &held);
    assert!(!ward.project.dir().join("../began").exists(), "an agent worked in a pause");
    let text = ward.read(".salve/CONTROL.md");
    assert!(text.starts_with("# Notes of mine\n\nPAUSE\nSTATUS\n> 2"), "{text}");
    assert!(text.contains("\n> paused by ada\n"), "{text}");
    let status = ward.salve(&["status"]);
    assert!(status.contains("paused by ada; RESUME in"), "{status}");
    assert!(status.contains("  paused     sh check.sh"), "{status}");
    ward.control("RESUME\n");
    ward.heal(&[]).expect(0, &["healed"]);
    assert_eq!(ward.read("sum.txt"), "5");
    ward.assert_users_work_is_intact();
    assert!(!ward.salve(&["status"]).contains("paused"));
    // The word was taken: it holds nothing the next time.
    ward.project.write("sum.txt", "4");
    ward.heal(&[]).expect(0, &["healed"]);
}

#[test]
fn a_pause_in_the_midst_is_waited_out_for_a_while() {
    let ward = Ward::new()
        .agent(&format!("{SLOW}; printf 6 > sum.txt; [ ! -e ../well ] || printf 5 > sum.txt"));
    let healing = ward.start();
    ward.await_file("../began");
    ward.control("PAUSE\n");
    ward.await_order("pause");
    ward.project.write("../go", "");
    // A word that is written while the agent still works would not be taken for a person's.
    ward.await_agents_end();
    wait_for("the pause", || ward.salve(&["status"]).contains("  paused     sh check.sh"));
    ward.project.write("../well", "");
    // A word that is still taken for the agent's is saved once more, as its writer is told to.
    wait_for("the person's word", || {
        ward.control("PAUSE\nRESUME\n");
        ward.is_ordered("resume")
    });
    healing.end().expect(0, &["paused    by somebody", "resumed", "healed"]);
}

#[test]
fn an_abort_ends_the_agent_and_undoes_what_it_did() {
    let ward = Ward::new().agent(&format!("printf 7 > sum.txt; {SLOW}"));
    let healing = ward.start();
    ward.await_file("../began");
    ward.control("ABORT\n");
    healing.end().expect(1, &["called off"]);
    assert_eq!(ward.read("sum.txt"), "4", "what was unproven is undone");
    ward.assert_users_work_is_intact();
    // An old word does not act again.
    ward.project.write("../go", "");
    ward.heal(&[]).expect(0, &["healed"]);
}

#[test]
fn escalate_asks_a_person_and_a_wrong_word_is_told() {
    let ward = Ward::new().agent(SLOW);
    let healing = ward.start();
    ward.await_file("../began");
    ward.control("STOP\n");
    ward.control("STOP\nESCALATE\n");
    healing
        .end()
        .expect(3, &["CONTROL.md:1: `STOP` is none of its words", "A person wanted to be asked"]);
    assert_eq!(ward.read(".salve/CONTROL.md"), "STOP\nESCALATE\n", "the file is the person's");
}

/// **Invariant:** An agent cannot resume healing by a file.
#[test]
fn an_agent_cannot_resume_by_the_file() {
    let ward = Ward::new().agent(
        "touch ../began; while [ ! -e ../go ]; do sleep 0.05; done; \
         echo RESUME > .salve/CONTROL.md; touch ../wrote; \
         while [ ! -e ../end ]; do sleep 0.05; done; printf 6 > sum.txt",
    );
    let healing = ward.start();
    ward.await_file("../began");
    ward.control("PAUSE\n");
    ward.await_order("pause");
    ward.project.write("../go", "");
    ward.await_file("../wrote");
    assert!(!ward.read(".salve/CONTROL.md").contains("RESUME"), "it is in its layer only");
    ward.project.write("../end", "");
    ward.await_agents_end();
    assert!(!ward.is_ordered("resume"), "an agent's word was taken");
    wait_for("the person's word", || {
        ward.control("RESUME\n\n");
        ward.is_ordered("resume")
    });
    healing.end();
}

#[test]
fn a_pause_holds_the_repair_of_a_server_too() {
    let project = Project::new();
    project
        .write("app.sh", "touch ran; [ -e mended ] && exec sleep 300; echo 'Error: odd'; exit 1");
    project.write(".salve/CONTROL.md", "PAUSE\n");
    let mut command = dev(&project, &["--", "sh", "app.sh"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("SALVE_USER", "ada");
    let healing = Healing(Some(command.spawn().unwrap()));
    let events = |kind: &str| {
        let out = project.run(&["--json", "events", "--kind", kind]).stdout;
        String::from_utf8(out).unwrap().lines().count()
    };
    wait_for("the incident", || events("opened") == 1);
    // The order to the project, and to the incident that opened.
    wait_for("the pause", || events("ordered") == 2);
    assert_eq!(events("requested"), 0, "it was restarted in a pause");
    project.write("mended", "");
    project.write(".salve/CONTROL.md", "RESUME\n");
    wait_for("the restart", || events("server_up") == 1 || events("ended") == 1);
    assert!(events("requested") > 0);
    drop(healing);
}

/// **Invariant:** no file of words keeps Salve busy.
#[test]
fn a_control_file_with_thousands_of_words_is_not_heeded() {
    let ward = Ward::new();
    ward.project.write("sum.txt", "5");
    ward.control(&"RESUME\nPAUSE\n".repeat(3_000));
    ward.heal(&[]).expect(0, &["a list of more than 64 new words", "green"]);
    assert!(!ward.is_ordered("pause"));
}
