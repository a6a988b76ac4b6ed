//! Whether a fleet's servers keep what they acknowledge, whatever happens to one of them.
//!
//! The servers say how everything is kept; when they write to their disks is told by their monitoring
//! alone. What cannot be seen is a fault: no fleet is called durable of which it is not known.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use super::Finding;
use crate::store::{FleetError, FleetStanding, FleetTerms, Store, StreamStanding};

/// How long the monitoring of a server may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// From how many hundredths on a place is nearly full.
const NEARLY_FULL: u64 = 80;

/// What a server's monitoring says of it.
#[derive(Debug, Deserialize)]
struct Monitored {
    server_name: String,
    version: String,
    #[serde(default)]
    jetstream: MonitoredJetStream,
}

#[derive(Debug, Default, Deserialize)]
struct MonitoredJetStream {
    config: Option<MonitoredConfig>,
}

#[derive(Debug, Deserialize)]
struct MonitoredConfig {
    #[serde(default)]
    sync_always: bool,
}

/// What is known of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ServerSeen {
    /// It keeps what it acknowledges.
    Durable { name: String },
    /// It does not, and why.
    Wrong { detail: String, mend: &'static str },
    /// Nobody can tell, and why.
    Unknown { why: String },
}

/// Looks at a fleet; `monitors` are the addresses of its servers' monitoring.
pub fn examine_fleet(terms: &FleetTerms, monitors: Option<&str>) -> Vec<Finding> {
    let standing = match Store::look_at_fleet(terms) {
        Ok(standing) => standing,
        Err(error) => return vec![Finding::fail("fleet", error.to_string(), error.advice())],
    };
    let version = format!("nats-server {} at {}", standing.version, terms.url);
    let mut findings = vec![Finding::ok("fleet", version)];
    let monitors = monitors.into_iter().flat_map(|all| all.split(',')).map(str::trim);
    let seen: Vec<ServerSeen> =
        monitors.filter(|monitor| !monitor.is_empty()).map(look_at_server).collect();
    let wanted = usize::from(terms.replicas);
    findings.extend(servers(&seen, &standing, wanted));
    findings.extend(copies(&standing, wanted));
    findings.extend(limits(&standing));
    findings
}

/// Asks a server's monitoring how it is, and when it writes to its disk.
fn look_at_server(monitor: &str) -> ServerSeen {
    let at = monitor.trim_end_matches('/');
    let said = asked(&format!("{at}/varz")).and_then(|text| {
        serde_json::from_str::<Monitored>(&text).map_err(|error| error.to_string())
    });
    let server = match said {
        Ok(server) => server,
        Err(error) => return ServerSeen::Unknown { why: format!("{at}: {error}") },
    };
    let health = asked(&format!("{at}/healthz"));
    judged(server, health.err().as_deref())
}

fn asked(url: &str) -> Result<String, String> {
    let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build();
    let answer = ureq::Agent::new_with_config(config).get(url).call();
    let text = answer.and_then(|mut answer| answer.body_mut().read_to_string());
    text.map_err(|error| error.to_string())
}

/// Judges a server by what its monitoring says; `illness` is why it does not call itself well.
fn judged(server: Monitored, illness: Option<&str>) -> ServerSeen {
    let Monitored { server_name: name, version, jetstream } = server;
    let wrong = |what: String, mend| ServerSeen::Wrong { detail: format!("{name} {what}"), mend };
    if FleetError::too_old(&version).is_some() {
        return wrong(format!("is version {version}: too old"), "update nats-server there");
    }
    let Some(config) = jetstream.config else {
        return wrong(
            "has no JetStream".to_owned(),
            "give it `jetstream { … }` in its configuration",
        );
    };
    if !config.sync_always {
        return wrong(
            "acknowledges before its disk has it: a power cut loses jobs".to_owned(),
            "in its configuration: jetstream { sync_interval: always }, then start it again",
        );
    }
    match illness {
        Some(why) => wrong(format!("is not well: {why}"), "its own log says more"),
        None => ServerSeen::Durable { name },
    }
}

/// Judges whether every server that keeps something has on its disk what it acknowledged.
fn servers(seen: &[ServerSeen], standing: &FleetStanding, wanted: usize) -> Vec<Finding> {
    let name = "fleet disk";
    let tell =
        "give each server `http: \"HOST:8222\"`, and set fleet.monitor = \"http://HOST:8222,…\"";
    let mut known = BTreeSet::new();
    let mut faults = Vec::new();
    for one in seen {
        match one {
            ServerSeen::Durable { name } => {
                known.insert(name.as_str());
            }
            ServerSeen::Wrong { detail, mend } => {
                faults.push(Finding::fail(name, detail.as_str(), *mend));
            }
            ServerSeen::Unknown { why } => {
                faults.push(Finding::fail(name, format!("it cannot be told: {why}"), tell));
            }
        }
    }
    if !faults.is_empty() {
        return faults;
    }
    let keepers = standing.servers.iter().map(String::as_str);
    if let Some(unseen) = keepers.into_iter().find(|keeper| !known.contains(keeper)) {
        let detail = format!("it cannot be told whether {unseen} has it before it acknowledges");
        return vec![Finding::fail(name, detail, tell)];
    }
    if known.len() < wanted {
        let detail = format!("of {wanted} servers, {} are known to be durable", known.len());
        return vec![Finding::fail(name, detail, tell)];
    }
    let detail = "what is acknowledged is on the disk (sync_interval: always), unless the disk itself \
                  says so too early, which cannot be seen from here";
    vec![Finding::ok(name, detail)]
}

/// Judges whether everything is on as many servers as it should be.
fn copies(standing: &FleetStanding, wanted: usize) -> Vec<Finding> {
    let name = "fleet copies";
    let mut faults = Vec::new();
    for missing in &standing.missing {
        let detail = format!("{missing} is not there");
        faults.push(Finding::fail(name, detail, "salve workers   # makes what is missing"));
    }
    for stream in &standing.streams {
        let StreamStanding { name: of, replicas, current, .. } = stream;
        if *replicas < wanted {
            let detail = format!("{of} is on {replicas} servers, not {wanted}");
            let mend = format!("nats stream edit {of} --replicas {wanted}");
            faults.push(Finding::fail(name, detail, mend));
        } else if current < replicas {
            let detail = format!("{of} is up to date on {current} of {replicas} servers");
            faults.push(Finding::fail(name, detail, "see which server is down, and start it"));
        }
    }
    if !faults.is_empty() {
        return faults;
    }
    let fewest = standing.streams.iter().map(|stream| stream.replicas).min();
    let found = match fewest {
        Some(servers @ 2..) => Finding::ok(name, format!("everything is on {servers} servers")),
        Some(_) | None => Finding::warn(
            name,
            "everything is on one server: its disk is all there is",
            "salve fleet config HOST HOST HOST   # and fleet.replicas = 3",
        ),
    };
    vec![found]
}

/// Judges whether everything has a limit, refuses what is beyond it, and has room.
fn limits(standing: &FleetStanding) -> Vec<Finding> {
    let name = "fleet room";
    let faults: Vec<Finding> = standing.streams.iter().filter_map(limit_fault).collect();
    if !faults.is_empty() {
        return faults;
    }
    let detail = "everything has a limit, refuses what is beyond it, and has room below it; how much \
                  room the disks have cannot be seen from here";
    vec![Finding::ok(name, detail)]
}

/// Says what is wrong with a stream's limits, and how to mend it.
fn limit_fault(stream: &StreamStanding) -> Option<Finding> {
    let (name, of) = ("fleet room", stream.name.as_str());
    let edit = |how: &str| format!("nats stream edit {of} {how}");
    let again = "make it again: save what matters, remove it, then salve workers";
    let Some(most) = stream.max_bytes else {
        let detail = format!("{of} has no limit: it may fill the disk");
        return Some(Finding::fail(name, detail, edit("--max-bytes 1G")));
    };
    if !stream.refuses_new {
        let detail = format!("{of} drops what is old when it is full");
        return Some(Finding::fail(name, detail, edit("--discard new")));
    }
    if stream.forgets {
        let detail = format!("{of} drops what is old");
        return Some(Finding::fail(name, detail, edit("--max-age 0")));
    }
    if !stream.is_on_disk {
        let detail = format!("{of} acknowledges what is in memory only");
        return Some(Finding::fail(name, detail, again));
    }
    let used = stream.bytes.saturating_mul(100) / most.max(1);
    (used >= NEARLY_FULL).then(|| {
        let detail = format!("{of} is {used} % full");
        Finding::warn(name, detail, "salve jobs remove RUN   # of jobs that are over")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::FindingState::{self, Fail, Ok, Warn};

    type Harm = fn(&mut StreamStanding);

    fn stream() -> StreamStanding {
        StreamStanding {
            name: "s".to_owned(),
            replicas: 3,
            current: 3,
            max_bytes: Some(100),
            bytes: 10,
            refuses_new: true,
            forgets: false,
            is_on_disk: true,
        }
    }

    fn standing(stream: StreamStanding) -> FleetStanding {
        FleetStanding {
            version: "2.15.1".to_owned(),
            servers: ["a", "b", "c"].map(str::to_owned).into(),
            streams: vec![stream],
            missing: Vec::new(),
        }
    }

    fn worst(findings: &[Finding]) -> &Finding {
        findings.iter().max_by_key(|finding| finding.state).unwrap()
    }

    /// **Invariant:** No fleet is called durable of which it is not known.
    #[test]
    fn only_what_is_known_to_be_durable_is_said_to_be() {
        let durable = |name: &str| ServerSeen::Durable { name: name.to_owned() };
        let unknown = || ServerSeen::Unknown { why: "nobody answers".to_owned() };
        let wrong = || ServerSeen::Wrong { detail: "b forgets".to_owned(), mend: "set it" };
        for (name, seen, want) in [
            ("all", vec![durable("a"), durable("b"), durable("c")], Ok),
            ("more", vec![durable("a"), durable("b"), durable("c"), durable("d")], Ok),
            ("none", vec![], Fail),
            ("two", vec![durable("a"), durable("b")], Fail),
            ("one of them twice", vec![durable("a"), durable("b"), durable("b")], Fail),
            ("others", vec![durable("x"), durable("y"), durable("z")], Fail),
            ("one that forgets", vec![durable("a"), wrong(), durable("c")], Fail),
            ("one that is silent", vec![durable("a"), unknown(), durable("c")], Fail),
        ] {
            let found = servers(&seen, &standing(stream()), 3);
            assert_eq!(worst(&found).state, want, "{name}: {found:?}");
            assert_eq!(worst(&found).mend.is_some(), want != Ok, "{name}");
        }
        let begun = FleetStanding { servers: ["a".to_owned()].into(), ..standing(stream()) };
        assert_eq!(servers(&[durable("a")], &begun, 1)[0].state, Ok);
        assert_eq!(
            servers(&[durable("a")], &begun, 3)[0].state,
            Fail,
            "nothing is kept by them yet"
        );
    }

    #[test]
    fn a_server_is_judged_by_what_its_monitoring_says() {
        let said = |version: &str, jetstream: &str| {
            let text = format!(
                r#"{{"server_name": "a", "version": "{version}", "jetstream": {jetstream}}}"#
            );
            serde_json::from_str::<Monitored>(&text).unwrap()
        };
        let always = r#"{"config": {"sync_always": true}}"#;
        let durable = ServerSeen::Durable { name: "a".to_owned() };
        assert_eq!(judged(said("2.14.0", always), None), durable);
        for (server, illness) in [
            (said("2.13.9", always), None),
            (said("2.15.1", r#"{"config": {"sync_interval": 120000000000}}"#), None),
            (said("2.15.1", "{}"), None),
            (said("2.15.1", always), Some("http status: 503")),
        ] {
            let text = format!("{server:?} {illness:?}");
            assert!(matches!(judged(server, illness), ServerSeen::Wrong { .. }), "{text}");
        }
    }

    #[test]
    fn each_fault_of_a_stream_is_found_and_can_be_mended() {
        let faults: [(&str, Harm, FindingState); 9] = [
            ("nothing", |_| {}, Ok),
            ("too few", |s| s.replicas = 1, Fail),
            ("behind", |s| s.current = 2, Fail),
            ("more than wanted", |s| (s.replicas, s.current) = (5, 5), Ok),
            ("endless", |s| s.max_bytes = None, Fail),
            ("dropping", |s| s.refuses_new = false, Fail),
            ("forgetful", |s| s.forgets = true, Fail),
            ("volatile", |s| s.is_on_disk = false, Fail),
            ("nearly full", |s| s.bytes = 80, Warn),
        ];
        for (name, harm, want) in faults {
            let mut of = stream();
            harm(&mut of);
            let mut of = standing(of);
            // What is well does not hide what is not.
            of.streams.insert(0, stream());
            let found = [copies(&of, 3), limits(&of)].concat();
            let worst = worst(&found);
            assert_eq!(worst.state, want, "{name}: {worst:?}");
            assert_eq!(worst.mend.is_some(), want != Ok, "{name}");
        }
        let lone = StreamStanding { replicas: 1, current: 1, ..stream() };
        let alone = copies(&standing(lone), 1);
        assert_eq!(alone[0].state, Warn, "one server is no fleet to rely on");
        let missing = FleetStanding { missing: vec!["t".to_owned()], ..standing(stream()) };
        assert_eq!(copies(&missing, 3)[0].state, Fail);
    }
}
