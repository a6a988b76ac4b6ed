//! A network of its own for a soak: each machine is a namespace with one cable to a switch, and a
//! cable can be pulled. Without the rights for it all machines are this one.

use std::process::{Command, Stdio};

/// The switch and its machines; they go with the soak.
pub(super) struct Network {
    /// What its names begin with; nothing where there is no network of its own.
    tag: Option<String>,
    subnet: String,
    machines: Vec<String>,
}

/// A machine: a namespace, or this one.
#[derive(Clone, Debug)]
pub(super) struct MachineNet {
    /// The namespace; nothing means this machine.
    pub(super) space: Option<String>,
    /// Its end of the cable at the switch.
    cable: String,
    pub(super) address: String,
}

fn ip(args: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(args.split_whitespace()).stdin(Stdio::null());
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

impl Network {
    /// Makes a switch, where that is allowed.
    pub(super) fn make() -> Self {
        let number = std::process::id() % 60_000;
        let tag = format!("sv{number}");
        let subnet = format!("10.{}.{}", 64 + number / 250, number % 250);
        let is_there = ip(&format!("link add {tag}b type bridge"))
            && ip(&format!("addr add {subnet}.1/24 dev {tag}b"))
            && ip(&format!("link set {tag}b up"));
        let tag = is_there.then_some(tag);
        Self { tag, subnet, machines: Vec::new() }
    }

    /// Tells whether cables can be pulled.
    pub(super) fn is_own(&self) -> bool {
        self.tag.is_some()
    }

    /// Returns where the soak itself is reached.
    pub(super) fn own_address(&self) -> String {
        if self.is_own() { format!("{}.1", self.subnet) } else { "127.0.0.1".to_owned() }
    }

    /// Adds a machine.
    pub(super) fn add(&mut self, number: usize) -> Result<MachineNet, String> {
        let Some(tag) = &self.tag else {
            let address = "127.0.0.1".to_owned();
            return Ok(MachineNet { space: None, cable: String::new(), address });
        };
        let (space, cable) = (format!("{tag}n{number}"), format!("{tag}c{number}"));
        let address = format!("{}.{}", self.subnet, number + 10);
        self.machines.push(space.clone());
        let lines = [
            format!("netns add {space}"),
            format!("link add {cable} type veth peer name eth0 netns {space}"),
            format!("link set {cable} master {tag}b"),
            format!("link set {cable} up"),
            format!("-n {space} addr add {address}/24 dev eth0"),
            format!("-n {space} link set eth0 up"),
            format!("-n {space} link set lo up"),
        ];
        match lines.iter().find(|line| !ip(line)) {
            Some(line) => Err(format!("`ip {line}` failed")),
            None => Ok(MachineNet { space: Some(space), cable, address }),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let Some(tag) = &self.tag else { return };
        for space in &self.machines {
            // Its cable goes with it.
            ip(&format!("netns del {space}"));
        }
        ip(&format!("link del {tag}b"));
    }
}

impl MachineNet {
    /// Returns a command that is run on the machine.
    pub(super) fn command(&self, program: &std::path::Path) -> Command {
        let Some(space) = &self.space else { return Command::new(program) };
        let mut command = Command::new("ip");
        // It becomes the program, under the same number.
        command.args(["netns", "exec", space]).arg(program);
        command
    }

    /// Pulls the cable.
    pub(super) fn cut(&self) {
        ip(&format!("link set {} down", self.cable));
    }

    /// Puts it back.
    pub(super) fn mend(&self) {
        ip(&format!("link set {} up", self.cable));
    }
}
