//! NATS servers of a test's own, on ports of their own, that keep what they acknowledge.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tempfile::TempDir;

use crate::store::fleet::FleetTerms;

/// How long servers may take to start, however busy the machine is.
const STARTING: Duration = Duration::from_secs(90);

/// The three servers that tests which run at the same time share.
static CLUSTER: Mutex<Weak<TestServers>> = Mutex::new(Weak::new());

/// How many fleets were begun.
static FLEETS: AtomicU32 = AtomicU32::new(0);

/// One server, or three that are one cluster; they end with their test.
#[derive(Debug)]
pub(crate) struct TestServers {
    children: Vec<Child>,
    urls: Vec<String>,
    dir: TempDir,
}

/// Where a server listens, as it says so itself.
#[derive(Deserialize)]
struct Ports {
    nats: Vec<String>,
}

impl TestServers {
    /// Starts one server; nothing where there is none on this machine.
    pub(crate) fn one() -> Option<Arc<Self>> {
        Self::start(&[String::new()]).map(Arc::new)
    }

    /// Starts three servers that are one cluster, unless another test has them.
    pub(crate) fn three() -> Option<Arc<Self>> {
        let mut shared = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(servers) = shared.upgrade() {
            return Some(servers);
        }
        // Each has to know where the others are before any of them runs.
        let held: Vec<TcpListener> =
            (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = held.iter().map(|one| one.local_addr().unwrap().port()).collect();
        drop(held);
        let routes: Vec<String> =
            ports.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        let cluster = |port: &u16| {
            let routes = routes.join(", ");
            format!("cluster {{ name: test, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}\n")
        };
        let more: Vec<String> = ports.iter().map(cluster).collect();
        let servers = Self::start(&more).map(Arc::new)?;
        *shared = Arc::downgrade(&servers);
        Some(servers)
    }

    /// Starts a server for each of these additions to the settings.
    fn start(more: &[String]) -> Option<Self> {
        let Some(program) = find() else {
            // What is printed by a test that passes is not shown; this is.
            let words = b"skipped: no nats-server here; cargo xtask check installs one\n";
            let _ = std::io::stderr().write_all(words);
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let mut servers = Self { children: Vec::new(), urls: Vec::new(), dir };
        for (number, more) in more.iter().enumerate() {
            let home = servers.home(number);
            fs::create_dir_all(&home).unwrap();
            let at = home.display();
            let config = format!(
                "server_name: s{number}\nlisten: \"127.0.0.1:-1\"\nports_file_dir: \"{at}\"\n\
                 jetstream {{ store_dir: \"{at}/js\", sync_interval: always, \
                 max_file_store: 16G }}\n{more}"
            );
            fs::write(home.join("server.conf"), config).unwrap();
            let log = fs::File::create(home.join("log")).unwrap();
            let mut command = Command::new(&program);
            command.arg("--config").arg(home.join("server.conf"));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            servers.children.push(command.spawn().unwrap());
        }
        let begun = Instant::now();
        for number in 0..more.len() {
            let home = servers.home(number);
            let url = loop {
                if let Some(url) = url_in(&home) {
                    break url;
                }
                let log = || fs::read_to_string(home.join("log"));
                assert!(begun.elapsed() < STARTING, "{:?}", log());
                std::thread::sleep(Duration::from_millis(5));
            };
            servers.urls.push(url);
        }
        Some(servers)
    }

    fn home(&self, number: usize) -> PathBuf {
        self.dir.path().join(number.to_string())
    }

    /// Returns how a fleet of its own is reached there.
    pub(crate) fn new_fleet(&self) -> FleetTerms {
        let number = FLEETS.fetch_add(1, Ordering::Relaxed);
        FleetTerms {
            url: self.urls.join(","),
            name: format!("test-{number}").parse().unwrap(),
            credentials: None,
            requires_tls: false,
            tls_ca: None,
            replicas: u8::try_from(self.urls.len()).unwrap(),
            storage_mb: 256,
        }
    }
}

impl Drop for TestServers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn url_in(dir: &Path) -> Option<String> {
    let is_ports = |path: &PathBuf| path.extension().is_some_and(|end| end == "ports");
    let path =
        fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path())).find(is_ports)?;
    let ports: Ports = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    ports.nats.into_iter().next()
}

/// Returns where a server is: as it is said, below `target/`, or among the user's programs.
fn find() -> Option<PathBuf> {
    let said = std::env::var_os("SALVE_NATS_SERVER").map(PathBuf::from);
    let exe = std::env::current_exe().ok();
    let target = exe.as_deref().and_then(|exe| exe.ancestors().nth(3));
    let installed = target.map(|target| target.join("nats-server/bin/nats-server"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).map(|dir| dir.join("nats-server"));
    said.into_iter().chain(installed).chain(others).find(|path| path.is_file())
}
