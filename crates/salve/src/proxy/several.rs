//! Several servers as one: each behind a proxy of its own, which keeps it alive and heals its calls.
//!
//! What goes where is decided in core. Each wire has a thread that writes to it, so that a server
//! which does not read holds up nobody else. When the client leaves, or this process is killed, the
//! proxies lose their input and end with their servers.

use std::ffi::OsString;
use std::io::{self, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use salve_core::tool::several::{ServerSwitch, SwitchedLine};

/// How long a greeting waits for the slowest server.
const GREETING: Duration = Duration::from_secs(15);
/// How long the proxies may take to end with their servers.
const FAREWELL: Duration = Duration::from_secs(75);
/// How often it is looked whether they have ended.
const LOOK: Duration = Duration::from_millis(10);

/// One of several servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchedServer {
    /// Its name, which stands before names that two servers have.
    pub name: String,
    /// The command of its proxy.
    pub argv: Vec<OsString>,
}

/// Something that came in.
enum SwitchNews {
    FromClient(Vec<u8>),
    ClientEnded,
    FromServer(usize, Vec<u8>),
    ServerEnded(usize),
}

/// Where lines go out.
struct SwitchOutlets {
    client: Option<Sender<Vec<u8>>>,
    servers: Vec<Option<Sender<Vec<u8>>>>,
}

impl SwitchOutlets {
    fn send(&self, lines: Vec<SwitchedLine>) {
        for line in lines {
            let (outlet, line) = match line {
                SwitchedLine::ToClient(line) => (self.client.as_ref(), line),
                SwitchedLine::ToServer(at, line) => {
                    (self.servers.get(at).and_then(Option::as_ref), line)
                }
            };
            // Whoever has gone is noticed where lines come from.
            let _ = outlet.map(|outlet| outlet.send(line));
        }
    }
}

/// Stands between standard input and output and all servers until the client has gone.
///
/// # Errors
///
/// When a server's proxy cannot be started.
pub fn run(servers: Vec<SwitchedServer>) -> io::Result<ExitCode> {
    let (post, inbox) = mpsc::channel();
    let mut children = Vec::new();
    let mut outlets = SwitchOutlets { client: None, servers: Vec::new() };
    let (client, told) = outlet(io::stdout());
    outlets.client = Some(client);
    for (at, server) in servers.iter().enumerate() {
        let mut child = start_proxy(server)?;
        if let Some(stdin) = child.stdin.take() {
            outlets.servers.push(Some(outlet(stdin).0));
        }
        if let Some(stdout) = child.stdout.take() {
            let post = post.clone();
            thread::spawn(move || {
                hand_on_lines(BufReader::new(stdout), &post, |line| {
                    SwitchNews::FromServer(at, line)
                });
                // Nobody is left to tell when the client has gone.
                let _ = post.send(SwitchNews::ServerEnded(at));
            });
        }
        children.push(child);
    }
    thread::spawn(move || {
        hand_on_lines(BufReader::new(io::stdin()), &post, SwitchNews::FromClient);
        let _ = post.send(SwitchNews::ClientEnded);
    });
    let switch = ServerSwitch::new(servers.into_iter().map(|server| server.name).collect());
    pass_until_left(switch, &inbox, &mut outlets);
    outlets.client = None;
    // The last lines are on their way out.
    let _ = told.join();
    Ok(wait_for_all(children))
}

/// Hands everything on until the client or all servers have gone, and what was under way by then.
fn pass_until_left(
    mut switch: ServerSwitch,
    inbox: &Receiver<SwitchNews>,
    outlets: &mut SwitchOutlets,
) {
    let mut greeting: Option<Instant> = None;
    while !switch.is_deserted() {
        let left = greeting.map_or(GREETING, |due| due.saturating_duration_since(Instant::now()));
        let lines = match inbox.recv_timeout(left) {
            Ok(SwitchNews::FromClient(line)) => {
                greeting.get_or_insert_with(|| Instant::now() + GREETING);
                switch.client_sends(&line)
            }
            Ok(SwitchNews::FromServer(at, line)) => switch.server_sends(at, &line),
            Ok(SwitchNews::ServerEnded(at)) => switch.server_ended(at),
            Err(RecvTimeoutError::Timeout) => {
                greeting = None;
                switch.greeting_is_overdue()
            }
            Ok(SwitchNews::ClientEnded) | Err(RecvTimeoutError::Disconnected) => break,
        };
        outlets.send(lines);
    }
    // The proxies end when they have answered.
    outlets.servers.clear();
    while !switch.is_deserted()
        && let Ok(news) = inbox.recv_timeout(FAREWELL)
    {
        match news {
            SwitchNews::FromServer(at, line) => outlets.send(switch.server_sends(at, &line)),
            SwitchNews::ServerEnded(at) => outlets.send(switch.server_ended(at)),
            SwitchNews::FromClient(_) | SwitchNews::ClientEnded => {}
        }
    }
}

fn start_proxy(server: &SwitchedServer) -> io::Result<Child> {
    let (program, words) = server.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// Hands on whole lines, one by one.
fn hand_on_lines(
    mut from: impl io::BufRead,
    post: &Sender<SwitchNews>,
    news: impl Fn(Vec<u8>) -> SwitchNews,
) {
    loop {
        let mut line = Vec::new();
        match from.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if post.send(news(line)).is_err() => return,
            Ok(_) => {}
        }
    }
}

/// Returns where lines for a wire are put, and the thread that writes them.
fn outlet(mut to: impl Write + Send + 'static) -> (Sender<Vec<u8>>, JoinHandle<()>) {
    let (sender, lines) = mpsc::channel::<Vec<u8>>();
    let thread = thread::spawn(move || {
        for mut line in lines {
            if !line.ends_with(b"\n") {
                line.push(b'\n');
            }
            if to.write_all(&line).and_then(|()| to.flush()).is_err() {
                return;
            }
        }
    });
    (sender, thread)
}

/// Waits for the proxies; the first code that is not zero is ours.
fn wait_for_all(children: Vec<Child>) -> ExitCode {
    let deadline = Instant::now() + FAREWELL;
    let mut code = 0;
    for mut child in children {
        loop {
            match child.try_wait() {
                Ok(Some(status)) => {
                    let own = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                    code = if code == 0 { own } else { code };
                    break;
                }
                Ok(None) if Instant::now() < deadline => thread::sleep(LOOK),
                Ok(None) | Err(_) => {
                    // Its keeper sees to its server.
                    let _ = child.kill();
                    let _ = child.wait();
                    break;
                }
            }
        }
    }
    ExitCode::from(code)
}
