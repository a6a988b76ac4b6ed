//! What a command has for itself alone: its processes, and what it writes only to throw it away.

use super::*;

/// **Invariant:** What managers run as code elsewhere is not changed by a command, though it may use it.
#[test]
fn what_managers_run_elsewhere_is_thrown_away_with_the_command() {
    let _alone = alone();
    let stage = Stage::new();
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    let named = "npm mvn gradle bundle uv corepack cargo";
    let places = [
        ".npm/_npx/salve-attack",
        ".npm/_prebuilds/salve-attack",
        ".m2/salve-attack.xml",
        ".gradle/init.d/salve-attack.gradle",
        ".bundle/salve-attack",
        ".local/share/uv/tools/salve-attack",
        ".cache/node/corepack/salve-attack",
        ".cache/pip/wheels/salve-attack",
        ".cache/salve-attack",
        ".cargo/registry/src/salve-attack",
    ];
    for place in places {
        let script = format!(
            ": {named}; mkdir -p $(dirname ~/{place}) && echo x > ~/{place} && cat ~/{place}"
        );
        let (exit, output) = stage.run(&script);
        assert_eq!(exit, ProcessExit::Code(0), "it can be used: {place}: {output}");
        assert!(!home.join(place).exists(), "{place} is still there");
    }
    for place in [".cargo/config.toml", ".npmrc", ".bashrc", ".cargo/bin/salve-attack"] {
        let (exit, _) = stage.run(&format!(": {named}; : >> ~/{place}"));
        assert_ne!(exit, ProcessExit::Code(0), "{place}");
    }
    let data = ".npm/_cacache/salve-attack-data";
    assert_eq!(stage.run(&format!(": npm; echo x > ~/{data}")).0, ProcessExit::Code(0));
    assert!(home.join(data).exists(), "data of the manager that is named stays");
    fs::remove_file(home.join(data)).unwrap();
    // Not even by the path is the manager named.
    stage.run(&format!(": make; echo x > ~/{}", data.replace(".npm", ".n*m")));
    assert!(!home.join(data).exists(), "and nobody else's");
}

/// **Invariant:** Where a command gets processes of its own, it sees no others and leaves none.
#[test]
fn a_command_sees_its_own_processes_only_and_none_outlives_it() {
    let _alone = alone();
    assert_eq!(Means::here().processes, Processes::Own, "this machine can");
    let stage = Stage::new();
    let script = "echo seen $(ls /proc | grep -c '^[0-9]'); cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n' \
        | grep -c HOME; (echo 1 > /proc/sys/kernel/pid_max) 2>/dev/null; cat /proc/sys/kernel/pid_max; \
        setsid sleep 4321 & setsid sh -c 'sleep 4321 & sleep 4321' &";
    let (exit, output) = stage.run(script);
    assert_eq!(exit, ProcessExit::Code(0), "{output}");
    let lines = said(&output, "seen ");
    assert!(lines[0].parse::<u32>().unwrap() < 8, "{output}");
    assert_eq!(lines[1], "0", "the first process shows nothing of our environment: {output}");
    if inner::knows_own_bound() {
        let bound = lines.iter().filter_map(|line| line.parse::<u64>().ok()).next_back();
        assert_eq!(bound, Some(enter::PROCESSES), "root's are bounded too: {output}");
    }
    let mine = crate::process::tree::descendants(std::process::id());
    let left = mine.iter().filter_map(|stat| crate::process::tree::command_line(stat.pid));
    assert_eq!(left.filter(|line| line.contains("4321")).collect::<Vec<_>>(), [""; 0]);
    let (exit, _) = stage.run("exit 137");
    assert_eq!(exit, ProcessExit::Code(137), "a code that looks like a signal is a code");
    let (exit, _) = stage.run("kill -9 $$");
    assert_eq!(exit, ProcessExit::Signal(9));
    let (exit, _) = stage.run("kill -9 1; kill -9 -1; echo $?");
    assert_eq!(exit, ProcessExit::Code(0), "it ends nobody but its own");
}

/// **Invariant:** What installs ends with Salve, whatever is killed.
#[test]
fn a_command_in_its_own_processes_ends_with_whoever_started_it() {
    let _alone = alone();
    let stage = Stage::new();
    let root = stage.root();
    let script = "trap '' TERM; setsid sleep 1234 & echo $! > pid; while :; do sleep 1; done";
    std::thread::scope(|scope| {
        let run = scope.spawn(|| stage.try_run(script, Duration::from_secs(60)));
        let line = |stat: &crate::process::tree::Stat| {
            crate::process::tree::command_line(stat.pid).unwrap_or_default()
        };
        let me = std::process::id();
        let (outer, sleeper) = loop {
            let all = crate::process::tree::descendants(me);
            let sleeper = all.iter().find(|stat| line(stat) == "sleep 1234").copied();
            if let Some(sleeper) = sleeper
                && root.join("pid").exists()
            {
                let mut outer = sleeper;
                while outer.parent != me {
                    outer = crate::process::tree::stat(outer.parent).unwrap();
                }
                break (outer, sleeper);
            }
            std::thread::yield_now();
        };
        let pid = rustix::process::Pid::from_raw(i32::try_from(outer.pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        assert_eq!(run.join().unwrap().unwrap().exit, ProcessExit::Signal(9));
        // The kernel ends it when it ends the first process of the namespace.
        let deadline = Instant::now() + Duration::from_secs(30);
        while crate::process::tree::is_still(&sleeper) {
            assert!(Instant::now() < deadline, "it is still there");
            std::thread::yield_now();
        }
    });
}

/// **Invariant:** Where there are no namespaces, Landlock alone keeps writes in the project, and what
/// makes git run programs is put back.
#[test]
fn with_landlock_alone_writes_stay_in_the_project_and_gits_programs_are_put_back() {
    let _alone = alone();
    let mut stage = Stage::new();
    let means = Means::here();
    assert_ne!(means.landlock, Landlock::None, "this machine can");
    stage.means = Some(Means { spaces: Spaces::None, processes: Processes::Shared, ..means });
    let root = stage.root();
    fs::create_dir_all(root.join(".git/hooks")).unwrap();
    fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(root.join(".git/config"), "[core]\n").unwrap();
    let outside = stage.dir.path().join("outside");
    let here = outside.display();
    for way in [
        format!("echo x > {here}"),
        format!("mkdir {here}"),
        format!("ln -s {here} link; echo x > link"),
        "echo x > ~/.salve-landlock".to_owned(),
        "mv .git/HEAD ../HEAD".to_owned(),
    ] {
        let (exit, output) = stage.run(&way);
        assert_ne!(exit, ProcessExit::Code(0), "{way}: {output}");
        assert!(!outside.exists() && !stage.dir.path().join("HEAD").exists(), "{way}");
    }
    let (exit, output) =
        stage.run("mkdir -p node_modules && echo x > node_modules/x && echo x > $TMPDIR/x");
    assert_eq!(exit, ProcessExit::Code(0), "{output}");
    let plant =
        "echo 'true' > .git/hooks/post-checkout; echo '[core] fsmonitor = x' >> .git/config";
    let ran = stage.try_run(plant, Duration::from_secs(120)).unwrap();
    let Some(Breach::Wrote(mut wrote)) = ran.breach else { panic!("{ran:?}") };
    wrote.sort();
    assert_eq!(wrote, [".git/config", ".git/hooks"]);
    assert_eq!(fs::read_to_string(root.join(".git/config")).unwrap(), "[core]\n");
    assert!(!root.join(".git/hooks/post-checkout").exists());
}
