//! A server as a child process: started on its core, ready once it says so, ended by its own id.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than a feed service needs to make its files.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a server may take to end after it was asked to.
const END_TIMEOUT: Duration = Duration::from_secs(5);

const POLL_PAUSE: Duration = Duration::from_millis(10);

/// A running server; ended when it is dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    ready: String,
    log: PathBuf,
}

impl ServerProcess {
    /// Starts a program and waits for its line `<name> ready …`. What it prints goes to files in `folder`.
    ///
    /// # Errors
    /// The program does not start, ends, or does not say that it is ready.
    pub fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> anyhow::Result<ServerProcess> {
        let folder = new_folder(folder, name)?;
        let output = folder.join("stdout");
        let log = folder.join("stderr");
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut process = ServerProcess {
            child,
            ready: String::new(),
            log,
        };
        process.ready = process.wait_until_ready(name, &output)?;
        Ok(process)
    }

    fn wait_until_ready(&mut self, name: &str, output: &Path) -> anyhow::Result<String> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let beginning = format!("{name} ready ");
        loop {
            let text = fs::read_to_string(output)?;
            let mut whole_lines = text
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'));
            if let Some(line) = whole_lines.rfind(|line| line.starts_with(&beginning)) {
                return Ok(line.to_owned());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{name} ended with {status} before it was ready: {}", self.log());
            }
            if Instant::now() > deadline {
                bail!("{name} was not ready within {READY_TIMEOUT:?}: {}", self.log());
            }
            thread::sleep(POLL_PAUSE);
        }
    }

    /// Returns the value of a `key=value` word in the ready line.
    ///
    /// # Errors
    /// There is no such word.
    pub fn ready_value(&self, key: &str) -> anyhow::Result<&str> {
        let mut words = self.ready.split(' ');
        let value = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        value.with_context(|| format!("no {key} in \"{}\"", self.ready))
    }

    /// Kills the process, which gets no chance to end anything, and waits until it is gone.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns everything that the server wrote to its log, on both outputs.
    pub fn whole_log(&self) -> String {
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        read(&self.log) + &read(&self.log.with_file_name("stdout"))
    }

    /// Returns the end of what the server wrote to its log.
    pub fn log(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        match lines.is_empty() {
            true => "its log is empty".to_owned(),
            false => format!(
                "its log ends with: {}",
                lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
            ),
        }
    }
}

/// Makes a folder of its own for each start: two servers of one name may run at once.
fn new_folder(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let mut number = 0;
    loop {
        let new = folder.join(format!("{name}-{number}"));
        match fs::create_dir(&new) {
            Ok(()) => return Ok(new),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error).with_context(|| format!("cannot create {}", new.display())),
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It fails when the server has ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + END_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(POLL_PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
