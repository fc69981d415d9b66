//! A client made of an SDK: a child process that takes commands and prints what it sees (`typescript.mjs`, `python.py`).

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use crate::harness::PATIENCE;
use crate::tidy::workspace;

/// The SDKs. Their versions are those of the last ones that speak the legacy era first.
#[derive(Clone, Copy, Debug)]
pub enum Sdk {
    TypeScript,
    Python,
}

/// How the client connects.
#[derive(Clone, Copy, Debug)]
pub enum Transport {
    Streamable,
    HttpSse,
}

const TYPESCRIPT_SDK: &str = "@modelcontextprotocol/sdk@1.32.2";
const PYTHON_SDK: &str = "mcp==1.30.0";

/// How long a client may take for one step: it starts an interpreter, and waits for its reconnect.
const STEP: Duration = Duration::from_secs(60);

/// One installation at a time: the tests share a folder.
static INSTALLING: LazyLock<Mutex<()>> = LazyLock::new(Mutex::default);

/// A client that runs.
pub struct SdkClient {
    child: Child,
    commands: ChildStdin,
    printed: Receiver<String>,
    seen: Vec<String>,
    waiting: VecDeque<String>,
}

impl SdkClient {
    /// Starts a client of the instance at `address` and waits until it is connected; `None`, after a line that says why, if
    /// this machine has no such SDK and cannot get it. In CI that is a failure.
    pub fn start(sdk: Sdk, transport: Transport, address: SocketAddr) -> Option<SdkClient> {
        let mut command = match install(sdk) {
            Ok(command) => command,
            Err(why) if std::env::var_os("CI").is_none() => {
                eprintln!("skipped, no {sdk:?} SDK here: {why}");
                return None;
            }
            Err(why) => panic!("no {sdk:?} SDK: {why}"),
        };
        let kind = match transport {
            Transport::Streamable => "streamable",
            Transport::HttpSse => "sse",
        };
        let mut child = command
            .args([kind, &format!("http://{address}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the client starts");
        let (print, printed) = channel();
        let output = BufReader::new(child.stdout.take().expect("a piped stdout"));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if print.send(line).is_err() {
                    return;
                }
            }
        });
        let mut client = SdkClient {
            commands: child.stdin.take().expect("a piped stdin"),
            child,
            printed,
            seen: Vec::new(),
            waiting: VecDeque::new(),
        };
        client.wait_for("connected");
        Some(client)
    }

    /// Sends its requests to another instance from now on, as a load balancer may at any time.
    pub fn turn_to(&mut self, address: SocketAddr) {
        self.command(
            &format!("use http://{address}"),
            &format!("using http://{address}"),
        );
    }

    pub fn subscribe(&mut self, uri: &str) {
        self.command(&format!("subscribe {uri}"), &format!("subscribed {uri}"));
    }

    /// Reads a record and returns its text.
    pub fn read(&mut self, uri: &str) -> String {
        writeln!(self.commands, "read {uri}").expect("the client runs");
        self.next("read ").trim_start_matches("read ").to_owned()
    }

    /// Waits for the next notice, which must be of this uri.
    pub fn update(&mut self, uri: &str) {
        let line = self.next("updated ");
        assert_eq!(line, format!("updated {uri}"), "after {:#?}", self.seen);
    }

    fn command(&mut self, command: &str, answer: &str) {
        writeln!(self.commands, "{command}").expect("the client runs");
        self.wait_for(answer);
    }

    fn wait_for(&mut self, line: &str) {
        assert_eq!(self.next(line), line);
    }

    /// Returns the next line that begins so; others wait for whoever asks for them.
    fn next(&mut self, start: &str) -> String {
        if let Some(place) = self.waiting.iter().position(|line| line.starts_with(start))
            && let Some(line) = self.waiting.remove(place)
        {
            return line;
        }
        let deadline = Instant::now() + STEP.max(PATIENCE);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.printed.recv_timeout(left).unwrap_or_else(|error| {
                panic!("no `{start}…` from the client ({error}), after {:#?}", self.seen)
            });
            self.seen.push(line.clone());
            if line.starts_with(start) {
                return line;
            }
            self.waiting.push_back(line);
        }
    }
}

impl Drop for SdkClient {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Installs what a client needs, once, and returns the command that starts one.
fn install(sdk: Sdk) -> Result<Command, String> {
    let _one_at_a_time = INSTALLING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = workspace().join("target/interop");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    match sdk {
        Sdk::TypeScript => {
            once(&folder, TYPESCRIPT_SDK, || {
                run(Command::new("npm").current_dir(&folder).args([
                    "install",
                    "--prefix",
                    ".",
                    "--no-save",
                    "--no-audit",
                    "--no-fund",
                    "--loglevel=error",
                    TYPESCRIPT_SDK,
                ]))
            })?;
            // Modules are looked for beside the script.
            let script = folder.join("typescript.mjs");
            copy("typescript.mjs", &script)?;
            let mut command = Command::new("node");
            command.arg(script);
            Ok(command)
        }
        Sdk::Python => {
            let python = folder.join("venv/bin/python");
            once(&folder, PYTHON_SDK, || {
                run(Command::new("python3")
                    .args(["-m", "venv"])
                    .arg(folder.join("venv")))?;
                run(Command::new(&python).args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    PYTHON_SDK,
                ]))
            })?;
            let mut command = Command::new(python);
            command.arg(workspace().join("tests/interop/python.py"));
            Ok(command)
        }
    }
}

/// Does it unless a file says that it was done.
fn once(folder: &Path, what: &str, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let stamp: PathBuf = folder.join(what.replace(['/', '@', '='], "-"));
    if stamp.exists() {
        return Ok(());
    }
    work()?;
    std::fs::write(&stamp, "").map_err(|error| format!("{}: {error}", stamp.display()))
}

fn copy(script: &str, target: &Path) -> Result<(), String> {
    std::fs::copy(workspace().join("tests/interop").join(script), target)
        .map(|_| ())
        .map_err(|error| format!("{}: {error}", target.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}
