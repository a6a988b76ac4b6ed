//! The scenes: what fails, and how it must come out.

use std::process::{Command, Stdio};

use salve_core::event::{IncidentOutcome, Proof};
use salve_core::overview::IndexedIncident;
use serde_json::json;

use super::stage::{DemoPace, DemoProject, interrupt};
use crate::cli::CliError;

/// One failure and its healing.
pub(super) struct DemoScene {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// Makes the failure and lets the real program heal it.
    pub(super) play: fn(&DemoProject<'_>) -> Result<(), CliError>,
    /// What is said where nothing was healed.
    pub(super) unhealed: &'static str,
    /// Tells whether the scene's incidents came out as they must.
    pub(super) came_out: fn(&[IndexedIncident]) -> bool,
}

/// All scenes, in the order in which they are shown.
pub(super) const SCENES: &[DemoScene] = &[
    DemoScene {
        name: "crash",
        what: "a dev server crashes and is started again until it is well",
        unhealed: "not healed",
        play: |stage| serve(stage, "crash"),
        came_out: all_recovered,
    },
    DemoScene {
        name: "hang",
        what: "a dev server stops answering and is started again",
        unhealed: "not healed",
        play: |stage| serve(stage, "hang"),
        came_out: all_recovered,
    },
    DemoScene {
        name: "build-output",
        what: "a build output is missing and is built again by the command that memory knows",
        unhealed: "not healed",
        play: build_output,
        came_out: all_recovered,
    },
    DemoScene {
        name: "red-test",
        what: "a red test is healed by a patch that is remembered, and the repair is proven",
        unhealed: "not healed",
        play: red_test,
        came_out: |rows| {
            rows.iter().all(|row| outcome(row) == Some(IncidentOutcome::Recovered(Proof::Proven)))
        },
    },
    DemoScene {
        name: "cheating-agent",
        what: "an agent (a script) weakens the test instead of repairing, and is caught",
        unhealed: "caught: not healed, and said so",
        play: cheating_agent,
        came_out: |rows| {
            let is_healed =
                |row: &IndexedIncident| matches!(outcome(row), Some(IncidentOutcome::Recovered(_)));
            !rows.iter().any(is_healed)
        },
    },
    DemoScene {
        name: "expired-token",
        what: "a tool's token has expired: Salve logs in as a rule says, and calls again",
        unhealed: "not healed",
        play: expired_token,
        came_out: all_recovered,
    },
    DemoScene {
        name: "wrecked-job",
        what: "a step of a job wrecks its workspace, which is reset to the last checkpoint",
        unhealed: "not healed",
        play: wrecked_job,
        came_out: all_recovered,
    },
    DemoScene {
        name: "your-word",
        what: "a command that no rule allows waits for your click under `Needs you` on the page",
        unhealed: "left out: nobody approved it",
        play: your_word,
        came_out: |rows| rows.iter().all(|row| row.asked == 1 && row.ending.is_some()),
    },
];

fn outcome(row: &IndexedIncident) -> Option<IncidentOutcome> {
    row.ending.map(|ending| ending.outcome)
}

fn all_recovered(rows: &[IndexedIncident]) -> bool {
    rows.iter().all(|row| matches!(outcome(row), Some(IncidentOutcome::Recovered(_))))
}

/// Runs a server that fails once under `salve dev`, until it is healed.
fn serve(stage: &DemoProject<'_>, how: &str) -> Result<(), CliError> {
    let before = stage.incidents()?.len();
    let program = stage.program().display().to_string();
    // A server counts as up once it has been well for a while; only then can it be said to hang.
    let well_ms = if stage.pace() == DemoPace::Fast { "1500" } else { "3000" };
    let words = ["dev", "--", &program, "demo", "--play", how, "--well-ms", well_ms];
    let mut dev = stage.salve(&words);
    let dev = dev.spawn()?;
    let healed = stage.wait_until("the server's healing", |rows| {
        rows.len() > before && rows.iter().skip(before).all(|row| row.ending.is_some())
    });
    interrupt(dev)?;
    healed
}

/// What git leaves alone in the project.
const IGNORED: &str = "dist/\nloop/\ncache-ok\n";

/// A function of a shop with a bug, its test, and the patch that repairs it.
struct Bug {
    /// The name of the function and of its file.
    function: &'static str,
    broken: &'static str,
    repaired: &'static str,
    want: &'static str,
}

const TOTAL: Bug = Bug { function: "total", broken: "$1 - $2", repaired: "$1 + $2", want: "8" };
const DISCOUNT: Bug =
    Bug { function: "discount", broken: "$1 / $2", repaired: "$1 - $2", want: "2" };

impl Bug {
    fn line(&self, formula: &str) -> String {
        format!("{}() {{ echo $(({formula})); }}", self.function)
    }

    /// Writes the function and its test into the project, committed.
    fn lay_out(&self, stage: &DemoProject<'_>) -> Result<(), CliError> {
        let Self { function, want, .. } = self;
        stage.write(&format!("{function}.sh"), &format!("{}\n", self.line(self.broken)))?;
        let test = format!(
            ". ./{function}.sh\ngot=$({function} 5 3)\nif [ \"$got\" = {want} ]; then echo 'ok: \
             {function}'; else\n  echo \"AssertionError: {function} 5 3: expected {want}, found \
             $got\"\n  exit 1\nfi\n"
        );
        stage.write(&self.test(), &test)?;
        stage.commit(function)
    }

    fn test(&self) -> String {
        format!("{}_test.sh", self.function)
    }

    fn patch(&self) -> String {
        let (file, old, new) = (self.function, self.line(self.broken), self.line(self.repaired));
        format!("--- a/{file}.sh\n+++ b/{file}.sh\n@@ -1 +1 @@\n-{old}\n+{new}\n")
    }
}

fn red_test(stage: &DemoProject<'_>) -> Result<(), CliError> {
    TOTAL.lay_out(stage)?;
    std::fs::write(stage.beside().join("total.patch"), TOTAL.patch())?;
    teach(stage, &TOTAL.test(), "--patch ../total.patch")?;
    stage.salve(&["heal", "--", "sh", &TOTAL.test()]).status()?;
    Ok(())
}

/// Has memory learn what heals the failure of a script; the failure's own output says which it is.
fn teach(stage: &DemoProject<'_>, script: &str, remedy: &str) -> Result<(), CliError> {
    let line =
        format!("sh {script} 2>&1 | \"$SALVE_PROGRAM\" --quiet memory learn {remedy} >/dev/null");
    let mut shell = Command::new("sh");
    let salve = stage.salve(&[]);
    shell.args(["-c", &line]).current_dir(stage.project()).stdin(Stdio::null());
    shell.envs(salve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("SALVE_PROGRAM", stage.program());
    if shell.status()?.success() {
        Ok(())
    } else {
        Err(CliError::failed("the remedy could not be remembered"))
    }
}

/// A test of what `build.sh` makes, which git ignores.
const PRICES_TEST: &str = "if [ ! -f dist/prices.txt ]; then\n  echo \"Error: ENOENT: no such file \
                           or directory, open 'dist/prices.txt'\" >&2\n  exit 1\nfi\ngrep -q '^tea' \
                           dist/prices.txt && echo 'ok: prices'\n";

fn build_output(stage: &DemoProject<'_>) -> Result<(), CliError> {
    stage.write("build.sh", "mkdir -p dist && sort prices.txt > dist/prices.txt\n")?;
    stage.write("prices.txt", "tea 4\nmilk 1\n")?;
    stage.write("prices_test.sh", PRICES_TEST)?;
    stage.write(".gitignore", IGNORED)?;
    stage.commit("prices")?;
    teach(stage, "prices_test.sh", "--command 'sh build.sh'")?;
    stage.salve(&["heal", "--", "sh", "prices_test.sh"]).status()?;
    Ok(())
}

/// A tool that lists orders while it has a token.
const ORDERS: &str = "case \"$1\" in\nlogin) echo token > \"$HOME/.orders/token\" ;;\nlist)\n  [ -e \
                      \"$HOME/.orders/token\" ] || { echo 'error: HTTP 401: token expired' >&2; exit \
                      1; }\n  echo '2 orders: tea, milk' ;;\nesac\n";

fn expired_token(stage: &DemoProject<'_>) -> Result<(), CliError> {
    stage.write("orders.sh", ORDERS)?;
    stage.commit("orders")?;
    std::fs::create_dir_all(stage.home().join(".orders"))?;
    stage.salve(&["call", "--", "sh", "orders.sh", "list"]).status()?;
    Ok(())
}

/// A step that is cut short the first time it runs, and cannot go on from what that left.
const CONVERT: &str = "if mkdir \"$1\" 2>/dev/null; then : > catalogue.txt; fi\n[ -s catalogue.txt ] || \
                       { echo 'the catalogue is empty' >&2; exit 75; }\nsed 's/ /,/' catalogue.txt > \
                       catalogue.csv && echo converted\n";

fn wrecked_job(stage: &DemoProject<'_>) -> Result<(), CliError> {
    stage.write("convert.sh", CONVERT)?;
    stage.commit("convert")?;
    let convert = format!("sh convert.sh '{}'", stage.beside().join("cut-short").display());
    let collect = "printf 'tea 4\\nmilk 1\\n' > catalogue.txt";
    stage.salve(&["run", "--step", collect, "--step", &convert]).status()?;
    Ok(())
}

fn cheating_agent(stage: &DemoProject<'_>) -> Result<(), CliError> {
    DISCOUNT.lay_out(stage)?;
    let script = stage.beside().join("agent.sh");
    let test = DISCOUNT.test();
    std::fs::write(
        &script,
        format!("sed 's/= 2/= 1/' {test} > tmp && cat tmp > {test} && rm tmp\n"),
    )?;
    let agent = format!("sh '{}'", script.display());
    // Exit code 3 is what it should end with: a person has to look.
    stage.salve(&["heal", "--agent", &agent, "--", "sh", &test]).status()?;
    Ok(())
}

/// A test that can only start once a cache is there that no rule lets anybody rebuild.
const STALE: &str =
    "[ -f cache-ok ] || { echo 'cannot start the service: the cache is stale'; exit 1; }; echo ok";

fn your_word(stage: &DemoProject<'_>) -> Result<(), CliError> {
    stage.write("service_test.sh", STALE)?;
    stage.write(".gitignore", IGNORED)?;
    stage.commit("the service")?;
    let proposal = json!({
        "version": 1,
        "timestamp": jiff::Timestamp::now(),
        "category": "dependency",
        "severity": "blocking",
        "diagnosis": {
            "error_pattern": "cannot start the service",
            "root_cause": "the cache is stale",
            "evidence": ["service_test.sh:1: cannot start the service: the cache is stale"],
        },
        "recovery": {
            "command": "touch cache-ok", "timeout_seconds": 60,
            "expected_outcome": "the tests start", "confidence": "high",
        },
    });
    stage.write("loop/recovery.json", &proposal.to_string())?;
    let before = stage.incidents()?.len();
    let args =
        ["loop", "attach", "loop", "--loop", "demo", "--once", "--", "sh", "service_test.sh"];
    let mut waiting = stage.salve(&args).spawn()?;
    stage.wait_until("the question", |rows| rows.iter().skip(before).any(|row| row.asked > 0))?;
    let id = stage.incidents()?.last().map(|row| row.id.short()).unwrap_or_default();
    match stage.pace() {
        // Nobody is there to click: the demo answers its own question, as its user would.
        DemoPace::Fast => drop(stage.salve(&["approve", &id]).status()?),
        DemoPace::Shown => {
            let is_over =
                |rows: &[IndexedIncident]| rows.iter().skip(before).all(|row| row.ending.is_some());
            if !stage.wait_for_word(&id, is_over)? {
                stage.salve(&["reject", &id, "nobody answered the demo"]).status()?;
            }
        }
    }
    waiting.wait()?;
    Ok(())
}
