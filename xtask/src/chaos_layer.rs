//! `cargo xtask chaos layer`: a user who edits files at random instants while agents work, succeed, fail
//! and are killed, Salve's own sudden death included.
//!
//! Each round is a project with a red check and a scripted agent whose luck differs. While it is healed,
//! the user edits files of their own, makes new ones, and edits a file that the agent edits too. In some
//! rounds Salve is killed with all that watches it, or told to stop, and is run again. At the end of the
//! round, and again after `salve undo`, every byte that the user wrote must be in its place.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::chaos::{ChaosResult, Luck, built_salve};

/// How long a heal may take on a busy machine.
const LONG: Duration = Duration::from_secs(180);

/// The longest pause between two edits, in milliseconds.
const PAUSE: u64 = 40;

/// How many files are the user's own at the beginning.
const FILES: u64 = 6;

/// The lines of the file that both edit: the user the first, the agent the last.
const SHARED: [&str; 7] = ["first", "two", "three", "four", "five", "six", "last"];

/// What an agent does, by its luck: the script, in which `sum.txt` has to say 5.
const AGENTS: [&str; 11] = [
    "printf 5 > sum.txt; sed -i 's/^last$/LAST/' shared.txt",
    "printf 5 > sum.txt; echo agent >> made.txt; sleep 0.05; sed -i 's/^last$/LAST/' shared.txt",
    "printf 6 > sum.txt; sed -i 's/^last$/LAST/' shared.txt; rm -f own-*.txt",
    "rm -rf own-*.txt new; git stash -q -u; git reset -q --hard; git clean -fdqx; printf 5 > sum.txt",
    "echo nothing",
    "for n in $(seq 12); do echo $n > many$n.txt; done; printf 5 > sum.txt",
    "printf 5 > sum.txt; sed -i 's/^first.*/AGENT/' shared.txt",
    "mkdir -p old; mv own-3.txt own-4.txt own-5.txt new old; printf 5 > sum.txt",
    "rm -f own-0.txt; mkfifo own-0.txt; chmod a-rwx new; printf 5 > sum.txt",
    "rm -rf own-4.txt; mkdir own-4.txt; echo y > own-4.txt/y; printf 5 > sum.txt",
    "i=0; while [ $i -lt 20 ]; do echo $i >> slow.txt; i=$((i + 1)); sleep 0.02; done; printf 5 > sum.txt",
];

/// Plays so many rounds.
pub(crate) fn layer(rounds: &str) -> ChaosResult {
    let rounds: u64 = rounds.parse().map_err(|_| format!("`{rounds}` is no number"))?;
    let home = std::env::temp_dir().join(format!("salve-chaos-{}", std::process::id()));
    let salve = built_salve(&home)?;
    let mut luck = Luck::new();
    let (mut counts, since) = (RoundCounts::default(), Instant::now());
    for number in 0..rounds {
        let dir = home.join(format!("round-{number}"));
        let mut round = Round::new(&salve, &dir, &mut luck)?;
        round.play(&mut luck, &mut counts)?;
        fs::remove_dir_all(&dir)?;
    }
    fs::remove_dir_all(&home)?;
    let RoundCounts { edits, kills, stops, healed, undone } = counts;
    let seconds = since.elapsed().as_secs();
    let text = format!(
        "{rounds} rounds in {seconds} s: {edits} edits of the user's, {kills} kills of Salve with all that watches it, \
         {stops} stops, {healed} healed, {undone} undone: every byte in place\n"
    );
    io::Write::write_all(&mut io::stdout(), text.as_bytes())?;
    Ok(())
}

/// What happened in all rounds.
#[derive(Default)]
struct RoundCounts {
    edits: u64,
    kills: u64,
    stops: u64,
    healed: u64,
    undone: u64,
}

/// One project with its user.
struct Round {
    salve: PathBuf,
    dir: PathBuf,
    /// What each file of the user's must hold; nothing if they deleted it.
    own: BTreeMap<String, Option<String>>,
    /// The first line of the shared file.
    first: String,
}

impl Round {
    fn new(salve: &Path, dir: &Path, luck: &mut Luck) -> Result<Self, Box<dyn std::error::Error>> {
        let project = dir.join("project");
        fs::create_dir_all(&project)?;
        let own = (0..FILES).map(|n| (format!("own-{n}.txt"), Some(format!("{n}\n")))).collect();
        let agent = AGENTS[usize::try_from(luck.below(AGENTS.len() as u64))?];
        fs::write(dir.join("agent.sh"), format!("cat > /dev/null; {agent}\n"))?;
        fs::write(
            project.join("check.sh"),
            "[ \"$(cat sum.txt)\" = 5 ] || { echo Error: not 5; exit 1; }\n",
        )?;
        fs::write(project.join("sum.txt"), "4")?;
        fs::write(project.join("shared.txt"), format!("{}\n", SHARED.join("\n")))?;
        let first = SHARED[0].to_owned();
        let made = Self { salve: salve.to_path_buf(), dir: dir.to_path_buf(), own, first };
        for (path, text) in &made.own {
            fs::write(made.path(path), text.as_deref().unwrap_or_default())?;
        }
        // Half of the user's files are not committed.
        for args in [
            &["init", "-q"][..],
            &["add", "check.sh", "sum.txt", "shared.txt", "own-0.txt", "own-1.txt", "own-2.txt"],
            &["commit", "-qm", "first"],
        ] {
            let settings = ["-c", "user.name=a", "-c", "user.email=a@b"];
            Command::new("git").args(settings).args(args).current_dir(&project).status()?;
        }
        Ok(made)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join("project").join(name)
    }

    fn command(&self, args: &[&str]) -> io::Result<Command> {
        let mut command = Command::new(&self.salve);
        let said = fs::OpenOptions::new().create(true).append(true).open(self.dir.join("said"))?;
        command.args(args).current_dir(self.dir.join("project")).env("SALVE_USER", "chaos");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        Ok(command)
    }

    fn heal(&self) -> io::Result<Child> {
        let agent = format!("sh '{}'", self.dir.join("agent.sh").display());
        self.command(&["heal", "--agent", &agent, "--", "sh", "check.sh"])?.spawn()
    }

    fn play(&mut self, luck: &mut Luck, counts: &mut RoundCounts) -> ChaosResult {
        for _ in 0..luck.below(3) {
            let mut salve = self.heal()?;
            let until = Instant::now() + Duration::from_millis(luck.below(900));
            while Instant::now() < until && salve.try_wait()?.is_none() {
                self.edit(luck, counts)?;
            }
            match luck.below(3) {
                0 => {
                    send("TERM", salve.id())?;
                    counts.stops += 1;
                }
                _ => counts.kills += u64::from(kill_all(&mut salve)?),
            }
            salve.wait()?;
            self.judge("a killed heal")?;
        }
        let mut salve = self.heal()?;
        let until = Instant::now() + LONG;
        let status = loop {
            if let Some(status) = salve.try_wait()? {
                break status;
            }
            if Instant::now() >= until {
                return Err(format!("{}: the heal does not end", self.dir.display()).into());
            }
            self.edit(luck, counts)?;
        };
        self.judge("the heal")?;
        if status.code() == Some(0) {
            counts.healed += 1;
        }
        self.edit(luck, counts)?;
        counts.undone += u64::from(self.command(&["undo"])?.status()?.success());
        self.judge("the undoing")
    }

    /// Edits something, as an editor does: in place, or by putting a new file in the old one's place.
    fn edit(&mut self, luck: &mut Luck, counts: &mut RoundCounts) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(luck.below(PAUSE)));
        counts.edits += 1;
        let (number, kind) = (counts.edits, luck.below(10));
        if kind == 0 {
            let text = fs::read_to_string(self.path("shared.txt"))?;
            self.first = format!("first edited {number}");
            let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
            return replace(&self.path("shared.txt"), &format!("{}\n{rest}", self.first));
        }
        let name = match kind {
            1 => format!("new/{number}.txt"),
            _ => format!("own-{}.txt", luck.below(FILES)),
        };
        let path = self.path(&name);
        if kind == 2 {
            self.own.insert(name, None);
            return gone_is_fine(fs::remove_file(path));
        }
        let text = self.own.entry(name.clone()).or_default().get_or_insert_default();
        text.push_str(&format!("edit {number}\n"));
        let text = text.clone();
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        match luck.below(2) {
            0 => fs::write(path, text),
            _ => replace(&path, &text),
        }
    }

    /// Looks whether all that the user wrote is there.
    fn judge(&self, after: &str) -> ChaosResult {
        for (name, want) in &self.own {
            let found = fs::read_to_string(self.path(name)).ok();
            if found != *want {
                let dir = self.dir.display();
                return Err(
                    format!("{dir}: after {after}, {name} is {found:?}, not {want:?}").into()
                );
            }
        }
        let shared = fs::read_to_string(self.path("shared.txt")).unwrap_or_default();
        if shared.lines().next() != Some(self.first.as_str()) && self.first != SHARED[0] {
            let dir = self.dir.display();
            return Err(format!("{dir}: after {after}, the shared file is {shared:?}").into());
        }
        Ok(())
    }
}

fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Puts a new file in the place of an old one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("beside");
    fs::write(&beside, text)?;
    fs::rename(beside, path)
}

fn send(signal: &str, pid: u32) -> io::Result<bool> {
    let mut kill = Command::new("kill");
    kill.args(["-s", signal, &pid.to_string()]).stderr(Stdio::null());
    Ok(kill.status()?.success())
}

/// Kills the keeper and its worker at once; tells whether anybody was there.
fn kill_all(salve: &mut Child) -> io::Result<bool> {
    if salve.try_wait()?.is_some() {
        return Ok(false);
    }
    send("STOP", salve.id())?;
    let children = format!("/proc/{0}/task/{0}/children", salve.id());
    for worker in fs::read_to_string(children).unwrap_or_default().split_whitespace() {
        if let Ok(worker) = worker.parse() {
            send("KILL", worker)?;
        }
    }
    send("KILL", salve.id())
}
