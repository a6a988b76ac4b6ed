//! Checks what the settings say about dev servers.

use salve_core::server::health::StatusRange;
use salve_core::server::url::LocalUrl;

use super::problem::{ConfigProblem, nearest, shown};
use super::procfile::is_name;
use super::runtime::AgentRuntime;
use super::settings::Settings;
use super::tree::{SettingNode, Value};

/// Returns what is wrong with the servers and with the agent's command.
pub(super) fn problems(settings: &Settings, tree: &SettingNode) -> Vec<ConfigProblem> {
    let mut found = ServerProblems { tree, problems: Vec::new() };
    found.address("server.url", settings.server.url.as_deref());
    found.status("server.health.status", settings.server.health.status.as_deref());
    if settings.agent.runtime == Some(AgentRuntime::Command) && settings.agent.command.is_none() {
        found.add("agent.runtime", "\"command\" needs `agent.command` to be set");
    }
    if settings.agent.autostart && settings.agent.runtime.is_none() {
        found.add("agent.autostart", "needs `agent.runtime` to say which agent is started");
    }
    if settings.agent.command.as_ref().is_some_and(|command| command.is_empty()) {
        found.add("agent.command", "there is nothing to run");
    }
    let runtimes = AgentRuntime::names();
    for name in settings.agent.prices.keys().filter(|name| !runtimes.contains(&name.as_str())) {
        let hint = nearest(name, runtimes.iter().copied());
        let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        found.add(&format!("agent.prices.{name}"), format!("there is no such agent{hint}"));
    }
    found.names();
    for (name, entry) in &settings.servers {
        let key = |rest: &str| format!("servers.{name}{rest}");
        match &entry.command {
            None => found.add(&key(""), "`command` is missing"),
            Some(command) if command.is_empty() => {
                found.add(&key(".command"), "there is nothing to run")
            }
            Some(_) => {}
        }
        found.address(&key(".url"), entry.url.as_deref());
        found.status(&key(".health.status"), entry.health.status.as_deref());
        for variable in entry.env.keys().filter(|name| !is_variable(name)) {
            let message = format!("`{}` cannot be the name of a variable", shown(variable));
            found.add(&key(".env"), message);
        }
    }
    found.dependencies(settings);
    found.problems
}

struct ServerProblems<'a> {
    tree: &'a SettingNode,
    problems: Vec<ConfigProblem>,
}

impl ServerProblems<'_> {
    fn add(&mut self, key: &str, message: impl Into<String>) {
        let origin = self.tree.get(key).map(|node| node.origin.clone());
        self.problems.push(ConfigProblem {
            origin,
            key: Some(key.to_owned()),
            message: message.into(),
        });
    }

    fn address(&mut self, key: &str, url: Option<&str>) {
        // Only a server on this machine can be told from another that answers in its place.
        if url.is_some_and(|url| LocalUrl::at_start(url).is_none()) {
            self.add(key, "expected an address on this machine such as http://localhost:3000/");
        }
    }

    fn status(&mut self, key: &str, status: Option<&str>) {
        if status.is_some_and(|status| StatusRange::parse(status).is_none()) {
            self.add(key, "expected a status such as \"200\" or a range such as \"200-399\"");
        }
    }

    fn names(&mut self) {
        let Some(SettingNode { value: Value::Table(servers), .. }) = self.tree.get("servers")
        else {
            return;
        };
        for (name, entry) in servers.iter().filter(|(name, _)| !is_name(name)) {
            let message =
                format!("a server's name has only a-z, 0-9, - and _, unlike `{}`", shown(name));
            self.problems.push(ConfigProblem::at(&entry.key, "servers", message));
        }
    }

    fn dependencies(&mut self, settings: &Settings) {
        let servers = &settings.servers;
        for (name, entry) in servers {
            for (number, needed) in entry.depends_on.iter().enumerate() {
                let key = format!("servers.{name}.depends_on.{number}");
                if !servers.contains_key(needed) {
                    let what = format!("there is no server `{}`", shown(needed));
                    let message = match nearest(needed, servers.keys().map(String::as_str)) {
                        Some(near) => format!("{what}; did you mean `{near}`?"),
                        None => what,
                    };
                    self.add(&key, message);
                } else if let Some(way) = way(settings, needed, name) {
                    let way: Vec<_> = [&**name].into_iter().chain(way).collect();
                    self.add(&key, format!("each waits for the next: {}", way.join(" → ")));
                }
            }
        }
    }
}

/// Returns a shortest way along dependencies, both ends included.
fn way<'a>(settings: &'a Settings, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![from]];
    let mut seen = vec![from];
    let mut at = 0;
    while let Some(way) = ways.get(at).cloned() {
        at += 1;
        let last = way.last().copied()?;
        if last == to {
            return Some(way);
        }
        let next = settings.servers.get(last).into_iter().flat_map(|entry| &entry.depends_on);
        for name in next {
            if !seen.contains(&&**name) {
                seen.push(name);
                ways.push(way.iter().copied().chain([&**name]).collect());
            }
        }
    }
    None
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::super::{CommandLine, Config, LoadError, load, load_file};
    use super::super::{Environment, Sources};

    fn read(text: &str) -> Result<Config, LoadError> {
        load_file(Path::new("salve.toml"), text.to_owned())
    }

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        let problems = read(text).map(drop).map_err(|error| error.problems());
        let got: Vec<_> =
            problems.err().into_iter().flatten().map(|problem| problem.to_string()).collect();
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn servers_that_cannot_be_started_are_told_with_their_place() {
        check("[servers.web]\ndir = \"x\"", &["salve.toml:1:1: servers.web: `command` is missing"]);
        check(
            "servers.web.command = []",
            &["salve.toml:1:23: servers.web.command: there is nothing to run"],
        );
        check(
            "servers.Web.command = \"x\"",
            &["salve.toml:1:9: servers: a server's name has only a-z, 0-9, - and _, unlike `Web`"],
        );
        check(
            "[servers.web]\ncommand = 5",
            &["salve.toml:2:11: servers.web.command: expected text or a list of text, \
               found an integer"],
        );
        check(
            "[servers.web]\ncommand = [\"a\", 5]",
            &["salve.toml:2:17: servers.web.command.1: expected text, found an integer"],
        );
        check(
            "[servers.web]\ncomand = \"x\"",
            &["salve.toml:2:1: unknown key `comand` in `servers.web`; did you mean `command`?"],
        );
        check(
            "[servers.web]\ncommand = \"x\"\nurl = \"http://example.com\"\n\
             health = { status = \"ok\" }\nenv = { \"A=B\" = \"c\" }",
            &[
                "salve.toml:3:7: servers.web.url: expected an address on this machine such as \
                 http://localhost:3000/",
                "salve.toml:4:21: servers.web.health.status: expected a status such as \"200\" or \
                 a range such as \"200-399\"",
                "salve.toml:5:7: servers.web.env: `A=B` cannot be the name of a variable",
            ],
        );
        check(
            "agent.runtime = \"command\"",
            &["salve.toml:1:17: agent.runtime: \"command\" needs `agent.command` to be set"],
        );
    }

    #[test]
    fn dependencies_exist_and_never_go_round() {
        let servers = |web: &str, api: &str, db: &str| {
            format!(
                "[servers.web]\ncommand=\"w\"\ndepends_on=[{web}]\n[servers.api]\ncommand=\"a\"\n\
                 depends_on=[{api}]\n[servers.db]\ncommand=\"d\"\ndepends_on=[{db}]\n"
            )
        };
        check(
            &servers("\"apy\"", "", ""),
            &["salve.toml:3:13: servers.web.depends_on.0: there is no server `apy`; \
               did you mean `api`?"],
        );
        check(
            &servers("\"web\"", "", ""),
            &["salve.toml:3:13: servers.web.depends_on.0: each waits for the next: web → web"],
        );
        check(
            &servers("\"api\"", "\"db\"", "\"web\""),
            &[
                "salve.toml:6:13: servers.api.depends_on.0: each waits for the next: \
                 api → db → web → api",
                "salve.toml:9:13: servers.db.depends_on.0: each waits for the next: \
                 db → web → api → db",
                "salve.toml:3:13: servers.web.depends_on.0: each waits for the next: \
                 web → api → db → web",
            ],
        );
        let config = read(&servers("\"api\", \"db\"", "\"db\"", "")).unwrap();
        let order: Vec<_> =
            config.settings.servers_in_order().into_iter().map(|server| server.name).collect();
        assert_eq!(order, ["db", "api", "web"]);
    }

    #[test]
    fn a_server_wins_over_what_holds_for_all() {
        let config = read(
            "[server]\npty = true\nstop_grace_ms = 7\n[server.health]\nstatus = \"200\"\n\
             path = \"/up\"\n[servers.web]\ncommand = [\"npm\", \"run\", \"dev\"]\n\
             url = \"http://0.0.0.0:3000\"\npty = false\nhealth = { soak_ms = 9, body = \"Hi\" }\n\
             [servers.api]\ncommand = \"npm run api\"\n",
        );
        let servers = config.unwrap().settings.servers_in_order();
        let [api, web] = &servers[..] else { panic!("{servers:?}") };
        assert_eq!(web.url.as_ref().unwrap().to_string(), "http://localhost:3000/up");
        assert_eq!((web.pty, api.pty), (false, true));
        assert_eq!((web.soak.as_millis(), api.soak), (9, Duration::from_secs(3)));
        assert_eq!(web.stop_grace, Duration::from_millis(7));
        let expect = web.expect.as_ref().unwrap();
        assert_eq!((expect.status.to, expect.body.as_deref()), (200, Some("Hi")));
        assert_eq!(web.command.argv(), ["npm", "run", "dev"]);
        assert_eq!(api.command.argv(), ["sh", "-c", "npm run api"]);
        assert_eq!((&api.url, api.path.as_deref()), (&None, Some("/up")));
    }

    #[test]
    fn servers_and_commands_can_be_set_by_the_environment() {
        let environment: Environment = [
            ("SALVE_SERVERS", "{ web = { command = [\"node\", \"x.js\"] } }"),
            ("SALVE_AGENT_COMMAND", "my-agent run"),
            ("SALVE_SERVER_HEALTH_SOAK_MS", "50"),
            ("SALVE_SERVER", "web"),
        ]
        .into_iter()
        .collect();
        let config = load(&Sources { environment, ..Sources::default() }).unwrap();
        assert_eq!(config.warnings(), []);
        let settings = &config.settings;
        assert_eq!(settings.servers["web"].command.as_ref().unwrap().to_string(), "node x.js");
        assert_eq!(settings.agent.command, Some(CommandLine::Line("my-agent run".into())));
        assert_eq!(settings.server.health.soak, Duration::from_millis(50));
    }
}
