//! `salve serve`: the page and the HTTP API, and who may use them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use salve_core::notify::PublicAddress;
use serde::Serialize;

use super::answer::{refuse_agents, speaker};
use super::events::visible;
use super::job::fleet::FleetArgs;
use super::{CliError, Exit, Output, project};
use crate::config::{self, ServerSettings, Sources};
use crate::mcp::{RepairToolsPlace, tools_route};
use crate::page_access::{AccessError, AccessFile, AccessRight, TokenRecord};
use crate::process::machine_program;
use crate::project::Project;
use crate::store::Store;
use crate::web::{
    self, FleetWatch, PageAddress, ServeOptions, WatchedProject, WebError, WhenTaken,
};

/// Arguments of `salve serve`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<TokenCommand>,
    /// The projects to show [default: this one]
    #[arg(value_name = "DIR")]
    projects: Vec<PathBuf>,
    /// Listen on this port of 127.0.0.1; 0 for any [default: 7717, or a free one]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Do not open the browser
    #[arg(long)]
    no_open: bool,
    /// Print a link that signs another browser in once, and end
    #[arg(long)]
    link: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Debug, clap::Subcommand)]
enum TokenCommand {
    /// Make, list and take back tokens for scripts and agents
    #[command(subcommand)]
    Token(Token),
}

#[derive(Debug, clap::Subcommand)]
enum Token {
    /// Make a token and print it; it is shown this once
    New {
        /// What it allows
        right: AccessRight,
        /// The name under which whoever shows it speaks
        name: String,
        /// After how many days it stops being good
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: i64,
    },
    /// List the tokens
    List,
    /// Take a token back
    Revoke {
        /// Its name
        name: String,
    },
}

/// What `--json` prints once the page can be opened.
#[derive(Serialize)]
struct Served<'a> {
    version: u32,
    url: &'a str,
    link: &'a str,
}

/// Serves the page until told to end.
pub(super) fn run(args: Args, out: &Output) -> Result<Exit, CliError> {
    refuse_agents("open the page")?;
    let access = AccessFile::of_user()?;
    if let Some(TokenCommand::Token(command)) = args.command {
        return token(command, &access, out);
    }
    let port = args.port.unwrap_or(web::DEFAULT_PORT);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    if args.link {
        let link = format!("http://{address}/#code={}", access.new_code()?);
        writeln!(out.stdout(), "{link}")?;
        return Ok(Exit::Well);
    }
    let projects = match args.projects.as_slice() {
        [] => vec![watched(project::locate(out)?, &args.fleet, out)],
        dirs => {
            let watch = |dir: &PathBuf| Ok(watched(Project::at(dir)?, &args.fleet, out));
            dirs.iter().map(watch).collect::<Result<_, CliError>>()?
        }
    };
    let scrubber = project::scrubber();
    let first = projects.first().map(|watched| Store::open_existing(&watched.project));
    let person = match first.transpose()?.flatten() {
        Some(store) => speaker(None, &store, &scrubber),
        None => scrubber.scrub(&project::user_name()),
    };
    let when_taken = if args.port.is_some() { WhenTaken::Fail } else { WhenTaken::UseAnother };
    let public = public_address(&projects);
    let options = ServeOptions { projects, address, public, when_taken, access, person };
    web::serve(options, |address| tell(address, args.no_open, out))?;
    Ok(Exit::Well)
}

/// Serves the page beside a run, if that is wanted, and says where it is.
pub(super) fn beside(wanted: &PageArgs, project: &Project, out: &Output) -> Result<(), CliError> {
    if !wanted.ui {
        return Ok(());
    }
    refuse_agents("open the page")?;
    let person = project::scrubber().scrub(&project::user_name());
    let projects = vec![watched(project.clone(), &FleetArgs::default(), out)];
    let options = ServeOptions {
        public: public_address(&projects),
        projects,
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), web::DEFAULT_PORT),
        when_taken: WhenTaken::UseAnother,
        access: AccessFile::of_user()?,
        person,
    };
    let PageAddress { url, link } = web::serve_in_background(options)?;
    out.remark(format_args!("Salve  the page is at {url}"));
    out.remark(format_args!("       open it once with {link}"));
    Ok(())
}

/// Returns under which other address the page may be asked for, by the first project's settings.
fn public_address(projects: &[WatchedProject]) -> Option<PublicAddress> {
    let settings = config::load(&projects.first()?.sources).ok()?.settings;
    settings.page.url?.parse().ok()
}

/// Whether a run shows the page, too.
#[derive(Debug, clap::Args)]
pub(super) struct PageArgs {
    /// Serve the page while it runs, and print a link that opens it once
    #[arg(long)]
    ui: bool,
}

/// Returns a project with what the settings say; a mistake in them costs only what they say.
pub(super) fn watched(project: Project, fleet: &FleetArgs, out: &Output) -> WatchedProject {
    let sources = Sources::of_process(Some(&project), &out.global().set);
    let config = config::load(&sources).ok();
    let fleet = config.as_ref().and_then(|config| fleet.terms(config).ok().flatten());
    let settings = config.map(|config| config.settings);
    let own = settings.as_ref().and_then(|own| own.scrub.scrubber().ok());
    let servers = settings.map(|settings| settings.servers_in_order()).unwrap_or_default();
    let url = |server: ServerSettings| Some((server.name, server.url?.to_string()));
    let urls: BTreeMap<String, String> = servers.into_iter().filter_map(url).collect();
    let scrubber = own.unwrap_or_else(project::scrubber);
    let tools = tools_route(RepairToolsPlace {
        sources: sources.clone(),
        project: project.clone(),
        scrubber: scrubber.clone(),
        urls: urls.clone(),
    });
    let fleet = fleet.map(FleetWatch::new);
    WatchedProject { project, scrubber, sources, urls, tools, fleet }
}

fn tell(address: &PageAddress, stay_closed: bool, out: &Output) {
    let PageAddress { url, link } = address;
    if out.json() {
        // Whoever cannot read it asks for a link of their own.
        let _unread = out.fact(&Served { version: 1, url, link });
    } else {
        out.remark(format_args!("Salve  the page is at {url}"));
        out.remark(format_args!("       open it once with {link}"));
    }
    if !stay_closed && !open_browser(link) {
        out.remark("       no browser could be opened; use the link");
    }
}

/// Variables that tell of a screen, or of a browser that needs none.
const SCREENS: [&str; 4] = ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"];

/// How long a program that opens browsers is watched: one that cannot says so at once.
const OPENING: Duration = Duration::from_millis(800);

/// Opens the user's browser; returns whether one seems to have been started.
pub(super) fn open_browser(link: &str) -> bool {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    // Without a screen `xdg-open` looks for a browser that runs in this very terminal.
    SCREENS.iter().any(is_set) && ["xdg-open", "wslview"].iter().any(|name| opens(name, link))
}

/// Tells whether a program could be started with the link and has not failed soon after.
fn opens(program: &str, link: &str) -> bool {
    let here = std::env::current_dir().unwrap_or_default();
    let mut command = Command::new(machine_program(program, &here));
    command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let since = Instant::now();
    while since.elapsed() < OPENING {
        match child.try_wait() {
            Ok(Some(ended)) => return ended.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return false,
        }
    }
    true
}

fn token(command: Token, access: &AccessFile, out: &Output) -> Result<Exit, CliError> {
    match command {
        Token::New { right, name, days } => {
            let life = days.checked_mul(24).map(SignedDuration::from_hours);
            let token = access.new_token(&name, right, life)?;
            writeln!(out.stdout(), "{token}")?;
        }
        Token::List => {
            for TokenRecord { name, right, expires, .. } in access.tokens()? {
                let until = expires.map_or("for good".to_owned(), |at| format!("until {at}"));
                let right = format!("{right:?}").to_lowercase();
                writeln!(out.stdout(), "{right:<9} {}  {until}", visible(&name))?;
            }
        }
        Token::Revoke { name } => {
            if !access.revoke_token(&name)? {
                return Err(CliError::failed(format!("there is no token `{}`", visible(&name)))
                    .hint("list them: salve serve token list"));
            }
        }
    }
    Ok(Exit::Well)
}

impl From<AccessError> for CliError {
    fn from(error: AccessError) -> Self {
        let hint = match &error {
            AccessError::NoHome => "set HOME".to_owned(),
            AccessError::File { path, .. } => format!("look at {}", path.display()),
            AccessError::Exists(name) => format!("salve serve token revoke {name}"),
        };
        Self::failed("cannot keep who may use the page").because(error).hint(hint)
    }
}

impl From<WebError> for CliError {
    fn from(error: WebError) -> Self {
        let hint = match error {
            WebError::Access(error) => return error.into(),
            WebError::NotLoopback(_) => "use an address of this machine",
            WebError::Listen(..) => "choose another port: salve serve --port 0",
            WebError::Wait(_) => "try again",
        };
        Self::failed("cannot serve the page").because(error).hint(hint)
    }
}
