//! The gateway: terminates MCP for clients, and turns the feed service's watch into their notifications.
//!
//! Where to look. The path of a request: [`http`] → [`dispatch`] → [`method`] (and [`session`]) → [`feed`] → gRPC. The
//! path of a change: gRPC watch → [`feed`] (ring) → [`session`] (hub, stream) → [`http`] (body of the GET stream).
//! [`protocol`] has the shapes of the wire; [`server`] puts the parts together; [`dev`] runs the feed service beside
//! them in one process.

mod config;
mod dev;
mod dispatch;
mod feed;
mod http;
mod method;
mod peer;
mod process;
mod protocol;
mod sabotage;
mod server;
mod session;
mod telemetry;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use config::{Cli, Command};
pub use config::{DevSettings, ServeSettings};
#[cfg(feature = "sabotage")]
pub use sabotage::install as install_sabotage;
use server::Failure;
use settings::{Arguments, Settings, Start};
use tokio_util::sync::CancellationToken;

/// Runs the command line of this process to its end.
///
/// Returns failure after one line on the standard error that says what could not be done and what to do about it; code 2 for
/// a wrong command line or configuration.
pub fn run() -> ExitCode {
    let mut stdout = std::io::stdout();
    let ended = match Cli::parse().command {
        Command::Serve(arguments) => return start(arguments, server::serve),
        Command::Dev(arguments) => return start(arguments, dev::run),
        Command::Completions(completions) => completions.write(Cli::command(), &mut stdout),
        Command::Man(manual) => manual.write(Cli::command(), &mut stdout),
    };
    end(ended.map_err(Failure::Manual))
}

/// Reads the configuration, and works by it or prints it.
fn start<S, F>(arguments: Arguments<S>, work: impl FnOnce(S, CancellationToken) -> F) -> ExitCode
where
    S: Settings,
    F: Future<Output = Result<(), Failure>>,
{
    match arguments.read() {
        Ok(Start::Run(settings)) => {
            telemetry::start();
            end(process::run(|shutdown| work(settings, shutdown)))
        }
        Ok(Start::Print(text)) => {
            let mut stdout = std::io::stdout();
            let printed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
            end(printed.map_err(Failure::Output))
        }
        Err(mistakes) => {
            eprintln!("gateway: {mistakes}");
            ExitCode::from(2)
        }
    }
}

/// Tells a failure, and returns the exit code.
fn end(ended: Result<(), Failure>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("gateway: {failure}");
            ExitCode::FAILURE
        }
    }
}
