//! Keys in a terminal, while `salve dev` runs.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use pty_process::blocking::Pty;

use crate::bench::signal;
use crate::support::{Project, dev, is_alive, wait_for};

/// A command in a terminal of its own.
pub(crate) struct Terminal {
    salve: Child,
    pty: Pty,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn open(project: &Project, env: &[(&str, &str)]) -> Self {
        let mut command = dev(project, &["--", "sh", "app.sh"]);
        command.envs(env.iter().copied());
        Self::of(command)
    }

    /// Opens a terminal of 60 columns for a command.
    pub(crate) fn of(command: Command) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(40, 60)).unwrap();
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
    pub(crate) fn until(&self, words: &str) {
        wait_for(words, || self.screen.lock().unwrap().contains(words));
    }

    pub(crate) fn press(&mut self, key: &str) {
        self.pty.write_all(key.as_bytes()).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Ok(None) = self.salve.try_wait() {
            signal("TERM", self.salve.id());
            // A shell at a terminal ends by nothing less.
            signal("HUP", self.salve.id());
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
fn what_an_agent_says_is_shown_while_it_works_and_afterwards() {
    let project = Project::new();
    project.write("app.sh", "echo 'TypeError: total is not defined' >&2; exit 1\n");
    let settings = "[agent]\nrepair = true\nautostart = true\nengage_timeout_ms = 1\n\
                    runtime = \"command\"\ncommand = [\"sh\", \"agent.sh\"]\n";
    project.write("salve.toml", settings);
    let agent = "cat > /dev/null; echo 'I define the total'; echo 'as Kim wants' >&2\n\
                 while [ ! -e ../go ]; do sleep 0.05; done\n\
                 echo 'exec sleep 300' > app.sh\n";
    project.write("agent.sh", agent);
    let mut terminal = Terminal::open(&project, &[]);
    terminal.until("salve logs --agent -f");
    // The line that shows that it goes on has its last words.
    wait_for("its last words", || {
        let screen = terminal.screen.lock().unwrap();
        screen.contains(" s · as Kim wants") || screen.contains(" s · I define the total")
    });
    terminal.press("l");
    terminal.until("▲ salve  log ");
    terminal.until("I define the total");
    std::fs::write(project.dir().join("../go"), "").unwrap();
    terminal.until("healed");
    let said = project.run(&["logs", "--agent"]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("\nI define the total\n") && said.contains("as Kim wants"), "{said}");
    terminal.press("l");
    terminal.until("total is not defined");
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

#[test]
fn a_red_check_that_nothing_heals_returns_in_a_terminal_too() {
    let project = Project::new();
    project.write("check.sh", "echo 'AssertionError: expected 3, found 4' >&2; exit 1\n");
    let mut terminal = Terminal::of(project.command(&["heal", "--", "sh", "check.sh"]));
    wait_for("its end", || terminal.salve.try_wait().unwrap().is_some());
    assert_eq!(terminal.salve.wait().unwrap().code(), Some(3));
    let screen = terminal.screen.lock().unwrap().clone();
    assert!(screen.contains("needs you") && screen.contains("salve show heal-"), "{screen}");
    // Nothing is left that a yes could do.
    assert!(!screen.contains("[a]") && !screen.contains("salve approve"), "{screen}");
}

#[test]
fn a_remedy_for_a_check_is_decided_by_a_key_where_it_is_asked() {
    let project = Project::new();
    project.write("salve.toml", "[recovery]\nrequire_human = [\"touch cured\"]\n");
    project
        .write("check.sh", "[ -e cured ] || { echo 'Error: the index is stale' >&2; exit 1; }\n");
    let taught = ["memory", "learn", "--command", "touch cured", "Error: the index is stale"];
    assert!(project.run(&taught).status.success());
    let mut terminal = Terminal::of(project.command(&["heal", "--", "sh", "check.sh"]));
    terminal.until("[a] run it once and verify");
    assert!(!project.dir().join("cured").exists());
    terminal.press("a");
    terminal.until("healed");
    wait_for("its end", || terminal.salve.try_wait().unwrap().is_some());
    assert_eq!(terminal.salve.wait().unwrap().code(), Some(0));
}

#[test]
fn a_story_fits_the_window_in_which_it_is_told() {
    let project = Project::new();
    let long = "AssertionError: the total of all orders in the basket should be 160 but it is 180";
    let check = format!("echo '{long}' >&2; exit 1");
    assert_eq!(project.run(&["heal", "--", "sh", "-c", &check]).status.code(), Some(3));
    for told in ["show", "events", "incidents", "status"] {
        let mut terminal = Terminal::of(project.command(&[told]));
        wait_for("its end", || terminal.salve.try_wait().unwrap().is_some());
        wait_for("its words", || !terminal.screen.lock().unwrap().is_empty());
        let screen = anstream::adapter::strip_str(&terminal.screen.lock().unwrap()).to_string();
        let is_long = |line: &str| line.chars().count() > 60 && !line.trim().contains("://");
        let long: Vec<&str> = screen.lines().filter(|line| is_long(line)).collect();
        assert!(long.is_empty(), "{told}: {long:?}");
    }
}

#[test]
fn what_runs_tidies_up_after_ctrl_c_until_another_one_ends_it() {
    let runs = [("heal", false), ("heal", true), ("dev", false), ("dev", true)];
    for (command, is_pressed_again) in runs {
        let project = Project::new();
        let tidy = "tidy() { echo INT >> heard; while [ ! -e go ]; do sleep 0.05; done; \
                    touch cleaned; exit 130; }\ntrap tidy INT\n\
                    echo $$ > pids; while :; do sleep 0.05; done\n";
        project.write("check.sh", tidy);
        let mut terminal = Terminal::of(project.command(&[command, "--", "sh", "check.sh"]));
        wait_for("what it runs", || !pids(&project).is_empty());
        terminal.press("\x03");
        terminal.until("still tidies up");
        assert!(is_alive(pids(&project)[0]));
        if is_pressed_again {
            terminal.press("\x03");
        } else {
            project.write("go", "");
        }
        wait_for("its end", || terminal.salve.try_wait().unwrap().is_some());
        assert_eq!(terminal.salve.wait().unwrap().code(), Some(130));
        assert_eq!(project.dir().join("cleaned").exists(), !is_pressed_again);
        assert_eq!(std::fs::read_to_string(project.dir().join("heard")).unwrap(), "INT\n");
        assert!(!is_alive(pids(&project)[0]));
    }
}
