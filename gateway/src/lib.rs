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
mod server;
mod session;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;
use config::{Cli, Command};

/// Runs the command line of this process to its end.
///
/// Returns failure after one line on the standard error that says what could not be done and what to do about it.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    telemetry::start();
    let ended = process::run(|shutdown| async move {
        match cli.command {
            Command::Serve(options) => server::serve(options, shutdown).await,
            Command::Dev(options) => dev::run(options, shutdown).await,
        }
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("gateway: {failure}");
            ExitCode::FAILURE
        }
    }
}
