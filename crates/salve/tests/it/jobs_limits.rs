//! What a step may take and who says so, how its failures are classed, and what a person sees.

use std::io::Read as _;
use std::process::Stdio;

use crate::jobs::Works;
use crate::support::wait_for;

#[test]
fn budgets_below_one_are_refused_wherever_they_are_set() {
    let works = Works::new();
    let budgets = [
        ("step_max_attempts", "attempts"),
        ("step_timeout_seconds", "wall_seconds"),
        ("step_idle_timeout_seconds", "idle_seconds"),
        ("step_no_progress_limit", "no_progress"),
    ];
    for (setting, limit) in budgets {
        let set = format!("job.{setting}=0");
        assert_eq!(works.salve(&["--set", &set, "run", "--", "true"]).code, Some(2), "{set}");
        let variable = setting.to_ascii_uppercase();
        let output = works.command(&["run", "--", "true"]).env(&variable, "0").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{variable}");
        for job in [
            format!("[job]\nlimits = {{ {limit} = 0 }}\n[[steps]]\ncommand = \"true\"\n"),
            format!("[[steps]]\ncommand = \"true\"\nlimits = {{ {limit} = 0 }}\n"),
        ] {
            works.project.write("job.toml", &job);
            let visit = works.salve(&["run", "job.toml"]);
            assert_eq!(visit.code, Some(2), "{job}: {}", visit.said);
            let said = "steps.step-1: a limit is at least 1";
            assert!(visit.said.contains(said), "{job}: {}", visit.said);
        }
    }
    let set = "job.job_self_heal_max_resets=0";
    assert_eq!(works.salve(&["--set", set, "run", "--", "true"]).code, Some(2));
    works.project.write("job.toml", "[job]\nmax_resets = 0\n[[steps]]\ncommand = \"true\"\n");
    assert_eq!(works.salve(&["run", "job.toml"]).code, Some(2));
    for option in ["--attempts", "--wall", "--idle"] {
        assert_eq!(works.salve(&["run", option, "0", "--", "true"]).code, Some(2), "{option}");
    }
    assert!(works.runs().is_empty(), "nothing was begun");
}

#[test]
fn a_steps_own_limit_holds_before_the_jobs_the_environments_and_the_settings() {
    let attempts = |job: &str, step: &str, variable: Option<&str>| {
        let works = Works::new();
        works
            .project
            .write("salve.toml", "[job]\nstep_max_attempts = 5\nstep_no_progress_limit = 9\n");
        let command = format!("{}; exit 3", works.trace("x"));
        works.project.write(
            "job.toml",
            format!("[job]\n{job}\n[[steps]]\ncommand = '''{command}'''\n{step}\n"),
        );
        let mut salve = works.command(&["run", "job.toml"]);
        if let Some(value) = variable {
            salve.env("STEP_MAX_ATTEMPTS", value);
        }
        assert_eq!(salve.output().unwrap().status.code(), Some(1));
        works.traces().len()
    };
    let (job, step) = ("limits = { attempts = 3 }", "limits = { attempts = 2 }");
    assert_eq!(attempts(job, step, Some("4")), 2);
    assert_eq!(attempts(job, "", Some("4")), 3);
    assert_eq!(attempts("", "", Some("4")), 4);
    assert_eq!(attempts("", "", None), 5);
}

#[test]
fn the_settings_rules_say_what_kind_a_failure_is_after_the_jobs_own() {
    let rule = |class: &str| {
        format!("[[job.failure_rules]]\ncontains = \"licence\"\nclass = \"{class}\"\n")
    };
    let step = "[[steps]]\ncommand = \"echo 'Error: no LICENCE server'; exit 1\"\n";
    let works = Works::new();
    works.project.write("salve.toml", rule("deterministic_policy"));
    works.project.write("job.toml", step);
    let visit = works.salve(&["run", "job.toml"]);
    assert_eq!(visit.code, Some(3), "{}", visit.said);
    works.project.write("own.toml", rule("deterministic_contract") + step);
    let visit = works.salve(&["run", "own.toml"]);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    works.project.write("salve.toml", rule("now_and_then"));
    let visit = works.salve(&["run", "job.toml"]);
    assert_eq!(visit.code, Some(2), "{}", visit.said);
    assert!(visit.said.contains("failure_rules"), "{}", visit.said);
}

#[test]
fn a_step_without_quota_is_parked_until_the_stated_time_and_counts_no_attempt() {
    let works = Works::new();
    works.project.write(
        "../agent.sh",
        format!(
            "cat > /dev/null; {}; [ $(wc -l < '{}/trace') = 1 ] && {{\n\
             echo '{{\"type\":\"error\",\"text\":\"rate limit reached, try again in 2 seconds\"}}'; exit 1; }}\n\
             echo x > made\n",
            works.trace("x"),
            works.out().display()
        ),
    );
    let agent = works.project.dir().canonicalize().unwrap().join("../agent.sh");
    works.project.write(
        "job.toml",
        format!(
            "[[steps]]\nid = \"one\"\ninstruction = \"Do it.\"\nruntime = \"sh '{}'\"\n\
             limits = {{ attempts = 1 }}\n",
            agent.display()
        ),
    );
    let visit = works.salve(&["run", "job.toml"]);
    assert_eq!(visit.code, Some(0), "{}", visit.said);
    assert!(visit.said.contains("parked"), "{}", visit.said);
    assert_eq!(works.traces().len(), 2);
    let log = works.file("events.jsonl");
    let events: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find =
        |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    let parked = find("task.step.parked");
    let time =
        |value: &serde_json::Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let until = time(&parked[0]["until"]);
    let waited = until.duration_since(time(&parked[0]["at"]));
    assert!(waited.as_secs() <= 2, "the time that was said: {waited}");
    let begun = find("task.step.attempt.started");
    assert!(time(&begun[1]["at"]) >= until, "not before that time");
    assert_eq!(begun[1]["attempt"], 1, "it was no attempt");
}

#[test]
fn a_signal_parks_a_job_and_its_end_says_how_it_came_out() {
    let works = Works::new();
    let gate = works.project.dir().canonicalize().unwrap().join("../open");
    let wait = format!(
        "{}; while ! test -e '{}'; do sleep 0.05; done; echo 2 >> a.txt",
        works.trace("x"),
        gate.display()
    );
    let mut child = works.start(&["run", "--step", "echo 1 >> a.txt", "--step", &wait]);
    wait_for("the second step", || works.traces().len() == 1);
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(works.json("state.json")["status"], "stopped");
    let (id, _) = works.run();
    std::fs::write(&gate, "").unwrap();
    assert_eq!(works.salve(&["resume", &id]).code, Some(0));
    let left = std::fs::read_to_string(works.workspace().join("a.txt")).unwrap();
    assert_eq!(left, "one\n1\n2\n", "what was done is not done again");
}

#[test]
fn a_person_at_a_terminal_sees_step_attempt_timers_cost_and_what_was_said() {
    let works = Works::new();
    works.project.write(
        "../agent.sh",
        format!(
            "cat > /dev/null; echo '{{\"type\":\"spent\",\"tokens\":1200,\"cost_usd\":0.01}}'\n\
             echo 'writes the plan'; while ! test -e '{}/open'; do sleep 0.05; done; echo x > made\n",
            works.out().display()
        ),
    );
    let agent = works.project.dir().canonicalize().unwrap().join("../agent.sh");
    works.project.write(
        "job.toml",
        format!(
            "[[steps]]\nid = \"first\"\ncommand = \"echo hello\"\n\
             [[steps]]\nid = \"plan\"\ninstruction = \"Do it.\"\nruntime = \"sh '{}'\"\n",
            agent.display()
        ),
    );
    let (pty, pts) = pty_process::blocking::open().unwrap();
    pty.resize(pty_process::Size::new(24, 120)).unwrap();
    let command = works.command(&["run", "job.toml"]);
    let mut child = pty_process::blocking::Command::from(command).spawn(pts).unwrap();
    let mut reader = {
        use std::os::fd::AsFd as _;
        std::fs::File::from(pty.as_fd().try_clone_to_owned().unwrap())
    };
    let screen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let seen = screen.clone();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = reader.read(&mut bytes) {
            seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    });
    let has = |words: &str| screen.lock().unwrap().contains(words);
    wait_for("the live line", || {
        has("step 2/2 plan · attempt 1/3 · 0:0") && has("1200 tokens, $0.01 · writes the plan")
    });
    works.project.write("../open", "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    wait_for("the end", || has("completed"));
    assert!(has(" of 15:00"), "the wall timer: {}", screen.lock().unwrap());
    // Elsewhere there are plain lines and nothing is drawn.
    let output = works.command(&["run", "--", "echo", "hello"]).stderr(Stdio::piped()).output();
    let text = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(text.contains("step") && !text.contains('\x1b') && !text.contains('\r'), "{text:?}");
}

#[test]
fn an_agent_that_falls_silent_is_warned_of_before_its_timer_ends_it() {
    let works = Works::new();
    let agent = works.out().join("agent.sh");
    works.project.write("../agent.sh", "cat > /dev/null; echo begun; sleep 600\n");
    works.project.write(
        "job.toml",
        format!(
            "[[steps]]\nid = \"one\"\ninstruction = \"Do it.\"\nruntime = \"sh '{}'\"\n\
             limits = {{ attempts = 1, idle_seconds = 2 }}\n",
            agent.display()
        ),
    );
    let visit = works.salve(&["run", "job.toml"]);
    assert_eq!(visit.code, Some(1), "{}", visit.said);
    assert!(visit.said.contains("it showed no sign of work"), "{}", visit.said);
    let names = works.events();
    let warned = names.iter().position(|name| name == "task.step.timeout.warning");
    let failed = names.iter().position(|name| name == "task.step.attempt.failed");
    assert!(warned.is_some() && warned < failed, "{names:?}");
}
