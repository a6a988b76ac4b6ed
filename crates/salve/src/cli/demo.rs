//! `salve demo`: real failures in a scratch project, healed by the real program.
//!
//! Nothing is played but the failures themselves: each scene runs `salve dev`, `heal` or `loop`
//! as a user would, and how it came out is read from the journal. Agents are small scripts, and
//! the demo says so. All that is needed is git and a POSIX shell; Salve itself plays the servers.

mod scenes;
mod server;
mod stage;

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use salve_core::event::IncidentOutcome;
use salve_core::overview::IndexedIncident;
use serde::Serialize;

use self::scenes::{DemoScene, SCENES};
use self::stage::{DemoPace, DemoProject};
use super::output::counted;
use super::{CliError, Exit, Output, serve};

/// Arguments of `salve demo`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Run only this scene [default: all]
    #[arg(value_name = "NAME")]
    scene: Option<String>,
    /// List the scenes
    #[arg(long)]
    list: bool,
    /// Do not open the page in the browser
    #[arg(long)]
    no_open: bool,
    /// Do not wait for you: short pauses, no page, and the demo answers its own question
    #[arg(long)]
    fast: bool,
    /// Play a server of a scene
    #[arg(long, hide = true, value_enum, value_name = "HOW")]
    play: Option<server::Play>,
    /// How long the server is well before it fails
    #[arg(long, hide = true, value_name = "MS", default_value_t = 1500)]
    well_ms: u64,
}

/// One scene and how it came out, for `--json`.
#[derive(Serialize)]
struct SceneTold {
    name: &'static str,
    #[serde(skip)]
    unhealed: &'static str,
    came_out: bool,
    incidents: usize,
    healed: usize,
    /// From the first symptom to the end of its incidents, in milliseconds.
    took_ms: u64,
    /// The ids of its incidents, short.
    ids: Vec<String>,
}

/// Shows the scenes, one after the other.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    if let Some(play) = args.play {
        server::play(play, Duration::from_millis(args.well_ms))?;
        return Ok(Exit::Failed);
    }
    if args.list {
        for DemoScene { name, what, .. } in SCENES {
            writeln!(out.stdout(), "{name:<14} {what}")?;
        }
        return Ok(Exit::Well);
    }
    let chosen = choose(args.scene.as_deref())?;
    let pace = if args.fast { DemoPace::Fast } else { DemoPace::Shown };
    let stage = DemoProject::build(pace, out)?;
    out.remark(format_args!("Salve demo  in {}", stage.project().display()));
    let _page = match pace {
        DemoPace::Fast => None,
        DemoPace::Shown => {
            let page = stage.serve_page()?;
            out.remark(format_args!("            watch it at {}", page.link));
            if !args.no_open && !serve::open_browser(&page.link) {
                out.remark("            no browser could be opened; use the link");
            }
            Some(page)
        }
    };
    let mut told = Vec::new();
    for scene in chosen {
        out.remark(format_args!("\n── {}: {}", scene.name, scene.what));
        told.push(show(scene, &stage)?);
    }
    conclude(&stage, &told, out)
}

fn choose(name: Option<&str>) -> Result<Vec<&'static DemoScene>, CliError> {
    match name {
        None => Ok(SCENES.iter().collect()),
        Some(name) => match SCENES.iter().find(|scene| scene.name == name) {
            Some(scene) => Ok(vec![scene]),
            None => Err(CliError::usage("there is no such scene").hint("salve demo --list")),
        },
    }
}

/// Shows one scene and reads from the journal how it came out.
fn show(scene: &DemoScene, stage: &DemoProject<'_>) -> Result<SceneTold, CliError> {
    let before = stage.incidents()?.len();
    (scene.play)(stage)?;
    let new: Vec<IndexedIncident> = stage.incidents()?.into_iter().skip(before).collect();
    let healed = new.iter().filter(|row| is_healed(row)).count();
    let came_out = !new.is_empty() && (scene.came_out)(&new);
    let ids = new.iter().map(|row| format!("heal-{}", row.id.short())).collect();
    let took_ms = new.iter().map(milliseconds_of).sum();
    let DemoScene { name, unhealed, .. } = scene;
    Ok(SceneTold { name, unhealed, came_out, incidents: new.len(), healed, took_ms, ids })
}

/// Returns how long an incident took, as far as it is over.
fn milliseconds_of(row: &IndexedIncident) -> u64 {
    let took = row.ending.map(|ending| ending.at.duration_since(row.opened_at).as_millis());
    took.and_then(|took| u64::try_from(took).ok()).unwrap_or_default()
}

fn is_healed(row: &IndexedIncident) -> bool {
    row.ending.is_some_and(|ending| matches!(ending.outcome, IncidentOutcome::Recovered(_)))
}

/// Tells what came of it all, and what to type next.
fn conclude(stage: &DemoProject<'_>, told: &[SceneTold], out: &Output) -> Result<Exit, CliError> {
    let rows = stage.incidents()?;
    let tokens: u64 = rows.iter().map(|row| row.spent().tokens).sum();
    let failed: Vec<&str> =
        told.iter().filter(|scene| !scene.came_out).map(|scene| scene.name).collect();
    if out.json() {
        for scene in told {
            out.fact(scene)?;
        }
    } else {
        summarize(told, tokens, out)?;
    }
    if !failed.is_empty() {
        return Err(CliError::failed(format!("not as it should be: {}", failed.join(", ")))
            .hint("salve doctor"));
    }
    stage.wait_for_reader();
    Ok(Exit::Well)
}

/// Tells whether a shell finds `salve`.
fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join("salve").is_file())
}

/// Writes a line for each scene, the bill, and what to type in a project of one's own.
fn summarize(told: &[SceneTold], tokens: u64, out: &Output) -> Result<(), CliError> {
    let mut to = out.stdout();
    writeln!(to, "\nWhat came of it")?;
    for SceneTold { name, unhealed, healed, came_out, took_ms, ids, .. } in told {
        let ending = match (came_out, healed) {
            (true, 0) => unhealed,
            (true, _) => "healed",
            (false, _) => "not as it should be",
        };
        let took = match took_ms {
            // It is not over.
            0 => "–".to_owned(),
            ms => format!("{:.1} s", Duration::from_millis(*ms).as_secs_f64()),
        };
        writeln!(to, "  {name:<15} {took:>7}  {}  {ending}", ids.join(" "))?;
    }
    let incidents: usize = told.iter().map(|scene| scene.incidents).sum();
    let healed: usize = told.iter().map(|scene| scene.healed).sum();
    let incidents = counted(incidents as u64, "incident", "incidents");
    let cost = match tokens {
        0 => "no model was asked, so it cost nothing".to_owned(),
        tokens => format!("{tokens} tokens of models used"),
    };
    writeln!(to, "{incidents}, {healed} healed; {cost}.")?;
    writeln!(to, "\nIn a project of your own:")?;
    let install = ("cargo install --path crates/salve", "puts salve where your shell finds it");
    let is_to_install = !is_installed() && Path::new("crates/salve/Cargo.toml").is_file();
    for (command, what) in is_to_install.then_some(install).into_iter().chain([
        ("salve init", "writes salve.toml from what the project is"),
        ("salve dev -- npm run dev", "keeps a dev server alive"),
        ("salve heal -- npm test", "heals a red check, with proof"),
        ("salve serve", "shows all of it on a page"),
    ]) {
        writeln!(to, "  {command:<26} {what}")?;
    }
    Ok(())
}
