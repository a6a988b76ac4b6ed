//! One job from end to end before anything else is broken: two workers and a page, each in a network
//! of its own, and the worker that began it is killed in the middle.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::machine::{Machine, Shift};
use super::network::MachineNet;
use super::{Person, SETTINGS, locked};
use crate::chaos::ChaosResult;
use crate::steps::say;

/// How long each part of it may take.
const LONG: Duration = Duration::from_secs(120);

/// Where the page listens in its own network.
const PORT: &str = "7717";

/// The page, as somebody sees it who sits at its machine.
struct Page<'s> {
    person: &'s Person,
    net: &'s MachineNet,
    child: Child,
    token: String,
}

impl<'s> Page<'s> {
    /// Opens a page on a machine.
    fn open(person: &'s Person, net: &'s MachineNet) -> Result<Self, Box<dyn std::error::Error>> {
        let token = person.ask(&person.project(), &["serve", "token", "new", "viewer", "story"])?;
        let mut command = net.command(&person.salve);
        super::machine::at_home(&mut command, &person.home.join("person"), &person.page_url);
        command.args(SETTINGS.iter().flat_map(|set| ["--set", set]));
        command.args(["serve", "--no-open", "--port", PORT]).current_dir(person.project());
        let log = fs::File::create(person.home.join("page.log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let token = token.trim().to_owned();
        Ok(Self { person, net, child: command.spawn()?, token })
    }

    /// Returns what it says of the fleet.
    fn fleet(&self) -> io::Result<Value> {
        let mut ask = self.net.command(Path::new("curl"));
        ask.args(["-s", "-H", &format!("Authorization: Bearer {}", self.token)]);
        let output = ask.arg(format!("http://127.0.0.1:{PORT}/api/fleet")).output()?;
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    }

    /// Tells whether it shows fleets at all.
    fn knows_fleets(&self) -> Result<bool, Box<dyn std::error::Error>> {
        let mut seen = Value::Null;
        wait_for("the page", || {
            seen = self.fleet().unwrap_or_default();
            seen.is_object()
        })?;
        Ok(seen["jobs"].is_array())
    }

    /// Waits until it shows a run so.
    fn shows(&self, run: &str, what: &str, so: &dyn Fn(&Value) -> bool) -> ChaosResult {
        let until = Instant::now() + LONG;
        loop {
            let seen = self.fleet()?;
            let jobs = seen["jobs"].as_array().into_iter().flatten();
            let mut of_run = jobs.filter(|job| job["row"].to_string().contains(run));
            if of_run.any(so) {
                return Ok(());
            }
            if Instant::now() > until {
                let log = fs::read_to_string(self.person.home.join("page.log"));
                return Err(format!("the page does not show {what}: {seen}\n{log:?}").into());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the job; its worker is killed while it waits in its second step.
pub(super) fn tell(person: &Person, machines: &mut [Machine], net: &MachineNet) -> ChaosResult {
    let gate = person.home.join("gate");
    let wait =
        format!("while ! test -e '{}'; do sleep 0.1; done; echo 1 >> log.txt", gate.display());
    let steps = ["echo 0 >> log.txt", wait.as_str(), "echo 2 >> log.txt"];
    let steps: Vec<Value> =
        steps.iter().map(|step| serde_json::json!({ "command": step })).collect();
    let job = serde_json::json!({ "steps": steps }).to_string();
    fs::write(person.project().join("story.json"), job)?;
    let run = person.ask(&person.project(), &["submit", "story.json"])?.trim().to_owned();
    locked(&person.submitted).insert(run.clone());
    let page = Page::open(person, net)?;
    let page = page.knows_fleets()?.then_some(page);
    if page.is_none() {
        say("the page of this salve shows no fleet: the story is told without it");
    }
    let shows = |what: &str, so: &dyn Fn(&Value) -> bool| match &page {
        Some(page) => page.shows(&run, what, so),
        None => Ok(()),
    };
    let of = || locked(&person.history);
    shows("a queued job", &|job| job["claims"] == 0)?;
    let [one, other, ..] = machines else { return Err("there are no two workers".into()) };
    one.start(Shift::None)?;
    wait_for("the first claim", || of().claims_of(&run) == 1)?;
    wait_for("the first step", || of().patches_of(&run) == 1)?;
    shows("the first worker", &|job| job["claims"] == 1)?;
    one.kill();
    other.start(Shift::None)?;
    wait_for("the take-over", || of().claims_of(&run) == 2)?;
    shows("the second worker", &|job| job["claims"] == 2)?;
    fs::write(&gate, "")?;
    wait_for("the end", || of().is_done(&run))?;
    shows("the end", &|job| job["queue"] == "done")
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) -> ChaosResult {
    let until = Instant::now() + LONG;
    while !is_so() {
        if Instant::now() > until {
            return Err(format!("{what} did not come").into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
