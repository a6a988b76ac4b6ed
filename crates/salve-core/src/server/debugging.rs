//! Whether somebody may hold a server in a debugger, by how it was started and what it prints.
//!
//! A server that stands at a breakpoint answers as little as one that hangs, and whoever debugs it
//! wants it left alone.

/// Programs that debug what they run.
const DEBUGGERS: [&str; 8] =
    ["dlv", "gdb", "lldb", "lldb-server", "gdbserver", "rdbg", "rdebug-ide", "ndb"];

/// What marks a program that is run for a debugger, anywhere in a word of its command.
const MARKS: [&str; 4] = ["debugpy", "pydevd", "-agentlib:jdwp", "-Xrunjdwp"];

/// Beginnings of lines in which a runtime tells of its debugger's port.
const LISTENING: [&str; 2] = ["Debugger listening on ", "Listening for transport dt_socket at "];

/// What Node prints when a debugger comes.
const ATTACHED: &str = "Debugger attached.";

/// Tells whether a server may stand in a debugger, from the command lines of its processes and from
/// what it printed.
pub fn may_be_debugged<'c>(commands: impl IntoIterator<Item = &'c [String]>, output: &str) -> bool {
    commands.into_iter().any(runs_for_debugger)
        || output.lines().any(|line| line.starts_with(ATTACHED) || tells_of_port(line).is_some())
}

/// Returns the ports at which debuggers are served, by what the server printed.
pub fn debugger_ports(output: &str) -> Vec<u16> {
    output.lines().filter_map(tells_of_port).filter_map(port).collect()
}

fn runs_for_debugger(command: &[String]) -> bool {
    let words = || command.iter().flat_map(|word| word.split_whitespace());
    words().any(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        let option = word.split('=').next().unwrap_or_default();
        DEBUGGERS.contains(&name)
            || MARKS.iter().any(|mark| word.contains(mark))
            || matches!(option, "--inspect" | "--inspect-brk" | "--inspect-wait")
    })
}

/// Returns the rest of a line that tells where a debugger is served.
fn tells_of_port(line: &str) -> Option<&str> {
    LISTENING.iter().find_map(|start| line.strip_prefix(start))
}

/// Returns the port of an address, or of what follows the last colon.
fn port(told: &str) -> Option<u16> {
    let address = told.split_once("//").map_or(told, |(_, address)| address);
    let host = address.split('/').next()?;
    host.rsplit(':').next()?.trim().parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_runs_for_a_debugger_is_known() {
        for (command, want) in [
            ("node --inspect server.js", true),
            ("node --inspect-brk=9333 server.js", true),
            ("node server.js --inspector", false),
            ("/p/.venv/bin/python -m debugpy --listen 5678 app.py", true),
            ("java -agentlib:jdwp=transport=dt_socket,server=y,address=5005 -jar a.jar", true),
            ("dlv debug ./cmd/shop", true),
            ("/usr/bin/gdb -ex run ./shop", true),
            ("npm run dev", false),
            ("python3 app.py", false),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(may_be_debugged([words.as_slice()], ""), want, "{command}");
        }
        let none: [&[String]; 0] = [];
        assert!(may_be_debugged(none, "up\nDebugger attached.\n"));
        assert!(!may_be_debugged(none, "the Debugger attached. to it\n"));
    }

    #[test]
    fn the_ports_of_debuggers_are_read() {
        let output = "Debugger listening on ws://127.0.0.1:9229/0f2c936f\n\
                      Listening for transport dt_socket at address: 5005\n\
                      Debugger listening on ws://[::1]:9230/0f2c\nhttp://localhost:3000\n";
        assert_eq!(debugger_ports(output), [9229, 5005, 9230]);
    }
}
