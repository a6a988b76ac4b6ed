//! Who is at the other end of a connection on this machine, by the kernel's word.
//!
//! A process id is only a number: when its process has ended, another may get it. Where the kernel
//! can (Linux 6.5), the other end is therefore held by a handle, which stands for that very process
//! and says so when it has ended.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    getsockopt,
    sockopt::{PeerCredentials, PeerPidfd},
};
use rustix::net::sockopt::socket_peercred;

/// The process that made a connection.
#[derive(Debug)]
pub struct Peer {
    pid: u32,
    uid: u32,
    handle: Option<OwnedFd>,
}

impl Peer {
    /// Returns who connected to the other end of a socket that stands as a file.
    ///
    /// # Errors
    ///
    /// When it has ended already, or lives where it cannot be seen from here.
    pub fn of_socket(socket: impl AsFd) -> io::Result<Self> {
        let told = socket_peercred(&socket)?;
        let pid = told.pid.as_raw_pid().cast_unsigned();
        let handle = match getsockopt(&socket, PeerPidfd) {
            Ok(handle) => Some(handle),
            // An older kernel has no such word; then the number and the start have to do.
            Err(Errno::ENOPROTOOPT) => None,
            Err(error) => return Err(error.into()),
        };
        let peer = Self { pid, uid: told.uid.as_raw(), handle };
        if peer.is_there() { Ok(peer) } else { Err(io::Error::other("it has ended")) }
    }

    /// Returns a peer that is known by its number alone.
    #[cfg(test)]
    pub(super) fn of_number(pid: u32, uid: u32) -> Self {
        Self { pid, uid, handle: None }
    }

    /// Returns its process id, as this process sees it.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the user that runs it.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns whether its number is still its own, as far as the kernel can tell.
    pub fn is_there(&self) -> bool {
        self.handle.as_ref().is_none_or(|handle| process_of(handle) == Some(self.pid))
    }
}

/// Returns the number of the process that listens at the other end of a socket, which may have ended;
/// nothing if it lives where it cannot be seen from here.
pub fn listener_at(socket: impl AsFd) -> Option<u32> {
    let told = getsockopt(&socket, PeerCredentials).ok()?;
    u32::try_from(told.pid()).ok().filter(|pid| *pid > 0)
}

/// Returns the process that a handle stands for, unless it has ended.
fn process_of(handle: &OwnedFd) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    // One that has ended, or that is not to be seen from here, has no positive number.
    line.trim().parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_peer_that_has_ended_is_nobody_whoever_has_its_number_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("door");
        let listener = UnixListener::bind(&path).unwrap();
        let _mine = UnixStream::connect(&path).unwrap();
        let me = Peer::of_socket(listener.accept().unwrap().0).unwrap();
        assert_eq!((me.pid(), me.is_there()), (std::process::id(), true));
        assert!(me.handle.is_some() || !is_new());
        let script = format!(
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect({path:?}); \
             sys.stdin.read()"
        );
        let mut command = Command::new("python3");
        let mut other = command.args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
        let peer = Peer::of_socket(listener.accept().unwrap().0).unwrap();
        assert_eq!((peer.pid(), peer.is_there()), (other.id(), true));
        drop(other.stdin.take());
        other.wait().unwrap();
        assert!(!peer.is_there() || peer.handle.is_none());
    }

    /// Returns whether this kernel is known to hold peers by handles.
    fn is_new() -> bool {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut parts = release.split('.').map_while(|part| part.parse::<u32>().ok());
        (parts.next(), parts.next()) >= (Some(6), Some(5))
    }
}
