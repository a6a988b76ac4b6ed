//! `cargo xtask chaos jobs`: jobs whose processes are killed at random instants, again and again.
//!
//! A job of commands and scripted agents runs undisturbed once. Then it runs with `salve`, its worker,
//! or both killed by SIGKILL after a random time, and is resumed, until it is done. Every step must be
//! done exactly once, and the workspace must be the undisturbed one, byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What came of a soak.
pub(crate) type ChaosResult = Result<(), Box<dyn std::error::Error>>;

/// How many steps a job has.
const STEPS: usize = 6;

/// Names the program to kill, where it is not to be built.
const BINARY: &str = "SALVE_CHAOS_BINARY";

/// What the last run of Salve printed.
const SAID: &str = ".said";

/// How long a job may take when nobody kills it.
const LONG: Duration = Duration::from_secs(120);

/// Kills jobs so many times.
pub(crate) fn jobs(kills: &str) -> ChaosResult {
    let kills: u32 = kills.parse().map_err(|_| format!("`{kills}` is no number"))?;
    let home = std::env::temp_dir().join(format!("salve-chaos-{}", std::process::id()));
    let salve = built_salve(&home)?;
    let result = soak(&salve, &home, kills);
    if result.is_ok() {
        fs::remove_dir_all(&home)?;
    }
    result
}

/// Builds Salve, unless one is chosen, and returns the program in `home`.
pub(crate) fn built_salve(home: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    built_with(home, &[])
}

/// Builds Salve with what is added to cargo's arguments, unless one is chosen.
pub(crate) fn built_with(
    home: &Path,
    more: &[&str],
) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let chosen = std::env::var_os(BINARY).map(PathBuf::from);
    if chosen.is_none() {
        let status =
            Command::new("cargo").args(["build", "--quiet", "-p", "salve"]).args(more).status()?;
        if !status.success() {
            return Err("salve could not be built".into());
        }
    }
    fs::create_dir_all(home)?;
    // A copy, so that a build beside the soak does not change what is killed.
    let salve = home.join("salve");
    let built = chosen.unwrap_or_else(|| crate::steps::root().join("target/debug/salve"));
    fs::copy(built, &salve)?;
    Ok(salve)
}

fn soak(salve: &Path, home: &Path, kills: u32) -> ChaosResult {
    let calm = Bench::new(salve, &home.join("calm"))?;
    calm.finish(calm.start(&["run", "job.json"])?)?;
    let (mut killed, mut jobs, mut luck) = (0, 0_u32, Luck::new());
    let since = Instant::now();
    while killed < kills {
        jobs += 1;
        let bench = Bench::new(salve, &home.join(format!("job-{jobs}")))?;
        let mut child = bench.start(&["run", "job.json"])?;
        while !bench.is_over_within(&mut child, Duration::from_millis(luck.below(700)))? {
            killed += u32::from(bench.kill(&mut child, luck.below(3))?);
            child = match bench.known_run()? {
                Some(run) => bench.start(&["resume", &run])?,
                // Nothing was begun yet; what is left of it goes with the next one.
                None => bench.start(&["run", "job.json"])?,
            };
        }
        bench.judge(&calm)?;
        fs::remove_dir_all(&bench.dir)?;
        fs::remove_dir_all(bench.state_home())?;
    }
    let seconds = since.elapsed().as_secs();
    let text = format!(
        "{killed} kills over {jobs} jobs of {STEPS} steps in {seconds} s: all as undisturbed\n"
    );
    io::Write::write_all(&mut io::stdout(), text.as_bytes())?;
    Ok(())
}

/// Numbers that look random and are the same every time.
pub(crate) struct Luck(u64);

impl Luck {
    /// Returns the same luck every time.
    pub(crate) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// Returns a number below a limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A project whose job is run.
struct Bench {
    salve: PathBuf,
    dir: PathBuf,
}

impl Bench {
    fn new(salve: &Path, dir: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join("a.txt"), "one\n")?;
        // It works in small pieces, so that a kill falls between them.
        let agent = "cat > /dev/null; name=$(basename \"$SALVE_STEP\"); mkdir -p \"made/$name\"\n\
                     for i in 1 2 3 4 5; do echo \"$i\" >> \"made/$name/parts\"; sleep 0.02; done\n\
                     echo \"$name\" >> log.txt\n";
        fs::write(dir.join("agent.sh"), agent)?;
        let steps: Vec<String> = (0..STEPS)
            .map(|step| match step % 2 {
                0 => format!(
                    "{{\"id\": \"step-{step}\", \"command\": \"for i in 1 2 3; do echo {step} >> a.txt; sleep 0.02; done; rm -f made/*/gone; cp a.txt copy-{step}.txt; ln -sf a.txt link-{step}; chmod 755 copy-{step}.txt\"}}"
                ),
                _ => format!(
                    "{{\"id\": \"step-{step}\", \"instruction\": \"make parts\", \"runtime\": \"sh agent.sh\", \"verify\": {{\"command\": \"test $(wc -l < made/step-{step}/parts) = 5\"}}}}"
                ),
            })
            .collect();
        fs::write(dir.join("job.json"), format!("{{\"steps\": [{}]}}", steps.join(", ")))?;
        let made = Self { salve: salve.to_path_buf(), dir: dir.to_path_buf() };
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "first"]] {
            let settings = ["-c", "user.name=a", "-c", "user.email=a@b"];
            Command::new("git").args(settings).args(args).current_dir(dir).status()?;
        }
        Ok(made)
    }

    fn start(&self, args: &[&str]) -> io::Result<Child> {
        let mut command = Command::new(&self.salve);
        command.args(args).current_dir(&self.dir).env("SALVE_USER", "chaos");
        command.env("XDG_STATE_HOME", self.state_home());
        let said = fs::File::create(self.dir.join(SAID))?;
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said).spawn()
    }

    /// Returns the directory below which the workspaces lie.
    fn state_home(&self) -> PathBuf {
        self.dir.with_extension("state")
    }

    /// Returns the only workspace that is there.
    fn workspace(&self) -> Result<PathBuf, Box<dyn std::error::Error>> {
        let around = fs::read_dir(self.state_home().join("salve/jobs"))?;
        let around: Vec<PathBuf> = around.flatten().map(|entry| entry.path()).collect();
        let [only] = &around[..] else {
            return Err(format!("{}: {around:?} are left", self.dir.display()).into());
        };
        let inside = fs::read_dir(only)?.flatten().map(|entry| entry.path());
        let workspace = inside.into_iter().find(|path| path.is_dir());
        workspace.ok_or_else(|| format!("{}: no workspace", only.display()).into())
    }

    /// Returns the runs whose directories are there.
    fn runs(&self) -> Vec<String> {
        let jobs = fs::read_dir(self.dir.join(".salve/jobs")).into_iter().flatten().flatten();
        jobs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Returns the run that is worked on, or was last: one that was told of, or else any.
    fn run(&self) -> Option<String> {
        let runs = self.runs();
        let is_told =
            |run: &&String| self.dir.join(".salve/jobs").join(run).join("state.json").exists();
        runs.iter().find(is_told).or(runs.first()).cloned()
    }

    /// Returns the run that the journal knows, if there is one.
    fn known_run(&self) -> Result<Option<String>, Box<dyn std::error::Error>> {
        if !self.dir.join(".salve/salve.db").exists() {
            return Ok(None);
        }
        let mut command = Command::new(&self.salve);
        let output = command.args(["jobs", "--json"]).current_dir(&self.dir).output()?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{}: {text}", self.dir.display()).into());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(self.runs().into_iter().find(|run| text.contains(run.as_str())))
    }

    /// Waits for a while; tells whether the job is over by itself.
    fn is_over_within(&self, child: &mut Child, time: Duration) -> Result<bool, String> {
        let until = Instant::now() + time;
        loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                return match status.code() {
                    Some(0) => Ok(true),
                    // It was done when it was killed, and the resumed one says so.
                    Some(2) if self.state().contains("\"completed\"") => Ok(true),
                    code => {
                        let said = fs::read_to_string(self.dir.join(SAID)).unwrap_or_default();
                        let (dir, state) = (self.dir.display(), self.state());
                        Err(format!("{dir}: exit {code:?}: {said}\n{state}"))
                    }
                };
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    fn state(&self) -> String {
        let run = self.run().unwrap_or_default();
        let path = self.dir.join(".salve/jobs").join(run).join("state.json");
        fs::read_to_string(path).unwrap_or_default()
    }

    fn finish(&self, mut child: Child) -> ChaosResult {
        if self.is_over_within(&mut child, LONG)? {
            Ok(())
        } else {
            Err("the undisturbed job does not end".into())
        }
    }

    /// Kills the worker, then also its keeper, or the keeper alone, and waits for their end; tells
    /// whether anybody was there to be killed.
    fn kill(&self, child: &mut Child, whom: u64) -> io::Result<bool> {
        let run = self.run().unwrap_or_default();
        let lock = fs::read_to_string(self.dir.join(".salve/jobs").join(run).join("run.lock"));
        let lock = lock.unwrap_or_default();
        let digits = lock.split("\"pid\":").nth(1).unwrap_or_default();
        let worker: String = digits.chars().take_while(char::is_ascii_digit).collect();
        let is_worker = !worker.is_empty() && is_salve(&worker);
        let mut is_killed = false;
        if whom != 0 && is_worker {
            let status =
                Command::new("kill").args(["-9", &worker]).stderr(Stdio::null()).status()?;
            is_killed = status.success();
        }
        if whom != 1 || !is_worker {
            is_killed |= child.try_wait()?.is_none();
            child.kill()?;
        }
        child.wait()?;
        // A worker whose keeper was killed ends in order, and may not have taken its lock yet.
        let until = Instant::now() + LONG;
        while self.is_worked_on() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(3));
        }
        Ok(is_killed)
    }

    /// Tells whether any process of Salve works in the project.
    fn is_worked_on(&self) -> bool {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut pids = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
        pids.any(|pid| {
            is_salve(&pid)
                && fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == self.dir)
        })
    }

    /// Compares a job with the undisturbed one.
    fn judge(&self, calm: &Self) -> ChaosResult {
        let (wanted, found) = (contents(&calm.workspace()?)?, contents(&self.workspace()?)?);
        let differs = |path: &&PathBuf| wanted.get(*path) != found.get(*path);
        if let Some(path) = wanted.keys().chain(found.keys()).find(differs) {
            let (dir, path) = (self.dir.display(), path.display());
            return Err(format!("{dir}: {path} is not as in the undisturbed job").into());
        }
        if self.runs().len() != 1 {
            return Err(format!("{}: {:?} are left", self.dir.display(), self.runs()).into());
        }
        let told = self.dir.join(".salve/jobs").join(self.run().unwrap_or_default());
        let told = fs::read_to_string(told.join("events.jsonl"))?;
        let journal = fs::read_to_string(self.dir.join(".salve/events.jsonl"))?;
        let finished = told.matches("\"task.step.attempt.finished\"").count();
        if finished != STEPS {
            return Err(format!(
                "{}: the job's own log tells of {finished} steps",
                self.dir.display()
            )
            .into());
        }
        for step in 0..STEPS {
            let of_step = format!("\"step\":{step}");
            let is_done = |line: &&str| {
                line.contains("\"step_ended\"")
                    && line.contains("\"done\"")
                    && line.contains(&of_step)
            };
            let done = journal.lines().filter(is_done).count();
            if done != 1 {
                return Err(
                    format!("{}: step {step} was done {done} times", self.dir.display()).into()
                );
            }
        }
        Ok(())
    }
}

/// What is at a path of a workspace: its mode, and its bytes or where it leads.
type PathContent = (u32, Vec<u8>);

/// Returns all that a workspace holds, without its repository.
fn contents(root: &Path) -> io::Result<BTreeMap<PathBuf, PathContent>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let about = path.symlink_metadata()?;
            let name = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            if name == Path::new(".git") {
                continue;
            }
            let bytes = if about.is_dir() {
                open.push(path);
                Vec::new()
            } else if about.is_symlink() {
                fs::read_link(&path)?.into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path)?
            };
            found.insert(name, (about.permissions().mode(), bytes));
        }
    }
    Ok(found)
}

/// Tells whether a process of this number is there and is Salve.
fn is_salve(pid: &str) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    name.trim() == "salve" && !state.contains(") Z ")
}
