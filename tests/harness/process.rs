//! A service as a child process: started, watched through what it prints, signalled, and killed at the latest on drop.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::PATIENCE;

/// The programs under test, as Cargo has just built them.
#[derive(Clone, Copy, Debug)]
pub enum Program {
    Feedsvc,
    Gateway,
}

impl Program {
    fn path(self) -> &'static str {
        match self {
            Program::Feedsvc => env!("CARGO_BIN_EXE_feedsvc_under_test"),
            Program::Gateway => env!("CARGO_BIN_EXE_gateway_under_test"),
        }
    }
}

/// A running (or ended) child; what it printed is shown when the test fails.
pub struct Service {
    program: Program,
    child: Child,
    output: Arc<Output>,
}

/// What the child printed so far: a log with a bell.
#[derive(Default)]
struct Output {
    printed: Mutex<Printed>,
    bell: Condvar,
}

#[derive(Default)]
struct Printed {
    stdout: Vec<String>,
    stderr: Vec<String>,
    pipes_ended: usize,
}

/// How a child ended, and all it printed.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
}

impl Service {
    /// Starts the program with an environment that holds nothing of the caller's but the search path.
    pub fn spawn(program: Program, arguments: &[String]) -> Service {
        Service::run(program, Command::new(program.path()).args(arguments), &[])
    }

    /// Starts the program as [`Service::spawn`] does, with these variables in its environment.
    pub fn spawn_with_variables(
        program: Program,
        arguments: &[String],
        variables: &[(&str, &str)],
    ) -> Service {
        Service::run(program, Command::new(program.path()).args(arguments), variables)
    }

    /// Starts the program as a shell with a low limit of open files does; `limit` is what `ulimit` takes, for example `-Sn 128`.
    pub fn spawn_with_descriptor_limit(program: Program, arguments: &[String], limit: &str) -> Service {
        let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        Service::run(
            program,
            Command::new("sh")
                .args(["-c", &script, program.path()])
                .args(arguments),
            &[],
        )
    }

    /// Starts the program by another one that becomes it, or stands beside it: `wrapper` is that one with its arguments. The child must
    /// be the program itself, so that signals reach it.
    pub fn spawn_under(wrapper: &[&str], program: Program, arguments: &[String]) -> Service {
        let (first, rest) = wrapper.split_first().expect("a program");
        Service::run(
            program,
            Command::new(first).args(rest).arg(program.path()).args(arguments),
            &[],
        )
    }

    /// Starts the program with something to read on its standard input.
    pub fn spawn_reading(program: Program, arguments: &[String], input: impl Into<Stdio>) -> Service {
        let mut command = Command::new(program.path());
        Service::run_reading(program, command.args(arguments), &[], input.into())
    }

    /// Starts a shell script in which `$0` is the program and `$@` its arguments.
    pub fn spawn_script(program: Program, script: &str, arguments: &[String]) -> Service {
        Service::run(
            program,
            Command::new("sh")
                .args(["-c", script, program.path()])
                .args(arguments),
            &[],
        )
    }

    fn run(program: Program, command: &mut Command, variables: &[(&str, &str)]) -> Service {
        Service::run_reading(program, command, variables, Stdio::null())
    }

    fn run_reading(
        program: Program,
        command: &mut Command,
        variables: &[(&str, &str)],
        input: Stdio,
    ) -> Service {
        command
            .env_clear()
            .envs(variables.iter().copied())
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // PATH for what a service may start, the rest to see more of a failure.
        for kept in ["PATH", "RUST_LOG", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.path()));
        let output = Arc::new(Output::default());
        follow(child.stdout.take().expect("a piped stdout"), &output, |printed| {
            &mut printed.stdout
        });
        follow(child.stderr.take().expect("a piped stderr"), &output, |printed| {
            &mut printed.stderr
        });
        Service {
            program,
            child,
            output,
        }
    }

    /// Waits for a line on stdout that begins with `start` and returns it.
    pub fn wait_for_line(&self, start: &str) -> String {
        let found = self.wait_until(PATIENCE, |printed| {
            printed
                .stdout
                .iter()
                .find(|line| line.starts_with(start))
                .cloned()
        });
        found.unwrap_or_else(|| panic!("{:?} did not print `{start}…`", self.program))
    }

    /// Waits for a line on stderr that has `part` in it and returns it.
    pub fn wait_for_error(&self, part: &str) -> String {
        let found = self.wait_until(PATIENCE, |printed| {
            printed.stderr.iter().find(|line| line.contains(part)).cloned()
        });
        found.unwrap_or_else(|| panic!("{:?} did not print an error with `{part}`", self.program))
    }

    /// Returns all lines on stdout so far.
    pub fn stdout(&self) -> Vec<String> {
        self.output.printed.lock().unwrap().stdout.clone()
    }

    /// Returns all lines on stderr so far.
    pub fn stderr(&self) -> Vec<String> {
        self.output.printed.lock().unwrap().stderr.clone()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process as a crash does and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("a killed child ends");
    }

    /// Asks the process to end, waits for it, and returns how it ended.
    pub fn end_by(&mut self, signal: Signal) -> Ended {
        self.signal(signal);
        self.wait()
    }

    /// Waits until the process has ended by itself.
    pub fn wait(&mut self) -> Ended {
        // Both pipes end with the process; then `wait` does not block.
        let ended = self.wait_until(PATIENCE, |printed| (printed.pipes_ended == 2).then_some(()));
        assert!(
            ended.is_some(),
            "{:?} is still running after {PATIENCE:?}",
            self.program
        );
        let status = self.child.wait().expect("an ended child has a status");
        let printed = self.output.printed.lock().unwrap();
        Ended {
            status,
            stdout: printed.stdout.clone(),
            stderr: printed.stderr.clone(),
        }
    }

    /// Asks the process to end, and does not wait for it.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops the process where it is, as a paused machine does.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal)
            .expect("the child takes signals until it was waited for");
    }

    /// Looks at what was printed, again at each new line; `None` when the time or the output is over.
    fn wait_until<T>(&self, patience: Duration, mut look: impl FnMut(&Printed) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + patience;
        let mut printed = self.output.printed.lock().unwrap();
        loop {
            if let Some(found) = look(&printed) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || printed.pipes_ended == 2 {
                return None;
            }
            printed = self.output.bell.wait_timeout(printed, left).unwrap().0;
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let printed = self
                .output
                .printed
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            let name = format!("{:?} {}", self.program, self.child.id());
            for (pipe, lines) in [("out", &printed.stdout), ("err", &printed.stderr)] {
                // The end of it tells what happened; a chatty service would hide the test's own message.
                for line in &lines[lines.len().saturating_sub(60)..] {
                    eprintln!("[{name} {pipe}] {line}");
                }
            }
        }
    }
}

/// Copies a pipe into the output, line by line, until it ends.
fn follow(
    pipe: impl Read + Send + 'static,
    output: &Arc<Output>,
    list: fn(&mut Printed) -> &mut Vec<String>,
) {
    let output = output.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let Ok(line) = line else { break };
            list(&mut output.printed.lock().unwrap()).push(String::from_utf8_lossy(&line).into_owned());
            output.bell.notify_all();
        }
        output.printed.lock().unwrap().pipes_ended += 1;
        output.bell.notify_all();
    });
}
