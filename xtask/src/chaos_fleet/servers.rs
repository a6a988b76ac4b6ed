//! The three servers of a soak, each with a disk of its own that a power cut leaves as the last write
//! to it did.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::network::MachineNet;

/// How large a server's disk is, in megabytes.
const DISK_MB: u64 = 1_536;

/// How much may be left of a disk that is full, in bytes.
const FULL: u64 = 16 * 1024;

type ServersResult<T> = Result<T, Box<dyn std::error::Error>>;

/// A disk in a file: what was written to it, and was not asked to be kept, is only in memory.
struct DiskImage {
    file: PathBuf,
    mount: PathBuf,
}

fn quiet(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl DiskImage {
    /// Makes a disk, where that is allowed.
    fn make(home: &Path) -> Option<Self> {
        let (file, mount) = (home.join("disk.img"), home.join("disk"));
        fs::create_dir_all(&mount).ok()?;
        fs::File::create(&file).ok()?.set_len(DISK_MB * 1024 * 1024).ok()?;
        let is_made = quiet("mkfs.ext4", &["-q", "-F", &file.to_string_lossy()]);
        let disk = Self { file, mount };
        (is_made && disk.mount()).then_some(disk)
    }

    fn mount(&self) -> bool {
        let (file, mount) = (self.file.to_string_lossy(), self.mount.to_string_lossy());
        quiet("mount", &["-o", "loop", &file, &mount])
    }

    fn unmount(&self) {
        // Whoever had it open was ended, and may need a moment to be gone.
        for _ in 0..100 {
            if quiet("umount", &[&self.mount.to_string_lossy()]) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// Copies the disk as it would be found if the power were cut now.
    fn copy_as_it_is(&self) -> bool {
        let copy = self.file.with_extension("cut");
        quiet("cp", &["--sparse=always", &self.file.to_string_lossy(), &copy.to_string_lossy()])
    }

    /// Puts what a power cut left in the disk's place.
    fn restore(&self) -> io::Result<()> {
        self.unmount();
        fs::rename(self.file.with_extension("cut"), &self.file)?;
        if self.mount() { Ok(()) } else { Err(io::Error::other("the disk cannot be used again")) }
    }
}

impl Drop for DiskImage {
    fn drop(&mut self) {
        self.unmount();
    }
}

/// One of the servers.
pub(super) struct Broker {
    program: PathBuf,
    home: PathBuf,
    pub(super) net: MachineNet,
    port: u16,
    child: Option<Child>,
    disk: Option<DiskImage>,
}

impl Broker {
    /// Prepares three servers that are one cluster.
    pub(super) fn three(
        program: &Path,
        home: &Path,
        nets: &[MachineNet],
    ) -> ServersResult<Vec<Self>> {
        let held: Vec<TcpListener> = (0..nets.len() * 2)
            .map(|_| TcpListener::bind("127.0.0.1:0"))
            .collect::<io::Result<_>>()?;
        let ports: Vec<u16> = held
            .iter()
            .map(|one| one.local_addr().map(|address| address.port()))
            .collect::<io::Result<_>>()?;
        drop(held);
        let (clients, routes) = ports.split_at(nets.len());
        let all: Vec<String> = nets
            .iter()
            .zip(routes)
            .map(|(net, port)| format!("\"nats://{}:{port}\"", net.address))
            .collect();
        let mut brokers = Vec::new();
        for (number, net) in nets.iter().enumerate() {
            let home = home.join(format!("server-{number}"));
            fs::create_dir_all(&home)?;
            let disk = DiskImage::make(&home);
            let store = disk.as_ref().map_or(home.join("js"), |disk| disk.mount.join("js"));
            let (address, port, route) = (&net.address, clients[number], routes[number]);
            let config = format!(
                "server_name: s{number}\nlisten: \"{address}:{port}\"\n\
                 jetstream {{ store_dir: \"{}\", sync_interval: always, max_file_store: 1300M }}\n\
                 cluster {{ name: chaos, listen: \"{address}:{route}\", no_advertise: true, \
                 routes: [{}] }}\n",
                store.display(),
                all.join(", ")
            );
            fs::write(home.join("server.conf"), config)?;
            let (net, program) = (net.clone(), program.to_path_buf());
            brokers.push(Self { program, home, net, port, child: None, disk });
        }
        Ok(brokers)
    }

    pub(super) fn address(&self) -> ServersResult<SocketAddr> {
        Ok(format!("{}:{}", self.net.address, self.port).parse()?)
    }

    pub(super) fn start(&mut self) -> io::Result<()> {
        if self.child.is_some() {
            return Ok(());
        }
        let log = fs::File::options().create(true).append(true).open(self.home.join("log"))?;
        let mut command = self.net.command(&self.program);
        command.arg("--config").arg(self.home.join("server.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn()?);
        Ok(())
    }

    /// Kills it as nothing that runs can prevent.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Tells whether it should run and does not.
    pub(super) fn has_died(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }

    pub(super) fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            quiet("kill", &[&format!("-{name}"), &child.id().to_string()]);
        }
    }

    pub(super) fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Fills its disk.
    pub(super) fn fill(&self) {
        let Some(disk) = &self.disk else { return };
        fill(&disk.mount, "ballast");
    }

    /// Makes room again.
    pub(super) fn make_room(&self) {
        if let Some(disk) = &self.disk {
            // It may not have been filled.
            let _ = fs::remove_file(disk.mount.join("ballast"));
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Fills a file system, but for a little.
pub(super) fn fill(dir: &Path, name: &str) {
    let Ok(output) = Command::new("df").args(["-B1", "--output=avail"]).arg(dir).output() else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let left = said.lines().last().and_then(|line| line.trim().parse::<u64>().ok()).unwrap_or(0);
    let size = left.saturating_sub(FULL).to_string();
    quiet("fallocate", &["-l", &size, &dir.join(name).to_string_lossy()]);
}

/// Cuts the power of all servers at the same instant.
pub(super) fn cut_power(brokers: &mut [Broker]) -> ServersResult<()> {
    for broker in &*brokers {
        broker.signal("STOP");
    }
    let mut copies = Vec::new();
    for broker in &*brokers {
        copies.push(broker.disk.as_ref().is_some_and(DiskImage::copy_as_it_is));
    }
    for (broker, is_copied) in brokers.iter_mut().zip(copies) {
        broker.kill();
        if let (Some(disk), true) = (&broker.disk, is_copied) {
            disk.restore()?;
        }
    }
    Ok(())
}
