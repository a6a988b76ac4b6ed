//! A small web server that fails once, so that a demo needs no other program.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// How the server fails, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Play {
    /// It ends with an error.
    Crash,
    /// It takes connections and answers none.
    Hang,
}

/// Serves until it fails, `well` after its first start in a directory, or is ended.
pub(super) fn play(how: Play, well: Duration) -> io::Result<()> {
    let mark = match how {
        Play::Crash => ".demo-crashed",
        Play::Hang => ".demo-hung",
    };
    // Whoever makes the file is the first run, which fails; later ones are well.
    let is_first = OpenOptions::new().write(true).create_new(true).open(mark).is_ok();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut out = io::stdout();
    writeln!(out, "ready on http://{}/", listener.local_addr()?)?;
    out.flush()?;
    let begun = Instant::now();
    if is_first && how == Play::Crash {
        listener.set_nonblocking(true)?;
    }
    let mut kept = Vec::new();
    loop {
        if is_first && how == Play::Crash && begun.elapsed() > well {
            // A failure that says nothing but that it happened: starting again is all one can do.
            writeln!(io::stderr(), "Error: the worker pool was lost")?;
            return Ok(());
        }
        match listener.accept() {
            // A client that hangs up meanwhile is nobody's trouble.
            Ok((stream, _)) if is_first && how == Play::Hang && begun.elapsed() > well => {
                kept.push(stream);
            }
            Ok((mut stream, _)) => {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
                let mut head = [0; 1024];
                let _ = stream.read(&mut head);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n");
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error),
        }
    }
}
