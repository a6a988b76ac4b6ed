//! How names are looked up: by TCP where that works, since UDP can only be refused as a whole.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Where the addresses of name servers are.
const SERVERS: &str = "/etc/resolv.conf";
/// What makes a resolver ask them by TCP.
const OPTION: &str = "use-vc";
/// How long a name server is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much of a program is looked at.
const PAGE: u64 = 4096;
/// A question by TCP, behind its length: where the root's servers are.
const QUESTION: [u8; 19] = [0, 17, b's', b'v', 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];

/// How names are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// By TCP, when programs are told so.
    ByTcp,
    /// Only by UDP.
    ByUdp,
}

impl Names {
    /// Finds out how names can be looked up on this machine, once.
    pub fn here() -> Names {
        static HERE: OnceLock<Names> = OnceLock::new();
        let look = || if !is_musl() && speaks_tcp(server()) { Names::ByTcp } else { Names::ByUdp };
        *HERE.get_or_init(look)
    }
}

/// Returns whether programs of this machine use musl, which asks by UDP whatever it is told.
fn is_musl() -> bool {
    let mut head = Vec::new();
    let read = fs::File::open(super::SHELL).map(|file| file.take(PAGE).read_to_end(&mut head));
    // A program names its loader where it begins.
    let loader = b"/ld-musl-";
    read.is_ok() && head.windows(loader.len()).any(|part| part == loader)
}

/// Returns the name server that is asked first.
fn server() -> SocketAddr {
    let text = fs::read_to_string(SERVERS).unwrap_or_default();
    let words = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let first = words.filter_map(|word| word.trim().parse().ok()).next();
    SocketAddr::new(first.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), 53)
}

/// Returns whether a name server answers by TCP, whatever it answers.
fn speaks_tcp(server: SocketAddr) -> bool {
    let ask = || -> io::Result<[u8; 5]> {
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&QUESTION)?;
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        Ok(head)
    };
    // Its length, our own number, and that it is an answer.
    ask().is_ok_and(|[_, _, first, second, kind]| {
        [first, second] == [QUESTION[2], QUESTION[3]] && kind & 0x80 != 0
    })
}

/// Returns what tells a resolver by the environment to look names up by TCP.
pub(super) fn by_tcp() -> (OsString, OsString) {
    ("RES_OPTIONS".into(), OPTION.into())
}

/// Writes the machine's list of name servers to `dir` so that it says the same to those who do not
/// look at the environment; returns the file and in whose place it belongs.
pub(super) fn servers(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let place = Path::new(SERVERS).canonicalize().ok()?;
    let text = fs::read_to_string(&place).ok()?;
    let file = dir.join("resolv.conf");
    fs::write(&file, format!("{}\noptions {OPTION}\n", text.trim_end())).ok()?;
    Some((file, place))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Returns whether a server that says this after it was asked counts as one of names.
    fn counts(answer: &'static [u8]) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; QUESTION.len()];
            stream.read_exact(&mut asked).unwrap();
            stream.write_all(answer).unwrap();
        });
        let counts = speaks_tcp(address);
        serve.join().unwrap();
        counts
    }

    #[test]
    fn a_name_server_counts_if_it_answers_by_tcp() {
        assert!(counts(b"\0\x11sv\x81\x80\0\x01\0\0\0\0\0\0\0\0\x02\0\x01"));
        assert!(counts(b"\0\x0csv\x81\x85\0\0\0\0\0\0\0\0"), "that it refuses is an answer");
        assert!(!counts(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        assert!(!counts(b""));
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(!speaks_tcp(free), "nobody is there");
    }
}
