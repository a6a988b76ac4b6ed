//! Keys in a terminal, while `salve dev` runs.

use std::io::{Read as _, Write as _};
use std::process::Child;
use std::sync::{Arc, Mutex};

use pty_process::blocking::Pty;

use crate::bench::signal;
use crate::support::{Project, dev, wait_for};

/// `salve dev` in a terminal of its own.
struct Terminal {
    salve: Child,
    pty: Pty,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn open(project: &Project, env: &[(&str, &str)]) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        let mut command = dev(project, &["--", "sh", "app.sh"]);
        command.envs(env.iter().copied());
        let command = pty_process::blocking::Command::from(command);
        let salve = command.spawn(pts).unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let (seen, mut reader) = (screen.clone(), std::fs::File::from(dup(&pty)));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { salve, pty, screen }
    }

    #[track_caller]
    fn until(&self, words: &str) {
        wait_for(words, || self.screen.lock().unwrap().contains(words));
    }

    fn press(&mut self, key: &str) {
        self.pty.write_all(key.as_bytes()).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Ok(None) = self.salve.try_wait() {
            signal("TERM", self.salve.id());
            let _ = self.salve.wait();
        }
    }
}

fn dup(pty: &Pty) -> std::os::fd::OwnedFd {
    use std::os::fd::AsFd as _;
    pty.as_fd().try_clone_to_owned().unwrap()
}

fn pids(project: &Project) -> Vec<u32> {
    let text = std::fs::read_to_string(project.dir().join("pids")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[test]
fn healing_is_paused_and_goes_on_by_a_key() {
    let project = Project::new();
    project.write("app.sh", "echo $$ >> pids; exec sleep 300\n");
    let mut terminal = Terminal::open(&project, &[]);
    wait_for("a server", || !pids(&project).is_empty());
    terminal.press("?");
    terminal.until("a approve");
    terminal.press("a");
    terminal.until("nothing is asked");
    terminal.press("p");
    terminal.until("healing is paused");
    signal("KILL", pids(&project)[0]);
    terminal.until("crashed");
    terminal.press("l");
    terminal.until("signal SIGKILL");
    let events = || String::from_utf8_lossy(&project.run(&["events"]).stdout).into_owned();
    assert!(!events().contains("verify"), "{}", events());
    terminal.press("p");
    terminal.until("healed");
    assert_eq!(pids(&project).len(), 2);
}

#[test]
fn a_question_is_answered_by_a_key() {
    let project = Project::new();
    project.write("app.sh", "echo 'Error: no luck' >&2; exit 1\n");
    let env = [("REPAIR_MAX_ATTEMPTS", "1"), ("REPAIR_COOLDOWN_MS", "0")];
    let mut terminal = Terminal::open(&project, &env);
    terminal.until("exhausted");
    wait_for("a question", || {
        let asked = project.run(&["events", "--json", "--kind", "requested"]);
        String::from_utf8_lossy(&asked.stdout).contains("\"ask\"")
    });
    terminal.press("r");
    terminal.until("rejected");
    assert!(terminal.salve.wait().unwrap().code().is_some());
}

#[test]
fn the_key_a_starts_a_server_that_waits_and_says_what_keys_there_are() {
    let project = Project::new();
    project.write(
        "app.sh",
        "echo $$ >> pids; [ -e ../go ] && exec sleep 300; echo 'Error: no luck' >&2; exit 1\n",
    );
    let mut terminal = Terminal::open(&project, &[("REPAIR_MAX_ATTEMPTS", "1")]);
    terminal.until("[a] try again");
    let starts = pids(&project).len();
    std::fs::write(project.dir().join("../go"), "").unwrap();
    terminal.press("a");
    wait_for("a start", || pids(&project).len() > starts);
    let over = || project.run(&["events", "--json", "--kind", "ended"]).stdout;
    wait_for("its end", || !over().is_empty());
    let screen = terminal.screen.lock().unwrap().clone();
    assert!(!screen.contains("Manual intervention"), "{screen}");
}

#[test]
fn a_server_that_reads_keys_has_them_first() {
    let project = Project::new();
    let script = "test -t 0 && echo 'keys are read'; \
                  while read line; do echo \"$line\" >> typed.txt; done\n";
    project.write("app.sh", script);
    let mut terminal = Terminal::open(&project, &[]);
    terminal.until("keys are read");
    // Until it waits for them, keys are Salve's.
    wait_for("what was typed", || {
        terminal.press("rs\n");
        let typed = std::fs::read_to_string(project.dir().join("typed.txt")).unwrap_or_default();
        typed.lines().any(|line| line == "rs")
    });
    assert!(!terminal.screen.lock().unwrap().contains("rejected"));
}
