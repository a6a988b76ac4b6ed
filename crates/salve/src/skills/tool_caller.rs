//! Calls the tools that a skill names: of the MCP servers in the settings, or commands.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use salve_core::tool::failure::failure_in;
use serde_json::{Map, Value, json};

use crate::sandbox::shell;

/// How long a server may take to greet and to list its tools.
const GREETING: Duration = Duration::from_secs(60);
/// How long a server may take to end once nobody talks to it any more.
const GRACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);
/// How much of a command's output is kept.
const LONGEST: u64 = 1 << 20;

/// Why a call gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolCallError {
    /// Nobody has this tool.
    #[error("no server and no command of the settings is the tool `{0}`")]
    NoTool(String),
    /// The server or the command cannot be started, or ended, or talks nonsense.
    #[error("{0}")]
    Broken(String),
    /// It took too long.
    #[error("`{tool}` was not done after {seconds} s and may have taken effect")]
    TooLong {
        tool: String,
        /// The limit.
        seconds: u64,
    },
    /// The tool says that it failed.
    #[error("{0}")]
    Failed(String),
}

/// Who heals a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallHealer {
    /// Salve's proxy, and `salve call`.
    Salve,
    /// The skill's own steps.
    Skill,
}

/// The tools that skills may call.
#[derive(Debug)]
pub struct SkillTools {
    /// Commands that start servers, by the servers' names.
    pub servers: BTreeMap<String, String>,
    /// Commands that are tools, by the tools' names.
    pub commands: BTreeMap<String, String>,
    /// Where they run.
    pub dir: PathBuf,
    /// The program of Salve, for calls that it heals.
    pub salve: PathBuf,
    /// Who heals.
    pub healer: CallHealer,
    running: BTreeMap<String, ToolServer>,
}

impl SkillTools {
    /// Makes tools that start nothing before they are called.
    pub fn new(dir: PathBuf, salve: PathBuf, healer: CallHealer) -> Self {
        let (servers, commands, running) = Default::default();
        Self { servers, commands, dir, salve, healer, running }
    }

    /// Calls a tool and returns what it says.
    pub fn call(
        &mut self,
        tool: &str,
        arguments: &Map<String, Value>,
        limit: Duration,
    ) -> Result<Value, ToolCallError> {
        if let Some(command) = self.commands.get(tool) {
            return self.run(tool, command, arguments, limit);
        }
        for name in self.servers.keys().cloned().collect::<Vec<_>>() {
            let server = self.server(&name)?;
            if server.tools.iter().any(|known| known == tool) {
                return server.call(tool, arguments, limit);
            }
        }
        Err(ToolCallError::NoTool(tool.to_owned()))
    }

    fn server(&mut self, name: &str) -> Result<&mut ToolServer, ToolCallError> {
        if !self.running.contains_key(name) {
            let command = self.servers.get(name).map(String::as_str).unwrap_or_default();
            let argv = self.argv("proxy", &[], command);
            let server = ToolServer::start(name, &argv, &self.dir)?;
            self.running.insert(name.to_owned(), server);
        }
        let gone = || ToolCallError::Broken(format!("the server `{name}` is gone"));
        self.running.get_mut(name).ok_or_else(gone)
    }

    /// Returns the words of a command, behind Salve where it heals.
    fn argv(&self, how: &str, options: &[String], command: &str) -> Vec<OsString> {
        let plain = shell(command);
        match self.healer {
            CallHealer::Skill => plain,
            CallHealer::Salve => {
                let mut argv = vec![self.salve.clone().into_os_string(), how.into()];
                argv.extend(options.iter().map(OsString::from));
                argv.push("--".into());
                argv.extend(plain);
                argv
            }
        }
    }

    /// Runs a command; its arguments are in `ARG_NAME` and, as JSON, in its input.
    fn run(
        &self,
        tool: &str,
        command: &str,
        arguments: &Map<String, Value>,
        limit: Duration,
    ) -> Result<Value, ToolCallError> {
        let argv = self.argv("call", &[], command);
        let (program, words) = split(&argv)?;
        let env = arguments.iter().filter_map(|(name, value)| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let name = format!("ARG_{}", name.to_uppercase());
            (name.chars().all(is_plain) && !text.contains('\0')).then_some((name, text))
        });
        let broken = |error: std::io::Error| {
            ToolCallError::Broken(format!("`{tool}` cannot be run: {error}"))
        };
        let mut child = Command::new(program)
            .args(words)
            .envs(env)
            .current_dir(&self.dir)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(broken)?;
        let out = collect(child.stdout.take());
        let err = collect(child.stderr.take());
        if let Some(mut stdin) = child.stdin.take() {
            // A command need not read it.
            let _ = stdin.write_all(Value::Object(arguments.clone()).to_string().as_bytes());
        }
        let Some(code) = wait(&mut child, limit) else {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
            let seconds = limit.as_secs();
            return Err(ToolCallError::TooLong { tool: tool.to_owned(), seconds });
        };
        let (out, err) = (joined(out), joined(err));
        if code == Some(0) {
            return Ok(Value::String(out.trim_end().to_owned()));
        }
        let said = if err.trim().is_empty() { out } else { err };
        Err(ToolCallError::Failed(said.trim().to_owned()))
    }
}

fn split(argv: &[OsString]) -> Result<(&OsString, &[OsString]), ToolCallError> {
    argv.split_first().ok_or_else(|| ToolCallError::Broken("an empty command".to_owned()))
}

type Collected = Option<std::thread::JoinHandle<String>>;

fn collect(from: Option<impl std::io::Read + Send + 'static>) -> Collected {
    from.map(|from| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // What cannot be read was not said.
            let _ = from.take(LONGEST).read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    })
}

fn joined(collected: Collected) -> String {
    collected.and_then(|thread| thread.join().ok()).unwrap_or_default()
}

/// Waits for a process within a limit; returns its exit code, if it had one.
fn wait(child: &mut Child, limit: Duration) -> Option<Option<i32>> {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.code()),
            Ok(None) if begun.elapsed() < limit => std::thread::sleep(LOOK),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// A server that is running.
#[derive(Debug)]
struct ToolServer {
    name: String,
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Vec<u8>>,
    tools: Vec<String>,
    requests: u64,
}

impl ToolServer {
    fn start(name: &str, argv: &[OsString], dir: &PathBuf) -> Result<Self, ToolCallError> {
        let (program, words) = split(argv)?;
        let mut child = Command::new(program)
            .args(words)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                ToolCallError::Broken(format!("`{name}` cannot be started: {error}"))
            })?;
        let (tell, from) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stdout).split(b'\n');
                while let Some(Ok(line)) = lines.next() {
                    if tell.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let to = child.stdin.take();
        let mut server =
            Self { name: name.to_owned(), child, to, from, tools: Vec::new(), requests: 0 };
        let client = json!({ "name": "salve", "version": env!("CARGO_PKG_VERSION") });
        let greeting =
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        server.ask("initialize", &greeting, GREETING)?;
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        let mut params = json!({});
        loop {
            let line = server.ask("tools/list", &params, GREETING)?;
            let answer: Value = serde_json::from_slice(&line).unwrap_or_default();
            let listed = answer.pointer("/result/tools").and_then(Value::as_array);
            let named = listed.into_iter().flatten().filter_map(|tool| tool.get("name")?.as_str());
            server.tools.extend(named.map(str::to_owned));
            match answer.pointer("/result/nextCursor").and_then(Value::as_str) {
                Some(cursor) if server.tools.len() < 10_000 => params = json!({ "cursor": cursor }),
                Some(_) | None => return Ok(server),
            }
        }
    }

    fn call(
        &mut self,
        tool: &str,
        arguments: &Map<String, Value>,
        limit: Duration,
    ) -> Result<Value, ToolCallError> {
        let line =
            self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }), limit)?;
        if let Some(error) = failure_in(&line) {
            return Err(ToolCallError::Failed(error));
        }
        let answer: Value = serde_json::from_slice(&line).unwrap_or_default();
        let content = answer.pointer("/result/content").and_then(Value::as_array);
        let texts: Vec<&str> =
            content.into_iter().flatten().filter_map(|part| part.get("text")?.as_str()).collect();
        Ok(Value::String(texts.join("\n")))
    }

    fn send(&mut self, message: &Value) -> Result<(), ToolCallError> {
        let gone = || ToolCallError::Broken(format!("the server `{}` has ended", self.name));
        let to = self.to.as_mut().ok_or_else(gone)?;
        writeln!(to, "{message}").and_then(|()| to.flush()).map_err(|_| gone())
    }

    /// Asks and returns the line that answers; what else the server wants is refused.
    fn ask(
        &mut self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Vec<u8>, ToolCallError> {
        self.requests += 1;
        let id = self.requests;
        let begun = Instant::now();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            let line = match self.from.recv_timeout(left) {
                Ok(line) => line,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let tool = params.get("name").and_then(Value::as_str).unwrap_or(method);
                    let seconds = limit.as_secs();
                    return Err(ToolCallError::TooLong { tool: tool.to_owned(), seconds });
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(ToolCallError::Broken(format!(
                        "the server `{}` has ended",
                        self.name
                    )));
                }
            };
            let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
            let is_request = message.get("method").is_some();
            match message.get("id") {
                Some(asked) if is_request => {
                    let error = json!({ "code": -32601, "message": "a skill has no such method" });
                    self.send(&json!({ "jsonrpc": "2.0", "id": asked, "error": error }))?;
                }
                Some(answered) if *answered == json!(id) => return Ok(line),
                Some(_) | None => {}
            }
        }
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        self.to = None;
        if wait(&mut self.child, GRACE).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
