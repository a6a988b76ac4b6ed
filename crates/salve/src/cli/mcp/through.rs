//! Passing an agent's messages on to the server of the tools, out of the agent's private layer.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::process::spawn_thread;

/// How much is passed on at once.
const PIECE: usize = 16 << 10;

/// Connects stdin and stdout with the server, until the server is done.
///
/// # Errors
///
/// When it cannot be reached, or what it says cannot be passed on.
pub(super) fn pass_on(socket: &Path) -> io::Result<()> {
    let mut server = UnixStream::connect(socket)?;
    let mut to_server = server.try_clone()?;
    spawn_thread("to the server", move || {
        // Where the server is gone, the other direction ends, and this process with it.
        let _ = pass_all(&mut io::stdin().lock(), &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    pass_all(&mut server, &mut io::stdout().lock())
}

/// Passes everything on as it comes. The library's own copying leaves that to the kernel, which waits
/// for more between a pipe and a socket.
fn pass_all(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all(&piece[..count])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
